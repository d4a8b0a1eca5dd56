"""A stage for the stories: an engine's server, a journal, workers, and somebody outside who starts and answers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

from amends import Coordinator, SagaDefinition
from amends.adapters.engine import SagaEngine
from amends.core.words.values import SagaId
from amends.errors import EngineError
from amends.journal.port.lists import SagaQuery
from tests.engines import programs
from tests.engines.programs import EngineName, settings, start_worker
from tests.engines.servers import RestateServer, ServerProcess, TemporalServer, free_ports

WITHIN_S: Final = 30.0


class Stage:
    """Whoever is outside has a coordinator of their own, which drives nothing."""

    def __init__(self, name: EngineName, journal: str, world: Path, servers: Sequence[ServerProcess]) -> None:
        self.name, self.journal, self.world = name, journal, world
        self.servers = list(servers)
        self.engine: SagaEngine
        self.coordinator: Coordinator
        self.workers: list[BaseProcess] = []
        self.port = free_ports(1)[0]

    @property
    def server(self) -> ServerProcess:
        return self.servers[0]

    def address(self, server: ServerProcess | None = None) -> str:
        return (server or self.server).address

    def add_worker(self) -> None:
        names = ("AMENDS_TEST_WORLD", "AMENDS_TEST_ALONE", "XDG_STATE_HOME")
        environment = {name: os.environ[name] for name in names if name in os.environ}
        address = self.address(self.servers[-1])
        self.workers.append(start_worker(self.name, self.journal, address, self.port, environment))

    def kill_worker(self, number: int = 0) -> None:
        worker = self.workers.pop(number)
        worker.kill()
        worker.join(30)

    async def restart(self, server: ServerProcess) -> None:
        """SIGKILL, and then again with what it has stored."""
        await asyncio.to_thread(server.kill)
        server.start()
        await asyncio.to_thread(server.wait)

    async def lose(self) -> None:
        """The engine's machine burns, and there is a new one, which knows nothing."""
        await asyncio.to_thread(self.server.kill)
        self.server.wipe()
        self.server.start()
        await asyncio.to_thread(self.server.wait)

    def register(self) -> None:
        """Restate is told where the workers are; Temporal's ask."""
        if isinstance(self.server, RestateServer):
            self.server.register(f"http://127.0.0.1:{self.port}")

    # -- from outside -------------------------------------------------------------------------------------------------

    async def start(self, definition: SagaDefinition[..., Any], name: str, *args: object) -> str:
        """Start it by the engine; where that is away just now, its workers find it on record."""
        with contextlib.suppress(EngineError):
            await self.engine.start(definition, name, *args, id=name)
        return name

    async def wake(self, saga: str) -> None:
        with contextlib.suppress(EngineError):
            await self.engine.wake(saga)

    async def until(self, is_so: Callable[[], Any], what: str, within_s: float = WITHIN_S) -> None:
        ends = time.monotonic() + within_s
        while not await is_so():
            assert all(one.is_alive() for one in self.workers), f"a worker has ended by itself: {what}"
            assert time.monotonic() < ends, f"{what}: {await self.standing()}; {self.server.log()[-1500:]}"
            await asyncio.sleep(0.05)

    async def status(self, saga: str) -> str:
        row = await self.coordinator.journal.saga(SagaId(saga))
        return "" if row is None else str(row.status)

    async def until_is(self, saga: str, *statuses: str) -> None:
        async def is_so() -> bool:
            return await self.status(saga) in statuses

        await self.until(is_so, f"{saga} is not {' or '.join(statuses)}")

    async def standing(self) -> dict[str, str]:
        rows = (await self.coordinator.journal.sagas(SagaQuery(limit=1000))).rows
        return {str(row.id): str(row.status) for row in rows if row.definition.startswith("world.")}

    async def grant(self, saga: str) -> None:
        """Wait until somebody is asked, and say yes."""

        async def is_asked() -> bool:
            return bool(await self.coordinator.approvals(saga=saga))

        await self.until(is_asked, f"{saga} asks nobody")
        for row in await self.coordinator.approvals(saga=saga):
            await self.coordinator.grant(row.id, by="person:kim")

    async def until_idle(self, saga: str) -> None:
        """It waits, and no worker has it."""

        async def is_so() -> bool:
            return await self.status(saga) == "waiting" and await self.coordinator.journal.holder(SagaId(saga)) is None

        await self.until(is_so, f"{saga} does not wait")

    async def until_done(self, saga: str, step: str) -> None:
        """A step of it has taken effect, and it goes on."""

        async def is_so() -> bool:
            return self.effects(saga)[step] > 0

        await self.until(is_so, f"{saga} does not come to {step}")

    def asked(self, saga: str) -> int:
        """How often workers were asked to drive it."""
        file = self.world.with_name("asked")
        return file.read_text().split().count(saga) if file.exists() else 0

    # -- the world ----------------------------------------------------------------------------------------------------

    def effects(self, saga: str) -> Counter[str]:
        found: Counter[str] = Counter()
        for one in self.world.iterdir():
            name, _, step = one.read_text().partition("/")
            if name == saga:
                found[step] += 1
        return found

    def require(self, saga: str, steps: str) -> None:
        """Exactly these steps of it stand, each once."""
        assert self.effects(saga) == Counter(steps), (saga, self.effects(saga))


def served(name: EngineName) -> ServerProcess:
    return RestateServer() if name == "restate" else TemporalServer()


@asynccontextmanager
async def staged(
    name: EngineName, journal: str, folder: Path, *, workers: int = 1, servers: Sequence[ServerProcess] | None = None
) -> AsyncGenerator[Stage]:
    """Everything runs; whatever still does is ended at the end, by its id."""
    world = Path(os.environ["AMENDS_TEST_WORLD"])
    policy = folder / "policy.yaml"
    policy.write_text(programs.POLICY)
    async with AsyncExitStack() as stack:
        if servers is None:
            servers = [await asyncio.to_thread(stack.enter_context, served(name))]
        stage = Stage(name, journal, world, servers)
        opened = Coordinator.open(journal, settings=settings(), signals=False, policy=policy)
        stage.coordinator = await stack.enter_async_context(opened)
        stage.engine = await _engine(stage, stack)
        stack.callback(_end, stage)
        for _ in range(workers):
            stage.add_worker()
        if workers:
            await asyncio.to_thread(stage.register)
        yield stage


async def _engine(stage: Stage, stack: AsyncExitStack) -> SagaEngine:
    if stage.name == "restate":
        from amends.adapters.restate import RestateEngine

        engine = RestateEngine(stage.coordinator, stage.address())
        stack.push_async_callback(engine.ingress.close)
        return engine
    from temporalio.client import Client

    from amends.adapters.temporal import TemporalEngine

    return TemporalEngine(stage.coordinator, await Client.connect(stage.address(), lazy=True))


def _end(stage: Stage) -> None:
    for worker in stage.workers:
        worker.kill()
    for worker in stage.workers:
        worker.join(30)
