"""The migration comes back row for row, passes the second time, and survives a kill anywhere."""

import importlib.util
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.parts import sampled

SCRIPT = Path(__file__).parents[2] / "examples" / "shop_migration" / "migrate.py"
# Kills its own process when the wanted entry is durable for the n-th time, over all sagas.
KILLED = """
import os, runpy, signal, sys
import amends.runtime.drive.observers as observe
name, nth = sys.argv[1].rsplit("#", 1)
left = [int(nth)]
tell = observe.Observers.tell
def told(self, entries, *more):
    for entry in entries:
        left[0] -= entry.name.partition("/")[0] == name
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    tell(self, entries, *more)
observe.Observers.tell = told
observe.Observers.listen = property(lambda self: True, lambda self, value: None)
script = sys.argv[2]
sys.argv = [script, *sys.argv[3:]]
runpy.run_path(script, run_name="__main__")
"""


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "MIGRATION_DATA": str(folder / "shop.db"), "AMENDS_JOURNAL": str(folder / "amends.db")}
    command = [sys.executable, "-B", "-W", "error", *words]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=40, check=False)


def shapes(folder: Path) -> dict[str, str]:
    """Each table, and the name of its second column."""
    with closing(sqlite3.connect(folder / "shop.db")) as shop:
        tables = [name for (name,) in shop.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return {name: shop.execute(f"PRAGMA table_info({name})").fetchall()[1][1] for name in sorted(tables)}


def rows(folder: Path) -> dict[str, list[tuple[object, ...]]]:
    with closing(sqlite3.connect(folder / "shop.db")) as shop:
        return {name: shop.execute(f"SELECT * FROM {name} ORDER BY id").fetchall() for name in shapes(folder)}


OLD = {"customers": "amount", "orders": "amount", "refunds": "amount"}
NEW = {**dict.fromkeys(("customers", "orders", "refunds"), "cents"), **{f"old_{table}": "amount" for table in OLD}}


def made(folder: Path) -> None:
    """The shop as it is before any migration."""
    os.environ["MIGRATION_DATA"] = str(folder / "shop.db")
    try:
        spec = importlib.util.spec_from_file_location("migrate_made", SCRIPT)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.make_shop()
    finally:
        del os.environ["MIGRATION_DATA"]


def test_it_comes_back_row_for_row_and_passes_the_second_time(tmp_path: Path) -> None:
    first = run(tmp_path, str(SCRIPT))
    assert (first.returncode, first.stderr) == (0, "")
    status, back = first.stdout.splitlines()
    assert status.startswith("rolled_back: amends.call")
    assert "orders 180: 'about ten' is no amount" in status
    assert (back, shapes(tmp_path)) == ("the data is as it was: True", OLD)
    second = run(tmp_path, str(SCRIPT), "--repair")
    assert second.stdout.splitlines()[0] == "completed: {'customers': 200, 'orders': 200, 'refunds': 200}"
    assert shapes(tmp_path) == NEW


@pytest.mark.parametrize(
    "at",
    sampled(
        [
            "action.dispatched#2",
            "attempt.succeeded#1",
            "attempt.succeeded#3",
            "rollback.started#1",
            "saga.rolled_back#1",
        ],
        each=3,
    ),
)
def test_killed_in_the_middle_it_comes_back_row_for_row(tmp_path: Path, at: str) -> None:
    made(tmp_path)
    before = rows(tmp_path)
    killed = run(tmp_path, "-c", KILLED, at, str(SCRIPT))
    assert killed.returncode == -signal.SIGKILL
    resumed = run(tmp_path, str(SCRIPT), "--resume")
    assert (resumed.returncode, resumed.stderr) == (0, "")
    assert resumed.stdout.split(": ")[1].strip() == "rolled_back"
    assert rows(tmp_path) == before


@pytest.mark.parametrize("at", sampled(["attempt.succeeded#2", "saga.completed#2", "saga.completed#3"], each=3))
def test_killed_in_the_middle_it_passes_after_all(tmp_path: Path, at: str) -> None:
    killed = run(tmp_path, "-c", KILLED, at, str(SCRIPT), "--repair")
    assert killed.returncode == -signal.SIGKILL
    resumed = run(tmp_path, str(SCRIPT), "--resume")
    assert (resumed.stdout.split(": ")[1].strip(), shapes(tmp_path)) == ("completed", NEW)
