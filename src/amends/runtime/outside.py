"""What reaches sagas from outside, besides what people are asked: the part of a coordinator that sends signals."""

from __future__ import annotations

from amends.core import commands as c
from amends.core.values import RESOLVE, Json, SagaId, canonical
from amends.core.waits import LARGEST_PAYLOAD
from amends.errors import UnknownSagaError
from amends.journal.protocol import Journal
from amends.runtime.checked import checked_actor
from amends.runtime.local import LocalEngine
from amends.runtime.waiting import checked_name


class Outside:
    """Where the world speaks to a saga."""

    journal: Journal
    _engine: LocalEngine

    async def signal(
        self, saga: str, name: str, payload: Json = None, *, by: str | None = None, early: bool = False
    ) -> None:
        """Send a saga what it waits for: the payload is what its `s.wait_for(name)` gives. On record once this returns.

        It goes to the oldest wait of that name. Where there is none, RefusedError says what the saga does wait for;
        `early` keeps the signal for the first wait that asks for it. Raises UnknownSagaError.
        """
        who, what = checked_actor(by), checked_name(name)
        canonical(payload, what=f"the payload of signal {what!r}", most=LARGEST_PAYLOAD)
        one = SagaId(saga)
        if await self._engine.begun(one) is None:
            raise UnknownSagaError(f"no saga has the id {saga}; `amends saga list` shows those that there are")
        decides = ""
        if what.startswith(RESOLVE):
            from amends.runtime.files.resolving import decided_by

            decides = decided_by(what, await self._engine.state(one))
        await self._signal(one, what, payload, by=who, early=early, decides=decides)

    async def _signal(
        self, saga: SagaId, name: str, payload: Json, *, by: str, early: bool = False, decides: str = ""
    ) -> None:
        command = c.SendSignal(name=name, payload=payload, by=by, early=early, decides=decides)
        await self._engine.request(saga, command)
        await self._engine.go_on(saga)
