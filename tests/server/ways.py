"""The two ways in which every story of sagas is told: embedded on a journal, and through a server, by the same code."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amends import Coordinator
from tests.server import storied_shop as shop

Connect = Callable[[], AbstractAsyncContextManager[Any]]


@dataclass
class Way:
    """One way to run sagas: `connect` as whoever runs them, `person` as whoever decides."""

    name: str
    connect: Connect
    person: Connect
    id: str
    journal: Path

    @property
    def by(self) -> dict[str, str]:
        """How a person says who they are: through a server, their token does."""
        return {"by": "person:anna"} if self.name == "embedded" else {}


async def begun(journal: Path, policy: Path) -> None:
    async with Coordinator.open(str(journal), policy=policy, signals=False):
        pass


async def run(way: Way, definition: Any, *args: Any) -> Any:
    async with way.connect() as coordinator:
        return await coordinator.run(definition, *args, id=way.id)


def deeds() -> list[str]:
    """What was done to the world, without the keys."""
    return [" ".join(line.split()[:2]) for line in shop.lines()]


async def until(look: Callable[[], Any]) -> Any:
    """What somebody sees once it is there."""
    async with asyncio.timeout(20):
        while (found := await look()) is None:
            await asyncio.sleep(0.05)
    return found


async def first_asked(coordinator: Any, saga: str) -> Any:
    found = await coordinator.approvals(saga=saga)
    return found[0] if found else None


async def is_waiting(coordinator: Any, saga: str) -> Any:
    rows = [row async for row in coordinator.list(status="waiting") if row.id == saga]
    return rows[0] if rows else None
