"""How a step that ended badly looks to the saga's function: one error for each way to end."""

from __future__ import annotations

from amends.core.saga import Step
from amends.core.transitions import StepStatus
from amends.errors import (
    DeadlockError,
    StepDeniedError,
    StepError,
    StepFailedError,
    StepFatalError,
    StepLostError,
)


def step_error(step: Step) -> StepError:
    """How a step that ended badly looks to the function: the same now and when it is called again."""
    status, error, fatal, where = step.told or (step.status, step.error, step.fatal, step.where)
    if status is StepStatus.DENIED:
        return StepDeniedError(error, step=step.id, topic=step.topic)
    if fatal:
        happened = False if status is StepStatus.FAILED else None
        return StepFatalError(error, step=step.id, topic=step.topic, happened=happened, where=where)
    if step.deadlocked:
        return DeadlockError(error, step=step.id, topic=step.topic)
    if status is StepStatus.FAILED:
        return StepFailedError(error, step=step.id, topic=step.topic, where=where)
    return StepLostError(error, step=step.id, topic=step.topic, where=where)
