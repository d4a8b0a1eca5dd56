"""A journal in PostgreSQL as people use it: from Python, from the command line, with and without the key."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

import amends
from amends import Coordinator, Done, Work, action, saga
from amends.clock import SystemClock
from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId
from amends.errors import EvidenceKeyError, InputError, JournalAccessError, JournalVersionError
from amends.journal.port.entries import Summary
from amends.journal.port.leases import Lease
from amends.journal.port.lists import SagaQuery
from amends.journal.postgres import PostgresJournal
from amends.journal.postgres.address import PostgresAddress
from amends.journal.postgres.database import migrate, newest
from amends.testing.journal_suite.samples import resumed, started
from tests.postgres.proxy import Proxy
from tests.postgres.server import PostgresServer, free_port

SHELF: dict[str, str] = {}
RUNNING = Summary(status=SagaStatus.RUNNING)
HELD = Lease(SagaId("s"), "", 0)


@action("shelf.put", idempotent=True)
async def put(thing: str) -> str:
    SHELF[amends.key()] = thing
    return thing


@put.compensation
async def take(done: Done) -> None:
    SHELF.pop(done.action_key, None)


@action("shelf.refuse")
async def refuse() -> None:
    raise amends.Fatal("the shelf is full", happened=False)


@refuse.compensation
async def unrefuse(done: Done) -> None: ...


@saga("shelf.fill")
async def fill(s: Work, things: list[str], fails: bool) -> list[str]:
    kept = [await s.do(put, thing) for thing in things]
    if fails:
        await s.do(refuse)
    return kept


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("AMENDS_EVIDENCE_KEY", "AMENDS_EVIDENCE_KEY_FILE", "AMENDS_JOURNAL"):
        monkeypatch.delenv(name, raising=False)


def test_a_coordinator_runs_sagas_on_it_and_another_one_finds_them(address: str) -> None:
    async def whole() -> None:
        async with Coordinator.open(address) as coordinator:
            done = await coordinator.run(fill, ["cup", "plate"], fails=False, id="one")
            back = await coordinator.run(fill, ["vase"], fails=True, id="two")
            evidence = await back.evidence()
        async with Coordinator.open(address) as coordinator:
            rows = (await coordinator.journal.sagas(SagaQuery(definition="shelf.fill"))).rows
        assert (done.status, done.result, back.status) == ("completed", ["cup", "plate"], "rolled_back")
        assert {row.id: str(row.status) for row in rows} == {"one": "completed", "two": "rolled_back"}
        assert evidence["status"] == "FAILED_FATAL"
        assert list(SHELF.values()) == ["cup", "plate"]

    SHELF.clear()
    asyncio.run(whole())


def test_an_append_waits_for_one_answer_of_the_database(shared_server: PostgresServer, address: str) -> None:
    """Whether it is durable, and whose saga it is comes with that: on a network each answer takes its time."""

    async def turns(proxy: Proxy) -> float:
        through = address.replace(f":{shared_server.port}/", f":{proxy.port}/")
        journal = await PostgresJournal.open(through, SystemClock(), inline=True)
        await journal.append(SagaId("s"), [started()], after=0, summary=RUNNING)
        for number in range(1, 7):
            await journal.append(SagaId("s"), [resumed(str(number))], after=number, summary=RUNNING, lease=HELD)
        before = proxy.turns
        for number in range(7, 27):
            await journal.append(SagaId("s"), [resumed(str(number))], after=number, summary=RUNNING, lease=HELD)
        found = (proxy.turns - before) / 20
        await journal.close()
        return found

    with Proxy(shared_server.port) as proxy:
        assert asyncio.run(turns(proxy)) == 1


def test_an_empty_database_a_newer_and_an_older_journal_are_refused(
    shared_server: PostgresServer, address: str
) -> None:
    async def opened() -> None:
        await (await PostgresJournal.open(address, SystemClock())).close()

    for version, told in ((newest() + 1, "newer version of amends"), (0, "amends journal migrate")):
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("UPDATE amends.format SET version = %s", (version,))
        with pytest.raises(JournalVersionError, match=told):
            asyncio.run(opened())
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("UPDATE amends.format SET version = %s", (newest() + 1,))
    with pytest.raises(JournalVersionError, match="newer version"):
        migrate(PostgresAddress(address))
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("DROP SCHEMA amends CASCADE")
    with pytest.raises(JournalVersionError, match=r"no journal in postgresql://127\.0\.0\.1"):
        asyncio.run(opened())
    advice = command("doctor", "--journal", address).stdout
    assert "amends journal migrate" in advice
    assert "pip install" not in advice, "a database without a journal was not written by another version"
    assert migrate(PostgresAddress(address)) == (0, newest())
    assert migrate(PostgresAddress(address)) == (newest(), newest())
    asyncio.run(opened())


def test_a_password_is_in_no_message_and_no_log() -> None:
    secret = "hunter2-very-secret"
    nowhere = f"postgresql://anselm:{secret}@127.0.0.1:{free_port()}/journal?connect_timeout=1"

    async def opened(address: str) -> None:
        async with Coordinator.open(address):
            pass

    with pytest.raises(JournalAccessError) as told:
        asyncio.run(opened(nowhere))
    with pytest.raises(InputError) as misread:
        asyncio.run(opened(f"postgresql://anselm:{secret}%zz@[::/journal"))
    odd = [f"postgresql://anselm:{secret}{sign}x@127.0.0.1:1/journal" for sign in "@/?#"]  # not as %XX
    odd += [f"postgres:anselm:{secret}@127.0.0.1/journal", f"host=127.0.0.1 user=anselm password={secret}"]
    for wrong in odd:
        done = command("saga", "list", "--journal", wrong)
        assert done.returncode != 0
        assert secret not in done.stdout + done.stderr, wrong
        assert "anselm" not in done.stdout + done.stderr, wrong
    shown = [str(told.value), str(misread.value), str(PostgresAddress(nowhere)), repr(PostgresAddress(nowhere))]
    assert not [text for text in shown if secret in text or "anselm" in text]
    done = command("saga", "list", "--journal", nowhere)
    assert done.returncode != 0
    assert secret not in done.stdout + done.stderr


def test_a_worker_without_the_key_works_and_the_one_that_has_it_signs(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run(name: str) -> int:
        async with Coordinator.open(address) as coordinator:
            await coordinator.run(fill, ["cup"], fails=False, id=name)
            await coordinator.journal.tree()
            head = await coordinator.journal.tree_head()
        return 0 if head is None else head.size

    first = asyncio.run(run("one"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    assert asyncio.run(run("two")) == first, "this one has another key, and nobody chose it"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert asyncio.run(run("three")) > first
    other = tmp_path / "other.key"
    monkeypatch.setenv("AMENDS_EVIDENCE_KEY_FILE", str(other))
    with pytest.raises(EvidenceKeyError):
        asyncio.run(run("four"))


def test_the_command_line_makes_it_drives_on_it_and_looks_at_it(shared_server: PostgresServer, tmp_path: Path) -> None:
    shared_server.execute("CREATE DATABASE by_hand")
    address = shared_server.url("by_hand")
    page = tmp_path / "page.yaml"
    page.write_text(
        "version: v1\nsaga: page\nsteps:\n  - id: draft\n    run: [mkdir, draft]\n    compensate: [rmdir, draft]\n"
    )
    before = command("run", "page.yaml", "--journal", address, cwd=tmp_path)
    assert (before.returncode, "amends journal migrate" in before.stderr) == (2, True)
    assert "made a journal" in command("journal", "migrate", "--journal", address).stdout
    assert command("run", "page.yaml", "--journal", address, cwd=tmp_path).returncode == 0
    (row,) = [json.loads(line) for line in command("saga", "list", "--json", "--journal", address).stdout.splitlines()]
    assert (row["definition"], row["status"]) == ("page", "completed")
    verified = command("evidence", "verify", "--journal", address)
    assert (verified.returncode, "as it was signed" in verified.stdout) == (0, True)
    doctor = command("doctor", "--journal", address)
    assert "0 entries without a position" in doctor.stdout
    assert "no worker is known" in command("worker", "list", "--journal", address).stdout


def command(*words: str, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "amends", *words],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=cwd or "/",
        env=dict(os.environ),
        check=False,
    )


def test_workers_and_readers_need_no_more_than_the_rights_of_the_page(
    shared_server: PostgresServer, address: str
) -> None:
    page = (Path(__file__).parents[2] / "docs/do/postgres.md").read_text()
    script = page.split("```text\nCREATE ROLE", 1)[1].split("```")[0]
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE{script}".encode())
    worker, reader = (address.replace("amends_tests@", f"{role}@") for role in ("amends_worker", "amends_reader"))

    async def work() -> None:
        async with Coordinator.open(worker) as coordinator:
            await coordinator.run(fill, ["cup"], fails=True, id="one")
            await coordinator.run(fill, ["cup"], fails=False, id="two")
            removed = await coordinator.journal.remove_payloads(by="person:ann", why="old", ended_before=2**50)
            assert removed.sagas == 2

    async def look() -> None:
        journal = await PostgresJournal.open(reader, SystemClock())
        assert [one.position async for one in journal.log()]
        assert await journal.saga(SagaId("one")) is not None
        with pytest.raises(JournalAccessError, match="may not do that"):
            await journal.enlist("me", 5)
        await journal.close()

    asyncio.run(work())
    asyncio.run(look())
    with psycopg.connect(worker, autocommit=True) as connection:
        for forbidden in (
            "DELETE FROM amends.entry",
            "UPDATE amends.entry SET hash = ''",
            "UPDATE amends.format SET id = 1",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(forbidden.encode())
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("DROP OWNED BY amends_worker, amends_reader")
        connection.execute("DROP ROLE amends_worker, amends_reader")


def test_what_has_no_position_yet_is_told_of_wherever_it_is_left_out(
    shared_server: PostgresServer, address: str, tmp_path: Path
) -> None:
    async def run() -> None:
        async with Coordinator.open(address) as coordinator:
            await coordinator.run(fill, ["cup"], fails=False, id="one")

    asyncio.run(run())
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE ROLE looks LOGIN")
        connection.execute("GRANT USAGE ON SCHEMA amends TO looks")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA amends TO looks")

    async def die_after_an_append() -> None:
        journal = await PostgresJournal.open(address, SystemClock(), inline=True)  # it numbers nothing on its own
        await journal.append(SagaId("two"), [started()], after=0, summary=Summary(status=SagaStatus.COMPLETED))
        assert journal._writer._database is not None
        journal._writer._database.close()
        await journal.close()

    asyncio.run(die_after_an_append())
    reader = address.replace("amends_tests@", "looks@")
    said = "1 entry without a position in the log yet"
    exported = command("evidence", "export", "-o", str(tmp_path / "bundle"), "--journal", reader)
    assert (exported.returncode, said in exported.stderr) == (0, True), exported.stderr
    assert said in command("evidence", "verify", "--journal", reader).stderr
    doctor = command("doctor", "--journal", reader)
    assert said in doctor.stdout
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("DROP OWNED BY looks")
        connection.execute("DROP ROLE looks")
