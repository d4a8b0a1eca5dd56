"""The caller over HTTP: who the server takes whoever asks for, and what they may."""

from __future__ import annotations

from amends.http.api.operations import At, Operation, get
from amends.http.api.shapes import TEXT, many, record


async def show_caller(at: At) -> object:
    """Show who you are to this server, how that is proved, and what you may."""
    caller = at.caller
    return {
        "name": caller.name,
        "proof": caller.proof,
        "scopes": sorted(caller.scopes),
        "definitions": list(caller.definitions),
    }


def operations() -> tuple[Operation, ...]:
    shown = record(name=TEXT, proof=TEXT, scopes=many(TEXT), definitions=many(TEXT))
    return (get("/caller", show_caller, shown, scope=None),)
