"""Pydantic AI tells the stories that all adapters tell, and those of its own."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ModelRetry, ToolDenied
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.run import AgentRunResult

from amends import Coordinator, StepDeniedError, StepFatalError
from amends.adapters.pydantic_ai import Saga
from amends.core.state.step import Step
from amends.core.transitions import SagaStatus
from tests.adapters.stories import THREAD, TOOLS, Answers, Case, Framework, Outcome, Stories, ToolCall, Turn
from tests.test_docs import ROOT, show_what_happens


def spoken(turn: Turn) -> ModelResponse:
    if isinstance(turn, str):
        return ModelResponse(parts=[TextPart(turn)])
    return ModelResponse(parts=[ToolCallPart(one.tool, dict(one.arguments), one.id) for one in turn])


class PydanticAi(Framework):
    messages: list[ModelMessage]

    async def begin(self, case: Case) -> Outcome:
        return self._told(await self._agent(case).run("a trip, please", conversation_id=case.thread))

    async def go_on(self, case: Case, answers: Answers) -> Outcome:
        agent = self._agent(case)
        if not answers:  # the model is not asked again what it has answered
            return self._told(await agent.run("a trip, please", conversation_id=case.thread))
        said = {call: True if yes is True else ToolDenied(str(yes)) for call, yes in answers.items()}
        results = DeferredToolResults(approvals=dict(said))
        return self._told(await agent.run(message_history=self.messages, deferred_tool_results=results))

    def _agent(self, case: Case) -> Agent[None, str | DeferredToolRequests]:
        def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            return spoken(case.turn())

        saga = Saga(case.coordinator, approver=self.person, limits=case.limits)
        return Agent(
            FunctionModel(model),
            tools=case.tools,
            output_type=[str, DeferredToolRequests],
            capabilities=[saga],
        )

    def _told(self, result: AgentRunResult[Any]) -> Outcome:
        self.messages = result.all_messages()
        told = {
            part.tool_call_id: str(part.content)
            for message in self.messages
            for part in message.parts
            if isinstance(part, ToolReturnPart)
        }
        if isinstance(result.output, DeferredToolRequests):
            return Outcome(None, [part.tool_call_id for part in result.output.approvals], told)
        return Outcome(result.output, told=told)


class TestPydanticAi(Stories):
    framework = PydanticAi

    def test_run_again_the_model_is_not_asked_again(self) -> None:
        async def story(coordinator: Coordinator) -> None:
            case = self.case(
                coordinator, [ToolCall("c1", "book", {"to": "Lisbon"})], [ToolCall("c2", "pay", {"cents": 700})]
            )
            paused = await PydanticAi().begin(case)
            assert (list(paused.paused), case.asked) == (["c2"], 2)
            again = self.case(coordinator)  # this one has no answer at all
            assert list((await PydanticAi().begin(again)).paused) == ["c2"]
            assert again.asked == 0

        self.tell(story)
        assert self.seen() == ["book Lisbon"]

    def test_killed_and_run_again_only_what_is_new_is_asked(self) -> None:
        self.killed("ferry")

        async def story(coordinator: Coordinator) -> None:
            case = self.case(coordinator, "there")
            outcome = await PydanticAi().begin(case)
            assert (outcome.text, case.asked) == ("there", 1)
            assert outcome.told == {"c1": "a seat to Lisbon", "c2": "a ferry to Lisbon"}

        self.tell(story)
        assert self.seen() == ["book Lisbon", "ferry Lisbon", "look for a ferry"]

    def test_a_model_that_fails_is_asked_again(self) -> None:
        async def story(coordinator: Coordinator) -> None:
            with pytest.raises(RuntimeError, match="overloaded"):
                await agent(coordinator, failing).run("hi", conversation_id=THREAD)
            assert await self.status(coordinator) is SagaStatus.ROLLED_BACK
            result = await agent(coordinator, lambda messages, info: said("well")).run("hi", conversation_id=THREAD)
            assert result.output == "well"
            assert (await coordinator.show(f"{THREAD}.2")).status is SagaStatus.COMPLETED

        self.tell(story)

    def test_a_policy_that_allows_no_answers_stops_the_run(self) -> None:
        async def story(coordinator: Coordinator) -> None:
            with pytest.raises(StepDeniedError, match=r"amends\.answer"):
                await agent(coordinator, lambda messages, info: said("well")).run("hi", conversation_id=THREAD)

        policy = self.path / "deny.yaml"
        policy.write_text("version: v1\ndefault: deny\nrules: []\n")

        async def whole() -> None:
            async with Coordinator.open(str(self.path / "amends.db"), env="development", policy=policy) as coordinator:
                await story(coordinator)

        asyncio.run(asyncio.wait_for(whole(), 60))

    def test_an_agent_in_a_tool_works_in_the_same_session(self) -> None:
        async def story(coordinator: Coordinator) -> None:
            inner = agent(coordinator, scripted([ToolCall("c1", "book", {"to": "Porto"})], "booked"))

            async def ask_travel(where: str) -> str:
                return (await inner.run(where)).output

            turns = scripted(
                [ToolCall("c1", "ask_travel", {"where": "Porto"})], [ToolCall("c2", "charge", {"cents": 1})]
            )
            outer = agent(coordinator, turns, ask_travel, delegates=["ask_travel"])
            with pytest.raises(StepFatalError, match="declined"):
                await outer.run("hi", conversation_id=THREAD)
            assert [(step.call, step.topic) for step in await self.steps(coordinator)] == [
                ("c1/c1", "trip.book"),
                ("c2", "trip.charge"),
            ]

        self.tell(story)
        assert self.seen() == ["book Porto", "unbook Porto"]

    def test_an_agent_in_a_tool_may_have_a_session_of_its_own(self) -> None:
        async def story(coordinator: Coordinator) -> None:
            inner = agent(coordinator, scripted([ToolCall("c1", "book", {"to": "Porto"})], "booked"))

            async def ask_travel(where: str) -> str:
                return (await inner.run(where)).output

            turns = scripted(
                [ToolCall("c1", "ask_travel", {"where": "Porto"})], [ToolCall("c2", "charge", {"cents": 1})]
            )
            outer = agent(coordinator, turns, ask_travel, children=["ask_travel"])
            with pytest.raises(StepFatalError, match="declined"):
                await outer.run("hi", conversation_id=THREAD)
            child = await coordinator.show(f"{THREAD}.c1")
            assert (child.status, child.saga.begun and child.saga.begun.definition) == (
                SagaStatus.ROLLED_BACK,
                "ask_travel",
            )

        self.tell(story)
        assert self.seen() == ["book Porto", "unbook Porto"]

    def test_a_child_that_fails_for_good_has_the_outer_run_taken_back_too(self) -> None:
        async def story(coordinator: Coordinator) -> None:
            turns = scripted([ToolCall("c1", "book", {"to": "Porto"})], [ToolCall("c2", "charge", {"cents": 1})])
            inner = agent(coordinator, turns)

            async def ask_travel(where: str) -> str:
                return (await inner.run(where)).output

            asked = scripted(
                [ToolCall("c0", "book", {"to": "Faro"})], [ToolCall("c1", "ask_travel", {"where": "Porto"})]
            )
            outer = agent(coordinator, asked, ask_travel, children=["ask_travel"])
            with pytest.raises(StepFatalError, match="declined"):
                await outer.run("hi", conversation_id=THREAD)
            assert (await coordinator.show(f"{THREAD}.c1")).status is SagaStatus.ROLLED_BACK
            assert await self.status(coordinator) is SagaStatus.ROLLED_BACK

        self.tell(story)
        assert self.seen() == ["book Faro", "book Porto", "unbook Porto", "unbook Faro"]

    def test_a_tool_that_asks_for_other_arguments_is_asked_again(self) -> None:
        def pick(seat: int) -> str:
            if seat > 3:
                raise ModelRetry("there are three seats")
            return f"seat {seat}"

        async def story(coordinator: Coordinator) -> None:
            turns = scripted([ToolCall("c1", "pick", {"seat": 4})], [ToolCall("c2", "pick", {"seat": 2})], "picked")
            result = await agent(coordinator, turns, pick).run("hi", conversation_id=THREAD)
            assert result.output == "picked"
            assert "there are three seats" in str(result.all_messages())

        self.tell(story)

    def test_where_the_run_cannot_pause_a_call_may_wait_for_people(self) -> None:
        async def story(coordinator: Coordinator) -> None:
            turns = scripted([ToolCall("c1", "pay", {"cents": 700})], "paid")
            run = asyncio.ensure_future(agent(coordinator, turns, waits=True).run("hi", conversation_id=THREAD))
            while not await self.asked(coordinator):
                await asyncio.sleep(0.02)
            await coordinator.grant(await self.approval(coordinator), by="person:bob")
            assert (await run).output == "paid"

        self.tell(story)
        assert self.seen() == ["pay 700"]

    def test_another_model_for_one_run_is_recorded_too(self) -> None:
        async def story(coordinator: Coordinator) -> None:
            usual = agent(coordinator, failing)
            with usual.override(model=FunctionModel(lambda messages, info: said("another"))):
                assert (await usual.run("hi", conversation_id=THREAD)).output == "another"
            answers = [step async for step in self.all_steps(coordinator)]
            assert [(step.topic, step.status) for step in answers] == [("amends.answer", "succeeded")]

        self.tell(story)

    async def all_steps(self, coordinator: Coordinator) -> AsyncIterator[Step]:
        for step in (await coordinator.show(THREAD)).saga.steps.values():
            yield step


def said(text: str) -> ModelResponse:
    return ModelResponse(parts=[TextPart(text)])


def failing(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    raise RuntimeError("the model is overloaded")


def scripted(*turns: Turn) -> Callable[[list[ModelMessage], AgentInfo], ModelResponse]:
    left = iter(turns)
    return lambda messages, info: spoken(next(left))


def agent(coordinator: Coordinator, model: Any, *more: Callable[..., Any], **options: Any) -> Agent[None, str]:
    return Agent(FunctionModel(model), tools=[*TOOLS, *more], capabilities=[Saga(coordinator, **options)])


def test_the_page_shows_what_happens(tmp_path: Path) -> None:
    show_what_happens(ROOT / "docs" / "do" / "pydantic-ai.md", tmp_path)


def test_the_example_runs_as_its_first_lines_say(tmp_path: Path) -> None:
    example = [sys.executable, str(ROOT / "examples" / "pydantic_ai_agent.py")]
    said = subprocess.run(example, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True).stdout
    assert said.splitlines() == [
        "asked: {'cents': 9000} as lisbon/4",
        "=> completed - You fly to Lisbon. ['flight to Lisbon', '9000 cents']",
        "=> rolled_back - the flight is full ['flight to Lisbon', '9000 cents']",
    ]
