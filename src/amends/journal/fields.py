"""How each kind of field is spelled in an entry's body, and read back strictly. Knows types, not events.

A class's fields become a `Layout` once, when the first of its kind is met; after that, spelling a thing is a walk over
functions. The spelling is RFC 8785's, so that a body has one digest: keys sorted, no spaces, numbers as ECMAScript
prints them. A field that holds its default is left out, so an event can gain a field with a default under the wire name
that it has.

Most things are usual: their fields hold what msgspec spells in the same way, and then it does so. A layout knows by
their types which are; the exact way, and the words for what is wrong, are here too.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from json.encoder import encode_basestring as quote
from operator import attrgetter
from typing import Any, Final, NamedTuple, cast

import msgspec
from msgspec import NODEFAULT
from msgspec.structs import astuple, replace

from amends.core.events import Cause, IncidentKind
from amends.core.words.contracts import Contract, OnIncident, Retries, Reversibility
from amends.core.words.values import LARGEST_INT, canonical, newest_plain, quick_spelling, room_left
from amends.core.words.verdict import Need
from amends.dataclass import dataclass
from amends.errors import JournalDamagedError, NotJsonError

Spell = Callable[[Any], str]
Parse = Callable[[Any], Any]
Kind = Callable[[str], tuple[Spell, Parse]]

INLINE: Final = 1024
"""How many characters a payload has at most that stands in its body; a longer one is kept beside it, in parts."""
_REQUIRED: Final = object()
_PAYLOAD: Final = "Json"
_values: Final = cast(Callable[[Any], tuple[Any, ...]], astuple)
_altered: Final = cast(Callable[..., Any], replace)


@dataclass(frozen=True, slots=True)
class Field:
    """`opening` is the quoted name and a colon; a payload is what users put in, and may be large."""

    name: str
    opening: str
    spell: Spell
    parse: Parse
    default: object
    is_payload: bool


class _Look(NamedTuple):
    """Of a thing whose fields hold these types: the places of its numbers, and of what has to be looked into."""

    numbers: tuple[int, ...]
    parts: tuple[tuple[int, Callable[[Any], bool]], ...]
    has_contract: bool


class Layout:
    """The fields of one class, in the order of a canonical object."""

    __slots__ = ("_known", "_looked_into", "_parts", "_payloads", "_usual", "_values", "fields", "kind")

    def __init__(self, kind: type) -> None:
        self.kind = kind
        declared = _declared(kind)
        self.fields = tuple(sorted((_field(*each) for each in declared), key=lambda field: field.name))
        self._usual = tuple(_usual_types(annotation) for _, annotation, _ in declared)
        self._looked_into = tuple(
            (at, _LOOKED_INTO[annotation])
            for at, (_, annotation, _) in enumerate(declared)
            if annotation in _LOOKED_INTO
        )
        self._known = dict[tuple[type, ...], _Look]()
        self._parts = tuple((field.opening, field.spell, field.default) for field in self.fields)
        self._payloads = {field.name: field for field in self.fields if field.is_payload}
        self._values = _values_getter([field.name for field in self.fields])

    def quick_body(self, thing: Any) -> bytes | None:  # noqa: ANN401 - of this layout's class
        """A body as msgspec spells it, of a thing that is usual and small; None of any other.

        Half a character is not found before it is spelled: the exact way says where.
        """
        values = _values(thing)
        types = tuple(map(type, values))
        look = self._known.get(types)
        if look is None:
            if not all(map(_is_one_of, types, self._usual)):
                return None
            look = self._known[types] = self._look(types)  # of few types, so there are few of these
        numbers, parts, has_contract = look
        for at in numbers:
            if not -LARGEST_INT <= values[at] <= LARGEST_INT:
                return None
        for at, is_plain in parts:
            if not is_plain(values[at]):
                return None
        if has_contract:
            thing = _altered(thing, contract=_spelled_contract(thing.contract))
        try:
            body = quick_spelling(thing)
        except UnicodeEncodeError:
            return None
        return body if len(body) <= INLINE else None

    def _look(self, types: tuple[type, ...]) -> _Look:
        return _Look(
            tuple(at for at, kind in enumerate(types) if kind is int),
            tuple(one for one in self._looked_into if types[one[0]] not in _PLAIN),
            Contract in types,
        )

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


class _Layouts(dict[type, Layout]):
    """The layout of each class, made when it is first asked for."""

    def __missing__(self, kind: type) -> Layout:
        made = self[kind] = Layout(kind)
        return made


layouts: Final = _Layouts()


_contracts: Final[dict[int, tuple[Contract, msgspec.Raw]]] = {}
"""The newest contracts, each by its identity with its text: an action's is always the same."""
_MOST_CONTRACTS: Final = 1024


def _spelled_contract(contract: Contract) -> msgspec.Raw:
    known = _contracts.get(id(contract))
    if known is None:
        if len(_contracts) >= _MOST_CONTRACTS:
            _contracts.clear()
        known = _contracts[id(contract)] = contract, msgspec.Raw(layouts[Contract].spell(contract))
    return known[1]


def _declared(kind: type) -> list[tuple[str, str, object]]:
    """The name, the annotation and the default of each field of a frozen class."""
    struct: Any = kind
    names: tuple[str, ...] = struct.__struct_fields__
    defaults: tuple[object, ...] = struct.__struct_defaults__
    required = [_REQUIRED] * (len(names) - len(defaults))
    annotations: dict[str, str] = kind.__annotations__
    return [
        (name, annotations[name], _REQUIRED if default is NODEFAULT else default)
        for name, default in zip(names, [*required, *defaults], strict=True)
    ]


def _field(name: str, annotation: str, default: object) -> Field:
    spell, parse = _KINDS[annotation](name)
    return Field(name, f'"{name}":', spell, parse, default, annotation == _PAYLOAD)


def _usual_types(annotation: str) -> frozenset[type]:
    bare = annotation.removesuffix(" | None")
    usual = _USUAL.get(bare, frozenset[type]())
    return usual if bare == annotation else usual | {type(None)}


def _is_one_of(one: type, types: frozenset[type]) -> bool:
    return one in types


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


def _object(of: type) -> Kind:
    def kind(name: str) -> tuple[Spell, Parse]:
        def spell(value: object) -> str:
            if type(value) is not of:
                raise NotJsonError(f"{name} is a {type(value).__name__}, not a {of.__name__}")
            return layouts[of].spell(value)

        return spell, layouts[of].parse

    return kind


def _objects(of: type) -> Kind:
    def kind(name: str) -> tuple[Spell, Parse]:
        spell_one, parse_one = _object(of)(name)

        def spell(value: object) -> str:
            if not isinstance(value, tuple):
                raise NotJsonError(f"{name} is {value!r}, not a tuple of {of.__name__}")
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


def _are_plain_texts(values: tuple[object, ...]) -> bool:
    return _TEXT.issuperset(map(type, values))


def _are_plain_labels(labels: dict[object, object]) -> bool:
    return _TEXT.issuperset(map(type, labels.values())) and room_left(labels, INLINE) >= 0


def _is_plain_payload(value: object) -> bool:
    return value is newest_plain[0] or room_left(value, INLINE) >= 0


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
_KINDS["Retries"] = _object(Retries)
_KINDS["tuple[Need, ...]"] = _objects(Need)
_KINDS["Contract | None"] = _or_none(_object(Contract))

# By annotation too: the types of what msgspec spells as it is spelled here, or, as a contract, puts in as it is.
_TEXT: Final = frozenset[type]({str})
_TEXTS: Final = frozenset[type]({tuple})
_USUAL: Final[dict[str, frozenset[type]]] = {
    "str": _TEXT,
    "StepId": _TEXT,
    "Topic": _TEXT,
    "int": frozenset({int}),
    "bool": frozenset({bool}),
    "tuple[str, ...]": _TEXTS,
    "tuple[StepId, ...]": _TEXTS,
    "dict[str, str]": frozenset({dict}),
    _PAYLOAD: frozenset({type(None), bool, int, float, str, list, dict}),
    "Cause": frozenset({Cause}),
    "IncidentKind": frozenset({IncidentKind}),
    "Contract": frozenset({Contract}),
}
_PLAIN: Final = frozenset[type]({type(None), bool, int, str})
"""Types of which all values are spelled alike, but for numbers past 2**53: there is nothing to look into."""
_LOOKED_INTO: Final[dict[str, Callable[[Any], bool]]] = {
    "tuple[str, ...]": _are_plain_texts,
    "tuple[StepId, ...]": _are_plain_texts,
    "tuple[StepId, ...] | None": _are_plain_texts,
    "dict[str, str]": _are_plain_labels,
    _PAYLOAD: _is_plain_payload,
}
