"""Whose signatures count: the key that a verifier has pinned, and those that it leads to by records of changes.

The record of a change is signed by both keys, so trust goes either way. Whoever pinned the old key accepts the new one
from that size of the journal on; whoever pinned the new one accepts the old one up to it. A record that the old key has
not signed (it was lost) leads back, and not forth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from amends.errors import EvidenceError
from amends.evidence.sign import note as notes
from amends.evidence.sign.note import Note, NotedHead, PublicKey, Rotation


class Trust:
    """`troubles` says what is wrong with the records of changes."""

    def __init__(self, pinned: PublicKey, rotations: Sequence[str]) -> None:
        self.pinned = pinned
        self.troubles: list[str] = []
        self._spans: dict[PublicKey, tuple[float, float]] = {pinned: (0, math.inf)}
        records = [self._read(rotation) for rotation in rotations]
        known = [record for record in records if record is not None]
        for record, note in known:
            self._lead_forth(record, note)
        for record, note in reversed(known):
            self._lead_back(record, note)

    def knows(self, key: PublicKey) -> bool:
        return key in self._spans

    def checkpoint(self, text: str) -> NotedHead:
        """Read a checkpoint that a key that counts has signed. Raises EvidenceError, saying why not."""
        note = notes.read_note(text)
        found = notes.read_checkpoint(note)
        if found.origin != self.pinned.name:
            raise EvidenceError(f"a checkpoint is of another journal: {found.origin}, not {self.pinned.name}")
        signed = [span for key, span in self._spans.items() if key.has_signed(note)]
        if not signed:
            names = ", ".join(one.id.hex() for one in note.signatures)
            raise EvidenceError(
                f"the checkpoint of {found.size} entries is not signed by a key that counts, or its signature is bad: "
                f"the pinned one is {self.pinned.id.hex()}, and it names {names}"
            )
        if not any(since <= found.size <= until for since, until in signed):
            raise EvidenceError(f"the checkpoint of {found.size} entries is signed by a key that was not in use then")
        return found

    def _read(self, text: str) -> tuple[Rotation, Note] | None:
        try:
            note = notes.read_note(text)
            record = notes.read_rotation(note)
        except EvidenceError as exc:
            self.troubles.append(str(exc))
            return None
        if record.origin != self.pinned.name:
            self.troubles.append(f"the record of a change of keys is of another journal, {record.origin}")
            return None
        if not record.new.has_signed(note):
            self.troubles.append(f"the key {record.new.id.hex()} has not signed the record by which it came")
            return None
        return record, note

    def _lead_forth(self, record: Rotation, note: Note) -> None:
        if record.old not in self._spans or record.new in self._spans:
            return
        if not record.old.has_signed(note):
            self.troubles.append(
                f"the key {record.new.id.hex()} took over from {record.old.id.hex()} without its signature: "
                "that key was lost, or somebody else did it; ask, then pin the new one"
            )
            return
        since, until = self._spans[record.old]
        self._spans[record.old] = (since, min(until, record.size))
        self._spans[record.new] = (record.size, math.inf)

    def _lead_back(self, record: Rotation, note: Note) -> None:
        if record.new in self._spans and record.old not in self._spans:
            since, until = self._spans[record.new]
            self._spans[record.new] = (max(since, record.size), until)
            self._spans[record.old] = (0, record.size)
