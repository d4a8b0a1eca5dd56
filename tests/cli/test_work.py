"""`amends work`: a process on duty takes up what others left, and what becomes due; it ends when it is told to."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import IO, cast

from tests.cli.shell import PATIENCE_S, Shell

POST = """
from pathlib import Path
from amends import Work, action, saga

@action("mail.send", no_rollback="a mail cannot be unsent")
def send(to: str) -> None:
    with Path("world.txt").open("a") as world:
        world.write(f"mail {to}\\n")

@saga("post.mail")
async def mail(s: Work) -> None:
    await s.do(send, "ann")
"""

GRANT = """
import asyncio
from amends import Coordinator

async def main():
    async with Coordinator.open("amends.db") as desk:
        await desk.grant("m-1/1", by="person:ana")

asyncio.run(main())
"""


def wait_for(there: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not there():
        assert time.monotonic() < until
        time.sleep(0.02)


def line_of(stream: IO[str] | None) -> str:
    return cast("IO[str]", stream).readline()


def park(amends: Shell) -> None:
    """Leave a saga behind that waits for people, and whose process got a SIGKILL."""
    (amends.place / "post.py").write_text(POST, encoding="utf-8")
    with amends.started("run", "post:mail", "--env", "production", "--id", "m-1") as process:
        wait_for(lambda: '"status": "waiting"' in amends.here("saga", "list", "--json").out)
        process.kill()
        assert process.wait(PATIENCE_S) == -signal.SIGKILL


LEFT = """
import os
from pathlib import Path
from amends import Work, action, saga

@action("left.read", read_only=True)
def read() -> int:
    if not Path("tried").exists():
        Path("tried").touch()
        os.kill(os.getpid(), 9)
    return {}["nope"]

@saga("left.reads")
async def reads(s: Work) -> int:
    return await s.do(read)
"""


def test_its_stderr_is_a_log_and_has_the_tracebacks_of_users_code(amends: Shell) -> None:
    (amends.place / "left.py").write_text(LEFT, encoding="utf-8")
    assert amends("run", "left:reads", "--id", "l-1").code == -signal.SIGKILL
    with amends.started("work", "--module", "left") as worker:
        assert line_of(worker.stdout).startswith(
            "saga l-1 rolled back: left.read: KeyError: 'nope' (left.py:11, in read)"
        )
        worker.send_signal(signal.SIGTERM)
        logged = cast("IO[str]", worker.stderr).read()
        worker.wait(PATIENCE_S)
    assert "saga l-1: step 1 (left.read) raised KeyError: 'nope' (left.py:11, in read)\nTraceback" in logged
    assert '    return {}["nope"]\n' in logged
    assert "not shown" not in logged


def test_what_people_approve_after_a_kill_is_done_once_by_whoever_is_on_duty(amends: Shell) -> None:
    (amends.place / "amends.db").touch(mode=0o600)
    park(amends)
    with amends.started("work", "--module", "post") as worker:
        assert line_of(worker.stderr) == "amends: driving what is due in amends.db; Ctrl-C stops\n"
        subprocess.run([sys.executable, "-c", GRANT], cwd=amends.place, timeout=PATIENCE_S, check=True)
        assert line_of(worker.stdout) == "saga m-1 completed\n"
        assert amends.world == ["mail ann"]
        worker.terminate()
        assert worker.wait(PATIENCE_S) == -signal.SIGTERM
    assert amends.here("resume", "post").out == "nothing to resume\n"
    assert amends.world == ["mail ann"]


def test_a_second_one_on_a_file_says_that_it_is_for_safety_and_not_for_speed(amends: Shell) -> None:
    (amends.place / "post.py").write_text(POST, encoding="utf-8")
    (amends.place / "amends.db").touch(mode=0o600)
    with amends.started("work", "--module", "post") as first:
        assert line_of(first.stderr) == "amends: driving what is due in amends.db; Ctrl-C stops\n"
        wait_for(lambda: f'"pid": {first.pid}' in amends.here("worker", "list", "--json").out)
        with amends.started("work", "--module", "post") as second:
            line_of(second.stderr)
            told = line_of(second.stderr)
            second.terminate()
            second.wait(PATIENCE_S)
        first.terminate()
        first.wait(PATIENCE_S)
    assert told == (
        f"amends: 1 more on this file (process {first.pid}): that is for safety, not for speed; one process does as "
        "much as several\n"
    )


def test_on_a_sigterm_what_runs_is_drained(amends: Shell) -> None:
    amends.kill_in_the_middle("d-1")
    source = (amends.place / "shop.py").read_text(encoding="utf-8")
    repeatable = source.replace('@action("lorry.wait")', '@action("lorry.wait", idempotent=True)')
    (amends.place / "shop.py").write_text(repeatable, encoding="utf-8")
    with amends.awaiting_lorry("unload", "--id", "u-1") as process:
        process.kill()
        process.wait(PATIENCE_S)
    with amends.started("work", "--module", "shop", "--json") as worker:
        stderr = cast("IO[str]", worker.stderr)
        while "the lorry is awaited" not in stderr.readline():
            assert worker.poll() is None
        worker.terminate()
        amends.let_lorry_come()
        assert worker.wait(PATIENCE_S) == -signal.SIGTERM
    assert "lorry.wait        succeeded" in amends.here("saga", "show", "u-1").out


def test_ctrl_c_ends_it_too(amends: Shell) -> None:
    assert amends.here("run", "shop:chat").code == 0
    with amends.started("work", "--module", "shop") as worker:
        line_of(worker.stderr)
        worker.send_signal(signal.SIGINT)
        assert worker.wait(PATIENCE_S) == 130


def test_a_journal_that_is_not_there_is_not_made(amends: Shell) -> None:
    assert amends.here("work", "--module", "shop").complaint.startswith("there is no journal amends.db")
    assert not (amends.place / "amends.db").exists()


def test_a_saga_from_a_file_needs_no_module(amends: Shell) -> None:
    step = "{id: w, shell: 'test -e go || { echo on; sleep 600; }', read_only: true}"
    text = f"version: v1\nsaga: wait\nsteps:\n  - {step}\n"
    (amends.place / "wait.yaml").write_text(text, encoding="utf-8")
    with amends.started("run", "wait.yaml", "--id", "w-1") as process:
        while "on" not in line_of(process.stdout).split("│")[-1].split():
            pass
        process.kill()
        process.wait(PATIENCE_S)
    (amends.place / "go").touch()
    (amends.place / "wait.yaml").unlink()
    with amends.started("work") as worker:
        assert line_of(worker.stdout) == "saga w-1 completed\n"
