"""Single sign-on against a provider that nobody here wrote, in a real browser; and names that a proxy vouches for."""

import socket
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.browser.visitor import Visitor
from tests.server import world
from tests.server.person import Person
from tests.server.serving import PATIENCE_S, Serving, serving

NODE = Path(sys.prefix) / "node"
PROVIDER = Path(__file__).parent / "node" / "provider.mjs"
SECRET = "a secret of the tests"


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def _signed_on_at(folder: Path, *options: str) -> Generator[tuple[Serving, str]]:
    """A server that sends people to a provider of its own; and where that is."""
    folder.mkdir(mode=0o700)
    world.on(folder / "journal.db", lambda one: world.start(one, world.request_access, "person:new", id="a-1"))
    port = _free_port()
    url = f"http://127.0.0.1:{port}"
    words = ["node", str(PROVIDER), str(NODE), f"{url}/login/oidc/back"]
    provider = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert provider.stdout is not None
    with provider.stdout as said:  # open as long as it runs: it prints more than its address
        issuer = said.readline().strip()
        more = ("--url", url, "--oidc-issuer", issuer, "--oidc-client", "amends", *options)
        roles = ("--role", "on-call=view,decide", "--role", "nobody-is-in-here=admin")
        env = {"AMENDS_OIDC_SECRET": SECRET}
        try:
            with serving(folder, *more, *roles, journal=folder / "journal.db", port=port, env=env) as one:
                yield one, issuer
        finally:
            provider.terminate()
            provider.wait(PATIENCE_S)


@pytest.fixture(scope="module")
def signed_on_at(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Serving, str]]:
    with _signed_on_at(tmp_path_factory.mktemp("sign-on") / "j") as one:
        yield one


@pytest.fixture(scope="module")
def server(signed_on_at: tuple[Serving, str]) -> Serving:
    return signed_on_at[0]


def _sign_on(one: Visitor, name: str) -> None:
    one.may_go_elsewhere = True
    one.context.route(lambda url: urlsplit(url).hostname != "127.0.0.1", lambda route: route.abort())
    one.open("/approvals/a-1/1")
    one.follow("Log in with single sign-on")
    one.page.locator("input[name=login]").fill(name)
    one.page.locator("input[name=password]").fill("anything")
    one.page.locator("button[type=submit]").click()


def test_a_member_of_a_group_comes_to_the_page_and_decides(visit: Callable[..., Visitor], server: Serving) -> None:
    anna = visit(server)
    _sign_on(anna, "on-call-anna")
    anna.is_at("/approvals/a-1/1")
    anna.press("Grant")
    anna.sees("You agreed to access.grant.")
    anna.sees("person:on-call-anna@example.com")
    anna.open("/me")
    anna.sees("oidc")
    anna.sees("decide, view")
    anna.open("/people")
    anna.sees("takes the scope admin")


def test_whoever_is_in_no_group_of_ours_stays_outside(visit: Callable[..., Visitor], server: Serving) -> None:
    other = visit(server)
    _sign_on(other, "somebody")
    other.sees("person:somebody@example.com is in none of the groups that may come in here")
    other.open("/")
    other.sees("Your token")


def test_a_name_that_the_provider_has_not_verified_is_nobody(visit: Callable[..., Visitor], server: Serving) -> None:
    other = visit(server)
    _sign_on(other, "unverified-on-call")
    other.sees("the provider has not verified that unverified-on-call@example.com is yours")


def test_whoever_logs_out_at_the_provider_is_out_here_too(
    visit: Callable[..., Visitor], signed_on_at: tuple[Serving, str]
) -> None:
    server, issuer = signed_on_at
    anna, kim = visit(server), visit(server)
    _sign_on(anna, "on-call-anna")
    _sign_on(kim, "on-call-kim")
    anna.page.goto(f"{issuer}/session/end")
    with anna.page.expect_response(lambda answer: "/session/end/confirm" in answer.url):
        anna.page.locator("button[value=yes]").click()
    anna.open("/approvals")
    anna.sees("Your token")
    kim.open("/approvals")
    kim.sees("access.grant")


def test_the_provider_is_asked_again_in_time_and_a_group_that_was_left_counts_no_more(
    visit: Callable[..., Visitor], tmp_path: Path
) -> None:
    with _signed_on_at(tmp_path / "j", "--oidc-age", "1s") as (server, issuer):
        anna = visit(server)
        _sign_on(anna, "on-call-anna")
        anna.is_at("/approvals/a-1/1")
        _is_asked_again(anna)
        anna.is_at("/sagas")
        anna.sees("a-1")
        anna.page.context.request.get(f"{issuer}/left/on-call-anna")
        _is_asked_again(anna)
        anna.sees("is in none of the groups that may come in here")
        anna.open("/approvals")
        anna.sees("is in none of the groups")


def _is_asked_again(one: Visitor) -> None:
    """Open a page until the provider was asked once more who that is."""
    asked = len(one.elsewhere)
    for _ in range(500):
        one.page.goto("/sagas")
        if len(one.elsewhere) > asked:
            return
    raise AssertionError("the provider was not asked again")


def test_what_another_browser_began_does_not_end_here(server: Serving) -> None:
    one = Person(server)
    for state in ("", "x" * 43):
        one.open(f"/login/oidc/back?code=abc&state={state}")
        assert one.status == 401
        assert "begun in another browser, or too long ago" in one.words
    one.open("/login/oidc/back?error=access_denied&error_description=%3Cb%3Eno%3C%2Fb%3E")
    assert "the provider says: <b>no</b>" in one.words
    for _ in range(12):
        one.open("/login/oidc/back?code=abc&state=x")
    assert one.status == 429


def test_a_proxy_names_people_and_nobody_else_can(tmp_path: Path) -> None:
    more = ("--behind-proxy", "--proxy-header", "X-Forwarded-Email", "--role", "on-call=view,decide")
    with serving(tmp_path / "j", *more) as server:
        for headers, status, said in (
            (
                {"X-Forwarded-Email": "anna@example.com", "X-Forwarded-Groups": "staff, on-call"},
                200,
                "person:anna@exam",
            ),
            ({"X-Forwarded-Email": "kim@example.com", "X-Forwarded-Groups": "staff"}, 403, "is in none of the groups"),
            ({"X-Forwarded-Groups": "on-call"}, 200, "Your token"),
        ):
            one = Person(server)
            one.open("/", headers=headers)
            assert one.status == status
            assert said in one.words
    with serving(tmp_path / "k", *more, "--proxy-address", "10.0.0.0/8") as server:
        one = Person(server)
        one.open("/", headers={"X-Forwarded-Email": "anna@example.com", "X-Forwarded-Groups": "on-call"})
        assert "Your token" in one.words
