"""A framework's runs as sessions, where hooks tell of a run's beginning and end, and no block holds it.

All of it runs on the coordinator's loop, whichever thread or loop the framework calls a hook on. A run inside of
somebody else's session is a part of that, and does not end it. A paused run leaves its session open once none of its
calls is under way, for whoever goes on with it, in this process or another.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

from amends.adapters.threads import THREAD, session_of
from amends.bootstrap import Coordinator
from amends.dataclass import dataclass
from amends.errors import ApprovalPending, Detach, RefusedError, SessionOverError
from amends.runtime.saga.session import Session, call_id, current_session
from amends.runtime.saga.tool import require_no_loop

T = TypeVar("T")


@dataclass(slots=True)
class OpenRun:
    """A session with the calls under way in it; without `stack` it is somebody else's to end."""

    session: Session
    stack: AsyncExitStack | None
    calls: int = 0
    is_paused: bool = False
    end: asyncio.Task[Any] | None = None
    error: BaseException | None = None
    """Why it ends: of several calls side by side, what the first one raised."""


class Runs:
    """Sessions called `name` that hooks open and end. `options` are those of `coordinator.session`."""

    def __init__(self, coordinator: Coordinator, name: str, options: Mapping[str, Any]) -> None:
        self.coordinator = coordinator
        self._name = name
        self._options: dict[str, Any] = {"actor": f"agent:{name}", **options}
        self._open: dict[str, OpenRun] = {}
        self._turn = asyncio.Lock()

    async def on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it on the coordinator's loop."""
        if asyncio.get_running_loop() is self.coordinator.loop:
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.coordinator.loop))

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it there, and wait in this thread. Raises RefusedError on the loop's own."""
        try:
            require_no_loop("this agent", None, self.coordinator)
        except RefusedError:
            work.close()
            raise
        return asyncio.run_coroutine_threadsafe(work, self.coordinator.loop).result()

    async def begin(self, thread: str | None) -> str | None:
        """Open the session of a thread, or a new one; its id. None where the run is part of somebody's session."""
        if current_session.get() is not None:
            return None
        async with self._turn:
            saga = None if thread is None else await session_of(self.coordinator, thread)
            run = self._open.get(saga or "") or await self._opened(saga, {} if thread is None else {THREAD: thread})
            return run.session.id

    async def _opened(self, saga: str | None, labels: Mapping[str, str]) -> OpenRun:
        options: dict[str, Any] = {**self._options, "labels": {**labels, **(self._options.get("labels") or {})}}
        stack = AsyncExitStack()
        session = await stack.enter_async_context(self.coordinator.session(self._name, id=saga, **options))
        run = self._open[session.id] = OpenRun(session, stack)
        return run

    async def of(self, saga: str | None) -> OpenRun:
        """The run of this session, taken up again where it was left; of the session that the caller is in, if any."""
        here = current_session.get()
        saga = saga if here is None else here.id
        if saga is None:
            raise RefusedError("no session is open: run it inside of `async with coordinator.session(…)`")
        async with self._turn:
            if saga not in self._open and here is not None:
                self._open[saga] = OpenRun(here, None)
            return self._open.get(saga) or await self._opened(saga, {})

    async def complete(self, saga: str | None) -> None:
        """The framework's run has come to its end; where it is part of somebody's session, that goes on."""
        if current_session.get() is None:
            await self._leave(await self.of(saga), None)

    async def _leave(self, run: OpenRun, error: BaseException | None) -> None:
        """End the session, once, as a block that is left by this error; whoever else has failed waits for that."""
        self._open.pop(run.session.id, None)
        if run.stack is None:
            return
        if run.end is None:
            run.error = error
            how = (None, None, None) if error is None else (type(error), error, error.__traceback__)
            run.end = asyncio.ensure_future(run.stack.__aexit__(*how))
        await asyncio.shield(run.end)

    @asynccontextmanager
    async def call(
        self, saga: str | None, pauses: type[BaseException], passes: type[BaseException]
    ) -> AsyncGenerator[Session]:
        """Make a call of the run in this block: by a pause it is left open, by what passes it goes on, by any other
        exception it ends.
        """
        run, is_inner = await self.of(saga), bool(call_id.get())
        run.calls += 1
        try:
            yield run.session
        except pauses:
            run.is_paused = not is_inner
            raise
        except passes:
            raise
        except BaseException as error:  # whatever ends the run ends its session, and flies on
            await self._leave(run, error)
            if isinstance(error, SessionOverError) and run.error is not None:
                raise run.error  # noqa: B904 - this one was only stopped by it, and a framework may tell of either
            raise
        finally:
            run.calls -= 1
            if run.is_paused and not run.calls:
                await run.session.detach()
                await self._leave(run, Detach())


async def answer_pending(
    coordinator: Coordinator, pending: ApprovalPending, *, is_granted: bool, by: str, why: str
) -> str:
    """Put on record what a person said in a framework's own pause; why it does not count, where it does not.

    Who asks for the step again learns how it stands now: somebody else may have answered first.
    """
    try:
        if is_granted:
            await coordinator.grant(pending.approval, by=by, why=why, digest=pending.digest)
        else:
            await coordinator.refuse(pending.approval, by=by, why=why or "it was rejected")
    except RefusedError as exc:
        return str(exc)
    return ""
