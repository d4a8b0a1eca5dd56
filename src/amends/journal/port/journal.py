"""The port that everything durable goes through, and the plain data that crosses it.

Two numbers keep drivers apart. An append names the newest entry that its author has seen (`after`): if another entry
came since, nothing is written. And it may carry a lease, whose epoch rises each time a saga changes hands: if it has
risen, nothing is written. So a worker that slept through the end of its lease cannot write, whatever it believes.

A lease belongs to a worker, and a worker's lifetime is one row that it renews: holding ten thousand sagas costs one
small write each half minute. A saga is free to be claimed when its worker has not renewed in time, has given up its
leases, or (where that can be told on the same machine) is no longer alive.

All entries of a journal, of whichever saga, stand in one order, without gaps. Over them grows a Merkle tree, whose root
a notary signs now and then: a checkpoint. What is before one that somebody else holds cannot be changed unseen.
"""

from __future__ import annotations

from typing import Protocol

from amends.journal.port.documents import DocumentStore
from amends.journal.port.entries import PARENT, ROOT, Entries, Entry, RemovedEntry, Summary
from amends.journal.port.evidence import Evidence, Inspection
from amends.journal.port.leases import Lease, LeaseHolder, Leases
from amends.journal.port.lists import (
    ApprovalPage,
    ApprovalRow,
    IncidentPage,
    IncidentRow,
    Lists,
    PersonQuery,
    SagaPage,
    SagaQuery,
    SagaRow,
)
from amends.journal.port.locks import Locks
from amends.journal.port.log import Cursor, Log, Logged
from amends.journal.port.rates import Rates

__all__ = [
    "PARENT",
    "ROOT",
    "ApprovalPage",
    "ApprovalRow",
    "Cursor",
    "Entry",
    "IncidentPage",
    "IncidentRow",
    "Inspection",
    "Journal",
    "Lease",
    "LeaseHolder",
    "Logged",
    "PersonQuery",
    "RemovedEntry",
    "SagaPage",
    "SagaQuery",
    "SagaRow",
    "Summary",
]


class Journal(Entries, Log, Leases, Lists, Locks, DocumentStore, Evidence, Rates, Protocol):
    """Every method is safe to call from several coroutines of the loop that opened it.

    Writes are answered in the order of asking. A wait that is cancelled does not take its write back.
    """
