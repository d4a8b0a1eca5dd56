"""Every journal keeps the rules that are shipped."""

from pathlib import Path

import pytest

from amends.journal.memory import Memory, MemoryJournal
from amends.journal.port.journal import Journal
from amends.journal.sqlite import SqliteJournal
from amends.testing.journal_suite import JournalSuite


class TestMemoryJournal(JournalSuite):
    @pytest.fixture(autouse=True)
    def _memory(self) -> None:
        self.memory = Memory()

    async def open(self) -> Journal:
        return MemoryJournal(self.clock, self.memory, notary=self.notary)


class TestSqliteJournal(JournalSuite):
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.place = tmp_path / "journal.db"

    async def open(self) -> Journal:
        return await SqliteJournal.open(self.place, self.clock, notary=self.notary)
