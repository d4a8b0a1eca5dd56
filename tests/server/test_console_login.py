"""Logging in to the console, and out of it: once by the printed address, with a token, and never by anything else."""

import time
from collections.abc import Generator
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.server.person import Person
from tests.server.serving import Serving, run_cli, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Serving]:
    with serving(tmp_path_factory.mktemp("login") / "j") as one:
        yield one


def test_the_printed_address_logs_in_once(tmp_path: Path) -> None:
    with serving(tmp_path / "j") as server:
        printed = urlsplit(server.login)
        assert (printed.hostname, printed.path) == ("localhost", "/login")
        first, second = Person(server), Person(server)
        for one in (first, second):
            one.open(f"{printed.path}?{printed.query}")
        first.press("Log in")
        assert first.status == 200
        assert first.at == "/"
        second.press("Log in")
        assert second.status == 401
        second.open("/approvals")
        assert second.at == "/login?next=%2Fapprovals"


@pytest.mark.parametrize("twice", ["X-Forwarded-Email", "X-Forwarded-Groups"])
def test_a_proxy_that_adds_its_header_to_a_callers_own_names_nobody(tmp_path: Path, twice: str) -> None:
    """The first of them counted, which was the caller's."""
    more = ("--behind-proxy", "--proxy-header", "X-Forwarded-Email", "--role", "on-call=view,decide")
    said = [("X-Forwarded-Email", "anna@example.com"), ("X-Forwarded-Groups", "on-call")]
    with serving(tmp_path / "j", *more) as server:
        named = httpx2.get(server.url, headers=said, trust_env=False)
        assert named.status_code == 200
        forged = httpx2.get(server.url, headers=[(twice, "on-call"), *said], trust_env=False)
    assert forged.status_code == 403
    assert f"the header {twice} came twice" in forged.text


def test_looking_at_the_printed_address_does_not_use_it_up(server: Serving) -> None:
    printed = urlsplit(server.login)
    one = Person(server)
    for _ in range(3):
        one.open(f"{printed.path}?{printed.query}")
    assert one.cookies == {}
    one.press("Log in")
    assert one.at == "/"


def test_a_token_logs_in_to_the_page_that_was_asked_for(server: Serving) -> None:
    one = Person(server)
    one.open("/approvals?show=all")
    one.press("Log in with the token", secret=server.new_token("person:anna", "view"))
    assert one.at == "/approvals?show=all"
    assert "person:anna" in one.words


def test_no_other_site_is_led_to(server: Serving) -> None:
    for elsewhere in ("//evil.example", "/\\evil.example", "https://evil.example"):
        one = Person(server)
        one.open(f"/login?next={elsewhere}")
        one.press("Log in with the token", secret=server.new_token("person:anna", "view"))
        assert one.at == "/"


def test_a_wrong_token_is_refused_and_many_are_not_looked_at(tmp_path: Path) -> None:
    with serving(tmp_path / "j") as server:
        one = Person(server)
        one.open("/login")
        one.press("Log in with the token", secret="amends_wrong")
        assert one.status == 401
        assert "nobody has this token" in one.words
        for _ in range(9):
            one.press("Log in with the token", secret="amends_wrong")
        assert one.status == 401
        one.press("Log in with the token", secret=server.token)
        assert one.status == 429
        assert "Wait a minute" in one.words


def test_a_revoked_token_ends_the_session(server: Serving) -> None:
    one = Person.with_token(server, "person:leaver")
    one.open("/me")
    assert one.at == "/me"
    run_cli("token", "revoke", "person:leaver", "--why", "left", "--by", "person:admin", journal=server.journal)
    time.sleep(1.2)  # a token that was revoked elsewhere is good for a second more
    one.open("/me")
    assert one.at == "/login?next=%2Fme"


def test_logging_out_everywhere_ends_the_other_sessions_of_the_person_alone(server: Serving) -> None:
    token = server.new_token("person:kim", "view")
    here, there = Person(server), Person(server)
    for one in (here, there):
        one.open("/login")
        one.press("Log in with the token", secret=token)
    other = Person.with_token(server, "person:anna")
    here.open("/me")
    assert "twice" in here.words
    here.press("Log out everywhere")
    there.open("/me")
    other.open("/me")
    assert (here.at, there.at, other.at) == ("/login", "/login?next=%2Fme", "/me")


def test_logging_out_here_ends_this_session_alone(server: Serving) -> None:
    token = server.new_token("person:kit", "view")
    here, there = Person(server), Person(server)
    for one in (here, there):
        one.open("/login")
        one.press("Log in with the token", secret=token)
    here.open("/me")
    here.press("Log out here")
    here.open("/me")
    there.open("/me")
    assert (here.at, there.at) == ("/login?next=%2Fme", "/me")


def test_a_form_of_another_site_or_session_does_nothing(server: Serving) -> None:
    one = Person.with_token(server, "person:anna")
    one.send("/logout", csrf="guessed")
    assert one.status == 403
    one.open("/me")
    mark = one.page.partition('name="csrf" value="')[2].partition('"')[0]
    one.send("/logout", {"origin": "https://evil.example"}, csrf=mark)
    assert one.status == 403
    one.send("/logout", {"sec-fetch-site": "cross-site"}, csrf=mark)
    assert one.status == 403
    one.open("/me")
    assert one.at == "/me"


def test_the_cookie_is_out_of_reach_of_scripts_and_of_other_sites(server: Serving) -> None:
    token = server.new_token("person:anna", "view")
    answer = httpx2.post(f"{server.url}/login", data={"secret": token, "next": "/"}, trust_env=False)
    said = answer.headers["set-cookie"]
    assert "HttpOnly" in said
    assert "SameSite=lax" in said


def test_every_page_forbids_what_is_not_ours(server: Serving) -> None:
    one = Person(server)
    for path in ("/login", "/nowhere", "/static/console.css"):
        one.open(path)
        said = one.headers["content-security-policy"]
        assert "default-src 'none'" in said
        assert "unsafe" not in said
        assert "http" not in said
        assert one.headers["x-content-type-options"] == "nosniff"
    one.open("/login")
    assert one.headers["cache-control"] == "no-store"
    assert "<script>" not in one.page
    assert "style=" not in one.page


def test_a_page_that_is_not_there_says_so(server: Serving) -> None:
    one = Person(server)
    one.open("/nowhere")
    assert one.status == 404
    assert "There is no page at /nowhere." in one.words


def test_a_journal_is_not_seen_without_the_scope(server: Serving) -> None:
    one = Person.with_token(server, "agent:shop", "run")
    one.open("/approvals")
    assert one.status == 403
    assert "it takes the scope view" in one.words
