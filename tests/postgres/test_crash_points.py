"""Scenarios of crash points on PostgreSQL: SIGKILL of a forked process, and a recovery by another one."""

import os
from pathlib import Path

import pytest

from amends.clock import Clock
from amends.journal.port.journal import Journal
from amends.journal.postgres import PostgresJournal
from amends.testing.crash.crash import Tried
from amends.testing.crash.fork import FileGround, every_kill
from tests.crash.scenarios import ALL
from tests.parts import number_of
from tests.postgres.server import PostgresServer

EACH = 1 if os.environ.get("AMENDS_SOAK") else 8
STRIDE = 3 if os.environ.get("AMENDS_SOAK") else 11
CASES = [name for name in ALL if number_of("postgres", name) % EACH == 0]


@pytest.mark.parametrize("name", CASES)
def test_a_process_killed_at_a_point_leaves_what_the_next_one_settles(
    shared_server: PostgresServer, tmp_path: Path, name: str
) -> None:
    class DatabaseGround(FileGround):
        """A folder with a world, and a database beside it."""

        def __init__(self, folder: Path) -> None:
            super().__init__(folder)
            self._database = shared_server.make_database()

        async def open(self, clock: Clock) -> Journal:
            return await PostgresJournal.open(shared_server.url(self._database), clock)

        def remove(self) -> None:
            super().remove()
            shared_server.drop_database(self._database)

    tried = Tried()
    every_kill(ALL[name], tmp_path, tried, since=1 + number_of(name) % STRIDE, stride=STRIDE, make=DatabaseGround)
    assert tried.complaints == []
