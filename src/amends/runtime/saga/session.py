"""A session: an open saga, as the agent that drives it from outside has it. `coordinator.session(…)` opens one.

Each verb runs as a task of its own, in the caller's context with what the runtime needs added to it, so steps may go
side by side. A caller that is cancelled has its step cancelled. Where the work is stopped from elsewhere, whoever waits
for a step hears why; where it was only paused, the step goes on when that is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextvars import Context, ContextVar, copy_context
from datetime import datetime, timedelta
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NoReturn, ParamSpec, Protocol, Self, TypeVar, cast, overload

from amends.core import commands as c
from amends.core.state.saga import Saga, Step
from amends.core.transitions import SagaStatus, StepStatus
from amends.core.words.values import CALL, Json, SagaId, StepId
from amends.core.words.verdict import Decision
from amends.errors import Abort, AmendsError, ApprovalPending, Detach, InputError, RefusedError, SessionOverError
from amends.journal.port.locks import checked_resource
from amends.runtime.declare.action import Action, InFunction, current_call
from amends.runtime.declare.definition import SagaDefinition
from amends.runtime.declare.limits import Amount
from amends.runtime.drive.judging import judge
from amends.runtime.drive.positions import Spot, StepRequest, step_request
from amends.runtime.drive.turn import Answered
from amends.runtime.saga.calls import Calls, SessionStep, checked_call, shown_step, takes_call
from amends.runtime.saga.documents import SessionState
from amends.runtime.saga.open import (
    Drive,
    Idle,
    Leaving,
    OpenDefinition,
    is_pause,
    know_checkpoints,
    require_same,
    rest,
    settle,
    stop_timer,
    tell_idle,
    waits_for_people,
)
from amends.runtime.saga.rewind import Feedback
from amends.runtime.saga.work import begin_with, bound, take_resources
from amends.runtime.values.bounded import keep_off_loop
from amends.secrets import Secret

if TYPE_CHECKING:
    from amends.runtime.files.given import SagaFiles

P = ParamSpec("P")
T = TypeVar("T")
_OURS: Final = "amends_"
current_session: ContextVar[Session | None] = ContextVar("amends_session", default=None)
"""The session in whose block the asking code runs; None: in none."""
call_id: ContextVar[str] = ContextVar("amends_call_id", default="")
"""The framework's id of the tool call that is being made; adapters set it."""


class Standing(Protocol):
    """How a saga stands, as far as a session tells of it."""

    @property
    def status(self) -> SagaStatus: ...

    @property
    def why(self) -> str: ...


class Host(Protocol):
    """The driver of a session's saga here."""

    async def halted(self, saga: SagaId) -> Standing:
        """Wait until nothing more is due, and say how it stands."""
        ...

    async def cancel(self, saga: str, *, why: str = ...) -> Any: ...  # noqa: ANN401 - as a coordinator answers

    async def state(self, saga: SagaId) -> Saga: ...

    def left(self, saga: SagaId) -> None:
        """Nobody has it open any more."""
        ...


class Session:
    """An open saga. Use it as an async context manager: left well it is completed, by an exception it is rolled back.

    A cancellation, `Detach` and what is in `detach_on` leave it open, for whoever takes it up under the same id.
    """

    def __init__(
        self, host: Host, saga: SagaId, name: str, idle: Idle, detach_on: tuple[type[BaseException], ...] = ()
    ) -> None:
        self.id = saga
        self.name = name
        self.definition = OpenDefinition(name, self._serve)
        self._host = host
        self._idle = idle
        self._detach_on: tuple[type[BaseException], ...] = (Detach, *detach_on)
        self._drive: Drive | None = None
        self._broken: AmendsError | None = None  # why nothing more could be written, when it was last driven here
        self._context: Context | None = None
        self.opened = asyncio.Event()
        self._stirred = asyncio.Event()
        self._leaving: asyncio.Future[Leaving] = asyncio.get_running_loop().create_future()
        self._under_way: set[asyncio.Task[Any]] = set()
        self._last = 0.0
        self._calls = Calls()
        self._shared: dict[str, asyncio.Future[None]] = {}  # by call: who asks for the same waits for them
        self.loop: Final = asyncio.get_running_loop()  # the one that it belongs to

    def __repr__(self) -> str:
        return f"<session {self.name} {self.id}>"

    # -- the block ----------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self._ready()
        if current_session.get() is not None or current_call.get() is not None:
            raise RefusedError(f"session {self.id} is opened inside a saga's own work; open it outside of that")
        current_call.set(InFunction(self.name))
        current_session.set(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        current_call.set(None)
        current_session.set(None)
        try:
            await self._leave(error)
        finally:
            self._host.left(self.id)

    async def _leave(self, error: BaseException | None) -> None:
        if self._leaving.done():
            return
        if error is None:
            ended = await self.complete()
            if cast("Standing", ended).status is not SagaStatus.COMPLETED:
                raise RefusedError(f"session {self.id} could not be completed: {_told(cast('Standing', ended))}")
            return
        if is_pause(error, self._detach_on):
            await self.detach()
            return
        try:
            ended = cast("Standing", await self.fail(error))
        except AmendsError as exc:
            error.add_note(f"session {self.id} could not be rolled back here: {exc}")
            return
        if ended.status is not SagaStatus.ROLLED_BACK:
            error.add_note(f"session {self.id}: {_told(ended)}")

    async def complete(self, result: object = None) -> Any:  # noqa: ANN401 - as a coordinator tells how a saga ended
        """The work is done, with this result: wait for the steps under way, then for the saga's end; say how it ended.

        What was promised for the end is kept first: what is in doubt is settled, what was held is released.
        """
        while not self._is_left_by("complete"):
            if self._under_way:
                await asyncio.wait(self._under_way)
                continue
            drive = await self._ready()
            kept = await keep_off_loop(result, self.id, f"session {self.name}: result")
            if not self._leaving.done():
                drive.run.book.tell(c.EndIdle())
                self._leaving.set_result(Leaving("complete", result=kept.value))
        return await self._host.halted(self.id)

    async def cancel(self, why: str = "cancelled") -> Any:  # noqa: ANN401 - as a coordinator tells how a saga ended
        """Take everything back, and end. Says how it ended."""
        if not self._leaving.done():
            self._leaving.set_result(Leaving("cancel"))
        return await self._host.cancel(self.id, why=why)

    async def fail(self, error: BaseException) -> Any:  # noqa: ANN401 - as above
        """Leave it as by this error: everything is taken back. Says how it ended."""
        if not self._is_left_by("fail"):
            self._leaving.set_result(Leaving("fail", error=error))
        return await self._host.halted(self.id)

    def _is_left_by(self, how: str) -> bool:
        """Whether it was left in this way already. Raises SessionOverError where it was left in another one."""
        if self._leaving.done() and (was := self._leaving.result().how) != how:
            raise SessionOverError(f"session {self.id} was left already, to {was} it; open it again to go on with it")
        return self._leaving.done()

    async def detach(self) -> None:
        """Leave it open, for whoever takes it up again under its id, in this process or another."""
        if self._leaving.done():
            return
        if (drive := self._drive) is not None and self._under_way:
            await asyncio.wait(self._under_way, timeout=drive.run.around.settings.settle_s)
        self._leaving.set_result(Leaving("detach"))
        self._host.left(self.id)
        await self._host.halted(self.id)

    # -- the body, which is driven where others have a function -------------------------------------------------------

    async def _serve(self, drive: Drive) -> object:
        run = drive.run
        run.attended = True
        try:
            stop_timer(run)
            if run.book.saga.steps:
                await settle(drive)
                know_checkpoints(drive)
            self._open(drive)
            left = await self._until_left(drive)
        finally:
            self._broken = run.book.broken
            await self._shut()
            run.attended = False
        if left.how == "complete":
            return left.result
        if left.error is not None:
            run.book.tell(c.EndIdle())
            raise left.error
        if left.how == "cancel":
            return await asyncio.get_running_loop().create_future()  # until it is stopped, by whoever cancels the saga
        await rest(drive, self._idle)
        return None

    def _open(self, drive: Drive) -> None:
        self._drive, self._context = drive, copy_context()
        self._calls = Calls()
        self._last = drive.run.around.clock.elapsed()
        self.opened.set()

    async def _shut(self) -> None:
        self._drive = None
        self.opened.clear()
        for task in self._under_way:
            task.cancel()
        if self._under_way:
            await asyncio.wait(self._under_way)

    async def _until_left(self, drive: Drive) -> Leaving:
        """Wait until the block is left; meanwhile, look whether nobody takes a step for too long.

        A step does not wake it: when the time has passed since the last one that it knew of, it looks for a later one.
        """
        clock, is_told = drive.run.around.clock, self._idle.then == "keep"
        while not self._leaving.done():
            self._stirred.clear()
            left_s = None
            if not self._under_way and not is_told and not waits_for_people(drive.run.book.saga):
                left_s = self._idle.seconds - (clock.elapsed() - self._last)
                if left_s <= 0:
                    tell_idle(drive.run, self._idle)
                    drive.run.book.commit_soon()
                    is_told = True
                    continue
            await self._stir(drive, left_s)
            is_told = self._idle.then == "keep" or (is_told and not self._under_way)
        return self._leaving.result()

    async def _stir(self, drive: Drive, most_s: float | None) -> None:
        """Wait for that long, and without a time until something begins or ends; or until the block is left."""
        until: Any = self._stirred.wait() if most_s is None else drive.run.around.clock.sleep(most_s)
        waited: asyncio.Future[Any] = asyncio.ensure_future(until)
        try:
            await asyncio.wait({waited, self._leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waited.cancel()

    async def _ready(self) -> Drive:
        """The drive to act through. Raises RefusedError where there is none, and none will come by itself."""
        while self._drive is None:
            if self._leaving.done():
                raise SessionOverError(f"session {self.id} was left; open it again to go on with it")
            opened: asyncio.Future[Any] = asyncio.ensure_future(self.opened.wait())
            halted: asyncio.Future[Any] = asyncio.ensure_future(self._host.halted(self.id))
            try:
                await asyncio.wait({opened, halted}, return_when=asyncio.FIRST_COMPLETED)
                if not self.opened.is_set() and halted.done():
                    stands: Standing = halted.result()
                    if stands.status is not SagaStatus.PAUSED:
                        if self._broken is not None:
                            raise self._broken
                        raise SessionOverError(f"session {self.id} is {_told(stands)}")
                    await asyncio.wait({opened})
            finally:
                opened.cancel()
                halted.cancel()
        return self._drive

    async def _stopped(self, drive: Drive) -> str:
        """Why a drive was stopped under what was being done: it ended, or is driven anew."""
        opened: asyncio.Future[Any] = asyncio.ensure_future(self.opened.wait())
        halted: asyncio.Future[Any] = asyncio.ensure_future(self._host.halted(self.id))
        try:
            await asyncio.wait({opened, halted}, return_when=asyncio.FIRST_COMPLETED)
            if halted.done() and self._drive in {None, drive}:
                return f"is {_told(halted.result())}"
            return "had a part of it taken back before this came to its end"
        finally:
            opened.cancel()
            halted.cancel()

    # -- acting -------------------------------------------------------------------------------------------------------

    async def _act(self, verb: Callable[[Drive], Coroutine[Any, Any, T]], asked: StepRequest | None = None) -> T:
        while True:
            drive = await self._ready()
            drive.run.book.tell(c.EndIdle())
            context = copy_context()
            context.run(_take_over, self._context, asked)
            task = asyncio.get_running_loop().create_task(verb(drive), context=context)
            self._under_way.add(task)
            self._stirred.set()
            try:
                await _ended(task)
            finally:
                self._under_way.discard(task)
                self._last = drive.run.around.clock.elapsed()
                self._stirred.set()
            if not task.cancelled():
                return task.result()
            if drive.run.book.broken is not None:
                raise drive.run.book.broken
            if self._leaving.done():
                raise SessionOverError(f"session {self.id}: it was stopped before this came to its end")
            if asked is None:
                raise SessionOverError(f"session {self.id} {await self._stopped(drive)}")
            saga = await self._host.state(self.id)
            step = None if asked.step is None else saga.steps.get(asked.step)
            if step is None:
                asked.step = None  # it had not begun: if the session goes on, it begins anew
            elif step.rewind is not None:
                raise RefusedError(f"session {self.id}: step {step.id} ({step.topic}) was taken back meanwhile")

    @overload
    def do(
        self, action: Action[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]: ...

    @overload
    def do(self, action: Action[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]: ...

    @overload
    def do(
        self, action: Action[..., Coroutine[Any, Any, T]], /, *args: object, call: str, **kwargs: object
    ) -> Coroutine[Any, Any, T]: ...

    @overload
    def do(self, action: Action[..., T], /, *args: object, call: str, **kwargs: object) -> Coroutine[Any, Any, T]: ...

    def do(self, action: Any, /, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
        """Do one step: judged, on disk before it is dispatched, remembered once it is done. Await it.

        call: the caller's own id of this step, such as a tool-call id. The same call again is the same step: it is
        answered from the journal, or waits for the attempt under way. Raises RefusedError where it asks for something
        else. Without it, each step is new.
        """
        call = ""
        if "call" in kwargs:
            if takes_call(action):
                raise InputError(
                    f"{action.topic} has a parameter of its own that is called call: write "
                    "await s.do_named(action, {…}, call=…) to give the step an id"
                )
            call = checked_call(kwargs.pop("call"))
        return self.do_named(action, bound(action, args, kwargs), call=call)

    async def do_named(
        self,
        action: Action[..., Any],
        named: Mapping[str, object],
        *,
        at: Spot | None = None,
        call: str = "",
        waits: bool = True,
    ) -> Any:  # noqa: ANN401 - the action's own type
        """Do one step with all arguments by name. Where `waits` is false it raises ApprovalPending once people are
        asked: the same call again, after they have answered, goes on.
        """
        shared = self._shared
        while call and (under_way := shared.get(call)) is not None:
            await asyncio.wait({under_way})  # then the journal answers, and compares
        asked = StepRequest(call, waits=waits)
        if not call:
            return await self._act(lambda drive: self._step(drive, action, named, at, asked), asked)
        ended = shared[call] = asyncio.get_running_loop().create_future()
        try:
            return await self._act(lambda drive: self._step(drive, action, named, at, asked), asked)
        finally:
            del shared[call]
            ended.set_result(None)

    async def asks_people(self, action: Action[..., Any], named: Mapping[str, object], *, call: str) -> bool:
        """Whether people have to approve this step first; then they are asked by now, and nothing of it is done."""

        async def look(drive: Drive, args: Json) -> bool:
            if (known := self._calls.find(drive.run.book.saga, StepRequest(call))) is not None:
                return known.status is StepStatus.AWAITING
            verdict = await judge(drive.run, StepId(call), action.contract, args)
            return verdict.decision is Decision.REQUIRE_HUMAN

        def begin(drive: Drive) -> Coroutine[Any, Any, bool]:
            return begin_with(
                drive.work, lambda _, args, _digest, _secrets, _at=None, /: look(drive, args), action, named
            )

        if await self._act(begin):
            try:
                await self.do_named(action, named, call=call, waits=False)
            except ApprovalPending:
                return True
        return False

    def _step(
        self, drive: Drive, action: Action[..., Any], named: Mapping[str, object], at: Spot | None, asked: StepRequest
    ) -> Coroutine[Any, Any, Any]:
        def begin(
            action: Action[..., Any], args: Json, digest: str, secrets: tuple[Secret, ...], at: Spot | None = None, /
        ) -> Coroutine[Any, Any, Any]:
            saga = drive.run.book.saga
            known = self._calls.find(saga, asked)
            if known is not None:
                require_same(saga, known, asked.call, action, args, digest, secrets)
                at = Spot(known.id) if known.wanted else None  # else people were asked ahead, and it is done here
            return drive.forward.step(action, args, digest, secrets, at)

        return begin_with(drive.work, begin, action, named, at)

    def ask(self, action: Any, /, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, tuple[str, ...]]:  # noqa: ANN401 - the action's own
        """Have people approve a step before it is done; the next `s.do` of the same is that step.

        call: the caller's own id of the asking; the same again waits for the same people. It may be that of the step.
        """
        call = checked_call(kwargs.pop("call")) if "call" in kwargs and not takes_call(action) else ""
        return self.ask_named(action, bound(action, args, kwargs), call=call)

    async def ask_named(
        self, action: Action[..., Any], named: Mapping[str, object], *, call: str = ""
    ) -> tuple[str, ...]:
        """Have people approve a step with all arguments by name; the names of those who did."""
        request = StepRequest(call)

        def asked(drive: Drive) -> Coroutine[Any, Any, tuple[str, ...]]:
            def begin(
                action: Action[..., Any],
                args: Json,
                digest: str,
                secrets: tuple[Secret, ...],
                at: Spot | None = None,
                /,
            ) -> Coroutine[Any, Any, tuple[str, ...]]:
                saga = drive.run.book.saga
                known = self._calls.find(saga, request)
                if known is not None:
                    require_same(saga, known, call, action, args, digest, secrets)
                    at = Spot(known.id)
                return drive.forward.ask(action, args, digest, secrets, at)

            return begin_with(drive.work, begin, action, named)

        return await self._act(asked, request)

    def settle(self, step: str, why: str) -> Coroutine[Any, Any, None]:
        """Have a step that ended badly, and may stand, settled before anything takes its place."""
        return self._act(lambda drive: drive.rewinds.settle(StepId(step), why))

    def call(self, definition: SagaDefinition[..., T], /, *args: object, **kwargs: Any) -> Coroutine[Any, Any, T]:  # noqa: ANN401 - the saga's own
        """Run another saga to its end, as a child of this one; gives its result. It takes options, as in a function."""
        return self._act(lambda drive: drive.work.call(definition, *args, **kwargs))

    def sleep(self, seconds: float | timedelta) -> Coroutine[Any, Any, None]:
        """Go on after that long; that does not count as idle."""
        return self._act(lambda drive: drive.work.sleep(seconds))

    def sleep_until(self, when: datetime | float) -> Coroutine[Any, Any, None]:
        """Go on at that time: an aware datetime, or seconds since 1970."""
        return self._act(lambda drive: drive.work.sleep_until(when))

    def wait_for(self, name: str, timeout: float | timedelta | None = None) -> Coroutine[Any, Any, Any]:
        """Wait for a signal from outside, `coordinator.signal(id, name, payload)`; gives its payload."""
        return self._act(lambda drive: drive.work.wait_for(name, timeout))

    def checkpoint(self, name: str) -> Coroutine[Any, Any, Feedback | None]:
        """Mark a place that a rollback can stop at; also for whoever takes the session up again."""
        return self._act(lambda drive: drive.work.checkpoint(name))

    def rollback_to(self, name: str, why: str) -> Coroutine[Any, Any, Feedback]:
        """Take back all steps since a checkpoint, newest first, and go on."""
        return self._act(lambda drive: drive.work.rollback_to(name, why))

    def rollback_last(self, steps: int, why: str) -> Coroutine[Any, Any, Feedback]:
        """Take back the newest steps that stand, so many of them, and go on."""
        return self._act(lambda drive: drive.work.rollback_last(steps, why))

    def lock(self, *resources: str) -> Coroutine[Any, Any, None]:
        """Keep resources to this saga until it has ended, as an action's `resources=` does."""
        return self.do_named(take_resources, {"resources": [checked_resource(name) for name in resources]})

    def spend(self, *, tokens: int = 0, usd: Amount = 0, what: str = "") -> Coroutine[Any, Any, None]:
        """Put on record what the work has used up. Where that crosses a limit, the saga ends here as its limits say."""
        return self._act(lambda drive: drive.work.spend(tokens=tokens, usd=usd, what=what))

    async def abort(self, why: str) -> NoReturn:
        """Give up: leave the block, and all is taken back, with `why` on record as the reason."""
        raise Abort(why)

    def files(self, *roots: str, **options: Any) -> SagaFiles:  # noqa: ANN401 - those of `Work.files`
        """Work on these trees, as a saga's function does with `s.files`. Raises RefusedError while it is stopped."""
        return self._now.work.files(*roots, **options)

    def land(self, **options: Any) -> Coroutine[Any, Any, Any]:  # noqa: ANN401 - those of `Work.land`
        """Land the session's files, as a saga's function does with `s.land`."""
        return self._act(lambda drive: drive.work.land(**options))

    @cached_property
    def state(self) -> SessionState:
        """The agent's own documents: they stand under the name of the saga's actor."""
        return SessionState(self._act, own=True)

    @cached_property
    def documents(self) -> SessionState:
        """All documents, by their full names."""
        return SessionState(self._act, own=False)

    def tool(self, action: Action[P, T]) -> Callable[P, T]:
        """A callable with the action's signature that any framework takes as a tool: called, it is a step of this."""
        from amends.runtime.saga.tool import make_tool  # which is made of sessions

        return make_tool(action, session=self)

    @property
    def env(self) -> str:
        """The environment that it began in."""
        return self._now.run.begun.env

    @property
    def feedback(self) -> Feedback | None:
        """Why a part of the work was taken back from outside; None where nothing was."""
        return self._now.work.feedback

    @property
    def steps(self) -> tuple[SessionStep, ...]:
        """The steps so far, children too (`amends.call`), oldest first, as they stand."""
        steps = self.saga.steps.values()
        return tuple(
            shown_step(self.saga, one) for one in steps if one.topic == CALL or not one.topic.startswith("amends.")
        )

    @property
    def steps_on_record(self) -> Mapping[StepId, Step]:
        """All steps on record by their ids; none while it is stopped."""
        return {} if self._drive is None else self._drive.run.book.saga.steps

    @property
    def saga(self) -> Saga:
        """All that is on record, as it stands."""
        return self._now.run.book.saga

    @property
    def _now(self) -> Drive:
        if self._drive is None:
            raise RefusedError(f"session {self.id} is not open here just now; open it, or wait until it is let go on")
        return self._drive


def _take_over(theirs: Context | None, asked: StepRequest | None) -> None:
    """Have what the runtime keeps in the body's context in the caller's copy, too."""
    for var, value in () if theirs is None else theirs.items():
        if var.name.startswith(_OURS) and var is not current_session and var is not call_id:
            var.set(value)
    step_request.set(asked)


async def _ended(task: asyncio.Task[Any]) -> None:
    """Wait for its end. Who is cancelled meanwhile cancels it, and waits until what is known is on record."""
    ended = Answered(task.get_loop())
    task.add_done_callback(lambda _: ended.go_on())
    try:
        await ended
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            task.exception()
        raise


def _told(stands: Standing) -> str:
    return f"{stands.status}: {stands.why}" if stands.why else str(stands.status)
