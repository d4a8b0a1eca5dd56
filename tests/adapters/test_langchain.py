"""LangChain's agents tell every story, and a few of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from amends.adapters.langchain import SagaMiddleware
from tests.adapters.stories import PERSON, Answers, Case, Framework, Outcome, Stories, Turn


class ScriptedModel(GenericFakeChatModel):
    """LangChain's own fake model, with tools."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self


def said(turn: Turn) -> AIMessage:
    if isinstance(turn, str):
        return AIMessage(turn)
    calls = [{"name": one.tool, "args": dict(one.arguments), "id": one.id} for one in turn]
    return AIMessage("", tool_calls=calls)


class LangChain(Framework):
    def __init__(self) -> None:
        self._agent: Any = None

    async def begin(self, case: Case) -> Outcome:
        model = ScriptedModel(messages=(said(case.turn()) for _ in case.script))
        saga = SagaMiddleware(case.coordinator, approver=PERSON, limits=case.limits)
        self._agent = create_agent(model, list(case.tools), middleware=[saga], checkpointer=InMemorySaver())
        return await self._run(case, {"messages": [("user", "to Lisbon, please")]})

    async def go_on(self, case: Case, answers: Answers) -> Outcome:
        if not answers:
            return await self._run(case, None)
        (answer,) = answers.values()
        decision = {"type": "approve"} if answer is True else {"type": "reject", "message": answer}
        return await self._run(case, Command(resume={"decisions": [decision]}))

    async def _run(self, case: Case, given: Any) -> Outcome:
        state = await self._agent.ainvoke(given, {"configurable": {"thread_id": case.thread}})
        messages: Sequence[Any] = state["messages"]
        told = {one.tool_call_id: str(one.content) for one in messages if isinstance(one, ToolMessage)}
        if "__interrupt__" not in state:
            return Outcome(messages[-1].content, told=told)
        asked = {one.value["action_requests"][0]["name"] for one in state["__interrupt__"]}
        return Outcome(None, [call["id"] for call in messages[-1].tool_calls if call["name"] in asked], told)


class TestLangChain(Stories):
    framework = LangChain
