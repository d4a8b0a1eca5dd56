"""Settings: the numbers that a coordinator goes by, with the defaults that the product promises; and the bounds of one
saga, which may say otherwise.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final, NamedTuple

from amends.core.commands import StartSaga
from amends.dataclass import dataclass
from amends.errors import DeclarationError
from amends.runtime.declare.limits import Limits
from amends.runtime.declare.options import Options, positive, times

_ROOT: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All durations in seconds.

    lease_s: how long a worker that says nothing keeps its sagas.
    rollback_s: the window for a whole rollback; what is left when it closes becomes an incident.
    attempts, compensation_attempts: how often one step, or one compensation, is tried at most, whatever its action
        says.
    limits: what a saga may use up, where neither its definition nor whoever starts it says so.
    root: the hash of the roster's first entry, as `amends person show` tells it: a journal with another one is refused,
        and every decision has to be signed.
    journal_group: the group whose members share the journal, by name; otherwise it is its owner's alone.
    settle_s: how long a rollback waits for attempts that are still running before it cancels them.
    drain_s: how long a closing coordinator lets running attempts finish.
    replay_s: how long a resumed function may take to come back to a parallel branch that the journal remembers.
    park_s: how long a saga that waits for nothing but people stays in memory before only its row is left.
    poll_s: how often a worker looks for what others wrote to its sagas.
    lock_wait_s: how long a step waits for a resource that another saga holds; its action may say otherwise.
    lock_waiters: how many may wait for one resource; one more is refused at once.
    document_bytes: how large a document may be, as JSON.
    document_versions: how many versions of a document are kept at least, besides those that a saga may have to restore.
    threads: how many plain functions run at once.
    resumed_at_once: how many sagas `resume` and `work` take up side by side; one that waits inside an action for
        longer than `poll_s` does not count.
    """

    lease_s: float = 120.0
    rollback_s: float = 900.0
    settle_s: float = 30.0
    drain_s: float = 10.0
    replay_s: float = 30.0
    park_s: float = 1.0
    poll_s: float = 1.0
    lock_wait_s: float = 60.0
    lock_waiters: int = 1000
    document_bytes: int = 262144
    document_versions: int = 100
    threads: int = 64
    resumed_at_once: int = 256
    attempts: int | None = None
    compensation_attempts: int | None = None
    limits: Limits | None = None
    journal_group: str | None = None
    root: str | None = None

    def __post_init__(self) -> None:
        for name in ("lease_s", "rollback_s"):
            positive("Settings", name, getattr(self, name))
        for name in ("attempts", "compensation_attempts"):
            times("Settings", name, getattr(self, name))
        if self.root is not None and not _ROOT.fullmatch(self.root):
            raise DeclarationError(
                f"Settings: root={self.root!r} is no root: give the 64 characters that amends person show tells"
            )


class Bounds(NamedTuple):
    """The bounds of one saga, as whoever starts it asks for them; None: as its definition says."""

    rollback_s: float | None = None
    attempts: int | None = None
    compensation_attempts: int | None = None


_UNASKED: Final = Bounds()
_NO_BOUNDS: Final = (None,) * 6


def bounded(start: StartSaga, options: Options, settings: Settings, asked: Bounds | None = None) -> StartSaga:
    """A start with its saga's bounds: asked for, else the definition's, else of the settings.

    The window of the settings is not the saga's own: it is that of whoever takes the saga back.
    """
    asked = asked or _UNASKED
    attempts = (asked.attempts, options.attempts, settings.attempts)
    back = (asked.compensation_attempts, options.compensation_attempts, settings.compensation_attempts)
    window_s = options.rollback_s if asked.rollback_s is None else asked.rollback_s
    if window_s is None and (*attempts, *back) == _NO_BOUNDS:
        return start
    return replace(
        start,
        rollback_s=window_s,
        attempts=next((each for each in attempts if each is not None), None),
        compensation_attempts=next((each for each in back if each is not None), None),
    )
