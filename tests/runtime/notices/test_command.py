"""A command as a target: told by its standard input, by nobody's shell, for a bounded time."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from amends.errors import InputError
from amends.notify import Command
from amends.notify.notice import Notice
from amends.notify.target import Delivered, Delivery, Undelivered

NOTICE = Notice(id="amends_7_ab", type="incident.opened", at=1_700_000_000_007, about="s/1", data={"saga": "s"})


def tell(command: Command) -> Delivery:
    return asyncio.run(command.deliver(NOTICE, 0))


def python(text: str, *words: str, **options: Any) -> Command:
    return Command([sys.executable, "-c", text, *words], **options)


def test_it_is_given_the_notice_on_its_standard_input_and_its_words_as_they_are(tmp_path: Path) -> None:
    into = tmp_path / "told"
    write = "import sys; open(sys.argv[1], 'w').write(sys.argv[2] + sys.stdin.read())"
    assert tell(python(write, str(into), "$HOME; `id` *|")) == Delivered()
    words, _, body = into.read_text(encoding="utf-8").partition("|")
    assert (words, json.loads(body)["id"]) == ("$HOME; `id` *", "amends_7_ab")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("raise SystemExit(3)", "it ended with exit code 3"),
        ("import os; os.kill(os.getpid(), 9)", "it was ended by signal 9"),
    ],
)
def test_any_other_end_than_exit_code_0_is_not_delivered(text: str, why: str) -> None:
    assert tell(python(text)) == Undelivered(why)


def test_one_that_reads_nothing_is_delivered_all_the_same() -> None:
    assert tell(python("import os; os.close(0)")) == Delivered()


def test_one_that_is_not_there() -> None:
    assert tell(Command(["/no/such/program"])) == Undelivered("it cannot be started: No such file or directory")


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in {"Z", "X"}


FAMILY = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
stay = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)"
child = subprocess.Popen([sys.executable, "-c", stay])
with open(sys.argv[1], "w") as pids:
    pids.write(f"{os.getpid()} {child.pid}")
os.rename(sys.argv[1], sys.argv[2])
time.sleep(60)
"""


def pids_in(path: Path) -> list[int]:
    until = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    return [int(pid) for pid in path.read_text(encoding="ascii").split()]


def test_when_its_time_is_up_it_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    command = python(FAMILY, str(tmp_path / "made"), str(tmp_path / "pids"), timeout_s=3)
    assert tell(command) == Undelivered("it was not done in 3 s, and was ended")
    for pid in pids_in(tmp_path / "pids"):
        until = time.monotonic() + 10
        while is_alive(pid):
            assert time.monotonic() < until
            time.sleep(0.01)


def test_when_the_telling_is_cancelled_it_is_ended_too(tmp_path: Path) -> None:
    command = python(FAMILY, str(tmp_path / "made"), str(tmp_path / "pids"))

    async def whole() -> list[int]:
        telling = asyncio.ensure_future(command.deliver(NOTICE, 0))
        pids = await asyncio.to_thread(pids_in, tmp_path / "pids")
        telling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await telling
        return pids

    for pid in asyncio.run(whole()):
        until = time.monotonic() + 10
        while is_alive(pid):
            assert time.monotonic() < until
            time.sleep(0.01)


def test_what_it_leaves_running_is_not_waited_for() -> None:
    lingering = "import subprocess, sys; print(subprocess.Popen(['sleep', '5']).pid)"
    begun = time.monotonic()
    assert tell(python(lingering, timeout_s=4)) == Delivered()
    assert time.monotonic() - begun < 4


def test_of_what_it_says_the_end_is_logged_and_cannot_hold_it_up(caplog: pytest.LogCaptureFixture) -> None:
    chatter = "import sys; print('x' * 5_000_000); print('bad \\x1b[31mnews', file=sys.stderr); sys.exit(1)"
    with caplog.at_level(logging.WARNING, "amends.notices"):
        assert tell(python(chatter)) == Undelivered("it ended with exit code 1")
    (record,) = caplog.records
    said = record.getMessage()
    assert said.endswith("bad \\x1b[31mnews")
    assert len(said) < 2500


def test_no_file_is_left_open(tmp_path: Path) -> None:
    async def whole() -> None:
        for words in (["true"], ["/no/such/program"], ["false"]):
            await Command(words).deliver(NOTICE, 0)

    before = len(list(Path("/proc/self/fd").iterdir()))
    asyncio.run(whole())
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize("words", [[], "notify-send hello", [""], ["a\0b"]])
def test_a_command_is_a_list_of_words(words: Any) -> None:
    with pytest.raises(InputError, match="a list of words"):
        Command(words)


def test_a_list_or_a_log_shows_no_more_than_the_program() -> None:
    command = Command(["/usr/bin/page", "--token", "t0p"])
    assert (command.shown, "t0p" in repr(command)) == ("/usr/bin/page …", False)
    assert command.name.startswith("page-")
    assert Command(["page"]).shown == "page"
