"""`make bench-server`: 500 sagas a minute with a decision in each, and 200 streams of events, on one server.

The p95 of starting a saga and of granting an approval stands beside the p95 of one commit of a journal on the same
disk, at the same time: each of the two takes three commits in a row (its key, what it does, its answer).
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
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from rich.console import Console

from amends import Coordinator
from bench.figures import Figures

SAGAS_A_MINUTE = 500
SECONDS = float(os.environ.get("BENCH_SECONDS", "30"))
STREAMS = 200
POLICY = """\
version: v1
default: allow
rules: [{id: asked, when: {topic: bench.asked}, decision: require_human}]
"""


def p95(taken: list[float]) -> float:
    return statistics.quantiles(taken, n=20)[-1]


def cli(folder: Path, *words: str) -> str:
    command = [sys.executable, "-m", "amends", *words, "--journal", str(folder / "journal.db")]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def token(folder: Path, name: str, *scopes: str) -> str:
    words = [word for scope in scopes for word in ("--scope", scope)]
    return cli(folder, "token", "create", name, *words, "--by", "person:bench")


@asynccontextmanager
async def served(folder: Path) -> AsyncGenerator[tuple[str, int]]:
    """A server on a new journal: its URL, and its process."""
    words = ["serve", "--module", "bench.server.sagas", "--socket", str(folder / "s"), "--host", "127.0.0.1"]
    words += ["--port", "0", "--env", "production", "--json", "--journal", str(folder / "journal.db")]
    started = await asyncio.create_subprocess_exec(sys.executable, "-m", "amends", *words, stdout=subprocess.PIPE)
    assert started.stdout is not None
    line = await started.stdout.readline()
    try:
        yield str(json.loads(line)["urls"][-1]), started.pid
    finally:
        started.terminate()
        await started.wait()


class Stream:
    """A reader of all events; it counts what comes, and is as cheap as can be."""

    def __init__(self) -> None:
        self.events = 0
        self.completed = 0

    async def read(self, url: str, secret: str, begun: asyncio.Event) -> None:
        host, port = url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = f"GET /v1/events HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {secret}\r\n\r\n"
        writer.write(head.encode())
        while data := await reader.read(1 << 20):
            begun.set()
            self.events += data.count(b"\nevent: ")
            self.completed += data.count(b"\nevent: saga.completed/")


class Asked:
    """A person who is told of questions by the stream, as the console is."""

    def __init__(self) -> None:
        self.sagas: dict[str, asyncio.Event] = {}

    async def listen(self, client: httpx2.AsyncClient, secret: str) -> None:
        headers, name = {"Authorization": f"Bearer {secret}"}, ""
        async with client.stream("GET", "/v1/events", headers=headers) as stream:
            async for line in stream.aiter_lines():
                if line.startswith("event: "):
                    name = line
                elif line.startswith("data: ") and "approval.requested" in name:
                    self.sagas[json.loads(line.removeprefix("data: "))["saga"]].set()


class Load:
    """Agents that start sagas and people that decide, at a steady rate."""

    def __init__(self, url: str, agent: str, person: str) -> None:
        self.url, self.agent, self.person = url, agent, person
        self.asked = Asked()
        self.starts = list[float]()
        self.grants = list[float]()

    async def run(self, client: httpx2.AsyncClient, count: int) -> None:
        listening = asyncio.ensure_future(self.asked.listen(client, self.person))
        since, tasks = time.perf_counter(), list[asyncio.Task[None]]()
        for number in range(count):
            due = since + number * 60 / SAGAS_A_MINUTE
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            tasks.append(asyncio.ensure_future(self._one(client, number)))
        await asyncio.gather(*tasks)
        listening.cancel()

    async def _one(self, client: httpx2.AsyncClient, number: int) -> None:
        body = {"definition": "bench.decided", "input": {"n": number}, "id": f"b-{number}"}
        is_asked = self.asked.sagas[f"b-{number}"] = asyncio.Event()
        self.starts.append(await self._post(client, "/sagas", body, self.agent))
        await is_asked.wait()
        one = f"/approvals/b-{number}/2"
        shown = await self._get(client, one)
        grant = {"digest": shown["digest"]}
        self.grants.append(await self._post(client, f"{one}/grant", grant, self.person))

    async def _post(self, client: httpx2.AsyncClient, path: str, body: dict[str, Any], secret: str) -> float:
        headers = {"Authorization": f"Bearer {secret}", "Idempotency-Key": uuid.uuid4().hex}
        since = time.perf_counter()
        answer = await client.post(f"/v1{path}", json=body, headers=headers)
        if answer.status_code >= 300:
            raise AssertionError(answer.text)
        return time.perf_counter() - since

    async def _get(self, client: httpx2.AsyncClient, path: str) -> dict[str, Any]:
        answer = await client.get(f"/v1{path}", headers={"Authorization": f"Bearer {self.person}"})
        found: dict[str, Any] = answer.raise_for_status().json()
        return found


async def commits(folder: Path, over: asyncio.Event) -> list[float]:
    """Seconds that one commit takes, of a document on a journal on the same disk, again and again."""
    taken = list[float]()
    async with Coordinator.open(str(folder / "beside.db"), signals=False) as beside:
        while not over.is_set():
            since = time.perf_counter()
            await beside.documents.put("bench", {"n": len(taken)})
            taken.append(time.perf_counter() - since)
            await asyncio.sleep(0.05)
    return taken


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def load(folder: Path, url: str, pid: int, figures: Figures) -> None:
    agent, person = token(folder, "agent:bench", "run"), token(folder, "person:anna", "view", "decide")
    count, over = round(SAGAS_A_MINUTE * SECONDS / 60), asyncio.Event()
    streams, begun = [Stream() for _ in range(STREAMS)], [asyncio.Event() for _ in range(STREAMS)]
    reading = [asyncio.ensure_future(one.read(url, person, ready)) for one, ready in zip(streams, begun, strict=True)]
    await asyncio.gather(*(ready.wait() for ready in begun))
    beside = asyncio.ensure_future(commits(folder, over))
    work, since, cpu = Load(url, agent, person), time.perf_counter(), cpu_s(pid)
    async with httpx2.AsyncClient(base_url=url, timeout=60, limits=httpx2.Limits(max_connections=32)) as client:
        await work.run(client, count)
    while min(one.completed for one in streams) < count:
        await asyncio.sleep(0.05)
    took, cpu = time.perf_counter() - since, cpu_s(pid) - cpu
    over.set()
    commit = p95(await beside)
    for task in reading:
        task.cancel()
    figures.at_least("sagas completed a minute, each with a decision", count / took * 60, 0.9 * SAGAS_A_MINUTE, "sagas")
    figures.at_most("CPU of the server for one of them", cpu / count * 1000, 60_000 / SAGAS_A_MINUTE, "ms")
    figures.shown(f"events told to {STREAMS} streams, a second", sum(one.events for one in streams) / took, "events")
    figures.shown("one commit beside it, p95", commit * 1000, "ms")
    for name, taken in (("to start a saga", work.starts), ("to grant an approval", work.grants)):
        figures.shown(f"{name}, median", statistics.median(taken) * 1000, "ms")
        figures.shown(f"{name}, p95", p95(taken) * 1000, "ms")
        figures.at_most(f"{name}, p95 / one commit's", p95(taken) / commit, 25)


async def whole(folder: Path, figures: Figures) -> None:
    (folder / "policy.yaml").write_text(POLICY)
    cli(folder, "policy", "adopt", str(folder / "policy.yaml"), "--why", "bench", "--by", "person:bench")
    async with served(folder) as (url, pid):
        await load(folder, url, pid, figures)


def main() -> int:
    figures = Figures()
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as name:
        asyncio.run(whole(Path(name), figures))
    Console(width=110).print(figures.table)
    return 1 if figures.missed else 0


if __name__ == "__main__":
    sys.exit(main())
