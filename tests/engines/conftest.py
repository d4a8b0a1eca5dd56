"""Found where its extra is installed: `make test-engines` makes it so."""

from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path

import pytest

collect_ignore_glob = [] if find_spec("restate") else ["test_*"]

if find_spec("restate"):
    from tests.postgres.server import PostgresServer

    @pytest.fixture(scope="session")
    def postgres() -> Generator[PostgresServer]:
        """It does not wait for its disk: what is killed here is engines and workers."""
        with PostgresServer(durable=False) as server:
            yield server

    @pytest.fixture
    def postgresql(postgres: PostgresServer) -> Generator[str]:
        """A journal of its own, empty."""
        with postgres.journal() as address:
            yield address

    @pytest.fixture(params=["postgresql", "file"])
    def journal(request: pytest.FixtureRequest, tmp_path: Path) -> str:
        """A journal of its own, empty: in PostgreSQL, and in a file."""
        if request.param == "file":
            return str(tmp_path / "journal.db")
        address: str = request.getfixturevalue("postgresql")
        return address

    @pytest.fixture(autouse=True)
    def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A world for sagas to change, and keys of the test's own."""
        (tmp_path / "world").mkdir()
        monkeypatch.setenv("AMENDS_TEST_WORLD", str(tmp_path / "world"))
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        return tmp_path / "world"
