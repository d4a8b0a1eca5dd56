"""One step in full, as its panel on the saga's page shows it: gathered from the saga's entries. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from amends.core import events as e
from amends.core.state.saga import Step
from amends.core.words.contracts import Contract
from amends.core.words.values import Json
from amends.dataclass import dataclass
from amends.journal.port.journal import Entry
from amends.runtime.coordinator.lists import History
from amends.runtime.drive.policies import Policies
from amends.text import counted, span

_ENDS: Final[Mapping[type[e.Event], tuple[str, str]]] = {
    e.AttemptSucceeded: ("succeeded", "good"),
    e.AttemptFailed: ("failed: certainly nothing happened", "bad"),
    e.AttemptLost: ("lost: nobody knows", "doubt"),
    e.CompensationSucceeded: ("succeeded", "good"),
    e.CompensationFailed: ("failed", "bad"),
    e.CompensationLost: ("lost: nobody knows", "doubt"),
    e.MitigationSucceeded: ("succeeded", "good"),
    e.MitigationFailed: ("failed", "bad"),
    e.MitigationLost: ("lost: nobody knows", "doubt"),
}
_VERDICTS: Final[Mapping[type[e.Event], str]] = {
    e.ActionDispatched: "allow",
    e.ActionAllowed: "allow",
    e.ActionDenied: "deny",
    e.ApprovalRequested: "require_human",
    e.StepThrottled: "throttle",
    e.CompensationStarted: "allow",
    e.CompensationDenied: "deny",
    e.MitigationStarted: "allow",
    e.MitigationDenied: "deny",
}


@dataclass(slots=True, kw_only=True)
class ShownAttempt:
    what: str
    number: int
    since: int
    until: int | None = None
    outcome: str = "under way"
    tone: str = "running"
    error: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownVerdict:
    at: int
    decision: str
    rule: str
    policy: str
    line: int
    why: str
    of: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    step: Step
    facts: tuple[tuple[str, str], ...]
    verdicts: tuple[ShownVerdict, ...]
    attempts: tuple[ShownAttempt, ...]
    entries: tuple[Entry, ...]
    approval: str
    """The id of its approval; empty where nobody was asked."""
    before: Json
    result: Json


def panel_of(found: History, step: Step, policies: Policies) -> Panel:
    entries = tuple(
        entry for entry in found.entries if not entry.is_removed and getattr(entry.event, "step", None) == step.id
    )
    return Panel(
        step=step,
        facts=tuple(_facts(step.contract)),
        verdicts=tuple(_verdicts(entries, policies)),
        attempts=tuple(_attempts(entries)),
        entries=entries,
        approval="" if step.approval is None else f"{found.id}/{step.id}",
        before=step.before,
        result=step.result,
    )


def _facts(contract: Contract) -> list[tuple[str, str]]:
    """A contract in words."""
    back = contract.undoes or ("its compensation" if contract.rollback_supported else "nothing is declared")
    if contract.no_rollback is not None:
        back = f"nothing: {contract.no_rollback}" + (
            f"; mitigated by: {contract.undoes}" if contract.mitigation else ""
        )
    found = [
        ("What it does", contract.does or "its author does not say"),
        ("Changes something", "yes" if contract.side_effect else "no, it only reads"),
        ("Reversibility", contract.reversibility.value),
        ("Taken back by", back if contract.side_effect else "there is nothing to take back"),
        ("After a lost attempt", _after_lost(contract)),
        ("Tried", f"at most {counted(contract.retries.attempts, 'time')}; {_timeout(contract.timeout_s)}"),
        ("Taken back in", _taken_back_in(contract)),
    ]  # fmt: skip
    if contract.risk:
        found.append(("Risk", ", ".join(contract.risk)))
    if contract.resources:
        found.append(("Needs for itself", ", ".join(contract.resources)))
    if contract.hold:
        found.append(("Held", "until everything that could fail has passed"))
    found.append(("Version", str(contract.version)))
    return found


def _taken_back_in(contract: Contract) -> str:
    tries = counted(contract.undo_retries.attempts, "try", "tries")
    return f"at most {tries}, {span(round(contract.undo_timeout_s * 1000))} each"


def _after_lost(contract: Contract) -> str:
    if contract.probe:
        return "the world is asked (probe)"
    if contract.idempotent:
        return "it is made again with the same key (idempotent)"
    return "no exception leaves it in doubt (atomic)" if contract.atomic else "a person is called, or it is compensated"


def _timeout(seconds: float | None) -> str:
    return "without a timeout" if seconds is None else f"{span(round(seconds * 1000))} each"


def _verdicts(entries: tuple[Entry, ...], policies: Policies) -> list[ShownVerdict]:
    found: list[ShownVerdict] = []
    in_force = policies.policy
    for entry in entries:
        event = entry.event
        decision = _VERDICTS.get(type(event), "")
        rule: str = getattr(event, "rule", "")
        if not decision or not rule:
            continue
        policy: str = getattr(event, "policy", "")
        line = next((one.line for one in in_force.rules if one.id == rule), 0) if policy == in_force.digest else 0
        back = isinstance(event, (e.CompensationStarted, e.CompensationDenied))
        mitigates = isinstance(event, (e.MitigationStarted, e.MitigationDenied))
        of = "compensation" if back else "mitigation" if mitigates else "action"
        why: str = getattr(event, "why", "")
        found.append(ShownVerdict(at=entry.at, decision=decision, rule=rule, policy=policy, line=line, why=why, of=of))
    return found


def _attempts(entries: tuple[Entry, ...]) -> list[ShownAttempt]:
    found: list[ShownAttempt] = []
    for entry in entries:
        event = entry.event
        match event:
            case e.ActionDispatched(key=key):
                found.append(ShownAttempt(what="action", number=1, since=entry.at, key=key))
            case e.AttemptStarted(attempt=number, key=key):
                found.append(ShownAttempt(what="action", number=number, since=entry.at, key=key))
            case e.CompensationStarted(attempt=number, key=key):
                found.append(ShownAttempt(what="compensation", number=number, since=entry.at, key=key))
            case e.MitigationStarted(attempt=number, key=key):
                found.append(ShownAttempt(what="mitigation", number=number, since=entry.at, key=key))
            case _ if type(event) in _ENDS and found:
                last = found[-1]
                last.until = entry.at
                last.outcome, last.tone = _ENDS[type(event)]
                last.error = getattr(event, "error", "")
            case e.ProbeFound() if found:
                found[-1].outcome, found[-1].tone = "lost, then found done by its probe", "good"
            case e.ProbeFoundNothing() if found:
                found[-1].outcome, found[-1].tone = "lost, then found not done by its probe", "bad"
            case _:
                pass
    return found
