"""How each kind of field is spelled in an entry's body, and read back strictly. Knows types, not events.

A class's fields become a `Layout` once, at import; after that, spelling a thing is a walk over functions. The spelling
is RFC 8785's, so that a body has one digest: keys sorted, no spaces, numbers as ECMAScript prints them. A field that
holds its default is left out, so an event can gain a field with a default under the wire name that it has.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from enum import StrEnum
from json.encoder import encode_basestring as quote
from operator import attrgetter
from typing import Any, Final, cast

from amends.core.events import Cause, IncidentKind
from amends.core.words.contracts import Contract, OnIncident, Retries, Reversibility
from amends.core.words.values import LARGEST_INT, canonical
from amends.core.words.verdict import Need
from amends.dataclass import dataclass
from amends.errors import JournalDamagedError, NotJsonError

Spell = Callable[[Any], str]
Parse = Callable[[Any], Any]
Kind = Callable[[str], tuple[Spell, Parse]]

_REQUIRED: Final = object()
_PAYLOAD: Final = "Json"


@dataclass(frozen=True, slots=True)
class Field:
    """`opening` is the quoted name and a colon; a payload is what users put in, and may be large."""

    name: str
    opening: str
    spell: Spell
    parse: Parse
    default: object
    is_payload: bool


class Layout:
    """The fields of one class, in the order of a canonical object."""

    __slots__ = ("_parts", "_payloads", "_values", "fields", "kind")

    def __init__(self, kind: type) -> None:
        self.kind = kind
        self.fields = tuple(sorted(map(_field, dataclasses.fields(kind)), key=lambda field: field.name))
        self._parts = tuple((field.opening, field.spell, field.default) for field in self.fields)
        self._payloads = {field.name: field for field in self.fields if field.is_payload}
        self._values = _values_getter([field.name for field in self.fields])

    def spelled(self, thing: object) -> list[tuple[Field, str]]:
        """The fields that are stored, each with its text."""
        return [
            (field, field.spell(value))
            for field, value in zip(self.fields, self._values(thing), strict=True)
            if value != field.default
        ]

    def texts(self, thing: object) -> list[str]:
        """Stored fields, each with its name, as they stand in the object; this runs for every event."""
        return [
            opening + spell(value)
            for (opening, spell, default), value in zip(self._parts, self._values(thing), strict=True)
            if value is not default and value != default
        ]

    def spell(self, thing: object) -> str:
        """One JSON object of the stored fields."""
        return "{" + ",".join(self.texts(thing)) + "}"

    def payload_of(self, text: str) -> Field | None:
        """Which payload one of the `texts` is; None for any other field."""
        return self._payloads.get(text[1 : text.index('"', 1)])

    def parse(self, value: object) -> object:
        """The thing that an object stands for. Raises JournalDamagedError unless it fits to the letter."""
        if type(value) is not dict:
            raise JournalDamagedError(f"it is no {self.kind.__name__}: not an object")
        texts = cast(dict[str, object], value)
        found: dict[str, object] = {}
        for field in self.fields:
            if field.name in texts:
                found[field.name] = field.parse(texts[field.name])
            elif field.default is _REQUIRED:
                raise JournalDamagedError(f"it has no {field.name}")
        if len(found) != len(texts):
            raise JournalDamagedError(f"it has fields that nobody knows: {sorted(texts.keys() - found.keys())}")
        return self.kind(**found)


def _field(field: dataclasses.Field[Any]) -> Field:
    spell, parse = _KINDS[str(field.type)](field.name)
    default = _REQUIRED if field.default is dataclasses.MISSING else field.default
    return Field(field.name, f'"{field.name}":', spell, parse, default, field.type == _PAYLOAD)


def _values_getter(names: list[str]) -> Callable[[object], tuple[object, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    getters = [attrgetter(name) for name in names]
    return lambda thing: tuple([get(thing) for get in getters])


# -- kinds of field ---------------------------------------------------------------------------------------------------


def _text(name: str) -> tuple[Spell, Parse]:
    def spell(value: object) -> str:
        if not isinstance(value, str):
            raise NotJsonError(f"{name} is a {type(value).__name__}, not text")
        return quote(value)

    return spell, _parser(name, str, "text")


def _number(name: str) -> tuple[Spell, Parse]:
    def spell(value: object) -> str:
        if type(value) is not int or not -LARGEST_INT <= value <= LARGEST_INT:
            raise NotJsonError(f"{name} is {value!r}, not an integer of at most 2**53")
        return str(value)

    return spell, _parser(name, int, "an integer")


def _flag(name: str) -> tuple[Spell, Parse]:
    def spell(value: object) -> str:
        if type(value) is not bool:
            raise NotJsonError(f"{name} is {value!r}, neither true nor false")
        return "true" if value else "false"

    return spell, _parser(name, bool, "true or false")


def _seconds(name: str) -> tuple[Spell, Parse]:
    def spell(value: object) -> str:
        if type(value) not in {int, float}:
            raise NotJsonError(f"{name} is {value!r}, not a number")
        return canonical(value, what=name)

    def parse(value: object) -> float:
        if type(value) is float or type(value) is int:
            return float(value)
        raise JournalDamagedError(f"{name} is not a number")

    return spell, parse


def _texts(name: str) -> tuple[Spell, Parse]:
    def spell(value: object) -> str:
        if not isinstance(value, tuple) or not _all_text(cast(tuple[object, ...], value)):
            raise NotJsonError(f"{name} is {value!r}, not a tuple of texts")
        return "[" + ",".join(map(quote, cast(tuple[str, ...], value))) + "]"

    def parse(value: object) -> tuple[str, ...]:
        if type(value) is not list or not _all_text(tuple(cast(list[object], value))):
            raise JournalDamagedError(f"{name} is not a list of texts")
        return tuple(cast(list[str], value))

    return spell, parse


def _labels(name: str) -> tuple[Spell, Parse]:
    def spell(value: object) -> str:
        text = canonical(value, what=name)
        if type(value) is not dict or not _all_text(tuple(cast(dict[str, object], value).values())):
            raise NotJsonError(f"{name} is {value!r}, not a dict from texts to texts")
        return text

    def parse(value: object) -> dict[str, str]:
        if type(value) is not dict or not _all_text(tuple(cast(dict[str, object], value).values())):
            raise JournalDamagedError(f"{name} is not an object of texts")
        return cast(dict[str, str], value)

    return spell, parse


def _payload(name: str) -> tuple[Spell, Parse]:
    def spell(value: object) -> str:
        return canonical(value, what=name)

    return spell, _as_it_is


def _as_it_is(value: object) -> object:
    return value


def _enum(members: type[StrEnum]) -> Kind:
    def kind(name: str) -> tuple[Spell, Parse]:
        def spell(value: object) -> str:
            if not isinstance(value, members):
                raise NotJsonError(f"{name} is {value!r}, not a {members.__name__}")
            return quote(value.value)

        def parse(value: object) -> StrEnum:
            try:
                return members(cast(str, value))
            except ValueError:
                raise JournalDamagedError(f"{name} is {value!r}, not a {members.__name__}") from None

        return spell, parse

    return kind


def _object(layout: Layout) -> Kind:
    def kind(name: str) -> tuple[Spell, Parse]:
        def spell(value: object) -> str:
            if type(value) is not layout.kind:
                raise NotJsonError(f"{name} is a {type(value).__name__}, not a {layout.kind.__name__}")
            return layout.spell(value)

        return spell, layout.parse

    return kind


def _objects(layout: Layout) -> Kind:
    def kind(name: str) -> tuple[Spell, Parse]:
        spell_one, parse_one = _object(layout)(name)

        def spell(value: object) -> str:
            if not isinstance(value, tuple):
                raise NotJsonError(f"{name} is {value!r}, not a tuple of {layout.kind.__name__}")
            return "[" + ",".join(map(spell_one, cast(tuple[object, ...], value))) + "]"

        def parse(value: object) -> tuple[object, ...]:
            if type(value) is not list:
                raise JournalDamagedError(f"{name} is not a list")
            return tuple(map(parse_one, cast(list[object], value)))

        return spell, parse

    return kind


def _or_none(kind: Kind) -> Kind:
    def optional(name: str) -> tuple[Spell, Parse]:
        spell, parse = kind(name)
        return (
            lambda value: "null" if value is None else spell(value),
            lambda value: None if value is None else parse(value),
        )

    return optional


def _parser(name: str, kind: type, called: str) -> Parse:
    def parse(value: object) -> object:
        if type(value) is not kind:
            raise JournalDamagedError(f"{name} is not {called}")
        return value

    return parse


def _all_text(values: tuple[object, ...]) -> bool:
    return all(isinstance(value, str) for value in values)


# By annotation, as it is written in core.events and core.contracts.
_KINDS: Final[dict[str, Kind]] = {
    "str": _text,
    "StepId": _text,
    "Topic": _text,
    "int": _number,
    "bool": _flag,
    "float": _seconds,
    "tuple[str, ...]": _texts,
    "tuple[StepId, ...]": _texts,
    "dict[str, str]": _labels,
    _PAYLOAD: _payload,
    "Cause": _enum(Cause),
    "IncidentKind": _enum(IncidentKind),
    "Reversibility": _enum(Reversibility),
    "OnIncident": _enum(OnIncident),
}
_KINDS.update(
    {f"{name} | None": _or_none(_KINDS[name]) for name in ("str", "StepId", "int", "float", "tuple[StepId, ...]")}
)
_KINDS["Retries"] = _object(Layout(Retries))
_KINDS["tuple[Need, ...]"] = _objects(Layout(Need))
_KINDS["Contract | None"] = _or_none(_object(Layout(Contract)))
