"""A thread with a queue of questions, and the way back for the answers. Knows nothing of SQL.

An asyncio caller awaits an answer on its own loop, and a loop is woken once for a batch of answers, not once for each.
What is asked in one turn of a loop is handed over once, at the end of that turn, so that it shares a commit; where the
last batch was of one, nobody else seems to write, and the first of a turn is handed over at once. A blocking caller
waits on its own thread. The thread is a daemon: a program that forgets to close does not hang, and what was
acknowledged is safe all the same.

Who looks once and waits for nothing else needs neither thread nor loop: an `Inline` answers where it is asked. So
asyncio, half of what such a program would import, is imported by a `Lane` alone.
"""

from __future__ import annotations

import copy
import queue
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from amends.errors import AmendsError
from amends.journal.loops import Wakeup
from amends.journal.port import refusals

if TYPE_CHECKING:
    import asyncio

C = TypeVar("C")
T = TypeVar("T")
C_contra = TypeVar("C_contra", contravariant=True)
R_contra = TypeVar("R_contra", contravariant=True)


class Reply(Protocol[R_contra]):
    """A future, or something quicker: told the answer to a question. It may give what is to be called, once, when all
    answers of a batch are told.
    """

    def done(self) -> bool: ...

    def set_result(self, result: R_contra, /) -> Callable[[], object] | None: ...

    def set_exception(self, exception: Exception, /) -> Callable[[], object] | None: ...


class LaneQuestion(Protocol[C_contra]):
    """Answered in the thread, with its context, then settled where it was asked: on `loop`, or where there is none."""

    loop: asyncio.AbstractEventLoop | None
    trouble: Exception | None

    def answer(self, context: C_contra, /) -> None:
        """Work. What we raise on purpose is the answer; anything else is the whole batch's trouble, and flies."""
        ...

    def settle(self) -> Callable[[], object] | None:
        """Tell the one who waits; gives what is to be called, once, when all of a batch are told."""
        ...


class Ask(Generic[C, T]):
    """A question of any kind: what to do with the thread's context."""

    __slots__ = ("_future", "finish", "loop", "result", "trouble", "work")

    def __init__(
        self,
        work: Callable[[C], T],
        future: Reply[Any],
        loop: asyncio.AbstractEventLoop | None = None,
        finish: Callable[[T], object] | None = None,
    ) -> None:
        """`finish` makes the answer of what the thread found, where it was asked."""
        self.work = work
        self._future = future
        self.loop = loop
        self.finish = finish
        self.result: Any = None
        self.trouble: Exception | None = None

    def answer(self, context: C, /) -> None:
        try:
            self.result = self.work(context)
        except AmendsError as exc:
            self.trouble = exc

    def settle(self) -> Callable[[], object] | None:
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
        serve: Callable[[Sequence[LaneQuestion[C]]], None],
        rest: Callable[[], None],
        leave: Callable[[], None],
    ) -> None:
        from asyncio import get_running_loop

        self._running_loop = get_running_loop
        self._most = most
        self._serve, self._rest, self._leave = serve, rest, leave
        self._queue = queue.SimpleQueue[list[LaneQuestion[C]] | None]()
        self._turns: dict[asyncio.AbstractEventLoop, list[LaneQuestion[C]]] = {}
        """What was submitted in this turn of each loop, and is handed over at its end."""
        self._wakeups: dict[asyncio.AbstractEventLoop, Wakeup[Sequence[LaneQuestion[C]]]] = {}
        self._is_alone = True
        self._closed = False
        self._gate = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    async def ask(self, work: Callable[[C], T]) -> T:
        loop = self._running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._add(loop, Ask(work, future, loop))
        return await future

    def submit(self, ask: LaneQuestion[C]) -> None:
        """Ask, without waiting."""
        loop = ask.loop = self._running_loop()
        self._add(loop, ask)

    def _add(self, loop: asyncio.AbstractEventLoop, ask: LaneQuestion[C]) -> None:
        turn = self._turns.get(loop)
        if turn is not None:
            turn.append(ask)
            return
        if loop not in self._wakeups:
            self._know(loop)
        if self._is_alone:
            self._put([ask])
            self._turns[loop] = []  # whoever asks in the same turn does not write alone
        elif self._closed:
            raise refusals.closed()
        else:
            self._turns[loop] = [ask]
        loop.call_soon(self.hand_over, loop)

    def _know(self, loop: asyncio.AbstractEventLoop) -> None:
        """Be able to wake this loop; those that were closed since are forgotten."""
        for known in [known for known in self._wakeups if known.is_closed()]:
            self._wakeups.pop(known).end()
        self._wakeups[loop] = Wakeup(loop, partial(self._tell, loop))

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

    def _put(self, asks: list[LaneQuestion[C]]) -> None:
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
        for wakeup in self._wakeups.values():
            wakeup.end()

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

    def _deliver(self, asks: Sequence[LaneQuestion[C]]) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[LaneQuestion[C]]] = {}
        for ask in asks:
            if ask.loop is None:
                ask.settle()
            else:
                by_loop.setdefault(ask.loop, []).append(ask)
        for loop, told in by_loop.items():
            if (wakeup := self._wakeups.get(loop)) is not None:  # else it is closed, and nobody waits any more
                wakeup.wake(told)

    def _tell(self, loop: asyncio.AbstractEventLoop, told: Sequence[LaneQuestion[C]]) -> None:
        """Tell a batch of answers to a loop. What those submit who go on then is one group, and is handed over here."""
        self._turns.setdefault(loop, [])
        try:
            _settle_all(told)
        finally:
            self.hand_over(loop)

    def _take(self) -> tuple[list[LaneQuestion[C]], bool]:
        """Wait for one; then take everything that waits."""
        asks: list[LaneQuestion[C]] = []
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
        serve: Callable[[Sequence[LaneQuestion[C]]], None],
        rest: Callable[[], None],
        leave: Callable[[], None],
    ) -> None:
        self._serve, self._rest, self._leave = serve, rest, leave
        self._closed = False

    async def ask(self, work: Callable[[C], T]) -> T:
        return self.ask_blocking(work)

    def submit(self, ask: LaneQuestion[C]) -> None:
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

    def _answer(self, ask: LaneQuestion[C]) -> None:
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


def fail(asks: Sequence[LaneQuestion[Any]], trouble: Exception) -> None:
    """Each gets a copy: an exception that several raise gathers the tracebacks of all."""
    for ask in asks:
        ask.trouble = copy.copy(trouble)


def _settle_all(asks: Sequence[LaneQuestion[Any]]) -> None:
    for follow in dict.fromkeys([ask.settle() for ask in asks]):
        if follow is not None:
            follow()
