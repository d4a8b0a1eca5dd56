"""Preview of a rollback from outside, before anyone does it: in which order, and what cannot be taken back.

Reads a saga's state; changes nothing.
"""

from __future__ import annotations

from amends.core.decide.incidents import require_mitigable
from amends.core.decide.require import may_go_back_alone
from amends.core.decide.rewinds import place_of, steps_above
from amends.core.plan import is_pivot, turns
from amends.core.state.frontier import walk_back
from amends.core.state.saga import Saga, Step
from amends.core.state.step import LIVE
from amends.core.transitions import SagaStatus, StepStatus
from amends.core.words.contracts import Reversibility
from amends.core.words.values import SagaId, StepId
from amends.dataclass import altered, dataclass
from amends.errors import RefusedError, UnknownActionError
from amends.runtime.declare.registry import Registry
from amends.text import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStep:
    """One step that a rollback would take back. `why_not` says what stands in the way; empty where nothing does.

    `mitigates`: it cannot be taken back, and `undoes` says what would be done about it. `order` counts the turns: steps
    with the same one are independent, and would be taken back side by side.
    """

    order: int
    step: StepId
    topic: str
    undoes: str
    certain: bool
    why_not: str = ""
    mitigates: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackPlan:
    """Steps that would be taken back or mitigated, in that order.

    `refused`: why it would not even begin; empty where it would. `mitigate`: it was asked for with mitigation.
    """

    saga: SagaId
    place: str
    steps: tuple[PlannedStep, ...]
    refused: str = ""
    mitigate: bool = False

    @property
    def is_clean(self) -> bool:
        """Whether nothing stands in the way, as far as can be said beforehand."""
        return not self.refused and all(not step.why_not for step in self.steps)

    @property
    def _counted(self) -> str:
        mitigated = sum(step.mitigates for step in self.steps)
        also = f", {mitigated} mitigated" if self.mitigate else ""
        return f"{counted(len(self.steps) - mitigated, 'step')} would be taken back{also}"

    def __str__(self) -> str:
        head = f"saga {self.saga}, back to {self.place}: "
        head += f"refused: {self.refused}" if self.refused else self._counted
        return "\n".join([head, *map(_line, self.steps)])


def _line(step: PlannedStep) -> str:
    what = f"  {step.order}. {step.topic} (step {step.step}): "
    if step.why_not:
        return what + f"cannot be {'mitigated' if step.mitigates else 'taken back'}: {step.why_not}"
    return what + ("mitigated: " * step.mitigates) + step.undoes


def planned(
    saga: Saga,
    registry: Registry,
    *,
    to: str | None,
    last: int | None,
    counted_on: str = "",
    mitigate: bool = False,
    unmitigated: tuple[str, ...] = (),
) -> RollbackPlan:
    """Raises UnknownCheckpointError, or RefusedError where there is nothing to plan.

    counted_on: which saga counts on how this one ends, where one does.
    mitigate: all of it, also past its pivot. unmitigated: the steps of its children that declare nothing for that.
    """
    if saga.phase.has_gone_back:
        stands = "nothing of it stands" if saga.phase is SagaStatus.ROLLED_BACK else "nothing more is done about it"
        raise RefusedError(f"saga {saga.id} is {saga.phase.replace('_', ' ')} already: {stands}")
    if mitigate and (to is not None or last is not None):
        raise RefusedError("only all of a saga is taken back with mitigation; leave out to= and last=")
    if to is None and last is None:
        place, going = "its beginning", _turn_by_turn(saga)
    else:
        entry, floor, _ = place_of(saga, to=to, last=last)
        place = f"checkpoint {to!r}" if to is not None else f"before its last {last}"
        going = [(step,) for step in steps_above(saga, entry, floor) if step.standing]
    steps = tuple(
        _planned(order, step, registry, mitigate=mitigate) for order, turn in enumerate(going, 1) for step in turn
    )
    standing = [step for turn in going for step in turn]
    is_free = not counted_on or may_go_back_alone(saga, partly=to is not None or last is not None)
    why = _not_mitigable(saga, unmitigated) if mitigate else _refused(saga, standing)
    refused = why or ("" if is_free else counted_on)
    return RollbackPlan(saga=saga.id, place=place, steps=steps, refused=refused, mitigate=mitigate)


def _not_mitigable(saga: Saga, below: tuple[str, ...]) -> str:
    """Why it could not even be asked to go back with mitigation, whoever asked; empty where it could."""
    try:
        require_mitigable(saga, below)
    except RefusedError as exc:
        return str(exc)
    return f"it is {saga.phase.replace('_', ' ')} already" if saga.phase is SagaStatus.ROLLING_BACK else ""


def _turn_by_turn(saga: Saga) -> list[tuple[Step, ...]]:
    """In which order all of it would go back if every compensation succeeded; those of one turn side by side."""
    going: list[tuple[Step, ...]] = []
    back = saga.copy()
    back.phase, back.top = SagaStatus.ROLLING_BACK, len(saga.order)
    walk_back(back, again=True)
    while turn := turns(back):
        going.append(tuple(saga.steps[step.id] for step in turn))
        for step in turn:
            back.steps[step.id] = altered(step, status=StepStatus.COMPENSATED)
            walk_back(back, moved=step.id)
    return going


def _refused(saga: Saga, standing: list[Step]) -> str:
    if saga.rollback is not None:
        return f"it is {saga.phase}: its rollback has begun already"
    pivot = next((step for step in standing if is_pivot(step)), None)
    if pivot is None:
        return ""
    return f"step {pivot.id} ({pivot.topic}) took effect and is irreversible ({pivot.contract.no_rollback})"


def _planned(order: int, step: Step, registry: Registry, *, mitigate: bool) -> PlannedStep:
    mitigates = mitigate and step.contract.reversibility is Reversibility.IRREVERSIBLE
    certain = step.status is StepStatus.SUCCEEDED
    undoes = step.contract.undoes or ("its mitigation" if mitigates else "its compensation")
    if not certain:
        undoes += f" (it is {step.status}: {'waited for first' if step.status in LIVE else 'asked about first'})"
    return PlannedStep(
        order=order,
        step=step.id,
        topic=step.topic,
        undoes=undoes,
        certain=certain,
        why_not=_why_not(step, registry, mitigates=mitigates),
        mitigates=mitigates,
    )


def _why_not(step: Step, registry: Registry, *, mitigates: bool) -> str:
    contract = step.contract
    if contract.reversibility is Reversibility.IRREVERSIBLE and not (mitigates and contract.mitigation):
        return f"irreversible: {contract.no_rollback}" + ("; it declares no mitigation" * mitigates)
    if not contract.compensation_declared:
        return "no compensation is declared; a person would be called"
    try:
        action = registry.action(contract.topic, contract.version)
    except UnknownActionError as exc:
        return str(exc)
    known, what = (action.parts.mitigation, "mitigation") if mitigates else (action.parts.compensation, "compensation")
    return "" if known is not None else f"{contract.topic} declares no {what} in this process"
