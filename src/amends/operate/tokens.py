"""Tokens: who a secret stands for before a server, and what they may. The journal keeps digests, and no secret.

They stand in the saga `amends.control`, with who made and who revoked each. A secret is 256 random bits, so its SHA-256
needs no salt: nobody tries them all.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from amends.clock import Clock, new_secret
from amends.core import events as e
from amends.core.state.deciders import normal
from amends.core.words.values import CONTROL, PERSON, SagaId
from amends.dataclass import dataclass
from amends.errors import InputError, UnknownError
from amends.journal.port.journal import Journal
from amends.runtime.declare.names import checked_actor
from amends.runtime.drive.pauses import Pauses

SCOPES: Final = ("view", "run", "decide", "admin")
PREFIX: Final = "amends_"
"""What a secret begins with, so that whoever finds one knows what it is."""
LONGEST_S: Final = 366 * 86400.0
_SAGA: Final = SagaId(CONTROL)
_BITS: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One token as it is on record. `id` is the beginning of its digest."""

    name: str
    digest: str
    scopes: tuple[str, ...]
    definitions: tuple[str, ...]
    by: str
    made_at: int
    expires_at: int
    revoked_by: str = ""

    @property
    def id(self) -> str:
        return self.digest[:12]

    def is_good(self, now: int) -> bool:
        return not self.revoked_by and now < self.expires_at


class NewToken(NamedTuple):
    """A token and its secret, which is shown once."""

    token: Token
    secret: str


class Tokens:
    """The tokens of a journal, as far as they are known here. `refresh` looks for news."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._seen = 0
        self._known: dict[str, Token] = {}

    async def refresh(self) -> None:
        row = await self._journal.saga(_SAGA)
        if row is None or row.entries == self._seen:
            return
        async for entry in self._journal.read(_SAGA, after=self._seen):
            self._seen = max(self._seen, entry.number)
            match entry.event:
                case e.TokenMade() as made:
                    self._known[made.digest] = Token(
                        name=made.name,
                        digest=made.digest,
                        scopes=made.scopes,
                        definitions=made.definitions,
                        by=made.by,
                        made_at=entry.at,
                        expires_at=made.expires_at,
                    )
                case e.TokenRevoked(digest=digest, by=by):
                    if digest in self._known:
                        self._known[digest] = replace(self._known[digest], revoked_by=by)
                case _:
                    pass

    def all(self) -> tuple[Token, ...]:
        """Every token there ever was, oldest first."""
        return tuple(self._known.values())

    def of_digest(self, digest: str) -> Token | None:
        """The token whose secret has this digest, good or not, as far as is known here."""
        return self._known.get(digest)

    async def create(
        self, name: str, *, scopes: Collection[str], definitions: Sequence[str], lasts_s: float, by: str
    ) -> NewToken:
        """Make one and put its digest on record. Raises InputError, RefusedError."""
        who = checked_actor(name)
        unknown = [one for one in scopes if one not in SCOPES]
        if unknown or not scopes:
            raise InputError(f"{', '.join(unknown) or 'nothing'} is no scope; there are: {', '.join(SCOPES)}")
        if not who.startswith(PERSON) and ("admin" in scopes or {"run", "decide"} <= set(scopes)):
            raise InputError(
                f"{who} is no person: only people administer, and nobody else who runs sagas decides about them; give "
                "it run or decide, without admin"
            )
        if not 0 < lasts_s <= LONGEST_S:
            raise InputError("a token lasts at least a moment and at most 366 days")
        secret = PREFIX + base64.urlsafe_b64encode(new_secret(_BITS // 8)).decode().rstrip("=")
        now = self._clock.now()
        made = e.TokenMade(
            name=who,
            digest=digest_of(secret),
            scopes=tuple(one for one in SCOPES if one in scopes),
            definitions=tuple(definitions) or ("*",),
            expires_at=now + round(lasts_s * 1000),
            by=by,
        )
        await self._keep(made)
        await self.refresh()
        return NewToken(self._known[made.digest], secret)

    async def revoke(self, named: str, *, by: str, why: str) -> tuple[Token, ...]:
        """Revoke every good token of this name, or the one of this id. Raises UnknownError where there is none."""
        await self.refresh()
        wanted = normal(named)
        found = [
            one
            for one in self._known.values()
            if not one.revoked_by and (normal(one.name) == wanted if ":" in named else named in {one.id, one.digest})
        ]
        if not found:
            raise UnknownError(f"there is no token {named} that could be revoked; amends token list shows them")
        for one in found:
            await self._keep(e.TokenRevoked(digest=one.digest, by=by, why=why))
        await self.refresh()
        return tuple(self._known[one.digest] for one in found)

    async def _keep(self, fact: e.TokenEvent) -> None:
        await Pauses(self._journal, self._clock, 0.0).keep(lambda: fact)


def token_fields(one: Token) -> dict[str, object]:
    """Fields for a program; never the secret."""
    return {
        "id": one.id,
        "name": one.name,
        "scopes": list(one.scopes),
        "definitions": list(one.definitions),
        "by": one.by,
        "made_at": one.made_at,
        "expires_at": one.expires_at,
        "revoked_by": one.revoked_by,
    }


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
