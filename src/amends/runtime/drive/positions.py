"""Which step is this? Names for the steps of a function that is called again, also where it runs branches side by
side.

Steps that follow each other in one asyncio task are 1, 2, 3. A task that was started after step 2 has a branch of
its own, 2.1, and its steps are 2.1/1, 2.1/2. Which task came first may differ from one run to the next, so a
resumed branch takes the remembered one whose first step asks for the same thing; if none does while remembered
branches are still missing, it waits for them to be taken, because dispatching it as something new might do twice
what is merely out of order.

Checkpoints and rollbacks take places too, in the same count: 1 may be a step, 2 a checkpoint, 3 a step. So a part of
the work is a `Scope`: a branch, and from which place to which, with every branch that was started there. What a
rollback from outside had forgotten is asked for anew, under a new name: 3~2 is the second time at place 3.

A step that people are asked about ahead has two places: `s.ask` is at one, which names it, and `s.do` at another, where
it belongs. Journals from before that was on record have it at its ask alone, and `s.do` takes no place there.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, Final, NamedTuple, Protocol

from amends.core.state.limits import SPENDING, spent_words
from amends.core.state.rewinds import is_asked_anew
from amends.core.state.saga import Saga
from amends.core.state.step import Step
from amends.core.words.values import StepId
from amends.dataclass import dataclass
from amends.errors import DivergedError


class Spot(NamedTuple):
    """A step that has a name of its own, wherever it is asked for, and the steps that it was declared to be after."""

    step: StepId
    after: tuple[StepId, ...] = ()


class TakesPlaces(Protocol):
    """Gives the place of what the calling task asks for, and whether the journal remembers it. Raises DivergedError."""

    async def place(self, what: str, digest: str, /) -> tuple[StepId, bool]: ...


Alike = Callable[[StepId], bool]
"""Whether what is asked for is what a place has on record, though their digests differ: see `secret.is_alike`."""


@dataclass(frozen=True, slots=True)
class TaskPlace:
    """Where a task stands: its branch, and how many steps it has made there."""

    owner: Places
    branch: str
    made: int
    task: asyncio.Task[Any] | None


_here: ContextVar[TaskPlace] = ContextVar("amends_place")
_NONE: Final = frozenset[StepId]()  # one for all: an empty set takes 200 bytes
_FIRST: Final = re.compile(r"(\d+)(\.?)")
CHECKPOINT: Final = "a checkpoint"
ROLLBACK: Final = "a rollback"


class Scope(NamedTuple):
    """The work of a branch after its place `start`, up to its place `end`; and all that was started from there."""

    branch: str
    start: int
    end: int

    def holds(self, place: StepId) -> bool:
        first = _FIRST.match(place, len(self.branch)) if place.startswith(self.branch) else None
        if first is None:
            return False
        number, is_fork = int(first[1]), bool(first[2])
        return self.start < number <= self.end or (is_fork and number == self.start)


class Places:
    def __init__(self, saga: Saga, patience_s: float) -> None:
        self._patience_s = patience_s
        self._branches: dict[str, int] = {}
        if saga.head <= 1:  # as every saga begins: there is nothing to remember
            self._unclaimed: dict[StepId, tuple[str, str]] = {}
            self._forgotten = self._set_aside = _NONE
            self._entries: dict[StepId, int] = {}
            self._claimed: asyncio.Event | None = None
            return
        steps = tuple(saga.steps.values())
        self._unclaimed = dict(_remembered(saga, steps))
        self._forgotten = frozenset(_forgotten(saga, steps)) or _NONE
        aside = (step for step in steps if step.rewind is not None)
        self._set_aside = frozenset(name for step in aside for name in (step.id, step.place)) or _NONE
        for step in (*self._unclaimed, *self._forgotten):
            fork, number = _fork_of(step)
            if fork:
                self._branches[fork] = max(self._branches.get(fork, 0), number)
        self._entries = dict(_entries(saga, steps)) if saga.rewinds else {}
        self._claimed = asyncio.Event() if self._unclaimed else None

    def enter(self) -> None:
        """The calling task is the saga's own; its steps are 1, 2, 3."""
        _here.set(TaskPlace(self, "", 0, asyncio.current_task()))

    def leave(self) -> None:
        """The calling task is done with the saga: its context need not hold it any more."""
        _here.set(TaskPlace(self, "", 0, None))

    @property
    def missing(self) -> tuple[StepId, ...]:
        """Places that are remembered, and nothing has asked for yet; what was taken back need not be asked for."""
        return tuple(step for step in self._unclaimed if step not in self._set_aside)

    def has_passed(self, entry: int) -> bool:
        """Whether the function has come by all that was on record before this entry, and was left there."""
        return all(self._entries.get(place, entry) >= entry for place in self.missing)

    def here(self) -> tuple[str, int] | None:
        """The branch of the calling task, and how many places it has taken there; None before its first."""
        here = _here.get(None)
        if here is None or here.owner is not self or here.task is not asyncio.current_task():
            return None
        return here.branch, here.made

    def remembers(self, topic: str, digest: str, at: Spot | None, alike: Alike | None) -> bool:
        """Whether what the calling task asks for may be on record: then it was looked at when it was new."""
        if not self._unclaimed:
            return False
        here, asked = self.here(), (topic, digest)
        name = at.step if at is not None else StepId("" if here is None else f"{here[0]}{here[1] + 1}")
        return self._unclaimed.get(name) == asked or any(
            kept == asked or (alike is not None and kept[0] == topic and alike(step))
            for step, kept in self._unclaimed.items()
        )

    def next_new(self, task: asyncio.Task[Any] | None) -> StepId | None:
        """The name of the step that the calling task asks for, where nothing is on record that it may be, and the task
        has taken a place before; else None, and no place is taken.
        """
        here = _here.get(None)
        if self._unclaimed or self._forgotten or here is None or here.owner is not self or here.task is not task:
            return None
        _here.set(TaskPlace(self, here.branch, here.made + 1, task))
        return StepId(f"{here.branch}{here.made + 1}")

    async def next(self, topic: str, digest: str, alike: Alike | None = None) -> tuple[StepId, bool]:
        """The name of the step that the calling task asks for, and whether the journal remembers it."""
        here = _here.get(None)
        task = asyncio.current_task()
        if here is None or here.owner is not self:
            here = TaskPlace(self, "", 0, None)
        if here.task is not task:
            branch = await self._branch(f"{here.branch}{here.made}.", topic, digest, alike)
            here = TaskPlace(self, branch, 0, task)
        step = StepId(f"{here.branch}{here.made + 1}")
        _here.set(TaskPlace(self, here.branch, here.made + 1, task))
        if self._forgotten:
            step = self._anew(step)
        if not self._unclaimed:
            return step, False
        return step, self._claim(step, topic, digest, alike)

    def at(self, spot: Spot, topic: str, digest: str, alike: Alike | None = None) -> tuple[StepId, bool]:
        """The place of a step that has a name of its own, and whether the journal remembers it."""
        step = self._anew(spot.step) if self._forgotten else spot.step
        return step, self._claim(step, topic, digest, alike)

    def after(self, spot: Spot) -> tuple[StepId, ...]:
        """Steps that it is after, by the names that those have now."""
        return tuple(map(self._anew, spot.after)) if self._forgotten else spot.after

    def call_of(self, step: StepId) -> str:
        """The caller's own id of a step."""
        return ""

    def _anew(self, step: StepId) -> StepId:
        turn, name = 1, step
        while name in self._forgotten:
            turn += 1
            name = StepId(f"{step}~{turn}")
        return name

    def _claim(self, step: StepId, topic: str, digest: str, alike: Alike | None) -> bool:
        remembered = self._unclaimed.pop(step, None)
        if remembered is None:
            return False
        if self._claimed is not None:
            self._claimed.set()
            self._claimed = asyncio.Event()
        if remembered[0] != topic:
            raise DivergedError(f"step {step} was {remembered[0]} and is {topic} now; the definition has changed")
        if remembered[1] != digest and (alike is None or not alike(step)):
            raise DivergedError(
                f"step {step} ({topic}) is asked for with other arguments than before; "
                "a saga's function must ask for the same when it is called again"
            )
        return True

    async def _branch(self, fork: str, topic: str, digest: str, alike: Alike | None) -> str:
        waited_s = 0.0
        while True:
            waiting = [step for step in self._unclaimed if _fork_of(step)[0] == fork and step.endswith("/1")]
            fitting = [step for step in waiting if self._unclaimed[step] == (topic, digest)]
            if alike is not None and not fitting:
                fitting = [step for step in waiting if self._unclaimed[step][0] == topic and alike(step)]
            if fitting:
                return f"{fork}{min(_fork_of(step)[1] for step in fitting)}/"
            if not waiting or self._claimed is None:
                self._branches[fork] = self._branches.get(fork, 0) + 1
                return f"{fork}{self._branches[fork]}/"
            if waited_s >= self._patience_s:
                raise DivergedError(
                    f"{topic} is asked for in a new branch, while step {waiting[0]} of the journal is not; "
                    "the definition has changed"
                )
            waited_s += await self._wait(self._patience_s - waited_s)

    async def _wait(self, most_s: float) -> float:
        claimed = self._claimed
        loop = asyncio.get_running_loop()
        since = loop.time()
        if claimed is not None:
            try:
                async with asyncio.timeout(most_s):
                    await claimed.wait()
            except TimeoutError:
                return most_s
        return loop.time() - since


@dataclass(slots=True)
class StepRequest:
    """One request of whoever drives an open saga: their own id of it, and the step that it has become.

    waits: whether it waits for people with the step; else `ApprovalPending` says that they are asked.
    """

    call: str = ""
    step: StepId | None = None
    waits: bool = True


step_request: ContextVar[StepRequest | None] = ContextVar("amends_step_request", default=None)


class OpenPlaces(Places):
    """Places of an open saga. Nothing is asked for again, so each is a new number, whichever task asks."""

    def __init__(self, saga: Saga) -> None:
        super().__init__(saga, 0.0)
        steps = tuple(saga.steps.values())
        known = (*(name for name, _ in _entries(saga, steps)), *saga.rewinds)
        self._made = max((int(first[1]) for name in known if (first := _FIRST.match(name))), default=0)
        self._known: set[StepId] = {*self._unclaimed, *(step.id for step in steps)}
        self._unclaimed = dict[StepId, tuple[str, str]]()
        self._forgotten = _NONE
        self._calls: dict[StepId, str] = {}

    def here(self) -> tuple[str, int]:
        return "", self._made

    def remembers(self, topic: str, digest: str, at: Spot | None, alike: Alike | None) -> bool:
        return at is not None and at.step in self._known

    def next_new(self, task: asyncio.Task[Any] | None = None) -> StepId:
        self._made += 1
        step = StepId(str(self._made))
        self._known.add(step)
        asked = step_request.get()
        if asked is not None and asked.step is None:
            asked.step = step
            if asked.call:
                self._calls[step] = asked.call
        return step

    async def next(self, topic: str, digest: str, alike: Alike | None = None) -> tuple[StepId, bool]:
        return self.next_new(), False

    def at(self, spot: Spot, topic: str, digest: str, alike: Alike | None = None) -> tuple[StepId, bool]:
        is_known = spot.step in self._known
        self._known.add(spot.step)
        return spot.step, is_known

    def call_of(self, step: StepId) -> str:
        return self._calls.get(step, "")


def places_of(saga: Saga, patience_s: float) -> Places:
    """Places of a saga: of one that has a function, which is called again, or of an open one."""
    is_open = saga.begun is not None and saga.begun.session is not None
    return OpenPlaces(saga) if is_open else Places(saga, patience_s)


def _remembered(saga: Saga, steps: tuple[Step, ...]) -> Iterator[tuple[StepId, tuple[str, str]]]:
    """The journal's record at each place: steps by their topic, whichever version they began with, waits and marks."""
    for step in steps:
        if not step.forgotten or (step.ahead is not None and not is_asked_anew(saga, step)):
            yield step.id, (step.topic, step.digest)
        if step.ahead is not None and step.ahead.place is not None and not step.forgotten:
            yield step.ahead.place, (step.topic, step.digest)
    for wait in saga.waits.places.values() if saga.waits is not None else ():
        yield wait.place, (wait.words, "")
    for spending in saga.budget.places.values() if saga.budget is not None else ():
        yield spending.fact.place, (SPENDING, spent_words(spending.fact))
    for checkpoint in saga.checkpoints.values():
        yield checkpoint.place, (CHECKPOINT, checkpoint.name)
    for rewind in saga.rewinds.values():
        if (place := rewind.begun.place) is not None:
            yield place, (ROLLBACK, asked_back(rewind.begun.to, rewind.begun.attempt, len(rewind.begun.steps)))


def _entries(saga: Saga, steps: tuple[Step, ...]) -> Iterator[tuple[StepId, int]]:
    """The entry that put each place on record."""
    for step in steps:
        yield step.place, step.entry
        yield step.id, step.entry if step.ahead is None else step.ahead.entry
    for wait in saga.waits.places.values() if saga.waits is not None else ():
        yield wait.place, wait.entry
    for spending in saga.budget.places.values() if saga.budget is not None else ():
        yield spending.fact.place, spending.entry
    for checkpoint in saga.checkpoints.values():
        yield checkpoint.place, checkpoint.entry
    for rewind in saga.rewinds.values():
        if (place := rewind.begun.place) is not None:
            yield place, rewind.entry


def _forgotten(saga: Saga, steps: tuple[Step, ...]) -> Iterator[StepId]:
    """The places that a rollback from outside had forgotten: of a step that was asked ahead, both have to be."""
    for step in steps:
        if step.forgotten:
            yield step.place
            if step.place == step.id or is_asked_anew(saga, step):
                yield step.id


def asked_back(to: StepId | None, attempt: int, last: int) -> str:
    """The request of a rollback inside the definition: called again, it has to be the same."""
    return f"attempt {attempt}" if attempt else f"last {last}" if to is None else f"to {to}"


def _fork_of(step: StepId) -> tuple[str, int]:
    """The fork that a step's branch began at, and the branch's number: `2.1/3` is of branch 1 of `2.`."""
    branch, slash, _ = step.rpartition("/")
    if not slash:
        return "", 0
    fork, _, number = branch.rpartition(".")
    return f"{fork}.", int(number)
