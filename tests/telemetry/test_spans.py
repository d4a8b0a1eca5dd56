"""Spans and metrics, as the real SDK receives them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, StatusCode

import amends
from amends import Ended, Fatal, SagaDefinition, Secret, Work, register
from amends.gate.load import BuiltinGate
from amends.journal.memory import Memory, MemoryJournal
from amends.runtime.coordinator.coordinator import Coordinator
from amends.runtime.settings import Settings
from amends.telemetry.live import Telemetry
from amends.testing.clock import ManualClock
from tests.runtime.support import QuickClock
from tests.runtime.test_approvals import driven

CANARY = "canary-4111-1111"


class Seen:
    """What one process exports, and what makes it export."""

    def __init__(self, clock: ManualClock) -> None:
        self._spans = InMemorySpanExporter()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self._reader = InMemoryMetricReader()
        self.telemetry = Telemetry(clock, tracers=self.tracers, meters=MeterProvider([self._reader]))

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self._spans.get_finished_spans()

    def one(self, name: str) -> ReadableSpan:
        (found,) = (span for span in self.spans if span.name == name)
        return found

    def points(self, name: str) -> list[tuple[dict[str, Any], Any]]:
        data = self._reader.get_metrics_data()
        assert data is not None
        return [
            (dict(point.attributes or {}), getattr(point, "value", getattr(point, "count", None)))
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]


def place(span: ReadableSpan) -> SpanContext:
    context: SpanContext | None = span.context
    assert context is not None
    return context


def coordinator(clock: ManualClock, memory: Memory, seen: Seen) -> Coordinator:
    return Coordinator(
        journal=MemoryJournal(clock, memory),
        gate=BuiltinGate(),
        clock=clock,
        settings=Settings(),
        executor=seen.telemetry.executor(4),
        telemetry=seen.telemetry,
    )


def trip(*, fails: bool, inside: list[str], keys: list[str]) -> SagaDefinition:
    async def reserve(card: str, number: Secret) -> str:
        span = trace.get_current_span()
        inside.append(format(span.get_span_context().span_id, "016x"))
        keys.append(amends.key())
        return f"held {card}"

    async def release(done: amends.Done) -> None:
        keys.append(done.key)

    async def charge(card: str) -> None:
        if fails:
            raise Fatal(f"refused {card}", happened=False)

    hold = register("trip.hold", reserve, compensation=release)
    pay = register("trip.pay", charge, compensation=release)

    async def book(s: Work, card: str, number: Secret) -> str:
        held = await s.do(hold, card, number)
        await s.do(pay, card)
        return str(held)

    return SagaDefinition("trip.book", function=book)


async def run_trip(seen: Seen, clock: ManualClock, *, fails: bool, **options: Any) -> Ended:
    async with coordinator(clock, Memory(), seen) as held:
        definition = trip(fails=fails, inside=options.pop("inside", []), keys=options.pop("keys", []))
        return await held.run(definition, CANARY, Secret(CANARY), actor="agent:planner", **options)


@driven
async def test_a_saga_is_a_span_with_its_attempts_and_verdicts_under_it() -> None:
    seen = Seen(clock := QuickClock())
    await run_trip(seen, clock, fails=False)
    saga, hold, judged = seen.one("saga trip.book"), seen.one("execute_tool trip.hold"), seen.one("judge trip.hold")
    assert hold.parent is not None
    assert judged.parent is not None
    assert hold.parent.span_id == judged.parent.span_id == place(saga).span_id
    attributes = dict(hold.attributes or {})
    assert attributes["gen_ai.operation.name"] == "execute_tool"
    assert attributes["gen_ai.tool.name"] == "trip.hold"
    assert attributes["amends.outcome"] == "succeeded"
    assert dict(saga.attributes or {})["gen_ai.agent.name"] == "planner"
    assert saga.status.status_code is not StatusCode.ERROR


@driven
async def test_a_compensation_is_linked_to_the_attempt_that_it_takes_back() -> None:
    seen = Seen(clock := QuickClock())
    await run_trip(seen, clock, fails=True)
    (link,) = seen.one("compensate trip.hold").links
    assert link.context.span_id == place(seen.one("execute_tool trip.hold")).span_id
    failed = seen.one("execute_tool trip.pay")
    assert failed.status.status_code is StatusCode.ERROR
    assert dict(failed.attributes or {})["error.type"] == "fatal"
    assert seen.one("saga trip.book").status.status_code is StatusCode.ERROR


@driven
async def test_what_an_action_does_is_part_of_its_attempt() -> None:
    seen, inside = Seen(clock := QuickClock()), list[str]()
    await run_trip(seen, clock, fails=False, inside=inside)
    assert inside == [format(place(seen.one("execute_tool trip.hold")).span_id, "016x")]


@driven
async def test_the_caller_s_span_is_the_saga_s_parent_and_so_is_a_traceparent() -> None:
    seen = Seen(clock := QuickClock())
    with seen.tracers.get_tracer("caller").start_as_current_span("request") as request:
        await run_trip(seen, clock, fails=False)
    parent = seen.one("saga trip.book").parent
    assert parent is not None
    assert parent.span_id == request.get_span_context().span_id
    other = Seen(clock)
    remote = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    await run_trip(other, clock, fails=False, labels={"traceparent": remote})
    parent = other.one("saga trip.book").parent
    assert parent is not None
    assert format(parent.trace_id, "032x") == remote.split("-")[1]


@driven
async def test_another_process_goes_on_in_the_same_trace() -> None:
    clock, memory = QuickClock(), Memory()
    first = Seen(clock)
    async with coordinator(clock, memory, first) as held:
        ended = await held.run(trip(fails=False, inside=[], keys=[]), "4", Secret("5"))
    second = Seen(clock)
    async with coordinator(clock, memory, second) as held:
        await held.cancel(ended.id, why="the trip is off")
    resumed = second.one("resume trip.book")
    assert place(resumed).trace_id == place(first.one("saga trip.book")).trace_id
    assert resumed.parent is not None
    assert resumed.parent.span_id == place(first.one("saga trip.book")).span_id
    assert {span.name for span in second.spans} >= {"compensate trip.pay", "compensate trip.hold"}


@driven
async def test_metrics_count_sagas_steps_and_compensations() -> None:
    seen = Seen(clock := QuickClock())
    await run_trip(seen, clock, fails=True)
    await run_trip(seen, clock, fails=False)
    ended = {(at["amends.saga.status"], value) for at, value in seen.points("amends.sagas.ended")}
    assert ended == {("rolled_back", 1), ("completed", 1)}
    assert seen.points("amends.sagas.started") == [({"amends.definition": "trip.book"}, 2)]
    outcomes = {(at["amends.topic"], at["amends.outcome"]): value for at, value in seen.points("amends.steps")}
    assert outcomes == {("trip.hold", "succeeded"): 2, ("trip.pay", "succeeded"): 1, ("trip.pay", "failed"): 1}
    (back,) = seen.points("amends.compensations")
    assert back == ({"amends.topic": "trip.hold", "amends.outcome": "succeeded"}, 1)
    assert seen.points("amends.journal.append.duration")[0][1] > 3
    assert seen.points("amends.rollback.duration")[0][1] == 1


@driven
async def test_neither_arguments_nor_results_nor_keys_leave() -> None:
    seen = Seen(clock := QuickClock())
    keys = list[str]()
    await run_trip(seen, clock, fails=True, keys=keys)
    told = "\n".join(span.to_json() for span in seen.spans)
    assert "execute_tool trip.hold" in told
    assert CANARY not in told
    assert len(keys) == 2
    assert not [key for key in keys if key in told]


@driven
async def test_how_long_the_oldest_incident_waits_is_measured() -> None:
    seen, memory = Seen(clock := QuickClock()), Memory()

    async def stuck(done: amends.Done) -> None:
        raise amends.ChangedSince("someone was here")

    async def act() -> None: ...

    async def fail() -> None:
        raise Fatal("no", happened=False)

    async def body(s: Work) -> None:
        await s.do(register("stuck.act", act, compensation=stuck))
        await s.do(register("stuck.fail", fail, compensation=stuck))

    async with coordinator(clock, memory, seen) as held:
        ended = await held.run(SagaDefinition("stuck.saga", function=body))
        assert ended.status == "incident"
        seen.telemetry.start(held.journal)
        await asyncio.sleep(0.01)
        clock.advance(90)
        assert seen.points("amends.incidents.oldest_age")[0][1] >= 90
        assert seen.points("amends.approvals.oldest_age") == [({}, 0)]
        await seen.telemetry.stop()


def test_a_coordinator_sees_the_sdk_by_itself_and_only_if_it_was_set_up(tmp_path: Path) -> None:
    import subprocess
    import sys

    program = (
        "import sys, asyncio, amends\n"
        "async def nothing(s): return 1\n"
        "d = amends.SagaDefinition('x', function=nothing)\n"
        "if sys.argv[2] == 'sdk':\n"
        "    from opentelemetry import trace\n"
        "    from opentelemetry.sdk.trace import TracerProvider\n"
        "    from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor\n"
        "    trace.set_tracer_provider(p := TracerProvider())\n"
        "    p.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter()))\n"
        "amends.run(d, journal=sys.argv[1])\n"
        "print('loaded' if 'opentelemetry' in sys.modules else 'free')\n"
    )

    def said(how: str) -> str:
        words = [sys.executable, "-c", program, str(tmp_path / f"{how}.db"), how]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout

    assert said("none") == "free\n"
    assert '"name": "saga x"' in said("sdk")
