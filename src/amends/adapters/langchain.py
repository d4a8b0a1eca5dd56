"""LangChain and LangGraph: an agent's run as a session, its tool calls as steps, approvals as interrupts.

`create_agent(…, middleware=[SagaMiddleware(coordinator)])` is all of it. The thread's id is the session's; the next run
after its end is `thread.2`. A run inside of somebody's session is a part of that: of an agent that is another one's
tool, and of a graph of one's own, with `ToolNode(tools, wrap_tool_call=saga.wrap_tool_call, …)` in an `async with`
block. An interrupt leaves the session open, for whoever goes on with the thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Annotated, Any, NotRequired, TypeVar

from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain.agents.middleware.types import PrivateStateAttr
from langchain.messages import ToolMessage
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.types import interrupt

from amends import Coordinator, Fatal
from amends.adapters.run import Runs, answer_pending
from amends.adapters.threads import Part, done_by_child
from amends.errors import AmendsError, ApprovalPending
from amends.runtime.declare.names import login
from amends.runtime.saga.model_answers import Answers
from amends.runtime.saga.model_text import text_or_raise
from amends.runtime.saga.session import Session
from amends.runtime.saga.tool import calling, do_foreign, is_ours, topic_of

T = TypeVar("T")


class _State(AgentState[Any]):
    amends_session: NotRequired[Annotated[str, PrivateStateAttr]]


class SagaMiddleware(AgentMiddleware):
    """Makes an agent's runs sessions called `name`; put it first. `options` are those of `coordinator.session`.

    approver: who answers by `Command(resume={"decisions": […]})`, where a decision does not say `by`; else who is
    logged in. delegates: tools that are no steps, as others do all that they do: agents, hand-offs, what interrupts.
    children: tools in which an agent works in a session of its own, which is taken back as one step.
    """

    state_schema = _State

    def __init__(
        self,
        coordinator: Coordinator,
        name: str = "agent",
        *,
        approver: str = "",
        delegates: Collection[str] = (),
        children: Collection[str] = (),
        **options: Any,
    ) -> None:
        super().__init__()
        self._runs, self._approver = Runs(coordinator, name, options), approver or login()
        self._delegates, self._children = frozenset(delegates), frozenset(children)

    async def abefore_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        return {"amends_session": await self._runs.on_loop(self._runs.begin(_thread()))}

    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        return {"amends_session": self._runs.wait(self._runs.begin(_thread()))}

    async def aafter_agent(self, state: Any, runtime: Any) -> None:
        await self._runs.on_loop(self._runs.complete(_session(state)))

    def after_agent(self, state: Any, runtime: Any) -> None:
        self._runs.wait(self._runs.complete(_session(state)))

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[T]]) -> T:
        return await self._runs.on_loop(self._model_call(request, handler))

    def wrap_model_call(self, request: Any, handler: Callable[[Any], T]) -> T:
        return self._runs.wait(self._model_call(request, lambda asked: asyncio.to_thread(handler, asked)))

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        return await self._runs.on_loop(self._tool_call(request, handler))

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        return self._runs.wait(self._tool_call(request, lambda asked: asyncio.to_thread(handler, asked)))

    async def _model_call(self, request: Any, handler: Callable[[Any], Awaitable[T]]) -> T:
        async with self._runs.call(_session(request.state), GraphInterrupt, GraphBubbleUp):
            return await handler(request)

    async def _tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        call, refused = request.tool_call, ""
        async with self._runs.call(_session(request.state), GraphInterrupt, GraphBubbleUp) as session:
            while True:
                try:
                    return await self._do(session, request, handler)
                except ApprovalPending as pending:
                    said = interrupt(_question(call, pending, refused))["decisions"][0]
                    refused = await answer_pending(
                        self._runs.coordinator,
                        pending,
                        is_granted=said["type"] == "approve",
                        by=said.get("by") or self._approver,
                        why=said.get("message") or "",
                    )
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
                why = f"the tool {call['name']} interrupts the graph: name it in delegates="
                raise Fatal(why, happened=None if call["name"] in self._children else False) from exc
            return getattr(made[0], "content", None)

        name, arguments, does = call["name"], call["args"], getattr(tool, "description", "")
        if name in self._children:
            part = Part(session, Answers(session))
            content = await done_by_child(self._runs.coordinator, part, topic_of(name), arguments, run, call=call["id"])
        else:
            content = await do_foreign(session, name, run, arguments, call=call["id"], does=does)
        return made[0] if made else ToolMessage(content, name=name, tool_call_id=call["id"])


def _thread() -> str | None:
    thread = get_config().get("configurable", {}).get("thread_id")
    return None if thread is None else str(thread)


def _session(state: Any) -> str | None:
    return state.get("amends_session") if isinstance(state, dict) else None


def _question(call: dict[str, Any], pending: ApprovalPending, refused: str) -> dict[str, Any]:
    """A request as LangChain's own middleware for people makes it, with the id to answer it by elsewhere."""
    about = "; ".join(part for part in (str(pending), refused) if part)
    action = {"name": call["name"], "args": call["args"], "description": about}
    review = {"action_name": call["name"], "allowed_decisions": ["approve", "reject"]}
    return {"action_requests": [action], "review_configs": [review], "approval": pending.approval}
