"""Leases: the rule by which every store tells a worker that is gone from one that is only slow.

A worker is gone when it has no row, when its row is of another boot of this machine, when its time is up, or,
where that can be told (same boot, same space of process ids), when its process no longer runs.

A row says until when its worker is there, by a clock that all processes of the machine share. It is held against that
clock as it stands when the row is read and nobody can change it: inside the transaction, past the wait for the write
lock. A time from before that wait is older than a renewal that came in between, and a living worker's row would look
as if it came from the future.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from amends.clock import Clock
from amends.core.words.values import SagaId
from amends.dataclass import dataclass

PROC: Final = Path("/proc")


class Lease(NamedTuple):
    """A worker's numbered right to drive one saga."""

    saga: SagaId
    worker: str
    epoch: int


class LeaseHolder(NamedTuple):
    """The worker that has a saga's lease, and until when by the clock on the wall, unless it is renewed.

    `is_gone`: that worker does not live, so nobody drives the saga; then there is no time. `pid` is 0 where nothing can
    be seen of its process.
    """

    worker: str
    until_at: int | None = None
    is_gone: bool = True
    pid: int = 0


class Waking(NamedTuple):
    """An unfinished saga that has something to do, now or later, and waits for no person's decision alone.

    `wake_at` is when, None for now; `worker` is the living one that has it, empty where there is none.
    """

    saga: SagaId
    wake_at: int | None
    worker: str


class WorkerRow(NamedTuple):
    """A worker as lists show it: who, where, since when, until when unless it is renewed, and what it holds."""

    name: str
    host: str
    pid: int
    since_at: int
    until_at: int
    is_gone: bool
    sagas: int


class Leases(Protocol):
    """Leases: who drives which saga; one worker at a time, as long as it lives."""

    async def enlist(self, worker: str, ttl_s: float) -> None:
        """Make a worker known, alive until `ttl_s` from when this is written."""
        ...

    def renew(self, worker: str, ttl_s: float) -> None:
        """Keep a worker alive for `ttl_s` from when this is written.

        Blocking, from any thread: a busy loop must not lose its leases.
        """
        ...

    def nudged(self, worker: str) -> tuple[SagaId, ...]:
        """Which of a worker's sagas have something new: others wrote to them since it last did, or their sleep is over.

        Blocking, from any thread.
        """
        ...

    def watch(self, told: Callable[[], object]) -> bool:
        """Call this, from any thread, when other workers say that there may be something to look at.

        A hint and no promise: what is missed is found by looking. False: this store cannot know, and never calls.
        """
        ...

    async def workers(self) -> tuple[WorkerRow, ...]:
        """All workers that are known, living or gone, those that came first before the others."""
        ...

    async def retire(self, worker: str) -> None:
        """Give all of a worker's leases back at once."""
        ...

    async def claim(
        self,
        worker: str,
        *,
        definitions: Collection[str] | None = None,
        saga: SagaId | None = None,
        due_by: int | None = None,
        limit: int = 500,
    ) -> tuple[Lease, ...]:
        """Take the leases of sagas that have something to do and no living worker, oldest first.

        Something to do: neither ended nor in an incident. `definitions` are written `name/version`; OPEN stands for
        all open sagas, whose version is 0. `due_by` leaves out those that sleep until later.
        Who is alive is told by the time at which this is carried out, however long that took. Who claims is alive,
        whatever was last heard of it: the one that `saga` names may be the worker's own, since only it knows whether it
        drives it just now; no other may.
        """
        ...

    async def release(self, lease: Lease) -> None:
        """Give one lease back: nobody has that saga then. Nothing where it is not the newest any more."""
        ...

    async def holder(self, saga: SagaId) -> str | None:
        """The living worker that holds a saga; None where nobody does, or there is no such saga."""
        ...

    async def waking(
        self, *, saga: SagaId | None = None, due_by: int | None = None, after: SagaId | None = None, limit: int = 500
    ) -> tuple[Waking, ...]:
        """Sagas that could be claimed, now or later, oldest first, whoever has them; nothing is claimed by that.

        `due_by` leaves out those that sleep until later; `after` is the saga to go on from.
        """
        ...

    async def drivers(self, sagas: Collection[SagaId]) -> dict[SagaId, LeaseHolder]:
        """The drivers of these sagas, living or gone; those that nobody has, or that are not there, are left out."""
        ...


def began_at(worker: str) -> int:
    """When a worker began, as its name says: it ends in an id that was made then. 0 where it does not."""
    name, moment = worker.rpartition("-")[2], 0
    try:
        for letter in name[:_MOMENT]:
            moment = moment << 5 | _LETTERS.index(letter)
    except ValueError:
        return 0
    return moment if len(name) == _ID else 0


_LETTERS: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_MOMENT: Final = 10
_ID: Final = 26


@dataclass(frozen=True, slots=True)
class Identity:
    """Which process this is, as another one on the machine can check it. Empty where the system does not say."""

    boot: str = ""
    space: str = ""
    pid: int = 0
    started: str = ""

    def __str__(self) -> str:
        return f"{self.boot} {self.space} {self.pid} {self.started}"

    def has_ended(self, us: Identity) -> bool:
        """Whether this process certainly no longer runs, as `us` sees it; where nothing is seen, only time tells."""
        if not self.boot or not us.boot:
            return False
        is_seen = bool(self.started) and self.space == us.space
        return self.boot != us.boot or (is_seen and _started(self.pid) != self.started)


def identity_of(text: str) -> Identity:
    """A process as `str` spells it; of another text nothing is known."""
    try:
        boot, space, pid, started = text.split(" ")
        return Identity(boot, space, int(pid), started)
    except ValueError:
        return NOBODY_KNOWN


NOBODY_KNOWN: Final = Identity()
"""A process of which nothing can be seen: only time tells whether it lives."""


def own_identity(proc: Path = PROC) -> Identity:
    pid = os.getpid()
    boot = _text(proc / "sys/kernel/random/boot_id")
    return Identity(boot=boot, space=_link(proc / "self/ns/pid"), pid=pid, started=_started(pid, proc))


def _link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _started(pid: int, proc: Path = PROC) -> str:
    """The tick at which a running process began: with the pid, it tells it from a later one of the same number."""
    _, _, fields = _text(proc / f"{pid}/stat").rpartition(")")
    state, *rest = fields.split() or ["Z"]
    return "" if state in {"Z", "X"} else rest[18]


Reading = Callable[[], float]
"""A clock that is read where it is asked, and not before."""


def reading(clock: Clock) -> Reading:
    """The clock that lives are held against, for a store to read when it has the lock."""
    return clock.elapsed


@dataclass(frozen=True, slots=True)
class WorkerLife:
    """A worker's row: who it is, and until when, by the machine's clock, it said that it would be there."""

    identity: Identity
    until: float
    ttl: float

    def is_over(self, us: Identity, elapsed: float) -> bool:
        """Whether this worker is gone, as `us` sees it at `elapsed`, which is read no sooner than the row is."""
        them = self.identity
        if them.boot != us.boot or not elapsed < self.until:
            return True
        if not them.boot and self.until > elapsed + self.ttl:
            return True  # no boot has a name here, and so far ahead nobody can be in this one: the clock began anew
        is_seen = bool(them.started) and them.space == us.space
        return is_seen and _started(them.pid) != them.started
