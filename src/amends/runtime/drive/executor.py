"""One attempt, one honest outcome. Nothing here raises, and nothing here decides what happens next.

| the call…                                   | what can be said                                   |
|---------------------------------------------|----------------------------------------------------|
| returns                                     | succeeded (even if the result itself cannot be kept) |
| raises NotDone or Retry                     | failed: it certifies that nothing happened         |
| raises Fatal(happened=False)                | failed, and not to be tried again                  |
| raises Fatal                                | lost, and not to be tried again                    |
| raises anything, and is atomic or read-only | failed                                             |
| raises anything else                        | lost                                               |
| is cancelled, or runs out of time           | lost; a thread goes on, and may report late        |

A call that is made elsewhere ends as whoever made it says: with what they return, or by `Reported`.

Of what is read-only nothing is lost: the core has it failed. A mistake of a program (`exceptions.BUGS`) says as much of
the world as any exception, but is not to be tried again, unless its author said how often.

A plain function runs in a daemon thread of its own: a call that hangs can neither starve others of a pool's threads
nor keep the process from ending.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal, NamedTuple, Protocol, cast

from amends.core.words.contracts import Topic
from amends.core.words.outcomes import Answer, Failed, Found, FoundNothing, Lost, NoAnswer, Outcome, Succeeded
from amends.core.words.values import LARGEST_INT, LARGEST_VALUE, SagaId, StepId, kind_of, name_of
from amends.dataclass import dataclass
from amends.errors import ChangedSince, Fatal, InputError, NotDone, Reported, Retry, TooLargeError
from amends.process.threads import start
from amends.runtime.declare.action import Happened, NotHappened, Pending, current_call, current_feedback
from amends.runtime.drive.deadlines import Deadlines
from amends.runtime.drive.exceptions import Tracebacks, is_bug, place_of
from amends.runtime.values.bounded import ON_LOOP, off_loop, small_or_off_loop, stored
from amends.secrets import Secret, is_certified, kept_words, told

LateReport = Callable[[Outcome], None]
Read = Callable[["Call", object], object]
"""What looks at what a call returned."""
Part = Literal["action", "compensation", "mitigation", "probe", "before", "reread", "validate"]
"""Which of an action's functions is called."""
_SHORT: Final = 512
_PARTS: Final = {"before": "before-image", "validate": "validation"}


class Knows(Protocol):
    """The knowledge of which secrets a call may quote: asked only when one has ended badly."""

    def secrets_of(self, step: StepId) -> Iterable[Secret]: ...


@dataclass(slots=True)
class Call:
    """Something to call once. `late` hears of a thread that ended after it had been given up."""

    saga: SagaId
    step: StepId
    topic: Topic
    part: Part
    function: Callable[[], Any]
    is_async: bool
    key: str
    timeout_s: float | None
    certain_failure: bool = False
    repeats_bugs: bool = False
    """Whether somebody said how often it is tried: then a mistake in its code is tried as often as anything else."""
    knows: Knows | None = None
    feedback: tuple[str, ...] = ()
    late: LateReport | None = None
    store: Callable[[Any, int], object] | None = None
    """What makes JSON of what is returned, where that is declared to be more. Raises InputError."""
    task: asyncio.Task[Any] | None = None
    """The task that makes the call, where it is known already."""
    running: bool = False
    """Whether a thread of this call has begun and not ended, even if nobody waits for it any more."""

    @property
    def named(self) -> str:
        """The call in words, for a log."""
        whose = "" if self.part == "action" else f"the {_PARTS.get(self.part, self.part)} of "
        return f"saga {self.saga}: {whose}step {self.step} ({self.topic})"

    @property
    def secrets(self) -> Iterable[Secret]:
        return () if self.knows is None else self.knows.secrets_of(self.step)


class Executor:
    """Makes calls. Knows neither sagas nor journals."""

    def __init__(self, threads: int) -> None:
        self._threads = asyncio.Semaphore(threads)
        self._deadlines = Deadlines()
        self.tracebacks = Tracebacks()

    async def perform(self, call: Call) -> Outcome:
        """Call it once and say what can honestly be said of the world.

        A cancelled caller gets its outcome too: it has to record it before it lets the cancellation go on.
        """
        try:
            value = await self._returned(call, _succeeded)
        except KeyboardInterrupt:
            raise
        except Reported as exc:
            return cast("Outcome", exc.outcome)
        except BaseException as exc:  # noqa: BLE001 - an attempt's end is data, whatever ended it
            return self._ended_badly(call, exc)
        if type(value) is _Read:
            return cast("Outcome", value.ended)
        try:  # as `small_or_off_loop` does, without a coroutine more for every attempt
            return _succeeded(call, value, ON_LOOP)
        except TooLargeError:
            return await off_loop(lambda: _succeeded(call, value), to_its_end=True)

    async def ask(self, call: Call) -> Answer:
        """Put a probe's question. An error is no answer."""
        try:
            value = await self._returned(call, _answered)
        except KeyboardInterrupt:
            raise
        except Reported as exc:
            outcome = cast("Outcome", exc.outcome)
            if isinstance(outcome, Succeeded):
                return Found(outcome.result, opaque=outcome.opaque)
            return NoAnswer(outcome.error, where=outcome.where)
        except BaseException as exc:  # noqa: BLE001 - a probe that fails in any way has not answered
            return self._unanswered(call, exc)
        if type(value) is _Read:
            return cast("Answer", value.ended)
        return await small_or_off_loop(lambda most: _answered(call, value, most), to_its_end=True)

    async def _returned(self, call: Call, read: Read) -> object:
        """The value it returned or, of a thread that has looked at it already, what that says."""
        token = current_call.set(call)
        told = current_feedback.set(call.feedback) if call.feedback else None
        try:
            if call.timeout_s is None:
                return await (call.function() if call.is_async else self._in_a_thread(call, read))
            deadline = self._deadlines.begin(call.timeout_s, call.task or _own_task())
            was_cancelled = False
            try:
                return await (call.function() if call.is_async else self._in_a_thread(call, read))
            except asyncio.CancelledError:
                was_cancelled = True
                raise
            finally:
                self._deadlines.end(call.timeout_s, deadline)
                if deadline.is_over and deadline.take_back() and was_cancelled:
                    raise TimeoutError
        finally:
            current_call.reset(token)
            if told is not None:
                current_feedback.reset(told)

    async def _in_a_thread(self, call: Call, read: Read) -> object:
        async with self._threads:
            ended = await self._in_thread(call, read)
        error = ended.error
        if error is None:
            return await ended.ended if ended.is_awaitable else ended
        if isinstance(error, Exception):
            raise error
        raise RuntimeError(f"{name_of(type(error))}: {error}") from error

    def _ended_badly(self, call: Call, exc: BaseException) -> Failed | Lost:
        """The outcome that an exception stands for, with its traceback in the log."""
        outcome = _ended_badly(call, exc)
        if not (isinstance(outcome, Lost) and outcome.timed_out):
            self.tracebacks.tell(exc, call.named, outcome.error, outcome.where, call.secrets)
        return outcome

    def _unanswered(self, call: Call, exc: BaseException) -> Answer:
        answer = NoAnswer(_said(exc, call.secrets), where=place(exc, call.secrets))
        if not (call.timeout_s is not None and type(exc) is TimeoutError and not exc.args):
            self.tracebacks.tell(exc, call.named, answer.error, answer.where, call.secrets)
        return answer

    def _in_thread(self, call: Call, read: Read) -> asyncio.Future[_Read]:
        """Run a plain function in a daemon thread, and look at what it returns there: a large value keeps nobody
        waiting.

        If the waiting is given up, its end is reported late.
        """
        future: asyncio.Future[_Read] = asyncio.get_running_loop().create_future()

        def settle(found: _Read | None, error: BaseException | None) -> None:
            ended = _Read(None, error=error) if found is None else found
            call.running = False
            if not future.done():
                future.set_result(ended)
            elif call.late is not None and ended.error is not None:
                call.late(self._ended_badly(call, ended.error))
            elif call.late is not None:
                call.late(_succeeded(call, ended.ended) if ended.is_awaitable else ended.ended)

        def run() -> _Read:
            value = call.function()
            return _Read(value, is_awaitable=True) if _is_awaitable(value) else _Read(read(call, value))

        call.running = True
        start(call.saga, run, settle)
        return future


class _Read(NamedTuple):
    """How a call in a thread ended, looked at there; or what it returned, where that has to be awaited first."""

    ended: Any
    is_awaitable: bool = False
    error: BaseException | None = None


def _is_awaitable(value: object) -> bool:
    try:
        return inspect.isawaitable(value)
    except BaseException:  # noqa: BLE001 - a class that lies about itself, in whatever way
        return False


def _own_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("a call is made in a task")
    return task


def _succeeded(call: Call, value: Any, most: int = LARGEST_VALUE) -> Outcome:  # noqa: ANN401 - told by its type; a `cast` would be a call more
    """The call returned; whatever is wrong with what it returned, the effect has happened.

    Raises TooLargeError where there is more to look at than `most`, and that is less than may be kept.
    """
    kind = kind_of(value)
    if call.store is None and (  # as most results are: nobody can change it, and it is spelled as it stands
        value is None
        or kind is bool
        or (kind is str and len(value) <= _SHORT and value.isascii())
        or (kind is int and -LARGEST_INT <= value <= LARGEST_INT)
    ):
        return Succeeded(value)
    try:
        made = value if call.store is None else call.store(value, most)
        return Succeeded(stored(made, call.saga, "the result", most)[0])
    except TooLargeError as exc:
        if most < LARGEST_VALUE:
            raise
        return Succeeded(None, opaque=str(exc))
    except BaseException as exc:  # noqa: BLE001 - however it defends itself, and whatever runs out meanwhile
        return Succeeded(None, opaque=_unreadable(exc))


def _answered(call: Call, value: object, most: int = LARGEST_VALUE) -> Answer:
    """The answer of a probe. Raises TooLargeError as above."""
    try:
        if isinstance(value, Happened):
            return _found(call, value, most)
        if isinstance(value, Pending):
            return NoAnswer("not yet", look_again_s=value.after_s)
        if isinstance(value, NotHappened):
            return FoundNothing()
    except TooLargeError:
        raise
    except BaseException as exc:  # noqa: BLE001 - a class that lies about itself has not answered
        return NoAnswer(_unreadable(exc))
    return NoAnswer(f"the probe returned {name_of(type(value))}, neither Happened nor NotHappened")


def _found(call: Call, answer: Happened, most: int) -> Answer:
    """It happened; whether what came of it can be kept is another question."""
    try:
        result = answer.result if call.store is None else call.store(answer.result, most)
        return Found(stored(result, call.saga, "the probe's result", most)[0])
    except TooLargeError as exc:
        if most < LARGEST_VALUE:
            raise
        return Found(None, opaque=str(exc))
    except BaseException as exc:  # noqa: BLE001 - as above
        return Found(None, opaque=_unreadable(exc))


def _unreadable(exc: BaseException) -> str:
    if isinstance(exc, InputError):
        return str(exc)
    return f"what it returned cannot be read: {name_of(type(exc))}"


def _ended_badly(call: Call, exc: BaseException) -> Failed | Lost:
    """The outcome that an exception means. One that cannot even be read says nothing more than that there was one."""
    try:
        return _outcome_of(call, exc)
    except BaseException as flaw:  # noqa: BLE001 - of whatever kind
        error = f"{name_of(type(exc))}, which cannot be read: {name_of(type(flaw))}"
        is_failure = call.certain_failure and issubclass(type(exc), Exception)
        return Failed(error=error) if is_failure else Lost(error=error)


def _outcome_of(call: Call, exc: BaseException) -> Failed | Lost:
    error = _said(exc, call.secrets)
    match exc:
        case Retry(after=after):
            return Failed(error=error, after_s=max(0.0, after))
        case NotDone():
            return Failed(error=error)
        case ChangedSince():
            return Failed(error=error, changed_since=True)
        case Fatal(happened=False):
            return Failed(error=error, fatal=True)
        case Fatal():
            return Lost(error=error, fatal=True)
        case TimeoutError() if call.timeout_s is not None and not str(exc):
            return Lost(error=f"no answer in {call.timeout_s:g} s", timed_out=True)
        case asyncio.CancelledError():
            return Lost(error="it was cancelled while it ran")
        case _:
            return _unexpected(call, exc, error)


def _unexpected(call: Call, exc: BaseException, error: str) -> Failed | Lost:
    """An exception that was not raised to say something of the world. A mistake in the code is not made twice."""
    where, final = place(exc, call.secrets), is_bug(exc) and not call.repeats_bugs
    if isinstance(exc, Exception) and call.certain_failure:
        return Failed(error=error, where=where, final=final)
    return Lost(error=error, where=where, final=final)


def place(exc: BaseException, known: Iterable[Secret]) -> str:
    """The line that raised it. An author's own words about the world stay as they were written, and have none."""
    try:
        return "" if is_certified(exc) else kept_words(place_of(exc), known)
    except BaseException:  # noqa: BLE001 - as above: it is somebody else's class
        return ""


def _said(exc: BaseException, known: Iterable[Secret]) -> str:
    try:
        return told(exc, known)
    except BaseException as flaw:  # noqa: BLE001 - an exception that cannot be printed, in whatever way
        return f"{name_of(type(exc))}, which cannot be read: {name_of(type(flaw))}"
