"""After a schedule: what the programs of its sagas say, held against the journal and the world.

- what a program that completed was to do stands as often as it says;
- sagas of a family that write one document one after the other do not stand in each other's way, and what is in it at
  the end is the newest that stands;
- `resume` leaves no parent behind that waits for a child that has ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from amends.core.state.saga import Step, open_waits, replay
from amends.core.transitions import SagaStatus, StepStatus
from amends.core.words.values import BUILT_IN, SagaId, StepId
from amends.drill.world import INTENTS, Account, ProviderCall, standing
from amends.journal.memory import Memory
from amends.journal.memory.state import KeptSaga
from amends.journal.port.journal import PARENT, ROOT
from amends.runtime.drive.children import CALL
from amends.runtime.drive.family import PARENT_STEP
from amends.testing.simulation.language import DOCUMENT, Program
from amends.testing.simulation.programs import effects, says

_S = StepStatus
_GONE: Final = frozenset(status for status in SagaStatus if status.ended)
_UNFINISHED: Final = frozenset(
    {_S.PROPOSED, _S.READY, _S.AWAITING, _S.RUNNING, _S.UNKNOWN, _S.COMPENSATING, _S.UNCOMPENSATED}
    | {_S.MITIGATING, _S.UNMITIGATED}
)
_SETTERS: Final = ("amends.document.set", "amends.document.delete")


def left_behind(memory: Memory, under_way: Collection[SagaId]) -> list[str]:
    """The parents that wait for nothing but children that have ended, right after `resume`.

    Not those that were driven before it began: whoever set them going did not wait for them either.
    """
    sagas = {record.id: record for record in memory.sagas.values() if not record.id.startswith(BUILT_IN)}
    if len(sagas) == 1:
        return []
    ended = {name: one.summary.status in _GONE for name, one in sagas.items()}
    below = _below(sagas.values())
    found: list[str] = []
    for name, record in sagas.items():
        if record.summary.status not in {SagaStatus.WAITING, SagaStatus.RUNNING} or name not in below:
            continue
        if name in under_way:
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


def _below(sagas: Iterable[KeptSaga]) -> dict[SagaId, dict[StepId, SagaId]]:
    found: dict[SagaId, dict[StepId, SagaId]] = {}
    for record in sagas:
        labels = record.begun.labels
        if PARENT in labels:
            found.setdefault(SagaId(labels[PARENT]), {})[StepId(labels[PARENT_STEP])] = record.id
    return found


class Programs:
    """The accounts of a schedule, by what its sagas were to do."""

    def __init__(self, memory: Memory, accounts: Mapping[SagaId, Account], lines: tuple[ProviderCall, ...]) -> None:
        self._memory = memory
        self._accounts = accounts
        self._lines = lines
        self._roots = {name: SagaId(_root(one) or name) for name, one in accounts.items()}

    def complaints(self, programs: Mapping[SagaId, tuple[str, Program]]) -> Iterator[str]:
        for name, (_, program) in programs.items():
            if name in self._accounts and ("parts" in program or "groups" in program):
                yield from self._as_programmed(name, program)
                yield from self._documents(name, program)

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


def _root(account: Account) -> str:
    return "" if account.saga.begun is None else account.saga.begun.labels.get(ROOT, "")


def _is_refused(step: Step) -> bool:
    """Whether a store said that the document is somebody else's."""
    return step.topic in _SETTERS and step.status is _S.FAILED and step.error.startswith("document ")


def _counted(found: Counter[str]) -> str:
    return ", ".join(f"{count} {topic}" for topic, count in sorted((+found).items())) or "nothing"
