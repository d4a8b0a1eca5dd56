"""One saga's evidence as a record for a program: nine fields that others know, then ours under `amends`. Pure.

| field                        | what it says                                                                        |
|------------------------------|-------------------------------------------------------------------------------------|
| run_id                       | the saga's id                                                                       |
| job_id                       | the step it failed at; else the one its incident stopped at; else its newest step   |
| status                       | FAILED_FATAL where it stopped at a fatal failure; else the saga's status, in capitals |
| matched_policy_id            | the rule that judged that step last; empty where none did                           |
| rollback_triggered           | whether a rollback began                                                            |
| rollback_mode                | lifo_stack: newest first; reverse_dependency where a graph declared what is         |
|                              | independent of what; null where none began                                          |
| compensation_jobs_dispatched | steps whose compensation, or mitigation, was called                                 |
| compensation_jobs_skipped    | steps that may stand, or were settled by hand, whose compensation was never called  |
| rollback_finished_at         | when the way back came to its end, or stopped for a person; null while it goes on   |
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, TypeAlias

from amends.core import events as e
from amends.core.state.limits import spelled
from amends.core.state.provenance import Sources
from amends.core.state.saga import Saga, Step, unstarted
from amends.core.transitions import SagaStatus, StepStatus
from amends.core.words.values import Json, SagaId, StepId
from amends.errors import unknown_saga
from amends.evidence.story.timeline import Timeline, who
from amends.journal.port.entries import caught_up
from amends.journal.port.evidence import TreeHead
from amends.journal.port.journal import Entry, Journal, SagaRow

FAILED_FATAL: Final = "FAILED_FATAL"
MODE: Final = "lifo_stack"
GRAPH_MODE: Final = "reverse_dependency"


def record(
    row: SagaRow,
    saga: Saga,
    entries: Sequence[Entry],
    checkpoint: TreeHead | None = None,
    drilled: Mapping[StepId, Json] | None = None,
) -> dict[str, Json]:
    """The record of a saga, of which these are all entries. Raises PayloadRemovedError where they were removed.

    checkpoint: the newest, where it covers them.
    drilled: the last drill of each step's action.
    """
    told = _Told(entries)
    failed = _failed_at(saga, told)
    rolled_back = (saga.rollback or saga.broken_off) is not None
    return {
        "run_id": row.id,
        "job_id": failed or "",
        "status": FAILED_FATAL if _is_fatal(saga, failed) else row.status.value.upper(),
        "matched_policy_id": told.rules.get(failed, "") if failed is not None else "",
        "rollback_triggered": rolled_back,
        "rollback_mode": _mode(saga) if rolled_back else None,
        "compensation_jobs_dispatched": len(told.compensated),
        "compensation_jobs_skipped": _skipped(saga, told) if rolled_back else 0,
        "rollback_finished_at": _moment(told.stopped_at) if saga.phase is not SagaStatus.ROLLING_BACK else None,
        "amends": _ours(row, saga, told, entries, checkpoint, drilled or {}),
    }


def _mode(saga: Saga) -> str:
    return MODE if all(step.after is None for step in saga.steps.values()) else GRAPH_MODE


class _Told:
    """Facts that only entries tell: the order of steps, the rule that spoke last of each, when the way back ended."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.steps: dict[StepId, None] = {}
        self.rules: dict[StepId, str] = {}
        self.confinements: dict[StepId, str] = {}
        self.compensated: set[StepId] = set()
        self.stopped_at: int | None = None
        self.origins: dict[StepId, dict[str, Json]] = {}
        self._sources, self._topics = Sources(), dict[StepId, str]()
        goes_back = False
        for entry in entries:
            event = entry.event
            self._trace(event)
            if isinstance(event, (e.AttemptSucceeded, e.AttemptFailed, e.AttemptLost)) and event.confinement:
                self.confinements[event.step] = event.confinement
            if isinstance(event, (e.RollbackStarted, e.RollbackResumed)):
                goes_back, self.stopped_at = True, None
            elif isinstance(event, (e.SagaRolledBack, e.SagaMitigated, e.SagaHalted)) and goes_back:
                goes_back, self.stopped_at = False, entry.at
            elif isinstance(event, (e.CompensationStarted, e.MitigationStarted)):
                self.compensated.add(event.step)
            elif not isinstance(event, (e.CompensationDenied, e.MitigationDenied)):
                self._note_judgement(event)

    def _trace(self, event: e.Event) -> None:
        """Where each argument came from, by what stood on record when its step was proposed."""
        match event:
            case e.SagaStarted(input=asked, actor=actor):
                self._sources.add_input(asked, actor)
            case e.AttemptSucceeded(step=step, result=result) | e.ProbeFound(step=step, result=result):
                self._sources.add_result(result, step, self._topics.get(step, ""))
            case e.SignalReceived(payload=payload, name=name, by=by):
                self._sources.add_signal(payload, name, by)
            case (
                e.StepProposed(step=step, topic=topic, args=args)
                | e.ActionDispatched(step=step, topic=topic, args=args)
            ):
                self._topics[step] = topic
                found = args if isinstance(args, dict) else {}
                self.origins[step] = {name: self._sources.origin(name, value).where for name, value in found.items()}
            case _:
                pass

    def _note_judgement(self, event: e.Event) -> None:
        """Whatever names a step and a rule is a judgement of its action."""
        if isinstance(event, (e.StepProposed, e.ActionDispatched)):
            self.steps[event.step] = None
        step: StepId | None = getattr(event, "step", None)
        rule: str | None = getattr(event, "rule", None)
        if step is not None and rule is not None and not isinstance(event, e.StepThrottled):
            self.rules[step] = rule


def _failed_at(saga: Saga, told: _Told) -> StepId | None:
    if saga.rollback is not None and saga.rollback.step is not None:
        return saga.rollback.step
    stopped = [incident.step for incident in saga.incidents if incident.step is not None]
    return next(reversed([*told.steps, *stopped[-1:]]), None)


def _is_fatal(saga: Saga, failed: StepId | None) -> bool:
    if saga.rollback is not None:
        return saga.rollback.cause is e.Cause.FATAL
    step = None if failed is None else saga.steps.get(failed)
    return saga.phase is SagaStatus.INCIDENT and step is not None and step.fatal


def _skipped(saga: Saga, told: _Told) -> int:
    left = [step for step in saga.steps.values() if step.standing or step.status is StepStatus.SETTLED]
    return sum(step.id not in told.compensated for step in left)


def _moment(at: int | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at // 1000, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _ours(
    row: SagaRow,
    saga: Saga,
    told: _Told,
    entries: Sequence[Entry],
    checkpoint: TreeHead | None,
    drilled: Mapping[StepId, Json],
) -> dict[str, Json]:
    back = saga.rollback or saga.broken_off
    return {
        "definition": row.definition,
        "version": row.version,
        "env": row.env,
        "actor": row.actor,
        "labels": dict[str, Json](row.labels),
        "status": row.status.value,
        "started_at": _moment(row.started_at),
        "ended_at": _moment(row.ended_at),
        **_mitigated(saga),
        "cause": None if back is None else back.cause.value,
        "why": None if back is None else back.why,
        **_used_up(saga, entries[-1].at if entries else 0),
        "open_incidents": len(saga.open_incidents),
        "entries": len(entries),
        "head": entries[-1].hash.hex() if entries else None,
        "checkpoint": None if checkpoint is None else {"size": checkpoint.size, "at": _moment(checkpoint.at)},
        "steps": [{**_step(saga.steps[name], told), "drilled": drilled.get(name)} for name in told.steps],
        "timeline": _timeline(row.actor, entries),
    }


def _mitigated(saga: Saga) -> dict[str, Json]:
    """The actor who had it go back past its pivot, and the steps that stand and were mitigated; or nothing."""
    steps = [step.id for step in saga.steps.values() if step.status is StepStatus.MITIGATED]
    return {"mitigated_by": saga.mitigated_by or None, "mitigated": [*steps]} if saga.mitigated_by or steps else {}


def _used_up(saga: Saga, now: int) -> dict[str, Json]:
    """Its spending, and its limits, where it has any."""
    budget = saga.budget
    if budget is None:
        return {}
    limits: dict[str, Json] = {
        name.value: {
            "most": spelled(name, bound.most),
            "used": spelled(name, budget.used(name, now)),
            "then": bound.then,
        }
        for name, bound in budget.bounds.items()
    }
    usd = spelled("usd", budget.usd_micros).partition(" ")[0]
    return {"spent": {"tokens": budget.tokens, "usd": usd}, "limits": limits}


def _timeline(actor: str, entries: Sequence[Entry]) -> list[Json]:
    """Every fact: when, what, who stands behind it; and the rule that spoke and the key that was given."""
    lines = Timeline()
    told: list[Json] = []
    for entry in entries:
        line = lines.line(entry)
        fact: dict[str, Json] = {
            "entry": entry.number,
            "at": _moment(entry.at),
            "who": who(entry.event, actor),
            "what": entry.name,
            "text": "" if line is None else "\n".join((line.text, *line.more)),
        }
        for name in ("step", "rule", "policy", "key", "digest"):
            value: object = getattr(entry.event, name, None)
            if isinstance(value, str) and value:
                fact[name] = value
        if getattr(entry.event, "own", False):
            fact["own_decision"] = True
        told.append(fact)
    return told


def _step(step: Step, told: _Told) -> dict[str, Json]:
    return {
        "step": step.id,
        "topic": step.topic,
        "outcome": step.status.value,
        "rule": told.rules.get(step.id, ""),
        "attempts": step.attempts,
        "compensation_attempts": step.undo_attempts,
        "args_from": told.origins.get(step.id, {}),
        **({"confinement": told.confinements[step.id]} if step.id in told.confinements else {}),
    }


DrillsOf: TypeAlias = Callable[[Journal, Saga, int], Awaitable[Mapping[StepId, Json]]]
"""The last drill of each step's action, up to a moment."""


async def record_of(journal: Journal, saga: SagaId, drills: DrillsOf) -> dict[str, Json]:
    """Raises UnknownSagaError, or PayloadRemovedError where its entries were removed."""
    row = await journal.saga(saga)
    if row is None:
        raise unknown_saga(saga)
    entries = list[Entry]()
    state = await caught_up(journal, unstarted(row.id), entries.append)
    drilled = await drills(journal, state, entries[-1].at if entries else row.started_at)
    return record(row, state, entries, await _covering(journal, row.id), drilled)


async def _covering(journal: Journal, saga: SagaId) -> TreeHead | None:
    """The newest checkpoint, if nothing of the saga came after it."""
    newest = await journal.tree_head()
    if newest is not None:
        async for stored in journal.stored(after=newest.size):
            if stored.saga == saga:
                return None
    return newest
