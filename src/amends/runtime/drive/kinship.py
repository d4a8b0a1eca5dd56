"""Whose child a saga is: the ids of children, the test that a saga is the child that a step called; and what its family
says before it is taken back from outside: whether a parent counts on it, and what below it cannot go back.

The id follows from the parent's and the step's; what makes a saga a child is what its labels and its start say.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator
from typing import Final, cast

from amends.core.events import SagaStarted
from amends.core.plan import unmitigated
from amends.core.state.saga import Saga, Step
from amends.core.words.values import LARGEST_VALUE, Json, SagaId, StepId, canonical
from amends.errors import Fatal
from amends.journal.port.journal import PARENT, ROOT, Journal, SagaQuery
from amends.runtime.declare.action import Asked, Done
from amends.runtime.declare.names import BELOW, LONGEST_ID
from amends.runtime.drive.family import PARENT_STEP
from amends.runtime.drive.logbook import load
from amends.secrets import mask, without_digests

_KEPT: Final = 90
_AGAIN: Final = "@"


def child_id(parent: SagaId, step: StepId) -> SagaId:
    """The id of the child that a step calls: the same on every attempt, in every process, and no other child's.

    The last `~` stands before the step, whose own is written `@`: `x~2@2` is called by the second time at step 2 of x,
    and `x~2~2` by step 2 of its child `x~2`.
    """
    return _named(parent, step.replace("/", "-").replace(BELOW, _AGAIN))


def former_child_id(parent: SagaId, step: StepId) -> SagaId:
    """The id that an older amends gave such a child: another one where the step was done again."""
    return _named(parent, step.replace("/", "-"))


def _named(parent: SagaId, step: str) -> SagaId:
    name = f"{parent}{BELOW}{step}"
    if len(name) <= LONGEST_ID and name.isascii():
        return SagaId(name)
    return SagaId(f"{parent[:_KEPT]}{BELOW}{hashlib.sha256(name.encode()).hexdigest()[:32]}")


def estranged(
    begun: SagaStarted,
    parent: SagaId,
    step: StepId,
    definition: str,
    version: int,
    given: object,
    most: int = LARGEST_VALUE,
) -> str:
    """Description of a saga that has the id of a step's child and is not that child; empty where it is the child.

    Raises TooLargeError where the inputs take more than `most`, and have to be compared off the loop.
    """
    whose = (begun.labels.get(PARENT), begun.labels.get(PARENT_STEP))
    if whose != (parent, step):
        return "nobody's child" if whose[0] is None else f"the child of step {whose[1]} of {whose[0]}"
    if (begun.definition, begun.version) != (definition, version):
        return f"{begun.definition} version {begun.version}"
    wanted = canonical(without_digests(cast("Json", mask(given, parent, most=most))))
    return "" if canonical(without_digests(begun.input)) == wanted else "one with another input"


def require_child(
    begun: SagaStarted,
    child: SagaId,
    parent: SagaId,
    step: StepId,
    definition: str,
    version: int,
    given: object,
    most: int = LARGEST_VALUE,
) -> None:
    """Raises Fatal where it is another, and TooLargeError as above."""
    instead = estranged(begun, parent, step, definition, version, given, most)
    if instead:
        raise Fatal(
            f"{definition} version {version} would be child {child}, and the saga of that id is {instead}: it is let "
            f"alone, and step {step} of {parent} calls nothing; start {parent} anew under another id",
            happened=False,
        )


def says_it_is(state: Saga, parent: SagaId, step: StepId) -> bool:
    labels = {} if state.begun is None else state.begun.labels
    return (labels.get(PARENT), labels.get(PARENT_STEP)) == (parent, step)


def is_strange(state: Saga, called: Done | Asked, most: int = LARGEST_VALUE) -> bool:
    """Whether a saga is not the child that a step called, though it has its id. Raises TooLargeError as above."""
    wanted = called.args["definition"], called.args["version"], called.args["given"], most
    return state.begun is not None and bool(estranged(state.begun, called.saga, called.step, *wanted))


async def counted_on(journal: Journal, saga: SagaId, begun: SagaStarted) -> str:
    """Why a saga is not taken back from outside: its parent counts on it, and what to ask for instead. Empty: nobody.

    A parent does not count any more on what is rolled back with it, was taken back or vouched for, or has made its
    rollback stop: a person is to see to that. Neither comes to count on it again.
    """
    row = await journal.saga(SagaId(begun.labels.get(PARENT, "")))
    if row is None or row.status.has_gone_back:
        return ""
    said = f"saga {saga} is a child, and its parent {row.id}, which is {row.status.replace('_', ' ')}, counts on it"
    if row.pruned:
        return f"{said}; the parent is pruned, so neither can be taken back any more"
    parent = await load(journal, row.id)
    step = parent.steps.get(StepId(begun.labels[PARENT_STEP]))
    if step is None or not step.standing:
        return ""
    goes_back = parent.rollback is not None or step.rewind in parent.rewinding
    if goes_back and step.named:
        return ""
    if goes_back and parent.open_incidents:
        incident = f"{row.id}/{parent.open_incidents[-1].number}"
        return f"{said}: it goes back with it, once somebody has seen to incident {incident}"
    if goes_back:
        return f"{said}: it goes back with it, in its turn"
    root = begun.labels.get(ROOT, row.id)
    return (
        f"{said}; cancel {root} to take the whole family back, or {await _rolled_back_instead(journal, parent, step)}"
    )


async def _rolled_back_instead(journal: Journal, saga: Saga, step: Step) -> str:
    """How a step of the nearest saga above goes back that may go back in part."""
    while saga.finished and saga.begun is not None and (above := saga.begun.labels.get(PARENT)) is not None:
        called_by = StepId(saga.begun.labels[PARENT_STEP])
        saga = await load(journal, SagaId(above))
        step = saga.steps[called_by]
    last = sum(one.standing and one.rewind is None and one.number >= step.number for one in saga.steps.values())
    return f"take {saga.id} back to before step {step.id}: `amends saga rollback {saga.id} --last {last}`"


async def unmitigated_below(journal: Journal, saga: Saga) -> tuple[str, ...]:
    """The steps of its children, and of theirs, that stand, cannot be taken back, and declare no mitigation."""
    return tuple(
        [
            f"step {step.id} of child {child.id} ({step.topic}: {step.contract.no_rollback})"
            async for child in standing_below(journal, saga)
            for step in unmitigated(child)
        ]
    )


async def standing_below(journal: Journal, saga: Saga) -> AsyncGenerator[Saga]:
    """Its children, and theirs, that would be taken back with it."""
    query = SagaQuery(parent=saga.id)
    while True:
        page = await journal.sagas(query)
        for row in page.rows:
            called = saga.steps.get(StepId(row.labels.get(PARENT_STEP, "")))
            if called is None or not called.standing or row.status.has_gone_back:
                continue
            child = await load(journal, row.id)
            yield child
            async for below in standing_below(journal, child):
                yield below
        if page.cursor is None:
            return
        query = SagaQuery(parent=saga.id, before=page.cursor)
