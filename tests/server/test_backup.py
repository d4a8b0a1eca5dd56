"""Backups made while a server is at work, and brought back: nothing that was acknowledged is missing unseen."""

import json
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.server.client import Client
from tests.server.serving import Serving, run_cli, serving

_MODULE = ("--module", "tests.server.shop")


class Load(threading.Thread):
    """Sagas started one after the other; `acknowledged` are those whose start was answered."""

    def __init__(self, server: Serving) -> None:
        super().__init__()
        self.acknowledged: list[str] = []
        self.enough, self.over = threading.Event(), threading.Event()
        self._server = server

    def run(self) -> None:
        with Client(self._server) as client:
            while not self.over.is_set():
                started = client.told("/sagas", {"definition": "shop.order", "input": {"order": "o"}})
                self.acknowledged.append(started["id"])
                if len(self.acknowledged) == 20:
                    self.enough.set()


def _record(*words: str, journal: Path | None = None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run_cli(*words, "--json", journal=journal).splitlines()[-1])
    return found


def test_a_backup_under_load_has_all_that_was_acknowledged_and_verifies(tmp_path: Path) -> None:
    folder, backup = tmp_path / "s", tmp_path / "backup.db"
    with serving(folder, *_MODULE) as server:
        load = Load(server)
        load.start()
        assert load.enough.wait(60)
        before = list(load.acknowledged)
        made = _record("journal", "backup", str(backup), journal=server.journal)
        at_its_end = len(load.acknowledged)
        load.over.set()
        load.join()
        assert at_its_end > len(before)  # it was worked on meanwhile
        key = run_cli("evidence", "key", journal=server.journal).strip()
        later = run_cli("evidence", "tree-head", "--new", journal=server.journal)
        server.started.kill()
    for name in ("journal.db", "journal.db-wal", "journal.db-shm"):
        (folder / name).unlink(missing_ok=True)

    (tmp_path / "kept").write_text(made["tree_head"])
    found = _record("journal", "restore", str(backup), "--tree-head", f"@{tmp_path / 'kept'}", journal=server.journal)
    assert (found["entries"], found["missing"]) == (made["entries"], 0)
    assert "covered" in run_cli("evidence", "verify", "--key", key, journal=server.journal, check=False)
    with serving(folder, *_MODULE, journal=server.journal, token=server.token) as again, Client(again) as client:
        for saga in before:
            client.until(saga, "saga.completed")

    (tmp_path / "later").write_text(later)
    other = tmp_path / "other.db"
    words = ["journal", "restore", str(backup), "--tree-head", f"@{tmp_path / 'later'}"]
    refused = run_cli(*words, journal=other, check=False)
    assert "that were acknowledged are not in" in refused
    assert not other.exists()
    missed = run_cli(*words, "--may-miss", "--json", journal=other, check=False)
    assert json.loads(missed.splitlines()[0])["missing"] > 0


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    run_cli("run", "tests.server.shop:order", "--input", '{"order": "o"}', "--id", "a", journal=tmp_path / "journal.db")
    return tmp_path / "journal.db"


def test_the_position_that_was_seen_last_has_to_be_in_the_backup(journal: Path, tmp_path: Path) -> None:
    made = _record("journal", "backup", str(tmp_path / "b"), journal=journal)
    words, end = ["journal", "restore", str(tmp_path / "b"), "--position"], made["entries"]
    assert "1 entry that was acknowledged is not in" in run_cli(
        *words, f"{end + 1}", journal=tmp_path / "c", check=False
    )
    assert f"{end} entries" in run_cli(*words, f"{end}", journal=tmp_path / "c")
    assert run_cli("saga", "list", journal=tmp_path / "c").count("completed") == 1


def test_a_backup_takes_nothings_place_and_is_for_its_owner_alone(journal: Path, tmp_path: Path) -> None:
    run_cli("journal", "backup", str(tmp_path / "b"), journal=journal)
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o600
    assert "is there already" in run_cli("journal", "backup", str(tmp_path / "b"), journal=journal, check=False)
    restored = run_cli("journal", "restore", str(tmp_path / "b"), journal=journal, check=False)
    assert "brought back to where no journal is" in restored
    assert "cannot be written" in run_cli("journal", "backup", str(tmp_path / "no" / "b"), journal=journal, check=False)
    assert sorted(one.name for one in tmp_path.iterdir() if one.name.startswith("b")) == ["b"]


def test_a_backup_that_was_changed_is_not_brought_back(journal: Path, tmp_path: Path) -> None:
    run_cli("journal", "backup", str(tmp_path / "b"), journal=journal)
    with sqlite3.connect(tmp_path / "b") as changing:
        changing.execute("DELETE FROM entry WHERE number = 3")
    changing.close()
    said = run_cli("journal", "restore", str(tmp_path / "b"), journal=tmp_path / "c", check=False)
    assert "saga a, entry 4: it does not match its hash" in said
    assert not (tmp_path / "c").exists()


def test_a_journal_in_a_database_is_backed_up_by_the_database(tmp_path: Path) -> None:
    said = run_cli("journal", "backup", str(tmp_path / "b"), "--journal", "postgresql://localhost/x", check=False)
    assert "pg_basebackup" in said
