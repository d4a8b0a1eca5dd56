"""Drills as a policy asks of them: `drill.age_days` and what else the gate is told; and the drills that were missed."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from amends.clock import Clock
from amends.core.events import (
    DrillMissed,
)
from amends.core.words.contracts import Contract
from amends.core.words.values import RUNTIME, Json
from amends.evidence.drills import (
    DrilledAt,
    DrillResults,
    Scheduled,
    compensation_failures,
    contract_digest,
    drilled_at,
    last_results,
    passed_at,
    scheduled,
)
from amends.gate.facts import DRILL_AGE, DRILL_RESULT, FAILURES, TOLD, WHOLE_DRILL_AGE
from amends.gate.policy import Policy
from amends.journal.port.journal import Journal
from amends.runtime.drive.pauses import Pauses

_DAY_MS: Final = 86_400_000
_FRESH_S: Final = 60.0
OF_DRILLS: Final = (DRILL_AGE, WHOLE_DRILL_AGE)


def told_facts(policy: Policy) -> tuple[str, ...]:
    """Facts of these that a policy speaks of."""
    return tuple(filter(policy.speaks_of, TOLD))


async def note_missed(journal: Journal, clock: Clock, every_s: float) -> int:
    """Put on record which drills were missed, each once for every such time; how many that were."""
    pauses, noted = Pauses(journal, clock, 0.0), 0
    for one in await scheduled(journal):
        fact = DrillMissed(saga=one.saga, target=one.target, last_at=one.at, every_s=every_s, by=RUNTIME)

        def due(one: Scheduled = one, fact: DrillMissed = fact) -> DrillMissed | None:
            since = replace(one, at=max(one.at, pauses.missed.get(one.target, 0)))
            return fact if since.is_missed(clock.now(), every_s) else None

        noted += bool(await pauses.keep(due))
    return noted


class Drills:
    """Facts for the gate about other sagas: drills, and how compensations came out.

    It is read from the journal when a policy asks, at most once a minute.
    """

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._looked_at = float("-inf")
        self._looking = asyncio.Lock()
        self._at: DrilledAt = {}
        self._whole_at: DrilledAt = {}
        self._results: DrillResults = {}
        self._failures: dict[tuple[str, int], tuple[float, float | None]] = {}

    async def told(self, asked: tuple[str, ...], contract: Contract) -> dict[str, Json]:
        """Values of these facts; one that nobody knows is left out."""
        found: dict[str, Json] = {}
        if DRILL_AGE in asked:
            found[DRILL_AGE] = await self.age_days(contract)
        if WHOLE_DRILL_AGE in asked:
            found[WHOLE_DRILL_AGE] = await self.whole_age_days(contract)
        if DRILL_RESULT in asked:
            found[DRILL_RESULT] = await self.result(contract)
        if FAILURES in asked:
            found[FAILURES] = await self.failures(contract)
        return {name: value for name, value in found.items() if value is not None}

    async def result(self, contract: Contract) -> str | None:
        """How the last drill of this action under this contract came out; None where there was none."""
        await self._look_if_stale()
        last = self._results.get((contract.topic, contract.version, contract_digest(contract)))
        return None if last is None else last[1]

    async def failures(self, contract: Contract) -> float | None:
        """The share of this action's last compensations that failed; None where none was ever tried."""
        name, now = (contract.topic, contract.version), self._clock.elapsed()
        looked_at, share = self._failures.get(name, (float("-inf"), None))
        if now >= looked_at + _FRESH_S:
            share = await compensation_failures(self._journal, *name)
            self._failures[name] = (now, share)
        return share

    async def age_days(self, contract: Contract) -> float | None:
        """How long ago this action passed a drill under this contract; None where it never did."""
        await self._look_if_stale()
        return self._age_days(self._at, contract)

    async def whole_age_days(self, contract: Contract) -> float | None:
        """How long ago it passed a whole one."""
        await self._look_if_stale()
        return self._age_days(self._whole_at, contract)

    def _age_days(self, known: DrilledAt, contract: Contract) -> float | None:
        at = drilled_at(known, contract)
        return None if at is None else max(0, self._clock.now() - at) / _DAY_MS

    async def _look_if_stale(self) -> None:
        if self._clock.elapsed() < self._looked_at + _FRESH_S:
            return
        async with self._looking:
            if self._clock.elapsed() >= self._looked_at + _FRESH_S:
                self._at, self._whole_at = await passed_at(self._journal)
                self._results = await last_results(self._journal)
                self._looked_at = self._clock.elapsed()
