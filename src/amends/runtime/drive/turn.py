"""Turns of the loop: who waits for an answer of the journal goes on in the turn in which it comes, one after the other,
and all that they tell then is written together.

A future would have each of them go on a turn of the loop later, by a call of the loop of its own. A step waits for the
journal once, so with one saga alone that is a second look at all of the loop's files for every step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextvars import Context
from typing import Any, Protocol

from amends.dataclass import dataclass


class Writes(Protocol):
    """A pen, as far as the end of a turn needs it."""

    is_writing: bool

    def begin_append(self) -> None: ...


@dataclass(slots=True, eq=False)
class Answered:
    """An answer that one task awaits: mostly, that nothing up to the command number `to` is still to be written.

    To a task it is a future that has one listener: itself. `go_on` has it go on here and now, in its own context.
    """

    _loop: asyncio.AbstractEventLoop
    to: int = 0
    _asyncio_future_blocking: bool = False
    _callback: Callable[[Answered], object] | None = None
    _context: Context | None = None
    _is_over: bool = False
    _is_cancelled: bool = False

    def __await__(self) -> Generator[Answered, None, None]:
        if not self._is_over:
            self._asyncio_future_blocking = True
            yield self

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def add_done_callback(self, callback: Callable[[Answered], object], *, context: Context | None = None) -> None:
        self._callback, self._context = callback, context

    def done(self) -> bool:
        return self._is_over

    def cancel(self, msg: Any = None) -> bool:  # noqa: ANN401 - as asyncio calls it
        """The task that waits is cancelled: it hears of it in the next turn, as from any future."""
        if self._is_over:
            return False
        self._is_over = self._is_cancelled = True
        if self._callback is not None:
            self._loop.call_soon(self._callback, self, context=self._context)
        return True

    def result(self) -> None:
        if self._is_cancelled:
            raise asyncio.CancelledError

    def go_on(self) -> None:
        """Called by the loop and not by a task: only then may another one go on."""
        if not self._is_over:
            self._is_over = True
            if self._callback is not None and self._context is not None:
                self._context.run(self._callback, self)


class Turn:
    """The end of a turn of the loop, for all pens of one worker that write then: one call of the loop for all."""

    def __init__(self) -> None:
        self._books: dict[Writes, None] = {}
        self.woken: list[Answered] = []
        """Those that go on when this turn ends; whoever puts one here has it end, by `expect` or `end`."""
        self._is_expected = False

    def add(self, book: Writes) -> None:
        """Have it write what it was told at the end of this turn."""
        if not self._is_expected:
            self.expect()
        self._books[book] = None

    def drop(self, book: Writes) -> None:
        """Leave it to others to have that written."""
        self._books.pop(book, None)

    def expect(self) -> None:
        """End after all that the loop has to do by now."""
        if not self._is_expected:
            self._is_expected = True
            asyncio.get_running_loop().call_soon(self.end)

    def end(self) -> None:
        """Have those go on who were woken; then have written what they told, and what others told in this turn."""
        woken, self.woken = self.woken[::-1], []
        self._is_expected = True  # what is told now is written by this very call
        try:
            while woken:
                woken.pop().go_on()
        finally:
            self._is_expected = False
            self.woken += reversed(woken)  # some are left only where the program is about to end
            if self.woken:
                self.expect()
        books, self._books = self._books, {}
        for book in books:
            if not book.is_writing:
                book.begin_append()
