"""An agent of LangChain with one tool."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

import amends
from amends.adapters.langchain import SagaMiddleware
from bench.adapters.tool import tool


class Scripted(GenericFakeChatModel):
    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self


def answers(calls: int) -> Iterator[AIMessage]:
    for n in range(calls):
        yield AIMessage("", tool_calls=[{"id": f"c{n}", "name": "tool", "args": {"n": n}}])
    yield AIMessage("done")


async def run(coordinator: Any, calls: int) -> None:
    saga = [] if coordinator is None else [SagaMiddleware(coordinator)]
    function: Any = tool.parts.function if coordinator is None else amends.tool(tool)
    agent: Any = create_agent(Scripted(messages=answers(calls)), [function], middleware=saga)
    state = await agent.ainvoke({"messages": [("user", "go")]}, {"recursion_limit": 10_000})
    assert len(state["messages"]) == 2 * calls + 2
