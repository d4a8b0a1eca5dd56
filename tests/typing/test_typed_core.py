"""The core's states as type checkers see them: only fields that they have are changed, to what they may hold.

What must not pass is silenced with its code; both checkers say when a silence is no longer needed. So a misspelled
field would be found, though a copy is made without a look at the fields.
"""

from typing import assert_type

import pytest

from amends.core.state.saga import Saga, unstarted
from amends.core.state.step import Step
from amends.core.transitions import StepStatus
from amends.core.words.contracts import Contract, Topic
from amends.core.words.values import SagaId, StepId
from amends.dataclass import altered

STEP = Step(id=StepId("a"), contract=Contract(topic=Topic("t"), version=1), args={}, digest="")
SAGA = unstarted(SagaId("s"))


def test_a_copy_has_the_type_and_the_fields_of_what_it_is_a_copy_of() -> None:
    step = altered(STEP, status=StepStatus.RUNNING, attempts=2)
    assert_type(step, Step)
    assert (step.status, step.attempts, step.id, STEP.attempts) == (StepStatus.RUNNING, 2, STEP.id, 0)
    saga = SAGA.copy()
    assert_type(saga, Saga)
    saga.top, saga.finished = 3, True
    assert (saga.top, saga.finished, saga.id, SAGA.top) == (3, True, SAGA.id, 0)


def test_a_misspelled_field_is_refused_by_the_type_checkers() -> None:
    with pytest.raises(TypeError, match="given_upp"):
        altered(STEP, given_upp=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue] - the typo is the point
    with pytest.raises(AttributeError, match="finnished"):
        SAGA.copy().finnished = True  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue] - so here


def test_a_field_is_not_given_what_it_cannot_hold() -> None:
    altered(STEP, attempts="2")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - it is a number
    SAGA.copy().top = None  # type: ignore[assignment]  # pyright: ignore[reportAttributeAccessIssue] - it is a number
