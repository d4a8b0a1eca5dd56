"""The drill itself: which places there are, a run for each, and the matrix of how they came out.

The saga is first run as it is, which shows its steps. Each later run has one thing go wrong at one of them. A crash has
no step of its own: the run is ended after its first write or effect, then after its second, and so on until it comes to
its own end, and each death is counted where it happened; one inside of a child, at the step that called it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias, cast

from amends.core.state.saga import Saga, Step
from amends.core.transitions import SagaStatus
from amends.core.words.contracts import Reversibility
from amends.core.words.values import Json, SagaId, StepId
from amends.drill.family import DrilledFamily
from amends.drill.faults import BACK, FORWARD, OTHERS, STOPS, TAKES_BACK, Fault, Place, Stop
from amends.drill.findings import Finding, Mark, short, worst
from amends.drill.records import child_definitions, digests_of
from amends.drill.rehearsal import Rehearsal
from amends.drill.report import Cell, Drilled, Report, is_users
from amends.drill.stage import Hook, Setting
from amends.drill.world import Account
from amends.errors import InputError, RefusedError
from amends.gate.environments import PRODUCTION, checked_env, checked_environments, taken_for
from amends.gate.facts import Gate
from amends.gate.policy import Policy
from amends.journal.port.journal import Entry
from amends.logs import hushed
from amends.runtime.declare.definition import SagaDefinition
from amends.runtime.declare.names import checked_actor
from amends.secrets import mask

OnRun: TypeAlias = Callable[[int, int | None], None]
_CRASHES = frozenset({Fault.CRASH, Fault.UNDO_CRASH})
_WORDS_OF_EFFECT = 4
"""Of a saga, at a step, which part, and that it is over; what the journal was asked has fewer words."""


async def drill(  # noqa: PLR0913 - each by name, and few of them needed
    definition: SagaDefinition,
    input: object = None,
    *,
    env: str = "drill",
    gate: Gate | None = None,
    actor: str = "system:drill",
    labels: Mapping[str, str] | None = None,
    fresh: Hook | None = None,
    world: Hook | None = None,
    patience_s: float = 5.0,
    only: Collection[str] = (),
    quick: bool = False,
    allow_production: bool = False,
    environments: Mapping[str, Iterable[str]] | None = None,
    on_cell: Callable[[Cell], None] | None = None,
    on_run: OnRun | None = None,
) -> Report:
    """Run a saga once for each place where it can go wrong, and see whether the world comes back.

    input: an object of the saga's inputs by name, as `amends run --input` takes it.
    env: what the gate is told; production, by whatever word, is refused unless allow_production.
    fresh: called before each run, to put doubles back as they were.
    world: called before and after each run, for a snapshot that has to be the same when all has been taken back.
    patience_s: how long a function may take before it counts as hanging.
    only: the names of faults (`lost-done`) or places (`2:lost-done`) to try; all of them where it is empty.
    quick: the fewest runs in which every compensation works once and the world has to come back, for a schedule: as it
        is, all of it taken back, and the last step that a rollback can come from failing for good.
    on_run: called after each run with how many there were, and how many there will be, once that can be said.
    """
    gate = gate or _builtin()
    policy = getattr(gate, "policy", None)
    declared = (policy.environments,) if isinstance(policy, Policy) else ()
    taken = taken_for(checked_env(env), *declared, checked_environments(environments or {}))
    if taken.env == PRODUCTION and not allow_production:
        why = f"; {taken.message}" if taken.message else f", which {env!r} stands for" if env != PRODUCTION else ""
        raise RefusedError(f"a drill does everything for real, many times over: it is refused in production{why}")
    if quick and only:
        raise InputError("quick says already what is tried; leave out either it or only=")
    setting = Setting(
        definition=definition,
        document=input,
        named=definition.bind_document(input),
        gate=gate,
        env=env,
        environments={taken.env: () if taken.folded_word == taken.env else (taken.folded_word,)},
        actor=checked_actor(actor),
        labels=dict(labels or {}),
        fresh=fresh,
        world=world,
        patience_s=patience_s,
    )
    with hushed():
        return await Drill(setting, _checked(only), on_cell, on_run, quick=quick).run()


def _builtin() -> Gate:
    from amends.gate.load import BuiltinGate

    return BuiltinGate()


def _checked(only: Collection[str]) -> frozenset[str]:
    for name in only:
        fault = name.rpartition(":")[2]
        if fault not in set(Fault):
            raise InputError(
                f"{name!r} is no fault; they are {', '.join(Fault)}, alone or after a step: 2:{Fault.FATAL}"
            )
    return frozenset(only)


class Drill:
    def __init__(
        self,
        setting: Setting,
        only: frozenset[str],
        on_cell: Callable[[Cell], None] | None,
        on_run: OnRun | None = None,
        *,
        quick: bool,
    ) -> None:
        self._setting = setting
        self._only = only
        self._quick = quick
        self._on_cell = on_cell
        self._on_run = on_run
        self._cells: list[Cell] = []
        self._beside: list[Cell] = []
        """Runs that were needed, and not asked for: what else they show is told all the same."""
        self._runs = 0
        self._planned: int | None = None
        self._stop: Stop | None = None
        self._mitigates = False
        self._steps: tuple[Drilled, ...] = ()
        self._first_ended: SagaStatus | None = None

    async def run(self) -> Report:
        first = await self._play(Place(Fault.NOTHING), is_needed=True)
        family = await first.stage.family()
        saga = family.saga
        self._steps = tuple(
            Drilled(id=step.id, contract=step.contract, child=family.definition_of(saga, step))
            for step in _in_order(saga)
        )
        self._stop, self._first_ended = _stop(family), first.status
        is_mitigable = first.status is SagaStatus.COMPLETED and family.is_mitigable(saga)
        self._mitigates = is_mitigable and not family.lacks_mitigation(saga)
        if first.status in {SagaStatus.COMPLETED, SagaStatus.ROLLED_BACK}:
            back = await self._play(Place(Fault.TAKEN_BACK), is_needed=True)
            if is_mitigable and not self._quick:
                await self._play(Place(Fault.MITIGATED))
            ways_back = [*_back(Account(await back.stage.entries())), *self._past_pivot(saga)]
            tried = [*_forward(saga, first.asked_people), *dict.fromkeys(ways_back)]
            places = [*_quick(saga, self._stop)] if self._quick else tried
            self._plan(places, first, back)
            for place in places:
                await self._play(place)
            if not self._quick:
                await self._crashes()
        for cell in self._beside:
            if {*cell.findings} - {finding for told in self._cells for finding in told.findings}:
                self._add(cell)
        definition = self._setting.definition
        registry = first.stage.registry
        contracts = [step.contract for step in self._steps if is_users(step.topic)]
        actions = [registry.action(contract.topic, contract.version) for contract in contracts]
        return Report(
            saga=definition.name,
            version=definition.version,
            env=self._setting.env,
            input=cast("Json", mask(self._setting.document, first.stage.saga)),
            steps=self._steps,
            cells=tuple(self._cells),
            runs=self._runs,
            digests=digests_of(definition, actions, child_definitions(registry, family.children)),
            children=family.children,
            covered=self._setting.covers.of_drilled,
            only=tuple(sorted(self._only)),
            quick=self._quick,
        )

    def _is_wanted(self, place: Place) -> bool:
        return not self._only or str(place) in self._only or place.fault in self._only

    async def _play(self, place: Place, *, is_needed: bool = False) -> Rehearsal:
        mitigates = self._is_mitigated(place)
        rehearsal = Rehearsal(self._setting, place, None if mitigates else self._stop_for(place), mitigates=mitigates)
        if is_needed or self._is_wanted(place):
            await rehearsal.play()
            self._count()
        if is_needed or self._is_wanted(place):
            if place.fault is Fault.TAKEN_BACK:
                family = await rehearsal.stage.family()
                rehearsal.found += [
                    *self._falls_short(rehearsal, family.saga),
                    *rehearsal.questions.not_given_back(family),
                ]
            found = list(dict.fromkeys(rehearsal.found))
            if place.step and not rehearsal.was_hit:
                found.append(
                    Finding(Mark.NOT_PROVEN, "the run never came to this step, so this was not tried", place.step)
                )
            cell = _cell(place, found, ended=rehearsal.status)
            if self._is_wanted(place):
                self._add(cell)
            else:
                self._beside.append(cell)
        return rehearsal

    def _falls_short(self, again: Rehearsal, saga: Saga) -> Iterator[Finding]:
        """It has run before, and all of that was taken back: it has to come as far as then."""
        stopped = saga.rollback is not None and STOPS in saga.rollback.why
        if not stopped and again.status is not self._first_ended:
            why = "" if saga.rollback is None else f": {short(saga.rollback.why)}"
            yield Finding(Mark.FAILED, f"after the first run it does not come as far a second time{why}")

    def _stop_for(self, place: Place) -> Stop | None:
        """A saga that cannot be cancelled once it has completed is stopped before its pivot."""
        return self._stop if place.fault in BACK or place.fault is Fault.TAKEN_BACK else None

    def _is_mitigated(self, place: Place) -> bool:
        """Whether it is about what goes back only past the pivot."""
        if place.fault is Fault.MITIGATED:
            return True
        order = [step.id for step in self._steps]
        pivot = None if self._stop is None else self._stop.step
        first = 0 if pivot is None or pivot not in order else order.index(pivot)
        return self._mitigates and place.fault in BACK and place.step in order[first:]

    def _past_pivot(self, saga: Saga) -> Iterator[Place]:
        """Of the steps that a rollback comes to where a person has it go past the pivot."""
        for step in _in_order(saga) if self._mitigates else ():
            if step.standing and step.contract.compensation_declared:
                yield from _undone(step)

    def _add(self, cell: Cell) -> None:
        self._cells.append(cell)
        if self._on_cell is not None:
            self._on_cell(cell)

    def _plan(self, places: Iterable[Place], first: Rehearsal, back: Rehearsal) -> None:
        """How many runs there will be: one for each place, and one for each point at which a process can die.

        Of those the first runs tell how many there are, or nearly.
        """
        self._planned = self._runs + sum(map(self._is_wanted, places))
        if not self._quick and self._wants_crashes():
            self._planned += first.points + 1 + (0 if self._stop is None else back.points + 1)

    def _count(self) -> None:
        self._runs += 1
        if self._on_run is not None:
            self._on_run(self._runs, None if self._planned is None else max(self._planned, self._runs))

    def _wants_crashes(self) -> bool:
        return any(self._is_wanted(Place(fault, step.id)) for fault in _CRASHES for step in self._steps)

    async def _crashes(self) -> None:
        deaths: dict[Place, list[Rehearsal]] = {}
        if self._wants_crashes():
            for stop in dict.fromkeys((None, self._stop)):
                await self._die_everywhere(stop, deaths)
        for place, rehearsals in deaths.items():
            if self._is_wanted(place):
                found = list(dict.fromkeys(each for one in rehearsals for each in one.found))
                self._add(_cell(place, found, runs=len(rehearsals), ended=rehearsals[-1].status))

    async def _die_everywhere(self, stop: Stop | None, deaths: dict[Place, list[Rehearsal]]) -> None:
        point = 0
        while True:
            point += 1
            mitigates = self._mitigates and stop is None
            rehearsal = Rehearsal(self._setting, Place(Fault.NOTHING), stop, mitigates=mitigates)
            life = await rehearsal.play(ends_at=point)
            self._count()
            if not life.stopped:
                return
            for place in _where(life.passed[-1], rehearsal, self._steps[0].id):
                deaths.setdefault(place, []).append(rehearsal)


def _forward(saga: Saga, asked_people: Collection[StepId]) -> Iterator[Place]:
    for step in _in_order(saga):
        for fault in FORWARD:
            if _applies(fault, changes=step.contract.side_effect, asked=step.id in asked_people):
                yield Place(fault, step.id)


def _back(account: Account) -> Iterator[Place]:
    """Of the steps that a rollback comes to, or would come to if it did not stop before."""
    for step in _in_order(account.saga):
        comes_back = step.undo_attempts or step.id in account.named
        if comes_back and step.contract.rollback_supported:
            yield from _undone(step)


def _undone(step: Step) -> Iterator[Place]:
    for fault in BACK:
        if fault not in _CRASHES and (fault is not Fault.CHANGED_SINCE or step.topic in OTHERS):
            yield Place(fault, step.id)


def _applies(fault: Fault, *, changes: bool, asked: bool) -> bool:
    if fault in _CRASHES:
        return False
    if fault in {Fault.REFUSED, Fault.EXPIRED}:
        return asked
    return changes or fault in {Fault.FATAL, Fault.LOST_NOT_DONE, Fault.CANCELLED}


def _in_order(saga: Saga) -> list[Step]:
    return sorted(saga.steps.values(), key=lambda step: step.number or len(saga.steps) + 1)


def _stop(family: DrilledFamily) -> Stop | None:
    """Where it is stopped to be taken back: at the first step that cannot be, or before what is held goes out."""
    pivots = [s for s in _in_order(family.saga) if s.contract.reversibility is Reversibility.IRREVERSIBLE and s.number]
    if pivots and not pivots[0].contract.hold:
        return Stop(step=pivots[0].id)
    released = (step for account in family for step in account.saga.steps.values() if step.number)
    return Stop() if any(step.contract.hold for step in released) else None


def _quick(saga: Saga, stop: Stop | None) -> Iterator[Place]:
    """The last step that a rollback can come from fails for good: all that is older has to come back."""
    last = [step.id for step in _in_order(saga) if step.number and not step.contract.hold][-1:]
    at = last if stop is None or stop.step is None else [stop.step]
    yield from (Place(Fault.FATAL, step) for step in at)


def _where(point: str, rehearsal: Rehearsal, first: StepId) -> list[Place]:
    """Which steps a process was at when it died: those of its last write or effect, or else the first.

    What a child wrote or did counts for the step that called it.
    """
    family, words = rehearsal.left, point.split()
    back = family.saga.phase is SagaStatus.ROLLING_BACK or family.saga.phase.has_gone_back
    if len(words) == _WORDS_OF_EFFECT:
        saga, at_step, part = SagaId(words[0]), StepId(words[1]), words[2]
        undone = back if saga != family.saga.id else part.rstrip(":") in TAKES_BACK
        return [Place(Fault.UNDO_CRASH if undone else Fault.CRASH, family.step_of(saga, at_step))]
    writer = rehearsal.wrote_last
    entries = family.accounts[writer].entries
    written = entries[-(point.count("+") + 1) :] if words[0] == "append" else ()
    last = _steps(written) or _steps(entries)[-1:] or [first]
    at = dict.fromkeys(family.step_of(writer, step) for step in last)
    return [Place(Fault.UNDO_CRASH if back else Fault.CRASH, step) for step in at]


def _steps(entries: Sequence[Entry]) -> list[StepId]:
    return [StepId(step) for entry in entries if (step := getattr(entry.event, "step", None))]


def _cell(place: Place, found: list[Finding], *, runs: int = 1, ended: SagaStatus | None = None) -> Cell:
    mark = worst(finding.mark for finding in found)
    return Cell(place=place, mark=mark, findings=tuple(found), runs=runs, ended="" if ended is None else str(ended))
