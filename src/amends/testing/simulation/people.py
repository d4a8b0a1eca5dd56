"""What people ask of a simulated runtime: to cancel, to go on, to stand still for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from amends.core.values import SagaId
from amends.dataclass import dataclass
from amends.errors import AmendsError, RefusedError, UnknownSagaError
from amends.runtime.coordinator import Coordinator
from amends.testing.simulation.language import SIGNAL
from amends.testing.simulation.loop import Dice

_ANN: Final = "person:ann"


@dataclass(frozen=True, slots=True)
class Errand:
    what: str
    ask: Callable[[Coordinator], Awaitable[object]]

    def begin(self, coordinator: Coordinator, answered: asyncio.Event) -> asyncio.Future[None]:
        return asyncio.ensure_future(self.run(coordinator, answered))

    async def run(self, coordinator: Coordinator, answered: asyncio.Event) -> None:
        with suppress(AmendsError):
            await self.ask(coordinator)
            answered.set()


def cancel(saga: SagaId) -> Errand:
    return Errand("cancels", lambda coordinator: coordinator.cancel(saga, why="changed my mind", by=_ANN))


def send(saga: SagaId) -> Errand:
    return Errand("sends a signal", lambda coordinator: coordinator.signal(saga, SIGNAL, 7, by=_ANN, early=True))


def pause(dice: Dice, saga: SagaId) -> Errand:
    """One saga, a topic, or everything."""
    match dice.below(3):
        case 0:
            return Errand("pauses it", lambda coordinator: coordinator.pause(saga=saga, why="a look", by=_ANN))
        case 1:
            return Errand("pauses a topic", lambda coordinator: coordinator.pause(topic="sim.keyed*", why="a look"))
        case _:
            return Errand(
                "pauses everything", lambda coordinator: coordinator.pause(why="a look", by=_ANN, rollbacks="stop")
            )


def unpause(saga: SagaId) -> Errand:
    async def ask(coordinator: Coordinator) -> None:
        await coordinator.unpause(everything=True, by=_ANN)
        with suppress(RefusedError, UnknownSagaError):  # it is not paused itself
            await coordinator.unpause(saga=saga, by=_ANN)

    return Errand("unpauses", ask)
