"""The public names: all that `import amends` gives, each from its own home."""

from amends.bootstrap import Coordinator, run
from amends.core.contracts import Contract, Retries, Reversibility
from amends.core.events import IncidentKind
from amends.core.transitions import SagaStatus, StepStatus
from amends.documents.documents import Documents
from amends.errors import (
    Abort,
    AmendsError,
    CallPerson,
    ChangedSince,
    Complete,
    DeadlockError,
    DocumentConflictError,
    Fatal,
    Flawed,
    NotDone,
    PastPivotError,
    PolicyError,
    PolicyNotInForceError,
    RefusedError,
    Retry,
    SecretUnavailableError,
    StepDeniedError,
    StepError,
    StepFailedError,
    StepFatalError,
    StepLostError,
    UnknownApprovalError,
    UnknownCheckpointError,
    UnverifiedError,
    WaitTimeoutError,
    WebhookRefusedError,
)
from amends.journal.filing import Document
from amends.journal.locking import LockRow
from amends.journal.protocol import ApprovalRow
from amends.runtime.action import Action, Asked, Done, Happened, NotHappened, action, feedback, key, register
from amends.runtime.approvals import Asking
from amends.runtime.assertions import Check, check
from amends.runtime.attempts import Attempt, Attempts
from amends.runtime.calling import Child, child
from amends.runtime.definition import SagaDefinition, saga
from amends.runtime.handle import Ended, Handle
from amends.runtime.limits import Limit, Limits, ToCheckpoint, to_checkpoint
from amends.runtime.notices.command import Command
from amends.runtime.notices.file import NoticeFile
from amends.runtime.notices.signing import verify_webhook
from amends.runtime.notices.webhook import Webhook
from amends.runtime.registry import Registry
from amends.runtime.rewind import Feedback, TakenBack
from amends.runtime.rollback import PlannedStep, RollbackPlan
from amends.runtime.secret import Secret
from amends.runtime.settings import Settings
from amends.runtime.steps import Step, given, result_of
from amends.runtime.work import Work

__all__ = [
    "Abort",
    "Action",
    "AmendsError",
    "ApprovalRow",
    "Asked",
    "Asking",
    "Attempt",
    "Attempts",
    "CallPerson",
    "ChangedSince",
    "Check",
    "Child",
    "Command",
    "Complete",
    "Contract",
    "Coordinator",
    "DeadlockError",
    "Document",
    "DocumentConflictError",
    "Documents",
    "Done",
    "Ended",
    "Fatal",
    "Feedback",
    "Flawed",
    "Handle",
    "Happened",
    "IncidentKind",
    "Limit",
    "Limits",
    "LockRow",
    "NotDone",
    "NotHappened",
    "NoticeFile",
    "PastPivotError",
    "PlannedStep",
    "PolicyError",
    "PolicyNotInForceError",
    "RefusedError",
    "Registry",
    "Retries",
    "Retry",
    "Reversibility",
    "RollbackPlan",
    "SagaDefinition",
    "SagaStatus",
    "Secret",
    "SecretUnavailableError",
    "Settings",
    "Step",
    "StepDeniedError",
    "StepError",
    "StepFailedError",
    "StepFatalError",
    "StepLostError",
    "StepStatus",
    "TakenBack",
    "ToCheckpoint",
    "UnknownApprovalError",
    "UnknownCheckpointError",
    "UnverifiedError",
    "WaitTimeoutError",
    "Webhook",
    "WebhookRefusedError",
    "Work",
    "action",
    "check",
    "child",
    "feedback",
    "given",
    "key",
    "register",
    "result_of",
    "run",
    "saga",
    "to_checkpoint",
    "verify_webhook",
]
