"""What stops an operator at two in the morning, and that the doctor names each with what to do about it."""

import asyncio
import sqlite3
import time
from pathlib import Path

import pytest

from amends.addresses import open_journal
from amends.clock import SystemClock
from amends.core.events import Event
from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId
from amends.journal.clocks import CLOCKS
from amends.journal.port.journal import Summary
from amends.journal.sqlite.file import open_to_read
from amends.operate import health, outside
from amends.operate.findings import Checkup
from amends.testing.journal_suite.samples import opened, requested, started
from tests.cli.shell import PATIENCE_S, Shell

FLAKY = """
from amends import Retries, Work, action, saga


@action("svc.call", atomic=True, retries=Retries(first_s=0.5))
def call() -> None:
    raise OSError("down")


@saga("svc.use")
async def use(s: Work) -> None:
    await s.do(call)
"""


@pytest.fixture
def amends(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def checks(amends: Shell, *words: str) -> dict[str, dict[str, str]]:
    return {each["name"]: each for each in amends("doctor", "--json", *words).of_type("check")}


def test_a_retry_that_is_overdue_because_its_process_died(amends: Shell) -> None:
    (amends.place / "flaky.py").write_text(FLAKY, encoding="utf-8")
    with amends.started("run", "flaky:use", "--id", "left") as process:
        assert process.stdout is not None
        while "again in" not in process.stdout.readline():
            assert process.poll() is None
        process.kill()
        process.wait(PATIENCE_S)
    ends = time.monotonic() + PATIENCE_S
    while (found := checks(amends)["leases"])["state"] == "ok":
        assert time.monotonic() < ends, found
    assert found["state"] == "wrong"
    assert found["found"].startswith("nobody has taken up what is due: left (svc.use); the longest for ")
    assert found["do"].startswith("amends resume")


def test_a_key_that_is_gone_and_one_of_another_journal(amends: Shell) -> None:
    assert amends("run", "shop:chat").code == 0
    assert checks(amends)["key"]["state"] == "ok"
    key = amends.place / "amends.db.key"
    kept = key.read_bytes()
    key.unlink()
    assert amends("run", "shop:chat").code == 2, "nothing can run"
    found = checks(amends)["key"]
    assert found["state"] == "wrong"
    assert found["found"] == f"{key}: the key that signs the journal is not there"
    assert found["do"].startswith("nothing can run until then: put it back")
    assert found["do"].endswith("amends evidence rotate --lost")
    assert not key.exists(), "who looks makes nothing"
    assert amends("run", "shop:chat", "--journal", "other.db").code == 0
    key.write_bytes((amends.place / "other.db.key").read_bytes())
    key.chmod(0o600)
    found = checks(amends)["key"]
    assert (found["state"], found["found"].partition(":")[0]) == (
        "wrong",
        "the key that is there is not the one that signs",
    )
    key.write_bytes(kept)
    assert checks(amends)["key"]["state"] == "ok"


def test_a_journal_of_a_newer_version_and_a_damaged_one(amends: Shell) -> None:
    assert amends("run", "shop:chat").code == 0
    path = amends.place / "amends.db"
    with sqlite3.connect(path) as journal:
        known = journal.execute("PRAGMA user_version").fetchone()[0]
        journal.execute("PRAGMA user_version = 99")
    found = checks(amends)["settings"]
    assert "was written by a newer version of amends" in found["found"]
    assert found["do"].startswith("nothing was changed; install the amends that wrote it, or a newer one")
    with sqlite3.connect(path) as journal:
        journal.execute(f"PRAGMA user_version = {known}")
        journal.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    path.write_bytes(path.read_bytes()[:8192] + b"\xff" * 8192 + path.read_bytes()[16384:])
    wrong = [each for each in amends("doctor", "--json").of_type("check") if each["state"] == "wrong"]
    assert wrong
    advice = [each["do"] for each in wrong if each["name"] in {"settings", "file", "chain"}]
    assert any("copy the file with its -wal before anything else" in do for do in advice), wrong
    assert not any("docs/" in each["do"] + each["found"] for each in wrong), "who installed a wheel has no docs"


def set_clock(path: Path, by_s: float) -> None:
    """As if the clock on the wall had been set since the journal noted both of the machine's."""

    async def whole() -> None:
        journal = await open_journal(str(path), SystemClock(), signs=False)
        (kept,) = await journal.cursors(CLOCKS)
        await journal.move_cursor(CLOCKS, kept.position - round(by_s * 1000), note=kept.note)
        await journal.close()

    asyncio.run(whole())


def test_a_clock_that_was_set_back_or_forth(amends: Shell) -> None:
    assert amends("run", "shop:chat").code == 0
    assert checks(amends)["clock"]["found"] == "no entry is from the future, and nobody has set the clock"
    set_clock(amends.place / "amends.db", 10_800)
    found = checks(amends)["clock"]
    assert (found["state"], found["found"]) == (
        "look",
        "the clock was set forth by 3 h since this journal was last written to",
    )
    set_clock(amends.place / "amends.db", -21_600)
    found = checks(amends)["clock"]
    assert found["state"] == "wrong"
    assert found["found"] == "the clock was set back by 3 h since this journal was last written to"
    assert "NTP" in found["do"]


def test_the_policy_that_is_named_is_looked_at_and_not_adopted(amends: Shell) -> None:
    assert "it is not adopted" in " ".join(amends("doctor", "--help").out.split())
    assert amends("run", "shop:chat").code == 0
    (amends.place / "policy.yaml").write_text("version: v1\ndefault: allow\nrules: []\n", encoding="utf-8")
    assert checks(amends, "--policy", "policy.yaml")["policy"]["state"] == "wrong"
    assert checks(amends)["policy"]["found"] == "the built-in one"
    assert "docs/" not in checks(amends)["policy"]["do"]


def test_more_is_open_than_one_page_of_it(amends: Shell) -> None:
    """Two pages and a half of people's questions are counted as what they are."""

    async def given() -> None:
        journal = await open_journal(str(amends.place / "amends.db"), SystemClock())
        for number in range(125):
            begun: list[Event] = [started(), opened(1), opened(2), requested()]
            await journal.append(SagaId(f"s-{number}"), begun, after=0, summary=Summary(status=SagaStatus.INCIDENT))
        await journal.close()

    asyncio.run(given())
    found = checks(amends)
    assert found["incidents"]["found"].startswith("250 open, the oldest for ")
    assert found["approvals"]["found"].startswith("125 open, the oldest for ")


def test_a_log_that_a_long_reader_keeps_from_shrinking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside, "LARGEST_LOG", 6_000_000)
    path = tmp_path / "amends.db"

    async def logs() -> list[str]:
        journal = await open_journal(str(path), SystemClock())
        reading = open_to_read(path, busy_timeout_s=0, vfs=None)
        reading.run("BEGIN")
        reading.rows("SELECT count(*) FROM entry")
        for number in range(12):
            begun = [started(about=" ".join(str(one * 7919 + number) for one in range(70_000)))]
            await journal.append(SagaId(f"s-{number}"), begun, after=0, summary=Summary(status=SagaStatus.RUNNING))
        seen = await health.examine(Checkup(str(path), None, "given", "given", None, ""))
        reading.close()
        await journal.close()
        return [f"{one.state} {one.found}" for one in seen if one.name == "log"]

    (said,) = asyncio.run(logs())
    assert said.startswith(f"look {path}-wal has ")
    assert "somebody has been reading the journal in one go for long" in said
