"""A run's standing in line for what its steps need for themselves, and the words for not getting it."""

from __future__ import annotations

from typing import Final

from amends.core.commands import AwaitLock
from amends.core.state.saga import Step
from amends.core.words.contracts import Contract
from amends.core.words.values import Json, SagaId, StepId
from amends.dataclass import dataclass
from amends.errors import RefusedError
from amends.journal.port.journal import ROOT
from amends.journal.port.locks import LockAnswer, LockAsk, LocksRefused, LocksTaken
from amends.runtime.declare.resources import resources_of
from amends.runtime.drive.run import Run

_NONE: Final = frozenset[str]()  # one for all lines: an empty set takes 200 bytes


@dataclass(slots=True, eq=False)
class HeldLocks:
    """Locks of one run. What it was given is its saga's until that has ended, and not asked for again."""

    _run: Run
    _held: frozenset[str] = _NONE

    async def ask(self, step: StepId, contract: Contract, args: Json, until: int | None = None) -> LockAnswer:
        """Take all that a step needs for itself, or stand in line for it."""
        wanted = resources_of(contract.topic, contract.resources, args)
        if self._held.issuperset(wanted):
            return LocksTaken()
        run, book = self._run, self._run.book
        await book.commit()
        if book.lease is None:
            raise RefusedError(f"saga {book.saga.id} is not held by anybody, and takes no lock")
        settings, now = run.around.settings, run.around.clock.now()
        asked = LockAsk(
            saga=book.saga.id,
            step=step,
            owner=SagaId(run.begun.labels.get(ROOT, book.saga.id)),  # a family shares what it holds
            resources=tuple(sorted(set(wanted) - self._held)),
            until=now + round(self._wait_s(contract) * 1000) if until is None else until,
            most_waiting=settings.lock_waiters,
        )
        answer = await run.around.lock_queue.ask(asked, book.lease)
        if isinstance(answer, LocksTaken):
            self._held |= set(wanted)
        return answer

    def awaited(self, step: StepId, state: Step, holder: SagaId) -> AwaitLock:
        """The command for the record when another saga holds something of it."""
        wait_s = self._wait_s(state.contract)
        wanted = resources_of(state.contract.topic, state.contract.resources, state.args)
        until = self._run.around.clock.now() + round(wait_s * 1000)
        return AwaitLock(step=step, resources=tuple(sorted(set(wanted) - self._held)), holder=holder, until=until)

    def _wait_s(self, contract: Contract) -> float:
        default_s = self._run.around.settings.lock_wait_s
        return default_s if contract.lock_wait_s is None else contract.lock_wait_s


def why_refused(refused: LocksRefused, contract: Contract, default_s: float) -> str:
    held = f"saga {refused.holder} holds {refused.resource}"
    if refused.circle:
        waits = [f"saga {wait.saga} waits for {wait.resource}, which is saga {wait.ahead}'s" for wait in refused.circle]
        return f"a deadlock: {'; '.join(waits)}; this one gives way"
    if refused.waiting:
        return f"{held}, and {refused.waiting} wait for it already; try later"
    wait_s = default_s if contract.lock_wait_s is None else contract.lock_wait_s
    waited = f" and did not end within {wait_s:g} s" if wait_s else ""
    return f"{held}{waited}; look at it with: amends saga show {refused.holder}"
