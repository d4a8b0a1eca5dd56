"""What a definition asks of the runtime beside its body: keywords of `@saga` and `SagaDefinition`, in one place.

A new keyword is one line in `OptionNames`, for the checkers, and one in `Options`, whose default changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypedDict

from amends.core.commands import StartSaga
from amends.dataclass import dataclass
from amends.runtime.assertions import Check
from amends.runtime.limits import Limits
from amends.runtime.settings import Settings, positive, times


class OptionNames(TypedDict, total=False):
    """The keywords, as a caller may write them."""

    verify: Sequence[Check | Callable[..., object]]
    files: Sequence[str | os.PathLike[str]]
    lands: str | None
    resources: Sequence[str]
    limits: Limits | None
    rollback_s: float | None
    attempts: int | None
    compensation_attempts: int | None
    lease_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The same, whole.

    verify: what has to hold before a saga counts as complete; see `check`.
    files: the trees that it works on, as with `s.files`. lands: land them at its end, with this message.
    resources: what a saga keeps to itself from its first step to its end, as templates over its input.
    limits: what a saga may use up, and what happens then.
    rollback_s: the window of its rollbacks. attempts, compensation_attempts: how often one step, or one compensation,
    is tried at most, whatever its action says. Where one is None, the settings say it.
    lease_s: the lease of a process that is there for this saga alone: `amends run`, and `amends.run` without settings.
    """

    verify: Sequence[Check | Callable[..., object]] = ()
    files: Sequence[str | os.PathLike[str]] = ()
    lands: str | None = None
    resources: Sequence[str] = ()
    limits: Limits | None = None
    rollback_s: float | None = None
    attempts: int | None = None
    compensation_attempts: int | None = None
    lease_s: float | None = None

    def require_bounds(self, whose: str) -> None:
        """Raises DeclarationError for a bound that nothing could keep to."""
        for name in ("rollback_s", "lease_s"):
            positive(whose, name, getattr(self, name))
        for name in ("attempts", "compensation_attempts"):
            times(whose, name, getattr(self, name))


class Bounds(NamedTuple):
    """The bounds of one saga, as whoever starts it asks for them; None: as its definition says."""

    rollback_s: float | None = None
    attempts: int | None = None
    compensation_attempts: int | None = None


_UNASKED: Final = Bounds()


def bounded(start: StartSaga, options: Options, settings: Settings, asked: Bounds | None = None) -> StartSaga:
    """A start with its saga's bounds: asked for, else the definition's, else of the settings.

    The window of the settings is not the saga's own: it is that of whoever takes the saga back.
    """
    asked = asked or _UNASKED
    attempts = (asked.attempts, options.attempts, settings.attempts)
    back = (asked.compensation_attempts, options.compensation_attempts, settings.compensation_attempts)
    return start._replace(
        rollback_s=options.rollback_s if asked.rollback_s is None else asked.rollback_s,
        attempts=next((each for each in attempts if each is not None), None),
        compensation_attempts=next((each for each in back if each is not None), None),
    )
