"""Verdicts on record, judged again by the policies and with the drills that are in the same evidence. Pure.

| what is on record                          | held against                                                        |
|--------------------------------------------|---------------------------------------------------------------------|
| decision and rule                          | what the policy of that digest says of the facts                    |
| how old the action's last drill was        | the drills in the evidence that had ended by then                   |
| how compensations came out                 | nothing: it takes every saga that there was, so it stands as told   |

What the evidence does not have cannot be told: that is `unknown`, and no fault. A gate reads the drills at most once a
minute, so one that ended just before a verdict may not have counted yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from amends.core.decide.approvals import AHEAD
from amends.core.events import PolicyAdopted
from amends.core.words.contracts import Contract
from amends.core.words.values import POLICIES, SagaId
from amends.core.words.verdict import Decision, Verdict
from amends.dataclass import dataclass
from amends.errors import JournalDamagedError, PolicyError
from amends.evidence.drills import PASSED, DrillRecord, contract_digest, drill_of
from amends.gate.facts import DRILL_AGE, DRILL_RESULT, WHOLE_DRILL_AGE
from amends.gate.load import builtin_policy, parse_policy
from amends.gate.policy import DEFAULT, Policy, judge
from amends.gate.recompute import Recorded, recorded_verdicts
from amends.journal.port.journal import Entry

_DAY_MS: Final = 86_400_000
_NEAR_MS: Final = 300_000
"""What may lie between a judgement and its entry."""
_READ_MS: Final = 120_000
"""How long a drill may have been on record before every gate knew of it."""

Sagas: TypeAlias = Mapping[SagaId, Sequence[Entry]]
_Fact: TypeAlias = float | str | None


class Held(StrEnum):
    """Result of judging again."""

    SAME = "same"
    OTHER = "other"
    UNKNOWN = "unknown"


class Again(NamedTuple):
    """One verdict on record, and what is to be said of it."""

    saga: SagaId
    entry: int
    topic: str
    held: Held
    why: str = ""


def recomputed(sagas: Sagas, *, is_whole: bool, texts: Mapping[str, str] | None = None) -> Iterator[Again]:
    """Each verdict of these sagas, whose entries verify. `is_whole`: they are all that a journal has.

    texts: policies by digest that came along with the evidence, beside those that were adopted in it.
    """
    policies, drills = _policies(sagas, texts or {}), _Drills(tuple(_drilled(sagas)), is_whole=is_whole)
    for saga, entries in sorted(sagas.items()):
        if any(entry.is_removed for entry in entries):
            continue
        at = {entry.number: entry.at for entry in entries}
        try:
            verdicts = [*recorded_verdicts(saga, (entry.event for entry in entries))]
        except JournalDamagedError as exc:
            yield Again(saga, 0, "", Held.UNKNOWN, f"its entries do not follow each other: {exc}")
            continue
        for each in verdicts:
            held, why = _held(each, policies, drills, at[each.entry])
            yield Again(saga, each.entry, str(each.facts.contract.topic), held, why)


def _policies(sagas: Sagas, texts: Mapping[str, str]) -> dict[str, Policy]:
    builtin = builtin_policy()
    found = {builtin.digest: builtin}
    adopted = [entry.event for entry in sagas.get(SagaId(POLICIES), ()) if not entry.is_removed]
    told = {event.digest: event.text for event in adopted if isinstance(event, PolicyAdopted)}
    for digest, text in {**texts, **told}.items():
        try:
            found[digest] = parse_policy(text, name=f"policy {digest[:12]}", adopted=True)
        except PolicyError:
            continue  # of a newer version, or none: what it says is not known here
    return {digest: policy for digest, policy in found.items() if policy.digest == digest}


def _held(each: Recorded, policies: Mapping[str, Policy], drills: _Drills, at: int) -> tuple[Held, str]:
    policy = policies.get(each.policy)
    if policy is None:
        return Held.UNKNOWN, f"policy {each.policy[:12]} is not in the evidence"
    if each.rule == AHEAD:
        return Held.SAME, ""
    now = judge(policy, each.facts)
    if not _agree(each, now):
        if each.rule != now.rule and not _has_rule(policy, each.rule):
            return Held.UNKNOWN, f"{each.rule} is no rule of its policy: the runtime itself said so"
        return Held.OTHER, f"it says {each.decision} by {each.rule}, and its policy {now.decision} by {now.rule}"
    return drills.held(each, policy, at)


def _agree(each: Recorded, now: Verdict) -> bool:
    """Whether they agree. What is throttled is recorded in its turn; who was asked may agree, or let it run."""
    if each.rule == now.rule and (each.decision is now.decision or now.decision is Decision.THROTTLE):
        return True
    return each.approved and now.decision in {Decision.REQUIRE_HUMAN, Decision.DENY}


def _has_rule(policy: Policy, rule: str) -> bool:
    built_in = builtin_policy()
    return rule in {one.id for each in (policy, built_in) for one in each.rules} or rule == DEFAULT


def _drilled(sagas: Sagas) -> Iterator[_Drill]:
    for saga, entries in sagas.items():
        record = drill_of(saga, entries)
        if record is not None:
            yield _Drill(record, min((entry.at for entry in entries[2:]), default=None))


class _Drill(NamedTuple):
    """A drill on record, and when it was withdrawn."""

    record: DrillRecord
    until: int | None

    def counts(self, at: int) -> bool:
        return self.record.at <= at and (self.until is None or self.until > at) and not self.record.only


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """The drills of an action that a gate could know of at a moment; None: of none."""

    passed_at: int | None = None
    whole_at: int | None = None
    result: str | None = None


class _Drills:
    def __init__(self, drills: Sequence[_Drill], *, is_whole: bool) -> None:
        self._drills = sorted(drills, key=lambda one: one.record.at)
        self._is_whole = is_whole

    def held(self, each: Recorded, policy: Policy, at: int) -> tuple[Held, str]:
        """Whether what the gate was told of drills is what the drills in the evidence say."""
        facts = each.facts
        asked = [name for name in (DRILL_AGE, WHOLE_DRILL_AGE, DRILL_RESULT) if policy.speaks_of(name)]
        if not asked:
            return Held.SAME, ""
        now, before = self._known(facts.contract, at), self._known(facts.contract, at - _READ_MS)
        told: dict[str, tuple[_Fact, list[_Fact]]] = {
            DRILL_AGE: (facts.drill_age_days, [_age(one.passed_at, at) for one in (now, before)]),
            WHOLE_DRILL_AGE: (facts.drill_whole_age_days, [_age(one.whole_at, at) for one in (now, before)]),
            DRILL_RESULT: (facts.drill_result, [one.result for one in (now, before)]),
        }
        for name in asked:
            said, found = told[name]
            if any(_is_near(said, one) for one in found):
                continue
            if found[0] is None and not self._is_whole:
                return Held.UNKNOWN, f"{name} was {_spelled(said)}, and no drill of it is in the evidence"
            return Held.OTHER, f"{name} was told as {_spelled(said)}, and by the drills it was {_spelled(found[0])}"
        return Held.SAME, ""

    def _known(self, contract: Contract, at: int) -> _Known:
        wanted, known = (contract.topic, contract.version, contract_digest(contract)), _Known()
        for one in self._drills:
            for action in one.record.actions if one.counts(at) else ():
                if (action.topic, action.version, action.contract) == wanted:
                    known = _after(known, one.record, action.outcome)
        return known


def _after(known: _Known, record: DrillRecord, outcome: str) -> _Known:
    passed = outcome == PASSED
    return _Known(
        passed_at=record.at if passed else known.passed_at,
        whole_at=record.at if passed and not record.quick else known.whole_at,
        result=outcome,
    )


def _age(since: int | None, at: int) -> float | None:
    return None if since is None else (at - since) / _DAY_MS


def _is_near(said: _Fact, found: _Fact) -> bool:
    if isinstance(said, int | float) and isinstance(found, int | float):
        return abs(said - found) * _DAY_MS <= _NEAR_MS
    return said == found


def _spelled(value: _Fact) -> str:
    return "unknown" if value is None else value if isinstance(value, str) else f"{value:.2f}"
