"""One run of a saga, with one thing going wrong in it: to its end, back again, and asked about after each.

A run that completes is then taken back, so that both ways are seen and the world is left as it was. One that ends in an
incident that was brought about is retried, with nothing going wrong any more, as a person would.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import inspect
from collections.abc import Callable
from typing import Final

from amends.core.events import RollbackAwaited, RollbackStarted
from amends.core.state.saga import Saga, Step
from amends.core.transitions import ApprovalStatus, SagaStatus
from amends.core.words.globs import some_match
from amends.core.words.outcomes import Succeeded
from amends.core.words.values import StepId
from amends.drill.asking import Questions
from amends.drill.family import DrilledFamily
from amends.drill.faults import BACK, CALLS_PERSON, OTHERS, WHOLE, Change, Fault, Place, Stop, called_for
from amends.drill.findings import Finding, Mark, Witness, differing, doubtful, failed, findings, short
from amends.drill.stage import DrilledLife, Setting, Stage
from amends.drill.world import Account
from amends.errors import PastPivotError, RefusedError
from amends.journal.port.journal import Entry
from amends.runtime.coordinator.coordinator import Coordinator
from amends.runtime.declare.action import Asked, captures
from amends.runtime.drive.executor import Call
from amends.runtime.engine.handle import Ended, ended

_ROUNDS: Final = 50
PERSON: Final = "person:drill"


class Rehearsal:
    """One place where something goes wrong, and one run of the saga there."""

    def __init__(self, setting: Setting, place: Place, stop: Stop | None = None, *, mitigates: bool = False) -> None:
        self.setting = setting
        self.place = place
        self.mitigates = mitigates
        """Whether what completes is taken back past its pivot."""
        self.stage = Stage(setting, place, stop)
        self.found: list[Finding] = []
        self.questions = Questions(self.stage, self.found)
        self.status: SagaStatus | None = None
        """How it first ended, before anything was taken back."""
        self.left, self.wrote_last = DrilledFamily(self.stage.saga, {}), self.stage.saga
        """What was on record when it died, and whose the newest entry was."""
        self.asked_people: set[StepId] = set()
        self._before: object = None
        self._changed: object = None
        self._cancelling: asyncio.Task[Ended] | None = None
        self._dies = False
        self.points = 0
        """How many points it passed at which a process could have died."""
        self._people = 0
        """How many have approved something: somebody else each time, also after a death."""

    @property
    def was_hit(self) -> bool:
        """Whether the run came to the place at all."""
        return self.stage.executor.was_hit or self.stage.gate.was_hit

    async def play(self, ends_at: int | None = None) -> DrilledLife:
        """Run it; with `ends_at`, until it dies at that point, and then recover it."""
        setting, executor = self.setting, self.stage.executor
        await _called(setting.fresh)
        self._before = await self._snapshot()
        self._dies = ends_at is not None
        match self.place.fault:
            case Fault.CHANGED_SINCE:
                executor.before_undo = self._meddle
            case Fault.NOTHING if not self._dies:
                executor.after_action, executor.after_undo = self.questions.look_at_others, self.questions.look_at_older
            case Fault.TAKEN_BACK | Fault.MITIGATED:
                executor.after_undo = self.questions.look_at_older
            case _:
                pass
        life = await self.stage.live(self._perform, ends_at)
        self.points = len(life.passed)
        if life.stopped:
            self._dies = False
            self.left, self.wrote_last = await self.stage.family(), self.stage.last_writer
            self.stage.disarm()
            await self.stage.live(self._recover)
        if not self._dies:
            self.found += [Finding(Mark.FAILED, what) for what in await self.stage.evidence()]
        return life

    # -- the run ------------------------------------------------------------------------------------------------------

    async def _perform(self, coordinator: Coordinator) -> None:
        setting, executor = self.setting, self.stage.executor
        if self.place.fault is Fault.CANCELLED:
            executor.before_action = lambda: self._cancel(coordinator)
        handle = await coordinator.start_bound(
            self.stage.definition, setting.named, id=self.stage.saga, actor=setting.actor, labels=setting.labels
        )
        await self._go_on(coordinator, await handle.halt())

    async def _recover(self, coordinator: Coordinator) -> None:
        if await self.stage.entries():
            await coordinator.resume()
            await self._go_on(coordinator, ended(await self._saga()))

    async def _go_on(self, coordinator: Coordinator, end: Ended) -> None:
        end = await self._with_people(coordinator, end)
        if self._cancelling is not None:
            with contextlib.suppress(PastPivotError):  # it had gone out by then
                await self._cancelling
            end = ended(await self._saga())
        self.status = self.status or end.status
        if end.status is not SagaStatus.COMPLETED or self.place.fault not in BACK:  # else nothing has gone wrong yet
            await self._check(coordinator)
        if end.status is SagaStatus.COMPLETED:
            await self._take_back(coordinator)
        elif end.status is SagaStatus.INCIDENT:
            await self._retry(coordinator)

    async def _take_back(self, coordinator: Coordinator) -> None:
        try:
            await coordinator.cancel(self.stage.saga, why="drill: taken back", by=PERSON, mitigate=self.mitigates)
        except PastPivotError as exc:
            if self.mitigates:
                self.found.append(Finding(Mark.NOT_PROVEN, f"no mitigation could be tried: {short(str(exc))}"))
            return
        await self._check(coordinator)
        if self.place.fault in CALLS_PERSON:
            await self._retry(coordinator)

    async def _retry(self, coordinator: Coordinator) -> None:
        """Have a person try again, as what was brought about is over: then it has to work."""
        saga = await self._saga()
        kind = called_for(saga, self.place)
        if not any(one.kind is kind for one in saga.open_incidents):
            if kind is not None and self.was_hit and saga.phase.has_gone_back:
                self.found.append(failed(saga.steps[self.place.step], "it went wrong, and no person was called"))
            return
        self.stage.disarm()
        for _ in range(len(saga.steps) + 1):
            due = [one for one in saga.open_incidents if one.kind is kind]
            if not due:
                break
            try:
                await coordinator.retry_incident(f"{saga.id}/{due[0].number}", by=PERSON)
            except RefusedError:
                break  # it may have been done, and nobody can be asked: that takes a person who looks
            saga = await self._saga()
        await self._check(coordinator, Place(Fault.NOTHING))

    # -- people -------------------------------------------------------------------------------------------------------

    async def _with_people(self, coordinator: Coordinator, end: Ended) -> Ended:
        """Answer whatever people are asked, as the fault wants it."""
        for _ in range(_ROUNDS):
            if end.status is not SagaStatus.WAITING:
                return end
            rows = await coordinator.approvals()
            for row in rows:
                is_own = row.saga == self.stage.saga
                if is_own:
                    self.asked_people.add(row.step)
                await self._answer(coordinator, row.id, row.step if is_own else WHOLE)
            family = await self.stage.family()
            for account in reversed(list(family)):
                if not account.saga.phase.ended:
                    await coordinator.drive(account.saga.id)
            end = ended(await self._saga())
            if not rows and end.status is SagaStatus.WAITING:
                if any(family.waits(family.saga, step) for step in family.saga.steps.values()):
                    return end
                break
        self.found.append(Finding(Mark.FAILED, f"the saga does not end: it is {end.status}"))
        return end

    async def _answer(self, coordinator: Coordinator, approval: str, step: StepId) -> None:
        fault = self.place.fault if step == self.place.step else Fault.NOTHING
        asking = await coordinator.approval(approval)
        if fault in {Fault.REFUSED, Fault.EXPIRED}:
            self.stage.executor.was_hit = True
        if fault is Fault.REFUSED:
            await coordinator.refuse(approval, by=_approver(asking.needs[0].approvers, 0), why="drill: refused")
            return
        if fault is Fault.EXPIRED:
            self.setting.clock.skip((asking.expires_at - self.setting.clock.now()) / 1000 + 1)
            return
        for need in asking.needs:
            for _ in range(need.approvals):
                self._people += 1
                if (await coordinator.approval(approval)).status != ApprovalStatus.REQUESTED:
                    return
                await self._grant(coordinator, approval, _approver(need.approvers, self._people))

    async def _grant(self, coordinator: Coordinator, approval: str, by: str) -> None:
        try:
            await coordinator.grant(approval, by=by, why="drill: granted")
        except RefusedError as exc:
            self.found.append(Finding(Mark.NOT_PROVEN, f"an approval is asked for that a drill cannot give: {exc}"))
            await coordinator.refuse(approval, by=PERSON, why="drill: nobody can grant it")

    async def _cancel(self, coordinator: Coordinator) -> None:
        """Cancel the saga while its action is about to run, and let it run once that is on record.

        One that may be the pivot is waited for before anything goes back: that it is waited for is on record, too.
        """
        begun = asyncio.Event()

        def watch(entry: Entry) -> None:
            if isinstance(entry.event, RollbackStarted | RollbackAwaited):
                begun.set()

        stop = coordinator.observe(watch)
        self._cancelling = asyncio.ensure_future(coordinator.cancel(self.stage.saga, why="drill: cancelled", by=PERSON))
        waiting = asyncio.ensure_future(begun.wait())
        await asyncio.wait({self._cancelling, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        stop()

    # -- asking the world ---------------------------------------------------------------------------------------------

    async def _saga(self) -> Saga:
        return Account(await self.stage.entries()).saga

    async def _check(self, coordinator: Coordinator, place: Place | None = None) -> None:
        """Ask everyone who can tell, and note what is wrong. Not in a life that is about to die."""
        if self._dies:
            return
        family = await self.stage.family()
        answers, hidden = await self.questions.put(family)
        after = await self._snapshot()
        witness = Witness(
            answers,
            differing(self._before, after),
            self.setting.world is not None,
            hidden,
        )
        self.found += findings(family, self.stage.executor, place or self.place, witness)
        if self._changed is not None or self.place.fault is Fault.CHANGED_SINCE:
            await self._check_change(family.saga)

    async def _snapshot(self) -> object:
        """The world as it is now, which later changes leave alone."""
        return copy.deepcopy(await _called(self.setting.world))

    # -- somebody else ------------------------------------------------------------------------------------------------

    async def _meddle(self, call: Call) -> None:
        saga = await self._saga()
        step = saga.steps[call.step]
        change = OTHERS[step.topic]
        await _make_change(change, self.questions.asked(saga, step))
        self._changed = await self._look(saga, step)

    async def _look(self, saga: Saga, step: Step) -> object:
        """The state that somebody else has made: by the action's before-image, else by the snapshot of the world."""
        action = self.questions.action(step)
        if action.parts.before is None:
            return await self._snapshot()
        capture = captures(action.parts.before, action.parts.signature.names, self.questions.asked(saga, step))
        outcome = await self.stage.executor.make(
            self.questions.call(saga, step, "before", action.parts.before, capture)
        )
        return outcome.result if isinstance(outcome, Succeeded) else outcome

    async def _check_change(self, saga: Saga) -> None:
        step = saga.steps.get(self.place.step)
        if step is None or not self.was_hit:
            return
        if self.questions.action(step).parts.before is None and self.setting.world is None:
            self.found.append(doubtful(step, "it has no before-image to see by whether somebody else's change stands"))
        elif (now := await self._look(saga, step)) != self._changed:
            text = f"its compensation restores over somebody else's change: {differing(self._changed, now)}"
            self.found.append(failed(step, text))


def _approver(patterns: tuple[str, ...], number: int) -> str:
    """Somebody whom these patterns name."""
    if not patterns:
        return f"{PERSON}-{number}"
    return some_match(patterns[number % len(patterns)], f"drill-{number}")


async def _called(hook: Callable[[], object] | None) -> object:
    if hook is None:
        return None
    made = hook()
    return await made if inspect.isawaitable(made) else made


async def _make_change(change: Change, asked: Asked) -> None:
    made = change(asked)
    if inspect.isawaitable(made):
        await made
