"""Pruning a saga: what its file work has left beside the tree goes with it, and what a person still waits for stays."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from amends import Coordinator, Fatal, SagaDefinition, Work, action, saga
from amends.changeset import Changeset, Files, Life, keep, list_changesets
from amends.testing.clock import ManualClock
from tests.runtime.support import QuickClock, coordinator

SECRET = "the secret word"


@action("test.pruned.write")
def write(files: Files, path: str, text: str) -> None:
    files.write_text(path, text)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    root.mkdir()
    (root / "note").write_text(f"old, {SECRET}\n")
    return root


def played(scene: Callable[[Coordinator, ManualClock], Awaitable[Any]]) -> Any:
    async def whole() -> Any:
        clock = QuickClock()
        async with coordinator(clock=clock) as on:
            return await asyncio.wait_for(scene(on, clock), 60)

    return asyncio.run(whole())


def writes(tree: Path, *, lands: bool = True, fails: bool = False) -> SagaDefinition:
    @saga("test.pruned.writes")
    async def body(s: Work) -> None:
        files = s.files(tree, provider="api")
        await s.do(write, files, "note", f"new, {SECRET}\n")
        if lands:
            await s.land(files)
        if fails:
            raise Fatal("no")

    return body


def places(tree: Path) -> list[str]:
    """The files beside the tree that hold the word."""
    home = tree.parent / f".{tree.name}.changesets"
    return [str(each.relative_to(home)) for each in home.rglob("*") if each.is_file() and SECRET in each.read_text()]


def move_away(tree: Path) -> None:
    tree.rename(tree.parent / "elsewhere")


async def pruned(on: Coordinator, clock: ManualClock) -> int:
    clock.advance(1)
    return (await on.prune(0)).sagas


def lives(tree: Path) -> set[Life]:
    return {each.life for each in list_changesets(tree)}


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("lands", [False, True])
def test_what_a_saga_wrote_and_replaced_goes_with_it(tree: Path, *, lands: bool, fails: bool) -> None:
    async def scene(on: Coordinator, clock: ManualClock) -> None:
        await on.run(writes(tree, lands=lands, fails=fails), id="k")
        assert places(tree)
        expected = 0 if not lands and not fails else 1
        assert (await pruned(on, clock), (await on.prune(0, dry_run=True)).left) == (expected, 0)
        if expected:
            assert (places(tree), lives(tree)) == ([], {Life.PRUNED})
        else:
            assert (len(places(tree)) > 0, lives(tree)) == (True, {Life.REVIEW})
            assert not (await on.show("k")).row.pruned

    played(scene)


def test_work_that_waits_for_a_person_keeps_its_saga_until_it_has_landed_and_that_is_old_too(tree: Path) -> None:
    async def scene(on: Coordinator, clock: ManualClock) -> None:
        await on.run(writes(tree, lands=False), id="k")
        clock.advance(3600)
        (left,) = list_changesets(tree)
        landed = await (await on.land(tree, left.id, by="person:ann"))
        assert (landed.status, (await on.prune(1800)).sagas) == ("completed", 1)
        assert (await on.show("k")).row.pruned
        assert places(tree)  # its landing can still be cancelled
        clock.advance(3600)
        assert ((await on.prune(1800)).sagas, places(tree)) == (1, [])

    played(scene)


def test_the_contents_of_others_stay(tree: Path) -> None:
    async def scene(on: Coordinator, clock: ManualClock) -> None:
        with Changeset.open(tree, name="a person's") as mine:
            with mine.begin() as files:
                files.write_text("mine", f"mine, {SECRET}\n")
            before = places(tree)
            await on.run(writes(tree), id="k")
            assert (await pruned(on, clock), sorted(places(tree))) == (1, sorted(before))
            assert mine.land().data()["applied"] == ["mine"]

    played(scene)


def test_what_a_person_keeps_for_good_stays(tree: Path) -> None:
    async def scene(on: Coordinator, clock: ManualClock) -> None:
        await on.run(writes(tree), id="k")
        keep(tree, list_changesets(tree)[0].id)
        assert (await pruned(on, clock), lives(tree)) == (1, {Life.KEPT})
        assert places(tree)

    played(scene)


def test_a_tree_that_is_gone_does_not_stop_the_rest(tree: Path) -> None:
    async def scene(on: Coordinator, clock: ManualClock) -> None:
        await on.run(writes(tree), id="k")
        move_away(tree)
        assert await pruned(on, clock) == 1

    played(scene)
