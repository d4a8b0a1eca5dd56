"""An agent of OpenAI Agents whose runs are sagas: one goes well after a person has agreed, one is taken back.

    python examples/openai_agents_agent.py

The model is the framework's own scripted one. All else is as with a real one: the tools, the pause, the rollback.
"""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from agents import Agent, Runner, set_tracing_disabled
from agents.exceptions import UserError
from agents.testing import ScriptedModel, assistant_message, function_call

import amends
from amends import Coordinator, Done, Fatal, action
from amends.adapters.openai_agents import SagaRun, saga_tools

POLICY = """\
version: v1
rules:
  - {id: ask-before-money, when: {topic: card.charge, args.cents: {gt: 5000}}, decision: require_human}
"""
desk: list[str] = []
set_tracing_disabled(True)


@action("flight.book")
async def book_flight(to: str) -> str:
    """Book a flight."""
    desk.append(f"flight to {to}")
    return f"flight to {to}"


@book_flight.compensation
async def cancel_flight(done: Done) -> None:
    desk.remove(f"flight to {done.args['to']}")


@action("card.charge", risk={"money"})
async def charge(cents: int) -> str:
    """Charge the traveller's card."""
    desk.append(f"{cents} cents")
    return f"{cents} cents charged"


@charge.compensation
async def refund(done: Done) -> None:
    desk.remove(f"{done.args['cents']} cents")


@action("seat.reserve")
async def reserve_seat(row: int) -> str:
    """Reserve a seat."""
    raise Fatal("the flight is full", happened=False)


@reserve_seat.compensation
async def free_seat(done: Done) -> None: ...


def agent(coordinator: Coordinator, *answers: Any) -> Agent[Any]:
    tools = saga_tools([amends.tool(each) for each in (book_flight, charge, reserve_seat)], coordinator)
    return Agent("travel", tools=tools, model=ScriptedModel([[answer] for answer in answers]))


async def agreed(coordinator: Coordinator) -> None:
    one = agent(
        coordinator,
        function_call("book_flight", {"to": "Lisbon"}, call_id="call_1"),
        function_call("charge", {"cents": 9000}, call_id="call_2"),
        assistant_message("You fly to Lisbon."),
    )
    async with SagaRun(coordinator, "lisbon") as run:
        result = await Runner.run(one, "Lisbon, please", hooks=run)
    (asked,) = result.interruptions
    print("asked:", asked.tool_name, [approval.id async for approval in coordinator.approvals()])
    state = result.to_state()
    state.approve(asked)
    async with SagaRun(coordinator, "lisbon") as run:
        result = await Runner.run(one, state, hooks=run)
    print("=>", (await coordinator.show("lisbon")).status, "-", result.final_output, desk)


async def taken_back(coordinator: Coordinator) -> None:
    one = agent(
        coordinator,
        function_call("book_flight", {"to": "Porto"}, call_id="call_1"),
        function_call("charge", {"cents": 400}, call_id="call_2"),
        function_call("reserve_seat", {"row": 1}, call_id="call_3"),
    )
    try:
        async with SagaRun(coordinator, "porto") as run:
            await Runner.run(one, "Porto, row 1", hooks=run)
    except UserError as error:
        print("=>", (await coordinator.show("porto")).status, "-", error.__cause__, desk)


async def whole(folder: Path) -> None:
    policy = folder / "policy.yaml"
    policy.write_text(POLICY, encoding="utf-8")
    async with Coordinator.open(str(folder / "amends.db"), policy=policy, env="development") as coordinator:
        await agreed(coordinator)
        await taken_back(coordinator)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(whole(Path(name)))
