"""`make bench-postgres`: the same sagas on PostgreSQL, beside our own SQLite, and beside DBOS on the same server.

The server is the tests' own, with its disk waited for. Workers behind a proxy that makes each COMMIT slow show whether
they queue for each other: so slow that the processors are idle most of the time, which is shown, too.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psycopg
from rich.console import Console

from amends import Coordinator
from amends.clock import SystemClock
from amends.core.transitions import SagaStatus
from amends.journal.port.lists import SagaQuery
from amends.journal.postgres import PostgresJournal
from bench import ours
from bench.figures import ROUNDS, Figures
from tests.postgres.proxy import Proxy
from tests.postgres.server import PostgresServer

HERE = Path(__file__).parent.parent
IN_FLIGHT = 256
SAGAS = 2048
DELAY_S = 0.1
WORKERS = (1, 4, 8)
LANES = 16
SECONDS = 6.0
FEW, MANY = 1_000, 1_000_000


async def of_ours(address: str) -> tuple[float, float]:
    """Sagas a second, and how many milliseconds one alone takes."""
    async with Coordinator.open(address, signals=False) as opened:
        await ours.run_lanes(opened, 16, 16)
        since = time.perf_counter()
        await ours.run_lanes(opened, SAGAS, IN_FLIGHT)
        rate, alone = SAGAS / (time.perf_counter() - since), list[float]()
        for n in range(100):
            since = time.perf_counter()
            await opened.run(ours.five, n)
            alone.append((time.perf_counter() - since) * 1000)
    return rate, statistics.median(alone)


def of_dbos(python: str, server: PostgresServer, sagas: int = 512) -> float:
    server.execute("DROP DATABASE IF EXISTS dbos WITH (FORCE)")
    server.execute("CREATE DATABASE dbos")
    with tempfile.TemporaryDirectory() as folder:
        told = subprocess.run(
            [python, "-m", "bench.peers.of_dbos", folder, str(sagas)],
            cwd=HERE,
            env={**os.environ, "BENCH_DBOS_URL": server.url("dbos")},
            check=True,
            capture_output=True,
            text=True,
        )
    return float(json.loads(told.stdout.splitlines()[-1])["sagas_a_second"])


async def worker(address: str) -> None:
    """One worker of the slowed ones: so many sagas side by side, until its time is up; says how many it did."""
    async with Coordinator.open(address, signals=False) as opened:
        await opened.run(ours.five, 0)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        before = time.process_time()
        ends, done = time.perf_counter() + SECONDS, 0

        async def lane() -> None:
            nonlocal done
            while time.perf_counter() < ends:
                await opened.run(ours.five, 1)
                done += time.perf_counter() < ends

        await asyncio.gather(*(lane() for _ in range(LANES)))
        print(done, time.process_time() - before, flush=True)


def slowed(server: PostgresServer, workers: int) -> tuple[float, float]:
    """Sagas a second of so many workers behind slow commits, and what share of the processors all of it took."""
    with Proxy(server.port, commit_delay_s=DELAY_S) as proxy:
        address = server.url(server.make_database(), port=proxy.port)
        words = [sys.executable, "-m", "bench.postgres", "worker", address]
        started = [
            subprocess.Popen(words, cwd=HERE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(workers)
        ]
        for one in started:
            assert one.stdout is not None
            one.stdout.readline()
        before = used_s(server.pid) + time.process_time()
        for one in started:
            assert one.stdin is not None
            one.stdin.write("\n")
            one.stdin.flush()
        told = [one.communicate()[0].split()[-2:] for one in started]
        used = used_s(server.pid) + time.process_time() - before + sum(float(cpu) for _, cpu in told)
    return sum(int(done) for done, _ in told) / SECONDS, used / SECONDS / (os.cpu_count() or 1)


def used_s(pid: int) -> float:
    """Seconds of CPU of the server: of its processes that live, and of those that have ended."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    ticks = 0.0
    for one in (str(pid), *children):
        fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(float, fields[11:15] if one == str(pid) else fields[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def filled(server: PostgresServer, sagas: int) -> str:
    """A journal with so many sagas that have ended, as rows."""
    address = server.url(server.make_database())
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(
            """
            INSERT INTO amends.saga (name, head, hash, epoch, worker, nudged, status, definition, version, env, actor,
                                     labels, started_at, updated_at, ended_at)
            SELECT 'bench-' || n, 0, '', 1, '', false, 'completed', 'bench.d' || n %% 10, 1,
                   CASE n %% 2 WHEN 0 THEN 'production' ELSE 'staging' END, 'system:bench', '{}', n, n, n
              FROM generate_series(1, %s::bigint) AS n
            """,
            (sagas,),
        )
        connection.execute("VACUUM ANALYZE amends.saga")
    return address


async def looked(address: str) -> dict[str, float]:
    """Milliseconds of pages and of a sweep for what is left, the best of many."""
    journal = await PostgresJournal.open(address, SystemClock())
    best: dict[str, float] = {}
    for _ in range(40):
        for name, query in {
            "all": SagaQuery(),
            "status": SagaQuery(statuses=(SagaStatus.COMPLETED,)),
            "definition": SagaQuery(definition="bench.d3"),
        }.items():
            since = time.perf_counter()
            await journal.sagas(query)
            best[name] = min(best.get(name, 9e9), (time.perf_counter() - since) * 1000)
        since = time.perf_counter()
        await journal.claim("worker-bench")
        best["sweep"] = min(best.get("sweep", 9e9), (time.perf_counter() - since) * 1000)
    await journal.close()
    return best


def main(python: str | None) -> int:
    figures, here, there, peer = Figures(), list[tuple[float, float]](), list[tuple[float, float]](), list[float]()
    with PostgresServer() as server, tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = folder
        for turn in range(ROUNDS):
            here.append(asyncio.run(of_ours(f"{folder}/{turn}.db")))
            there.append(asyncio.run(of_ours(server.url(server.make_database()))))
            if python is not None:
                peer.append(of_dbos(python, server))
        rate, alone = max(one for one, _ in there), min(one for _, one in there)
        figures.shown("sagas a second on PostgreSQL, 256 in flight", rate, "sagas/s")
        figures.at_least("the same / on our own SQLite", rate / max(one for one, _ in here), 0.5)
        figures.at_most("one saga alone, p50 / on our own SQLite", alone / min(one for _, one in here), 2.5)
        if peer:
            figures.at_least("sagas a second / DBOS on the same PostgreSQL", rate / max(peer), 5.0)
        rates = dict[int, float]()
        for workers in WORKERS:
            rates[workers], share = slowed(server, workers)
            figures.shown(
                f"{workers} workers, commits of {DELAY_S * 1000:g} ms, {LANES} in flight each",
                rates[workers],
                "sagas/s",
            )
            figures.at_most("share of the processors that it took", share, 0.5 if workers <= 4 else 1.0)
        figures.at_least("4 workers / 1 worker", rates[4] / rates[1], 3.0)
        few, many = (asyncio.run(looked(filled(server, count))) for count in (FEW, MANY))
        worst = max((name for name in few if name != "sweep"), key=lambda name: many[name] / few[name])
        figures.at_most("a list page among 1,000,000 ended sagas / 1,000", many[worst] / few[worst], 2.0)
        figures.at_most("a recovery sweep among 1,000,000 ended sagas / 1,000", many["sweep"] / few["sweep"], 2.0)
    Console(width=120).print(figures.table)
    return 1 if figures.missed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        asyncio.run(worker(sys.argv[2]))
    else:
        sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else None))
