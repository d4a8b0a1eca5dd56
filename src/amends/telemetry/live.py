"""OpenTelemetry for one coordinator: spans, metrics, and calls that run inside their own span."""

from __future__ import annotations

import asyncio

from opentelemetry import metrics, trace
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from amends.clock import Clock
from amends.core.state.saga import Saga
from amends.core.words.outcomes import Answer, Outcome
from amends.core.words.values import SagaId
from amends.journal.port.journal import Entry, Journal
from amends.runtime.drive.executor import Call, Executor
from amends.telemetry.exporting import Exporting
from amends.telemetry.metrics import Metrics
from amends.telemetry.spans import Spans


class Telemetry:
    """Without providers, those that the process has set; where it has set none, nothing comes of it."""

    def __init__(
        self, clock: Clock, *, tracers: TracerProvider | None = None, meters: MeterProvider | None = None
    ) -> None:
        self.spans = Spans((tracers or trace.get_tracer_provider()).get_tracer("amends"))
        self.metrics = Metrics((meters or metrics.get_meter_provider()).get_meter("amends"), clock)
        self._looking: asyncio.Task[None] | None = None

    def begin(self, saga: SagaId, definition: str, labels: dict[str, str]) -> dict[str, str]:
        return self.spans.begin(saga, definition, labels)

    def tell(self, entry: Entry, saga: Saga) -> None:
        self.spans.tell(entry, saga)
        self.metrics.tell(entry, saga)

    def now(self) -> float:
        return self.metrics.now()

    def took(self, seconds: float) -> None:
        self.metrics.took(seconds)

    def executor(self, threads: int) -> Executor:
        return _TracedExecutor(threads, self.spans)

    def start(self, journal: Journal) -> None:
        self._looking = asyncio.ensure_future(self.metrics.look(journal))

    async def stop(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        self.spans.leave()
        if Exporting.here is not None:
            await asyncio.to_thread(Exporting.here.flush)


class _TracedExecutor(Executor):
    def __init__(self, threads: int, spans: Spans) -> None:
        super().__init__(threads)
        self._spans = spans

    async def perform(self, call: Call) -> Outcome:
        with self._spans.within(call.saga, call.step):
            return await super().perform(call)

    async def ask(self, call: Call) -> Answer:
        with self._spans.within(call.saga, call.step):
            return await super().ask(call)
