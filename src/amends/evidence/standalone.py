"""Verify a bundle of evidence without amends: this file, Python 3.11 or newer, and nothing else.

    python verify.py BUNDLE --key KEY [--tree-head @FILE] [--root HASH] [--removed-unrecorded] [--json]

KEY is the public key that you were given, or @FILE. A checkpoint is one that you kept, itself or @FILE, to see that
history was not rewritten since. With --removed-unrecorded, what is gone counts as removed though no entry says who
removed it, as it was before removals were on record. It says how many entries are covered by a signature, unattested,
missing, altered and removed. Exit codes: 0 all covered; 7 nothing is wrong, but some entries are unattested; 8 altered,
missing, gone without a record, or not signed by the key; 9 the bundle cannot be read; 2 wrong usage.

A bundle is lines of JSON (docs/look-up/evidence.md has the format). What is checked:

1. every line has the one spelling that it can have, and the last line has the SHA-256 of all before it;
2. an entry's hash is SHA-256(hash of the saga's entry before ‖ saga ⏎ number ⏎ at ⏎ name ⏎ ‖ SHA-256(body));
3. a body that was removed has left its digest, and a later entry of its saga, signed too, says who removed it and why;
4. the hashes, in order of their positions, are the leaves of the tree of RFC 6962, and make the root of a checkpoint;
5. what is kept beside a body has the digest that the body has for it, or that such a one has for another;
6. the checkpoint is a C2SP signed note, signed by Ed25519 with the pinned key, or with one that it leads to;
7. a decision that is signed is signed by a key that its author had then, over a text that says this decision of this
   saga of this journal. With --root, the hash of the roster's first entry, each decision since has to be signed.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import re
import sys
from bisect import bisect_left
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO, cast

from amends.evidence.ed25519 import is_signature
from amends.evidence.standalone_names import Names

COVERED, UNATTESTED, FAILED, UNREADABLE = 0, 7, 8, 9
LONGEST_LINE, LONGEST_NOTE, MOST_SIGNATURES, MOST_NOTES = 40 * 1024 * 1024, 65_536, 100, 1_000
LARGEST, SHORTEST_DIGEST, HASH, KEY, ID = 2**53, 16, 32, 33, 4
MOST_SHOWN, LONGEST_SHOWN, MOST_FINDINGS, LONGEST_FINDING, LARGEST_PART = 20, 200, 100, 400, 256 * 1024
SAYS = {
    "covered": "as it was signed",
    "unattested": "nothing is wrong, but not everything is signed yet",
    "failed": "NOT as it was signed",
}
Ranges = list[tuple[int, int]]
Line = dict[str, Any]


def sha256(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


# -- keys and notes ---------------------------------------------------------------------------------------------------


def decoded(text: str) -> bytes:
    """Base64 in its one proper spelling."""
    raw = base64.b64decode(text.encode("ascii"), validate=True)
    if base64.b64encode(raw).decode() != text:
        raise ValueError(f"{text[:60]!r} is not proper base64")
    return raw


class Key:
    def __init__(self, text: str) -> None:
        self.text = text.strip("\n")
        self.name, stated, coded = self.text.split("+", 2)
        raw = decoded(coded)
        self.raw, self.id = raw[1:], sha256(self.name.encode(), b"\n\1", raw[1:])[:ID]
        is_fit = raw[:1] == b"\1" and len(raw) == KEY and self.id.hex() == stated
        if not is_fit or not re.fullmatch(r"[^\s+]{1,200}", self.name):
            raise ValueError(f"{self.text[:60]!r} is not a public key")

    def has_signed(self, text: str, signatures: list[tuple[str, bytes]]) -> bool:
        mine = [raw[ID:] for name, raw in signatures if (name, raw[:ID]) == (self.name, self.id)]
        return bool(mine) and is_signature(self.raw, mine[0], text.encode())


def read_note(note: str) -> tuple[str, list[tuple[str, bytes]]]:
    """The text that was signed, and by whom."""
    note.encode()
    text, blank, rest = note.rpartition("\n\n")
    lines = rest.split("\n")[:-1]
    is_clean = all(character >= " " or character == "\n" for character in note) and len(note) <= LONGEST_NOTE
    if not is_clean or not blank or not rest.endswith("\n") or len(lines) > MOST_SIGNATURES:
        raise ValueError("what should be a signed note is none")
    found = [re.fullmatch(r"— ([^\s+]{1,200}) (\S+)", line) for line in lines]
    signatures = [(one[1], decoded(one[2])) for one in found if one]
    if len(signatures) != len(lines) or any(len(raw) <= ID for _, raw in signatures):
        raise ValueError("what should be a signature is none")
    return text + "\n", signatures


def read_size_and_root(size: str, root: str) -> tuple[int, bytes]:
    raw = decoded(root)
    if not re.fullmatch(r"0|[1-9][0-9]{0,17}", size) or len(raw) != HASH:
        raise ValueError("what should be a tree's size and root is none")
    return int(size), raw


class Trust:
    """The pinned key, and those that records of changes lead to, each with the sizes that it may sign."""

    def __init__(self, pinned: Key, rotations: Iterable[str]) -> None:
        self.origin, self.troubles = pinned.name, list[str]()
        self.keys: dict[str, tuple[Key, float, float]] = {pinned.text: (pinned, 0, float("inf"))}
        records = [found for note in rotations if (found := self._read(note))]
        for old, new, size, is_signed in records:
            if old.text in self.keys and new.text not in self.keys:
                if not is_signed:
                    self.troubles.append(f"{new.text} took over without the signature of the key before")
                    continue
                key, since, until = self.keys[old.text]
                self.keys |= {old.text: (key, since, min(until, size)), new.text: (new, size, float("inf"))}
        for old, new, size, _ in reversed(records):
            if new.text in self.keys and old.text not in self.keys:
                key, since, until = self.keys[new.text]
                self.keys |= {new.text: (key, max(since, size), until), old.text: (old, 0, size)}

    def _read(self, note: str) -> tuple[Key, Key, int, bool] | None:
        try:
            text, signatures = read_note(note)
            kind, origin, old_text, new_text, size, root = text[:-1].split("\n")
            old, new, (count, _) = Key(old_text), Key(new_text), read_size_and_root(size, root)
        except ValueError as exc:
            self.troubles.append(f"a change of keys cannot be read: {exc}")
            return None
        is_ours = kind == "amends key rotation" and origin == old.name == new.name == self.origin
        if is_ours and new.has_signed(text, signatures):
            return old, new, count, old.has_signed(text, signatures)
        self.troubles.append("a change of keys is of another journal, or not signed by the new key")
        return None

    def checkpoint(self, note: str) -> tuple[int, bytes]:
        text, signatures = read_note(note)
        origin, size_text, root_text, *more = text[:-1].split("\n")
        if origin != self.origin or not all(more):
            raise ValueError("a checkpoint is none, or of another journal")
        size, root = read_size_and_root(size_text, root_text)
        if not any(a <= size <= b and key.has_signed(text, signatures) for key, a, b in self.keys.values()):
            raise ValueError(f"the checkpoint of {size} entries is not signed by a key that counts")
        return size, root


# -- ranges of positions ----------------------------------------------------------------------------------------------


def merged(ranges: Ranges) -> Ranges:
    found: Ranges = []
    for first, last in sorted(one for one in ranges if one[0] <= one[1]):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found


def without(ranges: Ranges, gone: Ranges) -> Ranges:
    left: Ranges = []
    taken, place = merged(gone), 0
    for begin, last in merged(ranges):
        first = begin
        while place < len(taken) and taken[place][0] <= last:
            left.append((first, taken[place][0] - 1))
            first = max(first, taken[place][1] + 1)
            if taken[place][1] > last:
                break
            place += 1
        left.append((first, last))
    return merged(left)


def holds(ranges: Ranges, position: int) -> bool:
    place = bisect_left(ranges, position, key=lambda run: run[1])
    return place < len(ranges) and ranges[place][0] <= position


def told(ranges: Ranges, more: int = 0) -> Line:
    text = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)
    return {"count": sum(last - first + 1 for first, last in ranges) + more, "entries": text}


# -- the lines --------------------------------------------------------------------------------------------------------


HEX = "[0-9a-f]{64}"
NUMBER, TIME, COUNT = range(1, LARGEST + 1), range(-LARGEST, LARGEST + 1), range(LARGEST + 1)
SHAPES: dict[str, dict[str, Any]] = {
    "bundle": {"format": str, "key": str | None, "sagas": (list, type(None))},
    "rotation": {"note": str},
    "checkpoint": {"note": str},
    "policy": {"digest": str, "text": str},
    "entry": {"at": TIME, "body": str, "hash": HEX, "name": str, "number": NUMBER, "position": NUMBER, "saga": str},
    "payload": {"digest": HEX, "text": str},
    "branch": {"hash": HEX, "height": range(53), "position": NUMBER},
    "end": {"entries": COUNT, "sha256": HEX},
}


def fits(value: object, shape: Any) -> bool:  # noqa: ANN401 - a type, a range or a pattern
    if isinstance(shape, range):
        return type(value) is int and value in shape
    if isinstance(shape, str):
        return isinstance(value, str) and re.fullmatch(shape, value) is not None
    return isinstance(value, shape)


def payloads(body: str) -> list[str]:
    """The digests of what is kept beside a body: of parts, the one that names the others."""
    try:
        fields = json.loads(body)
        kept = [*fields.get("blobs", {}).values(), *fields.get("parts", {}).values()]
        return [str(about["digest"]) for about in kept]
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return []


def named_by(payload: str) -> list[str] | None:
    """The digests that a part names: +["text","digest","text",…,"text"]. Others name none; None for a broken one."""
    if payload[:1] != "+":
        return []
    if len(payload) > LARGEST_PART:
        return None
    try:
        found = json.loads(payload[1:])
    except (ValueError, RecursionError):
        return None
    items = cast("list[object]", found) if type(found) is list else []
    is_fit = len(items) > 1 and len(items) % 2 and all(type(one) is str for one in items)
    digests = [str(one) for one in items[1::2]]
    return digests if is_fit and all(re.fullmatch(HEX, one) for one in digests) else None


def removal(body: str) -> tuple[int, tuple[str, str, bool]] | None:
    """Up to which entry of its saga a record of a removal speaks, and who stands behind it; None where it is none."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if type(found) is not dict:
        return None
    fields = cast("Line", found)
    until, by, why, was_gone = (fields.get(name) for name in ("entries", "by", "why", "was_gone"))
    if type(until) is not int or type(by) is not str or type(why) is not str:
        return None
    return until, (by, why, was_gone is True)


class Tree:
    """RFC 6962's tree, as far as it is kept: the roots of its full subtrees, the largest first."""

    def __init__(self) -> None:
        self.size, self.kept = 0, list[bytes]()

    def add(self, hashed: bytes, height: int) -> None:
        place = self.size >> height
        while place & 1:
            hashed, place = sha256(b"\1", self.kept.pop(), hashed), place >> 1
        self.kept.append(hashed)
        self.size += 1 << height

    @property
    def root(self) -> bytes:
        root = self.kept[-1] if self.kept else sha256(b"")
        for left in reversed(self.kept[:-1]):
            root = sha256(b"\1", left, root)
        return root


class Verification:
    """Reads a bundle from end to end. Raises ValueError for what is none."""

    def __init__(
        self,
        file: BinaryIO,
        key: str,
        checkpoint: str | None = None,
        *,
        may_be_gone: bool = False,
        root: str | None = None,
    ) -> None:
        self.names, self.unproved = Names(root), Ranges()
        self.file, self.line_number, self.raw, self.whole = file, 0, b"", hashlib.sha256()
        self.troubles, self.findings, self.heads = list[str](), list[str](), dict[str, tuple[int, bytes]]()
        self.present, self.missing, self.altered, self.untied, self.bad = (Ranges() for _ in range(5))
        self.wanted, self.given = dict[str, int](), set[str]()
        self.tree, self.is_whole, self.has_branches = Tree(), True, False
        self.place, self.good, self.holes, self.removed, self.entries = 1, 0, 0, 0, 0
        self.may_be_gone, self.empty = may_be_gone, dict[str, list[tuple[int, int]]]()
        self.recorded: list[tuple[int, int, tuple[str, str, bool], list[int]]] = []
        line = self._head(Key(key), checkpoint)
        while line["type"] in {"entry", "branch", "payload"}:
            {"entry": self._entry, "branch": self._branch, "payload": self._payload}[line["type"]](line)
            line = self._line()
        if self.has_branches if self.sagas is None else self.sagas != sorted(self.heads):
            self.troubles.append("it says that it shows other sagas than it does")
        self._end(line)

    def _line(self) -> Line:
        self.whole.update(self.raw)
        self.raw = self.file.readline(LONGEST_LINE)
        self.line_number += 1
        try:
            text = self.raw.decode()
            line = cast("Line", json.loads(text))
            spelled = json.dumps(line, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
            shape = SHAPES[line["type"]]
            is_fit = line.keys() == {*shape, "type"} and all(fits(line[name], shape[name]) for name in shape)
        except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
            raise ValueError(f"line {self.line_number} cannot be read") from None
        if spelled + "\n" != text or not is_fit:
            raise ValueError(f"line {self.line_number} is not as a bundle's lines are")
        return line

    def _head(self, pinned: Key, checkpoint: str | None) -> Line:
        opening = self._line()
        if opening["type"] != "bundle" or opening["format"] not in {"amends.evidence/1", "amends.evidence/2"}:
            raise ValueError("it is no bundle, or one of another format")
        self.sagas: list[object] | None = opening["sagas"]
        kinds = ["rotation", "checkpoint", "policy"]
        notes: dict[str, list[str]] = {"rotation": [], "checkpoint": []}
        while (line := self._line())["type"] in kinds:
            kinds = kinds[kinds.index(line["type"]) :]
            if line["type"] == "policy":
                name = line["digest"]
                if len(name) < SHORTEST_DIGEST or not sha256(line["text"].encode()).hex().startswith(name):
                    self.troubles.append(f"line {self.line_number}: the policy's text does not have its digest")
                continue
            notes[line["type"]].append(line["note"])
            if sum(map(len, notes.values())) > MOST_NOTES:
                raise ValueError(f"line {self.line_number}: there are too many notes")
        trust = Trust(pinned, notes["rotation"])
        self.troubles += trust.troubles
        if opening["key"] is not None and opening["key"] not in trust.keys:
            self.troubles.append("the bundle names a key to which the pinned one does not lead")
        claims: dict[int, set[bytes]] = {}
        for note in notes["checkpoint"] + ([] if checkpoint is None else [checkpoint]):
            try:
                size, root = trust.checkpoint(note)
                claims.setdefault(size, set()).add(root)
            except ValueError as exc:
                self.troubles.append(str(exc))
        self.claims, self.until = sorted(claims.items()), max(claims, default=0)
        self._hold()
        return line

    def _entry(self, line: Line) -> None:
        position, saga, number, hashed = line["position"], line["saga"], line["number"], bytes.fromhex(line["hash"])
        self.entries += 1
        if position < self.place:
            self._alter(position, "it is out of place, or here twice", line)
            return
        self._reach(position)
        self.present.append((position, position))
        self.names.take(line, payloads(line["body"]))
        (newest, previous), self.heads[saga] = self.heads.get(saga, (0, bytes(HASH))), (number, hashed)
        removed = re.fullmatch("sha256:([0-9a-f]{64})", line["body"])  # a body that was removed has left its digest
        kept = bytes.fromhex(removed[1]) if removed else sha256(line["body"].encode())
        self.removed += bool(removed)
        about = f"{saga}\n{number}\n{line['at']}\n{line['name']}\n".encode()
        is_good = number == newest + 1 and sha256(previous, about, kept) == hashed
        if number > newest + 1:
            self.holes += number - newest - 1
            self.untied.append((position, position))
        elif not is_good:
            late = f"its saga had come to entry {newest} before"
            self._alter(position, late if number <= newest else "it is not what its hash says", line)
        elif not removed and ('"blobs":' in line["body"] or '"parts":' in line["body"]):
            self._want(payloads(line["body"]), position)
        if removed:
            self.empty.setdefault(saga, []).append((number, position))
        elif is_good and saga in self.empty and line["name"].partition("/")[0] == "content.removed":
            self._record(line)
        self._grow(sha256(b"\0", hashed), 0)
        self.place = position + 1

    def _record(self, line: Line) -> None:
        """Note who removed what the entries before this one held. It counts as far as it is signed."""
        found = removal(line["body"])
        if found is None:
            return
        until, said = found
        empty = self.empty.pop(line["saga"])
        places = [place for number, place in empty if number <= until]
        self.recorded.append((line["position"], line["at"], said, places))
        left = [(number, place) for number, place in empty if number > until]
        if left:
            self.empty[line["saga"]] = left

    def _removals(self, covered: Ranges) -> tuple[Ranges, list[Line]]:
        """Places that are gone without a signed record, and who removed the rest."""
        gone = [(place, place) for empty in self.empty.values() for _, place in empty]
        found: dict[tuple[str, str, bool], Line] = {}
        for position, at, said, places in self.recorded:
            is_signed = holds(covered, position)
            unsaid = [] if is_signed else [place for place in places if holds(covered, place)]
            gone += [(place, place) for place in unsaid]
            if len(unsaid) == len(places):
                continue
            by, why, was_gone = said
            counts = {"sagas": 0, "entries": 0, "first_at": at, "last_at": at}
            one = found.setdefault(said, {"by": by, "why": why, "was_gone": was_gone, **counts})
            one["sagas"] += 1
            one["entries"] += len(places) - len(unsaid)
            one["first_at"], one["last_at"] = min(one["first_at"], at), max(one["last_at"], at)
        return merged(gone), list(found.values())

    def _unproved(self) -> Ranges:
        """Places of decisions that are not signed by whoever is said to have made them."""
        found: Ranges = []
        for entry, why in self.names.judge():
            if entry is None:
                self.troubles.append(why)
                continue
            found.append((entry["position"], entry["position"]))
            place = f"entry {entry['position']} (saga {entry['saga']}, number {entry['number']})"
            self._find(f"{place} is not proved: {why}")
        return merged(found)

    def _branch(self, line: Line) -> None:
        position, size = line["position"], 1 << line["height"]
        if position < self.place or (position - 1) % size:
            raise ValueError(f"line {self.line_number}: no branch can stand here")
        self._reach(position)
        self._grow(bytes.fromhex(line["hash"]), line["height"])
        self.place, self.has_branches = position + size, True

    def _want(self, names: list[str], position: int) -> None:
        for name in names:
            if name not in self.given:
                self.wanted.setdefault(name, position)

    def _payload(self, line: Line) -> None:
        position = self.wanted.pop(line["digest"], None)
        self.given.add(line["digest"])
        below = named_by(line["text"])
        self.names.payload(line["digest"], line["text"], below or [])
        if position is None:
            self.troubles.append(f"line {self.line_number} is a payload that no entry before it needs")
        elif below is None or sha256(line["text"].encode()).hex() != line["digest"]:
            self._alter(position, f"the payload {line['digest']} that it needs is another one")
        else:
            self._want(below, position)

    def _end(self, line: Line) -> None:
        if line["type"] != "end" or self.file.read(1):
            raise ValueError(f"line {self.line_number} should be the end, and is not")
        for name, position in self.wanted.items():
            self._alter(position, f"the payload {name} that it needs is not here")
        if line["entries"] != self.entries:
            self.troubles.append(f"it had {line['entries']} entries, and {self.entries} are here")
        if line["sha256"] != self.whole.hexdigest():
            self.troubles.append("it is not the file that was written: its bytes have another digest")

    def _alter(self, position: int, why: str, line: Line | None = None) -> None:
        self.altered.append((position, position))
        of = "" if line is None else f" (saga {line['saga']}, number {line['number']})"
        self._find(f"entry {position}{of}: {why}")

    def _find(self, finding: str) -> None:
        if len(self.findings) < MOST_FINDINGS:
            self.findings.append(finding)

    def _reach(self, position: int) -> None:
        if position > self.place:
            self.missing.append((self.place, position - 1 if self.sagas is None else min(position - 1, self.until)))
            self.is_whole = False

    def _grow(self, hashed: bytes, height: int) -> None:
        if self.is_whole:
            self.tree.add(hashed, height)
            self._hold()

    def _hold(self) -> None:
        while self.claims and self.claims[0][0] <= self.tree.size:
            size, roots = self.claims.pop(0)
            if size < self.tree.size:
                self.troubles.append(f"what is shown cannot be held against the checkpoint of {size} entries")
                continue
            if roots != {self.tree.root}:
                self.bad.append((self.good + 1, size))
            self.good = size if self.tree.root in roots else self.good

    def report(self) -> Line:
        missing, altered = merged([*self.missing, (self.place, self.until)]), merged(self.altered)
        hidden = max(0, self.holes - told(missing)["count"])
        if hidden:
            self._find(f"{hidden} entries of the sagas that are shown are left out")
        for first, last in self.bad:
            if not any(one <= last and other >= first for one, other in altered):
                altered = merged([*altered, (first, last)])
                self._find(f"entries {first} to {last}: together they do not make the root that was signed")
        tied = [(first, min(last, self.good)) for first, last in self.present]
        covered = without(tied, [*self.bad, *self.untied, *altered])
        unattested = without(self.present, [*covered, *altered])
        gone, removals = self._removals(covered)
        unproved = self._unproved()
        if gone:
            places = told(gone)["entries"]
            self._find(f"entries {places}: what they held is gone, and no signed entry says who removed it")
        failed = missing or hidden or altered or unproved or self.troubles or (gone and not self.may_be_gone)
        return {
            "conclusion": "failed" if failed else "unattested" if unattested or not self.good else "covered",
            "attested": self.good,
            "covered": told(covered),
            "unattested": told(unattested),
            "missing": told(missing, hidden),
            "altered": told(altered),
            "gone": told(gone),
            "unproved": told(unproved),
            "proved": self.names.proved,
            "removed": self.removed,
            "removals": removals,
            "troubles": self.troubles,
            "findings": self.findings,
        }


def itself(given: str) -> str:
    """The given text, or the content of the file that was named after an @."""
    return Path(given[1:]).read_text(encoding="utf-8") if given.startswith("@") else given


def lines_about(found: Line) -> list[str]:
    """For a person. What came from the bundle is spelled so that a terminal takes it for text."""
    counts = [
        "covered",
        "unattested",
        "missing",
        "altered",
        *(name for name in ("gone", "unproved") if found[name]["count"]),
    ]
    lines = [f"{name:<11}{found[name]['count']:>9}  {found[name]['entries']}".rstrip() for name in counts]
    if found["removed"]:
        lines.append(f"{'removed':<11}{found['removed']:>9}  what they held was removed; they are counted above")
    for one in found["removals"][:MOST_SHOWN]:
        by, why = (json.dumps(one[name][:LONGEST_SHOWN]) for name in ("by", "why"))
        did = "found gone, and vouches for, what" if one["was_gone"] else "removed what"
        entries = "1 entry" if one["entries"] == 1 else f"{one['entries']} entries"
        sagas = "1 saga" if one["sagas"] == 1 else f"{one['sagas']} sagas"
        lines.append(f"  {by} {did} {entries} of {sagas} held: {why}")
    wrong = [line[:LONGEST_FINDING] for line in (*found["troubles"], *found["findings"])]
    lines += ["! " + "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line) for line in wrong]
    return [*lines, SAYS[found["conclusion"]]]


def main(words: list[str] | None = None) -> int:
    asked = argparse.ArgumentParser(description="Verify a bundle of evidence, offline.")
    asked.add_argument("bundle", type=Path)
    asked.add_argument("--key", required=True, help="the public key, or @ and the name of a file of it")
    asked.add_argument(
        "--tree-head", "--checkpoint", dest="checkpoint", help="a tree head that you kept, or @ and a file of it"
    )
    asked.add_argument(
        "--removed-unrecorded", action="store_true", help="take what is gone for removed, without a record"
    )
    asked.add_argument("--root", help="the root of the roster of people: the hash of its first entry")
    asked.add_argument("--json", action="store_true")
    given = asked.parse_args(words)
    try:
        key = itself(given.key)
        checkpoint = None if given.checkpoint is None else itself(given.checkpoint)
        if checkpoint is not None and "\n" not in checkpoint.strip():  # no note has one line: it is a file's name
            checkpoint = Path(checkpoint).read_text(encoding="utf-8")
        with given.bundle.open("rb") as file:
            found = Verification(file, key, checkpoint, may_be_gone=given.removed_unrecorded, root=given.root).report()
    except (ValueError, OSError) as exc:
        sys.stderr.write(f"it cannot be read: {exc}\n")
        return UNREADABLE
    said = [json.dumps(found)] if given.json else lines_about(found)
    sys.stdout.write("\n".join(said) + "\n")
    return {"covered": COVERED, "unattested": UNATTESTED}.get(found["conclusion"], FAILED)


if __name__ == "__main__":
    sys.exit(main())
