"""File work that can be taken back, layer by layer. Knows files, and not sagas."""

from amends.changeset.changeset import Changeset
from amends.changeset.files import Files
from amends.changeset.late import LateWrite
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
from amends.changeset.line import Ticket
from amends.changeset.model import EPHEMERAL, Isolation, Life, Limits, Terms, Totals
from amends.changeset.pruning import prune
from amends.changeset.report import BranchMerged, Conflict, Conflicted, Landed, Unverified, Winner
from amends.changeset.results import Dropped, Sealed
from amends.changeset.tools import Ran, Running
from amends.changeset.views.probe import Answer
from amends.changeset.views.protocol import Budget

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
