"""A policy tried on the past: the verdicts on record that it would have changed, and how."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass as plain_dataclass, field, replace
from typing import Any, Final

from amends.core.words.verdict import Decision, Verdict
from amends.dataclass import dataclass
from amends.gate.environments import placed
from amends.gate.facts import Facts
from amends.gate.policy import Policy, judge, strictness
from amends.gate.recompute import Recorded, recorded_verdicts
from amends.journal.port.journal import Journal, SagaQuery, SagaRow

_PAGE: Final = 200
CHANGES: Final = ("stricter", "laxer")
UNCHANGED: Final = "unchanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedVerdict:
    """One verdict that would be another one. `change` is stricter or laxer."""

    saga: str
    recorded: Recorded
    now: Verdict
    change: str

    def fields(self) -> dict[str, object]:
        """Fields for a program."""
        recorded, now, facts = self.recorded, self.now, self.recorded.facts
        return {
            "saga": self.saga,
            "entry": recorded.entry,
            "step": recorded.step,
            "topic": facts.contract.topic,
            "phase": facts.phase,
            "change": self.change,
            "was": {"decision": recorded.decision, "rule": recorded.rule, "policy": recorded.policy},
            "now": {"decision": now.decision, "rule": now.rule, "why": now.why},
        }


@plain_dataclass(slots=True, kw_only=True)
class Replay:
    """A policy, and the sagas that began from one moment on until before another. `pages` reads them, and counts."""

    policy: Policy
    begin: int
    end: int
    environments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    counts: Counter[str] = field(default_factory=Counter[str])

    async def pages(self, journal: Journal) -> AsyncIterator[list[ChangedVerdict]]:
        """The changes of a page of sagas after the other, newest saga first."""
        query = SagaQuery(started_from=self.begin, started_until=self.end, limit=_PAGE)
        while True:
            page = await journal.sagas(query)
            yield [change for row in page.rows for change in await self._of(journal, row)]
            if page.cursor is None:
                return
            query = replace(query, before=page.cursor)

    async def _of(self, journal: Journal, row: SagaRow) -> list[ChangedVerdict]:
        if row.pruned:
            return []
        self.counts["sagas"] += 1
        events = [entry.event async for entry in journal.read(row.id)]
        found = list[ChangedVerdict]()
        for recorded in recorded_verdicts(row.id, events):
            now = judge(self.policy, self._today(recorded.facts))
            change = _change(recorded, now)
            self.counts["verdicts"] += 1
            self.counts[change] += 1
            if change != UNCHANGED:
                found.append(ChangedVerdict(saga=row.id, recorded=recorded, now=now, change=change))
        return found

    def _today(self, facts: Facts) -> Facts:
        """Facts on record, in the environment that their saga's word stands for by this policy."""
        return placed(facts, facts.env_given or facts.env, self.policy, self.environments)

    def counted(self) -> dict[str, int]:
        return {name: self.counts[name] for name in ("sagas", "verdicts", *CHANGES, UNCHANGED)}


def _change(recorded: Recorded, now: Verdict) -> str:
    """A word for the change; what people had agreed to is not changed by a policy that asks people."""
    is_same = (recorded.rule, recorded.policy) == (now.rule, now.policy)
    difference = strictness(now.decision) - strictness(recorded.decision)
    if is_same or difference == 0 or (recorded.approved and now.decision is Decision.REQUIRE_HUMAN):
        return UNCHANGED
    return "stricter" if difference > 0 else "laxer"
