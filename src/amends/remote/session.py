"""A session through a server, as the agent that drives it has it: the verbs of `coordinator.session(…)`, over HTTP.

The server judges, and has every step on record before its call is made; the call itself is made here, in this process,
and its outcome reported. Where the server is started anew meanwhile, the session is taken up again under its id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from datetime import datetime, timedelta
from functools import cached_property
from types import TracebackType
from typing import Any, Final, NoReturn, ParamSpec, Protocol, Self, TypeVar, cast

from amends.clock import SystemClock
from amends.core.transitions import SagaStatus
from amends.core.words.values import BUILT_IN, SagaId, StepId
from amends.dataclass import dataclass
from amends.errors import (
    Abort,
    AmendsError,
    Detach,
    InputError,
    RefusedError,
    SessionNotOpenError,
    SessionOverError,
    UnknownError,
)
from amends.journal.port.locks import checked_resource
from amends.remote.children import Calling, KnownDefinitions
from amends.remote.contracts import declared
from amends.remote.errors import failure_fields, step_error
from amends.remote.limits import declared_limits
from amends.remote.outcomes import CallReport
from amends.remote.secrets import GivenSecrets
from amends.remote.server import Fields, Server
from amends.runtime.declare.action import Action, InFunction, current_call
from amends.runtime.declare.definition import SagaDefinition
from amends.runtime.drive.children import CALL
from amends.runtime.drive.positions import Spot
from amends.runtime.drive.run import let_cancellation_go_on
from amends.runtime.engine.handle import Ended
from amends.runtime.saga.calls import SessionStep, checked_call, takes_call
from amends.runtime.saga.documents import DocumentOwner, State
from amends.runtime.saga.rewind import Feedback, TakenBack
from amends.runtime.saga.waits import seconds_of
from amends.runtime.saga.work import bound
from amends.runtime.values.bounded import Kept, small_or_off_loop

P = ParamSpec("P")
T = TypeVar("T")
WAIT_S: Final = 25.0
"""How long one request waits for news."""
_ENDED: Final = frozenset({"succeeded", "failed", "lost", "denied"})
_BESIDE: Final = {
    "files": "changesets are kept beside the journal; run the saga there",
    "land": "changesets are kept beside the journal; run the saga there",
    "documents": "a saga has its actor's own documents there: write s.state",
    "feedback": "await s.checkpoint(name) gives what it tells",
    "steps": "write await s.read_steps()",
}
MakeCall = Callable[[Mapping[str, Any]], Awaitable[CallReport]]
"""Has this process make the call that a task asks for."""


class Client(Protocol):
    """The process that has a session open, as the session asks it."""

    server: Server
    id: str
    secrets: GivenSecrets
    definitions: KnownDefinitions

    async def make(self, task: Mapping[str, Any], action: Action[..., Any] | None = None) -> CallReport: ...

    async def drive_child(self, definition: SagaDefinition[..., Any], child: str) -> None:
        """Drive a child as far as it goes, unless another client does."""
        ...

    def know(self, action: Action[..., Any]) -> None: ...

    def ended(self, fields: Fields) -> Ended[Any]: ...

    def opened(self, session: RemoteSession) -> None: ...

    def left(self, session: RemoteSession) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRequest:
    """A session as it is asked for."""

    name: str
    id: str
    labels: Mapping[str, str] | None = None
    limits: Mapping[str, object] | None = None
    idle: str | float = "1h"
    on_idle: str = "call"
    input: Mapping[str, Any] | None = None
    starts_over: bool = False
    """Its function is called again where a part of it was taken back from outside."""

    def fields(self) -> Fields:
        return {
            "name": self.name,
            "id": self.id,
            "labels": None if self.labels is None else dict(self.labels),
            "limits": None if self.limits is None else dict(self.limits),
            "idle": self.idle,
            "on_idle": self.on_idle,
            "input": None if self.input is None else dict(self.input),
            "starts_over": self.starts_over,
        }


class RemoteSession(Calling):
    """An open saga at a server. Use it as an async context manager, as one of `coordinator.session(…)`."""

    def __init__(self, client: Client, asked: SessionRequest, detach_on: tuple[type[BaseException], ...] = ()) -> None:
        self.id: Final = SagaId(asked.id)
        self.name: Final = asked.name
        self._client = client
        self._server = client.server
        self._asked = asked
        self._detach_on: tuple[type[BaseException], ...] = (Detach, *detach_on)
        self._definitions = client.definitions
        self._secrets = client.secrets
        self._actor = ""
        self._holder = ""
        self._opening = asyncio.Lock()
        self._is_left = False
        self._under_way: dict[str, asyncio.Task[Any]] = {}

    def __repr__(self) -> str:
        return f"<session {self.name} {self.id} at {self._server.url}>"

    # -- the block ----------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Open it, or take it up: what was lost of it is settled first."""
        self._client.opened(self)
        try:
            await self._open("")
        except BaseException:  # whatever it was, it flies on; nobody takes the tasks of a session that is not open
            self._client.left(self)
            raise

    async def _open(self, stale: str) -> None:
        """Open it anew, unless that was done since it was held by this one."""
        async with self._opening:
            while self._holder == stale:
                body = {**self._asked.fields(), "client": self._client.id, "wait": WAIT_S}
                said = await self._server.post("/sessions", body)
                if said["state"] == "open":
                    self._holder, self._actor = said["holder"], said["actor"]

    async def __aenter__(self) -> Self:
        await self.open()
        if current_call.get() is not None:
            raise RefusedError(f"session {self.id} is opened inside a saga's own work; open it outside of that")
        current_call.set(InFunction(self.name))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        current_call.set(None)
        try:
            await self._leave(error)
        finally:
            self._client.left(self)
            self._secrets.forget(self.id)

    async def _leave(self, error: BaseException | None) -> None:
        if self._is_left:
            return
        if error is None:
            ended = await self.complete()
            if ended.status is not SagaStatus.COMPLETED:
                raise RefusedError(f"session {self.id} could not be completed: {_told(ended)}")
        elif self._is_pause(error):
            await self.detach()
        else:
            try:
                ended = await self.fail(error)
            except AmendsError as exc:
                error.add_note(f"session {self.id} could not be rolled back: {exc}")
                return
            if ended.status is not SagaStatus.ROLLED_BACK:
                error.add_note(f"session {self.id}: {_told(ended)}")

    def _is_pause(self, error: BaseException) -> bool:
        if isinstance(error, BaseExceptionGroup):
            group = cast("BaseExceptionGroup[BaseException]", error)
            return all(self._is_pause(one) for one in group.exceptions)
        return isinstance(error, self._detach_on) or not isinstance(error, Exception)

    async def complete(self, result: object = None) -> Ended[Any]:
        """The work is done, with this result: wait for the steps under way, then for its end; say how it ended."""
        while self._under_way:
            await asyncio.wait(self._under_way.values())
        what = f"session {self.name}: result"
        kept = await small_or_off_loop(lambda most: self._secrets.keep(result, self.id, what, most))
        return await self._end("complete", {"result": kept.value})

    async def fail(self, error: BaseException) -> Ended[Any]:
        """Leave it as by this error: everything is taken back. Says how it ended."""
        return await self._end("fail", {"error": failure_fields(error)})

    async def cancel(self, why: str = "cancelled") -> Ended[Any]:
        """Take everything back, and end. Says how it ended."""
        return await self._end("cancel", {"why": why})

    async def _end(self, verb: str, body: Mapping[str, object]) -> Ended[Any]:
        return self._client.ended(await self.end(verb, body))

    async def end(self, verb: str, body: Mapping[str, object]) -> Fields:
        """End it in one of the ways that there are; how it ended, as the server tells it."""
        said = await self._until_done(verb, body)
        self._is_left = True
        return said

    async def _until_done(self, verb: str, body: Mapping[str, object]) -> Fields:
        """Ask for what may take longer than one request; it is one, however often it is asked for."""
        said = await self._post(verb, body)
        while said["state"] == "running":
            said = await self._post(verb, body)
        return said

    async def detach(self) -> None:
        """Leave it open, for whoever takes it up again under its id."""
        if not self._is_left:
            self._is_left = True
            try:
                await self._post("detach", {})
            except SessionOverError:
                return  # nobody holds it any more, which is as well

    async def _post(self, verb: str, body: Mapping[str, object]) -> Fields:
        while True:
            holder = self._holder
            try:
                return await self._server.post(f"/sessions/{self.id}/{verb}", {"holder": holder, **body})
            except SessionNotOpenError:
                if verb == "detach":
                    raise
                await self._open(holder)

    # -- steps --------------------------------------------------------------------------------------------------------

    def do(self, action: Any, /, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:  # noqa: ANN401 - the action's own
        """Do one step: judged, on record before it is dispatched, remembered once it is done. Await it.

        call: the caller's own id of this step; the same call again is the same step, answered from the record.
        """
        call = ""
        named = cast("Action[..., Any]", action)
        if "call" in kwargs and not takes_call(action):
            call = checked_call(kwargs.pop("call"))
        return self.do_named(named, bound(named, args, kwargs), call=call)

    async def do_named(
        self, action: Action[..., Any], named: Mapping[str, object], *, at: Spot | None = None, call: str = ""
    ) -> Any:  # noqa: ANN401 - the action's own
        """Do one step with all arguments by name."""
        kept = await self._kept(action, named)
        return await self._step(action, kept, call or (at.step if at is not None else new_call()))

    def ask(self, action: Any, /, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, tuple[str, ...]]:  # noqa: ANN401 - the action's own
        """Have people approve a step before it is done; the next `s.do` of the same is that step. Await it.

        It gives the names of those who approved. call: the caller's own id of the asking.
        """
        call = checked_call(kwargs.pop("call")) if "call" in kwargs and not takes_call(action) else new_call()
        return self._ask_bound(action, bound(action, args, kwargs), call)

    async def _ask_bound(self, action: Action[..., Any], named: Mapping[str, object], call: str) -> tuple[str, ...]:
        return await self._people_asked(action, await self._kept(action, named), call)

    async def _people_asked(self, action: Action[..., Any], kept: Kept, call: str) -> tuple[str, ...]:
        """People who have approved it. Raises StepDeniedError."""
        self._client.know(action)
        body = self._about(action, kept, call)
        said = await self._post("ask", body)
        while said["state"] not in _ENDED:
            said = await self._post("ask", body)
        if said["state"] != "succeeded":
            raise step_error(said["error"])
        return tuple(said["result"])

    async def _step(self, action: Action[..., Any], kept: Kept, call: str) -> Any:  # noqa: ANN401 - the action's own
        while (others := self._under_way.get(call)) is not None:
            await asyncio.wait({others})
        doing = self._under_way[call] = asyncio.ensure_future(self._done(action, kept, call))
        try:
            return await _shielded_until_told(doing)
        finally:
            self._under_way.pop(call, None)

    async def _done(self, action: Action[..., Any], kept: Kept, call: str) -> Any:  # noqa: ANN401 - the action's own
        if action is CALL:
            said = await self._called(kept, call)
        else:
            self._client.know(action)
            body = self._about(action, kept, call)
            said = await self._post("steps", body)
            while said["state"] not in _ENDED:
                is_ours = said["state"] == "perform"
                said = await self._perform(said, action) if is_ours else await self._post("steps", body)
        if said["state"] != "succeeded":
            raise step_error(said["error"])
        return await self._restored(action, said["result"])

    @staticmethod
    def _about(action: Action[..., Any], kept: Kept, call: str) -> Fields:
        """A step as it is asked for. What the server does itself needs no contract."""
        is_servers = action.topic.startswith(BUILT_IN) and not action.parts.is_assertion
        contract = {} if is_servers else {"contract": declared(action)}
        return {"topic": action.topic, "args": kept.value, "call": call, "wait": WAIT_S, **contract}

    async def _called(self, kept: Kept, call: str) -> Fields:
        """Run a child: its step is the server's, its function is called here. How it ended."""
        asked = cast("Fields", kept.value)
        definition = self._definitions.definition(asked["definition"], asked["version"])
        body: Fields = {
            "call": call,
            "definition": asked["definition"],
            "version": asked["version"],
            "input": asked["given"],
            "limits": declared_limits(definition.options.limits),
            "timeout_s": asked.get("timeout_s"),
            "wait": WAIT_S,
        }
        said = await self._post("call", body)
        while said["state"] not in _ENDED:
            if said["state"] == "child":
                await self._client.drive_child(definition, said["child"])
                body["driven"] = True
            said = await self._post("call", body)
        return said

    async def _perform(self, task: Fields, action: Action[..., Any]) -> Fields:
        """Make one call of a step, and report; where the step stands then."""
        is_its_own = task["topic"] == action.topic  # and not what a child that it takes back has to have called
        report = await self._client.make(task, action if is_its_own else None)
        try:
            said = await self._server.post(f"/attempts/{task['token']}/outcome", {**report, "wait": WAIT_S})
        except UnknownError:
            said = {"state": "taken"}  # the server was started anew: the attempt is lost, as its record says by now
        let_cancellation_go_on()
        return said

    async def read_steps(self) -> tuple[SessionStep, ...]:
        """The steps so far, oldest first, as they stand."""
        shown = await self._server.get(f"/sessions/{self.id}")
        return tuple(
            SessionStep(
                step=one["step"],
                topic=one["topic"],
                call=one["call"],
                status=one["status"],
                result=one["result"] if one["status"] == "succeeded" else None,
                error=one["error"],
            )
            for one in shown["steps"]
            if one["topic"] == CALL.topic or not one["topic"].startswith(BUILT_IN)
        )

    async def _kept(self, action: Action[..., Any], named: Mapping[str, object]) -> Kept:
        """The arguments of a step as they go on record. Raises InputError for what cannot."""
        typed, check = action.parts.typed, action.parts.check

        def stored(most: int) -> Kept:
            given = typed.store(named, most) if typed.stores else dict(named)
            kept = self._secrets.keep(given, self.id, f"{action.topic}: args", most)
            if check is not None:
                check(self._secrets.restored(kept.value, self.id) if kept.secrets else cast("Fields", kept.value))
            return kept

        return await small_or_off_loop(stored)

    async def _restored(self, action: Action[..., Any], result: Any) -> Any:  # noqa: ANN401 - the action's own
        """A result on record as what the action is declared to return."""
        typed = action.parts.typed

        def made(most: int) -> Any:  # noqa: ANN401 - as above
            known = self._secrets.restored(result, self.id, most)
            return typed.restore_result(known, most) if typed.result.loads else known

        return await small_or_off_loop(made)

    @cached_property
    def state(self) -> State:
        """The agent's own documents, kept by the server: they stand under the name that its token proves."""
        return State(self.do_named, own=True, owner=lambda: DocumentOwner(self._actor))

    # -- other verbs --------------------------------------------------------------------------------------------------

    async def checkpoint(self, name: str) -> Feedback | None:
        """Mark a place that a rollback can stop at."""
        await self._post("checkpoint", {"name": name})
        return None

    async def rollback_to(self, name: str, why: str) -> Feedback:
        """Take back all steps since a checkpoint, newest first, and go on."""
        return feedback(await self._post("rollback_to", {"name": name, "why": why}))

    async def rollback_last(self, steps: int, why: str) -> Feedback:
        """Take back the newest steps that stand, so many of them, and go on."""
        return feedback(await self._post("rollback_last", {"steps": steps, "why": why}))

    async def wait_for(self, name: str, timeout: float | timedelta | None = None) -> Any:  # noqa: ANN401, ASYNC109 - any JSON value; the time is kept on record
        """Wait for a signal from outside, `coordinator.signal(id, name, payload)`; gives its payload."""
        seconds = None if timeout is None else seconds_of(timeout, f"s.wait_for({name!r})")
        return await self._waited(name, seconds)

    async def sleep(self, seconds: float | timedelta) -> None:
        """Go on after that long; that does not count as idle."""
        await self._waited(None, seconds_of(seconds, "s.sleep"))

    async def _waited(self, signal: str | None, seconds: float | None) -> Any:  # noqa: ANN401 - any JSON value
        """Ask again and again, until it has come or the time is up."""
        call, clock = new_call(), SystemClock()
        since = clock.elapsed()
        while True:
            left_s = None if seconds is None else max(0.0, seconds - (clock.elapsed() - since))
            body = {"signal": signal, "seconds": left_s, "call": call, "wait": WAIT_S}
            said = await self._post("wait", body)
            if said["state"] == "succeeded":
                return said["payload"]

    async def sleep_until(self, when: datetime | float) -> None:
        """Go on at that time: an aware datetime, or seconds since 1970."""
        if isinstance(when, datetime) and when.tzinfo is None:
            raise InputError(f"s.sleep_until: {when.isoformat()} has no time zone; pass an aware datetime")
        at = when.timestamp() if isinstance(when, datetime) else float(when)
        await self.sleep(max(0.0, at - SystemClock().now() / 1000))

    async def spend(self, *, tokens: int = 0, usd: Any = 0, what: str = "") -> None:  # noqa: ANN401 - a number of any kind
        """Put on record what the work has used up. Where that crosses a limit, the saga ends here as its limits say."""
        usd = usd if isinstance(usd, int | float | str) else str(usd)
        await self._post("spend", {"tokens": tokens, "usd": usd, "what": what})

    async def lock(self, *resources: str) -> None:
        """Keep resources to this saga until it has ended."""
        await self._until_done("lock", {"resources": [checked_resource(name) for name in resources]})

    async def abort(self, why: str) -> NoReturn:
        """Give up: leave the block, and all is taken back, with `why` on record as the reason."""
        raise Abort(why)

    def __getattr__(self, name: str) -> NoReturn:
        if name in _BESIDE:
            raise InputError(f"s.{name} is not to be had through a server: {_BESIDE[name]}")
        raise AttributeError(name)


async def _shielded_until_told(doing: asyncio.Task[T]) -> T:
    """Its end. Who is cancelled meanwhile cancels it, and waits until what is known was reported."""
    try:
        await asyncio.wait({doing})
    except asyncio.CancelledError:
        doing.cancel()
        await asyncio.wait({doing})
        if not doing.cancelled():
            doing.exception()
        raise
    return doing.result()


def feedback(fields: Fields) -> Feedback:
    taken_back = tuple(TakenBack(StepId(one["step"]), one["topic"]) for one in fields["taken_back"])
    return Feedback(number=fields["number"], why=fields["why"], by=fields["by"], taken_back=taken_back)


def new_call() -> str:
    return SystemClock().new_id()


def _told(ended: Ended[Any]) -> str:
    return f"{ended.status}: {ended.why}" if ended.why else str(ended.status)
