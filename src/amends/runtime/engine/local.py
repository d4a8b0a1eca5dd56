"""The local engine: one worker, its leases, and the sagas that it drives, as asyncio tasks of this process.

A worker is alive as long as it renews one row of the journal, from a thread of its own: neither a busy event loop
nor ten thousand sagas in flight make it late. If it is late all the same (the machine slept), another worker may
have taken its sagas over, and then every append of the old one fails. Before each dispatch the driver looks at the
time that is left, by a clock that nobody sets, and asks the journal when it has run out.

| fault                              | what happens                                                                |
|------------------------------------|-----------------------------------------------------------------------------|
| this process is killed             | its row is found dead (same machine) or runs out; `resume` elsewhere claims |
| it is stopped past its lease       | its appends fail; a success that it could not record is enrolled as late    |
| the journal stops (I/O error)      | nothing more is dispatched; whoever waits for a saga gets the error         |
| it is asked to end                 | running attempts may finish; outcomes are written; leases are given back    |
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Final

from amends.clock import Clock
from amends.core import commands as c
from amends.core.decide.approvals import is_outlived
from amends.core.events import SagaStarted
from amends.core.state.saga import Saga, unstarted
from amends.core.transitions import SagaStatus
from amends.core.words.outcomes import Lost, Succeeded
from amends.core.words.values import RUNTIME, Json, SagaId, StepId
from amends.errors import (
    AmendsError,
    DivergedError,
    JournalConflictError,
    JournalError,
    LeaseLostError,
    RefusedError,
    UnknownDefinitionError,
)
from amends.gate.facts import Gate
from amends.journal.port.journal import Journal, Lease
from amends.logs import logger
from amends.runtime.declare.definition import SagaDefinition
from amends.runtime.declare.registry import Registry
from amends.runtime.drive.drills import Drills
from amends.runtime.drive.executor import Executor
from amends.runtime.drive.logbook import Logbook, due_in, evidence, load, requested, unrecorded_ends
from amends.runtime.drive.observers import Observers
from amends.runtime.drive.pauses import Pauses
from amends.runtime.drive.policies import require_proved
from amends.runtime.drive.turn import Turn
from amends.runtime.drive.worker_context import LockQueue, WorkerContext
from amends.runtime.engine.background import BackgroundTasks, Heart, Heartbeat, MakeHeart, cancelled
from amends.runtime.engine.children import Children
from amends.runtime.engine.driver import Driver
from amends.runtime.engine.handle import Ended, Handle, at_its_end, ended, halted, parent_of
from amends.runtime.engine.late import enrolled
from amends.runtime.engine.leases import SIDE_BY_SIDE, Claims
from amends.runtime.engine.resume import Driven, Seats, driven_or_joined, followed, resumed, taken_up
from amends.runtime.engine.sessions import OpenSagas
from amends.runtime.settings import Settings
from amends.runtime.values.bounded import small_or_off_loop
from amends.secrets import DigestKey, Secret, digests_by, unmask

_log = logger("amends.engine")
_MARGIN: Final = 0.1
_SHORTEST_S: Final = 0.05
_DRIVABLE: Final = frozenset({SagaStatus.RUNNING, SagaStatus.WAITING, SagaStatus.ROLLING_BACK})
_UNDER_WAY: Final = frozenset({SagaStatus.RUNNING, SagaStatus.ROLLING_BACK, SagaStatus.PAUSED})


class LocalEngine:
    def __init__(
        self,
        *,
        journal: Journal,
        gate: Gate,
        registry: Registry,
        settings: Settings,
        clock: Clock,
        observers: Observers,
        executor: Executor | None = None,
        heart: MakeHeart = Heartbeat,
        digest_key: DigestKey | None = None,
    ) -> None:
        self.worker = f"worker-{clock.new_id()}"
        self._journal = journal
        self._registry = registry
        self._settings = settings
        self._clock = clock
        self._observers = observers
        self._runs: dict[SagaId, tuple[Driver, asyncio.Task[Ended]]] = {}
        self._watched: dict[SagaId, asyncio.Future[asyncio.Task[Ended]]] = {}  # parked, with somebody waiting
        self._parked_secrets: dict[SagaId, tuple[Secret, ...]] = {}  # which no journal gives back
        self._dropped: set[SagaId] = set()  # the journal failed under their drivers; `resume` takes them up again
        self.claims = Claims()
        self._requests = asyncio.Semaphore(SIDE_BY_SIDE)  # each has a saga's state at hand
        self._queued: set[SagaId] = set()  # nudged, and not looked at yet
        self._turn = Turn()
        self.sessions = OpenSagas(journal, clock, self.drive)
        self._background = BackgroundTasks()
        self._renew_at = 0.0
        self._beat_s = min(settings.poll_s, settings.lease_s / 4)
        self._stopped = False
        self._heart: Heart | None = None
        self._news = asyncio.Event()
        self._hears = False
        self._make_heart = heart
        self._digest_key = digest_key
        self.pauses = Pauses(journal, clock, settings.poll_s)
        self._around = WorkerContext(
            clock=clock,
            gate=gate,
            registry=registry,
            settings=settings,
            executor=executor or Executor(settings.threads),
            admit=journal.admit,
            late=self._ended_late,
            drills=Drills(journal, clock),
            pauses=self.pauses,
            lock_queue=LockQueue(journal, self.worker, self._nudge),
        )
        self.policies, self.moment = self._around.policies, self._around.moment
        self._children = Children(self, self._around, journal, self._nudge, self._background)

    def warn_of_undeclared(self) -> None:
        """Say once of each undeclared action that it is one."""
        self._around.undeclared = set()

    async def start(self) -> None:
        since = self._clock.elapsed()
        await self._journal.enlist(self.worker, self._settings.lease_s)
        self._extend(since)
        loop, ours = asyncio.get_running_loop(), copy_context()  # the thread of the heart has none of our variables
        self._heart = self._make_heart(
            renew=self._renew_if_due,
            nudged=lambda: self._journal.nudged(self.worker),
            tell=lambda sagas: loop.call_soon_threadsafe(self._nudge, sagas, context=ours),
            poll_s=self._beat_s,
        )
        self._heart.start()
        heart = self._heart

        def heard() -> None:
            if isinstance(heart, Heartbeat):
                heart.hurry()
            with suppress(RuntimeError):  # the loop has closed under us
                loop.call_soon_threadsafe(self._news.set)

        self._hears = self._journal.watch(heard)

    async def rest(self, seconds: float) -> None:
        """Wait for so long; or until another worker says that there is something to do, where the journal can tell."""
        if not self._hears:
            await self._clock.sleep(seconds)
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), seconds)
        self._news.clear()

    def _renew_if_due(self) -> None:
        """By the time, and again at the next beat where it failed."""
        if self._clock.elapsed() >= self._renew_at:
            self._renew()

    def _renew(self) -> None:
        since = self._clock.elapsed()
        self._journal.renew(self.worker, self._settings.lease_s)
        self._extend(since)

    async def _come_back(self) -> None:
        """Say that this worker lives, where its time had run out: what it claims would be free again at once."""
        since = self._clock.elapsed()
        if since >= self._around.alive_until:
            await self._journal.enlist(self.worker, self._settings.lease_s)
            self._extend(since)

    def _extend(self, since: float) -> None:
        """Its row is good for a lease from when it was written, and this worker counts from when it asked: it errs on
        the safe side.
        """
        around = self._around
        if self._clock.elapsed() >= around.alive_until:  # said before it is in time again: the write may take long
            around.lapses += 1
        around.alive_until = since + self._settings.lease_s * (1 - _MARGIN)
        self._renew_at = since + self._settings.lease_s / 4 - self._beat_s / 2

    # -- driving ------------------------------------------------------------------------------------------------------

    def begin(
        self, definition: SagaDefinition, start: c.StartSaga, saga: SagaId, secrets: tuple[Secret, ...] = ()
    ) -> Handle:
        """Start a new saga; its first entry goes out together with its first step's intent."""
        lease = Lease(saga=saga, worker=self.worker, epoch=1)
        book = Logbook(self._journal, unstarted(saga), lease, self._observers, self._around.moment, self._turn)
        book.tell(start)
        return self._launch(book, definition, secrets)

    def keep_secrets(self, saga: SagaId, secrets: tuple[Secret, ...]) -> None:
        """Have them at hand when a saga is driven again whose input they are: no journal gives them back."""
        if secrets and saga not in self._runs:
            self._parked_secrets[saga] = secrets

    async def begun(self, saga: SagaId) -> SagaStarted | None:
        """How a saga was started; None where there is no such saga, durable or about to be."""
        run = self._runs.get(saga)
        if run is not None:
            return run[0].book.saga.begun
        return None if await self._journal.saga(saga) is None else (await self.load(saga)).begun

    async def put_on_record(self, saga: SagaId) -> SagaStarted | None:
        """Have a saga on disk that was started here and has done nothing yet: somebody looks for it there.

        Where another process began it first, that one is found there; how it was begun here.
        """
        run = self._runs.get(saga)
        if run is not None and run[0].book.is_unborn:
            try:
                await run[0].book.commit()
            except JournalConflictError:
                return run[0].book.saga.begun
        return None

    def driven(self, saga: SagaId) -> Saga | None:
        """How a saga stands that is driven here, with what is about to be durable; None for any other."""
        run = self._runs.get(saga)
        return None if run is None else run[0].book.saga

    def driven_children(self, parent: SagaId) -> list[SagaId]:
        """Children that are driven here, also where nothing of them is on record yet."""
        return [saga for saga, (driver, _) in self._runs.items() if parent_of(driver.book.saga) == parent]

    async def state(self, saga: SagaId) -> Saga:
        """How a saga stands: as its driver here knows it, else by the journal."""
        return self.driven(saga) or await self.load(saga)

    def running(self, saga: SagaId) -> Handle | None:
        return self._held(saga) if saga in self._runs else None

    def _held(self, saga: SagaId) -> Handle:
        return Handle(saga, self._runs[saga][1], self._watch)

    def follow(self, saga: SagaId) -> Handle:
        """A handle on a saga that exists: drives it where nobody else does."""
        return Handle(saga, asyncio.ensure_future(followed(self, saga)), self._watch)

    def _launch(self, book: Logbook, definition: SagaDefinition | None, secrets: tuple[Secret, ...] = ()) -> Handle:
        saga = book.saga.id
        secrets = secrets or self._parked_secrets.pop(saga, ())
        driver = Driver(self._around, book, definition, secrets)
        task = asyncio.create_task(driven_or_joined(self._drive(driver, definition, secrets), book, self))
        self._runs[saga] = (driver, task)
        watcher = self._watched.pop(saga, None)
        if watcher is not None and not watcher.done():
            watcher.set_result(task)
        return Handle(saga, task, self._watch)

    async def _watch(self, saga: SagaId) -> asyncio.Task[Ended]:
        """The next drive of a saga that waits for others; where it was driven to its end meanwhile, that."""
        while (run := self._runs.get(saga)) is None:
            watched = self._watched.setdefault(saga, asyncio.get_running_loop().create_future())
            state = await self.load(saga)
            if state.phase not in _UNDER_WAY and saga not in self._runs:
                self._watched.pop(saga, None)
                return asyncio.ensure_future(at_its_end(await self.told(state)))
            due_s = 0.0 if await self._void_outlived_of(state) else due_in(state, self._clock.now())
            if due_s <= 0:  # unless another worker has it
                await self.go_on(saga)
            patience_s = min(self._settings.poll_s, due_s if due_s > 0 else self._settings.poll_s)
            await asyncio.wait({watched}, timeout=max(patience_s, _SHORTEST_S))
            if watched.done():  # however that drive ended, and even if it has; cancelled: this coordinator closes
                return watched.result()
        return run[1]

    async def _drive(self, driver: Driver, definition: SagaDefinition | None, secrets: tuple[Secret, ...]) -> Ended:
        book = driver.book
        self._children.enter()
        digests_by.set(self._digest_key)
        try:
            await driver.drive()
            while driver.goes_on:  # someone answered as it was parked, or had it go on as it was paused
                driver = Driver(self._around, book, definition, secrets)
                self._runs[book.saga.id] = (driver, self._runs[book.saga.id][1])
                await driver.drive()
            await self.sessions.let_go(book, is_parked=driver.run.parked)
            if secrets and (driver.run.parked or book.saga.phase is SagaStatus.PAUSED):
                self._parked_secrets[book.saga.id] = secrets
        except LeaseLostError:
            _log.warning("saga %s was taken over by another worker; this one stops driving it", book.saga.id)
            self._report_unrecorded(book)
            raise
        except asyncio.CancelledError:
            self._report_unrecorded(book)
            if book.broken is not None:
                self._dropped.add(book.saga.id)
                raise book.broken from None
            raise
        except AmendsError:
            self._dropped.add(book.saga.id)
            self._report_unrecorded(book)
            raise
        finally:
            self._runs.pop(book.saga.id, None)
            task = asyncio.current_task()
            if isinstance(book.broken, LeaseLostError) and task is not None:
                task.add_done_callback(_heard)
        if book.saga.status.ended and self._around.lock_queue.are_waited_for(book.saga.id):
            self._background.run(self._around.lock_queue.wake())
        self._children.ended(book.saga)
        return await self.told(book.saga)

    def tell_parent(self, saga: Saga) -> None:
        """A request has brought a saga to its end that nobody drove: where it is a child, its parent hears of it."""
        self._children.ended(saga)

    async def told(self, saga: Saga) -> Ended:
        """Where a saga stands, with its evidence at hand."""
        source = partial(evidence, self._journal)
        if saga.begun is None or saga.result is None or saga.phase is not SagaStatus.COMPLETED:
            return ended(saga, source)
        return ended(saga, source, await self._restored_result(saga.id, saga.begun, saga.result))

    async def _restored_result(self, saga: SagaId, begun: SagaStarted, result: Json) -> object:
        """A saga's result as its definition declares it, where that is known here; else as it is on record."""
        try:
            typed = self._registry.definition(begun.definition, begun.version).typed
            if typed.result.native:
                return result
            return await small_or_off_loop(lambda most: typed.restore_result(unmask(result, saga, most=most)))
        except UnknownDefinitionError:
            return result
        except DivergedError as exc:
            _log.warning("%s", exc)
            return result

    def _report_unrecorded(self, book: Logbook) -> None:
        for ended_late in unrecorded_ends(book):
            self._ended_late(book.saga.id, *ended_late)

    async def load(self, saga: SagaId) -> Saga:
        return await load(self._journal, saga)

    async def drive(self, saga: SagaId, *, due_by: int | None = None) -> Ended | None:
        """Drive one saga as far as it goes, even if its asker is stopped. None: another's, or not due (by then)."""
        handle = await self._background.outlast(self._begin_driving(saga, due_by))
        state = self.driven(saga) if saga in self.sessions.here else None
        if handle is not None and state is not None and not await self.sessions.has_halted(handle, state):
            return await self.told(state)  # its agent has it open, and it goes on when that takes a step
        return None if handle is None else await handle.halt()

    async def _begin_driving(self, saga: SagaId, due_by: int | None = None) -> Handle | None:
        async with self.claims.of(saga):
            handle = self.running(saga)
            if handle is None:
                leases = await self._journal.claim(self.worker, saga=saga, due_by=due_by)
                handle = await self._take_up(leases[0]) if leases else None
            return handle

    async def holder(self, saga: SagaId) -> str | None:
        return await self._journal.holder(saga)

    async def take_up_session(self, saga: SagaId) -> Handle | None:
        """Drive an open saga that somebody has open here; None where it is driven, here or by another worker."""
        async with self.claims.of(saga):
            leases = () if saga in self._runs else await self._journal.claim(self.worker, saga=saga)
            return await self._take_up(leases[0]) if leases else None

    async def go_on(self, saga: SagaId) -> None:
        """Take a saga up in the background, where something is due, nobody has it, and its definition is known."""
        async with self.claims.of(saga):
            if self.running(saga) is None and not self.sessions.lends:
                known = self._registry.definition_names()
                now = self._clock.now()
                for lease in await self._journal.claim(self.worker, saga=saga, definitions=known, due_by=now):
                    _ = await self._take_up(lease)

    async def resume(self) -> list[Ended]:
        """Drive every unfinished saga that no living worker has and whose definition is known here."""
        await self.release(take_up=False)
        await self.void_outlived()
        return await resumed(self, Seats(self, self._settings, self._clock), self._clock.now())

    async def drive_parent(self, parent: SagaId, since: int) -> Ended | None:
        """Drive a saga whose child has just ended, as far as it goes. None where it is not for this worker to drive.

        Its child's end stirs it too: where it has ended by that since then, that is how it ended.
        """
        row = await self._journal.saga(parent)
        if row is None or f"{row.definition}/{row.version}" not in self._registry.definition_names():
            return None
        if row.status in _DRIVABLE:
            if (run := self._runs.get(parent)) is not None:
                await run[0].nudge()
            if (driven := await self.drive(parent)) is not None:
                return driven
            row = await self._journal.saga(parent) or row
        has_ended = row.ended_at is not None and row.ended_at >= since
        return await self.told(await self.load(parent)) if has_ended else None

    async def next_halt(self, saga: SagaId) -> Ended | None:
        """Wait until a saga that is not in memory has been driven again, as far as it goes."""
        return await asyncio.shield(await self._watch(saga))

    def take_up_dropped(self) -> Driven:
        """Drive the sagas again under whose drivers the journal had failed."""
        dropped, self._dropped = self._dropped, set()
        return {asyncio.ensure_future(self._drive_if_on_record(saga)): saga for saga in dropped}

    async def _drive_if_on_record(self, saga: SagaId) -> Ended | None:
        """Drive one saga, unless it is for others to begin: a claim that waits would take it from their driver here."""
        try:
            handle = None if await self._journal.saga(saga) is None else await self._begin_driving(saga)
        except JournalError:
            self._dropped.add(saga)  # it is still this worker's, and nobody else finds it
            raise
        return None if handle is None else await handle.halt()

    def attempts(self, saga: SagaId) -> tuple[object, ...]:
        """The attempts that a saga waits for just now, where it has nothing to write; each is itself while it runs."""
        run = self._runs.get(saga)
        return () if run is None or run[0].book.is_writing else tuple(run[0].run.in_flight.values())

    def families_under_way(self) -> Driven:
        """Sagas driven here without who called them, because somebody has just answered them; and who looks again."""
        above = {saga: parent_of(driver.book.saga) for saga, (driver, _) in self._runs.items()}
        alone = [saga for saga, parent in above.items() if parent is not None and parent not in above]
        return {asyncio.ensure_future(halted(self._held(saga))): saga for saga in alone} | self._children.stirs

    async def take_up_due(self, most: int, trouble: Callable[[SagaId, AmendsError], None]) -> Driven:
        """Drive what is due now, that no living worker has and whose definition is known here; up to so many."""
        if most <= 0:
            return {}
        known, due_by = self._registry.resumable_names(), self._clock.now()
        async with self.claims.alone():
            await self._come_back()
            leases = await self._journal.claim(self.worker, definitions=known, due_by=due_by, limit=most)
            return await taken_up(leases, self._take_up, trouble)

    async def _take_up(self, lease: Lease) -> Handle:
        saga = await self.load(lease.saga)
        await require_proved(self._around.policies, lease.saga)
        book = Logbook(self._journal, saga, lease, self._observers, self._around.moment, self._turn)
        book.guard = partial(require_proved, self._around.policies)
        definition: SagaDefinition | None = self.sessions.definition_of(saga)
        if definition is not None and not await self.sessions.may_drive(book, self._registry):
            return Handle(saga.id, asyncio.ensure_future(at_its_end(await self.told(saga))), self._watch)
        if definition is None and saga.begun is not None and saga.phase is SagaStatus.RUNNING and not saga.finished:
            try:
                definition = self._registry.definition(saga.begun.definition, saga.begun.version)
            except UnknownDefinitionError as exc:
                _log.warning("saga %s: %s", saga.id, exc)
        return self._launch(book, definition)

    async def release(self, by: str = RUNTIME, *, take_up: bool = True) -> int:
        """Have the sagas go on whose wide pause is over; how many there were."""
        over = await self.pauses.outlived()
        return sum([await self.let_go_on(saga, by=by, follows=True, take_up=take_up) for saga in over])

    async def void_outlived(self) -> tuple[SagaId, ...]:
        """Have voided what people are still asked under a policy that judges no more, unless somebody has."""
        return () if self.policies is None else await self.policies.void_outlived(self.request)

    async def unsigned_below(self, state: Saga, by: str) -> tuple[str, ...]:
        """The incidents below a saga that need a signature of their own before it goes back with mitigation."""
        return await self._children.unsigned_below(state, by)

    async def policy_in_force(self) -> str | None:
        """The digest of the policy that judges now; None where the gate goes by none that is adopted."""
        if self.policies is None:
            return None
        await self.policies.refresh()
        return self.policies.digest

    async def _void_outlived_of(self, state: Saga) -> bool:
        """Whether people were asked about this one, which somebody waits for, under a policy that judges no more."""
        policies = self._around.policies
        newest = None if policies is None or not state.asked else await policies.newest()
        if newest is None or not any(is_outlived(state.steps[step], newest) for step in state.asked):
            return False
        await self.request(state.id, c.VoidOutlived(policy=newest))
        return True

    async def let_go_on(self, saga: SagaId, by: str, *, follows: bool, take_up: bool = True) -> bool:
        """Unpause one saga, and take it up where nobody has it. False where it was not paused any more.

        `follows`: what held it is over; else somebody decides that it goes on. Raises RefusedError.
        """
        try:
            await self.request(saga, c.UnpauseSaga(by=by, follows=follows))
        except RefusedError:
            if follows:
                return False
            raise
        if take_up:
            await self.go_on(saga)
        return True

    # -- from outside -------------------------------------------------------------------------------------------------

    async def request(self, saga: SagaId, command: c.Command) -> Saga:
        """Have a command recorded, whoever drives the saga. Raises RefusedError."""
        run = self._runs.get(saga)
        if run is not None and run[0].book.broken is None:
            driver = run[0]
            try:
                driver.book.tell(command)
                await driver.book.commit()
                return driver.book.saga
            except LeaseLostError:
                _log.info("saga %s: %s goes to who drives it now", saga, type(command).__name__)
            finally:
                driver.look_again()  # also where whoever asks is stopped meanwhile: it has been told
        async with self._requests:
            state = await requested(self._journal, self._observers, saga, command, self._around.moment())
        self._children.family.asked_to_return(state)
        return state

    def _nudge(self, sagas: tuple[SagaId, ...]) -> None:
        for saga in sagas:
            run = self._runs.get(saga)
            if run is not None:
                self._background.run(run[0].nudge())
            elif saga not in self._queued and not self.claims.is_in_line(saga):  # told of at each beat, until its turn
                self._queued.add(saga)
                self._background.run(self._drive_if_due(saga))

    async def _drive_if_due(self, saga: SagaId) -> Ended | None:
        """Someone gave one of this worker's sagas something to do again: it had ended, or waited for a person."""
        handle = None
        try:
            row = await self._journal.saga(saga)
            if row is not None and not row.status.ended and row.status is not SagaStatus.INCIDENT:
                handle = await self._begin_driving(saga)
        finally:
            self._queued.discard(saga)
        if handle is not None:
            with suppress(LeaseLostError):  # which has been said
                return await handle.halt()
        return None

    async def stir(self, saga: SagaId) -> Ended | None:
        """Have a saga look whether what it waits for has come. How far it came, where nobody drove it here."""
        run = self._runs.get(saga)
        if run is None:
            self._queued.add(saga)
            return await self._drive_if_due(saga)
        await run[0].nudge()
        return None

    def _ended_late(self, saga: SagaId, step: StepId, attempt: int, outcome: Succeeded | Lost) -> None:
        """An attempt that had been given up took effect, or may have; its saga is not driven here any more."""
        if self._stopped:
            _log.warning("saga %s: step %s ended after this coordinator had closed; it is not on record", saga, step)
            return
        self._background.run(self._enrol_late(saga, step, attempt, outcome))

    async def _enrol_late(self, saga: SagaId, step: StepId, attempt: int, outcome: Succeeded | Lost) -> None:
        """Nobody else knows of it: what the journal has no room for now is told again, as long as this worker lives."""
        command = c.EnrolLate(step=step, attempt=attempt, outcome=outcome)
        is_told = await enrolled(self, saga, command, self._clock)
        if is_told and saga not in self._dropped:  # else it is `resume` that takes it up again
            with suppress(LeaseLostError):  # which has been said
                await self.drive(saga)

    # -- ending -------------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Drain, write what is known, give the leases back. Correctness does not depend on it."""
        self._children.closing.set()
        self.sessions.close()
        runs = list(self._runs.values())
        for driver, _ in runs:
            driver.run.draining = True
        flights = [flight for driver, _ in runs for flight in driver.run.flights]
        if flights:
            await asyncio.wait(flights, timeout=self._settings.drain_s)
        await cancelled([task for _, task in runs])
        for driver, _ in runs:
            await driver.wind_up()
        await self._background.wait(self._settings.drain_s)
        self._stopped = True
        for watched in self._watched.values():
            watched.cancel()
        await self._background.cancel()
        if self._heart is not None:
            self._heart.stop()
        try:
            await self._journal.retire(self.worker)
        except JournalError as exc:
            _log.warning("the leases could not be given back: %s", exc)


def _heard(driven: asyncio.Task[object]) -> None:
    """A take-over is said where it is found; who waits for the saga is told too, but nobody has to wait."""
    if not driven.cancelled():
        driven.exception()
