"""Values and words as a person is shown them: on one line, cut to a length, and harmless to a terminal. Pure.

Everything that came from outside (arguments, results, errors, names) is cut to a length, and every character that a
terminal would act upon, that hides or moves its neighbours, or that is not to be seen itself, is shown as its escape:
controls and other ends of lines, marks of direction and letters that are written from right to left, blanks, fillers
and selectors. `visible` is the one place that knows which. A secret is shown as the word `secret`.
"""

from __future__ import annotations

import itertools
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final

from amends.core.words.values import SECRET_MARK as MARK, Json

LONGEST_VALUE: Final = 48
LONGEST_ARGS: Final = 160
LONGEST_RESULT: Final = 120
LONGEST_REASON: Final = 300
MOST_LINES: Final = 20
"""Lines of one error that are shown below its first."""
LONGEST_PLACE: Final = 200
FILES_MARK: Final = "$files"
"""How a step's changeset stands in its arguments."""
_BARE: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:/@+")
_SECOND: Final = 1000
_UNITS: Final = (("d", 86_400_000, 3_600_000), ("h", 3_600_000, 60_000), ("min", 60_000, _SECOND))
"""Each with what it is in milliseconds, and what the next smaller one is."""
_UNSEEN: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u2d7f\u3164\ufe00-\ufe0f\uffa0\U00016fe4\U0001d159\U000e0100-\U000e01ef]"
)
"""What counts as printable and is not to be seen: fillers, blanks, and selectors of a variant."""
_BACKWARDS: Final = frozenset({"R", "AL", "AN"})
"""How letters run that are written from right to left: a terminal shows what stands between two of them elsewhere."""


def said(text: str) -> str:
    return visible(text, LONGEST_REASON)


def short(text: str) -> str:
    return visible(text, LONGEST_VALUE)


def headline(text: str, longest: int = LONGEST_REASON) -> str:
    """The first line of what may have several; `further` has the others."""
    return visible(text.strip().partition("\n")[0], longest)


def further(text: str) -> tuple[str, ...]:
    """The lines below the first, each as a person may be shown it: to be set apart by whoever shows them."""
    lines = [visible(line.rstrip(), LONGEST_REASON) for line in lines_of(text.strip())[1:]]
    left = len(lines) - MOST_LINES
    return (*lines[:MOST_LINES], *((f"… {left} more lines",) if left > 0 else ()))


def span(milliseconds: int) -> str:
    """A duration in the unit that suits it: 2 h, also where it is some milliseconds less, and never 120 min."""
    for unit, size, below in _UNITS:
        if milliseconds >= 2 * size - below / 2:
            return f"{milliseconds / size:.0f} {unit}"
    return f"{milliseconds / 1000:.3g} s" if milliseconds >= _SECOND else f"{max(0, milliseconds)} ms"


def moment(milliseconds: int) -> str:
    """A time as the clock on the wall here shows it."""
    return local_time(milliseconds).strftime("%Y-%m-%d %H:%M:%S")


def clock_time(milliseconds: int, now: int) -> str:
    """A time of today as the clock on the wall here shows it; of another day, with its date."""
    when = local_time(milliseconds)
    return f"{when:%H:%M:%S}" if when.date() == local_time(now).date() else moment(milliseconds)


def local_time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, tz=UTC).astimezone()


def counted(number: int, one: str, many: str = "") -> str:
    """`1 saga`, `2 sagas`: with the plural where that is not the word and an s."""
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def times(number: int) -> str:
    """`once`, `twice`, `3 times`."""
    return {1: "once", 2: "twice"}.get(number, f"{number} times")


def visible(text: str, longest: int | None = None) -> str:
    """The text on one line, cut to a length, with what a terminal would act upon or not show as escapes."""
    if longest is None:
        longest = 10 * len(text)
    if len(text) <= longest and text.isascii() and text.isprintable():
        return text
    is_mark = bool(text) and unicodedata.category(text[0]).startswith("M")  # it would sit on what stands before it
    return _cut(itertools.chain([_escape(text[0])] if is_mark else (), map(_escaped, text[is_mark:])), longest)


def lines_of(text: str) -> list[str]:
    """A text's lines, which newlines end and nothing else does: other ends of a line are to be seen in it."""
    return text.removesuffix("\n").split("\n") if text else []


def _escaped(character: str) -> str:
    is_plain = character.isprintable() and (
        character.isascii() or (not _UNSEEN.match(character) and unicodedata.bidirectional(character) not in _BACKWARDS)
    )
    return character if is_plain else _escape(character)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


def spelled_args(args: Json) -> str:
    """Arguments by name, each of them short, and all of them not much longer."""
    if not isinstance(args, dict):
        return "" if args is None else spelled(args, LONGEST_ARGS)
    named = (f"{short(name)}={spelled(value)}" for name, value in args.items())
    return _cut((f" {one}" for one in named), LONGEST_ARGS).lstrip()


def spelled(value: Json, longest: int = LONGEST_VALUE) -> str:
    """A value, without quotes where it is a plain word."""
    if isinstance(value, str) and value and _BARE.issuperset(value[: longest + 1]):
        return visible(value, longest)
    return _cut(_pieces(value), longest)


def _pieces(value: Json) -> Iterator[str]:
    """JSON in small pieces, so that a large value costs no more than what is shown of it."""
    if isinstance(value, dict):
        if MARK in value:
            yield "secret"
            return
        if FILES_MARK in value:
            yield ", ".join(_trees(value))
            return
        yield "{"
        for place, (name, item) in enumerate(value.items()):
            yield ", " if place else ""
            yield from _quoted(name)
            yield ": "
            yield from _pieces(item)
        yield "}"
    elif isinstance(value, list):
        yield "["
        for place, item in enumerate(value):
            yield ", " if place else ""
            yield from _pieces(item)
        yield "]"
    elif isinstance(value, str):
        yield from _quoted(value)
    else:
        yield json.dumps(value)


def _trees(changeset: dict[str, Json]) -> Iterator[str]:
    """The names of the trees that a changeset is of; its own name where they are not said."""
    roots = changeset.get("roots")
    for root in roots if isinstance(roots, list) and roots else [changeset[FILES_MARK]]:
        yield visible(str(root).rstrip("/").rpartition("/")[2], LONGEST_VALUE)


def _quoted(text: str) -> Iterator[str]:
    yield '"'
    for character in text:
        yield f"\\{character}" if character in '"\\' else _escaped(character)
    yield '"'


def _cut(pieces: Iterable[str], longest: int) -> str:
    """As many whole pieces as fit, and the sign that some did not."""
    kept: list[str] = []
    room = longest
    for piece in pieces:
        if len(piece) > room:
            while kept and room < 1:
                room += len(kept.pop())
            return "".join(kept).rstrip() + "…"
        kept.append(piece)
        room -= len(piece)
    return "".join(kept)
