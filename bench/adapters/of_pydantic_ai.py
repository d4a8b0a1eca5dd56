"""An agent of Pydantic AI with one tool. Its model asks for ten calls at once, as its answers are steps, too."""

from __future__ import annotations

from itertools import islice
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import UsageLimits

import amends
from amends.adapters.pydantic_ai import Saga
from bench.adapters.tool import tool


async def run(coordinator: Any, calls: int) -> None:
    await whole(coordinator, calls, 10)


async def with_an_answer_each(coordinator: Any, calls: int) -> None:
    """Make one call for each answer of the model, which is recorded."""
    await whole(coordinator, calls, 1)


async def whole(coordinator: Any, calls: int, at_once: int) -> None:
    asked = iter(range(calls))

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        several = [ToolCallPart("tool", {"n": n}, f"c{n}") for n in islice(asked, at_once)]
        return ModelResponse(parts=several or [TextPart("done")])

    function: Any = tool.parts.function if coordinator is None else amends.tool(tool)
    saga = [] if coordinator is None else [Saga(coordinator)]
    agent: Agent[None, str] = Agent(FunctionModel(model), tools=[function], capabilities=saga, name="bench")
    await agent.run("go", usage_limits=UsageLimits(request_limit=None))
    assert next(asked, None) is None
