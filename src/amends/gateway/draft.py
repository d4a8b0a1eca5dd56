"""A first contracts file for a server, guessed from how it describes its tools; each line says from what.

Nothing of it is authority: a person reads it, and takes the `#` away from what they have confirmed. What a server
says of its own tools may raise their risk by itself (`destructiveHint`), and lowers it only as a line to confirm.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from amends.gateway.model import ServerPlan
from amends.gateway.topics import topics_of
from amends.text import visible

Wire = dict[str, Any]
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")
_MAKES: Final = ("create", "add", "insert", "new", "make", "register", "upload", "put", "post", "copy", "append")
_REMOVES: Final = ("delete", "remove", "drop", "destroy", "unregister", "erase", "clear")
_CHANGES: Final = ("update", "set", "edit", "write", "modify", "change", "patch", "replace", "save")
_MOVES: Final = ("move", "rename")
_LOOKS: Final = ("get", "read", "open", "fetch", "show", "describe", "find", "search", "list", "query", "status")
_PAIRS: Final = (
    ("start", "stop"),
    ("open", "close"),
    ("enable", "disable"),
    ("lock", "unlock"),
    ("subscribe", "unsubscribe"),
    ("attach", "detach"),
    ("assign", "unassign"),
    ("archive", "unarchive"),
    ("pin", "unpin"),
    ("mount", "unmount"),
    ("follow", "unfollow"),
    ("grant", "revoke"),
)
_OPPOSITES: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(_MAKES, _REMOVES),
    **{one: (other,) for one, other in _PAIRS},
    **{other: (one,) for one, other in _PAIRS},
}
_SWAPS: Final = (("source", "destination"), ("from", "to"), ("old_path", "new_path"), ("old", "new"), ("src", "dst"))
_LONGEST: Final = 110


class Guessed(NamedTuple):
    """One clause, as it is written, and what it was guessed from."""

    text: str
    why: str


class _Tool(NamedTuple):
    name: str
    topic: str
    wire: Wire
    digest: str
    verb: str
    object: frozenset[str]
    takes: tuple[str, ...]
    needs: tuple[str, ...]
    gives: tuple[str, ...]


def draft(plan: ServerPlan, tools: Sequence[tuple[Wire, str]]) -> str:
    """The text of a contracts file for a server's tools, each with the digest of its definition."""
    topics = topics_of(plan.name, (str(wire["name"]) for wire, _ in tools))
    known = [_read(wire, topics[str(wire["name"])], digest) for wire, digest in tools]
    where = f"command: {_listed(plan.command)}" if plan.command else f"url: {_quoted(plan.url)}"
    lines = [
        "# Drafted from how the server describes its tools. Read each line, and take the # away from what is right.",
        "version: v1",
        "mode: observe  # everything passes, and is on record; write enforce when the lines below are right",
        f"servers: {{{plan.name}: {{{where}, trusted: {str(plan.trusted).lower()}}}}}",
        "tools:",
    ]
    for tool in known:
        lines += _entry(tool, known, trusted=plan.trusted)
    lines += [
        "",
        "  # ? does an answer that is marked as an error mean that nothing happened? It is so of most tools; it is not",
        "  # where one fails in the middle of several changes",
        f"  # {plan.name}.*: {{failed_when: {{error: true}}}}",
    ]
    return "\n".join(lines) + "\n"


def _entry(tool: _Tool, known: Sequence[_Tool], *, trusted: bool) -> Iterator[str]:
    hints = cast("Wire", tool.wire.get("annotations") or {})
    says = visible(" ".join(str(tool.wire.get("description") or "").split()), _LONGEST)
    yield ""
    yield f"  # {visible(tool.name)}: {says}" if says else f"  # {visible(tool.name)}"
    if hints.get("destructiveHint") is True:
        yield "  # the server says that it destroys (destructiveHint): it has the risk `destructive`"
    if hints.get("readOnlyHint") is True:
        mark = "" if trusted else "# "
        note = "the server is trusted" if trusted else "the server says so of itself (readOnlyHint): confirm it"
        yield f"  {mark}{tool.topic}: {{read_only: true, definition: {tool.digest}}}  # {note}"
        return
    guessed = _inverse(tool, known)
    if guessed:
        yield f"  {tool.topic}:"
        yield f"    definition: {tool.digest}  # the tool as it was when this was drafted"
        for one in guessed:
            yield f"    # {one.why}"
            yield f"    {one.text}"
        return
    if tool.verb in _LOOKS and not hints:
        yield f"  # {tool.topic}: {{read_only: true, definition: {tool.digest}}}  # ? its name says that it only looks"
        return
    name = visible(tool.name)
    yield f"  # ? no inverse was found among the server's tools: what takes {name} back, or why can nothing?"
    yield f'  # {tool.topic}: {{no_rollback: "…", definition: {tool.digest}}}'


def _inverse(tool: _Tool, known: Sequence[_Tool]) -> list[Guessed]:
    if tool.verb in _MOVES:
        return _swapped(tool)
    if tool.verb in _CHANGES:
        return _restored(tool, known)
    for verb in _OPPOSITES.get(tool.verb, ()):
        other = next((one for one in known if one.verb == verb and one.object == tool.object), None)
        found = None if other is None else _called(tool, other)
        if found is not None:
            return [found]
    return []


def _called(tool: _Tool, other: _Tool) -> Guessed | None:
    """A call of the opposite tool, where all that it needs is known from the answer or from the arguments."""
    args: dict[str, str] = {}
    sources: list[str] = []
    for name in other.needs:
        bare = name.lower()
        if name in tool.gives:
            args[name] = f"${{result.{name}}}"
            sources.append(f"{visible(name)} by the answer's schema")
        elif name in tool.takes:
            args[name] = f"${{args.{name}}}"
            sources.append(f"{visible(name)} by the tool's own argument")
        elif bare.endswith("id") and not tool.gives:
            args[name] = "${result.id}"
            sources.append(f"{visible(name)} as the answer's id, of which no schema says anything: confirm it")
        else:
            return None
    why = f"{visible(other.name)} is its opposite by name" + (f"; {', '.join(sources)}" if sources else "")
    return Guessed(f"compensate: {{tool: {_quoted(other.name)}, args: {_mapped(args)}}}", why)


def _restored(tool: _Tool, known: Sequence[_Tool]) -> list[Guessed]:
    """A look before, and the same tool with what was there."""
    fits = [
        one
        for one in known
        if one.verb in _LOOKS and one.object == tool.object and one.needs and set(one.needs) <= set(tool.takes)
    ]
    if not fits:
        return []
    getter = fits[0]
    keys = set(getter.needs)
    back = {name: f"${{args.{name}}}" if name in keys else f"${{before.{name}}}" for name in tool.needs}
    unknown = [name for name in tool.needs if name not in keys and getter.gives and name not in getter.gives]
    if unknown or set(tool.needs) <= keys:
        return []
    look = _mapped({name: f"${{args.{name}}}" for name in getter.needs})
    said = "" if getter.gives else ", of which no schema says what it answers: confirm it"
    return [
        Guessed(
            f"before: {{tool: {_quoted(getter.name)}, args: {look}}}",
            f"{visible(getter.name)} looks at the same thing{said}",
        ),
        Guessed(
            f"compensate: {{tool: {_quoted(tool.name)}, args: {_mapped(back)}}}", "the same tool, with what was there"
        ),
    ]


def _swapped(tool: _Tool) -> list[Guessed]:
    for one, other in _SWAPS:
        if one in tool.takes and other in tool.takes:
            args = {name: f"${{args.{name}}}" for name in tool.needs}
            args |= {one: f"${{args.{other}}}", other: f"${{args.{one}}}"}
            call = f"compensate: {{tool: {_quoted(tool.name)}, args: {_mapped(args)}}}"
            return [Guessed(call, f"the same tool, with {visible(one)} and {visible(other)} the other way round")]
    return []


def _read(wire: Wire, topic: str, digest: str) -> _Tool:
    name = str(wire["name"])
    words = [word.lower() for word in _WORDS.findall(name)]
    verbs = {*_MAKES, *_REMOVES, *_CHANGES, *_MOVES, *_LOOKS, *_OPPOSITES}
    verb = next((word for word in words if word in verbs), "")
    rest = frozenset(_singular(word) for word in words if word != verb and word not in {"text", "details"})
    takes, needs = _names(wire.get("inputSchema"))
    gives, _ = _names(wire.get("outputSchema"))
    return _Tool(name, topic, wire, digest, verb, rest, takes, needs, gives)


def _names(schema: object) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Of an object's schema: its names, and those that it needs."""
    found = cast("Wire", schema) if isinstance(schema, dict) else {}
    properties = found.get("properties")
    required = found.get("required")
    names = tuple(cast("Wire", properties)) if isinstance(properties, dict) else ()
    needs = tuple(str(one) for one in cast("list[object]", required)) if isinstance(required, list) else ()
    return names, tuple(one for one in needs if one in names)


def _singular(word: str) -> str:
    return f"{word[:-3]}y" if word.endswith("ies") else word[:-1] if word.endswith("s") and len(word) > 3 else word  # noqa: PLR2004 - `bus` is one


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=True)


def _listed(words: Sequence[str]) -> str:
    return f"[{', '.join(map(_quoted, words))}]"


def _mapped(args: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{_quoted(name)}: {_quoted(value)}" for name, value in args.items()) + "}"
