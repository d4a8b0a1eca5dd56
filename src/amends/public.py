"""The public names: all that `import amends` gives, each from its own home. More: `types`, `errors`, `notify`."""

from amends.bootstrap import Coordinator, run, tool
from amends.core.transitions import SagaStatus
from amends.core.words.contracts import Retries, Reversibility
from amends.errors import (
    Abort,
    AmendsError,
    CallPerson,
    ChangedSince,
    Complete,
    DeadlockError,
    Fatal,
    Flawed,
    NotDone,
    Retry,
    StepDeniedError,
    StepError,
    StepFailedError,
    StepFatalError,
    StepLostError,
)
from amends.runtime.declare.action import Action, Asked, Done, Happened, NotHappened, key, reasons
from amends.runtime.declare.checks import check
from amends.runtime.declare.decorators import action, register
from amends.runtime.declare.definition import SagaDefinition
from amends.runtime.declare.limits import Limit, Limits, to_checkpoint
from amends.runtime.declare.registry import Registry
from amends.runtime.declare.steps import Step, given, result_of
from amends.runtime.engine.handle import Ended, Handle
from amends.runtime.saga.children import child
from amends.runtime.saga.work import Work, saga
from amends.runtime.settings import Settings
from amends.secrets import Secret

__all__ = [  # noqa: RUF022 - in four groups, as one looks for them
    # declare
    "Limit",
    "Limits",
    "Retries",
    "Reversibility",
    "Secret",
    "Step",
    "action",
    "check",
    "child",
    "given",
    "register",
    "result_of",
    "saga",
    "to_checkpoint",
    # run
    "Coordinator",
    "Registry",
    "Settings",
    "run",
    "tool",
    # hold in your hand
    "Action",
    "Asked",
    "Done",
    "Ended",
    "Handle",
    "Happened",
    "NotHappened",
    "SagaDefinition",
    "SagaStatus",
    "Work",
    "key",
    "reasons",
    # raise, and catch
    "Abort",
    "AmendsError",
    "CallPerson",
    "ChangedSince",
    "Complete",
    "DeadlockError",
    "Fatal",
    "Flawed",
    "NotDone",
    "Retry",
    "StepDeniedError",
    "StepError",
    "StepFailedError",
    "StepFatalError",
    "StepLostError",
]
