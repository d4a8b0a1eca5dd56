"""Keeping a saga within its limits: what is spent, what follows when a limit is reached, who may raise it. Pure.

The fact that a limit is reached and its response are decided at once and written at once, with the spending that
crossed it: no kill can come between them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Final, TypeAlias, assert_never

from amends.core import commands as c, events as e
from amends.core.deciders import require_decider
from amends.core.incidents import fail, open_incident
from amends.core.limits import Bound, Budget, LimitName, Response, one_more, spelled
from amends.core.refusals import require_work
from amends.core.rewinds import roll_back_to
from amends.core.saga import Saga, evolve
from amends.core.spin import spins
from amends.core.transitions import IncidentStatus, SagaStatus
from amends.core.values import StepId
from amends.errors import RefusedError, UnknownCheckpointError

_RUNTIME: Final = "system:runtime"
FAMILY: Final = "system:family"
"""Who stops a saga because of a limit of its parent's, and lets it go on."""
_COUNTED: Final = {
    LimitName.USD: "spent",
    LimitName.TOKENS: "spent",
    LimitName.FAILURES: "so far",
    LimitName.RETRIES: "so far",
}
_Asked: TypeAlias = c.Spend | c.CountChild | c.KeepLimits


def decide_limits(saga: Saga, command: c.LimitCommand) -> tuple[e.Event, ...]:
    match command:
        case c.Spend():
            return spend(saga, command)
        case c.CountChild():
            return count_child(saga, command)
        case c.KeepLimits():
            return keep_limits(saga, command)
        case c.RaiseLimits():
            return raise_limits(saga, command)
        case _:
            assert_never(command)


def spend(saga: Saga, command: c.Spend) -> tuple[e.Event, ...]:
    require_work(saga)
    if command.place in saga.steps or (saga.budget is not None and command.place in saga.budget.places):
        raise RefusedError(f"saga {saga.id} has something at place {command.place} already")
    fact = e.BudgetSpent(place=command.place, tokens=command.tokens, usd_micros=command.usd_micros, what=command.what)
    return (fact, *_counted(evolve(saga, fact), command))


def _counted(saga: Saga, command: _Asked) -> tuple[e.Event, ...]:
    """What follows when more is spent, or has failed, than may."""
    budget = _required(saga)
    for name, how in _COUNTED.items():
        bound = budget.bounds.get(name)
        if bound is not None and budget.used(name) > bound.most:
            why = f"{spelled(name, budget.used(name))} {how}, and the limit is {spelled(name, bound.most)}"
            return _respond(saga, name, budget.used(name), why, command)
    return ()


def count_child(saga: Saga, command: c.CountChild) -> tuple[e.Event, ...]:
    """What a child uses up is used up by its parent, whatever becomes of either; its limits hold for both.

    A step, or a retry, that would be one too many is not counted: the child does not do it.
    """
    if saga.begun is None or saga.phase.ended:
        return ()
    known = e.ChildSpent(step=command.step) if saga.budget is None else saga.budget.of_child(command.step)
    told = e.ChildSpent(
        step=command.step,
        tokens=max(known.tokens, command.tokens),
        usd_micros=max(known.usd_micros, command.usd_micros),
        steps=max(known.steps, command.steps),
        failures=max(known.failures, command.failures),
        retries=max(known.retries, command.retries),
    )
    after = saga if told == known else evolve(saga, told)
    fact = () if told == known else (told,)
    budget = after.budget
    if budget is None or not saga.works:
        return fact
    steps = budget.bounds.get(LimitName.STEPS)
    if steps is not None and budget.steps > steps.most:
        without = replace(told, steps=known.steps)
        fact = () if without == known else (without,)
        what = command.topic or f"what the child of step {command.step} did"
        why = f"{what} would be step {budget.steps}, and the limit is {spelled('steps', steps.most)}"
        return (*fact, *_respond(reduce(evolve, fact, saga), LimitName.STEPS, steps.most, why, command))
    retries = budget.bounds.get(LimitName.RETRIES)
    if command.again and retries is not None and budget.retries > retries.most:
        without = replace(told, retries=known.retries)
        fact = () if without == known else (without,)
        return (*fact, *_no_retry(reduce(evolve, fact, saga), command))
    return (*fact, *(_counted(after, command) or _timed(after, command)))


def _no_retry(saga: Saga, command: c.CountChild | c.KeepLimits) -> tuple[e.Event, ...]:
    """What follows where a step would be tried again, and no more retries are left."""
    budget = _required(saga)
    most, used = budget.bounds[LimitName.RETRIES].most, budget.retries
    why = f"{command.again} would be retry {used + 1}, and the limit is {spelled('retries', most)}"
    return _respond(saga, LimitName.RETRIES, used, why, command)


def _timed(saga: Saga, command: c.CountChild | c.KeepLimits) -> tuple[e.Event, ...]:
    """What follows when the time is up."""
    budget = _required(saga)
    if budget.until_at is None or command.now < budget.until_at:
        return ()
    bound, used = budget.bounds[LimitName.SECONDS], budget.used(LimitName.SECONDS, command.now)
    why = f"{spelled('seconds', used)} since it began, and the limit is {spelled('seconds', bound.most)}"
    return _respond(saga, LimitName.SECONDS, used, why, command)


def goes_back(saga: Saga, step: StepId) -> bool:
    """Whether a step is taken back, alone or with all of its saga, and so is the child that it calls."""
    called = saga.steps.get(step)
    return saga.rollback is not None or (called is not None and called.rewind is not None)


def halts_child(saga: Saga, step: StepId) -> Response | None:
    """What its parent has the child of a step do: go back, or stand still; None where it may go on."""
    if goes_back(saga, step):
        return Response.ROLLBACK
    if saga.phase is SagaStatus.PAUSED and saga.paused is not None and saga.paused.by == FAMILY:
        return Response.PAUSE
    reached = saga.budget is not None and saga.budget.reached is not None
    return Response.PAUSE if reached and saga.phase in {SagaStatus.PAUSED, SagaStatus.INCIDENT} else None


def keep_limits(saga: Saga, command: c.KeepLimits) -> tuple[e.Event, ...]:
    """Before a step, before a retry, after a failure, or when the time may be up. Nothing, where all are kept."""
    require_work(saga)
    budget = saga.budget
    if budget is None:
        return ()
    over = _timed(saga, command) or _counted(saga, command)  # a child may have spent while this one stood still
    if over:
        return over
    steps, spin = budget.bounds.get(LimitName.STEPS), budget.bounds.get(LimitName.SPIN)
    if command.topic and steps is not None and budget.steps >= steps.most:
        why = f"{command.topic} would be step {budget.steps + 1}, and the limit is {spelled('steps', steps.most)}"
        return _respond(saga, LimitName.STEPS, budget.steps, why, command)
    if command.topic and spin is not None and spins(saga, command.topic, command.args, spin.most):
        why = f"{command.topic} is asked for again, and the last {spin.most} such steps brought nothing new"
        return _respond(saga, LimitName.SPIN, spin.most, why, command)
    retries = budget.bounds.get(LimitName.RETRIES)
    if command.again and retries is not None and budget.retries >= retries.most:
        return _no_retry(saga, command)
    return ()


def _respond(saga: Saga, name: LimitName, used: int, why: str, command: _Asked) -> tuple[e.Event, ...]:
    budget = _required(saga)
    bound = budget.bounds[name]
    then = _response(bound)
    reached = e.LimitReached(
        limit=name.value, most=bound.most, used=used, then=then.value, why=why, children=bound.children
    )
    after = evolve(saga, reached)
    said = f"limit {name}: {why}"
    match then:
        case Response.ROLLBACK:
            failed = c.FailWork(cause=e.Cause.LIMIT, why=said, step=None, now=command.now, window_s=command.window_s)
            return (reached, *fail(after, failed))
        case Response.PAUSE:
            return (reached, e.SagaPaused(by=_RUNTIME, why=said))
        case Response.CALL:
            return (reached, *_call(after, said))
        case Response.TO_CHECKPOINT:
            return (reached, *_back(after, bound, said, command))


def _response(bound: Bound) -> Response:
    """It goes back to a checkpoint so many times; then all is taken back."""
    used_up = bound.then is Response.TO_CHECKPOINT and bound.reached >= bound.times
    return Response.ROLLBACK if used_up else bound.then


def _call(saga: Saga, why: str) -> tuple[e.Event, ...]:
    return open_incident(saga, c.OpenIncident(kind=e.IncidentKind.LIMIT_REACHED, step=None, why=why))


def _back(saga: Saga, bound: Bound, said: str, command: _Asked) -> tuple[e.Event, ...]:
    """Back to the checkpoint, with as much again; where there is no way back to it, to a person."""
    more = one_more(saga.budget, _RUNTIME, f"it goes back to checkpoint {bound.to!r}", command.now)
    why = f"{bound.guidance} ({said})" if bound.guidance else said
    asked = c.RollBackTo(to=bound.to, last=None, by=_RUNTIME, why=why, now=command.now, window_s=command.window_s)
    try:
        return (*more, *roll_back_to(reduce(evolve, more, saga), asked))
    except (UnknownCheckpointError, RefusedError) as exc:
        return _call(saga, f"{said}; it cannot go back to checkpoint {bound.to!r}: {exc}")


def _required(saga: Saga) -> Budget:
    if saga.budget is None:
        raise RefusedError(f"saga {saga.id} has no limits")
    return saga.budget


# -- raising ----------------------------------------------------------------------------------------------------------


def raise_limits(saga: Saga, command: c.RaiseLimits) -> tuple[e.Event, ...]:
    """Without amounts: as much again of the one that was reached. A saga that it stopped goes on."""
    if saga.begun is None or saga.phase.ended or saga.rollback is not None:
        raise RefusedError(f"saga {saga.id} is {saga.phase}: it uses nothing up any more")
    budget = _required(saga)
    own = require_decider(saga.begun, command.by, f"raise the limits of saga {saga.id}")
    raised: tuple[e.LimitRaised, ...] = tuple(
        _raised(saga, budget, LimitName(name), most, command, own=own) for name, most in command.most.items()
    )
    if not raised:
        raised = one_more(budget, command.by, command.why, command.now, own=own)
        if not raised:
            raise RefusedError(f"saga {saga.id} has reached no limit; say which one to raise, and to what")
    after = reduce(evolve, raised, saga)
    if after.budget is not None and after.budget.reached is not None:
        return raised
    return (*raised, *_goes_on(saga, command, own=own))


def _raised(
    saga: Saga, budget: Budget, name: LimitName, most: int, command: c.RaiseLimits, *, own: bool
) -> e.LimitRaised:
    bound = budget.bounds.get(name)
    if bound is None:
        raise RefusedError(f"saga {saga.id} has no limit on {name}; it has {', '.join(budget.bounds) or 'none'}")
    least = bound.most if name is LimitName.SPIN else max(bound.most, budget.used(name, command.now))
    if most <= least:
        raise RefusedError(
            f"saga {saga.id} has used {spelled(name, budget.used(name, command.now))} of {spelled(name, bound.most)}; "
            f"raise {name} to more than {spelled(name, least)}"
        )
    return e.LimitRaised(limit=name.value, most=most, by=command.by, why=command.why, own=own)


def _goes_on(saga: Saga, command: c.RaiseLimits, *, own: bool) -> tuple[e.Event, ...]:
    opened = [
        one.number
        for one in saga.incidents
        if one.kind is e.IncidentKind.LIMIT_REACHED and one.status is IncidentStatus.OPEN
    ]
    if saga.phase is SagaStatus.INCIDENT and opened and len(opened) == len(saga.open_incidents):
        resolved = tuple(
            e.IncidentResolved(
                incident=number, by=command.by, reason=command.why or "the limit was raised", settled=(), own=own
            )
            for number in opened
        )
        return (*resolved, e.WorkResumed(by=command.by))
    paused_here = saga.phase is SagaStatus.PAUSED and saga.paused is not None and saga.paused.by == _RUNTIME
    return (e.WorkResumed(by=command.by),) if paused_here else ()
