"""Conflicts of a saga's landing: resolved by its steps, by people it asks, or by hand once it is over; on record."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from amends import Coordinator, SagaDefinition, StepError, Work, action, saga
from amends.changeset import Changeset, Files, Life, Summary, conflicts_of, list_changesets, write_drafts
from amends.errors import PathError, RefusedError
from tests.runtime.support import coordinator

Take = Literal["ours", "theirs", "merged"]


@action("test.resolving.write")
def write(files: Files, path: str, text: str) -> None:
    files.write_text(path, text)


@action("test.resolving.mend")
def mend(files: Files) -> str:
    """An agent that sees the marks, and makes of both what it thinks is right."""
    seen = files.read_text("a")
    files.write_text("a", "both\n")
    files.resolve("a", "merged")
    return seen


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    root.mkdir()
    for name in ("a", "b"):
        (root / name).write_text("start\n")
    return root


def played(scene: Callable[[Coordinator], Awaitable[Any]]) -> Any:
    async def whole() -> Any:
        async with coordinator() as on:
            return await asyncio.wait_for(scene(on), 60)

    return asyncio.run(whole())


def edit(tree: Path, *names: str) -> None:
    """Somebody else, meanwhile."""
    for name in names:
        (tree / name).write_text("theirs\n")


def merge(draft: str) -> None:
    Path(draft).write_text("both\n")


def texts(tree: Path) -> list[str]:
    return [(tree / name).read_text().strip() for name in ("a", "b")]


def left_of(tree: Path) -> Summary:
    (found,) = [each for each in list_changesets(tree) if each.saga == "k" and each.life in {Life.ACTIVE, Life.REVIEW}]
    return found


# -- from its steps ---------------------------------------------------------------------------------------------------


def test_a_step_takes_a_side_and_then_it_lands(tree: Path) -> None:
    @saga("test.resolving.steps")
    async def body(s: Work) -> Any:
        files = s.files(tree, provider="api")
        for name in ("a", "b"):
            await s.do(write, files, name, "ours\n")
        edit(tree, "a", "b")
        met = await s.land(files, on_conflict="return")
        assert met["landed"] is False
        assert (await s.resolve("a", "ours"))["left"] == ["b"]
        with pytest.raises(StepError, match="c is not in conflict; in conflict are b"):
            await s.resolve("c", "ours")
        assert (await s.resolve("b", "theirs", files))["left"] == []
        return await s.land(files)

    async def scene(on: Coordinator) -> None:
        ended = await on.run(body, id="k")
        assert (ended.status, texts(tree)) == ("completed", ["ours", "theirs"]), ended
        assert (await on.cancel("k")).status == "rolled_back"
        assert texts(tree) == ["theirs", "theirs"]

    played(scene)


def test_marks_are_a_step_that_the_next_one_works_on(tree: Path) -> None:
    @saga("test.resolving.marks")
    async def body(s: Work) -> Any:
        files = s.files(tree, provider="api")
        await s.do(write, files, "a", "ours\n")
        edit(tree, "a")
        assert [each["path"] for each in await s.mark_conflicts()] == ["a"]
        shown = await s.do(mend, files)
        await s.land(files)
        return shown

    ended = played(lambda on: on.run(body, id="k"))
    marks = "<<<<<<< ours|ours|||||||| ancestor|start|=======|theirs|>>>>>>> theirs"
    assert "|".join(ended.result.split("\n")) == marks + "|"
    assert texts(tree)[0] == "both"


def test_a_marked_conflict_that_nobody_resolved_does_not_land(tree: Path) -> None:
    @saga("test.resolving.unresolved")
    async def body(s: Work) -> Any:
        files = s.files(tree, provider="api")
        await s.do(write, files, "a", "ours\n")
        edit(tree, "a")
        await s.mark_conflicts()
        await s.land(files)

    ended = played(lambda on: on.run(body, id="k"))
    assert (ended.status, "it is not resolved" in str(ended.why)) == ("rolled_back", True)
    assert texts(tree)[0] == "theirs"


# -- by people that it asks -------------------------------------------------------------------------------------------


def asks(tree: Path) -> SagaDefinition:
    @saga("test.resolving.asks")
    async def body(s: Work) -> Any:
        files = s.files(tree, provider="api")
        for name in ("a", "b"):
            await s.do(write, files, name, "ours\n")
        edit(tree, "a", "b")
        return await s.land(files, on_conflict="ask")

    return body


def test_a_saga_that_asks_waits_for_each_decision_and_lands_then(tree: Path) -> None:
    async def scene(on: Coordinator) -> None:
        handle = await on.start(asks(tree), id="k")
        assert (await handle.halt()).status == "waiting"
        left = left_of(tree)
        drafts = dict(write_drafts(tree, left.id))
        with pytest.raises(PathError, match="has marks"):
            await (await on.resolve(tree, left.id, "a", "merged", by="person:ann"))
        merge(drafts["a"])
        await (await on.resolve(tree, left.id, "a", "merged", by="person:ann")).halt()
        assert [each.path for each in conflicts_of(tree, left.id)] == [b"b"]
        ended = await (await on.resolve(tree, left.id, "b", "ours", by="person:bob"))
        assert (ended.status, texts(tree)) == ("completed", ["both", "ours"]), ended
        signals = [each.event for each in (await on.show("k")).entries if each.name.startswith("signal.")]
        assert [getattr(each, "by", "") for each in signals] == ["person:ann", "person:bob"]
        assert (await on.cancel("k")).status == "rolled_back"
        assert texts(tree) == ["theirs", "theirs"]

    played(scene)


def test_a_decision_that_cannot_be_carried_out_is_asked_for_again(tree: Path) -> None:
    async def scene(on: Coordinator) -> None:
        await (await on.start(asks(tree), id="k")).halt()
        left = left_of(tree)
        await on.signal("k", f"resolve {left.id}", {"path": "nowhere", "take": "ours"})
        assert (await on.drive("k")) is None or (await on.show("k")).status == "waiting"
        for name in ("a", "b"):
            handle = await on.resolve(tree, left.id, name, "theirs", by="person:ann")
            await handle.halt()
        assert ((await on.show("k")).status, texts(tree)) == ("completed", ["theirs", "theirs"])

    played(scene)


def test_what_is_given_up_while_it_asks_goes_back(tree: Path) -> None:
    async def scene(on: Coordinator) -> None:
        await (await on.start(asks(tree), id="k")).halt()
        left = left_of(tree)
        await (await on.resolve(tree, left.id, "a", "ours", by="person:ann")).halt()
        assert (await on.cancel("k")).status == "rolled_back"
        assert texts(tree) == ["theirs", "theirs"]
        with pytest.raises(PathError):
            await (await on.resolve(tree, left.id, "b", "ours", by="person:ann"))

    played(scene)


# -- by hand, once it is over -----------------------------------------------------------------------------------------


async def leave(on: Coordinator, tree: Path) -> Summary:
    @saga("test.resolving.leaves")
    async def body(s: Work) -> None:
        files = s.files(tree, provider="api")
        for name in ("a", "b"):
            await s.do(write, files, name, "ours\n")

    assert (await on.run(body, id="k")).status == "completed"
    edit(tree, "a", "b")
    return left_of(tree)


async def resolved(on: Coordinator, tree: Path, changeset: str, path: str, take: Take) -> str:
    ended = await (await on.resolve(tree, changeset, path, take, by="person:ann"))
    assert ended.status == "completed", ended
    return ended.id


def test_what_a_saga_has_left_is_resolved_by_sagas_of_their_own_and_goes_back_with_it(tree: Path) -> None:
    async def scene(on: Coordinator) -> None:
        left = await leave(on, tree)
        conflicted = await (await on.land(tree, left.id, by="person:ann"))
        assert conflicted.result["landed"] is False
        first = await resolved(on, tree, left.id, "a", "ours")
        second = await resolved(on, tree, left.id, "b", "theirs")
        assert (first, second) == (f"resolve-{left.id}", f"resolve-{left.id}-2")
        assert left_of(tree).life is Life.REVIEW
        landed = await (await on.land(tree, left.id, by="person:ann"))
        assert (landed.result["landed"], texts(tree)) == (True, ["ours", "theirs"])
        assert (await on.cancel("k")).status == "rolled_back"
        assert texts(tree) == ["theirs", "theirs"]
        assert {(await on.show(each)).status for each in (first, second, landed.id)} == {"rolled_back"}
        assert list_changesets(tree)[0].life is Life.DROPPED

    played(scene)


@pytest.mark.parametrize("which", [0, 1])
def test_a_resolution_can_be_taken_back_alone(tree: Path, which: int) -> None:
    async def scene(on: Coordinator) -> None:
        left = await leave(on, tree)
        done = [await resolved(on, tree, left.id, name, "ours") for name in ("a", "b")]
        assert (await on.cancel(done[which])).status == "rolled_back"
        assert [each.path for each in conflicts_of(tree, left.id)] == [b"ab"[which : which + 1]]
        assert left_of(tree).life is Life.REVIEW
        await resolved(on, tree, left.id, "ab"[which], "theirs")
        landed = await (await on.land(tree, left.id, by="person:ann"))
        assert landed.result["landed"] is True
        assert sorted(texts(tree)) == ["ours", "theirs"]

    played(scene)


def test_a_resolution_that_has_landed_is_an_incident_if_it_is_taken_back_alone(tree: Path) -> None:
    async def scene(on: Coordinator) -> None:
        left = await leave(on, tree)
        first = await resolved(on, tree, left.id, "a", "ours")
        await resolved(on, tree, left.id, "b", "ours")
        await (await on.land(tree, left.id, by="person:ann"))
        assert (await on.cancel(first)).status == "incident"
        (incident,) = await on.incidents()
        assert (incident.kind, "take the landing back first" in incident.why) == ("changed_since", True)

    played(scene)


def test_who_may_not_resolve_is_told_why(tree: Path) -> None:
    @saga("test.resolving.busy")
    async def busy(s: Work) -> None:
        await s.do(write, s.files(tree, provider="api"), "a", "ours\n")
        await s.wait_for("go")

    async def scene(on: Coordinator) -> None:
        await (await on.start(busy, id="k")).halt()
        edit(tree, "a")
        left = left_of(tree)
        with pytest.raises(RefusedError, match="belongs to saga k, which is waiting"):
            await (await on.resolve(tree, left.id, "a", "ours", by="person:ann"))
        with Changeset.open(tree, name="a person's", id="mine") as mine, mine.begin() as files:
            files.write_text("a", "mine\n")
        edit(tree, "b")
        (tree / "a").write_text("again\n")
        with pytest.raises(RefusedError, match=r"is no saga's; one by hand is resolved by Changeset\.resolve"):
            await (await on.resolve(tree, "mine", "a", "ours", by="person:ann"))

    played(scene)
