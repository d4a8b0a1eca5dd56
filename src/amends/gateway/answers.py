"""An answer of a tool, as contracts look into it: structured content, else JSON in its text, else the text itself."""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any, Final, cast

from amends.core.words.globs import glob
from amends.core.words.values import Json, is_too_deep
from amends.dataclass import dataclass

LONGEST_READ: Final = 4 * 1024 * 1024
"""So many characters of a text are looked into, and no more."""
MISSING: Final = object()


class ToolAnswer:
    """One answer of a tool, as the wire has it."""

    def __init__(self, wire: dict[str, Any]) -> None:
        self.wire = wire

    @property
    def is_error(self) -> bool:
        return self.wire.get("isError") is True

    @cached_property
    def text(self) -> str:
        """All of its text, one block after another."""
        blocks = self.wire.get("content")
        listed = cast("list[object]", blocks) if isinstance(blocks, list) else []
        texts = (cast("dict[str, object]", one).get("text") for one in listed if isinstance(one, dict))
        return "\n".join(one for one in texts if isinstance(one, str))[:LONGEST_READ]

    @cached_property
    def structured(self) -> Json:
        return cast("Json", self.wire.get("structuredContent"))

    @cached_property
    def spoken(self) -> Json:
        """The JSON of its text; None where that is none."""
        text = self.text.strip()
        if not text or text[0] not in "[{":
            return None
        try:
            found: object = json.loads(text)
        except (ValueError, RecursionError):
            return None
        return None if is_too_deep(found) else cast("Json", found)

    def named(self, name: str) -> object:
        """The value that a reference finds under a name; MISSING where there is nothing."""
        for whole in (self.structured, self.spoken):
            if isinstance(whole, dict) and name in whole:
                return whole[name]
        if name == "text":
            return self.text
        if name == "content" and isinstance(self.wire.get("content"), list):
            return self.wire["content"]
        if name == "is_error":
            return self.is_error
        return MISSING

    @property
    def whole(self) -> Json:
        """All of it as one value."""
        if self.structured is not None:
            return self.structured
        return self.text if self.spoken is None else self.spoken


@dataclass(frozen=True, slots=True)
class AnswerTest:
    """Conditions on an answer: each thing that is said has to hold."""

    texts: tuple[str, ...] = ()
    is_error: bool | None = None

    def holds(self, answer: ToolAnswer) -> bool:
        if self.is_error is not None and answer.is_error is not self.is_error:
            return False
        return not self.texts or any(glob(one)(answer.text) for one in self.texts)


@dataclass(frozen=True, slots=True)
class TextPattern:
    """A text with holes, `Created note {id}`: looked for anywhere in an answer's text, in one go from left to right.

    A hole takes what stands before the next piece of text; the last one, the rest of its line.
    """

    pieces: tuple[str, ...]
    holes: tuple[str, ...]

    def found(self, text: str) -> dict[str, str] | None:
        start = text.find(self.pieces[0])
        if start < 0:
            return None
        at = start + len(self.pieces[0])
        values: dict[str, str] = {}
        for hole, after in zip(self.holes, self.pieces[1:], strict=True):
            ends = text.find(after, at) if after else _line_end(text, at)
            if ends < 0:
                return None
            values[hole] = text[at:ends]
            at = ends + len(after)
        return values


def _line_end(text: str, at: int) -> int:
    ends = text.find("\n", at)
    return len(text) if ends < 0 else ends
