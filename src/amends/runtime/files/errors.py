"""The meaning of a changeset's error for a step: try again, or never, and then a person is told at once what to do.

| the error                          | forward                     | on the way back                        |
|------------------------------------|-----------------------------|----------------------------------------|
| goes away by itself                | failed, and tried again     | failed, and tried again                |
| never does (see os_errors.HEALS)   | failed for good: goes back  | an incident at once                    |
| a landing that is stuck            | lost: it may be in the tree | lost, and tried again                  |

An error says that the tree is as it was; so nothing here is uncertain but a landing that is stuck.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator

from amends.changeset.disk.os_errors import heals
from amends.errors import ChangesetError, Fatal, LandingStuckError, NotDone


@contextlib.contextmanager
def certain(what: str = "", *, happened: bool = False) -> Generator[None]:
    """Raise what a step can say for sure in place of a changeset's error; `happened`: something else may stand."""
    try:
        yield
    except LandingStuckError:
        raise
    except ChangesetError as exc:
        said = f"{what}: {exc}" if what else str(exc)
        if not heals(exc):
            raise Fatal(said, happened=None if happened else False) from exc
        if happened:
            raise
        raise NotDone(said) from exc
