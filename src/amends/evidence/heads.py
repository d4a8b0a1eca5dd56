"""Tree heads that somebody else was told of and kept: one signed note, or a file of notices, a line of JSON each."""

from __future__ import annotations

import contextlib
import json
from typing import Any, Final, cast

from amends.errors import EvidenceError

HEAD: Final = "tree.head"
"""The type of the notices that carry one."""


def held_notes(text: str) -> tuple[str, ...]:
    """The notes in what somebody kept, each once, oldest first. A line that was cut off is passed over.

    Raises EvidenceError where there is none.
    """
    if not text.lstrip().startswith("{"):
        return (text,)
    found: dict[str, None] = {}
    for line in text.split("\n"):
        note = _note(line)
        if note is not None:
            found[note] = None
    if not found:
        raise EvidenceError("it holds no tree head; a file that `amends notify --file` keeps has one in each line")
    return tuple(found)


def _note(line: str) -> str | None:
    told: object = None
    with contextlib.suppress(ValueError, RecursionError):
        told = json.loads(line)
    if not isinstance(told, dict):
        return None
    notice = cast("dict[str, Any]", told)
    data = notice.get("data")
    note = cast("dict[str, object]", data).get("note") if isinstance(data, dict) else None
    return note if notice.get("type") == HEAD and isinstance(note, str) else None
