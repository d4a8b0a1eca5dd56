"""The contract of a journal, as tests that ship: every store passes them, those of this project and yours.

    class TestMyJournal(JournalSuite):
        async def open(self) -> Journal:
            return await MyJournal.open(self.place, self.clock, notary=self.notary)

`open` gives a handle on the test's own store, and is called again for a second handle on the same one. The store must
go by `self.clock`, which the rules move, and have its checkpoints signed by `self.notary`. No plugin is needed: each
rule runs its own event loop.

Each protocol of the port has a suite of its own, under its own name: a store that is being written is tested by one of
them after the other. `WholeSuite` has the rules that several keep together.
"""

from amends.testing.journal_suite.documents import DocumentsSuite
from amends.testing.journal_suite.entries import EntriesSuite
from amends.testing.journal_suite.evidence import EvidenceSuite
from amends.testing.journal_suite.leases import LeasesSuite
from amends.testing.journal_suite.lists import ListsSuite
from amends.testing.journal_suite.locks import LocksSuite
from amends.testing.journal_suite.log import LogSuite
from amends.testing.journal_suite.rates import RatesSuite
from amends.testing.journal_suite.whole import WholeSuite

__all__ = [
    "DocumentsSuite",
    "EntriesSuite",
    "EvidenceSuite",
    "JournalSuite",
    "LeasesSuite",
    "ListsSuite",
    "LocksSuite",
    "LogSuite",
    "RatesSuite",
    "WholeSuite",
]


class JournalSuite(
    EntriesSuite,
    LogSuite,
    LeasesSuite,
    ListsSuite,
    LocksSuite,
    DocumentsSuite,
    EvidenceSuite,
    RatesSuite,
    WholeSuite,
):
    """All of the rules."""
