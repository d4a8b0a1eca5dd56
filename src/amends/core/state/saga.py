"""A saga's state: the fold of its events. `evolve` adds one fact, at constant cost; `replay` adds many."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias, assert_never

from amends.core import events as e
from amends.core.state import rewinds as rewound
from amends.core.state.frontier import Frontier, walked_back
from amends.core.state.limits import Budget, begun, spent, stepped, tried
from amends.core.state.pmap import Pmap
from amends.core.state.rewinds import Checkpoint, Rewind
from amends.core.state.step import LIVE, Ahead, SettlingEvent, Step, changed, renewed, waits
from amends.core.state.waits import Wait, Waits, folded
from amends.core.transitions import INCIDENT, NEW_STEP, SAGA, STEP, IncidentStatus, SagaStatus, StepStatus
from amends.core.words.contracts import Contract, Reversibility, Topic
from amends.core.words.values import CALL, PARENT, Json, SagaId, StepId
from amends.dataclass import altered, dataclass, sparse
from amends.errors import JournalDamagedError

__all__ = ["Incident", "Saga", "Step", "evolve", "open_waits", "replay", "unstarted"]

_S = StepStatus
_MAPS: Final = ("contracts", "steps", "order", "live", "waiting", "doubts", "asked", "held", "checkpoints", "rewinds")
_empty: Callable[[], Pmap[Any, Any]] = Pmap


@dataclass(frozen=True, kw_only=True)
class Incident:
    number: int
    kind: e.IncidentKind
    step: StepId | None
    why: str
    left: tuple[StepId, ...]
    status: IncidentStatus = IncidentStatus.OPEN
    owner: str = ""


@dataclass(frozen=True, kw_only=True)
class Saga:
    """`head` is the number of the newest entry. `top` is where the rollback stands: all above it is settled."""

    id: SagaId
    head: int = 0
    phase: SagaStatus = SagaStatus.RUNNING
    begun: e.SagaStarted | None = None
    contracts: Pmap[tuple[Topic, int], Contract]
    steps: Pmap[StepId, Step]
    order: Pmap[int, StepId]
    live: Pmap[StepId, StepStatus]
    """The steps with an attempt on its way, and of which kind."""
    waiting: Pmap[StepId, None]
    doubts: Pmap[StepId, None]
    asked: Pmap[StepId, None]
    """The steps that people were asked about, as long as their answer may still let something happen."""
    held: Pmap[StepId, None]
    """The steps that are released once everything that could fail has passed."""
    checkpoints: Pmap[StepId, Checkpoint]
    """By place; of those with the same name, the newest counts."""
    rewinds: Pmap[StepId, Rewind]
    placed: Pmap[StepId, StepId] | None = None
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

    @property
    def status(self) -> SagaStatus:
        """The status that people see: `waiting` is running with nothing in flight and something to wait for.

        A rewind, too, is seen as rolling back, though the work goes on after it; and so is waiting to begin with that.
        """
        if self.phase is not SagaStatus.RUNNING:
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
        return self.phase is SagaStatus.RUNNING and not self.finished and not self.called_back

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
    # a map of its own each: versions of one map are cheap only for the newest
    return sparse(Saga, id=saga, **{name: _empty() for name in _MAPS})


def replay(saga: SagaId, events: Iterable[e.Event]) -> Saga:
    state = unstarted(saga)
    for event in events:
        state = evolve(state, event)
    return state


def evolve(saga: Saga, event: e.Event) -> Saga:
    """Add one fact. Raises JournalDamagedError for a fact that the tables do not know at this place."""
    if saga.begun is None and not isinstance(event, e.SagaStarted):
        raise _impossible(saga, event, "it has not started")
    match event:
        case e.AttemptSucceeded():
            return _evolve_step(saga, event)
        case e.ActionDispatched() | e.StepProposed():
            return _add_step(saga, event)
        case e.SagaStarted():
            if saga.begun is not None:
                raise _impossible(saga, event, "a second start")
            return altered(saga, head=saga.head + 1, begun=event, budget=begun(event.limits) if event.limits else None)
        case (
            e.IncidentOpened()
            | e.IncidentAssigned()
            | e.IncidentCommented()
            | e.IncidentRetried()
            | e.IncidentResolved()
        ):
            return _evolve_incident(saga, event)
        case (
            e.WorkFinished()
            | e.SagaCompleted()
            | e.RollbackAwaited()
            | e.RollbackStarted()
            | e.RollbackResumed()
            | e.WorkResumed()
            | e.SagaRolledBack()
            | e.SagaMitigated()
            | e.SagaHalted()
            | e.SagaPaused()
            | e.PolicyAdopted()
            | e.DispatchPaused()
            | e.DispatchUnpaused()
            | e.HoldPlaced()
            | e.HoldLifted()
            | e.DrillMissed()
            | e.ContentRemoved()
            | e.CheckpointMade()
            | e.RewindStarted()
            | e.RewindEnded()
            | e.FamilySettled()
        ):
            return _evolve_saga(saga, event)
        case e.BudgetSpent() | e.ChildSpent() | e.LimitReached() | e.LimitRaised():
            return _evolve_saga(saga, event)
        case e.WaitStarted() | e.WaitEnded() | e.SignalReceived():
            return altered(saga, head=saga.head + 1, waits=_waits(saga, event))
        case e.StepPlaced():
            return _place_step(saga, event)
        case e.AttemptFailed() | e.AttemptLost() | e.AttemptStarted() if saga.budget is not None:
            return _evolve_step(_counted(saga, event), event)
        case _:
            return _evolve_step(saga, event)


# -- steps ------------------------------------------------------------------------------------------------------------


def _add_step(saga: Saga, event: e.StepProposed | e.ActionDispatched) -> Saga:
    name = (event.topic, event.version)
    contracts = saga.contracts if event.contract is None else saga.contracts.set(name, event.contract)
    if event.step in saga.steps or name not in contracts:
        raise _impossible(saga, event, f"step {event.step} twice, or without its contract")
    if saga.budget is not None:
        saga = altered(saga, budget=stepped(saga.budget, event.step, event.topic))
    status = NEW_STEP[type(event)]
    made: dict[str, object] = {
        "id": event.step,
        "contract": contracts[name],
        "args": event.args,
        "digest": event.digest,
        "status": status,
        "after": event.after,
        "entry": saga.head + 1,
    }
    if isinstance(event, e.StepProposed):
        if event.ahead:
            made["ahead"] = Ahead(saga.head + 1)
        return altered(
            saga, head=saga.head + 1, contracts=contracts, steps=saga.steps.set(event.step, sparse(Step, **made))
        )
    number = len(saga.order) + 1
    step = sparse(Step, number=number, attempts=1, **made)
    return altered(
        saga,
        head=saga.head + 1,
        contracts=contracts,
        steps=saga.steps.set(step.id, step),
        order=saga.order.set(number, step.id),
        live=saga.live.set(step.id, status),
        top=number,
    )


def _counted(saga: Saga, event: e.AttemptStarted | e.AttemptFailed | e.AttemptLost) -> Saga:
    """Count an attempt that failed on the way forward, or is not the first, for the budget."""
    failed = not isinstance(event, e.AttemptStarted)
    if saga.budget is None or saga.rollback is not None or (not failed and event.attempt == 1):
        return saga
    return altered(saga, budget=tried(saga.budget, _known(saga, event, event.step).topic, failed=failed))


def _place_step(saga: Saga, event: e.StepPlaced) -> Saga:
    """A step that was asked ahead is done: from here on it is as one that was proposed here."""
    old = _known(saga, event, event.step)
    _next_status(saga, old, event)
    if old.wanted or old.ahead is None:
        raise _impossible(saga, event, f"step {old.id} was not asked ahead, or has its place")
    signers = () if old.approval is None else old.approval.signers
    new = altered(old, entry=saga.head + 1, ahead=Ahead(old.ahead.entry, event.place, signers))
    placed = _empty() if saga.placed is None else saga.placed
    here = altered(saga, steps=saga.steps.set(old.id, new), placed=placed.set(event.place, old.id))
    return _evolve_step(here, event)


def _evolve_step(saga: Saga, event: e.StepEvent | e.ApprovalEvent) -> Saga:
    old = _known(saga, event, event.step)
    new = changed(old, event, _next_status(saga, old, event))
    if new.rewind is not None and new.told is None:
        new = rewound.told_when_over(new)
    held = saga.held
    if new.contract.hold:
        new = altered(new, accepted=new.accepted or (new.status is _S.READY and new.wanted))
        held = _member(held, new.id, is_in=new.held)
    order, top = saga.order, saga.top
    if old.number == 0 and isinstance(event, e.AttemptStarted):
        new = altered(new, number=len(order) + 1)
        order, top = order.set(new.number, new.id), new.number
    elif new.owed and new.number > top:
        top = new.number
    pivot = saga.pivot
    if pivot is None and new.status is _S.SUCCEEDED:
        is_final = new.contract.reversibility is Reversibility.IRREVERSIBLE or new.releasing
        pivot = new.id if is_final else None
    return _walked(
        altered(
            saga,
            head=saga.head + 1,
            steps=saga.steps.set(new.id, new),
            order=order,
            top=top,
            pivot=pivot,
            live=_living(saga.live, new),
            waiting=_member(saga.waiting, new.id, is_in=waits(new)),
            doubts=_member(saga.doubts, new.id, is_in=new.doubtful),
            held=held,
            asked=_member(saga.asked, new.id, is_in=new.approval is not None and new.approval.unsettled),
        ),
        again=isinstance(event, e.LateSuccessEnrolled | e.LateLossEnrolled),
        moved=new.id,
    )


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


def _member(group: Pmap[StepId, None], step: StepId, *, is_in: bool) -> Pmap[StepId, None]:
    if is_in == (step in group):
        return group
    return group.set(step, None) if is_in else group.drop(step)


def _living(live: Pmap[StepId, StepStatus], step: Step) -> Pmap[StepId, StepStatus]:
    return live.set(step.id, step.status) if step.status in LIVE else live.drop(step.id)


def _walked(saga: Saga, *, again: bool = False, moved: StepId | None = None) -> Saga:
    """Move the rollback's place, or a rewind's, down past everything that is not owed."""
    if saga.phase is SagaStatus.ROLLING_BACK:
        return walked_back(saga, again=again, moved=moved)
    return rewound.walked(saga, again=again) if saga.rewinding else saga


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
    | e.PolicyAdopted
    | e.ControlEvent
    | e.ContentRemoved
    | e.CheckpointMade
    | e.RewindStarted
    | e.RewindEnded
    | e.FamilySettled
    | e.LimitEvent
)


def _evolve_saga(saga: Saga, event: _SagaMoved) -> Saga:
    phase = SAGA[saga.phase].get(type(event))
    if phase is None:
        raise _impossible(saga, event, f"the saga is {saga.phase}")
    moved = altered(saga, head=saga.head + 1, phase=phase)
    match event:
        case e.WorkFinished(result=result, early=early) | e.SagaCompleted(result=result, early=early):
            rewinding = () if phase is SagaStatus.COMPLETED else saga.rewinding
            over = altered(rewound.gives_up(moved), finished=True, result=result, early=early, rewinding=rewinding)
            return over if saga.rollback is None else altered(over, rollback=None, broken_off=saga.rollback)
        case e.RollbackAwaited():
            return _still_paused(saga, altered(moved, awaited=event))
        case e.RollbackStarted(deadline_at=deadline_at):
            gone = altered(moved, rollback=event, deadline_at=deadline_at, top=len(saga.order), rewinding=())
            gone = altered(gone, mitigated_by=event.by if event.mitigate else "")
            gone = altered(gone, awaited=None, still_paused=None)
            return _walked(gone, again=True)
        case e.RollbackResumed(deadline_at=deadline_at):
            moved = altered(moved, mitigated_by=event.by) if event.mitigate else moved
            return _walked(altered(moved, deadline_at=deadline_at, top=len(saga.order)), again=True)
        case e.SagaPaused():
            return altered(moved, paused=event, still_paused=None)
        case e.BudgetSpent() | e.ChildSpent() | e.LimitReached() | e.LimitRaised():
            return altered(moved, budget=spent(saga.budget, event, moved.head))
        case e.WorkResumed(deadline_at=deadline_at):
            return _walked(rewound.renewed(moved, deadline_at) if deadline_at else moved, again=True)
        case e.CheckpointMade():
            return rewound.mark(moved, event)
        case e.RewindStarted(steps=steps):
            if any(step not in saga.steps for step in steps):
                raise _impossible(saga, event, "it names steps that were never proposed")
            begun = _still_paused(saga, moved if saga.awaited is None else altered(moved, awaited=None))
            return _walked(_regrouped(rewound.begin(begun, event), event.steps))
        case e.RewindEnded(place=place):
            if all(saga.rewinds[key].begun.place != place for key in saga.rewinding):
                raise _impossible(saga, event, "no such rewind is under way")
            return rewound.end(moved, event)
        case e.SagaHalted():
            return altered(moved, awaited=None, still_paused=None)
        case e.FamilySettled():
            return altered(moved, family_settled=True)
        case e.SagaRolledBack() | e.SagaMitigated() | e.PolicyAdopted() | e.ContentRemoved():
            return moved
        case e.DispatchPaused() | e.DispatchUnpaused() | e.HoldPlaced() | e.HoldLifted() | e.DrillMissed():
            return moved
        case _:
            assert_never(event)


def _still_paused(before: Saga, moved: Saga) -> Saga:
    """Keep a saga's own pause for when it has gone back; a wider one finds it by itself."""
    own = before.phase is SagaStatus.PAUSED and before.paused is not None and before.paused.pause == 0
    return altered(moved, still_paused=before.paused) if own else moved


def _waits(saga: Saga, event: e.WaitEvent) -> Waits:
    try:
        return folded(saga.waits, event, saga.head + 1)
    except JournalDamagedError as exc:
        raise _impossible(saga, event, str(exc)) from None


def _evolve_incident(saga: Saga, event: e.IncidentEvent) -> Saga:
    if isinstance(event, e.IncidentOpened):
        return _open_incident(saga, event)
    incident = next((one for one in saga.incidents if one.number == event.incident), None)
    status = None if incident is None else INCIDENT[incident.status].get(type(event))
    if incident is None or status is None:
        raise _impossible(saga, event, "no such open incident")
    owner = event.owner if isinstance(event, e.IncidentAssigned) else incident.owner
    incidents = tuple(altered(one, status=status, owner=owner) if one is incident else one for one in saga.incidents)
    if isinstance(event, e.IncidentAssigned | e.IncidentCommented):
        return altered(saga, head=saga.head + 1, incidents=incidents)
    closed = altered(saga, head=saga.head + 1, incidents=incidents)
    still_named = {one.step for one in closed.open_incidents}
    settled = event.settled if isinstance(event, e.IncidentResolved) else ()
    touched = dict.fromkeys((*settled, *(() if incident.step is None else (incident.step,))))
    steps, top = saga.steps, saga.top
    for name in touched:
        step = altered(_known(saga, event, name), named=name in still_named)
        if isinstance(event, e.IncidentRetried):
            let_run_by = event.by if event.let_run else step.let_run_by
            stays_given_up = step.given_up and saga.finished and not step.releasable and not event.repeat
            step = altered(renewed(step, given_up=stays_given_up), let_run_by=let_run_by, repeats=event.repeat)
        elif name in settled:
            step = changed(step, event, _next_status(saga, step, event))
        steps, top = steps.set(name, step), max(top, step.number if step.owed else 0)
    return _walked(_regrouped(altered(closed, steps=steps, top=top), touched), again=True)


def _open_incident(saga: Saga, event: e.IncidentOpened) -> Saga:
    opened = Incident(
        number=event.incident, kind=event.kind, step=event.step, why=event.why, left=event.left, owner=event.owner
    )
    halting = altered(saga, head=saga.head + 1, incidents=(*saga.incidents, opened))
    if event.step is None:
        return halting
    named = altered(_known(saga, event, event.step), named=True)
    return _walked(_regrouped(altered(halting, steps=saga.steps.set(named.id, named)), (named.id,)), moved=named.id)


def _regrouped(saga: Saga, touched: Iterable[StepId]) -> Saga:
    waiting, doubts, held = saga.waiting, saga.doubts, saga.held
    for step in map(saga.steps.__getitem__, touched):
        waiting = _member(waiting, step.id, is_in=waits(step))
        doubts = _member(doubts, step.id, is_in=step.doubtful)
        held = _member(held, step.id, is_in=step.held)
    return altered(saga, waiting=waiting, doubts=doubts, held=held)


def _impossible(saga: Saga, event: e.Event, why: str) -> JournalDamagedError:
    return JournalDamagedError(f"saga {saga.id}: {type(event).__name__} cannot follow entry {saga.head} ({why})")
