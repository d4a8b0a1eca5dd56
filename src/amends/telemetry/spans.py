"""Spans: one for a saga, one for each attempt under it, made as entries become durable.

| span                | from                         | until                   | and                                |
|---------------------|------------------------------|-------------------------|------------------------------------|
| `saga trip.book`    | its start                    | its end, or an incident | child of the caller's span         |
| `resume trip.book`  | another process takes it up  | the same                | child of the saga's, by its label  |
| `judge mail.send`   | a verdict                    | at once                 | which rule, of which policy        |
| `execute_tool …`    | the intent of an attempt     | its outcome             | GenAI's words for a tool call      |
| `compensate …`      | the intent of a compensation | its outcome             | linked to the attempt it takes back|
| `approval …`        | people are asked             | they answered           |                                    |

The saga's own place in its trace stands in its label `traceparent`, so that a process that takes it up next year
goes on in the same trace. What a process begins and does not live to end is never exported; its children are. One that
leaves in good order ends what it has open first, as it stands.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from opentelemetry import context as contexts, trace
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from amends.core import events as e
from amends.core.state.saga import Saga
from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId, StepId
from amends.journal.port.journal import Entry

LABEL: Final = "traceparent"
MOST_OPEN: Final = 10_000
_MILLION: Final = 1_000_000
_PROPAGATOR: Final = TraceContextTextMapPropagator()
_TOOL: Final = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.type": "function"}


@dataclass(slots=True)
class _Open:
    """Spans under way of one saga, in this process."""

    span: Span
    definition: str
    calls: dict[StepId, Span] = field(default_factory=dict[StepId, Span])
    made: dict[StepId, SpanContext] = field(default_factory=dict[StepId, SpanContext])
    asked: dict[StepId, Span] = field(default_factory=dict[StepId, Span])

    def end(self, at: int) -> None:
        for span in (*self.calls.values(), *self.asked.values(), self.span):
            span.end(at * _MILLION)


class Spans:
    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._open: OrderedDict[SagaId, _Open] = OrderedDict()

    def begin(self, saga: SagaId, definition: str, labels: dict[str, str]) -> dict[str, str]:
        """A saga is about to start: its labels, with its place in the trace that the caller is in or names."""
        parent = _PROPAGATOR.extract(labels) if LABEL in labels else contexts.get_current()
        span = self._tracer.start_span(f"saga {definition}", parent, attributes={"amends.saga.id": saga})
        self._keep(saga, _Open(span, definition))
        carrier = dict(labels)
        _PROPAGATOR.inject(carrier, trace.set_span_in_context(span))
        return carrier

    @contextmanager
    def within(self, saga: SagaId, step: StepId) -> Generator[None]:
        """Make the call part of its attempt: spans made inside are children of it, and so are requests."""
        found = self._open.get(saga)
        span = None if found is None else found.calls.get(step)
        if span is None:
            yield
            return
        token = contexts.attach(trace.set_span_in_context(span))
        try:
            yield
        finally:
            contexts.detach(token)

    def tell(self, entry: Entry, saga: Saga) -> None:
        """One more fact is durable."""
        event, at = entry.event, entry.at
        here = self._here(entry, saga)
        if isinstance(event, e.SagaStarted):
            self._describe(here.span, event)
        elif isinstance(event, (e.SagaCompleted, e.SagaRolledBack, e.SagaMitigated, e.SagaHalted)):
            status = SagaStatus.INCIDENT if isinstance(event, e.SagaHalted) else saga.phase
            here.span.set_attribute("amends.saga.status", str(status))
            if not isinstance(event, e.SagaCompleted):
                here.span.set_status(Status(StatusCode.ERROR, _why(saga)))
            del self._open[entry.saga]
            here.end(at)
        elif isinstance(event, e.RollbackStarted):
            here.span.add_event("rollback", {"amends.cause": str(event.cause)}, at * _MILLION)
        else:
            self._tell_step(here, saga, event, at)

    def _tell_step(self, here: _Open, saga: Saga, event: e.Event, at: int) -> None:
        step = getattr(event, "step", None)
        if step is None or step not in saga.steps:
            return
        topic = str(saga.steps[step].topic)
        match event:
            case e.ActionDispatched(rule=rule, policy=policy):
                self._judged(here, step, topic, at, decision="allow", rule=rule, policy=policy)
                self._attempted(here, step, topic, at, attempt=1, saga=saga)
            case e.ActionAllowed(rule=rule, policy=policy):
                self._judged(here, step, topic, at, decision="allow", rule=rule, policy=policy)
            case e.ActionDenied(rule=rule, policy=policy):
                self._judged(here, step, topic, at, decision="deny", rule=rule, policy=policy)
            case e.ApprovalRequested(rule=rule, policy=policy):
                self._judged(here, step, topic, at, decision="require_human", rule=rule, policy=policy)
                here.asked[step] = self._child(here, f"approval {topic}", step, topic, at)
            case (
                e.ApprovalGranted() | e.ApprovalRefused() | e.ApprovalExpired() | e.ApprovalVoided() | e.ApprovalUsed()
            ):
                _ended(here.asked.pop(step, None), type(event).__name__.removeprefix("Approval").lower(), at)
            case e.AttemptStarted(attempt=attempt):
                self._attempted(here, step, topic, at, attempt=attempt, saga=saga)
            case e.CompensationStarted(attempt=attempt, rule=rule, policy=policy):
                self._judged(here, step, topic, at, decision="allow", rule=rule, policy=policy)
                self._taken_back(here, step, topic, at, attempt=attempt)
            case e.MitigationStarted(attempt=attempt, rule=rule, policy=policy):
                self._judged(here, step, topic, at, decision="allow", rule=rule, policy=policy)
                self._taken_back(here, step, topic, at, attempt=attempt, what="mitigate")
            case e.CompensationDenied(rule=rule, policy=policy) | e.MitigationDenied(rule=rule, policy=policy):
                self._judged(here, step, topic, at, decision="deny", rule=rule, policy=policy)
            case e.AttemptSucceeded() | e.CompensationSucceeded() | e.MitigationSucceeded():
                _ended(here.calls.pop(step, None), "succeeded", at)
            case e.AttemptFailed(fatal=fatal) | e.AttemptLost(fatal=fatal):
                word = "fatal" if fatal else "failed" if isinstance(event, e.AttemptFailed) else "lost"
                _ended(here.calls.pop(step, None), word, at, is_error=True)
            case e.CompensationFailed() | e.CompensationLost() | e.MitigationFailed() | e.MitigationLost():
                word = "failed" if isinstance(event, e.CompensationFailed | e.MitigationFailed) else "lost"
                _ended(here.calls.pop(step, None), word, at, is_error=True)
            case _:
                return

    # -- making spans -------------------------------------------------------------------------------------------------

    def _here(self, entry: Entry, saga: Saga) -> _Open:
        """The open spans of this saga; a process that takes one up opens a span of its own, in the saga's trace."""
        found = self._open.get(entry.saga)
        if found is not None:
            return found
        begun = saga.begun
        definition = "" if begun is None else begun.definition
        labels = {} if begun is None else begun.labels
        span = self._tracer.start_span(
            f"{'saga' if isinstance(entry.event, e.SagaStarted) else 'resume'} {definition}",
            _PROPAGATOR.extract(labels),
            attributes={"amends.saga.id": entry.saga},
            start_time=entry.at * _MILLION,
        )
        if begun is not None:
            self._describe(span, begun)
        opened = _Open(span, definition)
        self._keep(entry.saga, opened)
        return opened

    def _keep(self, saga: SagaId, opened: _Open) -> None:
        self._open[saga] = opened
        while len(self._open) > MOST_OPEN:  # a hundred thousand sagas that wait for people must not fill the memory
            self._leave_oldest()

    def leave(self) -> None:
        """This process is done with them: what is under way of a saga that has not ended is told as far as it is."""
        while self._open:
            self._leave_oldest()

    def _leave_oldest(self) -> None:
        _, oldest = self._open.popitem(last=False)
        oldest.span.set_attribute("amends.saga.status", "open")
        for span in (*oldest.calls.values(), *oldest.asked.values(), oldest.span):
            span.end()

    def _describe(self, span: Span, begun: e.SagaStarted) -> None:
        kind, _, name = begun.actor.partition(":")
        span.set_attributes(
            {
                "amends.definition": begun.definition,
                "amends.definition.version": begun.version,
                "amends.env": begun.env,
                "amends.actor": begun.actor,
            }
        )
        if kind == "agent":
            span.set_attribute("gen_ai.agent.name", name)

    def _child(
        self, here: _Open, name: str, step: StepId, topic: str, at: int, *, links: tuple[Link, ...] = ()
    ) -> Span:
        return self._tracer.start_span(
            name,
            trace.set_span_in_context(here.span),
            kind=SpanKind.INTERNAL,
            attributes={"amends.step": step, "amends.topic": topic},
            links=links,
            start_time=at * _MILLION,
        )

    def _judged(self, here: _Open, step: StepId, topic: str, at: int, *, decision: str, rule: str, policy: str) -> None:
        span = self._child(here, f"judge {topic}", step, topic, at)
        span.set_attributes({"amends.decision": decision, "amends.rule": rule, "amends.policy": policy})
        span.end(at * _MILLION)

    def _attempted(self, here: _Open, step: StepId, topic: str, at: int, *, attempt: int, saga: Saga) -> None:
        span = self._child(here, f"execute_tool {topic}", step, topic, at)
        span.set_attributes({**_TOOL, "gen_ai.tool.name": topic, "gen_ai.tool.call.id": f"{saga.id}/{step}"})
        span.set_attribute("amends.attempt", attempt)
        does = saga.steps[step].contract.does
        if does:
            span.set_attribute("gen_ai.tool.description", does)
        here.calls[step] = span
        here.made[step] = span.get_span_context()

    def _taken_back(
        self, here: _Open, step: StepId, topic: str, at: int, *, attempt: int, what: str = "compensate"
    ) -> None:
        made = here.made.get(step)
        links = () if made is None else (Link(made),)
        span = self._child(here, f"{what} {topic}", step, topic, at, links=links)
        span.set_attribute("amends.attempt", attempt)
        here.calls[step] = span


def _ended(span: Span | None, outcome: str, at: int, *, is_error: bool = False) -> None:
    """Only the kind of an error is told: its words may hold what the action was given."""
    if span is None:
        return
    span.set_attribute("amends.outcome", outcome)
    if is_error:
        span.set_attribute("error.type", outcome)
        span.set_status(Status(StatusCode.ERROR))
    span.end(at * _MILLION)


def _why(saga: Saga) -> str:
    return "an incident is open" if saga.open_incidents else str(saga.rollback.cause) if saga.rollback else ""
