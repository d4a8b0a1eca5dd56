"""What breaks on the way to PostgreSQL: answers that are lost, a server that is killed, a partition, a standby."""

import asyncio
import random
import time
from collections.abc import Generator

import psycopg
import pytest

from amends import Coordinator
from amends.clock import SystemClock
from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId
from amends.errors import JournalAccessError, JournalConflictError, LeaseLostError
from amends.journal.port.entries import Summary
from amends.journal.port.leases import Lease
from amends.journal.postgres import PostgresJournal
from amends.testing.journal_suite.fixture import held
from amends.testing.journal_suite.samples import resumed, started
from tests.postgres import programs
from tests.postgres.proxy import Proxy
from tests.postgres.server import PostgresServer

RUNNING = Summary(status=SagaStatus.RUNNING)
HELD = Lease(SagaId("s"), "", 0)


@pytest.fixture
def durable() -> Generator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.mark.parametrize("lease", [None, HELD], ids=["anybody's", "held"])
@pytest.mark.parametrize("where", ["before COMMIT arrives", "after it is done"])
def test_a_commit_whose_answer_is_lost_is_there_once(
    shared_server: PostgresServer, address: str, where: str, lease: Lease | None
) -> None:
    """Where nothing but entries goes in, which of them did is not known either, until they are looked for."""

    async def whole(proxy: Proxy) -> None:
        journal = await PostgresJournal.open(
            address.replace(f":{shared_server.port}/", f":{proxy.port}/"), SystemClock()
        )
        saga = SagaId("s")
        await journal.append(saga, [started()], after=0, summary=RUNNING)
        for turn in range(1, 9):
            if where == "after it is done":
                proxy.cut_answers = 1
            else:
                proxy.cut_asks = 1
            (entry,) = await journal.append(saga, [resumed(str(turn))], after=turn, summary=RUNNING, lease=lease)
            assert entry.number == turn + 1
        found = [one.event async for one in journal.read(saga, after=1)]
        assert found == [resumed(str(turn)) for turn in range(1, 9)]
        proxy.cut_answers = 1
        await journal.enlist("w", 30.0)
        proxy.cut_answers = 1
        (claimed,) = await journal.claim("w")
        assert claimed.epoch == 1, "a claim whose answer was lost is not made twice"
        await journal.close()

    with Proxy(shared_server.port) as proxy:
        asyncio.run(whole(proxy))
        assert proxy.cuts == 10


def test_of_two_in_one_commit_whose_answer_is_lost_one_is_there_and_one_refused(
    shared_server: PostgresServer, address: str
) -> None:
    async def whole(proxy: Proxy) -> None:
        through = address.replace(f":{shared_server.port}/", f":{proxy.port}/")
        journal = await PostgresJournal.open(through, SystemClock())
        for saga in ("a", "b"):
            await journal.append(SagaId(saga), [started()], after=0, summary=RUNNING)
        late = [SagaId("a"), SagaId("b")]
        for turn in range(1, 5):
            at = {late[turn % 2]: turn, late[1 - turn % 2]: turn + 5}
            proxy.cut_answers = 1
            told = await asyncio.gather(
                *(
                    journal.append(one, [resumed(str(turn))], after=after, summary=RUNNING, lease=Lease(one, "", 0))
                    for one, after in at.items()
                ),
                return_exceptions=True,
            )
            assert not isinstance(told[0], BaseException), told
            assert isinstance(told[1], JournalConflictError), told
            refused = late[1 - turn % 2]
            await journal.append(refused, [resumed(str(turn))], after=turn, summary=RUNNING)
        for one in late:
            assert [entry.event async for entry in journal.read(one, after=1)] == [resumed(str(n)) for n in range(1, 5)]
        await journal.close()

    with Proxy(shared_server.port) as proxy:
        asyncio.run(whole(proxy))
        assert proxy.cuts == 4


def test_sagas_go_through_connections_that_are_cut_all_the_time(
    shared_server: PostgresServer, address: str, environment: dict[str, str]
) -> None:
    dice = random.Random(7)

    async def whole(proxy: Proxy) -> None:
        through = address.replace(f":{shared_server.port}/", f":{proxy.port}/")
        async with Coordinator.open(through, settings=programs.SETTINGS) as coordinator:
            running = asyncio.gather(*(coordinator.run(programs.fill, n, 0.005, id=f"saga-{n}") for n in range(40)))
            while not running.done():
                kind = dice.choice(("cut", "answer", "ask"))
                if kind == "cut":
                    await asyncio.to_thread(proxy.cut)
                elif kind == "answer":
                    proxy.cut_answers = 1
                else:
                    proxy.cut_asks = 1
                await asyncio.sleep(0.05)
            await running

    with Proxy(shared_server.port) as proxy:
        asyncio.run(whole(proxy))
        assert proxy.cuts > 3
    programs.require_accounted(programs.until_ended(address, 40))
    programs.require_sound(address)


def test_the_server_is_killed_under_load_and_started_again(
    environment: dict[str, str], durable: PostgresServer
) -> None:
    address = durable.url(durable.make_database())
    with programs.workers(address, environment, 3):
        for turn in range(3):
            programs.begin(address, 20, first=20 * turn, slow_s=0.02)
            time.sleep(0.5)
            durable.kill()
            durable.start()
        found = programs.until_ended(address, 60)
    programs.require_accounted(found)
    programs.require_sound(address)


def test_a_database_that_stays_away_is_told_of_and_comes_back(
    environment: dict[str, str], durable: PostgresServer
) -> None:
    address = durable.url(durable.make_database())

    async def whole() -> None:
        journal = await PostgresJournal.open(address, SystemClock(), patience_s=0.5)
        await journal.append(SagaId("s"), [started()], after=0, summary=RUNNING)
        durable.kill()
        with pytest.raises(JournalAccessError, match="cannot be reached"):
            await journal.append(SagaId("s"), [resumed()], after=1, summary=RUNNING)
        with pytest.raises(JournalAccessError, match="cannot be reached"):
            await journal.saga(SagaId("s"))
        durable.start()
        await journal.append(SagaId("s"), [resumed()], after=1, summary=RUNNING)
        assert len([one async for one in journal.read(SagaId("s"))]) == 2
        await journal.close()

    asyncio.run(whole())


def test_a_worker_that_is_cut_off_loses_its_sagas_and_writes_nothing_stale(
    shared_server: PostgresServer, address: str
) -> None:
    async def whole(proxy: Proxy) -> None:
        alone = await PostgresJournal.open(
            address.replace(f":{shared_server.port}/", f":{proxy.port}/"), SystemClock(), patience_s=30
        )
        other = await PostgresJournal.open(address, SystemClock())
        saga = SagaId("s")
        await alone.enlist("w", 1.0)
        await alone.append(saga, [started()], after=0, summary=RUNNING, lease=held(saga, "w"))
        proxy.is_held = True
        late = asyncio.ensure_future(
            alone.append(saga, [resumed("late")], after=1, summary=RUNNING, lease=held(saga, "w"))
        )
        ends = time.monotonic() + 10
        while not (leases := await other.claim("x")):
            assert time.monotonic() < ends
            await asyncio.sleep(0.05)
        await other.append(saga, [resumed("mine")], after=1, summary=RUNNING, lease=leases[0])
        proxy.is_held = False
        with pytest.raises(LeaseLostError):
            await late
        assert [one.event async for one in other.read(saga, after=1)] == [resumed("mine")]
        await alone.close()
        await other.close()

    with Proxy(shared_server.port) as proxy:
        asyncio.run(whole(proxy))


def test_a_standby_takes_over_and_nothing_acknowledged_is_lost(
    environment: dict[str, str], durable: PostgresServer
) -> None:
    name = durable.make_database()
    standby = PostgresServer(standby_of=durable)
    try:
        standby.start("hot_standby=on")
        durable.execute("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
        durable.execute("SELECT pg_reload_conf()")
        with psycopg.connect(durable.admin, autocommit=True) as connection:
            programs.until(
                lambda: connection.execute("SELECT sync_state FROM pg_stat_replication").fetchone() == ("sync",),
                20,
                "the standby is not synchronous",
            )
        address = durable.url(name).replace(
            f"127.0.0.1:{durable.port}", f"127.0.0.1:{durable.port},127.0.0.1:{standby.port}"
        )
        with programs.workers(address, environment, 2):
            programs.begin(address, 20, slow_s=0.05)
            time.sleep(0.3)
            durable.kill()
            standby.promote()
            programs.begin(address, 10, first=20)
            found = programs.until_ended(address, 30)
        programs.require_accounted(found)
        programs.require_sound(address)
    finally:
        standby.__exit__(None, None, None)
