"""The two baselines: what a careful person writes by hand, and the least that a durable group commit can cost."""

from __future__ import annotations

import asyncio
import hashlib
import json
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

STEPS = 5
Row = tuple[str, int, str, str, bytes]


def _open(path: Path) -> apsw.Connection:
    db = apsw.Connection(str(path))
    for pragma in ("synchronous=EXTRA", "journal_mode=WAL"):
        db.execute(f"PRAGMA {pragma}").fetchall()
    db.execute(
        "CREATE TABLE entry (saga TEXT, number INT, name TEXT, body TEXT, hash BLOB, PRIMARY KEY (saga, number))"
    )
    return db


def _committing(db: apsw.Connection) -> Callable[[str, int, str, dict[str, Any]], None]:
    """A function that writes an entry in a commit of its own."""

    def write(saga: str, number: int, name: str, body: dict[str, Any]) -> None:
        db.execute("BEGIN IMMEDIATE")
        db.execute("INSERT INTO entry VALUES (?, ?, ?, ?, NULL)", (saga, number, name, json.dumps(body)))
        db.execute("COMMIT")

    return write


def by_hand(path: Path, sagas: int) -> None:
    """Two commits a step: the intent before the call, the outcome after it."""
    db = _open(path)
    write = _committing(db)
    for number in range(sagas):
        saga = f"saga-{number}"
        for step in range(STEPS):
            write(saga, 2 * step, "intent", {"topic": "bench.step", "args": {"n": step}, "key": f"{saga}:{step}"})
            write(saga, 2 * step + 1, "outcome", {"result": step})
    db.close()


def by_hand_and_back(path: Path, sagas: int) -> None:
    """The last step fails and the others are compensated, newest first: two commits for each of these too."""
    db = _open(path)
    write = _committing(db)
    for each in range(sagas):
        saga, number = f"saga-{each}", 0
        for step in range(STEPS):
            write(saga, number, "intent", {"topic": "bench.step", "args": {"n": step}, "key": f"{saga}:{step}"})
            write(saga, number + 1, "outcome", {"result": step} if step < STEPS - 1 else {"failed": "the last one"})
            number += 2
        for step in reversed(range(STEPS - 1)):
            taken: dict[str, Any] = {"args": {"n": step}, "result": step, "key": f"{saga}:{step}:back"}
            write(saga, number, "compensation", {"step": step, **taken})
            write(saga, number + 1, "compensated", {"step": step})
            number += 2
    db.close()


class RawWriter:
    """One thread commits all that waits in one transaction: chained entries, each append fenced by the saga's head.

    What a durable, fenced group commit costs at the least: no states, no plans, no leases, no lists, no retries.
    """

    def __init__(self, path: Path) -> None:
        self._db = _open(path)
        self._db.execute("CREATE TABLE head (saga TEXT PRIMARY KEY, number INT, hash BLOB) WITHOUT ROWID")
        self._queue: queue.SimpleQueue[tuple[list[Row], asyncio.Future[None]] | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    async def append(self, rows: list[Row]) -> None:
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
            for rows, _ in batch:
                self._fence(rows)
            self._db.executemany("INSERT INTO entry VALUES (?, ?, ?, ?, ?)", [row for rows, _ in batch for row in rows])
            self._db.execute("COMMIT")
            self._loop.call_soon_threadsafe(_acknowledge, [future for _, future in batch])

    def _fence(self, rows: list[Row]) -> None:
        saga, first = rows[0][:2]
        newest, hashed = rows[-1][1], rows[-1][4]
        if first == 1:
            self._db.execute("INSERT INTO head VALUES (?, ?, ?)", (saga, newest, hashed))
            return
        fence = "UPDATE head SET number = ?, hash = ? WHERE saga = ? AND number = ?"
        self._db.execute(fence, (newest, hashed, saga, first - 1))
        if self._db.changes() != 1:
            raise AssertionError(f"{saga} moved")

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

    def row(name: str, body: dict[str, Any]) -> Row:
        nonlocal previous, number
        number += 1
        text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        previous = hashlib.sha256(previous + f"{saga} {number} {name} {text}".encode()).digest()
        return (saga, number, name, text, previous)

    def intent(step: int) -> Row:
        args = {"n": step}
        digest = hashlib.sha256(json.dumps(args, sort_keys=True).encode()).hexdigest()[:32]
        key = hashlib.sha256(f"{saga} {step}".encode()).hexdigest()[:32]
        body = {"step": str(step), "topic": "bench.step", "version": 1, "args": args, "digest": digest, "key": key}
        return row("action.dispatched/1", body)

    rows = [intent(0)]
    for step in range(STEPS):
        await writer.append(rows)
        result = await _call(step)
        rows = [row("attempt.succeeded/1", {"step": str(step), "attempt": 1, "result": result})]
        if step < STEPS - 1:
            rows.append(intent(step + 1))
    await writer.append(rows)


async def bare_commits(writer: RawWriter, saga: str) -> None:
    """As many commits as a five-step saga has, each of one small entry, each awaited before the next."""
    for number in range(1, STEPS + 2):
        await writer.append([(saga, number, "bare", "{}", b"")])


async def _call(step: int) -> int:
    return step
