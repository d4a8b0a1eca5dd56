"""Open sagas: driven from outside, step by step. What they are made from, and what is done while nobody has one open.

Nothing is replayed: the body that stands where another saga has its function does no step itself. Taken up after a
crash, what was in flight is lost, and is settled before anything new begins: asked about, repeated where that is safe,
compensated as uncertain, or shown to a person. Then it waits until somebody goes on with it.

Who does not come back leaves a timer on record: a wait without a name, at a place of its own. When its time is up, a
person is told, or all is taken back, by whichever worker finds it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal, TypeAlias, cast, get_args

from amends.core import commands as c
from amends.core.decide.require import later
from amends.core.events import IncidentKind, SagaStarted
from amends.core.state.saga import Saga, Step, open_waits
from amends.core.state.waits import Wait
from amends.core.transitions import StepStatus
from amends.core.words.values import CALL, Json, StepId
from amends.dataclass import dataclass
from amends.errors import (
    Abort,
    DivergedError,
    RefusedError,
    SecretUnavailableError,
    StepError,
    UnknownActionError,
    UnknownDefinitionError,
)
from amends.runtime.declare.action import Action
from amends.runtime.declare.definition import SagaDefinition
from amends.runtime.declare.graph import Graph
from amends.runtime.declare.limits import Limits
from amends.runtime.declare.options import Options
from amends.runtime.declare.registry import Registry
from amends.runtime.drive.asking import wait
from amends.runtime.drive.forward import Forward
from amends.runtime.drive.judging import void_outlived
from amends.runtime.drive.positions import Spot
from amends.runtime.drive.run import Run
from amends.runtime.saga.rewind import Passed, Rewinds
from amends.runtime.saga.work import Work
from amends.runtime.values.signature import Signature
from amends.secrets import Secret, is_alike
from amends.text import span

OnIdle: TypeAlias = Literal["call", "rollback", "keep"]
ON_IDLE: Final[tuple[str, ...]] = get_args(OnIdle)
_TIMER: Final = "idle."
_NOT_BEGUN: Final = frozenset({StepStatus.PROPOSED, StepStatus.READY, StepStatus.AWAITING, StepStatus.QUEUED})
_OVER: Final = frozenset({StepStatus.COMPENSATED, StepStatus.SETTLED, StepStatus.DENIED, StepStatus.DROPPED})


@dataclass(frozen=True, slots=True)
class Idle:
    """How long an open saga may be without a step, and what happens then."""

    seconds: float
    then: OnIdle

    def as_json(self) -> Json:
        return {"idle_s": self.seconds, "on_idle": self.then}

    @property
    def words(self) -> str:
        return f"nobody has taken a step for {span(round(self.seconds * 1000))}"


UNTIL_OPENED: Final = Idle(3600.0, "keep")


def idle_of(begun: SagaStarted) -> Idle:
    """As it was opened."""
    said = cast("dict[str, Any]", begun.session or {})
    return Idle(float(said.get("idle_s", 0.0)), said.get("on_idle", "keep"))


@dataclass(frozen=True, slots=True)
class Drive:
    """One drive of an open saga, as its body finds it."""

    run: Run
    forward: Forward
    rewinds: Rewinds
    work: Work


class _Input(Signature):
    """The input of an open saga is for the record: its body takes nothing of it."""

    def call(self, function: Callable[..., Any], named: Mapping[str, Any], *first: object) -> Any:  # noqa: ANN401 - the body's
        return function(*first)


class OpenDefinition(SagaDefinition[..., Any]):
    """The definition of an open saga: its name. `body` stands where others have a function; nothing is registered."""

    def __init__(
        self, name: str, body: Callable[[Drive], Awaitable[Any]], version: int = 0, options: Options | None = None
    ) -> None:
        self.options = options or Options()
        self.name, self.version, self.module = name, version, ""
        self.rehearsal = None
        self.steps, self.checks, self.resources = (), (), ()
        self._graph, self._is_list = Graph({}, {}, is_list=True), False
        self._body = body
        self.drive: Drive | None = None
        """The one under way, which whoever drives it has to set."""
        self.function = self._function
        self.signature = _Input(self._function, skip=1)

    def check(self, named: Mapping[str, Any]) -> None:
        """Nothing: its input is for the record, and whoever has its function has looked at it."""

    async def _function(self, s: Work) -> Any:  # noqa: ANN401 - the caller's own result; it acts through the drive
        if self.drive is None:
            raise AssertionError("an open saga is driven without its drive")
        return await self._body(self.drive)


def unattended(saga: Saga) -> OpenDefinition:
    """The definition by which a saga is driven that nobody has open."""
    begun = cast("SagaStarted", saga.begun)
    return OpenDefinition(begun.definition, _tended(idle_of(begun)))


def open_child(name: str, version: int, limits: Limits | None) -> OpenDefinition:
    """The definition of a child whose function is elsewhere: it begins as an open saga, and waits for who has it."""
    return OpenDefinition(name, _tended(UNTIL_OPENED), version, Options(limits=limits))


def _tended(idle: Idle) -> Callable[[Drive], Awaitable[None]]:
    async def tend(drive: Drive) -> None:
        await settle(drive)
        await rest(drive, idle)

    return tend


def unknown_actions(saga: Saga, registry: Registry) -> tuple[str, ...]:
    """The topics of steps that this process could neither settle nor take back, because it does not know them."""
    unknown: dict[str, None] = {}
    for step in saga.steps.values():
        if step.status not in _OVER and step.topic != CALL and step.contract.may_be_called:
            try:
                registry.action(step.contract.topic, step.contract.version)
            except (UnknownActionError, UnknownDefinitionError):
                unknown[step.topic] = None
    return tuple(unknown)


# -- what was lost ----------------------------------------------------------------------------------------------------


async def settle(drive: Drive) -> None:
    """Bring to an end what a process has left behind: nobody else will. What has a call waits for who asks again."""
    book = drive.run.book
    leave_waits(drive.run)
    await _expire(drive.run)
    for place, rewind in tuple(book.saga.rewinds.items()):
        if not rewind.ended and not rewind.from_outside:  # its process ended in the middle of taking back
            await drive.rewinds.take_back(place)
    for step in tuple(book.saga.steps):
        state = book.saga.steps[step]
        if state.rewind is not None or state.told is not None:
            continue
        if state.status is StepStatus.UNKNOWN and not (state.call and state.topic == CALL):  # its child may wait, too
            await _bring_to_its_end(drive, state)
        elif state.status in _NOT_BEGUN and not state.call and state.wanted and not state.contract.hold:
            await drive.rewinds.settle(step, "whoever asked for it is gone, and it had not begun")
    await book.commit()


async def _bring_to_its_end(drive: Drive, state: Step) -> None:
    """Ask about a lost step, or repeat it where that is safe; else it is taken back, or a person is called."""
    run, forward = drive.run, drive.forward
    try:
        action = run.find(state.contract)
        await forward.step(action, state.args, state.digest, (), Spot(state.id))
    except (StepError, UnknownActionError, DivergedError, SecretUnavailableError) as exc:
        forward.diverged = None
        if run.state(state.id).standing:
            await drive.rewinds.settle(state.id, str(exc))


def know_checkpoints(drive: Drive) -> None:
    """Know the checkpoints again that were made before, as far as they were not taken back."""
    saga = drive.run.book.saga
    gone = [
        (int(rewind.begun.to), int(rewind.begun.place))
        for rewind in saga.rewinds.values()
        if rewind.begun.to is not None and rewind.begun.place is not None and not rewind.from_outside
    ]
    for one in sorted(saga.checkpoints.values(), key=lambda one: one.entry):
        made = int(one.place)
        if not any(start < made < end for start, end in gone):
            drive.rewinds.know(Passed(one, "", made))


# -- while nobody is there --------------------------------------------------------------------------------------------


def _is_timer(wait: Wait) -> bool:
    return wait.place.startswith(_TIMER)


def timer_of(saga: Saga) -> Wait | None:
    """The open timer of a saga that nobody has open."""
    return next((wait for wait in open_waits(saga) if _is_timer(wait)), None)


def waits_for_people(saga: Saga) -> bool:
    return any(saga.steps[step].status is StepStatus.AWAITING for step in saga.asked)


def is_told_of(saga: Saga) -> bool:
    """Whether a person has been told that it stands idle, and nobody has gone on since."""
    return any(one.kind is IncidentKind.IDLE for one in saga.open_incidents)


def leave_waits(run: Run) -> None:
    """End the waits of who is gone: nobody asks for the same wait again."""
    stale = tuple(wait.place for wait in open_waits(run.book.saga) if not _is_timer(wait))
    if stale:
        run.book.tell(c.LeaveWaits(stale))


def stop_timer(run: Run) -> None:
    timer = timer_of(run.book.saga)
    if timer is not None:
        run.book.tell(c.LeaveWaits((timer.place,)))


def tell_idle(run: Run, idle: Idle) -> None:
    """The time is up. Raises Abort where all of it is to be taken back then."""
    if idle.then == "rollback":
        raise Abort(idle.words)
    run.book.tell(c.ReportIdle(idle.words))


async def _expire(run: Run) -> bool:
    """Whether something that people were asked has come to its end, as nobody has answered in time."""
    now, saga = run.around.clock.now(), run.book.saga
    late = [step for step in sorted(saga.asked) if (at := saga.steps[step].wake_at) is not None and at <= now]
    if not late or await void_outlived(run):
        return False
    for step in late:
        run.book.tell(c.ExpireApproval(step=step))
    return True


async def rest(drive: Drive, idle: Idle) -> None:
    """Leave only its row, until somebody takes it up, or it has stood idle for too long. It does not return."""
    run, book, clock = drive.run, drive.run.book, drive.run.around.clock
    leave_waits(run)
    while True:
        timer = timer_of(book.saga)
        if waits_for_people(book.saga):
            stop_timer(run)
            if await _expire(run):
                continue
            asked = (book.saga.steps[step].wake_at for step in book.saga.asked)
            wake_at = min((at for at in asked if at is not None), default=later(clock.now(), float("inf")))
        elif timer is None:
            is_kept = idle.then == "keep" or is_told_of(book.saga)
            wake_at = later(clock.now(), float("inf") if is_kept else idle.seconds)
            number = 1 if book.saga.waits is None else len(book.saga.waits.places) + 1
            book.tell(c.StartWait(place=StepId(f"{_TIMER}{number}"), name="", until=wake_at))
        elif clock.now() >= timer.until:
            stop_timer(run)
            tell_idle(run, idle)
            continue
        else:
            wake_at = timer.until
        nudges = run.nudges
        if await book.rest(wake_at) and run.nudges == nudges:
            run.looked = run.nudges
            run.parked = run.draining = True
            if run.on_parked():
                await asyncio.get_running_loop().create_future()  # until the body is stopped, which is now
            raise asyncio.CancelledError
        await wait(run, min(wake_at, later(clock.now(), run.around.settings.poll_s)))  # somebody wrote, or nobody can


def require_same(
    saga: Saga,
    step: Step,
    call: str,
    action: Action[..., Any],
    args: Json,
    digest: str,
    secrets: tuple[Secret, ...],
) -> None:
    """Raises RefusedError where a call is asked for again as something else, or was taken back."""
    if step.topic != action.topic:
        raise RefusedError(f"call {call!r} is step {step.id}, {step.topic}, and not {action.topic}: use another id")
    if step.digest != digest and not is_alike(args, step.args, secrets, saga.id):
        raise RefusedError(
            f"call {call!r} is step {step.id} ({step.topic}) with other arguments; use another id for another step"
        )
    if step.rewind is not None and step.told is not None and step.told.status is StepStatus.SUCCEEDED:
        raise RefusedError(
            f"call {call!r} is step {step.id} ({step.topic}), which was taken back; use another id to do it again"
        )


@dataclass(slots=True)
class Leaving:
    """How a block was left; each a way to end the body."""

    how: str
    result: object = None
    error: BaseException | None = None


def is_pause(error: BaseException, pauses: tuple[type[BaseException], ...]) -> bool:
    """Whether a block that is left by this error leaves its saga open, for whoever takes it up again."""
    if isinstance(error, BaseExceptionGroup):
        return all(is_pause(one, pauses) for one in cast("BaseExceptionGroup[BaseException]", error).exceptions)
    return isinstance(error, pauses) or not isinstance(error, Exception)
