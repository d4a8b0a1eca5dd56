"""Inputs of a saga's file: types, defaults, choices and patterns, checked before anything runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, cast

from amends.core.words.values import LARGEST_INT, Json
from amends.errors import InputError
from amends.runtime.values.schema import Definitions
from amends.runtime.values.signature import named_inputs
from amends.sagafile.model import Input
from amends.sagafile.patterns import compile_pattern
from amends.source.marked import shown

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "text": (str,),
    "integer": (int,),
    "number": (int, float),
    "flag": (bool,),
    "list": (list,),
    "map": (dict,),
}
_SCHEMAS: Final = {
    "text": "string",
    "integer": "integer",
    "number": "number",
    "flag": "boolean",
    "list": "array",
    "map": "object",
}
_ARTICLES: Final = {"integer": "an integer", "flag": "true or false", "text": "text"}


def fits(kind: str, value: object) -> bool:
    """Whether a value is of a type; true and false are no numbers."""
    if isinstance(value, bool):
        return kind == "flag"
    return isinstance(value, _TYPES[kind])


def inputs_schema(inputs: Iterable[Input]) -> dict[str, Any]:
    """The inputs as JSON Schema, for whoever hands the saga to a model as a tool."""
    properties = {each.name: _schema(each) for each in inputs}
    return Definitions().whole(properties, [each.name for each in inputs if not each.has_default])


def _schema(each: Input) -> dict[str, Any]:
    described: dict[str, Any] = {"type": _SCHEMAS[each.type], "description": each.does}
    if each.has_default:
        described["default"] = each.default
    if each.choices:
        described["enum"] = list(each.choices)
    if each.pattern:
        described["pattern"] = f"^(?:{each.pattern})$"
    return {name: value for name, value in described.items() if name != "description" or value}


def pattern_mistake(pattern: str) -> str | None:
    try:
        compile_pattern(pattern)
    except InputError as exc:
        return str(exc)
    return None


def mismatch(pattern: str, text: str) -> str:
    """The trouble with a text that is not all as a pattern says; empty where it is."""
    try:
        return "" if compile_pattern(pattern).fits(text) else f" does not match {shown(pattern)}"
    except InputError as exc:
        return f": {exc}"


def checked_inputs(saga: str, inputs: Iterable[Input], document: object) -> dict[str, Json]:
    """The inputs by name, defaults put in. Raises InputError, which says what is wrong with which."""
    known = {each.name: each for each in inputs}
    required = [name for name, each in known.items() if not each.has_default]
    values = cast("dict[str, Json]", named_inputs(saga, document, known, required))
    return {name: _checked(saga, each, values.get(name, each.default)) for name, each in known.items()}


def _checked(saga: str, each: Input, value: Json) -> Json:
    where = f"saga {saga}, input {each.name}"
    if not fits(each.type, value):
        raise InputError(f"{where} has to be {_ARTICLES.get(each.type, f'a {each.type}')}, not {shown(value)}")
    if isinstance(value, int) and abs(value) > LARGEST_INT:
        raise InputError(f"{where}: {shown(value)} is past 2**53")
    if each.choices and value not in each.choices:
        raise InputError(f"{where} has to be one of {', '.join(map(shown, each.choices))}, not {shown(value)}")
    if each.pattern and (wrong := mismatch(each.pattern, str(value))):
        raise InputError(f"{where}: {shown(value)}{wrong}")
    return value
