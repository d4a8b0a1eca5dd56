"""Those of this worker that stand in line for what others hold: they are woken at once when one of its own sagas ends.

Who frees what they wait for in another process leaves word in the journal, and the heartbeat brings it.
"""

from __future__ import annotations

from collections.abc import Callable

from amends.core.saga import Saga
from amends.core.transitions import SagaStatus, StepStatus
from amends.core.values import SagaId
from amends.core.waits import open_waits
from amends.journal.locking import LockAnswer, LockAsk, LocksQueued
from amends.journal.protocol import Journal, Lease


class Turns:
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
