"""JSON Schema, as far as tools of a model need it: an object of parameters, with its named parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

Schema: TypeAlias = dict[str, Any]


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

    def free(self, name: str) -> str:
        number, free = 1, name
        while free in self.parts:
            number += 1
            free = f"{name}{number}"
        return free


def described_as(schema: Schema, about: str) -> Schema:
    return {**schema, "description": about} if about else schema


def renamed(part: Any, names: Mapping[str, str]) -> Any:  # noqa: ANN401 - JSON
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
