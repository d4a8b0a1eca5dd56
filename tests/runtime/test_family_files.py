"""Children and files: one that shares works in its parent's changeset; a branch becomes one layer of it, or nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from amends import Coordinator, Ended, Fatal, Registry, SagaDefinition, Settings, StepError, Work, action, child, saga
from amends.changeset import Files, Limits, list_changesets
from amends.core import commands as c
from amends.errors import DeclarationError, RefusedError
from tests.changeset.test_dropping import LINES
from tests.changeset.trees import PACKAGE, plant, seen
from tests.runtime.test_files import API, append, fail, look, write

QUICK = Settings(park_s=0.05, poll_s=0.1, settle_s=5)
Body = Callable[[Work, Any], Awaitable[Any]]
both = pytest.mark.parametrize("how", ["share", "branch"])


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return plant(tmp_path / "tree", {**PACKAGE, "lines": LINES})


def ran(
    tree: Path,
    body: Body,
    *,
    then: Callable[[Coordinator], Awaitable[None]] | None = None,
    registry: Registry | None = None,
    **terms: Any,
) -> Ended:
    """Run a saga of these files, and look at how it ended; `then` is what somebody does afterwards."""

    @saga("files.big")
    async def big(s: Work) -> Any:
        return await body(s, s.files(tree, **API, **terms))

    async def whole() -> Ended:
        journal = str(tree.parent / "j.db")
        async with (
            asyncio.timeout(60),
            Coordinator.open(journal, settings=QUICK, registry=registry or Registry()) as opened,
        ):
            ended = await opened.run(big, id="p")
            if then is not None:
                await then(opened)
            return ended

    return asyncio.run(whole())


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


@action("test.family.edit")
def edit(files: Files, number: int, text: str) -> None:
    lines = files.read_text("lines").splitlines(keepends=True)
    lines[number] = f"{text}\n"
    files.write_text("lines", "".join(lines))


def editor(tree: Path, *numbers: int, after: asyncio.Event | None = None, sets: asyncio.Event | None = None) -> Any:
    """A saga that edits lines, once another one has done something."""

    @saga(f"files.editor_{'_'.join(map(str, numbers))}")
    async def body(s: Work) -> None:
        files = s.files(tree, **API)
        if after is not None:
            await after.wait()
        for number in numbers:
            await s.do(edit, files, number, s.id)
        if sets is not None:
            sets.set()

    return body


def layers(tree: Path) -> list[tuple[str, int]]:
    """Life and number of layers of each changeset."""
    return sorted((str(one.life), len(one.steps)) for one in list_changesets(tree))


@both
def test_a_child_sees_its_parents_files_and_leaves_its_own_there(tree: Path, how: Any) -> None:
    small = writer(tree, "small", "b", "c")

    async def body(s: Work, files: Any) -> Any:
        await s.do(write, files, "a", "big\n")
        names = await s.call(small, files=how)
        await s.do(append, files, "c", "and more\n")
        await s.land(files)
        return names

    ended = ran(tree, body)
    assert ended.status == "completed", ended
    assert {"a", "b", "c"} <= set(ended.result)
    assert (tree / "c").read_text() == "small\nand more\n"
    assert layers(tree) == {"share": [("landed", 4)], "branch": [("landed", 3), ("merged", 2)]}[how]


@both
def test_a_child_that_is_rolled_back_leaves_nothing_and_its_parent_goes_on(tree: Path, how: Any) -> None:
    small, broken = writer(tree, "small", "b"), writer(tree, "broken", "c", fails=True)

    async def body(s: Work, files: Any) -> Any:
        await s.do(write, files, "a", "big\n")
        with pytest.raises(StepError, match="it cannot be done"):
            await s.call(broken, files=how)
        with pytest.raises(StepError, match="it cannot be done"):  # and takes the other one of its group with it
            await s.call_all([child(small, files=how), child(broken, files=how)])
        await s.do(write, files, "z", "big\n")
        return await s.do(look, files)

    ended = ran(tree, body)
    assert ended.status == "completed", ended
    assert {"a", "z"} <= set(ended.result)
    assert not {"b", "c", "half"} & set(ended.result)
    assert ("review", 2) in layers(tree)
    assert {life for life, _ in layers(tree)} <= {"review", "dropped"}


@both
def test_a_completed_child_gives_its_work_back_with_its_parent(tree: Path, how: Any) -> None:
    small = writer(tree, "small", "b", "c")
    before = seen(tree)

    @saga("files.middle")
    async def middle(s: Work) -> Any:
        files = s.files(tree, **API)
        await s.do(write, files, "m", "middle\n")
        return await s.call(small, files=how)

    async def body(s: Work, files: Any) -> None:
        await s.do(write, files, "a", "big\n")
        names = await s.call(middle, files=how)
        assert {"a", "b", "c", "m"} <= set(names)
        await s.do(write, files, "b", "big\n")
        await s.land(files)
        raise Fatal("and back")

    async def then(on: Coordinator) -> None:
        assert {str(row.status) for row in await on.list()} == {"rolled_back"}

    ended = ran(tree, body, then=then)
    assert ended.status == "rolled_back", ended
    assert {**seen(tree), b"": None} == {**before, b"": None}  # it had landed: the root's own time is another
    assert ("dropped", 0) in layers(tree)
    assert {life for life, _ in layers(tree)} == {"landed", "dropped"}  # what landed is the inverse


def test_branches_are_worked_on_side_by_side_and_merged_in_the_order_of_the_group(tree: Path) -> None:
    merges: list[Any] = []

    async def body(s: Work, files: Any) -> Any:
        await s.do(edit, files, 5, "big")
        done = asyncio.Event()
        first, second = editor(tree, 1, after=done), editor(tree, 9, 11, sets=done)  # the second one ends first
        await s.call_all([child(first, files="branch"), child(second, files="branch")])
        await s.land(files)

    async def then(on: Coordinator) -> None:
        steps = (await on.show("p")).saga.steps.values()
        merges.extend((cast("Any", step.args)["child"], step.layer[:2]) for step in steps if "merge" in step.topic)

    ended = ran(tree, body, then=then)
    assert ended.status == "completed", ended
    assert [layer for _, layer in merges] == ["2:", "3:"]
    one, other = (child for child, _ in merges)
    edits = {1: one, 5: "big", 9: other, 11: other}
    wanted = "".join(f"{edits.get(number, f'line {number}')}\n" for number in range(12))
    assert (tree / "lines").read_text() == wanted
    assert layers(tree) == [("landed", 3), ("merged", 1), ("merged", 2)]


def test_a_branch_in_conflict_makes_the_call_fail_and_its_child_go_back(tree: Path) -> None:
    met: list[str] = []

    async def body(s: Work, files: Any) -> Any:
        group = [child(editor(tree, 1), files="branch"), child(editor(tree, 1, 8), files="branch")]
        with pytest.raises(StepError) as caught:
            await s.call_all(group)
        met.append(str(caught.value))
        return await s.call_all(group, on_failure="restart_one")  # forked again, it starts from what the first one did

    async def then(on: Coordinator) -> None:
        met.extend(sorted(str(row.status) for row in await on.list()))

    ended = ran(tree, body, then=then)
    assert ended.status == "completed", ended
    assert "made is in conflict with what its parent has by now, and nothing of it is merged\nchangeset p-" in met[0]
    assert " / theirs: step 1 (amends.changeset.merge (" in met[0]
    assert met[1:] == ["completed", "completed", "completed", "rolled_back", "rolled_back", "rolled_back"]
    lives = [life for life, _ in layers(tree)]
    assert lives == ["dropped", "dropped", "dropped", "merged", "merged", "review"]


def test_a_call_that_is_taken_back_takes_exactly_its_layer_out(tree: Path) -> None:
    async def body(s: Work, files: Any) -> Any:
        await s.do(edit, files, 5, "big")
        await s.checkpoint("here")
        await s.call(editor(tree, 1), files="branch")
        await s.rollback_to("here", "another way")
        await s.call(editor(tree, 9), files="branch")
        await s.land(files)

    ended = ran(tree, body)
    assert ended.status == "completed", ended
    found = (tree / "lines").read_text().splitlines()
    assert [found[number] for number in (1, 5)] == ["line 1", "big"]
    assert found[9].startswith("p~")
    assert layers(tree) == [("dropped", 1), ("landed", 2), ("merged", 1)]  # a merged branch goes as a whole


def test_a_branch_of_several_trees_with_a_state_directory_is_merged_in_all_of_them(tree: Path) -> None:
    other, state = plant(tree.parent / "other", {"there": "1\n"}), tree.parent / "state"

    @saga("files.two_trees")
    async def small(s: Work) -> None:
        files = s.files(tree, other, state=state, **API)
        await s.do(write, files, "new", "small\n")
        await s.do(write, files, str(other / "there"), "2\n")

    @saga("files.both_trees")
    async def whole(s: Work) -> None:
        files = s.files(tree, other, state=state, **API)
        await s.call(small, files="branch")
        await s.land(files)

    async def body(s: Work, files: Any) -> Any:
        await s.call(whole)

    assert ran(tree, body).status == "completed"
    assert ((tree / "new").read_text(), (other / "there").read_text()) == ("small\n", "2\n")


def test_the_parents_limits_hold_for_what_is_merged(tree: Path) -> None:
    group = [writer(tree, name, f"{name}1", f"{name}2") for name in "xyz"]

    async def body(s: Work, files: Any) -> Any:
        await s.call_all([child(each, files="branch") for each in group])

    ended = ran(tree, body, limits=Limits(files=5))
    assert ended.status == "rolled_back", ended
    assert "6 files are changed, and 5 may be" in ended.why
    assert {life for life, _ in layers(tree)} == {"dropped"}


def test_a_merged_child_is_not_taken_back_alone(tree: Path) -> None:
    met: list[str] = []

    async def body(s: Work, files: Any) -> Any:
        await s.call(editor(tree, 1), files="branch")
        await s.land(files)

    async def then(on: Coordinator) -> None:
        (small,) = await on.list(parent="p")
        with pytest.raises(RefusedError, match="its parent p, which is completed, counts on it"):
            await on.cancel(small.id, why="by hand")
        cancel = c.CancelSaga(by="person:ann", why="as before")
        await on._engine.request(small.id, cancel)
        ended = await on.drive(small.id)
        met.extend((str(ended.status), (await on.incidents())[0].why))

    assert ran(tree, body, then=then).status == "completed"
    assert met[0] == "incident"
    assert "take its parent back, and it goes with it" in met[1]
    assert (tree / "lines").read_text() != LINES


def test_what_makes_no_sense_is_refused(tree: Path) -> None:
    small = writer(tree, "small", "b")

    @saga("files.lands")
    async def lands(s: Work) -> None:
        await s.land(s.files(tree, **API))

    @saga("files.without")
    async def without(s: Work, how: Any) -> None:
        await s.call(small, files=how)

    async def body(s: Work, files: Any) -> Any:
        said: list[str] = []
        for call in (
            s.call(lands, files="share"),
            s.call(lands, files="branch"),
            s.call(without, "share"),
            s.call(without, "branch"),
        ):
            with pytest.raises(StepError) as caught:
                await call
            said.append(str(caught.value).partition("Error: ")[2].partition(" (tests/")[0])
        return said

    ended = ran(tree, body)
    assert ended.result == [
        "these files are the parent's, and are shared: they land with it; let the parent land them",
        "these files are the parent's, and a branch of them is worked on: they land with it; let the parent land them",
        "files.small is to share its parent's files; call s.files(root) first",
        "files.small is to work on a branch of its parent's files; call s.files(root) first",
    ]
    with pytest.raises(DeclarationError, match="files='both' is none of"):
        child(small, files=cast("Any", "both"))


@both
@pytest.mark.parametrize("from_outside", [True, False])
def test_a_child_that_is_stopped_in_the_middle_of_its_work_leaves_nothing(
    tree: Path, how: Any, *, from_outside: bool
) -> None:
    """Its parent goes back to before the call while the child waits; what it had written goes, and the rest lands."""
    at_work = asyncio.Event()

    @saga("files.patient")
    async def patient(s: Work) -> None:
        files = s.files(tree, **API)
        await s.do(write, files, "b", "half\n")
        at_work.set()
        await s.wait_for("never")
        await s.do(write, files, "c", "never\n")

    @saga("files.big")
    async def big(s: Work) -> Any:
        files = s.files(tree, **API)
        await s.do(write, files, "a", "big\n")
        told = await s.checkpoint("here")
        if from_outside and told is None:
            await s.call(patient, files=how)
        elif not from_outside:
            calling = asyncio.ensure_future(s.call(patient, files=how))
            await at_work.wait()
            await s.rollback_to("here", "another way")
            await asyncio.gather(calling, return_exceptions=True)
        await s.call(writer(tree, "small", "d"), files=how)
        await s.land(files)
        return "landed"

    async def whole() -> None:
        async with (
            asyncio.timeout(60),
            Coordinator.open(str(tree.parent / "j.db"), settings=QUICK, registry=Registry()) as opened,
        ):
            handle = await opened.start(big, id="p")
            if from_outside:
                await at_work.wait()
                await opened.rollback("p", to="here", why="another way")
            ended = await handle
            assert (ended.status, ended.result) == ("completed", "landed"), ended
            rows = {row.definition: str(row.status) for row in await opened.list()}
            assert rows == {"files.big": "completed", "files.patient": "rolled_back", "files.small": "completed"}

    asyncio.run(whole())
    assert [(tree / name).read_text() for name in ("a", "d")] == ["big\n", "small\n"]
    assert not {"b", "c"} & {path.name for path in tree.iterdir()}
