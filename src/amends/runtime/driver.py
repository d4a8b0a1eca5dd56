"""Drives one saga: calls its function, performs what is due, walks it back. Knows no other saga.

A function is driven by calling it again with remembered results: each `s.do` whose outcome is on record is answered from there.
Forward, the function decides what comes next, and each step asks `plan.forward` what it needs. Backward, the function is not
asked: `plan.plan` names one thing at a time from the journal alone.

| what happens                         | what the driver does                                                     |
|--------------------------------------|--------------------------------------------------------------------------|
| an action raises, times out          | records the honest outcome; retries, probes, or tells the function       |
| the function raises                  | rollback, or past the pivot an incident                                  |
| the function asks for something else | an incident `diverged`; nothing more is dispatched                       |
| a person cancels from elsewhere      | the function is stopped, then the rollback begins                        |
| the lease is lost                    | everything stops; a success nobody recorded is reported as late          |
| the coordinator closes               | running attempts may finish, then all stops; the journal knows the rest  |
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from collections.abc import Callable, Iterator
from typing import Any, assert_never, cast

from amends.clock import Clock
from amends.core import commands as c
from amends.core.contracts import Contract, key_of
from amends.core.effects import CallPerson, Compensate, Effect, End, GiveUp, Judge, Perform, Probe, Settle, Wait
from amends.core.events import Cause, IncidentKind
from amends.core.outcomes import Failed, Lost, NoAnswer, Outcome, Succeeded
from amends.core.plan import forward, plan
from amends.core.saga import Step
from amends.core.secret import Secret, mask, unmask
from amends.core.transitions import SagaStatus, StepStatus
from amends.core.values import Json, SagaId, StepId, canonical
from amends.errors import (
    AmendsError,
    DivergedError,
    InputError,
    JournalError,
    NotJsonError,
    RefusedError,
    StepDeniedError,
    StepError,
    StepFailedError,
    StepFatalError,
    StepLostError,
    UnknownActionError,
)
from amends.gate.protocol import Facts, Gate
from amends.runtime.action import Action, Asked, Done, takes_one
from amends.runtime.definition import SagaDefinition
from amends.runtime.executor import Call, Executor
from amends.runtime.logbook import Logbook
from amends.runtime.places import Places
from amends.runtime.registry import Registry
from amends.runtime.settings import Settings
from amends.runtime.work import Work

_log = logging.getLogger("amends.driver")
LateSuccess = Callable[[SagaId, StepId, int, Json], None]


class Surroundings:
    """What every driver of a worker shares."""

    def __init__(
        self,
        *,
        clock: Clock,
        gate: Gate,
        registry: Registry,
        settings: Settings,
        executor: Executor,
        late: LateSuccess,
        lease_in_time: Callable[[], bool],
    ) -> None:
        self.clock = clock
        self.gate = gate
        self.registry = registry
        self.settings = settings
        self.executor = executor
        self.late = late
        self.lease_in_time = lease_in_time


class _Flight:
    """An attempt between its intent and its outcome."""

    __slots__ = ("ended", "task")

    def __init__(self) -> None:
        self.task = asyncio.current_task()
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Driver:
    def __init__(self, around: Surroundings, book: Logbook, definition: SagaDefinition | None) -> None:
        self.book = book
        self._around = around
        self._definition = definition
        self._places = Places(book.saga.steps.values(), around.settings.replay_s)
        self._actions: dict[tuple[str, int], Action[..., Any]] = {}
        self._in_flight: dict[StepId, _Flight] = {}
        self._threads: dict[StepId, asyncio.Event] = {}
        self._secrets: dict[StepId, tuple[Secret, ...]] = {}
        self._changed = asyncio.Event()
        self._function: asyncio.Task[Any] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._diverged: DivergedError | None = None
        self._replayed = 0
        self.draining = False
        book.on_moved = self._moved

    # -- the whole ----------------------------------------------------------------------------------------------------

    async def drive(self) -> None:
        """Do everything that is due, until nothing is: the saga has ended, or a person is needed."""
        book = self.book
        if book.saga.live:
            book.tell(c.Recover(now=self._around.clock.now(), jitter=self._around.clock.jitter()))
        if book.saga.phase is SagaStatus.RUNNING and not book.saga.finished:
            await self._work()
        await self._walk()
        await book.commit()

    async def _work(self) -> None:
        """Call the definition, and record how it ended."""
        self._function = asyncio.ensure_future(self._call_definition())
        try:
            command = await self._function
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self.draining or self.book.broken is not None or (task is not None and task.cancelling()):
                raise
            command = self._failed(Cause.CANCELLED, "its function was cancelled from inside", None)
        if self.book.saga.phase is SagaStatus.RUNNING:
            self.book.tell(command)

    async def _call_definition(self) -> c.Command:
        book = self.book
        try:
            if self._definition is None:
                begun = book.saga.begun
                raise DivergedError(f"no saga {begun and begun.definition} of its version is registered in this process")
            self._places.enter()
            named = cast("dict[str, Any]", unmask(book.saga.begun.input if book.saga.begun else {}, book.saga.id))
            result = await self._definition.run(Work(self), named)
            if self._places.missing:
                raise DivergedError(f"step {self._places.missing[0]} is on record, but the function ended without asking for it")
            masked = mask(result, book.saga.id)
            canonical(masked, what="the saga's result")
        except StepError as exc:
            return self._failed(_cause(exc), str(exc), StepId(exc.step))
        except asyncio.CancelledError:
            if self._diverged is None:
                raise
            return self._stopped_as_diverged(self._diverged)
        except DivergedError as exc:
            return self._stopped_as_diverged(exc)
        # Whatever leaves a saga's function starts its rollback; that is the contract.
        except Exception as exc:
            if book.broken is not None:
                raise
            if not isinstance(exc, AmendsError):
                _log.info("saga %s: its function raised", book.saga.id, exc_info=exc)
            return self._failed(Cause.ERROR, f"{type(exc).__name__}: {exc}", None)
        else:
            if self._diverged is not None:
                return self._stopped_as_diverged(self._diverged)
            return c.FinishWork(result=cast("Json", masked))

    def _failed(self, cause: Cause, why: str, step: StepId | None) -> c.Command:
        if self._diverged is not None:
            return self._stopped_as_diverged(self._diverged)
        window_s = self._around.settings.rollback_s
        return c.FailWork(cause=cause, why=why, step=step, now=self._around.clock.now(), window_s=window_s)

    def _stopped_as_diverged(self, exc: DivergedError) -> c.Command:
        return c.OpenIncident(kind=IncidentKind.DIVERGED, step=None, why=str(exc))

    def _moved(self) -> None:
        """Another author wrote, or the pen broke: look again, and stop a function whose saga is not running any more."""
        self._changed.set()
        if self.book.broken is not None:
            self._stop_function()
        elif self.book.saga.phase is not SagaStatus.RUNNING and self._function is not None and self._stopping is None:
            self._stopping = asyncio.ensure_future(self._stop_function_gently())

    def _stop_function(self) -> None:
        if self._function is not None and not self._function.done():
            self._function.cancel()

    async def _stop_function_gently(self) -> None:
        """What runs may finish, for a while: a known outcome is worth more than a quick stop."""
        if self.flights:
            await asyncio.wait(self.flights, timeout=self._around.settings.settle_s)
        self._stop_function()

    def look_again(self) -> None:
        """A command from outside was recorded through this driver's own pen."""
        self._moved()

    async def wind_up(self) -> None:
        """The drive was cancelled: cancel what still runs, and write the outcomes that are known."""
        for flight in tuple(self._in_flight.values()):
            if flight.task is not None:
                flight.task.cancel()
        if self.flights:
            await asyncio.wait(self.flights)
        if self._stopping is not None:
            self._stopping.cancel()
        if self.book.broken is None:
            try:
                await self.book.commit()
            except JournalError as exc:
                _log.warning("saga %s: its last outcomes could not be written: %s", self.book.saga.id, exc)

    async def nudge(self) -> None:
        """Someone wrote to this saga from elsewhere."""
        await self.book.refresh()

    # -- forward ------------------------------------------------------------------------------------------------------

    async def step(self, action: Action[..., Any], args: Json, digest: str, secrets: tuple[Secret, ...]) -> Any:  # noqa: ANN401 - the action's own type
        """One `s.do`: answer it from the journal, or bring it to its end."""
        book, contract = self.book, action.contract
        if self._diverged is not None:
            raise self._diverged
        try:
            step, remembered = await self._places.next(f"{contract.topic}/{contract.version}", digest)
        except DivergedError as exc:
            self._diverged = exc
            raise
        self._actions[contract.topic, contract.version] = action
        if secrets:
            self._secrets[step] = secrets
        if remembered:
            await self._breathe()
        else:
            book.tell(c.ProposeStep(step=step, contract=contract, args=args, digest=digest))
        while (effect := forward(book.saga.steps[step], self._around.clock.now())) is not None:
            if isinstance(effect, GiveUp):
                book.commit_soon()
                raise _step_error(book.saga.steps[step])
            await self._go(effect, step, action)
        done = book.saga.steps[step]
        if done.status is not StepStatus.SUCCEEDED:
            raise RefusedError(f"saga {book.saga.id} is {book.saga.phase}; step {step} is {done.status}")
        book.commit_soon()
        if done.error:
            raise NotJsonError(done.error)
        return unmask(done.result, book.saga.id)

    async def _breathe(self) -> None:
        """A long history must not keep the loop to itself while it is called again."""
        self._replayed += 1
        if self._replayed % 64 == 0:
            await self._around.clock.sleep(0)

    async def _go(self, effect: Effect, step: StepId, action: Action[..., Any]) -> None:
        match effect:
            case Judge():
                self.book.tell(c.RecordVerdict(step=step, verdict=self._around.gate.judge(self._facts(step))))
            case Perform():
                await self._perform(step, action)
            case Probe():
                await self._probe(step)
            case Wait(until=until):
                await self._wait(until)
            case GiveUp() | Compensate() | Settle() | CallPerson() | End():
                raise AssertionError(f"{effect} is never due for a step that goes forward")
            case _:
                assert_never(effect)

    def _facts(self, step: StepId, *, back: bool = False) -> Facts:
        saga = self.book.saga
        begun = saga.begun
        assert begun is not None
        return Facts(
            env=begun.env,
            actor=begun.actor,
            saga=saga.id,
            definition=begun.definition,
            step=step,
            contract=saga.steps[step].contract,
            args=saga.steps[step].args,
            phase="compensation" if back else "forward",
        )

    async def _perform(self, step: StepId, action: Action[..., Any]) -> None:
        """One attempt: intent durable, lease still ours, then the call, then its outcome."""
        book, clock = self.book, self._around.clock
        await self._end_of_thread(step)
        if book.saga.steps[step].status is StepStatus.SUCCEEDED:
            return
        if action.capture is not None and book.saga.steps[step].number == 0:
            await self._capture(step, action)
        self._stop_if_draining()
        with self._flight(step):
            book.tell(c.StartAttempt(step=step))
            outcome = await self._attempt(step, action)
            book.tell(c.RecordOutcome(step=step, outcome=outcome, now=clock.now(), jitter=clock.jitter()))
        self._changed.set()
        if not isinstance(outcome, Succeeded):
            book.commit_soon()
            _let_cancellation_go_on()

    async def _attempt(self, step: StepId, action: Action[..., Any]) -> Outcome:
        """From the durable intent to the outcome. What was not dispatched has certainly not happened."""
        book = self.book
        try:
            await book.commit()
            if not self._around.lease_in_time():
                await book.still_held()
        except asyncio.CancelledError:
            return Failed(error="it was cancelled before it was dispatched", fatal=True)
        state = book.saga.steps[step]
        if book.saga.phase is not SagaStatus.RUNNING:
            return Failed(error="it was not dispatched: the saga had begun to roll back", fatal=True)
        contract, secrets = state.contract, self._secrets.get(step, ())
        args = cast("dict[str, Any]", unmask(state.args, book.saga.id, secrets))
        call = Call(
            saga=book.saga.id,
            function=lambda: action.signature.call(action.function, args),
            is_async=action.is_async,
            key=self._key(state),
            timeout_s=contract.timeout_s,
            certain_failure=contract.atomic or not contract.side_effect,
            secrets=secrets,
            late=lambda late: self._ended_late(step, state.attempts, late),
        )
        outcome = await self._around.executor.perform(call)
        if call.running:
            self._threads[step] = asyncio.Event()
        return outcome

    @contextlib.contextmanager
    def _flight(self, step: StepId) -> Iterator[None]:
        """While this lasts, a rollback waits for the step, and a closing coordinator too."""
        flight = self._in_flight[step] = _Flight()
        try:
            yield
        finally:
            del self._in_flight[step]
            flight.ended.set_result(None)

    def _stop_if_draining(self) -> None:
        if self.draining:
            raise asyncio.CancelledError

    @property
    def flights(self) -> tuple[asyncio.Future[None], ...]:
        return tuple(flight.ended for flight in self._in_flight.values())

    def _key(self, state: Step) -> str:
        return key_of(self.book.saga.id, state.id, state.topic, "do")

    def _ended_late(self, step: StepId, attempt: int, outcome: Outcome) -> None:
        """A thread that had been given up has ended after all."""
        ended = self._threads.pop(step, None)
        if isinstance(outcome, Succeeded):
            clock, window_s = self._around.clock, self._around.settings.rollback_s
            command = c.EnrolLateSuccess(
                step=step, attempt=attempt, result=outcome.result, now=clock.now(), window_s=window_s
            )
            try:
                self.book.tell(command)
                self.book.commit_soon()
            except AmendsError:
                self._around.late(self.book.saga.id, step, attempt, outcome.result)
        if ended is not None:
            ended.set()
        self._changed.set()

    async def _end_of_thread(self, step: StepId) -> bool:
        """Wait a while for a thread that was given up; whether it has ended."""
        running = self._threads.get(step)
        if running is None:
            return True
        await self.book.commit()
        try:
            async with asyncio.timeout(self._around.settings.settle_s):
                await running.wait()
        except TimeoutError:
            return False
        return True

    async def _capture(self, step: StepId, action: Action[..., Any]) -> None:
        book = self.book
        await book.commit()
        capture = cast("Callable[..., Any]", action.capture)
        asked = self._asked(step)
        wants_asked = takes_one(capture, action.signature.names)
        call = self._call(
            capture,
            (lambda: capture(asked)) if wants_asked else (lambda: _call_with_some(capture, asked.args)),
            key=asked.key,
            timeout_s=book.saga.steps[step].contract.timeout_s,
            step=step,
        )
        try:
            before = mask(await self._around.executor.capture(call), book.saga.id)
            canonical(before, what=f"{action.topic}: the before-image")
        except InputError:
            raise
        # Nothing has been dispatched: a before-image that cannot be had is a step that failed with certainty.
        except Exception as exc:
            error = f"its before-image could not be captured: {type(exc).__name__}: {exc}"
            raise StepFailedError(error, step=step, topic=action.topic) from exc
        book.tell(c.KeepBefore(step=step, before=cast("Json", before)))

    def _asked(self, step: StepId) -> Asked:
        saga, state = self.book.saga, self.book.saga.steps[step]
        args = cast("dict[str, Any]", unmask(state.args, saga.id, self._secrets.get(step, ())))
        return Asked(saga=saga.id, step=step, args=args, key=self._key(state))

    def _call(
        self, function: Callable[..., Any], bound: Callable[[], Any], *, key: str, timeout_s: float | None, step: StepId
    ) -> Call:
        return Call(
            saga=self.book.saga.id,
            function=bound,
            is_async=inspect.iscoroutinefunction(function),
            key=key,
            timeout_s=timeout_s,
            secrets=self._secrets.get(step, ()),
        )

    async def _probe(self, step: StepId) -> None:
        book, clock = self.book, self._around.clock
        await self._end_of_thread(step)
        await book.commit()
        state = book.saga.steps[step]
        if state.status is not StepStatus.UNKNOWN:
            return
        asked = self._asked(step)
        try:
            ask = self._find(state.contract).ask
        except UnknownActionError as exc:
            ask, answer = None, NoAnswer(str(exc))
        else:
            answer = NoAnswer(f"{state.topic} declares no probe in this process")
        if ask is not None:
            call = self._call(
                ask, lambda: ask(asked), key=asked.key, timeout_s=state.contract.timeout_s, step=step
            )
            answer = await self._around.executor.ask(call)
            _let_cancellation_go_on()
        if book.saga.steps[step].status is StepStatus.UNKNOWN:
            book.tell(c.RecordAnswer(step=step, answer=answer, now=clock.now(), jitter=clock.jitter()))

    def _find(self, contract: Contract) -> Action[..., Any]:
        """The action as this run has used it, else as this process knows it."""
        used = self._actions.get((contract.topic, contract.version))
        return used or self._around.registry.action(contract.topic, contract.version)

    async def _wait(self, until: int) -> None:
        """Until then, or until something changes."""
        await self.book.commit()
        self._changed.clear()
        wait_s = max(0.0, (until - self._around.clock.now()) / 1000)
        sleep = asyncio.ensure_future(self._around.clock.sleep(wait_s))
        changed = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait({sleep, changed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleep.cancel()
            changed.cancel()

    # -- backward -----------------------------------------------------------------------------------------------------

    async def _walk(self) -> None:
        """Take back what is owed, newest first; or, after the work, settle what is in doubt."""
        book = self.book
        while (effect := plan(book.saga, self._around.clock.now())) is not None:
            match effect:
                case Settle(steps=steps):
                    await self._settle(steps)
                case Probe(step=step):
                    await self._probe(step)
                case Compensate(step=step, certain=certain):
                    await self._compensate(step, certain=certain)
                case Wait(until=until):
                    await self._wait(until)
                case CallPerson(kind=kind, step=step, why=why):
                    book.tell(c.OpenIncident(kind=kind, step=step, why=why))
                case End():
                    book.tell(c.EndSaga())
                case GiveUp() | Judge() | Perform():
                    raise AssertionError(f"{effect} is never due for a saga that goes back")
                case _:
                    assert_never(effect)

    async def _settle(self, steps: tuple[StepId, ...]) -> None:
        """Let what runs come to its end, for a while; then cancel it. Nothing is taken back before."""
        await self.book.commit()
        flights = [self._in_flight[step] for step in steps if step in self._in_flight]
        if not flights:
            self.book.tell(c.Recover(now=self._around.clock.now(), jitter=self._around.clock.jitter()))
            return
        ended = [flight.ended for flight in flights]
        _, running = await asyncio.wait(ended, timeout=self._around.settings.settle_s)
        for flight in flights:
            if flight.task is not None and not flight.ended.done():
                flight.task.cancel()
        if running:
            await asyncio.wait(running)

    async def _compensate(self, step: StepId, *, certain: bool) -> None:
        book, clock = self.book, self._around.clock
        if not await self._end_of_thread(step):
            why = f"its attempt is still running in a thread after {self._around.settings.settle_s:g} s"
            book.tell(c.OpenIncident(kind=IncidentKind.OUTCOME_UNKNOWN, step=step, why=why))
            return
        state = book.saga.steps[step]
        if certain is False and state.status is StepStatus.SUCCEEDED:
            return  # its thread has just ended and reported: plan again
        try:
            compensate = self._find(state.contract).compensate
        except UnknownActionError as exc:
            book.tell(c.OpenIncident(kind=IncidentKind.COMPENSATION_MISSING, step=step, why=str(exc)))
            return
        if compensate is None:
            why = f"{state.topic} version {state.contract.version} declares no compensation in this process any more"
            book.tell(c.OpenIncident(kind=IncidentKind.COMPENSATION_MISSING, step=step, why=why))
            return
        self._stop_if_draining()
        verdict = self._around.gate.judge(self._facts(step, back=True))
        with self._flight(step):
            book.tell(c.StartCompensation(step=step, certain=certain, verdict=verdict))
            await book.commit()
            state = book.saga.steps[step]
            if state.status is not StepStatus.COMPENSATING:
                return
            if not self._around.lease_in_time():
                await book.still_held()
            done = self._done(state)
            timeout_s = state.contract.undo_timeout_s
            call = self._call(compensate, lambda: compensate(done), key=done.key, timeout_s=timeout_s, step=step)
            outcome = await self._around.executor.perform(call)
            book.tell(c.RecordCompensation(step=step, outcome=outcome, now=clock.now(), jitter=clock.jitter()))
        if isinstance(outcome, Lost):
            book.commit_soon()
            _let_cancellation_go_on()

    def _done(self, state: Step) -> Done:
        saga = self.book.saga.id
        known = self._secrets.get(state.id, ())
        return Done(
            saga=saga,
            step=state.id,
            args=cast("dict[str, Any]", unmask(state.args, saga, known)),
            result=unmask(state.result, saga, known),
            before=unmask(state.before, saga, known),
            certain=state.certain,
            key=key_of(saga, state.id, state.topic, "undo", state.turn),
            action_key=self._key(state),
        )


def _let_cancellation_go_on() -> None:
    """The outcome of a cancelled call is told; now the task that was cancelled may end."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _call_with_some(function: Callable[..., object], args: dict[str, Any]) -> object:
    wanted = inspect.signature(function).parameters
    return function(**{name: value for name, value in args.items() if name in wanted})


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


def _step_error(step: Step) -> StepError:
    """How a step that ended badly looks to the function: the same now and when it is called again."""
    if step.status is StepStatus.DENIED:
        return StepDeniedError(step.error, step=step.id, topic=step.topic)
    if step.fatal:
        happened = False if step.status is StepStatus.FAILED else None
        return StepFatalError(step.error, step=step.id, topic=step.topic, happened=happened)
    if step.status is StepStatus.FAILED:
        return StepFailedError(step.error, step=step.id, topic=step.topic)
    return StepLostError(step.error, step=step.id, topic=step.topic)
