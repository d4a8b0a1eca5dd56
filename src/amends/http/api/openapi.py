"""The document of the API in OpenAPI 3.1, made from its operations: nothing of it is written twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

from amends.http.api.operations import JSON_TYPE, Operation
from amends.http.keys import HEADER, KEPT_S, LONGEST_KEY, REPLAYED
from amends.http.problems import MEDIA_TYPE
from amends.runtime.values.schema import Definitions, Schema

_VERSION: Final = "1"
_PROBLEM: Final[Schema] = {
    "type": "object",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
    "required": ["type", "title", "status", "detail"],
}
_KEY: Final[Schema] = {
    "name": HEADER,
    "in": "header",
    "required": True,
    "description": (
        "Your own id of this request, a new one for each: sent again with the same body, it is the same request, and "
        f"gets the same answer, with {REPLAYED}: true. It is known for {round(KEPT_S / 3600)} hours."
    ),
    "schema": {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY, "pattern": "^[!-~]+$"},
}

_NAME: Final[Schema] = {
    **_KEY,
    "required": False,
    "description": "The `call` of a step that has none. What a token or a session names already needs no key.",
}


def described(operations: Sequence[Operation]) -> Schema:
    parts = Definitions()
    paths: dict[str, Schema] = {}
    for one in operations:
        paths.setdefault(one.path.replace(":path", ""), {})[one.method.lower()] = _operation(one, parts)
    schemas = {**parts.parts, "Problem": _PROBLEM}
    whole: Schema = {
        "openapi": "3.1.0",
        "info": {"title": "amends", "version": _VERSION, "description": "Sagas for AI agents, over HTTP."},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }
    found: Schema = _in_components(whole)
    return found


def _in_components(part: object) -> Any:  # noqa: ANN401 - any part of a schema
    """A part with its references to where the document has its parts."""
    if isinstance(part, dict):
        return {
            name: each.replace("#/$defs/", "#/components/schemas/") if name == "$ref" else _in_components(each)
            for name, each in cast("dict[str, Any]", part).items()
        }
    return list(map(_in_components, cast("list[Any]", part))) if isinstance(part, list) else part  # type: ignore[redundant-cast] # pyright wants it


def _operation(one: Operation, parts: Definitions) -> Schema:
    answer: Schema = {"description": "As asked.", "content": {one.media_type: {"schema": one.gives}}}
    problems: Schema = {
        "description": "A problem: what it was, which one, and what to do.",
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    about, _, more = one.does.partition("\n")
    found: Schema = {
        "operationId": one.name,
        "summary": about.rstrip("."),
        "description": " ".join(more.split()),
        "parameters": one.parameters(parts) + ([_KEY if one.is_keyed else _NAME] if one.method == "POST" else []),
        "responses": {str(one.status): answer, "default": problems},
    }
    if one.method == "GET" and one.media_type == JSON_TYPE:
        found["responses"]["304"] = {"description": "Not changed since the ETag that was sent."}
    if one.method == "POST":
        schema = one.body(parts)
        found["requestBody"] = {"required": bool(schema["required"]), "content": {JSON_TYPE: {"schema": schema}}}
    return found
