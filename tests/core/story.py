"""Words for telling a saga's history in a test: each line is a request, decided and folded as the runtime would."""

from __future__ import annotations

from typing import Any, Final

import pytest

from amends.core import commands as c, events as e
from amends.core.decide import decide
from amends.core.effects import Effect
from amends.core.plan import PROBE_TRIES, forward, plan
from amends.core.state.saga import Incident, Saga, Step, evolve, unstarted
from amends.core.transitions import SagaStatus, StepStatus
from amends.core.words.contracts import Contract, OnIncident, Retries, Reversibility, Topic
from amends.core.words.outcomes import Answer, Lost, NoAnswer, Outcome, Succeeded
from amends.core.words.values import Json, SagaId, StepId
from amends.core.words.verdict import Decision, Verdict
from amends.errors import AmendsError, RefusedError

NOW: Final = 1_700_000_000_000
WINDOW_S: Final = 900.0
ALLOW: Final = Verdict(decision=Decision.ALLOW, rule="r", policy="p")
DENY: Final = Verdict(decision=Decision.DENY, rule="r", policy="p", why="not today")
DONE: Final = Succeeded("done")
LOST: Final = Lost(error="no answer")

FLIGHT, HOTEL, CAR = map(StepId, ("flight", "hotel", "car"))


def contract(topic: str = "act", **promises: Any) -> Contract:
    """Compensatable, and tried twice, unless it is said otherwise."""
    kind = promises.pop("reversibility", Reversibility.COMPENSATABLE)
    retries, undo_retries = promises.pop("attempts", 2), promises.pop("undo_attempts", 2)
    return Contract(
        topic=Topic(topic),
        reversibility=kind,
        no_rollback="it cannot be unsent" if kind is Reversibility.IRREVERSIBLE else None,
        retries=Retries(attempts=retries),
        undo_retries=Retries(attempts=undo_retries),
        **promises,
    )


ACT: Final = contract()
PROBED: Final = contract("act.probed", probe=True)
IDEMPOTENT: Final = contract("act.idempotent", idempotent=True)
UNDECLARED: Final = contract("act.undeclared", reversibility=Reversibility.UNDECLARED)
PIVOT: Final = contract("act.pivot", reversibility=Reversibility.IRREVERSIBLE)
READ: Final = contract("act.read", side_effect=False, reversibility=Reversibility.REVERSIBLE)
GOES_ON: Final = contract("act.goes_on", on_incident=OnIncident.GO_ON, undo_attempts=1)


def start() -> c.StartSaga:
    return c.StartSaga(definition="trip", version=1, input={}, actor="ann", env="test", labels={})


class Story:
    """`facts` are those of the last request. Each word returns the story, so that they can be strung together."""

    def __init__(self, *, started: bool = True) -> None:
        self.saga: Saga = unstarted(SagaId("s1"))
        self.facts: tuple[e.Event, ...] = ()
        self.events: list[e.Event] = []
        self.now = NOW
        if started:
            self.tell(start())

    def tell(
        self, command: c.Command, *, now: int | None = None, jitter: float = 0, window_s: float = WINDOW_S
    ) -> Story:
        self.facts = decide(self.saga, command, c.Moment(self.now if now is None else now, jitter, window_s))
        for fact in self.facts:
            self.saga = evolve(self.saga, fact)
        self.events.extend(self.facts)
        return self

    def refuses(
        self, command: c.Command, says: str, kind: type[AmendsError] = RefusedError, *, now: int | None = None
    ) -> None:
        with pytest.raises(kind, match=says):
            decide(self.saga, command, c.Moment(self.now if now is None else now, 0, WINDOW_S))

    # -- what can be seen ---------------------------------------------------------------------------------------------

    def due(self) -> Effect | None:
        """The only thing that is."""
        effects = self.all_due()
        assert len(effects) <= 1
        return effects[0] if effects else None

    def all_due(self) -> tuple[Effect, ...]:
        return plan(self.saga, self.now)

    def needs(self, step: StepId) -> Effect | None:
        return forward(self.step(step), self.now)

    def step(self, step: StepId) -> Step:
        return self.saga.steps[step]

    def status(self, step: StepId) -> StepStatus:
        return self.step(step).status

    @property
    def phase(self) -> SagaStatus:
        return self.saga.phase

    @property
    def incident(self) -> Incident:
        """The only open one."""
        (incident,) = self.saga.open_incidents
        return incident

    def later(self, seconds: float) -> Story:
        self.now += round(seconds * 1000)
        return self

    # -- forward ------------------------------------------------------------------------------------------------------

    def begins(self, step: StepId, promised: Contract = ACT) -> Story:
        """Its first intent."""
        return self.tell(c.DispatchStep(step=step, contract=promised, args={}, digest="d", verdict=ALLOW))

    def proposes(self, step: StepId, promised: Contract = ACT) -> Story:
        return self.tell(c.ProposeStep(step=step, contract=promised, args={}, digest="d"))

    def judges(self, step: StepId, verdict: Verdict = ALLOW) -> Story:
        return self.tell(c.RecordVerdict(step=step, verdict=verdict))

    def tries(self, step: StepId) -> Story:
        return self.tell(c.StartAttempt(step=step))

    def ends(self, step: StepId, outcome: Outcome, jitter: float = 0) -> Story:
        return self.tell(c.RecordOutcome(step=step, outcome=outcome), jitter=jitter)

    def hears(self, step: StepId, answer: Answer, reports: int | None = None) -> Story:
        """`reports`: how many late ones were on record when the question was put; those that are now, if not given."""
        known = self.step(step).reports if reports is None else reports
        return self.tell(c.RecordAnswer(step=step, answer=answer, reports=known))

    def does(self, step: StepId, promised: Contract = ACT, outcome: Outcome = DONE) -> Story:
        """A whole first attempt."""
        return self.begins(step, promised).ends(step, outcome)

    def lands(self, step: StepId, attempt: int = 1, result: Json = "late") -> Story:
        return self.ends_late(step, Succeeded(result), attempt)

    def ends_late(self, step: StepId, outcome: Succeeded | Lost, attempt: int = 1) -> Story:
        return self.tell(c.EnrolLate(step=step, attempt=attempt, outcome=outcome))

    def finishes(self, result: Json = "all") -> Story:
        return self.tell(c.FinishWork(result=result))

    # -- back ---------------------------------------------------------------------------------------------------------

    def fails(self, step: StepId | None = None, window_s: float = WINDOW_S) -> Story:
        return self.tell(c.FailWork(cause=e.Cause.FATAL, why="boom", step=step), window_s=window_s)

    def cancels(self, window_s: float = WINDOW_S) -> Story:
        return self.tell(c.CancelSaga(by="person:bob", why="rain"), window_s=window_s)

    def starts_back(self, step: StepId, *, certain: bool = True, verdict: Verdict = ALLOW) -> Story:
        return self.tell(c.StartCompensation(step=step, certain=certain, verdict=verdict))

    def ends_back(self, step: StepId, outcome: Outcome = DONE) -> Story:
        return self.tell(c.RecordCompensation(step=step, outcome=outcome))

    def takes_back(self, step: StepId, outcome: Outcome = DONE) -> Story:
        """A whole attempt to compensate."""
        return self.starts_back(step).ends_back(step, outcome)

    def calls_person(self, step: StepId) -> Story:
        return self.tell(c.OpenIncident(kind=e.IncidentKind.COMPENSATION_FAILED, step=step, why="it does not work"))

    def diverges(self) -> Story:
        return self.tell(c.OpenIncident(kind=e.IncidentKind.DIVERGED, step=None, why="the code has changed"))

    def retries(self, incident: int = 1) -> Story:
        return self.tell(c.RetryIncident(incident=incident, by="person:ann"))

    def resolves(self, incident: int = 1, reason: str = "by hand") -> Story:
        return self.tell(c.ResolveIncident(incident=incident, by="person:ann", reason=reason))

    def crashes(self) -> Story:
        return self.tell(c.Recover())

    def comes_to_its_end(self) -> Story:
        return self.tell(c.EndSaga())

    def fails_to_answer(self, step: StepId) -> Story:
        """Its probe is asked as often as it may be, to no avail."""
        for _ in range(PROBE_TRIES):
            self.hears(step, NoAnswer("busy")).later(2)
        return self
