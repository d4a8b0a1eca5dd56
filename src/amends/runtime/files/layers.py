"""A saga's changesets while it is driven: each step that works on files has a layer, which lives and dies with it.

    intent durable          a layer is begun, over the layers that the journal knows
    the action works        in the layer, and nowhere else
    it returns              the layer is sealed; that goes on record with the outcome, in one entry
    it fails                the layer is dropped
    it is taken back        its layer is dropped, and the tree below was never touched

    killed in the action    an open layer: dropped by whoever opens the changeset next
    killed after the seal   a layer that no outcome names: dropped likewise, and the action is repeated
    killed after a drop     a step that is being taken back may have lost its layer already: that is fine

The journal is the truth, and a layer counts only if it stands there. One step at a time works on files, from its
intent to its end, so that layers lie in the order of the intents; steps that ask for it at once wait for each other.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar, cast

from amends.changeset import Changeset, Conflicted, Life, Terms
from amends.clock import SystemClock
from amends.core.state.saga import Step
from amends.core.transitions import SagaStatus, StepStatus
from amends.core.words.values import SagaId, StepId
from amends.errors import (
    ChangedSince,
    ChangesetBusyError,
    ChangesetDamagedError,
    ChangesetError,
    Fatal,
    NotDone,
)
from amends.logs import logger
from amends.process.threads import in_thread
from amends.runtime.declare.action import Action, Done
from amends.runtime.drive.children import known_as, revert_landing
from amends.runtime.drive.run import Run
from amends.runtime.files.attempt import FileAttempt
from amends.runtime.files.branches import give_up, is_dropped, is_pruned, life_of, place_of
from amends.runtime.files.by_hand import by_hand
from amends.runtime.files.errors import certain
from amends.runtime.files.given import ChangesetPlace, SagaFiles, place_in
from amends.runtime.files.landing import take_back
from amends.runtime.files.sharing import CALL_TOPIC, Inherited, at_work, branch_place, fit, inherited, layers_of
from amends.runtime.files.topics import BY_HAND, LAND, MERGE, UNMERGE
from amends.runtime.files.verifying import secrets_of_work
from amends.secrets import Secret

T = TypeVar("T")
_log = logger("amends.files")


class Layers:
    """Of one saga's run. Everything here that waits for a disk does so in a thread."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._open: dict[str, Changeset] = {}
        self._terms: dict[str, Terms] = {}
        self._fresh: dict[tuple[str, ...], list[str]] = {}
        self._using = asyncio.Lock()
        self.known: list[SagaFiles] = []
        self.turn = asyncio.Lock()

    def know(self, files: SagaFiles) -> SagaFiles:
        """Know the same trees as the same files, however often they are asked for."""
        for one in self.known:
            if (one.trees, one.state) == (files.trees, files.state):
                return one
        self.known.append(files)
        return files

    def place(self, files: SagaFiles) -> ChangesetPlace:
        """Which changeset it is now: the one that the journal names, or a new one, which it then will.

        Its id goes on record with the first intent that names it, before there is such a changeset. Of a child that
        shares its parent's, or has a branch of it, it is that.
        """
        if (given := self.inherited(files)) is not None:
            return given.place
        ids = dict.fromkeys(
            known.changeset
            for step in self._run.book.saga.steps.values()
            if (known := place_in(step.args)) is not None and known.roots == files.trees
        )
        known_ids = [*ids, *(each for each in self._fresh.get(files.trees, ()) if each not in ids)]
        if len(known_ids) <= files.landings:
            fresh = f"{fit(self.saga)}-{SystemClock().new_id()[-10:]}".lstrip("-")
            self._fresh.setdefault(files.trees, []).append(fresh)
            known_ids.append(fresh)
        place = ChangesetPlace(changeset=known_ids[files.landings], roots=files.trees, state=files.state)
        self._terms[place.changeset] = files.terms
        return place

    def inherited(self, files: SagaFiles) -> Inherited | None:
        """The parent's changeset, or the branch of it, that the saga has, where it is of these trees."""
        given = inherited(self._run.begun)
        is_it = given is not None and (given.place.roots, given.place.state) == (files.trees, files.state)
        return given if is_it else None

    def is_shared(self, changeset: str) -> bool:
        """Whether it is a parent's changeset, and not the saga's own."""
        given = inherited(self._run.begun)
        return given is not None and given.place.changeset == changeset and not given.is_branch

    def _is_branch(self, changeset: str) -> bool:
        given = inherited(self._run.begun)
        return given is not None and given.place.changeset == changeset and given.is_branch

    async def fork(self, place: ChangesetPlace, make: Callable[[Changeset], None]) -> None:
        """Have a branch made of what is on record of a changeset, and durable."""
        async with self.turn:
            await self._run.book.commit()
            with certain():
                changeset = await self.opened(place)
                await self.in_thread(lambda: make(changeset))

    async def lend(self, place: ChangesetPlace) -> None:
        """Have a changeset ready for a child that shares it, and let go of it: one saga at a time has it open."""
        async with self._using:
            terms = self._terms.get(place.changeset)
            with certain():
                await self.in_thread(lambda: _made(place, self._run.begun.definition, terms, self.saga))
        await self.let_go(place)

    async def let_go(self, place: ChangesetPlace) -> None:
        async with self._using:
            changeset = self._open.pop(place.changeset, None)
            if changeset is not None:
                await self.in_thread(changeset.close)

    def went_back(self, steps: Iterable[StepId]) -> None:
        """Steps were taken back, landings perhaps among them: their files are again what they were before."""
        for step in steps:
            state = self._run.state(step)
            place = place_in(state.args)
            if state.topic == LAND and place is not None and isinstance(state.result, dict):
                for files in self.known:
                    if state.result.get("landed") and (files.trees, files.state) == (place.roots, place.state):
                        files.landings -= 1

    @property
    def saga(self) -> SagaId:
        return self._run.book.saga.id

    @property
    def settle_s(self) -> float:
        return self._run.around.settings.settle_s

    async def secrets(self) -> tuple[Secret, ...]:
        """Secrets that what lands may hold, and nothing that is said of it may tell."""
        return await secrets_of_work(self._run)

    async def in_thread(
        self, call: Callable[[], T], *, stop: Callable[[], None] | None = None, wait_s: float | None = None
    ) -> T:
        return await in_thread(self.saga, call, stop=stop, wait_s=wait_s)

    # -- forward ------------------------------------------------------------------------------------------------------

    def attempt(self, state: Step, action: Action[..., Any], args: dict[str, Any]) -> FileAttempt:
        """The call in the place of the action."""
        place = place_in(state.args)
        if place is None:
            raise NotDone(f"{action.topic} works on files, and its arguments name no changeset")
        return FileAttempt(self, state, action, args, place)

    async def opened(self, place: ChangesetPlace) -> Changeset:
        """The changeset, with the layers that stand in the journal and no others."""
        async with self._using:
            called = at_work(self._run.book.saga, place.changeset)
            if called is not None:
                raise ChangesetBusyError(f"the child of step {called.id} works in changeset {place.changeset}")
            changeset = self._open.get(place.changeset)
            if changeset is None:
                changeset = await self.in_thread(lambda: self._opening(place))
                self._open[place.changeset] = changeset
            sealed, doubtful = self._on_record(place)
            newest = max(sealed | doubtful, default=changeset.forked_at)
            is_ours = self._knows_all and changeset.life in {Life.ACTIVE, Life.REVIEW}
            if changeset.newest > newest and is_ours:
                await self.in_thread(lambda: changeset.rewind(newest))  # sealed, and never on record
            return changeset

    def _opening(self, place: ChangesetPlace) -> Changeset:
        sealed, doubtful = self._on_record(place)
        if sealed and self.is_shared(place.changeset) and life_of(place) is Life.DROPPED:
            raise Fatal(f"changeset {place.changeset} was dropped since: its saga was taken back", happened=False)
        if self._is_branch(place.changeset) and life_of(place) is None:
            raise ChangesetDamagedError(f"branch {place.changeset} is not there any more: restore its state directory")
        return Changeset.open(
            *place.roots,
            id=place.changeset,
            name=self._run.begun.definition,
            state=place.state,
            terms=self._terms.get(place.changeset),
            sealed=sealed if self._knows_all else None,
            doubtful=doubtful,
            saga=self.saga,
        )

    def _on_record(self, place: ChangesetPlace) -> tuple[dict[int, str], dict[int, str]]:
        """The layers that the journal knows, by number: those that stand, and those that may have been dropped."""
        return layers_of(self._run.book.saga, place.changeset)

    # -- back ---------------------------------------------------------------------------------------------------------

    def compensation(self, state: Step, declared: Callable[..., object] | None) -> Callable[..., object] | None:
        """Compensation of a step that worked on files, after what its action has declared; else the declared one."""
        place = place_in(state.args)
        if place is None:
            return declared

        async def back(done: Done) -> None:
            async with self.turn:  # a branch beside this one may be at work
                with certain():
                    await take(done)

        async def take(done: Done) -> None:
            if state.topic == LAND or not place.fork:
                await self._take_landings_back(place)
            if state.topic == LAND:
                if await self.in_thread(lambda: is_pruned(place)):
                    return
                changeset = await self.opened(place)
                await self.in_thread(lambda: take_back(changeset, place, done))
                if self.is_shared(place.changeset) and changeset.life is Life.ACTIVE:  # it was landed by hand
                    await self.in_thread(changeset.review)
                return
            if state.topic == CALL_TOPIC and not place.fork:
                await self.let_go(place)  # the child takes its own layers back
            if declared is not None:
                said: object = await self._called(declared, done)
                if isinstance(said, Awaitable):
                    await cast("Awaitable[object]", said)
            if state.topic != UNMERGE:
                await self._drop(state, place)
            if state.topic == MERGE:
                branch = place_of(done.args["branch"])
                await self.in_thread(lambda: give_up(branch, self.saga))

        async def take_with_branch(done: Done) -> None:
            """The child takes its own layers back; but if they were merged, all of its branch goes at once."""
            branch = branch_place(place, await known_as(self.saga, state.id))
            with certain():
                if await self.in_thread(lambda: life_of(branch)) is Life.MERGED:
                    await self.in_thread(lambda: give_up(branch, self.saga))
            if declared is not None:
                await cast("Awaitable[object]", declared(done))
            with certain():
                await self.in_thread(lambda: give_up(branch, self.saga))

        return take_with_branch if state.topic == CALL_TOPIC and place.fork else back

    async def _called(self, function: Callable[..., object], done: Done) -> object:
        if inspect.iscoroutinefunction(function):
            return function(done)
        return await self.in_thread(lambda: function(done))

    async def _take_landings_back(self, place: ChangesetPlace) -> None:
        """A person may have landed the saga's changeset, by a saga of its own: that goes back first."""
        if self.is_shared(place.changeset) or self._is_branch(place.changeset):
            return

        for each in await by_hand(self._run.around.lock_queue.journal, place.changeset):
            if not each.status.has_gone_back:
                await self.let_go(place)
                await revert_landing(each.id, f"saga {self.saga} is taken back, whose changeset it landed")

    def _is_vouched_for(self, place: ChangesetPlace) -> bool:
        """Whether a person has vouched for a landing of it by the saga itself, which could not be taken back."""
        return any(
            step.topic == LAND and step.status is StepStatus.SETTLED and place_in(step.args) == place
            for step in self._run.book.saga.steps.values()
        )

    async def _drop(self, state: Step, place: ChangesetPlace) -> None:
        if self._is_branch(place.changeset) and await self.in_thread(lambda: is_dropped(place)):
            return
        if await self.in_thread(lambda: is_pruned(place)):
            return
        changeset = await self.opened(place)
        standing = self._on_record(place)[0]
        number = int(state.layer.partition(":")[0]) if state.layer else max(standing, default=changeset.forked_at) + 1
        shared = self.is_shared(place.changeset)
        if shared and changeset.newest > max(standing | {number: ""}):
            standing = {**standing, changeset.newest: ""}  # others of the family have worked on them since
        if state.layer and changeset.landed_as is not None:
            if self._is_vouched_for(place):
                return
            raise ChangedSince(
                f"layer {number} has landed as a part of changeset {changeset.id} (landing {changeset.landed_as}), and "
                "that landing stands: take the landing back first. If somebody landed it by hand, put the tree right, "
                "and resolve this"
            )
        alone = self._run.book.saga.rollback is None or shared
        if alone and any(each > number for each in standing):
            await self.in_thread(lambda: _dropped_alone(changeset, number))
            return
        await self.in_thread(lambda: _rewound(changeset, number - 1))

    # -- at the end ---------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Let go of the changesets; say of those of a saga that has ended what became of them."""
        phase = self._run.book.saga.phase
        for changeset in self._open.values():
            left = functools.partial(self._left, changeset, phase)
            try:
                await self.in_thread(left)
            except (ChangesetError, OSError) as exc:
                _log.warning("changeset %s could not be closed properly: %s", changeset.id, exc)
        self._open.clear()

    def _left(self, changeset: Changeset, phase: SagaStatus) -> None:
        try:
            if self.is_shared(changeset.id):
                if self._is_by_hand and changeset.life is Life.ACTIVE and phase.ended:
                    changeset.review()  # it waits for a person again
            elif changeset.life is Life.ACTIVE and phase.has_gone_back:
                changeset.drop()
            elif changeset.life is Life.ACTIVE and phase is SagaStatus.COMPLETED and changeset.steps():
                changeset.review()
        finally:
            changeset.close()

    @property
    def _knows_all(self) -> bool:
        """Whether a layer that it does not know is nobody's. What was done by hand knows nothing of what came after."""
        return not (self._is_by_hand and self._run.book.saga.rollback is not None)

    @property
    def _is_by_hand(self) -> bool:
        """Whether the saga is what a person does to another one's changeset."""
        return self._run.begun.definition in BY_HAND


def _made(place: ChangesetPlace, name: str, terms: Terms | None, saga: SagaId) -> None:
    """Make a changeset that is not there yet, on the terms of whoever lends it."""
    if life_of(place) is None:
        Changeset.open(*place.roots, id=place.changeset, name=name, state=place.state, terms=terms, saga=saga).close()


def _dropped_alone(changeset: Changeset, number: int) -> None:
    """Without one layer that others lie over: a step beside this one has worked on the same files since."""
    ended = changeset.drop_step(number)
    if isinstance(ended, Conflicted):
        raise ChangedSince(
            "a step beside this one has changed the same since, and it stands. Take both back, or give branches that "
            f"may go back alone files of their own\n{ended.text()}"
        )


def _rewound(changeset: Changeset, to: int) -> None:
    """Without its newest layers. One that has none is given up, before anybody says that it was taken back."""
    if changeset.life not in {Life.ACTIVE, Life.REVIEW}:
        return
    if changeset.newest > to:
        changeset.rewind(to)
    if to == changeset.forked_at:
        changeset.drop()
