"""OpenTelemetry's SDK for a process that has set up none of its own: made of its public parts, as the environment asks.

Whatever goes wrong here is told, once, and touches nothing else: an exporter that is missing or misconfigured exports
nothing, and a collector that does not answer is waited for as long as `FLUSH_S`, once, when the process ends.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from importlib.metadata import entry_points
from typing import Any, ClassVar, Final

from opentelemetry import context as contexts, metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExporter, MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from amends.logs import logger, plain
from amends.telemetry.environment import WantedExporter, carrier

FLUSH_S: Final = 5.0
SERVICE: Final = "amends"

Tell = Callable[[str], None]


class Exporting:
    """The exports of this process. As the SDK's own providers, there is one of it, for as long as the process lives."""

    here: ClassVar[Exporting | None] = None

    def __init__(self, spans: Iterable[SpanExporter], readers: Iterable[MetricReader], tell: Tell) -> None:
        resource = _resource()
        # Not by themselves at exit: that would wait for a collector that is not there for as long as it likes.
        self._tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
        for exporter in spans:
            self._tracers.add_span_processor(BatchSpanProcessor(exporter))
        self._meters = MeterProvider(list(readers), resource=resource, shutdown_on_exit=False)
        self._tell = tell
        self._has_given_up = False

    def flush(self) -> None:
        """Send what has not been sent yet, and wait for that as long as FLUSH_S, in all. Never raises."""
        if self._has_given_up:
            return
        sending = threading.Thread(target=self._send, name="amends-telemetry", daemon=True)
        sending.start()
        sending.join(FLUSH_S)
        if sending.is_alive():
            self._has_given_up = True
            self._tell(f"not all of it could be exported in {FLUSH_S:g} s")

    def _send(self) -> None:
        for provider in (self._tracers, self._meters):
            try:
                provider.force_flush()
            except Exception as exc:  # noqa: BLE001 - an exporter is anybody's code, and no saga's business
                self._tell(f"{type(exc).__name__}: {exc}")

    def take_over(self) -> None:
        """Have everything in this process go through it."""
        trace.set_tracer_provider(self._tracers)
        metrics.set_meter_provider(self._meters)


def set_up(wants: Iterable[WantedExporter], tell: Tell) -> None:
    """Export what is wanted from here on. Where the process has providers already, they are somebody's, and stay."""
    if Exporting.here is not None or _is_set_up():
        return
    once = _Once(tell)
    spans, readers = list[SpanExporter](), list[MetricReader]()
    for want in wants:
        made = _made(want, tell)
        if want.signal == "traces" and isinstance(made, SpanExporter):
            spans.append(made)
        elif isinstance(made, MetricReader):
            readers.append(made)
        elif isinstance(made, MetricExporter):
            readers.append(PeriodicExportingMetricReader(made))
    if not spans and not readers:
        return
    theirs = logger("opentelemetry")
    theirs.addHandler(once)
    theirs.propagate = bool(logging.root.handlers)  # else each retry would be a line of its own on stderr
    Exporting.here = Exporting(spans, readers, once.tell)
    Exporting.here.take_over()


@contextlib.contextmanager
def started_within(environ: Mapping[str, str]) -> Generator[None]:
    """Make what begins here a child of the span that the environment names, unless something here is its parent."""
    found = carrier(environ)
    if not found or trace.get_current_span().get_span_context().is_valid:
        yield
        return
    token = contexts.attach(TraceContextTextMapPropagator().extract(found))
    try:
        yield
    finally:
        contexts.detach(token)


def _is_set_up() -> bool:
    """The API's own providers only stand for those that may still come."""
    found = (trace.get_tracer_provider(), metrics.get_meter_provider())
    return any(not type(each).__module__.startswith(("opentelemetry.trace", "opentelemetry.metrics")) for each in found)


def _resource() -> Resource:
    """As the environment describes it; a service that nobody named is called as the program."""
    found = Resource.create()
    named = not str(found.attributes.get("service.name", "unknown_service")).startswith("unknown_service")
    return found if named else found.merge(Resource({"service.name": SERVICE}))


def _made(want: WantedExporter, tell: Tell) -> object:
    """The exporter, or None, with the reason told."""
    group = f"opentelemetry_{want.signal}_exporter"
    entry = next((entry for name in want.names for entry in entry_points(group=group, name=name)), None)
    if entry is None:
        tell(f"{want.variable} is set, and {want.signal} are not exported: install {want.package}")
        return None
    options: dict[str, Any] = {"out": sys.stdout} if entry.name == "console" else {}
    try:
        return entry.load()(**options)
    except Exception as exc:  # noqa: BLE001 - an exporter is anybody's code, and so is what it makes of the variables
        tell(f"{want.variable} is set, and {want.signal} are not exported: {type(exc).__name__}: {exc}")
        return None


class _Once(logging.Handler):
    """Tells the first trouble of exporting, and no other: a collector that is gone is gone for all that follows."""

    def __init__(self, tell: Tell) -> None:
        super().__init__(logging.WARNING)
        self._tell: Tell | None = tell

    def emit(self, record: logging.LogRecord) -> None:
        self.tell(plain(record.getMessage()))

    def tell(self, trouble: str) -> None:
        told, self._tell = self._tell, None
        if told is not None:
            told(f"telemetry is not exported, and the saga does not mind: {trouble}")
