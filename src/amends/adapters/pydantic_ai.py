"""Pydantic AI: an agent's run as a session, its tool calls as steps, its model's answers on record.

`Agent(…, capabilities=[Saga(coordinator)])` is all of it. The run's conversation is the session's thread; the next run
after its end is `thread.2`. Where people are asked about a call, the run ends with DeferredToolRequests; its session
stays open. Run again with the same prompt and conversation, after a crash or a pause, the model is not asked again what
it has answered. A run inside of somebody's session is a part of that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final

from pydantic_ai import DeferredToolRequests, RunContext
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering, CombinedCapability
from pydantic_ai.exceptions import (
    ApprovalRequired,
    CallDeferred,
    ModelRetry,
    SkipToolExecution,
    ToolFailed,
    ToolFailedError,
    ToolRetryError,
)
from pydantic_ai.messages import ToolReturnPart
from pydantic_ai.models import Model
from pydantic_core import to_jsonable_python

from amends import Coordinator, Fatal
from amends.adapters.pydantic_answers import Durable
from amends.adapters.threads import answer, done_by_child, entered, opened
from amends.errors import AmendsError, ApprovalPending
from amends.runtime.declare.names import login
from amends.runtime.saga.model_text import text_or_raise
from amends.runtime.saga.tool import calling, do_foreign, is_ours, topic_of

_TELLS: Final = (ModelRetry, SkipToolExecution, ToolFailed, ToolFailedError, ToolRetryError)
"""What a tool raises to have the model told something."""


class Saga(AbstractCapability[Any]):
    """Makes an agent's runs sessions, called `name` or as the agent. `options` are those of `coordinator.session`.

    approver: who answers in DeferredToolResults; else who is logged in. waits: calls wait for people, the run does not
    end. delegates: tools that are no steps, as others do all that they do: agents, and what defers by itself.
    children: tools in which an agent works in a session of its own, which is taken back as one step.
    models: further models by name, as for the framework's own durable agents.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        name: str = "",
        *,
        approver: str = "",
        waits: bool = False,
        delegates: Collection[str] = (),
        children: Collection[str] = (),
        models: Mapping[str, Model] | None = None,
        **options: Any,
    ) -> None:
        self._coordinator, self._as, self._options = coordinator, name, options
        self._approver, self._waits, self._delegates = approver or login(), waits, frozenset(delegates)
        self._models, self._children = dict(models or {}), frozenset(children)

    def get_ordering(self) -> CapabilityOrdering:
        return CapabilityOrdering(position="outermost")

    def for_agent(self, agent: Any) -> AbstractCapability[Any]:
        return CombinedCapability([self, Durable(models=self._models, name=agent.name or "agent").for_agent(agent)])

    async def wrap_run(self, ctx: RunContext[Any], *, handler: Callable[[], Awaitable[Any]]) -> Any:
        name = self._as or topic_of((ctx.agent and ctx.agent.name) or "agent")
        async with opened(self._coordinator, name, ctx.conversation_id, self._options) as part:
            result = await handler()
            if part.is_whole and isinstance(result.output, DeferredToolRequests):
                await part.session.detach()
        return result

    async def before_model_request(self, ctx: RunContext[Any], request_context: Any) -> Any:
        """Put on record what was refused in the framework: such a call is never made."""
        part = entered.get()
        for one in request_context.messages[-1].parts if part else ():
            if part and isinstance(one, ToolReturnPart) and one.outcome == "denied":
                await answer(self._coordinator, part, one.tool_call_id, self._approver, refused=str(one.content))
        return request_context

    async def wrap_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any:
        if (part := entered.get()) is None:
            return await handler(args)
        if ctx.tool_call_approved:
            await answer(self._coordinator, part, call.tool_call_id, self._approver)
        made, told = list[Any](), list[Exception]()

        async def foreign(**arguments: Any) -> Any:
            try:
                made.append(await handler(arguments))
            except _TELLS as exc:
                told.append(exc)
                raise Fatal(f"the tool answered {type(exc).__name__}", happened=False) from exc
            except (ApprovalRequired, CallDeferred) as exc:
                raise Fatal(f"the tool {call.tool_name} defers: name it in delegates=", happened=False) from exc
            return to_jsonable_python(made[0], fallback=repr)

        try:
            with part.call(call.tool_call_id) as step:
                if tool_def.name in self._delegates or is_ours(_function_of(ctx, tool_def.name)):
                    with calling(part.session, step, waits=self._waits):
                        return await handler(args)
                if tool_def.name in self._children:
                    name = topic_of(tool_def.name)
                    return await done_by_child(self._coordinator, part, name, args, foreign, call=step)
                does, waits = tool_def.description or "", self._waits
                known = await do_foreign(part.session, tool_def.name, foreign, args, call=step, does=does, waits=waits)
                return made[0] if made else known
        except ApprovalPending as asked:
            raise ApprovalRequired({"approval": asked.approval, "rule": asked.rule, "why": asked.why}) from None
        except AmendsError as error:
            if told:
                raise told[0] from None
            raise ToolFailed(text_or_raise(error)) from error


def _function_of(ctx: RunContext[Any], name: str) -> object:
    """The function behind a tool, however it is wrapped and renamed; None where there is none."""
    tool: Any = None if ctx.tool_manager is None else (ctx.tool_manager.tools or {}).get(name)
    while (source := getattr(tool, "source_tool", None)) is not None:
        tool = source
    return getattr(getattr(getattr(tool, "call_func", None), "__self__", None), "function", None)
