"""Requests of people to a simulated runtime: to cancel, to go back a part of the way, to go on, to stand still."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Final

from amends.core.events import IncidentKind
from amends.core.words.values import SagaId
from amends.dataclass import dataclass
from amends.errors import AmendsError, RefusedError, UnknownSagaError
from amends.journal.port.journal import IncidentRow
from amends.runtime.coordinator.coordinator import Coordinator
from amends.testing.simulation.language import SIGNAL
from amends.testing.simulation.loop import Dice

_ANN: Final = "person:ann"
_BY_HAND: Final = frozenset({IncidentKind.COMPENSATION_MISSING, IncidentKind.PAST_PIVOT})


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
    return Errand(f"cancels {saga}", lambda coordinator: coordinator.cancel(saga, why="changed my mind", by=_ANN))


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


def go_back(saga: SagaId, *, to: str | None = None, last: int | None = None) -> Errand:
    where = f"to {to}" if to else f"by {last}"
    return Errand(
        f"takes it back {where}",
        lambda coordinator: coordinator.rollback(saga, to=to, last=last, why="another way", by=_ANN),
    )


def answer(family: Callable[[], Iterable[SagaId]]) -> Errand:
    """Approve whatever is asked, and send what is waited for, to everybody who may wait for it."""

    async def ask(coordinator: Coordinator) -> None:
        async for approval in coordinator.approvals():
            with suppress(AmendsError):
                await coordinator.grant(approval.id, by=_ANN)
        for saga in family():
            with suppress(AmendsError):
                await coordinator.signal(saga, SIGNAL, 7, by=_ANN, early=True)

    return Errand("answers all that is asked", ask)


def look_after(incidents: Callable[[], Iterable[IncidentRow]]) -> Errand:
    """See to what is stuck: vouch for what cannot be taken back, have the rest tried again."""

    async def ask(coordinator: Coordinator) -> None:
        for one in incidents():
            with suppress(AmendsError):
                if one.kind in _BY_HAND:
                    await coordinator.resolve_incident(one.id, reason="written to those concerned", by=_ANN)
                else:
                    await coordinator.retry_incident(one.id, by=_ANN)

    return Errand("looks after incidents", ask)


def unpause(saga: SagaId) -> Errand:
    async def ask(coordinator: Coordinator) -> None:
        await coordinator.unpause(everything=True, by=_ANN)
        with suppress(RefusedError, UnknownSagaError):  # it is not paused itself
            await coordinator.unpause(saga=saga, by=_ANN)

    return Errand("unpauses", ask)
