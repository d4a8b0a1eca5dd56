"""Words for a value that is not of its kind: what was expected, what came, and where."""

from __future__ import annotations

from typing import cast

from amends.core.words.values import SECRET_MARK
from amends.secrets import Secret
from amends.source.marked import shown


def is_object(value: object) -> bool:
    return type(value) is dict


def is_list(value: object) -> bool:
    return type(value) is list


def is_mark(value: object) -> bool:
    """Whether a secret stands here, as the journal has it."""
    return type(value) is dict and SECRET_MARK in cast("dict[object, object]", value)


def came(value: object) -> str:
    """A value in a message: short, and without the values of secrets."""
    kind = type(value)
    if kind is Secret or is_mark(value):
        return "a Secret"
    if kind is dict:
        return f"an object of {', '.join(map(str, cast('dict[object, object]', value))) or 'nothing'}"[:80]
    if kind is list:
        return "a list" if value else "an empty list"
    if value is None:
        return "null"
    if kind is bool:
        return str(value).lower()
    return shown(value) if kind in {str, int, float} else a_class(kind)


def first_line(said: object) -> str:
    return str(said).strip().partition("\n")[0]


def a_kind_of(value: object) -> str:
    return a_class(type(value))


def a_class(cls: type) -> str:
    """A class with its article."""
    name = cls.__name__
    return f"{'an' if name[:1].lower() in {'a', 'e', 'i', 'o'} else 'a'} {name}"
