"""A saga's story for a person: entries turned into lines. Pure; how a line is drawn is its reader's business.

Who stands behind a fact: `agent:`, `person:` or `system:`. People sign what they do. What the saga's function asked for
is done in the name of the saga's actor. All else the runtime saw, judged or decided itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final, TypeAlias, assert_never

from amends.core import events as e
from amends.core.state.step import rate_words
from amends.core.words.values import RUNTIME, Json, StepId
from amends.dataclass import dataclass
from amends.evidence.story.commands import CHANGESET, changeset_line, command_line, file_input, first_printed_line
from amends.evidence.story.limits import told_of_bounds, told_of_limits
from amends.evidence.story.people import told_of_people
from amends.evidence.story.waits import told_of_control, told_of_removal, told_of_waiting
from amends.journal.port.journal import Entry
from amends.text import (
    LONGEST_ARGS,
    LONGEST_PLACE,
    LONGEST_RESULT,
    LONGEST_VALUE,
    further,
    headline,
    said,
    short,
    span,
    spelled,
    spelled_args,
    visible,
)

GATE: Final = "system:gate"
OWN_DECISION: Final = "own decision"
"""How it is said that whoever decided had asked for the saga themselves, as they may in development."""
_JUDGED: Final = (
    e.ActionAllowed,
    e.ActionDenied,
    e.StepThrottled,
    e.CompensationDenied,
    e.MitigationDenied,
    e.ApprovalRequested,
)
_ASKED_FOR: Final = (
    e.StepProposed,
    e.StepPlaced,
    e.ActionDispatched,
    e.AttemptStarted,
    e.WorkFinished,
    e.SagaCompleted,
    e.CheckpointMade,
    e.ApprovalUsed,
    e.WaitStarted,
    e.BudgetSpent,
)


def who(event: e.Event, actor: str) -> str:
    """The actor of one fact of a saga that `actor` started."""
    if isinstance(event, e.SagaStarted):
        return event.actor
    by: str = getattr(event, "by", "") or getattr(event, "let_run_by", "")
    if by:
        return by
    if isinstance(event, _JUDGED):
        return GATE
    return actor if isinstance(event, _ASKED_FOR) else RUNTIME


__all__ = [
    "Direction",
    "Line",
    "Timeline",
    "Tone",
    "removed_line",
    "span",
    "spelled",
    "spelled_args",
    "timeline",
    "visible",
]


class Direction(StrEnum):
    """Where a line belongs: to a step on its way forward or back, to what people are asked and do, to the saga."""

    FORWARD = "forward"
    BACK = "back"
    PERSON = "person"
    SAGA = "saga"


class Tone(StrEnum):
    PLAIN = "plain"
    GOOD = "good"
    BAD = "bad"
    DOUBT = "doubt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """`step` is the step's id, as approvals, errors and plans name it: its place in the saga. A checkpoint, a rollback,
    what is spent and what is waited for take a place too, and their lines have its number.

    `more` has the further lines of an error that has several, for whoever shows them below.
    `until` is when that is over which the line tells of, where it is known: a reader shows it by its own clock.
    """

    at: int
    entry: int
    direction: Direction
    step: str | None
    topic: str
    text: str
    tone: Tone
    who: str
    more: tuple[str, ...] = ()
    until: int | None = None


_Told: TypeAlias = tuple[Direction, Tone, str]
_Forward: TypeAlias = (
    e.StepProposed
    | e.ActionDispatched
    | e.ActionAllowed
    | e.ActionDenied
    | e.StepThrottled
    | e.StepPlaced
    | e.StepDropped
    | e.BeforeCaptured
    | e.AfterCaptured
    | e.LockAwaited
    | e.LockTaken
    | e.LockRefused
    | e.AttemptStarted
    | e.AttemptSucceeded
    | e.AttemptFailed
    | e.AttemptLost
    | e.ProbeFound
    | e.ProbeFoundNothing
    | e.ProbeUnanswered
    | e.LateSuccessEnrolled
    | e.LateLossEnrolled
    | e.ReleaseStarted
    | e.ReleaseEnded
)
_Back: TypeAlias = (
    e.CompensationStarted
    | e.CompensationSucceeded
    | e.CompensationFailed
    | e.CompensationLost
    | e.CompensationDenied
    | e.MitigationEvent
)


_Bad: TypeAlias = (
    e.AttemptFailed
    | e.AttemptLost
    | e.ProbeUnanswered
    | e.CompensationFailed
    | e.CompensationLost
    | e.MitigationFailed
    | e.MitigationLost
)


def timeline(entries: Iterable[Entry]) -> tuple[Line, ...]:
    """The lines of a saga's entries, which are its own and in order."""
    told = Timeline()
    return tuple(line for line in map(told.line, entries) if line is not None)


def removed_line(entry: Entry) -> Line:
    """The line of an entry whose content was removed: that it was there, when, and of which kind."""
    text = f"entry {entry.number}, {visible(entry.name.partition('/')[0])}: what it held was removed"
    return Line(
        at=entry.at,
        entry=entry.number,
        direction=Direction.SAGA,
        step=None,
        topic="",
        text=text,
        tone=Tone.PLAIN,
        who="",
    )


@dataclass(slots=True)
class _Seen:
    step: str
    topic: str
    args: Json
    rule: str = ""
    has_begun: bool = False


class Timeline:
    """A timeline made of one entry at a time, as they become durable: it remembers which step is which."""

    def __init__(self) -> None:
        self._steps: dict[StepId, _Seen] = {}
        self._actor = RUNTIME
        self._heard: set[int] = set()

    def line(self, entry: Entry) -> Line | None:
        """The line of this entry, or None where it adds nothing that a person would miss."""
        if entry.is_removed:
            return removed_line(entry)
        event = entry.event
        if isinstance(event, (e.StepProposed, e.ActionDispatched)):
            self._steps[event.step] = _Seen(visible(event.step), visible(event.topic), event.args)
        elif isinstance(event, e.SagaStarted):
            self._actor = event.actor
        told = self._told(event, entry.at)
        if told is None:
            return None
        direction, tone, text = told
        seen = None if direction is Direction.SAGA else self._seen(event)
        place: StepId | None = getattr(event, "place", None)
        return Line(
            at=entry.at,
            entry=entry.number,
            direction=direction,
            step=seen.step if seen else None if place is None else visible(place),
            topic=seen.topic if seen else "",
            text=f"{text} ({OWN_DECISION})" if getattr(event, "own", False) else text,
            tone=tone,
            who=visible(who(event, self._actor), LONGEST_VALUE),
            more=further(getattr(event, "error", "")),
            until=event.until if isinstance(event, e.StepThrottled) else None,
        )

    def _seen(self, event: e.Event) -> _Seen | None:
        step: StepId | None = getattr(event, "step", None)
        return None if step is None else self._steps.get(step) or _Seen(visible(step), "", {})

    def _told(self, event: e.Event, at: int) -> _Told | None:
        if isinstance(event, e.SagaEvent):
            return _saga(event)
        if isinstance(event, e.IncidentEvent):
            return _incident(event)
        if isinstance(event, e.ApprovalEvent):
            return _approval(event, at)
        if isinstance(event, _Back):
            return _back(event, at)
        if isinstance(event, e.WaitEvent):
            return Direction.SAGA, Tone.PLAIN, told_of_waiting(event, at) + self._again(event)
        return _forward(event, self._steps.get(event.step) or _Seen(visible(event.step), "", {}), at)

    def _again(self, event: e.WaitEvent) -> str:
        """That a signal was taken up before: a rollback from outside had given it back."""
        if not isinstance(event, e.WaitEnded) or event.signal is None:
            return ""
        again = ", again" if event.signal in self._heard else ""
        self._heard.add(event.signal)
        return again


# -- what each event says ---------------------------------------------------------------------------------------------


def _saga(event: e.SagaEvent) -> _Told:
    direction = Direction.SAGA
    match event:
        case e.SagaStarted(definition=definition, version=version, actor=actor, env=env):
            written = file_input(event.input)
            asked = spelled_args(event.input if written is None else written[0])
            taken = f", taken for {short(event.taken_for)}" if event.taken_for else ""
            by = f"started by {short(actor)} in {short(env)}{taken}"
            of = "" if written is None else f" from {short(written[1])}"
            of += told_of_bounds(event)
            of += f", again, because {headline(event.because[-1])}" if event.because else ""
            return direction, Tone.PLAIN, f"{short(definition)}/{version} {by}{of}{f': {asked}' if asked else ''}"
        case e.WorkFinished():
            return direction, Tone.PLAIN, "work finished; what is in doubt is settled before it counts as complete"
        case e.SagaCompleted(result=result, early=early):
            return direction, Tone.GOOD, f"completed{f' early ({said(early)})' if early else ''}" + _of(result)
        case e.RollbackAwaited(why=why, by=by):
            asked = "" if by == RUNTIME else f" (asked for by {short(by)})"
            first = "waits first for what cannot be taken back"
            return direction, Tone.BAD, f"to go back{asked}: {headline(why)}; {first}"
        case e.RollbackStarted(why=why, by=by):
            asked = "" if by == RUNTIME else f" (asked for by {short(by)})"
            how = ", with mitigation" * event.mitigate
            return direction, Tone.BAD, f"rollback began{how}{asked}: {headline(why)}"
        case e.RollbackResumed(by=by):
            return direction, Tone.PLAIN, f"rollback resumed{', with mitigation' * event.mitigate} by {short(by)}"
        case e.WorkResumed(by=by):
            return direction, Tone.PLAIN, f"work resumed by {short(by)}"
        case e.SagaRolledBack():
            return direction, Tone.GOOD, "rolled back"
        case e.SagaMitigated():
            return direction, Tone.GOOD, "mitigated: what cannot be taken back stands"
        case e.SagaHalted():
            return direction, Tone.BAD, "stopped: a person is needed"
        case e.LimitReached():
            return direction, Tone.BAD, told_of_limits(event)
        case e.BudgetSpent() | e.ChildSpent() | e.LimitRaised():
            return direction, Tone.PLAIN, told_of_limits(event)
        case e.PolicyAdopted() | e.PersonEnrolled() | e.PersonRevoked():
            return direction, Tone.PLAIN, told_of_people(event)
        case e.CheckpointMade(name=name):
            return direction, Tone.PLAIN, f"checkpoint {short(name)}"
        case e.FamilySettled():
            return direction, Tone.PLAIN, "nothing in the family can fail any more: what is held goes out"
        case e.RewindStarted(steps=steps, why=why, by=by):
            asked = "" if by == RUNTIME else f" (asked for by {short(by)})"
            return direction, Tone.BAD, f"going back{asked}: {headline(why)}{_named('; over', steps)}"
        case e.RewindEnded(taken_back=taken_back):
            undone = _named("taken back", taken_back) or "nothing had to be taken back"
            return direction, Tone.GOOD, f"{undone}; the work goes on"
        case e.SagaPaused():
            return direction, Tone.BAD, told_of_control(event)
        case e.ContentRemoved():
            return direction, Tone.PLAIN, told_of_removal(event)
        case _:
            return direction, Tone.PLAIN, told_of_control(event)


def _incident(event: e.IncidentEvent) -> _Told:
    direction, what = Direction.PERSON, f"incident {event.incident}"
    match event:
        case e.IncidentOpened(kind=kind, why=why, left=left, owner=owner):
            owned = f"; owner: {short(owner)}" if owner else ""
            text = f"{what} opened: {kind.replace('_', ' ')}: {headline(why)}{_named('; left', left)}{owned}"
            return direction, Tone.BAD, text
        case e.IncidentAssigned(owner=owner, by=by):
            return direction, Tone.PLAIN, f"{what} given to {short(owner)} by {short(by)}"
        case e.IncidentCommented(by=by, text=text):
            return direction, Tone.PLAIN, f"{what}, {short(by)}: {said(text)}"
        case e.IncidentRetried(by=by, let_run=let_run, repeat=repeat):
            how = ", who has it run against the gate" if let_run else ""
            how += ", who has it done once more though an attempt was lost" if repeat else ""
            return direction, Tone.PLAIN, f"{what} retried by {short(by)}{how}"
        case e.IncidentResolved(by=by, reason=reason, settled=settled, proof=proof):
            shown = f" (proof: {said(proof)})" if proof else ""
            text = f"{what} resolved by {short(by)}: {said(reason)}{shown}{_named('; settled', settled)}"
            return direction, Tone.PLAIN, text
        case _:
            assert_never(event)


def _named(what: str, steps: Sequence[StepId]) -> str:
    return f"{what}: step{'s' if len(steps) > 1 else ''} {', '.join(map(visible, steps))}" if steps else ""


def _forward(event: _Forward, seen: _Seen, at: int) -> _Told | None:
    direction = Direction.FORWARD
    match event:
        case e.StepProposed():
            return None
        case e.StepPlaced():
            return Direction.SAGA, Tone.PLAIN, f"step {seen.step}, asked for ahead, has its turn here"
        case e.ActionAllowed(rule=rule):
            seen.rule = rule
            return None
        case e.ActionDispatched(rule=rule):
            seen.has_begun = True
            return direction, Tone.PLAIN, f"{_call(seen)} (attempt 1{_allowed(rule)})"
        case e.ActionDenied(rule=rule, why=why):
            return direction, Tone.BAD, f"{_call(seen)} denied by {short(rule)}: {said(why)}"
        case e.StepThrottled():
            return _throttled(event, seen, at)
        case e.ReleaseStarted():
            return direction, Tone.PLAIN, "what its child holds goes out: from here on, forward only"
        case e.ReleaseEnded():
            return direction, Tone.GOOD, "its child holds nothing any more"
        case e.StepDropped(why=why):
            return direction, Tone.PLAIN, f"{_call(seen)} dropped, and never dispatched: {said(why)}"
        case e.BeforeCaptured(before=before):
            return direction, Tone.PLAIN, f"before-image kept{_of(before)}"
        case e.AfterCaptured(after=after):
            return direction, Tone.PLAIN, f"after-image kept{_of(after)}"
        case e.LockAwaited() | e.LockTaken() | e.LockRefused():
            return _lock(event, seen, at)
        case e.AttemptStarted(attempt=attempt):
            seen.has_begun = True
            return direction, Tone.PLAIN, f"{_call(seen)} (attempt {attempt}{_allowed(seen.rule)})"
        case e.AttemptSucceeded(result=result, opaque=opaque, confinement=kept_in):
            files = changeset_line(result) if seen.topic.startswith(CHANGESET) else None
            told = _of(result) if files is None else f": {files}"
            return direction, Tone.GOOD, f"succeeded{_kept_in(kept_in)}{_lacking(opaque) or told}"
        case e.AttemptFailed(fatal=fatal, confinement=kept_in):
            last = " for good" * fatal + _kept_in(kept_in)
            return direction, Tone.BAD, f"failed{last}: {_ended(event, at)}"
        case e.AttemptLost(fatal=fatal, confinement=kept_in):
            last = ", and not tried again" * fatal + _kept_in(kept_in)
            return direction, Tone.DOUBT, f"lost{last}: {_ended(event, at)}"
        case e.ProbeFound(result=result, opaque=opaque):
            return direction, Tone.GOOD, f"probe found that it happened{_lacking(opaque) or _of(result)}"
        case e.ProbeFoundNothing():
            return direction, Tone.PLAIN, "probe found that it did not happen"
        case e.ProbeUnanswered():
            return direction, Tone.DOUBT, f"probe got no answer: {_ended(event, at)}"
        case e.LateSuccessEnrolled(attempt=attempt, result=result, opaque=opaque):
            lacking = _lacking(opaque) or _of(result)
            return direction, Tone.DOUBT, f"attempt {attempt} succeeded late, after it had been given up{lacking}"
        case e.LateLossEnrolled(attempt=attempt, error=error, where=where):
            what = f"attempt {attempt} ended late, after it had been given up, and may have taken effect"
            return direction, Tone.DOUBT, f"{what}: {headline(error)}{_at_place(where)}"
        case _:
            assert_never(event)


def _throttled(event: e.StepThrottled, seen: _Seen, at: int) -> _Told:
    """The wait of a step for a rate; one that has begun is judged again only on its way back."""
    for_rule = f"waits {span(event.until - at)} for rule {short(event.rule)} ({rate_words(event.most, event.per_s)})"
    if seen.has_begun:
        return Direction.BACK, Tone.PLAIN, f"going back {for_rule}"
    return Direction.FORWARD, Tone.PLAIN, f"{_call(seen)} {for_rule}"


def _lock(event: e.LockAwaited | e.LockTaken | e.LockRefused, seen: _Seen, at: int) -> _Told:
    direction = Direction.FORWARD
    match event:
        case e.LockAwaited(resources=resources, holder=holder, until=until):
            line = f"waits for {said(', '.join(resources))}, which saga {short(holder)} holds"
            return direction, Tone.PLAIN, f"{_call(seen)} {line}, at most {span(until - at)}"
        case e.LockTaken():
            return direction, Tone.PLAIN, "its turn came"
        case e.LockRefused(error=error):
            return direction, Tone.BAD, f"{_call(seen)} failed: {headline(error)}"
        case _:
            assert_never(event)


def _back(event: _Back, at: int) -> _Told:
    direction = Direction.BACK
    if isinstance(event, e.MitigationEvent):
        return _mitigation(event, at)
    match event:
        case e.CompensationStarted(attempt=attempt, certain=certain, let_run_by=let_run_by):
            doubt = "" if certain else ", uncertain whether it happened"
            against = f", let run by {short(let_run_by)}" if let_run_by else ""
            return direction, Tone.PLAIN, f"compensation began (attempt {attempt}{doubt}{against})"
        case e.CompensationSucceeded():
            return direction, Tone.GOOD, "compensation succeeded"
        case e.CompensationFailed(changed_since=changed):
            because = "someone changed it since: " * changed
            return direction, Tone.BAD, f"compensation failed: {because}{_ended(event, at)}"
        case e.CompensationLost():
            return direction, Tone.DOUBT, f"compensation lost: {_ended(event, at)}"
        case e.CompensationDenied(rule=rule, why=why):
            return direction, Tone.BAD, f"compensation denied by {short(rule)}: {said(why)}"
        case _:
            assert_never(event)


def _mitigation(event: e.MitigationEvent, at: int) -> _Told:
    direction = Direction.BACK
    match event:
        case e.MitigationStarted(attempt=attempt, let_run_by=let_run_by):
            against = f", let run by {short(let_run_by)}" if let_run_by else ""
            return direction, Tone.PLAIN, f"mitigation began (attempt {attempt}{against})"
        case e.MitigationSucceeded():
            return direction, Tone.GOOD, "mitigated; its effect stands"
        case e.MitigationFailed(changed_since=changed):
            because = "someone changed it since: " * changed
            return direction, Tone.BAD, f"mitigation failed: {because}{_ended(event, at)}"
        case e.MitigationLost():
            return direction, Tone.DOUBT, f"mitigation lost: {_ended(event, at)}"
        case e.MitigationDenied(rule=rule, why=why):
            return direction, Tone.BAD, f"mitigation denied by {short(rule)}: {said(why)}"
        case _:
            assert_never(event)


def _approval(event: e.ApprovalEvent, at: int) -> _Told:
    direction = Direction.PERSON
    match event:
        case e.ApprovalRequested(rule=rule, needs=needs, expires_at=expires_at):
            needed = max((need.approvals for need in needs), default=1)
            people = "1 person" if needed == 1 else f"{needed} people"
            text = f"approval requested from {people} by {short(rule)}, within {span(expires_at - at)}"
            return direction, Tone.PLAIN, text
        case e.ApprovalSigned(by=by, why=why):
            return direction, Tone.GOOD, f"{short(by)} approved; more people are needed{_because(why)}"
        case e.ApprovalGranted(by=by, why=why):
            return direction, Tone.GOOD, f"approval granted by {short(by)}{_because(why)}"
        case e.ApprovalRefused(by=by, why=why):
            return direction, Tone.BAD, f"approval refused by {short(by)}: {said(why)}"
        case e.ApprovalExpired():
            return direction, Tone.BAD, "approval expired: it was not given, or not used, in time"
        case e.ApprovalVoided(why=why):
            return direction, Tone.BAD, f"approval no longer counts: {said(why)}"
        case e.ApprovalUsed():
            return direction, Tone.PLAIN, "approval used"
        case _:
            assert_never(event)


def _because(why: str) -> str:
    return f": {said(why)}" if why else ""


def _call(seen: _Seen) -> str:
    """An action as it is called: the last part of its topic, and its arguments."""
    line, name = command_line(seen.args), seen.topic.rpartition(".")[2]
    if line is not None:
        return f"{name}: {visible(line, LONGEST_ARGS)}"
    files = changeset_line(seen.args) if seen.topic.startswith(CHANGESET) else None
    return f"{name} {spelled_args(seen.args) if files is None else files}".rstrip()


def _allowed(rule: str) -> str:
    """The rule that spoke, where it is one that somebody wrote."""
    return f", allowed by {short(rule)}" if rule and not rule.startswith("builtin-") else ""


def _lacking(opaque: str) -> str:
    return f"; its result was not kept: {said(opaque)}" if opaque else ""


def _of(value: Json) -> str:
    told = first_printed_line(value)
    if told is not None:
        return f": {visible(told, LONGEST_RESULT)}" if told else ""
    return "" if value is None else f": {spelled(value, LONGEST_RESULT)}"


def _kept_in(confinement: str) -> str:
    """How the commands of a step on files were kept in, where it ran any."""
    return f" ({said(confinement)})" if confinement else ""


def _ended(event: _Bad, at: int) -> str:
    """Why an attempt ended badly, where that was raised, and when the next one is due."""
    return f"{headline(event.error)}{_at_place(event.where)}{_again(event.retry_at, at)}"


def _at_place(where: str) -> str:
    return f" ({visible(where, LONGEST_PLACE)})" if where else ""


def _again(retry_at: int | None, at: int) -> str:
    return "" if retry_at is None else f" (again in {span(retry_at - at)})"
