"""Open sagas: the part of a coordinator that opens a session, or takes one up again."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Any, Final, cast

from amends.clock import Clock
from amends.core import commands as c
from amends.core.words.outcomes import Outcome
from amends.core.words.values import SESSION, Json, SagaId, StepId
from amends.errors import InputError, RefusedError
from amends.journal.port.journal import Journal
from amends.runtime.declare.action import checked_topic
from amends.runtime.declare.limits import Limits, journaled
from amends.runtime.declare.names import checked_actor, checked_id, checked_labels, require_own_id
from amends.runtime.engine.handle import Ended, Handle
from amends.runtime.engine.late import AttemptEnd, put_on_record
from amends.runtime.engine.local import LocalEngine
from amends.runtime.engine.resume import require_same
from amends.runtime.saga.open import ON_IDLE, Idle, OnIdle
from amends.runtime.saga.session import Session
from amends.runtime.settings import Settings, bounded
from amends.runtime.values.bounded import Kept, keep, small_or_off_loop
from amends.secrets import is_alike, is_reference
from amends.source.marked import duration_s

_LONGEST_IDLE_S: Final = 366 * 86_400.0


class Sessions(ABC):
    """Opens sessions. They are sagas: listed, shown, cancelled and proved as all others are."""

    settings: Settings
    journal: Journal
    loop: asyncio.AbstractEventLoop
    _engine: LocalEngine
    _clock: Clock

    @asynccontextmanager
    async def session(  # noqa: PLR0913 - what can be said of it, each by name
        self,
        name: str,
        *,
        id: str | None = None,
        actor: str | None = None,
        labels: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        idle: str | float | timedelta = "1h",
        on_idle: OnIdle = "call",
        wait: float | timedelta = 0,
        detach_on: tuple[type[BaseException], ...] = (),
        input: Mapping[str, Any] | None = None,
    ) -> AsyncGenerator[Session, None]:
        """Open a saga without a function, to be driven step by step from this block; or take it up again, by its id.

        Left well it is completed; by an exception, rolled back. A cancellation, a KeyboardInterrupt, `Detach` and what
        is in `detach_on` leave it open: whoever opens the same id goes on with it, after what was lost has been
        settled.
        id: the same id is the same session. Raises RefusedError where it has ended, is another kind of saga, or
        another process has it open; wait: how many seconds to wait for that one first.
        idle: how long it may be without a step; what happens then is on_idle: "call" tells a person by an incident,
        which is over with the next step, "rollback" takes all back, "keep" does nothing. Waiting for people, signals
        or timers does not count.
        input: what it is about, by name, for the record; taken up again, it has to be the same.
        """
        saga = SagaId(checked_id(id) if id is not None else self._clock.new_id())
        said = Idle(_idle_s(idle), _then(on_idle))
        given = await small_or_off_loop(partial(_kept, input, saga, name))
        host = _Host(self._engine, self)
        session = Session(host, saga, str(checked_topic(name)), said, detach_on)
        opened = self._engine.sessions.here
        if saga in opened:
            raise RefusedError(f"session {saga} is open in this process already; use that one, or detach it first")
        opened[saga] = session.definition
        self._engine.sessions.stop_alarm(saga)
        try:
            if id is None or not await self._take_up(session, actor, _seconds(wait), given):
                if id is not None:
                    require_own_id(id)
                self._open(session, actor, labels, limits, said, {} if given is None else given.value)
                if id is not None and await self._engine.put_on_record(saga) is not None:
                    await self._take_up(session, actor, _seconds(wait), given)  # another process was faster
            async with session:
                yield session
        finally:
            host.left(saga)

    async def require_begun(self, saga: str) -> None:
        """Have a saga on record that was started here, which it is otherwise with its first step.

        Raises RefusedError where another process began another one under its id first.
        """
        ours = await self._engine.put_on_record(SagaId(saga))
        there = None if ours is None else (await self._engine.load(SagaId(saga))).begun
        if ours is not None and there is not None:
            require_same(SagaId(saga), there, ours)

    async def tell_end(
        self, saga: str, step: str, *, attempt: int, outcome: Outcome, wait: float | timedelta = 0
    ) -> None:
        """Put on record how an attempt ended whose driver has gone, or gave it up; `wait` for that so many seconds.

        Raises UnknownError where it has not, and for an attempt that is not on record.
        """
        end = AttemptEnd(saga=SagaId(saga), step=StepId(step), attempt=attempt, outcome=outcome)
        await put_on_record(self._engine, self.journal, self._clock, end, _seconds(wait))

    async def _take_up(self, session: Session, actor: str | None, wait_s: float, given: Kept | None) -> bool:
        """Whether there is such a session. Raises RefusedError where it is not for this block to go on with."""
        saga, since = session.id, self._clock.elapsed()
        while True:
            begun = await self._engine.begun(saga)
            if begun is None:
                return False
            if begun.session is None or begun.definition != session.name:
                what = begun.definition if begun.session is None else f"session {begun.definition}"
                raise RefusedError(f"saga {saga} is {what}, and not session {session.name}; use another id")
            if actor is not None and checked_actor(actor) != begun.actor:
                raise RefusedError(f"session {saga} is {begun.actor}'s, and not {checked_actor(actor)}'s")
            if given is not None and not _is_same(given, begun.input, saga):
                raise RefusedError(f"session {saga} is on record with another input; use another id")
            state = await self._engine.load(saga)
            if state.status.ended or state.rollback is not None:
                raise RefusedError(f"session {saga} has ended, or goes back: it is {state.status}; use another id")
            if state.open_incidents and not state.works:
                raise RefusedError(f"session {saga} has stopped at an incident: {state.open_incidents[-1].why}")
            if (running := self._engine.running(saga)) is not None:
                if await _is_served(session, running):
                    return True
                continue  # this worker has just settled what was lost
            if await self._engine.take_up_session(saga) is not None:
                return True
            if self._clock.elapsed() - since >= wait_s:
                holder = await self._engine.holder(saga)
                whose = f"{holder} has it open" if holder else f"it is {state.status}"
                raise RefusedError(f"session {saga} cannot be taken up now: {whose}; detach it there, or give wait=")
            await self._clock.sleep(self.settings.poll_s)

    def _open(
        self,
        session: Session,
        actor: str | None,
        labels: Mapping[str, str] | None,
        limits: Limits | None,
        idle: Idle,
        given: Json,
    ) -> None:
        env, stands_for = self._placed()
        start = c.StartSaga(
            definition=session.name,
            version=0,
            input=given,
            actor=checked_actor(actor),
            env=env,
            labels={**checked_labels(labels), SESSION: "open"},
            limits=journaled(self.settings.limits, limits, now=self._clock.now()),
            taken_for=stands_for,
            session=idle.as_json(),
        )
        start = bounded(start, session.definition.options, self.settings, None)
        self._begin_session(session, start)

    @abstractmethod
    def _placed(self) -> tuple[str, str]: ...

    @abstractmethod
    def _begin_session(self, session: Session, start: c.StartSaga) -> None: ...

    @abstractmethod
    async def cancel(self, saga: str, *, why: str = ..., by: str | None = ..., mitigate: bool = ...) -> Ended: ...


async def _is_served(session: Session, running: Handle) -> bool:
    """Whether what is driven here is this session, which a worker of this process took up; else wait for its halt."""
    opened: asyncio.Future[Any] = asyncio.ensure_future(session.opened.wait())
    halted: asyncio.Future[Any] = asyncio.ensure_future(running.halt())
    try:
        await asyncio.wait({opened, halted}, return_when=asyncio.FIRST_COMPLETED)
        return session.opened.is_set()
    finally:
        opened.cancel()
        halted.cancel()


class _Host:
    """The engine, as a session asks it."""

    def __init__(self, engine: LocalEngine, coordinator: Sessions) -> None:
        self._engine = engine
        self._coordinator = coordinator
        self.state = engine.state

    async def halted(self, saga: SagaId) -> Ended[Any]:
        running = self._engine.running(saga)
        return await self._engine.told(await self._engine.load(saga)) if running is None else await running.halt()

    async def cancel(self, saga: str, *, why: str = "cancelled") -> Ended[Any]:
        return await self._coordinator.cancel(saga, why=why)

    def left(self, saga: SagaId) -> None:
        self._engine.sessions.here.pop(saga, None)


def _kept(input: Mapping[str, Any] | None, saga: SagaId, name: str, most: int) -> Kept | None:
    """A session's input as it is stored. Raises NotJsonError, TooLargeError, or InputError for one with a secret."""
    if input is None:
        return None
    kept = keep(dict(input), saga, f"session {name}: input", most)
    if not all(map(is_reference, kept.secrets)):
        raise InputError(f"session {name}: its input holds a secret, which is not on record; pass a reference to it")
    return kept


def _is_same(given: Kept, recorded: Json, saga: SagaId) -> bool:
    return given.value == recorded or is_alike(given.value, recorded, given.secrets, saga)


def _seconds(wait: float | timedelta) -> float:
    return wait.total_seconds() if isinstance(wait, timedelta) else float(wait)


def _idle_s(idle: str | float | timedelta) -> float:
    """Raises InputError."""
    seconds = duration_s(idle) if isinstance(idle, str) else _seconds(idle)
    if seconds is None or not 0 < seconds <= _LONGEST_IDLE_S:
        raise InputError(f"idle={idle!r} is no time without a step: write '30m', '1h', '2d', seconds or a timedelta")
    return seconds


def _then(on_idle: object) -> OnIdle:
    if on_idle not in ON_IDLE:
        raise InputError(f"on_idle={on_idle!r} is none of {', '.join(ON_IDLE)}")
    return cast("OnIdle", on_idle)
