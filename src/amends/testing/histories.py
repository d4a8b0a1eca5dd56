"""Legal histories, made by walking the core's own tables against a small model of the world.

Histories that are drawn at random and thrown away when illegal rarely come near the rare places. A walk only ever
asks what is due (`forward`, `plan`), does it, and tells the core (`decide`, `evolve`); chance decides how calls
end, what the world did meanwhile, when the process crashes, and what people ask for. So every history is legal, and
none is too strange.

The world's side of each step is a `Truth`. What holds there, and makes the ledger's rules provable:
- a call that ends well took effect; one that failed did not; a lost one did, or did not, or **hangs** and may do so later;
- a late effect is always reported in the end (a thread that ends, a worker that wakes up), perhaps long after;
- a probe tells the truth about now; where the action is not idempotent, "nothing" is also the truth about later;
- a provider honours the keys of idempotent actions and of compensations: the second call with a key changes nothing, even
  where the first found nothing to do. A compensation takes back what stands, and nothing where nothing stands;
- a person who has an unrepeatable action tried again has looked first.

`Walk(Tape.seeded(7)).run()` is one history; `tapes()` is a Hypothesis strategy whose examples shrink.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeVar

from amends.core import commands as c
from amends.core.contracts import Contract, OnIncident, Retries, Reversibility, Topic
from amends.core.decide import decide
from amends.core.effects import CallPerson, Compensate, Effect, End, GiveUp, Judge, Perform, Probe, Settle, Wait
from amends.core.events import ActionDispatched, AttemptStarted, Cause, CompensationStarted, Event, IncidentKind
from amends.core.outcomes import Answer, Failed, Found, FoundNothing, Lost, NoAnswer, Outcome, Succeeded
from amends.core.plan import forward, plan
from amends.core.saga import Incident, Saga, Step, evolve, unstarted
from amends.core.transitions import SagaStatus, StepStatus
from amends.core.values import SagaId, StepId
from amends.core.verdict import Decision, Verdict
from amends.errors import RefusedError

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

_G, _S, _T = SagaStatus, StepStatus, TypeVar("_T")
_LENGTH: Final = 240
_START: Final = 1_700_000_000_000
_WINDOWS_S: Final = (900.0, 900.0, 900.0, 3.0, 0.0)
_ALLOW: Final = Verdict(decision=Decision.ALLOW, rule="allow", policy="p")
_DENY: Final = Verdict(decision=Decision.DENY, rule="deny", policy="p", why="not today")
_OUTCOMES: Final[Sequence[Outcome]] = (
    Succeeded(),
    Succeeded(),
    Lost(error="no answer", timed_out=True),
    Failed(error="not now"),
    Lost(error="the line went dead"),
    Failed(error="not now", after_s=5),
    Lost(error="never", fatal=True),
    Failed(error="never", fatal=True),
)
_UNDO_OUTCOMES: Final[Sequence[Outcome]] = (
    Succeeded(),
    Succeeded(),
    Failed(error="not now"),
    Lost(error="no answer", timed_out=True),
    Lost(error="the line went dead"),
    Failed(error="not now", after_s=3600),
    Failed(error="somebody changed it", changed_since=True),
    Failed(error="never", fatal=True),
)
Move = Callable[[], object]


class Tape:
    """Choices that repeat themselves from run to run; at its end, always the first and simplest option."""

    def __init__(self, choices: bytes) -> None:
        self._choices = choices
        self._at = 0

    @classmethod
    def seeded(cls, seed: int, length: int = _LENGTH) -> Tape:
        return cls(hashlib.shake_256(seed.to_bytes(16)).digest(length))

    def fork(self) -> Tape:
        """Another tape, made from what is left of this one, in another order."""
        left = self._choices[self._at :]
        return Tape(left[::-1]) if any(left) else Tape(b"")

    def __repr__(self) -> str:
        return f"Tape(bytes.fromhex({self._choices.rstrip(bytes(1)).hex()!r}))"

    def pick(self, options: Sequence[_T]) -> _T:
        if self._at >= len(self._choices):
            return options[0]
        self._at += 1
        return options[self._choices[self._at - 1] % len(options)]

    def once_in(self, times: int) -> bool:
        return self.pick(range(times)) == times - 1


def tapes(length: int = _LENGTH) -> SearchStrategy[Tape]:
    """Tapes for Hypothesis, which shrinks them towards the simplest history."""
    from hypothesis import strategies as st

    return st.binary(min_size=length, max_size=length).map(Tape)


@dataclass(slots=True)
class Truth:
    """What the world knows of one step. `standing` is the ledger: how many of its effects are there now."""

    idempotent: bool
    standing: int = 0
    effects: int = 0
    done: frozenset[str] = frozenset()
    undone: frozenset[str] = frozenset()
    hanging: tuple[int, ...] = ()
    landed: tuple[int, ...] = ()

    def take_effect(self, key: str) -> None:
        if not (self.idempotent and key in self.done):
            self.standing += 1
            self.effects += 1
            self.done |= {key}

    def take_back(self, key: str) -> None:
        if key not in self.undone:
            self.standing = 0
            self.undone |= {key}


@dataclass(frozen=True, slots=True)
class Told:
    """A command that was accepted: the saga before and after it, and the facts between."""

    before: Saga
    command: c.Command
    events: tuple[Event, ...]
    after: Saga


@dataclass(slots=True)
class Walk:
    """One saga, its world and its driver, a move at a time. `watch` sees each accepted command."""

    tape: Tape
    id: SagaId = SagaId("saga")
    most_steps: int = 5
    most_moves: int = 400
    watch: Callable[[Walk, Told], None] | None = None
    saga: Saga = field(init=False)
    now: int = _START
    events: list[Event] = field(default_factory=list[Event])
    truths: dict[StepId, Truth] = field(default_factory=dict[StepId, Truth])
    keys: dict[StepId, str] = field(default_factory=dict[StepId, str])
    undo_keys: dict[StepId, str] = field(default_factory=dict[StepId, str])
    told_over: frozenset[StepId] = frozenset()
    moves: int = 0

    def __post_init__(self) -> None:
        self.saga = unstarted(self.id)
        self.tell(c.StartSaga(definition="walk", version=1, input={}, actor="tester", env="test", labels={}))

    # -- the whole ----------------------------------------------------------------------------------------------------

    def run(self) -> Walk:
        """Move until nothing is due and nobody asks for anything."""
        while self.moves < self.most_moves and self.move():
            pass
        return self

    def move(self) -> bool:
        """One move; False at the end of the history."""
        self.moves += 1
        due = self._due()
        strange = [*self._landings(), *self._reports(), *self._crashes()]
        if strange and self.tape.once_in(4):
            due = strange
        elif self.tape.once_in(12 if due else 2):
            due = self._people()
        if due:
            self.tape.pick(due)()
        return bool(due)

    def settle(self, most: int = 2_000) -> int:
        """Do all that is due, without new requests, and let every late effect report; say how many moves that took.

        Raises AssertionError past `most`: a plan that goes round in circles.
        """
        taken = 0
        while moves := [*self._due_back(), *self._reports()]:
            taken += 1
            assert taken <= most, f"{taken} moves, and still {plan(self.saga, self.now)} is due"
            self.tape.pick([*moves, moves[0], *self._landings(), *self._crashes()])()
        return taken

    def fork(self) -> Walk:
        """The same saga and world, to be led elsewhere; this walk is not changed by it."""
        other = copy(self)
        other.tape, other.events = self.tape.fork(), list(self.events)
        other.keys, other.undo_keys = dict(self.keys), dict(self.undo_keys)
        other.truths = {step: replace(truth) for step, truth in self.truths.items()}
        return other

    def tell(self, command: c.Command) -> bool:
        """Have a command decided and folded. False where it is refused, and then nothing has changed."""
        before = self.saga
        try:
            events = decide(before, command)
        except RefusedError:
            return False
        for event in events:
            self._note(event)
            self.saga = evolve(self.saga, event)
        self.events.extend(events)
        if self.watch is not None:
            self.watch(self, Told(before, command, events, self.saga))
        return True

    def _note(self, event: Event) -> None:
        match event:
            case AttemptStarted(step=step, key=key) | ActionDispatched(step=step, key=key):
                self.keys[step] = key
            case CompensationStarted(step=step, key=key):
                self.undo_keys[step] = key
            case _:
                pass

    # -- what may come next -------------------------------------------------------------------------------------------

    def _due(self) -> list[Move]:
        """What the driver of this saga would do now."""
        if self.saga.phase is _G.RUNNING and not self.saga.finished:
            return self._due_forward()
        return self._due_back()

    def _due_forward(self) -> list[Move]:
        steps = [step for step in self.saga.steps.values() if step.id not in self.told_over]
        moves = [*map(self._ends, self.saga.live)]
        for step in steps:
            effect = forward(step, self.now)
            if effect is not None:
                moves.append(lambda step=step, effect=effect: self._raced(lambda: self._go(step, effect)))
        if len(self.saga.steps) < self.most_steps:
            moves = [*moves, *[lambda: self._raced(self.propose)] * 3]
        if not moves or self.tape.once_in(8):
            moves = [lambda: self._raced(lambda: self.tell(c.FinishWork(result=None)))]
        return moves

    def _due_back(self) -> list[Move]:
        effect = plan(self.saga, self.now)
        if effect is None:
            return []
        if isinstance(effect, Settle):
            return [self._ends(step) for step in effect.steps]
        return [lambda: self._raced(lambda: self._walk_back(effect))]

    def _landings(self) -> list[Move]:
        return [lambda step=step: self._land(step) for step, truth in self.truths.items() if truth.hanging]

    def _reports(self) -> list[Move]:
        return [lambda step=step: self._report(step) for step, truth in self.truths.items() if truth.landed]

    def _crashes(self) -> list[Move]:
        return [self.crash] if self.saga.live else []

    def _people(self) -> list[Move]:
        asked: list[Move] = [self.cancel]
        for incident in self.saga.open_incidents:
            asked += [lambda one=incident: self.retry(one), lambda one=incident: self.resolve(one)]
        if self.saga.phase is _G.RUNNING:
            asked += [self.fail, self._diverge]
        return asked

    def _raced(self, move: Move) -> None:
        """Someone else's request may come first: the driver's own is then decided on top of it."""
        if self.tape.once_in(16):
            self.tape.pick(self._people())()
        move()

    # -- forward ------------------------------------------------------------------------------------------------------

    def propose(self) -> None:
        step = StepId(str(len(self.saga.steps) + 1))
        contract = self._contract(step)
        self.truths[step] = Truth(idempotent=contract.repeatable)
        if self.tape.once_in(2) and not contract.before:
            self.tell(c.DispatchStep(step=step, contract=contract, args={}, digest="", verdict=_ALLOW))
        else:
            self.tell(c.ProposeStep(step=step, contract=contract, args={}, digest=""))

    def _contract(self, step: StepId) -> Contract:
        pick = self.tape.pick
        side_effect = not self.tape.once_in(8)
        kinds = [Reversibility.COMPENSATABLE, *Reversibility] if side_effect else [Reversibility.REVERSIBLE]
        reversibility = pick(kinds)
        return Contract(
            topic=Topic(f"t{step}"),
            side_effect=side_effect,
            reversibility=reversibility,
            no_rollback="it is so" if reversibility is Reversibility.IRREVERSIBLE else None,
            idempotent=pick([False, True]),
            atomic=pick([False, True]),
            probe=pick([False, True]),
            before=self.tape.once_in(6),
            retries=Retries(attempts=pick([3, 2, 1])),
            undo_retries=Retries(attempts=pick([2, 1])),
            on_incident=pick([*OnIncident]),
        )

    def _go(self, step: Step, effect: Effect) -> None:
        match effect:
            case Judge():
                self.tell(c.RecordVerdict(step=step.id, verdict=_DENY if self.tape.once_in(8) else _ALLOW))
            case Perform():
                if step.contract.before and step.number == 0:
                    self.tell(c.KeepBefore(step=step.id, before={}))
                self.tell(c.StartAttempt(step=step.id))
            case Probe():
                self._ask(step.id)
            case Wait(until=until):
                self.now = max(self.now, until)
            case GiveUp():
                self.told_over |= {step.id}
                if self.tape.once_in(2):
                    self.fail(Cause.LOST, step.id)
            case Compensate() | Settle() | CallPerson() | End():
                raise AssertionError(f"{effect} is never due for a step that goes forward")

    def _ends(self, step: StepId) -> Move:
        going_back = self.saga.steps[step].status is not _S.RUNNING
        return lambda: self._end_back(step) if going_back else self._end_forward(step)

    def _end_forward(self, step: StepId) -> None:
        outcome: Outcome = self.tape.pick(_OUTCOMES)
        if isinstance(outcome, Succeeded):
            self.truths[step].take_effect(self.keys[step])
        elif isinstance(outcome, Lost):
            self._lose(step)
        self.tell(c.RecordOutcome(step=step, outcome=outcome, now=self.now, jitter=0.5))

    def _lose(self, step: StepId) -> None:
        truth = self.truths[step]
        fate = self.tape.pick(("did not", "did", "hangs"))
        if fate == "did":
            truth.take_effect(self.keys[step])
        elif fate == "hangs":
            truth.hanging += (self.saga.steps[step].attempts,)

    def _ask(self, step: StepId) -> None:
        truth = self.truths[step]
        answer: Answer = NoAnswer("busy") if self.tape.once_in(3) else Found() if truth.standing else FoundNothing()
        if isinstance(answer, FoundNothing) and not truth.idempotent:
            truth.hanging = ()
        self.tell(c.RecordAnswer(step=step, answer=answer, now=self.now, jitter=0.5))

    def _land(self, step: StepId) -> None:
        truth = self.truths[step]
        attempt, *rest = truth.hanging
        truth.hanging, truth.landed = tuple(rest), (*truth.landed, attempt)
        truth.take_effect(self.keys[step])

    def _report(self, step: StepId) -> None:
        attempt, *rest = self.truths[step].landed
        self.truths[step].landed = tuple(rest)
        self.tell(c.EnrolLateSuccess(step=step, attempt=attempt, result=None, now=self.now, window_s=900))

    # -- backward -----------------------------------------------------------------------------------------------------

    def _walk_back(self, effect: Effect) -> None:
        match effect:
            case Probe(step=step):
                self._ask(step)
            case Compensate(step=step, certain=certain):
                verdict = _DENY if self.tape.once_in(10) else _ALLOW
                self.tell(c.StartCompensation(step=step, certain=certain, verdict=verdict))
            case Wait(until=until):
                self.now = max(self.now, until)
            case CallPerson(kind=kind, step=step, why=why):
                self.tell(c.OpenIncident(kind=kind, step=step, why=why))
            case End():
                self.tell(c.EndSaga())
            case GiveUp() | Judge() | Perform() | Settle():
                raise AssertionError(f"{effect} is never due here")

    def _end_back(self, step: StepId) -> None:
        outcome: Outcome = self.tape.pick(_UNDO_OUTCOMES)
        if isinstance(outcome, Succeeded) or (isinstance(outcome, Lost) and self.tape.once_in(2)):
            self.truths[step].take_back(self.undo_keys[step])
        self.tell(c.RecordCompensation(step=step, outcome=outcome, now=self.now, jitter=0.5))

    # -- from outside -------------------------------------------------------------------------------------------------

    def crash(self) -> None:
        for step in self.saga.live:
            if self.saga.steps[step].status is _S.RUNNING:
                self._lose(step)
            elif self.tape.once_in(2):
                self.truths[step].take_back(self.undo_keys[step])
        self.now += self.tape.pick((0, 1_000, 60_000))
        self.tell(c.Recover(now=self.now, jitter=0.5))

    def fail(self, cause: Cause = Cause.ERROR, step: StepId | None = None) -> bool:
        window_s = self.tape.pick(_WINDOWS_S)
        return self.tell(c.FailWork(cause=cause, why="it failed", step=step, now=self.now, window_s=window_s))

    def cancel(self) -> bool:
        window_s = self.tape.pick(_WINDOWS_S)
        return self.tell(c.CancelSaga(by="ann", why="a change of mind", now=self.now, window_s=window_s))

    def _diverge(self) -> None:
        self.tell(c.OpenIncident(kind=IncidentKind.DIVERGED, step=None, why="the code has changed"))

    def retry(self, incident: Incident) -> bool:
        """A person who looks first does not have a thing done twice that has been done."""
        step = incident.step
        if step is not None and self._would_repeat_blindly(self.saga.steps[step]):
            if self.truths[step].standing:
                return False
            self.truths[step].hanging = ()
        accepted = self.tell(c.RetryIncident(incident=incident.number, by="ann", now=self.now, window_s=900))
        if accepted and step is not None:
            self.told_over -= {step}
        return accepted

    def _would_repeat_blindly(self, step: Step) -> bool:
        forwards = self.saga.rollback is None and not self.saga.finished
        return forwards and not step.contract.repeatable and not step.contract.probe

    def resolve(self, incident: Incident) -> bool:
        """A person sees to it by hand, and vouches; what they leave standing is theirs."""
        return self.tell(
            c.ResolveIncident(incident=incident.number, by="ann", reason="by hand", now=self.now, window_s=900)
        )
