"""Holding dispatch back and letting it go on: the part of a coordinator that people use when something is wrong.

And what reaches sagas from outside, besides what people are asked: signals.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal

from amends.clock import Clock
from amends.core import commands as c, events as e
from amends.core.decide.waits import LARGEST_PAYLOAD
from amends.core.state.deciders import require_person
from amends.core.state.saga import Saga
from amends.core.transitions import SagaStatus, StepStatus
from amends.core.words.globs import misplaced_run
from amends.core.words.values import CONTROL, RESOLVE, Json, SagaId, canonical
from amends.errors import InputError, RefusedError, unknown_saga
from amends.journal.port.journal import Journal
from amends.runtime.coordinator.signing import proved
from amends.runtime.declare.names import checked_actor
from amends.runtime.drive.logbook import load, rows
from amends.runtime.drive.pauses import Pause
from amends.runtime.drive.roster import Proof
from amends.runtime.engine.local import LocalEngine
from amends.runtime.saga.waits import checked_name
from amends.runtime.settings import Settings

Rollbacks = Literal["go_on", "stop"]
_UNDER_WAY = (SagaStatus.RUNNING, SagaStatus.ROLLING_BACK, SagaStatus.PAUSED)


class Pausing:
    """Where people stop what is under way, and have it go on."""

    journal: Journal
    settings: Settings
    _clock: Clock
    _engine: LocalEngine

    async def pause(
        self,
        *,
        topic: str = "",
        definition: str = "",
        tenant: str = "",
        saga: str | None = None,
        why: str,
        by: str | None = None,
        rollbacks: Rollbacks = "go_on",
    ) -> int:
        """Dispatch nothing more of this kind, in any process on this journal; without any clause, nothing at all.

        All clauses given have to fit; a topic may be a glob, the tenant is the saga's label. Attempts in flight finish.
        Here it holds when this returns, elsewhere within `poll_s`. Rollbacks go on, unless they are told to stop.
        The answer is the pause's number; 0 for a saga's own.
        """
        who, stops = checked_actor(by), _stops(rollbacks)
        if not why.strip():
            raise InputError("a pause needs a reason: say in why= what is wrong, for whoever finds it")
        if saga is not None:
            if topic or definition or tenant:
                raise InputError("a saga is paused alone: give saga=, or topic=, definition= and tenant=")
            await self._engine.request(SagaId(saga), c.PauseSaga(by=who, why=why, rollbacks=stops))
            return 0
        if misplaced_run(topic):
            raise InputError(f"{topic!r}: ** has to be a whole segment, as in payments.**")
        pauses = self._engine.pauses
        fact = e.DispatchPaused(topic=topic, definition=definition, tenant=tenant, rollbacks=stops, by=who, why=why)
        scope = (topic, definition, tenant)

        def same() -> Pause | None:
            known = (one for one in pauses.active.values() if one.scope == scope and one.rollbacks == stops)
            return next(known, None)

        number = await pauses.keep(lambda: None if same() is not None else fact)
        there = same()
        return number or (there.number if there is not None else 0)

    async def unpause(
        self,
        *,
        topic: str = "",
        definition: str = "",
        tenant: str = "",
        saga: str | None = None,
        everything: bool = False,
        why: str = "",
        by: str | None = None,
        proof: Proof | None = None,
    ) -> int:
        """End the pause of exactly this kind, and have the sagas go on that it held; how many there were.

        everything: end all of them. `by` is a person; of one saga, outside development, who has not asked for it
        themselves. Raises RefusedError where there is no such pause.
        """
        who, pauses = checked_actor(by), self._engine.pauses
        if saga is not None:
            await self._unpause_one(SagaId(saga), who, proof)
            return 1
        require_person(who, "end a pause")
        await pauses.refresh()
        scope = (topic, definition, tenant)
        ending = [one.number for one in pauses.active.values() if everything or one.scope == scope]
        if not ending and not everything:
            known = "; ".join(scope_of(one) for one in pauses.active.values()) or "nothing"
            raise RefusedError(f"there is no pause of {_scope(scope)}; paused now: {known}")
        for number in ending:
            fact = e.DispatchUnpaused(pause=number, by=who, why=why)
            policies = self._engine.policies
            signed = "" if policies is None else await policies.proved(SagaId(CONTROL), fact, proof)
            await pauses.end(number, by=who, why=why, signed=signed)
        return await self._engine.release(by=who)

    async def _unpause_one(self, saga: SagaId, by: str, proof: Proof | None) -> None:
        await self._engine.put_on_record(saga)
        state = await load(self.journal, saga)
        await self._engine.pauses.refresh()
        wide = None if state.paused is None else self._engine.pauses.active.get(state.paused.pause)
        if state.phase is SagaStatus.PAUSED and wide is not None:
            raise RefusedError(f"saga {saga} is held by pause {wide.number} of {scope_of(wide)}; end that one")
        command = await proved(self._engine, saga, c.UnpauseSaga(by=by), proof)
        await self._engine.request(saga, command)
        await self._engine.go_on(saga)

    async def paused(self) -> list[Pause]:
        """Pauses in force, oldest first. Sagas that are paused themselves: `list(status="paused")`."""
        await self._engine.pauses.refresh()
        return list(self._engine.pauses.active.values())

    async def drain(self, *, within: float | None = None) -> list[str]:
        """Wait until nothing that is paused is in flight any more, in any process.

        The answer is empty then; after `within` seconds it names the steps, as `<saga>/<step>`, that still are.
        """
        pauses, clock = self._engine.pauses, self._clock
        await pauses.refresh()
        if not pauses.active:
            raise RefusedError("nothing is paused, so there is nothing to wait for; pause first")
        until = None if within is None else clock.elapsed() + within
        await clock.sleep(self.settings.poll_s)  # by then every process has looked
        while True:
            flying = [flight async for flight in self._in_flight()]
            if not flying or (until is not None and clock.elapsed() >= until):
                return flying
            await clock.sleep(self.settings.poll_s)

    async def _in_flight(self) -> AsyncIterator[str]:
        async for row in rows(self.journal, _UNDER_WAY):
            if await self.journal.holder(row.id) is None:
                continue  # whoever had it is gone, and nothing of it runs any more
            state = await load(self.journal, row.id)
            for step in state.live:
                if self._is_paused(state, state.steps[step].topic, back=state.steps[step].status is not _RUNNING):
                    yield f"{row.id}/{step}"

    def _is_paused(self, saga: Saga, topic: str, *, back: bool) -> bool:
        return any(pause.covers(saga, topic, back=back) for pause in self._engine.pauses.active.values())


_RUNNING = StepStatus.RUNNING


def _stops(rollbacks: str) -> bool:
    if rollbacks not in {"go_on", "stop"}:
        raise InputError(f"rollbacks={rollbacks!r}: they go_on, or they stop")
    return rollbacks == "stop"


def scope_of(pause: Pause) -> str:
    """The scope of a pause, for a person."""
    return _scope(pause.scope)


def _scope(scope: tuple[str, str, str]) -> str:
    named = zip(("topic", "definition", "tenant"), scope, strict=True)
    return " and ".join(f"{what} {name}" for what, name in named if name) or "everything"


class Signalling:
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
            raise unknown_saga(saga)
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
