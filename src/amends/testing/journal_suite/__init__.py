"""The contract of a journal, as tests that ship: every store passes them, those of this project and yours.

    class TestMyJournal(JournalSuite):
        async def open(self) -> Journal:
            return await MyJournal.open(self.place, self.clock, notary=self.notary)

`open` gives a handle on the test's own store, and is called again for a second handle on the same one. The store must
go by `self.clock`, which the rules move, and have its checkpoints signed by `self.notary`. No plugin is needed: each
rule runs its own event loop.
"""

from amends.testing.journal_suite.documents import DocumentRules
from amends.testing.journal_suite.entries import EntryRules
from amends.testing.journal_suite.evidence import EvidenceRules
from amends.testing.journal_suite.leases import LeaseRules
from amends.testing.journal_suite.lists import ListRules
from amends.testing.journal_suite.locks import LockRules
from amends.testing.journal_suite.log import LogRules
from amends.testing.journal_suite.parts import PartRules

__all__ = ["JournalSuite"]


class JournalSuite(EntryRules, LeaseRules, ListRules, LockRules, DocumentRules, LogRules, EvidenceRules, PartRules):
    """All of the rules."""
