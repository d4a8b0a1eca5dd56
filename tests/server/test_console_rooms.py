"""Actions, policy, evidence, workers, locks, notices and people: shown, and what an administrator does there."""

import asyncio
import json
import re
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from amends import Coordinator
from amends.journal.port.locks import LockQuery
from amends.notify.file import NoticeFile
from tests.server import world
from tests.server.person import Person
from tests.server.serving import PYTHON, Serving, run_cli, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Serving]:
    folder = tmp_path_factory.mktemp("rooms") / "j"
    folder.mkdir(mode=0o700)
    world.on(folder / "journal.db", world.many)
    with serving(folder, journal=folder / "journal.db") as one:
        yield one


@pytest.fixture
def anna(server: Serving) -> Person:
    return Person.with_token(server, "person:anna", "view", "decide", "admin")


@pytest.fixture
def looker(server: Serving) -> Person:
    return Person.with_token(server, "person:looker", "view")


def test_actions_are_listed_with_how_they_came_out(anna: Person) -> None:
    anna.open("/actions")
    for said in ("shop.reserve", "mail.send", "a mail cannot be unsent", "compensatable", "undeclared", "never"):
        assert said in anna.words
    anna.follow("shop.ship")
    assert "2 attempts, 0 failed, 0 lost; 0 taken back, 2 of that failed" in anna.words
    assert "undoes" in anna.words
    anna.open("/actions/shop.shop")
    assert anna.status == 404
    assert "did you mean shop.ship?" in anna.words


def test_how_the_last_drill_came_out_is_told(server: Serving, anna: Person) -> None:
    env = {"PYTHONPATH": str(Path.cwd())}
    run_cli(
        "drill", "tests.server.world:plain", "--quick", "--input", '{"order": "x"}', journal=server.journal, env=env
    )
    anna.open("/actions/shop.reserve")
    assert "Its last drill: not proven" in anna.words


def test_rules_are_shown_with_their_lines_and_hits(anna: Person) -> None:
    anna.open("/policy")
    rows = re.findall(r'<tr id="line-(\d+)" class="rule">\s*<td[^>]*><span[^>]*>(\w+)</span>', anna.page)
    assert rows == [("4", "twice"), ("7", "once"), ("11", "once")]


def test_facts_are_explained(anna: Person) -> None:
    anna.open("/policy")
    anna.press("Explain", facts='{"topic": "shop.charge", "side_effect": true, "env": "production"}')
    assert "require human by rule money-takes-a-person" in anna.words
    assert "two-people-for-access does not match: topic is shop.charge" in anna.words
    for wrong in ("{", "[]", '{"topci": "x"}'):
        anna.press("Explain", facts=wrong)
        assert anna.status == 422


def test_a_draft_is_tried_on_history_and_adopted_by_an_administrator(tmp_path: Path) -> None:
    folder = tmp_path / "j"
    folder.mkdir(mode=0o700)
    world.on(folder / "journal.db", world.many)
    draft = (
        "version: v1\ndefault: allow\nrules:\n  - id: no-parcels\n    when: {topic: shop.ship}\n    decision: deny\n"
    )
    with serving(folder, journal=folder / "journal.db") as server:
        decider = Person.with_token(server, "person:kim", "view", "decide")
        decider.open("/policy")
        decider.press("Try it on the newest sagas", draft="version: v1\nrulez: []\n")
        assert decider.status == 422
        assert "did you mean rules" in decider.words
        decider.press("Try it on the newest sagas", draft=draft)
        assert "4 stricter, 4 laxer" in decider.words
        assert "no-parcels" in decider.words
        decider.press_nothing_of("Adopt this draft")
        anna = Person.with_token(server, "person:anna", "view", "decide", "admin")
        anna.open("/policy")
        anna.press("Try it on the newest sagas", draft=draft)
        anna.press("Adopt this draft", why=" ")
        assert anna.status == 422
        anna.open("/policy")
        anna.press("Try it on the newest sagas", draft=draft)
        anna.press("Adopt this draft", why="parcels get lost")
        assert "Adopted: it judges from now on." in anna.words
        assert "parcels get lost" in anna.words
        assert "no-parcels" in run_cli("policy", "show", journal=server.journal)


def test_evidence_is_verified_signed_and_handed_on(server: Serving, anna: Person, tmp_path: Path) -> None:
    anna.open("/evidence")
    anna.press("Sign a new tree head")
    assert "Signed: " in anna.words
    anna.press("Verify the whole journal")
    assert "verified" in anna.words
    assert "Altered or missing 0" in anna.words
    anna.open("/evidence/bundle?saga=back-1")
    assert "attachment" in anna.headers["content-disposition"]
    bundle = tmp_path / "bundle.jsonl"
    bundle.write_text(anna.page, encoding="utf-8")
    key = run_cli("evidence", "key", journal=server.journal).strip()
    run_cli("evidence", "verify", str(bundle), "--key", key)
    anna.open("/evidence/record/back-1")
    assert json.loads(anna.page)["rollback_triggered"] is True
    anna.open("/evidence/bundle?saga=nope")
    assert anna.status == 404


def test_a_journal_that_was_changed_says_so(tmp_path: Path) -> None:
    import sqlite3

    folder = tmp_path / "j"
    folder.mkdir(mode=0o700)
    world.on(folder / "journal.db", lambda one: one.run(world.plain, "x", id="p-1"))
    with serving(folder, journal=folder / "journal.db") as server:
        anna = Person.with_token(server, "person:anna")
        with sqlite3.connect(folder / "journal.db") as file:
            (name,) = next(file.execute("select name from sqlite_master where type='table' and sql like '%body%'"))
            changed = file.execute(f"update {name} set body = replace(body, 'R-x', 'R-y') where body like '%R-x%'")
            assert changed.rowcount >= 1
        anna.open("/evidence")
        anna.press("Verify the whole journal")
        assert "not as it was" in anna.words


@pytest.fixture(scope="module")
def signing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a journal on which Anna has a key, and has granted something without it."""
    folder = tmp_path_factory.mktemp("signing") / "j"
    folder.mkdir(mode=0o700)
    key, journal = folder / "anna", folder / "journal.db"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    world.on(journal, lambda one: world.start(one, world.order_one, "sofa", 129900, id="asks-1"))
    run_cli("person", "enrol", "person:anna", "--ssh-key", f"{key}.pub", journal=journal)
    world.on(journal, lambda one: one.grant("asks-1/2", by="person:anna"))
    return folder


@pytest.mark.parametrize("is_told", [True, False], ids=["told the root", "not told"])
def test_what_nobody_has_signed_is_found_where_the_root_is_known(signing: Path, *, is_told: bool) -> None:
    root: str = world.on(signing / "journal.db", world.root_of)
    with serving(signing, *(("--root", root) if is_told else ()), journal=signing / "journal.db") as server:
        looker = Person.with_token(server, "person:looker", "view")
        looker.open("/evidence")
        looker.press("Verify the whole journal")
        assert ("not as it was" in looker.words) == is_told
        assert ("Not signed by their makers 1" in looker.words) == is_told
        assert ("No root of a roster is pinned here" in looker.words) == (not is_told)


def test_tree_heads_are_listed_newest_first(server: Serving, anna: Person) -> None:
    anna.open("/evidence")
    anna.press("Sign a new tree head")
    anna.open("/people")
    anna.press("Make the token", name="agent:other", days="30")
    anna.open("/evidence")
    anna.press("Sign a new tree head")
    sizes = [int(size) for size in re.findall(r"<summary>(\d+) entries", anna.page)]
    assert len(sizes) > 1
    assert sizes == sorted(set(sizes), reverse=True)


def test_an_error_that_nobody_has_foreseen_is_a_page_too(tmp_path: Path) -> None:
    import sqlite3

    with serving(tmp_path / "j") as server:
        anna = Person.with_token(server, "person:anna")
        with sqlite3.connect(server.journal) as file:
            file.execute("DROP TABLE approval")
        anna.open("/")
        assert anna.status == 500
        assert "Our fault" in anna.words
        assert "its log says why" in anna.words
        assert "default-src 'none'" in anna.headers["content-security-policy"]


def test_everything_is_paused_and_let_go_on(server: Serving, anna: Person, looker: Person) -> None:
    looker.open("/workers")
    assert "alive" in looker.words
    looker.press_nothing_of("Pause")
    anna.open("/workers")
    anna.press("Pause", why="", topic="shop.*")
    assert anna.status == 422
    anna.press("Pause", why="the bank is down", topic="shop.*")
    assert "the bank is down" in anna.words
    anna.open("/")
    assert "Dispatch is paused for shop.*" in anna.words
    assert "the bank is down" in run_cli("doctor", journal=server.journal, check=False)
    anna.open("/workers")
    anna.press("End this pause")
    assert "Nothing is paused." in anna.words


def test_locks_and_notices_say_what_would_be_here(anna: Person) -> None:
    anna.open("/locks")
    assert "No saga holds anything for itself." in anna.words
    anna.open("/notices")
    assert "Nobody outside is told of anything." in anna.words


def test_who_holds_a_resource_and_who_waits_is_shown(tmp_path: Path) -> None:
    folder = tmp_path / "j"
    folder.mkdir(mode=0o700)

    async def held(coordinator: Coordinator) -> None:
        for name in ("l-1", "l-2"):
            await world.start(coordinator, world.keep_account, "acme", id=name)
        assert len((await coordinator.journal.locks(LockQuery())).rows) == 2

    world.on(folder / "journal.db", held)
    with serving(folder, journal=folder / "journal.db") as server:
        anna = Person.with_token(server, "person:anna")
        anna.open("/locks?resource=account:acme")
        assert "holds it l-1" in anna.words
        assert "1 in line l-2" in anna.words


def test_a_target_that_cannot_be_told_is_shown_with_why(tmp_path: Path) -> None:
    folder = tmp_path / "j"
    folder.mkdir(mode=0o700)
    world.on(folder / "journal.db", lambda one: world.start(one, world.request_access, "person:new", id="n-1"))
    words = [PYTHON, "-m", "amends", "notify", "status", "--journal", str(folder / "journal.db")]
    assert "nobody was ever told" in subprocess.run(words, capture_output=True, text=True, check=True).stdout
    asyncio.run(_told(folder / "journal.db", tmp_path / "notices.jsonl"))
    with serving(folder, journal=folder / "journal.db") as server:
        anna = Person.with_token(server, "person:anna")
        anna.open("/notices")
        assert "notices.jsonl" in anna.words
        assert "up to date" in anna.words


async def _told(journal: Path, target: Path) -> None:
    """Have a target be told of everything there is: what is pending is delivered before a coordinator closes."""
    async with Coordinator.open(str(journal), signals=False, notify=[NoticeFile(str(target))]):
        pass


def test_an_administrator_makes_and_revokes_tokens(server: Serving, anna: Person, looker: Person) -> None:
    looker.open("/people")
    assert "takes the scope admin" in looker.words
    looker.press_nothing_of("Make the token")
    anna.open("/people")
    anna.press("Make the token", name="agent:new", definitions="shop.*")
    secret = re.findall(r"amends_[A-Za-z0-9_-]{43}", anna.page)[0]
    new = Person(server)
    new.open("/login")
    new.press("Log in with the token", secret=secret)
    new.open("/me")
    assert "agent:new" in new.words
    assert run_cli("token", "list", "--json", journal=server.journal).count('"shop.*"') == 1
    anna.press_labelled("of agent:new")
    assert "The token of agent:new is good for nothing more." in anna.words
    new.open("/me")
    assert new.at.startswith("/login")
    anna.press("Make the token", name="nobody:x")
    assert anna.status == 422


def test_a_key_is_enrolled_and_every_change_after_that_takes_a_signature(tmp_path: Path) -> None:
    with serving(tmp_path / "j") as server:
        anna = Person.with_token(server, "person:anna", "view", "decide", "admin")
        for name in ("anna", "kim"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)], check=True)
        anna.open("/people")
        anna.press("Enrol the key", person="anna", key="ssh-rsa AAAA")
        assert anna.status == 422
        anna.press("Enrol the key", person="anna", key=(tmp_path / "anna.pub").read_text())
        assert "The key proves the name person:anna from now on." in anna.words
        anna.press("Enrol the key", person="kim", key=(tmp_path / "kim.pub").read_text())
        assert "This decision takes your signature" in anna.words
        statement = re.findall(r'name="statement" value="([^"]*)"', anna.page)[0].replace("&#34;", '"')
        signed = subprocess.run(
            ["ssh-keygen", "-Y", "sign", "-n", "amends", "-f", str(tmp_path / "anna")],
            input=statement, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        anna.press("Decide, signed", signature=signed)
        assert "The key proves the name person:kim from now on." in anna.words
