"""What passes between a saga and its children while both are under way: what is used up goes up, a stop comes down.

A child's own journal says what it has used up. Its parent is told the sum, before each step of the child and after each
spending; told again, the sum counts once. So nothing is lost or doubled by a kill between the two: whoever drives the
child next, or the parent's own step when the child has ended, tells it again. Told too late, a limit is late by that
one spending, and by no step: a child's step is counted by all above it before it is dispatched.

Where a limit of one above is reached, the child stands still or goes back with it, at its next step; at once, where the
limit says that it stops the children too. Nothing here loosens anything: a child's limits are never the parent's.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, NamedTuple

from amends.core import commands as c
from amends.core.events import Cause
from amends.core.keeping import FAMILY, halts_child
from amends.core.limits import Response
from amends.core.saga import Saga
from amends.core.transitions import SagaStatus
from amends.core.values import SagaId, StepId
from amends.errors import PastPivotError, RefusedError
from amends.journal.protocol import PARENT, Journal, SagaQuery

if TYPE_CHECKING:
    from collections.abc import Callable

    from amends.runtime.errands import Errands
    from amends.runtime.local import LocalEngine
    from amends.runtime.logbook import Logbook
    from amends.runtime.surroundings import Surroundings

PARENT_STEP: Final = "amends.parent_step"
_UNFINISHED: Final = (SagaStatus.RUNNING, SagaStatus.WAITING, SagaStatus.PAUSED, SagaStatus.INCIDENT)
current: ContextVar[Family] = ContextVar("amends_family")


class Halt(NamedTuple):
    """A saga above has its child go back, or stand still."""

    how: Response
    why: str
    cause: Cause


class Family:
    """Of one engine's sagas."""

    def __init__(
        self,
        engine: LocalEngine,
        around: Surroundings,
        journal: Journal,
        nudge: Callable[[tuple[SagaId, ...]], None],
        errands: Errands,
    ) -> None:
        self._engine = engine
        self._around = around
        self._journal = journal
        self._nudge = nudge
        self._errands = errands

    # -- up -----------------------------------------------------------------------------------------------------------

    async def count(self, child: Saga, *, more: int = 0, topic: str = "") -> Halt | None:
        """Tell all above what a child has used up, with so many steps that are about to be; why it may not go on."""
        halt: Halt | None = None
        below = child
        while below.begun is not None and (parent := below.begun.labels.get(PARENT)) is not None:
            step = StepId(below.begun.labels[PARENT_STEP])
            used = below.budget
            below = await self._engine.request(
                SagaId(parent),
                c.CountChild(
                    step=step,
                    tokens=0 if used is None else used.tokens,
                    usd_micros=0 if used is None else used.usd_micros,
                    steps=more if used is None else used.steps + more,
                    now=self._around.clock.now(),
                    window_s=self._around.settings.rollback_s,
                    topic=topic,
                ),
            )
            self._heed(below)
            halt = halt or _halt(below, step)
            more = 0  # the one above has counted it, and says so to whoever is above that
        return halt

    # -- down ---------------------------------------------------------------------------------------------------------

    def heed(self, book: Logbook) -> None:
        """Where a limit has stopped a saga and stops its children too, have that done once it is on record."""
        if _stops_children(book.saga):
            self._errands.run(self._heed_when_durable(book))

    async def _heed_when_durable(self, book: Logbook) -> None:
        await book.commit()
        self._heed(book.saga)

    def _heed(self, saga: Saga) -> None:
        budget = saga.budget
        if budget is not None and _stops_children(saga):
            reached = f"limit {budget.reached} of {saga.id}: {budget.why}"
            why = f"saga {saga.id} goes back" if budget.reached is None else reached
            self._errands.run(self._stop(saga, why))

    async def _stop(self, saga: Saga, why: str) -> None:
        """Stop all children of a saga, and theirs, as it was stopped itself."""
        for child in await self.children_of(saga.id):
            state = await self._engine.load(child)
            step = "" if state.begun is None else state.begun.labels.get(PARENT_STEP, "")
            how = halts_child(saga, StepId(step))
            if how is None:
                continue
            try:
                stopped = await self._engine.request(child, self._stopping(how, why))
            except (RefusedError, PastPivotError):  # it does not go forward any more, or cannot go back
                stopped = await self._engine.load(child)
            if how is Response.ROLLBACK:
                self._nudge((child,))
            await self._stop(stopped, why)

    def _stopping(self, how: Response, why: str) -> c.CancelSaga | c.PauseSaga:
        if how is Response.ROLLBACK:
            now, window_s = self._around.clock.now(), self._around.settings.rollback_s
            return c.CancelSaga(by=FAMILY, why=why, now=now, window_s=window_s)
        return c.PauseSaga(by=FAMILY, why=why)

    async def let_go_on(self, child: SagaId) -> None:
        """What stood still because of its parent goes on with it, and so does what is below."""
        row = await self._journal.saga(child)
        if row is None or row.status.ended or row.status is SagaStatus.INCIDENT:
            return
        if row.status is SagaStatus.PAUSED:
            state = await self._engine.load(child)
            if state.paused is None or state.paused.by != FAMILY:
                return
            await self._engine.let_go_on(child, by=FAMILY)
        for below in await self.children_of(child):
            await self.let_go_on(below)

    async def children_of(self, saga: SagaId) -> list[SagaId]:
        """Those that have not ended, and do not go back."""
        found: list[SagaId] = []
        query = SagaQuery(parent=saga, statuses=_UNFINISHED)
        while True:
            page = await self._journal.sagas(query)
            found.extend(row.id for row in page.rows)
            if page.cursor is None:
                return found
            query = SagaQuery(parent=saga, statuses=_UNFINISHED, before=page.cursor)


def _stops_children(saga: Saga) -> bool:
    """Whether it was stopped, and a limit that it came to stops its children too."""
    if saga.budget is None or saga.works:
        return False
    return any(bound.children and bound.reached for bound in saga.budget.bounds.values())


def _halt(above: Saga, step: StepId) -> Halt | None:
    how = halts_child(above, step)
    if how is None:
        return None
    budget = above.budget
    if budget is not None and budget.reached is not None:
        return Halt(how, f"limit {budget.reached} of its parent {above.id}: {budget.why}", Cause.LIMIT)
    return Halt(how, f"its parent {above.id} does not go on", Cause.CANCELLED)


async def within(book: Logbook, *, more: int = 0, topic: str = "") -> Halt | None:
    """Before a step of a saga that runs within its parent's limits, or after a spending: why it may not go on."""
    return await current.get().count(book.saga, more=more, topic=topic)


def heed(book: Logbook) -> None:
    """A saga has come to its limit: its children hear of it, where they stop too."""
    family = current.get(None)
    if family is not None and book.saga.budget is not None:
        family.heed(book)
