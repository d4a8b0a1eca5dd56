"""Kinds of values: what an annotation asks of a value, how JSON holds it, and how it is made again from that.

The journal holds JSON and nothing else. A parameter that is declared as something more (a dataclass, a pydantic model,
an enum, a date) is stored as JSON and made again from the record wherever the value is needed: so the first attempt,
the one after a crash, the probe and the compensation all get the same, and what runs is what is on record.

| function | what it does                                          | what it does with a misfit             |
|----------|-------------------------------------------------------|----------------------------------------|
| `store`  | a value to JSON; what is JSON already stays as it is  | leaves it, for whoever checks          |
| `load`   | JSON to the declared value                            | raises MisfitError, with the place inside   |

`store` counts what it walks, and raises TooLargeError past the weight that it is given: a huge value is not walked to
its end. `load` is the check, too. A kind that is neither stored nor loaded in another shape costs nothing there. What
an annotation says that is none of these kinds (a class of somebody's own, a name that is not found) is `ANYTHING`:
not checked, and what JSON cannot hold is refused as ever.
"""

from __future__ import annotations

import datetime as dt
import enum
import math
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal, InvalidOperation
from operator import itemgetter
from pathlib import Path, PurePath
from typing import Any, Final, cast

from amends.core.words.values import Weight, canonical, too_large
from amends.dataclass import dataclass
from amends.errors import MisfitError, TooLargeError
from amends.runtime.values.bounded import weigh
from amends.runtime.values.misfit import a_class, a_kind_of, came, first_line, is_list, is_mark, is_object
from amends.runtime.values.schema import Definitions, Schema, described_as, renamed
from amends.secrets import Secret
from amends.source.marked import nearest, shown


class Kind:
    """Any value at all: what nobody said more of."""

    stores: bool = False
    """Whether `store` may give something else than it gets."""
    loads: bool = False
    """Whether `load` may give something else than it gets."""
    native: bool = True
    """Whether JSON has it by itself: then a result that is something else is kept as it is."""
    checks: bool = False
    exact: type | None = None
    """The one type whose values all fit, where there is one: so much is looked at first."""

    def store(self, value: Any, weight: Weight) -> Any:  # noqa: ANN401 - of any type
        return value

    def load(self, value: Any, *, strict: bool = True) -> Any:  # noqa: ANN401 - of any type
        return value

    def owns(self, value: object) -> bool:
        """Whether a value that is not JSON is one of these."""
        return False

    def schema(self, parts: Definitions) -> Schema:
        return {}


ANYTHING: Final = Kind()


class Exact(Kind):
    """A type that JSON has too: nothing changes."""

    checks = True

    def __init__(self, exact: type, expected: str, schema: Schema) -> None:
        self.exact, self._expected, self._schema = exact, expected, schema

    def load(self, value: Any, *, strict: bool = True) -> Any:  # noqa: ANN401 - of any type
        if type(value) is not self.exact or is_mark(value):
            raise MisfitError(self._expected, came(value))
        return value

    def schema(self, parts: Definitions) -> Schema:
        return dict(self._schema)


NULL: Final = Exact(type(None), "null", {"type": "null"})


class Number(Kind):
    """A float. JSON has only numbers, and 3.0 comes back from it as 3."""

    checks, loads = True, True

    def load(self, value: Any, *, strict: bool = True) -> Any:  # noqa: ANN401 - of any type
        if type(value) is float:
            return value
        if type(value) is int:
            return float(value)
        raise MisfitError("a number", came(value))

    def schema(self, parts: Definitions) -> Schema:
        return {"type": "number"}


class Text(Kind):
    """A value that JSON holds as text, one way and back: a UUID, a date, a path."""

    checks, stores, loads, native = True, True, True, False

    def __init__(
        self,
        of: type,
        expected: str,
        spell: Callable[[Any], str],
        read: Callable[[str], object],
        schema: Schema | None = None,
    ) -> None:
        self._of, self._expected, self._spell, self._read = of, expected, spell, read
        self._schema = {"type": "string", **(schema or {})}

    def owns(self, value: object) -> bool:
        return type(value) is self._of or (self._of in {Path, PurePath} and isinstance(value, self._of))

    def store(self, value: Any, weight: Weight) -> Any:  # noqa: ANN401 - of any type
        if not self.owns(value):
            return value
        if self._of is bytes:
            weight.take(len(value))
        return self._spell(value)

    def load(self, value: Any, *, strict: bool = True) -> Any:  # noqa: ANN401 - of any type
        if type(value) is str:
            try:
                return self._read(value)
            except (ValueError, InvalidOperation, OverflowError):
                pass
        raise MisfitError(self._expected, came(value))

    def schema(self, parts: Definitions) -> Schema:
        return dict(self._schema)


class Exactly(Text):
    """A Decimal: text, so that nothing is rounded; a whole number will do."""

    def load(self, value: Any, *, strict: bool = True) -> Any:  # noqa: ANN401 - of any type
        return Decimal(value) if type(value) is int else super().load(value, strict=strict)

    def store(self, value: Any, weight: Weight) -> Any:  # noqa: ANN401 - of any type
        if type(value) is Decimal and not value.is_finite():
            raise MisfitError("a decimal number", str(value))
        return super().store(value, weight)

    def schema(self, parts: Definitions) -> Schema:
        return {"anyOf": [{"type": "string", "pattern": r"^[+-]?\d+(\.\d+)?$"}, {"type": "integer"}]}


class Span(Kind):
    """A timedelta, as a number of seconds."""

    checks, stores, loads, native = True, True, True, False

    def owns(self, value: object) -> bool:
        return type(value) is dt.timedelta

    def store(self, value: Any, weight: Weight) -> Any:  # noqa: ANN401 - of any type
        if type(value) is not dt.timedelta:
            return value
        seconds = value.total_seconds()
        return int(seconds) if seconds.is_integer() else seconds

    def load(self, value: Any, *, strict: bool = True) -> Any:  # noqa: ANN401 - of any type
        if type(value) not in {int, float} or not math.isfinite(value):
            raise MisfitError("a number of seconds", came(value))
        try:
            return dt.timedelta(seconds=value)
        except OverflowError:
            raise MisfitError("a number of seconds", came(value)) from None

    def schema(self, parts: Definitions) -> Schema:
        return {"type": "number", "description": "seconds"}


class Hidden(Kind):
    """A Secret: what the journal has of it is a mark."""

    checks, native = True, True

    def load(self, value: Any, *, strict: bool = True) -> Any:  # noqa: ANN401 - of any type
        if type(value) is Secret or is_mark(value):
            return value
        raise MisfitError("a Secret, as amends.Secret(…) or Secret.env(NAME)", "what the journal would show")

    def schema(self, parts: Definitions) -> Schema:
        return {"type": "string", "writeOnly": True}


class Chosen(Kind):
    """A Literal, or an enum: one of a few values, each with its JSON."""

    checks = True

    def __init__(self, members: Iterable[tuple[object, object]]) -> None:
        """`members`: what JSON has of each value, and the value."""
        pairs = tuple(members)
        self._members = {(type(stored), stored): value for stored, value in pairs}
        self._stored = {value: stored for stored, value in pairs if isinstance(value, enum.Enum)}
        self.stores = self.loads = bool(self._stored)
        self.native = not self._stored

    def owns(self, value: object) -> bool:
        return isinstance(value, enum.Enum) and value in self._stored

    def store(self, value: Any, weight: Weight) -> Any:  # noqa: ANN401 - of any type
        return self._stored[value] if self.owns(value) else value

    def load(self, value: Any, *, strict: bool = True) -> Any:  # noqa: ANN401 - of any type
        try:
            return self._members[type(value), value]
        except (KeyError, TypeError):
            raise MisfitError(f"one of {', '.join(came(one) for _, one in self._members)}", came(value)) from None

    def schema(self, parts: Definitions) -> Schema:
        return {"enum": [stored for _, stored in self._members]}


class Series(Kind):
    """A list, a tuple of any length, or a set, of one kind."""

    checks = True

    def __init__(self, make: type, item: Kind, also: tuple[type, ...] = ()) -> None:
        """`also`: what may be given beside a list, where the annotation says only what it can do."""
        self._make, self._item, self._also = make, item, (make, *also)
        self._is_set = make in {set, frozenset}
        self.exact = list if make is list and item is ANYTHING else None
        self.stores = make is not list or bool(also) or item.stores
        self.loads = make is not list or item.loads
        self.native = make is list and item.native

    def owns(self, value: object) -> bool:
        return type(value) in self._also and type(value) is not list

    def store(self, value: Any, weight: Weight) -> Any:  # noqa: ANN401 - of any type
        if is_list(value) or self.owns(value):
            weight.take(2 * len(value))
            stored = [self._item.store(each, weight) for each in value] if self._item.stores else list(value)
            return _in_order(stored, weight) if self._is_set and not is_list(value) else stored
        return value

    def load(self, value: Any, *, strict: bool = True) -> Any:  # noqa: ANN401 - of any type
        if not is_list(value):
            raise MisfitError("a list", came(value))
        found = cast("list[object]", value)
        loaded = _loaded([self._item] * len(found), found, strict=strict) if self._item.checks else found
        if self._make is list:
            return loaded if self._item.loads else found
        made = self._make(loaded)
        if strict and self._is_set and len(made) != len(found):
            raise MisfitError("a list without anything twice", came(value))
        return made

    def schema(self, parts: Definitions) -> Schema:
        unique: Schema = {"uniqueItems": True} if self._is_set else {}
        return {"type": "array", "items": self._item.schema(parts), **unique}


class Fixed(Kind):
    """A tuple with a kind for each of its places."""

    checks, stores, loads, native = True, True, True, False

    def __init__(self, items: tuple[Kind, ...]) -> None:
        self._items = items

    def owns(self, value: object) -> bool:
        return type(value) is tuple

    def store(self, value: Any, weight: Weight) -> Any:  # noqa: ANN401 - of any type
        if not (is_list(value) or self.owns(value)) or len(value) != len(self._items):
            return value
        weight.take(2 * len(value))
        return [kind.store(each, weight) for kind, each in zip(self._items, value, strict=True)]

    def load(self, value: Any, *, strict: bool = True) -> Any:  # noqa: ANN401 - of any type
        if not is_list(value) or len(value) != len(self._items):
            raise MisfitError(f"a list of {len(self._items)}", came(value))
        return tuple(_loaded(self._items, cast("list[object]", value), strict=strict))

    def schema(self, parts: Definitions) -> Schema:
        size = len(self._items)
        places = [kind.schema(parts) for kind in self._items]
        return {"type": "array", "prefixItems": places, "items": False, "minItems": size, "maxItems": size}


def _in_order(stored: list[object], weight: Weight) -> list[object]:
    """The items of a set, in the one order that does not depend on the process."""
    spelled: list[tuple[str, object]] = []
    for each in stored:
        try:
            text = canonical(each, what=weight.what, most=weight.left)
        except TooLargeError:
            raise too_large(weight.what, weight.most) from None
        weight.take(len(text))
        spelled.append((text, each))
    return [each for _, each in sorted(spelled, key=itemgetter(0))]


def _loaded(kinds: Iterable[Kind], values: Iterable[object], *, strict: bool) -> list[object]:
    loaded: list[object] = []
    try:
        for kind, value in zip(kinds, values, strict=True):
            loaded.append(kind.load(value, strict=strict))
    except MisfitError as exc:
        raise exc.at(f"[{len(loaded)}]") from None
    return loaded


class Dictionary(Kind):
    """A dict from text to one kind."""

    checks = True

    def __init__(self, item: Kind) -> None:
        self._item = item
        self.stores, self.loads, self.native = item.stores, item.loads, item.native

    def store(self, value: Any, weight: Weight) -> Any:  # noqa: ANN401 - of any type
        if not is_object(value) or not self._item.stores:
            return value
        named = cast("dict[object, object]", value)
        weight.take(5 * len(named))
        return {name: self._item.store(each, weight) for name, each in named.items()}

    def load(self, value: Any, *, strict: bool = True) -> Any:  # noqa: ANN401 - of any type
        if not is_object(value) or is_mark(value):
            raise MisfitError("an object", came(value))
        loaded: dict[object, object] = {}
        for name, each in cast("dict[object, object]", value).items():
            if type(name) is not str:
                raise MisfitError("an object with texts as its keys", f"one with {shown(name)}")
            try:
                loaded[name] = self._item.load(each, strict=strict)
            except MisfitError as exc:
                raise exc.at(f".{name}") from None
        return loaded if self._item.loads else value

    def schema(self, parts: Definitions) -> Schema:
        return {"type": "object", "additionalProperties": self._item.schema(parts)}


@dataclass(frozen=True, slots=True)
class RecordField:
    """One field of a record: its kind, and whether it has to be there."""

    kind: Kind
    required: bool
    about: str = ""


class Record(Kind):
    """An object with named fields: a dataclass, a NamedTuple or a TypedDict."""

    checks = True

    def __init__(self, of: type, *, is_dict: bool) -> None:
        self._of = of
        self.is_dict = is_dict
        self.fields: dict[str, RecordField] = {}
        self.stores = self.loads = True
        self.native = False

    def fill(self, fields: Mapping[str, RecordField]) -> None:
        """Set once the kinds of the fields are known: one of them may be this very record."""
        self.fields = dict(fields)
        if self.is_dict:
            kinds = [each.kind for each in fields.values()]
            self.stores, self.loads = any(kind.stores for kind in kinds), any(kind.loads for kind in kinds)
            self.native = all(kind.native for kind in kinds)

    def owns(self, value: object) -> bool:
        return not self.is_dict and isinstance(value, self._of)

    def store(self, value: Any, weight: Weight) -> Any:  # noqa: ANN401 - of any type
        if is_object(value):
            given = cast("dict[str, object]", value)
            fields = self.fields
            weight.take(5 * len(given))
            return {
                name: fields[name].kind.store(one, weight) if name in fields else one for name, one in given.items()
            }
        if not self.owns(value):
            return value
        if type(value) is not self._of:
            raise MisfitError(
                f"{a_class(self._of)} itself", f"{a_kind_of(value)}, which JSON would make {a_class(self._of)} of"
            )
        weight.take(5 * len(self.fields))
        stored: dict[str, object] = {}
        for name, each in self.fields.items():
            try:
                stored[name] = each.kind.store(getattr(value, name), weight)
            except MisfitError as exc:
                raise exc.at(f".{name}") from None
        return stored

    def load(self, value: Any, *, strict: bool = True) -> Any:  # noqa: ANN401 - of any type
        if not is_object(value) or is_mark(value):
            raise MisfitError(f"{a_class(self._of)}, or an object of its fields", came(value))
        given = cast("dict[str, object]", value)
        if strict:
            self._require_names(given)
        loaded: dict[str, object] = {}
        for name, each in self.fields.items():
            if name in given:
                try:
                    loaded[name] = each.kind.load(given[name], strict=strict)
                except MisfitError as exc:
                    raise exc.at(f".{name}") from None
            elif each.required:
                raise MisfitError(f"{a_class(self._of)} with {name}", came(value))
        if self.is_dict:
            return loaded if self.loads else value
        try:
            return self._of(**loaded)
        except Exception as exc:  # noqa: BLE001 - whatever a class raises when it is made, it refuses what it is made of
            raise MisfitError(a_class(self._of), f"what it refuses: {first_line(exc)}") from None

    def _require_names(self, given: Mapping[str, object]) -> None:
        for name in given:
            if name not in self.fields:
                right = nearest(str(name), tuple(self.fields))
                meant = f"; did you mean {right}?" if right else ""
                raise MisfitError(f"{a_class(self._of)} of {', '.join(self.fields)}", f"one with {shown(name)}{meant}")

    def schema(self, parts: Definitions) -> Schema:
        return parts.named(self, self._of.__name__, lambda: self._described(parts))

    def _described(self, parts: Definitions) -> Schema:
        described: Schema = {
            "type": "object",
            "properties": {name: described_as(one.kind.schema(parts), one.about) for name, one in self.fields.items()},
            "required": [name for name, one in self.fields.items() if one.required],
            "additionalProperties": False,
        }
        about = (
            "" if (self._of.__doc__ or "").startswith(f"{self._of.__name__}(") else first_line(self._of.__doc__ or "")
        )
        return described_as(described, about)


class Model(Kind):
    """A pydantic model, asked by its own words: nothing of pydantic is imported here."""

    checks, stores, loads, native = True, True, True, False

    def __init__(self, of: Any) -> None:  # noqa: ANN401 - a class that has a model's methods
        self._of = of

    def owns(self, value: object) -> bool:
        return isinstance(value, self._of)

    def store(self, value: Any, weight: Weight) -> Any:  # noqa: ANN401 - of any type
        if not self.owns(value):
            return value
        weigh(value, weight)  # what dumps it cannot be stopped halfway
        for by_alias in (True, False):  # as its schema has them, else as its fields are called
            try:
                stored = value.model_dump(mode="json", by_alias=by_alias)
                if self._of.model_validate(stored) == value:
                    return stored
            except ValueError:
                continue
        raise MisfitError(
            f"{a_class(self._of)} that is the same again after JSON",
            f"{a_kind_of(value)} that is not (a secret, an excluded field or a class below it)",
        )

    def load(self, value: Any, *, strict: bool = True) -> Any:  # noqa: ANN401 - of any type
        if not is_object(value) or is_mark(value):
            raise MisfitError(f"{a_class(self._of)}, or an object of its fields", came(value))
        try:
            return self._of.model_validate(value)
        except ValueError as exc:
            raise _of_model(self._of, exc) from None

    def schema(self, parts: Definitions) -> Schema:
        described: Schema = self._of.model_json_schema()
        below = described.pop("$defs", {})
        names = {name: parts.free(name) for name in below}
        for name, part in below.items():
            parts.parts[names[name]] = renamed(part, names)
        return parts.named(self, self._of.__name__, lambda: renamed(described, names))


def _of_model(of: type, exc: ValueError) -> MisfitError:
    """The first thing that pydantic found, and where."""
    errors = getattr(exc, "errors", None)
    if errors is None:
        return MisfitError(a_class(of), f"what it refuses: {first_line(exc)}")
    one: Any = errors()[0]
    misfit = MisfitError(f"as {of.__name__} says ({one['msg']})", came(one.get("input")))
    for part in reversed(one["loc"]):
        misfit.at(f"[{part}]" if isinstance(part, int) else f".{part}")
    return misfit


class OneOf(Kind):
    """A union: the first of its kinds that a value fits. What JSON could not tell apart is refused as it is stored."""

    checks = True

    def __init__(self, kinds: tuple[Kind, ...]) -> None:
        self._kinds = kinds
        self.stores = any(kind.stores for kind in kinds)
        self.loads = any(kind.loads for kind in kinds)
        self.native = all(kind.native for kind in kinds)

    def owns(self, value: object) -> bool:
        return any(kind.owns(value) for kind in self._kinds)

    def store(self, value: Any, weight: Weight) -> Any:  # noqa: ANN401 - of any type
        own = next((kind for kind in self._kinds if kind.owns(value)), None)
        if own is None:
            return self._stored_below(value, weight)
        stored = own.store(value, weight)
        again, loaded = self._first(stored, strict=True)
        if again is not own and type(loaded) is not type(value):
            told = f"JSON would make {a_kind_of(loaded)} of it: let their fields differ, as by a Literal"
            raise MisfitError("told apart from the others that are declared", f"{a_kind_of(value)}; {told}")
        return stored

    def _stored_below(self, value: object, weight: Weight) -> object:
        """A list or an object that may hold something inside: by the first kind that it fits then."""
        if type(value) in {list, dict}:
            for kind in self._kinds:
                left = weight.left
                try:
                    stored = kind.store(value, weight)
                    kind.load(stored)
                except MisfitError:
                    weight.left = left
                    continue
                return stored
        return value

    def _first(self, value: object, *, strict: bool) -> tuple[Kind, Any]:
        """The first kind that it fits, and what that makes of it: made once, however deep unions lie in each other."""
        misfits: list[MisfitError] = []
        for kind in self._kinds:
            try:
                return kind, kind.load(value, strict=strict)
            except MisfitError as exc:
                misfits.append(exc)
        deep = max(misfits, key=lambda exc: len(exc.inside))
        if deep.inside:
            raise deep
        raise MisfitError(" or ".join(dict.fromkeys(exc.expected for exc in misfits)), misfits[0].came)

    def load(self, value: Any, *, strict: bool = True) -> Any:  # noqa: ANN401 - of any type
        try:
            return self._first(value, strict=True)[1]
        except MisfitError:
            if strict:
                raise
        return self._first(value, strict=False)[1]

    def schema(self, parts: Definitions) -> Schema:
        return {"anyOf": [kind.schema(parts) for kind in self._kinds]}


class About(Kind):
    """A kind with something said of it: `Annotated[int, "in cents"]`."""

    def __init__(self, kind: Kind, about: str) -> None:
        self._kind, self._about = kind, about
        self.stores, self.loads, self.native, self.checks = kind.stores, kind.loads, kind.native, kind.checks
        self.exact = kind.exact

    def store(self, value: Any, weight: Weight) -> Any:  # noqa: ANN401 - of any type
        return self._kind.store(value, weight)

    def load(self, value: Any, *, strict: bool = True) -> Any:  # noqa: ANN401 - of any type
        return self._kind.load(value, strict=strict)

    def owns(self, value: object) -> bool:
        return self._kind.owns(value)

    def schema(self, parts: Definitions) -> Schema:
        return described_as(self._kind.schema(parts), self._about)
