"""Sessions of people with a browser: a secret in a cookie, kept here by its digest, and what it stands for.

They live in the memory of the server, so its end is the end of all of them. A secret is changed every quarter of an
hour: the one before it is good for a minute more, for the requests that are under way. Whoever came with a token is in
as long as the token is good; for whom a provider vouches, until it is time to ask that again.
"""

from __future__ import annotations

import base64
import hmac
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from amends.clock import Clock, new_secret
from amends.core.state.deciders import normal
from amends.errors import UnknownCallerError
from amends.http.bearer import BearerTokens
from amends.http.callers import EVERY_SCOPE, Caller
from amends.operate.tokens import digest_of
from amends.runtime.declare.names import login

IDLE_S: Final = 12 * 3600.0
LONGEST_S: Final = 7 * 86400.0
ROTATE_S: Final = 900.0
OVERLAP_S: Final = 60.0
ONCE_S: Final = 3600.0
"""How long the address that a server prints is good for."""
MOST_TRIES: Final = 10
TRIES_S: Final = 60.0
_MOST_PLACES: Final = 10_000
_MOST_SESSIONS: Final = 10_000


def make_secret() -> str:
    return base64.urlsafe_b64encode(new_secret(32)).decode().rstrip("=")


@dataclass(slots=True, kw_only=True)
class Vouched:
    """A provider's word for who somebody is: its own names of them and of their session, and until when it counts."""

    subject: str
    session: str
    until_s: float


@dataclass(slots=True, kw_only=True)
class Login:
    """One session. `token` is the digest of the token that it began with; '' where it was another way."""

    caller: Caller
    token: str = ""
    vouched: Vouched | None = None
    csrf: str = field(default_factory=make_secret)
    began_s: float
    seen_s: float
    digest: str
    digest_s: float
    former: str = ""
    told: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Lines that the next page says first: a tone, and the text."""

    def has_csrf(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.csrf.encode())


class Logins:
    """The sessions of a server, and the ways to begin one with a secret."""

    def __init__(self, tokens: BearerTokens, clock: Clock) -> None:
        self._tokens = tokens
        self._clock = clock
        self._known: dict[str, Login] = {}
        self._tries: dict[str, deque[float]] = {}
        self._once = ""
        self._once_until_s = 0.0

    # -- beginning ----------------------------------------------------------------------------------------------------

    def new_once(self) -> str:
        """A secret with which whoever runs this server may log in, once, as the user that it runs as."""
        made = make_secret()
        self._once, self._once_until_s = digest_of(made), self._clock.elapsed() + ONCE_S
        return made

    async def begin(self, secret: str, place: str) -> tuple[Login, str]:
        """A session for a secret, and its cookie's value. Raises UnknownCallerError. `place`: where it was tried."""
        caller, token = await self._caller(secret)
        self.forgive(place)
        return self.admit(caller, token=token)

    def admit(self, caller: Caller, *, token: str = "", vouched: Vouched | None = None) -> tuple[Login, str]:
        """A session for somebody whose name is proved."""
        self._sweep()
        made, now = make_secret(), self._clock.elapsed()
        digest = digest_of(made)
        session = Login(
            caller=caller, token=token, vouched=vouched, began_s=now, seen_s=now, digest=digest, digest_s=now
        )
        self._known[digest] = session
        return session, made

    async def _caller(self, secret: str) -> tuple[Caller, str]:
        is_once = bool(self._once) and hmac.compare_digest(digest_of(secret), self._once)
        if is_once and self._clock.elapsed() < self._once_until_s:
            self._once = ""
            return Caller(name=login(), scopes=EVERY_SCOPE, proof="login"), ""
        if is_once:
            raise UnknownCallerError("this address is too old; start the server anew, or log in with a token")
        return await self._tokens.caller(secret), digest_of(secret)

    def may_try(self, place: str) -> bool:
        """Whether somebody from there may try a secret now; it counts as a try."""
        now = self._clock.elapsed()
        if place not in self._tries and len(self._tries) >= _MOST_PLACES:
            self._tries.clear()
        tries = self._tries.setdefault(place, deque())
        while tries and tries[0] <= now - TRIES_S:
            tries.popleft()
        if len(tries) >= MOST_TRIES:
            return False
        tries.append(now)
        return True

    def forgive(self, place: str) -> None:
        """Somebody from there has logged in: their tries do not count any more."""
        self._tries.pop(place, None)

    # -- going on -----------------------------------------------------------------------------------------------------

    async def of(self, secret: str) -> tuple[Login, str] | None:
        """The session of a cookie, and the secret that is its next one; '' where that stays."""
        digest, now = digest_of(secret), self._clock.elapsed()
        found = self._known.get(digest)
        if found is None or (digest == found.former and now >= found.digest_s + OVERLAP_S):
            return None
        if _is_due(found, now):
            return None  # it stays known, so that whoever has it is sent to the provider, and not to the first page
        if now >= found.seen_s + IDLE_S or now >= found.began_s + LONGEST_S or not await self._is_good(found):
            self.end(found)
            return None
        found.seen_s = now
        if digest == found.former or now < found.digest_s + ROTATE_S:
            return found, ""
        return found, self._rotated(found, now)

    def is_due(self, secret: str) -> bool:
        """Whether it is the cookie of a session that goes on as soon as the provider has vouched for it again."""
        found, now = self._known.get(digest_of(secret)), self._clock.elapsed()
        return found is not None and _is_due(found, now)

    async def lasts(self, session: Login) -> bool:
        """Whether a session goes on: asked by whoever serves one for long. It does not count as something done."""
        is_known = self._known.get(session.digest) is session and not _is_due(session, self._clock.elapsed())
        return is_known and self._clock.elapsed() < session.seen_s + IDLE_S and await self._is_good(session)

    async def _is_good(self, found: Login) -> bool:
        """Whether its token still is; and its scopes are those of the token now."""
        if not found.token:
            return True
        try:
            found.caller = await self._tokens.caller_of_digest(found.token)
        except UnknownCallerError:
            return False
        return True

    def _rotated(self, found: Login, now: float) -> str:
        made = make_secret()
        self._known.pop(found.former, None)
        found.former, found.digest, found.digest_s = found.digest, digest_of(made), now
        self._known[found.digest] = found
        return made

    def look_again(self) -> None:
        """A token was made or revoked here: whoever comes next is held against that."""
        self._tokens.look_again()

    # -- ending -------------------------------------------------------------------------------------------------------

    def end(self, session: Login) -> None:
        self._known.pop(session.digest, None)
        self._known.pop(session.former, None)

    def end_all(self, name: str) -> int:
        """End every session of a person; how many there were."""
        theirs = self.of_person(name)
        for one in theirs:
            self.end(one)
        return len(theirs)

    def end_vouched(self, subject: str, session: str) -> int:
        """End what a provider says is over: one session of its own, or, where it names none, all of somebody."""
        theirs = [one for one in self._each() if one.vouched is not None and _is_of(one.vouched, subject, session)]
        for one in theirs:
            self.end(one)
        return len(theirs)

    def replace(self, secret: str) -> None:
        """End the session of a cookie, where it has one: whoever has it begins another."""
        found = self._known.get(digest_of(secret))
        if found is not None:
            self.end(found)

    def of_person(self, name: str) -> list[Login]:
        return [one for one in self._each() if normal(one.caller.name) == normal(name)]

    def _each(self) -> list[Login]:
        return list({id(one): one for one in self._known.values()}.values())

    def _sweep(self) -> None:
        now = self._clock.elapsed()
        for one in list(self._known.values()):
            if now >= one.seen_s + IDLE_S or len(self._known) > _MOST_SESSIONS:
                self.end(one)


def _is_due(session: Login, now_s: float) -> bool:
    return session.vouched is not None and now_s >= session.vouched.until_s


def _is_of(vouched: Vouched, subject: str, session: str) -> bool:
    if session:
        return vouched.session == session and subject in {"", vouched.subject}
    return bool(subject) and vouched.subject == subject
