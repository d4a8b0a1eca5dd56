"""The way forward: one `s.do`, from the function's wish to its result.

There are two ways into RUNNING, and both end in `_perform`:

1. The short way, of a new step that nothing stands in the way of: `_begin` judges it, and `DispatchStep` puts proposal,
   verdict and first intent on record as one fact. No plan is asked: the common case costs one append.
2. The long way, of every other step: one that people are asked about, that a rate, a lock, a before-image or a hold
   keeps waiting, that failed and is due again, or that a process left behind. It is on record as proposed;
   `plan.forward` names what is due next, `go` does that, and for `Perform` it is `_repeat` that comes to a further
   intent, `StartAttempt`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final, assert_never, cast

from amends.core import commands as c
from amends.core.decide.approvals import AHEAD
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
from amends.core.plan import forward
from amends.core.state.reasons import reasons_for
from amends.core.state.step import Step
from amends.core.transitions import SagaStatus, StepStatus
from amends.core.words.contracts import Contract
from amends.core.words.outcomes import Failed, Outcome, Succeeded
from amends.core.words.values import PLAIN, Json, StepId
from amends.core.words.verdict import Decision, Verdict
from amends.errors import DivergedError, NotJsonError, RefusedError, TooLargeError
from amends.journal.port.locks import LocksQueued, LocksRefused, LocksTaken
from amends.runtime.declare.action import Action
from amends.runtime.declare.parts import CheckArguments
from amends.runtime.drive.approvals import AskedAhead
from amends.runtime.drive.asking import look_at, probe, wait, wait_outside
from amends.runtime.drive.before import capture, look_before_asking
from amends.runtime.drive.exceptions import pending, step_error
from amends.runtime.drive.executor import Call
from amends.runtime.drive.judging import judge, judge_at_sight, keep_rates, unless_made_up, void_outlived
from amends.runtime.drive.late import end_of_thread, ended_late, note_thread, report_unrecorded
from amends.runtime.drive.limits import keep, keep_failure, keep_retry, note_failure
from amends.runtime.drive.locks import HeldLocks, why_refused
from amends.runtime.drive.positions import Alike, Scope, Spot, places_of, step_request
from amends.runtime.drive.proof import still_approved
from amends.runtime.drive.reread import keep_after
from amends.runtime.drive.run import Flight, Run, let_cancellation_go_on
from amends.runtime.drive.validation import examined, judged
from amends.runtime.values.bounded import ON_LOOP, give, off_loop, small_or_off_loop
from amends.secrets import Secret, is_alike, unmask

_BREATH = 64
_ALLOW: Final = Decision.ALLOW
_RUNNING: Final = StepStatus.RUNNING
_SUCCEEDED: Final = StepStatus.SUCCEEDED
_AT_WORK: Final = SagaStatus.RUNNING


class Forward:
    """Brings steps to their end, several at once where the function runs branches side by side."""

    def __init__(self, run: Run, *, releases: bool = False) -> None:
        self._run = run
        self.releases = releases
        """The work has finished: what it held is released."""
        self._replayed = 0
        self._locks = HeldLocks(run)
        self._asked = AskedAhead(run.book.saga)
        self.places = places_of(run.book.saga, run.around.settings.replay_s)
        self.diverged: DivergedError | None = None
        self.closed: list[Scope] = []
        """The parts of the work that were taken back: whatever of them still runs begins nothing new."""
        self.over = False
        """The function was stopped, and is called again with another one of these."""

    def step(
        self, action: Action[..., Any], args: Json, digest: str, secrets: tuple[Secret, ...], at: Spot | None = None, /
    ) -> Coroutine[Any, Any, Any]:
        """Answer it from the journal, or bring it to its end."""
        step = self._step_on_files if action.parts.on_files else self._step
        return step(action, args, digest, secrets, at)

    async def _step_on_files(
        self, action: Action[..., Any], args: Json, digest: str, secrets: tuple[Secret, ...], at: Spot | None
    ) -> Any:  # noqa: ANN401 - the action's own type
        async with self._run.layers.turn:  # layers lie in the order of the intents
            return await self._step(action, args, digest, secrets, at)

    async def _step(
        self, action: Action[..., Any], args: Json, digest: str, secrets: tuple[Secret, ...], at: Spot | None
    ) -> Any:  # noqa: ANN401 - the action's own type
        run, book, parts = self._run, self._run.book, action.parts
        alike = self._alike(args, secrets) if secrets else None
        named: Any = args
        if (
            parts.check is not None
            and (secrets or not parts.typed.fits_at_sight(named))
            and not self.places.remembers(action.topic, digest, at, alike)
        ):
            await self._check(parts.check, args, secrets)
        task, asked = asyncio.current_task(), self._asked.waiting
        if at is None and self.diverged is None and not asked and (new := self.places.next_new(task)) is not None:
            step, is_remembered = new, False
        elif asked and at is None:
            step, is_remembered = await self._spot(action, digest, alike)
        else:
            step, is_remembered = await self.place(action.topic, digest, at, alike)
            if is_remembered and book.saga.placed is not None:
                step = book.saga.placed.get(step, step)
        if is_remembered or not run.is_as_begun(action) or step in book.saga.steps:
            action = self._as_begun(step, action)
        if secrets:
            run.secrets[step] = secrets
        try:
            if is_remembered:
                await self._breathe()
            else:
                after = None if at is None else self.places.after(at)
                elapsed = run.around.clock.elapsed()
                if (start := self._start_at_once(step, action, args, digest, after, elapsed)) is not None:
                    await self._perform(step, action, start, task, elapsed)
                else:
                    await self._begin(step, action, args, digest, after)
            if action.contract.hold:
                return await self._hold(step, action)
            done = book.saga.steps[step]
            while (effect := self._due(done)) is not None:
                if isinstance(effect, GiveUp):
                    book.commit_soon()
                    raise step_error(book.saga.steps[step])
                await self.go(effect, step, action)
                done = book.saga.steps[step]
        except asyncio.CancelledError:
            run.left_alone.add(step)
            raise
        status, error = (done.status, done.error) if done.told is None else done.told[:2]
        if status is not _SUCCEEDED:
            raise RefusedError(f"saga {book.saga.id} is {book.saga.phase}; step {step} is {done.status}")
        book.commit_soon()
        if error:
            raise NotJsonError(f"{action.topic} (step {step}) took effect, but {error}")
        is_plain = type(done.result) in PLAIN and not action.parts.typed.result.loads
        return done.result if is_plain else await self._given(step, action, done.result)

    def _due(self, step: Step) -> Effect | None:
        """The effect that is due; none, whatever the time is, where it has succeeded and nobody has turned away."""
        if step.status is _SUCCEEDED and not step.given_up and step.told is None and step.rewind is None:
            return None
        return forward(step, self._run.around.clock.now())

    async def _given(self, step: StepId, action: Action[..., Any], result: Json) -> Any:  # noqa: ANN401 - the action's own type
        """A result as the function gets it: a fresh copy, and what it is declared to be."""
        if action.parts.typed.result.loads:
            return await self._restored(step, action, result)
        return await give(result, self._run.book.saga.id)

    async def _hold(self, step: StepId, action: Action[..., Any]) -> None:
        """Bring a step to where it is held: allowed, and approved where that is needed. Raises StepDeniedError."""
        book = self._run.book
        while not book.saga.steps[step].accepted:
            effect = self._due(book.saga.steps[step])
            if effect is None or isinstance(effect, GiveUp):
                book.commit_soon()
                raise step_error(book.saga.steps[step])
            await self.go(effect, step, action)
        book.commit_soon()

    async def _check(self, check: CheckArguments, args: Json, secrets: tuple[Secret, ...]) -> None:
        """Look at the arguments of a new step before it has a place: of a refused one nothing is left to remember."""
        saga = self._run.book.saga.id
        await small_or_off_loop(lambda most: check(cast("dict[str, Any]", unmask(args, saga, secrets, most=most))))

    async def _restored(self, step: StepId, action: Action[..., Any], result: Json) -> Any:  # noqa: ANN401 - the action's own type
        saga = self._run.book.saga.id
        try:
            return await small_or_off_loop(
                lambda most: action.parts.typed.restore_result(unmask(result, saga, most=most))
            )
        except DivergedError as exc:
            self.diverged = DivergedError(f"step {step}: {exc}")
            raise self.diverged from None

    async def ask(
        self, action: Action[..., Any], args: Json, digest: str, secrets: tuple[Secret, ...], at: Spot | None = None, /
    ) -> tuple[str, ...]:
        """Have people approve a step before it is asked for; who did. The next `s.do` of the same is that step."""
        run, book = self._run, self._run.book
        alike = self._alike(args, secrets)
        if action.parts.check is not None and not self.places.remembers(action.topic, digest, at, alike):
            named: Any = args
            fits = not secrets and action.parts.typed.fits_at_sight(named)
            if not fits:
                await self._check(action.parts.check, args, secrets)
        step, is_remembered = await self.place(action.topic, digest, at, alike)
        self._asked.add(step)
        action = self._as_begun(step, action)
        if secrets:
            run.secrets[step] = secrets
        if not is_remembered:
            if book.saga.budget is not None:
                await keep(run, step, action.topic, args)
            call = self.places.call_of(step)
            contract = action.contract
            book.tell(c.ProposeStep(step=step, contract=contract, args=args, digest=digest, ahead=True, call=call))
            await self._judge(step, action, ahead=True)
        asked = book.saga.steps[step].ahead
        if asked is not None and asked.place is not None:
            return asked.signers  # it was answered, and done: what became of it then is told where it was done
        while isinstance(effect := forward(book.saga.steps[step], run.around.clock.now()), (Judge, Await, Expire)):
            await self.go(effect, step, action)
        approval = book.saga.steps[step].approval
        if approval is None or book.saga.steps[step].status is StepStatus.DENIED:
            book.commit_soon()
            raise step_error(book.saga.steps[step])
        self._asked.wait(action.contract, digest, step)
        return approval.signers

    async def _spot(self, action: Action[..., Any], digest: str, alike: Alike | None) -> tuple[StepId, bool]:
        """The step that the calling task asks for, and whether the journal remembers it: one that was asked ahead, and
        not done yet, is done here.
        """
        saga = self._run.book.saga
        if (stands := self._asked.take_placed(saga, action.contract, digest)) is not None:
            return stands, True
        place, is_remembered = await self.place(action.topic, digest, alike=alike)
        if is_remembered:
            placed = self._run.book.saga.placed
            return (place if placed is None else placed.get(place, place)), True
        step = self._asked.take(self._run.book.saga, action.contract, digest)
        if step is None:
            return place, False
        if self.over or self.closed:
            self._refuse_if_taken_back(place)
        self._run.book.tell(c.PlaceStep(step=step, place=place, call=self.places.call_of(place)))
        if (asked := step_request.get()) is not None and asked.step == place:
            asked.step = step
        return step, True

    async def place(
        self, what: str, digest: str, at: Spot | None = None, alike: Alike | None = None
    ) -> tuple[StepId, bool]:
        """The place of what the calling task asks for, and whether the journal remembers it. Raises DivergedError."""
        if self.diverged is not None:
            raise self.diverged
        try:
            if at is not None:
                return self.places.at(at, what, digest, alike)
            return await self.places.next(what, digest, alike)
        except DivergedError as exc:
            self.diverged = exc
            raise

    def _alike(self, args: Json, secrets: tuple[Secret, ...]) -> Alike:
        """Tells whether these arguments are on record at a place, their secrets under another key perhaps."""

        def alike(place: StepId) -> bool:
            saga = self._run.book.saga
            step = saga.steps.get(place if saga.placed is None else saga.placed.get(place, place))
            return step is not None and is_alike(args, step.args, secrets, saga.id)

        return alike

    def _as_begun(self, step: StepId, action: Action[..., Any]) -> Action[..., Any]:
        """The action to go on with: of the version that the step began with, and as it was promised then."""
        try:
            return self._run.as_begun(step, action)
        except DivergedError as exc:
            self.diverged = exc
            raise

    async def _breathe(self) -> None:
        """A long history must not keep the loop to itself while it is called again."""
        self._replayed += 1
        if self._replayed % _BREATH == 0:
            await self._run.around.clock.sleep(0)

    def _start_at_once(
        self,
        step: StepId,
        action: Action[..., Any],
        args: Json,
        digest: str,
        after: tuple[StepId, ...] | None,
        elapsed: float,
    ) -> c.DispatchStep | None:
        """The intent of a new step that nothing stands in the way of; else None, and `_begin` finds out what does."""
        contract, parts = action.contract, action.parts
        is_plain = not (contract.hold or contract.resources or parts.sourced) and parts.before is None
        if not is_plain or self._run.book.saga.budget is not None:
            return None
        verdict = judge_at_sight(self._run, contract, elapsed)
        if verdict is None or verdict.decision is not _ALLOW:
            return None
        return c.DispatchStep(step, contract, args, digest, verdict, after, self.places.call_of(step))

    async def _begin(
        self, step: StepId, action: Action[..., Any], args: Json, digest: str, after: tuple[StepId, ...] | None = None
    ) -> None:
        """A new step. Where nothing stands between, its proposal, verdict and first intent are one fact."""
        run, contract = self._run, action.contract
        verdict = await judge(run, step, contract, args)
        if action.parts.sourced:
            verdict = await unless_made_up(run, action, args, verdict)
        straight = verdict.decision is Decision.ALLOW and not verdict.rates and action.parts.before is None
        straight = straight and not contract.hold
        straight = straight and (not contract.resources or await self._is_free(step, contract, args))
        if run.book.saga.budget is not None:
            await keep(run, step, contract.topic, args)
        if straight:
            start = c.DispatchStep(step, contract, args, digest, verdict, after, self.places.call_of(step))
            await self._perform(step, action, start, asyncio.current_task(), run.around.clock.elapsed())
        else:
            run.book.tell(c.ProposeStep(step, contract, args, digest, after, call=self.places.call_of(step)))
            await self._judged(step, action, verdict)

    async def _judge(self, step: StepId, action: Action[..., Any], *, ahead: bool) -> None:
        run = self._run
        state = run.state(step)
        was_asked = state.approval is not None  # what made that void may be a policy that another process adopted
        verdict = await judge(run, step, action.contract, state.args, approval_present=ahead, newest=was_asked)
        if action.parts.sourced and not ahead:
            verdict = await unless_made_up(run, action, state.args, verdict)
        await self._judged(step, action, verdict, ahead=ahead)

    async def _judged(self, step: StepId, action: Action[..., Any], verdict: Verdict, *, ahead: bool = False) -> None:
        """Record a verdict. Where rates have to be kept, an allowance goes on record once they are: the step waits
        until then, and is judged again.
        """
        run = self._run
        if (
            verdict.decision in {Decision.ALLOW, Decision.THROTTLE}
            and not ahead
            and not await self._passes(step, verdict)
        ):
            return
        look = action.parts.before if verdict.decision is Decision.REQUIRE_HUMAN and not ahead else None
        if look is not None and not (
            await self._heed_pauses(action) and await look_before_asking(run, step, look, action)
        ):
            return
        run.book.tell(c.RecordVerdict(step=step, verdict=verdict, ahead=ahead, contract=action.contract))

    async def go(self, effect: Effect, step: StepId, action: Action[..., Any]) -> None:
        run = self._run
        match effect:
            case Judge():
                approval = run.state(step).approval
                ahead = step in self._asked or (approval is not None and approval.rule == AHEAD)
                await self._judge(step, action, ahead=ahead)
            case Await(until=until):
                if not await void_outlived(run) and run.state(step).status is StepStatus.AWAITING:
                    if (asked := step_request.get()) is not None and not asked.waits:
                        await run.book.commit()
                        raise pending(run.book.saga, run.state(step))
                    await wait_outside(run, until)
            case Queue(until=until):
                nudges = run.nudges
                await self._locked(step)
                if run.state(step).status is StepStatus.QUEUED:
                    await wait_outside(run, until, nudges)
            case Expire():
                if not await void_outlived(run):
                    run.book.tell(c.ExpireApproval(step=step))
            case Perform():
                if await self._heed_pauses(action):
                    await self._repeat(step, action)
            case Probe():
                if await self._heed_pauses(action):
                    await probe(run, step)
            case Wait(until=until):
                await wait(run, until)
            case GiveUp() | Compensate() | Mitigate() | Settle() | Release() | TurnBack() | CallPerson() | End():
                raise AssertionError(f"{effect} is never due for a step that goes forward")
            case _:
                assert_never(effect)

    async def _repeat(self, step: StepId, action: Action[..., Any]) -> None:
        """An attempt of a step that stands in the journal already."""
        run = self._run
        await end_of_thread(run, step)
        if run.state(step).status is StepStatus.SUCCEEDED:
            return
        if action.parts.typed.loads:
            await self._require_fitting(step, action)
        if run.state(step).contract.resources and not await self._locked(step):
            return
        policy = await self._still_approved(step, action)
        if policy is None:
            return
        start = c.StartAttempt(step=step, policy=policy, contract=action.contract if policy else None)
        if action.parts.before is not None and run.state(step).number == 0:
            taken = await capture(run, step, action.parts.before, action, start)
            if not taken:
                if run.state(step).attempts:
                    await keep_failure(run, is_over=note_failure(run))
                return
        if run.book.saga.budget is not None and run.state(step).attempts:
            await keep_retry(run, action.topic)
        await self._perform(step, action, start, asyncio.current_task(), run.around.clock.elapsed())

    async def _require_fitting(self, step: StepId, action: Action[..., Any]) -> None:
        """Raises DivergedError where the arguments on record are not what the action takes by now."""
        try:
            await self._run.asked(self._run.state(step), action)
        except DivergedError as exc:
            self.diverged = DivergedError(f"step {step}: {exc}")
            raise self.diverged from None

    async def _is_free(self, step: StepId, contract: Contract, args: Json) -> bool:
        """Whether all that a new step needs for itself could be had at once."""
        return isinstance(await self._locks.ask(step, contract, args), LocksTaken)

    async def _locked(self, step: StepId) -> bool:
        """Whether the saga has all that the step needs for itself. If not, where it stands goes on record."""
        run, state = self._run, self._run.state(step)
        queued = state.status is StepStatus.QUEUED
        answer = await self._locks.ask(step, state.contract, state.args, state.queued_until if queued else None)
        match answer:
            case LocksTaken():
                if queued:
                    run.book.tell(c.TakeLock(step=step))
                return True
            case LocksQueued(holder=holder):
                if not queued:
                    run.book.tell(self._locks.awaited(step, state, holder))
            case LocksRefused(circle=circle):
                why = why_refused(answer, state.contract, run.around.settings.lock_wait_s)
                run.book.tell(c.RefuseLock(step=step, error=why, deadlock=bool(circle)))
            case _:
                assert_never(answer)
        return False

    async def _still_approved(self, step: StepId, action: Action[..., Any]) -> str | None:
        """The policy under which an approved step starts; "" for one that needed no approval, None: not now."""
        verdict = await still_approved(self._run, step, action)
        if not isinstance(verdict, Verdict):
            return verdict
        return verdict.policy if await self._passes(step, verdict) else None

    async def _passes(self, step: StepId, verdict: Verdict) -> bool:
        """Whether the rates of a verdict let a step pass now; if not, the time has been waited for when this returns.

        What waits for nothing else does not wait in memory.
        """
        run, clock = self._run, self._run.around.clock
        until = await keep_rates(run, step, verdict)
        if 0 < until - clock.now() <= 2000 * run.around.settings.park_s:  # it would be back before it is put away
            await wait(run, until)
            run.stop_if_draining()
        while clock.now() < until:
            await look_at(run, step, until)
        return not until

    async def _perform(
        self,
        step: StepId,
        action: Action[..., Any],
        start: c.DispatchStep | c.StartAttempt,
        task: asyncio.Task[Any] | None,
        elapsed: float,
    ) -> None:
        """One attempt: intent durable, lease still ours, then the call, then its outcome.

        `task` is the calling one, and `elapsed` the time now, by the clock that no one sets.
        """
        run = self._run
        if run.draining:
            raise asyncio.CancelledError
        if run.may_be_held(elapsed) and not await self._heed_pauses(action):
            return
        if self.over or self.closed:
            self._refuse_if_taken_back(step if isinstance(start, c.DispatchStep) else run.state(step).place)
        flight = run.in_flight[step] = Flight(run.in_flight, step, task)
        try:
            run.book.tell(start)
            if run.book.saga.steps[step].status is not _RUNNING:
                return  # what was approved is not what would run now, or it is too late
            outcome = await self._attempt(step, action, task)
            if outcome is None:
                return  # another author's news came first, and it is not due any more: plan again
            if run.book.broken is not None:
                report_unrecorded(run, step, outcome)
            run.book.tell(c.RecordOutcome(step=step, outcome=outcome))
            succeeded = type(outcome) is Succeeded
            if action.parts.reread is not None and succeeded:
                await keep_after(run, step)
            is_over = not succeeded and note_failure(run)
        finally:
            flight.end()
        run.news.tell()
        if not succeeded:
            run.book.commit_soon()
            let_cancellation_go_on()
            if run.book.saga.budget is not None:
                await keep_failure(run, is_over=is_over)

    async def _heed_pauses(self, action: Action[..., Any]) -> bool:
        """Where dispatch of it is paused, the saga is too, and this function is stopped once nothing is in flight.

        Where the saga is let go on before that, the function just goes on. After the work there is no function that
        could be stopped: then it is false, and whoever releases what was held comes again when the pause is over.
        """
        run, pauses = self._run, self._run.around.pauses
        while True:
            held = pauses.may_hold and await run.hold_back(action.topic)
            if not held and run.book.saga.phase is not SagaStatus.PAUSED:
                return True
            if self.releases:
                return False
            await wait(run, later(run.around.clock.now(), run.around.settings.poll_s))

    def _refuse_if_taken_back(self, place: StepId) -> None:
        if self.over or any(scope.holds(place) for scope in self.closed):
            saga = self._run.book.saga.id
            raise RefusedError(f"saga {saga}: the part of the work that step {place} belongs to was taken back")

    def _is_asked_for_anew(self, step: StepId) -> bool:
        """Whether the intent on record is not this one: it was dropped, and the function, called again, has another."""
        return self.over and self._run.in_flight[step].task is not asyncio.current_task()

    async def _attempt(self, step: StepId, action: Action[..., Any], task: asyncio.Task[Any] | None) -> Outcome | None:
        """From the durable intent to the outcome; None where what another wrote meanwhile does not go with that."""
        run, book = self._run, self._run.book
        begun = book.saga.steps[step]
        try:
            try:
                args = run.args(begun, action, ON_LOOP)
            except TooLargeError:
                args = await off_loop(partial(run.args, begun, action))
            except DivergedError as exc:
                return Failed(error=str(exc), final=True)
            await run.commit_to_dispatch()
        except asyncio.CancelledError:
            if self._is_asked_for_anew(step):
                raise
            return Failed(error="it was cancelled before it was dispatched", fatal=not run.draining)
        saga, state = book.saga, book.saga.steps.get(step)
        if state is None or (self.over and self._is_asked_for_anew(step)):
            raise RefusedError(f"saga {saga.id} went back before step {step} could begin")
        is_intended = state.status is _RUNNING  # else a pause, or a rollback, came before its intent
        if not is_intended and saga.phase is _AT_WORK:
            return None
        if saga.phase is not _AT_WORK and not (saga.phase is SagaStatus.PAUSED and is_intended):
            return Failed(error="it was not dispatched: the saga had begun to roll back", fatal=True)
        if (saga.rewinding or saga.awaited is not None) and saga.called_back:
            return Failed(error="it was not dispatched: the saga had begun to go back")
        contract, parts = state.contract, action.parts
        layered = run.layers.attempt(state, action, args) if parts.on_files else None
        is_async = parts.is_async or layered is not None
        call = Call(
            book.saga.id,
            step,
            contract.topic,
            "action",
            layered or parts.signature.caller(parts.function, args),
            is_async,
            state.key or run.key(state),
            contract.timeout_s,
            contract.atomic or not contract.side_effect,
            parts.repeats_bugs,
            run,
            reasons_for(book.saga, state) if state.reasons or run.was_tried(state) else (),
            None if is_async else partial(ended_late, run, step, state.attempts),
            parts.typed.store_result if parts.typed.result.stores else None,
            task,
        )
        outcome = await run.around.executor.perform(call)
        if call.running:
            note_thread(run, step)
        if layered is not None:
            outcome = layered.ended(outcome)
        if parts.is_assertion:
            return judged(outcome)
        return outcome if parts.validation is None else await examined(run, action, state, outcome)
