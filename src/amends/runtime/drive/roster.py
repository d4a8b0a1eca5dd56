"""Proved names, at run time: the roster of this journal, what a person signs, and whether what is on record is proved.

Whoever decides is asked for a signature where the policy asks it, or a root is pinned. It is verified before the
decision is written, and again by every process before it acts on what the journal says: an entry that somebody wrote
into the file by other means proves nothing.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable
from typing import Final, NamedTuple, TypeAlias, cast

from amends.clock import Clock
from amends.core import commands as c, events as e
from amends.core.decide.approvals import digest_of
from amends.core.decide.people import change_roster, signed as signed_fact
from amends.core.state.saga import Saga, evolve, unstarted
from amends.core.transitions import SagaStatus
from amends.core.words.values import LARGEST_INT, PEOPLE, SagaId, StepId, canonical
from amends.dataclass import altered
from amends.errors import AmendsError, InputError, JournalConflictError, ProofError
from amends.evidence.proof.keys import read_key, read_signature
from amends.evidence.proof.limits import COUNTED
from amends.evidence.proof.roster import BESIDE, EnrolledKey, Roster, SagaDecisions, SignableDecision
from amends.evidence.proof.statement import APPROVALS, DECISIONS, EVERY_SAGA, Question, read_time
from amends.journal.codec import spelled
from amends.journal.port.journal import Entry, Journal, Summary

Proof: TypeAlias = str | Callable[[str], str | Awaitable[str]]
"""A signed text, with its signature below it; or what signs a text: it is called with it, and gives the signature."""
TellOfRecovery: TypeAlias = Callable[[EnrolledKey, e.PersonEvent], Awaitable[None]]
"""Has people told that a recovery key is used, and what for, before that counts."""
_SAGA: Final = SagaId(PEOPLE)
_JUDGED: Final = frozenset({*DECISIONS, *BESIDE, *COUNTED})
_LOOKED_AT_IN_USE: Final = APPROVALS - {"approval.refused/1"}
_ARMOUR: Final = "-----BEGIN"
_AT: Final = "\nat: "


class UnsignedDecision(NamedTuple):
    """A decision that somebody is about to sign; `asked`: of an approval."""

    saga: SagaId
    fact: e.DecisionEvent
    asked: Question | None = None


class Proofs:
    """The roster, as far as it is known here; `refresh` looks for news. `root`: the one that was pinned."""

    def __init__(self, journal: Journal, clock: Clock, root: str | None = None) -> None:
        self._journal = journal
        self._clock = clock
        self.root = root
        self.tell_of_recovery: TellOfRecovery | None = None
        self.roster = Roster()
        self._kept: Saga = unstarted(_SAGA)
        self._looking = asyncio.Lock()

    async def refresh(self) -> Roster:
        """Take up who was enrolled or revoked since. Raises ProofError where the journal has another root."""
        async with self._looking:
            row = await self._journal.saga(_SAGA)
            if row is not None and row.entries != self._kept.head:
                await self._read()
        if self.root is not None and self.roster.root != self.root:
            has = f"has the root {self.roster.root}" if self.roster.root else "has no roster of people"
            raise ProofError(
                f"this journal {has}, and {self.root} was told (root=, or root in amends.toml): it is another journal, "
                "or somebody has made it anew; nothing is done with it"
            )
        return self.roster

    async def _read(self) -> None:
        kept = self._kept.copy()
        entries = [entry async for entry in self._journal.read(_SAGA, after=kept.head)]
        positions = await self._journal.positions(_SAGA)
        for entry in entries:
            kept = evolve(kept, entry.event)
            self.roster.note(_decision(entry, positions), entry.at, entry.hash)
        self._kept = kept

    # -- signing ------------------------------------------------------------------------------------------------------

    async def signed(
        self,
        saga: SagaId,
        fact: e.DecisionEvent,
        proof: Proof,
        *,
        policy: str,
        asked: Question | None = None,
        at: int | None = None,
    ) -> str:
        """The field `signed` of a decision, once it is found to be proved. Raises ProofError.

        at: the time that the decision goes by; else it is looked up.
        """
        return await self.signed_together((UnsignedDecision(saga, fact, asked),), proof, policy=policy, at=at)

    async def signed_together(
        self, wanted: Sequence[UnsignedDecision], proof: Proof, *, policy: str, at: int | None = None
    ) -> str:
        """The field `signed` that several approvals share, once each is found to be proved by it. Raises ProofError."""
        roster = await self.refresh()
        try:
            going = roster.goes_by(policy, signed_at(proof, self._clock.now()) if at is None else at)
            over, text = roster.to_sign([_signable(each, "") for each in wanted], going)
            signed = str(over._replace(signature=await _signature(proof, text)))
            used: dict[SagaId, set[str]] = {}
            for each in wanted:
                if each.saga not in used and each.saga != _SAGA:
                    used[each.saga] = set() if each.saga == EVERY_SAGA else await self._used(each.saga)
                texts = used.get(each.saga)
                counted = roster.checked(_signable(each, signed), texts)
                if texts is not None:
                    texts.add(counted)
        except AmendsError as exc:
            raise ProofError(f"it is not decided: {exc}") from None
        return signed

    async def _used(self, saga: SagaId) -> set[str]:
        """Texts that count in a saga already."""
        return (await self._judged(saga)).used

    # -- what is on record --------------------------------------------------------------------------------------------

    async def why_unproved(self, entry: Entry, used: set[str]) -> str:
        """Why one entry of a saga that amends keeps for itself is not proved; '' where it is."""
        await self.refresh()
        positions = await self._journal.positions(entry.saga)
        try:
            used.add(self.roster.checked(_decision(entry, positions), used))
        except AmendsError as exc:
            return str(exc)
        return ""

    async def require_proved(self, saga: SagaId, since: int) -> None:
        """Raises ProofError unless every decision about a saga is proved that was made after this position.

        Grants are looked at when they are used: one that is not proved is void, and people are asked again.
        """
        wrong: list[tuple[SignableDecision, str]] = []
        await self._judged(saga, lambda one, why: wrong.append((one, why)))
        late = [(one, why) for one, why in wrong if one.position > since and one.name not in _LOOKED_AT_IN_USE]
        if late:
            one, why = late[0]
            raise ProofError(
                f"saga {saga} is not driven: entry {one.number} ({one.name}) is not proved: {why}. Somebody has "
                "written it past amends, or it is from before names were proved here; see amends evidence verify --root"
            )

    async def why_unsigned(self, saga: Saga, events: Sequence[e.Event]) -> str:
        """Why decisions that are about to go on record would not be proved there; '' where they would be."""
        facts = ((saga.head + place, *spelled(event)) for place, event in enumerate(events, 1))
        coming = [
            SignableDecision(saga=saga.id, number=number, name=name, body=body, position=LARGEST_INT)
            for number, name, body in facts
        ]
        wrong: list[str] = []
        await self._judged(saga.id, lambda one, why: wrong.append(why) if one.number > saga.head else None, coming)
        return wrong[0] if wrong else ""

    async def _judged(
        self,
        saga: SagaId,
        tell: Callable[[SignableDecision, str], None] = lambda _one, _why: None,
        coming: Sequence[SignableDecision] = (),
    ) -> SagaDecisions:
        await self.refresh()
        found: list[SignableDecision] = []
        asked: dict[StepId, Question] = {}
        entries = [entry async for entry in self._journal.read(saga)]
        positions = await self._journal.positions(saga)
        for entry in entries:
            if entry.is_removed:
                continue
            event = entry.event
            if isinstance(event, e.ApprovalRequested):
                asked[event.step] = _asked(event)
            elif entry.name in _JUDGED:
                found.append(_decision(entry, positions, asked))
        judged = SagaDecisions(self.roster)
        judged.judge([*found, *(one for one in coming if one.name in _JUDGED)], tell)
        return judged

    async def approvers(self, saga: SagaId, step: StepId) -> tuple[str, tuple[str, ...]]:
        """The digest of what people were asked last about a step, and who has proved that they agreed to it.

        '' for a digest that is not of what was shown.
        """
        await self.refresh()
        names: list[str] = []
        request: e.ApprovalRequested | None = None
        asked: dict[StepId, Question] = {}
        used = set[str]()
        entries = [entry async for entry in self._journal.read(saga)]
        positions = await self._journal.positions(saga)
        for entry in entries:
            event = entry.event
            if isinstance(event, e.ApprovalRequested):
                asked[event.step] = _asked(event)
                if event.step == step:
                    request, names = event, []
            elif isinstance(event, e.ApprovalSigned | e.ApprovalGranted) and event.step == step:
                try:
                    used.add(self.roster.checked(_decision(entry, positions, asked), used))
                    names.append(event.by)
                except AmendsError:
                    continue
        if request is None or digest_of(request.shown) != request.digest:
            return "", ()
        return request.digest, tuple(names)

    # -- the roster's own changes -------------------------------------------------------------------------------------

    async def change(self, fact: e.PersonEvent, proof: Proof | None, *, policy: str) -> Roster:
        """Enrol or revoke. The first enrolment takes no proof, and is the root. Raises ProofError."""
        while True:
            roster = await self.refresh()
            if roster.root:
                if proof is None:
                    raise ProofError(
                        "somebody is enrolled already: who changes the roster signs that with a key that stands in it, "
                        "as with amends person enrol … --sign-with FILE"
                    )
                fact = altered(fact, signed=await self.signed(_SAGA, fact, proof, policy=policy))
                signer = self.roster.signer(fact.signed)
                if signer is not None and signer.recovery and self.tell_of_recovery is not None:
                    await self.tell_of_recovery(signer, fact)
            elif isinstance(fact, e.PersonRevoked) or fact.recovery:
                raise ProofError("nobody is enrolled on this journal; enrol somebody first")
            if isinstance(fact, e.PersonEnrolled):
                self._require_new(fact)
            events = change_roster(self._kept, c.ChangeRoster(fact=fact))
            try:
                await self._journal.append(_SAGA, events, after=self._kept.head, summary=Summary(SagaStatus.COMPLETED))
            except JournalConflictError:
                continue
            return await self.refresh()

    def _require_new(self, fact: e.PersonEnrolled) -> None:
        known = self.roster.keys.get(read_key(fact.key).blob)
        if known is not None:
            state = "was revoked" if known.revoked is not None else "is enrolled"
            raise InputError(f"the key {known.key.fingerprint} of {known.person} {state}; enrol another one")


def _decision(
    entry: Entry, positions: tuple[int, ...], asked: dict[StepId, Question] | None = None
) -> SignableDecision:
    name, body = spelled(entry.event)
    step = cast("StepId | None", getattr(entry.event, "step", None))
    return SignableDecision(
        saga=entry.saga,
        number=entry.number,
        name=name,
        body=body,
        position=_position(entry, positions),
        at=entry.at,
        asked=asked.get(step) if asked and step is not None else None,
    )


def _signable(wanted: UnsignedDecision, signed: str) -> SignableDecision:
    name, body = spelled(signed_fact(wanted.fact, signed))
    return SignableDecision(saga=wanted.saga, number=0, name=name, body=body, asked=wanted.asked)


def _position(entry: Entry, positions: tuple[int, ...]) -> int:
    """Where it stands in the journal; after everything, while a store has not given it a position yet."""
    return positions[entry.number - 1] if entry.number <= len(positions) else LARGEST_INT


def _asked(request: e.ApprovalRequested) -> Question:
    """The question that people were asked; the digest of what was shown, whatever the entry says of it."""
    return Question(digest_of(request.shown), canonical(request.shown))


def asked_in(saga: Saga, fact: e.DecisionEvent) -> Question | None:
    """The question to people about the step that a decision is of."""
    if not isinstance(fact, e.ApprovalSigned | e.ApprovalGranted | e.ApprovalRefused):
        return None
    approval = saga.steps[fact.step].approval
    return None if approval is None else Question(digest_of(approval.shown), canonical(approval.shown))


def signed_at(proof: Proof, now: int) -> int:
    """When a proof was signed; what signs does it now. Raises InputError."""
    if not isinstance(proof, str):
        return now
    at = proof.partition(_ARMOUR)[0].rpartition(_AT)[2].strip()
    try:
        return read_time(at)
    except ValueError:
        raise InputError("a proof is the text that was signed, and its signature below it") from None


async def _signature(proof: Proof, text: str) -> str:
    """The signature over a text, in base64."""
    if isinstance(proof, str):
        said, armour, rest = proof.partition(_ARMOUR)
        if said.strip() != text.strip():
            raise InputError("what was signed is not what is asked now; look at it again")
        given: str | Awaitable[str] = armour + rest
    else:
        given = proof(text)
    return b64encode(read_signature(await given if isawaitable(given) else given)).decode()
