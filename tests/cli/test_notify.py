"""`amends notify`: whom to tell, once or until told to stop; and how that stands."""

import json
import signal
import time
from typing import IO, cast

import pytest

from tests.cli.shell import PATIENCE_S, Shell
from tests.runtime.notices.receiver import SECRET, receiving

ENV = {"AMENDS_WEBHOOK_SECRET": SECRET}


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMENDS_WEBHOOK_SECRET", SECRET)


def test_once_tells_what_waits_for_people_and_then_what_is_new(amends: Shell) -> None:
    amends.incident()
    with receiving() as receiver:
        said = amends.here("notify", "--webhook", receiver.url, "--once")
        assert (said.code, said.err) == (0, "")
        assert said.out[21:] == f"incident.opened tidy/1  http://localhost:{receiver.port}/…  told\n"
        assert receiver.came[0].verified()["data"]["incident"] == "tidy/1"
        assert amends.here("notify", "--webhook", receiver.url, "--once").out == ""
        assert amends.here("run", "shop:tidy", "--id", "again").code == 4
        said = amends.here("notify", "--webhook", receiver.url, "--once", "--json")
    assert said.records == [
        {
            "type": "notice",
            "notice": "incident.opened",
            "id": receiver.came[1].id,
            "about": "again/1",
            "target": said.records[0]["target"],
            "delivered": True,
            "why": "",
        }
    ]


def test_what_is_left_is_told_by_the_exit_code_and_by_status(amends: Shell) -> None:
    amends.incident()
    with receiving(503, 503) as receiver:
        words = ("notify", "--webhook", receiver.url, "--once", "--name", "ops")
        said = amends.here(*words)
        assert (said.code, said.out.endswith("not told: it answered 503\n")) == (6, True)
        status = amends.here("notify", "status").out.splitlines()
        assert status[0] == f"target      ops  http://localhost:{receiver.port}/…"
        assert [line[:12].strip() for line in status] == [
            "target", "told of", "position", "last told", "pending", "failing"
        ]  # fmt: skip
        assert status[3:5] == ["last told   never", status[4]]
        assert status[4].startswith("pending     1, since ")
        assert status[5].startswith("failing     1 try, last ")
        assert status[5].endswith(": it answered 503")
        assert amends.here(*words).code == 6
        assert amends.here(*words).code == 0
    (record,) = amends.here("notify", "status", "--json").records
    assert (record["name"], record["pending"], record["tries"], record["error"]) == ("ops", 0, 0, "")
    assert record["delivered_at"] > 0
    assert amends.here("notify", "forget", "ops").code == 0
    assert amends.here("notify", "status").out == "nobody was ever told anything\n"
    assert amends.here("notify", "forget", "ops").complaint.startswith("no target is called ops; ")


def test_a_notice_that_is_given_up_stays_on_view(amends: Shell) -> None:
    amends.incident()
    words = ("notify", "--command", "false", "--give-up", "1s", "--once")
    assert amends.here(*words).code == 6
    time.sleep(1)
    assert amends.here(*words).code == 0
    given_up = next(line for line in amends.here("notify", "status").out.splitlines() if line.startswith("given up"))
    assert given_up.startswith("given up    1, last incident.opened tidy/1 (amends_")
    assert given_up.endswith("): it ended with exit code 1")


def test_a_command_is_told_until_a_sigterm(amends: Shell) -> None:
    assert amends.here("run", "shop:chat").code == 0
    (amends.place / "tell.py").write_text(
        "import sys; open(sys.argv[1], 'a').write(sys.stdin.read() + '\\n')", encoding="utf-8"
    )
    with amends.started("notify", "--command", "python3 tell.py 'told of it'") as telling:
        stderr, stdout = cast("IO[str]", telling.stderr), cast("IO[str]", telling.stdout)
        assert stderr.readline() == "amends: telling 1 of what is new in amends.db; Ctrl-C stops\n"
        amends.incident()
        assert stdout.readline().endswith("incident.opened tidy/1  python3 …  told\n")
        told = json.loads((amends.place / "told of it").read_text(encoding="utf-8"))
        assert told["data"]["kind"] == "compensation_failed"
        telling.send_signal(signal.SIGTERM)
        assert telling.wait(PATIENCE_S) == 143
    assert '"holder": ""' in amends.here("notify", "status", "--json").out


def test_ctrl_c_ends_it_too(amends: Shell) -> None:
    assert amends.here("run", "shop:chat").code == 0
    with amends.started("notify", "--command", "true") as telling:
        cast("IO[str]", telling.stderr).readline()
        telling.send_signal(signal.SIGINT)
        assert telling.wait(PATIENCE_S) == 130


def test_the_url_may_come_from_the_environment_and_the_secret_from_a_file(
    amends: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    amends.incident()
    file = amends.place / "secret"
    file.touch(mode=0o600)
    file.write_text(SECRET, encoding="ascii")
    monkeypatch.delenv("AMENDS_WEBHOOK_SECRET")
    with receiving() as receiver:
        monkeypatch.setenv("AMENDS_WEBHOOK", receiver.url)
        assert amends.here("notify", "--secret-file", str(file), "--once").code == 0
    assert receiver.came[0].verified()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((), "name whom to tell: --webhook URL, --slack URL, --command WORDS or --file PATH; see amends notify --help"),
        (("--webhook", "http://example.com/token"), "a webhook to example.com has to be https; "),
        (("--command", "'"), "--command cannot be split into words: No closing quotation"),
        (("--command", ""), "a command is a list of words: "),
        (("--command", "true", "--give-up", "soon"), "--give-up 'soon' is no time; write 3d, 12h or 90m"),
        (("--command", "true", "--type", "incident"), "'incident' is no type of notice; "),
        (("--command", "true", "--timeout", "0"), "timeout_s is 0; "),
        (("--command", "true", "--command", "false", "--name", "x"), "two targets are called x; "),
        (("--webhook", "https://example.com", "--secret-env", "NOPE"), "the environment has no NOPE, "),
        (("--webhook", "https://example.com", "--secret-file", "nope"), "the webhook secret in nope cannot be read: "),
        (("--journal", "amends.db", "status"), "write the options of status after it; see amends notify --help"),
    ],
)
def test_whatever_is_wrong_is_one_line(amends: Shell, words: tuple[str, ...], complaint: str) -> None:
    assert amends.here("run", "shop:chat").code == 0
    assert amends.here("notify", *words).complaint.startswith(complaint)


def test_a_journal_that_is_not_there_is_not_made(amends: Shell) -> None:
    for words in (("--command", "true"), ("status",), ("forget", "x")):
        assert amends.here("notify", *words).complaint.startswith("there is no journal amends.db")
    assert not (amends.place / "amends.db").exists()
