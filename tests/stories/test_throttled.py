"""A rule that lets one pass an hour: what everybody sees of a saga that has to wait for it, and that it survives."""

import signal
import sqlite3
from pathlib import Path

import pytest

from tests.cli.shell import Shell

TOOLS = """
from pathlib import Path

from amends import Work, action, saga


@action("mail.send", no_rollback="a mail cannot be unsent")
def send(to: str) -> None:
    with Path("sent").open("a") as file:
        print(to, file=file)


@saga("mail.one")
async def one(s: Work, to: str) -> None:
    await s.do(send, to)
"""
POLICY = """
version: v1
default: allow
rules:
  - id: one-an-hour
    when: {topic: mail.*}
    decision: throttle
    rate: {max: 1, per: 1h}
"""
HOUR_MS = 3_600_000


@pytest.fixture
def amends(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture
def throttled(amends: Shell) -> Shell:
    """One mail is out, and a second saga has been told to wait."""
    (amends.place / "tools.py").write_text(TOOLS, encoding="utf-8")
    (amends.place / "policy.yaml").write_text(POLICY, encoding="utf-8")
    assert amends("policy", "adopt", "policy.yaml", "--why", "slowly", "--by", "person:ann").code == 0
    assert amends("run", "tools:one", "--input", '{"to": "ann"}', "--id", "a").code == 0
    return amends


def let_an_hour_pass(place: Path) -> None:
    """As if all that was dispatched, and all that waits for it, had been an hour ago."""
    with sqlite3.connect(place / "amends.db") as journal:
        journal.execute("UPDATE admission SET at = at - ?1, until = until - ?1", (HOUR_MS,))
        journal.execute("UPDATE saga SET wake_at = wake_at - ?1", (HOUR_MS,))


def test_a_saga_that_waits_for_a_rate_says_so_wherever_somebody_looks(throttled: Shell) -> None:
    amends = throttled
    said = amends("run", "tools:one", "--input", '{"to": "bob"}', "--id", "b")
    assert said.code == 6, said
    assert "send to=bob waits 60 min for rule one-an-hour (1 per 1 h), until " in said.out
    assert "saga b waiting: mail.send waits for rule one-an-hour (1 per 1 h)" in said.out
    assert "it may go on at " in said.out
    assert said.out.rstrip().endswith(": amends resume tools")
    shown = amends("saga", "show", "b").out
    assert "status      waiting" in shown
    assert "mail.send waits for rule one-an-hour (1 per 1 h); it may go on at " in shown
    (row,) = [line for line in amends("saga", "list", "--status", "waiting").out.splitlines() if line.startswith("b ")]
    assert " for rule one-an-hour" in row
    assert " for rule one-an-hour (1 per 1 h)" in amends("saga", "watch", "--once").out
    (entry,) = [each for each in amends("saga", "show", "b", "--json").of_type("entry") if "throttled" in each["name"]]
    assert {name: entry["body"][name] for name in ("rule", "most", "per_s")} == {
        "rule": "one-an-hour", "most": 1, "per_s": 3600.0
    }  # fmt: skip
    assert amends("resume", "tools").out == "nothing to resume\n", "it is not due"
    let_an_hour_pass(amends.place)
    assert amends("resume", "tools").code == 0
    assert (amends.place / "sent").read_text().split() == ["ann", "bob"]


def test_a_wait_for_a_rate_survives_a_kill_and_is_judged_again_when_it_is_due(throttled: Shell) -> None:
    amends = throttled
    with amends.started("run", "tools:one", "--input", '{"to": "bob"}', "--id", "b", "--wait") as process:
        assert process.stdout is not None
        while "waits 60 min for rule" not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait(60)
    again = amends("resume", "tools")
    assert again.code == 6, "the rate still says no"
    assert "mail.send waits for rule one-an-hour" in again.out
    throttles = [each for each in amends("saga", "show", "b", "--json").of_type("entry") if "throttled" in each["name"]]
    assert len(throttles) == 1, "what is on record is not told twice"
    let_an_hour_pass(amends.place)
    assert amends("resume", "tools").code == 0
    assert (amends.place / "sent").read_text().split() == ["ann", "bob"]


def test_a_saga_that_waits_for_a_rate_is_cancelled_and_paused_at_once(throttled: Shell) -> None:
    amends = throttled
    assert amends("run", "tools:one", "--input", '{"to": "bob"}', "--id", "b").code == 6
    assert amends("pause", "--saga", "b", "--why", "a look", "--by", "person:ann").code == 0
    assert "status      paused" in amends("saga", "show", "b").out
    assert amends("unpause", "--saga", "b", "--by", "person:ann").code == 0
    assert amends("saga", "cancel", "b", "--module", "tools", "--why", "no", "--by", "person:ann").code == 0
    assert "status      rolled back" in amends("saga", "show", "b").out
    assert (amends.place / "sent").read_text().split() == ["ann"]
