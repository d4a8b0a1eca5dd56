"""A person is asked where an action's way back has failed, was never drilled, or cannot be asked: one rule each."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from amends import Coordinator, Done, Fatal, SagaStatus, Work, action, saga
from amends.addresses import open_journal
from amends.clock import SystemClock
from amends.core.words.values import SagaId
from amends.evidence.drills import compensation_failures
from amends.gate.load import load_policy
from amends.gate.policy import judge
from amends.gate.recompute import Recorded, recorded_verdicts
from tests.cli.shell import Shell

POLICY = """
version: v1
default: allow
rules:
  - id: its-way-back-fails
    when: {phase: forward, topic: seat.book, compensation_failures: {gt: 0.2, exists: true}}
    decision: require_human
"""
SEATS = """
from amends import Done, Fatal, Work, action, saga


@action("seat.book")
def book(seat: str) -> str:
    return seat


@book.compensation
def give_back(done: Done) -> None:
    raise Fatal("the office is shut")


@action("seat.pay", read_only=True)
def pay(good: bool) -> None:
    if not good:
        raise Fatal("no money")


@saga("seat.sell")
async def sell(s: Work, good: bool) -> None:
    await s.do(book, "12A")
    await s.do(pay, good)
"""


class Office:
    """Sells seats; the way back is shut, or open."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.journal = str(place / "a.db")
        self.policy = place / "policy.yaml"
        self.policy.write_text(POLICY)
        self.shut = True

        @action("seat.book")
        def book(seat: str) -> str:
            return seat

        @book.compensation
        def give_back(done: Done) -> None:
            if self.shut:
                raise Fatal("the office is shut")

        @action("seat.pay", read_only=True)
        def pay(good: bool) -> None:
            if not good:
                raise Fatal("no money")

        @saga("seat.sell")
        async def sell(s: Work, good: bool) -> None:
            await s.do(book, "12A")
            await s.do(pay, good)

        self.sell = sell

    def sold(self, *, good: bool, id: str, policy: bool = True) -> SagaStatus:
        async def whole() -> SagaStatus:
            async with Coordinator.open(
                self.journal, env="staging", policy=self.policy if policy else None
            ) as coordinator:
                handle = await coordinator.start(self.sell, good, id=id)
                return (await handle.halt()).status

        return asyncio.run(whole())

    def verdicts(self, id: str) -> Iterator[Recorded]:
        async def read() -> list[Recorded]:
            journal = await open_journal(self.journal, SystemClock())
            try:
                events = [entry.event async for entry in journal.read(SagaId(id))]
            finally:
                await journal.close()
            return list(recorded_verdicts(SagaId(id), events))

        return iter(asyncio.run(read()))

    def share(self) -> float | None:
        async def read() -> float | None:
            journal = await open_journal(self.journal, SystemClock())
            try:
                return await compensation_failures(journal, "seat.book", 1)
            finally:
                await journal.close()

        return asyncio.run(read())


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


def test_people_are_asked_once_the_way_back_has_failed(office: Office) -> None:
    assert office.sold(good=True, id="before") is SagaStatus.COMPLETED
    assert office.sold(good=False, id="stuck") is SagaStatus.INCIDENT
    assert office.sold(good=True, id="after") is SagaStatus.WAITING
    asked = next(office.verdicts("after"))
    assert (asked.rule, asked.facts.compensation_failures) == ("its-way-back-fails", 1.0)


def test_what_was_told_is_on_record_and_judges_the_same_again_later(office: Office) -> None:
    office.sold(good=False, id="stuck")
    office.sold(good=True, id="after")
    office.shut = False
    for number in range(8):
        assert office.sold(good=False, id=f"fine-{number}", policy=False) in {
            SagaStatus.ROLLED_BACK,
            SagaStatus.WAITING,
        }
    asked = next(office.verdicts("after"))
    verdict = judge(load_policy(office.policy), asked.facts)
    assert (verdict.decision, verdict.rule) == (asked.decision, asked.rule)


def test_a_policy_that_does_not_ask_leaves_nothing_on_record(office: Office) -> None:
    office.policy.write_text("version: v1\ndefault: allow\nrules: []\n")
    office.sold(good=False, id="stuck")
    office.sold(good=True, id="after")
    assert next(office.verdicts("after")).facts.compensation_failures is None


def test_only_the_last_twenty_count(office: Office) -> None:
    office.policy.write_text("version: v1\ndefault: allow\nrules: []\n")
    assert office.share() is None
    office.sold(good=False, id="stuck")
    office.shut = False
    office.sold(good=False, id="fine")
    assert office.share() == 0.5
    for number in range(18):
        office.sold(good=False, id=f"fine-{number}")
    assert office.share() == 1 / 20
    office.sold(good=False, id="one-more")
    assert office.share() == 0


def test_the_command_line_asks_explains_and_tests_by_it(tmp_path: Path) -> None:
    amends = Shell(tmp_path)
    tmp_path.joinpath("seats.py").write_text(SEATS)
    tmp_path.joinpath("policy.yaml").write_text(POLICY)
    words = ("run", "seats:sell", "--env", "staging", "--policy", "policy.yaml", "--input")
    assert amends(*words, '{"good": false}').code == 4
    assert amends(*words, '{"good": true}').code == 6
    facts = '{"topic": "seat.book", "compensation_failures": 0.5, "probe": true, "drill.result": "not proven"}'
    assert "its-way-back-fails" in amends("policy", "explain", "policy.yaml", "--facts", facts).out
    tmp_path.joinpath("cases.yaml").write_text(
        "cases:\n"
        "  - {name: good enough, facts: {topic: seat.book, compensation_failures: 0.1}, expect: {decision: allow}}\n"
        "  - {name: too low, facts: {topic: seat.book, compensation_failures: 1}, expect: {decision: require_human}}\n"
    )
    assert amends("policy", "test", "policy.yaml", "cases.yaml").code == 0
