"""Shapes of answers, as JSON Schema: made from the classes that the answers are made from."""

from __future__ import annotations

import sys
from dataclasses import fields, is_dataclass
from types import SimpleNamespace
from typing import Any, Final, cast, get_type_hints

from amends.runtime.values.annotations import Kinds
from amends.runtime.values.schema import Definitions, Schema

TEXT: Final[Schema] = {"type": "string"}
WHOLE: Final[Schema] = {"type": "integer"}
TRUTH: Final[Schema] = {"type": "boolean"}
ANY: Final[Schema] = {}
SOME_OBJECT: Final[Schema] = {"type": "object"}


def shape(cls: Any, **more: Schema) -> Schema:  # noqa: ANN401 - a class
    """The fields of a class, all of them there, and these beside."""
    kinds, parts = Kinds(), Definitions()
    names: list[str] = [field.name for field in fields(cls)] if is_dataclass(cls) else list(cls.__annotations__)
    return record(**{name: _open(kinds.of(_hint(cls, name)).schema(parts)) for name in names}, **more)


def _hint(cls: Any, name: str) -> Any:  # noqa: ANN401 - whatever stands there
    """The annotation of a field; anything at all where it is known to type checkers only."""
    alone = SimpleNamespace(__annotations__={name: cls.__annotations__[name]})
    try:
        return get_type_hints(alone, vars(sys.modules[cls.__module__]))[name]
    except NameError:
        return Any


def record(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties)}


def maybe(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def many(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def page(schema: Schema) -> Schema:
    """A page of a list: `next` is handed back as `page` for the one after it."""
    return record(items=many(schema), next=maybe(TEXT))


def _open(schema: Schema) -> Schema:
    """A part that is described elsewhere stands for any object: answers are wide where their readers are."""
    if "$ref" in schema:
        return SOME_OBJECT
    return {name: _opened(value) for name, value in schema.items()}


def _opened(value: object) -> Any:  # noqa: ANN401 - any part of a schema
    if isinstance(value, dict):
        return _open(cast("Schema", value))
    return list(map(_opened, cast("list[object]", value))) if isinstance(value, list) else value
