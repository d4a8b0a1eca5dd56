"""Callers by their token: `Authorization: Bearer …`, looked up by the digest of its secret."""

from __future__ import annotations

from starlette.requests import HTTPConnection

from amends.clock import Clock
from amends.http.callers import Caller, Scope, UnknownCallerError
from amends.journal.port.journal import Journal
from amends.operate.tokens import Token, Tokens, digest_of

POLL_S = 1.0


class BearerTokens:
    """Recognises tokens of the journal's own record. One that was revoked elsewhere is good for a second more."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._tokens = Tokens(journal, clock)
        self._clock = clock
        self._stale_at = float("-inf")

    def look_again(self) -> None:
        """Something was put on record about tokens: the next caller is held against that."""
        self._stale_at = float("-inf")

    async def recognise(self, connection: HTTPConnection) -> Caller | None:
        said = connection.headers.get("authorization", "")
        kind, _, secret = said.partition(" ")
        if kind.casefold() != "bearer":
            return None
        return await self.caller(secret.strip())

    async def caller(self, secret: str) -> Caller:
        """The caller that a secret stands for. Raises UnknownCallerError."""
        return await self.caller_of_digest(digest_of(secret))

    async def caller_of_digest(self, digest: str) -> Caller:
        """The caller that the secret with this digest stands for. Raises UnknownCallerError."""
        if self._clock.elapsed() >= self._stale_at:
            await self._tokens.refresh()
            self._stale_at = self._clock.elapsed() + POLL_S
        token = self._tokens.of_digest(digest)
        if token is None:
            await self._tokens.refresh()
            token = self._tokens.of_digest(digest)
        return self._caller(token)

    def _caller(self, token: Token | None) -> Caller:
        if token is None:
            raise UnknownCallerError("nobody has this token; make one: amends token create NAME --scope run")
        if token.revoked_by:
            raise UnknownCallerError(f"token {token.id} of {token.name} was revoked by {token.revoked_by}")
        if not token.is_good(self._clock.now()):
            raise UnknownCallerError(f"token {token.id} of {token.name} has expired; make another: amends token create")
        scopes = frozenset(map(Scope, token.scopes))
        return Caller(name=token.name, scopes=scopes, definitions=token.definitions)
