"""Signed tree heads that go elsewhere by themselves: by them a journal that was rewritten is noticed."""

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from amends.evidence.sign.note import held_notes
from tests.cli.shell import Shell

JOURNAL = "amends.db"


@pytest.fixture
def amends(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def copied(place: Path, name: str) -> None:
    """The journal as it is, whole, in another file."""
    with sqlite3.connect(place / JOURNAL) as journal:
        journal.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(place / JOURNAL, place / name)


def put_back(place: Path, name: str) -> None:
    for each in place.glob(f"{JOURNAL}-*"):
        each.unlink()
    shutil.copy(place / name, place / JOURNAL)


def test_a_journal_that_was_put_back_to_an_older_copy_is_named_by_the_heads_that_were_pushed(amends: Shell) -> None:
    place, kept = amends.place, amends.place / "heads.jsonl"
    assert amends("run", "shop:chat", "--id", "first").code == 0
    assert amends("notify", "--file", "heads.jsonl", "--once").code == 0
    copied(place, "old.db")
    assert amends("run", "shop:chat", "--id", "second").code == 0
    said = amends("notify", "--file", "heads.jsonl", "--once")
    assert (said.code, "tree.head" in said.out, said.out.rstrip().endswith("told")) == (0, True, True), said
    heads = [json.loads(line) for line in kept.read_text().splitlines()]
    assert [each["type"] for each in heads] == ["tree.head", "tree.head"]
    assert heads[0]["data"]["size"] < heads[1]["data"]["size"]
    assert kept.stat().st_mode & 0o777 == 0o600
    verify = ("evidence", "verify", "--tree-head", "@heads.jsonl")
    assert amends(*verify).code == 0
    put_back(place, "old.db")
    assert amends("evidence", "verify").code == 0, "by itself it looks as if nothing were wrong"
    told = amends(*verify)
    assert told.code == 8
    assert "NOT as it was signed" in told.out
    # and where it has gone on since, it has as many entries again, but other ones
    for n in range(3):
        assert amends("run", "shop:chat", "--id", f"third-{n}").code == 0
    assert amends("evidence", "verify").code == 0
    assert amends(*verify).code == 8


def test_a_head_is_told_once_and_again_when_there_is_a_new_one(amends: Shell) -> None:
    assert amends("run", "shop:chat", "--id", "first").code == 0
    for _ in range(2):
        assert amends("notify", "--file", "heads.jsonl", "--once").code == 0
    kept = amends.place / "heads.jsonl"
    assert len(kept.read_text().splitlines()) == 1
    assert "tree head   of " in amends("notify", "status").out
    kept.write_text(kept.read_text() + '{"cut": "of')  # a crash in the middle of a line
    assert amends("run", "shop:chat", "--id", "second").code == 0
    assert amends("notify", "--file", "heads.jsonl", "--once").code == 0
    assert len(held_notes(kept.read_text())) == 2
    assert amends("evidence", "verify", "--tree-head", "@heads.jsonl").code == 0


def test_a_file_that_cannot_be_written_is_tried_again(amends: Shell) -> None:
    assert amends("run", "shop:chat").code == 0
    (amends.place / "heads.jsonl").mkdir()
    said = amends("notify", "--file", "heads.jsonl", "--once")
    assert said.code == 6
    assert "it cannot be written: Is a directory" in said.out
    (amends.place / "heads.jsonl").rmdir()
    assert amends("notify", "--file", "heads.jsonl", "--once").code == 0
    assert "is no directory" in amends("notify", "--file", "nowhere/heads.jsonl", "--once").complaint


def test_a_command_is_told_of_heads_where_it_asks_for_them(amends: Shell) -> None:
    assert amends("run", "shop:chat").code == 0
    assert amends("notify", "--command", "tee told.json", "--type", "tree.head", "--once").code == 0
    note = json.loads((amends.place / "told.json").read_text())["data"]["note"]
    (amends.place / "kept").write_text(note)
    assert amends("evidence", "verify", "--tree-head", "@kept").code == 0
    (amends.place / "none.jsonl").write_text('{"type": "incident.opened"}\n')
    assert "holds no tree head" in amends("evidence", "verify", "--tree-head", "@none.jsonl").complaint
