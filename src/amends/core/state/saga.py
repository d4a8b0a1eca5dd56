"""A saga's state: the fold of its events. `evolve` adds one fact, in place and at constant cost; `replay` adds many.

A state has one owner, who folds: the logbook of a saga that is driven, or whoever read it from the journal. Nobody else
keeps a `Saga` over an `await`, because it moves on under their hands. Steps, incidents, checkpoints and rewinds are
values: one that somebody holds stays as it was, and the saga has another in its place. Who asks "what if" folds into a
`copy`.

A fact is looked at before anything is changed: one that the tables do not know at this place changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import field
from typing import Any, Final, TypeAlias, get_args

from amends.core import events as e
from amends.core.state import rewinds as rewound
from amends.core.state.frontier import Frontier, walk_back
from amends.core.state.limits import Budget, begun, spent, stepped, tried
from amends.core.state.rewinds import Checkpoint, Rewind
from amends.core.state.step import LIVE, Ahead, SettlingEvent, Step, changed, placed, renewed, waits
from amends.core.state.waits import Wait, Waits, fold_wait
from amends.core.transitions import INCIDENT, NEW_STEP, SAGA, STEP, IncidentStatus, SagaStatus, StepStatus
from amends.core.words.contracts import Contract, Reversibility, Topic
from amends.core.words.values import CALL, PARENT, Json, SagaId, StepId
from amends.dataclass import altered, dataclass
from amends.errors import JournalDamagedError

__all__ = ["Incident", "Saga", "Step", "evolve", "open_waits", "replay", "unstarted"]

_S = StepStatus
_RUNNING, _SUCCEEDED, _IRREVERSIBLE = SagaStatus.RUNNING, StepStatus.SUCCEEDED, Reversibility.IRREVERSIBLE
_MAPS: Final = ("contracts", "steps", "order", "live", "waiting", "doubts", "asked", "held", "checkpoints", "rewinds")


@dataclass(frozen=True, kw_only=True)
class Incident:
    number: int
    kind: e.IncidentKind
    step: StepId | None
    why: str
    left: tuple[StepId, ...]
    status: IncidentStatus = IncidentStatus.OPEN
    owner: str = ""


@dataclass(slots=True)
class Saga:
    """`head` is the number of the newest entry. `top` is where the rollback stands: all above it is settled."""

    id: SagaId
    head: int = 0
    phase: SagaStatus = SagaStatus.RUNNING
    begun: e.SagaStarted | None = None
    contracts: dict[tuple[Topic, int], Contract] = field(default_factory=dict[tuple[Topic, int], Contract])
    steps: dict[StepId, Step] = field(default_factory=dict[StepId, Step])
    order: dict[int, StepId] = field(default_factory=dict[int, StepId])
    live: dict[StepId, StepStatus] = field(default_factory=dict[StepId, StepStatus])
    """The steps with an attempt on its way, and of which kind."""
    waiting: dict[StepId, None] = field(default_factory=dict[StepId, None])
    doubts: dict[StepId, None] = field(default_factory=dict[StepId, None])
    asked: dict[StepId, None] = field(default_factory=dict[StepId, None])
    """The steps that people were asked about, as long as their answer may still let something happen."""
    held: dict[StepId, None] = field(default_factory=dict[StepId, None])
    """The steps that are released once everything that could fail has passed."""
    checkpoints: dict[StepId, Checkpoint] = field(default_factory=dict[StepId, Checkpoint])
    """By place; of those with the same name, the newest counts."""
    rewinds: dict[StepId, Rewind] = field(default_factory=dict[StepId, Rewind])
    placed: dict[StepId, StepId] | None = None
    """By place: the steps that were asked ahead and are done there; None where there never was any."""
    rewinding: tuple[StepId, ...] = ()
    """The rewinds that are under way."""
    top: int = 0
    frontier: Frontier | None = None
    """Whose turn it is, while a rollback goes back through a graph."""
    pivot: StepId | None = None
    finished: bool = False
    early: str = ""
    """Why the work ended before its definition's end, where it did."""
    result: Json = None
    awaited: e.RollbackAwaited | None = None
    """It is to go back, once it is known whether an irreversible step took effect."""
    rollback: e.RollbackStarted | None = None
    broken_off: e.RollbackStarted | None = None
    """The rollback that came to an irreversible step; a person has brought the saga to its end."""
    mitigated_by: str = ""
    """Who has it go back past its pivot, with what is declared to be done about such steps; empty: nobody."""
    deadline_at: int = 0
    incidents: tuple[Incident, ...] = ()
    waits: Waits | None = None
    """Sleeps, and waits for signals; None where there never was any."""
    family_settled: bool = False
    """Of a child: nothing above it can fail any more."""
    paused: e.SagaPaused | None = None
    still_paused: e.SagaPaused | None = None
    """It was paused when somebody had it go back to a place: there it is paused again."""
    budget: Budget | None = None
    """What it may use up and has used; None where there is no limit and nothing was spent."""

    def copy(self) -> Saga:
        """A state of its own, to be folded on without a change of this one: "what if"."""
        made = copy(self)
        for name in _MAPS:
            setattr(made, name, dict(getattr(self, name)))
        made.placed = None if self.placed is None else dict(self.placed)
        made.frontier = None if self.frontier is None else self.frontier.copy()
        made.waits = None if self.waits is None else self.waits.copy()
        made.budget = None if self.budget is None else self.budget.copy()
        return made

    @property
    def status(self) -> SagaStatus:
        """The status that people see: `waiting` is running with nothing in flight and something to wait for; a rewind,
        though the work goes on after it, is seen as rolling back, and so is waiting to begin with one.
        """
        if self.phase is not _RUNNING:
            return self.phase
        if self.rewinding or self.awaited is not None:
            return SagaStatus.ROLLING_BACK
        if self.live:
            return self.phase
        if self.waiting or (self.waits is not None and self.waits.open and not self.finished):
            return SagaStatus.WAITING
        return SagaStatus.WAITING if self.finished and self._waits_after_work else self.phase

    @property
    def _waits_after_work(self) -> bool:
        if self.doubts:
            return any(self.steps[step].is_asked_about for step in self.doubts)
        return self.holds_for_family or any(step.releasing for step in self.lent)

    @property
    def lent(self) -> tuple[Step, ...]:
        """The calls whose children have done their work, and hold something until nothing can fail; oldest first."""
        if (CALL, 1) not in self.contracts:
            return ()
        return tuple(sorted((step for step in self.steps.values() if step.lends), key=lambda step: step.entry))

    @property
    def holds_for_family(self) -> bool:
        """Whether it is a child that has done its work, and releases nothing as long as those above it may fail.

        One that had begun with that, before this was so, goes on with it.
        """
        if not self.finished or self.family_settled or self.rollback is not None:
            return False
        if self.begun is None or PARENT not in self.begun.labels or not (self.held or self.lent):
            return False
        return not any(step.contract.hold and step.attempts for step in self.steps.values())

    @property
    def rests(self) -> bool:
        """Whether nothing is left to do but to release what it holds for its family: to its parent it is complete."""
        at_work = self.live or self.doubts or self.rewinding or self.open_incidents or self.awaited is not None
        return self.phase is SagaStatus.RUNNING and not at_work and self.holds_for_family

    @property
    def goes_forward(self) -> bool:
        """Whether its definition has more to say, now or when a person has it go on."""
        return self.rollback is None and not self.finished

    def most_attempts(self, step: Step, *, back: bool = False) -> int:
        """How often a step is tried: as its action says, and no more often than its saga does."""
        declared = step.contract.undo_retries if back else step.contract.retries
        begun = self.begun
        own = None if begun is None else begun.compensation_attempts if back else begun.attempts
        return declared.attempts if own is None else min(declared.attempts, own)

    @property
    def works(self) -> bool:
        """Whether its definition may act now."""
        if self.phase is not _RUNNING or self.finished or self.awaited is not None:
            return False
        return not self.rewinding or not self.called_back

    @property
    def called_back(self) -> bool:
        """Whether its definition is stopped to go back, by someone outside: it may be called again afterwards."""
        if self.awaited is not None:
            return True
        return bool(self.rewinding) and any(self.rewinds[key].from_outside for key in self.rewinding)

    @property
    def open_incidents(self) -> tuple[Incident, ...]:
        return tuple(incident for incident in self.incidents if incident.status is IncidentStatus.OPEN)


def open_waits(saga: Saga) -> tuple[Wait, ...]:
    """Waits that the definition is at, oldest first."""
    if saga.waits is None or saga.finished or saga.rollback is not None:
        return ()
    return tuple(saga.waits.opened())


def unstarted(saga: SagaId) -> Saga:
    return Saga(saga)


def replay(saga: SagaId, events: Iterable[e.Event]) -> Saga:
    state = unstarted(saga)
    for event in events:
        evolve(state, event)
    return state


def evolve(saga: Saga, event: e.Event) -> Saga:
    """Add one fact to the state, and give that. Raises JournalDamagedError for what the tables do not know here."""
    if saga.begun is None and type(event) is not e.SagaStarted:
        raise _impossible(saga, event, "it has not started")
    _FOLD[type(event)](saga, event)
    saga.head += 1
    return saga


def _start(saga: Saga, event: e.SagaStarted) -> None:
    if saga.begun is not None:
        raise _impossible(saga, event, "a second start")
    saga.begun, saga.budget = event, begun(event.limits) if event.limits else None


# -- steps ------------------------------------------------------------------------------------------------------------


def _add_step(saga: Saga, event: e.StepProposed | e.ActionDispatched) -> None:
    name = (event.topic, event.version)
    contract = event.contract or saga.contracts.get(name)
    if event.step in saga.steps or contract is None:
        raise _impossible(saga, event, f"step {event.step} twice, or without its contract")
    if event.contract is not None:
        saga.contracts[name] = contract
    if saga.budget is not None:
        saga.budget = stepped(saga.budget, event.step, event.topic)
    step, status, entry = event.step, NEW_STEP[type(event)], saga.head + 1
    number, attempts, key, ahead = 0, 0, "", None
    if type(event) is e.ActionDispatched:
        number, attempts, key = len(saga.order) + 1, 1, event.key
        saga.top, saga.order[number], saga.live[step] = number, step, status
    elif isinstance(event, e.StepProposed) and event.ahead:
        ahead = Ahead(entry)
    saga.steps[step] = Step(
        id=step,
        contract=contract,
        args=event.args,
        digest=event.digest,
        status=status,
        number=number,
        attempts=attempts,
        key=key,
        after=event.after,
        entry=entry,
        ahead=ahead,
        call=event.call,
    )


def _evolve_counted(saga: Saga, event: e.AttemptStarted | e.AttemptFailed | e.AttemptLost) -> None:
    """Count an attempt that failed on the way forward, or is not the first, for the budget."""
    old = _known(saga, event, event.step)
    _evolve_step(saga, event)
    failed = not isinstance(event, e.AttemptStarted)
    if saga.budget is not None and saga.rollback is None and (failed or event.attempt > 1):
        saga.budget = tried(saga.budget, old.topic, failed=failed)


def _place_step(saga: Saga, event: e.StepPlaced) -> None:
    """A step that was asked ahead is done: from here on it is as one that was proposed here."""
    old = _known(saga, event, event.step)
    _next_status(saga, old, event)
    if old.wanted or old.ahead is None:
        raise _impossible(saga, event, f"step {old.id} was not asked ahead, or has its place")
    saga.steps[old.id] = placed(old, old.ahead, event, saga.head + 1)
    if saga.placed is None:
        saga.placed = {}
    saga.placed[event.place] = old.id
    _evolve_step(saga, event)


def _evolve_step(saga: Saga, event: e.StepEvent | e.ApprovalEvent) -> None:
    old = saga.steps[event.step] if event.step in saga.steps else _known(saga, event, event.step)
    new = changed(old, event, STEP[old.status].get(type(event)) or _next_status(saga, old, event))
    if new.rewind is not None and new.told is None:
        new = rewound.told_when_over(new)
    if new.contract.hold:
        new = altered(new, accepted=new.accepted or (new.status is _S.READY and new.wanted))
        _put(saga.held, new.id, is_in=new.held)
    if old.number == 0 and isinstance(event, e.AttemptStarted):
        new = altered(new, number=len(saga.order) + 1)
        saga.order[new.number] = new.id
        saga.top = new.number
    elif new.number > saga.top and new.owed:
        saga.top = new.number
    is_final = new.contract.reversibility is _IRREVERSIBLE or new.releasing
    if is_final and saga.pivot is None and new.status is _SUCCEEDED:
        saga.pivot = new.id
    saga.steps[new.id] = new
    if new.status in LIVE:
        saga.live[new.id] = new.status
    elif new.id in saga.live:
        del saga.live[new.id]
    if new.status is _SUCCEEDED and not new.given_up:  # as most are: it waits for nothing, and nobody doubts it
        for group in (saga.waiting, saga.doubts):
            if group:
                group.pop(new.id, None)
    else:
        _put(saga.waiting, new.id, is_in=waits(new))
        _put(saga.doubts, new.id, is_in=new.doubtful)
    if new.approval is not None:
        _put(saga.asked, new.id, is_in=new.approval.unsettled)
    if saga.rewinding or saga.phase is not _RUNNING:
        _walk(saga, again=type(event) in (e.LateSuccessEnrolled, e.LateLossEnrolled), moved=new.id)


def _known(saga: Saga, event: e.Event, step: StepId) -> Step:
    found = saga.steps.get(step)
    if found is None:
        raise _impossible(saga, event, f"step {step} was never proposed")
    return found


def _next_status(saga: Saga, step: Step, event: SettlingEvent) -> StepStatus:
    status = STEP[step.status].get(type(event))
    if status is None:
        raise _impossible(saga, event, f"step {step.id} is {step.status}")
    return status


def _put(group: dict[StepId, None], step: StepId, *, is_in: bool) -> None:
    if not is_in:
        group.pop(step, None)
    else:
        group[step] = None


def _walk(saga: Saga, *, again: bool = False, moved: StepId | None = None) -> None:
    """Move the rollback's place, or a rewind's, down past everything that is not owed."""
    if saga.phase is SagaStatus.ROLLING_BACK:
        walk_back(saga, again=again, moved=moved)
    elif saga.rewinding:
        rewound.walk(saga, again=again)


# -- the saga itself --------------------------------------------------------------------------------------------------

_SagaMoved: TypeAlias = (
    e.WorkFinished
    | e.SagaCompleted
    | e.RollbackAwaited
    | e.RollbackStarted
    | e.RollbackResumed
    | e.WorkResumed
    | e.SagaRolledBack
    | e.SagaMitigated
    | e.SagaHalted
    | e.SagaPaused
    | e.RecordEvent
    | e.ControlEvent
    | e.CheckpointMade
    | e.RewindStarted
    | e.RewindEnded
    | e.FamilySettled
    | e.LimitEvent
)


def _phase(saga: Saga, event: _SagaMoved) -> SagaStatus:
    """The phase that follows."""
    phase = SAGA[saga.phase].get(type(event))
    if phase is None:
        raise _impossible(saga, event, f"the saga is {saga.phase}")
    return phase


def _move(saga: Saga, event: _SagaMoved) -> None:
    """Facts that change the phase, or nothing at all that a decision goes by."""
    saga.phase = _phase(saga, event)


def _end_work(saga: Saga, event: e.WorkFinished | e.SagaCompleted) -> None:
    saga.phase = _phase(saga, event)
    rewound.give_up(saga)
    saga.finished, saga.result, saga.early = True, event.result, event.early
    if saga.phase is SagaStatus.COMPLETED:
        saga.rewinding = ()
    if saga.rollback is not None:
        saga.rollback, saga.broken_off = None, saga.rollback


def _await_rollback(saga: Saga, event: e.RollbackAwaited) -> None:
    phase = _phase(saga, event)
    _keep_pause(saga)
    saga.phase, saga.awaited = phase, event


def _start_rollback(saga: Saga, event: e.RollbackStarted) -> None:
    saga.phase = _phase(saga, event)
    saga.rollback, saga.deadline_at, saga.top, saga.rewinding = event, event.deadline_at, len(saga.order), ()
    saga.mitigated_by = event.by if event.mitigate else ""
    saga.awaited = saga.still_paused = None
    _walk(saga, again=True)


def _resume_rollback(saga: Saga, event: e.RollbackResumed) -> None:
    saga.phase = _phase(saga, event)
    if event.mitigate:
        saga.mitigated_by = event.by
    saga.deadline_at, saga.top = event.deadline_at, len(saga.order)
    _walk(saga, again=True)


def _pause(saga: Saga, event: e.SagaPaused) -> None:
    saga.phase, saga.paused, saga.still_paused = _phase(saga, event), event, None


def _spend(saga: Saga, event: e.LimitEvent) -> None:
    phase = _phase(saga, event)
    saga.budget = spent(saga.budget, event, saga.head + 1)
    saga.phase = phase


def _resume_work(saga: Saga, event: e.WorkResumed) -> None:
    saga.phase = _phase(saga, event)
    if event.deadline_at:
        rewound.renew(saga, event.deadline_at)
    _walk(saga, again=True)


def _make_checkpoint(saga: Saga, event: e.CheckpointMade) -> None:
    saga.phase = _phase(saga, event)
    rewound.mark(saga, event, saga.head + 1)


def _start_rewind(saga: Saga, event: e.RewindStarted) -> None:
    phase = _phase(saga, event)
    if any(step not in saga.steps for step in event.steps):
        raise _impossible(saga, event, "it names steps that were never proposed")
    _keep_pause(saga)
    saga.phase, saga.awaited = phase, None
    rewound.begin(saga, event, saga.head + 1)
    _regroup(saga, event.steps)
    _walk(saga)


def _end_rewind(saga: Saga, event: e.RewindEnded) -> None:
    phase = _phase(saga, event)
    if all(saga.rewinds[key].begun.place != event.place for key in saga.rewinding):
        raise _impossible(saga, event, "no such rewind is under way")
    saga.phase = phase
    rewound.end(saga, event)


def _halt(saga: Saga, event: e.SagaHalted) -> None:
    saga.phase, saga.awaited, saga.still_paused = _phase(saga, event), None, None


def _settle_family(saga: Saga, event: e.FamilySettled) -> None:
    saga.phase, saga.family_settled = _phase(saga, event), True


def _keep_pause(saga: Saga) -> None:
    """Keep a saga's own pause for when it has gone back; a wider one finds it by itself."""
    if saga.phase is SagaStatus.PAUSED and saga.paused is not None and saga.paused.pause == 0:
        saga.still_paused = saga.paused


def _wait(saga: Saga, event: e.WaitEvent) -> None:
    waits = saga.waits or Waits()
    try:
        fold_wait(waits, event, saga.head + 1)
    except JournalDamagedError as exc:
        raise _impossible(saga, event, str(exc)) from None
    saga.waits = waits


# -- incidents --------------------------------------------------------------------------------------------------------

_Closing: TypeAlias = e.IncidentRetried | e.IncidentResolved


def _open_incident(saga: Saga, event: e.IncidentOpened) -> None:
    named = None if event.step is None else _known(saga, event, event.step)
    opened = Incident(
        number=event.incident, kind=event.kind, step=event.step, why=event.why, left=event.left, owner=event.owner
    )
    saga.incidents = (*saga.incidents, opened)
    if named is not None:
        saga.steps[named.id] = altered(named, named=True)
        _regroup(saga, (named.id,))
        _walk(saga, moved=named.id)


def _note_incident(saga: Saga, event: e.IncidentAssigned | e.IncidentCommented) -> None:
    incident, status = _incident(saga, event)
    owner = event.owner if isinstance(event, e.IncidentAssigned) else incident.owner
    _put_incident(saga, altered(incident, status=status, owner=owner))


def _close_incident(saga: Saga, event: _Closing) -> None:
    incident, status = _incident(saga, event)
    settled = event.settled if isinstance(event, e.IncidentResolved) else ()
    touched = dict.fromkeys((*settled, *(() if incident.step is None else (incident.step,))))
    still_named = {one.step for one in saga.open_incidents if one.number != incident.number}
    steps = [
        _when_closed(saga, event, altered(_known(saga, event, name), named=name in still_named)) for name in touched
    ]
    _put_incident(saga, altered(incident, status=status))
    for step in steps:
        saga.steps[step.id] = step
        saga.top = max(saga.top, step.number if step.owed else 0)
    _regroup(saga, touched)
    _walk(saga, again=True)


def _when_closed(saga: Saga, event: _Closing, step: Step) -> Step:
    """A step that an incident was about, now that a person has seen to it."""
    if isinstance(event, e.IncidentRetried):
        stays_given_up = step.given_up and saga.finished and not step.releasable and not event.repeat
        let_run_by = event.by if event.let_run else step.let_run_by
        return altered(renewed(step, given_up=stays_given_up), let_run_by=let_run_by, repeats=event.repeat)
    return changed(step, event, _next_status(saga, step, event)) if step.id in event.settled else step


def _incident(
    saga: Saga, event: e.IncidentAssigned | e.IncidentCommented | _Closing
) -> tuple[Incident, IncidentStatus]:
    """The incident that a fact is about, and the status that follows."""
    incident = next((one for one in saga.incidents if one.number == event.incident), None)
    status = None if incident is None else INCIDENT[incident.status].get(type(event))
    if incident is None or status is None:
        raise _impossible(saga, event, "no such open incident")
    return incident, status


def _put_incident(saga: Saga, incident: Incident) -> None:
    saga.incidents = tuple(incident if one.number == incident.number else one for one in saga.incidents)


def _regroup(saga: Saga, touched: Iterable[StepId]) -> None:
    for step in map(saga.steps.__getitem__, touched):
        _put(saga.waiting, step.id, is_in=waits(step))
        _put(saga.doubts, step.id, is_in=step.doubtful)
        _put(saga.held, step.id, is_in=step.held)


def _impossible(saga: Saga, event: e.Event, why: str) -> JournalDamagedError:
    return JournalDamagedError(f"saga {saga.id}: {type(event).__name__} cannot follow entry {saga.head} ({why})")


_FOLD: Final[Mapping[type[e.Event], Callable[[Saga, Any], None]]] = {
    **dict.fromkeys(get_args(e.StepEvent | e.ApprovalEvent), _evolve_step),
    e.SagaStarted: _start,
    e.ActionDispatched: _add_step,
    e.StepProposed: _add_step,
    e.StepPlaced: _place_step,
    e.AttemptStarted: _evolve_counted,
    e.AttemptFailed: _evolve_counted,
    e.AttemptLost: _evolve_counted,
    **dict.fromkeys(get_args(e.WaitEvent), _wait),
    e.IncidentOpened: _open_incident,
    e.IncidentAssigned: _note_incident,
    e.IncidentCommented: _note_incident,
    e.IncidentRetried: _close_incident,
    e.IncidentResolved: _close_incident,
    e.WorkFinished: _end_work,
    e.SagaCompleted: _end_work,
    e.RollbackAwaited: _await_rollback,
    e.RollbackStarted: _start_rollback,
    e.RollbackResumed: _resume_rollback,
    e.WorkResumed: _resume_work,
    e.SagaPaused: _pause,
    e.SagaHalted: _halt,
    e.CheckpointMade: _make_checkpoint,
    e.RewindStarted: _start_rewind,
    e.RewindEnded: _end_rewind,
    e.FamilySettled: _settle_family,
    **dict.fromkeys(get_args(e.LimitEvent), _spend),
    **dict.fromkeys((*get_args(e.ControlEvent), e.SagaRolledBack, e.SagaMitigated), _move),
    **dict.fromkeys(get_args(e.RecordEvent), _move),
}
"""By the kind of a fact: the function that adds it to the state."""
