"""Findings after a run, by the world and by the record: what is wrong, whose fault it is, in words.

Three witnesses are heard. The probes say what stands; a snapshot of the world, where there is one, says whether it is
as it was; and the notes of the executor say which functions were called and what they answered. Return codes are no
witness: that a compensation answered well is only the question.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final, cast

from amends.core.events import CompensationFailed, CompensationLost, IncidentKind
from amends.core.state.saga import Incident, Step
from amends.core.transitions import SagaStatus, StepStatus
from amends.core.words.outcomes import Answer, Found, FoundNothing, NoAnswer
from amends.core.words.values import SagaId, StepId
from amends.dataclass import dataclass
from amends.drill.executor import Made, Rehearsed
from amends.drill.family import DrilledFamily
from amends.drill.faults import WHOLE, Fault, Place, called_for
from amends.drill.world import ON_RECORD, Account, check, wanted

_LONGEST: Final = 160
_OF_ONE_RUN: Final = re.compile(r"\b[0-9a-f]{32}\b|\bdrill-01[0-9a-z]{24}\b")


class Mark(StrEnum):
    """How a cell of the matrix came out, from the best to the worst."""

    PASSED = "passed"
    NOT_PROVEN = "not proven"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about one step, or (without a step) about the saga."""

    mark: Mark
    text: str
    step: StepId = WHOLE
    topic: str = ""

    def __str__(self) -> str:
        return f"step {self.step} ({self.topic}): {self.text}" if self.step else self.text


def failed(step: Step, text: str) -> Finding:
    return Finding(Mark.FAILED, text, step.id, step.topic)


def doubtful(step: Step, text: str) -> Finding:
    return Finding(Mark.NOT_PROVEN, text, step.id, step.topic)


def worst(marks: Iterator[Mark]) -> Mark:
    order = list(Mark)
    return max(marks, key=order.index, default=Mark.PASSED)


@dataclass(frozen=True, slots=True)
class Witness:
    """The world's answers: one for each step that was asked about, and how the snapshot differs, if it does."""

    answers: Mapping[tuple[SagaId, StepId], Answer]
    differs: str | None = None
    is_whole: bool = False
    """Whether there was a snapshot: it sees what no probe sees."""
    hidden: frozenset[tuple[SagaId, StepId]] = frozenset()
    """Steps whose effect a later step that stands has taken away."""


def findings(family: DrilledFamily, executor: Rehearsed, place: Place, witness: Witness) -> list[Finding]:
    """All that is wrong once a saga has ended; nothing, it should be."""
    found: list[Finding] = []
    for account in family:
        made = [each for each in executor.made if each.saga == account.saga.id]
        own = place if account is family.drilled else Place(Fault.NOTHING)
        about = [
            *_incidents(family, account, made, own),
            *_standing(family, account, made, witness),
            *_after_its_compensation(account, made),
        ]
        found += about if account is family.drilled else [_in_child(family, account, each) for each in about]
    if not any(each.mark is Mark.FAILED for each in found):
        found += _snapshot(family.drilled, executor, place, witness)
    # The record is the runtime's; what is wrong there is a defect of ours, and is told as it is.
    entries = [account.entries for account in family]
    found += [Finding(Mark.FAILED, short(what)) for what in check(executor.world, entries, ON_RECORD)]
    return found


def _in_child(family: DrilledFamily, account: Account, finding: Finding) -> Finding:
    """It is told of the step that called the child."""
    begun = account.saga.begun
    name = "" if begun is None else begun.definition
    step = family.saga.steps.get(family.step_of(account.saga.id, finding.step))
    where = f"in its child {name}, {finding}"
    return Finding(finding.mark, where) if step is None else Finding(finding.mark, where, step.id, step.topic)


# -- incidents --------------------------------------------------------------------------------------------------------


def _incidents(family: DrilledFamily, account: Account, made: list[Made], place: Place) -> Iterator[Finding]:
    for incident in account.saga.open_incidents:
        step = None if incident.step is None else account.saga.steps[incident.step]
        if not _is_due(family, account, incident, step, place):
            yield _called(account, incident, step, made)


def _is_due(family: DrilledFamily, account: Account, incident: Incident, step: Step | None, place: Place) -> bool:
    """Whether a person has to be called, by the contract or by what was brought about."""
    at_place = step is not None and step.id == place.step
    match incident.kind:
        case IncidentKind.COMPENSATION_MISSING | IncidentKind.PAST_PIVOT:
            return True
        case IncidentKind.OUTCOME_UNKNOWN:
            return step is not None and not step.contract.rollback_supported
        case IncidentKind.CHANGED_SINCE:
            return at_place and place.fault is Fault.CHANGED_SINCE
        case IncidentKind.COMPENSATION_FAILED if step is not None and family.is_past_pivot(account.saga, step):
            return True
        case _:
            return at_place and called_for(account.saga, place) is incident.kind


def _called(account: Account, incident: Incident, step: Step | None, made: list[Made]) -> Finding:
    if step is None:
        what = "asks for something else when it is called again" if incident.kind is IncidentKind.DIVERGED else "stops"
        return Finding(Mark.FAILED, f"the saga's function {what}: {short(incident.why)}")
    mine = [each for each in made if each.step == step.id]
    match incident.kind:
        case IncidentKind.COMPENSATION_FAILED:
            return failed(step, f"{_how_it_fails(mine)}: {short(incident.why)}")
        case IncidentKind.COMPENSATION_TIMED_OUT:
            return failed(step, f"its compensation hangs: {short(_last_error(account, step.id) or incident.why)}")
        case IncidentKind.COMPENSATION_DENIED:
            return failed(step, f"the gate denies its compensation: {short(incident.why)}")
        case IncidentKind.MITIGATION_FAILED | IncidentKind.MITIGATION_MISSING:
            return failed(step, f"its mitigation fails: {short(incident.why)}")
        case IncidentKind.MITIGATION_TIMED_OUT:
            return failed(step, f"its mitigation hangs: {short(incident.why)}")
        case IncidentKind.MITIGATION_DENIED:
            return failed(step, f"the gate denies its mitigation: {short(incident.why)}")
        case IncidentKind.CHANGED_SINCE:
            return failed(
                step, f"its compensation says that somebody changed it, and nobody did: {short(incident.why)}"
            )
        case IncidentKind.EFFECT_DOUBLED:
            return failed(step, f"its effect may stand twice: {short(incident.why)}")
        case _:
            hangs = "its compensation hangs" if any(each.part == "compensation" for each in mine) else "it hangs"
            told = hangs if "still running in a thread" in incident.why else "a person is called"
            return failed(step, f"{told}: {short(incident.why)}")


def _last_error(account: Account, step: StepId) -> str:
    ends = (
        event for event in reversed(account.events(step)) if isinstance(event, CompensationFailed | CompensationLost)
    )
    return next((event.error for event in ends), "")


def _how_it_fails(mine: list[Made]) -> str:
    if not any(made.part == "action" and made.worked for made in mine):
        return "its compensation fails when the action never happened"
    if any(made.part == "compensation" and made.worked for made in mine):
        return "its compensation is not idempotent: it had worked, and fails when it is called again"
    return "its compensation fails"


# -- what stands ------------------------------------------------------------------------------------------------------


def _standing(family: DrilledFamily, account: Account, made: list[Made], witness: Witness) -> Iterator[Finding]:
    saga = account.saga
    for step in family.concerned(saga):
        if step.id in account.named or step.status is StepStatus.SETTLED or (saga.id, step.id) in witness.hidden:
            continue
        expected, answer = wanted(saga, step), witness.answers.get((saga.id, step.id))
        match answer:
            case None if not witness.is_whole:
                yield doubtful(step, "it has no probe, so nobody can tell whether its effect stands")
            case NoAnswer(error=error) if not witness.is_whole:
                yield doubtful(step, f"its probe does not answer: {short(error)}")
            case Found() if not expected:
                yield failed(step, _why_it_stands(step, [each for each in made if each.step == step.id]))
            case FoundNothing() if expected:
                yield failed(step, f"the saga is {saga.phase}, and its effect does not stand")
            case _:
                pass


def _why_it_stands(step: Step, mine: list[Made]) -> str:
    undone = [made for made in mine if made.part == "compensation" and made.worked]
    times = sum(made.part == "action" and made.worked for made in mine)
    if undone and times > 1:
        return f"it took effect {times} times with one key, and still stands after its compensation"
    if undone:
        return "its compensation returned success, and its effect still stands"
    if any(made.part == "action" and not made.worked for made in mine):
        return f"it said that nothing had happened, and its effect stands: {short(step.error)}"
    return "its effect stands, and nothing on record says so"


def _snapshot(account: Account, executor: Rehearsed, place: Place, witness: Witness) -> Iterator[Finding]:
    """The world as it was before, where everything has been taken back."""
    saga = account.saga
    if witness.differs is None or saga.phase is not SagaStatus.ROLLED_BACK or place.fault is Fault.CHANGED_SINCE:
        return
    step = saga.steps.get(place.step)
    mine = [made for made in executor.made if (made.saga, made.step) == (saga.id, place.step)]
    undone = sum(made.part == "compensation" and made.worked for made in mine)
    landed = any(made.part == "action" and made.worked for made in mine)
    if step is not None and undone > 1:
        yield failed(step, f"its compensation is not idempotent: it was called {undone} times, and {witness.differs}")
    elif step is not None and undone and not landed:
        yield failed(step, f"its compensation takes back what never happened: {witness.differs}")
    else:
        yield Finding(Mark.FAILED, f"the world does not come back: {witness.differs}")


def _after_its_compensation(account: Account, calls: list[Made]) -> Iterator[Finding]:
    taken_back: set[StepId] = set()
    for made in calls:
        if made.part == "compensation" and made.worked:
            taken_back.add(made.step)
        elif made.part == "action" and made.step in taken_back:
            yield failed(account.saga.steps[made.step], "it was called after it had been taken back")


def out_of_turn(step: Step, older: Step) -> Finding:
    """Newest first, by the world: what is older still stood when its turn had not come."""
    text = (
        f"its compensation also takes back step {older.id} ({older.topic}), whose turn has not come: not newest first"
    )
    return failed(step, text)


def destroyed(step: Step, older: Step) -> Finding:
    """By the world: what a later step had taken away was not there again when that one had been taken back."""
    text = f"it takes away what step {older.id} ({older.topic}) did, and its compensation does not bring that back"
    return failed(step, text)


def differing(before: object, after: object) -> str | None:
    """How two snapshots differ, in words; None where they do not."""
    if before == after:
        return None
    if _is_map(before) and _is_map(after):
        was, now = cast("dict[object, object]", before), cast("dict[object, object]", after)
        names = [name for name in {**was, **now} if was.get(name, _GONE) != now.get(name, _GONE)]
        return "; ".join(f"{name!r} was {_spelled(was, name)} and is {_spelled(now, name)}" for name in names[:3])
    return f"it was {short(repr(before))} and is {short(repr(after))}"


def _is_map(snapshot: object) -> bool:
    return isinstance(snapshot, dict)


_GONE: Final = object()


def _spelled(snapshot: dict[object, object], name: object) -> str:
    return short(repr(snapshot[name])) if name in snapshot else "not there"


def short(text: str) -> str:
    """Not for ever, and without what differs from run to run: a key, a saga's id."""
    text = _OF_ONE_RUN.sub("<key>", text)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
