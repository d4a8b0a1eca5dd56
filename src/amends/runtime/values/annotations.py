"""From a function's annotations to kinds of values. The list of kinds is closed: `docs/do/types.md` has it."""

from __future__ import annotations

import base64
import binascii
import collections.abc
import dataclasses
import datetime as dt
import enum
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path, PurePath
from typing import Any, Final, Literal
from uuid import UUID

from amends.runtime.values.kinds import (
    ANYTHING,
    NULL,
    About,
    Chosen,
    Dictionary,
    Exact,
    Exactly,
    Fixed,
    Hidden,
    Kind,
    Model,
    Number,
    OneOf,
    Record,
    RecordField,
    Series,
    Span,
    Text,
)
from amends.secrets import Secret


def _decimal(text: str) -> Decimal:
    found = Decimal(text)
    if not found.is_finite():
        raise ValueError(text)
    return found


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as exc:
        raise ValueError(str(exc)) from None


_KNOWN: Final[Mapping[object, Kind]] = {
    str: Exact(str, "text", {"type": "string"}),
    int: Exact(int, "a whole number", {"type": "integer"}),
    bool: Exact(bool, "true or false", {"type": "boolean"}),
    None: NULL,
    type(None): NULL,
    dict: Exact(dict, "an object", {"type": "object"}),
    list: Exact(list, "a list", {"type": "array"}),
    float: Number(),
    Secret: Hidden(),
    UUID: Text(UUID, "a UUID", str, UUID, {"format": "uuid"}),
    dt.datetime: Text(
        dt.datetime,
        "a time, such as 2026-03-31T13:40:18+00:00",
        dt.datetime.isoformat,
        dt.datetime.fromisoformat,
        {"format": "date-time"},
    ),
    dt.date: Text(dt.date, "a date, such as 2026-03-31", dt.date.isoformat, dt.date.fromisoformat, {"format": "date"}),
    dt.time: Text(
        dt.time, "a time of day, such as 13:40", dt.time.isoformat, dt.time.fromisoformat, {"format": "time"}
    ),
    dt.timedelta: Span(),
    Decimal: Exactly(Decimal, "a decimal number, as text", str, _decimal),
    Path: Text(Path, "a path", str, Path),
    PurePath: Text(PurePath, "a path", str, PurePath),
    bytes: Text(
        bytes, "bytes, in base64", lambda value: base64.b64encode(value).decode(), _bytes, {"contentEncoding": "base64"}
    ),
}
_LISTS: Final[Mapping[object, tuple[type, tuple[type, ...]]]] = {
    list: (list, ()),
    set: (set, ()),
    frozenset: (frozenset, ()),
    collections.abc.Set: (frozenset, (set,)),
    collections.abc.Sequence: (list, (tuple,)),
    collections.abc.Collection: (list, (tuple,)),
    collections.abc.Iterable: (list, (tuple,)),
}
_TABLES: Final = (dict, collections.abc.Mapping, collections.abc.MutableMapping)


class Kinds:
    """Makes kinds of annotations. It remembers the records that it has begun, because one may contain itself."""

    def __init__(self) -> None:
        self._records: dict[object, Record] = {}

    def of(self, annotation: Any) -> Kind:  # noqa: ANN401 - whatever stands there
        try:
            if annotation in _KNOWN:
                return _KNOWN[annotation]
        except TypeError:  # not even a key: nothing that is known
            return ANYTHING
        origin = typing.get_origin(annotation)
        if origin is not None:
            return self._special(origin, annotation)
        if isinstance(annotation, typing.NewType):
            return self.of(annotation.__supertype__)
        if hasattr(annotation, "__value__"):  # `type Name = …`, of Python 3.12
            return self.of(annotation.__value__)
        if annotation in _LISTS:
            make, also = _LISTS[annotation]
            return Series(make, ANYTHING, also)
        if annotation in _TABLES:
            return _KNOWN[dict]
        return self._of_class(annotation) if isinstance(annotation, type) else ANYTHING

    def _special(self, origin: Any, annotation: Any) -> Kind:  # noqa: ANN401 - whatever stands there
        args = typing.get_args(annotation)
        if origin is typing.Annotated:
            about = next((each for each in args[1:] if isinstance(each, str)), "")
            about = about or next((str(each.description) for each in args[1:] if getattr(each, "description", "")), "")
            return About(self.of(args[0]), about) if about else self.of(args[0])
        if origin in {typing.Union, types.UnionType}:
            kinds = tuple(dict.fromkeys(self.of(each) for each in args))
            return ANYTHING if any(not kind.checks for kind in kinds) else OneOf(kinds)
        if origin is Literal:
            return Chosen((_plain(each.value) if isinstance(each, enum.Enum) else each, each) for each in args)
        if origin in {typing.Required, typing.NotRequired, typing.Final}:
            return self.of(args[0])
        if origin is tuple:
            if len(args) == 2 and args[1] is Ellipsis:  # noqa: PLR2004 - `tuple[int, ...]`
                return Series(tuple, self.of(args[0]))
            return Fixed(tuple(self.of(each) for each in args))
        if origin in _LISTS:
            make, also = _LISTS[origin]
            return Series(make, self.of(args[0]), also)
        if origin in _TABLES:
            return Dictionary(self.of(args[1])) if args[0] is str else ANYTHING
        if isinstance(origin, type):
            return self._of_class(annotation if _is_model(annotation) else origin)
        return ANYTHING

    def _of_class(self, cls: Any) -> Kind:  # noqa: ANN401 - a class
        if _is_model(cls):
            return Model(cls)
        if _is_below(cls, enum.Enum):
            return _of_enum(cls)
        if cls is tuple:
            return Series(tuple, ANYTHING)
        if typing.is_typeddict(cls):
            return self._record(cls, _of_typed_dict, is_dict=True)
        if _is_below(cls, tuple) and hasattr(cls, "_fields"):
            return self._record(cls, _of_named_tuple)
        if hasattr(cls, "__dataclass_fields__") and "__init__" in vars(cls):
            return self._record(cls, _of_dataclass)
        return ANYTHING

    def _record(
        self, cls: type, fields: Callable[[Any, Kinds], dict[str, RecordField]], *, is_dict: bool = False
    ) -> Kind:
        known = self._records.get(cls)
        if known is None:
            known = self._records[cls] = Record(cls, is_dict=is_dict)
            try:
                known.fill(fields(cls, self))
            except (NameError, TypeError, AttributeError):  # a name in it is not found: then nothing is known of it
                del self._records[cls]
                return ANYTHING
        return known


def _is_below(cls: Any, base: type) -> bool:  # noqa: ANN401 - whatever stands there
    return isinstance(cls, type) and issubclass(cls, base)


def _is_model(cls: Any) -> bool:  # noqa: ANN401 - whatever stands there
    return isinstance(cls, type) and all(
        callable(getattr(cls, name, None)) for name in ("model_validate", "model_dump", "model_json_schema")
    )


def _of_enum(cls: type[enum.Enum]) -> Kind:
    """By their values where those are texts or whole numbers, else by their names."""
    members = tuple(cls)
    by_value = all(isinstance(one.value, (str, int)) and not isinstance(one.value, bool) for one in members)
    return Chosen([(_plain(one.value) if by_value else one.name, one) for one in members]) if members else ANYTHING


def _plain(value: str | int) -> str | int:
    return str.__str__(value) if isinstance(value, str) else int(value)


def _of_dataclass(cls: Any, kinds: Kinds) -> dict[str, RecordField]:  # noqa: ANN401 - a class
    hints = typing.get_type_hints(cls, include_extras=True)
    found: dict[str, RecordField] = {}
    for each in dataclasses.fields(cls):
        if each.init:
            has_default = each.default is not dataclasses.MISSING or each.default_factory is not dataclasses.MISSING
            about = str(each.metadata.get("description", ""))
            found[each.name] = RecordField(kinds.of(hints[each.name]), not has_default, about)
    if any(isinstance(one, dataclasses.InitVar) for one in hints.values()):
        raise TypeError(cls)  # what it is made with is not kept, so it cannot be made again
    return found


def _of_named_tuple(cls: Any, kinds: Kinds) -> dict[str, RecordField]:  # noqa: ANN401 - a class
    hints = typing.get_type_hints(cls, include_extras=True)
    return {name: RecordField(kinds.of(hints.get(name, Any)), name not in cls._field_defaults) for name in cls._fields}


def _of_typed_dict(cls: Any, kinds: Kinds) -> dict[str, RecordField]:  # noqa: ANN401 - a class
    hints = typing.get_type_hints(cls, include_extras=True)
    return {name: RecordField(kinds.of(hint), name in cls.__required_keys__) for name, hint in hints.items()}


def hints_of(function: Callable[..., object]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """A function's annotations, and the names of those that cannot be resolved here."""
    inner: Any = inspect.unwrap(function)
    if not inspect.isroutine(inner):
        inner = type(inner).__call__  # an object that is called: its method has them
    try:
        return typing.get_type_hints(inner, include_extras=True), ()
    except Exception:  # noqa: BLE001, S110 - an annotation is anybody's expression, and one of them does not hold here
        pass
    written: Mapping[str, object] = getattr(inner, "__annotations__", None) or {}
    known: dict[str, Any] = {}
    for name, annotation in written.items():
        alone = types.SimpleNamespace(__annotations__={name: annotation})
        try:
            space = getattr(inner, "__globals__", {})
            known.update(typing.get_type_hints(alone, space, include_extras=True))
        except Exception:  # noqa: BLE001, S112 - the same: it is left unchecked
            continue
    return known, tuple(name for name in written if name not in known)


def awaited(annotation: Any) -> Any:  # noqa: ANN401 - whatever stands there
    """The type that a plain function that says it returns an awaitable gives in the end."""
    if typing.get_origin(annotation) in {collections.abc.Awaitable, collections.abc.Coroutine}:
        return typing.get_args(annotation)[-1]
    return annotation
