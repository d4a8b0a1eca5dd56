"""An agent of Pydantic AI whose runs are sagas: one goes well after a person has agreed, one is taken back.

    python examples/pydantic_ai_agent.py

The model is Pydantic AI's own fake one. Everything else is as with a real one: the tools, the pause, the rollback.
"""

import asyncio
import tempfile
from pathlib import Path

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import amends
from amends import Coordinator, Done, Fatal, action
from amends.adapters.pydantic_ai import Saga

POLICY = """\
version: v1
rules:
  - {id: ask-before-money, when: {topic: card.charge, args.cents: {gt: 5000}}, decision: require_human}
"""
desk: list[str] = []


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


def agent(coordinator: Coordinator, *answers: ToolCallPart | TextPart) -> Agent[None, str | DeferredToolRequests]:
    left = iter(answers)

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[next(left)])

    return Agent(
        FunctionModel(model),
        name="travel",
        tools=[amends.tool(each) for each in (book_flight, charge, reserve_seat)],
        output_type=[str, DeferredToolRequests],
        capabilities=[Saga(coordinator, approver="person:kim")],
    )


async def agreed(coordinator: Coordinator) -> None:
    one = agent(
        coordinator,
        ToolCallPart("book_flight", {"to": "Lisbon"}, "call_1"),
        ToolCallPart("charge", {"cents": 9000}, "call_2"),
        TextPart("You fly to Lisbon."),
    )
    paused = await one.run("Lisbon, please", conversation_id="lisbon")
    assert isinstance(paused.output, DeferredToolRequests)
    (call,) = paused.output.approvals
    print("asked:", call.args, "as", paused.output.metadata[call.tool_call_id]["approval"])
    answers = DeferredToolResults(approvals={call.tool_call_id: True})
    ended = await one.run(message_history=paused.all_messages(), deferred_tool_results=answers)
    print("=>", (await coordinator.show("lisbon")).status, "-", ended.output, desk)


async def taken_back(coordinator: Coordinator) -> None:
    one = agent(
        coordinator,
        ToolCallPart("book_flight", {"to": "Porto"}, "call_1"),
        ToolCallPart("charge", {"cents": 400}, "call_2"),
        ToolCallPart("reserve_seat", {"row": 1}, "call_3"),
    )
    try:
        await one.run("Porto, row 1", conversation_id="porto")
    except amends.StepFatalError as error:
        print("=>", (await coordinator.show("porto")).status, "-", error.reason, desk)


async def whole(folder: Path) -> None:
    policy = folder / "policy.yaml"
    policy.write_text(POLICY, encoding="utf-8")
    async with Coordinator.open(str(folder / "amends.db"), policy=policy, env="development") as coordinator:
        await agreed(coordinator)
        await taken_back(coordinator)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(whole(Path(name)))
