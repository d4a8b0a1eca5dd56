"""agent-saga: a saga of five tools with registered compensations, its write-ahead log in a file."""

from __future__ import annotations

import asyncio

from agent_saga import ActionSemantics, Compensation, FileWAL, saga, tool
from agent_saga.registry import compensator

from bench.peers.shape import STEPS, given, run


@compensator("bench.unstep")
async def unstep(n: int, idempotency_key: str = "") -> None:
    """Nothing to take back: the cost of the library is what is measured."""


def undo(n: int) -> Compensation:
    return Compensation(unstep, {"n": n}, handler="bench.unstep")


@tool("bench.step", semantics=ActionSemantics.COMPENSABLE, compensate=undo)
async def step(n: int) -> int:
    return n


async def main() -> None:
    folder, sagas = given()
    log = FileWAL(str(folder / "saga.wal"))
    await log.start()

    @saga(wal=log)
    async def five(first: int) -> int:
        for n in range(STEPS):
            await step(n=first + n)
        return first

    try:
        await run(five, sagas)
    finally:
        await log.close()


asyncio.run(main())
