"""Run: one drive of one saga, as far as its parts share it: the pen, the attempts in flight, the actions, the secrets.

Shared by the way forward and the way back; decides nothing. Beside it: `judging` asks the gate, `asking` asks the world
and waits, `late` is about threads that were given up.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterable, Iterator
from types import FunctionType
from typing import Any, Final, Protocol

from amends.core import commands as c
from amends.core.events import SagaStarted
from amends.core.state.saga import Step
from amends.core.transitions import SagaStatus
from amends.core.words.contracts import Contract, Reversibility, key_of
from amends.core.words.outcomes import Outcome
from amends.core.words.values import LARGEST_VALUE, StepId
from amends.dataclass import dataclass
from amends.errors import JournalDamagedError
from amends.gate.environments import DEVELOPMENT
from amends.logs import logger
from amends.runtime.declare.action import Action, Asked, Done
from amends.runtime.drive.compatibility import begun_with, still_promised
from amends.runtime.drive.executor import Call, Part
from amends.runtime.drive.logbook import Logbook
from amends.runtime.drive.worker_context import WorkerContext
from amends.runtime.values.bounded import small_or_off_loop
from amends.secrets import Secret, kept_words, secrets_on_record, unmask


class StepsOnFiles(Protocol):
    """The saga's files, as far as its steps need them: each that works on any has a layer of its own."""

    turn: asyncio.Lock

    def attempt(self, state: Step, action: Action[..., Any], args: dict[str, Any], /) -> AttemptOnFiles: ...

    def compensation(self, state: Step, declared: Callable[..., object] | None, /) -> Callable[..., object] | None: ...

    def went_back(self, steps: Iterable[StepId], /) -> None: ...

    async def close(self) -> None: ...


class AttemptOnFiles(Protocol):
    """A call in the place of an action that works on files."""

    def __call__(self) -> Coroutine[Any, Any, object]: ...

    def ended(self, outcome: Outcome, /) -> Outcome: ...


@dataclass(slots=True, eq=False)
class LazyEvent:
    """An event that is made when somebody first waits: most runs never do, and each would take 800 bytes."""

    _event: asyncio.Event | None = None

    def tell(self) -> None:
        """Have whoever waits look again."""
        if self._event is not None:
            self._event.set()

    def next(self) -> asyncio.Event:
        """Set by the first `tell` after this call."""
        if self._event is None:
            self._event = asyncio.Event()
        self._event.clear()
        return self._event


_log = logger("amends.gate")
_RUNNING: Final = SagaStatus.RUNNING
_NONE: Final = frozenset[StepId]()  # one for all runs: an empty set takes 200 bytes


@dataclass(slots=True, eq=False)
class Flight:
    """An attempt between its intent and its outcome: a rollback waits for it, and a closing coordinator too.

    Who makes one puts it into `flights`, and ends it.
    """

    _flights: dict[StepId, Flight]
    _step: StepId
    task: asyncio.Task[Any] | None
    _is_over: bool = False
    _ended: asyncio.Future[None] | None = None

    @property
    def ended(self) -> asyncio.Future[None]:
        """Done when it is over; made when somebody first waits for that."""
        if self._ended is None:
            self._ended = asyncio.get_running_loop().create_future()
            if self._is_over:
                self._ended.set_result(None)
        return self._ended

    def end(self) -> None:
        """It is over, however: nobody has to wait for it any more."""
        if self._flights.get(self._step) is self:  # else its compensation has begun: this one had nothing to dispatch
            del self._flights[self._step]
        self._is_over = True
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)


class Run:
    def __init__(self, around: WorkerContext, book: Logbook, open_layers: Callable[[Run], StepsOnFiles]) -> None:
        self.around = around
        self.book = book
        self.in_flight: dict[StepId, Flight] = {}
        self.secrets: dict[StepId, tuple[Secret, ...]] = {}
        self.given: tuple[Secret, ...] = ()
        """Those of the saga's input, where this process has their values."""
        self.news = LazyEvent()
        self.draining = False
        self.parked = False
        """It waits for others or for the time, and was put away: only its row is left."""
        self.nudges = 0
        """How often somebody wrote to it from elsewhere, or its turn came."""
        self.looked = 0
        """How often it had been nudged when it last looked."""
        self.looks: dict[StepId, int] = {}
        """When those steps are looked at again that wait for what is not in this saga's journal: a child's end."""
        self.left_alone: set[StepId] = set()
        """The steps that the function has turned away from before their end: nobody brings them forward here."""
        self.on_parked: Callable[[], object] = self.news.tell
        """Stops the function, and says whether it was still running."""
        self.on_stopped: Callable[[], None] = self.news.tell
        """The function may not act any more, and does not know it yet."""
        self.attended = False
        """Somebody has this open saga open: it waits in memory, with them."""
        self.over = False
        self.counted: frozenset[StepId] = _NONE
        """The steps that those above have counted already, and that are not on record here yet."""
        self._actions: dict[tuple[str, int], Action[..., Any]] = {}
        self._open_layers = open_layers
        self._layers: StepsOnFiles | None = None

    @property
    def layers(self) -> StepsOnFiles:
        """The saga's files, if it works on any."""
        if self._layers is None:
            self._layers = self._open_layers(self)
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

    def was_tried(self, step: Step) -> bool:
        """Whether there may be earlier attempts to tell of: of the step, of its part of the work, or of the saga."""
        saga = self.book.saga
        return bool(step.reasons or saga.rewinds or (saga.begun is not None and saga.begun.because))

    @property
    def flights(self) -> tuple[asyncio.Future[None], ...]:
        return tuple(flight.ended for flight in self.in_flight.values())

    async def commit_to_dispatch(self) -> None:
        """The intent is durable, and nothing says that the lease under which it was written has ended since."""
        around, book = self.around, self.book
        lapses, last = around.lapses, book.newest
        while book.durable < last and (written := book.written(last)) is not None:
            await written
        if book.broken is not None:
            raise book.broken
        in_time = around.clock.elapsed() < around.alive_until  # asked first: who renews late says so before that
        if not in_time or around.lapses != lapses:
            await self.book.still_held()

    def may_be_held(self, elapsed: float) -> bool:
        """Whether to look before a dispatch: something is paused, or nobody has looked for pauses for a while.

        `elapsed`: the time now, by the clock that no one sets.
        """
        pauses = self.around.pauses
        return bool(pauses.active) or self.book.saga.phase is not _RUNNING or elapsed >= pauses.stale_at

    async def hold_back(self, topic: str, *, back: bool = False) -> bool:
        """Whether dispatch of this topic is paused for this saga; the saga is then paused too, and that is on record.

        It may have been unpaused since, and who did that may not have seen this saga: then it goes on at once.
        """
        pauses, book = self.around.pauses, self.book
        pause = await pauses.over(book.saga, topic, back=back) if pauses.may_hold else None
        if pause is None:
            return False
        stood_still = book.saga.phase is SagaStatus.PAUSED
        book.tell(c.PauseSaga(by=pause.by, why=pause.why, rollbacks=pause.rollbacks, pause=pause.number))
        await book.commit()
        await pauses.refresh()
        if book.saga.phase is SagaStatus.PAUSED and pause.number not in pauses.active:
            book.tell(c.UnpauseSaga(by=pause.by, follows=True))
        if book.saga.phase is not SagaStatus.PAUSED:
            return False
        if not stood_still:  # else two branches that are held back would wake each other, and never sleep
            book.on_moved()
        return True

    def stop_if_draining(self) -> None:
        if self.draining:
            raise asyncio.CancelledError

    # -- the action behind a step -------------------------------------------------------------------------------------

    def is_as_begun(self, action: Action[..., Any]) -> bool:
        """Whether this very action has been used here already: a new step goes on with it."""
        contract = action.contract
        return self._actions.get((contract.topic, contract.version)) is action

    def as_begun(self, step: StepId, action: Action[..., Any]) -> Action[..., Any]:
        """The action to go on with at this step: the version on record, else this one. Raises DivergedError.

        Used once, its compensation is found with it, registered or not.
        """
        if self.is_as_begun(action):
            steps = self.book.saga.steps
            if step not in steps or steps[step].contract.version == action.contract.version:
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
        return used or still_promised(contract, self.around.registry.action_of(contract))

    # -- what users' functions are given ------------------------------------------------------------------------------

    def args(self, state: Step, action: Action[..., Any] | None, most: int = LARGEST_VALUE) -> dict[str, Any]:
        """The arguments on record, as a fresh copy and as what they are declared to be: these run, whatever the caller
        has done with its own since. Raises DivergedError where they are not what the action takes by now.

        Raises TooLargeError where they take more than `most`: then they are copied off the loop.
        """
        known = self.secrets.get(state.id) or self.given
        named: Any = unmask(state.args, self.book.saga.id, known, most=most)
        return action.parts.typed.restore(named) if action is not None and action.parts.typed.loads else named

    def key(self, state: Step) -> str:
        return state.key or key_of(self.book.saga.id, state.id, state.topic, "do")

    async def asked(self, state: Step, action: Action[..., Any]) -> Asked:
        """Raises DivergedError where what is on record is not what the action takes by now."""
        args = await small_or_off_loop(lambda most: self.args(state, action, most))
        return Asked(saga=self.book.saga.id, step=state.id, args=args, key=self.key(state))

    async def require_fitting(self, state: Step, action: Action[..., Any]) -> None:
        """Raises DivergedError where what is on record is not what the action takes, or gives, by now."""
        if action.parts.typed.loads or action.parts.typed.result.loads or action.parts.typed_before.result.loads:
            await small_or_off_loop(lambda most: self.done(state, action, most))

    def done(self, state: Step, action: Action[..., Any] | None, most: int = LARGEST_VALUE) -> Done:
        """The `Done` that a compensation is given; of an action that nobody knows here, as the journal has it.

        Raises DivergedError where what is on record is not what the action takes, or gives, by now, and TooLargeError
        where it takes more than `most`.
        """
        saga = self.book.saga.id
        known = self.secrets.get(state.id) or self.given
        result, before = unmask(state.result, saga, known, most=most), unmask(state.before, saga, known, most=most)
        if action is not None:
            result = None if result is None else action.parts.typed.restore_result(result)
            before = None if before is None else action.parts.typed_before.restore_result(before)
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
            is_async=_gives_coroutine(function),
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

    @property
    def is_nudged(self) -> bool:
        """Whether there is news since it was put away."""
        return self.nudges != self.looked

    @property
    def is_busy(self) -> bool:
        """Whether something of it goes on by itself: in flight, or just nudged."""
        return bool(self.in_flight) or self.is_nudged


def let_cancellation_go_on() -> None:
    """The outcome of a cancelled call is told; now the task that was cancelled may end."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _gives_coroutine(function: Callable[..., object]) -> bool:
    """Whether calling it gives a coroutine; told by its code, which the usual way looks for in five calls."""
    code = function.__code__ if type(function) is FunctionType else None
    return (code is not None and bool(code.co_flags & inspect.CO_COROUTINE)) or inspect.iscoroutinefunction(function)
