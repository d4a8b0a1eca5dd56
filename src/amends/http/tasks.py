"""Tasks: calls that the server has others make, each handed to one of them, who reports how it ended.

They are in memory: the journal says that an attempt was begun, and after a restart whoever drives the saga finds it
lost, and has made what is due then. What nobody takes in time has certainly not happened; what was taken, and is not
reported before its time is up, is lost.

A report that comes after a restart is not: an attempt's token names the attempt, and is authenticated with a key that
the server has again, so that what is told under it can be put on record.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from amends.clock import Clock, new_secret
from amends.core.words.outcomes import Failed
from amends.core.words.values import Json, SagaId, StepId
from amends.errors import Reported, UnknownError
from amends.remote.outcomes import CallReport, ended, require_fitting
from amends.runtime.drive.executor import Part
from amends.secrets import DigestKey

LIVELY_S: Final = 90.0
"""How long a worker that has asked for tasks of a topic is believed to be there."""
_REMEMBERED: Final = 10_000
_BETWEEN_S: Final = 3.0
"""How long a client may take from one request for tasks to the next."""
_LONGEST_WAIT_S: Final = 3600.0


class AttemptName(NamedTuple):
    """One attempt of a step's action, as the journal counts them."""

    saga: SagaId
    step: StepId
    number: int


class AttemptTokens:
    """AttemptTokens of calls. Nobody can guess one; an attempt's says which attempt it is, to whoever has the key."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = new_secret(32) if key is None else hmac.digest(key, b"tokens of attempts", "sha256")

    @classmethod
    def of(cls, key: DigestKey | None) -> AttemptTokens:
        """Tokens of a journal, by the key that its processes have beside it; without one, of this process alone."""
        return cls(None if key is None else key.key)

    def make(self, attempt: AttemptName | None) -> str:
        if attempt is None:
            return _spelled(new_secret(18))
        said = json.dumps(attempt, separators=(",", ":")).encode()
        return f"{_spelled(said)}.{_spelled(self._mac(said))}"

    def read(self, token: str) -> AttemptName | None:
        """The attempt that a token of this key is of; None for any other text."""
        said, dot, mac = token.partition(".")
        if not (dot and token.isascii()):
            return None
        try:
            text = base64.urlsafe_b64decode(said)
        except ValueError:
            return None
        if not hmac.compare_digest(mac.encode(), _spelled(self._mac(text)).encode()):
            return None
        saga, step, number = json.loads(text)
        return AttemptName(SagaId(saga), StepId(step), number)

    def _mac(self, said: bytes) -> bytes:
        return hmac.digest(self._key, said, "sha256")[:18]


def _spelled(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode()


@dataclass(slots=True, kw_only=True)
class Task:
    """One call to be made elsewhere. `token` is what its report is sent to."""

    token: str
    part: Part
    saga: SagaId
    root: SagaId
    """The saga that stands over its family: whoever has that open makes its calls."""
    definition: str
    step: StepId
    topic: str
    version: int
    key: str
    timeout_s: float | None
    given: Mapping[str, Json]
    """Its arguments, and whatever else its function is given."""
    report: asyncio.Future[CallReport] = field(default_factory=asyncio.Future[CallReport])
    taken: asyncio.Event = field(default_factory=asyncio.Event)
    under_way: UnderWay | None = None

    def came_late(self, report: CallReport) -> bool:
        """Whether it says that an action took effect that was given up before: that is news, and owed again."""
        is_lost = self.report.cancelled() or self.report.result()["outcome"] == "lost"
        return is_lost and self.part == "action" and report["outcome"] == "succeeded"

    def fields(self) -> dict[str, object]:
        """The task as whoever makes the call is told of it."""
        return {
            "token": self.token,
            "part": self.part,
            "saga": self.saga,
            "definition": self.definition,
            "step": self.step,
            "topic": self.topic,
            "version": self.version,
            "key": self.key,
            "timeout_s": self.timeout_s,
            **self.given,
        }


class UnderWay(Protocol):
    """A step that somebody asks for over HTTP, and whose calls they make themselves."""

    @property
    def is_over(self) -> bool: ...

    def offer(self, task: Task) -> None:
        """Have them make this call, whenever they ask next."""
        ...

    def withdraw(self, task: Task) -> None:
        """It is over, whoever was to make it."""
        ...

    def leave(self) -> None:
        """They have not come for a call in time: nothing more is begun until they ask again."""
        ...


asked_by: ContextVar[UnderWay | None] = ContextVar("asked_by", default=None)
"""The step that the running code is done for, where those who ask for it make its calls."""
Wanted = Callable[[Task], bool]


@dataclass(slots=True)
class _Waiting:
    wanted: Wanted
    got: asyncio.Future[Task]


class Tasks:
    """All tasks of a server."""

    def __init__(self, clock: Clock, tokens: AttemptTokens | None = None) -> None:
        self._clock = clock
        self._tokens = tokens or AttemptTokens()
        self._open: dict[str, Task] = {}
        """Those that nobody has taken."""
        self._known: OrderedDict[str, Task] = OrderedDict()
        self._waiting: list[_Waiting] = []
        self._seen: dict[str, float] = {}
        """When somebody asked last for tasks of a topic, by its pattern."""
        self._clients: dict[str, int] = {}
        """How often each client is asking for its own tasks now."""
        self._left: dict[str, float] = {}

    def new_token(self, attempt: AttemptName | None = None) -> str:
        return self._tokens.make(attempt)

    def attempt_of(self, token: str) -> AttemptName:
        """The attempt that a token is of whose task is not here any more. Raises UnknownError."""
        attempt = self._tokens.read(token)
        if attempt is None:
            raise _unknown(token)
        return attempt

    @property
    def waiting(self) -> tuple[Task, ...]:
        """The tasks that nobody has taken yet, oldest first."""
        return tuple(self._open.values())

    def has_worker(self, is_meant: Callable[[str], bool]) -> bool:
        """Whether somebody has asked lately for tasks of a pattern of topics that this is true of."""
        since = self._clock.elapsed() - LIVELY_S
        return any(at >= since and is_meant(pattern) for pattern, at in self._seen.items())

    @contextmanager
    def asking(self, client: str) -> Generator[Callable[[], None]]:
        """While this lasts, this client is there; it may be said that it has gone."""
        self._clients[client] = self._clients.get(client, 0) + 1
        is_gone = False

        def gone() -> None:
            nonlocal is_gone
            is_gone = True

        try:
            yield gone
        finally:
            self._clients[client] -= 1
            if not self._clients[client]:
                del self._clients[client]
                self._left[client] = float("-inf") if is_gone else self._clock.elapsed()

    def is_there(self, client: str) -> bool:
        """Whether a client asks for its tasks, or has done so just now."""
        return client in self._clients or self._left.get(client, float("-inf")) >= self._clock.elapsed() - _BETWEEN_S

    def note_worker(self, patterns: tuple[str, ...]) -> None:
        for pattern in patterns:
            self._seen[pattern] = self._clock.elapsed()
        if len(self._seen) > _REMEMBERED:
            since = self._clock.elapsed() - LIVELY_S
            self._seen = {pattern: at for pattern, at in self._seen.items() if at >= since}

    async def made(self, task: Task) -> Any:  # noqa: ANN401 - what its function would return
        """Have a call made, and give what it returned. Raises Reported, with how else it ended."""
        self._remember(task)
        if task.under_way is not None and task.under_way.is_over:
            task.under_way = None
        try:
            if task.under_way is not None:
                task.under_way.offer(task)
            else:
                self._publish(task)
            await self._until_taken(task)
            return ended(await task.report)
        finally:
            self._open.pop(task.token, None)
            if not task.report.done():
                task.report.cancel()
            if task.under_way is not None:
                task.under_way.withdraw(task)

    async def _until_taken(self, task: Task) -> None:
        patience_s = _LONGEST_WAIT_S if task.timeout_s is None else task.timeout_s / 2
        waiting: asyncio.Future[Any] = asyncio.ensure_future(task.taken.wait())
        try:
            await asyncio.wait({waiting, task.report}, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if not task.taken.is_set() and not task.report.done():
            who = f"no worker of {task.topic} is there"
            if task.under_way is not None:
                who = "whoever asked for the step has not come for it"
                asyncio.get_running_loop().call_soon(task.under_way.leave)
            raise Reported(Failed(error=f"{who}: nobody has taken it in {patience_s:g} s, and nothing was done"))

    def _remember(self, task: Task) -> None:
        self._known[task.token] = task
        while len(self._known) > _REMEMBERED:
            _, oldest = self._known.popitem(last=False)
            if not oldest.report.done():  # it is still somebody's
                self._known[oldest.token] = oldest
                break

    def _publish(self, task: Task) -> None:
        for one in self._waiting:
            if not one.got.done() and one.wanted(task):
                task.taken.set()
                one.got.set_result(task)
                return
        self._open[task.token] = task

    async def take(self, wanted: Wanted, wait_s: float, over: asyncio.Future[Any]) -> Task | None:
        """The oldest task that is wanted, which is the caller's then; None where none came in time, before `over`."""
        for task in tuple(self._open.values()):
            if wanted(task):
                del self._open[task.token]
                task.taken.set()
                return task
        one = _Waiting(wanted, asyncio.get_running_loop().create_future())
        self._waiting.append(one)
        try:
            await asyncio.wait({one.got, over}, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
            return one.got.result() if one.got.done() else None
        finally:
            self._waiting.remove(one)
            if not one.got.done():
                one.got.cancel()

    def give_back(self, task: Task) -> None:
        """It could not be handed over: whoever asked for it has gone."""
        if not task.report.done():
            task.taken.clear()
            self._publish(task)

    def find(self, token: str) -> Task | None:
        """The task of a token; None where it is not here any more, or never was."""
        return self._known.get(token)

    def end(self, task: Task, report: CallReport) -> bool:
        """Report how a task ended; false where that is known already, or it is too late. Raises InputError."""
        require_fitting(report, task.part)
        if task.report.done():
            return False
        task.taken.set()
        task.report.set_result(report)
        return True


def _unknown(token: str) -> UnknownError:
    return UnknownError(
        f"attempt {token[:80]!r} is over, or was never here: its report came too late, and it is lost; ask for its "
        "step again, under the same call"
    )
