"""LangChain and LangGraph: an agent's run as a session, its tool calls as steps, approvals as interrupts.

`create_agent(…, middleware=[SagaMiddleware(coordinator)])` is all of it. The thread's id is the session's; the next run
after its end is `thread.2`. A run inside of somebody's session is a part of that: of an agent that is another one's
tool, and of a graph of one's own, with `ToolNode(tools, wrap_tool_call=saga.wrap_tool_call, …)` in an `async with`
block. An interrupt leaves the session open, for whoever goes on with the thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine
from contextlib import AsyncExitStack
from typing import Annotated, Any, Final, NotRequired, TypeVar

from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain.agents.middleware.types import PrivateStateAttr
from langchain.messages import ToolMessage
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.types import interrupt

from amends import Coordinator, Fatal
from amends.dataclass import dataclass
from amends.errors import AmendsError, ApprovalPending, Detach, RefusedError
from amends.runtime.declare.names import login
from amends.runtime.saga.model_text import text_or_raise
from amends.runtime.saga.session import Session, call_id, current_session
from amends.runtime.saga.tool import calling, do_foreign, is_ours, require_no_loop

T = TypeVar("T")
_THREAD: Final = "thread"


class _State(AgentState[Any]):
    amends_session: NotRequired[Annotated[str, PrivateStateAttr]]


@dataclass(slots=True)
class _Run:
    """A session with the runs of its thread here; without `stack` it is somebody else's to end."""

    session: Session
    stack: AsyncExitStack | None
    calls: int = 0
    is_paused: bool = False
    end: asyncio.Task[Any] | None = None


class SagaMiddleware(AgentMiddleware):
    """Makes an agent's runs sessions called `name`; put it first. `options` are those of `coordinator.session`.

    approver: who answers by `Command(resume={"decisions": […]})`, where a decision does not say `by`; else who is
    logged in. delegates: tools that are no steps, as others do all that they do: agents, hand-offs, what interrupts.
    """

    state_schema = _State

    def __init__(
        self,
        coordinator: Coordinator,
        name: str = "agent",
        *,
        approver: str = "",
        delegates: Collection[str] = (),
        **options: Any,
    ) -> None:
        super().__init__()
        self._coordinator, self._as = coordinator, name
        self._approver, self._delegates = approver or login(), frozenset(delegates)
        self._options = {"actor": f"agent:{name}", **options}
        self._runs: dict[str, _Run] = {}
        self._turn = asyncio.Lock()

    # -- LangChain's hooks; all of it runs on the coordinator's loop

    async def abefore_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        return await self._on_loop(self._begin())

    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        return self._wait(self._begin())

    async def aafter_agent(self, state: Any, runtime: Any) -> None:
        await self._on_loop(self._complete(state))

    def after_agent(self, state: Any, runtime: Any) -> None:
        self._wait(self._complete(state))

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[T]]) -> T:
        return await self._on_loop(self._model_call(request, handler))

    def wrap_model_call(self, request: Any, handler: Callable[[Any], T]) -> T:
        return self._wait(self._model_call(request, lambda asked: asyncio.to_thread(handler, asked)))

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        return await self._on_loop(self._tool_call(request, handler))

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        return self._wait(self._tool_call(request, lambda asked: asyncio.to_thread(handler, asked)))

    async def _on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        loop = self._coordinator.loop
        if asyncio.get_running_loop() is loop:
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        require_no_loop("this agent", None, self._coordinator)
        return asyncio.run_coroutine_threadsafe(work, self._coordinator.loop).result()

    # -- the session

    async def _begin(self) -> dict[str, Any] | None:
        if current_session.get() is not None:
            return None
        thread = get_config().get("configurable", {}).get("thread_id")
        async with self._turn:
            saga = None if thread is None else await self._saga_of(str(thread))
            return {"amends_session": (self._runs.get(saga or "") or await self._open(saga, thread)).session.id}

    async def _saga_of(self, thread: str) -> str:
        """The session of a thread that has not ended; else a new one's id."""
        rows = await self._coordinator.list(labels={_THREAD: thread}, parent=None, limit=1)
        if not rows or not rows[0].status.ended:
            return rows[0].id if rows else thread
        return f"{thread}.{int(rows[0].id.removeprefix(thread).removeprefix('.') or 1) + 1}"

    async def _open(self, saga: str | None, thread: object) -> _Run:
        labels = {} if thread is None else {_THREAD: str(thread)}
        options = {**self._options, "labels": {**labels, **self._options.get("labels", {})}}
        stack = AsyncExitStack()
        session = await stack.enter_async_context(self._coordinator.session(self._as, id=saga, **options))
        run = self._runs[session.id] = _Run(session, stack)
        return run

    async def _run_of(self, state: Any) -> _Run:
        here = current_session.get()
        saga = here.id if here is not None else state.get("amends_session") if isinstance(state, dict) else None
        if saga is None:
            raise RefusedError("no session is open: call the graph inside of `async with coordinator.session(…)`")
        async with self._turn:
            if saga not in self._runs and here is not None:
                self._runs[saga] = _Run(here, None)
            return self._runs.get(saga) or await self._open(saga, None)

    async def _complete(self, state: Any) -> None:
        run = await self._run_of(state)
        if run.stack is not None and current_session.get() is None:
            await self._leave(run, None)

    async def _leave(self, run: _Run, error: BaseException | None) -> None:
        """End the session, once, as a block ends that is left by this error; whoever else failed waits for that."""
        if run.end is None:
            self._runs.pop(run.session.id, None)
            if run.stack is None:
                return
            how = (None, None, None) if error is None else (type(error), error, error.__traceback__)
            run.end = asyncio.ensure_future(run.stack.__aexit__(*how))
        await asyncio.shield(run.end)

    # -- calls

    async def _model_call(self, request: Any, handler: Callable[[Any], Awaitable[T]]) -> T:
        run = await self._run_of(request.state)
        try:
            return await handler(request)
        except GraphBubbleUp:
            raise
        except BaseException as error:  # whatever ends the run ends its session, and flies on
            await self._leave(run, error)
            raise

    async def _tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        run, is_inner = await self._run_of(request.state), bool(call_id.get())
        run.calls += 1
        try:
            return await self._step(run.session, request, handler)
        except GraphInterrupt:
            run.is_paused = not is_inner
            raise
        except GraphBubbleUp:
            raise
        except BaseException as error:  # whatever ends the run ends its session, and flies on
            await self._leave(run, error)
            raise
        finally:
            run.calls -= 1
            if run.is_paused and not run.calls:
                await run.session.detach()
                await self._leave(run, Detach())

    async def _step(self, session: Session, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        call, refused = request.tool_call, ""
        while True:
            try:
                return await self._do(session, request, handler)
            except ApprovalPending as pending:
                said = interrupt(_question(call, pending, refused))["decisions"][0]
                refused = await self._answer(pending, said)
            except AmendsError as error:
                text = text_or_raise(error)
                return ToolMessage(text, name=call["name"], tool_call_id=call["id"], status="error")

    async def _do(self, session: Session, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        call, tool = request.tool_call, request.tool
        if call["name"] in self._delegates or is_ours(getattr(tool, "coroutine", None) or getattr(tool, "func", None)):
            with calling(session, call["id"]):
                return await handler(request)
        made: list[Any] = []

        async def run(**arguments: Any) -> Any:
            try:
                made.append(await handler(request))
            except GraphBubbleUp as exc:
                raise Fatal(
                    f"the tool {call['name']} interrupts the graph: name it in delegates=", happened=False
                ) from exc
            return getattr(made[0], "content", None)

        does = getattr(tool, "description", "")
        content = await do_foreign(session, call["name"], run, call["args"], call=call["id"], does=does)
        return made[0] if made else ToolMessage(content, name=call["name"], tool_call_id=call["id"])

    async def _answer(self, pending: ApprovalPending, said: dict[str, Any]) -> str:
        """Put a person's answer on record; why it does not count, where it does not."""
        by, why = said.get("by") or self._approver, said.get("message") or ""
        try:
            if said["type"] == "approve":
                await self._coordinator.grant(pending.approval, by=by, why=why, digest=pending.digest)
            else:
                await self._coordinator.refuse(pending.approval, by=by, why=why or said["type"])
        except RefusedError as exc:
            return str(exc)
        return ""


def _question(call: dict[str, Any], pending: ApprovalPending, refused: str) -> dict[str, Any]:
    """A request as LangChain's own middleware for people makes it, with the id to answer it by elsewhere."""
    about = "; ".join(part for part in (str(pending), refused) if part)
    action = {"name": call["name"], "args": call["args"], "description": about}
    review = {"action_name": call["name"], "allowed_decisions": ["approve", "reject"]}
    return {"action_requests": [action], "review_configs": [review], "approval": pending.approval}
