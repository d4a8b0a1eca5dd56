"""Types of what amends answers with: rows, plans, documents, attempts. They are read and annotated with, not made."""

from amends.core.events import IncidentKind
from amends.core.transitions import StepStatus
from amends.core.words.contracts import Contract
from amends.documents.documents import Documents
from amends.journal.port.documents import Document
from amends.journal.port.journal import ApprovalRow
from amends.journal.port.locks import LockRow
from amends.runtime.coordinator.people import Approval
from amends.runtime.coordinator.preview import PlannedStep, RollbackPlan
from amends.runtime.declare.checks import Check
from amends.runtime.declare.limits import ToCheckpoint
from amends.runtime.saga.attempts import Attempt, Attempts
from amends.runtime.saga.children import Child
from amends.runtime.saga.rewind import Feedback, TakenBack

__all__ = [
    "Approval",
    "ApprovalRow",
    "Attempt",
    "Attempts",
    "Check",
    "Child",
    "Contract",
    "Document",
    "Documents",
    "Feedback",
    "IncidentKind",
    "LockRow",
    "PlannedStep",
    "RollbackPlan",
    "StepStatus",
    "TakenBack",
    "ToCheckpoint",
]
