"""What a person has done about what cannot be taken back: judged, approved, retried, in families, and declared."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from amends import (
    Coordinator,
    Done,
    Fatal,
    NotDone,
    StepFatalError,
    Work,
    action,
    register,
    saga,
)
from amends.clock import SystemClock
from amends.core.events import IncidentKind
from amends.errors import DeclarationError, InputError, RefusedError
from amends.gate.facts import Gate
from amends.gate.load import BuiltinGate, load_policy
from amends.gate.policy import PolicyGate
from amends.journal.memory import MemoryJournal
from amends.runtime.declare.registry import Registry
from amends.runtime.drive.compatibility import differences
from amends.runtime.settings import Settings

EVE = "person:eve"


def _nothing(_done: Done) -> None:
    """Is never called."""


class Post:
    """A mail, and the apology for it, which can be made to fail; a seat."""

    def __init__(self) -> None:
        self.world: list[str] = []
        self.fails = 0

        @action("mail.send", no_rollback="a mail cannot be unsent", compensation_retries=1)
        async def send(to: str) -> str:
            self.world.append(f"mail {to}")
            return to

        @send.mitigation
        async def apologise(done: Done) -> None:
            """Says sorry."""
            self.fails -= 1
            if self.fails >= 0:
                raise NotDone("the server is away")
            self.world.append(f"sorry {done.result}")

        @action("seat.book")
        async def book(seat: str) -> None:
            self.world.append(f"book {seat}")

        @book.compensation
        async def unbook(done: Done) -> None:
            self.world.append(f"unbook {done.args['seat']}")

        @saga("child")
        async def child(s: Work, fails: bool = False) -> None:
            await s.do(send, "ann")
            if fails:
                raise Fatal("no room")

        self.send, self.book, self.child = send, book, child


def play(scene: Callable[[Coordinator, Post], Awaitable[Any]], gate: Gate | None = None, env: str = "test") -> Any:
    async def whole() -> Any:
        clock = SystemClock()
        settings = Settings(park_s=0.0, poll_s=0.01)
        parts: dict[str, Any] = {"journal": MemoryJournal(clock), "gate": gate or BuiltinGate(), "clock": clock}
        coordinator = Coordinator(**parts, env=env, registry=Registry(), settings=settings)
        try:
            return await scene(coordinator, Post())
        finally:
            await coordinator.close()

    return asyncio.run(whole())


def test_the_gate_judges_it_as_it_judges_compensations(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(
        "version: v1\ndefault: allow\nrules:\n"
        "  - id: no-apologies\n    when: {phase: compensation, rollback_supported: false}\n    decision: deny\n"
        "    reason: ask the lawyers\n"
    )

    async def scene(coordinator: Coordinator, post: Post) -> None:
        @saga("one")
        async def one(s: Work) -> None:
            await s.do(post.book, "4C")
            await s.do(post.send, "ann")

        done = await coordinator.run(one)
        stopped = await coordinator.cancel(done.id, by=EVE, mitigate=True)
        (incident,) = await coordinator.incidents()
        assert (stopped.status, incident.kind) == ("incident", IncidentKind.MITIGATION_DENIED)
        assert "ask the lawyers" in incident.why
        ended = await coordinator.retry_incident(incident.id, by="person:law", let_run=True)
        assert (ended.status, post.world) == ("mitigated", ["book 4C", "mail ann", "sorry ann", "unbook 4C"])

    play(scene, PolicyGate(load_policy(path)))


def test_who_approves_the_step_is_shown_its_mitigation_and_approves_both() -> None:
    async def scene(coordinator: Coordinator, post: Post) -> None:
        @saga("one")
        async def one(s: Work) -> None:
            await s.do(post.send, "ann")

        handle = await coordinator.start(one, id="a", actor="agent:bot")
        await handle.halt()
        (row,) = await coordinator.approvals()
        asked = await coordinator.approval(row.id)
        assert asked.mitigates
        assert asked.compensation == "none: a mail cannot be unsent; mitigation: Says sorry."
        await coordinator.grant(row.id, by=EVE)
        assert (await handle).status == "completed"
        assert (await coordinator.cancel("a", by=EVE, mitigate=True)).status == "mitigated"

    play(scene, env="production")


def test_one_that_fails_for_good_is_an_incident_that_can_be_retried_or_resolved() -> None:
    async def scene(coordinator: Coordinator, post: Post) -> None:
        @saga("one")
        async def one(s: Work) -> None:
            await s.do(post.send, "ann")

        for number, by_hand in enumerate((False, True)):
            post.fails = 1
            done = await coordinator.run(one, id=f"s{number}")
            stopped = await coordinator.cancel(done.id, by=EVE, mitigate=True)
            (incident,) = await coordinator.incidents(saga=done.id)
            assert (stopped.status, incident.kind) == ("incident", IncidentKind.MITIGATION_FAILED)
            if by_hand:
                ended = await coordinator.resolve_incident(incident.id, by=EVE, reason="said so by phone")
            else:
                ended = await coordinator.retry_incident(incident.id, by=EVE)
            assert ended.status == "mitigated"
        assert post.world == ["mail ann", "sorry ann", "mail ann"]

    play(scene)


def test_a_child_that_a_person_mitigates_has_failed_for_its_parent_which_then_says_mitigated_too() -> None:
    async def scene(coordinator: Coordinator, post: Post) -> None:
        told: list[str] = []

        @saga("parent")
        async def parent(s: Work) -> None:
            await s.do(post.book, "4C")
            try:
                await s.call(post.child, fails=True)
            except StepFatalError as exc:
                told.append(str(exc))
                raise

        handle = await coordinator.start(parent, id="p")
        assert (await handle.halt()).status == "waiting"
        (incident,) = await coordinator.incidents()
        assert incident.kind is IncidentKind.PAST_PIVOT
        child = await coordinator.retry_incident(incident.id, by=EVE, mitigate=True)
        assert child.status == "mitigated"
        await coordinator.resume()
        parent_row = await coordinator.show("p")
        assert parent_row.status == "mitigated"
        assert [step.status for step in parent_row.saga.steps.values()] == ["compensated", "mitigated"]
        assert post.world == ["book 4C", "mail ann", "sorry ann", "unbook 4C"]
        assert "was mitigated by person:eve" in told[-1]

    play(scene)


def test_a_parent_that_goes_on_without_a_mitigated_child_completes() -> None:
    async def scene(coordinator: Coordinator, post: Post) -> None:
        @saga("parent")
        async def parent(s: Work) -> str:
            try:
                await s.call(post.child, fails=True)
            except StepFatalError:
                return "without"
            return "with"

        handle = await coordinator.start(parent, id="p")
        await handle.halt()
        (incident,) = await coordinator.incidents()
        await coordinator.retry_incident(incident.id, by=EVE, mitigate=True)
        await coordinator.resume()
        ended = await coordinator.show("p")
        assert (ended.status, ended.saga.result) == ("completed", "without")
        assert [step.status for step in ended.saga.steps.values()] == ["mitigated"]
        assert post.world == ["mail ann", "sorry ann"]

    play(scene)


def test_grandchildren_go_with_it_and_all_of_the_family_says_so() -> None:
    async def scene(coordinator: Coordinator, post: Post) -> None:
        @saga("middle")
        async def middle(s: Work) -> None:
            await s.do(post.book, "5D")
            await s.call(post.child)

        @saga("top")
        async def top(s: Work) -> None:
            await s.call(middle)
            await s.do(post.book, "4C")

        await coordinator.run(top, id="t")
        assert (await coordinator.cancel("t", by=EVE, mitigate=True)).status == "mitigated"
        assert [row.status for row in await coordinator.list()] == ["mitigated"] * 3
        assert post.world[3:] == ["unbook 4C", "sorry ann", "unbook 5D"]

    play(scene)


def test_what_a_child_held_and_released_is_mitigated_with_its_parent() -> None:
    async def scene(coordinator: Coordinator, post: Post) -> None:
        def sorry(_done: Done) -> None:
            post.world.append("sorry for the last")

        held = register(
            "mail.last",
            lambda: post.world.append("last"),
            no_rollback="sent",
            hold=True,
            mitigation=sorry,
        )

        @saga("holds")
        async def holds(s: Work) -> None:
            await s.do(held)

        @saga("top")
        async def top(s: Work) -> None:
            await s.call(holds)

        await coordinator.run(top, id="t")
        assert (await coordinator.cancel("t", by=EVE, mitigate=True)).status == "mitigated"
        assert post.world == ["last", "sorry for the last"]

    play(scene)


def test_a_part_of_a_saga_is_not_taken_back_with_mitigation() -> None:
    async def scene(coordinator: Coordinator, post: Post) -> None:
        done = await coordinator.run(post.child)
        with pytest.raises(InputError, match="only all of a saga"):
            await coordinator.rollback(done.id, last=1, mitigate=True, by=EVE)
        plan = await coordinator.rollback(done.id, plan=True, mitigate=True)
        assert (plan.is_clean, [step.mitigates for step in plan.steps]) == (True, [True])
        await coordinator.cancel(done.id, mitigate=True, by=EVE)
        with pytest.raises(RefusedError, match="is mitigated already"):
            await coordinator.rollback(done.id, plan=True)

    play(scene)


def test_it_is_declared_beside_a_reason_and_only_there() -> None:
    @action("free.act")
    def act() -> None: ...

    with pytest.raises(DeclarationError, match=r"say why with no_rollback=, or declare a .compensation"):
        act.mitigation(_nothing)
    with pytest.raises(DeclarationError, match="no_rollback"):
        register("free.register", lambda: None, read_only=True, mitigation=_nothing)
    final = register("free.final", lambda: None, no_rollback="so")
    with pytest.raises(DeclarationError, match=r"is a .mitigation"):
        final.compensation(_nothing)


def test_one_that_was_declared_when_the_saga_began_cannot_be_left_out() -> None:
    with_it = register("free.kept", lambda: None, no_rollback="so", mitigation=_nothing).contract
    without = register("free.kept", lambda: None, no_rollback="so").contract
    assert list(differences(without, with_it)) == []
    (said,) = differences(with_it, without)
    assert "mitigation" in said
