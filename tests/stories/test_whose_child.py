"""A child is not taken back behind its parent, nobody's saga is taken for a child, and a saga is there once started."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from amends import (
    CallPerson,
    Coordinator,
    Done,
    Limits,
    SagaDefinition,
    StepFatalError,
    Work,
    action,
    saga,
    to_checkpoint,
)
from amends.addresses import open_journal
from amends.clock import SystemClock
from amends.core import events as e
from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId
from amends.errors import InputError
from amends.journal.port.journal import Summary
from tests.cli.shell import Shell

SAGAS = """
from amends import CallPerson, Done, StepFatalError, Work, action, saga


def note(what: str) -> None:
    with open("world.txt", "a") as world:
        world.write(what + "\\n")


@action("seat.book", idempotent=True)
def book(seat: str) -> str:
    note(f"+ {seat}")
    return seat


@book.compensation
def give_back(done: Done) -> None:
    note(f"- {done.args['seat']}")


@saga("row.book")
async def row(s: Work, seat: str, sure: bool) -> str:
    booked = await s.do(book, seat)
    if not sure:
        raise CallPerson("is this seat right?")
    return booked


@saga("tour.book")
async def tour(s: Work, sure: bool = True) -> str:
    try:
        booked = await s.call(row, "7a", sure)
    except StepFatalError:
        booked = "no seat"
    await s.do(book, "bus")
    return booked
"""


@pytest.fixture
def amends(tmp_path: Path) -> Shell:
    (tmp_path / "tours.py").write_text(SAGAS, encoding="utf-8")
    return Shell(tmp_path)


def statuses(amends: Shell) -> dict[str, str]:
    return {row["id"]: row["status"] for row in amends("saga", "list", "--json").of_type("saga")}


def test_a_person_who_cancels_a_child_is_told_what_to_do_instead(amends: Shell) -> None:
    assert amends("run", "tours:tour", "--id", "t").code == 0
    for refused in (("cancel", "t~1"), ("rollback", "t~1"), ("rollback", "t~1", "--last", "1")):
        assert amends("saga", *refused, "--by", "person:kim").complaint == (
            "saga t~1 is a child, and its parent t, which is completed, counts on it; cancel t to take the whole "
            "family back, or take t back to before step 1: `amends saga rollback t --last 2`"
        )
    plan = amends("saga", "rollback", "t~1", "--plan", "--module", "tours")
    assert (plan.code, "refused: saga t~1 is a child" in " ".join(plan.out.split())) == (4, True)
    assert amends.world == ["+ 7a", "+ bus"]
    assert amends("saga", "rollback", "t", "--last", "2", "--module", "tours").code == 0
    assert amends.world == ["+ 7a", "+ bus", "- bus", "- 7a", "+ 7a", "+ bus"]
    assert statuses(amends) == {"t": "completed", "t~1": "rolled_back", "t~1@2": "completed"}
    assert amends("saga", "cancel", "t", "--module", "tours").code == 0
    assert set(statuses(amends).values()) == {"rolled_back"}
    assert amends.world[6:] == ["- bus", "- 7a"]


def test_a_child_that_asks_a_person_may_be_taken_back_by_them(amends: Shell) -> None:
    assert amends("run", "tours:tour", "--id", "t", "--input", '{"sure": false}').code == 6
    assert statuses(amends) == {"t": "waiting", "t~1": "incident"}
    assert "amends saga cancel 't~1'" in amends("incident", "show", "t~1/1").out
    assert amends("saga", "cancel", "t~1", "--module", "tours", "--by", "person:kim").code == 0
    assert statuses(amends)["t~1"] == "rolled_back"
    assert amends.world[:2] == ["+ 7a", "- 7a"]


def test_the_id_of_a_child_cannot_be_asked_for(amends: Shell) -> None:
    given = ("--input", '{"seat": "1b", "sure": true}')
    said = amends("run", "tours:row", *given, "--id", "order-7~1").complaint
    assert said.startswith("the id 'order-7~1' has a ~, as only the ids of children have")
    assert said.endswith("use another character, as in 'order-7-1'")
    assert not (amends.place / "world.txt").exists()


# -- in Python, on a file ---------------------------------------------------------------------------------------------


def on_file(path: str, script: Callable[[Coordinator], Coroutine[Any, Any, Any]]) -> Any:
    async def whole() -> Any:
        async with Coordinator.open(path) as coordinator:
            return await asyncio.wait_for(script(coordinator), 30)

    return asyncio.run(whole())


async def all_of(coordinator: Coordinator) -> dict[str, str]:
    return {row.id: str(row.status) async for row in coordinator.list()}


def putting(standing: list[str]) -> tuple[SagaDefinition, SagaDefinition]:
    """A root that goes back over a branch with a leaf, as it is too dear; and one that calls a leaf, and fails."""

    @action("story.put")
    async def put(what: str) -> str:
        standing.append(what)
        return what

    @put.compensation
    async def take(done: Done) -> None:
        standing.remove(done.args["what"])

    @saga("story.leaf")
    async def leaf(s: Work, n: int) -> str:
        return str(await s.do(put, f"leaf {n}"))

    @saga("story.branch")
    async def branch(s: Work) -> str:
        await s.do(put, "branch")
        return str(await s.call(leaf, 1))

    @saga("story.root", limits=Limits(usd=5, then=to_checkpoint("cp", "the cheap one")))
    async def root(s: Work) -> str:
        told = await s.checkpoint("cp")
        got: str = await s.call(branch)
        if told is None:
            await s.spend(usd=6)
        return got

    @saga("story.top")
    async def top(s: Work) -> None:
        await s.call(leaf, 1)
        raise ValueError("no")

    return root, top


def test_a_parent_hears_of_a_child_that_a_person_takes_back(tmp_path: Path) -> None:
    @saga("story.asks")
    async def asks(s: Work) -> None:
        raise CallPerson("is this right?")

    @saga("story.without")
    async def without(s: Work) -> str:
        try:
            await s.call(asks)
        except StepFatalError as exc:
            return exc.reason
        return "with it"

    async def script(coordinator: Coordinator) -> Any:
        handle = await coordinator.start(without, id="t")
        await handle.halt()
        await coordinator.cancel("t~1", why="it is not", by="person:kim")
        return (await handle).result

    assert on_file(str(tmp_path / "a.db"), script) == "child t~1 was rolled back: it is not"


def test_a_branch_that_is_called_again_runs_again(tmp_path: Path) -> None:
    standing: list[str] = []
    root, _ = putting(standing)

    async def script(coordinator: Coordinator) -> Any:
        ended = await coordinator.run(root, id="x")
        return [ended.status, ended.result, await all_of(coordinator)]

    status, result, family = on_file(str(tmp_path / "a.db"), script)
    assert (status, result, standing) == ("completed", "leaf 1", ["branch", "leaf 1"])
    gone, made = dict.fromkeys(("x~2", "x~2~2"), "rolled_back"), dict.fromkeys(("x~2@2", "x~2@2~2"), "completed")
    assert family == {"x": "completed", **gone, **made}


def test_a_saga_of_an_old_journal_that_has_the_id_of_a_child_is_left_alone(tmp_path: Path) -> None:
    """An older amends let anybody have such an id."""
    standing: list[str] = []
    _, top = putting(standing)

    async def bobs() -> None:
        journal = await open_journal(str(tmp_path / "a.db"), SystemClock(), signs=False)
        begun = e.SagaStarted(definition="bob", version=1, input=None, actor="person:bob", env="", labels={})
        ended, summary = e.SagaCompleted(result="bob's"), Summary(SagaStatus.COMPLETED)
        await journal.append(SagaId("order-7~1"), [begun, ended], after=0, summary=summary)
        await journal.close()

    async def script(coordinator: Coordinator) -> Any:
        ended = await coordinator.run(top, id="order-7", actor="agent:eve")
        with pytest.raises(InputError, match="has a ~"):
            await coordinator.run(top, id="order-8~1")
        return [ended, await all_of(coordinator)]

    asyncio.run(bobs())
    ended, every = on_file(str(tmp_path / "a.db"), script)
    assert every == {"order-7": "rolled_back", "order-7~1": "completed"}
    assert "the saga of that id is nobody's child: it is let alone" in ended.why
    assert standing == []


def test_a_saga_can_be_shown_as_soon_as_it_was_started(tmp_path: Path) -> None:
    standing: list[str] = []
    root, _ = putting(standing)

    async def script(coordinator: Coordinator) -> Any:
        handle = await coordinator.start(root, id="s")
        shown = await coordinator.show(handle.id)
        return [shown.status, shown.row.definition, (await handle).status]

    assert on_file(str(tmp_path / "a.db"), script) == ["running", "story.root", "completed"]
