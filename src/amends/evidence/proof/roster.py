"""The roster: whose keys prove their names, and whether a decision on record is theirs. Pure.

It is folded from the entries of `amends.people` as they are stored. The first one enrols whoever made it, by nobody's
leave: its hash is the root, and covers the name and the key, so a journal that was made anew has another one. Each
later change is signed by a key that stands in it already. A change that is not counts for nothing, and is told.

A decision is proved when its signature is by a key that its author's name has, over the text that says this decision
of this saga of this journal; the key was enrolled by the roster's entry that the decision names, and not revoked before
the decision itself. A text counts once in its saga, so a signature cannot be used again. Of approvals, the signature
may be over a list of texts: each has to be in it, and counts once, as if it were signed alone.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from amends.core.state.deciders import normal
from amends.core.words.values import PEOPLE
from amends.errors import AmendsError, EvidenceError
from amends.evidence.proof.keys import PersonKey, is_signature, read_key, signing_key
from amends.evidence.proof.limits import BEGUN, COUNTED, GOES_BACK, RAISED, REACHED, Allowance
from amends.evidence.proof.statement import (
    APPROVALS,
    DECISIONS,
    REMOVED,
    Question,
    SignatureField,
    digest_of,
    fields_of,
    listed,
    read_signed,
    statement,
    statement_list,
    text_of,
)

CHANGES: Final = frozenset({"person.enrolled/1", "person.revoked/1"})
NO_POLICY: Final = "-"


@dataclass(slots=True)
class EnrolledKey:
    """A key of a person. Numbers are of the roster's entries, positions of the journal's; 0: not known."""

    person: str
    key: PersonKey
    recovery: bool
    number: int
    at: int
    by: str
    revoked: int | None = None
    revoked_at_position: int = 0
    revoked_why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignableDecision:
    """A decision as it is stored, where, and when; `position` 0: it is not on record yet. `asked`: of an approval."""

    saga: str
    number: int
    name: str
    body: str
    position: int = 0
    at: int = 0
    asked: Question | None = None


@dataclass(slots=True)
class Roster:
    root: str = ""
    number: int = 0
    hash: str = ""
    keys: dict[bytes, EnrolledKey] = field(default_factory=dict[bytes, EnrolledKey])
    troubles: list[str] = field(default_factory=list[str])
    _hashes: dict[int, str] = field(default_factory=dict[int, str])
    _texts: set[str] = field(default_factory=set[str])

    def note(self, change: SignableDecision, at: int, hashed: bytes) -> bool:
        """Take up one entry of `amends.people`. Whether it is a change that counts."""
        if change.name not in CHANGES:
            return False
        try:
            self._change(change, at, hashed.hex())
        except AmendsError as exc:
            self.troubles.append(f"entry {change.number} of {PEOPLE} counts for nothing: {exc}")
            return False
        self.number, self.hash = change.number, hashed.hex()
        self._hashes[change.number] = hashed.hex()
        return True

    def _change(self, change: SignableDecision, at: int, hashed: str) -> None:
        fields = fields_of(change.body)
        person, by = text_of(fields.get("person", '""')), text_of(fields.get("by", '""'))
        enrols = change.name.startswith("person.enrolled")
        if not self.root and enrols:
            if fields.get("recovery") == "true":
                raise EvidenceError("a recovery key cannot be the first")
            self._add(change, person, by, at)
            self.root = hashed
            return
        text = self.checked(change)
        if enrols:
            self._add(change, person, by, at)
        else:
            self._revoke(change, person, text_of(fields.get("key", '""')), text_of(fields.get("why", '""')))
        self._texts.add(text)

    def _add(self, change: SignableDecision, person: str, by: str, at: int) -> None:
        fields = fields_of(change.body)
        key = read_key(text_of(fields.get("key", '""')))
        if key.blob in self.keys:
            raise EvidenceError(f"the key {key.fingerprint} is, or was, somebody's already")
        is_recovery = fields.get("recovery") == "true"
        self.keys[key.blob] = EnrolledKey(person, key, is_recovery, change.number, at, by)

    def _revoke(self, change: SignableDecision, person: str, fingerprint: str, why: str) -> None:
        found = next((one for one in self.keys.values() if one.key.fingerprint == fingerprint), None)
        if found is None or normal(found.person) != normal(person) or found.revoked is not None:
            raise EvidenceError(f"{person} has no key {fingerprint!r} that could be revoked")
        found.revoked, found.revoked_at_position, found.revoked_why = change.number, change.position, why

    @property
    def changes(self) -> int:
        """How many changes count, with the first."""
        return len(self._hashes)

    # -- deciding -----------------------------------------------------------------------------------------------------

    def living(self) -> list[EnrolledKey]:
        """Keys that prove something now."""
        return [one for one in self.keys.values() if one.revoked is None]

    def signer(self, signed: str) -> EnrolledKey | None:
        """The key that made the field `signed` of a decision, of whatever worth that is."""
        return self.keys.get(signing_key(_decoded(read_signed(signed).signature)))

    def goes_by(self, policy: str, at: int) -> SignatureField:
        """The state of things that a decision of now goes by. Raises EvidenceError where nobody is enrolled."""
        if not self.root:
            raise EvidenceError("nobody is enrolled on this journal: amends person enrol NAME --ssh-key FILE")
        return SignatureField(self.number, self.hash, policy or NO_POLICY, at, "")

    def text(self, decision: SignableDecision, signed: SignatureField) -> str:
        return statement(self.root, decision.saga, decision.name, decision.body, signed, decision.asked)

    def to_sign(self, decisions: Sequence[SignableDecision], signed: SignatureField) -> tuple[SignatureField, str]:
        """The text that one person signs for these decisions, and the field with what the signature is over."""
        texts = [self.text(each, signed) for each in decisions]
        if len(texts) == 1:
            return signed, texts[0]
        over = signed._replace(together=tuple(map(digest_of, texts)))
        return over, statement_list(listed(self.root, fields_of(decisions[0].body)["by"], over), texts)

    def checked(self, decision: SignableDecision, used: set[str] | None = None) -> str:
        """The text that a decision's author has signed. Raises EvidenceError where it is not proved; says why.

        used: the texts that counted in its saga before; of the roster itself, its own.
        """
        fields = fields_of(decision.body)
        by = text_of(fields.get("by", '""'))
        if "signed" not in fields:
            raise EvidenceError(f"{by} is said to have decided it, and it is not signed")
        signed = read_signed(text_of(fields["signed"]))
        if not self.root or self._hashes.get(signed.entry) != signed.hash:
            raise EvidenceError("it goes by an entry that the roster of this journal does not have")
        if decision.position == 0 and signed.entry != self.number:
            raise EvidenceError("the roster has changed since it was signed; look at it again, and sign anew")
        raw = _decoded(signed.signature)
        found = self.keys.get(signing_key(raw))
        if found is None or normal(found.person) != normal(by):
            raise EvidenceError(f"it is not signed by a key that {by} has")
        name = found.key.fingerprint
        if found.number > signed.entry:
            raise EvidenceError(f"the key {name} was not enrolled yet by the roster that it goes by")
        if found.revoked is not None and (
            found.revoked <= signed.entry or decision.position == 0 or decision.position > found.revoked_at_position
        ):
            raise EvidenceError(f"the key {name} was revoked before")
        if found.recovery and decision.name not in CHANGES:
            raise EvidenceError(f"the key {name} is for recovery, and decides about the roster alone")
        if decision.asked is not None and text_of(fields.get("digest", '""')) not in {"", decision.asked.digest}:
            raise EvidenceError("it is about something else than what was shown")
        text = self.text(decision, signed)
        if not is_signature(found.key, raw, self._covering(decision, text, fields["by"], signed)):
            raise EvidenceError(f"its signature is not of this decision: what {by} signed says something else")
        if text in (self._texts if used is None else used):
            raise EvidenceError("its signature was used before")
        return text

    def _covering(self, decision: SignableDecision, text: str, by: str, signed: SignatureField) -> str:
        """The text that the signature is over: the decision's own, or a list of several that names it."""
        if not signed.together:
            return text
        if decision.name not in APPROVALS:
            raise EvidenceError("it is signed in a list with others, and that is for approvals alone")
        if digest_of(text) not in signed.together:
            raise EvidenceError("the list that was signed does not name this decision")
        return listed(self.root, by, signed)


def _decoded(text: str) -> bytes:
    try:
        raw = base64.b64decode(text.encode(), validate=True)
    except ValueError:
        raise EvidenceError("what should be its signature is none") from None
    if base64.b64encode(raw).decode() != text:
        raise EvidenceError("what should be its signature is none")
    return raw


def author(body: str) -> str:
    """The name of whoever decided it, by its own words."""
    return text_of(fields_of(body).get("by", '""'))


def is_decision(name: str) -> bool:
    return name in DECISIONS


def is_approval(name: str) -> bool:
    return name in APPROVALS


_RESUMES: Final = frozenset({"work.resumed/1", "rollback.resumed/1"})
_FOLLOWS: Final = _RESUMES | {RAISED}
_CLOSES: Final = frozenset({"incident.retried/1", "incident.resolved/1"})
_NO_WORD: Final = {"settled": "[]", "let_run": "false", "repeat": "false", "proof": '""', "raises": '""'}
"""An incident that is closed without a word on what stands, or on what may be done, as these fields are spelled."""
_LETS_GO: Final = _FOLLOWS | _CLOSES
"""Decisions by which a saga goes on; several are made in one go."""
_TURNS_BACK: Final = "rollback.started/1"
_OPENED: Final = "incident.opened/1"
_FAMILY: Final = "system:family"
"""Who stops a child with its parent, and lets it go on with that."""
BESIDE: Final = frozenset({_TURNS_BACK, "saga.paused/1", BEGUN, REACHED, _OPENED})
"""Entries that are no decisions, and say which others follow from one; beside those that say what is used up."""


@dataclass(slots=True)
class _Course:
    """How a saga came to stand where it does, as far as that says which entries need no signature of their own."""

    is_own: bool = False
    """It was paused alone, and that is not over."""
    is_wide: bool = False
    """It was paused with many, or with its parent."""
    again: tuple[int, str] = (0, "")
    """Where a limit would be raised for a way back to a checkpoint, and which."""
    allowance: Allowance = field(default_factory=Allowance)
    tells: dict[str, bool] = field(default_factory=dict[str, bool])
    """Incidents, and whether each only tells that nobody is there."""

    def takes(self, one: SignableDecision, fields: dict[str, str], by: str) -> bool:
        """Whether it is no decision, but one of `BESIDE`, or says what is used up."""
        self.allowance.note(one.name, fields)
        if one.name == BEGUN or one.name in COUNTED:
            return True
        match one.name:
            case "saga.paused/1":
                self.is_own = self.is_own or (fields.get("pause", "0") == "0" and by != _FAMILY)
                self.is_wide = not self.is_own
            case "limit.reached/1":
                goes_back = fields.get("then") == f'"{GOES_BACK}"'
                self.again = (one.number + 1, fields.get("limit", "")) if goes_back else (0, "")
            case "incident.opened/1":
                self.tells.setdefault(fields.get("incident", ""), fields.get("kind") == '"idle"')
            case _:
                return False
        return True

    def exempts(self, one: SignableDecision, fields: dict[str, str], by: str, following: str) -> bool:
        """Whether nobody has to sign it: what held the saga was no decision about it, or the runtime did it by itself.

        It allows as much again where a limit has a saga go back to a checkpoint, closes an incident that only told
        something or that another one takes the place of, and removes by the rule of whoever runs the journal.
        """
        if "signed" in fields:
            return False
        if one.name in _RESUMES:
            was_held, self.is_wide = self.is_wide, False
            return was_held
        if not by.startswith("system:"):
            return False
        if one.name == RAISED:
            return self.again == (one.number, fields.get("limit")) and self.allowance.allow(fields, one.at)
        if one.name == "incident.resolved/1":
            is_over = self.tells.get(fields.get("incident", ""), False) or following == _OPENED
            return fields.get("settled") == "[]" and is_over
        return one.name == REMOVED


@dataclass(slots=True)
class SagaDecisions:
    """Decisions of one saga, judged in order: each has to be signed, or to follow from one that is.

    What follows: in one go with a signed decision that lets a saga go on, by the same author, and after it, the saga
    does; so does one that a pause of many held, or of its parent, once that is over, which is signed itself; and where
    somebody has a saga go back, its incidents are closed, which vouches for nothing. A limit is raised with a decision
    to what that one has signed, and no further. A pause of this saga alone is ended by a signature, or by going back.
    The runtime itself allows as much again where a limit has a saga go back to a checkpoint, and closes an incident
    that told that nobody was there.
    """

    roster: Roster
    used: set[str] = field(default_factory=set[str])
    asked: dict[str, Question] = field(default_factory=dict[str, Question])
    proved: int = 0

    def judge(self, decisions: list[SignableDecision], tell: Callable[[SignableDecision, str], None]) -> None:
        """`tell` hears of each that is not proved, and why. Those of `BESIDE` may stand among them."""
        names = {one.number: one.name for one in decisions}
        good: dict[int, str] = {}
        raises: dict[int, list[str]] = {}
        unsure: list[tuple[SignableDecision, str]] = []
        course = _Course()
        for one in decisions:
            fields, by = fields_of(one.body), author(one.body)
            if course.takes(one, fields, by):
                continue
            resumes = one.name == "rollback.resumed/1" and by.startswith("system:") and "signed" not in fields
            if one.name == _TURNS_BACK or resumes:
                good[one.number], course.is_own = by, False
                continue
            if course.exempts(one, fields, by, names.get(one.number + 1, "")):
                continue
            try:
                self.used.add(self.roster.checked(one, self.used))
                good[one.number] = by
                raises[one.number] = text_of(fields.get("raises", '""')).split(", ")
                self.proved += 1
            except AmendsError as exc:
                if one.name in _RESUMES and self._follows(one, good, names, raises):
                    course.is_own = False
                else:
                    unsure.append((one, str(exc)))
                continue
            course.is_own = course.is_own and one.name not in _RESUMES
        for one, why in unsure:
            if not self._follows(one, good, names, raises):
                tell(one, why)

    def _follows(
        self, one: SignableDecision, good: dict[int, str], names: dict[int, str], raises: dict[int, list[str]]
    ) -> bool:
        if '"signed":' in one.body or one.name not in _FOLLOWS | _CLOSES or _vouches(one):
            return False
        by, amount = author(one.body), _amount(one)
        for step in (-1,) if one.name in _RESUMES else (-1, 1):
            place = one.number + step
            while names.get(place) in _LETS_GO | {_TURNS_BACK}:
                causes = _LETS_GO if one.name in _FOLLOWS else {_TURNS_BACK}
                if good.get(place) == by and names[place] in causes and (not amount or amount in raises.get(place, ())):
                    return True
                place += step
        return False


def _vouches(one: SignableDecision) -> bool:
    """Whether somebody who closes an incident gives their word for something: that takes their signature."""
    fields = fields_of(one.body)
    return one.name in _CLOSES and any(fields.get(name, plain) != plain for name, plain in _NO_WORD.items())


def _amount(one: SignableDecision) -> str:
    """The limit that is raised and to what, as a decision that was signed with it has it; '' for other decisions."""
    if one.name != RAISED:
        return ""
    fields = fields_of(one.body)
    return text_of(fields.get("limit", '""')) + " " + fields.get("most", "")
