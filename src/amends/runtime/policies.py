"""The policy of now: the last one that was adopted on this journal, else the built-in one.

Adopting is an act on record, in a saga of its own that keeps every policy there ever was, with who adopted it and why.
A running coordinator looks for a newer one before it judges, at most once each `poll_s`. A policy's file is read when
it is adopted, and never again.
"""

from __future__ import annotations

import asyncio

from amends.clock import Clock
from amends.core import commands as c
from amends.core.decide import decide
from amends.core.events import PolicyAdopted
from amends.core.saga import Saga, evolve, unstarted
from amends.core.transitions import SagaStatus
from amends.core.values import POLICIES, SagaId
from amends.core.verdict import Verdict
from amends.errors import JournalConflictError
from amends.gate.policy import Policy, PolicyGate
from amends.gate.protocol import Facts
from amends.journal.protocol import Journal, Summary

_SAGA = SagaId(POLICIES)


class Policies:
    """A gate that goes by what was adopted last. `open` it before it judges anything."""

    def __init__(self, journal: Journal, clock: Clock, poll_s: float) -> None:
        self._journal = journal
        self._clock = clock
        self._poll_s = poll_s
        self._looked_at = float("-inf")
        self._looking = asyncio.Lock()
        self._kept: Saga = unstarted(_SAGA)
        self._gate: PolicyGate | None = None

    @property
    def policy(self) -> Policy:
        return self._current().policy

    def judge(self, facts: Facts) -> Verdict:
        return self._current().judge(facts)

    def _current(self) -> PolicyGate:
        if self._gate is None:
            from amends.gate.builtin import BuiltinGate

            self._gate = BuiltinGate()
        return self._gate

    @property
    def is_stale(self) -> bool:
        return self._clock.elapsed() >= self._looked_at + self._poll_s

    async def refresh(self) -> None:
        """Take up what was adopted since. Raises PolicyError for one that this version cannot read: nothing is judged
        by the one before it.
        """
        async with self._looking:
            self._looked_at = self._clock.elapsed()
            row = await self._journal.saga(_SAGA)
            if row is None or row.entries == self._kept.head:
                return
            newest: PolicyAdopted | None = None
            kept = self._kept
            async for entry in self._journal.read(_SAGA, after=kept.head):
                kept = evolve(kept, entry.event)
                newest = entry.event if isinstance(entry.event, PolicyAdopted) else newest
            if newest is not None:
                self._gate = _gate_of(newest)
            self._kept = kept

    async def adopt(self, policy: Policy, *, by: str, why: str) -> bool:
        """Have this policy judge from now on, everywhere; whether it is another one than before."""
        while True:
            await self.refresh()
            if self._gate is not None and self._gate.policy.digest == policy.digest and self._kept.head:
                return False
            command = c.AdoptPolicy(digest=policy.digest, text=policy.text, by=by, why=why)
            events = decide(self._kept, command)
            try:
                await self._journal.append(_SAGA, events, after=self._kept.head, summary=Summary(SagaStatus.COMPLETED))
            except JournalConflictError:
                continue
            await self.refresh()
            return True


def _gate_of(adopted: PolicyAdopted) -> PolicyGate:
    from amends.gate.load import parse_policy

    return PolicyGate(parse_policy(adopted.text, name=f"policy {adopted.digest[:12]}"))
