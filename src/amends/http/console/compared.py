"""Comparison of what is there now with what is asked for: a before-image and the arguments, field by field. Pure."""

from __future__ import annotations

import difflib
from typing import Final

from amends.core.words.values import Json
from amends.dataclass import dataclass
from amends.http.console.pages import shown_value
from amends.text import visible

MOST_LINES: Final = 1_000
"""Longer texts are shown one below the other: to compare them line by line takes too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedField:
    """A field of both, each as text; `diff` where they take several lines, and differ."""

    name: str
    now: str
    asked: str
    changes: bool
    diff: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    fields: tuple[ComparedField, ...]
    others: Json
    """The before-image without those fields; all of it, where it has no field that an argument has."""

    @property
    def has_others(self) -> bool:
        return self.others not in ({}, None) or not self.fields


def compared(args: Json, before: Json) -> Compared:
    if not isinstance(args, dict) or not isinstance(before, dict):
        return Compared(fields=(), others=before)
    fields = tuple(_field(name, before[name], asked) for name, asked in args.items() if name in before)
    others: Json = {name: value for name, value in before.items() if name not in args}
    return Compared(fields=fields, others=others)


def _field(name: str, now: Json, asked: Json) -> ComparedField:
    (there, _), (wanted, _) = shown_value(now), shown_value(asked)
    changes = now != asked
    diff = _diff(there, wanted) if changes and ("\n" in there or "\n" in wanted) else ""
    return ComparedField(name=visible(name), now=there, asked=wanted, changes=changes, diff=diff)


def _diff(now: str, asked: str) -> str:
    before, after = now.split("\n"), asked.split("\n")
    if max(len(before), len(after)) > MOST_LINES:
        return ""
    lines = list(difflib.unified_diff(before, after, n=3, lineterm=""))
    return "\n".join(lines[2:])
