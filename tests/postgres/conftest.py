"""Tests on a real PostgreSQL that they start themselves: `make test-postgres`. `make test` does not collect them."""

import os
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.postgres.server import PostgresServer

collect_ignore_glob = [] if os.environ.get("AMENDS_TEST_POSTGRES") else ["test_*.py"]


@pytest.fixture(scope="session")
def shared_server() -> Generator[PostgresServer]:
    """A server for tests of what it keeps while it runs: it does not wait for its disk."""
    with PostgresServer(durable=False) as server:
        yield server


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A world for sagas to change, and keys of the test's own, for this process and for those that it starts."""
    (tmp_path / "world").mkdir()
    environment = {"AMENDS_TEST_WORLD": str(tmp_path / "world"), "XDG_STATE_HOME": str(tmp_path / "state")}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return environment


@pytest.fixture
def address(shared_server: PostgresServer) -> Generator[str]:
    """A journal of its own, empty."""
    with shared_server.journal() as address:
        yield address
