"""What a drill leaves in the journal, and what the gate makes of it."""

import asyncio
from typing import Any

import pytest

from amends import Registry, SagaStatus, Work, saga
from amends.core.words.contracts import Contract, Topic
from amends.core.words.values import DRILLS
from amends.core.words.verdict import Decision, Verdict
from amends.drill import drill
from amends.drill.records import has_changed, record_of
from amends.evidence.drills import (
    DrilledAction,
    DrillRecord,
    contract_digest,
    drills_on_record,
    missed_still,
    record_drill,
)
from amends.gate.facts import Facts
from amends.gate.load import parse_policy
from amends.gate.policy import PolicyGate
from amends.journal.memory import MemoryJournal
from amends.notify.notice import ASKING, Notice
from amends.notify.target import Delivered, Delivery
from amends.runtime.coordinator.coordinator import Coordinator
from amends.runtime.coordinator.couriers import Couriers
from amends.runtime.drive.drills import note_missed
from amends.runtime.drive.policies import Policies
from amends.runtime.settings import Settings
from tests.drill.zoo import Shop, order
from tests.runtime.support import QuickClock

DAY_S = 86_400.0
POLICY = """
version: v1
default: allow
rules:
  - id: drilled-this-month
    when: {topic: "stock.*", drill.age_days: {gt: 30}}
    decision: deny
"""


def drilled(contract: Contract, outcome: str = "passed", *, quick: bool = False) -> DrillRecord:
    action = DrilledAction(
        topic=contract.topic, version=contract.version, contract=contract_digest(contract), code="c", outcome=outcome
    )
    return DrillRecord(
        saga="d",
        version=1,
        target="m:d",
        input={"n": 1},
        code="c",
        outcome=outcome,
        actions=[action],
        counts={"passed": 3},
        findings=["a: b"],
        quick=quick,
    )


class Office:
    """A coordinator whose policy asks for a drill within 30 days, and one action."""

    def __init__(self, gate: Any = None) -> None:
        self.clock = QuickClock()
        self.journal = MemoryJournal(self.clock)
        self.gate = gate or PolicyGate(parse_policy(POLICY, name="p"))
        self.reserve = Shop().reserve()
        reserve = self.reserve

        @saga("office.reserve")
        async def whole(s: Work) -> None:
            await s.do(reserve, "lamp")

        self.saga = whole

    async def record(self, contract: Contract, outcome: str = "passed", *, quick: bool = False) -> str:
        made = drilled(contract, outcome, quick=quick)
        return await record_drill(self.journal, self.clock, made, by="system:ci", env="drill")

    async def outcome(self) -> SagaStatus:
        coordinator = Coordinator(journal=self.journal, gate=self.gate, clock=self.clock, registry=Registry())
        await coordinator.__aenter__()
        try:
            return (await coordinator.run(self.saga)).status
        finally:
            await coordinator._engine.stop()


def test_an_action_runs_only_as_long_as_its_last_drill_is_fresh() -> None:
    async def whole() -> None:
        office = Office()
        assert await office.outcome() is SagaStatus.ROLLED_BACK
        await office.record(office.reserve.contract)
        assert await office.outcome() is SagaStatus.COMPLETED
        office.clock.advance(29 * DAY_S)
        assert await office.outcome() is SagaStatus.COMPLETED
        office.clock.advance(2 * DAY_S)
        assert await office.outcome() is SagaStatus.ROLLED_BACK

    asyncio.run(whole())


@pytest.mark.parametrize("outcome", ["not proven", "failed"])
def test_only_what_passed_counts(outcome: str) -> None:
    async def whole() -> None:
        office = Office()
        await office.record(office.reserve.contract, outcome)
        assert await office.outcome() is SagaStatus.ROLLED_BACK

    asyncio.run(whole())


def test_a_drill_of_another_contract_does_not_count() -> None:
    async def whole() -> None:
        office = Office()
        await office.record(Contract(topic=Topic("stock.reserve")))
        assert await office.outcome() is SagaStatus.ROLLED_BACK

    asyncio.run(whole())


def test_a_drill_can_be_withdrawn() -> None:
    async def whole() -> None:
        office = Office()
        record = await office.record(office.reserve.contract)
        coordinator = Coordinator(journal=office.journal, gate=office.gate, clock=office.clock, registry=Registry())
        await coordinator.__aenter__()
        await coordinator.cancel(record, why="it was of another branch")
        await coordinator._engine.stop()
        assert await office.outcome() is SagaStatus.ROLLED_BACK

    asyncio.run(whole())


class Deaf:
    """A gate of somebody's own, of which nobody knows what it asks."""

    def __init__(self) -> None:
        self.ages: list[float | None] = []

    def judge(self, facts: Facts) -> Verdict:
        self.ages.append(facts.drill_age_days)
        return Verdict(decision=Decision.ALLOW, rule="yes", policy="")


def test_a_gate_of_ones_own_is_told_the_age_too() -> None:
    async def whole() -> None:
        gate = Deaf()
        office = Office(gate)
        await office.outcome()
        await office.record(office.reserve.contract)
        office.clock.advance(DAY_S / 2)
        await office.outcome()
        assert gate.ages == [None, pytest.approx(0.5, abs=0.01)]

    asyncio.run(whole())


def test_a_quick_drill_counts_for_the_age_and_not_for_that_of_a_whole_one() -> None:
    async def whole() -> None:
        text = POLICY.replace("drill.age_days: {gt: 30}", "drill.whole_age_days: {gt: 90}")
        weekly, quarterly = Office(), Office(PolicyGate(parse_policy(text, name="p")))
        for office in (weekly, quarterly):
            await office.record(office.reserve.contract, quick=True)
        assert await weekly.outcome() is SagaStatus.COMPLETED
        assert await quarterly.outcome() is SagaStatus.ROLLED_BACK
        await quarterly.record(quarterly.reserve.contract)
        office.clock.advance(DAY_S)
        assert await quarterly.outcome() is SagaStatus.COMPLETED

    asyncio.run(whole())


def test_a_missed_drill_is_put_on_record_once_for_each_time_and_a_failed_one_makes_up_for_nothing() -> None:
    async def whole() -> None:
        office, week_s = Office(), 7 * DAY_S
        journal, clock = office.journal, office.clock

        async def missed() -> tuple[int, int]:
            return await note_missed(journal, clock, week_s), len(await missed_still(journal))

        assert await missed() == (0, 0), "what was never drilled is not on a schedule"
        await office.record(office.reserve.contract, quick=True)
        clock.advance(6 * DAY_S)
        assert await missed() == (0, 0)
        clock.advance(2 * DAY_S)
        await office.record(office.reserve.contract, "failed")
        assert await missed() == (1, 1)
        assert await missed() == (0, 1)
        clock.advance(8 * DAY_S)
        assert await missed() == (1, 1)
        clock.advance(1)
        await office.record(office.reserve.contract, quick=True)
        assert await missed() == (0, 0)

    asyncio.run(whole())


def test_a_coordinator_that_tells_others_notices_a_missed_drill_by_itself() -> None:
    async def whole() -> None:
        office = Office()
        policies = Policies(office.journal, office.clock, 0.0)
        weekly = parse_policy("version: v1\ndefault: allow\ndrill_every: 7d\nrules: []\n", name="p")
        await policies.adopt(weekly, by="person:ann", why="weekly")
        await office.record(office.reserve.contract)
        office.clock.advance(8 * DAY_S)
        target = Told()
        couriers = Couriers(office.journal, [target], office.clock, Settings())
        couriers.start()
        await asyncio.wait_for(target.was_told.wait(), 10)
        await couriers.close()
        assert {(each.type, each.about) for each in target.notices} == {("drill.missed", "m:d")}

    asyncio.run(whole())


class Told:
    """Somebody who can be told everything."""

    name = shown = "told"
    types = ASKING
    timeout_s, give_up_s = 1.0, 60.0

    def __init__(self) -> None:
        self.notices: list[Notice] = []
        self.was_told = asyncio.Event()

    def check(self) -> None: ...

    async def deliver(self, notice: Notice, now: int) -> Delivery:
        self.notices.append(notice)
        self.was_told.set()
        return Delivered()


def test_a_policy_that_does_not_ask_costs_no_look() -> None:
    async def whole() -> None:
        office = Office(PolicyGate(parse_policy("version: v1\ndefault: allow\nrules: []\n", name="p")))
        asked: list[object] = []
        sagas = office.journal.sagas

        async def watched(query: Any) -> Any:
            asked.append(query)
            return await sagas(query)

        office.journal.sagas = watched  # type: ignore[method-assign]  # to see that nobody comes
        assert await office.outcome() is SagaStatus.COMPLETED
        assert asked == []

    asyncio.run(whole())


def test_a_report_comes_back_from_the_journal_as_it_was() -> None:
    async def whole() -> None:
        shop, clock = Shop(), QuickClock()
        journal = MemoryJournal(clock)
        definition = order(shop.charge(shop.refund, blind=True), shop)
        report = await drill(definition, {"cents": 7}, only=["taken-back"])
        written = record_of(report, "shop:order")
        saga_id = await record_drill(journal, clock, written, by="system:ci", env="drill")
        (read,) = [each async for each in drills_on_record(journal)]
        assert (read.id, read.target, read.input) == (saga_id, "shop:order", {"cents": 7})
        assert read.actions == written.actions
        assert [(each.topic, each.outcome) for each in read.actions] == [
            ("stock.reserve", "passed"),
            ("card.charge", "not proven"),
            ("stock.pack", "passed"),
        ]
        assert read.counts == {"passed": 0, "not proven": 1, "failed": 0}
        row = await journal.saga(saga_id)
        assert row is not None
        assert (row.definition, row.status) == (DRILLS, SagaStatus.COMPLETED)

    asyncio.run(whole())


def test_a_saga_has_changed_when_an_action_is_gone() -> None:
    shop = Shop()
    definition = order(shop.charge(shop.refund), shop)
    report = asyncio.run(drill(definition, only=["taken-back"]))
    assert has_changed(record_of(report, "x"), definition, Registry())
