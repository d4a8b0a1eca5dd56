"""OpenAI Agents: a run as a session, its tool calls as steps, approvals as the run's interruptions.

`saga_tools(tools, coordinator)` goes into an agent's `tools=`, and `async with SagaRun(coordinator, thread) as run:`
goes around `Runner.run(agent, …, hooks=run)`. The run's own end completes the session, what leaves the block rolls it
back, and an interruption leaves it open. Hand-offs and agents that are tools act in the same session.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, Self

from agents import Agent, FunctionTool, RunContextWrapper, RunHooks, RunState, Tool, function_tool
from agents.function_schema import function_schema
from agents.tool import set_function_tool_failure_error_function
from agents.tool_context import ToolContext
from pydantic import ValidationError
from pydantic_core import to_jsonable_python

from amends import Coordinator
from amends.adapters.threads import Part, answer, done_by_child, entered, opened
from amends.errors import AmendsError, ApprovalPending, Detach, RefusedError
from amends.runtime.declare.names import login
from amends.runtime.saga.model_text import text_or_raise
from amends.runtime.saga.tool import action_of, calling, do_foreign, is_ours, topic_of, undeclared
from amends.runtime.saga.work import bound


def saga_tools(
    tools: Iterable[Any], coordinator: Coordinator, *, approver: str = "", children: Collection[str] = ()
) -> list[Tool]:
    """The tools as an agent's `tools=` takes them: called within a `SagaRun`, each call is a step.

    tools: `amends.tool(action)`, plain functions, and the framework's own. What is no action of ours is what the policy
    says of undeclared ones. Hosted tools, and agents that are tools, stay as they are.
    approver: who answers in the framework's own pause; else who is logged in. children: tools in which an agent works
    in a session of its own, which is taken back as one step.
    """
    return [_saga_tool(tool, coordinator, approver or login(), children) for tool in tools]


def _saga_tool(given: Any, coordinator: Coordinator, approver: str, children: Collection[str]) -> Tool:
    tool: Tool = function_tool(given) if callable(given) and not isinstance(given, FunctionTool) else given
    is_child = isinstance(tool, FunctionTool) and tool.name in children
    if not isinstance(tool, FunctionTool) or (getattr(tool, "_is_agent_tool", False) and not is_child):
        return tool
    inner = set_function_tool_failure_error_function(replace(tool), None)
    function: Any = getattr(inner, "__wrapped__", None)
    action, own = action_of(function), tool.needs_approval
    schema = function_schema(function, strict_json_schema=False) if action is not None else None

    async def invoke(ctx: ToolContext[Any], text: str) -> Any:
        part, made = _part(), list[Any]()
        if ctx.is_tool_approved(tool.name, ctx.tool_call_id):
            await answer(coordinator, part, ctx.tool_call_id, approver)

        async def foreign(**arguments: Any) -> Any:
            made.append(await inner.on_invoke_tool(ctx, json.dumps(arguments)))
            return to_jsonable_python(made[0], fallback=str)

        try:
            with part.call(ctx.tool_call_id) as step:
                if is_ours(function):
                    with calling(part.session, step):
                        return await inner.on_invoke_tool(ctx, text)
                asked, does = json.loads(text or "{}"), tool.description
                if is_child:
                    return await done_by_child(coordinator, part, topic_of(tool.name), asked, foreign, call=step)
                told = await do_foreign(part.session, tool.name, foreign, asked, call=step, does=does)
                return made[0] if made else told
        except ApprovalPending as late:  # by a policy that was adopted since the framework has asked
            raise Detach(f"{late}; run it again from its last state") from None
        except AmendsError as error:
            return text_or_raise(error)

    async def asks(ctx: RunContextWrapper[Any], arguments: dict[str, Any], call: str) -> bool:
        part = _part()
        needed = own if isinstance(own, bool) else await own(ctx, arguments, call)
        if is_child or (action is None and is_ours(function)):
            return needed
        try:
            wanted = action or undeclared(tool.name, inner.on_invoke_tool, arguments, tool.description)
            if schema is not None and action is not None:
                args, kwargs = schema.to_call_args(schema.params_pydantic_model(**arguments))
                arguments = dict(bound(action, tuple(args), kwargs))
            return await part.session.asks_people(wanted, arguments, call=part.within + call) or needed
        except (AmendsError, ValidationError):
            return needed  # whoever makes the call is told what is wrong with it

    return set_function_tool_failure_error_function(replace(tool, on_invoke_tool=invoke, needs_approval=asks), None)


def _part() -> Part:
    if (part := entered.get()) is None:
        raise RefusedError(
            "no run is open: `async with SagaRun(coordinator) as run:` goes around Runner.run(…, hooks=run)"
        )
    return part


class SagaRun(RunHooks[Any]):
    """A block around a run, which makes it a session called `name`, and the hooks that the run needs for that.

    thread: the same one again goes on with its session, in this process or another; after its end, with a new one.
    approver: as for `saga_tools`. options: those of `coordinator.session`.
    """

    def __init__(
        self, coordinator: Coordinator, thread: str = "", *, name: str = "agent", approver: str = "", **options: Any
    ) -> None:
        self._coordinator, self._approver = coordinator, approver or login()
        self._opening, self._stack = opened(coordinator, name, thread or None, options), AsyncExitStack()
        self._has_ended = False

    async def __aenter__(self) -> Self:
        self._part = await self._stack.enter_async_context(self._opening)
        self.session = self._part.session
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if error is None and self._part.is_whole and (not self._has_ended or self._asked()):
            await self.session.detach()
        trace = None if error is None else error.__traceback__
        await self._stack.__aexit__(None if error is None else type(error), error, trace)

    def _asked(self) -> set[str]:
        """The calls that people are asked about."""
        return {one.call.removeprefix(self._part.within) for one in self.session.steps if one.status == "awaiting"}

    def answered(self, state: RunState[Any]) -> RunState[Any]:
        """The state of an interrupted run with what people have answered elsewhere: those calls are told of it."""
        for item in state.get_interruptions():
            raw: Any = item.raw_item
            if (raw["call_id"] if isinstance(raw, dict) else raw.call_id) not in self._asked():
                state.approve(item)
        return state

    async def on_llm_start(self, context: Any, agent: Agent[Any], system_prompt: Any, input_items: Any) -> None:
        """Put on record what was refused in the framework: such a call is never made."""
        self._has_ended = False
        for call in self._asked():
            for name in [tool.name for tool in agent.tools if context.is_tool_approved(tool.name, call) is False]:
                why = context.get_rejection_message(name, call) or "rejected in the agent's own run"
                await answer(self._coordinator, self._part, call, self._approver, refused=why)

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        self._has_ended = True
