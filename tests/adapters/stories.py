"""The stories that every adapter has to tell: one list for all frameworks.

An adapter's test is an instance of it:

    class Fake(Framework):            # begins and goes on with the framework's own agent, fake model and pause
        async def begin(self, case): ...
        async def go_on(self, case, answers): ...

    class TestLangChain(Stories):     # pytest finds the stories in it
        framework = Fake

`Case` is what an agent is made of: a coordinator, tools (plain callables), a script for the model, the thread and the
session's limits. A `Script` is the model's answers in order, one for each time that it is asked: tool calls with ids of
their own, side by side, or a text, which ends the run. An agent is run to its end or to a pause. `Outcome` says which:
its `text`, or `paused`, the ids of the calls that wait for a person; and `told`, by call id, what the model was given
for a result. What the run raises is raised. `go_on` answers what is paused: `True`, or a reason to refuse, by call id;
nothing where people have answered by `amends approval grant`.

The session's id is the thread's. Effects are lines in a file, so that they outlive a process that is killed; that one
is `python -m tests.adapters.victim MODULE:CLASS JOURNAL TOOL`, in which the framework is made anew.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, cast

import pytest

import amends
from amends import Action, Asked, Coordinator, Done, Fatal, Happened, Limit, Limits, NotDone, Settings, action
from amends.core.state.step import Step
from amends.core.transitions import SagaStatus
from amends.core.words.values import BUILT_IN
from amends.errors import RefusedError
from amends.runtime.saga.tool import AGENT_TOOLS

QUICK = Settings(poll_s=0.05, park_s=0.05)
THREAD = "thread-1"
PERSON = "person:ann"
POLICY = """\
version: v1
rules:
  - {id: no-big-money, when: {topic: trip.pay, args.cents: {gt: 1000}}, decision: deny}
  - {id: ask-first, when: {topic: trip.pay, args.cents: {gt: 500}}, decision: require_human, expires: EXPIRES}
"""


# -- what an agent is given -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ToolCall:
    id: str
    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])


Turn: TypeAlias = "str | Sequence[ToolCall]"
Script: TypeAlias = Sequence[Turn]
Answers: TypeAlias = Mapping[str, "bool | str"]
"""By call id: True, or why it is refused."""


@dataclass
class Case:
    coordinator: Coordinator
    script: Script
    tools: Sequence[Callable[..., Any]]
    thread: str = THREAD
    limits: Limits | None = None
    asked: int = 0
    """How often the model was asked: where its script goes on."""

    def turn(self) -> Turn:
        """The model's next answer."""
        self.asked += 1
        return self.script[self.asked - 1]


@dataclass(frozen=True)
class Outcome:
    text: str | None
    paused: Sequence[str] = ()
    told: Mapping[str, str] = field(default_factory=dict[str, str])


class Framework(ABC):
    """One framework's agent, made of a case. It lives as long as one process of the story does."""

    person: str = PERSON
    """Who answers in the framework's own pause."""

    @abstractmethod
    async def begin(self, case: Case) -> Outcome:
        """Run the agent on the case's thread, from the user's first words."""

    @abstractmethod
    async def go_on(self, case: Case, answers: Answers) -> Outcome:
        """Go on after a pause with a person's answers; none, where they were given elsewhere."""


# -- the world --------------------------------------------------------------------------------------------------------

_log = Path(os.environ.get("STORY_LOG", os.devnull))


def note(what: str) -> None:
    with _log.open("a") as log:
        log.write(f"{what}\n")


@action("trip.book")
async def book(to: str) -> str:
    """Book a seat."""
    note(f"book {to}")
    return f"a seat to {to}"


@book.compensation
async def unbook(done: Done) -> None:
    note(f"unbook {done.args['to']}")


@action("trip.pay")
async def pay(cents: int) -> str:
    """Pay."""
    note(f"pay {cents}")
    return f"paid {cents}"


@pay.compensation
async def refund(done: Done) -> None:
    note(f"refund {done.args['cents']}")


@action("trip.charge")
async def charge(cents: int) -> str:
    """Charge a card."""
    raise Fatal("the card was declined", happened=False)


@charge.compensation
async def uncharge(done: Done) -> None:
    note("uncharge")


@action("trip.seat", retries=2)
async def seat(row: int) -> str:
    """Choose a seat."""
    raise NotDone("the row is taken")


@seat.compensation
async def unseat(done: Done) -> None:
    note("unseat")


@action("trip.rent")
async def rent(car: str) -> str:
    """Rent a car."""
    note(f"rent {car}")
    raise ConnectionError("the line went dead")


@rent.compensation
async def unrent(done: Done) -> None:
    note(f"unrent {done.args['car']}")


@rent.probe
async def find_rent(asked: Asked) -> Happened:
    note("look for a car")
    return Happened(f"a {asked.args['car']}")


def die_once() -> None:
    if os.environ.get("STORY_DIES"):
        os.kill(os.getpid(), signal.SIGKILL)


@action("trip.ferry")
async def ferry(to: str) -> str:
    """Book a ferry; its process is killed once, after the effect."""
    note(f"ferry {to}")
    die_once()
    return "never said"


@ferry.compensation
async def unferry(done: Done) -> None:
    note(f"unferry {done.args['to']}")


@ferry.probe
async def find_ferry(asked: Asked) -> Happened:
    note("look for a ferry")
    return Happened(f"a ferry to {asked.args['to']}")


@action("trip.camel")
async def camel(to: str) -> str:
    """Book a camel; likewise, and nobody can say whether it happened."""
    note(f"camel {to}")
    die_once()
    return "never said"


@camel.compensation
async def uncamel(done: Done) -> None:
    note(f"uncamel {done.args['to']} {done.certain}")


@action("trip.hall", no_rollback="the hall keeps its fee")
def hall(seats: int) -> str:
    """Hire a hall; a plain function."""
    note(f"hall {seats}")
    return f"a hall for {seats}"


def search(words: str) -> str:
    """Search the web: the framework's own tool, which nobody has declared."""
    note(f"search {words}")
    return f"nothing about {words}"


ACTIONS = cast("Sequence[Action[..., Any]]", (book, pay, charge, seat, rent, ferry, camel, hall))
TOOLS: Sequence[Callable[..., Any]] = (
    *(amends.tool(one) for one in ACTIONS),
    search,
    *AGENT_TOOLS,
)


# -- the stories ------------------------------------------------------------------------------------------------------

Told = Callable[[Coordinator], Coroutine[Any, Any, None]]


class Stories:
    """What an agent's run does to the world, whichever framework runs it."""

    framework: ClassVar[type[Framework]]

    @pytest.fixture(autouse=True)
    def world(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = tmp_path
        monkeypatch.setattr(sys.modules[__name__], "_log", tmp_path / "world")
        (tmp_path / "world").touch()

    def seen(self) -> list[str]:
        return (self.path / "world").read_text().split("\n")[:-1]

    def tell(self, story: Told, *, expires: str = "1h") -> None:
        """Run a story on the journal; another one is another process's."""
        policy = self.path / "policy.yaml"
        policy.write_text(POLICY.replace("EXPIRES", expires))

        async def whole() -> None:
            journal = str(self.path / "amends.db")
            async with Coordinator.open(journal, settings=QUICK, env="development", policy=policy) as coordinator:
                await story(coordinator)

        asyncio.run(asyncio.wait_for(whole(), 60))

    def case(self, coordinator: Coordinator, *script: Turn, limits: Limits | None = None) -> Case:
        return Case(coordinator, script, TOOLS, limits=limits)

    async def fails(self, run: Coroutine[Any, Any, Outcome]) -> str:
        """Run it, which has to raise; all that is said, with what led to it."""
        try:
            outcome = await run
        except Exception as exc:  # noqa: BLE001 - each framework has its own
            said, at, seen = list[str](), list[BaseException]([exc]), set[BaseException]()
            while at:
                if (one := at.pop()) in seen:
                    continue
                seen.add(one)
                said.append(f"{type(one).__name__}: {one}")
                if isinstance(one, BaseExceptionGroup):
                    at += cast("BaseExceptionGroup[BaseException]", one).exceptions
                at += [each for each in (one.__cause__, one.__context__) if each is not None]
            return "\n".join(said)
        raise AssertionError(f"it did not fail, but ended with {outcome}")

    async def status(self, coordinator: Coordinator) -> SagaStatus:
        return (await coordinator.show(THREAD)).status

    async def steps(self, coordinator: Coordinator) -> list[Step]:
        """The agent's own steps: what an adapter keeps for itself stands under topics of ours."""
        steps = (await coordinator.show(THREAD)).saga.steps.values()
        return [step for step in steps if not step.topic.startswith(BUILT_IN)]

    async def asked(self, coordinator: Coordinator) -> list[str]:
        return [row.topic async for row in coordinator.approvals()]

    # all well

    def test_all_well(self) -> None:
        async def story(coordinator: Coordinator) -> None:
            case = self.case(
                coordinator,
                [ToolCall("c1", "book", {"to": "Lisbon"})],
                [ToolCall("c2", "pay", {"cents": 5}), ToolCall("c3", "book", {"to": "Porto"})],
                [ToolCall("c4", "hall", {"seats": 9})],
                "booked",
            )
            outcome = await self.framework().begin(case)
            assert (outcome.text, list(outcome.paused)) == ("booked", [])
            assert outcome.told["c1"] == "a seat to Lisbon"
            assert outcome.told["c2"] == "paid 5"
            assert await self.status(coordinator) is SagaStatus.COMPLETED
            steps = await self.steps(coordinator)
            assert sorted((step.call, str(step.topic)) for step in steps) == [
                ("c1", "trip.book"),
                ("c2", "trip.pay"),
                ("c3", "trip.book"),
                ("c4", "trip.hall"),
            ]

        self.tell(story)
        assert sorted(self.seen()) == ["book Lisbon", "book Porto", "hall 9", "pay 5"]

    def test_a_tool_that_nobody_declared_is_an_undeclared_step(self) -> None:
        async def story(coordinator: Coordinator) -> None:
            case = self.case(coordinator, [ToolCall("c1", "search", {"words": "trains"})], "done")
            outcome = await self.framework().begin(case)
            assert outcome.told["c1"] == "nothing about trains"
            (step,) = await self.steps(coordinator)
            assert (step.call, step.topic, step.contract.reversibility) == ("c1", "search", "undeclared")
            assert step.args == {"words": "trains"}

        self.tell(story)
        assert self.seen() == ["search trains"]

    # the gate

    def test_denied_and_the_model_tries_another_way(self) -> None:
        async def story(coordinator: Coordinator) -> None:
            case = self.case(
                coordinator,
                [ToolCall("c1", "pay", {"cents": 5000})],
                [ToolCall("c2", "pay", {"cents": 400})],
                "paid",
            )
            outcome = await self.framework().begin(case)
            assert outcome.text == "paid"
            assert outcome.told["c1"].startswith("Denied: trip.pay was not done.")
            assert "no-big-money" in outcome.told["c1"]
            assert await self.status(coordinator) is SagaStatus.COMPLETED

        self.tell(story)
        assert self.seen() == ["pay 400"]

    async def paused(self, coordinator: Coordinator, framework: Framework, *rest: Turn) -> Case:
        case = self.case(
            coordinator, [ToolCall("c1", "book", {"to": "Lisbon"})], [ToolCall("c2", "pay", {"cents": 700})], *rest
        )
        outcome = await framework.begin(case)
        assert (outcome.text, list(outcome.paused)) == (None, ["c2"])
        assert await self.asked(coordinator) == ["trip.pay"]
        assert await self.status(coordinator) is SagaStatus.WAITING
        assert self.seen() == ["book Lisbon"]
        return case

    async def approval(self, coordinator: Coordinator) -> str:
        (row,) = [row async for row in coordinator.approvals()]
        return f"{row.saga}/{row.step}"

    def test_approved_in_the_framework(self) -> None:
        async def story(coordinator: Coordinator) -> None:
            framework = self.framework()
            case = await self.paused(coordinator, framework, "paid")
            approval = await self.approval(coordinator)
            outcome = await framework.go_on(case, {"c2": True})
            assert (outcome.text, outcome.told["c2"]) == ("paid", "paid 700")
            assert (await coordinator.approval(approval)).signers == (framework.person,)
            with pytest.raises(RefusedError):
                await coordinator.refuse(approval, by="person:bob", why="too late")
            assert await self.status(coordinator) is SagaStatus.COMPLETED

        self.tell(story)
        assert self.seen() == ["book Lisbon", "pay 700"]

    def test_approved_from_outside(self) -> None:
        async def story(coordinator: Coordinator) -> None:
            framework = self.framework()
            case = await self.paused(coordinator, framework, "paid")
            await coordinator.grant(await self.approval(coordinator), by="person:bob")
            outcome = await framework.go_on(case, {})
            assert (outcome.text, outcome.told["c2"]) == ("paid", "paid 700")
            assert await self.status(coordinator) is SagaStatus.COMPLETED

        self.tell(story)
        assert self.seen() == ["book Lisbon", "pay 700"]

    def test_refused_in_the_framework(self) -> None:
        async def story(coordinator: Coordinator) -> None:
            framework = self.framework()
            case = await self.paused(coordinator, framework, [ToolCall("c3", "pay", {"cents": 400})], "paid less")
            approval = await self.approval(coordinator)
            outcome = await framework.go_on(case, {"c2": "too dear"})
            assert outcome.text == "paid less"
            assert "too dear" in outcome.told["c2"]
            assert (await coordinator.approval(approval)).status == "refused"

        self.tell(story)
        assert self.seen() == ["book Lisbon", "pay 400"]

    def test_refused_from_outside(self) -> None:
        async def story(coordinator: Coordinator) -> None:
            framework = self.framework()
            case = await self.paused(coordinator, framework, [ToolCall("c3", "pay", {"cents": 400})], "paid less")
            await coordinator.refuse(await self.approval(coordinator), by="person:bob", why="too dear")
            outcome = await framework.go_on(case, {})
            assert outcome.text == "paid less"
            assert "too dear" in outcome.told["c2"]

        self.tell(story)
        assert self.seen() == ["book Lisbon", "pay 400"]

    def test_of_two_answers_the_first_counts(self) -> None:
        async def story(coordinator: Coordinator) -> None:
            framework = self.framework()
            case = await self.paused(coordinator, framework, "not paid")
            approval = await self.approval(coordinator)
            await coordinator.refuse(approval, by="person:bob", why="too dear")
            outcome = await framework.go_on(case, {"c2": True})
            assert outcome.text == "not paid"
            assert "too dear" in outcome.told["c2"]
            assert (await coordinator.approval(approval)).status == "refused"
            assert await self.status(coordinator) is SagaStatus.COMPLETED

        self.tell(story)
        assert self.seen() == ["book Lisbon"]

    def test_nobody_answers_in_time(self) -> None:
        async def story(coordinator: Coordinator) -> None:
            framework = self.framework()
            case = await self.paused(coordinator, framework, "not paid")
            until = (await coordinator.approval(await self.approval(coordinator))).expires_at / 1000
            while datetime.now(UTC).timestamp() <= until:
                await asyncio.sleep(0.05)
            outcome = await framework.go_on(case, {})
            assert outcome.text == "not paid"
            assert "in time" in outcome.told["c2"]
            assert await self.status(coordinator) is SagaStatus.COMPLETED

        self.tell(story, expires="2s")
        assert self.seen() == ["book Lisbon"]

    # failures

    def test_a_tool_fails_for_good(self) -> None:
        async def story(coordinator: Coordinator) -> None:
            case = self.case(
                coordinator,
                [ToolCall("c1", "book", {"to": "Lisbon"})],
                [ToolCall("c2", "charge", {"cents": 5})],
                "this is not said",
            )
            said = await self.fails(self.framework().begin(case))
            assert "the card was declined" in said
            assert await self.status(coordinator) is SagaStatus.ROLLED_BACK

        self.tell(story)
        assert self.seen() == ["book Lisbon", "unbook Lisbon"]

    def test_a_tool_that_certainly_did_nothing_is_told_to_the_model(self) -> None:
        async def story(coordinator: Coordinator) -> None:
            case = self.case(coordinator, [ToolCall("c1", "seat", {"row": 3})], "standing, then")
            outcome = await self.framework().begin(case)
            assert outcome.text == "standing, then"
            assert outcome.told["c1"].startswith("Failed: trip.seat was not done")
            assert await self.status(coordinator) is SagaStatus.COMPLETED

        self.tell(story)
        assert self.seen() == []

    def test_a_lost_tool_is_asked_about(self) -> None:
        async def story(coordinator: Coordinator) -> None:
            case = self.case(coordinator, [ToolCall("c1", "rent", {"car": "Fiat"})], "rented")
            outcome = await self.framework().begin(case)
            assert (outcome.text, outcome.told["c1"]) == ("rented", "a Fiat")
            assert await self.status(coordinator) is SagaStatus.COMPLETED

        self.tell(story)
        assert self.seen() == ["rent Fiat", "look for a car"]

    def test_one_of_several_calls_side_by_side_fails(self) -> None:
        async def story(coordinator: Coordinator) -> None:
            case = self.case(
                coordinator,
                [
                    ToolCall("c1", "book", {"to": "Lisbon"}),
                    ToolCall("c2", "charge", {"cents": 5}),
                    ToolCall("c3", "book", {"to": "Porto"}),
                ],
                "this is not said",
            )
            assert "the card was declined" in await self.fails(self.framework().begin(case))
            assert await self.status(coordinator) is SagaStatus.ROLLED_BACK

        self.tell(story)
        booked = {line for line in self.seen() if line.startswith("book")}
        undone = {line for line in self.seen() if line.startswith("unbook")}
        assert {f"un{line}" for line in booked} <= undone, "one that was stopped under way may be taken back too"

    def test_the_budget_is_reached(self) -> None:
        async def story(coordinator: Coordinator) -> None:
            case = self.case(
                coordinator,
                [ToolCall("c1", "book", {"to": "Lisbon"})],
                [ToolCall("c2", "book", {"to": "Porto"})],
                [ToolCall("c3", "book", {"to": "Faro"})],
                "this is not said",
                limits=Limits(steps=Limit(2)),
            )
            said = await self.fails(self.framework().begin(case))
            assert "steps" in said
            assert await self.status(coordinator) is SagaStatus.ROLLED_BACK

        self.tell(story)
        assert self.seen() == ["book Lisbon", "book Porto", "unbook Porto", "unbook Lisbon"]

    # kills

    def killed(self, tool: str) -> None:
        """Run an agent in a process of its own, which is killed in that tool, after its effect."""
        policy = self.path / "policy.yaml"
        policy.write_text(POLICY.replace("EXPIRES", "1h"))
        whose = f"{type(self).framework.__module__}:{type(self).framework.__qualname__}"
        command = [sys.executable, "-m", "tests.adapters.victim", whose, str(self.path / "amends.db"), tool]
        environment = {**os.environ, "STORY_LOG": str(self.path / "world"), "STORY_DIES": "1"}
        ended = subprocess.run(command, env=environment, check=False, timeout=60, capture_output=True, text=True)
        assert ended.returncode == -signal.SIGKILL, ended.stderr

    def test_killed_between_effect_and_record_and_the_model_answers_differently(self) -> None:
        self.killed("ferry")

        async def story(coordinator: Coordinator) -> None:
            case = self.case(coordinator, [ToolCall("other", "book", {"to": "Faro"})], "by train")
            outcome = await self.framework().begin(case)
            assert outcome.text == "by train"
            assert await self.status(coordinator) is SagaStatus.COMPLETED
            steps = await self.steps(coordinator)
            assert [(step.call, step.status) for step in steps] == [
                ("c1", "succeeded"),
                ("c2", "succeeded"),
                ("other", "succeeded"),
            ]

        self.tell(story)
        assert self.seen() == ["book Lisbon", "ferry Lisbon", "look for a ferry", "book Faro"]

    def test_killed_where_nobody_knows_it_is_taken_back_before_anything_new(self) -> None:
        self.killed("camel")

        async def story(coordinator: Coordinator) -> None:
            case = self.case(coordinator, [ToolCall("other", "book", {"to": "Faro"})], "by train")
            assert (await self.framework().begin(case)).text == "by train"

        self.tell(story)
        assert self.seen() == ["book Lisbon", "camel Lisbon", "uncamel Lisbon False", "book Faro"]

    # the agent's own rollback

    def test_the_agent_goes_back_to_a_checkpoint_and_another_way(self) -> None:
        async def story(coordinator: Coordinator) -> None:
            case = self.case(
                coordinator,
                [ToolCall("c1", "book", {"to": "Lisbon"})],
                [ToolCall("c2", "amends_checkpoint", {"name": "there"})],
                [ToolCall("c3", "book", {"to": "Porto"})],
                [ToolCall("c4", "amends_undo", {"checkpoint": "there", "why": "no beds in Porto"})],
                [ToolCall("c5", "book", {"to": "Faro"})],
                "booked",
            )
            outcome = await self.framework().begin(case)
            assert outcome.text == "booked"
            assert re.match(r"Taken back: trip\.book \(step \d+\)\. Why: no beds in Porto\.", outcome.told["c4"])
            assert await self.status(coordinator) is SagaStatus.COMPLETED

        self.tell(story)
        assert self.seen() == ["book Lisbon", "book Porto", "unbook Porto", "book Faro"]
