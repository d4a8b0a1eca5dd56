"""Metrics: how many, how they ended, how long it took. Topics, definitions and statuses are the only words in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from amends.clock import Clock
from amends.core import events as e
from amends.core.state.saga import Saga
from amends.core.words.values import SagaId
from amends.journal.port.journal import Entry, Journal, PersonQuery

LOOK_S: Final = 15.0
_SECOND: Final = 1000
_FORWARD: Final[Mapping[type[e.Event], str]] = {
    e.AttemptSucceeded: "succeeded",
    e.AttemptFailed: "failed",
    e.AttemptLost: "lost",
    e.ActionDenied: "denied",
}
_BACK: Final[Mapping[type[e.Event], str]] = {
    e.CompensationSucceeded: "succeeded",
    e.CompensationFailed: "failed",
    e.CompensationLost: "lost",
    e.CompensationDenied: "denied",
}
_MITIGATION: Final[Mapping[type[e.Event], str]] = {
    e.MitigationSucceeded: "succeeded",
    e.MitigationFailed: "failed",
    e.MitigationLost: "lost",
    e.MitigationDenied: "denied",
}
_ENDS: Final = (e.SagaCompleted, e.SagaRolledBack, e.SagaMitigated, e.SagaHalted)


class Metrics:
    def __init__(self, meter: Meter, clock: Clock) -> None:
        self._clock = clock
        self._oldest: dict[str, int] = {}
        self._rolling: dict[SagaId, int] = {}
        self._started = meter.create_counter("amends.sagas.started", "{saga}", "sagas that began")
        self._ended = meter.create_counter("amends.sagas.ended", "{saga}", "sagas that ended, or need a person")
        self._steps = meter.create_counter("amends.steps", "{attempt}", "attempts of steps, by outcome")
        self._back = meter.create_counter("amends.compensations", "{attempt}", "attempts of compensations, by outcome")
        self._mitigations = meter.create_counter(
            "amends.mitigations", "{attempt}", "attempts of mitigations, by outcome"
        )
        self._rollback = meter.create_histogram("amends.rollback.duration", "s", "from the decision to its end")
        self._append = meter.create_histogram("amends.journal.append.duration", "s", "until an append is durable")
        for what in ("incident", "approval"):
            meter.create_observable_gauge(
                f"amends.{what}s.oldest_age", [self._age_of(what)], "s", f"how long the oldest open {what} waits"
            )

    def tell(self, entry: Entry, saga: Saga) -> None:
        """One more fact is durable."""
        event = entry.event
        definition = "" if saga.begun is None else saga.begun.definition
        if isinstance(event, e.SagaStarted):
            self._started.add(1, {"amends.definition": definition})
        elif isinstance(event, _ENDS):
            status = "incident" if isinstance(event, e.SagaHalted) else str(saga.phase)
            self._ended.add(1, {"amends.definition": definition, "amends.saga.status": status})
            self._measure_rollback(entry, status)
        elif isinstance(event, e.RollbackStarted):
            self._rolling[entry.saga] = entry.at
        else:
            self._count(event, saga)

    def _count(self, event: e.Event, saga: Saga) -> None:
        match event:
            case e.AttemptSucceeded() | e.AttemptFailed() | e.AttemptLost() | e.ActionDenied():
                counter, outcome = self._steps, _FORWARD[type(event)]
            case e.CompensationSucceeded() | e.CompensationFailed() | e.CompensationLost() | e.CompensationDenied():
                counter, outcome = self._back, _BACK[type(event)]
            case e.MitigationSucceeded() | e.MitigationFailed() | e.MitigationLost() | e.MitigationDenied():
                counter, outcome = self._mitigations, _MITIGATION[type(event)]
            case _:
                return
        counter.add(1, {"amends.topic": str(saga.steps[event.step].topic), "amends.outcome": outcome})

    def _measure_rollback(self, entry: Entry, status: str) -> None:
        began = self._rolling.pop(entry.saga, None)
        if began is not None:
            self._rollback.record((entry.at - began) / _SECOND, {"amends.saga.status": status})

    # -- the journal --------------------------------------------------------------------------------------------------

    def now(self) -> float:
        return self._clock.elapsed()

    def took(self, seconds: float) -> None:
        """An append was durable after so long."""
        self._append.record(seconds)

    async def look(self, journal: Journal) -> None:
        """Find out, now and then, what has been waiting for people the longest. Never ends by itself."""
        one = PersonQuery(open_only=True, limit=1)
        while True:
            incidents, approvals = await journal.incidents(one), await journal.approvals(one)
            opened = [("incident", row.opened_at) for row in incidents.rows]
            asked = [("approval", row.requested_at) for row in approvals.rows]
            self._oldest = dict([*opened, *asked])
            await self._clock.sleep(LOOK_S)

    def _age_of(self, what: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            since = self._oldest.get(what)
            yield Observation(0 if since is None else max(0, self._clock.now() - since) / _SECOND)

        return observe
