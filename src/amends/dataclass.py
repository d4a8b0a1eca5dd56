"""The standard library's `dataclass`, quicker to make and to fill.

It means the same, and type checkers are told just that. For each frozen class the standard library compiles six
functions, and of a runtime that has two hundred such classes that is half the start. Here only `__init__` is compiled,
and it fills the slots themselves, without a look-up; the other functions are shared. A class that is not frozen is the
standard library's own affair.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError
from operator import attrgetter
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, NoReturn, ParamSpec, Protocol, TypeVar, cast

__all__ = ["altered", "dataclass", "sparse"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
P = ParamSpec("P")
Function = Callable[..., object]
_ABSENT: Final = object()  # an argument that was not given, and whose default is made anew each time


def quick(
    *, frozen: bool = False, slots: bool = False, kw_only: bool = False, repr: bool = True
) -> Callable[[type[T]], type[T]]:
    def decorated(cls: type[T]) -> type[T]:
        if not frozen:
            return dataclasses.dataclass(cls, slots=slots, kw_only=kw_only, repr=repr)
        # Python sets __hash__ to None where a class has an __eq__: that is nobody's wish.
        its_own = {name for name, value in vars(cls).items() if value is not None}
        made = dataclasses.dataclass(cls, init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)
        fields = dataclasses.fields(cast("Any", made))
        functions = {**_functions(fields), "__init__": _filling(made, fields)}
        for name, function in functions.items():
            if name not in its_own and (repr or name != "__repr__"):
                setattr(made, name, function)
        return made

    return decorated


def _filling(cls: type, fields: Sequence[Field[object]]) -> Function:
    """An `__init__` that puts each argument where it belongs."""
    has_slots = "__slots__" in vars(cls)
    names: dict[str, object] = {"ABSENT": _ABSENT, "set_": object.__setattr__}
    positional, by_name, body = ["self"], list[str](), list[str]()
    for each in fields:
        name, given, value = each.name, each.name, each.name
        if each.default_factory is not MISSING:
            names[f"make_{name}"] = each.default_factory
            given = f"{name}=ABSENT"
            value = f"make_{name}() if {name} is ABSENT else {name}" if each.init else f"make_{name}()"
        elif each.default is not MISSING:
            names[f"default_{name}"] = each.default
            given = f"{name}=default_{name}"
            value = name if each.init else f"default_{name}"
        elif not each.init:
            continue  # `__post_init__` sets it
        if each.init:
            (by_name if each.kw_only else positional).append(given)
        if has_slots:
            names[f"set_{name}"] = getattr(cls, name).__set__
            body.append(f"set_{name}(self, {value})")
        else:
            body.append(f"set_(self, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    arguments = ", ".join([*positional, *(["*", *by_name] if by_name else [])])
    exec(f"def __init__({arguments}):\n " + "\n ".join(body or ["pass"]), names)  # noqa: S102 - of the names of fields
    filling = cast("FunctionType", names["__init__"])
    filling.__qualname__ = f"{cls.__qualname__}.__init__"
    filling.__annotations__ = {**{each.name: each.type for each in fields if each.init}, "return": None}
    return filling


def _functions(fields: Sequence[Field[object]]) -> dict[str, Function]:
    """Functions that the standard library would compile, and those it has ready-made for a frozen class with slots."""
    values = _values([each.name for each in fields])
    compared = _values([each.name for each in fields if each.compare])
    hashed = _values([each.name for each in fields if (each.compare if each.hash is None else each.hash)])

    def state(self: object) -> tuple[object, ...]:
        return values(self)

    def repr_(self: object) -> str:
        shown = (f"{each.name}={getattr(self, each.name)!r}" for each in fields if each.repr)
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def restore(self: object, state: Sequence[object]) -> None:
        for each, value in zip(fields, state, strict=True):
            object.__setattr__(self, each.name, value)

    def equal(self: object, other: object) -> bool:
        return compared(self) == compared(other) if type(other) is type(self) else NotImplemented

    def hash_(self: object) -> int:
        return hash(hashed(self))

    return {
        "__repr__": repr_,
        "__eq__": equal,
        "__hash__": hash_,
        "__setattr__": _refuse_to_set,
        "__delattr__": _refuse_to_delete,
        "__getstate__": state,
        "__setstate__": restore,
    }


def _values(names: Sequence[str]) -> Callable[[object], tuple[object, ...]]:
    match names:
        case []:
            return lambda _: ()
        case [name]:
            return lambda self: (getattr(self, name),)
        case _:
            return attrgetter(*names)


def _refuse_to_set(_: object, name: str, __: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(_: object, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = quick


def sparse(kind: type[T], **values: object) -> T:
    """A value that holds only what is said of it: what is not is read from its class, where the defaults stand.

    Of a step's many fields few are ever said; copies of those few are smaller, and quicker to make.
    """
    made = object.__new__(kind)
    object.__setattr__(made, "__dict__", values)
    return made


MYPY = False  # mypy takes it for true, and knows `replace`; pyright goes by what Python 3.13 gives every dataclass

if MYPY:
    from dataclasses import replace as altered
elif TYPE_CHECKING:

    class _Replaced(Protocol[P, T_co]):
        def __replace__(self, *args: P.args, **changes: P.kwargs) -> T_co: ...

    def altered(thing: _Replaced[P, T], *_: P.args, **changes: P.kwargs) -> T: ...

else:

    def altered(thing: T, **changes: object) -> T:
        """A copy with these fields changed: dataclasses.replace, at a tenth of its price (two run for every event)."""
        copy = object.__new__(type(thing))
        object.__setattr__(copy, "__dict__", thing.__dict__ | changes)
        return copy
