"""Taking up what was left unfinished: how many sagas at a time, and `resume`, which says how each ended.

A saga that is taken up has a seat while it is read, replayed and driven on. It leaves its seat when it has come to its
end or is parked, and also when it waits inside an action for longer than `poll_s`: an hour of that costs no more than
in a saga that was started here, and there may be rollbacks behind it. It takes no seat again when the action ends.

The same id twice is one saga: whoever comes second joins it, as long as they ask for the same.

A start is on disk only with its saga's first intent, so two processes may both begin one: the journal lets one of them
write, and nothing of the other has been dispatched. That one joins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, Protocol, TypeAlias

from amends.clock import Clock
from amends.core.commands import StartSaga
from amends.core.events import SagaStarted
from amends.core.state.deciders import normal
from amends.core.state.saga import Saga
from amends.core.words.values import BUILT_IN, Json, SagaId
from amends.errors import AmendsError, JournalConflictError, RefusedError
from amends.journal.port.journal import Lease
from amends.logs import logger
from amends.runtime.declare.names import SYSTEM, login
from amends.runtime.drive.logbook import Logbook
from amends.runtime.engine.handle import Ended, Handle, halted
from amends.runtime.settings import Settings
from amends.text import short, spelled

_log = logger("amends.engine")
_SILENCE_S: Final = 10.0
Driven: TypeAlias = dict[asyncio.Future[Ended | None], SagaId]


class Engine(Protocol):
    """The engine, as whoever resumes or joins a saga asks it."""

    def take_up_dropped(self) -> Driven: ...

    def families_under_way(self) -> Driven: ...

    async def take_up_due(self, most: int, trouble: Callable[[SagaId, AmendsError], None]) -> Driven: ...

    async def next_halt(self, saga: SagaId) -> Ended | None: ...

    async def drive_parent(self, parent: SagaId, since: int) -> Ended | None: ...

    def attempts(self, saga: SagaId) -> tuple[object, ...]: ...

    async def drive(self, saga: SagaId) -> Ended | None: ...

    async def load(self, saga: SagaId) -> Saga: ...

    async def told(self, saga: Saga) -> Ended: ...


class Seats:
    """The sagas that are being taken up, at most `resumed_at_once` of them; and those beside them, which need no seat.

    Each end is heard of where it happens. To ask all of them, at every end, would cost the square of how many they are.
    """

    def __init__(self, engine: Engine, settings: Settings, clock: Clock) -> None:
        self._engine = engine
        self._settings = settings
        self._clock = clock
        self._seated: Driven = {}
        self._beside: Driven = {}
        self._over: list[asyncio.Future[Ended | None]] = []
        self._heard = asyncio.Event()
        self._seen: dict[SagaId, tuple[tuple[object, ...], float]] = {}
        """The attempts that a saga was first seen in, and when."""
        self._next_look = 0.0
        self._full_since: float | None = None
        self._has_said = False

    @property
    def are_empty(self) -> bool:
        """Whether nobody has a seat. There may be some beside them."""
        return not self._seated

    @property
    def are_deserted(self) -> bool:
        """Whether nobody has a seat, or stands beside."""
        return not self._seated and not self._beside

    @property
    def free(self) -> int:
        return self._settings.resumed_at_once - len(self._seated)

    def seat(self, taken: Driven) -> None:
        self._listen(taken)
        self._seated |= taken

    def stand(self, others: Driven) -> None:
        """Have these beside the seats: they wait in an action, or for what those hold that wait for a seat."""
        self._listen(others)
        self._beside |= others

    def cancel(self) -> None:
        for one in (*self._seated, *self._beside):
            one.cancel()

    def _listen(self, driven: Driven) -> None:
        for one in driven:
            one.add_done_callback(self._hear)

    def _hear(self, one: asyncio.Future[Ended | None]) -> None:
        self._over.append(one)
        self._heard.set()

    async def wait(self) -> bool:
        """Until one has halted. Where no seat is free, for `poll_s` at most: whether it was that; somebody may be found
        to wait inside an action by then.
        """
        if self.free > 0:
            await self._heard.wait()
            return False
        heard: asyncio.Future[Any] = asyncio.ensure_future(self._heard.wait())
        nap: asyncio.Future[Any] = asyncio.ensure_future(self._clock.sleep(self._settings.poll_s))
        try:
            await asyncio.wait([heard, nap], return_when=asyncio.FIRST_COMPLETED)
            return nap.done()
        finally:
            heard.cancel()
            nap.cancel()

    def leave(self) -> list[asyncio.Future[Ended | None]]:
        """Free the seats of those that have halted: which they are; and of those that wait inside an action."""
        now = self._clock.elapsed()
        over, self._over = self._over, []
        self._heard.clear()
        for one in over:
            if (saga := self._seated.pop(one, None)) is not None:
                self._seen.pop(saga, None)
            self._beside.pop(one, None)
        if now >= self._next_look:  # and not at every end: there may be hundreds of others
            self._next_look = now + self._settings.poll_s / 2
            for one in [one for one, saga in self._seated.items() if self._is_inside(saga, now)]:
                saga = self._beside[one] = self._seated.pop(one)
                self._seen.pop(saga, None)
        self._say_if_full(now)
        return over

    def _is_inside(self, saga: SagaId, now: float) -> bool:
        """Whether it was in one and the same attempt all the time since it was looked at a while ago."""
        attempts = self._engine.attempts(saga)
        before, since = self._seen.get(saga, ((), now))
        same = tuple(one for one in before if one in attempts)
        if same:
            return now - since >= self._settings.poll_s
        self._seen[saga] = (attempts, now)
        return False

    def _say_if_full(self, now: float) -> None:
        if self.free > 0:
            self._full_since, self._has_said = None, False
        elif self._full_since is None:
            self._full_since = now
        elif not self._has_said and now - self._full_since >= _SILENCE_S:
            self._has_said = True
            most, first = self._settings.resumed_at_once, next(iter(self._seated.values()))
            _log.warning(
                "%d sagas are being taken up, as many as Settings.resumed_at_once lets, and for %d s none of them has"
                " come to its end or waits in an action (one is %s): what else is due waits for them",
                *(most, now - self._full_since, first),
            )


async def resumed(engine: Engine, seats: Seats, since: int) -> list[Ended]:
    """`since` is when it began. A parent that waited for a child goes on when that has ended, and so on upwards."""
    found = Resumed()
    seats.seat(engine.take_up_dropped())
    seats.stand(engine.families_under_way())
    while True:
        taken = await engine.take_up_due(seats.free, found.add_trouble)
        seats.seat(taken)
        if seats.are_deserted:
            return found.all_ended()
        if not taken:
            await seats.wait()
            for one in seats.leave():
                match found.add(one):
                    case Ended(in_line=True, id=saga):
                        seats.stand({asyncio.ensure_future(engine.next_halt(saga)): saga})
                    case Ended(parent=parent, status=status) if parent is not None and status.ended:
                        seats.seat({asyncio.ensure_future(engine.drive_parent(parent, since)): parent})
                    case _:
                        pass


async def taken_up(
    leases: Sequence[Lease],
    take_up: Callable[[Lease], Awaitable[Handle]],
    trouble: Callable[[SagaId, AmendsError], None],
) -> Driven:
    """Read them side by side, and drive each; one that cannot be read must not keep the others waiting."""
    driven: Driven = {}
    found = await asyncio.gather(*map(take_up, leases), return_exceptions=True)
    for lease, handle in zip(leases, found, strict=True):
        if isinstance(handle, AmendsError):
            trouble(lease.saga, handle)
        elif isinstance(handle, BaseException):
            raise handle
        else:
            driven[asyncio.ensure_future(halted(handle))] = lease.saga
    return driven


class Resumed:
    """How the sagas of one `resume` ended. What is wrong with one of them is raised when the others are through.

    One that was driven more than once, because a child of its ended meanwhile, is told of once, as it stood at last.
    """

    def __init__(self) -> None:
        self._ended: dict[SagaId, Ended] = {}
        self._trouble: BaseException | None = None

    def add(self, driven: asyncio.Future[Ended | None]) -> Ended | None:
        """How far it came. Where it only stands in line for what others hold, it is driven on."""
        error = driven.exception()
        if isinstance(error, JournalConflictError):
            _log.info("a resumed saga is driven elsewhere: %s", error)
        elif error is not None:
            self._trouble = self._trouble or error
        elif (saga := driven.result()) is not None:
            self._ended.pop(saga.id, None)
            if not saga.in_line:
                self._ended[saga.id] = saga
            return saga
        return None

    def add_trouble(self, saga: SagaId, error: AmendsError) -> None:
        _log.error("saga %s cannot be resumed: %s", saga, error)
        self._trouble = self._trouble or error

    def all_ended(self) -> list[Ended]:
        if self._trouble is not None:
            raise self._trouble
        return list(self._ended.values())


def require_same(saga: SagaId, begun: SagaStarted, start: StartSaga | SagaStarted, *, by_anybody: bool = False) -> None:
    """Raises RefusedError where a start asks for another saga than the one that has its id.

    by_anybody: whoever asks for it, wherever they say that it is, and whatever they note on it.
    """
    if (begun.definition, begun.version) != (start.definition, start.version):
        there, asked = (f"{one.definition} version {one.version}" for one in (begun, start))
        what = f"it is {there}, and {asked} is asked for"
    elif begun.input != start.input:
        what = _differing(begun.input, start.input)
    else:
        what = "" if by_anybody else _around(begun, start)
    if not what:
        return
    raise RefusedError(
        f"saga {saga} exists already, with another beginning: {what}; use another id, or ask for the same to join it"
    )


def _around(begun: SagaStarted, start: StartSaga | SagaStarted) -> str:
    """Further differences: another actor, environment or label. The runtime's own labels are nobody's wish."""
    differing: list[str] = []
    defaulted = begun.actor == SYSTEM and start.actor == login()
    if normal(begun.actor) != normal(start.actor) and not defaulted:
        differing.append(f"its actor is {short(begun.actor)}, and {short(start.actor)} is given")
    if begun.env != start.env:
        differing.append(f"its environment is {short(begun.env)}, and {short(start.env)} is given")
    labels, asked = (
        {name: value for name, value in each.labels.items() if not name.startswith(BUILT_IN)} for each in (begun, start)
    )
    if labels != asked:
        differing.append(f"of its labels, {_differing(dict(labels), dict(asked))}")
    return "; ".join(differing)


def _differing(begun: Json, asked: Json) -> str:

    if not isinstance(begun, dict) or not isinstance(asked, dict):
        return f"its input is {spelled(begun)}, and {spelled(asked)} is given"
    names = [name for name in sorted({*begun, *asked}) if begun.get(name) != asked.get(name)]
    return ", ".join(f"{short(n)} is {spelled(begun.get(n))}, and {spelled(asked.get(n))} is given" for n in names)


async def followed(engine: Engine, saga: SagaId) -> Ended:
    """Drive a saga that exists, where nobody else does; else where it stands."""
    return await engine.drive(saga) or await engine.told(await engine.load(saga))


async def driven_or_joined(driving: Coroutine[Any, Any, Ended], book: Logbook, engine: Engine) -> Ended:
    """The end of a drive. Where another process began the same saga first, that one's."""
    try:
        return await driving
    except JournalConflictError:
        start = book.saga.begun
        if not book.is_unborn or start is None:
            raise
    there = (await engine.load(book.saga.id)).begun
    if there is not None:
        require_same(book.saga.id, there, start)
    return await followed(engine, book.saga.id)
