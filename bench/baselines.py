"""The two baselines: what a careful person writes by hand, and the least that a durable group commit can cost."""

from __future__ import annotations

import asyncio
import hashlib
import json
import queue
import threading
from pathlib import Path
from typing import Any

import apsw

STEPS = 5


def _open(path: Path) -> apsw.Connection:
    db = apsw.Connection(str(path))
    for pragma in ("synchronous=EXTRA", "journal_mode=WAL"):
        db.execute(f"PRAGMA {pragma}").fetchall()
    db.execute("CREATE TABLE entry (saga TEXT, number INT, name TEXT, body TEXT, hash BLOB, PRIMARY KEY (saga, number))")
    return db


def by_hand(path: Path, sagas: int) -> None:
    """Two commits a step: the intent before the call, the outcome after it."""
    db = _open(path)

    def write(saga: str, number: int, name: str, body: dict[str, Any]) -> None:
        db.execute("BEGIN IMMEDIATE")
        db.execute("INSERT INTO entry VALUES (?, ?, ?, ?, NULL)", (saga, number, name, json.dumps(body)))
        db.execute("COMMIT")

    for number in range(sagas):
        saga = f"saga-{number}"
        for step in range(STEPS):
            write(saga, 2 * step, "intent", {"topic": "bench.step", "args": {"n": step}, "key": f"{saga}:{step}"})
            write(saga, 2 * step + 1, "outcome", {"result": step})
    db.close()


class RawWriter:
    """One thread that commits everything waiting in one transaction. No leases, no fence, no states, no lists."""

    def __init__(self, path: Path) -> None:
        self._db = _open(path)
        self._queue: queue.SimpleQueue[tuple[list[tuple[Any, ...]], asyncio.Future[None]] | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    async def append(self, rows: list[tuple[Any, ...]]) -> None:
        future: asyncio.Future[None] = self._loop.create_future()
        self._queue.put((rows, future))
        await future

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            batch = [item]
            while not self._queue.empty():
                item = self._queue.get()
                if item is None:
                    self._queue.put(None)
                    break
                batch.append(item)
            self._db.execute("BEGIN IMMEDIATE")
            rows = [row for each, _ in batch for row in each]
            self._db.executemany("INSERT INTO entry VALUES (?, ?, ?, ?, ?)", rows)
            self._db.execute("COMMIT")
            self._loop.call_soon_threadsafe(_acknowledge, [future for _, future in batch])

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()
        self._db.close()


def _acknowledge(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        future.set_result(None)


async def raw_saga(writer: RawWriter, saga: str) -> None:
    """An intent, then for each step its outcome and the next intent in one append, each hashed onto the one before."""
    previous = b""
    number = 0

    def row(name: str, body: dict[str, Any]) -> tuple[Any, ...]:
        nonlocal previous, number
        text = json.dumps(body)
        previous = hashlib.sha256(previous + text.encode()).digest()
        number += 1
        return (saga, number, name, text, previous)

    rows = [row("intent", {"topic": "bench.step", "args": {"n": 0}, "key": f"{saga}:0"})]
    for step in range(STEPS):
        await writer.append(rows)
        await _call(step)
        rows = [row("outcome", {"result": step})]
        if step < STEPS - 1:
            rows.append(row("intent", {"topic": "bench.step", "args": {"n": step + 1}, "key": f"{saga}:{step + 1}"}))
    await writer.append(rows)


async def _call(step: int) -> int:
    return step
