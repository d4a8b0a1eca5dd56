"""Everything that the drivers of one worker share. Does nothing itself.

Among it are the sagas of this worker that stand in line for what others hold: they are woken at once when one of its
own sagas ends. Who frees what they wait for in another process leaves word in the journal, and the heartbeat brings it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from amends.clock import Clock
from amends.core.commands import Moment
from amends.core.state.saga import Saga, open_waits
from amends.core.transitions import SagaStatus, StepStatus
from amends.core.words.outcomes import Lost, Succeeded
from amends.core.words.values import SagaId, StepId
from amends.core.words.verdict import Rate
from amends.gate.facts import Gate
from amends.journal.port.journal import Journal, Lease
from amends.journal.port.locks import LockAnswer, LockAsk, LocksQueued
from amends.runtime.declare.registry import Registry
from amends.runtime.drive.drills import Drills
from amends.runtime.drive.executor import Executor
from amends.runtime.drive.pauses import Pauses
from amends.runtime.drive.policies import Policies
from amends.runtime.settings import Settings


class LockQueue:
    """Sagas of this worker that wait for a lock: woken at once when a saga of this worker lets go of one."""

    def __init__(self, journal: Journal, worker: str, nudge: Callable[[tuple[SagaId, ...]], None]) -> None:
        self.journal = journal
        self._worker = worker
        self._nudge = nudge
        self._in_line: set[SagaId] = set()

    async def ask(self, ask: LockAsk, lease: Lease) -> LockAnswer:
        answer = await self.journal.lock(ask, lease)
        if isinstance(answer, LocksQueued):
            self._in_line.add(ask.saga)
        else:
            self._in_line.discard(ask.saga)
        return answer

    def are_waited_for(self, ended: SagaId) -> bool:
        """A saga has ended; whether somebody here may have waited for that."""
        self._in_line.discard(ended)
        return bool(self._in_line)

    async def wake(self) -> None:
        self._nudge(await self.journal.awake(self._worker))


def is_in_line(saga: Saga) -> bool:
    """Whether it waits for other sagas, and for nothing and nobody else: it goes on by itself before long."""
    waiting = [saga.steps[step].status for step in saga.waiting]
    if saga.status is not SagaStatus.WAITING or not waiting or any(True for _ in open_waits(saga)):
        return False
    return all(status is StepStatus.QUEUED for status in waiting)


class Admit(Protocol):
    async def __call__(self, *rates: Rate) -> tuple[int, ...]: ...


EndedLate = Callable[[SagaId, StepId, int, Succeeded | Lost], None]


class WorkerContext:
    def __init__(  # noqa: PLR0913 - they are many, each by name
        self,
        *,
        clock: Clock,
        gate: Gate,
        registry: Registry,
        settings: Settings,
        executor: Executor,
        admit: Admit,
        late: EndedLate,
        drills: Drills,
        pauses: Pauses,
        lock_queue: LockQueue,
    ) -> None:
        self.clock = clock
        self.gate = gate
        self.policies = gate if isinstance(gate, Policies) else None
        self.registry = registry
        self.settings = settings
        self.executor = executor
        self.admit = admit
        self.late = late
        self.drills = drills
        self.pauses = pauses
        if self.policies is not None:
            pauses.unproved = self.policies.unproved
        self.lock_queue = lock_queue
        self.alive_until = 0.0
        """Until when nobody takes this worker's sagas over, by the clock that nobody sets."""
        self.spoken_of: dict[str, tuple[str, ...]] = {}
        """By the digest of a policy: the facts that it speaks of, and that have to be looked up."""
        self.lapses = 0
        """How often this worker was late to renew: others may have taken its sagas over since, alive as it is now."""
        self.undeclared: set[str] | None = None
        """The undeclared actions that were warned of, where nobody said in which environment this runs."""
        self.threads: dict[tuple[SagaId, StepId], asyncio.Event] = {}
        """Those that were given up and still run, whoever drives their saga now."""

    def moment(self) -> Moment:
        """Now, as a decision has to know it."""
        return Moment(self.clock.now(), self.clock.jitter(), self.settings.rollback_s)
