"""`amends evidence`: what a person or an auditor does with it, from the first checkpoint to the last byte removed."""

import asyncio
import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from amends.clock import SystemClock
from amends.journal.sqlite import SqliteJournal
from amends.journal.sqlite.database import Database
from amends.testing.journal_suite.fixture import begin
from tests.cli.shell import PATIENCE_S, Said, Shell

LAMP = '{"item": "lamp", "cents": 900}'


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AMENDS_EVIDENCE_KEY", "AMENDS_EVIDENCE_KEY_FILE", "AMENDS_JOURNAL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(name="shop")
def _shop(amends: Shell) -> Shell:
    """A journal with a saga that completed and one that needs a person: 18 entries, all signed."""
    assert amends.here("run", "shop:buy", "--input", LAMP, "--id", "b-1").code == 0
    assert amends.here("run", "shop:tidy", "--id", "t-1").code == 4
    return amends


def key_of(shop: Shell) -> str:
    return shop.here("evidence", "key").out.strip()


def exported(shop: Shell, *sagas: str) -> Path:
    said = shop.here("evidence", "export", *sagas, "-o", "bundle.jsonl")
    assert said.code == 0
    return shop.place / "bundle.jsonl"


def counts(said: Said) -> dict[str, int]:
    return {name: int(count) for name, count, *_ in (line.split() for line in said.out.splitlines()[:4])}


def edit(path: Path, old: bytes, new: bytes) -> None:
    path.write_bytes(path.read_bytes().replace(old, new, 1))


# -- showing ------------------------------------------------------------------------------------------------------


def test_show_is_the_same_as_that_of_the_saga(shop: Shell) -> None:
    assert shop.here("evidence", "show", "t-1") == shop.here("saga", "show", "t-1")
    assert shop.here("evidence", "show", "t-1", "--json") == shop.here("saga", "show", "t-1", "--json")


def test_a_record_is_nine_fields_and_ours(shop: Shell) -> None:
    said = shop.here("evidence", "record", "t-1")
    found: dict[str, Any] = json.loads(said.out)
    assert list(found) == [
        "run_id",
        "job_id",
        "status",
        "matched_policy_id",
        "rollback_triggered",
        "rollback_mode",
        "compensation_jobs_dispatched",
        "compensation_jobs_skipped",
        "rollback_finished_at",
        "amends",
    ]
    assert (found["run_id"], found["status"], found["rollback_mode"]) == ("t-1", "FAILED_FATAL", "lifo_stack")
    assert found["amends"]["checkpoint"]["size"] == 18
    (record,) = shop.here("evidence", "record", "b-1", "--json").records
    assert (record["type"], record["status"], record["rollback_mode"]) == ("record", "COMPLETED", None)
    assert "no saga has the id x" in shop.here("evidence", "record", "x").complaint


def test_a_record_says_when_not_all_of_the_saga_is_signed(amends: Shell) -> None:
    assert amends.here("run", "shop:buy", "--input", LAMP, "--id", "b-1").code == 0
    amends.kill_in_the_middle("d-1")
    (record,) = amends.here("evidence", "record", "d-1", "--json").records
    assert (record["amends"]["checkpoint"], record["amends"]["status"]) == (None, "running")
    (record,) = amends.here("evidence", "record", "b-1", "--json").records
    assert record["amends"]["checkpoint"]["size"] == 6


# -- exporting and verifying --------------------------------------------------------------------------------------


def test_a_bundle_verifies_with_the_key_and_nothing_else(shop: Shell, tmp_path_factory: pytest.TempPathFactory) -> None:
    bundle, key = exported(shop), key_of(shop)
    assert oct(bundle.stat().st_mode & 0o777) == "0o600"
    elsewhere = Shell(tmp_path_factory.mktemp("elsewhere"))
    said = elsewhere.here("evidence", "verify", str(bundle), "--key", key)
    assert (said.code, counts(said)) == (0, {"covered": 18, "unattested": 0, "missing": 0, "altered": 0})
    assert said.out.splitlines()[-1] == "as it was signed"
    (elsewhere.place / "their.key").write_text(key + "\n", encoding="utf-8")
    (record,) = elsewhere.here("evidence", "verify", str(bundle), "--key", "@their.key", "--json").records
    assert (record["type"], record["conclusion"], record["covered"]["entries"]) == ("verification", "covered", "1-18")
    assert {file.name for file in elsewhere.place.iterdir()} <= {"shop.py", "office.py", "their.key"}


def test_some_sagas_can_be_exported_alone(shop: Shell) -> None:
    said = shop.here("evidence", "verify", str(exported(shop, "t-1")), "--key", key_of(shop))
    assert (said.code, counts(said)["covered"]) == (0, 12)
    assert "no saga has the id x" in shop.here("evidence", "export", "x", "-o", "b").complaint
    assert not (shop.place / "b").exists()


def test_a_bundle_goes_to_stdout_too(shop: Shell) -> None:
    said = shop("evidence", "export", "-o", "-")
    assert said.out.encode() == exported(shop).read_bytes()
    assert said.err == ""


def test_nobody_has_to_read_a_bundle_to_its_end(shop: Shell) -> None:
    with shop.started("evidence", "export", "-o", "-") as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(PATIENCE_S) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_exit_codes_tell_what_is_wrong(shop: Shell) -> None:
    key = key_of(shop)
    bundle = exported(shop)
    whole = bundle.read_bytes()
    edit(bundle, b"R-lamp", b"R-lump")
    altered = shop.here("evidence", "verify", "bundle.jsonl", "--key", key)
    assert (altered.code, altered.out.splitlines()[-1]) == (8, "NOT as it was signed")
    assert "! entry 3 (saga b-1, number 3): it is not what its hash says" in altered.out
    bundle.write_bytes(whole[:-10])
    unreadable = shop.here("evidence", "verify", "bundle.jsonl", "--key", key)
    assert (unreadable.code, unreadable.out) == (9, "")
    assert "cannot be read" in unreadable.err
    bundle.write_bytes(whole)
    other = "amends/x+" + shop.here("evidence", "key").out.strip().partition("+")[2]
    assert shop.here("evidence", "verify", "bundle.jsonl", "--key", other).code == 9
    assert "give the public key" in shop.here("evidence", "verify", "bundle.jsonl").complaint
    assert "nowhere" in shop.here("evidence", "verify", "nowhere", "--key", key).complaint
    assert "No such file" in shop.here("evidence", "verify", "bundle.jsonl", "--key", "@nowhere").complaint


def test_what_is_not_signed_yet_has_its_own_exit_code(amends: Shell) -> None:
    amends.kill_in_the_middle("d-1")
    said = amends.here("evidence", "verify")
    assert (said.code, counts(said)["unattested"], counts(said)["covered"]) == (7, 4, 0)
    assert "not everything is signed yet" in said.out
    signed = amends.here("evidence", "tree-head", "--new")
    assert signed.out.splitlines()[1] == "4"
    assert amends.here("evidence", "verify").code == 0
    assert "nothing of this journal is signed" not in amends.here("evidence", "tree-head").err


def test_a_journal_is_verified_where_it_lies(shop: Shell) -> None:
    said = shop.here("evidence", "verify")
    assert (said.code, counts(said)["covered"]) == (0, 18)
    assert "held against the key that it names itself" in said.err
    assert shop.here("evidence", "verify", "--key", key_of(shop)).err == ""
    data = shop.place / "amends.db"
    edit(data, b"R-lamp", b"R-lump")
    broken = shop.here("evidence", "verify", "--json")
    assert broken.code == 8
    assert broken.records[0]["altered"]["count"] == 1
    edit(data, b"CREATE TABLE entry", b"CREATE TABLE entrx")
    assert shop.here("evidence", "verify").code in {2, 8}


def test_a_checkpoint_that_was_kept_shows_that_history_was_rewritten(shop: Shell) -> None:
    kept = shop.here("evidence", "tree-head").out
    (shop.place / "kept").write_text(kept, encoding="utf-8")
    key = key_of(shop)
    assert shop.here("evidence", "verify", "--key", key, "--tree-head", "@kept").code == 0
    assert shop.here("run", "shop:buy", "--input", LAMP, "--id", "b-2").code == 0
    bundle = exported(shop, "b-1")
    unprepared = shop.here("evidence", "verify", str(bundle), "--key", key, "--tree-head", "@kept")
    assert unprepared.code == 8
    assert "have the bundle made for it: amends evidence export --tree-head" in unprepared.out
    assert shop.here("evidence", "export", "b-1", "-o", str(bundle), "--tree-head", "@kept").code == 0
    assert shop.here("evidence", "verify", str(bundle), "--key", key, "--tree-head", "@kept").code == 0
    bundle = exported(shop)
    assert shop.here("evidence", "verify", str(bundle), "--key", key, "--tree-head", kept).code == 0


def test_a_file_that_cannot_be_written_is_named(shop: Shell) -> None:
    assert "cannot be written" in shop.here("evidence", "export", "-o", "no/where").complaint
    (shop.place / "folder").mkdir()
    assert "cannot be written" in shop.here("evidence", "export", "-o", "folder").complaint
    assert [file.name for file in shop.place.iterdir() if "folder." in file.name] == []


# -- the verifier that stands alone -------------------------------------------------------------------------------


def alone(shop: Shell, *words: str) -> Said:
    """In an interpreter that finds neither amends nor anything else that is installed."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "verify.py", *words],
        cwd=shop.place,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return Said(done.returncode, done.stdout, done.stderr)


def test_the_printed_verifier_needs_nothing_but_python(shop: Shell) -> None:
    source = shop.here("evidence", "verifier").out
    assert "import amends" not in source
    assert "from amends" not in source
    (shop.place / "verify.py").write_text(source, encoding="utf-8")
    (record,) = shop.here("evidence", "verifier", "--json").records
    assert record["source"] == source
    key = key_of(shop)
    bundle = exported(shop)
    (shop.place / "key").write_text(key, encoding="utf-8")
    (shop.place / "kept").write_text(shop.here("evidence", "tree-head").out, encoding="utf-8")
    said = alone(shop, "bundle.jsonl", "--key", key)
    assert (said.code, counts(said)["covered"], said.out.splitlines()[-1]) == (0, 18, "as it was signed")
    found = json.loads(alone(shop, "bundle.jsonl", "--key", "@key", "--tree-head", "kept", "--json").out)
    assert found["covered"] == {"count": 18, "entries": "1-18"}
    note = shop.here("evidence", "tree-head").out
    for kept in ("@kept", note):
        words = ("bundle.jsonl", "--key", "@key", "--tree-head", kept, "--json")
        assert json.loads(alone(shop, *words).out) == found
        assert shop.here("evidence", "verify", *words).code == 0
    lacking = alone(shop, "bundle.jsonl", "--key", "@key", "--tree-head", "@nowhere")
    assert (lacking.code, "nowhere" in lacking.err) == (9, True)
    assert said.out == shop.here("evidence", "verify", "bundle.jsonl", "--key", key).out
    edit(bundle, b"R-lamp", b"R-lump")
    told = alone(shop, "bundle.jsonl", "--key", key)
    assert (told.code, told.out.splitlines()[-1]) == (8, "NOT as it was signed")
    assert told.out == shop.here("evidence", "verify", "bundle.jsonl", "--key", key).out  # and names the same entry
    bundle.write_bytes(b"x")
    assert alone(shop, "bundle.jsonl", "--key", key).code == 9
    assert alone(shop, "nowhere", "--key", key).code == 9
    assert alone(shop).code == 2


# -- keys ---------------------------------------------------------------------------------------------------------


def test_looking_at_evidence_makes_no_key(amends: Shell) -> None:
    for words in (["key"], ["verify"], ["checkpoint"], ["export", "-o", "x"], ["record", "x"], ["rotate"]):
        assert "there is no journal" in amends.here("evidence", *words).complaint
    assert {file.name for file in amends.place.iterdir()} <= {"shop.py", "office.py"}


def test_a_new_key_is_trusted_by_whoever_trusted_the_old_one(shop: Shell) -> None:
    old = key_of(shop)
    new = shop.here("evidence", "rotate").out.strip()
    assert key_of(shop) == new != old
    assert [record["is_newest"] for record in shop.here("evidence", "key", "--json").records] == [False, True]
    assert shop.here("run", "shop:buy", "--input", LAMP, "--id", "b-2").code == 0
    bundle = exported(shop)
    for key in (old, new):
        assert shop.here("evidence", "verify", str(bundle), "--key", key).code == 0
        assert shop.here("evidence", "verify", "--key", key).code == 0


def test_a_lost_key_can_be_replaced_but_nobody_is_led_to_the_new_one(shop: Shell) -> None:
    old = key_of(shop)
    (shop.place / "amends.db.key").unlink()
    lost = shop.here("run", "shop:buy", "--input", LAMP, "--id", "b-2")
    assert "the key that signs the journal is not there" in lost.complaint
    assert "is not there" in shop.here("evidence", "rotate").complaint
    assert not (shop.place / "amends.db.key").exists()
    new = shop.here("evidence", "rotate", "--lost").out.strip()
    assert shop.here("run", "shop:buy", "--input", LAMP, "--id", "b-2").code == 0
    bundle = exported(shop)
    assert shop.here("evidence", "verify", str(bundle), "--key", new).code == 0
    told = shop.here("evidence", "verify", str(bundle), "--key", old)
    assert told.code == 8
    assert "took over from" in told.out


def test_a_key_from_the_environment_is_changed_into_a_file(shop: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    given = base64.b64encode(os.urandom(32)).decode()
    monkeypatch.setenv("AMENDS_JOURNAL", "other.db")
    monkeypatch.setenv("AMENDS_EVIDENCE_KEY", given)
    assert shop.here("run", "shop:buy", "--input", LAMP, "--id", "b-1").code == 0
    assert not (shop.place / "other.db.key").exists()
    assert "rotate --to FILE" in shop.here("evidence", "rotate").complaint
    assert "exists" in shop.here("evidence", "rotate", "--to", "shop.py").complaint
    said = shop.here("evidence", "rotate", "--to", "new.key")
    assert said.code == 0
    assert "AMENDS_EVIDENCE_KEY_FILE=new.key" in said.err
    assert "another one" in shop.here("run", "shop:buy", "--input", LAMP, "--id", "b-2").complaint
    monkeypatch.delenv("AMENDS_EVIDENCE_KEY")
    monkeypatch.setenv("AMENDS_EVIDENCE_KEY_FILE", "new.key")
    assert shop.here("run", "shop:buy", "--input", LAMP, "--id", "b-2").code == 0
    assert shop.here("evidence", "verify").code == 0


# -- forgetting ---------------------------------------------------------------------------------------------------


FORGET = ("--yes", "--by", "person:ann", "--why", "the year is over")


def test_what_ended_is_forgotten_and_its_story_still_has_its_times_and_names(shop: Shell) -> None:
    said = shop.here("evidence", "forget", "--ended-before", "0m", *FORGET)
    assert (said.code, said.out) == (0, "removed what 6 entries held\n")
    assert shop.here("evidence", "forget", "--ended-before", "0m", *FORGET, "--json").records[0]["entries"] == 0
    story = shop.here("saga", "show", "b-1")
    assert story.code == 0
    lines = story.out.splitlines()[-7:]
    assert lines[-1].endswith("what entries 1 to 6 held was removed by person:ann: the year is over")
    assert lines[1].endswith("entry 2, action.dispatched: what it held was removed")
    assert "lamp" not in story.out
    fields = shop.here("saga", "show", "b-1", "--json").of_type("entry")
    assert [(one["number"], one["name"], one["body"]) for one in fields][:2] == [
        (1, "saga.started/1", None),
        (2, "action.dispatched/1", None),
    ]
    verified = shop.here("evidence", "verify")
    assert (verified.code, counts(verified)["covered"]) == (0, 19)
    assert "removed            6" in verified.out
    assert "  person:ann removed what 6 entries of 1 saga held, " in verified.out
    assert "what it held was removed" in shop.here("evidence", "record", "b-1").complaint
    assert "what it held was removed" in shop.here("saga", "cancel", "b-1", "--module", "shop").complaint
    assert b"lamp" not in (shop.place / "amends.db").read_bytes()


def test_forgetting_is_asked_for_twice(shop: Shell) -> None:
    said = shop.on_terminal("evidence", "forget", "--ended-before", "2026-01-01", "--why", "old", typed="n\n")
    assert "Remove what sagas held that ended before 2026-01-01 00:00:00 UTC?" in said.out
    assert said.code != 0
    for when, says in (
        ("yesterday", "is no time; write 7d or 12h for so long ago"),
        ("2026-01-01T12:00", "does not say in which zone"),
    ):
        assert says in shop.here("evidence", "forget", "--ended-before", when, *FORGET).complaint
    for when in ("2026-01-01T12:00Z", "2026-01-01T12:00+02:00", "90d", "12h"):
        assert shop.here("evidence", "forget", "--ended-before", when, *FORGET).out == "removed what 0 entries held\n"
    assert shop.here("evidence").code == 2


def test_what_ended_before_a_time_is_pruned_by_whoever_is_named(shop: Shell) -> None:
    """All that `evidence forget` can do, under the name that stays."""
    assert shop.here("prune", "--ended-before", "2026-01-01", *FORGET).out.startswith("pruned 0 sagas, 0 entries")
    said = shop.here("prune", "--ended-before", "0m", *FORGET)
    assert (said.code, said.out) == (0, "pruned 1 saga, 6 entries; left for the next time: 0\n")
    story = shop.here("saga", "show", "b-1").out
    assert story.rstrip().endswith("what entries 1 to 6 held was removed by person:ann: the year is over")
    vouched = shop.here("prune", "--already-gone", *FORGET)
    assert vouched.out == "person:ann vouches for what 0 entries of 0 sagas held\n"
    for words in ((), ("--older-than", "1d", "--ended-before", "1d"), ("--already-gone", "--dry-run")):
        assert shop.here("prune", *words, *FORGET).code == 2
    assert "does not say in which zone" in shop.here("prune", "--ended-before", "2026-01-01T12:00", *FORGET).complaint


def test_forgetting_says_how_it_is_called_now(shop: Shell) -> None:
    said = shop.here("evidence", "forget", "--ended-before", "90d", *FORGET)
    assert (said.code, said.err) == (
        0,
        "amends: `amends evidence forget` is `amends prune` by now; the old name goes with the next release\n",
    )
    assert "forget" not in shop.here("evidence", "--help").out


def test_a_journal_that_was_never_signed_says_so(amends: Shell) -> None:
    async def live() -> None:
        journal = await SqliteJournal.open(amends.place / "amends.db", SystemClock())
        await begin(journal, "s")
        await journal.close()

    asyncio.run(live())
    assert "nothing of this journal is signed yet" in amends.here("evidence", "tree-head").complaint
    assert "this journal has no key yet" in amends.here("evidence", "key").complaint
    (record,) = amends.here("evidence", "record", "s", "--json").records
    assert record["amends"]["checkpoint"] is None
    assert amends.here("evidence", "verify").code == 7


def test_a_file_that_cannot_even_be_read_is_not_as_it_was_signed(shop: Shell) -> None:
    database = Database(shop.place / "amends.db", busy_timeout_s=0, vfs=None)
    database.run("DELETE FROM tree")
    database.close()
    said = shop.here("evidence", "verify")
    assert said.code == 8
    assert "the tree over the entries is gone" in said.out


def test_many_runs_of_positions_are_cut_short(shop: Shell) -> None:
    for number in range(12):
        assert shop.here("run", "shop:buy", "--input", LAMP, "--id", f"c-{number}").code == 0
    bundle = exported(shop)
    lines = bundle.read_bytes().splitlines(keepends=True)
    bundle.write_bytes(b"".join(line for place, line in enumerate(lines) if place % 3))
    assert shop.here("evidence", "verify", str(bundle), "--key", key_of(shop)).code == 9
    bundle.write_bytes(b"".join(line for place, line in enumerate(lines) if place < 2 or place % 3 or b"end" in line))
    said = shop.here("evidence", "verify", str(bundle), "--key", key_of(shop))
    assert said.code == 8
    assert "…" in next(line for line in said.out.splitlines() if line.startswith("missing"))


def test_the_names_that_a_tree_head_had_before_still_work_and_say_the_new_one(shop: Shell) -> None:
    new, old = shop.here("evidence", "tree-head", "--new"), shop.here("evidence", "checkpoint")
    assert (old.code, old.out) == (0, new.out)
    assert "`amends evidence checkpoint` is `amends evidence tree-head` by now" in old.err
    assert "checkpoint" not in shop.here("evidence", "verify", "--help").out
