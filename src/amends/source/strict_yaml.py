"""Strict YAML: a bounded walk over YAML's events that makes plain data with its lines. Knows no format.

Nothing is ever composed or constructed by the YAML library: it only cuts the text into events, one at a time, and the
walk stops at the first that is past a bound. So a hostile file costs no more than its size, and cannot recurse,
multiply or name a type. What YAML has and our files do not need is refused: anchors, aliases, tags, merge keys,
directives, several documents, the same key twice, keys that are not text. So are characters that make a file mean
something else than what its reader sees.

Plain words mean what YAML 1.2 says (true, false, null, decimal numbers); `no`, `on`, `12:30:45` and `0o7` are text.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from os import PathLike
from typing import Final, TypeAlias, cast

import yaml

from amends.core.words.values import LARGEST_INT
from amends.ownership import DOCUMENT, read_own
from amends.source.marked import Listed, Mapped, MarkedEntry, Mistakes, Part, Scalar, shown

LARGEST_FILE: Final = 256 * 1024
MOST_PARTS: Final = 20_000
DEEPEST: Final = 32
LONGEST_TEXT: Final = 8192
_LONGEST_NUMBER: Final = 40
_MERGE: Final = "<<"
_INVISIBLE: Final = frozenset({"Cc", "Cf", "Zl", "Zp", "Zs"})
"""Controls, formats, line and paragraph breaks, spaces that are none."""

_WORDS: Final = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")

# The one in C is ten times as fast, and is not there on every machine. They differ in a few texts that one of them
# refuses; none is known that they read in two ways.
_LOADER: Final = yaml.CBaseLoader if yaml.__with_libyaml__ else yaml.BaseLoader


def read_file(path: str | PathLike[str], mistakes: Mistakes) -> bytes:
    """A file's bytes, up to one more than is read of any, if nobody else could have written them.

    Raises the error of `mistakes`.
    """
    try:
        return read_own(path, DOCUMENT, most=LARGEST_FILE + 1, error=mistakes.refused)
    except (OSError, ValueError) as exc:
        raise mistakes.unreadable(getattr(exc, "strerror", None) or str(exc)) from None


def parse_document(text: str | bytes, mistakes: Mistakes) -> Part:
    """The data of a file, whatever it is about."""
    return read_document(decoded(text, mistakes), mistakes)


# -- text -------------------------------------------------------------------------------------------------------------


def decoded(text: str | bytes, mistakes: Mistakes) -> str:
    try:
        data = text.encode() if isinstance(text, str) else text
        if len(data) > LARGEST_FILE:
            raise mistakes.stop(1, f"the file has more than {LARGEST_FILE >> 10} KB, the most that is read")
        decoded = data.decode()
    except UnicodeDecodeError as exc:
        line = exc.object.count(b"\n", 0, exc.start) + 1
        raise mistakes.stop(line, f"not UTF-8: byte {exc.object[exc.start]:#04x}; save it as UTF-8") from None
    except UnicodeEncodeError as exc:
        line = exc.object.count("\n", 0, exc.start) + 1
        raise mistakes.stop(line, "half a surrogate pair, which is not text") from None
    for line, what in _hidden(decoded):
        mistakes.add(line, what)
    mistakes.raise_any()
    return decoded


def _hidden(text: str) -> Iterator[tuple[int, str]]:
    """Characters that make a file look unlike what it says: tabs, odd line breaks, controls, those without a shape."""
    if text.isascii() and text.isprintable():
        return
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        if line.isascii() and line.isprintable():
            continue
        for character in dict.fromkeys(line):
            if character == "\t":
                yield number, "a tab; indent with spaces, and write \\t in double quotes where one is meant"
            elif character == "\ufeff":
                yield number, "a byte order mark; save the file as UTF-8 without one"
            elif character != " " and unicodedata.category(character) in _INVISIBLE:
                yield (
                    number,
                    f"the invisible character U+{ord(character):04X}; remove it, or escape it in double quotes",
                )


# -- events -----------------------------------------------------------------------------------------------------------


def read_document(text: str, mistakes: Mistakes) -> Part:
    walk = _Walk(mistakes)
    try:
        for event in _events(text):
            walk.take(event)
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        line = mark.line + 1 if mark else 1
        raise mistakes.stop(line, f"not YAML: {exc.problem or exc.context or 'it cannot be read'}") from None
    except (
        yaml.YAMLError,
        ValueError,
        OverflowError,
    ) as exc:  # the scanner in Python lets numbers out of range through
        raise mistakes.stop(1, f"not YAML: {' '.join(str(exc).split())}") from None
    if walk.root is None:
        raise mistakes.stop(1, "there is nothing in it")
    mistakes.raise_any()
    return walk.root


def _events(text: str) -> Iterator[yaml.Event]:
    # The stubs leave it open what it takes and gives.
    parse = cast("Callable[..., Iterator[yaml.Event]]", yaml.parse)  # pyright: ignore[reportUnknownMemberType] no types
    return parse(text, Loader=_LOADER)


@dataclass(slots=True)
class _OpenList:
    line: int
    items: list[Part] = field(default_factory=list[Part])

    def take(self, part: Part) -> None:
        self.items.append(part)

    def closed(self) -> Part:
        return Listed(self.line, tuple(self.items))


@dataclass(slots=True)
class _OpenMap:
    """Takes keys and values in turn."""

    line: int
    mistakes: Mistakes
    entries: dict[str, MarkedEntry] = field(default_factory=dict[str, MarkedEntry])
    key: Part | None = None

    def take(self, part: Part) -> None:
        if self.key is None:
            self.key = part
        else:
            self._enter(self.key, part)
            self.key = None

    def _enter(self, key: Part, part: Part) -> None:
        name = key.value if isinstance(key, Scalar) else None
        if not isinstance(name, str):
            self.mistakes.add(key.line, "a key that is not text; put it in quotes")
        elif name == _MERGE:
            self.mistakes.add(key.line, "a merge key (<<); write the entries out")
        elif name in self.entries:
            first = self.entries[name].line
            self.mistakes.add(key.line, f"the key {shown(name)} twice in one map; the first is in line {first}")
        else:
            self.entries[name] = MarkedEntry(key.line, name, part)

    def closed(self) -> Part:
        return Mapped(self.line, tuple(self.entries.values()))


_Open: TypeAlias = _OpenList | _OpenMap


class _Walk:
    """Builds the data from events, with a stack of its own."""

    def __init__(self, mistakes: Mistakes) -> None:
        self._mistakes = mistakes
        self._open: list[_Open] = []
        self._parts = 0
        self._documents = 0
        self.root: Part | None = None

    def take(self, event: yaml.Event) -> None:
        line = event.start_mark.line + 1 if event.start_mark else 1
        match event:
            case yaml.ScalarEvent():
                self._count(line)
                self._refuse_marks(event, line)
                self._put(Scalar(line, self._scalar(event, line), str(event.value)))
            case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                self._count(line)
                self._refuse_marks(event, line)
                self._nest(event, line)
            case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                self._put(self._open.pop().closed())
            case yaml.AliasEvent():
                self._count(line)
                self._mistakes.add(line, "an alias (*); write the value out")
                self._put(Scalar(line, None))
            case yaml.DocumentStartEvent():
                self._documents += 1
                if self._documents > 1:
                    raise self._mistakes.stop(line, "a second document; a file holds one")
                if event.version or event.tags:
                    self._mistakes.add(line, "a directive (%); leave it out")
            case _:
                pass  # the stream's start and end, and the document's end, say nothing

    def _count(self, line: int) -> None:
        self._parts += 1
        if self._parts > MOST_PARTS:
            raise self._mistakes.stop(line, f"more than {MOST_PARTS:,} values and keys, the most that are read")

    def _refuse_marks(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent, line: int) -> None:
        if event.anchor is not None:
            self._mistakes.add(line, "an anchor (&); leave it out")
        if event.tag is not None:
            self._mistakes.add(line, f"the tag {shown(event.tag)}; leave it out")

    def _nest(self, event: yaml.CollectionStartEvent, line: int) -> None:
        if len(self._open) >= DEEPEST:
            raise self._mistakes.stop(line, f"nested deeper than {DEEPEST} levels, the most that are read")
        is_list = isinstance(event, yaml.SequenceStartEvent)
        self._open.append(_OpenList(line) if is_list else _OpenMap(line, self._mistakes))

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> bool | int | float | str | None:
        text = str(event.value)
        if len(text) > LONGEST_TEXT:
            self._mistakes.add(line, f"a text of {len(text):,} characters; the most is {LONGEST_TEXT:,}")
            return ""
        if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
            self._mistakes.add(line, "half a surrogate pair, which is not text")
            return ""
        return text if event.style else self._plain_word(text, line)

    def _plain_word(self, text: str, line: int) -> bool | int | float | str | None:
        if text in _WORDS:
            return _WORDS[text]
        is_integer = _INTEGER.fullmatch(text) is not None
        if not is_integer and not _FLOAT.fullmatch(text):
            return text
        number = math.inf if len(text) > _LONGEST_NUMBER else int(text) if is_integer else float(text)
        if not math.isfinite(number) or (is_integer and abs(number) > LARGEST_INT):
            self._mistakes.add(
                line, f"the number {shown(text)} is past 2**53 or too long; put it in quotes if it is text"
            )
            return 0
        return number

    def _put(self, part: Part) -> None:
        if self._open:
            self._open[-1].take(part)
        else:
            self.root = part
