"""`make bench-gateway`: a call through the gateway beside one through a bare proxy, with the same client and server.

What the gateway adds is to stay within two commits of the journal; its process, within twice the CPU of the proxy's.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters

from amends.addresses import open_journal
from amends.clock import SystemClock
from amends.core.events import BudgetSpent, SagaStarted
from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId, StepId
from amends.journal.port.entries import Summary
from bench.baselines import RawWriter

CALLS = 1000
PAUSE_S = 0.001
ROUNDS = 3
UPSTREAM = [sys.executable, "-m", "bench.gateway.upstream"]
CONTRACTS = """\
version: v1
tools: {bench.put: {compensate: {tool: bench.drop, args: {key: "${result.key}"}}}}
"""


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def child() -> int:
    """The process that the client has started."""
    (found,) = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    return int(found)


async def measured(command: list[str], env: dict[str, str]) -> tuple[float, float]:
    """Seconds a call, by the median, and of CPU in the process that stands between."""
    asked = StdioServerParameters(command=command[0], args=command[1:], env={**os.environ, **env})
    async with Client(asked, cache=None) as client:
        await client.list_tools()
        for number in range(30):
            await client.call_tool("put", {"key": f"w{number}", "value": number})
        pid = child()
        took, since = list[float](), cpu_s(pid)
        for number in range(CALLS):
            began = time.perf_counter()
            answer = await client.call_tool("put", {"key": f"k{number}", "value": number})
            took.append(time.perf_counter() - began)
            assert not answer.is_error, answer
        return statistics.median(took), (cpu_s(pid) - since) / CALLS


def contracts_in(folder: Path) -> Path:
    file = folder / "contracts.yaml"
    file.write_text(CONTRACTS)
    file.chmod(0o600)
    return file


async def commit_s(folder: Path) -> float:
    """A bare commit of a small row, awaited through a writer's thread, as far apart as those of calls are."""
    writer = RawWriter(folder / "bare.db")
    took = list[float]()
    for number in range(1, CALLS + 1):
        await asyncio.sleep(PAUSE_S)
        began = time.perf_counter()
        await writer.append([("bare", number, "bare", "x" * 600, b"")])
        took.append(time.perf_counter() - began)
    writer.close()
    return statistics.median(took)


async def own_commit_s(folder: Path) -> float:
    """One append of the journal that the gateway has, as far apart: its entry, the saga's row, what proves it."""
    journal = await open_journal(str(folder / "own.db"), SystemClock())
    running, saga, took = Summary(SagaStatus.RUNNING), SagaId("bare"), list[float]()
    begun = SagaStarted(definition="bench", version=1, input=None, actor="agent:bench", env="", labels={})
    await journal.append(saga, [begun], after=0, summary=running)
    for number in range(1, CALLS + 1):
        await asyncio.sleep(PAUSE_S)
        said = BudgetSpent(place=StepId(str(number)), what="x" * 600)
        began = time.perf_counter()
        await journal.append(saga, [said], after=number, summary=running)
        took.append(time.perf_counter() - began)
    await journal.close()
    return statistics.median(took)


async def main() -> None:
    added, cpus, commits, own = list[float](), list[float](), list[float](), list[float]()
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            file = contracts_in(folder)
            commits.append(await commit_s(folder))
            own.append(await own_commit_s(folder))
            bare, bare_cpu = await measured([sys.executable, "-m", "bench.gateway.proxy", *UPSTREAM], {})
            wrap = [sys.executable, "-m", "amends", "mcp", "wrap", "--name", "bench", "--contracts", str(file)]
            ours, our_cpu = await measured([*wrap, "--", *UPSTREAM], {"AMENDS_JOURNAL": str(folder / "amends.db")})
            added.append(ours - bare)
            cpus.append(our_cpu / bare_cpu)
            print(
                f"bare proxy {bare * 1e3:.2f} ms ({bare_cpu * 1e3:.2f} ms CPU), gateway {ours * 1e3:.2f} ms "
                f"({our_cpu * 1e3:.2f} ms CPU), a bare commit {commits[-1] * 1e3:.2f} ms, one of the journal "
                f"{own[-1] * 1e3:.2f} ms"
            )
    bare_commits = sorted(one / other for one, other in zip(added, commits, strict=True))
    own_commits = sorted(one / other for one, other in zip(added, own, strict=True))
    cpus.sort()
    print(f"added per call / a bare commit: {bare_commits[0]:.1f} at best, {statistics.median(bare_commits):.1f}")
    print(f"the same / one of the journal: {own_commits[0]:.1f} at best, {statistics.median(own_commits):.1f} (aim: 2)")
    print(f"CPU of the gateway / of a bare proxy: {cpus[0]:.2f} at best, {statistics.median(cpus):.2f} (aim: 2)")


if __name__ == "__main__":
    asyncio.run(main())
