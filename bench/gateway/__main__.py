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
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
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
IN_A_ROW = 25
PAUSE_S = 0.001
WARM = 30
ROUNDS = 3
UPSTREAM = [sys.executable, "-m", "bench.gateway.upstream"]
Commit = Callable[[int], Awaitable[None]]
CONTRACTS = """\
version: v1
tools: {bench.put: {compensate: {tool: bench.drop, args: {key: "${result.key}"}}}}
"""


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def children() -> set[int]:
    """The processes that this one has started."""
    return set(map(int, Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()))


@dataclass(slots=True)
class Between:
    """A process that stands between the client and the server."""

    client: Client
    pid: int
    cpu_before: float = 0.0

    async def calls(self, numbers: range) -> float:
        """Seconds of a call, by the median."""
        took = list[float]()
        for number in numbers:
            began = time.perf_counter()
            answer = await self.client.call_tool("put", {"key": f"k{number}", "value": number})
            took.append(time.perf_counter() - began)
            assert not answer.is_error, answer
        return statistics.median(took)


@asynccontextmanager
async def started(command: list[str], env: dict[str, str]) -> AsyncGenerator[Between]:
    known = children()
    asked = StdioServerParameters(command=command[0], args=command[1:], env={**os.environ, **env})
    async with Client(asked, cache=None) as client:
        await client.list_tools()
        (pid,) = children() - known
        made = Between(client, pid)
        await made.calls(range(-WARM, 0))
        made.cpu_before = cpu_s(pid)
        yield made


def contracts_in(folder: Path) -> Path:
    file = folder / "contracts.yaml"
    file.write_text(CONTRACTS)
    file.chmod(0o600)
    return file


@asynccontextmanager
async def bare_commits(folder: Path) -> AsyncGenerator[Commit]:
    """A bare commit of a small row, awaited through a writer's thread."""
    writer = RawWriter(folder / "bare.db")

    async def commit(number: int) -> None:
        await writer.append([("bare", number, "bare", "x" * 600, b"")])

    try:
        yield commit
    finally:
        writer.close()


@asynccontextmanager
async def own_commits(folder: Path) -> AsyncGenerator[Commit]:
    """One append of the journal that the gateway has: its entry, the saga's row, what proves it."""
    journal = await open_journal(str(folder / "own.db"), SystemClock())
    running, saga = Summary(SagaStatus.RUNNING), SagaId("bare")
    begun = SagaStarted(definition="bench", version=1, input=None, actor="agent:bench", env="", labels={})
    await journal.append(saga, [begun], after=0, summary=running)

    async def commit(number: int) -> None:
        said = BudgetSpent(place=StepId(str(number)), what="x" * 600)
        await journal.append(saga, [said], after=number, summary=running)

    try:
        yield commit
    finally:
        await journal.close()


async def commits_s(commit: Commit, numbers: range) -> float:
    """Seconds of a commit, by the median; as far apart as those of calls are."""
    took = list[float]()
    for number in numbers:
        await asyncio.sleep(PAUSE_S)
        began = time.perf_counter()
        await commit(number)
        took.append(time.perf_counter() - began)
    return statistics.median(took)


@dataclass(frozen=True, slots=True)
class Turn:
    """Some commits and calls of each kind, one kind after the other: all of them in one mood of the machine."""

    bare_s: float
    own_s: float
    proxy_s: float
    gateway_s: float


async def measured(folder: Path) -> tuple[list[Turn], float]:
    """Turns; and the CPU of the gateway by that of the proxy."""
    file = contracts_in(folder)
    through_proxy = [sys.executable, "-m", "bench.gateway.proxy", *UPSTREAM]
    wrap = [sys.executable, "-m", "amends", "mcp", "wrap", "--name", "bench", "--contracts", str(file)]
    async with (
        bare_commits(folder) as bare,
        own_commits(folder) as own,
        started(through_proxy, {}) as proxy,
        started([*wrap, "--", *UPSTREAM], {"AMENDS_JOURNAL": str(folder / "amends.db")}) as gateway,
    ):
        turns = list[Turn]()
        for since in range(1, CALLS + 1, IN_A_ROW):
            row = range(since, since + IN_A_ROW)
            turns.append(
                Turn(
                    await commits_s(bare, row),
                    await commits_s(own, row),
                    await proxy.calls(row),
                    await gateway.calls(row),
                )
            )
        proxy_cpu, gateway_cpu = ((cpu_s(one.pid) - one.cpu_before) / CALLS for one in (proxy, gateway))
    bare_s, own_s, proxy_s, gateway_s = (
        statistics.median(getattr(one, name) for one in turns) * 1e3
        for name in ("bare_s", "own_s", "proxy_s", "gateway_s")
    )
    print(
        f"bare proxy {proxy_s:.2f} ms ({proxy_cpu * 1e3:.2f} ms CPU), gateway {gateway_s:.2f} ms "
        f"({gateway_cpu * 1e3:.2f} ms CPU), a bare commit {bare_s:.2f} ms, one of the journal {own_s:.2f} ms"
    )
    return turns, gateway_cpu / proxy_cpu


def quartiles(figures: Iterable[float]) -> str:
    low, middle, high = statistics.quantiles(figures, n=4)
    return f"{middle:.2f} (half of the turns between {low:.2f} and {high:.2f})"


async def main() -> None:
    turns, cpus = list[Turn](), list[float]()
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as made:
            found, cpu = await measured(Path(made))
        turns += found
        cpus.append(cpu)
    added = [one.gateway_s - one.proxy_s for one in turns]
    bare = quartiles(one / turn.bare_s for one, turn in zip(added, turns, strict=True))
    own = quartiles(one / turn.own_s for one, turn in zip(added, turns, strict=True))
    print(f"added per call / a bare commit: {bare}")
    print(f"the same / one of the journal: {own}, aim: 2")
    print(f"CPU of the gateway / of a bare proxy: {statistics.median(cpus):.2f} ({min(cpus):.2f} at best), aim: 2")


if __name__ == "__main__":
    asyncio.run(main())
