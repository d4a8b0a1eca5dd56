"""Undo and try again: `async for attempt in s.attempts(name, max=3): async with attempt: …`.

Each try begins with a mark, named `pay/1`, `pay/2`. An exception that leaves the block is put on record with the steps
that the block made; those are taken back, newest first; then the next try begins, and is told. Killed anywhere in
between, the function comes back to the same place and is told the same.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from amends.core.words.values import StepId
from amends.errors import (
    Abort,
    CallPerson,
    Complete,
    DeclarationError,
    DivergedError,
    InputError,
    PastPivotError,
    StepError,
)
from amends.runtime.saga.rewind import Feedback, Passed, Rewinds, checked_name, feedback_of, first


class Attempt:
    """One try of a block: enter it with `async with`."""

    def __init__(self, rewinds: Rewinds, name: str, number: int, most: int, before: Feedback | None) -> None:
        self.number = number
        self.feedback = before
        """Why the try before failed, and what was taken back; None on the first."""
        self.is_last = number == most
        self.after: Feedback | None = None
        self.succeeded = False
        self._rewinds = rewinds
        self._name = name
        self._begun: Passed | None = None

    def __repr__(self) -> str:
        return f"<attempt {self.number} of {self._name}>"

    @property
    def was_entered(self) -> bool:
        return self._begun is not None

    async def __aenter__(self) -> Self:
        self._begun = await self._rewinds.mark(f"{self._name}/{self.number}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None:
            self.succeeded = True
            return False
        if self._begun is None or not _is_failure(error) or not self._rewinds.may_go_on():
            return False
        failed = first(StepError, error)
        why = str(failed) if failed is not None else f"{type(error).__name__}: {error}".rstrip(": ")
        step = None if failed is None else StepId(failed.step)
        try:
            rewind = await self._rewinds.rewind(self._begun, why, step=step, attempt=self.number)
        except PastPivotError as exc:
            raise PastPivotError(f"{why}; {self!r} is not taken back: {exc}") from error
        earlier = () if self.feedback is None else self.feedback.all
        self.after = feedback_of(self._rewinds.saga, rewind, earlier)
        return not self.is_last


def _is_failure(error: BaseException) -> bool:
    """Whether it says that the block failed; not that the work has ended, or is stopped."""
    if not isinstance(error, Exception) or isinstance(error, DivergedError):
        return False
    return all(first(kind, error) is None for kind in (Abort, Complete, CallPerson))


class Attempts:
    """The tries of one block, one after the other, until one succeeds."""

    def __init__(self, rewinds: Rewinds, name: str, most: int) -> None:
        if most < 1:
            raise InputError(f"s.attempts({name!r}, max={most}): at least 1 attempt has to be allowed")
        self._rewinds = rewinds
        self._name = checked_name(name)
        self._most = most
        self._last: Attempt | None = None

    def __aiter__(self) -> Attempts:
        return self

    async def __anext__(self) -> Attempt:
        last = self._last
        if last is not None and not last.was_entered:
            raise DeclarationError(f"{last!r} was not entered: write `async with attempt:` inside the loop")
        if last is not None and last.succeeded:
            raise StopAsyncIteration
        number = 1 if last is None else last.number + 1
        self._last = Attempt(self._rewinds, self._name, number, self._most, None if last is None else last.after)
        return self._last
