"""A worker that is told to end gives back what it has, and ends: under hypercorn's command line, and in a program."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from tests.engines.programs import fills
from tests.engines.servers import RestateServer
from tests.engines.stage import staged


def test_a_worker_under_hypercorn_lets_attempts_finish_and_gives_its_sagas_back(
    postgresql: str, tmp_path: Path
) -> None:
    async def told() -> None:
        async with staged("restate", postgresql, tmp_path, workers=0) as stage:
            assert isinstance(stage.server, RestateServer)
            worker = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "hypercorn", "tests.engines.programs:app()"),
                *("--bind", f"127.0.0.1:{stage.port}"),
                env={**os.environ, "AMENDS_TEST_JOURNAL": postgresql, "AMENDS_TEST_INGRESS": stage.address()},
            )
            try:
                await asyncio.to_thread(stage.server.register, f"http://127.0.0.1:{stage.port}")
                before = {row.name for row in await stage.coordinator.journal.workers()}
                assert len(before) == 2
                await stage.start(fills, "s", 1.0)
                await stage.until_done("s", "a")
                worker.send_signal(signal.SIGTERM)
                async with asyncio.timeout(30):
                    assert await worker.wait() == 0
                (left,) = await stage.coordinator.journal.workers()
                assert left.name in before
                assert await stage.status("s") == "running"
                stage.add_worker()
                await stage.until_is("s", "completed")
                stage.require("s", "abcdef")
            finally:
                if worker.returncode is None:
                    worker.kill()
                    await worker.wait()

    asyncio.run(asyncio.wait_for(told(), 120))


def test_a_worker_of_temporals_does_too(postgresql: str, tmp_path: Path) -> None:
    async def told() -> None:
        async with staged("temporal", postgresql, tmp_path) as stage:
            await stage.start(fills, "s", 0.3)
            await stage.until_done("s", "a")
            leaving = stage.workers.pop()
            leaving.terminate()
            await asyncio.to_thread(leaving.join, 30)
            assert leaving.exitcode == 0
            assert len(await stage.coordinator.journal.workers()) == 1
            stage.add_worker()
            await stage.until_is("s", "completed")
            stage.require("s", "abcdef")

    asyncio.run(asyncio.wait_for(told(), 120))
