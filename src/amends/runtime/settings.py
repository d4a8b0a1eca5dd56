"""The numbers that a coordinator goes by, with the defaults that the product promises."""

from __future__ import annotations

import math
from typing import Final

from amends.dataclass import dataclass
from amends.errors import DeclarationError
from amends.runtime.limits import Limits

MOST_ATTEMPTS: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All durations in seconds.

    lease_s: how long a worker that says nothing keeps its sagas.
    rollback_s: the window for a whole rollback; what is left when it closes becomes an incident.
    attempts, compensation_attempts: how often one step, or one compensation, is tried at most, whatever its action
        says.
    limits: what a saga may use up, where neither its definition nor whoever starts it says so.
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

    def __post_init__(self) -> None:
        for name in ("lease_s", "rollback_s"):
            positive("Settings", name, getattr(self, name))
        for name in ("attempts", "compensation_attempts"):
            times("Settings", name, getattr(self, name))


def positive(whose: str, name: str, seconds: object) -> None:
    """Raises DeclarationError for what is no time in seconds."""
    if seconds is None:
        return
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise DeclarationError(f"{whose}: {name}={seconds!r} is not a number of seconds; write one, such as 30")
    if not 0 < seconds < math.inf:
        raise DeclarationError(f"{whose}: {name}={seconds} has to be more than 0, and not for ever; write 30 or 900")


def times(whose: str, name: str, most: object) -> None:
    """Raises DeclarationError for what is no number of attempts."""
    if most is None:
        return
    if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= MOST_ATTEMPTS:
        raise DeclarationError(f"{whose}: {name}={most!r} has to be a whole number from 1 to {MOST_ATTEMPTS}")
