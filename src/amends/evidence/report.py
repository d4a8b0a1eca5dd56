"""One incident as a report to hand on: what happened, what stands, who decided what, and how it is verified. Pure.

`report` gives data; `page` in `pages` makes Markdown or HTML of its `sections`. Secrets are masked on record, and the
digests that stand in their place are left out here. Of a saga whose content was removed it says so, and what is left.
"""

from __future__ import annotations

import base64
import shlex
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, cast

from amends.core import events as e
from amends.core.state.deciders import DELEGATES, OWNER, requesters
from amends.core.state.saga import Saga, Step
from amends.core.transitions import StepStatus
from amends.core.words.values import SECRET_MARK, Json, StepId
from amends.dataclass import dataclass
from amends.evidence.sign.note import read_checkpoint, read_note
from amends.evidence.story.timeline import Timeline
from amends.journal.port.evidence import Signer, TreeHead
from amends.journal.port.journal import PARENT, Entry, IncidentRow, SagaRow

_K, _S = e.IncidentKind, StepStatus
HAPPENED: Final[Mapping[e.IncidentKind, str]] = {
    _K.COMPENSATION_MISSING: "the step has to be taken back, and nothing is declared that could",
    _K.COMPENSATION_DENIED: "the step has to be taken back, and the gate does not let its compensation run",
    _K.COMPENSATION_FAILED: "the compensation failed, and is not tried again by itself",
    _K.COMPENSATION_TIMED_OUT: "the compensation did not come to an end in time, and is not tried again by itself",
    _K.MITIGATION_MISSING: "the step cannot be taken back, and the process that should mitigate it does not know how",
    _K.MITIGATION_DENIED: "the step cannot be taken back, and the gate does not let its mitigation run",
    _K.MITIGATION_FAILED: "the step cannot be taken back; its mitigation failed, and is not tried again by itself",
    _K.MITIGATION_TIMED_OUT: "the step cannot be taken back, and its mitigation did not come to an end in time",
    _K.OUTCOME_UNKNOWN: "nobody knows whether the step took effect, and nothing is left that could tell",
    _K.EFFECT_DOUBLED: "the step was done again, and then its first attempt landed: its effect may stand twice",
    _K.CHANGED_SINCE: "somebody changed it since, so the compensation did not overwrite it",
    _K.PAST_PIVOT: "the work failed after a step that cannot be taken back, so all of it stays as it is",
    _K.DIVERGED: "the saga's function asks for something else than the journal remembers",
    _K.LIMIT_REACHED: "the saga has reached a limit",
    _K.CALLED: "the work came to a place where its definition calls a person",
    _K.RELEASE_FAILED: "the work is done, and a step that was held until then could not be done",
    _K.VERIFICATION_FAILED: "the work is done, and an assertion that it has to meet does not hold",
    _K.IDLE: "nobody goes on with an open saga; the next step ends this",
}
"""What each kind of incident says, for people."""
_SAYS: Final[Mapping[StepStatus, str]] = {
    _S.SUCCEEDED: "stands",
    _S.MITIGATED: "stands, and was mitigated",
    _S.SETTLED: "was seen to by hand",
    _S.COMPENSATED: "was taken back",
}
_MAY: Final = "may stand"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportMaterial:
    """Material of a report. `saga` is None where its content was removed."""

    row: IncidentRow
    of: SagaRow
    saga: Saga | None
    entries: Sequence[Entry]
    family: Sequence[SagaRow] = ()
    """Its children, and theirs."""
    checkpoint: TreeHead | None = None
    covers: bool = False
    signer: Signer | None = None
    journal: str = ""
    """The journal's address, for the commands, where it is not the usual one."""


def report(told: ReportMaterial) -> dict[str, Json]:
    """The whole report as data."""
    row, of, saga = told.row, told.of, told.saga
    resolution = _resolution(told)
    found: dict[str, Json] = {
        "incident": _incident(row),
        "saga": _saga(of),
        "cause": _cause(told),
        "stands": [] if saga is None else [_stands(step, row) for step in _effects(saga)],
        "tried": _tried(told),
        "people": _people(told, resolution),
        "approvals": _approvals(told),
        "judged": _judged(told),
        "resolution": resolution,
        "comments": _comments(told),
        "family": _family(told),
        "timeline": _timeline(told.entries),
        "removed": _removed(told.entries),
        "evidence": _evidence(told),
    }
    return {"summary": _summary(told, found), **cast("dict[str, Json]", _unmarked(found))}


def moment(at: int | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at // 1000, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _unmarked(value: Json) -> Json:
    """Without the digests that stand where secrets were."""
    if isinstance(value, dict):
        return "secret" if SECRET_MARK in value else {name: _unmarked(part) for name, part in value.items()}
    return [_unmarked(part) for part in value] if isinstance(value, list) else value


# -- what happened ----------------------------------------------------------------------------------------------------


def _summary(told: ReportMaterial, found: Mapping[str, Json]) -> str:
    row, of = told.row, told.of
    at = "" if row.step is None else f" at step {row.step}{_of_topic(told)}"
    began = (
        f"Saga {row.saga} ({row.definition}), which {of.actor} ran in {of.env}, stopped{at} on {moment(row.opened_at)}"
    )
    what = f"{began}: {HAPPENED[row.kind]}."
    if told.saga is None:
        return f"{what} What its entries held was removed since; their numbers, times and hashes are left."
    stand = cast("list[dict[str, Any]]", found["stands"])
    may = sum(one["says"] in {"stands", "stands, and was mitigated", _MAY} for one in stand)
    left = "Nothing of it stands in the world." if not may else f"{may} of its effects stand in the world, or may."
    closed = cast("dict[str, Any] | None", found["resolution"])
    if closed is None:
        end = f"It is open; {row.owner} sees to it." if row.owner else "It is open, and nobody sees to it yet."
    else:
        end = f"{closed['by']} {closed['how']} it on {closed['at']}."
    return f"{what} {left} {end}"


def _of_topic(told: ReportMaterial) -> str:
    step = None if told.saga is None or told.row.step is None else told.saga.steps.get(told.row.step)
    return "" if step is None else f" ({step.topic})"


def _incident(row: IncidentRow) -> dict[str, Json]:
    return {
        "id": row.id,
        "kind": row.kind.value,
        "status": row.status,
        "step": row.step,
        "opened_at": moment(row.opened_at),
        "closed_at": moment(row.closed_at),
        "left": [*row.left],
    }


def _saga(of: SagaRow) -> dict[str, Json]:
    return {
        "id": of.id,
        "definition": of.definition,
        "version": of.version,
        "env": of.env,
        "status": of.status.value,
        "started_at": moment(of.started_at),
        "ended_at": moment(of.ended_at),
        "labels": dict[str, Json](of.labels),
        "parent": of.labels.get(PARENT),
    }


def _cause(told: ReportMaterial) -> dict[str, Json]:
    back = None if told.saga is None else told.saga.rollback or told.saga.broken_off
    step = None if back is None or back.step is None else back.step
    return {
        "what": HAPPENED[told.row.kind],
        "why": told.row.why or None,
        "rollback": None
        if back is None
        else {
            "cause": back.cause.value,
            "why": back.why,
            "by": back.by,
            "step": step,
        },
    }


def _effects(saga: Saga) -> list[Step]:
    """The steps that changed, or may have changed, something; newest first."""
    order = [saga.steps[saga.order[number]] for number in range(len(saga.order), 0, -1)]
    return [step for step in order if step.contract.side_effect and (step.standing or step.status in _SAYS)]


def _stands(step: Step, row: IncidentRow) -> dict[str, Json]:
    return {
        "step": step.id,
        "topic": step.topic,
        "args": step.args,
        "says": _SAYS.get(step.status, _MAY),
        "status": step.status.value,
        "reversibility": step.contract.reversibility.value,
        "no_rollback": step.contract.no_rollback,
        "stopped_here": step.id == row.step,
    }


def _tried(told: ReportMaterial) -> list[Json]:
    """The attempts of the step at which it stopped; where it names none, of those of which something may stand."""
    about = {told.row.step} if told.row.step is not None else set(told.row.left)
    return _timeline(told.entries, about)


def _timeline(entries: Iterable[Entry], about: Iterable[StepId | None] | None = None) -> list[Json]:
    lines, found = Timeline(), list[Json]()
    for entry in entries:
        line = lines.line(entry)
        step: StepId | None = None if entry.is_removed else getattr(entry.event, "step", None)
        if line is None or (about is not None and step not in about):
            continue
        found.append(
            {
                "entry": entry.number,
                "at": moment(entry.at),
                "who": line.who,
                "direction": line.direction.value,
                "step": line.step,
                "topic": line.topic,
                "text": "\n".join((line.text, *line.more)),
                "hash": entry.hash.hex(),
            }
        )
    return found


# -- who --------------------------------------------------------------------------------------------------------------


def _events(told: ReportMaterial) -> list[tuple[Entry, e.Event]]:
    return [(entry, entry.event) for entry in told.entries if not entry.is_removed]


def _people(told: ReportMaterial, resolution: Json) -> dict[str, Json]:
    approvers = dict.fromkeys(
        event.by for _, event in _events(told) if isinstance(event, (e.ApprovalSigned, e.ApprovalGranted))
    )
    labels = told.of.labels
    return {
        "actor": told.of.actor,
        "owner": told.row.owner or None,
        "owner_of_saga": labels.get(OWNER),
        "delegates": [name.strip() for name in labels.get(DELEGATES, "").split(",") if name.strip()],
        "requesters": [*requesters(told.of)],
        "approvers": [*approvers],
        "resolver": resolution["by"] if isinstance(resolution, dict) else None,
    }


def _resolution(told: ReportMaterial) -> dict[str, Json] | None:
    found: dict[str, Json] | None = None
    for entry, event in _events(told):
        if isinstance(event, (e.IncidentResolved, e.IncidentRetried)) and event.incident == told.row.number:
            vouched = isinstance(event, e.IncidentResolved)
            found = {
                "how": "resolved" if vouched else "retried",
                "by": event.by,
                "at": moment(entry.at),
                "reason": event.reason if isinstance(event, e.IncidentResolved) else None,
                "proof": (event.proof or None) if isinstance(event, e.IncidentResolved) else None,
                "settled": [*event.settled] if isinstance(event, e.IncidentResolved) else [],
                "against_the_gate": isinstance(event, e.IncidentRetried) and event.let_run,
                "own_decision": event.own,
                "entry": entry.number,
            }
    return found


def _comments(told: ReportMaterial) -> list[Json]:
    return [
        {"at": moment(entry.at), "by": event.by, "text": event.text}
        for entry, event in _events(told)
        if isinstance(event, e.IncidentCommented) and event.incident == told.row.number
    ]


_ANSWERS: Final[Mapping[type[e.Event], str]] = {
    e.ApprovalSigned: "approved",
    e.ApprovalGranted: "approved",
    e.ApprovalRefused: "refused",
    e.ApprovalExpired: "expired",
    e.ApprovalVoided: "void",
    e.ApprovalUsed: "used",
}


def _approvals(told: ReportMaterial) -> list[Json]:
    """Approvals that people were asked for, exactly what they were shown, and what each said; oldest first."""
    asked: dict[StepId, list[Json]] = {}
    found: list[Json] = []
    for entry, event in _events(told):
        if isinstance(event, e.ApprovalRequested):
            answers: list[Json] = []
            asked[event.step] = answers
            found.append(
                {
                    "step": event.step,
                    "asked_at": moment(entry.at),
                    "expires_at": moment(event.expires_at),
                    "rule": event.rule,
                    "policy": event.policy,
                    "why": event.why or None,
                    "needs": [{"approvals": need.approvals, "approvers": [*need.approvers]} for need in event.needs],
                    "digest": event.digest,
                    "shown": event.shown,
                    "answers": answers,
                }
            )
        elif type(event) in _ANSWERS:
            step = cast("StepId", getattr(event, "step", ""))
            asked.get(step, []).append(
                {
                    "at": moment(entry.at),
                    "what": _ANSWERS[type(event)],
                    "by": getattr(event, "by", "") or None,
                    "why": getattr(event, "why", "") or None,
                    "own_decision": getattr(event, "own", False),
                }
            )
    return found


def _judged(told: ReportMaterial) -> list[Json]:
    """Which rule of which policy spoke of the step at which it stopped; where it names none, of what may stand."""
    about = {told.row.step} if told.row.step is not None else set(told.row.left)
    found: list[Json] = []
    for entry, event in _events(told):
        step, rule, policy = (getattr(event, name, None) for name in ("step", "rule", "policy"))
        if step in about and rule:
            back = type(event).__name__.startswith(("Compensation", "Mitigation"))
            denied = isinstance(event, (e.ActionDenied, e.CompensationDenied, e.MitigationDenied))
            says = "require_human" if isinstance(event, e.ApprovalRequested) else "deny" if denied else "allow"
            found.append(
                {
                    "step": step,
                    "phase": "compensation" if back else "forward",
                    "decision": says,
                    "rule": rule,
                    "policy": policy,
                    "why": getattr(event, "why", None) or None,
                    "at": moment(entry.at),
                }
            )
    return found


# -- the family, what is gone, and how it is verified -----------------------------------------------------------------


def _family(told: ReportMaterial) -> list[Json]:
    return [
        {
            "id": one.id,
            "definition": one.definition,
            "status": one.status.value,
            "parent": one.labels.get(PARENT),
            "open_incidents": one.open_incidents,
            "pruned": one.pruned,
        }
        for one in told.family
    ]


def _removed(entries: Iterable[Entry]) -> dict[str, Json] | None:
    gone = [entry for entry in entries if entry.is_removed]
    if not gone:
        return None
    said = [
        {"at": moment(entry.at), "by": entry.event.by, "why": entry.event.why, "entries": entry.event.entries}
        for entry in entries
        if not entry.is_removed and isinstance(entry.event, e.ContentRemoved)
    ]
    return {"entries": len(gone), "by": cast("Json", said)}


def _evidence(told: ReportMaterial) -> dict[str, Json]:
    newest = told.entries[-1] if told.entries else None
    point = told.checkpoint
    root = None if point is None else base64.b64encode(read_checkpoint(read_note(point.note)).root).decode()
    key = None if told.signer is None else told.signer.key
    at = () if not told.journal else ("--journal", told.journal)
    return {
        "entries": len(told.entries),
        "head": None if newest is None else newest.hash.hex(),
        "hashes": [{"entry": entry.number, "name": entry.name, "hash": entry.hash.hex()} for entry in told.entries],
        "tree_head": None
        if point is None
        else {"size": point.size, "root": root, "at": moment(point.at), "note": point.note, "covers": told.covers},
        "key": key,
        "verify": [
            shlex.join(("amends", "evidence", "export", told.row.saga, "-o", "bundle.jsonl", *at)),
            "amends evidence verifier > verify.py",
            shlex.join(("python3", "verify.py", "bundle.jsonl", "--key", key or "KEY")),
        ],
    }
