"""A coordinator that stands before a server: journal, gate and keys are the server's, the calls are this process's.

`Coordinator.connect(url)` opens one. While it is open it takes the tasks of its own sessions: compensations, probes,
before-images. `work` has it take those of any saga whose actions this process knows, and go on with sagas whose process
has gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, TypeVar, cast

from amends.clock import SystemClock
from amends.core.transitions import SagaStatus
from amends.core.words.values import BUILT_IN, Json, SagaId, StepId
from amends.errors import AmendsError, Complete, InputError, RefusedError, SessionOverError, UnknownError
from amends.logs import logger
from amends.remote.asking import Asking
from amends.remote.calls import made
from amends.remote.children import KnownDefinitions
from amends.remote.limits import declared_limits, require_remote
from amends.remote.outcomes import CallReport
from amends.remote.secrets import GivenSecrets
from amends.remote.server import Fields, Server
from amends.remote.session import WAIT_S, RemoteSession, SessionRequest
from amends.remote.work import RemoteWork
from amends.runtime.coordinator.starting import Starting
from amends.runtime.declare.action import Action, InFunction, current_call
from amends.runtime.declare.definition import SagaDefinition
from amends.runtime.declare.limits import Limits
from amends.runtime.declare.names import checked_id, checked_labels
from amends.runtime.declare.registry import Registry
from amends.runtime.drive.executor import Executor
from amends.runtime.drive.validation import verify
from amends.runtime.engine.handle import Ended, Handle
from amends.runtime.saga.open import OnIdle
from amends.runtime.saga.rewind import first
from amends.runtime.saga.work import performed
from amends.runtime.settings import Bounds
from amends.runtime.values.bounded import small_or_off_loop
from amends.secrets import is_alike

R = TypeVar("R")
_THREADS: Final = 64
_LOOK_S: Final = 2.0
_STANDS_S: Final = 0.1
_LEAVE_S: Final = 3.0
"""How long whoever closes waits for the server to hear that a session is left."""
_WHERE: Final = "do it where the server runs, with Coordinator.open or the command line there"
_GOING: Final = frozenset({SagaStatus.RUNNING, SagaStatus.ROLLING_BACK})
_UNFINISHED: Final = ("running", "waiting", "paused")
_log = logger("amends.remote")


class RemoteCoordinator(Starting, Asking):
    """Runs sagas through a server. `amends.Coordinator.connect(url)` makes one; use it as an async context manager."""

    def __init__(self, server: Server, registry: Registry) -> None:
        self.server = server
        self.registry = registry
        self.secrets = GivenSecrets(server.token)
        self.definitions = KnownDefinitions(registry)
        self.id = SystemClock().new_id()
        """This client's own: under it it takes the tasks of its sessions."""
        self.loop = asyncio.get_running_loop()
        self._clock = SystemClock()
        self._executor = Executor(_THREADS)
        self._sessions: dict[SagaId, RemoteSession] = {}
        self._running: dict[SagaId, asyncio.Task[Ended[Any]]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._taking: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Coordinator at {self.server.url}>"

    if not TYPE_CHECKING:  # who checks types is told before it runs

        def __getattr__(self, name: str) -> NoReturn:
            from amends.runtime.coordinator.coordinator import Coordinator  # with all that drives a journal at hand

            where = f"; it takes the journal itself: {_WHERE}" if hasattr(Coordinator, name) else ""
            raise AttributeError(f"a coordinator that is connected to a server has no {name}{where}")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Leave what is open here, for whoever goes on with it, and let the server go."""
        under_way = [one for one in (*self._running.values(), self._taking) if one is not None]
        for one in under_way:
            one.cancel()
        if under_way:
            await asyncio.wait(under_way)
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self.server.close()

    # -- as its sessions ask it ---------------------------------------------------------------------------------------

    async def make(self, task: Mapping[str, Any], action: Action[..., Any] | None = None) -> CallReport:
        self.secrets.enter()
        return await made(task, self.registry, self._executor, self.secrets, action)

    async def drive_child(self, definition: SagaDefinition[..., Any], child: str) -> None:
        running = self._running.get(SagaId(child))
        if running is None:
            shown = await self.server.get(f"/sessions/{child}")
            request = SessionRequest(name=definition.name, id=child, on_idle="keep", input=shown["input"])
            running = self._begin(definition, request)
        await asyncio.wait({running})
        error = None if running.cancelled() else running.exception()
        if error is not None and not isinstance(
            error, RefusedError
        ):  # refused: another client drives it, or nobody may
            raise error

    def know(self, action: Action[..., Any]) -> None:
        self.registry.ensure_action(action)

    def opened(self, session: RemoteSession) -> None:
        self._sessions[session.id] = session
        if self._taking is None or self._taking.done():
            self._taking = asyncio.ensure_future(self._take(("*",), client=self.id))

    def left(self, session: RemoteSession) -> None:
        if self._sessions.get(session.id) is session:
            del self._sessions[session.id]
        if not self._sessions and self._taking is not None:
            self._taking.cancel()
            self._taking = None

    def ended(self, fields: Fields, definition: SagaDefinition[..., Any] | None = None) -> Ended[Any]:
        """How a saga stands, of the fields that a server tells."""
        result = fields["result"]
        restored: object = result
        if definition is not None and definition.typed.result.loads and result is not None:
            restored = definition.typed.restore_result(result)
        return Ended(
            id=SagaId(fields["id"]),
            status=SagaStatus(fields["status"]),
            result=restored,
            recorded=result,
            why=fields["why"],
            cause=fields["cause"],
            step=None if fields["step"] is None else StepId(fields["step"]),
            incidents=tuple(fields["incidents"]),
            waits_for=tuple(fields["waits_for"]),
            due_at=fields["due_at"],
            source=self._record,
        )

    async def _record(self, saga: SagaId) -> dict[str, Json]:
        return await self.server.get(f"/evidence/record/{saga}")

    # -- tasks --------------------------------------------------------------------------------------------------------

    async def _take(self, topics: Sequence[str], **more: str) -> None:
        """Take tasks, and do them side by side, until cancelled."""
        while True:
            try:
                task = (await self.server.get("/tasks", topic=list(topics), wait=WAIT_S, **more))["task"]
            except AmendsError as exc:
                _log.warning("tasks cannot be taken just now: %s", exc)
                await self._clock.sleep(_LOOK_S)
                continue
            if task is not None:
                self._spawn(self._do(task))

    def _spawn(self, work: Any) -> None:  # noqa: ANN401 - a coroutine
        doing = asyncio.ensure_future(work)
        self._tasks.add(doing)
        doing.add_done_callback(self._tasks.discard)

    async def _do(self, task: Fields) -> None:
        token = current_call.set(None)
        try:
            report = await self.make(task)
            await self.server.post(f"/attempts/{task['token']}/outcome", {**report, "wait": 0})
        except AmendsError as exc:
            _log.warning("saga %s: how step %s (%s) ended could not be reported: %s", *_named(task), exc)
        finally:
            current_call.reset(token)

    async def work(self) -> None:
        """Be a worker, until cancelled: make the calls of any saga whose actions this process knows, and go on with
        sagas whose process has gone.
        """
        topics = sorted({one.topic for one in self.registry.actions()})
        if not topics:
            raise InputError("this process knows no actions; import the modules that declare them before it works")
        taking = asyncio.ensure_future(self._take(topics))
        try:
            while True:
                await self.resume()
                await self._clock.sleep(_LOOK_S)
        finally:
            taking.cancel()
            await asyncio.wait({taking})

    # -- running ------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def session(
        self,
        name: str,
        *,
        id: str | None = None,
        labels: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        idle: str | float | timedelta = "1h",
        on_idle: OnIdle = "call",
        detach_on: tuple[type[BaseException], ...] = (),
        input: Mapping[str, Any] | None = None,
    ) -> AsyncGenerator[RemoteSession]:
        """Open a saga without a function, to be driven step by step from this block; or take it up again, by its id.

        As `session` of a coordinator on a journal. Whose it is says the token: there is no actor to be named.
        """
        saga = checked_id(id) if id is not None else SystemClock().new_id()
        asked = SessionRequest(
            name=name,
            id=saga,
            labels=checked_labels(labels) if labels else None,
            limits=declared_limits(limits),
            idle=idle.total_seconds() if isinstance(idle, timedelta) else idle,
            on_idle=on_idle,
            input=input,
        )
        async with RemoteSession(self, asked, detach_on) as session:
            yield session

    async def start_bound(
        self,
        definition: SagaDefinition[..., R],
        named: Mapping[str, object],
        *,
        id: str | None = None,
        actor: str | None = None,
        labels: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        bounds: Bounds | None = None,
    ) -> Handle[R]:
        """Start with the arguments by name. The function runs here; its steps are judged and kept by the server."""
        require_remote(definition, actor, bounds)
        saga = SagaId(checked_id(id) if id is not None else SystemClock().new_id())
        running = self._running.get(saga)
        if running is None or running.done():
            kept = await small_or_off_loop(partial(self._input, definition, named, saga))
            asked = SessionRequest(
                name=definition.name,
                id=saga,
                labels=checked_labels(labels) if labels else None,
                limits=declared_limits(limits or definition.options.limits),
                idle="1h",
                on_idle="keep",
                input=cast("Fields", kept),
            )
            running = self._begin(definition, asked)
        return Handle(saga, running, self._watch)

    def _begin(self, definition: SagaDefinition[..., Any], asked: SessionRequest) -> asyncio.Task[Ended[Any]]:
        saga = SagaId(asked.id)
        running = self._running[saga] = asyncio.ensure_future(self._run(definition, asked))
        running.add_done_callback(partial(self._over_with, saga))
        return running

    def _over_with(self, saga: SagaId, _: object) -> None:
        self._running.pop(saga, None)
        self.secrets.forget(saga)

    def _input(
        self, definition: SagaDefinition[..., Any], named: Mapping[str, object], saga: SagaId, most: int
    ) -> Json:
        """A saga's input as it goes on record. Raises InputError."""
        typed = definition.typed
        kept = self.secrets.keep(
            typed.store(named, most, "input") if typed.stores else dict(named), saga, "input", most
        )
        definition.check(self.secrets.restored(kept.value, saga))
        return kept.value

    async def _watch(self, saga: SagaId) -> asyncio.Task[Ended[Any]]:
        async def until_it_moves() -> Ended[Any]:
            return await self._standing(saga, still=(SagaStatus.WAITING, SagaStatus.PAUSED))

        return asyncio.ensure_future(until_it_moves())

    async def _run(self, definition: SagaDefinition[..., Any], asked: SessionRequest) -> Ended[Any]:
        """Call the function, answered from the record as far as that goes; say how the saga ended."""
        over = await self._over(asked)
        if over is not None:
            return self.ended(over, definition)
        asked = replace(asked, starts_over=True)
        fields: Fields | None = None
        while fields is None:
            s = RemoteWork(self, asked)
            await s.open()
            try:
                fields = await self._performed(definition, s)
            except asyncio.CancelledError:
                with suppress(AmendsError, TimeoutError):  # a server that is gone finds it on its journal, left or not
                    async with asyncio.timeout(_LEAVE_S):
                        await s.detach()
                raise
            finally:
                self.left(s)
        return self.ended(fields, definition)

    async def _over(self, asked: SessionRequest) -> Fields | None:
        """How it ended, where it has ended already. Raises RefusedError where it was about something else."""
        try:
            shown = await self.server.get(f"/sessions/{asked.id}")
        except UnknownError:
            return None
        if not SagaStatus(shown["ended"]["status"]).ended:
            return None
        is_same = shown["input"] == asked.input or is_alike(
            cast("Json", asked.input), shown["input"], self.secrets.of(asked.id), asked.id
        )
        if shown["name"] != asked.name or not is_same:
            raise RefusedError(f"saga {asked.id} exists already, with another beginning; use another id")
        return cast("Fields", shown["ended"])

    async def _performed(self, definition: SagaDefinition[..., Any], s: RemoteWork) -> Fields | None:
        """How the saga ended; None where its function is to be called again."""
        token = current_call.set(InFunction(definition.name))
        try:
            await s.remember()
            result = await self._result(definition, s)
            kept = await small_or_off_loop(lambda most: self.secrets.keep(result, s.id, "the saga's result", most))
            return await s.end("complete", {"result": kept.value})
        except SessionOverError:
            return await self._stopped(s)
        except Exception as exc:  # noqa: BLE001 - whatever leaves a saga's function starts its rollback: the contract
            return await self._failed(s, exc)
        finally:
            current_call.reset(token)

    async def _result(self, definition: SagaDefinition[..., Any], s: RemoteWork) -> object:
        """Result of the function, once all that has to hold by then does."""
        named, checks = dict(s.input), definition.checks
        early = ""
        try:
            result: object = await performed(definition, cast("Any", s), named)
        except Exception as exc:  # a TaskGroup wraps what its branches raised
            if (done := first(Complete, exc)) is None:
                raise
            result, early = done.result, done.why
        if definition.typed.result.stores:
            result = definition.typed.store_result(result)
        if not early:
            s.require_all_asked_for(besides={one.action.topic for one in checks})
        if checks:
            await verify(s.do_named, checks, definition.given(named), result, s.is_vouched_for)
            if not early:
                s.require_all_asked_for()
        return result

    async def _stopped(self, s: RemoteWork) -> Fields | None:
        """Where a saga stands that somebody else had end, or go back; None where that was a part, and it goes on."""
        while True:
            shown = await self.server.get(f"/sessions/{s.id}")
            status = SagaStatus(shown["ended"]["status"])
            if status.goes_forward and shown["sent_back"] > s.sent_back and not shown["goes_back"]:
                return None
            if status not in _GOING:
                return cast("Fields", shown["ended"])
            await self._clock.sleep(_STANDS_S)

    async def _failed(self, s: RemoteWork, error: Exception) -> Fields | None:
        from amends.remote.errors import failure_fields

        try:
            return await s.end("fail", {"error": failure_fields(error)})
        except SessionOverError:
            return await self._stopped(s)

    async def _standing(self, saga: SagaId, still: tuple[SagaStatus, ...] = ()) -> Ended[Any]:
        return self.ended(await self._standing_fields(saga, still))

    async def _standing_fields(self, saga: SagaId, still: tuple[SagaStatus, ...] = ()) -> Fields:
        """Where a saga stands once nothing more is due."""
        while True:
            fields: Fields = (await self.server.get(f"/sessions/{saga}"))["ended"]
            if SagaStatus(fields["status"]) not in _GOING.union(still):
                return fields
            await self._clock.sleep(_STANDS_S)

    async def resume(self) -> list[Ended[Any]]:
        """Go on with every unfinished saga whose definition this process knows, and that no client has open."""
        known = {one.name: one for one in self.registry.definitions() if not one.name.startswith(BUILT_IN)}
        found: list[asyncio.Task[Ended[Any]]] = []
        for name, definition in known.items():
            for row in await self._rows(name):
                asked = None if row["id"] in self._running else await self._free(row["id"], name)
                found += [] if asked is None else [self._begin(definition, asked)]
        ended: list[Ended[Any]] = []
        for one in await asyncio.gather(*found, return_exceptions=True):
            if isinstance(one, RefusedError):
                _log.info("a saga is left to others: %s", one)
            elif isinstance(one, BaseException):
                raise one
            else:
                ended.append(one)
        return ended

    async def _rows(self, definition: str) -> list[Fields]:
        found: list[Fields] = []
        page: str | None = None
        while True:
            answer = await self.server.get("/sessions", name=definition, page=page)
            found += answer["items"]
            page = answer["next"]
            if page is None:
                return found

    async def _free(self, saga: str, name: str) -> SessionRequest | None:
        """A session as it was opened, where no client has it; None where one has, or it goes back."""
        shown = await self.server.get(f"/sessions/{saga}")
        if shown["held"] or shown["ended"]["status"] not in _UNFINISHED:
            return None
        return SessionRequest(name=name, id=saga, on_idle="keep", input=shown["input"])


def _named(task: Fields) -> tuple[str, str, str]:
    return task["saga"], task["step"], task["topic"]
