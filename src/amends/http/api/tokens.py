"""Tokens over HTTP: made, listed and revoked, each in the name of a person who administers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from amends.clock import SystemClock
from amends.core import events as e
from amends.errors import InputError
from amends.http.api.operations import At, Leaves, Operation, Outgoing, get, post
from amends.http.api.shapes import TEXT, WHOLE, many, maybe, record
from amends.http.callers import Scope
from amends.journal.port.journal import Entry
from amends.operate.tokens import Tokens, token_fields
from amends.source.marked import duration_s

_FIELDS: Final = {
    "id": TEXT,
    "name": TEXT,
    "scopes": many(TEXT),
    "definitions": many(TEXT),
    "by": TEXT,
    "made_at": WHOLE,
    "expires_at": WHOLE,
    "revoked_by": TEXT,
}
TOKEN: Final = record(**_FIELDS)
NEW: Final = record(**_FIELDS, secret=maybe(TEXT))


async def list_tokens(at: At, *, every: bool = False) -> object:
    """List tokens: for whom, what they may, until when, and who made them. `every`: those too that are good no more."""
    tokens, now = await _tokens(at), SystemClock().now()
    return {"items": [token_fields(one) for one in tokens.all() if every or one.is_good(now)]}


async def create_token(
    at: At, *, name: str, scopes: list[Scope], definitions: list[str] | None = None, expires: str = "30d"
) -> object:
    """Make a token for `name`, such as agent:shop or person:anna. Its `secret` is in this answer, and kept nowhere.

    `scopes`: view, run, decide, admin; for no person admin, nor run and decide together. `definitions`: globs over
    what it may run; all, where none are given. Sent again with the same key, the answer is without the secret.
    """
    lasts_s = duration_s(expires)
    if lasts_s is None:
        raise InputError(f"expires {expires[:80]!r} is no time of at most 366d; say 12h or 30d")
    tokens = await _tokens(at)
    made = await tokens.create(
        name,
        scopes=tuple(map(str, scopes)),
        definitions=definitions or (),
        lasts_s=lasts_s,
        by=at.caller.name,
    )
    return Outgoing({**token_fields(made.token), "secret": made.secret}, 201)


async def revoke_token(at: At, token: str, *, why: str) -> object:
    """Have a token, by its id, or all tokens of a name, be good for nothing more."""
    tokens = await _tokens(at)
    revoked = await tokens.revoke(token, by=at.caller.name, why=why)
    at.served.tokens.look_again()
    return {"items": [token_fields(one) for one in revoked]}


async def _tokens(at: At) -> Tokens:
    tokens = Tokens(at.journal, SystemClock())
    await tokens.refresh()
    return tokens


async def _made(at: At, name: str, **_: object) -> object:
    """The newest token of that name that the caller has made; nobody has its secret any more."""
    tokens = await _tokens(at)
    made = [one for one in tokens.all() if one.by == at.caller.name and one.name == name]
    return Outgoing({**token_fields(made[-1]), "secret": None}, 201)


async def _revoked(at: At, token: str, **_: object) -> object:
    tokens = await _tokens(at)
    found = [one for one in tokens.all() if one.revoked_by and token in {one.id, one.name}]
    return {"items": [token_fields(one) for one in found]}


def _is_of(entry: Entry, given: Mapping[str, object]) -> bool:
    event = entry.event
    return isinstance(event, e.TokenMade) and set(event.scopes) == set(cast("list[str]", given["scopes"]))


def _is_revoked(entry: Entry, given: Mapping[str, object]) -> bool:
    event, token = entry.event, str(given["token"])
    return isinstance(event, e.TokenRevoked) and (":" in token or event.digest.startswith(token[:12]))


def operations() -> tuple[Operation, ...]:
    tokens = record(items=many(TOKEN))
    makes = Leaves(events=(e.TokenMade,), shows=_made, fits=_is_of, others=frozenset({"scopes", "definitions"}))
    revokes = Leaves(events=(e.TokenRevoked,), shows=_revoked, fits=_is_revoked)
    return (
        get("/tokens", list_tokens, tokens, scope=Scope.ADMIN),
        post("/tokens", create_token, NEW, scope=Scope.ADMIN, status=201, leaves=makes, is_secret=True),
        post("/tokens/{token}/revoke", revoke_token, tokens, scope=Scope.ADMIN, leaves=revokes),
    )
