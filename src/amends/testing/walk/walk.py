"""Legal histories, made by walking the core's own tables against a small model of the world.

Histories that are drawn at random and thrown away when illegal rarely come near the rare places. A walk only ever
asks what is due (`forward`, `plan`), does it, and tells the core (`decide`, `evolve`); chance decides how calls
end, what the world did meanwhile, when the process crashes, and what people ask for. So every history is legal.

The world's side of each step is a `Truth`. What holds there, and makes the ledger's rules provable:
- a call that ends well took effect; one that failed did not; a lost one did, or did not, or **hangs** and may later;
- a late effect is always reported in the end (a thread that ends, a worker that wakes up), perhaps long after;
- a probe tells the truth about now; where the action is not idempotent, "nothing" is also the truth about later;
- a provider honours the keys of idempotent actions and of compensations: the second call with a key changes nothing,
  even where the first found nothing to do. A compensation takes back what stands, and nothing where nothing stands;
- a person who has an unrepeatable action tried again has looked first.

`Walk(Tape.seeded(7)).run()` is one history; `tapes()` is a Hypothesis strategy whose examples shrink.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from amends.core import commands as c
from amends.core.decide import decide
from amends.core.effects import (
    Await,
    CallPerson,
    Compensate,
    Effect,
    End,
    Expire,
    GiveUp,
    Judge,
    Mitigate,
    Perform,
    Probe,
    Queue,
    Release,
    Settle,
    TurnBack,
    Wait,
)
from amends.core.events import ActionDispatched, AttemptStarted, Cause, CompensationStarted, Event, MitigationStarted
from amends.core.plan import forward, plan
from amends.core.state.saga import Incident, Saga, Step, evolve, unstarted
from amends.core.transitions import SagaStatus, StepStatus
from amends.core.words.outcomes import Answer, Found, FoundNothing, Lost, NoAnswer, Succeeded
from amends.core.words.values import SagaId, StepId
from amends.errors import RefusedError
from amends.testing.walk import rewinds
from amends.testing.walk.choices import (
    ALLOW,
    ASK,
    CALM,
    DENY,
    OUTCOMES,
    UNDO_OUTCOMES,
    WINDOWS_S,
    AcceptedCommand,
    Tape,
    Truth,
    any_contract,
    ends_of_queue,
    throttled,
    ways_into_queue,
)
from amends.testing.walk.limits import START, keeping_limits, raisings, spendings, started
from amends.testing.walk.waits import some_ended, stops, unpause, wait_moves, would_repeat_blindly

_G, _S = SagaStatus, StepStatus
_SAGA: Final = SagaId("saga")
_WINDOW_S: Final = 900.0
_JITTER: Final = 0.5
Move = Callable[[], object]


@dataclass(slots=True)
class Walk:
    """One saga, its world and its driver, a move at a time. `watch` sees each accepted command."""

    tape: Tape
    id: SagaId = _SAGA
    most_steps: int = 5
    most_moves: int = 400
    watch: Callable[[Walk, AcceptedCommand], None] | None = None
    saga: Saga = field(init=False)
    now: int = START
    events: list[Event] = field(default_factory=list[Event])
    truths: dict[StepId, Truth] = field(default_factory=dict[StepId, Truth])
    keys: dict[StepId, str] = field(default_factory=dict[StepId, str])
    undo_keys: dict[StepId, str] = field(default_factory=dict[StepId, str])
    told_over: frozenset[StepId] = frozenset()
    calm: tuple[int, int, int] = (0, 0, 0)
    idles: bool = False
    """Whether anybody waits or pauses in this one: moves that are open to every walk make all others rare."""
    graph: bool = False
    raced: bool = True
    moves: int = 0
    refused: int = 0

    def __post_init__(self) -> None:
        self.saga = unstarted(self.id)
        self.calm = self.tape.pick(CALM)
        self.idles, self.graph = self.tape.once_in(4), self.tape.once_in(3)
        self.tell(started(self))

    # -- the whole ----------------------------------------------------------------------------------------------------

    def run(self) -> Walk:
        """Move until nothing is due and nobody asks for anything."""
        while self.moves < self.most_moves and self.move():
            pass
        return self

    def move(self) -> bool:
        """One move; False at the end of the history."""
        self.moves += 1
        due = self.due()
        strange = [*(*self._landings(), *self._reports()) * 3, *self._crashes()]
        if strange and self.tape.once_in(self.calm[0]):
            due = strange
        elif self.tape.once_in(self.calm[1]) if due else self.tape.pick(range(4)):
            due = self._people()
        if due:
            self.tape.pick(due)()
        return bool(due)

    def ask(self) -> None:
        """Someone asks for something, where there is anything to ask for."""
        if people := self._people():
            self.tape.pick(people)()

    def settle(self, most: int = 2_000) -> int:
        """Do all that is due, without new requests, and let every late effect report.

        Says how many moves that took. Raises AssertionError past `most`: a plan that goes round in circles.
        """
        self.raced = False
        unpause(self)
        for taken in range(most):
            moves = [*self._due_back(), *self._reports()]
            if not moves and not unpause(self):  # one that had gone back to a place is paused there again
                return taken
            if not moves:
                continue
            self.tape.pick([*moves, moves[0], *self._landings(), *self._crashes()])()
        raise AssertionError(f"{most} moves, and still {plan(self.saga, self.now)} is due")

    def fork(self) -> Walk:
        """A walk with the same saga and world, to be led elsewhere; this walk is not changed by it."""
        other = copy(self)
        other.saga = self.saga.copy()
        other.tape, other.events = self.tape.fork(), list(self.events)
        other.keys, other.undo_keys = dict(self.keys), dict(self.undo_keys)
        other.truths = {step: replace(truth) for step, truth in self.truths.items()}
        return other

    def tell(self, command: c.Command, window_s: float = _WINDOW_S) -> bool:
        """Have a command decided and folded. False where it is refused, and then nothing has changed."""
        before = self.saga if self.watch is None else self.saga.copy()
        try:
            events = decide(self.saga, command, c.Moment(self.now, _JITTER, window_s))
        except RefusedError:
            self.refused += 1
            return False
        for event in events:
            self._note(event)
            evolve(self.saga, event)
        self.events.extend(events)
        if self.watch is not None:
            self.watch(self, AcceptedCommand(before, command, events, self.saga))
        return True

    def _note(self, event: Event) -> None:
        match event:
            case AttemptStarted(step=step, key=key) | ActionDispatched(step=step, key=key):
                self.keys[step] = key
            case CompensationStarted(step=step, key=key) | MitigationStarted(step=step, key=key):
                self.undo_keys[step] = key
            case _:
                pass

    # -- what may come next -------------------------------------------------------------------------------------------

    def due(self) -> list[Move]:
        """Moves that the driver of this saga would make now."""
        if self.saga.works:
            return self._due_forward()
        return self._due_back()

    def _due_forward(self) -> list[Move]:
        steps = [step for step in self.saga.steps.values() if step.id not in self.told_over and not step.forgotten]
        moves: list[Move] = [*map(self._ends, self.saga.live), *rewinds.due(self)]
        for step in steps:
            effect = forward(step, self.now)
            if effect is not None and not (step.contract.hold and isinstance(effect, Perform)):
                moves.append(partial(self._raced, partial(self._go, step, effect)))
        moves += [partial(self._raced, spending) for spending in spendings(self)]
        if len(self.saga.steps) < self.most_steps:
            moves = [*moves, *[partial(self._raced, partial(keeping_limits, self, self.propose))] * 3]
        moves += rewinds.asked(self)
        if not moves or self.tape.once_in(60):
            moves = [partial(self._raced, partial(self.tell, c.FinishWork(result=None)))]
        return moves

    def _due_back(self) -> list[Move]:
        moves: list[Move] = []
        for effect in plan(self.saga, self.now):
            if isinstance(effect, Settle):
                moves += [self._ends(step) for step in effect.steps]
            else:
                moves.append(partial(self._raced, partial(self.walk_back, effect)))
        if moves and self.saga.phase is _G.ROLLING_BACK:  # those of other branches come to their end meanwhile
            moves += [self._ends(step) for step in self.saga.live]
        return moves

    def _landings(self) -> list[Move]:
        return [partial(self._land, step) for step, truth in self.truths.items() if truth.hanging]

    def _reports(self) -> list[Move]:
        return [partial(self._report, step) for step, truth in self.truths.items() if truth.landed]

    def _crashes(self) -> list[Move]:
        return [self.crash] if self.saga.live else []

    def _people(self) -> list[Move]:
        asked: list[Move] = [] if self.saga.phase.has_gone_back else [self.cancel]
        if self.saga.pivot is not None and asked:
            asked.append(self.mitigate)
        for incident in self.saga.open_incidents:
            asked += [partial(self.retry, incident), partial(self.resolve, incident)]
        if self.saga.phase is _G.RUNNING:
            asked += [self.fail, *stops(self)]
        return [*asked, *(wait_moves(self) if self.idles else ()), *rewinds.people(self), *raisings(self)]

    def _raced(self, move: Move) -> None:
        """Someone else's request may come first: the driver's own is then decided on top of it."""
        if self.raced and self.tape.once_in(self.calm[1]):
            self.ask()
        move()

    # -- forward ------------------------------------------------------------------------------------------------------

    def propose(self) -> None:
        step = StepId(str(len(self.saga.steps) + 1))
        contract = any_contract(self.tape, step)
        self.truths[step] = Truth(idempotent=contract.repeatable)
        after = some_ended(self) if self.graph and not self.tape.once_in(6) else None
        if self.tape.once_in(2) and not contract.before and not contract.hold:
            self.tell(c.DispatchStep(step=step, contract=contract, args={}, digest="", verdict=ALLOW, after=after))
        else:
            ahead = self.tape.once_in(8)
            self.tell(c.ProposeStep(step=step, contract=contract, args={}, digest="", after=after, ahead=ahead))

    def _go(self, step: Step, effect: Effect) -> None:
        match effect:
            case Judge() if not step.wanted and step.approval is not None:
                self.tell(c.PlaceStep(step=step.id, place=StepId(f"{step.id}.at")))
            case Judge() if step.throttle is None and self.tape.once_in(8):
                self.tell(throttled(step, self.now))
            case Judge():
                verdict = DENY if self.tape.once_in(8) else ASK if self.tape.once_in(3) else ALLOW
                self.tell(c.RecordVerdict(step=step.id, verdict=verdict, ahead=self.tape.once_in(8)))
            case Await(until=until):
                self._answer(step.id, until)
            case Expire():
                self.tell(c.ExpireApproval(step=step.id))
            case Queue():
                self.tell(self.tape.pick(ends_of_queue(step)))
            case Perform() if not step.wanted:
                self.tell(c.PlaceStep(step=step.id, place=StepId(f"{step.id}.at")))
            case Perform() if step.number == 0 and not step.held and self.tape.once_in(6):
                self.tell(self.tape.pick([*ways_into_queue(step, self.now), throttled(step, self.now)]))
            case Perform():
                if step.contract.before and step.number == 0:
                    self.tell(c.KeepBefore(step=step.id, before={}))
                self._start(step)
            case Probe():
                self._ask(step.id)
            case Wait(until=until):
                self.now = max(self.now, until)
            case GiveUp():
                self.told_over |= {step.id}
                if self.tape.once_in(2):
                    self.fail(Cause.LOST, step.id)
            case Compensate() | Mitigate() | Settle() | Release() | TurnBack() | CallPerson() | End():
                raise AssertionError(f"{effect} is never due for a step that goes forward")

    def _start(self, step: Step) -> None:
        """An approved step starts as what was approved; now and then too late, or as something else."""
        approval = step.approval
        if approval is None or not approval.unsettled:
            self.tell(c.StartAttempt(step=step.id))
            return
        if self.tape.once_in(6):
            self.now = max(self.now, approval.expires_at)
        if self.tape.once_in(8):
            self.tell(c.RecordVerdict(step=step.id, verdict=DENY))
            return
        policy = "another" if self.tape.once_in(6) else approval.policy
        self.tell(c.StartAttempt(step=step.id, policy=policy))

    def _answer(self, step: StepId, until: int) -> None:
        chance = self.tape.pick(("grant", "grant", "grant", "refuse", "wait", "void"))
        if chance == "wait":
            self.now = max(self.now, until)
        elif chance == "void":
            self.tell(c.VoidApproval(step=step, why="another policy"))
        else:
            approval = self.saga.steps[step].approval
            by = f"person:{len(approval.signers) if approval else 0}"
            self.tell(c.AnswerApproval(step=step, by=by, granted=chance == "grant", why=""))

    def _ends(self, step: StepId) -> Move:
        forwards = self.saga.steps[step].status is _S.RUNNING
        return partial(self._end_forward if forwards else self._end_back, step)

    def _end_forward(self, step: StepId) -> None:
        outcome = self.tape.pick(OUTCOMES)
        if isinstance(outcome, Succeeded):
            self.truths[step].take_effect(self.keys[step])
        elif isinstance(outcome, Lost):
            self._lose(step)
        self.tell(c.RecordOutcome(step=step, outcome=outcome))
        if isinstance(outcome, Succeeded) and self.saga.steps[step].contract.before:
            self.tell(c.KeepAfter(step=step, after=None))

    def _lose(self, step: StepId) -> None:
        truth = self.truths[step]
        fate = self.tape.pick(("did not", "did", *("hangs",) * self.calm[2]))
        if fate == "did":
            truth.take_effect(self.keys[step])
        elif fate == "hangs":
            truth.hanging += (self.saga.steps[step].attempts,)

    def _ask(self, step: StepId) -> None:
        truth = self.truths[step]
        answer: Answer = NoAnswer("busy") if self.tape.once_in(3) else Found() if truth.standing else FoundNothing()
        if isinstance(answer, FoundNothing) and not truth.idempotent:
            truth.hanging = ()
        reports = self.saga.steps[step].reports
        self.tell(c.RecordAnswer(step=step, answer=answer, reports=reports))

    def _land(self, step: StepId) -> None:
        truth = self.truths[step]
        attempt, *rest = truth.hanging
        truth.hanging, truth.landed = tuple(rest), (*truth.landed, attempt)
        truth.take_effect(self.keys[step])

    def _report(self, step: StepId) -> None:
        attempt, *rest = self.truths[step].landed
        self.truths[step].landed = tuple(rest)
        outcome = Lost(error="no answer") if self.tape.once_in(2) else Succeeded()
        self.tell(c.EnrolLate(step=step, attempt=attempt, outcome=outcome))

    def walk_back(self, effect: Effect) -> None:
        match effect:
            case Probe(step=step):
                self._ask(step)
            case Compensate(step=step) | Mitigate(step=step) if self._is_held_up(step):
                self.tell(throttled(self.saga.steps[step], self.now))
            case Compensate(step=step, certain=certain):
                verdict = DENY if self.tape.once_in(10) else ASK if self.tape.once_in(8) else ALLOW
                self.tell(c.StartCompensation(step=step, certain=certain, verdict=verdict))
            case Mitigate(step=step):
                verdict = DENY if self.tape.once_in(10) else ASK if self.tape.once_in(8) else ALLOW
                self.tell(c.StartCompensation(step=step, certain=True, verdict=verdict))
            case Wait(until=until):
                self.now = max(self.now, until)
            case CallPerson(kind=kind, step=step, why=why, stops=stops):
                self.tell(c.OpenIncident(kind=kind, step=step, why=why, stops=stops))
            case End():
                self.tell(c.EndSaga())
            case TurnBack():
                self.tell(c.TurnBack(), self.tape.pick(WINDOWS_S))
            case Judge(step=name) | Perform(step=name) | Await(step=name) | Queue(step=name) | Expire(step=name):
                self._go(self.saga.steps[name], effect)
            case _:
                raise AssertionError(f"{effect} is never due here")

    def _is_held_up(self, step: StepId) -> bool:
        return self.saga.steps[step].throttle is None and self.tape.once_in(10)

    def _end_back(self, step: StepId) -> None:
        outcome = self.tape.pick(UNDO_OUTCOMES)
        if isinstance(outcome, Succeeded) or (isinstance(outcome, Lost) and self.tape.once_in(2)):
            self._undo(step)
        self.tell(c.RecordCompensation(step=step, outcome=outcome))

    def _undo(self, step: StepId) -> None:
        mitigates = self.saga.steps[step].status is _S.MITIGATING
        truth, key = self.truths[step], self.undo_keys[step]
        if mitigates:
            truth.mitigate(key)
        else:
            truth.take_back(key)

    # -- from outside -------------------------------------------------------------------------------------------------

    def crash(self) -> None:
        for step in self.saga.live:
            if self.saga.steps[step].status is _S.RUNNING:
                self._lose(step)
            elif self.tape.once_in(2):
                self._undo(step)
        self.now += self.tape.pick((0, 1_000, 60_000))
        self.tell(c.Recover())

    def fail(self, cause: Cause = Cause.ERROR, step: StepId | None = None) -> bool:
        window_s = self.tape.pick(WINDOWS_S)
        return self.tell(c.FailWork(cause=cause, why="it failed", step=step), window_s)

    def cancel(self) -> bool:
        window_s = self.tape.pick(WINDOWS_S)
        return self.tell(c.CancelSaga(by="ann", why="a change of mind"), window_s)

    def mitigate(self) -> bool:
        """A person has it go back past its pivot: from an incident, or from where it is."""
        by, window_s = "person:ann", self.tape.pick(WINDOWS_S)
        if self.saga.open_incidents and self.tape.once_in(2):
            number = self.tape.pick(self.saga.open_incidents).number
            return self.tell(c.RetryIncident(incident=number, by=by, mitigate=True), window_s)
        return self.tell(c.CancelSaga(by=by, why="a change of mind", mitigate=True), window_s)

    def retry(self, incident: Incident) -> bool:
        """A person who looks first does not have a thing done twice that has been done."""
        step = incident.step
        if step is not None and would_repeat_blindly(self.saga, self.saga.steps[step]):
            if self.truths[step].standing:
                return False
            self.truths[step].hanging = ()
        self.told_over -= {step}
        return self.tell(c.RetryIncident(incident=incident.number, by="person:ann", repeat=True))

    def resolve(self, incident: Incident) -> bool:
        """A person sees to it by hand, and vouches; what they leave standing is theirs."""
        return self.tell(c.ResolveIncident(incident=incident.number, by="person:ann", reason="by hand"))
