"""A journal in PostgreSQL keeps the rules that are shipped."""

import pytest

from amends.journal.port.journal import Journal
from amends.journal.postgres import PostgresJournal
from amends.testing.journal_suite import JournalSuite


class TestPostgresJournal(JournalSuite):
    @pytest.fixture(autouse=True)
    def _place(self, address: str) -> None:
        self.place = address

    async def open(self) -> Journal:
        return await PostgresJournal.open(self.place, self.clock, notary=self.notary)
