"""What a gate was asked can be told from the journal alone: the same facts, the same verdicts."""

import asyncio
import dataclasses

import pytest

from amends import (
    Coordinator,
    Fatal,
    Registry,
    SagaDefinition,
    SagaStatus,
    Secret,
    Settings,
    StepDeniedError,
    Work,
    saga,
)
from amends.core import events as e
from amends.core.decide.approvals import AHEAD
from amends.core.state.saga import replay, unstarted
from amends.core.words.contracts import Contract, Reversibility, Topic
from amends.core.words.values import SagaId, StepId
from amends.core.words.verdict import Decision, Verdict
from amends.errors import JournalDamagedError
from amends.gate.facts import Facts, facts_of
from amends.gate.policy import judge
from amends.gate.recompute import Recorded, recorded_verdicts
from amends.journal.memory import MemoryJournal
from tests.gate.support import policy
from tests.runtime.support import QuickClock, World

RULES = """
- {id: no-third, when: {saga.steps: {gte: 2}, phase: forward, topic: test.third}, decision: deny}
- {id: not-back, when: {phase: compensation, labels.team: core, args.n: 2}, decision: deny}
- {id: fine, decision: allow}
"""
POLICY = policy(RULES, "deny")


class Remembering:
    """A gate that keeps what it was asked and what it said."""

    def __init__(self) -> None:
        self.heard: list[tuple[Facts, Verdict]] = []

    def judge(self, facts: Facts) -> Verdict:
        found = judge(POLICY, facts)
        self.heard.append((facts, found))
        return found


def told(gate: Remembering, definition: SagaDefinition) -> tuple[SagaStatus, list[Recorded]]:
    """Run a saga before this gate; how it ended, and what its journal says of the gate."""

    async def whole() -> tuple[SagaStatus, list[Recorded]]:
        clock = QuickClock()
        journal = MemoryJournal(clock)
        settings = Settings(lease_s=1_000_000, settle_s=1)
        made = Coordinator(journal=journal, gate=gate, clock=clock, env="test", settings=settings, registry=Registry())
        async with made as coordinator:
            ended = await coordinator.run(definition, id="s1", actor="agent:a", labels={"team": "core"})
            events = [entry.event async for entry in journal.read(SagaId("s1"))]
        return ended.status, list(recorded_verdicts(SagaId("s1"), events))

    return asyncio.run(whole())


def assert_same(gate: Remembering, recorded: list[Recorded]) -> None:
    assert [each.facts for each in recorded] == [facts for facts, _ in gate.heard]
    for each, (_, verdict) in zip(recorded, gate.heard, strict=True):
        assert (each.rule, each.policy) == (verdict.rule, verdict.policy)
        assert each.decision is verdict.decision
        assert judge(POLICY, each.facts) == verdict


def test_a_rollback_s_verdicts_are_all_on_record_with_the_facts_that_they_were_given() -> None:
    world, gate = World(), Remembering()
    first, second, fails = world.action("first"), world.action("second"), world.action("fails", Fatal("no"))

    @saga("told.back")
    async def back(s: Work) -> None:
        await s.do(first, 1)
        await s.do(second, 2)
        await s.do(fails, 3)

    status, recorded = told(gate, back)
    assert status is SagaStatus.INCIDENT
    assert [(each.facts.phase, each.facts.contract.topic, each.decision) for each in recorded] == [
        ("forward", "test.first", Decision.ALLOW),
        ("forward", "test.second", Decision.ALLOW),
        ("forward", "test.fails", Decision.ALLOW),
        ("compensation", "test.fails", Decision.ALLOW),
        ("compensation", "test.second", Decision.DENY),
    ]
    assert [each.facts.steps for each in recorded] == [0, 1, 2, 2, 1]
    assert_same(gate, recorded)


def test_a_denied_step_is_judged_by_what_came_before_it_and_is_not_counted_itself() -> None:
    world, gate = World(), Remembering()
    first, second, third = (world.action(name) for name in ("first", "second", "third"))

    @saga("told.denied")
    async def denied(s: Work) -> None:
        await s.do(first)
        await s.do(second)
        for _ in range(2):
            with pytest.raises(StepDeniedError):
                await s.do(third)
        await s.do(second)

    status, recorded = told(gate, denied)
    assert status is SagaStatus.COMPLETED
    assert [each.facts.steps for each in recorded] == [0, 1, 2, 2, 2]
    assert [each.rule for each in recorded] == ["fine", "fine", "no-third", "no-third", "fine"]
    assert_same(gate, recorded)


def test_a_step_with_a_before_image_is_allowed_in_an_entry_of_its_own() -> None:
    world, gate = World(), Remembering()
    act = world.action("act")

    @act.before
    async def look(n: int) -> int:
        return n

    @saga("told.before")
    async def before(s: Work) -> None:
        await s.do(act, 1)

    _, recorded = told(gate, before)
    assert_same(gate, recorded)


def test_a_secret_reaches_the_gate_masked_as_it_stands_on_record() -> None:
    world, gate = World(), Remembering()
    act = world.action("act")

    @saga("told.secret")
    async def secret(s: Work) -> None:
        await s.do(act, Secret("swordfish"))

    _, recorded = told(gate, secret)
    assert "swordfish" not in repr(recorded)
    assert_same(gate, recorded)


# Approvals

STEP = StepId("1")
CONTRACT = Contract(topic=Topic("mail.send"), reversibility=Reversibility.IRREVERSIBLE)
BEGUN = e.SagaStarted(
    definition="trip.book", version=1, input=None, actor="agent:a", env="production", labels={"tenant": "acme"}
)
PROPOSED = e.StepProposed(step=STEP, topic=CONTRACT.topic, version=1, args={"to": "ann"}, digest="d", contract=CONTRACT)
ASKED = e.ApprovalRequested(step=STEP, digest="d", shown={}, rule="ask", policy="p", needs=(), expires_at=9)


def test_a_request_for_approval_is_a_verdict_that_asked_people() -> None:
    (recorded,) = recorded_verdicts(SagaId("s"), [BEGUN, PROPOSED, ASKED])
    assert (recorded.decision, recorded.rule, recorded.entry) == (Decision.REQUIRE_HUMAN, "ask", 3)
    assert (recorded.step, recorded.policy) == (STEP, "p")
    assert (recorded.facts.approval_present, recorded.approved) == (False, False)
    assert recorded.facts.tenant == "acme"


def test_what_is_judged_after_people_agreed_says_so_until_their_word_no_longer_counts() -> None:
    granted: list[e.Event] = [BEGUN, PROPOSED, ASKED, e.ApprovalGranted(step=STEP, by="person:ann", digest="d")]
    voided: list[e.Event] = [*granted, e.ApprovalVoided(step=STEP, why="the policy changed")]
    again: list[e.Event] = [*voided, e.ActionAllowed(step=STEP, rule="fine", policy="q")]
    *_, last = recorded_verdicts(SagaId("s"), again)
    assert (last.decision, last.approved, last.facts.approval_present) == (Decision.ALLOW, False, False)
    asked_again: list[e.Event] = [*voided, ASKED, e.ApprovalGranted(step=STEP, by="person:ann", digest="d")]
    started = e.AttemptStarted(step=STEP, attempt=1, key="k")
    done = e.AttemptSucceeded(step=STEP, attempt=1, result=None)
    verdicts = list(recorded_verdicts(SagaId("s"), [*asked_again, started, done]))
    assert [each.decision for each in verdicts] == [Decision.REQUIRE_HUMAN, Decision.REQUIRE_HUMAN]


def test_who_asked_ahead_was_judged_as_if_people_had_agreed() -> None:
    ahead = dataclasses.replace(ASKED, rule=AHEAD)
    (recorded,) = recorded_verdicts(SagaId("s"), [BEGUN, PROPOSED, ahead])
    assert (recorded.facts.approval_present, recorded.approved) == (True, True)


def test_a_compensation_that_a_person_let_run_counts_as_approved_and_no_other_does() -> None:
    kind = e.IncidentKind.COMPENSATION_DENIED
    contract = dataclasses.replace(CONTRACT, reversibility=Reversibility.COMPENSATABLE)
    denied: tuple[e.Event, ...] = (
        BEGUN,
        dataclasses.replace(PROPOSED, contract=contract),
        e.ActionAllowed(step=STEP, rule="fine", policy="p"),
        e.AttemptStarted(step=STEP, attempt=1, key="k"),
        e.AttemptSucceeded(step=STEP, attempt=1, result=None),
        e.RollbackStarted(cause=e.Cause.FATAL, why="", step=None, by="", deadline_at=9),
        e.CompensationDenied(step=STEP, rule="no", policy="p", why=""),
        e.IncidentOpened(incident=1, kind=kind, step=STEP, why="", left=(STEP,)),
        e.SagaHalted(),
    )
    allowed, refused = recorded_verdicts(SagaId("s"), denied)
    assert [(each.decision, each.approved) for each in (allowed, refused)] == [
        (Decision.ALLOW, False),
        (Decision.DENY, False),
    ]
    let_run: list[e.Event] = [
        *denied,
        e.IncidentRetried(incident=1, by="person:ann", let_run=True),
        e.RollbackResumed(by="person:ann", deadline_at=9),
        e.CompensationStarted(step=STEP, attempt=1, key="k", certain=True, rule="no", policy="p"),
    ]
    *_, last = recorded_verdicts(SagaId("s"), let_run)
    assert (last.decision, last.approved, last.facts.approval_present) == (Decision.ALLOW, True, False)


def test_events_that_do_not_follow_each_other_are_refused() -> None:
    with pytest.raises(JournalDamagedError):
        list(recorded_verdicts(SagaId("s"), [PROPOSED]))


# Facts


def test_the_facts_come_from_the_saga_s_start() -> None:
    state = replay(SagaId("s"), [BEGUN])
    found = facts_of(state, STEP, CONTRACT, {"to": "ann"}, approval_present=True, told={"drill.age_days": 3.0})
    assert (found.env, found.actor, found.definition, found.labels) == (
        "production",
        "agent:a",
        "trip.book",
        {"tenant": "acme"},
    )
    assert (found.phase, found.steps, found.approval_present, found.drill_age_days) == ("forward", 0, True, 3.0)
    assert (found.saga, found.step, found.contract, found.args) == ("s", STEP, CONTRACT, {"to": "ann"})
    back = facts_of(state, STEP, CONTRACT, None, back=True)
    assert (back.phase, back.approval_present, back.drill_age_days) == ("compensation", False, None)


def test_a_saga_that_never_began_has_none() -> None:
    with pytest.raises(JournalDamagedError, match="none that starts it"):
        facts_of(unstarted(SagaId("s")), STEP, CONTRACT, None)
