"""A pytest plugin: what tests open as a file is a journal in PostgreSQL, one database for each path.

    python -m pytest -p tests.postgres.redirect tests/runtime/test_locks.py

So suites that were written for files hold for a database as well; `make test-postgres` runs those that can. An empty
file stands where the journal would be, for whoever looks whether it is there. What is about files alone is left out.
"""

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from amends.clock import Clock
from amends.journal.port.evidence import Notary
from amends.journal.postgres import PostgresJournal
from amends.journal.sqlite import SqliteJournal
from tests.postgres.server import USER, PostgresServer

SERVER = "AMENDS_TEST_SERVER"
FILES_ALONE = frozenset(
    {
        "test_the_file_gets_smaller_and_what_is_left_still_verifies",
        "test_a_file_of_small_sagas_gets_smaller_too",
        "test_two_processes_tell_each_notice_once",
        "test_a_sigkill_between_delivery_and_cursor_tells_it_again_under_the_same_id",
        "test_after_a_sigkill_the_next_process_does_not_wait_for_the_dead_one_s_mark",
        "test_sagas_that_are_signalled_together_share_their_commits",
    }
)
"""About the file's size, the file's own counts, or processes that this plugin is not in."""
_places: dict[Path, str] = {}
_servers: list[PostgresServer] = []


def pytest_configure() -> None:
    if SERVER not in os.environ:  # the workers of xdist find it there
        server = PostgresServer(durable=False)
        _servers.append(server)
        server.start()
        server.make_database()
        os.environ[SERVER] = f"postgresql://{USER}@127.0.0.1:{server.port}"


def pytest_unconfigure() -> None:
    for server in _servers:
        server.__exit__(None, None, None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = [item for item in items if item.name.partition("[")[0] not in FILES_ALONE]


def database_of(named: str | os.PathLike[str]) -> str:
    server, path = os.environ[SERVER], Path(named).absolute()
    if path not in _places:
        name = f"redirected_{os.getpid()}_{len(_places)}"
        _administer(sql.SQL("CREATE DATABASE {} TEMPLATE amends_template").format(sql.Identifier(name)))
        _places[path] = name
        path.touch(mode=0o600)
    return f"{server}/{_places[path]}"


def _administer(statement: sql.Composed) -> None:
    with psycopg.connect(f"{os.environ[SERVER]}/postgres", autocommit=True) as connection:
        connection.execute(statement)


async def _opened(
    path: str | os.PathLike[str], clock: Clock, *, notary: Notary | None = None, checked: bool = True, **others: Any
) -> PostgresJournal:
    address, inline = database_of(path), bool(others.get("inline"))
    return await PostgresJournal.open(address, clock, notary=notary, checked=checked, inline=inline)


@pytest.fixture(autouse=True)
def _redirected(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    monkeypatch.setattr(SqliteJournal, "open", _opened)
    before = set(_places)
    yield
    for path in set(_places) - before:
        _administer(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(_places.pop(path))))
