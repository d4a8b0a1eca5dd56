"""OpenAI Agents tell every story, and a few of their own."""

from __future__ import annotations

from typing import Any

from agents import Agent, Runner, RunState, set_tracing_disabled
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call

from amends.adapters.openai_agents import SagaRun, saga_tools
from tests.adapters.stories import PERSON, Answers, Case, Framework, Outcome, Stories, Turn

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
