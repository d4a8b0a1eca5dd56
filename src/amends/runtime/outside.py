"""What reaches sagas from outside, besides what people are asked: the part of a coordinator that sends signals."""

from __future__ import annotations

from amends.core import commands as c
from amends.core.values import Json, SagaId, canonical
from amends.errors import UnknownSagaError
from amends.journal.protocol import Journal
from amends.runtime.checked import SYSTEM, checked_actor
from amends.runtime.local import LocalEngine
from amends.runtime.waiting import checked_name


class Outside:
    """Where the world speaks to a saga."""

    journal: Journal
    _engine: LocalEngine

    async def signal(
        self, saga: str, name: str, payload: Json = None, *, by: str = SYSTEM, early: bool = False
    ) -> None:
        """Send a saga what it waits for: the payload is what its `s.wait_for(name)` gives. On record once this returns.

        It goes to the oldest wait of that name. Where there is none, RefusedError says what the saga does wait for;
        `early` keeps the signal for the first wait that asks for it. Raises UnknownSagaError.
        """
        who, what = checked_actor(by), checked_name(name)
        canonical(payload, what=f"the payload of signal {what!r}")
        one = SagaId(saga)
        if await self._engine.begun(one) is None:
            raise UnknownSagaError(f"no saga has the id {saga}; `amends saga list` shows those that there are")
        await self._engine.request(one, c.SendSignal(name=what, payload=payload, by=who, early=early))
        await self._engine.go_on(one)
