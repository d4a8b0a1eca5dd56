"""Child sagas: `s.call` as a built-in action, whose effect is that another saga runs to its end.

Judged, journaled, repeated, probed and compensated like any step, so it needs no machinery of its own: the forward call
starts the child or joins it (its id follows from the parent's and the step's), the probe asks how the child ended, and
the compensation takes the child back, also after it completed. A saga that has the id and does not say that it is this
step's child, of the same definition and input, is a stranger's: the step certainly fails, and lets it alone.

| the child                      | the parent's step                                                                 |
|--------------------------------|-----------------------------------------------------------------------------------|
| completed                      | succeeded, with the child's result                                                |
| holds steps, and nothing else  | succeeded too; the child completes when nothing in the family can fail any more   |
| was rolled back                | certainly failed: nothing of it stands                                            |
| was mitigated, by a person     | failed, and is not started again: it is mitigated when the parent goes back       |
| waits, or is an incident       | nobody knows yet: the parent rests, and looks again when the child has ended      |
| completed, and is taken back   | compensated once the child is rolled back                                         |
| has a pivot, or cannot go back | its compensation failed: an incident of the parent's that names the child         |
| has a pivot, and a person has  | mitigated once the child is                                                       |
| the parent mitigated           |                                                                                   |
| never began, and is taken back | is put on record as cancelled before its first step: nobody can begin it any more |
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from amends.core import commands as c
from amends.core.decide import decide
from amends.core.decide.limits import goes_back
from amends.core.events import Event, SagaStarted
from amends.core.state.deciders import DELEGATES
from amends.core.state.limits import within_of
from amends.core.state.reasons import because_of
from amends.core.state.saga import Saga, evolve, unstarted
from amends.core.transitions import SagaStatus
from amends.core.words.values import HOLDS, MITIGATED, RUNTIME, SESSION, Json, SagaId, StepId, canonical
from amends.errors import (
    Fatal,
    JournalConflictError,
    JournalError,
    PastPivotError,
    RefusedError,
    UnknownDefinitionError,
)
from amends.journal.port.journal import PARENT, ROOT, Journal, Summary
from amends.runtime.declare.action import Asked, Done, Happened, NotHappened, Pending
from amends.runtime.declare.definition import SagaDefinition
from amends.runtime.declare.limits import journaled, within_time
from amends.runtime.drive.asking import LOOK_AGAIN_S
from amends.runtime.drive.children import here
from amends.runtime.drive.family import PARENT_STEP, Family, current
from amends.runtime.drive.kinship import (
    child_id,
    former_child_id,
    is_strange,
    require_child,
    says_it_is,
    standing_below,
)
from amends.runtime.drive.worker_context import WorkerContext
from amends.runtime.engine.background import BackgroundTasks
from amends.runtime.engine.built_in import know_built_in
from amends.runtime.engine.handle import Ended, parent_of
from amends.runtime.saga.open import UNTIL_OPENED, OpenDefinition
from amends.runtime.settings import bounded
from amends.runtime.values.bounded import keep_off_loop, small_or_off_loop
from amends.secrets import Secret

if TYPE_CHECKING:
    from collections.abc import Callable

    from amends.runtime.engine.local import LocalEngine

DEPTH: Final = "amends.depth"
ON_BEHALF_OF: Final = "amends.on_behalf_of"
DEEPEST: Final = 16
_NOT_STARTED_WITH: Final = frozenset({"files", "timeout_s"})
_GO_BACK: Final = frozenset(SagaStatus) - {SagaStatus.RUNNING, SagaStatus.WAITING, SagaStatus.COMPLETED}


class Children:
    """The children of one engine, as its built-in actions act on them."""

    def __init__(
        self,
        engine: LocalEngine,
        around: WorkerContext,
        journal: Journal,
        nudge: Callable[[tuple[SagaId, ...]], None],
        background: BackgroundTasks,
    ) -> None:
        self._engine = engine
        self._around = around
        self._journal = journal
        self._background = background
        self.family = Family(engine, around, journal, nudge, background.run)
        self.closing = asyncio.Event()
        self.stirs: dict[asyncio.Future[Ended | None], SagaId] = {}
        """The parents that look again because a child of theirs has ended."""
        know_built_in(around.registry)

    def enter(self) -> None:
        """The calling task drives sagas of this engine; so does whatever it starts."""
        here.set(self)
        current.set(self.family)

    def know(self, definition: SagaDefinition) -> None:
        """A saga has called it: it is found by its name from now on, here and in the steps to come."""
        self._around.registry.add_definition(definition)

    def definition(self, name: str, version: int) -> SagaDefinition:
        return self._around.registry.child_definition(name, version)

    # -- forward ------------------------------------------------------------------------------------------------------

    async def call(
        self,
        parent: SagaId,
        step: StepId,
        definition: str,
        version: int,
        given: object,
        actor: str,
        files: Json,
        timeout_s: float | None = None,
    ) -> Json:
        child = await self.known_as(parent, step)
        begun = await self._engine.begun(child)
        if begun is None:
            await self._begin(child, parent, step, definition, version, given, actor, files, timeout_s)
        else:
            about = (begun, child, parent, step, definition, version, given)
            await small_or_off_loop(partial(require_child, *about))
            self._engine.keep_secrets(child, await self._secrets_in(given, child))
            if not goes_back(await self._engine.state(parent), step):
                await self.family.let_go_on(child)
        state = await self._at_rest(child)
        if state is not None and state.begun is not None:  # whoever began it first
            about = (state.begun, child, parent, step, definition, version, given)
            await small_or_off_loop(partial(require_child, *about))
        if state is None or not (state.phase.ended or state.rests):
            raise RefusedError(f"child {child} {_stands(state)}; it is asked again when it has ended")
        await self._count(state)
        if state.phase.has_gone_back:
            if files is not None:
                from amends.runtime.files.branches import give_up_for

                await give_up_for(child, files)
            if state.phase is SagaStatus.MITIGATED:  # what stands of it is told when this step is taken back
                raise Fatal(f"child {child} was mitigated by {state.mitigated_by}: {_why(state)}")
            raise Fatal(f"child {child} was rolled back: {_why(state)}", happened=False)
        return _told(state)

    async def _begin(
        self,
        child: SagaId,
        parent: SagaId,
        step: StepId,
        definition: str,
        version: int,
        given: object,
        actor: str,
        files: Json,
        timeout_s: float | None,
    ) -> None:
        above, row = await self._engine.begun(parent), await self._journal.saga(parent)
        if above is None or row is None:
            raise Fatal(f"saga {parent} calls {definition}, and is not on record", happened=False)
        if row.status in _GO_BACK and goes_back(await self._engine.load(parent), step):  # by another worker, perhaps
            raise _begins_no_child(parent)
        try:
            declared = self._around.registry.child_definition(definition, version)
        except UnknownDefinitionError as exc:
            raise Fatal(str(exc), happened=False) from None
        said = (self._around.settings.limits, declared.options.limits)
        asked, now = within_time(timeout_s, *said), self._around.clock.now()
        limits = journaled(*said, asked, now=now, within=within_of(above.limits))
        kept = await keep_off_loop(given, child, f"saga {definition}: input")
        start = _started(above, parent, step, definition, version, kept.value, actor)
        await self._require_an_end(start, above)
        start = bounded(start, declared.options, self._around.settings)
        start = replace(start, because=because_of(await self._engine.state(parent), step), module=declared.module)
        start = replace(start, limits=limits, files=await self._handed_down(parent, files, start, child))
        if isinstance(declared, OpenDefinition):
            labels = {**start.labels, SESSION: "open"}
            start = replace(start, session=UNTIL_OPENED.as_json(), labels=labels)
        if (driven := self._engine.driven(parent)) is not None and goes_back(driven, step):
            raise _begins_no_child(parent)  # asked in the same breath: from here on it is found, and told to stop
        _ = self._engine.begin(declared, start, child, kept.secrets)

    @staticmethod
    async def _secrets_in(given: object, child: SagaId) -> tuple[Secret, ...]:
        return (await keep_off_loop(given, child, "what a child is given")).secrets

    async def _handed_down(self, parent: SagaId, files: Json, start: c.StartSaga, child: SagaId) -> Json:
        """Which layers of its parent's a child finds, where it shares the files; or the branch that it works in."""
        if files is None:
            return None
        from amends.runtime.files.branches import fork_for
        from amends.runtime.files.sharing import handed_down

        await fork_for(child, start.definition, files)
        return handed_down(await self._engine.load(parent), files, child)

    async def _count(self, ended: Saga) -> None:
        """Put what a child has used up on its parent's record before its end is."""
        if ended.budget is not None:
            await self.family.count(ended)

    async def _require_an_end(self, start: c.StartSaga, above: SagaStarted) -> None:
        """A saga that calls itself, or whoever called it, with what it was given, would never end."""
        if int(start.labels[DEPTH]) > DEEPEST:
            raise Fatal(
                f"{start.definition} would be a child {start.labels[DEPTH]} deep, and {DEEPEST} is the most: "
                "let one saga call several instead",
                happened=False,
            )
        wanted = canonical(start.input)
        ancestor: SagaStarted | None = above
        while ancestor is not None:
            same = (ancestor.definition, ancestor.version) == (start.definition, start.version)
            if same and canonical(ancestor.input) == wanted:
                raise Fatal(
                    f"{start.definition} calls itself with the input that it was given, directly or through a child, "
                    "and would never end; give it less to do each time",
                    happened=False,
                )
            over = ancestor.labels.get(PARENT)
            ancestor = None if over is None else await self._engine.begun(SagaId(over))

    async def known_as(self, parent: SagaId, step: StepId) -> SagaId:
        """The id of a step's child: the one that an older amends gave it, where it began under that."""
        child, former = child_id(parent, step), former_child_id(parent, step)
        if former != child and await self._journal.saga(child) is None:
            row = await self._journal.saga(former)
            if row is not None and (row.labels.get(PARENT), row.labels.get(PARENT_STEP)) == (parent, step):
                return former
        return child

    async def _state(self, saga: SagaId) -> Saga | None:
        """How a saga stands by the journal; None where there is no such saga."""
        return None if await self._journal.saga(saga) is None else await self._engine.load(saga)

    def ended(self, saga: Saga) -> None:
        """A saga is not driven any more. Where it is a child that has ended, its parent need not wait to look."""
        parent = parent_of(saga)
        if parent is not None and (saga.phase.ended or saga.rests) and not self.closing.is_set():
            stir = self._background.begin(self._stir(parent))
            self.stirs[stir] = parent
            stir.add_done_callback(self.stirs.pop)

    async def _stir(self, parent: SagaId) -> Ended | None:
        begun = await self._engine.begun(parent)
        known = self._around.registry.definition_names()
        is_open_here = parent in self._engine.sessions.here
        if begun is not None and (is_open_here or f"{begun.definition}/{begun.version}" in known):
            return await self._engine.stir(parent)
        return None

    # -- asked, and taken back ----------------------------------------------------------------------------------------

    async def ask(self, asked: Asked) -> Happened | NotHappened | Pending:
        child = await self.known_as(asked.saga, asked.step)
        parent = await self._state(asked.saga)
        is_taken_back = parent is not None and goes_back(parent, asked.step)
        state = await self._state(child)
        if state is None and is_taken_back and await self._bury(child, asked):
            return NotHappened()
        state = state or await self._state(child)
        if state is not None and await small_or_off_loop(partial(is_strange, state, asked)):
            return NotHappened()
        if state is not None and not is_taken_back:
            await self.family.let_go_on(child)
            state = await self._at_rest(child)
        if state is not None and (state.phase.ended or state.rests):
            await self._count(state)
        if state is None or state.phase is SagaStatus.ROLLED_BACK:
            return NotHappened()
        if state.phase is SagaStatus.MITIGATED:
            called = (await self._engine.state(asked.saga)).steps.get(asked.step)
            is_told = is_taken_back or (called is not None and called.given_up)
            return Happened(_told(state)) if is_told else NotHappened()  # else it is called again, and hears of it
        if state.phase is SagaStatus.COMPLETED or state.rests or is_taken_back:
            return Happened(_told(state))
        return Pending(LOOK_AGAIN_S)

    async def take_back(self, done: Done) -> Json:
        """Cancel the child of a step, and see it rolled back; where a person has its parent mitigated, mitigated."""
        child = await self.known_as(done.saga, done.step)
        state = await self._state(child)
        if state is None and await self._bury(child, done):
            return None
        state = state or await self._state(child)
        if state is None or await small_or_off_loop(partial(is_strange, state, done)):
            return None  # nothing of this step stands
        person = (await self._engine.state(done.saga)).mitigated_by
        self._engine.keep_secrets(child, await self._secrets_in(done.args["given"], child))
        ended = await self.revert(child, f"its parent {done.saga} takes back step {done.step}", mitigated_by=person)
        return {MITIGATED: True} if ended is SagaStatus.MITIGATED else None

    async def revert_own(self, parent: SagaId, child: SagaId) -> None:
        """Take a child back by its id. Raises Fatal where it is another saga's, or nobody's."""
        begun = await self._engine.begun(child)
        if begun is not None and begun.labels.get(PARENT) != parent:
            raise Fatal(f"saga {child} is no child of {parent}, which cannot take it back", happened=False)
        await self.revert(child, f"its parent {parent} reverts it")

    async def revert(
        self, child: SagaId, why: str, what: str = "child", *, mitigated_by: str = ""
    ) -> SagaStatus | None:
        """Take a saga back, and see to its end; past its pivot where a person has asked for that. How it ended."""
        engine = self._engine
        cancel = c.CancelSaga(
            by=mitigated_by or RUNTIME,
            why=why,
            mitigate=bool(mitigated_by),
            follows=True,
        )
        await self._ask_back(child, cancel, what)
        while True:
            await engine.drive(child)
            state = await self._state(child)
            if state is None:
                return None
            if state.phase.has_gone_back:
                await self._count(state)
                return state.phase
            if state.phase is SagaStatus.INCIDENT and mitigated_by and not state.mitigated_by:
                await self._ask_back(child, cancel, what)  # it had begun to go back without
                continue
            if state.phase is SagaStatus.INCIDENT:
                named = ", ".join(f"{child}/{one.number}" for one in state.open_incidents)
                raise Fatal(f"{what} {child} could not be rolled back ({named}): {_why(state)}", happened=False)
            await self._around.clock.sleep(self._around.settings.poll_s)  # another worker has it

    async def unsigned_below(self, saga: Saga, by: str) -> tuple[str, ...]:
        """The incidents of its children, and theirs, that would be closed in somebody's name, and take a signature,
        where they have it go back with mitigation.
        """
        cancel = c.CancelSaga(by=by, why="", mitigate=True, follows=True)
        return tuple(
            [
                f"{child.id}/{one.number}"
                async for child in standing_below(self._journal, saga)
                if await self._takes_signature(child, cancel)
                for one in child.open_incidents
            ]
        )

    async def _takes_signature(self, child: Saga, cancel: c.CancelSaga) -> bool:
        """Whether what would go on record in a child, as its parent goes back, counts only if somebody signs it."""
        policies = self._engine.policies
        if policies is None or child.phase is not SagaStatus.INCIDENT:
            return False
        try:
            coming = decide(child, cancel, self._around.moment())
        except RefusedError:
            return False
        return bool(await policies.why_unsigned(child, coming))

    async def _ask_back(self, child: SagaId, cancel: c.CancelSaga, what: str) -> None:
        state = await self._state(child) if cancel.mitigate else None
        if state is not None and await self._takes_signature(state, cancel):
            named = ", ".join(f"{child}/{one.number}" for one in state.open_incidents)
            raise Fatal(f"{what} {child} goes back once somebody has resolved or retried {named}", happened=False)
        try:
            await self._engine.request(child, cancel)
        except PastPivotError as exc:
            await self._drop_held(child, cancel.why)
            await self.family.let_go_on(child)  # its pivot landed as it stood still: it goes forward only
            raise Fatal(f"{what} {exc}", happened=False) from None
        except RefusedError:  # its rollback has begun already
            await self.family.let_go_on(child)

    async def _drop_held(self, child: SagaId, why: str) -> None:
        """One that cannot be taken back stays, and completes; but what it holds for its family never goes out."""
        state = await self._state(child)
        if state is None or not state.rests:
            return
        for step in state.lent:
            await self._drop_held(await self.known_as(child, step.id), why)
        with suppress(RefusedError):  # another has had it go on meanwhile
            await self._engine.request(child, c.DropHeld(why=why))
        await self._engine.drive(child)

    async def _bury(self, child: SagaId, step: Done | Asked) -> bool:
        """Put a child that never began on record as cancelled, so that a late attempt of its parent begins nothing."""
        above = await self._engine.begun(step.saga)
        if above is None:
            return True
        named = {name: value for name, value in step.args.items() if name not in _NOT_STARTED_WITH}
        kept = await keep_off_loop(named["given"], child, f"saga {named['definition']}: input")
        given: dict[str, Any] = {**named, "given": kept.value}
        start = _started(above, step.saga, step.step, **given)
        cancel = c.CancelSaga(by=RUNTIME, why="its parent was taken back first")
        state, events, moment = unstarted(child), list[Event](), self._around.moment()
        for command in (start, cancel, c.EndSaga()):
            for event in decide(state, command, moment):
                state = evolve(state, event)
                events.append(event)
        try:
            await self._journal.append(child, events, after=0, summary=Summary(state.status))
        except JournalConflictError:
            return False
        return True

    async def ends_with(self, parent: SagaId, step: StepId) -> bool:
        """Whether the child of a step holds nothing any more: it has completed, or was taken back since."""
        state = await self._state(await self.known_as(parent, step))
        return state is None or state.phase.ended or not says_it_is(state, parent, step)

    async def release(self, parent: SagaId, step: StepId) -> bool:
        """Have the child of a step release what it holds; whether it has ended. Raises RefusedError: try again."""
        child = await self.known_as(parent, step)
        if await self.ends_with(parent, step):
            return True
        with suppress(RefusedError):  # it is paused, or a person has to see to it: its parent looks again
            await self._engine.request(child, c.SettleFamily(by=f"saga:{parent}"))
        state = await self._at_rest(child)
        return state is None or state.phase.ended

    async def _at_rest(self, child: SagaId) -> Saga | None:
        """Drive the child where nobody else does, until nothing more is due; how it stands then."""
        engine = self._engine
        try:
            if engine.running(child) is None:
                await engine.go_on(child)
            handle = engine.running(child)
            if handle is not None:
                driven = asyncio.ensure_future(handle.halt())
                closing = asyncio.ensure_future(self.closing.wait())
                try:
                    await asyncio.wait({driven, closing}, return_when=asyncio.FIRST_COMPLETED)
                    if driven.done():
                        driven.result()
                finally:
                    driven.cancel()
                    closing.cancel()
        except JournalError as exc:  # another worker has it now, or the journal failed: its parent looks again
            raise RefusedError(f"child {child} is not driven here any more: {exc}") from exc
        return await self._state(child)


def _started(
    above: SagaStarted,
    parent: SagaId,
    step: StepId,
    definition: str,
    version: int,
    given: Json,
    actor: str,
) -> c.StartSaga:
    """Command to start a child. Environment, labels and actor come from its parent; nothing goes the other way."""
    labels = {
        **above.labels,
        PARENT: parent,
        PARENT_STEP: step,
        ROOT: above.labels.get(ROOT, parent),
        DEPTH: str(int(above.labels.get(DEPTH, "0")) + 1),
    }
    if actor and actor != above.actor:
        labels[ON_BEHALF_OF] = above.actor
        labels[DELEGATES] = ",".join(filter(None, (above.labels.get(DELEGATES, ""), above.actor)))
    return c.StartSaga(
        definition=definition,
        version=version,
        input=given,
        actor=actor or above.actor,
        env=above.env,
        labels=labels,
        taken_for=above.taken_for,
    )


def _told(child: Saga) -> dict[str, Json]:
    """The result that its parent's step has of a child that has done its work."""
    holds: dict[str, Json] = {HOLDS: True} if child.rests else {}
    return {"child": child.id, "result": child.result, **holds, **_left_behind(child)}


def _left_behind(child: Saga) -> dict[str, Json]:
    """The layers that a child leaves to its parent, where it shares its changeset or has a branch of it."""
    if child.begun is None or child.begun.files is None:
        return {}
    from amends.runtime.files.sharing import brought_back

    return brought_back(child)


def _begins_no_child(parent: SagaId) -> Fatal:
    return Fatal(f"saga {parent} goes back, and begins no child any more", happened=False)


def _stands(state: Saga | None) -> str:
    return "has not begun" if state is None else f"is {state.status.replace('_', ' ')}"


def _why(state: Saga) -> str:
    incidents = "; ".join(one.why for one in state.open_incidents)
    return incidents or (state.rollback.why if state.rollback is not None else "")
