"""The time by both clocks of a machine, as a journal notes it: one that people set, and one that nobody sets."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from amends.journal.port.leases import PROC, own_identity
from amends.journal.port.log import Cursor

CLOCKS: Final = "amends.clock"
"""The name of the cursor that holds it."""


def noted(at: int, elapsed: float) -> Cursor:
    """The note to keep: the wall's time in milliseconds of UTC, and how long the machine was up then."""
    return Cursor(CLOCKS, at, f"{_machine()} {elapsed!r}")


def passed_ms(kept: Cursor, elapsed: float) -> int | None:
    """How much time has passed since it was noted, by the clock that nobody sets; None where that was on another boot
    or machine.
    """
    where, _, then = kept.note.rpartition(" ")
    return int((elapsed - float(then)) * 1000) if where and where == _machine() else None


def _machine(proc: Path = PROC) -> str:
    """Whose clock it is that no one sets; empty where that cannot be told."""
    boot = own_identity(proc).boot
    try:
        return f"{boot}/{(proc / 'self/ns/time').readlink()}" if boot else ""
    except OSError:
        return boot
