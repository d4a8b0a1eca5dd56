"""Sleeping and waiting for signals: on record, in nobody's memory, and the same when the function is called again."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from amends import Registry, SagaDefinition, SagaStatus, Settings, Work, saga
from amends.core import events as e
from amends.core.words.values import SagaId
from amends.errors import InputError, NotJsonError, RefusedError, TooLargeError, UnknownSagaError, WaitTimeoutError
from amends.gate.load import parse_policy
from amends.gate.policy import PolicyGate
from amends.journal.memory import Memory, MemoryJournal
from amends.runtime.coordinator.coordinator import Coordinator
from amends.testing.clock import ManualClock
from tests.runtime.support import World, coordinator

HOUR = 3600.0
PARKED = Settings(lease_s=1_000_000, settle_s=1, park_s=0.0, poll_s=0.005, drain_s=0.01)


def driven(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), 60))

    return run


class Ground:
    """One journal, one clock that stands still, and as many processes on them as a test wants, one after another."""

    def __init__(self) -> None:
        self.world, self.clock = World(), ManualClock()
        self._memory = Memory()

    def open(self, *definitions: SagaDefinition, settings: Settings = PARKED) -> Coordinator:
        registry = Registry()
        for each in definitions:
            registry.add_definition(each)
        return coordinator(self._memory, settings=settings, clock=self.clock, registry=registry)


def kinds(history: Any) -> list[type[e.Event]]:
    return [type(entry.event) for entry in history.entries]


def sleeping(world: World, pause: Callable[[Work], Coroutine[Any, Any, None]]) -> SagaDefinition:
    first, second = world.action("first"), world.action("second")

    @saga("test.sleep")
    async def body(s: Work) -> str:
        await s.do(first)
        await pause(s)
        await s.do(second)
        return "awake"

    return body


# -- sleeping --------------------------------------------------------------------------------------------------------


@driven
async def test_a_sleeping_saga_is_a_row_until_its_time_has_come() -> None:
    ground = Ground()
    body = sleeping(ground.world, lambda s: s.sleep(HOUR))
    async with ground.open() as process:
        handle = await process.start(body, id="s")
        assert (await handle.halt()).status is SagaStatus.WAITING
        assert ground.world.seen == ["first"]
        assert process._engine.running(handle.id) is None
        ground.clock.advance(HOUR)
        assert (await handle).result == "awake"
    assert ground.world.seen == ["first", "second"]


@driven
async def test_a_sleep_goes_on_in_another_process_and_only_when_it_is_over() -> None:
    ground = Ground()
    body = sleeping(ground.world, lambda s: s.sleep(HOUR))
    async with ground.open() as process:
        await (await process.start(body, id="s")).halt()
    ground.clock.advance(HOUR - 1)
    async with ground.open(body) as other:
        assert await other.resume() == []
        assert (await other.show("s")).status is SagaStatus.WAITING
    ground.clock.advance(1)
    async with ground.open(body) as other:
        (ended,) = await other.resume()
    assert (ended.status, ground.world.seen) == (SagaStatus.COMPLETED, ["first", "second"])


@driven
async def test_how_long_a_sleep_is_counts_from_the_first_call() -> None:
    """Called again with what is left, or with another number, the function sleeps until the time on record."""
    ground = Ground()
    asked = iter([HOUR, 5 * HOUR, 0.0])
    body = sleeping(ground.world, lambda s: s.sleep(next(asked)))
    async with ground.open() as process:
        await (await process.start(body, id="s")).halt()
    ground.clock.advance(HOUR)
    async with ground.open(body) as other:
        (ended,) = await other.resume()
    assert ended.status is SagaStatus.COMPLETED


@driven
async def test_sleeping_until_a_time() -> None:
    ground = Ground()
    when = datetime.fromtimestamp(ground.clock.now() / 1000, UTC) + timedelta(hours=2)
    body = sleeping(ground.world, lambda s: s.sleep_until(when))
    async with ground.open() as process:
        handle = await process.start(body, id="s")
        await handle.halt()
        ground.clock.advance(2 * HOUR)
        assert (await handle).status is SagaStatus.COMPLETED
        history = await process.show("s")
    assert [entry.event.until for entry in history.entries if isinstance(entry.event, e.WaitStarted)] == [
        round(when.timestamp() * 1000)
    ]


@driven
async def test_a_time_that_has_passed_is_no_sleep() -> None:
    ground = Ground()
    body = sleeping(ground.world, lambda s: s.sleep_until(1.0))
    async with ground.open() as process:
        assert (await process.run(body)).status is SagaStatus.COMPLETED


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (("sleep", -1), "0 or more, and not -1"),
        (("sleep", "1h"), "0 or more, and not '1h'"),
        (("sleep", float("nan")), "0 or more, and not nan"),
        (("sleep_until", datetime(2030, 1, 1)), "has no time zone"),  # noqa: DTZ001 - that is the point
        (("sleep_until", float("inf")), "and not inf"),
        (("wait_for", ""), "no name for a signal"),
        (("wait_for", "a\nb"), "no name for a signal"),
        (("wait_for", "paid", -5), r"s.wait_for\('paid'\) takes a number of seconds"),
    ],
)
def test_a_time_or_a_name_that_is_none_is_refused(asked: tuple[Any, ...], says: str) -> None:
    ground = Ground()
    refused: list[InputError] = []

    async def tried(s: Work) -> None:
        try:
            await getattr(s, asked[0])(*asked[1:])
        except InputError as exc:
            refused.append(exc)

    async def whole() -> None:
        async with ground.open() as process:
            await process.run(sleeping(ground.world, tried))

    asyncio.run(whole())
    with pytest.raises(InputError, match=says):
        raise refused[0]


# -- signals ---------------------------------------------------------------------------------------------------------


def paying(world: World, timeout: float | None = None) -> SagaDefinition:
    ship = world.action("ship")

    @saga("test.pay")
    async def pay(s: Work) -> Any:
        paid = await s.wait_for("paid", timeout=timeout)
        await s.do(ship)
        return paid

    return pay


async def waiting(process: Coordinator, definition: SagaDefinition, name: str) -> Any:
    handle = await process.start(definition, id=name)
    assert (await handle.halt()).status is SagaStatus.WAITING
    return handle


@driven
async def test_a_signal_ends_the_wait_with_its_payload() -> None:
    ground = Ground()
    async with ground.open() as process:
        handle = await waiting(process, paying(ground.world), "p")
        await process.signal("p", "paid", {"cents": 300}, by="system:bank")
        assert (await handle).result == {"cents": 300}
        history = await process.show("p")
    assert [event for event in kinds(history) if event in {e.WaitStarted, e.SignalReceived, e.WaitEnded}] == [
        e.WaitStarted,
        e.SignalReceived,
        e.WaitEnded,
    ]
    assert [line.text for line in history.timeline[1:4]] == [
        "waits for paid, at most 3650 d",
        'signal 1 paid from system:bank: {"cents": 300}',
        "goes on with signal 1",
    ]


@driven
async def test_a_signal_sent_while_nobody_drives_is_found_by_who_comes_next() -> None:
    ground = Ground()
    body = paying(ground.world)
    async with ground.open() as process:
        await waiting(process, body, "p")
    async with ground.open() as desk:  # it knows no definition
        await desk.signal("p", "paid", 7)
    async with ground.open(body) as other:
        (ended,) = await other.resume()
    assert (ended.result, ground.world.seen) == (7, ["ship"])


@driven
async def test_a_signal_reaches_the_process_that_drives_from_another_one() -> None:
    ground = Ground()
    async with ground.open() as process, ground.open() as desk:
        handle = await waiting(process, paying(ground.world), "p")
        await desk.signal("p", "paid", "from elsewhere")
        assert (await handle).result == "from elsewhere"


@driven
async def test_one_of_two_waits_is_signalled_after_their_worker_has_gone() -> None:
    """The other wait still has a day to go: the row must not sleep as long as that one."""
    ground = Ground()
    act = ground.world.action("act")

    @saga("test.both")
    async def both(s: Work) -> None:
        async def branch(name: str) -> None:
            await s.wait_for(name, timeout=24 * HOUR)
            await s.do(act, 1 if name == "one" else 2)

        await asyncio.gather(branch("one"), branch("two"))

    async with ground.open() as process:
        await waiting(process, both, "b")
    async with ground.open() as desk:
        await desk.signal("b", "two")
    async with ground.open(both) as other:
        (ended,) = await other.resume()
        assert (ended.status, ground.world.seen) == (SagaStatus.WAITING, ["act(2)"])
        await other.signal("b", "one")
        while (await other.show("b")).status is not SagaStatus.COMPLETED:
            await asyncio.sleep(0)
    assert ground.world.seen == ["act(2)", "act(1)"]


@driven
async def test_signals_of_one_name_are_taken_up_in_order_each_once() -> None:
    ground = Ground()

    @saga("test.queue")
    async def queue(s: Work) -> list[Any]:
        return [await s.wait_for("item") for _ in range(3)]

    async with ground.open() as process:
        handle = await waiting(process, queue, "q")
        for item in "abc":
            await process.signal("q", "item", item, early=True)
        assert (await handle).result == ["a", "b", "c"]
        with pytest.raises(RefusedError, match="saga q is completed: nothing in it will wait for 'item' any more"):
            await process.signal("q", "item", "d", early=True)


@driven
async def test_a_signal_nobody_waits_for_is_refused_and_says_what_is_waited_for() -> None:
    ground = Ground()
    async with ground.open() as process:
        handle = await waiting(process, paying(ground.world), "p")
        with pytest.raises(RefusedError, match="does not wait for 'piad': it waits for 'paid'; check the name, or"):
            await process.signal("p", "piad")
        before = (await process.show("p")).row.entries
        await process.signal("p", "refunded", early=True)
        assert (await process.show("p")).row.entries == before + 1
        await process.signal("p", "paid", 1)
        assert (await handle).result == 1


@driven
async def test_what_cannot_be_sent_is_refused_and_leaves_no_trace() -> None:
    ground = Ground()
    async with ground.open() as process:
        await waiting(process, paying(ground.world), "p")
        bad: Any = {1, 2}
        with pytest.raises(NotJsonError, match="the payload of signal 'paid'"):
            await process.signal("p", "paid", bad)
        with pytest.raises(TooLargeError, match="takes more than 1 MB as JSON; store it elsewhere"):
            await process.signal("p", "paid", "x" * (1024 * 1024))
        with pytest.raises(UnknownSagaError, match="no saga has the id nobody"):
            await process.signal("nobody", "paid")
        with pytest.raises(InputError, match="is not an actor"):
            await process.signal("p", "paid", by="somebody")
        assert (await process.show("p")).row.entries == 2


# -- time is up ------------------------------------------------------------------------------------------------------


@driven
async def test_nobody_sends_it_in_time_and_the_work_is_taken_back() -> None:
    ground = Ground()
    reserve = ground.world.action("reserve")

    @saga("test.late")
    async def late(s: Work) -> None:
        await s.do(reserve)
        await s.wait_for("paid", timeout=HOUR)

    async with ground.open() as process:
        handle = await waiting(process, late, "l")
        ground.clock.advance(HOUR)
        ended = await handle
    assert ended.status is SagaStatus.ROLLED_BACK
    assert ended.why.startswith(
        "WaitTimeoutError: nobody sent 'paid' in time (place 2) (tests/runtime/test_waiting.py:"
    )
    assert ground.world.seen == ["reserve", "unreserve"]


@driven
async def test_that_the_time_was_up_is_remembered() -> None:
    """A signal that comes after it does not change the past: the function finds the same when it is called again."""
    ground = Ground()
    remind, ship = ground.world.action("remind"), ground.world.action("ship")

    @saga("test.remind")
    async def patient(s: Work) -> Any:
        try:
            paid = await s.wait_for("paid", timeout=HOUR)
        except WaitTimeoutError as exc:
            await s.do(remind, {"paid": 1}[exc.name])
            paid = await s.wait_for("paid", timeout=HOUR)
        await s.do(ship)
        return paid

    async with ground.open() as process:
        await waiting(process, patient, "r")
        ground.clock.advance(HOUR)
        while (await process.show("r")).row.entries < 6:
            await asyncio.sleep(0)
    async with ground.open(patient) as other:
        await other.resume()
        await other.signal("r", "paid", "at last")
        while (await other.show("r")).status is not SagaStatus.COMPLETED:
            await asyncio.sleep(0)
        assert (await other.show("r")).saga.result == "at last"
    assert ground.world.seen == ["remind(1)", "ship"]


# -- taken back ------------------------------------------------------------------------------------------------------


@driven
async def test_a_saga_is_cancelled_while_it_waits() -> None:
    ground = Ground()
    reserve = ground.world.action("reserve")

    @saga("test.cancelled")
    async def cancelled(s: Work) -> None:
        await s.do(reserve)
        await s.wait_for("paid")

    async with ground.open() as process:
        handle = await waiting(process, cancelled, "c")
        assert (await process.cancel("c")).status is SagaStatus.ROLLED_BACK
        assert (await handle).status is SagaStatus.ROLLED_BACK
        with pytest.raises(RefusedError, match="saga c is rolled_back: nothing in it will wait for 'paid' any more"):
            await process.signal("c", "paid")
    assert ground.world.seen == ["reserve", "unreserve"]


@driven
async def test_one_branch_fails_while_another_waits() -> None:
    ground = Ground()
    reserve, fails = ground.world.action("reserve"), ground.world.action("fails", LookupError("gone"))

    @saga("test.branches")
    async def branches(s: Work) -> None:
        async def other() -> None:
            await s.wait_for("go")
            await s.do(fails)

        await s.do(reserve)
        await asyncio.gather(s.sleep(HOUR), s.wait_for("paid"), other())

    async with ground.open() as process:
        handle = await waiting(process, branches, "b")
        await process.signal("b", "go")
        assert (await handle).status is SagaStatus.ROLLED_BACK
    assert ground.world.seen == ["reserve", "fails", "unfails?", "unreserve"]


@driven
async def test_a_definition_that_waits_for_something_else_now_has_diverged() -> None:
    ground = Ground()

    @saga("test.pay")
    async def renamed(s: Work) -> None:
        await s.wait_for("settled")

    async with ground.open() as process:
        await waiting(process, paying(ground.world), "p")
    async with ground.open(renamed) as other:
        await other.signal("p", "paid")
        with suppress(RefusedError):
            await other.resume()
        while (await other.show("p")).status is not SagaStatus.INCIDENT:
            await asyncio.sleep(0)
        (incident,) = await other.incidents()
    assert "was a wait for paid and is a wait for settled now; the definition has changed" in incident.why


@driven
async def test_a_branch_that_a_rate_holds_up_is_woken_when_it_is_due_though_another_waits_on() -> None:
    """The rate lets it pass in a minute; the signal may take a year."""
    ground = Ground()
    rate = "{id: slowly, when: {topic: test.mail}, rate: {max: 1, per: 60s, by: [topic]}, decision: throttle}"
    gate = PolicyGate(parse_policy(f"version: v1\ndefault: allow\nrules: [{rate}]\n"))
    mail = ground.world.action("mail")

    @saga("test.slowly")
    async def slowly(s: Work) -> None:
        async def mails() -> None:
            for n in (1, 2, 3):
                await s.do(mail, n)

        await asyncio.gather(s.wait_for("go"), mails())

    clock = ground.clock
    settings = Settings(lease_s=1_000_000, settle_s=1, park_s=0.0, poll_s=0.005, drain_s=0.01)
    made = Coordinator(journal=MemoryJournal(clock), gate=gate, clock=clock, settings=settings, registry=Registry())
    async with made as process:
        handle = await process.start(slowly, id="s")
        while ground.world.seen != ["mail(1)", "mail(2)", "mail(3)"]:
            if process._engine.running(SagaId("s")) is None:  # time passes only while it is put away
                clock.advance(1)
            await asyncio.sleep(0.001)
        await process.signal("s", "go")
        assert (await handle).status is SagaStatus.COMPLETED
