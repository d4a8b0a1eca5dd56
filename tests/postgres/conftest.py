"""Tests on a real PostgreSQL that they start themselves: `make test-postgres`. `make test` does not collect them."""

import os
from collections.abc import Generator

import pytest

from tests.postgres.server import PostgresServer

collect_ignore_glob = [] if os.environ.get("AMENDS_TEST_POSTGRES") else ["test_*.py"]


@pytest.fixture(scope="session")
def shared_server() -> Generator[PostgresServer]:
    """A server for tests of what it keeps while it runs: it does not wait for its disk."""
    with PostgresServer(durable=False) as server:
        yield server


@pytest.fixture
def address(shared_server: PostgresServer) -> Generator[str]:
    """A journal of its own, empty."""
    with shared_server.journal() as address:
        yield address
