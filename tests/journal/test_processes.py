"""Several processes, and processes that die: real ones, killed by the system."""

import asyncio
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import IO, cast

import pytest

from amends.clock import SystemClock
from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId
from amends.errors import ForkedError
from amends.journal.port import leases
from amends.journal.port.journal import Entry, Lease, SagaQuery, Summary
from amends.journal.port.leases import Identity, WorkerLife
from amends.journal.sqlite import SqliteJournal
from amends.testing.journal_suite.samples import resumed, started
from tests.journal.programs import CALLS

ROOT = Path(__file__).parents[2]
RUNNING = Summary(status=SagaStatus.RUNNING)


class Program:
    """One of tests.journal.programs, running."""

    def __init__(self, name: str, *arguments: object) -> None:
        command = [sys.executable, "-W", "ignore", "-m", "tests.journal.programs", name, *map(str, arguments)]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.heard = cast(IO[str], self.process.stdout)

    def listen(self) -> str:
        return self.heard.readline().strip()

    def go_on(self) -> None:
        cast(IO[str], self.process.stdin).write("go\n")
        cast(IO[str], self.process.stdin).flush()

    def kill(self) -> list[str]:
        """What it still managed to say."""
        self.process.kill()
        return self.end()

    def end(self) -> list[str]:
        said = self.heard.read().splitlines()  # not communicate(), which would miss what is buffered here
        with self.process:
            return said


async def sagas(path: Path) -> dict[str, list[Entry]]:
    journal = await SqliteJournal.open(path, SystemClock())
    try:
        rows = (await journal.sagas(SagaQuery())).rows
        return {row.id: [entry async for entry in journal.read(row.id)] for row in rows}
    finally:
        await journal.close()


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


def test_what_a_killed_process_was_told_is_there_and_verifies(path: Path) -> None:
    told: Counter[str] = Counter()
    for lives in (1, 2, 17, 60, 150, 400):
        program = Program("append_until_killed", path)
        said = [program.listen() for _ in range(lives)] + program.kill()
        told |= Counter({saga: int(number) for saga, number in map(str.split, said)})
        found = asyncio.run(sagas(path))
        for saga, count in told.items():
            events = [entry.event for entry in found[saga]]
            assert len(events) >= count
            assert events == [started(), *(resumed(str(each)) for each in range(2, len(events) + 1))]


def test_two_processes_share_a_file_and_take_turns_on_one_saga(path: Path) -> None:
    async def begin() -> None:
        journal = await SqliteJournal.open(path, SystemClock())
        await journal.append(SagaId("s"), [started()], after=0, summary=RUNNING)
        await journal.close()

    asyncio.run(begin())
    programs = [Program("append_in_competition", path, name, 60) for name in ("one", "two", "three")]
    for program in programs:
        assert program.listen() == "ready"
    for program in programs:
        program.go_on()
    refused = [int(program.end()[0]) for program in programs]
    found = [entry.event for entry in asyncio.run(sagas(path))["s"]]
    assert sum(refused) > 0
    assert len(found) == 1 + 3 * 60
    for name in ("one", "two", "three"):
        mine = [event for event in found if event in [resumed(f"{name} {number}") for number in range(60)]]
        assert mine == [resumed(f"{name} {number}") for number in range(60)]


def test_a_child_cannot_use_its_parents_journal(path: Path) -> None:
    assert Program("fork", path).end() == [" ".join(["refused"] * len(CALLS)), "2"]


def test_a_journal_knows_the_process_that_opened_it(path: Path) -> None:
    """The same in this process, for those who count lines: as if it had been opened by another one."""

    async def live() -> None:
        journal = await SqliteJournal.open(path, SystemClock())
        journal._pid += 1
        with pytest.raises(ForkedError, match="a connection does not survive a fork; open the journal anew"):
            await journal.saga(SagaId("s"))
        journal._pid -= 1
        await journal.close()

    asyncio.run(live())


def test_a_program_that_forgets_to_close_ends_and_loses_nothing(path: Path) -> None:
    program = Program("forget_to_close", path)
    assert program.end() == ["done"]
    assert program.process.returncode == 0
    assert len(asyncio.run(sagas(path))["s"]) == 1


# -- who is alive -------------------------------------------------------------------------------------------------


def test_a_killed_workers_sagas_are_free_at_once(path: Path) -> None:
    async def claim() -> tuple[Lease, ...]:
        journal = await SqliteJournal.open(path, SystemClock())
        try:
            return await journal.claim("heir")
        finally:
            await journal.close()

    program = Program("hold_a_saga", path)
    assert program.listen() == "ready"
    assert asyncio.run(claim()) == ()
    program.process.kill()
    # Not reaped yet: a dead process that its parent has not asked about is dead all the same.
    program.heard.read()
    leases_now = asyncio.run(claim())
    program.end()
    assert leases_now == (Lease(saga=SagaId("s"), worker="heir", epoch=2),)


US = leases.own_identity()


UNNAMED = Identity("", US.space, US.pid, US.started)


@pytest.mark.parametrize(
    ("us", "them", "until", "is_over"),
    [
        (US, US, 110.0, False),
        (US, US, 100.0, True),
        (US, US, 99.0, True),
        (US, US, 130.0, False),
        (US, US, 130.1, False),  # it is of this boot, and says so: it renewed after the clock was read
        (UNNAMED, UNNAMED, 130.0, False),
        (UNNAMED, UNNAMED, 130.1, True),  # of another boot, on a system that does not name its boots
        (US, Identity("other boot", US.space, US.pid, US.started), 110.0, True),
        (US, Identity(US.boot, US.space, US.pid, "1"), 110.0, True),  # the number was given to another process since
        (US, Identity(US.boot, US.space, 2**22 + 1, US.started), 110.0, True),
        (US, Identity(US.boot, "other space", 2**22 + 1, "1"), 110.0, False),  # in a container: only time can tell
        (US, Identity(US.boot, US.space, 2**22 + 1, ""), 110.0, False),  # not on Linux: only time can tell
    ],
)
def test_a_life_is_over(us: Identity, them: Identity, until: float, is_over: bool) -> None:
    assert WorkerLife(them, until, 30.0).is_over(us, 100.0) == is_over


def test_a_system_that_says_nothing_leaves_it_to_time(tmp_path: Path) -> None:
    silent = leases.own_identity(tmp_path)
    assert (silent.boot, silent.space, silent.started) == ("", "", "")
    assert not WorkerLife(silent, 110.0, 30.0).is_over(silent, 100.0)
    assert WorkerLife(silent, 100.0, 30.0).is_over(silent, 100.0)
