"""OpenAI Agents tell every story, and a few of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Runner, RunState, function_tool, set_tracing_disabled
from agents.exceptions import MaxTurnsExceeded
from agents.items import ToolCallOutputItem
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call

from amends import Coordinator
from amends.adapters.openai_agents import SagaRun, saga_tools
from amends.core.transitions import SagaStatus
from amends.errors import RefusedError
from tests.adapters.stories import PERSON, THREAD, TOOLS, Answers, Case, Framework, Outcome, Stories, ToolCall, Turn
from tests.test_docs import ROOT, show_what_happens

set_tracing_disabled(True)


def said(turn: Turn) -> Any:
    if isinstance(turn, str):
        return [assistant_message(turn)]
    return [function_call(one.tool, dict(one.arguments), call_id=one.id) for one in turn]


class OpenAiAgents(Framework):
    _state: Any

    async def begin(self, case: Case) -> Outcome:
        return await self._run(case, "to Lisbon, please")

    async def go_on(self, case: Case, answers: Answers) -> Outcome:
        agent = self._agent(case)
        state: RunState[Any] = await RunState.from_json(agent, self._state)
        for item in state.get_interruptions():
            raw: Any = item.raw_item
            answer = answers.get(raw.call_id)
            if answer is True:
                state.approve(item)
            elif isinstance(answer, str):
                state.reject(item, rejection_message=answer)
        return await self._run(case, state)

    def _agent(self, case: Case) -> Agent[Any]:
        model = ScriptedModel([ModelStep.respond(lambda call: said(case.turn())) for _ in case.script])
        tools = saga_tools(case.tools, case.coordinator, approver=PERSON)
        return Agent("traveller", tools=tools, model=model)

    async def _run(self, case: Case, given: Any) -> Outcome:
        async with SagaRun(case.coordinator, case.thread, approver=PERSON, limits=case.limits) as run:
            if isinstance(given, RunState):
                given = run.answered(given)
            result = await Runner.run(self._agent(case), given, hooks=run)
        ended: Any = result
        outputs: list[Any] = [one for one in ended.new_items if one.type == "tool_call_output_item"]
        told = {one.raw_item["call_id"]: str(one.output) for one in outputs}
        if ended.interruptions:
            self._state = ended.to_state().to_json()
            return Outcome(None, [one.raw_item.call_id for one in ended.interruptions], told)
        return Outcome(ended.final_output, told=told)


class TestOpenAiAgents(Stories):
    framework = OpenAiAgents

    def test_a_failing_tool_of_the_framework_is_no_success(self) -> None:
        @function_tool
        def weather(day: str) -> str:
            """Tell the weather."""
            raise ConnectionError("no line")

        async def story(coordinator: Coordinator) -> None:
            one = agent(coordinator, [ToolCall("c1", "weather", {"day": "today"})], "no idea", tools=[weather])
            with pytest.raises(RefusedError, match="incident"):  # noqa: PT012 - the block itself is left by it
                async with SagaRun(coordinator, THREAD) as run:
                    result = await Runner.run(one, "hi", hooks=run)
                    (output,) = [each.output for each in result.new_items if isinstance(each, ToolCallOutputItem)]
                    assert output.startswith("Lost: nobody knows whether weather happened.")
            (step,) = await self.steps(coordinator)
            assert (step.call, step.status) == ("c1", "unknown")

        self.tell(story)

    def test_an_agent_that_is_a_tool_works_in_the_same_session(self) -> None:
        async def story(coordinator: Coordinator) -> None:
            inner = agent(coordinator, [ToolCall("i1", "book", {"to": "Porto"})], "booked")
            ask = inner.as_tool("ask_travel", "Ask somebody who books.")
            turns = [ToolCall("c1", "ask_travel", {"input": "Porto"})], [ToolCall("c2", "charge", {"cents": 1})]
            outer = agent(coordinator, *turns, tools=[*TOOLS, ask])
            assert "declined" in await self.fails(whole(coordinator, outer))
            assert [(step.call, step.topic) for step in await self.steps(coordinator)] == [
                ("i1", "trip.book"),
                ("c2", "trip.charge"),
            ]

        self.tell(story)
        assert self.seen() == ["book Porto", "unbook Porto"]

    def test_an_agent_that_is_a_tool_may_have_a_session_of_its_own(self) -> None:
        async def story(coordinator: Coordinator) -> None:
            inner = agent(coordinator, [ToolCall("i1", "book", {"to": "Porto"})], "booked")
            ask = inner.as_tool("ask_travel", "Ask somebody who books.")
            turns = [ToolCall("c1", "ask_travel", {"input": "Porto"})], [ToolCall("c2", "charge", {"cents": 1})]
            outer = agent(coordinator, *turns, tools=[*TOOLS, ask], children=["ask_travel"])
            assert "declined" in await self.fails(whole(coordinator, outer))
            assert (await coordinator.show(f"{THREAD}.c1")).status is SagaStatus.ROLLED_BACK

        self.tell(story)
        assert self.seen() == ["book Porto", "unbook Porto"]

    def test_a_hand_off_goes_on_in_the_same_session(self) -> None:
        async def story(coordinator: Coordinator) -> None:
            second = agent(coordinator, [ToolCall("c2", "book", {"to": "Porto"})], "booked", name="second")
            first = agent(
                coordinator,
                [ToolCall("c1", "book", {"to": "Lisbon"})],
                [ToolCall("h1", "transfer_to_second", {})],
                handoffs=[second],
            )
            assert (await whole(coordinator, first)).text == "booked"
            assert [step.call for step in await self.steps(coordinator)] == ["c1", "c2"]
            assert await self.status(coordinator) is SagaStatus.COMPLETED

        self.tell(story)

    def test_a_run_that_fails_by_itself_is_taken_back(self) -> None:
        async def story(coordinator: Coordinator) -> None:
            turns = [[ToolCall(f"c{n}", "book", {"to": str(n)})] for n in range(3)]
            one = agent(coordinator, *turns)
            with pytest.raises(MaxTurnsExceeded):
                async with SagaRun(coordinator, THREAD) as run:
                    await Runner.run(one, "hi", hooks=run, max_turns=2)
            assert await self.status(coordinator) is SagaStatus.ROLLED_BACK

        self.tell(story)
        assert self.seen() == ["book 0", "book 1", "unbook 1", "unbook 0"]

    def test_what_only_the_framework_asks_about_is_asked_there_alone(self) -> None:
        @function_tool(needs_approval=True)
        def weather(day: str) -> str:
            """Tell the weather."""
            return "rain"

        async def story(coordinator: Coordinator) -> None:
            one = agent(coordinator, [ToolCall("c1", "weather", {"day": "today"})], "rain", tools=[weather])
            async with SagaRun(coordinator, THREAD) as run:
                result = await Runner.run(one, "hi", hooks=run)
            assert await self.asked(coordinator) == []
            state = result.to_state()
            state.approve(state.get_interruptions()[0])
            async with SagaRun(coordinator, THREAD) as run:
                assert (await Runner.run(one, state, hooks=run)).final_output == "rain"
            assert await self.status(coordinator) is SagaStatus.COMPLETED

        self.tell(story)

    def test_a_tool_outside_of_a_run_is_refused(self) -> None:
        async def story(coordinator: Coordinator) -> None:
            one = agent(coordinator, [ToolCall("c1", "book", {"to": "Porto"})], "booked")
            with pytest.raises(Exception, match="no run is open"):
                await Runner.run(one, "hi")

        self.tell(story)
        assert self.seen() == []


def agent(
    coordinator: Coordinator,
    *turns: Turn,
    tools: Any = TOOLS,
    name: str = "first",
    children: Sequence[str] = (),
    **options: Any,
) -> Agent[Any]:
    model = ScriptedModel([said(turn) for turn in turns])
    return Agent(name, tools=saga_tools(tools, coordinator, children=children), model=model, **options)


async def whole(coordinator: Coordinator, one: Agent[Any]) -> Outcome:
    async with SagaRun(coordinator, THREAD) as run:
        result = await Runner.run(one, "hi", hooks=run)
    return Outcome(str(result.final_output))


def test_the_page_shows_what_happens(tmp_path: Path) -> None:
    show_what_happens(ROOT / "docs" / "do" / "openai-agents.md", tmp_path)


def test_the_example_runs_as_its_first_lines_say(tmp_path: Path) -> None:
    example = [sys.executable, str(ROOT / "examples" / "openai_agents_agent.py")]
    said = subprocess.run(example, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True).stdout
    assert said.splitlines() == [
        "asked: charge ['lisbon/2']",
        "=> completed - You fly to Lisbon. ['flight to Lisbon', '9000 cents']",
        "=> rolled_back - seat.reserve (step 3): the flight is full ['flight to Lisbon', '9000 cents']",
    ]
