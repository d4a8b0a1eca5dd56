"""The standard library's `dataclass`, quicker to make, to fill and to store.

It means the same, and type checkers are told just that. A class that is frozen or has slots becomes a msgspec struct:
it is made in C, where the standard library compiles six functions (of a runtime that has two hundred such classes that
was half the start), and so are its instances; the codec spells and reads them without a walk over their fields. A
frozen one has slots, whether it says so or not. What a struct cannot be is the standard library's own: a class that is
neither, or says of a field that it is not shown, compared or given.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, Protocol, TypeVar, cast

import msgspec
from msgspec import Struct, StructMeta

__all__ = ["altered", "dataclass"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
P = ParamSpec("P")
_NOT_TAKEN_OVER: Final = frozenset({"__dict__", "__weakref__"})
_PLAIN: Final = "amends.core."
"""Modules whose frozen things hold data and nothing else: none can come to hold itself, so the collector need not look.
"""
_OWN_AFFAIRS: Final = frozenset({"__init__", "__eq__", "__hash__", "__setattr__", "__slots__"})
"""What a class may say of itself that a struct would say otherwise."""
_originals: Final[dict[type, tuple[type, bool]]] = {}
"""By struct, the class that it was made of, and whether its fields are given by name only."""


class _Fields:
    """The fields as `dataclasses` knows them; gathered when somebody asks: to alter, to show or to copy one."""

    def __get__(self, _: object, kind: type) -> Mapping[str, Field[object]]:
        if kind not in _originals:
            raise AttributeError("__dataclass_fields__")
        original, kw_only = _originals[kind]
        if not original.__doc__:  # else its signature would be spelled for one, at six times the cost
            original.__doc__ = kind.__name__
        dataclasses.dataclass(original, init=False, repr=False, eq=False, kw_only=kw_only)
        fields = cast("Mapping[str, Field[object]]", vars(original)["__dataclass_fields__"])
        setattr(kind, "__dataclass_fields__", fields)  # noqa: B010 - no name that type checkers know
        return fields


class _Frozen(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    __dataclass_fields__ = _Fields()


class _Changing(Struct):
    __dataclass_fields__ = _Fields()


def quick(
    *, frozen: bool = False, slots: bool = False, kw_only: bool = False, repr: bool = True, eq: bool = True
) -> Callable[[type[T]], type[T]]:
    def decorated(cls: type[T]) -> type[T]:
        if (frozen or slots) and repr and _may_be_struct(cls):
            return cast("type[T]", _struct(cls, frozen=frozen, kw_only=kw_only, eq=eq))
        return dataclasses.dataclass(cls, frozen=frozen, slots=slots, kw_only=kw_only, repr=repr, eq=eq)

    return decorated


def _may_be_struct(cls: type) -> bool:
    said = vars(cls)
    return (
        said.keys().isdisjoint(_OWN_AFFAIRS)
        and cls.__bases__ in {(object,), (Generic,)}
        and not any(_is_no_field(str(each)) for each in said.get("__annotations__", {}).values())
        and all(_is_usual(cast("Field[object]", each)) for each in said.values() if isinstance(each, Field))
    )


def _is_no_field(annotation: str) -> bool:
    return "KW_ONLY" in annotation or "InitVar" in annotation


def _is_usual(field: Field[object]) -> bool:
    return field.init and field.repr and field.compare and field.hash is None and field.kw_only is MISSING


def _struct(cls: type, *, frozen: bool, kw_only: bool, eq: bool) -> type:
    said: dict[str, Any] = {name: value for name, value in vars(cls).items() if name not in _NOT_TAKEN_OVER}
    said["__qualname__"] = cls.__qualname__
    for name, value in said.items():
        if isinstance(value, Field):
            said[name] = _default(cast("Field[object]", value))
    bases = tuple(base for base in cls.__bases__ if base is not object)
    root = _Frozen if frozen else _Changing
    is_plain = frozen and cls.__module__.startswith(_PLAIN)
    made = StructMeta(cls.__name__, (root, *bases), said, kw_only=kw_only, eq=eq, gc=not is_plain)
    _originals[made] = cls, kw_only
    return made


def _default(field: Field[Any]) -> object:
    if field.default is not MISSING:
        return field.default
    if field.default_factory is MISSING:
        return msgspec.field()
    made_by = field.default_factory
    return msgspec.field(default_factory=getattr(made_by, "__origin__", made_by))  # `list[str]` makes lists, but slowly


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = quick


MYPY = False  # mypy takes it for true, and knows `replace`; pyright goes by what Python 3.13 gives every dataclass

if MYPY:
    from dataclasses import replace as altered
elif TYPE_CHECKING:

    class _Replaced(Protocol[P, T_co]):
        def __replace__(self, *args: P.args, **changes: P.kwargs) -> T_co: ...

    def altered(thing: _Replaced[P, T], *_: P.args, **changes: P.kwargs) -> T: ...

else:
    # A copy with these fields changed: dataclasses.replace, of structs only, at a twentieth of its price.
    from msgspec.structs import replace as altered
