"""Workers of the tests, in processes of their own, and the world that their sagas change: files named by keys."""

import asyncio
import multiprocessing
import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from multiprocessing.process import BaseProcess
from pathlib import Path

import amends
from amends import Asked, Coordinator, Done, Fatal, Happened, NotHappened, Settings, Work, action, saga
from amends.clock import SystemClock
from amends.journal.port.lists import SagaQuery
from amends.journal.postgres import PostgresJournal
from amends.journal.tree import Tree, leaf

SETTINGS = Settings(lease_s=3.0, poll_s=0.2, drain_s=2.0)
STEPS = 5
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.postgres.programs", "amends.journal.postgres"])


def world() -> Path:
    return Path(os.environ["AMENDS_TEST_WORLD"])


@action("world.put", idempotent=True)
async def put(number: int, step: int, slow_s: float) -> str:
    await asyncio.sleep(slow_s)
    begun = world().with_name(f"{world().name}-{os.getpid()}-{amends.key()}")
    begun.write_text(f"{number}/{step}")
    begun.replace(world() / amends.key())  # it took effect whole, or not at all
    return amends.key()


@put.compensation
async def take(done: Done) -> None:
    (world() / done.action_key).unlink(missing_ok=True)


@put.probe
async def find(asked: Asked) -> Happened | NotHappened:
    return Happened(asked.key) if (world() / asked.key).exists() else NotHappened()


@action("world.refuse", atomic=True)
async def refuse() -> None:
    raise Fatal("it is full", happened=False)


@refuse.compensation
async def unrefuse(done: Done) -> None: ...


@saga("world.fill")
async def fill(s: Work, number: int, slow_s: float) -> int:
    for step in range(STEPS):
        await s.do(put, number, step, slow_s)
    if number % 3 == 0:
        await s.do(refuse)
    return number


def _live(address: str, environment: dict[str, str]) -> None:
    os.environ.update(environment)

    async def work() -> None:
        async with Coordinator.open(address, settings=SETTINGS) as coordinator:
            await coordinator.work()

    asyncio.run(work())


def start_worker(address: str, environment: dict[str, str]) -> BaseProcess:
    worker = CONTEXT.Process(target=_live, args=(address, environment), daemon=True)
    worker.start()
    return worker


@contextmanager
def workers(address: str, environment: dict[str, str], count: int) -> Generator[list[BaseProcess]]:
    """So many of them, which the test may kill and replace; what is left is ended."""
    living = [start_worker(address, environment) for _ in range(count)]
    try:
        yield living
    finally:
        for one in living:
            if one.pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(one.pid, 18)  # one that was stopped would not hear the other one
            one.terminate()
        for one in living:
            one.join(20)
            if one.is_alive():
                one.kill()
                one.join(5)


def begin(address: str, count: int, *, first: int = 0, slow_s: float = 0.01) -> None:
    """Start sagas here, and leave them to the workers; each is acknowledged when this returns."""

    async def started() -> None:
        coordinator = await Coordinator.open(address, settings=SETTINGS)
        try:
            handles = [await coordinator.start(fill, n, slow_s, id=f"saga-{n}") for n in range(first, first + count)]
            for handle in handles:
                while await coordinator.journal.saga(handle.id) is None:
                    await asyncio.sleep(0.01)
        finally:
            await coordinator.close()

    asyncio.run(started())


async def statuses(journal: PostgresJournal) -> dict[str, str]:
    rows = (await journal.sagas(SagaQuery(definition="world.fill", limit=5_000))).rows
    return {str(row.id): str(row.status) for row in rows}


def until(true: Callable[[], bool], within_s: float, what: str) -> None:
    ends = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < ends, what
        time.sleep(0.05)


def until_ended(address: str, count: int, within_s: float = 120.0) -> dict[str, str]:
    async def waited() -> dict[str, str]:
        journal = await PostgresJournal.open(address, SystemClock())
        try:
            ends = time.monotonic() + within_s
            while True:
                found = await statuses(journal)
                if len(found) == count and set(found.values()) <= {"completed", "rolled_back"}:
                    return found
                assert time.monotonic() < ends, found
                await asyncio.sleep(0.1)
        finally:
            await journal.close()

    return asyncio.run(waited())


def require_accounted(found: dict[str, str]) -> None:
    """Every effect stands where its saga is complete, none where it was taken back, and nothing else."""
    standing: dict[int, int] = {}
    for one in world().iterdir():
        number = int(one.read_text().partition("/")[0])
        standing[number] = standing.get(number, 0) + 1
    completed = {int(name.removeprefix("saga-")) for name, status in found.items() if status == "completed"}
    assert standing == dict.fromkeys(completed, STEPS)
    assert completed == {int(name.removeprefix("saga-")) for name in found if int(name.removeprefix("saga-")) % 3}


def require_sound(address: str) -> int:
    """No gap and no fork: positions, order within sagas, chains, tree and every signed root. How many entries."""

    async def looked() -> int:
        journal = await PostgresJournal.open(address, SystemClock())
        try:
            inspected = await journal.inspect()
            assert inspected.troubles == ()
            heads = {head.size: head async for head in journal.tree_heads()}
            tree, last = Tree(), dict[str, int]()
            async for logged in journal.log():
                entry = logged.entry
                assert logged.position == tree.size + 1
                assert entry.number == last.get(entry.saga, 0) + 1
                last[entry.saga] = entry.number
                tree.add(leaf(entry.hash))
                head = heads.pop(tree.size, None)
                if head is not None:
                    assert _root(head.note) == tree.root, head
            assert not heads
            assert (await journal.tree()).root == tree.root
            assert (await journal.unnumbered()).entries == 0
            return tree.size
        finally:
            await journal.close()

    return asyncio.run(looked())


def _root(note: str) -> bytes:
    from amends.evidence.sign.note import read_checkpoint, read_note

    return read_checkpoint(read_note(note))[2]
