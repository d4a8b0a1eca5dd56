"""Sessions: sagas that an agent drives from outside, step by step."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any, cast

import pytest

from amends import Coordinator, Fatal, Limits, Settings, saga, to_checkpoint
from amends.core.transitions import SagaStatus
from amends.errors import Detach, DirectCallError, InputError, RefusedError, SessionOverError, StepFatalError
from amends.runtime.saga.work import Work
from tests.runtime.support import World

QUICK = Settings(poll_s=0.05, park_s=0.05)
Told = Callable[[Coordinator], Coroutine[Any, Any, None]]


def tell(path: Path, story: Told) -> None:
    """Run a story on a real journal; another one on the same path is another process's."""

    async def whole() -> None:
        async with Coordinator.open(str(path / "amends.db"), settings=QUICK, env="development") as coordinator:
            await story(coordinator)

    asyncio.run(asyncio.wait_for(whole(), 30))


async def status(coordinator: Coordinator, name: str) -> SagaStatus:
    return (await coordinator.show(name)).status


def test_a_session_that_is_left_well_is_complete(tmp_path: Path) -> None:
    world = World()
    book, pay = world.action("book", result="LIS-1"), world.action("pay", result=7)

    async def story(coordinator: Coordinator) -> None:
        async with coordinator.session("support.agent", id="t-1", actor="agent:a") as s:
            assert await s.do(book, 1, call="c1") == "LIS-1"
            assert await s.do(pay, 2) == 7
            told = [(one.step, one.topic, one.call, one.result, one.stands) for one in s.steps]
            assert told == [("1", "test.book", "c1", "LIS-1", True), ("2", "test.pay", "", 7, True)]
        assert await status(coordinator, "t-1") is SagaStatus.COMPLETED

    tell(tmp_path, story)
    assert world.seen == ["book(1)", "pay(2)"]


def test_a_session_that_is_completed_twice_at_once_has_one_end(tmp_path: Path) -> None:
    """Whoever asked second had an error of asyncio's own."""
    world = World()
    pay = world.action("pay")

    async def story(coordinator: Coordinator) -> None:
        async with coordinator.session("support.agent", id="t-1") as s:
            await s.do(pay)
            first, second = await asyncio.gather(s.complete(1), s.complete(1))
            assert (first.status, first.result) == (second.status, second.result) == (SagaStatus.COMPLETED, 1)
            with pytest.raises(SessionOverError, match="left already, to complete it"):
                await s.fail(ValueError("no"))

    tell(tmp_path, story)
    assert world.seen == ["pay"]


def test_a_session_that_is_left_by_an_exception_is_rolled_back(tmp_path: Path) -> None:
    world = World()
    book, pay = world.action("book"), world.action("pay")

    async def story(coordinator: Coordinator) -> None:
        with pytest.raises(ValueError, match="no"):  # noqa: PT012 - the block itself is what is left by it
            async with coordinator.session("support.agent", id="t-1") as s:
                await s.do(book)
                await s.do(pay)
                raise ValueError("no")
        assert await status(coordinator, "t-1") is SagaStatus.ROLLED_BACK

    tell(tmp_path, story)
    assert world.seen == ["book", "pay", "unpay", "unbook"]


def test_a_failed_step_that_the_agent_bears_takes_nothing_back(tmp_path: Path) -> None:
    world = World()
    pay = world.action("pay", Fatal("no money", happened=False))
    book = world.action("book")

    async def story(coordinator: Coordinator) -> None:
        async with coordinator.session("support.agent", id="t-1") as s:
            await s.do(book)
            with pytest.raises(StepFatalError, match="no money"):
                await s.do(pay, call="c1")
            with pytest.raises(StepFatalError, match="no money"):
                await s.do(pay, call="c1")
            await s.do(pay, call="c2")
        assert await status(coordinator, "t-1") is SagaStatus.COMPLETED

    tell(tmp_path, story)
    assert world.seen == ["book", "pay", "pay"]


def test_the_same_call_is_the_same_step(tmp_path: Path) -> None:
    world = World()
    pay, book = world.action("pay", result=7), world.action("book")

    async def story(coordinator: Coordinator) -> None:
        async with coordinator.session("support.agent", id="t-1") as s:
            assert await asyncio.gather(*(s.do(pay, 1, call="c1") for _ in range(3))) == [7, 7, 7]
            assert await s.do(pay, 1, call="c1") == 7
            with pytest.raises(RefusedError, match=r"'c1' is step 1 .test.pay. with other arguments"):
                await s.do(pay, 2, call="c1")
            with pytest.raises(RefusedError, match=r"'c1' is step 1, test\.pay, and not test\.book"):
                await s.do(book, 1, call="c1")
            await s.do(pay, 1)
            with pytest.raises(InputError, match="no id of a step"):
                await s.do(pay, 1, call="")

    tell(tmp_path, story)
    assert world.seen == ["pay(1)", "pay(1)"]


def test_a_detached_session_is_taken_up_in_another_process(tmp_path: Path) -> None:
    world = World()
    pay, book = world.action("pay", result=7), world.action("book")

    async def first(coordinator: Coordinator) -> None:
        with pytest.raises(Detach):  # noqa: PT012 - the block itself is what is left by it
            async with coordinator.session("support.agent", id="t-1", actor="agent:a") as s:
                await s.do(pay, 1, call="c1")
                raise Detach("a person is asked")
        assert await status(coordinator, "t-1") is SagaStatus.WAITING
        assert await coordinator.resume() == []

        async with Coordinator.open(str(tmp_path / "amends.db"), settings=QUICK, env="development") as other:  # noqa: SIM117 - one is inside the other
            async with other.session("support.agent", id="t-1") as s:
                assert [one.call for one in s.steps] == ["c1"]
                assert await s.do(pay, 1, call="c1") == 7
                with pytest.raises(RefusedError, match="has it open; detach it there"):
                    async with coordinator.session("support.agent", id="t-1"):
                        pass
                await s.do(book)
                await s.detach()
                with pytest.raises(RefusedError, match="was left"):
                    await s.do(book)
        async with coordinator.session("support.agent", id="t-1") as s:
            assert len(s.steps) == 2

    tell(tmp_path, first)
    assert world.seen == ["pay(1)", "book"]


def test_a_cancelled_block_leaves_the_session_open(tmp_path: Path) -> None:
    world = World()
    pay = world.action("pay")

    async def story(coordinator: Coordinator) -> None:
        began = asyncio.Event()

        async def agent() -> None:
            async with coordinator.session("support.agent", id="t-1") as s:
                await s.do(pay)
                began.set()
                await asyncio.Event().wait()

        task = asyncio.ensure_future(agent())
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await status(coordinator, "t-1") is SagaStatus.WAITING

    tell(tmp_path, story)
    assert world.seen == ["pay"]


class GraphPauseError(Exception):
    """A framework's own pause."""


def test_a_framework_s_pause_detaches_where_it_is_declared(tmp_path: Path) -> None:
    async def story(coordinator: Coordinator) -> None:
        with pytest.raises(GraphPauseError):
            async with coordinator.session("support.agent", id="t-1", detach_on=(GraphPauseError,)):
                raise GraphPauseError
        with pytest.raises(ExceptionGroup):
            async with coordinator.session("support.agent", id="t-1", detach_on=(GraphPauseError,)):
                raise ExceptionGroup("branches", [GraphPauseError(), GraphPauseError()])
        assert await status(coordinator, "t-1") is SagaStatus.WAITING

    tell(tmp_path, story)


def test_cancelling_takes_everything_back(tmp_path: Path) -> None:
    world = World()
    pay = world.action("pay")

    async def story(coordinator: Coordinator) -> None:
        async with coordinator.session("support.agent", id="t-1") as s:
            await s.do(pay)
            ended = await s.cancel("the user has changed their mind")
            assert ended.status is SagaStatus.ROLLED_BACK
            with pytest.raises(RefusedError, match="t-1"):
                await s.do(pay)
        with pytest.raises(RefusedError, match="has ended, or goes back: it is rolled_back"):
            async with coordinator.session("support.agent", id="t-1"):
                pass

    tell(tmp_path, story)
    assert world.seen == ["pay", "unpay"]


def test_a_session_that_somebody_else_cancels_tells_its_agent(tmp_path: Path) -> None:
    world = World()
    pay = world.action("pay")

    async def story(coordinator: Coordinator) -> None:
        with pytest.raises(RefusedError, match=r"t-1 .*rolled_back"):  # noqa: PT012 - the block itself is what is left by it
            async with coordinator.session("support.agent", id="t-1") as s:
                await s.do(pay)
                await coordinator.cancel("t-1", why="stop")
                await s.do(pay)
        assert await status(coordinator, "t-1") is SagaStatus.ROLLED_BACK

    tell(tmp_path, story)
    assert world.seen == ["pay", "unpay"]


def test_completing_gives_the_result_and_how_it_ended(tmp_path: Path) -> None:
    async def story(coordinator: Coordinator) -> None:
        async with coordinator.session("support.agent", id="t-1") as s:
            ended = await s.complete({"answer": 42})
            assert (ended.status, ended.result) == (SagaStatus.COMPLETED, {"answer": 42})

    tell(tmp_path, story)


def test_another_saga_or_session_of_that_id_is_refused(tmp_path: Path) -> None:
    async def story(coordinator: Coordinator) -> None:
        async with coordinator.session("support.agent", id="t-1", actor="agent:a") as s:
            await s.detach()
        with pytest.raises(RefusedError, match=r"is session support\.agent, and not session sales\.agent"):
            async with coordinator.session("sales.agent", id="t-1"):
                pass
        with pytest.raises(RefusedError, match="is agent:a's, and not agent:b's"):
            async with coordinator.session("support.agent", id="t-1", actor="agent:b"):
                pass
        async with coordinator.session("support.agent", id="t-2"):
            with pytest.raises(RefusedError, match="is open in this process already"):
                async with coordinator.session("support.agent", id="t-2"):
                    pass

    tell(tmp_path, story)


def test_steps_may_go_side_by_side(tmp_path: Path) -> None:
    world = World()
    steps = [world.action(f"a{n}", result=n) for n in range(8)]

    async def story(coordinator: Coordinator) -> None:
        with pytest.raises(ValueError, match="no"):  # noqa: PT012 - the block itself is what is left by it
            async with coordinator.session("support.agent", id="t-1") as s:
                assert await asyncio.gather(*(s.do(one, call=one.topic) for one in steps)) == list(range(8))
                raise ValueError("no")

    tell(tmp_path, story)
    assert sorted(world.seen[:8]) == [f"a{n}" for n in range(8)]
    assert world.seen[8:] == [f"un{name}" for name in reversed(world.seen[:8])]


def test_an_action_that_is_called_directly_in_the_block_raises(tmp_path: Path) -> None:
    world = World()
    pay = world.action("pay")

    async def story(coordinator: Coordinator) -> None:
        async with coordinator.session("support.agent") as s:
            with pytest.raises(DirectCallError, match=r"await s.do"):
                await pay()
            await s.do(pay)
        await pay()

    tell(tmp_path, story)
    assert world.seen == ["pay", "pay"]


def test_a_rollback_to_a_checkpoint_and_another_way(tmp_path: Path) -> None:
    world = World()
    book, pay, rail = world.action("book"), world.action("pay"), world.action("rail")

    async def first(coordinator: Coordinator) -> None:
        async with coordinator.session("support.agent", id="t-1") as s:
            await s.do(book, call="c1")
            await s.checkpoint("booked")
            await s.do(pay, call="c2")
            feedback = await s.rollback_to("booked", "too dear")
            assert [one.topic for one in feedback.taken_back] == ["test.pay"]
            with pytest.raises(RefusedError, match="was taken back; use another id"):
                await s.do(pay, call="c2")
            await s.do(pay)
            await s.detach()

    async def second(coordinator: Coordinator) -> None:
        async with coordinator.session("support.agent", id="t-1") as s:
            await s.rollback_to("booked", "still too dear")
            await s.do(rail)
            await s.rollback_last(1, "no train")
        assert await status(coordinator, "t-1") is SagaStatus.COMPLETED

    tell(tmp_path, first)
    tell(tmp_path, second)
    assert world.seen == ["book", "pay", "unpay", "pay", "unpay", "rail", "unrail"]


def test_the_other_verbs_of_a_saga(tmp_path: Path) -> None:
    world = World()
    pay = world.action("pay", result=3)

    @saga("test.child")
    async def child(s: Work, n: int) -> int:
        return await s.do(pay, n)

    async def story(coordinator: Coordinator) -> None:
        async with coordinator.session("support.agent", id="t-1", actor="agent:a") as s:
            assert await s.call(child, 5) == 3
            await s.lock("desk")
            await s.state.set("plan", {"n": 1})
            assert (await s.state.get("plan")) is not None
            await s.spend(tokens=10, what="a thought")
            await s.sleep(0.01)
            waiting = asyncio.ensure_future(s.wait_for("go", timeout=20))
            await asyncio.sleep(0.2)
            await coordinator.signal("t-1", "go", 4)
            assert await waiting == 4
            assert [(step.topic, step.status) for step in s.steps] == [("amends.call", "succeeded")]
        assert await status(coordinator, "t-1") is SagaStatus.COMPLETED

    tell(tmp_path, story)
    assert world.seen == ["pay(5)"]


def test_a_call_costs_the_same_however_many_steps_came_before_it(tmp_path: Path) -> None:
    world = World()
    book = world.action("book")
    counts: list[int] = []

    def count(frame: FrameType, what: str, _: object) -> Any:
        """Count lines of its module: each turn of a loop is one."""
        counts[-1] += what == "line"
        return count if frame.f_code.co_filename.endswith("saga/session.py") else None

    async def story(coordinator: Coordinator) -> None:
        async with coordinator.session("support.agent", id="t-1") as s:
            for number in range(400):
                counts.append(0)
                before = sys.gettrace()
                sys.settrace(count)
                try:
                    await s.do(book, call=f"c{number}")
                finally:
                    sys.settrace(before)

    tell(tmp_path, story)
    assert median(counts[-20:]) < 1.2 * median(counts[20:40])


def test_a_rollback_that_becomes_an_incident_is_told_as_one(tmp_path: Path) -> None:
    world = World()
    pay = world.action("pay", undo=[Fatal("the bank is closed")])

    async def story(coordinator: Coordinator) -> None:
        async with coordinator.session("support.agent", id="t-1") as s:
            await s.do(pay, 5)
            with pytest.raises(SessionOverError, match=r"session t-1 is incident: .*the bank is closed"):
                await s.rollback_last(1, "no")
            await s.detach()

    tell(tmp_path, story)


def test_limits_that_are_none_are_refused(tmp_path: Path) -> None:
    async def story(coordinator: Coordinator) -> None:
        with pytest.raises(InputError, match="limits=3 are no limits"):
            async with coordinator.session("support.agent", limits=cast("Any", 3)):
                pass

    tell(tmp_path, story)


def test_a_pause_of_everything_makes_steps_wait(tmp_path: Path) -> None:
    world = World()
    pay = world.action("pay", result=7)

    async def story(coordinator: Coordinator) -> None:
        async with coordinator.session("support.agent", id="t-1") as s:
            await s.do(pay, 1)
            await coordinator.pause(why="a fire", by="person:ann")
            waiting = asyncio.ensure_future(s.do(pay, 2, call="c2"))
            await asyncio.sleep(0.5)
            assert world.seen == ["pay(1)"]
            await coordinator.unpause(by="person:ann")
            assert await waiting == 7
        assert await status(coordinator, "t-1") is SagaStatus.COMPLETED

    tell(tmp_path, story)
    assert world.seen == ["pay(1)", "pay(2)"]


def test_a_rollback_from_outside_goes_on_with_the_session(tmp_path: Path) -> None:
    world = World()
    book, pay = world.action("book"), world.action("pay")

    async def story(coordinator: Coordinator) -> None:
        async with coordinator.session("support.agent", id="t-1") as s:
            await s.do(book)
            await s.checkpoint("booked")
            await s.do(pay, call="c1")
            await coordinator.rollback("t-1", to="booked", why="a person says so", by="person:ann")
            with pytest.raises(RefusedError, match="taken back"):
                await s.do(pay, call="c1")
            await s.do(pay, call="c2")
        assert await status(coordinator, "t-1") is SagaStatus.COMPLETED

    tell(tmp_path, story)
    assert world.seen == ["book", "pay", "unpay", "pay"]


def test_what_a_limit_sends_back_while_it_is_spent_ends_that_and_not_the_session(tmp_path: Path) -> None:
    world = World()
    book = world.action("book")
    limits = Limits(tokens=100, then=to_checkpoint("room"))

    async def story(coordinator: Coordinator) -> None:
        async with coordinator.session("support.agent", id="t-1", limits=limits) as s:
            await s.checkpoint("room")
            await s.do(book, 1)
            with pytest.raises(SessionOverError, match="had a part of it taken back"):
                await s.spend(tokens=200)
            await s.do(book, 2)
        assert await status(coordinator, "t-1") is SagaStatus.COMPLETED

    tell(tmp_path, story)
    assert world.seen == ["book(1)", "unbook", "book(2)"]


def test_what_was_asked_ahead_is_done_once_under_its_call_by_whoever_has_the_session(tmp_path: Path) -> None:
    world = World()
    book = world.action("book", result="LIS-1")

    async def story(coordinator: Coordinator) -> None:
        async with coordinator.session("support.agent", id="t-1", actor="agent:a") as s:
            asking = asyncio.ensure_future(s.ask(book, 1, call="asked"))
            while not (found := await coordinator.approvals(saga="t-1")):
                await asyncio.sleep(0)
            await coordinator.grant(found[0].id, by="person:anna")
            assert await asking == ("person:anna",)
            assert await s.ask(book, 1, call="asked") == ("person:anna",)
            with pytest.raises(RefusedError, match="with other arguments"):
                await s.ask(book, 2, call="asked")
            await s.detach()
        async with coordinator.session("support.agent", id="t-1", actor="agent:a") as s:
            for _ in range(2):
                assert await s.do(book, 1, call="done") == "LIS-1"
            assert [(one.step, one.call) for one in s.steps] == [("1", "done")]
            assert await s.ask(book, 1, call="asked") == ("person:anna",), "it was answered, and done"

    tell(tmp_path, story)
    assert world.seen == ["book(1)"]
