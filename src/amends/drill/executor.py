"""Makes the calls of one run, and lets one of them go wrong. Users' functions are called as they are.

Every call is noted, whatever the runtime is told about it: the checks ask these notes what really reached the world.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Generator
from typing import Final, Protocol

from amends.core.words.contracts import key_of
from amends.core.words.outcomes import Answer, Failed, Lost, NoAnswer, Outcome, Succeeded
from amends.core.words.values import SagaId, StepId
from amends.dataclass import dataclass
from amends.drill.clock import HurriedClock
from amends.drill.faults import MUTE, STOPS, TAKES_BACK, TROUBLES, Fault, Place, Trouble
from amends.drill.world import World
from amends.errors import JournalStoppedError
from amends.runtime.drive.executor import Call, Executor, Part
from amends.runtime.engine.built_in import BUILT_IN
from amends.secrets import Secret

_GLANCE_S: Final = 0.005
_THREADS: Final = 64
_STOP: Final = Trouble(part="action", outcome=Failed(error=STOPS, fatal=True))
_DEAD: Final = Lost(error="this process is dead")
_OF_CHILDREN: Final = frozenset(built_in.topic for built_in in BUILT_IN)


class Points(Protocol):
    """Where a life may end."""

    async def reach(self, point: str) -> None: ...

    async def stay_dead(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Made:
    """A call that reached a user's function, and how that ended; what the runtime was told may be something else."""

    saga: SagaId
    step: StepId
    part: Part
    key: str
    outcome: Outcome

    @property
    def worked(self) -> bool:
        return isinstance(self.outcome, Succeeded)


class Rehearsed(Executor):
    """Of the drilled saga one call goes wrong, of its children none.

    `hung` are the functions that have given no answer once: nobody waits for them again.
    """

    def __init__(self, saga: SagaId, clock: HurriedClock, patience_s: float, hung: set[tuple[str, Part]]) -> None:
        super().__init__(_THREADS)
        self._saga = saga
        self.made: list[Made] = []
        self.world = World()
        self.secrets: dict[tuple[SagaId, StepId], tuple[Secret, ...]] = {}
        self.was_hit = False
        self.life: Points
        self.before_action: Callable[[], Awaitable[None]] | None = None
        """Called once, when the action at the place is about to be called."""
        self.before_undo: Callable[[Call], Awaitable[None]] | None = None
        """The same for its compensation, and for the look before it where the action has one."""
        self.after_action: Callable[[Call], Awaitable[None]] | None = None
        """Called whenever an action has succeeded."""
        self.after_undo: Callable[[Call], Awaitable[None]] | None = None
        """Called whenever a compensation has worked."""
        self._clock = clock
        self._patience_s = patience_s
        self._hung = hung
        self._place = Place(Fault.NOTHING)
        self._stops_at: StepId | None = None
        self._times: Counter[tuple[StepId, Part]] = Counter()
        self._threads_under_way = 0
        self._lock = threading.Lock()

    def arm(self, place: Place, stops_at: StepId | None = None) -> None:
        """`stops_at` is a step that certainly fails for good, to bring a rollback about."""
        self._place, self._stops_at = place, stops_at

    def disarm(self) -> None:
        self.arm(Place(Fault.NOTHING))

    # -- for the runtime ----------------------------------------------------------------------------------------------

    async def perform(self, call: Call) -> Outcome:
        try:
            await self.life.stay_dead()
            return await self._performed(call)
        except JournalStoppedError:
            return _DEAD

    async def _performed(self, call: Call) -> Outcome:
        self.secrets[call.saga, call.step] = tuple(call.secrets)
        trouble = self._trouble(call)
        if trouble is not None and not trouble.landed:
            return trouble.outcome
        await self._prepare(call)
        outcome = await self.make(call)
        if call.part == "action" or call.part in TAKES_BACK:
            await self.life.reach(f"{call.saga} {call.step} {call.part}: after")
        if isinstance(outcome, Succeeded):
            look = {"action": self.after_action, "compensation": self.after_undo}.get(call.part)
            if look is not None:
                await look(call)
        return trouble.outcome if trouble is not None and isinstance(outcome, Succeeded) else outcome

    async def ask(self, call: Call) -> Answer:
        if self._place.fault in MUTE and self._is_at(call, self._place.step):
            return NoAnswer("drill: the probe does not answer")
        return await self.put(call)

    def _trouble(self, call: Call) -> Trouble | None:
        if call.part == "action" and self._is_at(call, self._stops_at):
            return _STOP
        trouble = TROUBLES.get(self._place.fault)
        if trouble is None or not self._is_at(call, self._place.step):
            return None
        if call.part != trouble.part and not (trouble.part in TAKES_BACK and call.part in TAKES_BACK):
            return None
        self._times[call.step, call.part] += 1
        if self._times[call.step, call.part] > 1 and not trouble.always:
            return None
        self.was_hit = True
        return trouble

    def _is_at(self, call: Call, step: StepId | None) -> bool:
        return call.saga == self._saga and call.step == step

    async def _prepare(self, call: Call) -> None:
        if self._is_at(call, self._place.step):
            if call.part == "action" and self.before_action is not None:
                prepare, self.before_action, self.was_hit = self.before_action, None, True
                await prepare()
            elif self._goes_back(call) and self.before_undo is not None:
                meddle, self.before_undo, self.was_hit = self.before_undo, None, True
                await meddle(call)

    def _goes_back(self, call: Call) -> bool:
        """A step is looked at again right after its success, and then before it is taken back."""
        if call.part == "reread":
            self._times[call.step, call.part] += 1
            return self._times[call.step, call.part] > 1
        return call.part == "compensation"

    # -- calling ------------------------------------------------------------------------------------------------------

    async def make(self, call: Call) -> Outcome:
        """Call a user's function, and note what became of it. What runs a child takes as long as the child does."""
        name = (call.topic, call.part)
        if name in self._hung:
            return Lost(error=f"no answer in {self._patience_s:g} s", timed_out=True)
        with self._called(call):
            since = self._clock.elapsed()
            outcome = await super().perform(call)
        if isinstance(outcome, Lost) and outcome.timed_out and self._clock.elapsed() - since >= self._patience_s * 0.9:
            self._hung.add(name)
        self.made.append(Made(call.saga, call.step, call.part, call.key, outcome))
        if not isinstance(outcome, Failed):
            if call.part == "action":
                self.world.effect(call.topic, key=call.key, saga=call.saga, honours_keys=False)
            elif call.part == "compensation":
                of = key_of(call.saga, call.step, call.topic, "do")
                self.world.undo(call.topic, key=call.key, of=of, saga=call.saga, honours_keys=False)
        return outcome

    async def put(self, call: Call) -> Answer:
        """Put a question to a user's probe."""
        with self._called(call):
            return await super().ask(call)

    @contextlib.contextmanager
    def _called(self, call: Call) -> Generator[None]:
        if call.topic in _OF_CHILDREN:  # users' functions are called inside of it, each with its own time
            yield
            return
        call.timeout_s = min(self._patience_s, call.timeout_s or self._patience_s)
        if not call.is_async:
            call.function = self._counted(call.function)
        with self._clock.real_time():
            yield

    def _counted(self, function: Callable[[], object]) -> Callable[[], object]:
        def counted() -> object:
            with self._lock:
                self._threads_under_way += 1
            try:
                return function()
            finally:
                with self._lock:
                    self._threads_under_way -= 1

        return counted

    async def threads_end(self) -> None:
        """A process that dies takes its threads along; here they are waited for, as long as patience lasts."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._patience_s
        with self._clock.real_time():
            while self._threads_under_way and loop.time() < until:
                await self._clock.sleep(_GLANCE_S)
