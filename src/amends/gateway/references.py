"""References of a contracts file: `${result.id}`, `${args.path}`, `${before.text}`, `${result.entities[*].name}`.

A text that is one reference and nothing else becomes the value itself, whatever its type; in a longer text it is
spelled. `?` at the end (`${args.title?}`) leaves out the entry where there is no such value; any other reference that
leads nowhere is an error, and no call is made. A map of `each` and `make` makes a list: one `make`, in which `${item}`
is known, for each thing of the list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final, TypeAlias, cast

from amends.core.words.values import Json
from amends.dataclass import dataclass
from amends.errors import InputError
from amends.gateway.answers import MISSING, TextPattern, ToolAnswer
from amends.source.marked import Listed, Mapped, Mistakes, Part, Scalar, shown

_MARK: Final = re.compile(r"\$\$\{|\$\{([^{}]*)(\})?")
_PATH: Final = re.compile(r"([A-Za-z]+)((?:\.[A-Za-z0-9_$@/-]+|\[\*\]|\[[0-9]{1,6}\])*)(\?)?", re.ASCII)
_PART: Final = re.compile(r"\.([A-Za-z0-9_$@/-]+)|\[(\*|[0-9]+)\]", re.ASCII)
MATCH: Final = "match"
ITEM: Final = "item"
_EACH: Final = frozenset({"each", "make"})


@dataclass(frozen=True, slots=True)
class AnswerReference:
    """`path` has a name for a dot, a number for a place of a list, and None for all of them."""

    root: str
    path: tuple[str | int | None, ...]
    written: str
    may_miss: bool = False

    @property
    def name(self) -> str | None:
        """The first name after the root, where there is one."""
        return self.path[0] if self.path and isinstance(self.path[0], str) else None


@dataclass(frozen=True, slots=True)
class TextOf:
    pieces: tuple[str | AnswerReference, ...]


@dataclass(frozen=True, slots=True)
class Each:
    of: Template
    make: Template


Template: TypeAlias = (
    "AnswerReference | TextOf | Each | list[Template] | dict[str, Template] | bool | int | float | str | None"
)
Known: TypeAlias = Mapping[str, object]
"""The values by root: ToolAnswers and JSON. Under `match`, the named patterns."""


# -- reading ----------------------------------------------------------------------------------------------------------


def template(part: Part, mistakes: Mistakes, roots: Collection[str]) -> Template:
    """A value of a file with its references read; mistakes are noted with their lines."""
    match part:
        case Scalar(value=str(text)):
            return _text(text, part.line, mistakes, roots)
        case Scalar(value=value):
            return value
        case Listed(items=items):
            return [template(item, mistakes, roots) for item in items]
        case Mapped(entries=entries):
            if entries and {entry.key for entry in entries} >= _EACH and len(entries) == len(_EACH):
                inside = {entry.key: entry.value for entry in entries}
                return Each(
                    template(inside["each"], mistakes, roots), template(inside["make"], mistakes, {*roots, ITEM})
                )
            return {entry.key: template(entry.value, mistakes, roots) for entry in entries}


def _text(text: str, line: int, mistakes: Mistakes, roots: Collection[str]) -> Template:
    pieces: list[str | AnswerReference] = []
    at = 0
    for found in _MARK.finditer(text):
        pieces.append(text[at : found.start()])
        at = found.end()
        if found[0] == "$${":
            pieces.append("${")
            continue
        read = _PATH.fullmatch(found[1]) if found[2] is not None else None
        if read is None:
            what = f"{shown(found[0])} is not a reference; write ${{result.id}}, or $${{ for the characters themselves"
            mistakes.add(line, what)
        elif read[1] not in roots:
            mistakes.unknown(line, "reference", read[1], sorted(roots), where=f" in {shown(found[0])}")
        else:
            pieces.append(AnswerReference(read[1], tuple(_parts(read[2])), found[1], read[3] is not None))
    pieces.append(text[at:])
    kept = tuple(piece for piece in pieces if piece != "")
    if not any(isinstance(piece, AnswerReference) for piece in kept):
        return "".join(cast("tuple[str, ...]", kept))
    return kept[0] if len(kept) == 1 and isinstance(kept[0], AnswerReference) else TextOf(kept)


def _parts(text: str) -> Iterator[str | int | None]:
    for found in _PART.finditer(text):
        if found[1] is not None:
            yield found[1]
        else:
            yield None if found[2] == "*" else int(found[2])


def references(of: Template) -> Iterator[AnswerReference]:
    """Every reference in a value."""
    match of:
        case AnswerReference():
            yield of
        case TextOf(pieces=pieces):
            yield from (piece for piece in pieces if isinstance(piece, AnswerReference))
        case Each(of=each, make=make):
            yield from references(each)
            yield from references(make)
        case list():
            for item in of:
                yield from references(item)
        case dict():
            for item in of.values():
                yield from references(item)
        case _:
            pass


# -- putting in -------------------------------------------------------------------------------------------------------


def filled(of: Template, known: Known, patterns: Mapping[str, TextPattern]) -> Json:
    """The value with all references put in. Raises InputError where one leads nowhere."""
    value = _filled(of, known, patterns)
    return None if value is MISSING else cast("Json", value)


def _filled(of: Template, known: Known, patterns: Mapping[str, TextPattern]) -> object:
    match of:
        case AnswerReference():
            found = _value(of, known, patterns)
            if found is MISSING and not of.may_miss:
                raise InputError(f"${{{of.written}}} leads nowhere: {_why(of, known)}")
            return found
        case TextOf(pieces=pieces):
            return "".join(_spelled(piece, known, patterns) for piece in pieces)
        case Each(of=each, make=make):
            things = _filled(each, known, patterns)
            if not isinstance(things, list):
                raise InputError("each: is about a list, and this is none")
            return [_filled(make, {**known, ITEM: thing}, patterns) for thing in cast("list[object]", things)]
        case list():
            return [one for one in (_filled(item, known, patterns) for item in of) if one is not MISSING]
        case dict():
            made = {name: _filled(item, known, patterns) for name, item in of.items()}
            return {name: value for name, value in made.items() if value is not MISSING}
        case _:
            return of


def _spelled(piece: str | AnswerReference, known: Known, patterns: Mapping[str, TextPattern]) -> str:
    if isinstance(piece, str):
        return piece
    value = _filled(piece, known, patterns)
    if value is MISSING:
        return ""
    if value is None:
        raise InputError(f"${{{piece.written}}} is null, which is no part of a text")
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _value(of: AnswerReference, known: Known, patterns: Mapping[str, TextPattern]) -> object:
    root = known.get(of.root, MISSING)
    path = of.path
    if not isinstance(root, ToolAnswer):
        return _inside(root, path)
    first, rest = (path[0], path[1:]) if path else (None, ())
    if not isinstance(first, str):
        return _inside(root.whole, path)
    if first == MATCH and rest and rest[0] in patterns:
        values = patterns[str(rest[0])].found(root.text)
        return MISSING if values is None else _inside(values, rest[1:])
    return _inside(root.named(first), rest)


def _inside(value: object, path: tuple[str | int | None, ...]) -> object:
    for place, part in enumerate(path):
        if value is MISSING:
            return MISSING
        if isinstance(part, str):
            value = cast("dict[str, object]", value).get(part, MISSING) if isinstance(value, dict) else MISSING
        elif not isinstance(value, list):
            return MISSING
        elif part is None:
            found = [_inside(item, path[place + 1 :]) for item in cast("list[object]", value)]
            if any(one is MISSING for one in found):
                return MISSING
            is_nested = None in path[place + 1 :]
            return [each for one in found for each in cast("list[object]", one)] if is_nested else found
        else:
            items = cast("list[object]", value)
            value = items[part] if part < len(items) else MISSING
    return value


def _why(of: AnswerReference, known: Known) -> str:
    root = known.get(of.root, MISSING)
    if root is MISSING:
        return f"there is no {of.root} here"
    if isinstance(root, ToolAnswer):
        whole = root.structured if isinstance(root.structured, dict) else root.spoken
        has = ", ".join(sorted(whole)[:12]) if isinstance(whole, dict) else "only text, and no JSON"
        return f"the answer has {has}"
    has = ", ".join(sorted(cast("dict[str, object]", root))[:12]) if isinstance(root, dict) else "something else"
    return f"{of.root} has {has or 'nothing'}"


def is_true(value: Json) -> bool:
    """Whether a value says yes: something, and not nothing."""
    return bool(value)
