"""What one saga's driver knows while it drives: the pen, the attempts in flight, the threads that were given up, the
secrets.

Shared by the way forward and the way back; decides nothing.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from amends.core import commands as c
from amends.core.contracts import Contract, Reversibility, key_of
from amends.core.events import SagaStarted
from amends.core.outcomes import Answer, Failed, Found, Lost, NoAnswer, Outcome, Succeeded
from amends.core.saga import Step
from amends.core.transitions import SagaStatus, StepStatus
from amends.core.values import LARGEST_VALUE, Json, StepId
from amends.core.verdict import Decision, Verdict
from amends.errors import AmendsError, DivergedError, JournalDamagedError, UnknownActionError
from amends.gate.environments import DEVELOPMENT
from amends.gate.facts import facts_of, with_told
from amends.gate.protocol import Facts
from amends.runtime.action import Action, Asked, Done
from amends.runtime.executor import Call, Part, kept_words
from amends.runtime.logbook import Logbook, wakes_at
from amends.runtime.logs import logger
from amends.runtime.news import News
from amends.runtime.promises import begun_with, still_promised
from amends.runtime.secret import Secret, secrets_on_record, unmask
from amends.runtime.surroundings import Surroundings
from amends.runtime.values import small_or_off_loop

if TYPE_CHECKING:
    from amends.runtime.files.layers import Layers

_log = logger("amends.gate")
LOOK_AGAIN_S: Final = 30.0
"""How often one that waits for another saga's end looks, though nobody has told it of that."""
_NONE: Final = frozenset[StepId]()  # one for all runs: an empty set takes 200 bytes


class Flight:
    """An attempt between its intent and its outcome: a rollback waits for it, and a closing coordinator too."""

    __slots__ = ("_flights", "_step", "ended", "task")

    def __init__(self, flights: dict[StepId, Flight], step: StepId) -> None:
        self._flights, self._step = flights, step
        self.task = asyncio.current_task()
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def __enter__(self) -> None:
        self._flights[self._step] = self

    def __exit__(self, *_: object) -> None:
        if self._flights.get(self._step) is self:  # else its compensation has begun: this one had nothing to dispatch
            del self._flights[self._step]
        self.ended.set_result(None)


class Run:
    def __init__(self, around: Surroundings, book: Logbook) -> None:
        self.around = around
        self.book = book
        self.in_flight: dict[StepId, Flight] = {}
        self.secrets: dict[StepId, tuple[Secret, ...]] = {}
        self.given: tuple[Secret, ...] = ()
        """Those of the saga's input, where this process has their values."""
        self.news = News()
        self.draining = False
        self.parked = False
        """It waits for others or for the time, and was put away: only its row is left."""
        self.nudges = 0
        """How often somebody wrote to it from elsewhere, or its turn came."""
        self._looked = 0
        self.looks: dict[StepId, int] = {}
        """When those steps are looked at again that wait for what is not in this saga's journal: a child's end."""
        self.left_alone: set[StepId] = set()
        """The steps that the function has turned away from before their end: nobody brings them forward here."""
        self.on_parked: Callable[[], object] = self.news.tell
        """Stops the function, and says whether it was still running."""
        self.on_stopped: Callable[[], None] = self.news.tell
        """The function may not act any more, and does not know it yet."""
        self.over = False
        self.counted: frozenset[StepId] = _NONE
        """The steps that those above have counted already, and that are not on record here yet."""
        self._actions: dict[tuple[str, int], Action[..., Any]] = {}
        self._layers: Layers | None = None

    @property
    def layers(self) -> Layers:
        """The saga's files, if it works on any."""
        if self._layers is None:
            from amends.runtime.files.layers import Layers

            self._layers = Layers(self)
        return self._layers

    @staticmethod
    def works_on_files(state: Step) -> bool:
        """Whether a step, by its arguments on record, has a layer, or has landed some."""
        named = state.args.get("files") if isinstance(state.args, dict) else None
        return isinstance(named, dict) and "$files" in named

    def went_back(self, steps: Iterable[StepId]) -> None:
        """A part of the work was taken back, now or when the function was called before."""
        if self._layers is not None:
            self._layers.went_back(steps)

    async def let_go_of_files(self) -> None:
        if self._layers is not None:
            await self._layers.close()

    @property
    def begun(self) -> SagaStarted:
        begun = self.book.saga.begun
        if begun is None:
            raise JournalDamagedError(f"saga {self.book.saga.id} has entries, but none that starts it")
        return begun

    def state(self, step: StepId) -> Step:
        return self.book.saga.steps[step]

    def flight(self, step: StepId) -> Flight:
        return Flight(self.in_flight, step)

    @property
    def flights(self) -> tuple[asyncio.Future[None], ...]:
        return tuple(flight.ended for flight in self.in_flight.values())

    async def commit_to_dispatch(self) -> None:
        """The intent is durable, and nothing says that the lease under which it was written has ended since."""
        lapses = self.around.lapses
        await self.book.commit_this_far()
        in_time = self.around.lease_in_time()  # asked first: who renews late says so before it is in time again
        if not in_time or self.around.lapses != lapses:
            await self.book.still_held()

    async def hold_back(self, topic: str, *, back: bool = False) -> bool:
        """Whether dispatch of this topic is paused for this saga; the saga is then paused too, and that is on record.

        It may have been unpaused since, and who did that may not have seen this saga: then it goes on at once.
        """
        pauses, book = self.around.pauses, self.book
        pause = await pauses.over(book.saga, topic, back=back)
        if pause is None:
            return False
        stood_still = book.saga.phase is SagaStatus.PAUSED
        book.tell(c.PauseSaga(by=pause.by, why=pause.why, rollbacks=pause.rollbacks, pause=pause.number))
        await book.commit()
        await pauses.refresh()
        if book.saga.phase is SagaStatus.PAUSED and pause.number not in pauses.active:
            now, window_s = self.around.clock.now(), self.around.settings.rollback_s
            book.tell(c.UnpauseSaga(by=pause.by, now=now, window_s=window_s, follows=True))
        if book.saga.phase is not SagaStatus.PAUSED:
            return False
        if not stood_still:  # else two branches that are held back would wake each other, and never sleep
            book.on_moved()
        return True

    def stop_if_draining(self) -> None:
        if self.draining:
            raise asyncio.CancelledError

    # -- the action behind a step -------------------------------------------------------------------------------------

    def as_begun(self, step: StepId, action: Action[..., Any]) -> Action[..., Any]:
        """The action to go on with at this step: the version on record, else this one. Raises DivergedError.

        Used once, its compensation is found with it, registered or not.
        """
        name = (action.contract.topic, action.contract.version)
        if self._actions.get(name) is action:
            state = self.book.saga.steps.get(step)
            if state is None or state.contract.version == name[1]:
                return action
        action = begun_with(self.book.saga, step, action, self.around.registry)
        if self.around.undeclared is not None:
            self._warn_if_undeclared(action.contract, self.around.undeclared)
        self._actions[action.contract.topic, action.contract.version] = action
        self.around.registry.ensure_action(action)
        return action

    def _warn_if_undeclared(self, contract: Contract, warned: set[str]) -> None:
        """Say once of an action that it passes only because nobody said where this runs."""
        undeclared = contract.side_effect and contract.reversibility is Reversibility.UNDECLARED
        if not undeclared or contract.topic in warned or self.begun.env != DEVELOPMENT:
            return
        warned.add(contract.topic)
        _log.warning(
            "%s declares no way back, and production would refuse it: give it a .compensation, no_rollback=… or "
            "read_only=True; this is %s, because no env is given (env=…, --env, AMENDS_ENV)",
            contract.topic,
            DEVELOPMENT,
        )

    def find(self, contract: Contract) -> Action[..., Any]:
        """The action as this run has used it, else as this process knows it.

        Raises UnknownActionError where it is not known, DivergedError where it promises something else by now.
        """
        used = self._actions.get((contract.topic, contract.version))
        return used or still_promised(contract, self.around.registry.action(contract.topic, contract.version))

    # -- what users' functions are given ------------------------------------------------------------------------------

    def args(self, state: Step, action: Action[..., Any] | None, most: int = LARGEST_VALUE) -> dict[str, Any]:
        """The arguments on record, as a fresh copy and as what they are declared to be: these run, whatever the caller
        has done with its own since. Raises DivergedError where they are not what the action takes by now.

        Raises TooLargeError where they take more than `most`: then they are copied off the loop.
        """
        known = self.secrets.get(state.id) or self.given
        named = cast("dict[str, Any]", unmask(state.args, self.book.saga.id, known, most=most))
        return action.typed.restore(named) if action is not None and action.typed.loads else named

    def key(self, state: Step) -> str:
        return key_of(self.book.saga.id, state.id, state.topic, "do")

    async def asked(self, state: Step, action: Action[..., Any]) -> Asked:
        """Raises DivergedError where what is on record is not what the action takes by now."""
        args = await small_or_off_loop(lambda most: self.args(state, action, most))
        return Asked(saga=self.book.saga.id, step=state.id, args=args, key=self.key(state))

    async def require_fitting(self, state: Step, action: Action[..., Any]) -> None:
        """Raises DivergedError where what is on record is not what the action takes, or gives, by now."""
        if action.typed.loads or action.typed.result.loads or action.typed_before.result.loads:
            await small_or_off_loop(lambda most: self.done(state, action, most))

    def done(self, state: Step, action: Action[..., Any] | None, most: int = LARGEST_VALUE) -> Done:
        """What a compensation is given; of an action that nobody knows here, as the journal has it.

        Raises DivergedError where what is on record is not what the action takes, or gives, by now, and TooLargeError
        where it takes more than `most`.
        """
        saga = self.book.saga.id
        known = self.secrets.get(state.id) or self.given
        result, before = (unmask(value, saga, known, most=most) for value in (state.result, state.before))
        if action is not None:
            result = None if result is None else action.typed.restore_result(result)
            before = None if before is None else action.typed_before.restore_result(before)
        return Done(
            saga=saga,
            step=state.id,
            args=self.args(state, action, most),
            result=result,
            before=before,
            certain=state.certain,
            key=key_of(saga, state.id, state.topic, "mitigate" if state.contract.mitigation else "undo", state.turn),
            action_key=self.key(state),
        )

    def call(
        self,
        state: Step,
        part: Part,
        function: Callable[..., object],
        *args: object,
        key: str,
        timeout_s: float | None,
    ) -> Call:
        return Call(
            saga=self.book.saga.id,
            step=state.id,
            topic=state.topic,
            part=part,
            function=lambda: function(*args),
            is_async=inspect.iscoroutinefunction(function),
            key=key,
            timeout_s=timeout_s,
            knows=self,
        )

    # -- secrets, in whatever anybody says ----------------------------------------------------------------------------

    def secrets_of(self, step: StepId) -> Iterator[Secret]:
        """All that a call of this step may quote: in whichever process, by what is on record of the step."""
        yield from self._secrets_given()
        state = self.book.saga.steps.get(step)
        if state is not None:
            yield from secrets_on_record(self.book.saga.id, state.args, state.result, state.before)

    def all_secrets(self) -> Iterator[Secret]:
        """All that the saga's function, or what lands in the end, may quote."""
        yield from self._secrets_given()
        for state in self.book.saga.steps.values():
            yield from secrets_on_record(self.book.saga.id, state.args, state.result, state.before)

    def _secrets_given(self) -> Iterator[Secret]:
        yield from self.given
        for known in tuple(self.secrets.values()):  # a call that ends in its thread asks from there
            yield from known
        begun = self.book.saga.begun
        if begun is not None:
            yield from secrets_on_record(self.book.saga.id, begun.input)

    def kept_words(self, text: str) -> str:
        """A reason that the saga's function gave, as the journal keeps it."""
        return kept_words(text, self.all_secrets())

    async def judge(self, facts: Facts) -> Verdict:
        """What the gate says, by the policy of now; a gate that cannot answer says no."""
        try:
            policies = self.around.policies
            if policies is not None and policies.is_stale:
                await policies.refresh()
            gate, drills = self.around.gate, self.around.drills
            asked = drills.asked_for(gate)
            if not asked:
                return gate.judge(facts)
            told = await drills.told(asked, facts.contract)
            return replace(gate.judge(with_told(facts, told)), told=told or None)
        except Exception as exc:  # noqa: BLE001 - whatever a gate raises, the action has not been allowed
            _log.exception("the gate could not judge step %s of saga %s", facts.step, facts.saga)
            why = self.kept_words(f"the gate could not answer: {exc!r}")
            return Verdict(decision=Decision.DENY, rule="error", policy="", why=why)

    async def void_outlived(self) -> bool:
        """Whether what people are asked about this saga was asked under a policy that judges no more: it is void then.

        The question is durable before the look: whoever adopts a policy later finds it asked.
        """
        policies = self.around.policies
        if policies is None:
            return False
        await self.book.commit()
        newest = await policies.newest()
        return newest is not None and bool(self.book.tell(c.VoidOutlived(policy=newest)))

    async def keep_rates(self, step: StepId, verdict: Verdict) -> int:
        """Count one more where every rate of a verdict lets it pass: then 0.

        Else nothing is counted; that the step waits, and for which rule, goes on record, and this says until when.
        """
        if not verdict.rates:
            return 0
        waits = await self.around.admit(*verdict.rates)
        wait_ms, rate = max(zip(waits, verdict.rates, strict=True), key=lambda one: one[0])
        if not wait_ms:
            return 0
        until = self.around.clock.now() + wait_ms
        self.book.tell(
            c.ThrottleStep(
                step=step, rule=rate.rule, policy=verdict.policy, most=rate.most, per_s=rate.per_s, until=until
            )
        )
        return until

    def facts(
        self, step: StepId, contract: Contract, args: Json, *, back: bool = False, approval_present: bool = False
    ) -> Facts:
        return facts_of(self.book.saga, step, contract, args, back=back, approval_present=approval_present)

    # -- threads that were given up -----------------------------------------------------------------------------------

    def note_thread(self, step: StepId, call: Call) -> None:
        """A call that ran out of time, or was cancelled, may still be running in its thread."""
        if call.running:
            self.around.threads[self.book.saga.id, step] = asyncio.Event()

    async def end_of_thread(self, step: StepId) -> bool:
        """Wait a while for a thread that was given up; whether it has ended."""
        running = self.around.threads.get((self.book.saga.id, step))
        if running is None:
            return True
        await self.book.commit()
        try:
            async with asyncio.timeout(self.around.settings.settle_s):
                await running.wait()
        except TimeoutError:
            return False
        return True

    def thread_ended(self, step: StepId) -> None:
        ended = self.around.threads.pop((self.book.saga.id, step), None)
        if ended is not None:
            ended.set()
        self.news.tell()

    def ended_late(self, step: StepId, attempt: int, outcome: Outcome) -> None:
        """An attempt that had been given up has ended after all; what it did, or may have done, is owed again."""
        if not isinstance(outcome, Failed):
            try:
                self._enrol(step, attempt, outcome)
            except AmendsError:
                self.around.late(self.book.saga.id, step, attempt, outcome)
        self.thread_ended(step)

    def _enrol(self, step: StepId, attempt: int, outcome: Succeeded | Lost) -> None:
        if self.over:
            self.around.late(self.book.saga.id, step, attempt, outcome)
            return
        now, window_s = self.around.clock.now(), self.around.settings.rollback_s
        self.book.tell(c.EnrolLate(step=step, attempt=attempt, outcome=outcome, now=now, window_s=window_s))
        self.book.commit_soon()

    def report_if_broken(self, step: StepId, outcome: Outcome) -> None:
        """An attempt has ended, and this pen cannot record it any more; another worker may drive its saga now."""
        if self.book.broken is not None and not isinstance(outcome, Failed):
            self.around.late(self.book.saga.id, step, self.state(step).attempts, outcome)

    # -- asking the world, and waiting --------------------------------------------------------------------------------

    async def probe(self, step: StepId) -> None:
        """Ask the world about a step whose outcome nobody knows."""
        book, clock = self.book, self.around.clock
        has_ended = await self.end_of_thread(step)
        await book.commit()
        state = self.state(step)
        if state.status is StepStatus.UNKNOWN:
            answer = await self._answer(state)
            if isinstance(answer, NoAnswer) and answer.look_again_s is not None:
                await self.look_again(step, answer.look_again_s)
                return
            if not has_ended and not isinstance(answer, Found):
                answer = NoAnswer("its attempt is still running in a thread, and may yet take effect")
            let_cancellation_go_on()
            if self.state(step).status is StepStatus.UNKNOWN:
                now, jitter = clock.now(), clock.jitter()
                book.tell(c.RecordAnswer(step=step, answer=answer, now=now, jitter=jitter, reports=state.reports))

    async def look_again(self, step: StepId, after_s: float) -> None:
        """Not yet: nothing goes on record, and what waits for nothing else does not wait in memory."""
        let_cancellation_go_on()
        await self.look_at(step, self.around.clock.now() + round(after_s * 1000))

    async def look_at(self, step: StepId, when: int) -> None:
        """Wait until then to look at a step again; where the saga waits for nothing else, not in memory."""
        self.looks[step] = when
        try:
            await self.wait_outside(self.looks[step])
        finally:
            self.looks.pop(step, None)  # a branch that was left alone may look at the same
        self.stop_if_draining()

    async def _answer(self, state: Step) -> Answer:
        try:
            action = self.find(state.contract)
            asked = await self.asked(state, action)
        except (UnknownActionError, DivergedError) as exc:
            return NoAnswer(str(exc))
        if action.ask is None:
            return NoAnswer(f"{state.topic} declares no probe in this process")
        call = self.call(state, "probe", action.ask, asked, key=asked.key, timeout_s=state.contract.timeout_s)
        call.store = action.typed.store_result
        return await self.around.executor.ask(call)

    @property
    def is_nudged(self) -> bool:
        """Whether there is news since it was put away."""
        return self.nudges != self._looked

    async def wait_outside(self, until: int, looked: int | None = None) -> None:
        """Until someone answers or signals, its turn comes, or the time is up. What waits for nothing else does not
        wait in memory. `looked`: how often it had been nudged when it last looked.
        """
        self._looked = self.nudges if looked is None else looked
        head, clock = self.book.saga.head, self.around.clock
        await self.wait(min(until, clock.now() + round(self.around.settings.park_s * 1000)))
        wake_at = wakes_at(self.book.saga, self.looks, self.left_alone)
        idle = self.book.saga.head == head and not self._is_busy and clock.now() < until
        if idle and wake_at is not None and await self.book.rest(wake_at) and not self._is_busy:
            self.parked = self.draining = True
            if self.on_parked():
                await asyncio.get_running_loop().create_future()  # until the function is stopped, which is now
            raise asyncio.CancelledError  # the work is done: what waits here is the drive itself

    @property
    def _is_busy(self) -> bool:
        """Whether something of it goes on by itself: in flight, or just nudged."""
        return bool(self.in_flight) or self.is_nudged

    async def wait(self, until: int) -> None:
        """Until then, or until something changes."""
        await self.book.commit()
        news = self.news.next()
        wait_s = max(0.0, (until - self.around.clock.now()) / 1000)
        sleep = asyncio.ensure_future(self.around.clock.sleep(wait_s))
        changed = asyncio.ensure_future(news.wait())
        try:
            await asyncio.wait({sleep, changed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleep.cancel()
            changed.cancel()


def let_cancellation_go_on() -> None:
    """The outcome of a cancelled call is told; now the task that was cancelled may end."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
