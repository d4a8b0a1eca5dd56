"""Signed notes, as C2SP writes them: a text, a blank line, and signatures by named Ed25519 keys. And two kinds of text.

    amends/01k…                 the journal's name              amends key rotation      what it is
    1000                        how many entries                amends/01k…              the journal's name
    NCz2…=                      the root of their tree          amends/01k…+1a2b…+AZ…    the key that goes
                                                                amends/01k…+9c0d…+AY…    the key that comes
    — amends/01k… GisrPA…                                       1000                     how many entries by then
                                                                NCz2…=                   the root of their tree

The left one is a checkpoint. Reading is strict: one spelling for each thing, so that no byte can change unseen. Raises
EvidenceError for everything else.

Tree heads that somebody else was told of and kept: one signed note, or a file of notices, a line of JSON each.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
import re
from collections.abc import Sequence
from functools import cached_property
from hashlib import sha256
from typing import Any, Final, NamedTuple, cast

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from amends.errors import EvidenceError

LONGEST: Final = 65_536
LONGEST_SHOWN: Final = 60
MOST_SIGNATURES: Final = 100
ROTATION: Final = "amends key rotation"
_ED25519: Final = b"\1"
_KEY_BYTES: Final = 32
_ID_BYTES: Final = 4
_SIGNATURE_BYTES: Final = 64
_CHECKPOINT_LINES: Final = 3
_SIZE: Final = re.compile(r"0|[1-9][0-9]{0,17}")
_NAME: Final = re.compile(r"[^\s+]{1,200}")


class NoteSignature(NamedTuple):
    name: str
    id: bytes
    raw: bytes


class Note(NamedTuple):
    """`text` ends with a newline, and is what was signed."""

    text: str
    signatures: tuple[NoteSignature, ...]


class NotedHead(NamedTuple):
    origin: str
    size: int
    root: bytes


class Rotation(NamedTuple):
    origin: str
    old: PublicKey
    new: PublicKey
    size: int
    root: bytes


class PublicKey:
    """A verifier key: the name of what it signs for, and 32 bytes. Its text is `name+id+base64`."""

    def __init__(self, name: str, raw: bytes) -> None:
        self.name = name
        self.raw = raw
        self.id = sha256(name.encode() + b"\n" + _ED25519 + raw).digest()[:_ID_BYTES]

    @cached_property
    def text(self) -> str:
        return f"{self.name}+{self.id.hex()}+{base64.b64encode(_ED25519 + self.raw).decode()}"

    @cached_property
    def _key(self) -> Ed25519PublicKey:
        return Ed25519PublicKey.from_public_bytes(self.raw)

    def has_signed(self, note: Note) -> bool:
        """Whether one of the note's signatures is this key's, and good. The first that names it counts."""
        raw = next((one.raw for one in note.signatures if (one.name, one.id) == (self.name, self.id)), None)
        if raw is None:
            return False
        try:
            self._key.verify(raw, note.text.encode())
        except InvalidSignature:
            return False
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PublicKey) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


def read_key(text: str) -> PublicKey:
    name, _, rest = text.strip("\n").partition("+")
    stated, _, coded = rest.partition("+")
    raw = _decoded(coded)
    if not _NAME.fullmatch(name) or raw is None or len(raw) != 1 + _KEY_BYTES or raw[:1] != _ED25519:
        raise EvidenceError(f"{_short(text)} is not a public key; one looks like name+1a2b3c4d+AZ…")
    key = PublicKey(name, raw[1:])
    if key.id.hex() != stated:
        raise EvidenceError(f"{_short(text)} is not a public key: its id does not fit the rest of it")
    return key


def read_note(note: str) -> Note:
    if len(note) > LONGEST or not _is_clean(note):
        raise EvidenceError("what should be a signed note is too long, or holds characters that no note has")
    text, blank, rest = note.rpartition("\n\n")
    if not blank or not rest.endswith("\n"):
        raise EvidenceError(f"{_short(note)} is not a signed note: a text, a blank line, and lines of signatures")
    lines = rest[:-1].split("\n")
    if len(lines) > MOST_SIGNATURES:
        raise EvidenceError("a signed note has more signatures than anybody would read")
    return Note(text + "\n", tuple(_read_signature(line) for line in lines))


def _read_signature(line: str) -> NoteSignature:
    dash, _, rest = line.partition(" ")
    name, _, coded = rest.partition(" ")
    raw = _decoded(coded)
    if dash != "—" or not _NAME.fullmatch(name) or raw is None or len(raw) <= _ID_BYTES:
        raise EvidenceError(f"{_short(line)} is not the signature of a note")
    return NoteSignature(name, raw[:_ID_BYTES], raw[_ID_BYTES:])


def spell_note(text: str, signatures: Sequence[tuple[PublicKey, bytes]]) -> str:
    lines = [f"— {key.name} {base64.b64encode(key.id + raw).decode()}\n" for key, raw in signatures]
    return f"{text}\n{''.join(lines)}"


# -- the two kinds of text --------------------------------------------------------------------------------------------


def spell_checkpoint(origin: str, size: int, root: bytes) -> str:
    return f"{origin}\n{size}\n{base64.b64encode(root).decode()}\n"


def read_checkpoint(note: Note) -> NotedHead:
    """Lines after the third belong to others; they are signed, and mean nothing here."""
    lines = note.text[:-1].split("\n")
    if len(lines) < _CHECKPOINT_LINES or not all(lines):
        raise EvidenceError(f"{_short(note.text)} is not a checkpoint: a name, a size and a root")
    origin, size, root, *_ = lines
    return NotedHead(origin, _size(size), _root(root))


def spell_rotation(old: PublicKey, new: PublicKey, size: int, root: bytes) -> str:
    return f"{ROTATION}\n{old.name}\n{old.text}\n{new.text}\n{size}\n{base64.b64encode(root).decode()}\n"


def read_rotation(note: Note) -> Rotation:
    kind, *parts = note.text[:-1].split("\n")
    if kind != ROTATION or len(parts) != len(Rotation._fields):
        raise EvidenceError(f"{_short(note.text)} is not the record of a change of keys")
    origin, old, new, size, root = parts
    rotation = Rotation(origin, read_key(old), read_key(new), _size(size), _root(root))
    if not origin == rotation.old.name == rotation.new.name:
        raise EvidenceError("the record of a change of keys names keys of another journal")
    return rotation


def _size(text: str) -> int:
    if not _SIZE.fullmatch(text):
        raise EvidenceError(f"{_short(text)} is not the size of a tree")
    return int(text)


def _root(text: str) -> bytes:
    raw = _decoded(text)
    if raw is None or len(raw) != sha256().digest_size:
        raise EvidenceError(f"{_short(text)} is not the root of a tree")
    return raw


def _decoded(text: str) -> bytes | None:
    """Base64 in its one proper spelling; None for anything else."""
    try:
        raw = base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if base64.b64encode(raw).decode() == text else None


def _is_clean(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return all(character >= " " or character == "\n" for character in text)


def _short(text: str) -> str:
    return ascii(text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "…")


HEAD: Final = "tree.head"
"""The type of the notices that carry one."""


def held_notes(text: str) -> tuple[str, ...]:
    """The notes in what somebody kept, each once, oldest first. A line that was cut off is passed over.

    Raises EvidenceError where there is none.
    """
    if not text.lstrip().startswith("{"):
        return (text,)
    found: dict[str, None] = {}
    for line in text.split("\n"):
        note = _note(line)
        if note is not None:
            found[note] = None
    if not found:
        raise EvidenceError("it holds no tree head; a file that `amends notify --file` keeps has one in each line")
    return tuple(found)


def _note(line: str) -> str | None:
    told: object = None
    with contextlib.suppress(ValueError, RecursionError):
        told = json.loads(line)
    if not isinstance(told, dict):
        return None
    notice = cast("dict[str, Any]", told)
    data = notice.get("data")
    note = cast("dict[str, object]", data).get("note") if isinstance(data, dict) else None
    return note if notice.get("type") == HEAD and isinstance(note, str) else None
