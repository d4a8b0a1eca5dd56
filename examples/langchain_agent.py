"""An agent of LangChain whose runs are sagas: one goes well after a person has agreed, one is taken back.

    python examples/langchain_agent.py

The model is LangChain's own fake one. Everything else is as with a real one: the tools, the interrupt, the rollback.
"""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

import amends
from amends import Coordinator, Done, Fatal, action
from amends.adapters.langchain import SagaMiddleware

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


class Scripted(GenericFakeChatModel):
    """A model that answers what it was told to."""

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self


def call(id: str, name: str, **arguments: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"id": id, "name": name, "args": arguments}])


def agent(coordinator: Coordinator, *answers: AIMessage) -> Any:
    return create_agent(
        Scripted(messages=iter(answers)),
        tools=[amends.tool(each) for each in (book_flight, charge, reserve_seat)],
        middleware=[SagaMiddleware(coordinator, "travel")],
        checkpointer=InMemorySaver(),
    )


async def agreed(coordinator: Coordinator) -> None:
    one, thread = (
        agent(
            coordinator,
            call("call_1", "book_flight", to="Lisbon"),
            call("call_2", "charge", cents=9000),
            AIMessage("You fly to Lisbon."),
        ),
        {"configurable": {"thread_id": "lisbon"}},
    )
    state = await one.ainvoke({"messages": [("user", "Lisbon, please")]}, thread)
    (question,) = state["__interrupt__"]
    print("asked:", question.value["action_requests"][0]["args"], "as", question.value["approval"])
    decision = {"type": "approve", "by": "person:kim"}
    state = await one.ainvoke(Command(resume={"decisions": [decision]}), thread)
    print("=>", (await coordinator.show("lisbon")).status, "-", state["messages"][-1].content, desk)


async def taken_back(coordinator: Coordinator) -> None:
    one = agent(
        coordinator,
        call("call_1", "book_flight", to="Porto"),
        call("call_2", "charge", cents=400),
        call("call_3", "reserve_seat", row=1),
    )
    try:
        await one.ainvoke({"messages": [("user", "Porto, row 1")]}, {"configurable": {"thread_id": "porto"}})
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
