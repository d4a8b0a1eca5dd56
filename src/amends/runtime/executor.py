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

A plain function runs in a daemon thread of its own: a call that hangs can neither starve others of a pool's threads
nor keep the process from ending.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, cast

from amends.core.contracts import Topic
from amends.core.outcomes import Answer, Failed, Found, FoundNothing, Lost, NoAnswer, Outcome, Succeeded
from amends.core.values import Json, SagaId, StepId, canonical
from amends.errors import ChangedSince, Fatal, InputError, NotDone, Retry
from amends.runtime.action import Happened, NotHappened, Pending, current_call, current_feedback
from amends.runtime.secret import Secret, mask, scrub

LONGEST_ERROR: Final = 4096
LateReport = Callable[[Outcome], None]
Part = Literal["action", "compensation", "mitigation", "probe", "before", "reread", "validate"]
"""Which of an action's functions is called."""


class Knows(Protocol):
    """Who knows which secrets a call may quote: asked only when one has ended badly."""

    def secrets_of(self, step: StepId) -> Iterable[Secret]: ...


@dataclass(slots=True, kw_only=True)
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
    knows: Knows | None = None
    feedback: tuple[str, ...] = ()
    late: LateReport | None = None
    running: bool = field(default=False, init=False)
    """Whether a thread of this call has begun and not ended, even if nobody waits for it any more."""

    @property
    def secrets(self) -> Iterable[Secret]:
        return () if self.knows is None else self.knows.secrets_of(self.step)


class Executor:
    """Makes calls. Knows neither sagas nor journals."""

    def __init__(self, threads: int) -> None:
        self._threads = asyncio.Semaphore(threads)

    async def perform(self, call: Call) -> Outcome:
        """Call it once and say what can honestly be said of the world.

        A cancelled caller gets its outcome too: it has to record it before it lets the cancellation go on.
        """
        try:
            return _succeeded(call, await self._returned(call))
        except KeyboardInterrupt:
            raise
        except BaseException as exc:  # noqa: BLE001 - an attempt's end is data, whatever ended it
            return _ended_badly(call, exc)

    async def ask(self, call: Call) -> Answer:
        """Put a probe's question. An error is no answer."""
        try:
            answer = await self._returned(call)
            if isinstance(answer, Happened):
                canonical(answer.result, what="the probe's result")
                return Found(answer.result)
        except KeyboardInterrupt:
            raise
        except BaseException as exc:  # noqa: BLE001 - a probe that fails in any way has not answered
            return NoAnswer(told(exc, call.secrets))
        if isinstance(answer, Pending):
            return NoAnswer("not yet", look_again_s=answer.after_s)
        if isinstance(answer, NotHappened):
            return FoundNothing()
        return NoAnswer(f"the probe returned {type(answer).__name__}, neither Happened nor NotHappened")

    async def _returned(self, call: Call) -> object:
        token = current_call.set(call)
        told = current_feedback.set(call.feedback) if call.feedback else None
        try:
            if call.timeout_s is None:
                return await (call.function() if call.is_async else self._in_a_thread(call))
            async with asyncio.timeout(call.timeout_s):
                return await (call.function() if call.is_async else self._in_a_thread(call))
        finally:
            current_call.reset(token)
            if told is not None:
                current_feedback.reset(told)

    async def _in_a_thread(self, call: Call) -> object:
        async with self._threads:
            value, error = await _in_thread(call)
        if error is not None:
            raise error if isinstance(error, Exception) else RuntimeError(f"{type(error).__name__}: {error}")
        return await value if inspect.isawaitable(value) else value


def _in_thread(call: Call) -> asyncio.Future[tuple[object, BaseException | None]]:
    """Run a plain function in a daemon thread. If the waiting is given up, its end is reported late."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[tuple[object, BaseException | None]] = loop.create_future()
    context = contextvars.copy_context()

    def settle(value: object, error: BaseException | None) -> None:
        call.running = False
        if not future.done():
            future.set_result((value, error))
        elif call.late is not None:
            call.late(_succeeded(call, value) if error is None else _ended_badly(call, error))

    def run() -> None:
        value: object = None
        error: BaseException | None = None
        try:
            value = context.run(call.function)
        except BaseException as exc:  # noqa: BLE001 - of whatever kind: a step whose thread is silent waits for ever
            error = exc
        try:
            loop.call_soon_threadsafe(settle, value, error)
        except RuntimeError:
            return  # the loop has closed: the process is going down, and the attempt is lost

    call.running = True
    threading.Thread(target=run, name=f"amends {call.saga}", daemon=True).start()
    return future


def _succeeded(call: Call, value: object) -> Outcome:
    """The call returned; whatever is wrong with what it returned, the effect has happened."""
    if value is None or type(value) is bool:
        return Succeeded(value)
    try:
        masked = mask(value, call.saga)
        canonical(masked, what="the result")
    except InputError as exc:
        return Succeeded(None, opaque=str(exc))
    return Succeeded(cast("Json", masked))


def _ended_badly(call: Call, exc: BaseException) -> Outcome:
    error = told(exc, call.secrets)
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
        case Exception() if call.certain_failure:
            return Failed(error=error)
        case _:
            return Lost(error=error)


def told(exc: BaseException, known: Iterable[Secret] = ()) -> str:
    """What an exception says, as the journal keeps it."""
    text = str(exc)
    certified = isinstance(exc, (Fatal, NotDone, ChangedSince)) and text
    return kept_words(text if certified else f"{type(exc).__name__}: {text}".rstrip(": "), known)


def kept_words(text: str, known: Iterable[Secret] = ()) -> str:
    """A reason as the journal keeps it: without secrets and the letters that no journal can hold, and not for ever.

    It is searched first, and cut then: half a secret is not found any more.
    """
    said = scrub(text, known).encode("utf-8", "backslashreplace").decode()
    return said if len(said) <= LONGEST_ERROR else said[: LONGEST_ERROR - 1] + "…"
