"""A journal that many fight for: whoever lives keeps its sagas, and the evidence is what it was."""

import asyncio
import importlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from amends import Coordinator, SagaStatus, Settings
from tests.cli.shell import Shell

MODULE = """
import asyncio
import sys
from pathlib import Path

from amends import Coordinator, Done, Settings, Work, action, saga


@action("slow.call", timeout=None, idempotent=True)
async def call(n: int) -> int:
    with Path("called").open("a") as file:
        file.write(f"{n}\\n")
    while not Path("answered").exists():
        await asyncio.sleep(0.05)
    return n


@call.compensation
async def uncall(done: Done) -> None: ...


@saga("slow")
async def slow(s: Work, n: int) -> int:
    return await s.do(call, n)


@saga("nap")
async def nap(s: Work) -> str:
    await s.sleep(1)
    return "rested"


async def worker(many: int) -> None:
    async with Coordinator.open("amends.db", signals=False, settings=Settings(lease_s=8)) as coordinator:
        _ = await coordinator.start(nap, id="nap")
        handles = [await coordinator.start(slow, n, id=f"slow-{n}") for n in range(many)]
        print("begun", flush=True)
        print(*sorted({str((await handle).status) for handle in handles}), flush=True)


async def writer() -> None:
    Path("answered").touch()
    async with Coordinator.open("amends.db", signals=False) as coordinator:
        n = 0
        while True:
            await asyncio.gather(*(coordinator.run(slow, n + k, id=f"w-{n + k}") for k in range(8)))
            n += 8
            print(n, flush=True)


async def rival(times: int) -> None:
    taken = []
    async with Coordinator.open("amends.db", signals=False) as coordinator:
        for _ in range(times):
            taken += [one.id for one in await coordinator.resume() if one.id != "nap"]
            await asyncio.sleep(0.05)
    print(*taken or ["none"])


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]](*map(int, sys.argv[2:])))
"""
HOLDER = """
import sqlite3, time
writer = sqlite3.connect("amends.db", isolation_level=None, timeout=10)
while True:
    writer.execute("BEGIN IMMEDIATE")
    print("held", flush=True)
    time.sleep(0.5)
    writer.execute("COMMIT")
    time.sleep(0.1)
"""


def begun(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    (folder / "slow.py").write_text(MODULE)
    command = [sys.executable, *(arguments if arguments[0] == "-c" else ("slow.py", *arguments))]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)


def heard(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def calls(folder: Path) -> int:
    file = folder / "called"
    return len(file.read_text().splitlines()) if file.exists() else 0


async def until_called(folder: Path, times: int) -> None:
    async with asyncio.timeout(60):
        while calls(folder) < times:
            await asyncio.sleep(0.05)


def test_another_worker_finds_nothing_to_take_while_the_journal_is_fought_for(tmp_path: Path) -> None:
    worker = begun(tmp_path, "worker", "10")
    assert heard(worker) == "begun"
    asyncio.run(until_called(tmp_path, 10))
    holder = begun(tmp_path, "-c", HOLDER)
    assert heard(holder) == "held"
    rival = begun(tmp_path, "rival", "30")
    try:
        taken, _ = rival.communicate(timeout=60)  # what it takes, it would wait for
    finally:
        for one in (holder, rival):
            one.kill()
            one.communicate()
        (tmp_path / "answered").touch()
    assert (taken.split(), heard(worker), calls(tmp_path)) == (["none"], "completed", 10)
    worker.communicate()


def test_after_a_kill_long_calls_do_not_keep_the_rest_waiting(tmp_path: Path) -> None:
    worker = begun(tmp_path, "worker", "12")
    assert heard(worker) == "begun"

    async def whole() -> None:
        await until_called(tmp_path, 12)
        os.kill(worker.pid, signal.SIGKILL)
        worker.communicate()
        sys.path.insert(0, str(tmp_path))
        importlib.import_module("slow")  # what the other process has run
        settings = Settings(resumed_at_once=4)
        os.chdir(tmp_path)
        async with Coordinator.open("amends.db", signals=False, settings=settings) as other:
            working = asyncio.ensure_future(other.work())
            async with asyncio.timeout(60):
                while (await other.show("nap")).status is not SagaStatus.COMPLETED:
                    await asyncio.sleep(0.05)
            await until_called(tmp_path, 24)
            (tmp_path / "answered").touch()
            working.cancel()

    home, path = Path.cwd(), list(sys.path)
    try:
        asyncio.run(whole())
    finally:
        os.chdir(home)
        sys.path[:] = path
        sys.modules.pop("slow", None)


def test_evidence_is_verified_while_others_write(tmp_path: Path) -> None:
    writer = begun(tmp_path, "writer")
    amends = Shell(tmp_path)
    try:
        for _ in range(3):
            assert heard(writer)
            verified = amends("evidence", "verify")
            assert (verified.code in {0, 7}, "NOT as it was signed" in verified.out) == (True, False), verified
            assert writer.poll() is None
    finally:
        writer.kill()
        writer.communicate()
    assert amends("evidence", "verify").code in {0, 7}
