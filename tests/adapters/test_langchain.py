"""LangChain's agents tell every story, and a few of their own."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt

import amends
from amends import Coordinator, StepFatalError
from amends.adapters.langchain import SagaMiddleware
from amends.core.transitions import SagaStatus
from amends.errors import RefusedError
from tests.adapters.stories import (
    PERSON,
    THREAD,
    TOOLS,
    Answers,
    Case,
    Framework,
    Outcome,
    Stories,
    ToolCall,
    Turn,
    book,
    hall,
    pay,
)
from tests.test_docs import ROOT, show_what_happens


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


GO = {"configurable": {"thread_id": THREAD}}
ASK = {"messages": [("user", "to Lisbon, please")]}


def model_of(*turns: Turn) -> ScriptedModel:
    return ScriptedModel(messages=iter([said(turn) for turn in turns]))


def agent_of(saga: SagaMiddleware, *turns: Turn, saver: Any = None, tools: Any = TOOLS) -> Any:
    saver = InMemorySaver() if saver is None else saver or None
    return create_agent(model_of(*turns), list(tools), middleware=[saga], checkpointer=saver)


def told(state: Any) -> dict[str, str]:
    return {one.tool_call_id: str(one.content) for one in state["messages"] if isinstance(one, ToolMessage)}


class TestLangChain(Stories):
    framework = LangChain

    def test_the_next_run_of_a_thread_is_the_next_session(self) -> None:
        async def story(coordinator: Coordinator) -> None:
            saga, saver = SagaMiddleware(coordinator), InMemorySaver()
            for number in (1, 2, 3):
                await agent_of(saga, [ToolCall(f"c{number}", "book", {"to": "Faro"})], "done", saver=saver).ainvoke(
                    ASK, GO
                )
            rows = [row async for row in coordinator.list(definition="agent")]
            assert [(row.id, row.status) for row in rows] == [
                (f"{THREAD}.3", SagaStatus.COMPLETED),
                (f"{THREAD}.2", SagaStatus.COMPLETED),
                (THREAD, SagaStatus.COMPLETED),
            ]

        self.tell(story)

    def test_a_run_without_a_thread_has_a_session_of_its_own(self) -> None:
        async def story(coordinator: Coordinator) -> None:
            model = model_of([ToolCall("c1", "book", {"to": "Faro"})], "done")
            agent: Any = create_agent(model, list(TOOLS), middleware=[SagaMiddleware(coordinator, "trips")])
            await agent.ainvoke(ASK)
            assert [row.status async for row in coordinator.list(definition="trips")] == [SagaStatus.COMPLETED]

        self.tell(story)
        assert self.seen() == ["book Faro"]

    def test_a_plain_run_waits_in_a_thread_and_not_on_the_loop_s(self) -> None:
        async def story(coordinator: Coordinator) -> None:
            saga = SagaMiddleware(coordinator)
            agent = agent_of(
                saga, [ToolCall("c1", "hall", {"seats": 9}), ToolCall("c2", "search", {"words": "a"})], "done"
            )
            state = await asyncio.to_thread(agent.invoke, ASK, GO)
            assert told(state) == {"c1": "a hall for 9", "c2": "nothing about a"}
            assert await self.status(coordinator) is SagaStatus.COMPLETED
            with pytest.raises(RefusedError, match="in a thread"):
                agent_of(saga, "done").invoke(ASK, GO)

        self.tell(story)
        assert sorted(self.seen()) == ["hall 9", "search a"]

    def test_another_process_goes_on_after_an_interrupt(self) -> None:
        saver = InMemorySaver()  # stands for one on disk: the graph's own record, which both processes have

        async def first(coordinator: Coordinator) -> None:
            agent = agent_of(SagaMiddleware(coordinator), [ToolCall("c1", "pay", {"cents": 700})], saver=saver)
            state = await agent.ainvoke(ASK, GO)
            (asked,) = state["__interrupt__"]
            assert asked.value["approval"] == f"{THREAD}/1"
            assert asked.value["action_requests"][0]["args"] == {"cents": 700}

        async def second(coordinator: Coordinator) -> None:
            agent = agent_of(SagaMiddleware(coordinator), "paid", saver=saver)
            decision = {"type": "approve", "by": "person:bob"}
            state = await agent.ainvoke(Command(resume={"decisions": [decision]}), GO)
            assert (state["messages"][-1].content, told(state)) == ("paid", {"c1": "paid 700"})
            assert (await coordinator.approval(f"{THREAD}/1")).signers == ("person:bob",)
            assert await self.status(coordinator) is SagaStatus.COMPLETED

        self.tell(first)
        self.tell(second)
        assert self.seen() == ["pay 700"]

    def test_who_may_not_answer_is_told_so_and_it_is_asked_again(self) -> None:
        async def story(coordinator: Coordinator) -> None:
            saga = SagaMiddleware(coordinator, "trips")
            agent = agent_of(saga, [ToolCall("c1", "pay", {"cents": 700})], "paid")
            await agent.ainvoke(ASK, GO)
            state = await agent.ainvoke(Command(resume={"decisions": [{"type": "approve", "by": "agent:trips"}]}), GO)
            (asked,) = state["__interrupt__"]
            assert "agent:trips" in asked.value["action_requests"][0]["description"]
            state = await agent.ainvoke(Command(resume={"decisions": [{"type": "approve", "by": PERSON}]}), GO)
            assert told(state) == {"c1": "paid 700"}

        self.tell(story)
        assert self.seen() == ["pay 700"]

    def test_two_calls_side_by_side_are_asked_about_and_a_third_goes_on(self) -> None:
        async def story(coordinator: Coordinator) -> None:
            calls = [ToolCall(f"c{n}", "pay", {"cents": 700 + n}) for n in (1, 2)]
            agent = agent_of(SagaMiddleware(coordinator), [*calls, ToolCall("c3", "book", {"to": "Faro"})], "paid")
            state = await agent.ainvoke(ASK, GO)
            assert len(state["__interrupt__"]) == 2
            assert await self.asked(coordinator) == ["trip.pay", "trip.pay"]
            answers = {one.id: {"decisions": [{"type": "approve", "by": PERSON}]} for one in state["__interrupt__"]}
            state = await agent.ainvoke(Command(resume=answers), GO)
            assert told(state) == {"c1": "paid 701", "c2": "paid 702", "c3": "a seat to Faro"}
            assert await self.status(coordinator) is SagaStatus.COMPLETED

        self.tell(story)
        assert sorted(self.seen()) == ["book Faro", "pay 701", "pay 702"]

    def test_an_agent_that_is_a_tool_works_in_the_same_session(self) -> None:
        async def story(coordinator: Coordinator) -> None:
            saga = SagaMiddleware(coordinator, delegates={"ask_clerk"})
            inner: Any = create_agent(
                model_of([ToolCall("c1", "pay", {"cents": 5})], "paid"),
                list(TOOLS),
                middleware=[SagaMiddleware(coordinator)],
            )

            async def ask_clerk(what: str) -> str:
                """Ask a clerk."""
                return str((await inner.ainvoke({"messages": [("user", what)]}))["messages"][-1].content)

            turns: list[Turn] = [
                [ToolCall("c0", "ask_clerk", {"what": "pay"})],
                [ToolCall("c2", "charge", {"cents": 5})],
            ]
            with pytest.raises(StepFatalError):
                await agent_of(saga, *turns, tools=[*TOOLS, ask_clerk]).ainvoke(ASK, GO)
            (row,) = [row async for row in coordinator.list(definition="agent")]
            assert (row.id, row.status) == (THREAD, SagaStatus.ROLLED_BACK)

        self.tell(story)
        assert self.seen() == ["pay 5", "refund 5"]

    @pytest.mark.parametrize("is_child_fatal", [False, True])
    def test_an_agent_that_is_a_tool_may_have_a_session_of_its_own(self, is_child_fatal: bool) -> None:
        async def story(coordinator: Coordinator) -> None:
            charges: Turn = [ToolCall("c2", "charge", {"cents": 5})]
            inner = agent_of(
                SagaMiddleware(coordinator),
                [ToolCall("c1", "pay", {"cents": 5})],
                charges if is_child_fatal else "paid",
                saver=False,
            )

            async def ask_clerk(what: str) -> str:
                """Ask a clerk."""
                return str((await inner.ainvoke({"messages": [("user", what)]}))["messages"][-1].content)

            turns: list[Turn] = [[ToolCall("c0", "ask_clerk", {"what": "pay"})], charges]
            saga = SagaMiddleware(coordinator, children={"ask_clerk"})
            with pytest.raises(StepFatalError, match="declined"):
                await agent_of(saga, *turns, tools=[*TOOLS, ask_clerk]).ainvoke(ASK, GO)
            child = await coordinator.show(f"{THREAD}.c0")
            assert (child.status, child.saga.begun and child.saga.begun.definition) == (
                SagaStatus.ROLLED_BACK,
                "ask_clerk",
            )
            assert await self.status(coordinator) is SagaStatus.ROLLED_BACK

        self.tell(story)
        assert self.seen() == ["pay 5", "refund 5"]

    def test_an_agent_with_a_session_of_its_own_cannot_wait_for_people_and_is_taken_back(self) -> None:
        async def story(coordinator: Coordinator) -> None:
            turns: list[Turn] = [[ToolCall("c1", "book", {"to": "Faro"})], [ToolCall("c2", "pay", {"cents": 700})]]
            inner = agent_of(SagaMiddleware(coordinator), *turns, saver=False)

            async def ask_clerk(what: str) -> str:
                """Ask a clerk."""
                return str((await inner.ainvoke({"messages": [("user", what)]}))["messages"][-1].content)

            saga = SagaMiddleware(coordinator, children={"ask_clerk"})
            with pytest.raises(StepFatalError, match="name it in delegates="):
                await agent_of(saga, [ToolCall("c0", "ask_clerk", {"what": "pay"})], tools=[ask_clerk]).ainvoke(ASK, GO)
            assert (await coordinator.show(f"{THREAD}.c0")).status is SagaStatus.ROLLED_BACK
            assert await self.status(coordinator) is SagaStatus.ROLLED_BACK
            assert await self.asked(coordinator) == []

        self.tell(story)
        assert self.seen() == ["book Faro", "unbook Faro"]

    def test_a_tool_that_interrupts_by_itself_is_a_delegate(self) -> None:
        def confirm(what: str) -> str:
            """Ask the user."""
            return str(interrupt(what))

        async def story(coordinator: Coordinator) -> None:
            call = [ToolCall("c1", "confirm", {"what": "sure?"})]
            with pytest.raises(StepFatalError, match="name it in delegates="):
                await agent_of(SagaMiddleware(coordinator), call, "ok", tools=[confirm]).ainvoke(ASK, GO)
            saga, config = SagaMiddleware(coordinator, delegates=["confirm"]), {"configurable": {"thread_id": "other"}}
            agent = agent_of(saga, call, "ok", tools=[confirm])
            state = await agent.ainvoke(ASK, config)
            assert [one.value for one in state["__interrupt__"]] == ["sure?"]
            assert (await coordinator.show("other")).status is SagaStatus.WAITING
            assert told(await agent.ainvoke(Command(resume="yes"), config)) == {"c1": "yes"}
            assert (await coordinator.show("other")).status is SagaStatus.COMPLETED

        self.tell(story)

    def test_a_model_that_fails_rolls_the_run_back(self) -> None:
        async def story(coordinator: Coordinator) -> None:
            agent = agent_of(SagaMiddleware(coordinator), [ToolCall("c1", "book", {"to": "Faro"})])
            with pytest.raises(RuntimeError):  # the script is at its end, as a model's service may be
                await agent.ainvoke(ASK, GO)
            assert await self.status(coordinator) is SagaStatus.ROLLED_BACK

        self.tell(story)
        assert self.seen() == ["book Faro", "unbook Faro"]

    def test_a_graph_of_one_s_own_works_in_somebody_s_session(self) -> None:
        async def story(coordinator: Coordinator) -> None:
            saga = SagaMiddleware(coordinator)
            tools = [amends.tool(one) for one in (book, hall, pay)]
            calls = [ToolCall("c1", "book", {"to": "Faro"}), ToolCall("c2", "pay", {"cents": 700})]
            graph = StateGraph(MessagesState)
            graph.add_node("model", lambda state: {"messages": [said(calls)]})
            graph.add_node("tools", ToolNode(tools, awrap_tool_call=saga.awrap_tool_call))
            graph.add_edge(START, "model")
            graph.add_edge("model", "tools")
            graph.add_edge("tools", END)
            app: Any = graph.compile(checkpointer=InMemorySaver())
            with pytest.raises(RefusedError, match="no session is open"):
                await app.ainvoke(ASK, {"configurable": {"thread_id": "none"}})
            async with coordinator.session("graph", id=THREAD, actor="agent:a"):
                assert len((await app.ainvoke(ASK, GO))["__interrupt__"]) == 1
            assert await self.status(coordinator) is SagaStatus.WAITING
            await coordinator.grant(f"{THREAD}/2", by=PERSON)
            async with coordinator.session("graph", id=THREAD):
                assert told(await app.ainvoke(None, GO)) == {"c1": "a seat to Faro", "c2": "paid 700"}
            assert await self.status(coordinator) is SagaStatus.COMPLETED

        self.tell(story)
        assert self.seen() == ["book Faro", "pay 700"]


def test_the_page_shows_what_happens(tmp_path: Path) -> None:
    show_what_happens(ROOT / "docs" / "do" / "langchain.md", tmp_path)


def test_the_example_runs_as_its_first_lines_say(tmp_path: Path) -> None:
    example = [sys.executable, str(ROOT / "examples" / "langchain_agent.py")]
    said = subprocess.run(example, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True).stdout
    assert said.splitlines() == [
        "asked: {'cents': 9000} as lisbon/2",
        "=> completed - You fly to Lisbon. ['flight to Lisbon', '9000 cents']",
        "=> rolled_back - the flight is full ['flight to Lisbon', '9000 cents']",
    ]
