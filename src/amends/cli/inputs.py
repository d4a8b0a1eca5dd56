"""Values of a command line: a document as JSON, limits, labels, moments."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from amends.core.state.limits import LimitName
from amends.errors import DeclarationError, InputError, PolicyError
from amends.gate.policy import Policy
from amends.runtime.declare.limits import Limit, Limits, whole
from amends.source.marked import age_s, duration_s, nearest
from amends.source.strict_json import parse_json


def read_document(given: str | None, *, option: str = "--input") -> object:
    """The input: JSON itself, `@` and the name of a file of it, or `-` for stdin. None where nothing is given."""
    if given is None:
        return None
    if given == "-":
        return parse_json(sys.stdin.buffer.read(), "stdin")
    if not given.startswith("@"):
        return parse_json(given.encode("utf-8", "surrogateescape"), option)
    try:
        return parse_json(Path(given[1:]).read_bytes(), given[1:])
    except OSError as exc:
        raise InputError(f"{option} {given}: {exc.strerror}") from None


def read_input(given: str | None, name: str | None) -> object:
    """A saga's input, which is an object; or, where its `name` is given, the value of that one alone."""
    document = read_document(given)
    if name is None:
        return document
    if given is None:
        raise InputError(f"--input-as {name} says what the input is, and there is none; give it with --input")
    return {name: document}


def read_duration(given: str | None, option: str) -> float | None:
    """A time as people write it, in seconds; None where nothing is given."""
    if given is None:
        return None
    found = duration_s(given)
    if found is None:
        raise InputError(f"{option} {given!r} is no duration of at most 366d; write 30s, 15m, 1h or 2d")
    return found


def read_limits(given: Iterable[str], declared: Limits | None) -> Limits | None:
    """Limits, each as NAME=AMOUNT, with the response that the definition has for it; None where none is given."""
    own, names, found = dict(declared.each() if declared else ()), tuple(LimitName), dict[str, Any]()
    for word in given:
        name, is_there, amount = word.partition("=")
        if name not in names:
            right = nearest(name, names)
            hint = f"did you mean {right}?" if right else f"known: {', '.join(names)}"
            raise InputError(f"--limit {word}: {name!r} is no limit; {hint}")
        if not is_there:
            raise InputError(f"--limit {name} says no amount; write --limit {name}=5")
        if name in found:
            raise InputError(f"--limit {name} is given twice; keep one of them")
        known = own.get(LimitName(name))
        most: int | str = int(amount) if amount.isascii() and amount.isdecimal() else amount
        try:
            whole(name, most)
        except DeclarationError as exc:
            raise InputError(f"--limit {word}: {str(exc).removeprefix('Limits: ')}") from None
        found[name] = Limit(most, known.then, known.stop_children) if known else Limit(most)
    return Limits(**found) if found else None


def read_policy(file: str) -> Policy:
    """A policy for a command that is about something else: one mistake stands for all."""
    from amends.gate.load import load_policy  # and YAML: not for those who name no policy

    try:
        return load_policy(file)
    except PolicyError as exc:
        if len(exc.mistakes) == 1:
            raise
        more = f"{exc.mistakes[0]} (and more: amends policy check {file})"
        raise PolicyError([more]) from None


def read_labels(given: Iterable[str]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for label in given:
        name, equals, value = label.partition("=")
        if not name or not equals:
            raise InputError(f"--label {label!r} is not name=value")
        if name in labels:
            raise InputError(f"--label {name} is given twice")
        labels[name] = value
    return labels


def read_moment(given: str, option: str, now: int) -> int:
    """A time in milliseconds, read in one way by every command.

    An age (`7d`, `12h`, `0s`) is so long before now. A date is its midnight in UTC, wherever it is read. A time, as ISO
    8601 has it, says its zone: a journal is read in several, and what is removed by a time does not come back.
    """
    ago_s = age_s(given)
    try:
        if ago_s is not None:
            return now - round(ago_s * 1000)
        found = datetime.fromisoformat(given)
        if found.tzinfo is None:
            if "T" in given or " " in given:
                raise InputError(f"{option} {given!r} does not say in which zone; add Z, or +02:00")
            found = found.replace(tzinfo=UTC)
        return round(found.timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise InputError(
            f"{option} {given!r} is no time; write 7d or 12h for so long ago, 2026-03-31, or 2026-03-31T13:40:18Z"
        ) from None
