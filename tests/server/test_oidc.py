"""ID tokens that a provider should never have given, and settings that do not hold together: each is refused."""

import asyncio
import json
import threading
import time
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OctKey

from amends.clock import SystemClock
from amends.errors import AmendsError, ForbiddenError, UnknownCallerError
from amends.http.bearer import BearerTokens
from amends.http.callers import Caller, Scope
from amends.http.console.oidc import OidcSettings, Provider
from amends.http.console.roles import read_roles
from amends.http.console.session import Logins, Vouched
from amends.journal.memory import MemoryJournal
from amends.testing.clock import ManualClock
from tests.server.serving import run_cli

KEY = ECKey.generate_key("P-256", {"kid": "one", "use": "sig", "alg": "ES256"})
OTHER = ECKey.generate_key("P-256", {"kid": "one", "use": "sig", "alg": "ES256"})


class Lying(ThreadingHTTPServer):
    """A provider that says in its tokens whatever it is told to say."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.claims: dict[str, Any] = {}
        self.token = ""
        self.issuer = f"http://127.0.0.1:{self.server_port}"
        self.says_issuer = self.issuer


class _Answering(BaseHTTPRequestHandler):
    @property
    def lying(self) -> Lying:
        return cast("Lying", self.server)

    def do_GET(self) -> None:
        about = {"authorization_endpoint": "/auth", "token_endpoint": "/token", "jwks_uri": "/keys"}
        described = {name: self.lying.issuer + path for name, path in about.items()}
        described |= {"issuer": self.lying.says_issuer}
        self._say(KeySet([KEY]).as_dict(private=False) if self.path == "/keys" else described)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self._say({"id_token": self.lying.token, "token_type": "Bearer"})

    def _say(self, what: Any) -> None:
        body = json.dumps(what).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        del format, args


@pytest.fixture
def lying() -> Generator[Lying]:
    with Lying() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def _settings(lying: Lying) -> OidcSettings:
    return OidcSettings(
        issuer=lying.issuer,
        client="amends",
        secret="x",
        url="http://localhost:1",
        roles=read_roles(["on-call=view,decide"]),
    )


def _logged_in(lying: Lying, *, algorithm: str = "ES256", key: Any = KEY, **wrong: Any) -> Caller:
    async def whole() -> Caller:
        provider = Provider(_settings(lying), SystemClock())
        address, state = await provider.leave("/approvals")
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        assert (asked["code_challenge_method"], asked["response_type"]) == ("S256", "code")
        claims = {
            "iss": lying.issuer,
            "aud": "amends",
            "sub": "1",
            "sid": "s1",
            "exp": int(time.time()) + 300,
            "nonce": asked["nonce"],
            "email": "anna@example.com",
            "groups": ["on-call"],
        }
        claims = {name: value for name, value in (claims | wrong).items() if value is not None}
        lying.token = jwt.encode({"alg": algorithm, "kid": "one"}, claims, key, algorithms=[algorithm])
        came = await provider.back(state, state, "a code")
        assert (came.next, came.subject, came.session) == ("/approvals", "1", "s1")
        with pytest.raises(UnknownCallerError, match="begun in another browser"):
            await provider.back(state, state, "a code")
        return came.caller

    return asyncio.run(whole())


def test_a_good_token_names_a_person_with_the_scopes_of_their_groups(lying: Lying) -> None:
    caller = _logged_in(lying)
    assert (caller.name, caller.proof) == ("person:anna@example.com", "oidc")
    assert caller.scopes == {Scope.VIEW, Scope.DECIDE}
    assert _logged_in(lying, aud=["amends", "other"], azp="amends").name == caller.name


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"iss": "https://evil.example"}, "of another issuer"),
        ({"aud": "another"}, "for another client"),
        ({"aud": None}, "for another client"),
        ({"aud": ["amends", "another"]}, "for another client"),
        ({"aud": ["amends", "another"], "azp": "another"}, "for another client"),
        ({"nonce": "another"}, "of another login"),
        ({"nonce": None}, "of another login"),
        ({"exp": 1}, "expired"),
        ({"exp": None}, "expired"),
        ({"email": None}, "does not say the claim email"),
        ({"email": ["anna"]}, "does not say the claim email"),
        ({"email_verified": False}, "has not verified"),
        ({"key": OTHER}, "is not the provider's"),
        (
            {"algorithm": "HS256", "key": OctKey.import_key("a key that anybody could know, of 32 b")},
            "not the provider's",
        ),
    ],
)
def test_a_token_that_is_not_for_this_login_names_nobody(lying: Lying, wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(UnknownCallerError, match=says):
        _logged_in(lying, **wrong)


@pytest.mark.parametrize("groups", [None, [], ["others"], "on-call", {"on-call": True}, [7]])
def test_groups_that_are_not_said_as_they_should_be_let_nobody_in(lying: Lying, groups: Any) -> None:
    with pytest.raises(ForbiddenError, match="is in none of the groups"):
        _logged_in(lying, groups=groups)


def test_a_provider_that_says_it_is_another_is_not_asked_further(lying: Lying) -> None:
    lying.says_issuer = "https://evil.example"
    with pytest.raises(UnknownCallerError, match=r"says that it is https://evil\.example"):
        _logged_in(lying)


def test_a_name_that_is_no_name_is_refused(lying: Lying) -> None:
    for name in ("anna\nagent:x", " ", "a" * 500):
        with pytest.raises(AmendsError):
            _logged_in(lying, email=name)


# -- going on, and the end ---------------------------------------------------------------------------------------------

LOGGED_OUT: dict[str, Any] = {"http://schemas.openid.net/event/backchannel-logout": {}}


def _out(lying: Lying, provider: Provider, *, key: Any = KEY, **wrong: Any) -> tuple[str, str]:
    now = int(time.time())
    claims = {"iss": lying.issuer, "aud": "amends", "iat": now, "exp": now + 120, "jti": "1", "events": LOGGED_OUT}
    claims = {name: value for name, value in (claims | {"sub": "1", "sid": "s1"} | wrong).items() if value is not None}
    token = jwt.encode({"alg": "ES256", "kid": "one", "typ": "logout+jwt"}, claims, key, algorithms=["ES256"])
    return asyncio.run(provider.logged_out(token))


def test_a_logout_token_names_whose_sessions_are_over_and_is_heard_once(lying: Lying) -> None:
    provider = Provider(_settings(lying), SystemClock())
    assert _out(lying, provider) == ("1", "s1")
    with pytest.raises(UnknownCallerError, match="heard already"):
        _out(lying, provider)
    assert _out(lying, provider, jti="2", sid=None) == ("1", "")
    assert _out(lying, provider, jti="3", sub=None, aud=["amends", "other"]) == ("", "s1")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"iss": "https://evil.example"}, "of another issuer"),
        ({"aud": "another"}, "for another client"),
        ({"aud": None}, "for another client"),
        ({"events": None}, "no logout token"),
        ({"events": {"http://schemas.openid.net/event/other": {}}}, "no logout token"),
        ({"events": "http://schemas.openid.net/event/backchannel-logout"}, "no logout token"),
        ({"nonce": "an ID token has one"}, "no logout token"),
        ({"sub": None, "sid": None}, "of nobody"),
        ({"sub": 1, "sid": ["s1"]}, "of nobody"),
        ({"iat": 1}, "of another time"),
        ({"iat": None}, "of another time"),
        ({"jti": None}, "heard already"),
        ({"key": OTHER}, "is not the provider's"),
    ],
)
def test_a_logout_token_that_is_none_ends_nothing(lying: Lying, wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(UnknownCallerError, match=says):
        _out(lying, Provider(_settings(lying), SystemClock()), **wrong)


def test_a_session_goes_on_as_long_as_the_providers_word_counts_and_ends_by_it() -> None:
    clock = ManualClock()
    logins = Logins(BearerTokens(MemoryJournal(clock), clock), clock)
    anna = Caller(name="person:anna", scopes=frozenset({Scope.VIEW}), proof="oidc")

    def begun(subject: str, session: str) -> str:
        until_s = clock.elapsed() + 600
        return logins.admit(anna, vouched=Vouched(subject=subject, session=session, until_s=until_s))[1]

    async def is_in(*secrets: str) -> list[bool]:
        return [await logins.of(secret) is not None for secret in secrets]

    async def story() -> None:
        here, there, other = begun("1", "s1"), begun("1", "s2"), begun("2", "s3")
        assert await is_in(here, there, other) == [True, True, True]
        for subject, session in (("", ""), ("2", "s1"), ("", "s9"), ("9", "")):
            assert logins.end_vouched(subject, session) == 0
        assert logins.end_vouched("1", "s2") == 1
        assert await is_in(here, there, other) == [True, False, True]
        assert logins.end_vouched("2", "") == 1
        assert await is_in(here, there, other) == [True, False, False]
        found = await logins.of(here)
        assert found is not None
        clock.advance(599)
        assert (logins.is_due(here), await logins.lasts(found[0])) == (False, True)
        clock.advance(1)
        assert (logins.is_due(here), await logins.lasts(found[0]), await is_in(here)) == (True, False, [False])
        again = begun("1", "s1")
        logins.replace(here)
        assert (logins.is_due(here), await is_in(here, again)) == (False, [False, True])

    asyncio.run(story())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--oidc-issuer", "https://id.example.com"], "takes --oidc-secret-file FILE, or AMENDS_OIDC_SECRET too"),
        (["--oidc-issuer", "https://id.example.com", "--oidc-secret-file", "nowhere"], "cannot be read"),
        (["--proxy-header", "X-User"], "--proxy-header takes --behind-proxy"),
        (["--behind-proxy", "--proxy-header", "X-User", "--proxy-address", "here"], "is no address, and no network"),
        (["--oidc-issuer", "https://id.example.com", "--oidc-age", "soon"], "--oidc-age soon: give 1s to 24h"),
        (["--oidc-issuer", "https://id.example.com", "--oidc-age", "2d"], "--oidc-age 2d: give 1s to 24h"),
        (["--role", "on-call=view"], "--role takes --oidc-issuer or --proxy-header"),
        (["--role", "on-call=fly"], "say a group and what its members may"),
        (["--role", "=view"], "say a group and what its members may"),
    ],
)
def test_options_that_do_not_hold_together_are_refused(tmp_path: Path, words: list[str], says: str) -> None:
    more = ["--oidc-client", "amends", "--url", "https://amends.example.com"] if "--oidc-issuer" in words else []
    env = {"AMENDS_OIDC_SECRET": "x"} if "--oidc-age" in words else {}
    assert says in run_cli("serve", *words, *more, journal=tmp_path / "j.db", env=env, check=False)


def test_a_provider_without_tls_is_refused_unless_it_is_on_this_machine() -> None:
    for issuer in ("http://id.example.com", "ftp://localhost", "id.example.com", ""):
        with pytest.raises(AmendsError, match="give an address that begins with https://"):
            OidcSettings(issuer=issuer, client="a", secret="x", url="https://a.example", roles={})
