"""`make bench-engines`: the same sagas with an engine beside a worker, and without one, on one PostgreSQL in one run.

One worker process each time, and this process as whoever starts sagas. The CPU of everybody is counted: of both, of
PostgreSQL and of the engine's server, as the system has it on its books.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

from amends import Coordinator
from amends.adapters.engine import SagaEngine
from amends.adapters.restate import RestateEngine, saga_app
from amends.adapters.temporal import TemporalEngine, connected
from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId
from amends.dataclass import dataclass
from amends.journal.port.lists import SagaQuery
from bench import ours
from bench.figures import ROUNDS, Figures
from bench.postgres import used_s
from tests.engines.servers import (
    RestateServer,
    ServerProcess,
    TemporalServer,
    free_ports,
    restate_program,
    temporal_program,
)
from tests.postgres.server import PostgresServer

HERE = Path(__file__).parent.parent
SAGAS = 600
IN_FLIGHT = 64
ALONE = 40
KINDS = ("no engine", "Restate", "Temporal")

Start = Callable[[int, str], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What sagas of five steps cost: CPU in milliseconds for each of them."""

    rate: float
    alone_ms: float
    worker_ms: float
    starter_ms: float
    postgres_ms: float
    engine_ms: float

    @property
    def all_ms(self) -> float:
        return self.worker_ms + self.starter_ms + self.postgres_ms + self.engine_ms


def of_process(pid: int) -> float:
    """Seconds of CPU of one process and all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(float, fields[11:13])) / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def starting(kind: str, coordinator: Coordinator, address: str) -> AsyncGenerator[Start]:
    """How a saga is started, so that the worker drives it."""
    engine: SagaEngine | None = None
    if kind == "Restate":
        engine = RestateEngine(coordinator, address)
    elif kind == "Temporal":
        engine = TemporalEngine(coordinator, await connected(address))

    async def start(number: int, name: str) -> object:
        if engine is not None:
            return await engine.start(ours.five, number, id=name)
        return await coordinator.put_on_record(ours.five, {"first": number}, id=name)

    yield start
    if isinstance(engine, RestateEngine):
        await engine.ingress.close()


async def measured(kind: str, journal: str, address: str, pids: dict[str, int]) -> Cost:
    async with (
        Coordinator.open(journal, signals=False) as coordinator,
        starting(kind, coordinator, address) as start,
    ):
        await all_of(coordinator, start, "warm", 32)
        before = used(pids)
        since = time.perf_counter()
        await all_of(coordinator, start, "many", SAGAS)
        took = time.perf_counter() - since
        each = {name: (now - before[name]) / SAGAS * 1000 for name, now in used(pids).items()}
        alone = [await one(coordinator, start, f"alone-{number}") for number in range(ALONE)]
    return Cost(
        rate=SAGAS / took,
        alone_ms=statistics.median(alone),
        worker_ms=each["worker"],
        starter_ms=each["starter"],
        postgres_ms=each["postgres"],
        engine_ms=each.get("engine", 0.0),
    )


def used(pids: dict[str, int]) -> dict[str, float]:
    return {name: used_s(pid) if name == "postgres" else of_process(pid) for name, pid in pids.items()}


async def all_of(coordinator: Coordinator, start: Start, name: str, count: int) -> None:
    """Start so many, a few at a time, and wait until the last one is over."""
    lanes = asyncio.Semaphore(IN_FLIGHT)

    async def begin(number: int) -> None:
        async with lanes:
            await start(number, f"{name}-{number}")

    await asyncio.gather(*map(begin, range(count)))
    query = SagaQuery(definition="bench.five", statuses=(SagaStatus.RUNNING,), limit=1)
    while (await coordinator.journal.sagas(query)).rows:
        await asyncio.sleep(0.02)


async def one(coordinator: Coordinator, start: Start, name: str) -> float:
    """Milliseconds from the start of a saga, with nothing else under way, to its end as it is on record."""
    since = time.time() * 1000
    await start(1, name)
    while (row := await coordinator.journal.saga(SagaId(name))) is None or row.ended_at is None:
        await asyncio.sleep(0.005)
    return row.ended_at - since


def of(kind: str, postgres: PostgresServer) -> Cost:
    journal, port = postgres.url(postgres.make_database()), free_ports(1)[0]
    with ExitStack() as stack:
        server: ServerProcess | None = None
        if kind != "no engine":
            server = stack.enter_context(RestateServer() if kind == "Restate" else TemporalServer())
        address = "" if server is None else server.address
        words = [sys.executable, "-m", "bench.engines", "worker", kind, journal, address, str(port)]
        worker = stack.enter_context(subprocess.Popen(words, cwd=HERE, stdout=subprocess.PIPE, text=True))
        stack.callback(worker.send_signal, signal.SIGINT)  # Restate's SDK takes SIGTERM to itself
        assert worker.stdout is not None
        worker.stdout.readline()
        if isinstance(server, RestateServer):
            server.register(f"http://127.0.0.1:{port}")
        pids = {"worker": worker.pid, "starter": os.getpid(), "postgres": postgres.pid}
        return asyncio.run(measured(kind, journal, address, pids | ({} if server is None else {"engine": server.pid})))


async def be_worker(kind: str, journal: str, address: str, port: int) -> None:
    told = asyncio.Event()
    opened = Coordinator.open(journal, signals=False)
    if kind == "Restate":
        await serve(opened, address, port, told)
        return
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, told.set)
    async with opened as coordinator:
        if kind == "Temporal":
            working = asyncio.ensure_future(TemporalEngine(coordinator, await connected(address)).work())
        else:
            working = asyncio.ensure_future(coordinator.work())
        print("ready", flush=True)
        await told.wait()
        working.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await working


async def serve(opened: object, address: str, port: int, told: asyncio.Event) -> None:
    from hypercorn.asyncio import serve as served
    from hypercorn.config import Config

    config = Config()
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        config.bind, config.errorlog = [f"fd://{listening.detach()}"], None
    print("ready", flush=True)
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, told.set)
    await served(saga_app(opened, ingress=address), config, shutdown_trigger=told.wait)  # type: ignore[arg-type]  # it is one


def versions() -> str:
    said = [
        subprocess.run([str(program), "--version"], check=True, capture_output=True, text=True).stdout.split("\n")[0]
        for program in (restate_program(), temporal_program())
    ]
    packages = [f"{name} {version(name)}" for name in ("restate-sdk", "temporalio")]
    return "; ".join([*said, *packages, f"Python {platform.python_version()}", f"{os.cpu_count()} processors"])


def main() -> int:
    figures, costs = Figures(), dict[str, list[Cost]]()
    with PostgresServer() as postgres, tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = folder
        for _ in range(ROUNDS):
            for kind in KINDS:
                costs.setdefault(kind, []).append(of(kind, postgres))
    best = {kind: min(found, key=lambda cost: cost.all_ms) for kind, found in costs.items()}
    for kind, cost in best.items():
        figures.shown(f"{kind}: sagas of five steps a second, one worker", max(c.rate for c in costs[kind]), "sagas/s")
        figures.shown(f"{kind}: from start to end of one alone, p50", min(c.alone_ms for c in costs[kind]), "ms")
        figures.shown(f"{kind}: CPU for each saga", cost.all_ms, "ms")
        figures.shown(f"{kind}: of it, worker", cost.worker_ms, "ms")
        figures.shown(f"{kind}: of it, whoever starts", cost.starter_ms, "ms")
        figures.shown(f"{kind}: of it, PostgreSQL", cost.postgres_ms, "ms")
        if cost.engine_ms:
            figures.shown(f"{kind}: of it, the engine's server", cost.engine_ms, "ms")
    for kind in KINDS[1:]:
        more = best[kind].all_ms - best["no engine"].all_ms
        figures.at_most(f"{kind}: CPU more for each saga than without", more, 180, "ms")
    console = Console(width=120)
    console.print(figures.table)
    console.print(versions())
    return 1 if figures.missed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        asyncio.run(be_worker(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5])))
    else:
        sys.exit(main())
