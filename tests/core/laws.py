"""What must hold of every history, said without the core's own words for it: a mutant there must not blind the judge.

`judge` leads one walk and holds every law after each command; and before the walk goes on it asks, on a copy, what
would come of it if the work failed now: everything is then played to its end, and the world compared with the journal.
"""

from __future__ import annotations

from amends.core import events as e
from amends.core.effects import GiveUp
from amends.core.plan import forward, turns
from amends.core.state.saga import Saga, Step
from amends.core.transitions import IncidentStatus, SagaStatus, StepStatus
from amends.core.words.contracts import OnIncident, Reversibility
from amends.core.words.values import StepId
from amends.drill.world import goes_first
from amends.testing.walk.choices import AcceptedCommand, Tape
from amends.testing.walk.walk import Walk

_G, _S = SagaStatus, StepStatus
IN_FLIGHT = {_S.RUNNING, _S.COMPENSATING, _S.RECOMPENSATING, _S.MITIGATING}
STANDING = {_S.SUCCEEDED, _S.UNKNOWN, _S.UNCOMPENSATED, _S.UNMITIGATED, *IN_FLIGHT}
UNSETTLED = STANDING - {_S.SUCCEEDED, _S.RUNNING}
ENDS = {_G.ROLLED_BACK, _G.MITIGATED, _G.COMPLETED, _G.INCIDENT}


def judge(tape: Tape, *, most_steps: int = 5) -> Walk:
    """Lead a walk to its end, and each of its prefixes to the end that it would have had."""
    walk = Walk(tape, most_steps=most_steps, watch=hold_and_look_ahead).run()
    hold_at_the_end(walk)
    return walk


def hold_and_look_ahead(walk: Walk, told: AcceptedCommand) -> None:
    hold(walk, told)
    other = walk.fork()
    other.watch = hold
    if not other.fail() and other.tape.once_in(2):
        other.ask()
    hold_at_the_end(other)


def hold_at_the_end(walk: Walk) -> None:
    """Play it out, as a failure where the definition would go on, and compare the ledger."""
    most = most_moves(walk)
    assert walk.settle(most) <= most
    if walk.fail():
        assert walk.settle(most) <= most
    assert walk.saga.phase in ENDS
    hold_ledger(walk)


def most_moves(walk: Walk) -> int:
    """Each step is asked about three times and taken back two at most, and each late effect does it all over again."""
    late = sum(len(truth.hanging) + len(truth.landed) for truth in walk.truths.values())
    return 30 * (len(walk.saga.steps) + 1) * (late + 1)


def may_stand(step: Step) -> bool:
    return step.contract.side_effect and step.status in STANDING


def unwished(step: Step) -> bool:
    """May stand although the definition went on without it."""
    given_up = step.status is _S.SUCCEEDED and step.given_up
    return step.contract.side_effect and (step.status in UNSETTLED or given_up)


def must_be_named(saga: Saga) -> set[StepId]:
    settling = saga.finished and saga.rollback is None
    return {step.id for step in saga.steps.values() if (unwished(step) if settling else may_stand(step))}


def stopped_at(saga: Saga) -> set[StepId | None]:
    return {one.step for one in saga.incidents if one.status is IncidentStatus.OPEN}


def named_as_left(saga: Saga) -> set[StepId]:
    return {step for one in saga.incidents if one.status is IncidentStatus.OPEN for step in one.left}


def hold(walk: Walk, told: AcceptedCommand) -> None:
    """All that can be said of one accepted command."""
    for event in told.events:
        match event:
            case e.CompensationStarted() | e.CompensationDenied():
                hold_turn(told.before, event.step)
            case e.MitigationStarted() | e.MitigationDenied():
                hold_mitigation(walk, told.before, event.step)
            case e.AttemptStarted() | e.ActionDispatched():
                assert told.before.phase is _G.RUNNING
                assert told.before.finished == told.after.steps[event.step].contract.hold
            case e.RollbackStarted() | e.RollbackResumed(mitigate=True):
                pivots = [step for step in told.before.steps.values() if is_pivot(step)]
                assert [step.id for step in pivots if not (event.mitigate and step.contract.mitigation)] == []
            case e.SagaRolledBack():
                assert [step.id for step in told.after.steps.values() if may_stand(step)] == []
                assert [step.id for step in told.after.steps.values() if was_pivot(step)] == []
            case e.SagaMitigated():
                assert [step.id for step in told.after.steps.values() if may_stand(step)] == []
                assert irreversible_effects(walk) != []
                assert asked_to_mitigate(walk)
            case e.SagaCompleted():
                assert [step.id for step in told.after.steps.values() if unwished(step)] == []
                assert not told.after.live
            case e.IncidentOpened():
                hold_incident(told.after, event)
            case _:
                pass
    if told.after.phase in {_G.ROLLED_BACK, _G.MITIGATED, _G.COMPLETED}:
        assert stopped_at(told.after) == set()
    if told.after.phase is _G.INCIDENT:
        assert must_be_named(told.after) <= named_as_left(told.after)
        # in flight when it halted or, in a graph, seen to since without the step at which it halted
        too_many = named_as_left(told.after) - must_be_named(told.after)
        ended = {told.after.steps[step].status for step in too_many}
        over = {_S.FAILED, _S.COMPENSATED, _S.MITIGATED}
        assert ended <= ({*over, _S.SETTLED} if walk.graph else over)
        assert walk.graph or told.after.rollback is None or not too_many
    if walk.graph and told.after.phase is _G.ROLLING_BACK:
        hold_turns(told.after)
    hold_told(walk, told.after)


def is_pivot(step: Step) -> bool:
    return step.contract.reversibility is Reversibility.IRREVERSIBLE and step.status is _S.SUCCEEDED


def irreversible_effects(walk: Walk) -> list[StepId]:
    """The steps that took effect, as the record says, and cannot be taken back."""
    steps = (
        walk.saga.steps[event.step]
        for event in walk.events
        if isinstance(event, e.AttemptSucceeded | e.ProbeFound | e.LateSuccessEnrolled)
    )
    return [step.id for step in steps if step.contract.reversibility is Reversibility.IRREVERSIBLE]


def was_pivot(step: Step) -> bool:
    """An irreversible step that is known to have taken effect stays known, whoever vouched for it."""
    if step.status is _S.MITIGATED:
        return True
    if step.contract.reversibility is not Reversibility.IRREVERSIBLE or step.status is not _S.SETTLED:
        return False
    return step.told is not None and step.told.status is _S.SUCCEEDED


def asked_to_mitigate(walk: Walk) -> bool:
    """Whether a person has asked for it: past the pivot nothing goes back by itself."""
    asked = [event for event in walk.events if isinstance(event, e.RollbackStarted | e.RollbackResumed)]
    return any(event.mitigate and event.by.startswith("person:") for event in asked)


def hold_mitigation(walk: Walk, saga: Saga, step: StepId) -> None:
    """Only of an irreversible step that took effect and declares it, in its turn, and because a person asked."""
    assert saga.steps[step].contract.reversibility is Reversibility.IRREVERSIBLE
    assert saga.steps[step].contract.mitigation
    assert saga.steps[step].status in {_S.SUCCEEDED, _S.UNMITIGATED}
    assert saga.phase is _G.ROLLING_BACK
    assert asked_to_mitigate(walk)
    hold_turn_in_rollback(saga, saga.steps[step])


def hold_turn(saga: Saga, step: StepId) -> None:
    """Newest first, one at a time: nothing newer is left but what an incident names and the rollback may pass.

    A rollback takes those that a graph declares independent as they come.
    """
    assert saga.steps[step].contract.reversibility in {Reversibility.REVERSIBLE, Reversibility.COMPENSATABLE}
    if saga.phase is _G.ROLLING_BACK:
        hold_turn_in_rollback(saga, saga.steps[step])
        return
    rewinds = saga.steps[step].rewind in saga.rewinding
    beside = [one for one in saga.steps.values() if not rewinds or one.rewind == saga.steps[step].rewind]
    acts = rewinds and saga.works
    assert [one.id for one in (beside if acts else saga.steps.values()) if one.status in IN_FLIGHT] == []
    newer = [one for one in beside if one.number > saga.steps[step].number]
    if rewinds:
        assert [one.id for one in newer if may_stand(one) and not passable(saga, one)] == []
    else:
        assert saga.phase is _G.RUNNING
        assert saga.finished
        assert [one.id for one in newer if unwished(one) and one.id not in stopped_at(saga)] == []


def hold_turn_in_rollback(saga: Saga, step: Step) -> None:
    others = [one for one in saga.steps.values() if one is not step]
    first = [one.id for one in others if goes_first(saga, one, step) and may_stand(one) and not passable(saga, one)]
    assert first == []
    live = [one for one in others if one.status in IN_FLIGHT]
    assert [one.id for one in live if one.status is _S.RUNNING or goes_first(saga, step, one)] == []


def hold_turns(saga: Saga) -> None:
    """It is the turn of everything for which nothing has to be waited, and of nothing else."""
    owed = [one for one in saga.steps.values() if may_stand(one) and not passable(saga, one)]
    first = {one.id for one in owed if not any(goes_first(saga, other, one) for other in owed)}
    assert {one.id for one in turns(saga)} == first


def passable(saga: Saga, step: Step) -> bool:
    """A pivot never is."""
    irreversible = step.contract.reversibility is Reversibility.IRREVERSIBLE
    return step.contract.on_incident is OnIncident.GO_ON and not irreversible and step.id in stopped_at(saga)


def hold_incident(saga: Saga, opened: e.IncidentOpened) -> None:
    """What it names as left is what may stand and has no incident of its own, no more and no less."""
    if saga.phase is _G.ROLLING_BACK and opened.step is not None:
        step = saga.steps[opened.step]
        stops = set[StepId]() if passable(saga, step) else must_be_named(saga) - stopped_at(saga)
        waits = {one for one in stops if goes_first(saga, step, saga.steps[one])}
        assert set(opened.left) == {opened.step, *waits}
        assert opened.step in must_be_named(saga)
    else:
        everything = must_be_named(saga) - (stopped_at(saga) - {opened.step})
        assert everything - waiting_for_another(saga, opened) <= set(opened.left) <= everything
    numbers = [saga.steps[step].number for step in opened.left]
    assert numbers == sorted(numbers, reverse=True)


def waiting_for_another(saga: Saga, opened: e.IncidentOpened) -> set[StepId]:
    """What other incidents name already, and does not wait for this one's step: a graph goes on with it."""
    if saga.rollback is None or opened.step is None:
        return set()
    step = saga.steps[opened.step]
    others = (one for one in saga.incidents if one.status is IncidentStatus.OPEN and one.number != opened.incident)
    return {name for one in others for name in one.left if not goes_first(saga, step, saga.steps[name])}


def hold_told(walk: Walk, saga: Saga) -> None:
    """What the definition was told about a step is what it is told when it is called again."""
    if saga.works:
        for step in walk.told_over & {step.id for step in saga.steps.values() if not step.forgotten}:
            assert isinstance(forward(saga.steps[step], walk.now), GiveUp)


def hold_ledger(walk: Walk) -> None:
    """Completed: everything nets one. Rolled back: nothing stands. Incident: what may be otherwise is named.

    What was mitigated stands, and something was done about it.
    """
    saga, named = walk.saga, named_as_left(walk.saga)
    assert not any(truth.landed for truth in walk.truths.values())
    for step in saga.steps.values():
        truth = walk.truths[step.id]
        if not step.contract.side_effect or step.status is _S.SETTLED:
            continue
        assert truth.effects <= 1, f"{step.id} took effect {truth.effects} times"
        if step.status is _S.MITIGATED:
            assert truth.standing
            assert truth.mitigated
            continue
        wished = saga.rollback is None and step.status is _S.SUCCEEDED and not step.given_up
        if truth.standing != wished:
            says = f"{saga.phase}, {step.id} is {step.status}, and {truth.standing} of it stands"
            assert saga.phase is _G.INCIDENT, says
            assert step.id in named, says
