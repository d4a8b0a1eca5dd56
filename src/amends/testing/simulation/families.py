"""After a schedule: what families of sagas promise, read from the one order in which all their entries were written.

- what is held is released when nothing in the family can fail any more;
- a child begins nothing once its parent has taken it back, and next to nothing once its parent begins to;
- a parent that completed has its children complete, but for those that it took back itself;
- a parent that was rolled back has left no child behind, not even one that is stuck;
- a person is not called because of a child that only had to be stopped;
- nothing irreversible stands in a saga that says that it was rolled back;
- sagas of a family that write one document one after the other do not stand in each other's way, and what is in it at
  the end is the newest that stands;
- what a program that completed was to do stands as often as it says;
- `resume` leaves no parent behind that waits for a child that has ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from amends.core import events as e
from amends.core.contracts import Reversibility
from amends.core.saga import Saga, Step, replay
from amends.core.transitions import SagaStatus, StepStatus
from amends.core.values import SagaId, StepId
from amends.core.waits import open_waits
from amends.journal.memory import Memory
from amends.journal.memory.state import Record
from amends.journal.protocol import PARENT, ROOT
from amends.runtime.children import CALL, REVERT
from amends.runtime.family import PARENT_STEP
from amends.testing.simulation.language import DOCUMENT, Program
from amends.testing.simulation.programs import effects, says
from amends.testing.world import INTENTS, Account, Line, standing

_S = StepStatus
_GONE: Final = frozenset({SagaStatus.COMPLETED, SagaStatus.ROLLED_BACK})
_AT_REST: Final = frozenset({*_GONE, SagaStatus.INCIDENT})
_STEPS_ON: Final = 2
"""How many steps a child may begin, at most, once its parent has begun to take it back: one by whoever drives it at
that moment, and one by whoever takes it up when that is gone.
"""
_UNFINISHED: Final = frozenset(
    {_S.PROPOSED, _S.READY, _S.AWAITING, _S.RUNNING, _S.UNKNOWN, _S.COMPENSATING, _S.UNCOMPENSATED}
)
_SETTERS: Final = ("amends.document.set", "amends.document.delete")


def left_behind(memory: Memory) -> list[str]:
    """The parents that wait for nothing but children that have ended, right after `resume`."""
    sagas = {record.id: record for record in memory.sagas.values() if not record.id.startswith("amends.")}
    if len(sagas) == 1:
        return []
    ended = {name: one.summary.status in _GONE for name, one in sagas.items()}
    below = _below(sagas.values())
    found: list[str] = []
    for name, record in sagas.items():
        if record.summary.status not in {SagaStatus.WAITING, SagaStatus.RUNNING} or name not in below:
            continue
        saga = replay(name, (memory.verified(name, number + 1).event for number in range(len(record.entries))))
        left = [step for step in saga.steps.values() if step.status in _UNFINISHED]
        waits = bool(saga.waits and open_waits(saga)) or saga.rewinding
        if (
            left
            and not waits
            and all(step.topic == CALL.topic and ended.get(below[name].get(step.id, name)) for step in left)
        ):
            found.append(
                f"saga {name} waits for {', '.join(step.id for step in left)}, which has ended, after resume()"
            )
    return found


def _below(sagas: Iterable[Record]) -> dict[SagaId, dict[StepId, SagaId]]:
    found: dict[SagaId, dict[StepId, SagaId]] = {}
    for record in sagas:
        labels = record.begun.labels
        if PARENT in labels:
            found.setdefault(SagaId(labels[PARENT]), {})[StepId(labels[PARENT_STEP])] = record.id
    return found


class Families:
    """All accounts of a schedule, and the order of their entries."""

    def __init__(self, memory: Memory, accounts: Mapping[SagaId, Account], lines: tuple[Line, ...]) -> None:
        self._memory = memory
        self._accounts = accounts
        self._lines = lines
        self._parents = {
            name: (SagaId(labels[PARENT]), StepId(labels[PARENT_STEP]))
            for name, account in accounts.items()
            if PARENT in (labels := _labels(account.saga))
        }
        self._roots = {name: SagaId(_labels(one.saga).get(ROOT, name)) for name, one in accounts.items()}

    def complaints(self, programs: Mapping[SagaId, tuple[str, Program]]) -> Iterator[str]:
        yield from self._irreversible()
        if self._parents:
            yield from self._ends()
            yield from self._walk()
        for name, (_, program) in programs.items():
            if name in self._accounts and "fails" in program and ("parts" in program or "groups" in program):
                yield from self._as_programmed(name, program)
                yield from self._documents(name, program)

    # -- at the end ---------------------------------------------------------------------------------------------------

    def _irreversible(self) -> Iterator[str]:
        nets = standing(self._lines)
        for name, account in self._accounts.items():
            if account.saga.phase is not SagaStatus.ROLLED_BACK:
                continue
            for step in account.saga.steps.values():
                final = step.contract.reversibility is Reversibility.IRREVERSIBLE
                if final and nets.get(account.key_by_step.get(step.id, ""), 0) > 0:
                    yield f"saga {name} says that it was rolled back, and step {step.id} ({step.topic}) is out for good"

    def _ends(self) -> Iterator[str]:
        for name, (parent_id, step_id) in self._parents.items():
            child, parent = self._accounts[name].saga, self._accounts[parent_id].saga
            step = parent.steps.get(step_id)
            if step is None:
                continue
            if parent.phase is SagaStatus.COMPLETED and child.phase is SagaStatus.ROLLED_BACK:
                if step.status is _S.SUCCEEDED and not _reverted(parent, name):
                    yield f"saga {parent.id} completed, and its child {name} was taken back unseen"
            elif parent.phase is SagaStatus.ROLLED_BACK and child.phase is SagaStatus.INCIDENT:
                if step.status is not _S.SETTLED and not _landed_late(self._accounts[name]):
                    yield f"saga {parent.id} was rolled back, and its child {name} is an incident"
            elif (
                parent.phase is SagaStatus.INCIDENT
                and child.phase not in _AT_REST
                and child.pivot is None
                and any(one.step == step_id for one in parent.open_incidents)
            ):
                yield f"saga {parent.id} calls a person because of its child {name}, which is {child.phase}"

    # -- in the order of entries --------------------------------------------------------------------------------------

    def _walk(self) -> Iterator[str]:
        now: dict[SagaId, Saga] = {}
        taken_back: dict[tuple[SagaId, StepId], str] = {}
        going_back: dict[tuple[SagaId, StepId], Counter[SagaId]] = {}
        for name, number in self._memory.order:
            account = self._accounts.get(name)
            if account is None:
                continue
            before, event = account.before[number - 1]
            after = account.before[number][0] if number < len(account.before) else account.saga
            if isinstance(event, INTENTS):
                yield from self._released(now, name, before, event.step)
                above = self._parents.get(name)
                while above is not None:
                    if above in taken_back:
                        yield f"saga {name} begins step {event.step} after {taken_back[above]}"
                    if above in going_back and isinstance(event, e.ActionDispatched):
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
        root = self._roots[name]
        for other, saga in now.items():
            if other != name and self._roots[other] == root and not _cannot_fail(saga):
                yield f"saga {name} releases step {step}, and {other} is {saga.phase} and could still fail"

    # -- against the program ------------------------------------------------------------------------------------------

    def _as_programmed(self, name: SagaId, program: Program) -> Iterator[str]:
        family = [one for one, root in self._roots.items() if root == name]
        if self._accounts[name].saga.phase is not SagaStatus.COMPLETED or says(program, "enough", "hurry"):
            return
        if any(self._accounts[one].saga.incidents for one in family):
            return  # a person has seen to something by hand
        topics = {key: self._accounts[one].saga.steps[step].topic for one in family for key, step in self._keys(one)}
        found: Counter[str] = Counter()
        for key, net in standing(self._lines).items():
            if key in topics:
                found[topics[key]] += net
        if +found != (wanted := effects(program)):
            yield f"saga {name} completed, and {_counted(found)} stands, where {_counted(wanted)} was to be done"

    def _keys(self, name: SagaId) -> list[tuple[str, StepId]]:
        return list(self._accounts[name].steps_by_key.items())

    def _documents(self, name: SagaId, program: Program) -> Iterator[str]:
        if not says(program, "keep") or says(program, "group", "beside", "hurry"):
            return
        family = [self._accounts[one].saga for one, root in self._roots.items() if root == name]
        failed = [(saga.id, step) for saga in family for step in saga.steps.values() if _is_refused(step)]
        for saga_id, step in failed:
            yield f"saga {saga_id}: step {step.id} may not write {DOCUMENT}, which is its own family's: {step.error}"
        if any(saga.incidents for saga in family):
            return
        newest = max(
            (one for one in self._memory.documents.values() if one.name == DOCUMENT),
            key=lambda one: one.version,
            default=None,
        )
        there = None if newest is None or newest.deleted else newest.body
        wanted = self._last_written(name) if self._accounts[name].saga.phase is SagaStatus.COMPLETED else None
        if there != wanted:
            yield f"saga {name} is {self._accounts[name].saga.phase}, and {DOCUMENT} is {there!r}, not {wanted!r}"

    def _last_written(self, root: SagaId) -> object:
        """The newest that stands."""
        body: object = None
        for name, number in self._memory.order:
            if self._roots.get(name) != root:
                continue
            account = self._accounts[name]
            event = account.before[number - 1][1]
            step = account.saga.steps.get(getattr(event, "step", StepId("")))
            stands = account.saga.phase is SagaStatus.COMPLETED and step is not None and step.status is _S.SUCCEEDED
            if stands and step is not None and step.topic in _SETTERS and isinstance(event, INTENTS):
                body = step.args.get("body") if isinstance(step.args, dict) else None
        return body


def _note(
    name: SagaId,
    after: Saga,
    event: e.Event,
    taken_back: dict[tuple[SagaId, StepId], str],
    going_back: dict[tuple[SagaId, StepId], Counter[SagaId]],
) -> None:
    """Which children are being taken back, and which have been."""
    match event:
        case e.CompensationSucceeded(step=step) if after.steps[step].topic == CALL.topic:
            taken_back[name, step] = f"its parent {name} has taken back step {step}"
        case e.RewindStarted(steps=steps):
            for step in steps:
                going_back.setdefault((name, step), Counter())
        case e.RollbackStarted():
            for step in after.steps:
                going_back.setdefault((name, step), Counter())
        case e.SagaRolledBack():
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


def _landed_late(account: Account) -> bool:
    """Whether it had gone back, and something of it landed after that."""
    return any(isinstance(event, e.SagaRolledBack) for _, event in account.before)


def _cannot_fail(saga: Saga) -> bool:
    if saga.phase.ended:
        return True
    return saga.finished and saga.rollback is None and not any(not saga.steps[one].contract.hold for one in saga.live)


def _is_refused(step: Step) -> bool:
    """Whether a store said that the document is somebody else's."""
    return step.topic in _SETTERS and step.status is _S.FAILED and step.error.startswith("document ")


def _counted(found: Counter[str]) -> str:
    return ", ".join(f"{count} {topic}" for topic, count in sorted((+found).items())) or "nothing"
