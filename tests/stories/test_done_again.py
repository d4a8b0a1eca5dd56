"""What is done again is told why: after a rollback from outside, in a child that is called again, and after a kill."""

import os
import signal
from pathlib import Path
from typing import IO, cast

import pytest

from tests.cli.shell import PATIENCE_S, Shell

MODULE = """
import sys
from pathlib import Path

import amends
from amends import Done, Fatal, Work, action, child, saga


def note(what: str) -> None:
    with Path("world.txt").open("a") as world:
        world.write(f"{what}\\n")


def stand_still() -> None:
    if Path("pipe").exists():
        sys.stderr.write("here\\n")
        sys.stderr.flush()
        Path("pipe").read_text()


@action("shelf.take", idempotent=True)
def take(item: str) -> str:
    note(f"take {item} told {list(amends.reasons())}")
    stand_still()
    return item


@take.compensation
def put_back(done: Done) -> None: ...


@action("shelf.paint")
def paint(item: str, fails: int) -> None:
    note(f"paint {item} told {len(amends.reasons())}")
    if Path("world.txt").read_text().count("paint") <= fails:
        raise Fatal("the paint is dry", happened=False)


@paint.compensation
def scrape(done: Done) -> None: ...


@saga("shelf.lend")
async def lend(s: Work) -> str:
    first = s.feedback
    await s.do(take, "ladder")
    told = s.feedback
    item = "saw" if told is None else "axe"
    await s.do(take, item)
    note(f"first {first} then {None if told is None else told.why}")
    await s.wait_for("returned")
    return item


@saga("shelf.inner")
async def inner(s: Work, item: str) -> str:
    note(f"inner told {None if s.feedback is None else (s.feedback.number, s.feedback.why)}")
    await s.do(take, item)
    await s.do(paint, item, 1)
    return item


@saga("shelf.fine")
async def fine(s: Work) -> str:
    note(f"fine told {None if s.feedback is None else s.feedback.why}")
    await s.do(take, "brush")
    return "fine"


@saga("shelf.outer")
async def outer(s: Work) -> str:
    return await s.call(inner, "saw", restarts=1)


@saga("shelf.group")
async def group(s: Work) -> list[str]:
    return await s.call_all([child(fine), child(inner, "saw")], on_failure="restart_all", restarts=1)


@saga("shelf.tries")
async def tries(s: Work) -> None:
    async for attempt in s.attempts("paint", max=2):
        async with attempt:
            await s.do(take, "brush")
            await s.do(paint, "wall", 1)
    await s.do(take, "brush")
"""
WHY = "shelf.paint (step 2): the paint is dry"


@pytest.fixture
def amends(tmp_path: Path) -> Shell:
    (tmp_path / "shelf.py").write_text(MODULE)
    return Shell(tmp_path)


def world(amends: Shell) -> list[str]:
    return (amends.place / "world.txt").read_text().splitlines()


def kill_where_it_stands_still(amends: Shell, *words: str) -> None:
    """Run a command until an action stands still, and send its process a SIGKILL there."""
    os.mkfifo(amends.place / "pipe")
    with amends.started(*words) as process:
        stderr = cast("IO[str]", process.stderr)
        while "here" not in stderr.readline():
            assert process.poll() is None
        process.kill()
        assert process.wait(PATIENCE_S) == -signal.SIGKILL
    (amends.place / "pipe").unlink()


def test_after_a_rollback_of_the_last_steps_the_function_and_its_step_are_told_why(amends: Shell) -> None:
    assert amends("run", "shelf:lend", "--id", "l").code == 6
    back = ("saga", "rollback", "l", "--module", "shelf", "--last", "1", "--why", "not the saw", "--by", "person:kim")
    kill_where_it_stands_still(amends, *back)
    assert world(amends)[-1] == "take axe told ['not the saw']"
    assert amends("resume", "shelf").code == 6, "it waits for its signal again"
    assert [line for line in world(amends) if line.startswith("take ladder")] == ["take ladder told []"]
    lost = "the process ended before the outcome was recorded"
    assert world(amends)[-2:] == [f"take axe told ['not the saw', '{lost}']", "first None then not the saw"]
    assert amends("saga", "signal", "l", "returned").code == 0
    assert "completed: axe" in amends("resume", "shelf").out, "called once more, it asks for the same"


def test_a_second_rollback_has_both_reasons(amends: Shell) -> None:
    amends("run", "shelf:lend", "--id", "l")
    for why in ("not the saw", "nor the axe"):
        back = amends("saga", "rollback", "l", "--module", "shelf", "--last", "1", "--why", why, "--by", "person:kim")
        assert back.code == 6, back
    assert world(amends)[-2] == "take axe told ['not the saw', 'nor the axe']"
    assert world(amends)[-1] == "first None then nor the axe"


def test_a_child_that_is_called_again_is_told_why_the_one_before_it_ended(amends: Shell) -> None:
    said = amends("run", "shelf:outer", "--id", "o")
    assert said.code == 0, said
    told = [line for line in world(amends) if line.startswith("inner")]
    first, again = "inner told None", f"(1, 'child o~1 was rolled back: {WHY}')"
    assert (told[0], told[-1]) == (first, f"inner told {again}")
    assert [line for line in world(amends) if line.startswith("take")][-1].endswith(f"was rolled back: {WHY}']")
    assert f"again, because child o~1 was rolled back: {WHY}" in amends("saga", "show", "o~2").out


def test_it_is_told_the_same_after_a_kill_in_another_process(amends: Shell) -> None:
    (amends.place / "world.txt").write_text("")
    os.mkfifo(amends.place / "pipe")
    with amends.started("run", "shelf:outer", "--id", "o") as process:
        stderr = cast("IO[str]", process.stderr)
        while "here" not in stderr.readline():
            assert process.poll() is None
        (amends.place / "pipe").write_text("go on")  # the first child fails at its paint, and another is called
        while "here" not in stderr.readline():
            assert process.poll() is None
        process.kill()
        assert process.wait(PATIENCE_S) == -signal.SIGKILL
    (amends.place / "pipe").unlink()
    assert "completed" in amends("resume", "shelf").out
    told = [line for line in world(amends) if line.startswith("inner") and "None" not in line]
    assert set(told) == {f"inner told (1, 'child o~1 was rolled back: {WHY}')"}
    assert len(told) >= 2, "once before the kill, and after it"


def test_a_group_that_is_started_again_is_told_by_each_of_it(amends: Shell) -> None:
    said = amends("run", "shelf:group", "--id", "g")
    assert said.code == 0, said
    fine, inner = ([line for line in world(amends) if line.startswith(f"{name} told")] for name in ("fine", "inner"))
    assert "None" in fine[0]
    assert WHY in inner[1]
    assert WHY in fine[1] or fine[1] == "fine told it was taken back", "it may have ended before the other one failed"


def test_what_a_block_does_again_is_told_and_what_comes_after_it_is_not(amends: Shell) -> None:
    assert amends("run", "shelf:tries", "--id", "t").code == 0
    takes = [line for line in world(amends) if line.startswith("take")]
    assert takes[0] == "take brush told []"
    assert takes[1].startswith("take brush told ['shelf.paint (step")
    assert takes[2] == "take brush told []"
