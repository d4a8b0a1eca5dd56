"""DBOS: a workflow of five steps, on its own SQLite store or, by BENCH_DBOS_URL, on a PostgreSQL."""

from __future__ import annotations

import asyncio
import os

from dbos import DBOS, DBOSConfig

from bench.peers.shape import STEPS, given, run


async def main() -> None:
    folder, sagas = given()
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": os.environ.get("BENCH_DBOS_URL") or f"sqlite:///{folder}/dbos.sqlite",
        "run_admin_server": False,
        "log_level": "ERROR",
    }
    DBOS(config=config)

    @DBOS.step()
    async def step(n: int) -> int:
        return n

    @DBOS.workflow()
    async def five(first: int) -> int:
        for n in range(STEPS):
            await step(first + n)
        return first

    DBOS.launch()
    try:
        await run(five, sagas)
    finally:
        DBOS.destroy()


asyncio.run(main())
