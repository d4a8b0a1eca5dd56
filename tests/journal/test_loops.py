"""Waking a loop from a thread: what it is told, and what becomes of the file that it is woken by."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path

import pytest

from amends.journal.loops import Wakeup

whose: ContextVar[str] = ContextVar("whose", default="nobody's")


def from_a_thread(call: Callable[[], object]) -> None:
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


def wake_thrice(wakeup: Wakeup[int]) -> None:
    for number in range(3):
        wakeup.wake(number)


def files() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


async def until(told: list[object], count: int) -> None:
    async with asyncio.timeout(10):
        while len(told) < count:
            await asyncio.sleep(0)


def test_a_loop_is_told_in_order_what_a_thread_has_for_it() -> None:
    async def story() -> None:
        told: list[object] = []
        wakeup = Wakeup[int](asyncio.get_running_loop(), told.append)
        from_a_thread(lambda: wake_thrice(wakeup))
        assert told == []  # not in the thread
        await until(told, 3)
        assert told == [0, 1, 2]
        wakeup.end()

    asyncio.run(story())


def test_when_telling_one_raises_the_others_are_told_all_the_same() -> None:
    async def story() -> None:
        told: list[object] = []
        complaints: list[object] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(context["exception"]))

        def tell(number: int) -> None:
            told.append(number)
            if number == 0:
                raise ZeroDivisionError

        wakeup = Wakeup(loop, tell)
        from_a_thread(lambda: wake_thrice(wakeup))
        await until(told, 3)
        assert told == [0, 1, 2]
        assert [type(each) for each in complaints] == [ZeroDivisionError]
        wakeup.end()

    asyncio.run(story())


def test_what_it_was_woken_for_is_told_though_it_is_let_go() -> None:
    async def story() -> None:
        told: list[object] = []
        before = files()
        wakeup = Wakeup(asyncio.get_running_loop(), told.append)

        def wake_and_end() -> None:
            wakeup.wake(1)
            wakeup.end()
            wakeup.wake(2)

        from_a_thread(wake_and_end)
        await until(told, 2)
        assert told == [1, 2]
        assert files() == before

    asyncio.run(story())


def test_it_has_none_of_the_context_of_whoever_made_it() -> None:
    async def story() -> None:
        found: list[object] = []
        whose.set("ours")
        wakeup = Wakeup[None](asyncio.get_running_loop(), lambda _: found.append(whose.get()))
        from_a_thread(lambda: wakeup.wake(None))
        await until(found, 1)
        assert found == ["nobody's"]
        wakeup.end()

    asyncio.run(story())


def test_a_closed_loop_is_told_nothing_and_leaves_no_file_open() -> None:
    before = files()
    told: list[object] = []
    loop = asyncio.new_event_loop()
    wakeup = Wakeup(loop, told.append)
    wakeup.wake(1)
    loop.close()
    wakeup.wake(2)
    wakeup.end()
    wakeup.wake(3)
    assert told == []
    assert files() == before


class Fileless(asyncio.SelectorEventLoop):
    """A loop that watches no files for others."""

    def add_reader(self, fd: object, callback: object, *args: object) -> None:
        raise NotImplementedError


@pytest.mark.parametrize("has_counters", [True, False])
def test_without_a_counter_it_is_woken_the_usual_way(has_counters: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_counters:
        monkeypatch.delattr(os, "eventfd")
    told: list[object] = []

    async def work() -> None:
        wakeup = Wakeup(asyncio.get_running_loop(), told.append)
        from_a_thread(lambda: wakeup.wake(1))
        await until(told, 1)
        wakeup.end()

    with asyncio.Runner(loop_factory=Fileless if has_counters else asyncio.SelectorEventLoop) as runner:
        runner.run(work())
    assert told == [1]
