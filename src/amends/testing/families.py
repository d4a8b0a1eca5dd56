"""Promises of families of sagas, read from the one order in which all their entries were written.

- what is held is released when nothing in the family can fail any more;
- a child begins nothing once its parent has taken it back, and next to nothing once its parent begins to;
- a parent that completed has its children complete, but for those that it took back itself;
- a parent that was rolled back has left no child behind, not even one that is stuck;
- a person is not called because of a child that only had to be stopped;
- nothing irreversible stands in a saga that says that it was rolled back, or is on its way when it begins to go back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from amends.core import events as e
from amends.core.state.saga import Saga, Step
from amends.core.transitions import SagaStatus, StepStatus
from amends.core.words.contracts import Reversibility
from amends.core.words.values import SagaId, StepId
from amends.drill.world import INTENTS, Account, ProviderCall, standing
from amends.journal.port.journal import PARENT, ROOT
from amends.runtime.drive.children import CALL, REVERT
from amends.runtime.drive.family import PARENT_STEP

_S = StepStatus
_AT_REST: Final = frozenset(
    {SagaStatus.COMPLETED, SagaStatus.ROLLED_BACK, SagaStatus.MITIGATED, SagaStatus.INCIDENT, SagaStatus.PAUSED}
)
_STEPS_ON: Final = 3
"""How many steps a child may begin, at most, once its parent has begun to take it back: two by whoever drives it until
it looks at what others wrote to the parent, and one by whoever takes it up when that is gone.
"""


class Families:
    """All accounts of a journal, and the order of their entries: which of which saga."""

    def __init__(
        self, accounts: Mapping[SagaId, Account], order: Iterable[tuple[SagaId, int]], lines: tuple[ProviderCall, ...]
    ) -> None:
        self._order = order
        self._accounts = accounts
        self._lines = lines
        self._parents = {
            name: (SagaId(labels[PARENT]), StepId(labels[PARENT_STEP]))
            for name, account in accounts.items()
            if PARENT in (labels := _labels(account.saga))
        }
        self.roots = {name: SagaId(_labels(one.saga).get(ROOT, name)) for name, one in accounts.items()}

    def complaints(self) -> Iterator[str]:
        yield from self._irreversible()
        yield from self._on_their_way()
        if self._parents:
            yield from self._ends()
            yield from self._walk()

    # -- at the end ---------------------------------------------------------------------------------------------------

    def _irreversible(self) -> Iterator[str]:
        nets = standing(self._lines)
        for name, account in self._accounts.items():
            if account.saga.phase is not SagaStatus.ROLLED_BACK:
                continue
            for step in account.saga.steps.values():
                if _is_final(step) and nets.get(account.key_by_step.get(step.id, ""), 0) > 0:
                    yield f"saga {name} says that it was rolled back, and step {step.id} ({step.topic}) is out for good"

    def _on_their_way(self) -> Iterator[str]:
        for name, account in self._accounts.items():
            for before, event in account.before:
                if isinstance(event, e.RollbackStarted | e.RewindStarted):
                    scope = before.live if isinstance(event, e.RollbackStarted) else event.steps
                    flying = [
                        one for one in scope if before.live.get(one) is _S.RUNNING and _is_final(before.steps[one])
                    ]
                    if flying:
                        yield f"saga {name} begins to go back, and step {flying[0]}, which cannot, is on its way"

    def _ends(self) -> Iterator[str]:
        for name, (parent_id, step_id) in self._parents.items():
            child, parent = self._accounts[name].saga, self._accounts[parent_id].saga
            step = parent.steps.get(step_id)
            if step is None:
                continue
            if parent.phase.ended and child.rests:
                yield f"saga {parent.id} was {parent.phase}, and its child {name} still holds what nobody will release"
            if parent.phase is SagaStatus.COMPLETED and child.phase.has_gone_back:
                if step.status is _S.SUCCEEDED and not _reverted(parent, name):
                    yield f"saga {parent.id} completed, and its child {name} was taken back unseen"
            elif parent.phase.has_gone_back and child.phase is SagaStatus.INCIDENT:
                if step.status is not _S.SETTLED and not _landed_late(self._accounts[name]):
                    yield f"saga {parent.id} was {parent.phase}, and its child {name} is an incident"
            elif parent.phase is SagaStatus.ROLLED_BACK and child.phase is SagaStatus.MITIGATED:
                if step.status is _S.MITIGATED:
                    yield f"saga {parent.id} says that it was rolled back, and its child {name} stands, mitigated"
            elif (
                parent.phase is SagaStatus.INCIDENT
                and child.phase not in _AT_REST
                and child.pivot is None
                and any(one.step == step_id for one in parent.open_incidents)
                and not _had_no_turn(parent, step, child)
            ):
                yield f"saga {parent.id} calls a person because of its child {name}, which is {child.phase}"

    # -- in the order of entries --------------------------------------------------------------------------------------

    def _walk(self) -> Iterator[str]:
        now: dict[SagaId, Saga] = {}
        taken_back: dict[tuple[SagaId, StepId], str] = {}
        going_back: dict[tuple[SagaId, StepId], Counter[SagaId]] = {}
        late: set[SagaId] = set()
        """Begun by a worker that slept, and had not heard: it has to go back, and is told when it is found."""
        for name, number in self._order:
            account = self._accounts.get(name)
            if account is None:
                continue
            before, event = account.before[number - 1]
            after = account.before[number][0] if number < len(account.before) else account.saga
            above = self._parents.get(name)
            if isinstance(event, e.SagaStarted) and (above in going_back or above in taken_back):
                late.add(name)
            if isinstance(event, INTENTS):
                yield from self._released(now, name, before, event.step)
                while above is not None:
                    if above in taken_back and name not in late:
                        yield f"saga {name} begins step {event.step} after {taken_back[above]}"
                    if above in going_back and name not in late and isinstance(event, e.ActionDispatched):
                        going_back[above][name] += 1
                        if going_back[above][name] > _STEPS_ON:
                            yield f"saga {name} still begins step {event.step}, and {above[0]} takes back {above[1]}"
                    above = self._parents.get(above[0])
            _note(name, after, event, taken_back, going_back)
            now[name] = after

    def _released(self, now: Mapping[SagaId, Saga], name: SagaId, before: Saga, step: StepId) -> Iterator[str]:
        """The others of the family, when one of them releases what it held."""
        if step not in before.steps or not before.steps[step].contract.hold or step in before.doubts:
            return
        root, above = self.roots[name], self._parents.get(name)
        while above is not None:
            if now[above[0]].steps[above[1]].releasing:
                return  # that was when the release began: whoever goes back now does so past it
            above = self._parents.get(above[0])
        for other, saga in now.items():
            if other != name and self.roots[other] == root and not _cannot_fail(saga):
                yield f"saga {name} releases step {step}, and {other} is {saga.phase} and could still fail"


def _note(
    name: SagaId,
    after: Saga,
    event: e.Event,
    taken_back: dict[tuple[SagaId, StepId], str],
    going_back: dict[tuple[SagaId, StepId], Counter[SagaId]],
) -> None:
    """Which children are being taken back, and which have been."""
    match event:
        case e.CompensationSucceeded(step=step) | e.MitigationSucceeded(step=step) if (
            after.steps[step].topic == CALL.topic
        ):
            taken_back[name, step] = f"its parent {name} has taken back step {step}"
        case e.RewindStarted(steps=steps):
            for step in steps:
                going_back.setdefault((name, step), Counter())
        case e.RollbackStarted():
            for step in after.steps:
                going_back.setdefault((name, step), Counter())
        case e.SagaRolledBack() | e.SagaMitigated():
            for step in after.steps:
                taken_back.setdefault((name, step), f"its parent {name} was rolled back")
        case _:
            pass


def _labels(saga: Saga) -> Mapping[str, str]:
    return {} if saga.begun is None else saga.begun.labels


def _reverted(parent: Saga, child: SagaId) -> bool:
    """Whether the parent itself had it taken back."""
    return any(
        step.topic == REVERT.topic and isinstance(step.args, dict) and step.args.get("child") == child
        for step in parent.steps.values()
    )


def _had_no_turn(parent: Saga, step: Step, child: Saga) -> bool:
    """Whether the parent's window had passed before this child heard of it, which rests as it did before.

    A person is called because of the time, and whoever lets the parent go on has the child taken back too. The parent
    may have begun to take it back, and have died or slept before it told the child; not have tried, and raised.
    """
    unheard = step.undo_attempts == 0 or (step.undo_attempts == 1 and not step.where)
    kinds = {one.kind for one in parent.open_incidents if one.step == step.id}
    return child.rests and unheard and kinds == {e.IncidentKind.COMPENSATION_TIMED_OUT}


def _landed_late(account: Account) -> bool:
    """Whether it had gone back, and something of it landed after that."""
    return any(isinstance(event, e.SagaRolledBack | e.SagaMitigated) for _, event in account.before)


def _is_final(step: Step) -> bool:
    return step.contract.reversibility is Reversibility.IRREVERSIBLE


def _cannot_fail(saga: Saga) -> bool:
    if saga.phase.ended:
        return True
    return saga.finished and saga.rollback is None and not any(not saga.steps[one].contract.hold for one in saga.live)
