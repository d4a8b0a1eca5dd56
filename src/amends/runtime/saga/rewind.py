"""Surgical rollback as a saga's function asks for it: checkpoints, and taking a part of its own work back.

Each call has a place in the function, like a step, and is answered from the journal when the function is called again.
What a call takes back is a scope: the calling branch's own steps, and those of branches that it started; never those of
a branch beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field, replace
from typing import Final, TypeVar, cast

from amends.core import commands as c
from amends.core.decide.rewinds import names, unknown_checkpoint
from amends.core.plan import may_be_pivots
from amends.core.state.rewinds import Checkpoint, Rewind
from amends.core.state.saga import Saga, open_waits
from amends.core.words.values import RUNTIME, StepId
from amends.dataclass import dataclass
from amends.errors import InputError, RefusedError, UnknownCheckpointError
from amends.runtime.drive.backward import Backward
from amends.runtime.drive.forward import Forward
from amends.runtime.drive.positions import CHECKPOINT, ROLLBACK, Scope, Spot, asked_back
from amends.runtime.drive.run import Run
from amends.text import counted

LONGEST_NAME: Final = 128
_Raised = TypeVar("_Raised", bound=BaseException)


@dataclass(frozen=True, slots=True)
class TakenBack:
    """A step of which nothing stands any more."""

    step: StepId
    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """Why a part of the work was taken back, and what: for whoever plans the next try. `str()` says it in a line.

    `number` counts the tries that failed, `earlier` holds those before this one; `step` and `topic` are of the step
    that failed, empty where it was no step.
    """

    number: int
    why: str
    by: str
    step: str = ""
    topic: str = ""
    taken_back: tuple[TakenBack, ...] = ()
    earlier: tuple[Feedback, ...] = ()

    @property
    def all(self) -> tuple[Feedback, ...]:
        """Every try that failed, this one last."""
        return (*self.earlier, self)

    def __str__(self) -> str:
        undone = ", ".join(f"{one.topic} (step {one.step})" for one in self.taken_back) or "nothing"
        return f"try {self.number} failed: {self.why}; taken back: {undone}"


def feedback_of(saga: Saga, rewind: Rewind, earlier: tuple[Feedback, ...] = ()) -> Feedback:
    """Feedback on a rewind, from the record: the same whenever it is asked for."""
    begun = rewind.begun
    return Feedback(
        number=len(earlier) + 1,
        why=begun.why,
        by=begun.by,
        step=begun.step or "",
        topic="" if begun.step is None else saga.steps[begun.step].topic,
        taken_back=tuple(TakenBack(step, saga.steps[step].topic) for step in rewind.taken_back),
        earlier=earlier,
    )


def _all(feedback: Feedback | None) -> tuple[Feedback, ...]:
    return () if feedback is None else feedback.all


@dataclass(frozen=True, slots=True)
class Passed:
    """A checkpoint that this call of the function has come by."""

    checkpoint: Checkpoint
    branch: str
    made: int


@dataclass(slots=True, eq=False)
class Rewinds:
    """The rollbacks of one call of a saga's function."""

    _run: Run
    forward: Forward
    _stop_children: Callable[[], None]
    _passed: list[Passed] = field(default_factory=list[Passed])

    @property
    def saga(self) -> Saga:
        return self._run.book.saga

    async def checkpoint(self, name: str) -> Feedback | None:
        passed = await self.mark(name)
        feedback: Feedback | None = None
        for rewind in self.saga.rewinds.values():
            since = rewind.entry > passed.checkpoint.entry and rewind.from_outside and rewind.ended
            if since and rewind.begun.to == passed.checkpoint.place:
                earlier = () if feedback is None else feedback.all
                feedback = feedback_of(self.saga, rewind, earlier)
        return feedback

    def feedback(self) -> Feedback | None:
        """Why what comes next is done again, as far as this call of the function has come."""
        saga, found = self.saga, None
        for why in () if saga.begun is None else saga.begun.because:
            found = Feedback(number=1 if found is None else found.number + 1, why=why, by=RUNTIME, earlier=_all(found))
        outside = (one for one in saga.rewinds.values() if one.from_outside and one.ended)
        for rewind in sorted(outside, key=lambda one: one.entry):
            if self.forward.places.has_passed(rewind.entry):
                found = feedback_of(saga, rewind, _all(found))
        return found

    async def mark(self, name: str) -> Passed:
        """Make a checkpoint, or come by one that is on record."""
        place, remembered = await self.forward.place(CHECKPOINT, checked_name(name))
        if not remembered:
            self._run.book.tell(c.MakeCheckpoint(place=place, name=name))
            self._run.book.commit_soon()
        branch, made = cast("tuple[str, int]", self.forward.places.here())
        passed = Passed(self.saga.checkpoints[place], branch, made)
        self._passed.append(passed)
        return passed

    def know(self, passed: Passed) -> None:
        """Take a checkpoint of an open saga for passed, which whoever had it open before has made."""
        self._passed.append(passed)

    async def rollback_to(self, name: str, why: str) -> Feedback:
        passed = self._find(name)
        scope = self.since(passed)
        to = passed.checkpoint.place
        place, remembered = await self.forward.place(ROLLBACK, asked_back(to, 0, 0))
        if not remembered:
            await self._tell(c.Rewind(place=place, steps=(), why=why, to=to), scope, passed)
        return feedback_of(self.saga, await self.take_back(place, scope))

    async def rollback_last(self, steps: int, why: str) -> Feedback:
        if steps < 1:
            raise InputError(f"rollback_last({steps}): at least 1 step has to be taken back")
        place, remembered = await self.forward.place(ROLLBACK, asked_back(None, 0, steps))
        branch, made = cast("tuple[str, int]", self.forward.places.here())
        scope = Scope(branch, 0, made)
        if not remembered:
            await self._tell(c.Rewind(place=place, steps=self._newest(scope, steps), why=why))
        return feedback_of(self.saga, await self.take_back(place))

    async def settle(self, step: StepId, why: str) -> None:
        """Take back one step of which something may stand: it is asked about, compensated, or a person decides."""
        spot = Spot(StepId(f"{step}.settled"))
        place, remembered = await self.forward.place(ROLLBACK, asked_back(None, 0, 1), spot)
        if not remembered:
            await self._tell(c.Rewind(place=place, steps=(step,), why=why, step=step))
        await self.take_back(place)

    async def rewind(self, passed: Passed, why: str, *, step: StepId | None, attempt: int) -> Rewind:
        """Take back what was done since a mark, because that attempt failed. Raises PastPivotError."""
        scope = self.since(passed)
        place, remembered = await self.forward.place(ROLLBACK, asked_back(None, attempt, 0))
        if not remembered:
            to = passed.checkpoint.place
            command = c.Rewind(place=place, steps=(), why=why, step=step, to=to, attempt=attempt)
            await self._tell(command, scope, passed)
        return await self.take_back(place, scope)

    def since(self, passed: Passed) -> Scope:
        """The scope of what the branch of a mark has done since."""
        here = self.forward.places.here()
        if here is None or here[0] != passed.branch:
            raise RefusedError(f"{passed.checkpoint.name!r} was marked in another branch of saga {self.saga.id}")
        return Scope(passed.branch, passed.made, here[1])

    async def take_back(self, place: StepId, scope: Scope | None = None) -> Rewind:
        """Wait until the rewind at this place has ended; nothing in its scope begins anything new from here on."""
        if scope is not None:
            self.forward.closed.append(scope)
            self._passed = [one for one in self._passed if not scope.holds(one.checkpoint.place)]
        self._stop_children()
        await Backward(self._run).take_back(place)
        rewind = self.saga.rewinds[place]
        self._run.went_back(rewind.taken_back)
        return rewind

    # -- which steps --------------------------------------------------------------------------------------------------

    def _find(self, name: str) -> Passed:
        """The newest checkpoint of that name that this branch has come by, and that was not taken back since."""
        here = self.forward.places.here()
        mine = [one for one in self._passed if here is not None and one.branch == here[0]]
        for passed in reversed(mine):
            if passed.checkpoint.name == name:
                return passed
        if any(one.checkpoint.name == name for one in self._passed):
            raise RefusedError(
                f"checkpoint {name!r} was made in another branch of saga {self.saga.id}: to go back to it would take "
                "back what runs beside this one; make the checkpoint in this branch, or join the branches first"
            )
        where = f"this branch of saga {self.saga.id}"
        raise UnknownCheckpointError(unknown_checkpoint(where, name, names(one.checkpoint for one in mine)))

    def _steps(self, scope: Scope, floor: int) -> Iterator[StepId]:
        """All of a scope, which began when there were `floor` intents: those with one, and those that people decide."""
        saga = self.saga
        for number in range(len(saga.order), floor, -1):
            if scope.holds(saga.steps[saga.order[number]].place):
                yield saga.order[number]
        for step in dict.fromkeys((*saga.asked, *saga.held)):
            if saga.steps[step].number == 0 and scope.holds(saga.steps[step].place):
                yield step

    def _newest(self, scope: Scope, most: int) -> tuple[StepId, ...]:
        saga, found = self.saga, list[StepId]()
        for number in range(len(saga.order), 0, -1):
            step = saga.steps[saga.order[number]]
            if step.standing and step.rewind is None and scope.holds(step.place):
                found.append(step.id)
                if len(found) == most:
                    return tuple(found)
        raise RefusedError(
            f"rollback_last({most}): only {counted(len(found), 'step')} of this branch could be taken back; "
            "ask for fewer, or see s.rollback_to(checkpoint)"
        )

    async def _tell(self, command: c.Rewind, scope: Scope | None = None, since: Passed | None = None) -> None:
        if scope is not None and since is not None:
            if may_be_pivots(self.saga):
                await self._settle_pivots(scope, since.checkpoint.floor)
            steps = tuple(self._steps(scope, since.checkpoint.floor))
            waits = tuple(wait.place for wait in open_waits(self.saga) if scope.holds(wait.place))
            command = replace(command, steps=steps, waits=waits)
        elif may_be_pivots(self.saga):
            await Backward(self._run).settle_pivots(lambda: command.steps)
        self._run.book.tell(replace(command, why=self._run.kept_words(command.why)))

    async def _settle_pivots(self, scope: Scope, floor: int) -> None:
        """Have it known what cannot be taken back; nothing in the scope begins anything meanwhile."""
        self.forward.closed.append(scope)
        try:
            await Backward(self._run).settle_pivots(lambda: self._steps(scope, floor))
        finally:
            self.forward.closed.remove(scope)

    def may_go_on(self) -> bool:
        """Whether there is anything to go on with: the code agrees with the journal, and the saga may act."""
        return self.forward.diverged is None and self._run.book.broken is None and self.saga.works


def checked_name(name: object) -> str:
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
        raise InputError(f"{name!r} is not a checkpoint's name: use 1 to {LONGEST_NAME} printable characters")
    return name


def first(kind: type[_Raised], exc: BaseException) -> _Raised | None:
    """The first exception of a kind, alone or in a group: a TaskGroup wraps what its branches raised."""
    if isinstance(exc, BaseExceptionGroup):
        found = (first(kind, one) for one in cast("BaseExceptionGroup[BaseException]", exc).exceptions)
        return next((each for each in found if each is not None), None)
    return exc if isinstance(exc, kind) else None
