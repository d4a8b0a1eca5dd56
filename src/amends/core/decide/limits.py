"""Keeping a saga within its limits: what is spent, what follows when a limit is reached, who may raise it. Pure.

The fact that a limit is reached and its response are decided at once and written at once, with the spending that
crossed it: no kill can come between them.

Is an agent going round in circles? Steps that ask for nearly the same and bring nothing new. Two values are near when
they have the same shape and each leaf is near: texts that are the same but for case and white
space, or whose words (as sets) overlap by nine tenths; everything else only when it is equal. Each leaf on its own: a
hundred letters to a hundred people share most of their words, and differ in whom they are to.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Final, assert_never

from amends.core import commands as c, events as e
from amends.core.decide.incidents import fail, open_incident
from amends.core.decide.require import require_work
from amends.core.decide.rewinds import roll_back_to
from amends.core.state.deciders import require_decider
from amends.core.state.limits import Bound, Budget, LimitName, Response, one_more, spelled, summed
from amends.core.state.saga import Saga, Step, evolve
from amends.core.transitions import IncidentStatus, SagaStatus, StepStatus
from amends.core.words.values import RUNTIME, Json, StepId
from amends.errors import RefusedError, UnknownCheckpointError

_WORD: Final = re.compile(r"\w+")
_NEAR: Final = 0.9
_S = StepStatus


def spins(saga: Saga, topic: str, args: Json, most: int) -> bool:
    """Whether the last `most` steps were near this one that is asked for, and ended near each other."""
    budget = saga.budget
    if budget is None or len(budget.newest) < most:
        return False
    steps = [saga.steps[name] for name in budget.newest[-most:]]
    first = steps[0]
    return all(
        step.topic == topic and _is_over(step) and near(step.args, args) and _ended_alike(first, step) for step in steps
    )


def _is_over(step: Step) -> bool:
    return step.status in {_S.SUCCEEDED, _S.DENIED} or (step.status in {_S.FAILED, _S.UNKNOWN} and step.given_up)


def _ended_alike(one: Step, other: Step) -> bool:
    return one.status is other.status and near(one.result, other.result) and near(one.error, other.error)


def near(one: Json, other: Json) -> bool:
    if isinstance(one, str) and isinstance(other, str):
        return one == other or _near_texts(one, other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(near(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(near, one, other))
    return type(one) is type(other) and one == other


def _near_texts(one: str, other: str) -> bool:
    if " ".join(one.casefold().split()) == " ".join(other.casefold().split()):
        return True
    words, others = set(_WORD.findall(one.casefold())), set(_WORD.findall(other.casefold()))
    return bool(words or others) and len(words & others) >= _NEAR * len(words | others)


FAMILY: Final = "system:family"
"""Who stops a saga because of a limit of its parent's, and lets it go on."""
_COUNTED: Final = {
    LimitName.USD: "spent",
    LimitName.TOKENS: "spent",
    LimitName.FAILURES: "so far",
    LimitName.RETRIES: "so far",
}


def decide_limits(saga: Saga, command: c.LimitCommand, moment: c.Moment) -> tuple[e.Event, ...]:
    match command:
        case c.Spend():
            return spend(saga, command, moment)
        case c.CountChild():
            return count_child(saga, command, moment)
        case c.KeepLimits():
            return keep_limits(saga, command, moment)
        case c.RaiseLimits():
            return raise_limits(saga, command, moment)
        case _:
            assert_never(command)


def spend(saga: Saga, command: c.Spend, moment: c.Moment) -> tuple[e.Event, ...]:
    require_work(saga)
    if command.place in saga.steps or (saga.budget is not None and command.place in saga.budget.places):
        raise RefusedError(f"saga {saga.id} has something at place {command.place} already")
    fact = e.BudgetSpent(place=command.place, tokens=command.tokens, usd_micros=command.usd_micros, what=command.what)
    if saga.budget is None or not _too_much(summed(saga.budget, fact)):
        return (fact,)
    return (fact, *_counted(evolve(saga.copy(), fact), moment))


def _too_much(budget: Budget) -> LimitName | None:
    """The limit of which more is used up, or has failed, than may."""
    return next(
        (name for name in _COUNTED if name in budget.bounds and budget.used(name) > budget.bounds[name].most), None
    )


def _counted(saga: Saga, moment: c.Moment) -> tuple[e.Event, ...]:
    """Facts that follow when more is spent, or has failed, than may."""
    budget = _required(saga)
    name = _too_much(budget)
    if name is None:
        return ()
    used, most = budget.used(name), budget.bounds[name].most
    why = f"{spelled(name, used)} {_COUNTED[name]}, and the limit is {spelled(name, most)}"
    return _respond(saga, name, used, why, moment)


def count_child(saga: Saga, command: c.CountChild, moment: c.Moment) -> tuple[e.Event, ...]:
    """Count what a child uses up as used up by its parent, whatever becomes of either; its limits hold for both.

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
    fact = () if told == known else (told,)
    if saga.budget is None or not saga.works:
        return fact
    budget = summed(saga.budget, told)
    steps = budget.bounds.get(LimitName.STEPS)
    if steps is not None and budget.steps > steps.most:
        without = replace(told, steps=known.steps)
        fact = () if without == known else (without,)
        what = command.topic or f"what the child of step {command.step} did"
        why = f"{what} would be step {budget.steps}, and the limit is {spelled('steps', steps.most)}"
        return (*fact, *_respond(_after(saga, fact), LimitName.STEPS, steps.most, why, moment))
    retries = budget.bounds.get(LimitName.RETRIES)
    if command.again and retries is not None and budget.retries > retries.most:
        without = replace(told, retries=known.retries)
        fact = () if without == known else (without,)
        return (*fact, *_no_retry(_after(saga, fact), command.again, moment))
    if not _too_much(budget) and not _is_up(budget, moment):
        return fact
    after = _after(saga, fact)
    return (*fact, *(_counted(after, moment) or _timed(after, moment)))


def _after(saga: Saga, facts: Sequence[e.Event]) -> Saga:
    """The saga as it would be after these, without a change of it as it is."""
    return reduce(evolve, facts, saga.copy())


def _no_retry(saga: Saga, topic: str, moment: c.Moment) -> tuple[e.Event, ...]:
    """Facts that follow where a step would be tried again, and no more retries are left."""
    budget = _required(saga)
    most, used = budget.bounds[LimitName.RETRIES].most, budget.retries
    why = f"{topic} would be retry {used + 1}, and the limit is {spelled('retries', most)}"
    return _respond(saga, LimitName.RETRIES, used, why, moment)


def _timed(saga: Saga, moment: c.Moment) -> tuple[e.Event, ...]:
    """Facts that follow when the time is up."""
    budget = _required(saga)
    if not _is_up(budget, moment):
        return ()
    bound, used = budget.bounds[LimitName.SECONDS], budget.used(LimitName.SECONDS, moment.now)
    why = f"{spelled('seconds', used)} since it began, and the limit is {spelled('seconds', bound.most)}"
    return _respond(saga, LimitName.SECONDS, used, why, moment)


def _is_up(budget: Budget, moment: c.Moment) -> bool:
    return budget.until_at is not None and moment.now >= budget.until_at


def goes_back(saga: Saga, step: StepId) -> bool:
    """Whether a step is taken back, alone or with all of its saga, and so is the child that it calls."""
    called = saga.steps.get(step)
    return saga.rollback is not None or (called is not None and called.rewind is not None)


def halts_child(saga: Saga, step: StepId) -> Response | None:
    """The response that a parent asks of a step's child: go back, or stand still; None where it may go on."""
    if goes_back(saga, step):
        return Response.ROLLBACK
    if saga.phase is SagaStatus.PAUSED and saga.paused is not None and saga.paused.by == FAMILY:
        return Response.PAUSE
    reached = saga.budget is not None and saga.budget.reached is not None
    return Response.PAUSE if reached and saga.phase in {SagaStatus.PAUSED, SagaStatus.INCIDENT} else None


def keep_limits(saga: Saga, command: c.KeepLimits, moment: c.Moment) -> tuple[e.Event, ...]:
    """Before a step, before a retry, after a failure, or when the time may be up. Nothing, where all are kept."""
    require_work(saga)
    budget = saga.budget
    if budget is None:
        return ()
    over = _timed(saga, moment) or _counted(saga, moment)  # a child may have spent while this one stood still
    if over:
        return over
    steps, spin = budget.bounds.get(LimitName.STEPS), budget.bounds.get(LimitName.SPIN)
    if command.topic and steps is not None and budget.steps >= steps.most:
        why = f"{command.topic} would be step {budget.steps + 1}, and the limit is {spelled('steps', steps.most)}"
        return _respond(saga, LimitName.STEPS, budget.steps, why, moment)
    if command.topic and spin is not None and spins(saga, command.topic, command.args, spin.most):
        why = f"{command.topic} is asked for again, and the last {spin.most} such steps brought nothing new"
        return _respond(saga, LimitName.SPIN, spin.most, why, moment)
    retries = budget.bounds.get(LimitName.RETRIES)
    if command.again and retries is not None and budget.retries >= retries.most:
        return _no_retry(saga, command.again, moment)
    return ()


def _respond(saga: Saga, name: LimitName, used: int, why: str, moment: c.Moment) -> tuple[e.Event, ...]:
    budget = _required(saga)
    bound = budget.bounds[name]
    then = _response(bound)
    reached = e.LimitReached(
        limit=name.value, most=bound.most, used=used, then=then.value, why=why, children=bound.children
    )
    after = _after(saga, (reached,))
    said = f"limit {name}: {why}"
    match then:
        case Response.ROLLBACK:
            failed = c.FailWork(cause=e.Cause.LIMIT, why=said, step=None)
            return (reached, *fail(after, failed, moment))
        case Response.PAUSE:
            return (reached, e.SagaPaused(by=RUNTIME, why=said))
        case Response.CALL:
            return (reached, *_call(after, said))
        case Response.TO_CHECKPOINT:
            return (reached, *_back(after, bound, said, moment))


def _response(bound: Bound) -> Response:
    """It goes back to a checkpoint so many times; then all is taken back."""
    used_up = bound.then is Response.TO_CHECKPOINT and bound.reached >= bound.times
    return Response.ROLLBACK if used_up else bound.then


def _call(saga: Saga, why: str) -> tuple[e.Event, ...]:
    return open_incident(saga, c.OpenIncident(kind=e.IncidentKind.LIMIT_REACHED, step=None, why=why))


def _back(saga: Saga, bound: Bound, said: str, moment: c.Moment) -> tuple[e.Event, ...]:
    """Back to the checkpoint, with as much again; where there is no way back to it, to a person."""
    more = one_more(saga.budget, RUNTIME, f"it goes back to checkpoint {bound.to!r}", moment.now)
    why = f"{bound.guidance} ({said})" if bound.guidance else said
    asked = c.RollBackTo(to=bound.to, last=None, by=RUNTIME, why=why)
    try:
        return (*more, *roll_back_to(_after(saga, more), asked, moment))
    except (UnknownCheckpointError, RefusedError) as exc:
        return _call(saga, f"{said}; it cannot go back to checkpoint {bound.to!r}: {exc}")


def _required(saga: Saga) -> Budget:
    if saga.budget is None:
        raise RefusedError(f"saga {saga.id} has no limits")
    return saga.budget


# -- raising ----------------------------------------------------------------------------------------------------------


def raise_limits(saga: Saga, command: c.RaiseLimits, moment: c.Moment) -> tuple[e.Event, ...]:
    """Without amounts: as much again of the one that was reached. A saga that it stopped goes on."""
    if saga.begun is None or saga.phase.ended or saga.rollback is not None:
        raise RefusedError(f"saga {saga.id} is {saga.phase}: it uses nothing up any more")
    budget = _required(saga)
    own = require_decider(saga.begun, command.by, f"raise the limits of saga {saga.id}")
    raised: tuple[e.LimitRaised, ...] = tuple(
        _raised(saga, budget, LimitName(name), most, command, moment, own=own) for name, most in command.most.items()
    )
    if not raised:
        raised = one_more(budget, command.by, command.why, moment.now, own=own)
        if not raised:
            raise RefusedError(f"saga {saga.id} has reached no limit; say which one to raise, and to what")
    after = _after(saga, raised)
    if after.budget is not None and after.budget.reached is not None:
        return raised
    return (*raised, *_goes_on(saga, command, own=own))


def _raised(
    saga: Saga, budget: Budget, name: LimitName, most: int, command: c.RaiseLimits, moment: c.Moment, *, own: bool
) -> e.LimitRaised:
    bound = budget.bounds.get(name)
    if bound is None:
        raise RefusedError(f"saga {saga.id} has no limit on {name}; it has {', '.join(budget.bounds) or 'none'}")
    least = bound.most if name is LimitName.SPIN else max(bound.most, budget.used(name, moment.now))
    if most <= least:
        raise RefusedError(
            f"saga {saga.id} has used {spelled(name, budget.used(name, moment.now))} of {spelled(name, bound.most)}; "
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
    paused_here = saga.phase is SagaStatus.PAUSED and saga.paused is not None and saga.paused.by == RUNTIME
    return (e.WorkResumed(by=command.by),) if paused_here else ()
