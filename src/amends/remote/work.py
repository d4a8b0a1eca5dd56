"""The saga as its function sees it, where it runs through a server: `s`, whose steps have their place as their call.

The function is called in this process. Called again, after a kill or by another client, it is answered from the record:
a step by its place, a checkpoint, a rollback, a wait and a spending by their order. It has to ask for the same.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Coroutine, Mapping
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Final, NoReturn, Self, cast

from amends.clock import SystemClock
from amends.core.words.values import Json, StepId
from amends.errors import (
    Abort,
    CallPerson,
    Complete,
    DeclarationError,
    DivergedError,
    InputError,
    StepError,
    WaitTimeoutError,
)
from amends.remote.server import Fields
from amends.remote.session import RemoteSession, feedback
from amends.runtime.declare.action import Action
from amends.runtime.declare.definition import Arguments
from amends.runtime.declare.graph import Graph
from amends.runtime.drive.positions import Alike, Places, Spot
from amends.runtime.saga.graph import GraphRun
from amends.runtime.saga.rewind import Feedback, first
from amends.runtime.values.bounded import Kept, keep
from amends.secrets import is_alike, unmask

REPLAY_S: Final = 5.0


class CallPlaces(Places):
    """Places of a function's steps, by which its calls are named; those that are on record are known again."""

    def __init__(self, known: Mapping[StepId, tuple[str, str]], forgotten: frozenset[StepId]) -> None:
        self._patience_s = REPLAY_S
        self._branches = {}
        self._unclaimed = dict(known)
        self._forgotten = forgotten
        self._set_aside = frozenset[StepId]()
        self._entries = {}
        self._claimed = asyncio.Event() if known else None
        for call in (*known, *forgotten):
            fork, number = _fork_of(call)
            if fork:
                self._branches[fork] = max(self._branches.get(fork, 0), number)


class PastWork:
    """All that a saga has on record when its function is called."""

    def __init__(self, shown: Fields) -> None:
        saga = shown["id"]
        self.input: Mapping[str, Any] = shown["input"]
        steps: list[Fields] = shown["steps"]
        self.steps: dict[str, Fields] = {one["asked"]: one for one in steps if one["asked"]}
        self.steps |= {one["call"]: one for one in steps if one["call"]}
        self.vouched_for = frozenset[str](shown["vouched_for"])
        self.known: dict[StepId, tuple[str, str]] = {
            StepId(call): (one["topic"], keep(unmask(one["args"], saga), saga, "args").digest)
            for call, one in self.steps.items()
            if not _is_forgotten(call, one)
        }
        self.forgotten = frozenset(StepId(call) for call, one in self.steps.items() if _is_forgotten(call, one))
        self.sent_back: int = shown["sent_back"]
        """How often a part of it was taken back from outside."""
        self._checkpoints = deque(shown["checkpoints"])
        self._rewinds = deque(shown["rewinds"])
        self._waits = deque(shown["waits"])
        self._spendings = deque(shown["spendings"])

    def checkpoint(self, name: str) -> Fields | None:
        return _taken(self._checkpoints, name=name)

    def rewind(self, why: str) -> Fields | None:
        return _taken(self._rewinds, why=why)

    def wait(self, name: str) -> tuple[Fields | None, float | None]:
        """How a wait ended; else how many seconds are left of it, where it was begun and left."""
        left_s: float | None = None
        while (known := _taken(self._waits, name=name)) is not None:
            if known["left_until"] is None:
                return known, None
            left_s = max(0.0, (known["left_until"] - SystemClock().now()) / 1000)
            if not self._waits or self._waits[0]["name"] != name:
                break
        return None, left_s

    def spending(self) -> Fields | None:
        return _taken(self._spendings)


def _is_forgotten(call: str, step: Fields) -> bool:
    """Whether what stands on record at this place was taken back from outside, and is asked for under a new name."""
    return bool(step["is_asked_anew"] if call == step["asked"] != step["call"] else step["is_forgotten"])


def _taken(marks: deque[Fields], **asked: str) -> Fields | None:
    """The next mark on record, as long as it is what is asked for. Raises DivergedError."""
    if not marks:
        return None
    for name, value in asked.items():
        if marks[0][name] != value:
            raise DivergedError(f"{name} {value!r} is asked for, and the record has {marks[0][name]!r} there")
    return marks.popleft()


class RemoteWork(RemoteSession):
    """The first argument of a saga's function, where the saga runs through a server."""

    _places: Places
    _memory: PastWork

    @property
    def input(self) -> Mapping[str, Any]:
        """The input of the saga, by name, with the secrets that this process was given."""
        return cast("Mapping[str, Any]", self._secrets.restored(cast("Json", self._memory.input), self.id))

    @property
    def sent_back(self) -> int:
        """How often a part of it had been taken back from outside, when its function was called."""
        return self._memory.sent_back

    @property
    def missing(self) -> tuple[StepId, ...]:
        """Steps on record that the function has not asked for."""
        back = {call for call, one in self._memory.steps.items() if one["is_back"]}
        return tuple(one for one in self._places.missing if one not in back)

    def require_all_asked_for(self, besides: Collection[str] = ()) -> None:
        """Raises DivergedError for a step on record that the function has ended without, but for these topics."""
        for one in self.missing:
            if self._memory.steps[one]["topic"] not in besides:
                raise DivergedError(f"step {one} is on record, and is not asked for any more")

    def is_vouched_for(self, step: StepId) -> bool:
        """Whether a person has resolved the incident of this assertion."""
        return step in self._memory.vouched_for

    async def remember(self) -> None:
        """Know what is on record, before the function is called; the calling task is the function's own."""
        self._memory = PastWork(await self._server.get(f"/sessions/{self.id}"))
        self._places = CallPlaces(self._memory.known, self._memory.forgotten)
        self._places.enter()

    def do(self, action: Any, /, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:  # noqa: ANN401 - the action's own
        """Do one step: judged, on record before it is dispatched, remembered once it is done. Await it."""
        from amends.runtime.saga.work import bound

        return self.do_named(action, bound(action, args, kwargs))

    async def do_named(
        self, action: Action[..., Any], named: Mapping[str, object], *, at: Spot | None = None, call: str = ""
    ) -> Any:  # noqa: ANN401 - the action's own
        """Do one step with all arguments by name; `at` is for a step that has a name of its own."""
        kept = await self._kept(action, named)
        alike = self._alike(kept)
        if at is not None:
            place, _ = self._places.at(at, action.topic, kept.digest, alike)
        else:
            place, _ = await self._places.next(action.topic, kept.digest, alike)
        known = self._memory.steps.get(place)
        if known is not None and known["told"] == "succeeded":
            return await self._restored(action, known["result"])
        return await self._step(action, kept, place)

    async def _ask_bound(self, action: Action[..., Any], named: Mapping[str, object], call: str) -> tuple[str, ...]:
        kept = await self._kept(action, named)
        place, _ = await self._places.next(action.topic, kept.digest, self._alike(kept))
        known = self._memory.steps.get(place)
        if known is not None and not known["is_asked_alone"]:
            return tuple(known["signers"])  # it was answered, and done: what became of it is told where it was done
        return await self._people_asked(action, kept, place)

    def _alike(self, kept: Kept) -> Alike | None:
        """Tells whether these arguments are on record at a place, their secrets under another key perhaps."""
        if not kept.secrets:
            return None

        def alike(place: StepId) -> bool:
            known = self._memory.steps.get(place)
            return known is not None and is_alike(kept.value, known["args"], kept.secrets, self.id)

        return alike

    def do_steps(self, graph: Graph, arguments: Arguments) -> Coroutine[Any, Any, dict[str, Any]]:
        """Do the steps of a list or a graph; gives their results by label. Await it."""
        return GraphRun(self, graph, arguments).run()

    def in_flight(self, step: str) -> bool:
        """Whether an attempt of this step is on its way now."""
        return step in self._under_way

    async def settle(self, error: StepError) -> None:
        """Have a step that ended badly, and may stand, settled before anything takes its place. Await it."""
        await self._until_done("settle", {"step": error.step, "why": str(error)})

    async def checkpoint(self, name: str) -> Feedback | None:
        known = self._memory.checkpoint(name)
        if known is None:
            return await super().checkpoint(name)
        return None if known["feedback"] is None else feedback(known["feedback"])

    async def rollback_to(self, name: str, why: str) -> Feedback:
        known = self._memory.rewind(why)
        return await super().rollback_to(name, why) if known is None else feedback(known)

    async def rollback_last(self, steps: int, why: str) -> Feedback:
        known = self._memory.rewind(why)
        return await super().rollback_last(steps, why) if known is None else feedback(known)

    async def wait_for(self, name: str, timeout: float | timedelta | None = None) -> Any:  # noqa: ANN401, ASYNC109 - as above
        known, left_s = self._memory.wait(name)
        if known is None:
            return await super().wait_for(name, timeout if timeout is None or left_s is None else left_s)
        if not known["is_signalled"]:
            raise WaitTimeoutError(f"nobody has sent {name} to saga {self.id} in time", name=name)
        return known["payload"]

    async def sleep(self, seconds: float | timedelta) -> None:
        known, left_s = self._memory.wait("")
        if known is None:
            await super().sleep(seconds if left_s is None else left_s)

    async def sleep_until(self, when: datetime | float) -> None:
        known, _ = self._memory.wait("")
        if known is None:
            await super().sleep_until(when)

    async def spend(self, *, tokens: int = 0, usd: Any = 0, what: str = "") -> None:  # noqa: ANN401 - a number of any kind
        if self._memory.spending() is None:
            await super().spend(tokens=tokens, usd=usd, what=what)

    async def abort(self, why: str) -> NoReturn:
        """Give up: all is taken back, and `why` is on record as the reason."""
        raise Abort(why)

    def attempts(self, name: str, *, max: int) -> RemoteAttempts:
        """Try a block several times: `async for attempt in s.attempts("pay", max=3): async with attempt: …`."""
        return RemoteAttempts(self, name, max)


class RemoteAttempt:
    """One try of a block: enter it with `async with`."""

    def __init__(self, s: RemoteWork, name: str, number: int, most: int, before: Feedback | None) -> None:
        self.number = number
        self.feedback = before
        """Why the try before failed, and what was taken back; None on the first."""
        self.is_last = number == most
        self.after: Feedback | None = None
        self.succeeded = self.was_entered = False
        self._s, self._mark = s, f"{name}/{number}"

    async def __aenter__(self) -> Self:
        self.was_entered = True
        await self._s.checkpoint(self._mark)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None:
            self.succeeded = True
            return False
        if not isinstance(error, Exception) or isinstance(error, DivergedError):
            return False
        if any(first(over, error) is not None for over in (Abort, Complete, CallPerson)):
            return False
        failed = first(StepError, error)
        why = str(failed) if failed is not None else f"{type(error).__name__}: {error}".rstrip(": ")
        self.after = await self._s.rollback_to(self._mark, why)
        return not self.is_last


class RemoteAttempts:
    """The tries of one block, one after the other, until one succeeds."""

    def __init__(self, s: RemoteWork, name: str, most: int) -> None:
        if most < 1:
            raise InputError(f"s.attempts({name!r}, max={most}): at least 1 attempt has to be allowed")
        self._s, self._name, self._most = s, name, most
        self._last: RemoteAttempt | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RemoteAttempt:
        last = self._last
        if last is not None and not last.was_entered:
            raise DeclarationError("an attempt was not entered: write `async with attempt:` inside the loop")
        if last is not None and last.succeeded:
            raise StopAsyncIteration
        number = 1 if last is None else last.number + 1
        self._last = RemoteAttempt(self._s, self._name, number, self._most, None if last is None else last.after)
        return self._last


def _fork_of(call: str) -> tuple[str, int]:
    branch, slash, _ = call.rpartition("/")
    if not slash:
        return "", 0
    fork, _, number = branch.rpartition(".")
    return f"{fork}.", int(number) if number.isdecimal() else 0
