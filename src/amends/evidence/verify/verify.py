"""Verifying a bundle offline, and a journal where it lies. Nothing but the bundle and a public key is needed.

A bundle is hostile until it has been read: every line has one spelling, a bounded length and a known shape, and what
does not fit is an EvidenceError that names the line. What fits is judged, and never raises.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, BinaryIO, Final, cast

from amends.core.words.parts import named_by
from amends.core.words.values import digest
from amends.errors import EvidenceError, JournalDamagedError
from amends.evidence.bundle import FORMATS, is_policy, payload_digests, spell, spell_entry
from amends.evidence.sign import note as notes
from amends.evidence.sign.note import held_notes
from amends.evidence.verify.examine import Examination, VerificationReport, store_troubles, troubles_in
from amends.evidence.verify.trust import Trust
from amends.journal.codec import removed_digest
from amends.journal.port.evidence import Evidence, Stored
from amends.journal.port.journal import Journal
from amends.journal.tree import HASH_BYTES, Tree

LONGEST_LINE: Final = 40 * 1024 * 1024
LARGEST_NUMBER: Final = 2**53
TALLEST: Final = 52
MOST_NOTES: Final = 1_000
MOST_TROUBLES: Final = 100
LOOKS: Final = 3
REMEMBERED: Final = 100_000
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_scan: Final[Callable[[str], tuple[Any, int]]] = json.JSONDecoder().raw_decode

Fields = dict[str, Any]


def verify_bundle(
    file: BinaryIO, key: str, *, checkpoint: str | None = None, may_be_gone: bool = False, root: str | None = None
) -> VerificationReport:
    """Hold a bundle against a public key, and against a checkpoint that somebody kept: a note, or the text of a file of
    tree heads. A bundle of some sagas can be held against one alone, the newest.

    may_be_gone: what was removed without a record of it does not fail, for bundles from before there were records.
    root: of the roster of people, where it is known; each decision since has to be signed then.

    Raises EvidenceError for what is no bundle, no key, or damaged so that it cannot be read.
    """
    pinned = notes.read_key(key)
    reading = _Reading(file)
    head = reading.head()
    claims = _Claims(Trust(pinned, head.rotations))
    claims.name(head.key)
    held = () if checkpoint is None else held_notes(checkpoint)
    for text in [*head.checkpoints, *(held if head.sagas is None else held[-1:])]:
        claims.add(text)
    examination = Examination(claims.signed, is_part=head.sagas is not None, may_be_gone=may_be_gone, root=root)
    examination.report.troubles += [*claims.troubles, *head.troubles]
    reading.go_over(examination)
    if head.sagas is None and examination.has_branches:
        examination.report.troubles.append("it says that it shows the whole journal, and leaves entries out")
    elif head.sagas is not None and head.sagas != sorted(examination.sagas):
        examination.report.troubles.append("it says that it shows other sagas than it does")
    return examination.finish()


@dataclass(slots=True)
class _Head:
    """Everything that stands before the entries."""

    key: str | None
    sagas: list[object] | None
    rotations: list[str] = field(default_factory=list[str])
    checkpoints: list[str] = field(default_factory=list[str])
    troubles: list[str] = field(default_factory=list[str])


class _Claims:
    """The signed roots that count, with their sizes, and what is wrong with the others."""

    def __init__(self, trust: Trust) -> None:
        self._trust = trust
        self.signed: list[tuple[int, bytes]] = []
        self.troubles = list(trust.troubles)

    def name(self, key: str | None) -> None:
        """The key that the evidence itself names."""
        try:
            if key is not None and not self._trust.knows(notes.read_key(key)):
                self.troubles.append(f"the evidence names the key {key}, to which the pinned one does not lead")
        except EvidenceError as exc:
            self.troubles.append(str(exc))

    def add(self, checkpoint: str) -> None:
        try:
            found = self._trust.checkpoint(checkpoint)
            self.signed.append((found.size, found.root))
        except EvidenceError as exc:
            if len(self.troubles) < MOST_TROUBLES:
                self.troubles.append(str(exc))


class _Reading:
    """The lines of a bundle, one by one."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._whole = sha256()
        self._number = 0
        self._raw = b""
        self._entries = 0
        self._held: Fields | None = None

    def head(self) -> _Head:
        opening = self._line()
        self._fit(opening, "bundle", format=_text, key=_text_or_none, sagas=_list_or_none)
        if opening["format"] not in FORMATS:
            known = " and ".join(FORMATS)
            raise self._unreadable(f"it is of the format {opening['format']!r}, and this one knows {known}")
        head = _Head(opening["key"], opening["sagas"])
        kinds = ("rotation", "checkpoint", "policy")
        reached = 0
        while True:
            line = self._line()
            kind = line["type"]
            if kind not in kinds[reached:]:
                self._held = line
                return head
            reached = kinds.index(kind)
            if kind == "policy":
                self._fit(line, kind, digest=_text, text=_text)
                if not is_policy(line["digest"], line["text"]):
                    head.troubles.append(f"line {self._number}: the policy's text does not have its digest")
                continue
            self._fit(line, kind, note=_text)
            (head.rotations if kind == "rotation" else head.checkpoints).append(line["note"])
            if len(head.rotations) + len(head.checkpoints) > MOST_NOTES:
                raise self._unreadable(f"it has more than {MOST_NOTES} notes")

    def go_over(self, examination: Examination) -> None:
        """Every entry and branch to the end."""
        wanted: dict[str, int] = {}
        given: set[str] = set()
        while True:
            line = self._held or self._line()
            self._held = None
            kind = line["type"]
            if kind == "entry":
                stored = self._entry(line)
                if examination.entry(stored):
                    _want(_needed(stored.body), stored.position, wanted, given)
            elif kind == "branch":
                self._fit(line, kind, hash=_hash, height=_height, position=_number)
                if not examination.branch(line["position"], line["height"], bytes.fromhex(line["hash"])):
                    raise self._unreadable("no branch can stand here")
            elif kind == "payload":
                self._payload(line, examination, wanted, given)
            else:
                break
        for name, position in wanted.items():
            examination.alter(position, f"the payload {name} that it needs is not here")
        self._end(line, examination)

    def _entry(self, line: Fields) -> Stored:
        """Its texts are texts, since it was spelled as an entry is."""
        position, number, at, text = line["position"], line["number"], line["at"], line["hash"]
        try:
            hashed = bytes.fromhex(text)
        except (TypeError, ValueError):
            raise self._unreadable("its hash is none") from None
        if len(hashed) != HASH_BYTES or hashed.hex() != text:
            raise self._unreadable("its hash is none")
        if not (_number(position) and _number(number) and type(at) is int and abs(at) <= LARGEST_NUMBER):
            raise self._unreadable("its numbers are none, or out of bounds")
        self._entries += 1
        return Stored(position, line["saga"], number, at, line["name"], line["body"], hashed)

    def _payload(self, line: Fields, examination: Examination, wanted: dict[str, int], given: set[str]) -> None:
        self._fit(line, "payload", digest=_hash, text=_text)
        name = line["digest"]
        position = wanted.pop(name, None)
        examination.proofs.payload(name, line["text"])
        given.add(name)
        if position is None:
            if len(examination.report.troubles) < MOST_TROUBLES:
                examination.report.troubles.append(f"line {self._number} is a payload that no entry before it needs")
        elif digest(line["text"]) != name:
            examination.alter(position, f"the payload {name} that it needs is another one")
        else:
            try:
                _want(named_by(line["text"]), position, wanted, given)
            except JournalDamagedError as exc:
                examination.alter(position, f"the payload {name} that it needs cannot be read: {exc}")

    def _end(self, line: Fields, examination: Examination) -> None:
        self._fit(line, "end", entries=_count, sha256=_hash)
        if self._file.read(1):
            raise self._unreadable("something comes after the end")
        if line["entries"] != self._entries:
            examination.report.troubles.append(f"it had {line['entries']} entries, and {self._entries} are here")
        if line["sha256"] != self._digest:
            examination.report.troubles.append("it is not the file that was written: its bytes have another digest")

    # -- one line -----------------------------------------------------------------------------------------------------

    def _line(self) -> Fields:
        self._whole.update(self._raw)
        raw = self._raw = self._file.readline(LONGEST_LINE)
        self._number += 1
        if raw[-1:] != b"\n":
            raise self._unreadable("it is cut off" if len(raw) < LONGEST_LINE else "it is too long")
        try:
            text = raw[:-1].decode()
            line, end = _scan(text)
        except (ValueError, RecursionError):
            raise self._unreadable("it is not JSON") from None
        if type(line) is not dict or end != len(text):
            raise self._unreadable("it is not one JSON object")
        fields = cast("Fields", line)
        kind = fields.get("type")
        if type(kind) is not str:
            raise self._unreadable("it has no type")
        try:
            spelled = spell_entry(fields) if kind == "entry" else spell(fields)
        except (KeyError, TypeError, ValueError, RecursionError):
            raise self._unreadable(f"it is no {kind}") from None
        if spelled != text:
            raise self._unreadable("it is not spelled as a bundle's lines are")
        return fields

    @property
    def _digest(self) -> str:
        """Of everything before the last line."""
        return self._whole.hexdigest()

    def _fit(self, line: Fields, kind: str, **shape: Callable[[object], bool]) -> None:
        if line["type"] != kind or line.keys() != {*shape, "type"}:
            raise self._unreadable(f"it is no {kind}")
        for name, fits in shape.items():
            if not fits(line[name]):
                raise self._unreadable(f"its {name} is not what a {kind} has")

    def _unreadable(self, why: str) -> EvidenceError:
        return EvidenceError(f"line {self._number} of the bundle cannot be read: {why}")


def _want(names: Iterable[str], position: int, wanted: dict[str, int], given: set[str]) -> None:
    for name in names:
        if name not in given:
            wanted.setdefault(name, position)


def _needed(body: str) -> tuple[str, ...]:
    try:
        return payload_digests(body)
    except JournalDamagedError:
        return ()


def _text(value: object) -> bool:
    return type(value) is str


def _text_or_none(value: object) -> bool:
    return value is None or type(value) is str


def _list_or_none(value: object) -> bool:
    return value is None or type(value) is list


def _hash(value: object) -> bool:
    return type(value) is str and _HASH.fullmatch(value) is not None


def _count(value: object) -> bool:
    return type(value) is int and 0 <= value <= LARGEST_NUMBER


def _number(value: object) -> bool:
    return type(value) is int and 0 < value <= LARGEST_NUMBER


def _height(value: object) -> bool:
    return type(value) is int and 0 <= value <= TALLEST


# -- a journal where it lies ------------------------------------------------------------------------------------------


async def verify_journal(
    journal: Journal,
    key: str | None = None,
    *,
    checkpoint: str | None = None,
    may_be_gone: bool = False,
    root: str | None = None,
    reads_sagas: bool = True,
) -> VerificationReport:
    """Go over a whole journal: every entry, every checkpoint, every key; then the store, and each saga as it is read.

    Without a key the one counts that the journal says it began with: that shows damage, but not that nobody has put
    another journal in this one's place. Raises EvidenceError for what is no key.

    Others may write to it meanwhile. It is judged as it stood when this began: its tree is read first, and what came
    after that is neither covered nor missing. What is removed meanwhile has its record past that point, so where
    something is gone and the journal has grown, it is gone over again.

    reads_sagas: the store checks itself, and each saga is read; for whoever has read them all already, this can be
    left out.
    """
    looks = 0
    while True:
        looks += 1
        tree = await journal.tree()
        examination = await _examined(journal, tree, key, checkpoint, may_be_gone=may_be_gone, root=root)
        report = examination.finish()
        if not len(report.gone) or looks == LOOKS or (await journal.tree()).size == tree.size:
            break
    if reads_sagas:
        await _add_unsound(journal, examination)
    return report


async def _add_unsound(journal: Journal, examination: Examination) -> None:
    """Add what signatures do not say: whether the store is whole, and whether each saga can be read and makes sense."""
    troubles = examination.report.troubles
    found, _ = await store_troubles(journal)
    troubles += found
    async for trouble in troubles_in(journal, examination.sagas):
        troubles.append(trouble)
        if len(troubles) >= MOST_TROUBLES:
            return


async def _examined(
    journal: Journal, tree: Tree, key: str | None, checkpoint: str | None, *, may_be_gone: bool, root: str | None
) -> Examination:
    signers = await journal.signers()
    signed, troubles = list[tuple[int, bytes]](), list[str]()
    if key is not None or signers:
        claims = _Claims(Trust(notes.read_key(key or signers[0].key), [signer.note for signer in signers[1:]]))
        claims.name(signers[-1].key if signers else None)
        await _add_signed(journal, tree, claims)
        for note in () if checkpoint is None else held_notes(checkpoint):
            claims.add(note)
        signed, troubles = claims.signed, claims.troubles
    examination = Examination(signed, size=tree.size, may_be_gone=may_be_gone, root=root)
    examination.report.troubles += troubles
    await _go_over(journal, examination, tree)
    return examination


async def _add_signed(journal: Evidence, tree: Tree, claims: _Claims) -> None:
    """Add what was signed of this tree. A checkpoint past it counts too, unless the journal has grown to it since."""
    size = tree.size
    async for one in journal.tree_heads():
        if one.size > size:
            size = (await journal.tree()).size
        if one.size <= tree.size or one.size > size:
            claims.add(one.note)


class _Payloads:
    """Payloads kept beside the entries of a journal, each looked at once, as far as that can be remembered."""

    def __init__(self, journal: Evidence) -> None:
        self._journal = journal
        self._sound: set[str] = set()

    async def wrong_in(self, body: str) -> str | None:
        """The first payload that a body needs, itself or by way of another, and that is not the one; None for none."""
        left, seen = list(reversed(_needed(body))), set[str]()
        while left:
            name = left.pop()
            if name in self._sound or name in seen:
                continue
            text = await self._journal.payload(name)
            if text is None or digest(text) != name:
                return name
            seen.add(name)
            try:
                left += reversed(named_by(text))
            except JournalDamagedError:
                return name
        if len(self._sound) > REMEMBERED:
            self._sound.clear()
        self._sound |= seen
        return None


async def _go_over(journal: Evidence, examination: Examination, tree: Tree) -> None:
    payloads = _Payloads(journal)
    async for stored in journal.stored():
        if stored.position > tree.size:
            if stored.position > (await journal.tree()).size:  # and not because somebody writes just now
                examination.report.troubles.append(f"there are entries past the {tree.size} that the tree counts")
            break
        if examination.entry(stored):
            wrong = await payloads.wrong_in(stored.body)
            if wrong is not None and not await _is_removed(journal, stored.position):
                examination.alter(stored.position, f"the payload {wrong} that it needs is gone, or another one")
    await _give_payloads(journal, examination)
    if examination.root not in {None, tree.root}:
        examination.report.troubles.append("the tree that the journal keeps is not the one that its entries make")


async def _give_payloads(journal: Evidence, examination: Examination) -> None:
    """Give what is kept beside the decisions to whoever judges them."""
    proofs = examination.proofs
    asked = set[str]()
    while left := proofs.wanted - asked:
        for name in left:
            asked.add(name)
            text = await journal.payload(name)
            if text is not None:
                proofs.payload(name, text)


async def _is_removed(journal: Evidence, position: int) -> bool:
    """Whether somebody has had the content of an entry removed since it was read, and its payloads with it."""
    async for now in journal.stored(after=position - 1):
        return now.position == position and removed_digest(now.body) is not None
    return False
