"""The way back: takes back what is owed, newest first, one at a time; after the work, settles what is in doubt.

The function is not asked. The journal says what is owed, the plan says what is next, and each compensation's own
outcome is durable before the next one begins that has to wait for it. Where a graph declares steps independent, the
plan names several at once, and they are taken back side by side.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, assert_never

from amends.core import commands as c
from amends.core.decide.require import later
from amends.core.effects import (
    Await,
    CallPerson,
    Compensate,
    Effect,
    End,
    Expire,
    GiveUp,
    Judge,
    Mitigate,
    Perform,
    Probe,
    Queue,
    Release,
    Settle,
    TurnBack,
    Wait,
)
from amends.core.events import IncidentKind
from amends.core.plan import may_be_pivots, rewinding
from amends.core.state.saga import Saga, Step
from amends.core.transitions import ApprovalStatus, SagaStatus, StepStatus
from amends.core.words.outcomes import Lost, Outcome
from amends.core.words.values import StepId
from amends.core.words.verdict import Decision
from amends.errors import DivergedError, RefusedError, TooLargeError, UnknownActionError
from amends.runtime.declare.action import Action
from amends.runtime.drive.asking import LOOK_AGAIN_S, look_again, probe, wait
from amends.runtime.drive.children import ends_with, release
from amends.runtime.drive.executor import Part
from amends.runtime.drive.forward import Forward
from amends.runtime.drive.judging import judge, judge_at_sight, keep_rates
from amends.runtime.drive.late import end_of_thread, note_thread, thread_ended
from amends.runtime.drive.parallel import Parallel
from amends.runtime.drive.reread import changed_since
from amends.runtime.drive.run import Flight, Run, let_cancellation_go_on
from amends.runtime.values.bounded import ON_LOOP, off_loop


class Backward:
    def __init__(self, run: Run) -> None:
        self._run = run

    async def walk(self) -> None:
        """Do what is due until nothing is."""
        run, book = self._run, self._run.book
        async with Parallel(run, self._do) as parallel:
            while (effects := parallel.planned()) or parallel.is_busy:
                planned_at = book.saga.head
                if len(effects) != 1 or parallel.is_busy:
                    await parallel.go(effects)
                    continue
                try:
                    await self._do(effects[0])
                except RefusedError:
                    if book.saga.head == planned_at:
                        raise
                    # The saga moved while this was under way, and it is not due any more: plan again.

    async def take_back(self, rewind: StepId) -> None:
        """Do what is due for one rewind, until it has ended. The function waits for it; other branches go on.

        Where a person is needed the function is stopped, and with it this wait; called again, it comes back here.
        """
        run, book = self._run, self._run.book
        while (under_way := book.saga.rewinds.get(rewind)) is None or not under_way.ended:
            if under_way is None or not book.saga.works:
                run.on_stopped()
                await wait(run, later(run.around.clock.now(), run.around.settings.poll_s))
                continue
            planned_at = book.saga.head
            effect = rewinding(book.saga, under_way, run.around.clock.now())
            try:
                if isinstance(effect, End):
                    book.tell(c.EndRewind(place=rewind))
                else:
                    await self._do(effect)
            except RefusedError:
                if book.saga.head == planned_at:
                    raise
        book.commit_soon()

    async def settle_pivots(self, steps: Callable[[], Iterable[StepId]]) -> None:
        """Let those of them come to their end that are on their way and cannot be taken back, before it is decided."""
        while True:
            named = frozenset(steps())
            pivots = (step for step in may_be_pivots(self._run.book.saga) if step.id in named)
            live = tuple(step.id for step in pivots if step.status is StepStatus.RUNNING)
            if not live or not self._run.book.saga.works:
                return
            await self._settle(live)

    async def _do(self, effect: Effect) -> None:
        run, book = self._run, self._run.book
        match effect:
            case Settle(steps=steps):
                await self._settle(steps)
            case Probe(step=step):
                if not await run.hold_back(run.state(step).topic, back=True):
                    await probe(run, step)
            case Compensate(step=step, certain=certain):
                if not await run.hold_back(run.state(step).topic, back=True):
                    await self._compensate(step, certain=certain)
            case Mitigate(step=step):
                if not await run.hold_back(run.state(step).topic, back=True):
                    await self._mitigate(step)
            case Wait(until=until):
                await wait(run, until)
            case CallPerson(kind=kind, step=step, why=why, stops=stops):
                book.tell(c.OpenIncident(kind=kind, step=step, why=why, stops=stops))
            case End():
                book.tell(c.EndSaga())
            case Release(step=step):
                if not await run.hold_back(run.state(step).topic):
                    await self._release_child(step)
            case TurnBack():
                book.tell(c.TurnBack())
            case Judge(step=step) | Perform(step=step) | Await(step=step) | Queue(step=step) | Expire(step=step):
                await self._release(effect, step)
            case GiveUp():
                raise AssertionError(f"{effect} is never due for a saga that goes back")
            case _:
                assert_never(effect)

    async def _release(self, effect: Effect, step: StepId) -> None:
        """The work has finished, and nothing that could fail is left: what was held goes out, one after the other."""
        run = self._run
        try:
            await Forward(run, releases=True).go(effect, step, run.find(run.state(step).contract))
        except (UnknownActionError, DivergedError) as exc:
            run.book.tell(c.OpenIncident(kind=IncidentKind.RELEASE_FAILED, step=step, why=str(exc)))

    async def _release_child(self, step: StepId) -> None:
        """Have a child release what it holds, and see it complete; where that takes its time, the saga waits for it."""
        run, book = self._run, self._run.book
        run.stop_if_draining()
        if not await ends_with(book.saga.id, step):
            book.tell(c.StartRelease(step=step))
            await run.commit_to_dispatch()
            if not is_released(book.saga, step):
                return  # somebody had it go back first: then nothing of it goes out
            try:
                ended = await release(book.saga.id, step)
            except RefusedError:  # it is not driven here any more, or the journal failed under it
                await wait(run, later(run.around.clock.now(), run.around.settings.poll_s))
                return
            if not ended:
                await look_again(run, step, LOOK_AGAIN_S)
                return
        book.tell(c.EndRelease(step=step))

    async def _settle(self, steps: tuple[StepId, ...]) -> None:
        """Let what runs come to its end, for a while; then cancel it. Nothing is taken back before."""
        run = self._run
        await run.book.commit()
        flights = [run.in_flight[step] for step in steps if step in run.in_flight]
        if not flights:
            run.book.tell(c.Recover())
            return
        _, running = await asyncio.wait([flight.ended for flight in flights], timeout=run.around.settings.settle_s)
        for flight in flights:
            if flight.task is not None and not flight.ended.done():
                flight.task.cancel()
        if running:
            await asyncio.wait(running)

    async def _thread_ended(self, step: StepId) -> bool:
        if not await end_of_thread(self._run, step):
            why = f"its last attempt is still running in a thread after {self._run.around.settings.settle_s:g} s"
            self._run.book.tell(c.OpenIncident(kind=IncidentKind.OUTCOME_UNKNOWN, step=step, why=why))
            return False
        return True

    async def _mitigate(self, step: StepId) -> None:
        """Do what is declared about a step that took effect, and cannot be taken back: a person has asked for it."""
        run = self._run
        if not await self._thread_ended(step):
            return
        state = run.state(step)
        try:
            action = run.find(state.contract)
            mitigate = action.parts.mitigation
            await run.require_fitting(state, action)
            missing = f"{state.topic} version {state.contract.version} declares no mitigation in this process"
        except UnknownActionError as exc:
            action, mitigate, missing = None, None, str(exc)
        except DivergedError as exc:
            run.book.tell(c.OpenIncident(kind=IncidentKind.DIVERGED, step=step, why=str(exc)))
            return
        if mitigate is None:
            run.book.tell(c.OpenIncident(kind=IncidentKind.MITIGATION_MISSING, step=step, why=missing))
        else:
            run.stop_if_draining()
            await self._attempt(state, action, mitigate, certain=True)

    async def _compensate(self, step: StepId, *, certain: bool) -> None:
        run = self._run
        if (run.book.saga.id, step) in run.around.threads and not await self._thread_ended(step):
            return
        state = run.state(step)
        if not certain and state.status is StepStatus.SUCCEEDED:
            return  # its thread has just ended and reported: plan again
        try:
            action = run.find(state.contract)
            compensate = action.parts.compensation
            await run.require_fitting(state, action)
            missing = f"{state.topic} version {state.contract.version} declares no compensation in this process"
        except UnknownActionError as exc:
            action, compensate, missing = None, None, str(exc)
        except DivergedError as exc:
            run.book.tell(c.OpenIncident(kind=IncidentKind.DIVERGED, step=step, why=str(exc)))
            return
        if run.works_on_files(state):
            compensate = run.layers.compensation(state, compensate)
        if compensate is None:
            run.book.tell(c.OpenIncident(kind=IncidentKind.COMPENSATION_MISSING, step=step, why=missing))
        else:
            run.stop_if_draining()
            await self._attempt(state, action, compensate, certain=certain)

    async def _attempt(
        self, state: Step, action: Action[..., Any] | None, take_back: Callable[..., object], *, certain: bool
    ) -> None:
        """One attempt: judged, intent durable, lease still ours, then the call, then its outcome."""
        run, book = self._run, self._run.book
        approved = state.approval is not None and state.approval.status is ApprovalStatus.USED
        at_sight = None if approved else judge_at_sight(run, state.contract, run.around.clock.elapsed(), back=True)
        verdict = at_sight or await judge(
            run, state.id, state.contract, state.args, back=True, approval_present=approved
        )
        is_held_up = bool(verdict.rates) and verdict.decision is not Decision.DENY
        if is_held_up and (until := await keep_rates(run, state.id, verdict)):
            await wait(run, min(until, _window_end(book.saga, state) or until))
            run.stop_if_draining()
            return  # plan again: it may be due, or too late, or not its turn any more
        if book.saga.steps[state.id] is not state:
            return  # it moved while the rates were asked: plan again
        task = asyncio.current_task()
        flight = run.in_flight[state.id] = Flight(run.in_flight, state.id, task)
        try:
            book.tell(c.StartCompensation(step=state.id, certain=certain, verdict=verdict))
            await run.commit_to_dispatch()
            state = run.state(state.id)
            if state.status not in {StepStatus.COMPENSATING, StepStatus.MITIGATING}:
                return
            try:
                done = run.done(state, action, ON_LOOP)
            except TooLargeError:
                done = await off_loop(partial(run.done, state, action))
            part: Part = "mitigation" if state.status is StepStatus.MITIGATING else "compensation"
            call = run.call(state, part, take_back, done, key=done.key, timeout_s=state.contract.undo_timeout_s)
            call.late, call.task = partial(_note_end, run, state.id), task
            call.repeats_bugs = action is not None and action.parts.repeats_bugs_back
            outcome = await changed_since(run, state) or await run.around.executor.perform(call)
            if call.running:
                note_thread(run, state.id)
            book.tell(c.RecordCompensation(step=state.id, outcome=outcome))
        finally:
            flight.end()
        if isinstance(outcome, Lost):
            book.commit_soon()
            let_cancellation_go_on()


def _note_end(run: Run, step: StepId, _: Outcome) -> None:
    """A thread that was given up has ended, however: what it took back is taken back once more."""
    thread_ended(run, step)


def _window_end(saga: Saga, step: Step) -> int:
    """Until when a step has to be taken back; 0 where there is no such time."""
    if step.rewind is not None and step.rewind in saga.rewinding:
        return saga.rewinds[step.rewind].deadline_at
    return saga.deadline_at if saga.phase is SagaStatus.ROLLING_BACK else 0


def is_released(saga: Saga, step: StepId) -> bool:
    """Whether it is on record that what the child of this step holds goes out."""
    return saga.steps[step].releasing
