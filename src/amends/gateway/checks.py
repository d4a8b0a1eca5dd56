"""Whether a contract fits the tools that it speaks of: every call can be made, every reference leads somewhere.

Only what the schemas say is held against it. Where a schema says nothing, an answer that lacks what is asked for
becomes an incident when it is used, and no call is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, cast

from amends.gateway.answers import AnswerTest
from amends.gateway.model import ProbeCall, ToolCall, ToolContract
from amends.gateway.references import MATCH, AnswerReference, Template, references

Wire = dict[str, Any]
Schemas = tuple[Wire | None, Wire | None]
"""Of what a tool takes, and of what it answers; None where nothing is said."""
SchemasOf = Callable[[str, str], Schemas | None]
_ALWAYS: Final = frozenset({"text", "content", "is_error", MATCH, "found"})
"""Names that every answer has, whatever its schema says."""


def unfit(file: str, contract: ToolContract, own: Schemas, of: SchemasOf) -> Iterator[str]:
    """All that does not fit, each with the line of the file."""
    before = contract.before
    outputs: dict[str, Wire | None] = {"result": own[1]}
    if before is not None:
        found = of(before.ask.server, before.ask.tool)
        outputs["before"] = found[1] if found else None
    for clause, call in contract.calls():
        for what in _of_call(call, of):
            yield f"{file}:{call.line}: {clause} of {contract.topic}: {what}"
        for reference in references([call.args, call.when, call.unless]):
            wrong = _of_reference(reference, own[0], outputs, has_before=before is not None)
            if wrong is not None:
                yield f"{file}:{call.line}: {clause} of {contract.topic}: {wrong}"
    if contract.probe is not None:
        for what in _of_probe(contract.probe, own[0], of):
            yield f"{file}:{contract.probe.ask.line}: probe of {contract.topic}: {what}"


def _of_call(call: ToolCall, of: SchemasOf) -> Iterator[str]:
    schemas = of(call.server, call.tool)
    if schemas is None:
        yield f"server {call.server} has no tool {call.tool}"
        return
    takes = schemas[0]
    known = _properties(takes)
    if takes is None or known is None or not isinstance(call.args, dict):
        return
    if takes.get("additionalProperties") is not True:
        for given in call.args:
            if given not in known:
                yield f"{call.words} takes no {given}; it takes {', '.join(known) or 'nothing'}"
    required = takes.get("required")
    for name in cast("list[str]", required) if isinstance(required, list) else ():
        if name not in call.args:
            yield f"{call.words} needs {name}"


def _of_reference(
    reference: AnswerReference, takes: Wire | None, outputs: dict[str, Wire | None], *, has_before: bool
) -> str | None:
    name = reference.name
    if reference.root == "before" and not has_before:
        return f"${{{reference.written}}}: it has no before"
    if name is None or reference.may_miss:
        return None
    if reference.root == "args":
        known = _properties(takes)
        if known and name not in known:
            return f"${{{reference.written}}} leads nowhere: the tool takes {', '.join(known)}"
        return None
    known = _properties(outputs.get(reference.root))
    if known and name not in known and name not in _ALWAYS:
        return f"${{{reference.written}}} leads nowhere: the answer has {', '.join(known)}"
    return None


def _of_probe(probe: ProbeCall, takes: Wire | None, of: SchemasOf) -> Iterator[str]:
    found = of(probe.ask.server, probe.ask.tool)
    outputs = {"answer": found[1] if found else None}
    checked: list[Template] = [probe.result]
    if not isinstance(probe.happened, AnswerTest):
        checked.append(probe.happened)
    for reference in references(checked):
        wrong = _of_reference(reference, takes, outputs, has_before=True)
        if wrong is not None:
            yield wrong


def _properties(schema: Wire | None) -> dict[str, Any] | None:
    """The names that an object of this schema has; None where nobody can say, as of one that is composed."""
    if not isinstance(schema, dict) or any(word in schema for word in ("anyOf", "oneOf", "allOf", "$ref")):
        return None
    found = schema.get("properties")
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None
