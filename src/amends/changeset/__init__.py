"""File work that can be taken back, layer by layer. Knows files, and not sagas."""

from amends.changeset.changeset import Changeset
from amends.changeset.files import Files
from amends.changeset.landing.late_writes import LateWrite
from amends.changeset.layers.report import BranchMerged, Conflict, Conflicted, Landed, Unverified, Winner
from amends.changeset.library import (
    Summary,
    conflicts_of,
    diff,
    doctor,
    draft_digest,
    keep,
    landing_of,
    late_writes,
    list_changesets,
    queue,
    require_conflict,
    show,
    take_back,
    write_drafts,
)
from amends.changeset.model.model import EPHEMERAL, Isolation, Life, Limits, Terms, Totals
from amends.changeset.model.results import Dropped, Sealed
from amends.changeset.pruning import prune
from amends.changeset.store.queue import Ticket
from amends.changeset.views.probe import Answer
from amends.changeset.views.protocol import Budget
from amends.process.running import Ran, Running

__all__ = [
    "EPHEMERAL",
    "Answer",
    "BranchMerged",
    "Budget",
    "Changeset",
    "Conflict",
    "Conflicted",
    "Dropped",
    "Files",
    "Isolation",
    "Landed",
    "LateWrite",
    "Life",
    "Limits",
    "Ran",
    "Running",
    "Sealed",
    "Summary",
    "Terms",
    "Ticket",
    "Totals",
    "Unverified",
    "Winner",
    "conflicts_of",
    "diff",
    "doctor",
    "draft_digest",
    "keep",
    "landing_of",
    "late_writes",
    "list_changesets",
    "prune",
    "queue",
    "require_conflict",
    "show",
    "take_back",
    "write_drafts",
]
