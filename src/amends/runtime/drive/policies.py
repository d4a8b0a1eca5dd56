"""The policy of now: the last one that was adopted on this journal, else the built-in one.

Adopting is an act on record, in a saga of its own that keeps every policy there ever was, with who adopted it and why.
A running coordinator looks for a newer one before it judges, at most once each `poll_s`. A policy's file is read when
it is adopted, and never again. A file that is only named, by an option, the environment or a configuration, is compared
with the one in force, and never adopted by that; only a journal that holds nothing yet begins with it.

What people are still asked under the policy before is void from then on, and judged again. Whoever adopts one goes
through all that is asked, and notes it when that is done. Two things could leave an approval behind: it is asked just
as a policy is adopted, or who adopted it dies in the middle. Against the first, who asks looks once more afterwards;
against the second, every `resume` and every process on duty goes through what is asked where nobody has noted it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from amends.clock import Clock
from amends.core import commands as c
from amends.core.decide import adopt
from amends.core.events import DecisionEvent, Event, PolicyAdopted
from amends.core.state.saga import Saga, evolve, unstarted
from amends.core.transitions import SagaStatus
from amends.core.words.values import POLICIES, SagaId
from amends.core.words.verdict import Verdict
from amends.dataclass import altered
from amends.errors import JournalConflictError, JournalError, PolicyError, ProofError, RefusedError
from amends.evidence.proof.statement import Question
from amends.gate.facts import Facts
from amends.gate.policy import Policy, PolicyGate
from amends.journal.port.journal import Entry, Journal, PersonQuery, SagaQuery, Summary
from amends.logs import logger
from amends.runtime.drive.roster import Proof, Proofs, UnsignedDecision

_SAGA: Final = SagaId(POLICIES)
_GONE_THROUGH: Final = "amends.policies/asked"
"""The name under which it is noted up to which adoption all that people were asked has been gone through."""
_ASKS: Final = "proof"
"""What stands in the text of every policy that asks for proof."""
_log = logger("amends.gate")


class Policies:
    """A gate that goes by what was adopted last. `open` it before it judges anything."""

    def __init__(self, journal: Journal, clock: Clock, poll_s: float, *, root: str | None = None) -> None:
        self._journal = journal
        self._clock = clock
        self._poll_s = poll_s
        self.stale_at = float("-inf")
        """When to look for a newer one, by the clock that nobody sets."""
        self._looking = asyncio.Lock()
        self._kept: Saga = unstarted(_SAGA)
        self.gate: PolicyGate | None = None
        """The gate of the policy in force, once that was looked for; None for the built-in one."""
        self.adopted: PolicyAdopted | None = None
        """How the one in force came to be; None for the built-in one."""
        self.proofs = Proofs(journal, clock, root)
        self.proof_since: int | None = None if root is None else 0
        """The position since which every decision has to be signed; None where names are believed."""
        self._used: set[str] = set()
        self.unsigned_adoption = 0
        """The entry that adopts a policy, where none that was adopted counts: by which one to judge is not known."""
        self.has_adopted = False
        """Whether one was adopted through this object."""

    @property
    def policy(self) -> Policy:
        return self._current().policy

    @property
    def digest(self) -> str:
        """Of the policy in force, as far as is known here."""
        return self.policy.digest

    @property
    def stale(self) -> bool:
        return self._clock.elapsed() >= self.stale_at

    def judge(self, facts: Facts) -> Verdict:
        return self._current().judge(facts)

    def require_one(self) -> None:
        """Raises ProofError where policies were adopted, and none of them counts."""
        if self.unsigned_adoption:
            raise ProofError(
                "nothing is judged: of the policies that were adopted on this journal none counts, as nobody has "
                f"signed entry {self.unsigned_adoption} of {_SAGA}, or one before it; the built-in one does not stand "
                "in for them. See amends evidence verify --root, and adopt the one that is meant: amends policy adopt "
                "… --ssh-key FILE"
            )

    def _current(self) -> PolicyGate:
        if self.gate is None:
            from amends.gate.load import BuiltinGate

            self.gate = BuiltinGate()
        return self.gate

    async def refresh(self) -> None:
        """Take up what was adopted since. Raises PolicyError for one that this version cannot read: nothing is judged
        by the one before it.
        """
        async with self._looking:
            self.stale_at = self._clock.elapsed() + self._poll_s
            if self.proofs.root is not None:
                await self.proofs.refresh()
            row = await self._journal.saga(_SAGA)
            if row is None or row.entries == self._kept.head:
                return
            newest: PolicyAdopted | None = None
            since, unsigned = self.proof_since, 0
            kept = self._kept.copy()  # one that cannot be read is found anew by whoever asks next
            async for entry in self._journal.read(_SAGA, after=kept.head):
                kept = evolve(kept, entry.event)
                if not isinstance(entry.event, PolicyAdopted):
                    continue
                if await self._counts(entry, since):
                    newest = entry.event
                    since = await self._since(entry, newest, since)
                else:
                    unsigned = entry.number
            if newest is not None:
                self.gate, self.adopted = _gate_of(newest), newest
            self.unsigned_adoption = 0 if self.adopted is not None else unsigned or self.unsigned_adoption
            self._kept, self.proof_since = kept, since

    async def _counts(self, entry: Entry, since: int | None) -> bool:
        """Whether an adoption is one: where decisions have to be signed, one that is not changes nothing."""
        why = "" if since is None else await self.proofs.why_unproved(entry, self._used)
        if why:
            _log.error("entry %d of %s adopts a policy, and counts for nothing: %s", entry.number, _SAGA, why)
        return not why

    async def unproved(self, entry: Entry) -> str:
        """Why a decision about all sagas is not proved; '' where it is, or where names are believed."""
        if self.stale:
            await self.newest()
        if self.proof_since is None:
            return ""
        positions = await self._journal.positions(entry.saga)
        if entry.number <= len(positions) and positions[entry.number - 1] <= self.proof_since:
            return ""
        return await self.proofs.why_unproved(entry, self._used)

    async def _since(self, entry: Entry, adopted: PolicyAdopted, since: int | None) -> int | None:
        """The position since which decisions have to be signed, once this policy is in force."""
        if self.proofs.root is not None:
            return 0
        if _ASKS not in adopted.text or not _gate_of(adopted).policy.proof:
            return None
        return since if since is not None else max((await self._journal.positions(_SAGA))[: entry.number], default=0)

    async def newest(self) -> str | None:
        """The digest of the policy in force, by a look just now; None where that cannot be told."""
        try:
            await self.refresh()
        except ProofError:
            raise
        except (PolicyError, JournalError) as exc:  # by the one before nothing is judged; who can read it goes on
            _log.warning("could not look for a newer policy: %s", exc)
            return None
        return self.digest

    async def begins_with(self, policy: Policy, *, by: str, why: str) -> bool:
        """Whether this is the policy in force; a journal that holds nothing yet adopts it first."""
        await self.refresh()
        if self.adopted is None and not (await self._journal.sagas(SagaQuery(limit=1))).rows:
            try:
                await self._record(policy, by=by, why=why)
            except JournalConflictError:  # another process was faster, with this one or another
                await self.refresh()
        return self.digest == policy.digest

    async def adopt(self, policy: Policy, *, by: str, why: str, proof: Proof | None = None) -> bool:
        """Have this policy judge from now on, everywhere; whether it is another one than before. Raises ProofError."""
        while True:
            await self.refresh()
            if self.gate is not None and self.gate.policy.digest == policy.digest and self._kept.head:
                return False
            try:
                await self._record(policy, by=by, why=why, proof=proof)
            except JournalConflictError:
                continue
            return True

    async def _record(self, policy: Policy, *, by: str, why: str, proof: Proof | None = None) -> None:
        command = c.AdoptPolicy(digest=policy.digest, text=policy.text, by=by, why=why)
        head = self._kept.head  # what is decided here follows this entry; another process may append meanwhile
        *begun, adopted = adopt(self._kept, command)
        if isinstance(adopted, PolicyAdopted):
            adopted = altered(adopted, signed=await self.proved(_SAGA, adopted, proof))
        events = (*begun, adopted)
        await self._journal.append(_SAGA, events, after=head, summary=Summary(SagaStatus.COMPLETED))
        self.has_adopted = True
        await self.refresh()

    async def proved(
        self,
        saga: SagaId,
        fact: DecisionEvent,
        proof: Proof | None,
        asked: Question | None = None,
        *,
        asks: bool = False,
        at: int | None = None,
    ) -> str:
        """The signature of a decision, as it goes on record; '' where names are believed, and nobody gives one.

        asks: this decision takes one, whatever the others do; at: the time that it goes by. Raises ProofError.
        """
        await self.refresh()
        if proof is not None:
            return await self.proofs.signed(saga, fact, proof, policy=self.digest, asked=asked, at=at)
        if asks or self.proof_since is not None:
            raise ProofError(
                "decisions on this journal are signed, and this one is not: give a key that is enrolled, with "
                "--ssh-key FILE or proof=; amends person list says whose keys are"
            )
        return ""

    async def why_unsigned(self, saga: Saga, events: Sequence[Event]) -> str:
        """Why decisions that are about to go on record would not count; '' where they do, or names are believed."""
        await self.refresh()
        return "" if self.proof_since is None else await self.proofs.why_unsigned(saga, events)

    async def proved_together(self, wanted: Sequence[UnsignedDecision], proof: Proof) -> str:
        """The one signature of several approvals, as it goes on record with each. Raises ProofError."""
        await self.refresh()
        return await self.proofs.signed_together(wanted, proof, policy=self.digest)

    async def void_outlived(self, request: Callable[[SagaId, c.Command], Awaitable[Saga]]) -> tuple[SagaId, ...]:
        """Have all that people are still asked under another policy voided, unless that was done since it was adopted.

        `request` has a command recorded, whoever drives the saga. The answer: the sagas that people are asked about.
        """
        await self.refresh()
        adoption = self._kept.head
        if adoption == 0 or await self._journal.cursor(_GONE_THROUGH) >= adoption:
            return ()
        asked = await self._asked_about()
        for saga in asked:
            await self._void(saga, request)
        if self._kept.head == adoption:  # else the next one's adopter goes through them, with that one
            await self._journal.move_cursor(_GONE_THROUGH, adoption)
        return asked

    async def _asked_about(self) -> tuple[SagaId, ...]:
        found: dict[SagaId, None] = {}
        cursor: str | None = None
        while True:
            page = await self._journal.approvals(PersonQuery(after=cursor))
            found |= dict.fromkeys(row.saga for row in page.rows)
            cursor = page.cursor
            if cursor is None:
                return tuple(found)

    async def _void(self, saga: SagaId, request: Callable[[SagaId, c.Command], Awaitable[Saga]]) -> None:
        await self.refresh()  # going through many takes its time; what is asked under a newer one stays
        try:
            await request(saga, c.VoidOutlived(policy=self.digest))
        except RefusedError as exc:
            _log.warning("what people are asked about saga %s cannot be voided: %s", saga, exc)


def _gate_of(adopted: PolicyAdopted) -> PolicyGate:
    from amends.gate.load import parse_policy

    return PolicyGate(parse_policy(adopted.text, name=f"policy {adopted.digest[:12]}", adopted=True))


async def require_proved(policies: Policies | None, saga: SagaId) -> None:
    """Raises ProofError where decisions are signed here, and one about this saga is not."""
    if policies is None:
        return
    if policies.stale:
        await policies.newest()
    policies.require_one()
    if policies.proof_since is not None:
        await policies.proofs.require_proved(saga, policies.proof_since)
