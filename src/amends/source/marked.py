"""A file's content as plain data that still knows its lines, and the list of what is wrong with it.

And words that people write: the right one that a wrong one was probably meant to be, durations and ages.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import field
from typing import Final, TypeAlias

from amends.core.words.values import Json
from amends.dataclass import dataclass
from amends.errors import MistakesError

_LONGEST_WORD: Final = 64


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The right word that this one was probably meant to be."""
    import difflib  # only mistakes need it

    words = list(known)
    short = word[:_LONGEST_WORD]
    close = difflib.get_close_matches(short, words, n=1) or [
        right for right in words if short.startswith(right) or right.startswith(short)
    ]
    return close[0] if close and short else None


DAY_S: Final = 86_400.0
_LONGEST_S: Final = 366 * DAY_S
_DURATION: Final = re.compile(r"([1-9][0-9]{0,8})([smhd])")
_AGE: Final = re.compile(r"([0-9]{1,9})([smhd])")
_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": DAY_S}


def duration_s(text: str) -> float | None:
    """The seconds of `30s`, `15m`, `1h` or `2d`; None where it is not one, or is longer than a year."""
    found = _DURATION.fullmatch(text)
    seconds = int(found[1]) * _UNITS[found[2]] if found else 0.0
    return seconds if 0 < seconds <= _LONGEST_S else None


def age_s(text: str) -> float | None:
    """The seconds of an age such as `90d`: unlike a duration it may be nothing, `0s`, or longer than a year."""
    found = _AGE.fullmatch(text)
    return int(found[1]) * _UNITS[found[2]] if found else None


MOST: Final = 20
"""So many mistakes are reported; the reading ends with the last of them."""
_LONGEST_SHOWN: Final = 60


@dataclass(frozen=True, slots=True)
class Scalar:
    """`written` is its text as it stands in the file, whatever it means: 1.10, +5, true."""

    line: int
    value: bool | int | float | str | None
    written: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Listed:
    line: int
    items: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class MarkedEntry:
    line: int
    key: str
    value: Part


@dataclass(frozen=True, slots=True)
class Mapped:
    """The keys are unlike each other."""

    line: int
    entries: tuple[MarkedEntry, ...]


Part: TypeAlias = Scalar | Listed | Mapped


class Mistakes:
    """Collects what is wrong with a file. Raises its kind of error when there are too many to go on, or when asked."""

    def __init__(self, name: str, kind: type[MistakesError]) -> None:
        self.name = name
        self._kind = kind
        self._found: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._found)

    def add(self, line: int, what: str) -> None:
        self._found.append((line, what))
        if len(self._found) >= MOST:
            raise self.error()

    def stop(self, line: int, what: str) -> MistakesError:
        """One after which nothing more can be said of the file; raise what this gives."""
        self._found.append((line, what))
        return self.error()

    def unreadable(self, why: str) -> MistakesError:
        return self._kind([f"{self.name}: cannot be read: {why}"])

    def refused(self, why: str) -> MistakesError:
        """The file is not believed; `why` names it."""
        return self._kind([why])

    def raise_any(self) -> None:
        if self._found:
            raise self.error()

    def error(self) -> MistakesError:
        told = [f"{self.name}:{line}: {what}" for line, what in sorted(self._found, key=lambda mistake: mistake[0])]
        if len(told) >= MOST:
            told.append(f"{self.name}: these are the first {len(told)}; there may be more")
        return self._kind(told)

    def unknown(
        self, line: int, what: str, word: str, known: Collection[str], *, where: str = "", hint: str = ""
    ) -> None:
        """A word that is none of the known ones."""
        right = nearest(word, known)
        meant = f"did you mean {right}?" if right else hint or f"known: {', '.join(known)}"
        self.add(line, f"unknown {what} {shown(word)}{where}; {meant}")

    def wrong(self, part: Part, what: str, wanted: str) -> None:
        self.add(part.line, f"{what} has to be {wanted}, not {said(part)}")

    # -- what a reader asks of a part; a mistake is noted, and the answer is empty ------------------------------------

    def entries(self, part: Part, what: str, known: Collection[str] | None = None) -> Iterator[MarkedEntry]:
        """The entries of a map; those with a key that is not known are told and left out."""
        if not isinstance(part, Mapped):
            self.wrong(part, what, "a map")
            return
        for entry in part.entries:
            if known is not None and entry.key not in known:
                self.unknown(entry.line, "key", entry.key, known, where=f" in {what}")
            else:
                yield entry

    def items(self, part: Part, what: str) -> tuple[Part, ...]:
        if not isinstance(part, Listed) or not part.items:
            self.wrong(part, what, "a list of at least one thing")
            return ()
        return part.items

    def text(self, part: Part, what: str) -> str:
        if not isinstance(part, Scalar) or not isinstance(part.value, str) or not part.value.strip():
            self.wrong(part, what, "text")
            return ""
        return part.value

    def choice(self, part: Part, what: str, words: Collection[str]) -> str:
        """One of these words, else nothing."""
        word = self.text(part, what)
        if word and word not in words:
            self.unknown(part.line, what, word, words)
            return ""
        return word

    def integer(self, part: Part, what: str, most: int) -> int:
        value = part.value if isinstance(part, Scalar) else None
        if type(value) is int and 1 <= value <= most:
            return value
        self.wrong(part, what, f"a whole number from 1 to {most}")
        return 1

    def duration(self, part: Part, what: str) -> float:
        """Seconds of a duration; 1 where it is none, which is noted."""
        seconds = duration_s(part.value) if isinstance(part, Scalar) and isinstance(part.value, str) else None
        if seconds is None:
            self.wrong(part, what, "a duration of at most 366d, such as 30s, 15m, 1h or 2d")
        return seconds or 1.0


def plain(part: Part) -> Json:
    """The data alone."""
    match part:
        case Scalar(value=value):
            return value
        case Listed(items=items):
            return [plain(item) for item in items]
        case Mapped(entries=entries):
            return {entry.key: plain(entry.value) for entry in entries}


def shown(value: object) -> str:
    """A word from a file in an error: short, and harmless to a terminal."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # an integer of thousands of digits, too, has no text
        return f"a {type(value).__name__}"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def said(part: Part) -> str:
    match part:
        case Scalar(value=None):
            return "nothing"
        case Scalar(value=bool(flag)):
            return str(flag).lower()
        case Scalar(value=value):
            return shown(value)
        case Listed(items=items):
            return "a list" if items else "an empty list"
        case Mapped(entries=entries):
            return "a map" if entries else "an empty map"
