"""Single sign-on by OpenID Connect: the code flow with PKCE, against any provider that describes itself.

What a person brings back counts once, in the browser that was sent away, for ten minutes. Their name is a claim of the
ID token, signed by a key of the provider; what they may, the groups in it say. That counts for a time, and then the
browser is sent there again, which mostly answers without asking anybody. Where the provider says that somebody has
logged out (back-channel logout), their sessions end at once.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any, Final, NamedTuple, cast
from urllib.parse import urlencode, urlsplit

import httpx2
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from amends.clock import Clock
from amends.dataclass import dataclass
from amends.errors import InputError, UnknownCallerError
from amends.http.callers import Caller
from amends.http.console.roles import Roles, caller_in
from amends.http.console.session import make_secret

CALLBACK: Final = "/login/oidc/back"
LOGOUT: Final = "/login/oidc/out"
AGE_S: Final = 3600.0
_LOGGED_OUT: Final = "http://schemas.openid.net/event/backchannel-logout"
LASTS_S: Final = 600.0
_LEEWAY_S: Final = 60
_KEYS_S: Final = 600.0
_TIMEOUT_S: Final = 10.0
_LARGEST: Final = 1024 * 1024
_MOST_OPEN: Final = 10_000
_ALGORITHMS: Final = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
_DESCRIPTION: Final = "/.well-known/openid-configuration"


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcSettings:
    """`url` is where people reach this server; `name_claim` is the claim that a person is called by."""

    issuer: str
    client: str
    secret: str
    url: str
    roles: Roles
    name_claim: str = "email"
    groups_claim: str = "groups"
    scopes: str = "openid email profile groups"
    age_s: float = AGE_S
    """How long the provider's word counts; then a browser is sent there again."""

    def __post_init__(self) -> None:
        for what, address in (("--oidc-issuer", self.issuer), ("--url", self.url)):
            parts = urlsplit(address)
            is_near = parts.hostname in {"localhost", "127.0.0.1", "::1"}
            if parts.scheme not in {"https", "http"} or not parts.netloc or (parts.scheme == "http" and not is_near):
                raise InputError(f"{what} {address}: give an address that begins with https://")

    @property
    def redirect(self) -> str:
        return self.url.rstrip("/") + CALLBACK


class SentAway(NamedTuple):
    """Somebody who was sent to the provider: what they have to bring back, and where they wanted to go."""

    nonce: str
    verifier: str
    next: str
    until_s: float


class SignedOn(NamedTuple):
    """Somebody who came back: who they are, where they wanted to go, and by what the provider knows them."""

    caller: Caller
    next: str
    subject: str
    session: str


class Provider:
    """One provider, as it describes itself."""

    def __init__(self, settings: OidcSettings, clock: Clock) -> None:
        self.settings = settings
        self._clock = clock
        self._sent: dict[str, SentAway] = {}
        self._described: dict[str, Any] = {}
        self._keys: KeySet | None = None
        self._keys_s = float("-inf")
        self._heard: dict[str, float] = {}

    async def leave(self, to: str) -> tuple[str, str]:
        """The provider's address to send somebody to, and the state that they have to bring back."""
        described = await self._description()
        now = self._clock.elapsed()
        self._sent = {state: sent for state, sent in self._sent.items() if sent.until_s > now}
        if len(self._sent) >= _MOST_OPEN:
            raise UnknownCallerError("too many are logging in just now; try again in some minutes")
        state, sent = make_secret(), SentAway(make_secret(), make_secret(), to, now + LASTS_S)
        self._sent[state] = sent
        challenge = base64.urlsafe_b64encode(hashlib.sha256(sent.verifier.encode()).digest()).decode().rstrip("=")
        asked = {
            "response_type": "code",
            "client_id": self.settings.client,
            "redirect_uri": self.settings.redirect,
            "scope": self._scopes(described),
            "state": state,
            "nonce": sent.nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        endpoint = str(described["authorization_endpoint"])
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(asked)}", state

    async def back(self, state: str, kept: str, code: str) -> SignedOn:
        """The person who has come back with a code. Raises UnknownCallerError, ForbiddenError."""
        sent = self._sent.pop(state, None)
        is_same = hmac.compare_digest(state.encode(), kept.encode())
        if sent is None or not is_same or sent.until_s < self._clock.elapsed():
            raise UnknownCallerError("this login was begun in another browser, or too long ago; log in again")
        claims = await self._claims(code, sent)
        name = claims.get(self.settings.name_claim)
        if not isinstance(name, str) or not name:
            raise UnknownCallerError(f"the provider does not say the claim {self.settings.name_claim}")
        if self.settings.name_claim == "email" and claims.get("email_verified") is False:
            raise UnknownCallerError(f"the provider has not verified that {name} is yours")
        groups = _texts(claims.get(self.settings.groups_claim))
        caller = caller_in(self.settings.roles, name, groups, "oidc")
        return SignedOn(caller, sent.next, _text(claims.get("sub")), _text(claims.get("sid")))

    async def logged_out(self, token: str) -> tuple[str, str]:
        """Whom a logout token names, and which session of theirs; '' for what it does not name.

        Raises UnknownCallerError for one that is not the provider's, for another client, not of now, or heard before.
        """
        claims = await self._signed(token, "the logout token")
        now, at = self._clock.now() / 1000, claims.get("iat")
        audience = claims.get("aud")
        meant = [audience] if isinstance(audience, str) else _texts(audience)
        events = claims.get("events")
        subject, session, name = (_text(claims.get(each)) for each in ("sub", "sid", "jti"))
        self._heard = {each: until for each, until in self._heard.items() if until > now}
        wrong = (
            "of another issuer" if claims.get("iss") != self.settings.issuer
            else "for another client" if self.settings.client not in meant
            else "no logout token" if not isinstance(events, dict) or _LOGGED_OUT not in events or "nonce" in claims
            else "of nobody" if not (subject or session)
            else "of another time" if not isinstance(at, int | float) or abs(now - at) > LASTS_S
            else "heard already" if not name or name in self._heard
            else ""
        )  # fmt: skip
        if wrong:
            raise UnknownCallerError(f"the logout token is {wrong}")
        self._heard[name] = now + 2 * LASTS_S
        return subject, session

    async def _claims(self, code: str, sent: SentAway) -> dict[str, Any]:
        described = await self._description()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.settings.redirect,
            "code_verifier": sent.verifier,
        }
        answer = await self._ask(str(described["token_endpoint"]), form)
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise UnknownCallerError("the provider gave no ID token")
        claims = await self._signed(token, "the ID token")
        self._require(claims, sent)
        return claims

    async def _signed(self, token: str, what: str) -> dict[str, Any]:
        """The claims of a token that a key of the provider has signed."""
        try:
            return jwt.decode(token, await self._key_set(), algorithms=_ALGORITHMS).claims
        except (JoseError, ValueError):
            self._keys_s = float("-inf")  # its keys may have changed
        try:
            return jwt.decode(token, await self._key_set(), algorithms=_ALGORITHMS).claims
        except (JoseError, ValueError) as exc:
            raise UnknownCallerError(f"{what} is not the provider's ({exc})") from None

    def _require(self, claims: dict[str, Any], sent: SentAway) -> None:
        """Raises UnknownCallerError for an ID token that is not for this client, this login, or now."""
        now = self._clock.now() / 1000
        audience = claims.get("aud")
        meant = [audience] if isinstance(audience, str) else _texts(audience)
        until = claims.get("exp")
        wrong = (
            "of another issuer" if claims.get("iss") != self.settings.issuer
            else "for another client" if self.settings.client not in meant
            else "for another client" if len(meant) > 1 and claims.get("azp") != self.settings.client
            else "of another login" if claims.get("nonce") != sent.nonce
            else "expired" if not isinstance(until, int | float) or until + _LEEWAY_S < now
            else ""
        )  # fmt: skip
        if wrong:
            raise UnknownCallerError(f"the ID token is {wrong}; log in again")

    # -- the provider -------------------------------------------------------------------------------------------------

    def _scopes(self, described: dict[str, Any]) -> str:
        offered = described.get("scopes_supported")
        wanted = self.settings.scopes.split()
        return " ".join(one for one in wanted if not isinstance(offered, list) or one in offered)

    async def _description(self) -> dict[str, Any]:
        if not self._described:
            found = await self._ask(self.settings.issuer.rstrip("/") + _DESCRIPTION)
            if found.get("issuer") != self.settings.issuer:
                raise UnknownCallerError(f"{self.settings.issuer} says that it is {found.get('issuer')}")
            self._described = found
        return self._described

    async def _key_set(self) -> KeySet:
        if self._keys is None or self._clock.elapsed() > self._keys_s + _KEYS_S:
            found = await self._ask(str((await self._description())["jwks_uri"]))
            self._keys = KeySet.import_key_set(cast("Any", found))
            self._keys_s = self._clock.elapsed()
        return self._keys

    async def _ask(self, address: str, form: dict[str, str] | None = None) -> dict[str, Any]:
        """Raises UnknownCallerError where it does not answer as it should."""
        try:
            async with httpx2.AsyncClient(timeout=_TIMEOUT_S, trust_env=False) as client:
                if form is None:
                    answer = await client.get(address)
                else:
                    credentials = (self.settings.client, self.settings.secret)
                    answer = await client.post(address, data=form, auth=credentials)
                if answer.status_code != 200 or len(answer.content) > _LARGEST:
                    raise UnknownCallerError(f"the provider answers {answer.status_code}; log in with a token")
                found: object = json.loads(answer.content)
        except (httpx2.HTTPError, ValueError) as exc:
            raise UnknownCallerError(f"the provider cannot be reached ({exc}); log in with a token") from None
        if not isinstance(found, dict):
            raise UnknownCallerError("the provider answers something else than it should; log in with a token")
        return cast("dict[str, Any]", found)


def _texts(value: object) -> list[str]:
    return [one for one in cast("list[object]", value) if isinstance(one, str)] if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
