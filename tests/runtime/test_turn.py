"""Turns of the loop: who waited for an answer goes on with it, and what they tell is written by the same call."""

import asyncio
import gc
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest

from amends.runtime.drive.turn import Answered, Turn
from amends.runtime.engine.handle import outcome_of

HERE: ContextVar[str] = ContextVar("here", default="nowhere")


class Pen:
    """A pen that notes when it is asked to write."""

    def __init__(self, said: list[str], name: str = "pen") -> None:
        self.is_writing = False
        self._said, self._name = said, name

    def begin_append(self) -> None:
        self._said.append(f"{self._name} writes")


class Waiting:
    """Tasks that wait for one answer each."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.said: list[str] = []
        self.answers: dict[str, Answered] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def begin(self, name: str, then: Callable[[], object] = lambda: None) -> None:
        async def wait() -> None:
            HERE.set(name)
            try:
                await self.answers[name]
            except asyncio.CancelledError:
                self.said.append(f"{name} is cancelled")
                raise
            self.said.append(f"{HERE.get()} goes on")
            then()

        self.answers[name] = Answered(asyncio.get_running_loop())
        self.tasks[name] = asyncio.ensure_future(wait())
        await asyncio.sleep(0)

    def wake_all(self) -> None:
        for answered in self.answers.values():
            self.turn.woken.append(answered)


async def turned(turn: Turn) -> None:
    """Past the end of a turn that is called by the loop, as an answer of the journal is."""
    ended = asyncio.Event()

    def end() -> None:
        turn.end()
        ended.set()

    asyncio.get_running_loop().call_soon(end)
    await ended.wait()


def test_all_who_were_woken_go_on_in_order_and_then_it_is_written() -> None:
    async def scene() -> None:
        waiting = Waiting(Turn())
        pen = Pen(waiting.said)
        await waiting.begin("first", lambda: waiting.turn.add(pen))
        await waiting.begin("second")
        waiting.wake_all()
        await turned(waiting.turn)
        assert waiting.said == ["first goes on", "second goes on", "pen writes"]
        await asyncio.gather(*waiting.tasks.values())

    asyncio.run(scene())


def test_who_was_cancelled_before_the_turn_ends_does_not_go_on() -> None:
    async def scene() -> None:
        waiting = Waiting(Turn())
        await waiting.begin("first")
        await waiting.begin("second")
        waiting.wake_all()
        waiting.tasks["first"].cancel()
        await turned(waiting.turn)
        await asyncio.gather(*waiting.tasks.values(), return_exceptions=True)
        assert sorted(waiting.said) == ["first is cancelled", "second goes on"]
        assert waiting.tasks["first"].cancelled()

    asyncio.run(scene())


def test_who_is_woken_while_a_turn_ends_goes_on_too() -> None:
    async def scene() -> None:
        waiting = Waiting(Turn())

        def wake_last() -> None:
            waiting.turn.woken.append(waiting.answers["last"])
            waiting.turn.expect()

        await waiting.begin("first", wake_last)
        await waiting.begin("last")
        waiting.turn.woken.append(waiting.answers["first"])
        await turned(waiting.turn)
        await waiting.tasks["last"]
        assert waiting.said == ["first goes on", "last goes on"]

    asyncio.run(scene())


def test_what_was_told_is_written_at_the_end_of_the_turn_without_an_answer_too() -> None:
    async def scene() -> None:
        said: list[str] = []
        turn = Turn()
        pens = [Pen(said, "first"), Pen(said, "second")]
        pens[0].is_writing = True
        for pen in pens:
            turn.add(pen)
        await asyncio.sleep(0)
        assert said == ["second writes"]

    asyncio.run(scene())


def test_the_others_go_on_where_one_ends_the_program() -> None:
    """Else they would wait for their pens, which wait for nobody any more, and the program would never end."""
    waiting = Waiting(Turn())

    def leave() -> None:
        raise SystemExit(3)

    async def scene() -> None:
        await waiting.begin("first", leave)
        await waiting.begin("second")
        waiting.wake_all()
        waiting.turn.expect()
        await waiting.tasks["second"]

    loop = asyncio.new_event_loop()
    try:
        with pytest.raises(SystemExit):
            loop.run_until_complete(scene())
        loop.run_until_complete(waiting.tasks["second"])
        assert waiting.said == ["first goes on", "second goes on"]
        assert isinstance(waiting.tasks["first"].exception(), SystemExit)
        loop.run_until_complete(asyncio.sleep(0))
    finally:
        loop.close()


def test_a_wait_that_is_given_up_lets_the_task_go_on() -> None:
    async def scene() -> None:
        released = asyncio.Event()

        async def work() -> str:
            await released.wait()
            return "done"

        task = asyncio.ensure_future(work())
        waits = asyncio.ensure_future(outcome_of(task))
        await asyncio.sleep(0)
        waits.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waits
        released.set()
        assert await outcome_of(task) == "done"
        assert await outcome_of(task) == "done"

    asyncio.run(scene())


def test_an_error_that_nobody_waits_for_any_more_is_not_told_to_the_loop() -> None:
    async def scene() -> None:
        told: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        released = asyncio.Event()

        async def work() -> None:
            await released.wait()
            raise ValueError("it failed")

        task = asyncio.ensure_future(work())
        waits = asyncio.ensure_future(outcome_of(task))
        await asyncio.sleep(0)
        waits.cancel()
        await asyncio.gather(waits, return_exceptions=True)
        released.set()
        await asyncio.wait({task})
        await asyncio.sleep(0)
        del task
        gc.collect()
        assert told == []

    asyncio.run(scene())


def test_a_task_that_is_cancelled_cancels_who_waits_for_it() -> None:
    async def scene() -> None:
        async def work() -> None:
            await asyncio.Event().wait()

        task = asyncio.ensure_future(work())
        waits = asyncio.ensure_future(outcome_of(task))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waits

    asyncio.run(scene())
