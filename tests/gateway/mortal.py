"""A gateway that dies by SIGKILL at its Nth commit: `python -m tests.gateway.mortal N before|after mcp wrap …`.

Before a commit nothing of what happened since the last one is on disk; after it all of it is, and nobody knows of that
yet. Commits are counted from the first call on, which a file tells of; another one tells that it has died, so that the
next gateway in the same place lives.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from amends.cli.main import main
from amends.journal.sqlite.writer import Batch, Writer
from amends.journal.thread import LaneQuestion

_commit = Writer._commit


class Mortal:
    def __init__(self, place: Path, number: int, when: str) -> None:
        self.armed, self.died = place / "armed", place / "died"
        self.left, self.when = number, when

    def commit(self, writer: Writer, asks: Sequence[Any]) -> None:
        counts = self.armed.exists() and not self.died.exists()
        self.left -= counts
        self._strike("before", counts=counts)
        _commit(writer, asks)
        self._strike("after", counts=counts)

    def _strike(self, when: str, *, counts: bool) -> None:
        if counts and when == self.when and self.left <= 0:
            self.died.touch()
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    mortal = Mortal(Path(os.environ["MORTAL_PLACE"]), int(sys.argv[1]), sys.argv[2])

    def commit(self: Writer, asks: Sequence[LaneQuestion[Batch]]) -> None:
        mortal.commit(self, asks)

    Writer._commit = commit  # type: ignore[method-assign]  # it does the same
    main(sys.argv[3:])
