"""A saga's changeset that a person landed: through a saga of its own, or behind its back; and what a rollback finds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from amends import Coordinator, Ended, Work, action, saga
from amends.changeset import Changeset, Files, Life, Summary, keep, list_changesets, prune
from amends.changeset.disk.disk import Disk
from amends.changeset.store.home import homes_of
from amends.changeset.store.records import ChangesetFolder
from amends.errors import RefusedError
from tests.changeset.trees import PACKAGE, plant, seen
from tests.runtime.support import coordinator, names

API: dict[str, Any] = {"provider": "api"}
Scene = Callable[[Coordinator, Path], Awaitable[Any]]


@action("test.by_hand.write")
def write(files: Files, path: str, text: str) -> None:
    files.write_text(path, text)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return plant(tmp_path / "tree", PACKAGE)


def played(scene: Scene, tree: Path) -> Any:
    async def whole() -> Any:
        async with coordinator() as on:
            return await asyncio.wait_for(scene(on, tree), 60)

    return asyncio.run(whole())


async def leave(on: Coordinator, tree: Path, *, lands: bool = False) -> Summary:
    """A saga completes with two layers, and leaves them in review, or lands them."""

    @saga("test.by_hand.leaves")
    async def leaves(s: Work) -> None:
        files = s.files(tree, **API)
        await s.do(write, files, "one", "1\n")
        await s.do(write, files, "two", "2\n")
        if lands:
            await s.land(files)

    assert (await on.run(leaves, id="k")).status == "completed"
    (left,) = list_changesets(tree)
    assert (left.saga, left.life) == ("k", Life.LANDED if lands else Life.REVIEW)
    return left


async def landed(on: Coordinator, tree: Path, changeset: str, **more: Any) -> Ended:
    return await (await on.land(tree, changeset, by="person:ann", **more))


def land_behind_it(tree: Path, changeset: str) -> None:
    """As a version did that knew of no sagas."""
    with Changeset.open(tree, id=changeset, saga="nobody's") as opened:
        opened.land()


def life(tree: Path, changeset: str) -> Life:
    return next(each.life for each in list_changesets(tree) if each.id == changeset)


# -- behind its saga ---------------------------------------------------------------------------------------------------


def test_what_was_landed_behind_its_saga_is_an_incident_and_never_rolled_back(tree: Path) -> None:
    async def scene(on: Coordinator, tree: Path) -> None:
        left = await leave(on, tree)
        land_behind_it(tree, left.id)
        assert (await on.cancel("k")).status == "incident"
        (incident,) = await on.incidents()
        assert (incident.kind, (tree / "one").exists()) == ("changed_since", True)
        assert left.id in incident.why
        assert "put the tree right, and resolve this" in incident.why

    played(scene, tree)


def test_a_landing_that_is_kept_for_good_is_taken_back_all_the_same(tree: Path) -> None:
    async def scene(on: Coordinator, tree: Path) -> None:
        before = {*seen(tree)}
        left = await leave(on, tree, lands=True)
        keep(tree, left.id)
        assert (await on.cancel("k")).status == "rolled_back"
        assert {*seen(tree)} == before

    played(scene, tree)


def test_a_landing_that_was_pruned_is_an_incident_at_once(tree: Path) -> None:
    async def scene(on: Coordinator, tree: Path) -> None:
        await leave(on, tree, lands=True)
        prune(tree, older_s=-1)
        assert (await on.cancel("k")).status == "incident"
        (incident,) = await on.incidents()
        assert (incident.kind, "was pruned since" in incident.why) == ("changed_since", True)
        assert names((await on.show("k")).entries).count("compensation.started") == 1

    played(scene, tree)


def test_a_landing_that_a_person_vouches_for_does_not_stop_the_rest(tree: Path) -> None:
    async def scene(on: Coordinator, tree: Path) -> None:
        await leave(on, tree, lands=True)
        (tree / "one").write_text("somebody's\n")
        assert (await on.cancel("k")).status == "incident"
        (incident,) = await on.incidents()
        ended = await on.resolve_incident(incident.id, reason="it may stay", by="person:ann")
        assert (ended.status, len(await on.incidents())) == ("rolled_back", 0)

    played(scene, tree)


# -- through a saga of its own -----------------------------------------------------------------------------------------


def test_it_goes_back_with_the_saga_whose_work_it_is(tree: Path) -> None:
    async def scene(on: Coordinator, tree: Path) -> None:
        before = {*seen(tree)}
        left = await leave(on, tree)
        by_hand = await landed(on, tree, left.id, message="yes")
        assert (by_hand.status, by_hand.result["applied"]) == ("completed", ["one", "two"])
        assert (await on.show(by_hand.id)).row.labels["amends.lands"] == "k"
        assert (await on.cancel("k")).status == "rolled_back"
        assert ({*seen(tree)}, life(tree, left.id)) == (before, Life.DROPPED)
        assert (await on.show(by_hand.id)).status == "rolled_back"

    played(scene, tree)


def test_it_is_taken_back_alone_and_made_again_under_another_id(tree: Path) -> None:
    async def scene(on: Coordinator, tree: Path) -> None:
        left = await leave(on, tree)
        first = await landed(on, tree, left.id)
        assert (await on.cancel(first.id)).status == "rolled_back"
        assert (life(tree, left.id), (tree / "one").exists()) == (Life.REVIEW, False)
        second = await landed(on, tree, left.id)
        assert (second.status, second.id != first.id) == ("completed", True)
        assert (await on.cancel("k")).status == "rolled_back"
        assert not (tree / "one").exists()

    played(scene, tree)


def test_a_strangers_saga_that_has_its_id_is_left_alone(tree: Path) -> None:
    @saga("test.by_hand.stranger")
    async def stranger(s: Work) -> None:
        await s.checkpoint("here")

    async def scene(on: Coordinator, tree: Path) -> None:
        left = await leave(on, tree)
        await on.run(stranger, id=f"land-{left.id}")
        assert (await landed(on, tree, left.id)).status == "completed"
        assert (await on.cancel("k")).status == "rolled_back"
        assert (await on.show(f"land-{left.id}")).status == "completed"
        assert not (tree / "one").exists()

    played(scene, tree)


def test_one_from_before_changesets_said_whose_they_are_is_found_by_its_journal(tree: Path) -> None:
    async def scene(on: Coordinator, tree: Path) -> None:
        left = await leave(on, tree)
        shelf = ChangesetFolder(homes_of([tree], None)[0], left.id, Disk())
        shelf.write(replace(shelf.record(), saga=""))
        assert (await landed(on, tree, left.id)).status == "completed"
        assert (await on.cancel("k")).status == "rolled_back"
        assert not (tree / "one").exists()

    played(scene, tree)


def test_what_a_child_made_in_shared_files_lands_and_goes_back_with_its_parent(tree: Path) -> None:
    @saga("test.by_hand.child")
    async def child(s: Work) -> None:
        await s.do(write, s.files(tree, **API), "two", "2\n")

    @saga("test.by_hand.parent")
    async def parent(s: Work) -> None:
        await s.do(write, s.files(tree, **API), "one", "1\n")
        await s.call(child, files="share")

    async def scene(on: Coordinator, tree: Path) -> None:
        assert (await on.run(parent, id="k")).status == "completed"
        (left,) = list_changesets(tree)
        assert left.saga == "k"
        assert (await landed(on, tree, left.id)).result["applied"] == ["one", "two"]
        assert (await on.cancel("k")).status == "rolled_back"
        assert [(tree / name).exists() for name in ("one", "two")] == [False, False]

    played(scene, tree)


def test_it_is_refused_while_its_saga_is_not_over_and_after_it_was_taken_back(tree: Path) -> None:
    @saga("test.by_hand.waits")
    async def waits(s: Work) -> None:
        await s.do(write, s.files(tree, **API), "one", "1\n")
        await s.wait_for("go")

    async def scene(on: Coordinator, tree: Path) -> None:
        handle = await on.start(waits, id="k")
        await handle.halt()
        (left,) = list_changesets(tree)
        with pytest.raises(RefusedError, match=r"is waiting, and lands its files itself.*amends saga cancel k"):
            _ = await on.land(tree, left.id, by="person:ann")
        await on.cancel("k")
        with pytest.raises(RefusedError, match="its files went with it"):
            _ = await on.land(tree, left.id, by="person:ann")

    played(scene, tree)


def test_what_no_saga_of_this_journal_made_is_refused(tree: Path) -> None:
    with Changeset.open(tree, id="mine") as mine, mine.begin() as files:
        files.write_text("mine", "")
    with Changeset.open(tree, id="others", saga="elsewhere") as others, others.begin() as files:
        files.write_text("others", "")

    async def scene(on: Coordinator, tree: Path) -> None:
        for changeset, why in {"mine": "is no saga's", "others": "is not on this journal"}.items():
            with pytest.raises(RefusedError, match=why):
                _ = await on.land(tree, changeset, by="person:ann")

    played(scene, tree)
