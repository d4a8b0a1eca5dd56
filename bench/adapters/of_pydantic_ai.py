"""An agent of Pydantic AI with one tool."""

from __future__ import annotations

from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import UsageLimits

import amends
from amends.adapters.pydantic_ai import Saga
from bench.adapters.tool import tool


class CallsAlone(Saga):
    """Tool calls alone: the model's answers are not put on record."""

    def for_agent(self, agent: Any) -> Any:
        return self


async def run(coordinator: Any, calls: int) -> None:
    await whole(coordinator, calls, CallsAlone)


async def with_an_answer_each(coordinator: Any, calls: int) -> None:
    await whole(coordinator, calls, Saga)


async def whole(coordinator: Any, calls: int, kind: type[Saga]) -> None:
    asked = iter(range(calls))

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        n = next(asked, None)
        return ModelResponse(parts=[TextPart("done") if n is None else ToolCallPart("tool", {"n": n}, f"c{n}")])

    function: Any = tool.parts.function if coordinator is None else amends.tool(tool)
    saga = [] if coordinator is None else [kind(coordinator)]
    agent: Agent[None, str] = Agent(FunctionModel(model), tools=[function], capabilities=saga, name="bench")
    await agent.run("go", usage_limits=UsageLimits(request_limit=None))
    assert next(asked, None) is None
