"""Tokens: made, listed and revoked on the command line; a secret is shown once and kept nowhere."""

import json
import re
from pathlib import Path

import pytest

from tests.server.serving import new_token, run_cli


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    return tmp_path / "journal.db"


def _listed(journal: Path, *more: str) -> list[dict[str, object]]:
    lines = run_cli("token", "list", "--json", *more, journal=journal).splitlines()
    return [json.loads(line) for line in lines]


def test_a_secret_is_shown_once_and_no_file_of_the_journal_holds_it(journal: Path) -> None:
    secret = new_token(journal, "agent:shop", "run", definitions=["trip.*"])
    assert re.fullmatch(r"amends_[A-Za-z0-9_-]{43}", secret)
    shown = run_cli("token", "list", journal=journal)
    assert "agent:shop" in shown
    assert "run of trip.*" in shown
    assert secret not in shown
    files = list(journal.parent.iterdir())
    assert files
    assert not any(secret.encode() in one.read_bytes() for one in files)


def test_a_token_has_only_the_scopes_that_were_said(journal: Path) -> None:
    new_token(journal, "agent:shop", "run", definitions=["trip.book", "trip.cancel"])
    new_token(journal, "person:anna", "view", "decide")
    shop, anna = _listed(journal)
    assert (shop["scopes"], shop["definitions"]) == (["run"], ["trip.book", "trip.cancel"])
    assert (anna["scopes"], anna["definitions"]) == (["view", "decide"], ["*"])
    assert shop["by"] == "person:admin"


def test_a_revoked_token_is_listed_only_where_all_are_asked_for(journal: Path) -> None:
    new_token(journal, "agent:shop", "run")
    run_cli("token", "revoke", "agent:shop", "--why", "lost", "--by", "person:olga", journal=journal)
    assert _listed(journal) == []
    (gone,) = _listed(journal, "--all")
    assert gone["revoked_by"] == "person:olga"
    again = run_cli("token", "revoke", "agent:shop", "--why", "lost", journal=journal, check=False)
    assert "there is no token agent:shop that could be revoked" in again


def test_of_two_tokens_of_one_name_one_can_be_revoked_by_its_id(journal: Path) -> None:
    new_token(journal, "agent:shop", "run")
    new_token(journal, "agent:shop", "run")
    first, second = _listed(journal)
    run_cli("token", "revoke", str(first["id"]), "--why", "moved", "--by", "person:olga", journal=journal)
    assert [one["id"] for one in _listed(journal)] == [second["id"]]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("agent:shop", "--scope", "fly", "--by", "person:olga"), "'fly' is not one of"),
        (("agent:shop", "--scope", "run", "--expires", "long", "--by", "person:olga"), "--expires long is no time"),
        (("agent:shop", "--scope", "run", "--by", "agent:shop"), "only people make or revoke a token"),
        (("shop", "--scope", "run", "--by", "person:olga"), "'shop' is not an actor"),
    ],
)
def test_a_token_that_cannot_be_made_is_refused_with_the_reason(
    journal: Path, words: tuple[str, ...], says: str
) -> None:
    assert says in run_cli("token", "create", *words, journal=journal, check=False)
    assert not journal.exists() or _listed(journal, "--all") == []
