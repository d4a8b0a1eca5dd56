"""Children and files: one that shares works in its parent's changeset, and its layers go with it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from amends import Coordinator, Fatal, Registry, SagaDefinition, Settings, StepFatalError, Work, child, saga
from amends.changeset import list_changesets
from amends.errors import DeclarationError
from tests.changeset.trees import PACKAGE, plant, seen
from tests.runtime.test_files import API, append, fail, look, write

QUICK = Settings(park_s=0.05, poll_s=0.1, settle_s=5)
Scene = Callable[[Coordinator], Awaitable[None]]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return plant(tmp_path / "tree", PACKAGE)


def play(tree: Path, scene: Scene) -> None:
    async def whole() -> None:
        async with (
            asyncio.timeout(60),
            Coordinator.open(str(tree.parent / "j.db"), settings=QUICK, registry=Registry()) as opened,
        ):
            await scene(opened)

    asyncio.run(whole())


def writer(tree: Path, name: str, *paths: str, fails: bool = False) -> SagaDefinition:
    @saga(f"files.{name}")
    async def body(s: Work) -> list[str]:
        files = s.files(tree, **API)
        for path in paths:
            await s.do(write, files, path, f"{name}\n")
        if fails:
            await s.do(fail, files, "half")
        names: list[str] = await s.do(look, files)
        return names

    return body


def layers(tree: Path) -> list[tuple[str, int]]:
    """Life and number of layers of each changeset."""
    return sorted((str(one.life), len(one.steps)) for one in list_changesets(tree))


def test_a_child_that_shares_sees_its_parents_files_and_leaves_its_own_there(tree: Path) -> None:
    small = writer(tree, "small", "b", "c")

    async def scene(on: Coordinator) -> None:
        @saga("files.big")
        async def big(s: Work) -> Any:
            files = s.files(tree, **API)
            await s.do(write, files, "a", "big\n")
            names = await s.call(small, files="share")
            await s.do(append, files, "c", "and more\n")
            await s.land(files)
            return names

        ended = await on.run(big, id="p")
        assert ended.status == "completed", ended
        assert {"a", "b", "c"} <= set(ended.result)
        assert (tree / "c").read_text() == "small\nand more\n"
        assert layers(tree) == [("landed", 4)]

    play(tree, scene)


def test_a_child_that_is_rolled_back_leaves_no_layer_and_its_parent_goes_on(tree: Path) -> None:
    broken = writer(tree, "small", "b", fails=True)

    async def scene(on: Coordinator) -> None:
        @saga("files.big")
        async def big(s: Work) -> list[str]:
            files = s.files(tree, **API)
            await s.do(write, files, "a", "big\n")
            with pytest.raises(StepFatalError):
                await s.call(broken, files="share")
            await s.do(write, files, "z", "big\n")
            names: list[str] = await s.do(look, files)
            return names

        ended = await on.run(big, id="p")
        assert ended.status == "completed", ended
        assert {"a", "z"} <= set(ended.result)
        assert "b" not in ended.result
        assert layers(tree) == [("review", 2)]

    play(tree, scene)


def test_a_completed_child_gives_its_layers_back_with_its_parent(tree: Path) -> None:
    small = writer(tree, "small", "b", "c")
    before = seen(tree)

    async def scene(on: Coordinator) -> None:
        @saga("files.middle")
        async def middle(s: Work) -> Any:
            s.files(tree, **API)
            return await s.call(small, files="share")

        @saga("files.big")
        async def big(s: Work) -> None:
            files = s.files(tree, **API)
            await s.do(write, files, "a", "big\n")
            await s.call(middle, files="share")
            await s.do(write, files, "b", "big\n")
            await s.land(files)
            raise Fatal("and back")

        ended = await on.run(big, id="p")
        assert ended.status == "rolled_back", ended
        assert {**seen(tree), b"": None} == {**before, b"": None}  # it had landed: the root's own time is another
        assert {str(row.status) for row in await on.list()} == {"rolled_back"}
        assert ("dropped", 0) in layers(tree)

    play(tree, scene)


def test_a_child_taken_back_alone_leaves_what_others_did_since(tree: Path) -> None:
    small, broken = writer(tree, "small", "b"), writer(tree, "broken", "c", fails=True)

    async def scene(on: Coordinator) -> None:
        @saga("files.big")
        async def big(s: Work) -> list[str]:
            files = s.files(tree, **API)
            await s.do(write, files, "a", "big\n")
            with pytest.raises(StepFatalError):
                await s.call_all([child(small, files="share"), child(broken, files="share")])
            await s.do(write, files, "z", "big\n")
            names: list[str] = await s.do(look, files)
            return names

        ended = await on.run(big, id="p")
        assert ended.status == "completed", ended
        assert {"a", "z"} <= set(ended.result)
        assert not {"b", "c"} & set(ended.result)

    play(tree, scene)


def test_what_makes_no_sense_is_refused(tree: Path) -> None:
    small = writer(tree, "small", "b")

    async def scene(on: Coordinator) -> None:
        @saga("files.lands")
        async def lands(s: Work) -> None:
            files = s.files(tree, **API)
            await s.land(files)

        @saga("files.without")
        async def without(s: Work) -> None:
            await s.call(small, files="share")

        @saga("files.big")
        async def big(s: Work) -> None:
            s.files(tree, **API)
            await s.call(lands, files="share")

        ended = await on.run(without, id="w")
        assert ended.why == "InputError: files.small is to share its parent's files; call s.files(root) first"
        ended = await on.run(big, id="p")
        assert "they land with it; let the parent land them" in ended.why

    play(tree, scene)
    with pytest.raises(DeclarationError, match="files='both' is none of"):
        child(small, files=cast("Any", "both"))
    with pytest.raises(DeclarationError, match="files='share' has it work on them in its turn"):
        child(small, files=cast("Any", "branch"))
