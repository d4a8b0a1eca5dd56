"""A large text as parts, each under its digest, so that what comes again is stored once.

An agent hands its whole history to the model on every turn. Stored whole each time, two hundred turns of 2 KB take
40 MB; as parts, each message is stored once, and a turn costs what is new in it.

A part is text, and its first character says of which kind:

    =…                        a piece of the text, as it is
    +["…","d1","…","d2",""]   JSON: texts at the even places, digests of other parts at the odd ones

Put together in their order, they are the text again, letter by letter. A part is known by the SHA-256 of all of it, so
a digest stands for everything below it, and parts cannot form a circle.

Where a text is cut is nobody's business but the writer's: readers only join. Cuts depend on what stands there, not on
how far it is from the beginning, so a list that grows, loses its oldest items or gets another first one keeps most of
its parts. A long string of JSON is a part of its own; between those, and within very long ones, a border is taken where
the characters before it say so. The parts of a text are gathered into groups in the same way, by their digests, and
groups into groups: what is new on a turn is a leaf or two, and a few groups above them.

Whoever reads is told how long the text is, and stops where it gets longer: a few parts can name each other so that they
would fill a disk.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from json.encoder import encode_basestring as _quote
from typing import Final, NamedTuple, Protocol, cast
from zlib import crc32

from amends.errors import JournalDamagedError

LEAF: Final = "="
GROUP: Final = "+"
SHORTEST: Final = 256
"""How many characters a leaf has at least: what is shorter stands in the group itself."""
LONG: Final = 512
"""From how many characters on a string of JSON is a part of its own."""
LONGEST: Final = 8 * 1024
"""How many characters a leaf has at most."""
LARGEST: Final = 256 * 1024
"""How many characters a group has at most; none that is written comes near it."""
HIGHEST: Final = 24
"""How many groups may stand above each other."""
_NEAREST: Final = 1024
"""How many characters lie between two borders at least."""
_WINDOW: Final = 48
"""How many characters before a border decide whether it is one; of sixteen that could be, one is."""
_OF: Final = 16
_FEWEST, _MOST, _ENDS = 2, 16, frozenset("048c")
"""How many parts a group has; past the fewest, every fourth digest ends one."""
_SHORT_STRINGS: Final = re.compile(rf'[^"]*+(?:"[^"\\]{{0,{LONG - 2}}}+"[^"]*+)*+')
_AT_ONCE: Final = 64 * 1024
"""How many characters are looked at by one call that no other thread can interrupt."""
_BORDER: Final = re.compile(r"[,.。\\]")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_FOUND_WRONG: Final = "it is no list of texts and digests"

Row = list[tuple[str, str]]
"""Digests in their order, each with the text before it."""


class Cut(NamedTuple):
    """A text in parts: the digest of the one that stands for all, and all by digest, each before those it names."""

    root: str
    parts: dict[str, str]


class Payloads(Protocol):
    """Where parts are found by digest; a mapping is one."""

    def get(self, key: str, /) -> str | None: ...


def cut(text: str) -> Cut:
    """Cut a text into parts; equal texts give equal parts."""
    made: dict[str, str] = {}
    row, rest = _leaves(text, made)
    while len(row) > _MOST:
        row = list(_gathered(row, made))
    if not row:
        root = _add(made, LEAF + rest)
    elif len(row) == 1 and not rest and not row[0][0]:
        root = row[0][1]
    else:
        root = _add(made, _group(row, rest))
    return Cut(root, dict(reversed(made.items())))


def restored(root: str, size: int, payloads: Payloads) -> str:
    """The text that a part stands for, which takes `size` bytes.

    Raises JournalDamagedError as soon as it cannot be that.
    """
    pieces: list[str] = []
    room = size
    left: list[tuple[str, int]] = [(root, 0)]  # digests with their height, the next one last; texts have none: -1
    while left:
        text, height = left.pop()
        if height >= 0:
            part = _sound(text, payloads)
            if part[:1] == GROUP:
                left += _below(part, height)
                continue
            text = part[1:]
            if len(text) < SHORTEST and height:
                raise JournalDamagedError("one of its parts is shorter than any that is written")
        room -= len(text)
        if room < 0:
            raise JournalDamagedError(f"its parts make more than the {size:,} bytes that it has")
        pieces.append(text)
    whole = "".join(pieces)
    if len(whole.encode()) != size:
        raise JournalDamagedError(f"its parts do not make the {size:,} bytes that it has")
    return whole


def named_by(part: str) -> tuple[str, ...]:
    """The digests that a part names; none for a leaf, or for a payload that is no part. Raises JournalDamagedError."""
    return tuple(_items(part)[1::2]) if part[:1] == GROUP else ()


# -- joining ----------------------------------------------------------------------------------------------------------


def _sound(digest: str, payloads: Payloads) -> str:
    part = payloads.get(digest)
    if part is None:
        raise JournalDamagedError(f"its part {digest[:12]}… is missing")
    if _digest(part) != digest:
        raise JournalDamagedError(f"its part {digest[:12]}… does not match its digest")
    if part[:1] not in {LEAF, GROUP}:
        raise JournalDamagedError(f"its part {digest[:12]}… is of no kind that this version knows")
    return part


def _below(part: str, height: int) -> Iterable[tuple[str, int]]:
    if height >= HIGHEST:
        raise JournalDamagedError(f"its parts are stacked higher than {HIGHEST}")
    items = _items(part)
    heights = [-1, height + 1] * (len(items) // 2) + [-1]
    return [one for one in zip(reversed(items), reversed(heights), strict=True) if one[0]]


def _items(part: str) -> list[str]:
    if len(part) > LARGEST:
        raise JournalDamagedError(f"one of its parts has more than {LARGEST:,} characters")
    try:
        found = json.loads(part[1:])
    except (ValueError, RecursionError):
        raise JournalDamagedError(_FOUND_WRONG) from None
    if type(found) is not list or len(cast("list[object]", found)) % 2 == 0:
        raise JournalDamagedError(_FOUND_WRONG)
    items = cast("list[object]", found)
    if len(items) == 1 or not all(type(item) is str for item in items):
        raise JournalDamagedError(_FOUND_WRONG)
    texts = cast("list[str]", items)
    if not all(map(_DIGEST.fullmatch, texts[1::2])):
        raise JournalDamagedError(_FOUND_WRONG)
    return texts


# -- cutting ----------------------------------------------------------------------------------------------------------


def _leaves(text: str, made: dict[str, str]) -> tuple[Row, str]:
    """The leaves of a text, and what is left at its end."""
    row: Row = []
    before = ""
    for piece in _pieces(text):
        if len(piece) < SHORTEST:
            before += piece
        else:
            row.append((before, _add(made, LEAF + piece)))
            before = ""
    return row, before


def _pieces(text: str) -> Iterator[str]:
    start = 0
    for first, last in _long_strings(text):
        yield from _bounded(text, start, first)
        if last - first <= LONGEST:
            yield text[first:last]
        else:
            yield from _bounded(text, first, last)
        start = last
    yield from _bounded(text, start, len(text))


def _long_strings(text: str) -> Iterator[tuple[int, int]]:
    """Where they begin and end, with their quotes. What is not JSON gives what it gives: nothing depends on it."""
    place, end, find, skip = 0, len(text), text.find, _SHORT_STRINGS.match
    while place < end:
        skipped = skip(text, place, place + _AT_ONCE)
        place = skipped.end() if skipped else place
        if text[place : place + 1] != '"':
            continue
        last = find('"', place + 1)
        while last > 0 and text[last - 1] == "\\" and _is_escaped(text, last):
            last = find('"', last + 1)
        if last < 0:
            return
        if last - place >= LONG:
            yield place, last + 1
        place = last + 1


def _is_escaped(text: str, place: int) -> bool:
    start = place
    while start and text[start - 1] == "\\":
        start -= 1
    return (place - start) % 2 == 1


def _bounded(text: str, start: int, end: int) -> Iterator[str]:
    while end - start > _NEAREST:
        border = _border(text, start + _NEAREST, min(end, start + LONGEST))
        if border is None:
            if end - start <= LONGEST:
                break
            border = start + LONGEST
        yield text[start:border]
        start = border
    if start < end:
        yield text[start:end]


def _border(text: str, first: int, last: int) -> int | None:
    for found in _BORDER.finditer(text, first, last):
        border = found.end()
        if crc32(text[border - _WINDOW : border].encode()) % _OF == 0:
            return border
    return None


def _gathered(row: Row, made: dict[str, str]) -> Iterator[tuple[str, str]]:
    group: Row = []
    for one in row:
        group.append(one)
        if len(group) >= _MOST or (len(group) >= _FEWEST and one[1][-1] in _ENDS):
            yield "", _add(made, _group(group, ""))
            group = []
    if len(group) == 1:
        yield group[0]
    elif group:
        yield "", _add(made, _group(group, ""))


def _group(row: Row, rest: str) -> str:
    return f"{GROUP}[{','.join([f'{_quote(text)},{_quote(digest)}' for text, digest in row])},{_quote(rest)}]"


def _add(made: dict[str, str], part: str) -> str:
    digest = _digest(part)
    made.setdefault(digest, part)
    return digest


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
