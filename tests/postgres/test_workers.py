"""Workers that are killed, stopped and drained, on one journal; and the one of them that numbers the log."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from multiprocessing.process import BaseProcess
from pathlib import Path

import psycopg
import pytest

from amends.clock import SystemClock
from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId
from amends.journal.port.entries import Summary
from amends.journal.postgres import PostgresJournal
from amends.testing.journal_suite.samples import started
from tests.postgres import programs
from tests.postgres.server import PostgresServer

KILLS = 300
LATE = "SELECT extract(epoch FROM clock_timestamp()) * 1000 - min(at) FROM amends.batch WHERE first IS NULL"
RUNNING = Summary(status=SagaStatus.RUNNING)


@pytest.fixture(scope="module")
def durable() -> Generator[PostgresServer]:
    with PostgresServer() as server:
        yield server


def pid_of(worker: BaseProcess) -> int:
    assert worker.pid is not None
    return worker.pid


def test_workers_are_killed_at_random_and_every_effect_is_accounted_for(
    durable: PostgresServer, environment: dict[str, str]
) -> None:
    address, dice, count, kills = durable.url(durable.make_database()), random.Random(11), 0, 0
    with programs.workers(address, environment, 3) as living:
        while kills < KILLS:
            if kills % 10 == 0:
                programs.begin(address, 12, first=count, slow_s=0.02)
                count += 12
            time.sleep(dice.uniform(0.05, 0.4))
            place = dice.randrange(len(living))
            os.kill(pid_of(living[place]), signal.SIGKILL)
            living[place].join(10)
            living[place] = programs.start_worker(address, environment)
            kills += 1
        found = programs.until_ended(address, count)
    programs.require_accounted(found)
    assert programs.require_sound(address) > 10 * count


def test_workers_that_sleep_past_their_lease_write_nothing_stale(
    durable: PostgresServer, environment: dict[str, str]
) -> None:
    address, dice = durable.url(durable.make_database()), random.Random(5)
    programs.begin(address, 45, slow_s=0.1)
    with programs.workers(address, environment, 3) as living:
        for _ in range(4):
            sleeper = pid_of(living[dice.randrange(3)])
            os.kill(sleeper, signal.SIGSTOP)
            time.sleep(programs.SETTINGS.lease_s + 0.7)
            os.kill(sleeper, signal.SIGCONT)
            time.sleep(0.3)
        found = programs.until_ended(address, 45)
    programs.require_accounted(found)
    programs.require_sound(address)


def unnumbered(address: str) -> int:
    """As a look that numbers nothing sees it."""
    with psycopg.connect(address, autocommit=True) as connection:
        row = connection.execute("SELECT count(*) FROM amends.batch WHERE first IS NULL").fetchone()
    return 0 if row is None else int(row[0])


def elected(address: str) -> str:
    with psycopg.connect(address, autocommit=True) as connection:
        row = connection.execute("SELECT sequencer FROM amends.tree").fetchone()
    return "" if row is None else str(row[0])


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_one_that_numbers_and_is_killed_or_sleeps_is_replaced_without_gap_or_fork(
    durable: PostgresServer, environment: dict[str, str], how: signal.Signals
) -> None:
    address = durable.url(durable.make_database())

    async def append(journal: PostgresJournal, first: int) -> None:
        for n in range(first, first + 30):
            await journal.append(SagaId(f"s{n}"), [started()], after=0, summary=RUNNING)

    async def beside(first: BaseProcess) -> None:
        before = elected(address)
        journal = await PostgresJournal.open(address, SystemClock())
        await append(journal, 0)
        os.kill(pid_of(first), how)
        await append(journal, 30)
        ends = time.monotonic() + 3.0
        while unnumbered(address):
            assert time.monotonic() < ends, "nobody numbers"
            await asyncio.sleep(0.05)
        assert elected(address) != before
        if how is signal.SIGSTOP:
            os.kill(pid_of(first), signal.SIGCONT)
        await append(journal, 60)
        await asyncio.sleep(0.5)
        assert unnumbered(address) == 0
        await journal.close()

    with programs.workers(address, environment, 1) as living:
        programs.until(lambda: elected(address) != "", 20, "nobody is elected")
        asyncio.run(beside(living[0]))
    assert programs.require_sound(address) == 90


def test_what_is_committed_has_its_position_within_a_second(
    durable: PostgresServer, environment: dict[str, str]
) -> None:
    address = durable.url(durable.make_database())
    with programs.workers(address, environment, 2):
        programs.until(lambda: elected(address) != "", 20, "nobody is elected")
        programs.begin(address, 40, slow_s=0.02)
        late = 0.0
        with psycopg.connect(address, autocommit=True) as connection:
            for _ in range(100):
                row = connection.execute(LATE.encode()).fetchone()
                late = max(late, float(row[0]) if row and row[0] is not None else 0.0)
                time.sleep(0.02)
        programs.until_ended(address, 40)
    assert late < 1_000


def test_several_number_at_once_and_agree(durable: PostgresServer) -> None:
    address = durable.url(durable.make_database())

    async def whole() -> None:
        handles = [await PostgresJournal.open(address, SystemClock()) for _ in range(4)]

        async def write(place: int) -> None:
            for n in range(40):
                await handles[place].append(SagaId(f"s{place}-{n}"), [started()], after=0, summary=RUNNING)

        async def look(place: int) -> None:
            for _ in range(40):
                tree = await handles[place].tree()
                after = max(0, tree.size - 3)
                assert [one.position async for one in handles[place].log(after=after)][: tree.size - after] == list(
                    range(after + 1, tree.size + 1)
                )

        await asyncio.gather(*map(write, range(4)), *map(look, range(4)))
        for handle in handles:
            await handle.close()

    asyncio.run(whole())
    assert programs.require_sound(address) == 160


def test_the_command_line_works_drains_and_tells_who_works(
    durable: PostgresServer, environment: dict[str, str]
) -> None:
    address = durable.url(durable.make_database())
    words = [sys.executable, "-m", "amends", "work", "tests.postgres.programs", "--lease", "60s", "--journal", address]
    root = Path(__file__).parents[2]
    variables = {**os.environ, **environment, "AMENDS_HOST": "machine-7"}
    working = subprocess.Popen(words, cwd=root, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        programs.until(lambda: len(listed(address)) == 1, 30, "no worker is listed")
        (row,) = listed(address)
        assert (row["host"], row["pid"], row["is_gone"]) == ("machine-7", working.pid, False)
        programs.begin(address, 6, slow_s=0.3)
        programs.until(lambda: any(one["sagas"] for one in listed(address)), 20, "it took nothing up")
        working.send_signal(signal.SIGTERM)
        working.wait(30)
        assert listed(address) == []
        with programs.workers(address, environment, 1):
            found = programs.until_ended(address, 6, within_s=30)  # at once, and not after its lease of a minute
        programs.require_accounted(found)
    finally:
        working.kill()
        working.communicate()


def listed(address: str) -> list[dict[str, object]]:
    async def looked() -> list[dict[str, object]]:
        journal = await PostgresJournal.open(address, SystemClock())
        try:
            return [json.loads(json.dumps(one._asdict())) for one in await journal.workers()]
        finally:
            await journal.close()

    return asyncio.run(looked())


def test_another_worker_hears_at_once_of_what_was_left(durable: PostgresServer, environment: dict[str, str]) -> None:
    """By the poll alone it would take the two seconds that are asked for."""
    address = durable.url(durable.make_database())
    heard: list[float] = []

    async def whole() -> None:
        one, two = [await PostgresJournal.open(address, SystemClock()) for _ in range(2)]
        assert two.watch(lambda: heard.append(time.monotonic()))
        await one.enlist("w", 60.0)
        await asyncio.sleep(0.4)
        heard.clear()
        since = time.monotonic()
        await one.retire("w")
        while not heard:
            assert time.monotonic() - since < 1.0, "nothing was heard"
            await asyncio.sleep(0.01)
        await one.close()
        await two.close()

    asyncio.run(whole())


def signed_to(address: str) -> tuple[int, int]:
    """How many entries are signed, of how many that have a position."""
    with psycopg.connect(address, autocommit=True) as connection:
        row = connection.execute("SELECT signed, size FROM amends.tree").fetchone()
    assert row is not None
    return row[0], row[1]


def test_keys_are_changed_while_workers_run_and_whoever_has_the_new_one_signs(
    durable: PostgresServer, environment: dict[str, str], tmp_path: Path
) -> None:
    address = durable.url(durable.make_database())
    old, new = ({**environment, "AMENDS_EVIDENCE_KEY_FILE": str(tmp_path / f"{name}.key")} for name in ("old", "new"))

    def ran(keys: dict[str, str], *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "amends", *words, "--journal", address],
            env={**os.environ, **keys},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    with programs.workers(address, old, 2) as living:
        programs.until(lambda: elected(address) != "", 20, "nobody is elected")
        programs.begin(address, 6)
        programs.until_ended(address, 6)
        programs.until(lambda: len(set(signed_to(address))) == 1, 20, "nobody signs")
        key = ran(old, "evidence", "key")
        ran(old, "evidence", "rotate", "--to", str(tmp_path / "new.key"))
        programs.begin(address, 6, first=6)
        programs.until_ended(address, 12)
        signed, size = signed_to(address)
        assert signed < size, "who has the old key alone drives, and does not sign"
        living.append(programs.start_worker(address, new))
        programs.until(lambda: len(set(signed_to(address))) == 1, 30, "who has the new key does not sign what is owed")
        os.kill(pid_of(living[0]), signal.SIGTERM)
        living.pop(0).join(20)
        programs.begin(address, 6, first=12)
        programs.require_accounted(programs.until_ended(address, 18))
        programs.until(lambda: len(set(signed_to(address))) == 1, 30, "who has the new key does not sign")
    assert ran(new, "evidence", "key") != key
    for each in (key, ran(new, "evidence", "key")):
        assert "as it was signed" in ran(new, "evidence", "verify", "--key", each)
    programs.require_sound(address)
