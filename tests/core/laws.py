"""What must hold of every history, said without the core's own words for it: a mutant there must not blind the judge."""

from __future__ import annotations

from amends.core import events as e
from amends.core.contracts import OnIncident, Reversibility
from amends.core.effects import GiveUp
from amends.core.plan import forward
from amends.core.saga import Saga, Step
from amends.core.transitions import IncidentStatus, SagaStatus, StepStatus
from amends.core.values import StepId
from amends.testing.histories import Told, Walk

_G, _S = SagaStatus, StepStatus
IN_FLIGHT = {_S.RUNNING, _S.COMPENSATING, _S.RECOMPENSATING}
STANDING = {_S.SUCCEEDED, _S.UNKNOWN, _S.UNCOMPENSATED, *IN_FLIGHT}
UNSETTLED = STANDING - {_S.SUCCEEDED, _S.RUNNING}


def may_stand(step: Step) -> bool:
    return step.contract.side_effect and step.status in STANDING


def unwished(step: Step) -> bool:
    """May stand although the definition went on without it."""
    return step.contract.side_effect and (
        step.status in UNSETTLED or (step.status is _S.SUCCEEDED and step.given_up)
    )


def open_incidents(saga: Saga) -> list[e.StepId | None]:
    return [one.step for one in saga.incidents if one.status is IncidentStatus.OPEN]


def named_as_left(saga: Saga) -> set[StepId]:
    return {step for one in saga.incidents if one.status is IncidentStatus.OPEN for step in one.left}


def check(walk: Walk, told: Told) -> None:
    """All that can be said of one accepted command."""
    state = told.before
    for event in told.events:
        match event:
            case e.CompensationStarted() | e.CompensationDenied():
                check_turn(told.before, event.step)
            case e.AttemptStarted() | e.ActionDispatched():
                assert state.phase is _G.RUNNING, f"{event} in {state.phase}"
            case e.SagaRolledBack():
                assert not [step.id for step in told.after.steps.values() if may_stand(step)]
            case e.SagaCompleted():
                assert not [step.id for step in told.after.steps.values() if unwished(step)]
                assert not told.after.live
            case e.IncidentOpened():
                check_incident(told, event)
            case _:
                pass
    if told.after.phase in {_G.ROLLED_BACK, _G.COMPLETED}:
        assert open_incidents(told.after) == []
    if told.after.phase is _G.INCIDENT:
        check_named(told.after)
    check_told(walk, told.after)


def check_turn(saga: Saga, step: StepId) -> None:
    """Newest first, one at a time: no newer one is left but those that an incident names and that let the rollback go on."""
    assert not [one.id for one in saga.steps.values() if one.status in IN_FLIGHT]
    number = saga.steps[step].number
    newer = [one for one in saga.steps.values() if one.number > number]
    if saga.phase is _G.ROLLING_BACK:
        blocking = [one.id for one in newer if may_stand(one) and not passable(saga, one)]
        assert blocking == [], f"{step} is taken back before {blocking}"
    else:
        assert saga.phase is _G.RUNNING
        assert saga.finished
        assert [one.id for one in newer if unwished(one) and one.id not in open_incidents(saga)] == []


def passable(saga: Saga, step: Step) -> bool:
    goes_on = step.contract.on_incident is OnIncident.GO_ON
    pivot = step.contract.reversibility is Reversibility.IRREVERSIBLE and step.status is _S.SUCCEEDED
    return goes_on and not pivot and step.id in open_incidents(saga)


def check_incident(told: Told, opened: e.IncidentOpened) -> None:
    """What it names as left is what may stand, no more and no less; or itself alone, where the rollback goes on."""
    saga = told.after
    settling = saga.finished and saga.rollback is None
    standing = {step.id for step in saga.steps.values() if (unwished(step) if settling else may_stand(step))}
    if saga.phase is _G.ROLLING_BACK:
        assert opened.left == (opened.step,)
        assert set(opened.left) <= standing
    else:
        assert set(opened.left) == standing
    numbers = [saga.steps[step].number for step in opened.left]
    assert numbers == sorted(numbers, reverse=True)


def check_named(saga: Saga) -> None:
    """A person sees everything that may stand and is not wished for."""
    settling = saga.finished and saga.rollback is None
    for step in saga.steps.values():
        if unwished(step) if settling else may_stand(step):
            assert step.id in named_as_left(saga), f"{step.id} is {step.status}, and no open incident says so"


def check_told(walk: Walk, saga: Saga) -> None:
    """What the definition was told about a step is what it is told when it is called again."""
    if saga.phase is _G.RUNNING and not saga.finished:
        for step in walk.told_over & set(saga.steps):
            assert isinstance(forward(saga.steps[step], walk.now), GiveUp)


def check_ledger(walk: Walk) -> None:
    """Completed: everything nets one. Rolled back: nothing stands. Incident: what may be otherwise is named."""
    saga = walk.saga
    named = named_as_left(saga)
    assert not any(truth.landed for truth in walk.truths.values())
    for step in saga.steps.values():
        truth = walk.truths[step.id]
        if not step.contract.side_effect or step.status is _S.SETTLED:
            continue
        assert truth.effects <= 1, f"{step.id} took effect {truth.effects} times"
        wished = saga.rollback is None and step.status is _S.SUCCEEDED and not step.given_up
        if truth.standing != wished:
            assert saga.phase is _G.INCIDENT, f"{saga.phase}, and {step.id} ({step.status}) stands {truth.standing} times"
            assert step.id in named, f"{step.id} ({step.status}) stands {truth.standing} times, unnamed"
