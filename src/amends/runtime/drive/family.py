"""Messages between a saga and its children while both are under way: what is used up goes up, a stop comes down.

A child's own journal says what it has used up. Its parent is told the sum, before each step of the child and after each
spending; told again, the sum counts once. So nothing is lost or doubled by a kill between the two: whoever drives the
child next, or the parent's own step when the child has ended, tells it again. Told too late, a limit is late by that
one spending, and by no step: a child's step is counted by all above it before it is dispatched.

Where a limit of one above is reached, the child stands still or goes back with it, at its next step; at once, where the
limit says that it stops the children too. Nothing here loosens anything: a child's limits are never the parent's.

Where a saga goes back, in whole or in part, the children of what is taken back stand still at once, all the way down,
and are taken back when it is the turn of the step that called them: they begin nothing more, and newest first stays
newest first. One with a pivot goes forward only, and is left alone. Whoever takes a child up after a kill looks above
before it goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, Final, NamedTuple, Protocol

from amends.core import commands as c
from amends.core.decide.limits import FAMILY, goes_back, halts_child
from amends.core.events import Cause, SagaStarted
from amends.core.state.limits import Response
from amends.core.state.saga import Saga
from amends.core.transitions import SagaStatus, StepStatus
from amends.core.words.contracts import Topic
from amends.core.words.values import SagaId, StepId
from amends.errors import JournalError, PastPivotError, RefusedError
from amends.journal.port.journal import PARENT, Journal, SagaQuery
from amends.runtime.drive.logbook import Logbook
from amends.runtime.drive.worker_context import WorkerContext

PARENT_STEP: Final = "amends.parent_step"
CALL_TOPIC: Final = Topic("amends.call")
_UNFINISHED: Final = (SagaStatus.RUNNING, SagaStatus.WAITING, SagaStatus.PAUSED, SagaStatus.INCIDENT)
_GOES_ON: Final = frozenset({SagaStatus.RUNNING, SagaStatus.WAITING, SagaStatus.COMPLETED})
_UNDER_WAY: Final = frozenset({StepStatus.RUNNING, StepStatus.UNKNOWN})
current: ContextVar[Family] = ContextVar("amends_family")


class Halt(NamedTuple):
    """A saga above has its child go back, or stand still."""

    how: Response
    why: str
    cause: Cause


class FamilyEngine(Protocol):
    """Sagas of one process, as far as their families need it."""

    async def load(self, saga: SagaId) -> Saga: ...

    async def state(self, saga: SagaId) -> Saga: ...

    async def begun(self, saga: SagaId) -> SagaStarted | None: ...

    async def request(self, saga: SagaId, command: c.Command) -> Saga: ...

    async def let_go_on(self, saga: SagaId, by: str, *, follows: bool) -> bool: ...

    def driven_children(self, parent: SagaId) -> list[SagaId]: ...


class Family:
    """Of one engine's sagas. `in_background` has work done beside them."""

    def __init__(
        self,
        engine: FamilyEngine,
        around: WorkerContext,
        journal: Journal,
        nudge: Callable[[tuple[SagaId, ...]], None],
        in_background: Callable[[Coroutine[Any, Any, object]], None],
    ) -> None:
        self._engine = engine
        self._around = around
        self._journal = journal
        self._nudge = nudge
        self._in_background = in_background

    # -- up -----------------------------------------------------------------------------------------------------------

    async def count(self, child: Saga, *, more: int = 0, topic: str = "", again: str = "") -> Halt | None:
        """Tell all above what a child has used up, with what is about to be: so many steps, or a retry of this topic.

        Says why it may not go on.
        """
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
                    topic=topic,
                    failures=used.failures if used is not None and used.tells_tries else 0,
                    retries=used.retries + bool(again) if used is not None and used.tells_tries else 0,
                    again=again,
                ),
            )
            self._heed(below)
            halt = halt or _halt(below, step)
            more, again = 0, ""  # the one above has counted it, and says so to whoever is above that
        return halt

    # -- down ---------------------------------------------------------------------------------------------------------

    def heed(self, book: Logbook) -> None:
        """Where a limit has stopped a saga and stops its children too, have that done once it is on record."""
        if _stops_children(book.saga):
            self._in_background(self._heed_when_durable(book))

    async def _heed_when_durable(self, book: Logbook) -> None:
        await book.commit()
        self._heed(book.saga)

    def _heed(self, saga: Saga) -> None:
        budget = saga.budget
        if budget is not None and _stops_children(saga):
            reached = f"limit {budget.reached} of {saga.id}: {budget.why}"
            why = f"saga {saga.id} goes back" if budget.reached is None else reached
            self._in_background(self._stop(saga, why))

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
            return c.CancelSaga(by=FAMILY, why=why)
        return c.PauseSaga(by=FAMILY, why=why)

    def heed_return(self, book: Logbook) -> None:
        """A saga goes back: have the children of what is taken back stand still, once that is on record."""
        budget = book.saga.budget
        if budget is None or budget.reached is None or not _stops_children(book.saga):  # else the limit stops them
            self._in_background(self._return_when_durable(book))

    async def _return_when_durable(self, book: Logbook) -> None:
        with suppress(JournalError):  # then it is for whoever drives it next
            await book.commit()
            await self.hold_still(book.saga, _goes_back(book.saga))

    def asked_to_return(self, saga: Saga) -> None:
        """Somebody here had a saga go back that is not driven here: its children need not wait for who drives it."""
        if calls_going_back(saga):
            self._in_background(self.hold_still(saga, _goes_back(saga)))

    async def hold_still(self, saga: Saga, why: str, *, whole: bool = False) -> None:
        """Have the children of what is taken back, or with `whole` all of them, begin nothing more; and theirs."""
        for child in dict.fromkeys((*self._engine.driven_children(saga.id), *await self._unended(saga.id))):
            state = await self._engine.state(child)
            if state.pivot is not None or state.begun is None:
                continue
            if whole or goes_back(saga, StepId(state.begun.labels[PARENT_STEP])):
                if state.phase is SagaStatus.RUNNING:  # else it begins nothing as it is; unpaused, it looks above
                    with suppress(RefusedError):
                        state = await self._engine.request(child, c.PauseSaga(by=FAMILY, why=why))
                await self.hold_still(state, why, whole=True)

    async def above_goes_back(self, saga: Saga) -> str:
        """Why a child that is taken up may not go on: one above takes back what it belongs to. Empty: it may."""
        labels = {} if saga.begun is None or saga.pivot is not None else saga.begun.labels
        while (name := labels.get(PARENT)) is not None:
            row = await self._journal.saga(SagaId(name))
            if row is None:
                break
            if row.status not in _GOES_ON:
                above, step = await self._engine.load(row.id), StepId(labels[PARENT_STEP])
                called = above.steps.get(step)
                if goes_back(above, step) and called is not None and called.standing:
                    return _goes_back(above)
            labels = row.labels
        return ""

    async def let_go_on(self, child: SagaId) -> None:
        """Let a child that stood still because of its parent go on, and what is below it and not taken back."""
        row = await self._journal.saga(child)
        if row is None or row.status.ended or row.status is SagaStatus.INCIDENT:
            return
        if row.status is SagaStatus.PAUSED:
            state = await self._engine.load(child)
            if state.paused is None or state.paused.by != FAMILY:
                return
            await self._engine.let_go_on(child, by=FAMILY, follows=True)
        below = await self.children_of(child)
        above = await self._engine.state(child) if below else None
        for one in below:
            begun = await self._engine.begun(one)
            step = None if begun is None else StepId(begun.labels[PARENT_STEP])
            if above is not None and step is not None and halts_child(above, step) is None:
                await self.let_go_on(one)

    async def children_of(self, saga: SagaId) -> list[SagaId]:
        """Children that have not ended, and do not go back."""
        return await self._rows(saga, _UNFINISHED)

    async def _unended(self, saga: SagaId) -> list[SagaId]:
        """Children that have not ended; one that takes a part of itself back is seen as rolling back, and runs."""
        return await self._rows(saga, (*_UNFINISHED, SagaStatus.ROLLING_BACK))

    async def _rows(self, saga: SagaId, statuses: tuple[SagaStatus, ...]) -> list[SagaId]:
        found: list[SagaId] = []
        query = SagaQuery(parent=saga, statuses=statuses)
        while True:
            page = await self._journal.sagas(query)
            found.extend(row.id for row in page.rows)
            if page.cursor is None:
                return found
            query = SagaQuery(parent=saga, statuses=statuses, before=page.cursor)


def _stops_children(saga: Saga) -> bool:
    """Whether it was stopped, and a limit that it came to stops its children too."""
    if saga.budget is None or saga.works:
        return False
    return any(bound.children and bound.reached for bound in saga.budget.bounds.values())


def calls_going_back(saga: Saga) -> frozenset[StepId]:
    """The calls that are taken back, and whose children may be under way."""
    if (saga.rollback is None and not saga.rewinding) or all(topic != CALL_TOPIC for topic, _ in saga.contracts):
        return frozenset()
    calls = (step for step in saga.steps.values() if step.topic == CALL_TOPIC and step.status in _UNDER_WAY)
    return frozenset(step.id for step in calls if goes_back(saga, step.id))


def _goes_back(saga: Saga) -> str:
    return f"saga {saga.id} goes back"


def _halt(above: Saga, step: StepId) -> Halt | None:
    how = halts_child(above, step)
    if how is None:
        return None
    budget = above.budget
    if budget is not None and budget.reached is not None:
        return Halt(how, f"limit {budget.reached} of its parent {above.id}: {budget.why}", Cause.LIMIT)
    return Halt(how, f"its parent {above.id} does not go on", Cause.CANCELLED)


async def within(book: Logbook, *, more: int = 0, topic: str = "", again: str = "") -> Halt | None:
    """Before a step or a retry of a saga that runs within its parent's limits, or after a spending or a failure: why
    it may not go on.
    """
    return await current.get().count(book.saga, more=more, topic=topic, again=again)


def heed(book: Logbook) -> None:
    """A saga has come to its limit: its children hear of it, where they stop too."""
    family = current.get(None)
    if family is not None and book.saga.budget is not None:
        family.heed(book)
