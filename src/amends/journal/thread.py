"""A thread with a queue of questions, and the way back for the answers. Knows nothing of SQL.

An asyncio caller awaits an answer on its own loop, and a loop is woken once for a batch of answers, not once for each.
What is submitted in one turn of a loop is handed over once, at the end of that turn, so that it shares a commit; where
the last batch was of one, nobody else seems to write, and it is handed over at once. A blocking caller waits on its own
thread. The thread is a daemon: a program that forgets to close does not hang, and what was acknowledged is safe all the
same.

Who looks once and waits for nothing else needs neither thread nor loop: an `Inline` answers where it is asked. So
asyncio, half of what such a program would import, is imported by a `Lane` alone.
"""

from __future__ import annotations

import copy
import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from amends.errors import AmendsError
from amends.journal.port import refusals

if TYPE_CHECKING:
    import asyncio

C = TypeVar("C")
T = TypeVar("T")
R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)


class Reply(Protocol[R_contra]):
    """A future, or something quicker: told the answer to a question. It may give what is to be called, once, when all
    answers of a batch are told.
    """

    def done(self) -> bool: ...

    def set_result(self, result: R_contra, /) -> Callable[[], object] | None: ...

    def set_exception(self, exception: Exception, /) -> Callable[[], object] | None: ...


class Ask(Generic[C, T]):
    """One question: what to do with the thread's context. Who waits has an answer, of `loop` or of no loop."""

    __slots__ = ("_future", "finish", "loop", "result", "trouble", "work")

    def __init__(
        self,
        work: Callable[[C], T],
        future: Reply[Any],
        loop: asyncio.AbstractEventLoop | None = None,
        finish: Callable[[T], object] | None = None,
    ) -> None:
        self.work = work
        self._future = future
        self.loop = loop
        self.finish = finish
        self.result: Any = None
        self.trouble: Exception | None = None

    def answer(self, context: C) -> None:
        """Work. What we raise on purpose is the answer; anything else is the whole batch's trouble, and flies."""
        try:
            self.result = self.work(context)
        except AmendsError as exc:
            self.trouble = exc

    def settle(self) -> Callable[[], object] | None:
        """Tell the one who waits."""
        if self.trouble is None and self.finish is not None:
            self.result = self.finish(self.result)
        if self._future.done():  # cancelled since
            return None
        if self.trouble is None:
            return self._future.set_result(self.result)
        return self._future.set_exception(self.trouble)


class Lane(Generic[C]):
    """`serve` answers a batch of at most `most` questions, `rest` follows when they are told, `leave` ends it."""

    def __init__(
        self,
        name: str,
        *,
        most: int,
        serve: Callable[[Sequence[Ask[C, Any]]], None],
        rest: Callable[[], None],
        leave: Callable[[], None],
    ) -> None:
        from asyncio import get_running_loop

        self._running_loop = get_running_loop
        self._most = most
        self._serve, self._rest, self._leave = serve, rest, leave
        self._queue = queue.SimpleQueue[list[Ask[C, Any]] | None]()
        self._turns: dict[asyncio.AbstractEventLoop, list[Ask[C, Any]]] = {}
        """What was submitted in this turn of each loop, and is handed over at its end."""
        self._is_alone = True
        self._closed = False
        self._gate = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    async def ask(self, work: Callable[[C], T]) -> T:
        loop = self._running_loop()
        future: asyncio.Future[T] = loop.create_future()
        if loop in self._turns:  # what was submitted before it is asked before it
            self.hand_over(loop)
        self._put([Ask(work, future, loop)])
        return await future

    def submit(self, work: Callable[[C], T], finish: Callable[[T], R], answer: Reply[R]) -> None:
        """Ask, without waiting; `finish` makes the answer of what the thread found, on the loop."""
        loop = self._running_loop()
        ask = Ask(work, answer, loop, finish)
        if loop in self._turns:
            self._turns[loop].append(ask)
        elif self._is_alone:
            self._put([ask])
        elif self._closed:
            raise refusals.closed()
        else:
            self._turns[loop] = [ask]
            loop.call_soon(self.hand_over, loop)

    def hand_over(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Have the thread answer what was submitted in this turn of a loop: this one, or the one that runs here."""
        loop = loop or self._running_loop()
        asks = self._turns.pop(loop, None)
        if not asks:
            return
        try:
            self._put(asks)
        except AmendsError as exc:  # it was closed meanwhile
            fail(asks, exc)
            _settle_all(asks)

    def ask_blocking(self, work: Callable[[C], T]) -> T:
        """Ask from any thread but this one, and wait."""
        from concurrent.futures import Future

        future = Future[T]()
        self._put([Ask(work, future)])
        return future.result()

    def _put(self, asks: list[Ask[C, Any]]) -> None:
        with self._gate:  # so that nothing comes after the end
            if self._closed:
                raise refusals.closed()
            self._queue.put(asks)

    def close(self) -> None:
        """Answer what was asked, then end. Blocking."""
        with self._gate:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while True:
            asks, is_last = self._take()
            if asks:
                self._is_alone = len(asks) == 1
                self._serve(asks)
                self._deliver(asks)
                del asks
                self._rest()
            if is_last:
                break
        self._leave()

    def _deliver(self, asks: Sequence[Ask[C, Any]]) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[Ask[C, Any]]] = {}
        for ask in asks:
            if ask.loop is None:
                ask.settle()
            else:
                by_loop.setdefault(ask.loop, []).append(ask)
        for loop, told in by_loop.items():
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(self._tell, loop, told)

    def _tell(self, loop: asyncio.AbstractEventLoop, told: Sequence[Ask[C, Any]]) -> None:
        """Tell a batch of answers to a loop. What those submit who go on then is one group, and is handed over here."""
        self._turns.setdefault(loop, [])
        try:
            _settle_all(told)
        finally:
            self.hand_over(loop)

    def _take(self) -> tuple[list[Ask[C, Any]], bool]:
        """Wait for one; then take everything that waits."""
        asks: list[Ask[C, Any]] = []
        group = self._queue.get()
        while group is not None:
            asks += group
            if len(asks) >= self._most:
                return asks, False
            try:
                group = self._queue.get_nowait()
            except queue.Empty:
                return asks, False
        return asks, True


class Inline(Generic[C]):
    """A lane without a thread, for one who asks and waits for nothing else: what it awaits is there at once."""

    def __init__(
        self,
        *,
        serve: Callable[[Sequence[Ask[C, Any]]], None],
        rest: Callable[[], None],
        leave: Callable[[], None],
    ) -> None:
        self._serve, self._rest, self._leave = serve, rest, leave
        self._closed = False

    async def ask(self, work: Callable[[C], T]) -> T:
        return self.ask_blocking(work)

    def submit(self, work: Callable[[C], T], finish: Callable[[T], R], answer: Reply[R]) -> None:
        ask = Ask(work, answer, finish=finish)
        self._answer(ask)
        ask.settle()

    def hand_over(self) -> None:
        """Nothing was kept back."""

    def ask_blocking(self, work: Callable[[C], T]) -> T:
        ask = Ask(work, NOBODY)
        self._answer(ask)
        if ask.trouble is not None:
            raise ask.trouble
        answer: T = ask.result
        return answer

    def _answer(self, ask: Ask[C, Any]) -> None:
        if self._closed:
            raise refusals.closed()
        self._serve([ask])
        self._rest()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._leave()


class Nobody:
    """The reply of a question whose answer is taken from itself."""

    def done(self) -> bool:
        return True

    def set_result(self, result: object, /) -> None: ...

    def set_exception(self, exception: Exception, /) -> None: ...


NOBODY = Nobody()


def fail(asks: Sequence[Ask[Any, Any]], trouble: Exception) -> None:
    """Each gets a copy: an exception that several raise gathers the tracebacks of all."""
    for ask in asks:
        ask.trouble = copy.copy(trouble)


def _settle_all(asks: Sequence[Ask[Any, Any]]) -> None:
    for follow in dict.fromkeys([ask.settle() for ask in asks]):
        if follow is not None:
            follow()
