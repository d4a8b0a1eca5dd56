"""Waiting inside a saga: sleeps and signals, answered from the journal like steps. It decides nothing.

A wait has a place of its own among the steps, and its end is a fact: called again, the function finds the same answer
at the same place. The time that counts is the one on record: when a function is called again, the duration that it
asks for is not compared with the first, because what is left of it differs each time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final, cast

from amends.core import commands as c
from amends.core.decide.require import later
from amends.core.state.waits import Wait, wait_words
from amends.core.transitions import WaitStatus
from amends.core.words.values import Json, StepId
from amends.dataclass import dataclass
from amends.errors import InputError, RefusedError, WaitTimeoutError
from amends.runtime.drive.asking import wait_outside
from amends.runtime.drive.positions import TakesPlaces
from amends.runtime.drive.run import Run

LONGEST_NAME: Final = 128


@dataclass(slots=True, eq=False)
class Waiting:
    """The waits of one call of a saga's function."""

    _run: Run
    _forward: TakesPlaces

    async def sleep(self, seconds: float | timedelta) -> None:
        span_s = seconds_of(seconds, "s.sleep")
        await self._wait("", lambda: later(self._run.around.clock.now(), span_s))

    async def sleep_until(self, when: datetime | float) -> None:
        until = _moment(when)
        await self._wait("", lambda: until)

    async def wait_for(self, name: str, timeout: float | timedelta | None) -> Json:  # noqa: ASYNC109 - the time is kept on record
        checked_name(name)
        span_s = math.inf if timeout is None else seconds_of(timeout, f"s.wait_for({name!r})")
        wait = await self._wait(name, lambda: later(self._run.around.clock.now(), span_s))
        waits = self._run.book.saga.waits
        if wait.signal is None or waits is None:
            raise WaitTimeoutError(f"nobody sent {name!r} in time (place {wait.place})", name=name)
        return waits.signals[wait.signal].payload

    async def _wait(self, name: str, until: Callable[[], int]) -> Wait:
        run, book, clock = self._run, self._run.book, self._run.around.clock
        place, is_remembered = await self._forward.place(wait_words(name), "")
        if not is_remembered:
            run.stop_if_draining()
            book.tell(c.StartWait(place=place, name=name, until=until()))
        while (wait := self._at(place)).status is WaitStatus.OPEN:
            if clock.now() >= wait.until:
                book.tell(c.EndWait(place=place))
            else:
                await wait_outside(run, wait.until)
                run.stop_if_draining()
        book.commit_soon()
        return wait

    def _at(self, place: StepId) -> Wait:
        saga = self._run.book.saga
        wait = None if saga.waits is None else saga.waits.places.get(place)
        if wait is None:
            raise RefusedError(f"saga {saga.id} is {saga.phase}; it does not wait at place {place}")
        return wait


def checked_name(name: str) -> str:
    """A signal's name, checked. Raises InputError."""
    if not isinstance(cast("object", name), str) or not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
        raise InputError(f"{name!r} is no name for a signal: use 1 to {LONGEST_NAME} printable characters")
    return name


def seconds_of(span: float | timedelta, what: str) -> float:
    seconds = span.total_seconds() if isinstance(span, timedelta) else span
    if isinstance(seconds, bool) or not isinstance(cast("object", seconds), int | float) or not seconds >= 0:
        raise InputError(f"{what} takes a number of seconds, or a timedelta, of 0 or more, and not {span!r}")
    return float(seconds)


def _moment(when: datetime | float) -> int:
    if isinstance(when, datetime):
        if when.tzinfo is None:
            raise InputError(f"s.sleep_until: {when.isoformat()} has no time zone; pass an aware datetime")
        return round(when.timestamp() * 1000)
    if isinstance(when, bool) or not isinstance(cast("object", when), int | float) or not math.isfinite(when):
        raise InputError(f"s.sleep_until takes an aware datetime, or seconds since 1970, and not {when!r}")
    return round(when * 1000)
