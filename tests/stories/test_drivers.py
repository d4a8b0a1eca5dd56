"""Who drives a saga, and until when: told while somebody does, and told when nobody does any more."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.shell import PATIENCE_S, Shell

MODULE = """
import time
from pathlib import Path

from amends import Done, Work, action, saga


@action("slow.call", timeout=None, idempotent=True)
def call() -> str:
    Path("called").touch()
    while not Path("answered").exists():
        time.sleep(0.02)
    return "done"


@call.compensation
def uncall(done: Done) -> None: ...


@saga("slow")
async def slow(s: Work) -> str:
    return await s.do(call)


@saga("nap")
async def nap(s: Work) -> None:
    await s.sleep(3600)
"""


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    (tmp_path / "slow.py").write_text(MODULE, encoding="utf-8")
    return Shell(tmp_path)


def started(shell: Shell) -> subprocess.Popen[bytes]:
    """A process that drives a saga, and is in the middle of its only step."""
    words = [sys.executable, "-m", "amends.cli.main", "run", "slow:slow", "--id", "one", "--lease", "90s"]
    process = subprocess.Popen(words, cwd=shell.place, stdout=subprocess.DEVNULL)
    until = time.monotonic() + PATIENCE_S
    while not (shell.place / "called").exists():
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.02)
    return process


def test_who_drives_is_told_and_a_driver_that_is_gone_is_told_as_such(shell: Shell) -> None:
    with started(shell) as process:
        now = time.time() * 1000
        shown = shell("saga", "show", "one")
        assert "status      running" in shown.out
        assert f"driver      process {process.pid} until " in shown.out
        (row,) = shell("saga", "list", "--json").of_type("saga")
        assert (row["status"], row["driver"]["state"], row["driver"]["pid"]) == ("running", "drives", process.pid)
        assert now < row["driver"]["until_at"] <= time.time() * 1000 + 90_000
        assert f"driver: process {process.pid} until " in shell("saga", "list").out
        assert f"process {process.pid} until " in shell("saga", "watch", "--once").out
        process.send_signal(signal.SIGKILL)
    shown = shell("saga", "show", "one")
    assert "status      driver gone" in shown.out
    assert "it was running, and goes on with amends resume slow" in shown.out
    listed = shell("saga", "list")
    assert "driver gone" in listed.out
    assert "go on with: amends resume slow" in listed.out
    assert "running" not in listed.out
    watched = shell("saga", "watch", "--once")
    assert "driver gone" in watched.out
    assert "go on with: amends resume slow" in watched.out
    (told,) = shell("saga", "watch", "--once", "--json").of_type("driver")
    assert (told["saga"], told["state"], told["until_at"]) == ("one", "gone", None)
    (row,) = shell("saga", "show", "one", "--json").of_type("saga")
    assert (row["status"], row["driver"]["state"], row["driver"]["until_at"]) == ("running", "gone", None)
    (shell.place / "answered").touch()
    assert shell("resume", "slow").code == 0
    (row,) = shell("saga", "list", "--json").of_type("saga")
    assert (row["status"], row["driver"]) == ("completed", None)
    assert "driver" not in shell("saga", "show", "one").out


def test_a_saga_that_waits_is_not_gone_and_says_what_goes_on_with_it(shell: Shell) -> None:
    assert shell("run", "slow:nap", "--id", "nap").code == 6
    shown = shell("saga", "show", "nap")
    assert "status      waiting" in shown.out
    assert "driver      nobody just now; once it is due, amends resume slow goes on" in shown.out
    (row,) = shell("saga", "list", "--json").of_type("saga")
    assert (row["status"], row["driver"]["state"]) == ("waiting", "gone")


def test_a_watch_hears_of_a_driver_that_goes(shell: Shell) -> None:
    words = [sys.executable, "-m", "amends.cli.main", "saga", "watch", "one", "--json"]
    with (
        started(shell) as process,
        subprocess.Popen(words, cwd=shell.place, stdout=subprocess.PIPE, text=True) as watch,
    ):
        assert watch.stdout is not None
        for line in watch.stdout:
            if '"type": "driver"' in line and '"drives"' in line:
                process.send_signal(signal.SIGKILL)
            elif '"type": "driver"' in line:
                assert '"state": "gone"' in line
                break
        watch.terminate()
