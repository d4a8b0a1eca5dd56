"""Which saga a call belongs to, and the sessions that are open here: each is kept for a while, then left for others.

A saga is named by whoever calls, never by the connection. Its session is opened when the first call comes and left
when none has come for some seconds, so that another process can take it up: a second client, or a person's command.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from amends.bootstrap import Coordinator
from amends.clock import SystemClock
from amends.core.words.values import Json, canonical
from amends.dataclass import dataclass
from amends.errors import AmendsError, Detach, RefusedError, UnknownSagaError
from amends.gateway.model import Contracts
from amends.logs import logger
from amends.runtime.saga.session import Session

DEFINITION: Final = "mcp.gateway"
LABEL: Final = "contracts"
LINGER_S: Final = 3.0
WAIT_S: Final = 20.0
_log = logger("amends.gateway")


@dataclass(frozen=True, slots=True)
class Alike:
    """A call by what it asks for: a client that asks again may give it another id."""

    topic: str
    arguments: str


def alike(topic: str, arguments: Json) -> Alike:
    return Alike(topic, canonical(arguments))


class OpenSaga:
    """One session that is open here, and who uses it."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.opened: asyncio.Future[Session] = asyncio.get_running_loop().create_future()
        self.leave = asyncio.Event()
        self.owner: asyncio.Task[None] | None = None
        self.users = 0
        self.last = 0.0
        self.waiting: dict[Alike, str] = {}
        """The ids of calls that people are asked about, by what they ask for."""


class Sagas:
    """The open sagas of a gateway."""

    def __init__(
        self, coordinator: Coordinator, contracts: Contracts, *, actor: str, linger_s: float = LINGER_S
    ) -> None:
        self._coordinator = coordinator
        self._contracts = contracts
        self._actor = actor
        self._linger_s = linger_s
        self._open: dict[str, OpenSaga] = {}
        self._tending: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def using(self, id: str) -> AsyncGenerator[tuple[Session, OpenSaga]]:
        """The session of this saga, opened or taken up where it is not open here. Raises RefusedError."""
        one = self._open.get(id)
        while one is not None and one.leave.is_set():
            assert one.owner is not None  # noqa: S101 - it is set before anybody can leave
            await asyncio.wait({one.owner})
            one = self._open.get(id)
        if one is None:
            one = self._open[id] = OpenSaga(id)
            one.owner = asyncio.create_task(self._own(one), name=f"saga {id}")
        one.users += 1
        try:
            yield await asyncio.shield(one.opened), one
        finally:
            one.users -= 1
            one.last = asyncio.get_running_loop().time()
            if self._tending is None or self._tending.done():
                self._tending = asyncio.create_task(self._tend())

    def here(self, id: str) -> Session | None:
        """The session of a saga that is open here now."""
        one = self._open.get(id)
        return None if one is None or not one.opened.done() or one.opened.exception() else one.opened.result()

    async def end(self, one: OpenSaga) -> None:
        """Its saga is over: nobody has it open any more."""
        one.leave.set()
        if self._open.get(one.id) is one:
            del self._open[one.id]

    async def close(self) -> None:
        """Leave all of them, for whoever takes them up."""
        if self._tending is not None:
            self._tending.cancel()
        owners = [one.owner for one in self._open.values() if one.owner is not None]
        for one in tuple(self._open.values()):
            one.leave.set()
        if owners:
            await asyncio.wait(owners)

    async def _tend(self) -> None:
        """Leave what nobody has used for a while."""
        loop = asyncio.get_running_loop()
        while self._open:
            await SystemClock().sleep(self._linger_s / 2)
            for one in tuple(self._open.values()):
                if not one.users and one.opened.done() and loop.time() - one.last >= self._linger_s:
                    one.leave.set()

    async def _own(self, one: OpenSaga) -> None:
        contracts = self._contracts
        try:
            async with self._coordinator.session(
                DEFINITION,
                id=one.id,
                actor=None if await self._is_known(one.id) else self._actor,
                labels={LABEL: contracts.file} if contracts.file else None,
                idle=contracts.idle_s,
                on_idle=contracts.on_idle,
                wait=WAIT_S,
            ) as session:
                await self._recall(one)
                one.opened.set_result(session)
                await one.leave.wait()
                raise Detach
        except Detach:
            pass
        except (AmendsError, asyncio.CancelledError) as exc:
            if not one.opened.done():
                one.opened.set_exception(exc if isinstance(exc, AmendsError) else RefusedError("the gateway ends"))
                one.opened.exception()
            else:
                _log.warning("saga %s was left: %s", one.id, exc)
        finally:
            one.leave.set()
            if self._open.get(one.id) is one:
                del self._open[one.id]

    async def _is_known(self, id: str) -> bool:
        try:
            await self._coordinator.show(id)
        except UnknownSagaError:
            return False
        return True

    async def _recall(self, one: OpenSaga) -> None:
        """Which calls people were asked about before this process had the saga."""
        history = await self._coordinator.show(one.id)
        for step in history.saga.steps.values():
            if step.call and step.approval is not None and step.number == 0 and step.status not in _OVER:
                one.waiting[alike(step.topic, step.args)] = step.call


_OVER: Final = frozenset({"denied", "dropped", "settled"})
