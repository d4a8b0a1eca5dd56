"""What a simulated schedule costs: a five-step saga with all that goes wrong, beside the same saga undisturbed."""

from __future__ import annotations

import asyncio
import gc
import logging
import time

from amends.clock import SystemClock
from amends.gate.load import BuiltinGate
from amends.journal.memory import MemoryJournal
from amends.runtime.coordinator.coordinator import Coordinator
from amends.runtime.declare.action import Done
from amends.runtime.declare.decorators import register
from amends.runtime.declare.definition import SagaDefinition
from amends.runtime.declare.registry import Registry
from amends.runtime.saga.work import Work
from amends.testing.simulation import simulate

STEPS = 5
SCHEDULES = 300
ROUNDS = 3


async def _act(n: int) -> str:
    return f"done {n}"


async def _undo(done: Done) -> None:
    """Nothing to take back."""


ACT = register("bench.simulated", _act, compensation=_undo)


async def _work(s: Work) -> None:
    for n in range(STEPS):
        await s.do_named(ACT, {"n": n})


WORK = SagaDefinition("bench.simulated", function=_work)


def schedule_s() -> float:
    """Seconds of CPU for one schedule, the best of a few rounds."""
    logging.getLogger("amends").setLevel(logging.CRITICAL + 1)  # what it warns of is brought about on purpose
    gc.disable()
    best = min(_schedules_s() for _ in range(ROUNDS))
    gc.enable()
    logging.getLogger("amends").setLevel(logging.NOTSET)
    return best


def _schedules_s() -> float:
    since = time.process_time()
    for seed in range(SCHEDULES):
        simulate(seed, steps=STEPS)
    return (time.process_time() - since) / SCHEDULES


def undisturbed_s() -> float:
    """Seconds of CPU for the same saga, alone on a journal in memory."""
    return min(asyncio.run(_sagas_s()) for _ in range(ROUNDS))


async def _sagas_s() -> float:
    clock = SystemClock()
    journal = MemoryJournal(clock)
    async with Coordinator(journal=journal, gate=BuiltinGate(), clock=clock, registry=Registry()) as coordinator:
        since = time.process_time()
        for _ in range(SCHEDULES):
            await coordinator.run(WORK)
        return (time.process_time() - since) / SCHEDULES
