"""How a refusal looks over HTTP: application/problem+json (RFC 9457), one `type` for each kind of error."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from amends import errors
from amends.errors import AmendsError
from amends.http.callers import ForbiddenError, UnknownCallerError

MEDIA_TYPE: Final = "application/problem+json"
_STATUS: Final[Mapping[type[AmendsError], int]] = {
    UnknownCallerError: 401,
    ForbiddenError: 403,
    errors.UnknownError: 404,
    errors.InputError: 422,
    errors.MistakesError: 422,
    errors.TooLargeError: 413,
    errors.DeclarationError: 422,
    errors.JournalError: 503,
    errors.JournalConflictError: 409,
}
_PHRASES: Final = {
    400: "Bad request", 401: "Who is asking?", 403: "Not allowed", 404: "Not found", 405: "Method not allowed",
    408: "Too slow", 409: "Refused", 413: "Too large", 415: "Not JSON", 422: "Not as it should be", 429: "Too many",
    500: "Our fault", 503: "Not now",
}  # fmt: skip


def problem(
    status: int, detail: str, *, kind: str = "about:blank", headers: Mapping[str, str] | None = None, **more: object
) -> Response:
    """An answer that says what went wrong, which one, and what to do."""
    body = {"type": kind, "title": _PHRASES.get(status, "Error"), "status": status, "detail": detail, **more}
    said = {**(headers or {}), **({"WWW-Authenticate": "Bearer"} if status == 401 else {})}
    return Response(json.dumps(body), status, said, MEDIA_TYPE)


def status_of(error: AmendsError) -> int:
    for kind in type(error).__mro__:
        if issubclass(kind, AmendsError) and kind in _STATUS:
            return _STATUS[kind]
    return 409


async def of_ours(_: Request, error: Exception) -> Response:
    """Any error of amends: its class is the type, its message the detail."""
    if not isinstance(error, AmendsError):
        raise error
    return problem(status_of(error), str(error), kind=f"urn:amends:{type(error).__name__}")


async def of_bug(_: Request, __: Exception) -> Response:
    """An error that nobody has foreseen; the log has it, and whoever asked learns nothing of it."""
    return problem(500, "the server could not do it, and its log says why; ask again with the same key")


async def of_http(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    if error.status_code == 404:
        return problem(404, f"there is nothing at {request.url.path[:200]}; /v1/openapi.json lists what there is")
    return problem(error.status_code, str(error.detail))
