"""Sagas that work on files: a layer for each step, dropped with it, landed together, and never half of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from amends import (
    Coordinator,
    Ended,
    Fatal,
    NotDone,
    Reversibility,
    SagaDefinition,
    Settings,
    StepError,
    Work,
    action,
    saga,
)
from amends.changeset import Changeset, Files, Life, Limits, Terms, list_changesets
from amends.core.events import AttemptSucceeded, CompensationSucceeded
from amends.errors import ChangesetLifeError, DeclarationError, InputError
from amends.journal.port.journal import Entry
from tests.changeset.trees import PACKAGE, plant, seen
from tests.runtime.support import coordinator

API: dict[str, Any] = {"provider": "api"}


@action("test.files.write")
def write(files: Files, path: str, text: str) -> str:
    files.write_text(path, text)
    return f"wrote {path}"


@action("test.files.append")
async def append(files: Files, path: str, text: str) -> int:
    files.write_text(path, files.read_text(path) + text)
    return len(files.read_text(path))


@action("test.files.fail")
def fail(files: Files, path: str) -> None:
    files.write_text(path, "half done")
    raise Fatal("it cannot be done")


@action("test.files.look", read_only=True)
def look(files: Files) -> list[str]:
    files.write_text("scratch", "a reader may not leave anything")
    return files.names()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return plant(tmp_path / "tree", PACKAGE)


def play(scene: Callable[[Coordinator], Awaitable[Any]], **options: Any) -> Any:
    async def whole() -> Any:
        async with coordinator(**options) as opened:
            return await scene(opened)

    return asyncio.run(whole())


def ran(body: Callable[[Work], Awaitable[Any]], **options: Any) -> Ended:
    @saga("test.files.saga")
    async def made(s: Work) -> Any:
        return await body(s)

    ended: Ended = play(lambda on: on.run(made), **options)
    return ended


def test_steps_see_each_others_work_and_the_tree_does_not_until_it_lands(tree: Path) -> None:
    before = seen(tree)
    met: list[Any] = []

    async def body(s: Work) -> Any:
        files = s.files(tree, **API)
        met.append(await s.do(write, files, "new.txt", "one\n"))
        met.append(await s.do(append, files, "new.txt", "two\n"))
        met.append("new.txt" in await s.do(look, files))
        met.append(seen(tree) == before)
        return await s.land(files, "a new file")

    ended = ran(body)
    assert ended.status == "completed", ended
    assert met == ["wrote new.txt", 8, True, True]
    assert (tree / "new.txt").read_text() == "one\ntwo\n"
    assert not (tree / "scratch").exists()
    assert (ended.result["landed"], ended.result["applied"]) == (True, ["new.txt"])


def test_files_that_are_left_out_are_the_sagas_own(tree: Path) -> None:
    async def body(s: Work) -> Any:
        s.files(tree, **API)
        await s.do_named(write, {"path": "a", "text": "a\n"})
        await s.do(write, "b", "b\n")  # type: ignore[call-overload] # pyright: ignore[reportCallIssue] - types cannot say it
        return await s.land(message="two")

    assert ran(body).status == "completed"
    assert (tree / "a").read_text() + (tree / "b").read_text() == "a\nb\n"


def test_a_failed_step_and_a_rollback_leave_the_tree_as_it_was_to_the_byte(tree: Path) -> None:
    before = seen(tree)
    alive: list[int] = []

    async def body(s: Work) -> None:
        files = s.files(tree, **API)
        await s.do(write, files, "one", "1")
        await s.do(write, files, "pkg/one.py", "2")
        alive.append(len(list_changesets(tree)[0].steps))
        await s.do(fail, files, "three")

    ended = ran(body)
    assert ended.status == "rolled_back"
    assert alive == [2]
    assert seen(tree) == before
    (left,) = list_changesets(tree)
    assert (left.life, left.steps) == (Life.DROPPED, ())


def test_a_step_that_works_on_files_is_reversible_by_contract(tree: Path) -> None:
    assert write.contract.reversibility is Reversibility.REVERSIBLE
    assert write.contract.atomic
    assert write.contract.idempotent
    assert not look.contract.side_effect

    @action("test.files.and_mail")
    def and_mail(files: Files) -> None: ...

    @and_mail.compensation
    def unmail(done: object) -> None: ...

    assert and_mail.contract.reversibility is Reversibility.COMPENSATABLE
    assert not and_mail.contract.atomic


def test_layers_are_dropped_newest_first_each_by_its_own_compensation(tree: Path) -> None:
    async def scene(on: Coordinator) -> tuple[Ended, tuple[Entry, ...]]:
        @saga("test.files.order")
        async def made(s: Work) -> None:
            files = s.files(tree, **API)
            for number in range(3):
                await s.do(write, files, f"file{number}", "x")
            raise RuntimeError("no")

        ended = await on.run(made, id="order")
        return ended, (await on.show("order")).entries

    ended, entries = play(scene)
    assert ended.status == "rolled_back"
    succeeded = [entry.event for entry in entries if isinstance(entry.event, AttemptSucceeded)]
    assert [event.layer.partition(":")[0] for event in succeeded] == ["1", "2", "3"]
    back = [entry.event for entry in entries if isinstance(entry.event, CompensationSucceeded)]
    assert [event.step for event in back] == ["3", "2", "1"]


def test_what_only_worked_on_files_and_failed_is_tried_again_in_a_fresh_layer(tree: Path) -> None:
    tries: list[bool] = []

    @action("test.files.shaky")
    def shaky(files: Files) -> None:
        tries.append(files.exists("half"))
        files.write_text("half", "x")
        if len(tries) < 3:
            raise OSError("not now")

    async def body(s: Work) -> None:
        files = s.files(tree, **API)
        await s.do(shaky, files)
        await s.land(files)

    assert ran(body).status == "completed"
    assert tries == [False, False, False]


def test_steps_at_once_wait_for_each_other(tree: Path) -> None:
    async def body(s: Work) -> None:
        files = s.files(tree, **API)
        await asyncio.gather(*(s.do(append, files, "run.sh", f"# {n}\n") for n in range(5)))
        await s.land(files)

    assert ran(body).status == "completed"
    assert sorted((tree / "run.sh").read_text().splitlines()[-5:]) == [f"# {n}" for n in range(5)]


def test_what_comes_after_a_landing_is_another_changeset(tree: Path) -> None:
    async def body(s: Work) -> None:
        files = s.files(tree, **API)
        await s.do(write, files, "first", "1")
        await s.land(files, "first")
        await s.do(write, files, "second", "2")
        await s.land(files, "second")

    assert ran(body).status == "completed"
    assert [each.life for each in list_changesets(tree)] == [Life.LANDED, Life.LANDED]


def test_a_landing_is_taken_back_by_its_inverse(tree: Path) -> None:
    before = {path: about for path, about in seen(tree).items() if path}
    landed: list[str] = []

    async def body(s: Work) -> None:
        files = s.files(tree, **API)
        await s.do(write, files, "pkg/one.py", "landed\n")
        await s.do(write, files, "made", "landed\n")
        await s.land(files, "will not stay")
        landed.append((tree / "made").read_text())
        raise RuntimeError("it was wrong")

    ended = ran(body)
    assert ended.status == "rolled_back"
    assert ended.why.startswith("RuntimeError: it was wrong (tests/runtime/test_files.py:")
    assert landed == ["landed\n"]
    after = {path: about for path, about in seen(tree).items() if path}
    assert set(after) == set(before)
    assert (tree / "pkg/one.py").read_text() != "landed\n"


def test_a_landing_that_others_built_on_is_an_incident_and_nothing_is_overwritten(tree: Path) -> None:
    async def body(s: Work) -> None:
        files = s.files(tree, **API)
        await s.do(write, files, "page", "landed\n")
        await s.land(files, "a page")
        (tree / "page").write_text("somebody rewrote it\n")
        raise RuntimeError("it was wrong")

    async def scene(on: Coordinator) -> Any:
        @saga("test.files.built_on")
        async def made(s: Work) -> None:
            await body(s)

        ended = await on.run(made)
        return ended, (await on.incidents())[0]

    ended, incident = play(scene)
    assert ended.status == "incident"
    assert incident.kind == "changed_since"
    assert "page" in incident.why
    assert (tree / "page").read_text() == "somebody rewrote it\n"


def test_a_conflict_rolls_back_unless_the_function_asks_for_the_report(tree: Path) -> None:
    def other() -> None:
        (tree / "run.sh").write_text("somebody else's\n")

    async def body(s: Work, on_conflict: Any) -> Any:
        files = s.files(tree, **API)
        await s.do(write, files, "run.sh", "ours\n")
        other()
        return await s.land(files, on_conflict=on_conflict)

    ended = ran(lambda s: body(s, "raise"))
    assert ended.status == "rolled_back"
    assert "in conflict" in (ended.why or "")
    (tree / "run.sh").write_text("as it was\n")
    ended = ran(lambda s: body(s, "return"))
    assert (ended.status, ended.why) == ("completed", "")
    assert ended.result["landed"] is False
    assert ended.result["report"]["conflicts"][0]["path"] == "run.sh"
    assert (tree / "run.sh").read_text() == "somebody else's\n"


def test_a_verification_that_fails_keeps_it_from_landing(tree: Path) -> None:
    async def body(s: Work) -> None:
        files = s.files(tree)
        await s.do(write, files, "check.py", "raise SystemExit('no good')\n")
        await s.land(files, verify=["python3", "check.py"])

    ended = ran(body)
    assert ended.status == "rolled_back"
    assert "no good" in (ended.why or "")
    assert not (tree / "check.py").exists()


def test_a_limit_stops_the_saga_and_not_the_retries(tree: Path) -> None:
    async def body(s: Work) -> None:
        files = s.files(tree, limits=Limits(denied=("*.lock",)), **API)
        await s.do(write, files, "uv.lock", "x")

    ended = ran(body)
    assert ended.status == "rolled_back"
    assert "denied" in (ended.why or "")


def test_strict_isolation_refuses_to_land_beside_what_was_read(tree: Path) -> None:
    async def body(s: Work) -> Any:
        files = s.files(tree, isolation="strict", **API)
        await s.do(write, files, "ours", "x")
        with Changeset.open(tree, terms=Terms(provider="api")) as other:
            with other.begin() as theirs:
                theirs.write_text("pkg/one.py", "theirs")
            other.land()
        return await s.land(files, on_conflict="return")

    ended = ran(body)
    assert ended.result["report"]["conflicts"][0]["kind"] == "isolation"


def test_what_a_saga_leaves_unlanded_waits_for_review(tree: Path) -> None:
    async def body(s: Work) -> None:
        files = s.files(tree, **API)
        await s.do(write, files, "x", "x")

    assert ran(body).status == "completed"
    assert [each.life for each in list_changesets(tree)] == [Life.REVIEW]


def test_tools_run_in_a_steps_layer(tree: Path) -> None:
    @action("test.files.tool")
    def tool(files: Files) -> str:
        return files.run(
            ["python3", "-c", "open('made', 'w').write('x'); print(sorted(__import__('os').listdir()))"]
        ).stdout

    async def body(s: Work) -> Any:
        return await s.do(tool, s.files(tree))

    ended = ran(body)
    assert "made" in ended.result
    assert not (tree / "made").exists()


def test_several_trees_land_together(tmp_path: Path, tree: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()

    async def body(s: Work) -> None:
        files = s.files(tree, other, **API)
        await s.do(write, files, "one", "1")
        await s.do(write, files, str(other / "two"), "2")
        await s.land(files)

    assert ran(body).status == "completed"
    assert (tree / "one").read_text() + (other / "two").read_text() == "12"


def test_a_list_of_steps_has_files_too(tree: Path) -> None:
    definition = SagaDefinition("test.files.list", [write], files=[tree], lands="as a list")
    ended = play(lambda on: on.run(definition, path="listed", text="x"))
    assert ended.status == "completed", ended.why
    assert (tree / "listed").read_text() == "x"

    @saga("test.files.declared", files=[tree])
    async def declared(s: Work) -> None:
        await s.do_named(write, {"path": "declared", "text": "x"})
        await s.land()

    ended = play(lambda on: on.run(declared))
    assert (ended.status, ended.why) == ("completed", "")
    assert (tree / "declared").read_text() == "x"


def test_mistakes_are_said_aloud(tree: Path) -> None:
    @action("test.files.undeclared")
    def undeclared(files: Any) -> None: ...

    async def no_files(s: Work) -> None:
        await s.do_named(write, {"path": "x", "text": "x"})

    async def not_declared(s: Work) -> None:
        await s.do(undeclared, s.files(tree))

    async def outside_a_step(s: Work) -> None:
        s.files(tree).write_text("x", "x")

    async def no_tree(s: Work) -> None:
        files = s.files(tree / "missing", **API)
        await s.do(write, files, "x", "x")

    async def odd(s: Work) -> None:
        s.files(tree, isolation="loose")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - on purpose

    for body, error in (
        (no_files, InputError),
        (not_declared, DeclarationError),
        (outside_a_step, ChangesetLifeError),
        (odd, DeclarationError),
    ):
        ended = ran(body)
        assert (ended.status, error.__name__ in (ended.why or "")) == ("rolled_back", True), ended.why
    assert "no folder" in (ran(no_tree).why or "")


def test_a_process_that_goes_away_in_the_middle_leaves_a_layer_that_the_next_one_drops(tree: Path) -> None:
    tries: list[bool] = []

    @action("test.files.interrupted")
    async def interrupted(files: Files) -> None:
        tries.append(files.exists("half"))
        files.write_text("half", "x")
        if len(tries) == 1:
            raise asyncio.CancelledError

    async def body(s: Work) -> None:
        files = s.files(tree, **API)
        await s.do(write, files, "first", "1")
        await s.do(interrupted, files)
        await s.land(files)

    assert ran(body).status in {"completed", "rolled_back"}
    assert (tree / "first").exists() == (tree / "half").exists()


def test_errors_of_the_step_reach_the_function(tree: Path) -> None:
    met: list[str] = []

    @action("test.files.refuses", retries=1)
    def refuses(files: Files) -> None:
        raise NotDone("not today")

    async def body(s: Work) -> None:
        files = s.files(tree, **API)
        try:
            await s.do(refuses, files)
        except StepError as exc:
            met.append(str(exc))
        await s.do(write, files, "after", "x")
        await s.land(files)

    assert ran(body).status == "completed"
    assert [each.rpartition(": ")[2] for each in met] == ["not today"]
    assert list((tree.parent / ".tree.changesets/landings").iterdir()) == []


def test_a_rollback_to_a_checkpoint_drops_the_layers_above_it_and_the_work_goes_on(tree: Path) -> None:
    async def body(s: Work) -> None:
        files = s.files(tree, **API)
        await s.do(write, files, "kept", "1")
        await s.checkpoint("half")
        await s.do(write, files, "wrong", "2")
        await s.do(write, files, "kept", "spoilt")
        await s.rollback_to("half", "it went wrong")
        await s.do(append, files, "kept", "3")
        await s.land(files)

    ended = ran(body)
    assert (ended.status, ended.why) == ("completed", "")
    assert (tree / "kept").read_text() == "13"
    assert not (tree / "wrong").exists()


def test_a_rollback_past_a_landing_takes_it_back_and_goes_on_with_the_layers_before(tree: Path) -> None:
    met: list[bool] = []

    async def body(s: Work) -> None:
        files = s.files(tree, **API)
        await s.do(write, files, "kept", "1")
        await s.checkpoint("half")
        await s.do(write, files, "wrong", "2")
        await s.land(files, "too early")
        await s.do(write, files, "after", "3")
        met.append((tree / "wrong").exists())
        await s.rollback_to("half", "it was too early")
        met.append((tree / "wrong").exists() or (tree / "kept").exists())
        await s.do(append, files, "kept", "4")
        await s.land(files, "in time")
        await s.do(write, files, "last", "5")
        await s.land(files, "and more")

    ended = ran(body)
    assert (ended.status, ended.why) == ("completed", "")
    assert met == [True, False]
    assert (tree / "kept").read_text() == "14"
    assert (tree / "last").read_text() == "5"
    assert not (tree / "wrong").exists()
    assert not (tree / "after").exists()


def test_an_attempt_that_fails_leaves_nothing_to_the_next(tree: Path) -> None:
    async def body(s: Work) -> None:
        files = s.files(tree, **API)
        await s.do(write, files, "base", "0")
        async for attempt in s.attempts("try", max=3):
            async with attempt:
                await s.do(write, files, f"try{attempt.number}", "x")
                if attempt.number < 2:
                    raise RuntimeError("again")
        await s.land(files)

    ended = ran(body)
    assert (ended.status, ended.why) == ("completed", "")
    assert sorted(path.name for path in tree.iterdir() if path.name.startswith(("try", "base"))) == ["base", "try2"]


POLICY = """
version: v1
default: allow
rules:
  - id: somebody-looks
    when: {topic: amends.changeset.land, phase: forward, args.changed_lines: {gt: 1}}
    decision: require_human
"""


def test_a_person_is_shown_the_diff_and_approves_just_that(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)

    @saga("test.files.approved")
    async def approved(s: Work) -> Any:
        files = s.files(tree, **API)
        await s.do(write, files, "page", "one\ntwo\n")
        return await s.land(files, "a page")

    async def whole() -> tuple[Any, Ended]:
        settings = Settings(poll_s=0.02, park_s=0.0)
        database = str(tmp_path / "a.db")
        async with Coordinator.open(database, policy=str(tmp_path / "policy.yaml"), settings=settings) as on:
            handle = await on.start(approved, id="approved")
            while not (asked := await on.approvals()):
                await asyncio.sleep(0.01)
            shown = await on.approval(asked[0].id)
            assert not (tree / "page").exists()
            await on.grant(shown.id, by="person:ann", digest=shown.digest)
            return shown, await handle

    shown, ended = asyncio.run(asyncio.wait_for(whole(), 60))
    assert ended.status == "completed", ended.why
    assert "+one\n+two\n" in shown.args["diff"]
    assert (shown.args["changed_files"], shown.args["changed_lines"], shown.args["paths"]) == (1, 2, ["page"])
    assert (tree / "page").read_text() == "one\ntwo\n"


def branches(tree: Path, *, before: str, after: str | None) -> tuple[Ended, list[Any], Any]:
    """One branch works, another does too (or lands all), and then the first is taken back alone."""

    async def scene(on: Coordinator) -> tuple[Ended, list[Any]]:
        @saga("test.files.branches")
        async def made(s: Work) -> None:
            files = s.files(tree, **API)
            second, third = asyncio.Event(), asyncio.Event()

            async def one() -> None:
                await s.checkpoint("one")
                await s.do(write, files, "one", before)
                second.set()
                await third.wait()
                await s.rollback_to("one", "alone")

            async def two() -> None:
                await second.wait()
                if after is None:
                    await s.land(files)
                else:
                    await s.do(write, files, after, "2")
                third.set()

            await asyncio.gather(one(), two())
            await s.do(write, files, "three", "3")
            await s.land(files)

        ended = await on.run(made)
        return ended, list(await on.incidents())

    ended, incidents = play(scene)
    return ended, incidents, list_changesets(tree)[0]


def test_a_branch_that_is_taken_back_alone_does_not_take_anothers_layer_along(tree: Path) -> None:
    ended, incidents, left = branches(tree, before="1", after="two")
    assert (ended.status, incidents, left.life) == ("completed", [], Life.LANDED)
    assert [step.is_dropped for step in left.steps] == [True, False, False]
    assert [(tree / name).exists() for name in ("one", "two", "three")] == [False, True, True]


def test_a_branch_whose_work_another_has_changed_is_not_taken_back_alone(tree: Path) -> None:
    ended, (incident,), left = branches(tree, before="1", after="one")
    assert (ended.status, incident.kind) == ("incident", "changed_since")
    assert "cannot drop step 1 alone: 1 conflict\none: modify-delete: step 2" in incident.why
    assert (len(left.steps), [step.is_dropped for step in left.steps]) == (2, [False, False])


def test_a_branch_whose_work_another_has_landed_is_not_taken_back_alone(tree: Path) -> None:
    ended, (incident,), left = branches(tree, before="1", after=None)
    assert (ended.status, incident.kind, left.life) == ("incident", "changed_since", Life.LANDED)
    assert "take the landing back first" in incident.why
    assert (tree / "one").read_text() == "1"
