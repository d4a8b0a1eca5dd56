"""Drives one saga: calls its function, performs what is due, walks it back. Knows no other saga.

A function is driven by calling it again with remembered results: each `s.do` whose outcome is on record is answered
from there. Forward, the function decides what comes next, and each step asks `plan.forward` what it needs.
Backward, the function is not asked: `plan.plan` names what is due, from the journal alone.

| what happens                         | what the driver does                                                     |
|--------------------------------------|--------------------------------------------------------------------------|
| an action raises, times out          | records the honest outcome; retries, probes, or tells the function       |
| the function raises                  | rollback, or past the pivot an incident                                  |
| the function asks for something else | an incident `diverged`; nothing more is dispatched                       |
| a person cancels from elsewhere      | the function is stopped, then the rollback begins                        |
| a person has it go back to a place   | the function is stopped, then steps are taken back, then it is called    |
| it waits for others, and nothing else| the function is stopped; its row is all that is left until its turn comes|
| the lease is lost                    | everything stops; a success nobody recorded is reported as late          |
| the coordinator closes               | running attempts may finish, then all stops; the journal knows the rest  |
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from amends.core import commands as c
from amends.core.decide.limits import FAMILY
from amends.core.effects import End
from amends.core.events import Cause, IncidentKind
from amends.core.plan import plan
from amends.core.state.step import located
from amends.core.transitions import SagaStatus
from amends.core.words.values import StepId
from amends.errors import (
    Abort,
    CallPerson,
    Complete,
    DirectCallError,
    DivergedError,
    JournalError,
    LeaseLostError,
    StepDeniedError,
    StepError,
    StepFatalError,
    StepLostError,
    UnknownDefinitionError,
    UnverifiedError,
)
from amends.logs import logger
from amends.runtime.declare.action import InFunction, current_call
from amends.runtime.declare.definition import SagaDefinition
from amends.runtime.drive.backward import Backward
from amends.runtime.drive.executor import place
from amends.runtime.drive.family import Family, calls_going_back, current, heed
from amends.runtime.drive.forward import Forward
from amends.runtime.drive.limits import Keeper
from amends.runtime.drive.logbook import Logbook
from amends.runtime.drive.run import Run
from amends.runtime.drive.validation import is_waived, verify
from amends.runtime.drive.worker_context import WorkerContext
from amends.runtime.saga.documents import Office, office
from amends.runtime.saga.open import Drive, OpenDefinition
from amends.runtime.saga.rewind import first
from amends.runtime.saga.work import Work, performed, rewinds_of
from amends.runtime.values.bounded import give, keep_off_loop, small_or_off_loop
from amends.secrets import Secret, told_by_name

if TYPE_CHECKING:
    from amends.runtime.files.layers import Layers

_log = logger("amends.driver")


class Driver:
    def __init__(
        self,
        around: WorkerContext,
        book: Logbook,
        definition: SagaDefinition | None,
        secrets: tuple[Secret, ...] = (),
    ) -> None:
        self.book = book
        self.run = Run(around, book, _open_layers)
        self._around = around
        self._definition = definition
        self.run.given = secrets
        self._forward = Forward(self.run)
        self._keeper = Keeper(self.run, self._forward)
        self._function: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._family: Family | None = None
        self._calls_stopped: frozenset[StepId] = frozenset()
        """Whose children have been told that they go back."""
        book.on_moved = self.look_again
        self.run.on_parked = self._stop_function
        self.run.on_stopped = self.look_again

    async def drive(self) -> None:
        """Do everything that is due, until nothing is: the saga has ended, or a person is needed."""
        book = self.book
        self._family = current.get(None)
        self._open_office()
        try:
            heed(book)
            if book.saga.works and not book.is_unborn and (why := await self._above_goes_back()):
                book.tell(c.PauseSaga(by=FAMILY, why=why))
            if book.saga.live:
                book.tell(c.Recover())
                if book.saga.works and self._goes_back_after_crash():
                    why = "its process was killed in the middle of an attempt"
                    book.tell(c.FailWork(cause=Cause.LOST, why=why, step=None))
            while True:
                if book.saga.works:
                    await self._work()
                self.stop_children()
                due = plan(book.saga, self._around.clock.now())
                while True:
                    if len(due) == 1 and type(due[0]) is End:  # as in most sagas: nothing goes back
                        book.tell(c.EndSaga())
                    elif due:
                        await Backward(self.run).walk()
                    await book.commit()
                    due = plan(book.saga, self._around.clock.now())  # someone may have asked for more during the write
                    if not due:
                        break
                if self.run.parked or not book.saga.works:
                    return
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self.run.parked or book.broken is not None or (task is not None and task.cancelling()):
                raise
            # It has done its work, and waits for others before it is complete: only its row is left.
        finally:
            self.run.over = True
            await self.run.let_go_of_files()
            if book.saga.phase.ended:
                self._let_go()

    def _let_go(self) -> None:
        """It has ended: nobody has to be told of news any more. So nothing here holds on to itself, and all of it is
        gone with the last who knows it, without the collector.
        """
        self.book.on_moved = self.run.on_parked = self.run.on_stopped = self.run.news.tell

    def _open_office(self) -> None:
        """Where the built-in actions on documents find them, in this drive and in what it starts."""
        settings, journal = self._around.settings, self._around.lock_queue.journal
        office.set(
            Office(
                journal=journal,
                saga=self.book.saga.id,
                epoch=None if self.book.lease is None else self.book.lease.epoch,
                actor=self.run.begun.actor,
                most_bytes=settings.document_bytes,
                keep=settings.document_versions,
            )
        )

    def _goes_back_after_crash(self) -> bool:
        """Whether its definition would rather have it taken back than go on with it."""
        begun = self.run.begun
        try:
            definition = self._definition or self._around.registry.definition(begun.definition, begun.version)
        except UnknownDefinitionError:
            return False
        return definition.options.on_crash == "rollback"

    # -- the function -------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        """Call the definition, and record how it ended."""
        if self._function is not None:  # it has gone back to a place, and goes on from there
            self._forward.over, self._stopping = True, None
            self._forward = Forward(self.run)
            self._keeper = Keeper(self.run, self._forward)
        self._function = asyncio.create_task(self._call_and_record())
        self._keeper.start()
        try:
            await self._function
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self.run.parked and self.book.broken is None and not (task is not None and task.cancelling()):
                return
            if self.run.draining or self.book.broken is not None or (task is not None and task.cancelling()):
                raise
            if self._stopping is not None:
                return
            self._record(self._failed(Cause.CANCELLED, "its function was cancelled from inside", None))
        finally:
            self._keeper.stop()

    async def _call_and_record(self) -> None:
        """Told in the same breath as the function's end, so that it shares the last outcome's write.

        Only a broken pen, or being stopped from outside, raises.
        """
        ended: c.Command
        try:
            ended = await self._result()
        except Exception as exc:  # noqa: BLE001 - whatever leaves a saga's function starts its rollback: the contract
            ended = self._ended_badly(exc)
        self._forward.places.leave()
        self._record(ended)
        if not self.book.saga.phase.ended:
            self.book.put_off()  # the drive goes on in the next turn: what is due then shares the write, too

    def _record(self, command: c.Command) -> None:
        """Tell a command; what becomes of a function that was stopped from outside says nothing of its work."""
        if self.book.saga.works and not self.was_stopped:
            self.book.tell(command)

    @property
    def was_stopped(self) -> bool:
        """Whether somebody else had the function stopped: the saga was to go back, or no further."""
        return self._stopping is not None

    def _ended_badly(self, raised: Exception) -> c.Command:
        """Say as a command what left the function. A broken pen is raised."""
        match raised:
            case UnverifiedError(calls=True, step=step, reason=reason):
                why = self.run.kept_words(reason)
                return c.OpenIncident(kind=IncidentKind.VERIFICATION_FAILED, step=StepId(step), why=why)
            case UnverifiedError(step=step, reason=reason):
                return self._failed(Cause.UNVERIFIED, reason, StepId(step))
            case Abort():
                return self._failed(Cause.ABORTED, str(raised) or "the agent gave up", None)
            case StepError(step=step):
                return self._failed(_cause(raised), str(raised), StepId(step))
            case DivergedError():
                return self._failed(Cause.ERROR, str(raised), None, raised)
            case _:
                pass
        if self.book.broken is not None:  # whatever the function made of that, this is why it ended
            raise self.book.broken from raised
        if (gave_up := first(Abort, raised)) is not None:
            return self._failed(Cause.ABORTED, str(gave_up), None)
        if (call := first(CallPerson, raised)) is not None:
            return self._failed(Cause.ERROR, str(call), StepId(call.step) if call.step else None, calls=True)
        cause = first(StepError, raised)
        if cause is not None:
            return self._failed(_cause(cause), str(cause), StepId(cause.step))
        return self._failed(Cause.ERROR, self._raised(raised), None)

    def _raised(self, exc: Exception) -> str:
        """Words of an exception that left the function, and where it was raised; its traceback is in the log."""
        known = tuple(self.run.all_secrets())
        told = first(DirectCallError, exc) or exc  # a group's own words would not say what to write instead
        error, where = told_by_name(told, known), place(told, known)
        self.run.around.executor.tracebacks.tell(exc, f"saga {self.book.saga.id}: its function", error, where, known)
        return located(error, where)

    async def _result(self) -> c.FinishWork:
        name, begun = self.book.saga.id, self.run.begun  # and not the saga: a version that is kept keeps all after it
        try:
            definition = self._definition or self._around.registry.definition(begun.definition, begun.version)
        except UnknownDefinitionError as exc:
            raise DivergedError(str(exc)) from None
        self._forward.places.enter()
        current_call.set(InFunction(begun.definition))
        named = cast("dict[str, Any]", await give(begun.input, name, self.run.given))
        work = Work(self.run, self._forward, self._keeper, self.stop_children)
        if isinstance(definition, OpenDefinition):
            definition.drive = Drive(self.run, self._forward, rewinds_of(work), work)
        await self._keeper.report()
        early = ""
        try:
            result = await performed(definition, work, named)
        except Exception as exc:  # a TaskGroup wraps what its branches raised
            done = first(Complete, exc)
            if done is None:
                raise
            result, early = done.result, done.why
        if definition.typed.result.stores:
            result = await small_or_off_loop(partial(definition.typed.store_result, result))
        if self._forward.diverged is not None:
            raise self._forward.diverged
        checks = definition.checks
        if not early:  # what nobody asked for again has come to its end by then, or is settled
            self._require_all_asked_for(besides={one.action.topic for one in checks})
        if checks:
            await verify(work.do_named, checks, definition.given(named), result, self._is_vouched_for)
            if not early:
                self._require_all_asked_for()
        kept = await keep_off_loop(result, name, "the saga's result")
        return c.FinishWork(result=kept.value, early=self.run.kept_words(early) if early else "")

    def _is_vouched_for(self, step: StepId) -> bool:
        return is_waived(self.book.saga, step)

    def _require_all_asked_for(self, besides: Collection[str] = ()) -> None:
        for step in self._forward.places.missing:
            made = self.book.saga.steps.get(step)
            if made is None or made.topic not in besides:
                raise DivergedError(f"step {step} is on record, but the function ended without asking for it")

    def _failed(
        self,
        cause: Cause,
        why: str,
        step: StepId | None,
        diverged: DivergedError | None = None,
        *,
        calls: bool = False,
    ) -> c.Command:
        diverged = diverged or self._forward.diverged
        if diverged is not None and self._goes_back_after_crash():
            return c.FailWork(cause=Cause.LOST, why=self.run.kept_words(str(diverged)), step=None)
        if diverged is not None:
            return c.OpenIncident(kind=IncidentKind.DIVERGED, step=None, why=self.run.kept_words(str(diverged)))
        why = self.run.kept_words(why)
        return c.FailWork(cause=cause, why=why, step=step, calls=calls)

    # -- from outside -------------------------------------------------------------------------------------------------

    def look_again(self) -> None:
        """Another author wrote, or the pen broke: stop a function whose saga is not running any more."""
        self.run.news.tell()
        self.stop_children()
        taken_over = isinstance(self.book.broken, LeaseLostError)
        if self.book.broken is not None and not taken_over:
            self._stop_function()
        elif (taken_over or not self.book.saga.works) and self._function and not self._stopping:
            self._stopping = asyncio.ensure_future(self._stop_function_gently())

    async def _above_goes_back(self) -> str:
        """Why a saga that was taken up again may not go on; empty where it may."""
        return "" if self._family is None else await self._family.above_goes_back(self.book.saga)

    def stop_children(self) -> None:
        """Stop the children of what is taken back: like that itself, they begin nothing more."""
        calls = calls_going_back(self.book.saga)
        if self._family is not None and not calls <= self._calls_stopped:
            self._calls_stopped |= calls
            self._family.heed_return(self.book)

    def _stop_function(self) -> bool:
        """Whether it was still running."""
        if self._function is None or self._function.done():
            return False
        self._function.cancel()
        return True

    async def _stop_function_gently(self) -> None:
        """Let what runs finish, for a while: a known outcome is worth more than a quick stop."""
        if self.run.flights:
            await asyncio.wait(self.run.flights, timeout=self._around.settings.settle_s)
        if self.book.saga.works and self.book.broken is None:
            self._stopping = None  # it was paused, and let go on before anything had to stop
        else:
            self._stop_function()

    async def nudge(self) -> None:
        """Someone wrote to this saga from elsewhere, or what it stands in line for is its own now."""
        self.run.nudges += 1
        await self.book.refresh()
        self.run.news.tell()

    @property
    def goes_on(self) -> bool:
        """Whether there is more to do after a drive: someone answered as it was parked, or unpaused it just then."""
        saga = self.book.saga
        if self.run.parked:
            return self.run.is_nudged or saga.status is not SagaStatus.WAITING
        return self.was_stopped and saga.works

    async def wind_up(self) -> None:
        """The drive was cancelled: cancel what still runs, and write the outcomes that are known."""
        for flight in tuple(self.run.in_flight.values()):
            if flight.task is not None:
                flight.task.cancel()
        if self.run.flights:
            await asyncio.wait(self.run.flights)
        if self._stopping is not None:
            self._stopping.cancel()
        if self.book.broken is None:
            try:
                await self.book.commit()
            except JournalError as exc:
                _log.warning("saga %s: its last outcomes could not be written: %s", self.book.saga.id, exc)


def _open_layers(run: Run) -> Layers:
    from amends.runtime.files.layers import Layers

    return Layers(run)


def _cause(exc: StepError) -> Cause:
    match exc:
        case StepFatalError():
            return Cause.FATAL
        case StepDeniedError():
            return Cause.DENIED
        case StepLostError():
            return Cause.LOST
        case _:
            return Cause.FAILED
