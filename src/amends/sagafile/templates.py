"""Texts with references: `${input.tag}`. They become arguments, never parts of a shell's text.

What the input and earlier steps say is put in before a step is proposed, so that the journal, the gate and whoever
approves it see the very words. What is known only when a command is called (its key, the result and the before-image
of the step that it takes back) stays open until then, as `{"of": "result.stdout"}` among the pieces of the text: a
value from outside that looks like a reference is a text all the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final, TypeAlias, cast

from amends.core.words.values import DEEPEST, Json, is_too_deep
from amends.dataclass import dataclass
from amends.errors import InputError
from amends.source.marked import Mistakes, shown

_MARK: Final = re.compile(r"\$\$\{|\$\{([^{}]*)(\})?")
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*", re.ASCII)

EARLY: Final = ("input", "steps", "saga")
"""Roots that are known before a step is proposed."""
OF_SECRETS: Final = "secret"
"""Root of the secrets' values, which are known only while a request is sent."""
OUTPUTS: Final = ("stdout", "stderr", "exit", "json")
"""What there is of a command that has ended; `json` is its stdout, read as JSON."""
ANSWERS: Final = ("status", "body", "headers", "json")
"""What there is of an answer to a request; `json` is its body, read as JSON."""
HEADERS: Final = ("content-type", "etag", "last-modified", "location")
"""The headers of an answer that are kept."""
_READ: Final = ("stdout", "body")


@dataclass(frozen=True, slots=True)
class Reference:
    path: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(self.path)

    @property
    def root(self) -> str:
        return self.path[0]


Template: TypeAlias = tuple["str | Reference", ...]
Bound: TypeAlias = "str | dict[str, Json]"
"""A text, or the pieces of one that is not whole yet: `{"join": ["a text", {"of": "result.stdout"}]}`."""


def template(text: str, line: int, mistakes: Mistakes, roots: Collection[str]) -> Template:
    """The pieces of a text. `$${` stands for `${`."""
    pieces: list[str | Reference] = []
    at = 0
    for found in _MARK.finditer(text):
        pieces.append(text[at : found.start()])
        at = found.end()
        if found[0] == "$${":
            pieces.append("${")
        elif found[2] is None or not _NAME.fullmatch(found[1]):
            what = f"{shown(found[0])} is not a reference; write ${{input.name}}, or $${{ for the characters themselves"
            mistakes.add(line, what)
        elif found[1].partition(".")[0] not in roots:
            mistakes.unknown(line, "reference", found[1].partition(".")[0], roots, where=f" in {shown(found[0])}")
        else:
            pieces.append(Reference(tuple(found[1].split("."))))
    pieces.append(text[at:])
    return _merged(pieces)


def _merged(pieces: Sequence[str | Reference]) -> Template:
    merged: list[str | Reference] = []
    for piece in pieces:
        if isinstance(piece, str) and merged and isinstance(merged[-1], str):
            merged[-1] += piece
        elif piece != "":
            merged.append(piece)
    return tuple(merged)


def references(text: Template) -> tuple[Reference, ...]:
    return tuple(piece for piece in text if isinstance(piece, Reference))


# -- putting in -------------------------------------------------------------------------------------------------------


def bound(text: Template, known: Mapping[str, Json]) -> Bound:
    """The text with what is known put in; a reference to anything else is left open. Raises InputError."""
    pieces: list[str | Reference] = [
        piece if isinstance(piece, str) or piece.root not in known else spelled(looked_up(piece.path, known), piece)
        for piece in text
    ]
    merged = _merged(pieces)
    if all(isinstance(piece, str) for piece in merged):
        return "".join(cast("tuple[str, ...]", merged))
    join: list[Json] = [piece if isinstance(piece, str) else {"of": str(piece)} for piece in merged]
    return {"join": join}


def closed(text: Json, known: Mapping[str, Json]) -> str:
    """The whole text, as `bound` left it, now that the rest is known. Raises InputError."""
    if isinstance(text, str):
        return text
    pieces = cast("list[Json]", cast("dict[str, Json]", text)["join"])
    whole: list[str] = []
    for piece in pieces:
        if isinstance(piece, str):
            whole.append(piece)
        else:
            reference = Reference(tuple(str(cast("dict[str, Json]", piece)["of"]).split(".")))
            whole.append(spelled(looked_up(reference.path, known), reference))
    return "".join(whole)


def looked_up(path: Sequence[str], known: Mapping[str, Json]) -> Json:
    """The value that a path leads to. Raises InputError, which says where the path ends too early."""
    value: Json = dict(known)
    for place, name in enumerate(path):
        value = _inside(value, name, path, place)
    return value


def _inside(value: Json, name: str, path: Sequence[str], place: int) -> Json:
    where = ".".join(path[:place])
    read = next((key for key in _READ if isinstance(value, dict) and key in value), "")
    if read and isinstance(value, dict) and name == "json" and name not in value:
        return _as_json(value, read, where)
    if isinstance(value, dict) and name in value:
        _refuse_cut(value, name, where)
        return value[name]
    if isinstance(value, list) and name.isdecimal() and int(name) < len(value):
        return value[int(name)]
    raise InputError(f"${{{'.'.join(path)}}} leads nowhere: there is no {'.'.join(path[: place + 1])}")


def _as_json(output: Mapping[str, Json], read: str, where: str) -> Json:
    _refuse_cut(output, read, where)
    how = "printed" if read == "stdout" else "was answered"
    try:
        found: object = json.loads(str(output[read]))
    except ValueError as exc:
        raise InputError(f"${{{where}.json}}: what {where} {how} is not JSON: {exc}") from None
    except RecursionError:
        raise _too_deep(where, how) from None
    if is_too_deep(found):
        raise _too_deep(where, how)
    return cast("Json", found)


def _too_deep(where: str, how: str) -> InputError:
    return InputError(f"${{{where}.json}}: what {where} {how} is nested deeper than {DEEPEST} levels")


def _refuse_cut(output: Mapping[str, Json], name: str, where: str) -> None:
    if output.get("cut") is True and name in _READ:
        what = "it printed more" if name == "stdout" else "the answer was more"
        raise InputError(f"${{{where}.{name}}}: {what} than is kept, so it cannot be referred to")


def spelled(value: Json, reference: Reference) -> str:
    """A value as one argument: text as it is, everything else as JSON. Raises InputError for what is none."""
    if value is None:
        raise InputError(f"${{{reference}}} is null, which is no argument")
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if "\0" in text:
        raise InputError(f"${{{reference}}} holds a NUL, which no argument can hold")
    return text
