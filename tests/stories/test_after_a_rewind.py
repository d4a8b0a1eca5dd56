"""Somebody rolls a saga back from outside: its signals come again; cancelling tries again what could not go back."""

from pathlib import Path

from tests.cli.shell import Shell

MODULE = """
from pathlib import Path

from amends import Done, NotDone, Work, action, saga


@action("shelf.take", compensation_retries=1)
def take(item: str) -> str:
    return item


@take.compensation
def put_back(done: Done) -> None:
    if Path("down").exists():
        raise NotDone("the shelf is away")


@saga("shelf.lend")
async def lend(s: Work, item: str) -> str:
    await s.checkpoint("start")
    await s.do(take, item)
    return await s.wait_for("returned")


@saga("shelf.swap")
async def swap(s: Work) -> None:
    await s.do(take, "saw")
    await s.rollback_last(1, "the wrong one")
"""


def shelf(tmp_path: Path) -> Shell:
    (tmp_path / "shelf.py").write_text(MODULE)
    return Shell(tmp_path)


def test_the_repeated_wait_takes_the_same_signal_and_says_so(tmp_path: Path) -> None:
    amends = shelf(tmp_path)
    assert "waiting" in amends("run", "shelf:lend", "--id", "l", "--input", '{"item": "saw"}').out
    assert amends("saga", "signal", "l", "returned", "--payload", '"as new"').code == 0
    assert "completed" in amends("resume", "shelf").out
    back = amends("saga", "rollback", "l", "--module", "shelf", "--to", "start", "--why", "once more")
    assert back.code == 0, back
    shown = amends("saga", "show", "l").out
    assert "goes on with signal 1, again" in shown
    assert shown.count("as new") >= 2


def test_cancelling_tries_again_what_a_rollback_inside_could_not_take_back(tmp_path: Path) -> None:
    amends = shelf(tmp_path)
    (tmp_path / "down").touch()
    assert "incident" in amends("run", "shelf:swap", "--id", "s").out
    (tmp_path / "down").unlink()
    cancelled = amends("saga", "cancel", "s", "--module", "shelf", "--why", "enough")
    assert "saga s rolled back" in cancelled.out, cancelled
