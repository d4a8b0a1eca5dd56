"""Between the grant and the use: everything that can change is changed, and nothing runs that was not approved.

The deaths between the two are in the crash enumeration (`a person approves …` in tests/crash/scenarios.py).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import pytest

from amends import Coordinator, Registry, Retries, saga
from amends.core import commands as c, events as e
from amends.core.state.saga import Saga
from amends.core.transitions import StepStatus
from amends.core.words.contracts import Contract, OnIncident, Reversibility
from amends.core.words.values import SagaId, StepId
from amends.core.words.verdict import Decision, Need, Verdict
from amends.dataclass import altered
from amends.errors import AmendsError, RefusedError
from amends.gate.load import parse_policy
from amends.gate.policy import PolicyGate
from amends.journal.memory import Memory, MemoryJournal
from amends.runtime.saga.work import Work
from tests.core.story import ACT, FLIGHT, Story
from tests.runtime.support import QuickClock, World
from tests.runtime.test_approvals import ASK, NOW_PARKED, driven, parked

ONE = Verdict(decision=Decision.REQUIRE_HUMAN, rule="ask", policy="p", expires_s=60, needs=(Need(rule="ask"),))


def granted() -> Story:
    story = Story().proposes(FLIGHT)
    story.tell(c.RecordVerdict(step=FLIGHT, verdict=ONE))
    return story.tell(c.AnswerApproval(step=FLIGHT, by="person:bob", granted=True, why=""))


def use(story: Story, **changes: Any) -> list[type[e.Event]]:
    start = replace(c.StartAttempt(step=FLIGHT, policy="p", contract=ACT), **changes)
    return [type(fact) for fact in story.tell(start).facts]


OTHER: dict[type, tuple[Any, ...]] = {
    bool: (True, False),
    int: (7, 8),
    str: ("x", "y", "x\u202ey", ""),
    float: (1.5, 1e9),
    tuple: (("money",), ("money", "pii"), ("",)),
    type(None): ("why not", 9.0),
    Retries: (Retries(attempts=2), Retries(first_s=9.0), Retries(cap_s=99.0)),
    Reversibility: tuple(Reversibility),
    OnIncident: tuple(OnIncident),
}


def changed_contracts() -> Iterator[Contract]:
    for field in fields(Contract):
        old = getattr(ACT, field.name)
        for value in OTHER[type(old)]:
            if value != old:
                yield replace(ACT, **{field.name: value})


@pytest.mark.parametrize("contract", list(changed_contracts()), ids=repr)
def test_any_other_contract_is_not_what_was_approved(contract: Contract) -> None:
    assert use(granted(), contract=contract) == [e.ApprovalVoided]


ARGS: list[Any] = [
    None,
    {},
    {"n": 1},
    {"n": "1"},
    {"n": 1.5},
    {"n": None},
    {"n": [1]},
    {"N": 1},
    {"n": 1, "m": 2},
    ["n"],
]


def with_(saga_: Saga, **changes: object) -> Saga:
    other = saga_.copy()
    for name, value in changes.items():
        setattr(other, name, value)
    return other


def elsewhere(saga_: Saga) -> Iterator[Saga]:
    """The same saga, as if something that was shown had been something else."""
    begun, step = saga_.begun, saga_.steps[FLIGHT]
    assert begun is not None
    for other in (replace(begun, definition="x"), replace(begun, actor="agent:x"), replace(begun, env="x")):
        yield with_(saga_, begun=other)
    yield with_(saga_, id=SagaId("another"))
    for args in ARGS:
        if args != step.args:
            yield with_(saga_, steps={**saga_.steps, FLIGHT: altered(step, args=args)})
    approval = step.approval
    assert approval is not None
    for shown in (
        altered(approval, rule="another"),
        altered(approval, number=2),
        altered(approval, expires_at=approval.expires_at + 1),
        altered(approval, needs=()),
        altered(approval, needs=(Need(rule="ask", approvals=2),)),
        altered(approval, needs=(Need(rule="ask", approvers=("person:bob",)),)),
        altered(approval, digest="0" * 64),
    ):
        yield with_(saga_, steps={**saga_.steps, FLIGHT: altered(step, approval=shown)})


@pytest.mark.parametrize("place", range(len(list(elsewhere(granted().saga)))))
def test_anything_else_that_was_shown_is_bound_too(place: int) -> None:
    story = granted()
    story.saga = list(elsewhere(story.saga))[place]
    assert use(story) == [e.ApprovalVoided]


def test_and_unchanged_it_runs() -> None:
    assert use(granted()) == [e.ApprovalUsed, e.AttemptStarted]


def test_what_is_replayed_is_refused() -> None:
    story = granted()
    again = c.AnswerApproval(step=FLIGHT, by="person:eve", granted=True, why="")
    story.refuses(again, "does not wait for an approval")
    assert use(story) == [e.ApprovalUsed, e.AttemptStarted]
    with pytest.raises(RefusedError):
        use(story)
    story.refuses(again, "does not wait for an approval")


# -- races ------------------------------------------------------------------------------------------------------------


def paying(world: World) -> Any:
    pay = world.action("pay", no_rollback="paid is paid")

    @saga("campaign.pay")
    async def work(s: Work) -> None:
        await s.do(pay, 7)

    return work


def opened(memory: Memory, clock: QuickClock, definition: Any) -> Coordinator:
    registry = Registry()
    registry.add_definition(definition)
    gate = PolicyGate(parse_policy(ASK))
    return Coordinator(
        journal=MemoryJournal(clock, memory), gate=gate, clock=clock, settings=NOW_PARKED, registry=registry
    )


@driven
async def test_two_consumers_race_for_one_approval_and_it_is_used_once() -> None:
    """One grants and both go on, so many steps of the loop apart."""
    for apart in range(60):
        world, memory, clock = World(), Memory(), QuickClock()
        definition = paying(world)
        async with opened(memory, clock, definition) as first:
            _ = await first.start(definition, id="s")
            waiting = await parked(first, "s")
        async with opened(memory, clock, definition) as one, opened(memory, clock, definition) as two:

            async def late(coordinator: Coordinator = two, steps: int = apart, asked: str = waiting) -> None:
                for _ in range(steps):
                    await asyncio.sleep(0)
                with contextlib.suppress(RefusedError):
                    await coordinator.grant(asked, by="person:bob")
                await coordinator.resume()

            await asyncio.gather(one.grant(waiting, by="person:ann"), late(), one.resume(), return_exceptions=True)
            while (await one.list(limit=1))[0].status != "completed":
                await asyncio.gather(one.drive("s"), two.drive("s"), return_exceptions=True)
            entries = (await one.show("s")).entries
        assert world.seen == ["pay(7)"], apart
        assert [entry.name for entry in entries].count("approval.used/1") == 1


@driven
async def test_a_thousand_answers_at_once_count_each_person_once() -> None:
    two = ASK.replace("expires: 1h", "approvals: 3")
    world, memory, clock = World(), Memory(), QuickClock()
    definition = paying(world)
    made = opened(memory, clock, definition)
    made._engine._around.gate = PolicyGate(parse_policy(two))
    async with made as one:
        running = await one.start(definition, id="s")
        waiting = await parked(one, "s")
        people = [f"person:{number % 2}" for number in range(1000)]
        answers = await asyncio.gather(*(one.grant(waiting, by=by) for by in people), return_exceptions=True)
        assert sum(not isinstance(answer, AmendsError) for answer in answers) == 2
        assert (await one.approval(waiting)).status == "requested"
        assert world.seen == []
        await one.grant(waiting, by="person:third")
        assert (await running).status == "completed"
    assert world.seen == ["pay(7)"]


def test_a_step_that_awaits_is_never_started_whoever_asks() -> None:
    story = Story().proposes(FLIGHT)
    story.tell(c.RecordVerdict(step=FLIGHT, verdict=ONE))
    for policy in ("p", "q", ""):
        for contract in (ACT, None):
            start = c.StartAttempt(step=FLIGHT, policy=policy, contract=contract)
            story.refuses(start, "is awaiting")
    assert story.status(StepId(FLIGHT)) is StepStatus.AWAITING
