"""Errors of a changeset that never go away by themselves: certain at once, with what to do, and never tried again."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from amends import Coordinator, Work, action, errors, saga
from amends.changeset import Changeset, Files, doctor, list_changesets
from amends.changeset.disk.os_errors import HEALS, heals
from amends.core.events import AttemptFailed
from amends.errors import ChangesetBusyError, ChangesetError, ChangesetFullError, Fatal, LandingStuckError, NotDone
from amends.runtime.files.errors import certain
from tests.changeset.trees import PACKAGE, plant, seen
from tests.runtime.support import coordinator, names

Spoil = Callable[[Path], None]


@action("test.healing.write")
def write(files: Files, path: str) -> None:
    files.write_text(path, "1\n")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return plant(tmp_path / "tree", PACKAGE)


def home(tree: Path) -> Path:
    return tree.parent / f".{tree.name}.changesets"


def move_away(tree: Path) -> None:
    tree.rename(tree.parent / "elsewhere")


def replace_it(tree: Path) -> None:
    move_away(tree)
    tree.mkdir()


def drop(tree: Path) -> None:
    with Changeset.open(tree, id=list_changesets(tree)[-1].id, saga="somebody") as opened:
        opened.drop()


def rewind(tree: Path) -> None:
    with Changeset.open(tree, id=list_changesets(tree)[-1].id, saga="somebody") as opened:
        opened.rewind(0)


def break_record(tree: Path) -> None:
    for each in home(tree).rglob("sealed.json"):
        each.write_text("{")


def break_content(tree: Path) -> None:
    for each in home(tree).rglob("layers/1/0/one"):
        each.write_text("somebody's")


def lose_landings(tree: Path) -> None:
    shutil.rmtree(home(tree) / "landed")


def told(tree: Path, spoil: Spoil, *, lands: bool = False, back: bool = False) -> tuple[str, list[str], str]:
    """Spoil it while the saga waits, or has landed. How it ends then, what has happened since, and the last error."""

    @saga("test.healing.saga")
    async def body(s: Work) -> None:
        files = s.files(tree, provider="api")
        await s.do(write, files, "one")
        if not back:
            await s.wait_for("go")
        if lands or back:
            await s.land(files)
        else:
            await s.do(write, files, "two")

    async def scene(on: Coordinator) -> tuple[str, list[str], str]:
        handle = await on.start(body, id="k")
        await handle.halt()
        count = len((await on.show("k")).entries)
        spoil(tree)
        if back:
            await on.cancel("k")
        else:
            await on.signal("k", "go", None)
            await on.drive("k")
        shown = await on.show("k")
        (*_, error) = [str(getattr(each.event, "error", "")) for each in shown.entries if hasattr(each.event, "error")]
        return shown.status, names(shown.entries[count:]), error

    async def whole() -> tuple[str, list[str], str]:
        async with coordinator() as on:
            return await asyncio.wait_for(scene(on), 60)

    return asyncio.run(whole())


@pytest.mark.parametrize(
    ("spoil", "lands", "ends", "advice"),
    [
        (move_away, False, "incident", "bring it back"),
        (move_away, True, "incident", "bring it back"),
        (replace_it, False, "incident", "put the old one back"),
        (drop, True, "rolled_back", "reopen it to go on"),
        (rewind, False, "rolled_back", "from a backup"),
        (rewind, True, "rolled_back", "from a backup"),
        (break_record, False, "incident", "from a backup"),
        (break_record, True, "incident", "from a backup"),
        (break_content, True, "rolled_back", "do it again"),
    ],
)
def test_a_step_over_what_never_heals_is_tried_once_and_certain(
    tree: Path, spoil: Spoil, lands: bool, ends: str, advice: str
) -> None:
    status, since, error = told(tree, spoil, lands=lands)
    assert (status, advice in error) == (ends, True), error
    failed = since.index("attempt.failed")
    assert "attempt.lost" not in since
    assert since[failed + 1] == "rollback.started"
    assert since.count("compensation.started") == 1


@pytest.mark.parametrize(
    ("spoil", "advice"),
    [(move_away, "bring it back"), (break_record, "from a backup"), (lose_landings, "put back by hand")],
)
def test_a_landing_that_can_never_be_taken_back_is_an_incident_at_once(tree: Path, spoil: Spoil, advice: str) -> None:
    status, since, error = told(tree, spoil, back=True)
    assert (status, advice in error) == ("incident", True), error
    assert since.count("compensation.started") == since.count("compensation.failed") == 1


@pytest.mark.parametrize("provider", ["api", "overlay", "copy"])
@pytest.mark.parametrize("lands", [False, True])
def test_a_tree_that_goes_away_while_its_changeset_is_open_is_missed_at_once(
    tree: Path, provider: str, lands: bool
) -> None:
    if provider not in {each.provider for each in doctor(tree) if each.usable}:
        pytest.skip(f"no {provider} here")

    @saga("test.healing.open")
    async def body(s: Work) -> None:
        files = s.files(tree, provider=provider)
        await s.do(write, files, "one")
        move_away(tree)
        await (s.land(files) if lands else s.do(write, files, "two"))

    async def scene() -> None:
        async with coordinator() as on:
            assert (await asyncio.wait_for(on.run(body, id="k"), 60)).status in {"incident", "rolled_back"}
            entries = (await on.show("k")).entries
            (error,) = [each.event.error for each in entries if isinstance(each.event, AttemptFailed)]
            assert "bring it back" in error
            assert names(entries).count("compensation.started") == 1

    asyncio.run(scene())


def test_a_tree_that_was_brought_back_is_taken_back_by_the_incidents_retry(tree: Path) -> None:
    before = seen(tree)

    @saga("test.healing.retried")
    async def body(s: Work) -> None:
        files = s.files(tree, provider="api")
        await s.do(write, files, "one")
        await s.land(files)

    async def scene() -> None:
        async with coordinator() as on:
            await on.run(body, id="k")
            move_away(tree)
            assert (await on.cancel("k")).status == "incident"
            (tree.parent / "elsewhere").rename(tree)
            (incident,) = await on.incidents()
            assert (await on.retry_incident(incident.id)).status == "rolled_back"

    asyncio.run(scene())
    assert {*seen(tree)} == {*before}


def every_error(kind: type[ChangesetError] = ChangesetError) -> set[type[ChangesetError]]:
    return {kind}.union(*(every_error(each) for each in kind.__subclasses__()))


def test_every_error_of_a_changeset_is_in_the_table() -> None:
    assert every_error() == set(HEALS)
    assert all(kind.__module__ == errors.__name__ for kind in HEALS)


@pytest.mark.parametrize("kind", HEALS, ids=lambda kind: kind.__name__)
def test_an_error_becomes_what_a_step_can_say_for_sure(kind: type[ChangesetError]) -> None:
    exc = kind("no")
    assert heals(exc) is HEALS[kind]
    wanted = LandingStuckError if kind is LandingStuckError else NotDone if heals(exc) else Fatal
    with pytest.raises(wanted, match="no") as met, certain():
        raise exc
    if isinstance(met.value, Fatal):
        assert met.value.happened is False


@pytest.mark.parametrize("kind", [ChangesetBusyError, ChangesetFullError])
def test_where_something_else_may_stand_an_error_that_heals_is_as_uncertain_as_before(
    kind: type[ChangesetError],
) -> None:
    with pytest.raises(kind), certain(happened=True):
        raise kind("no")
