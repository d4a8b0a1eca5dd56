"""An agent of OpenAI Agents with one tool."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from agents import Agent, Runner, function_tool, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call

import amends
from amends.adapters.openai_agents import SagaRun, saga_tools
from bench.adapters.tool import tool

set_tracing_disabled(True)


async def run(coordinator: Any, calls: int) -> None:
    answers: list[Any] = [[function_call("tool", {"n": n}, call_id=f"c{n}")] for n in range(calls)]
    model = ScriptedModel([*answers, [assistant_message("done")]])
    plain: Any = tool.parts.function
    tools = [function_tool(plain)] if coordinator is None else saga_tools([amends.tool(tool)], coordinator)
    async with nullcontext() if coordinator is None else SagaRun(coordinator) as hooks:
        result = await Runner.run(Agent("bench", tools=tools, model=model), "go", hooks=hooks, max_turns=calls + 2)
    assert len(result.new_items) == 2 * calls + 1
