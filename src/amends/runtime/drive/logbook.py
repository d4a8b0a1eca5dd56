"""One saga's pen: commands go in, decided events come out durable, in order, and only under the lease.

`tell` decides and folds at once, so the caller sees the state after its command; nothing is on disk yet. `commit`
returns when everything is durable, and `commit_this_far` when everything told before it is, which has to precede a
dispatch. Meanwhile what others tell joins the same append: the outcome of one step and the intent of the next are one
write.

One append is under way at a time, and it belongs to the pen, not to whoever waits for it: a cancelled waiter takes
nothing back. When another author's entry came first (a person cancelled the saga from elsewhere), the saga
is folded anew from the journal and the commands that were not yet durable are decided again on top of it; those that no
longer fit are dropped, and `on_moved` hears of it. When the lease is lost, the pen is broken for good: every later call
raises.

The pen owns the saga's state, and changes it in place. Of what is durable it knows no more than the number of the
newest entry. So nobody keeps `book.saga` over an `await`: they ask the pen again.

Beside it, a saga as the journal has it: read whole, and written to by whoever does not drive it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from typing import Final, TypeAlias, cast

from amends.core import commands as c, events as e
from amends.core.commands import Command, EnrolLate, Moment, RecordCompensation, RecordOutcome
from amends.core.decide import decide
from amends.core.events import Event
from amends.core.plan import next_back
from amends.core.state.saga import Saga, evolve, open_waits, unstarted
from amends.core.transitions import SagaStatus
from amends.core.words.outcomes import Lost, Succeeded
from amends.core.words.values import Json, SagaId, StepId
from amends.errors import AmendsError, JournalConflictError, JournalError, LeaseLostError, RefusedError, unknown_saga
from amends.journal.port.entries import Appending, caught_up
from amends.journal.port.journal import PARENT, Entry, Journal, Lease, SagaQuery, SagaRow, Summary
from amends.logs import logger
from amends.runtime.drive.observers import Observers
from amends.runtime.drive.turn import Answered, Turn

_log = logger("amends.logbook")
_NONE: Final[Mapping[StepId, int]] = {}
_MAY_BE_DONE: Final = frozenset(
    {SagaStatus.COMPLETED, SagaStatus.ROLLED_BACK, SagaStatus.MITIGATED, SagaStatus.WAITING}
)
_SUMMARIES: Final = {status: Summary(status) for status in SagaStatus}
_Told: TypeAlias = tuple[int, Command, Moment, tuple[Event, ...]]


class Logbook:
    def __init__(
        self,
        journal: Journal,
        saga: Saga,
        lease: Lease | None,
        observers: Observers,
        moment: Callable[[], Moment],
        turn: Turn | None = None,
    ) -> None:
        self.saga = saga
        self.lease = lease
        self.broken: AmendsError | None = None
        self.on_moved: Callable[[], None] = _nothing
        self.guard: Callable[[SagaId], Awaitable[None]] | None = None
        """Told before what others wrote is taken up; where it raises, the saga is not driven on."""
        self._journal = journal
        self._observers = observers
        self._moment = moment
        self._turn = turn or Turn()
        self._head: int = saga.head
        """The number of the newest entry that is durable."""
        self.newest = 0
        """The number of the newest command that was told."""
        self.durable = 0
        """All commands up to this number are durable, and more may be: `written` knows."""
        self._told: list[_Told] = []
        self.is_writing = False
        """The journal is being asked to write, or for what others wrote."""
        self._asked = 0
        """How many of the commands that were told the append under way is of."""
        self._since = 0.0
        self._waiters: list[Answered] = []
        self._errand: asyncio.Task[None] | None = None

    def tell(self, command: Command) -> tuple[Event, ...]:
        """Decide, fold, and queue for the next append. Raises RefusedError; then nothing has changed."""
        if self.broken is not None:
            raise self.broken
        ended = command.outcome if type(command) is RecordOutcome or type(command) is RecordCompensation else None
        is_timeless = type(command) in c.TIMELESS or type(ended) is Succeeded
        moment = c.NEVER if is_timeless else self._moment()
        saga = self.saga
        events = decide(saga, command, moment)
        self.newest += 1
        for event in events:
            evolve(saga, event)
        if events:
            self._told.append((self.newest, command, moment, events))
        return events

    @property
    def undurable(self) -> tuple[Command, ...]:
        """Commands that were told and never became durable."""
        return tuple(command for _, command, _, _ in self._told)

    @property
    def is_unborn(self) -> bool:
        """Whether nothing of its saga is durable that this pen knows of."""
        return self._head == 0

    def commit_soon(self) -> None:
        """Write what was told, unless someone commits it sooner: the next step's intent usually does."""
        if not self.is_writing:
            self._turn.add(self)

    def put_off(self) -> None:
        """Write what was told with what is told next: whoever calls this tells more, or commits, in the next turn."""
        self._turn.drop(self)

    async def commit(self) -> None:
        """All that was told is durable when this returns, with what was told meanwhile."""
        while self._told and self.broken is None:
            self.begin_append()
            if self.is_writing:  # else it was refused at once, and nobody would wake us
                await self._next_answer()
        if self.broken is not None:
            raise self.broken

    async def commit_this_far(self) -> None:
        """Make all that was told before this call durable. Of many side by side, each is woken once."""
        last = self.newest
        while (written := self.written(last)) is not None:
            await written
        if self.broken is not None:
            raise self.broken

    def written(self, last: int) -> Answered | None:
        """Done when all that was told up to this number is durable, or the pen has broken; ask again then. None where
        there is nothing to wait for.
        """
        while self._told and self._told[0][0] <= last and self.broken is None:
            self.begin_append()
            if self.is_writing:  # else it was refused at once, and nobody would wake us
                answered = Answered(asyncio.get_running_loop(), last)
                self._waiters.append(answered)
                return answered
        return None

    async def _next_answer(self, to: int = 0) -> None:
        """Until an append has been answered or, of a number, until nothing up to it is still to be written."""
        answered = Answered(asyncio.get_running_loop(), to)
        self._waiters.append(answered)
        await answered

    # -- the append under way -----------------------------------------------------------------------------------------

    def begin_append(self) -> None:
        """Have what was told written, unless an append is under way."""
        if self.is_writing or not self._told or self.broken is not None:
            return
        self.is_writing = True
        self._asked = len(self._told)
        events: list[Event] = []
        for told in self._told:
            events += told[3]
        try:
            asked = self._ask_for(events)
        except AmendsError as exc:
            self._failed(exc)
            return
        if self._observers.listen:
            self._since = self._observers.asked()
        if type(asked) is Appending:
            asked.then(self._answered)
        else:
            asyncio.ensure_future(asked).add_done_callback(self._future_done)

    def _future_done(self, answer: asyncio.Future[tuple[Entry, ...]]) -> None:
        """Of a journal whose appends are awaited only."""
        settled = Appending()
        error = asyncio.CancelledError() if answer.cancelled() else answer.exception()
        if error is None:
            settled.set_result(answer.result())
        else:
            settled.set_exception(cast("Exception", error))
        self._answered(settled)

    def _ask_for(self, events: Sequence[Event]) -> Awaitable[tuple[Entry, ...]]:
        saga = self.saga
        status = saga.status
        summary = Summary(status, None, woken_by(saga)) if status in _MAY_BE_DONE else _SUMMARIES[status]
        return self._journal.append(saga.id, events, after=self._head, summary=summary, lease=self.lease)

    def _answered(self, answer: Appending) -> Callable[[], object] | None:
        """Take the answer. Gives the end of the turn where it is one of a batch: to be called when all are told."""
        error = answer.error
        if error is None:
            self._head += len(answer.entries)
            del self._told[: self._asked]
            if self._observers.listen:
                self._observers.tell(answer.entries, self.saga, self._since)
            self._over(is_batched=answer.is_batched)
            return self._turn.end if answer.is_batched else None
        if isinstance(error, AmendsError):
            self._failed(error)
        else:
            self._break(JournalConflictError(f"saga {self.saga.id}: the journal failed: {error!r}"))
            self._over()
        return None

    def _failed(self, error: AmendsError) -> None:
        moved = isinstance(error, JournalConflictError) and not isinstance(error, LeaseLostError)
        if moved and self._head > 0:  # a saga that was to begin, and exists, is another's
            self._errand = asyncio.ensure_future(self._catch_up_then_over(because=error))
        else:
            self._break(error)
            self._over()

    def _over(self, *, is_batched: bool = False) -> None:
        """The append has been answered: wake those who waited for that, and write on for the others.

        `is_batched`: whoever answers ends the turn when all of a batch are told.
        """
        self.is_writing = False
        written = self._told[0][0] - 1 if self._told and self.broken is None else self.newest
        if self.broken is None:
            self.durable = written
        waiters, self._waiters = self._waiters, []
        for answered in waiters:
            if answered.to > written:
                self._waiters.append(answered)
            else:
                self._turn.woken.append(answered)
        if not is_batched:
            self._turn.expect()
        if self._waiters:  # after those who were woken: they may have more to write
            asyncio.get_running_loop().call_soon(self.begin_append)

    def _break(self, error: AmendsError) -> None:
        self.broken = error
        if not self.is_writing:
            self._over()
        self.on_moved()

    def give_up(self, error: AmendsError) -> None:
        """Break off: what has to be on record elsewhere before this saga goes on could not be written."""
        if self.broken is None:
            self._break(error)

    # -- other authors ------------------------------------------------------------------------------------------------

    async def refresh(self) -> None:
        """Fold in what others wrote."""
        if not self.is_writing and self.broken is None:
            self.is_writing = True
            self._errand = asyncio.ensure_future(self._catch_up_then_over())
            await self._next_answer()

    async def _catch_up_then_over(self, because: AmendsError | None = None) -> None:
        """`because` is the conflict that says that there is news; without any, appending again would never end."""
        try:
            if not await self._catch_up() and because is not None:
                self._break(because)
        except AmendsError as exc:
            self._break(exc)
        finally:
            self._over()

    async def above(self) -> list[Saga]:
        """The sagas that called this one, directly or not, as the journal has them; the topmost first."""
        found: list[Saga] = []
        below = self.saga
        while below.begun is not None and (parent := below.begun.labels.get(PARENT)) is not None:
            below = await caught_up(self._journal, unstarted(SagaId(parent)))
            found.append(below)
        return found[::-1]

    async def _catch_up(self) -> bool:
        """Fold in another author's entries, then decide again what is not yet durable. Whether there were any."""
        if self.guard is not None:
            await self.guard(self.saga.id)
        saga = await self._as_written()
        if saga.head == self._head:
            return False
        self.saga, self._head = saga, saga.head
        again, self._told = self._told, []
        for number, command, moment, _ in again:
            try:
                events = decide(self.saga, command, moment)
            except RefusedError as exc:
                _log.info("saga %s moved on: %s is dropped (%s)", saga.id, type(command).__name__, exc)
                continue
            for event in events:
                evolve(self.saga, event)
            if events:
                self._told.append((number, command, moment, events))
        self.on_moved()
        return True

    async def _as_written(self) -> Saga:
        """The saga as the journal has it: the state with the news, or read whole where something that is not durable is
        in the state already. What was read is folded in one go: others look at the state meanwhile.
        """
        state = unstarted(self.saga.id) if self._told else self.saga
        news = [entry.event async for entry in self._journal.read(state.id, after=state.head)]
        if self._told and state is self.saga:  # something was told meanwhile
            state = unstarted(self.saga.id)
            news = [entry.event async for entry in self._journal.read(state.id)]
        for event in news:
            evolve(state, event)
        return state

    async def rest(self, wake_at: int) -> bool:
        """Have the saga forgotten until it is nudged, or that time has come. False where there is news."""
        await self.commit()
        saga, head = self.saga.id, self._head
        try:
            await self._journal.append(
                saga, (), after=head, summary=Summary(self.saga.status, wake_at), lease=self.lease
            )
        except LeaseLostError as exc:
            self._break(exc)
            raise
        except JournalConflictError:
            await self.refresh()
            return False
        except JournalError as exc:
            _log.warning("saga %s stays in memory while it waits: %s", saga, exc)
            return False
        return self._head == head and not self._told

    async def still_held(self) -> None:
        """Ask the store whether this lease is still the newest. Raises LeaseLostError."""
        await self.commit()
        try:
            await self._ask_for(())
        except LeaseLostError as exc:
            self._break(exc)
            raise
        except JournalConflictError:
            await self.refresh()
        except JournalError as exc:  # whether it is still ours cannot be told: nothing is dispatched on that
            self._break(exc)
            raise


def _nothing() -> None:
    """Tell nobody that a saga moved, before anyone wants to know."""


def wakes_at(saga: Saga, looks: Mapping[StepId, int] = _NONE, left_alone: Collection[StepId] = ()) -> int | None:
    """When something is due again, for a saga that waits for others or for the time; None for any other.

    `looks`: when steps are looked at again that wait for another saga. `left_alone`: those that its function has turned
    away from.
    """
    if saga.live or saga.status is not SagaStatus.WAITING:
        return None
    if saga.finished:
        return _wakes_after_work(saga, looks)
    steps = [saga.steps[step] for step in saga.waiting if step not in left_alone]
    if not all(step.is_idle or step.id in looks for step in steps):
        return None
    asked = [at for step in steps if (at := looks.get(step.id, step.wake_at)) is not None]
    waited = [wait.until for wait in open_waits(saga)]
    until_at = None if saga.budget is None else saga.budget.until_at
    if until_at is not None and (asked or waited):
        asked.append(until_at)
    return min((*asked, *waited), default=None)


def _wakes_after_work(saga: Saga, looks: Mapping[StepId, int]) -> int | None:
    """When it wakes where the work is done: of what is in doubt or held, the one whose turn it is keeps all others."""
    step = next_back(saga)
    if step is None or not (step.is_idle or step.id in looks):
        return None
    return looks.get(step.id, step.wake_at)


def woken_by(saga: Saga) -> SagaId | None:
    """The saga that has something to do now that this is so: the parent of a child that has ended, or rests."""
    parent = None if saga.begun is None else saga.begun.labels.get(PARENT)
    return SagaId(parent) if parent is not None and (saga.phase.ended or saga.rests) else None


def due_in(saga: Saga, now: int) -> float:
    """In how many seconds something is due for a saga that nobody drives here; 0 where it should be driven now."""
    if saga.status in {SagaStatus.RUNNING, SagaStatus.ROLLING_BACK}:
        return 0.0
    wake_at = wakes_at(saga)
    return math.inf if wake_at is None else (wake_at - now) / 1000


def unrecorded_ends(book: Logbook) -> Iterator[tuple[StepId, int, Succeeded | Lost]]:
    """Step, attempt and outcome of each effect, sure or not, that never reached the journal.

    Another may have taken the saga over, even where it was the disk that broke the pen, and be done with the step.
    """
    for command in book.undurable if book.broken is not None else ():
        match command:
            case RecordOutcome(step=step, outcome=Succeeded() | Lost() as outcome):
                yield step, book.saga.steps[step].attempts, outcome
            case EnrolLate(step=step, attempt=attempt, outcome=outcome):
                yield step, attempt, outcome
            case _:
                pass


_STIRRING = (e.WaitEnded, e.ApprovalGranted, e.ApprovalRefused, e.ApprovalExpired, e.ApprovalVoided, e.WorkResumed)
"""After these a saga has something to do at once, though it may wait for something else as well."""


async def load(journal: Journal, saga: SagaId) -> Saga:
    """The fold of all its entries. Raises UnknownSagaError."""
    state = await caught_up(journal, unstarted(saga))
    if state.head == 0:
        raise unknown_saga(saga)
    return state


async def rows(journal: Journal, statuses: tuple[SagaStatus, ...]) -> AsyncIterator[SagaRow]:
    """All sagas that stand so, newest first."""
    query = SagaQuery(statuses=statuses)
    while True:
        page = await journal.sagas(query)
        for row in page.rows:
            yield row
        if page.cursor is None:
            return
        query = SagaQuery(statuses=statuses, before=page.cursor)


async def requested(journal: Journal, observers: Observers, saga: SagaId, command: c.Command, moment: c.Moment) -> Saga:
    """Have a command recorded without driving the saga, however often others write meanwhile. Raises RefusedError."""
    while True:
        state = await load(journal, saga)
        head, events = state.head, decide(state, command, moment)
        for event in events:
            evolve(state, event)
        if not events:
            return state
        wake_at = None if any(isinstance(event, _STIRRING) for event in events) else wakes_at(state)
        try:
            entries = await journal.append(
                saga, events, after=head, summary=Summary(state.status, wake_at, woken_by(state)), lease=None
            )
        except JournalConflictError:
            continue
        observers.tell(entries, state)
        return state


async def evidence(journal: Journal, saga: SagaId) -> dict[str, Json]:
    from amends.evidence.drills import last_drills
    from amends.evidence.record import record_of

    return await record_of(journal, saga, last_drills)
