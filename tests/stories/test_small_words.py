"""What a person reads in passing: counts, times, columns, and the first complaint, which is the right one."""

import asyncio
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from amends import Coordinator, Fatal, Work, saga
from amends.text import counted, span, times
from tests.cli.shell import PATIENCE_S, Shell

BUY = ("--input", '{"item": "cup", "cents": 5}')


@pytest.fixture
def amends(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_an_approval_that_is_not_there_is_not_there_whoever_could_confirm_it(amends: Shell) -> None:
    assert amends.here("run", "shop:buy", "--id", "b", *BUY).code == 0
    assert "'zzz' is not an approval's id" in amends.here("approval", "grant", "zzz").complaint
    assert "nobody was asked about b/9" in amends.here("approval", "grant", "b/9").complaint


@pytest.mark.parametrize("words", [("saga", "list"), ("run", "shop:chat")])
def test_a_program_is_no_journal_to_be_mended(amends: Shell, words: tuple[str, ...]) -> None:
    (amends.place / "shop.py").chmod(0o644)
    said = amends.here(*words, "--journal", "shop.py")
    assert said.complaint.endswith("shop.py is no journal, and no database at all; name another file")


def test_a_journal_that_is_open_to_others_is_still_told_to_be_closed(amends: Shell) -> None:
    assert amends.here("run", "shop:chat", "--id", "c").code == 0
    (amends.place / "amends.db").chmod(0o644)
    assert "chmod 600" in amends.here("saga", "list").complaint


@pytest.mark.parametrize(
    ("milliseconds", "said"),
    [
        (7_200_000, "2 h"),
        (7_199_998, "2 h"),
        (7_100_000, "118 min"),
        (172_799_000, "2 d"),
        (119_990, "2 min"),
        (119_000, "119 s"),
        (5_400_000, "90 min"),
    ],
)
def test_two_hours_less_a_moment_are_two_hours(milliseconds: int, said: str) -> None:
    assert span(milliseconds) == said


def test_one_is_not_many() -> None:
    assert [counted(number, "saga") for number in (0, 1, 2)] == ["0 sagas", "1 saga", "2 sagas"]
    assert counted(1, "entry", "entries") + counted(2, "entry", "entries") == "1 entry2 entries"
    assert [times(number) for number in (1, 2, 3)] == ["once", "twice", "3 times"]


LONG = """
from amends import Work, action, saga

@action("a.b", read_only=True)
def short() -> None: ...

@action("warehouse.reserve.shelf", read_only=True)
def long() -> None: ...

@saga("both")
async def both(s: Work) -> None:
    await s.do(short)
    await s.do(long)
"""


def test_columns_stay_where_they_are_when_a_longer_topic_comes(amends: Shell) -> None:
    (amends.place / "long.py").write_text(LONG, encoding="utf-8")
    lines = amends.here("run", "long:both").out.splitlines()
    began = {line.index("succeeded") for line in lines if "succeeded" in line}
    assert len(began) == 1


def test_a_drill_counts_its_runs_on_a_terminal(amends: Shell) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "amends.cli.main", "drill", "shop:buy", "--no-record", *BUY]
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(command, cwd=amends.place, env=env, stdout=theirs, stderr=theirs, stdin=theirs) as process:
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 4096):
                shown += piece
        except OSError:
            pass  # how a terminal ends when nobody has it any more
        os.close(ours)
        process.wait(PATIENCE_S)
    assert re.search(rb"drilling shop.buy: run \d+ of \d+", shown)


def test_a_notebook_shows_what_a_person_would_ask(tmp_path: Path) -> None:
    @saga("words.fine")
    async def fine(s: Work) -> int:
        return 7

    @saga("words.bad")
    async def bad(s: Work) -> None:
        raise Fatal("no luck")

    async def whole() -> list[str]:
        on = await Coordinator.open(str(tmp_path / "amends.db"), env="staging")
        said = [repr(await on.run(fine, id="a")), repr(await on.run(bad, id="b")), repr(on)]
        await on.close()
        return [*said, repr(on)]

    done, back, opened, closed = asyncio.run(whole())
    assert done == "Ended('a', 'completed', result=7)"
    assert back == "Ended('b', 'rolled_back', why='Fatal: no luck')"
    assert opened == f"<Coordinator open on {tmp_path / 'amends.db'}, env staging>"
    assert closed.startswith("<Coordinator closed on ")
