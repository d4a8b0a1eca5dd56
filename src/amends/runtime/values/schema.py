"""JSON Schema, as far as tools of a model need it: an object of parameters, with its named parts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

Schema: TypeAlias = dict[str, Any]
LONGEST_NAME: Final = 64
_DIGITS: Final = 8


def tool_schema(topic: str, does: str, parameters: Schema) -> Schema:
    """A tool as the interfaces of models take it: its name, its description, and the schema of its arguments."""
    return {"name": tool_name(topic), "description": does, "parameters": parameters}


def tool_name(topic: str) -> str:
    """A topic as the name of a tool: models' interfaces take no dots, and at most 64 letters."""
    name = topic.replace(".", "_")
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[: LONGEST_NAME - _DIGITS - 1]}_{hashlib.sha256(topic.encode()).hexdigest()[:_DIGITS]}"


class Definitions:
    """The named parts of a schema: `$defs`."""

    def __init__(self) -> None:
        self.parts: dict[str, Schema] = {}
        self._names: dict[object, str] = {}

    def named(self, key: object, name: str, make: Callable[[], Schema]) -> Schema:
        """A reference to what a key stands for; made once, so that it may contain itself."""
        if key not in self._names:
            free = self.free(name)
            self._names[key] = free
            self.parts[free] = {}
            self.parts[free] = make()
        return {"$ref": f"#/$defs/{self._names[key]}"}

    def whole(self, properties: Mapping[str, Schema], required: Sequence[str]) -> Schema:
        """An object of these, with all the parts that they refer to."""
        described: Schema = {
            "type": "object",
            "properties": dict(properties),
            "required": list(required),
            "additionalProperties": False,
        }
        return {**described, "$defs": self.parts} if self.parts else described

    def free(self, name: str) -> str:
        number, free = 1, name
        while free in self.parts:
            number += 1
            free = f"{name}{number}"
        return free


def described_as(schema: Schema, about: str) -> Schema:
    return {**schema, "description": about} if about else schema


def renamed(part: Any, names: Mapping[str, str]) -> Any:  # noqa: ANN401 - any JSON value
    """A part of somebody else's schema, with its references to the names that its parts have here."""
    if isinstance(part, dict):
        known = cast("dict[str, Any]", part)
        return {
            name: f"#/$defs/{names[each.rpartition('/')[2]]}"
            if name == "$ref" and isinstance(each, str) and each.rpartition("/")[2] in names
            else renamed(each, names)
            for name, each in known.items()
        }
    return [renamed(each, names) for each in cast("list[object]", part)] if isinstance(part, list) else part
