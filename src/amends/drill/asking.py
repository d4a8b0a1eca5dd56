"""Questions to the world: whether the effect of a step stands now, by its probe, its child's record, or the journal.

They are put when a run has ended, and in between: after an action, to learn what it takes away from earlier steps, and
after a compensation, to see that what is older still stands.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, cast

from amends.core.state.saga import Saga, Step
from amends.core.transitions import StepStatus
from amends.core.words.contracts import key_of
from amends.core.words.outcomes import Answer, Found, FoundNothing
from amends.core.words.values import SagaId, StepId
from amends.drill.covering import Spot
from amends.drill.family import DrilledFamily
from amends.drill.findings import Finding, destroyed, doubtful, out_of_turn
from amends.drill.stage import Stage
from amends.runtime.declare.action import Action, Asked
from amends.runtime.drive.children import CALL
from amends.runtime.drive.executor import Call, Part
from amends.runtime.saga.documents import office
from amends.secrets import unmask

StepOf: TypeAlias = tuple[SagaId, StepId]


class Questions:
    """Of one run; what comes to light in between goes to `found`."""

    def __init__(self, stage: Stage, found: list[Finding]) -> None:
        self._stage = stage
        self._found = found
        self._covers = stage.setting.covers

    async def put(self, family: DrilledFamily) -> tuple[Mapping[StepOf, Answer], frozenset[StepOf]]:
        """An answer for each step that can be asked about, and the steps that others account for."""
        hidden, answers = frozenset(self.hidden(family)), dict[StepOf, Answer]()
        for account in family:
            for step in family.concerned(account.saga):
                which = (account.saga.id, step.id)
                answer = None if which in hidden else await self.ask(family, account.saga, step)
                if answer is not None:
                    answers[which] = answer
        return answers, hidden

    def hidden(self, family: DrilledFamily) -> Iterator[tuple[SagaId, StepId]]:
        for account in family:
            for step in account.saga.steps.values():
                if self._covers.hides(self._spot(account.saga, step), account.saga):
                    yield account.saga.id, step.id

    def action(self, step: Step) -> Action[..., Any]:
        return self._stage.registry.action(step.topic, step.contract.version)

    async def ask(self, family: DrilledFamily, saga: Saga, step: Step) -> Answer | None:
        if step.topic == CALL.topic:
            return family.answer(saga, step)
        probe = self.action(step).parts.probe
        if probe is None:
            return None
        asked = self.asked(saga, step)
        here = office.set(self._stage.office(saga))
        try:
            return await self._stage.executor.put(self.call(saga, step, "probe", probe, lambda: probe(asked)))
        finally:
            office.reset(here)

    def asked(self, saga: Saga, step: Step) -> Asked:
        known = self._stage.executor.secrets.get((saga.id, step.id), ())
        args = self.action(step).parts.typed.restore(cast("dict[str, Any]", unmask(step.args, saga.id, known)))
        return Asked(saga=saga.id, step=step.id, args=args, key=_key(saga, step))

    def call(
        self, saga: Saga, step: Step, part: Part, function: Callable[..., object], call: Callable[[], object]
    ) -> Call:
        return Call(
            saga=saga.id,
            step=step.id,
            topic=step.topic,
            part=part,
            function=call,
            is_async=inspect.iscoroutinefunction(function),
            key=_key(saga, step),
            timeout_s=step.contract.timeout_s,
            store=self.action(step).parts.typed.store_result if part == "probe" else None,
        )

    def _spot(self, saga: Saga, step: Step) -> Spot:
        return self._covers.spot(self._stage.saga, saga.id, step.id)

    async def look_at_others(self, call: Call) -> None:
        """An action has succeeded: learn whether what it did stands, and what was done before it."""
        family, covers = await self._stage.family(), self._covers
        saga = family.accounts[call.saga].saga
        for step in family.concerned(saga):
            if step.id == call.step or step.status is StepStatus.SUCCEEDED:
                answer, spot = await self.ask(family, saga, step), self._spot(saga, step)
                if step.id != call.step and isinstance(answer, FoundNothing):
                    covers.is_gone(spot, call.step)
                elif step.id == call.step and isinstance(answer, Found):
                    covers.stands(spot)

    async def look_at_older(self, call: Call) -> None:
        """A compensation has worked: what is older, and not yet taken back, has to stand."""
        family, covers = await self._stage.family(), self._covers
        saga = family.accounts[call.saga].saga
        step = saga.steps[call.step]
        if covers.covered_by(self._spot(saga, step)) and isinstance(await self.ask(family, saga, step), FoundNothing):
            covers.went_away.add(self._spot(saga, step))
        for older in family.concerned(saga):
            is_older = older.number < step.number and older.status is StepStatus.SUCCEEDED
            spot = self._spot(saga, older)
            if not is_older or not covers.has_stood(spot) or covers.hides(spot, saga):
                continue
            answer, is_covered = await self.ask(family, saga, older), covers.by.get(spot) == call.step
            if is_covered and isinstance(answer, Found):
                covers.given_back.add(spot)
            if isinstance(answer, FoundNothing):
                now = (await self._stage.family()).accounts[call.saga].saga.steps[older.id]
                if now.status is StepStatus.SUCCEEDED:  # else a graph has it taken back beside this one
                    told = destroyed if is_covered else out_of_turn
                    self._found.append(told(step, older))

    def not_given_back(self, family: DrilledFamily) -> Iterator[Finding]:
        """Effects that a later step takes away, and no compensation was seen to give back: past the pivot, say."""
        covers = self._covers
        for account in family:
            for step in account.saga.steps.values():
                spot = self._spot(account.saga, step)
                if spot in covers.by and spot not in covers.given_back:
                    text = f"step {covers.by[spot]} takes its effect away, and nobody has seen that given back"
                    yield doubtful(step, text)


def _key(saga: Saga, step: Step) -> str:
    return key_of(saga.id, step.id, step.topic, "do")
