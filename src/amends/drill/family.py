"""The sagas of one run: the one that is drilled, and the children that it calls, with theirs.

Something goes wrong only in the drilled one. Its children run, and are judged by the same witnesses; what can go wrong
inside of a child is for the child's own drill.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from amends.core.plan import is_pivot, unmitigated
from amends.core.state.saga import Saga, Step, unstarted
from amends.core.transitions import SagaStatus
from amends.core.words.contracts import Reversibility
from amends.core.words.outcomes import Answer, Found, FoundNothing, NoAnswer
from amends.core.words.values import SagaId, StepId
from amends.drill.world import Account
from amends.journal.port.journal import PARENT
from amends.runtime.drive.children import CALL, REVERT
from amends.runtime.drive.family import PARENT_STEP
from amends.runtime.drive.kinship import child_id


class DrilledFamily:
    def __init__(self, drilled: SagaId, accounts: Mapping[SagaId, Account]) -> None:
        self.accounts = accounts
        self.drilled = accounts.get(drilled) or Account(())
        self._id = drilled
        begun = (account.saga for account in accounts.values())
        self._called = {
            (each.begun.labels.get(PARENT), each.begun.labels.get(PARENT_STEP)): each for each in begun if each.begun
        }

    @property
    def saga(self) -> Saga:
        """The one that is drilled."""
        return self.drilled.saga

    def __iter__(self) -> Iterator[Account]:
        """The drilled one first."""
        yield self.drilled
        yield from (account for saga, account in self.accounts.items() if saga != self._id)

    @property
    def children(self) -> tuple[str, ...]:
        """The children's definitions: name/version."""
        begun = (account.saga.begun for account in list(self)[1:])
        return tuple(sorted({f"{each.definition}/{each.version}" for each in begun if each is not None}))

    def definition_of(self, saga: Saga, step: Step) -> str:
        """The saga that a step calls; empty where it calls none."""
        begun = self.child(saga.id, step.id).begun if step.topic == CALL.topic else None
        return "" if begun is None else begun.definition

    def child(self, saga: SagaId, step: StepId) -> Saga:
        """The saga that says it is this step's child; one that never began, where there is none."""
        return self._called.get((saga, step)) or unstarted(child_id(saga, step))

    def is_past_pivot(self, saga: Saga, step: Step) -> bool:
        """Whether a child has done what cannot be taken back: then its parent's rollback has to call a person."""
        if step.topic != CALL.topic:
            return False
        child = self.child(saga.id, step.id)
        return child.pivot is not None or any(self.is_past_pivot(child, each) for each in child.steps.values())

    def is_mitigable(self, saga: Saga) -> bool:
        """Whether it went past a pivot, here or in a child, and something is declared to be done about one."""
        if any(is_pivot(step) and step.contract.mitigation for step in saga.steps.values()):
            return True
        return any(map(self.is_mitigable, self._called_by(saga)))

    def lacks_mitigation(self, saga: Saga) -> bool:
        """Whether something of it stands, here or in a child, about which nothing is declared to be done."""
        return bool(unmitigated(saga)) or any(map(self.lacks_mitigation, self._called_by(saga)))

    def _called_by(self, saga: Saga) -> list[Saga]:
        calls = (step for step in saga.steps.values() if step.topic == CALL.topic and step.standing)
        return [self.child(saga.id, step.id) for step in calls]

    def waits(self, saga: Saga, step: Step) -> bool:
        """Whether a child needs a person: what stands of it is named there, and its parent waits for that."""
        return step.topic == CALL.topic and self.child(saga.id, step.id).phase is SagaStatus.INCIDENT

    def answer(self, saga: Saga, step: Step) -> Answer:
        """Whether a child stands, by its own record; its steps are asked about beside it."""
        child = self.child(saga.id, step.id)
        if child.begun is None or child.phase.has_gone_back:
            return FoundNothing()
        if child.phase is SagaStatus.COMPLETED or child.rests:
            return Found(None)
        return NoAnswer(f"child {child.id} is {child.status}")

    def step_of(self, saga: SagaId, step: StepId) -> StepId:
        """The step of the drilled saga inside of which another saga's step is."""
        while saga != self._id:
            begun = self.accounts[saga].saga.begun
            if begun is None:
                break
            saga, step = SagaId(begun.labels[PARENT]), StepId(begun.labels[PARENT_STEP])
        return step

    def concerned(self, saga: Saga) -> list[Step]:
        """The steps of which something may stand, and which can be taken back: those that have to be asked about.

        How a child should stand that was reverted, or that needs a person, only its own record says.
        """
        reverted = {
            str(step.args.get("child"))
            for step in saga.steps.values()
            if step.topic == REVERT.topic and step.number and isinstance(step.args, dict)
        }
        return [
            step
            for step in saga.steps.values()
            if step.number
            and step.contract.side_effect
            and step.contract.reversibility is not Reversibility.IRREVERSIBLE
            and step.topic != REVERT.topic
            and not (
                step.topic == CALL.topic and (self.child(saga.id, step.id).id in reverted or self.waits(saga, step))
            )
        ]
