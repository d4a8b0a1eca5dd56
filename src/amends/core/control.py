"""Holding dispatch back: pausing one saga and letting it go on, and the facts that hold for all of them. Pure."""

from __future__ import annotations

from amends.core import commands as c, events as e
from amends.core.deciders import require_decider, require_person
from amends.core.limits import one_more
from amends.core.refusals import window_end
from amends.core.saga import Saga
from amends.core.transitions import SagaStatus
from amends.core.values import CONTROL
from amends.errors import RefusedError


def pause(saga: Saga, command: c.PauseSaga) -> tuple[e.Event, ...]:
    """Stop one saga where it stands: what is in flight may end, and nothing more is dispatched."""
    if saga.phase is SagaStatus.PAUSED:
        is_own = saga.paused is not None and saga.paused.pause == 0
        return () if is_own or command.pause else (e.SagaPaused(by=command.by, why=command.why),)
    if saga.phase not in {SagaStatus.RUNNING, SagaStatus.ROLLING_BACK} or saga.begun is None:
        why = "nothing is dispatched for it" if saga.begun is not None else "it has not been started"
        raise RefusedError(f"saga {saga.id} is {saga.phase}: {why}, so there is nothing to pause")
    if (saga.phase is SagaStatus.ROLLING_BACK or saga.awaited is not None) and not command.rollbacks:
        raise RefusedError(f"saga {saga.id} is rolling back, which goes on; say that rollbacks stop too to pause it")
    return (e.SagaPaused(by=command.by, why=command.why, pause=command.pause),)


def unpause(saga: Saga, command: c.UnpauseSaga) -> tuple[e.Event, ...]:
    """Let a paused saga go on, the way that it was going. A rollback gets a full window.

    One that a limit had stopped is allowed as much again.
    """
    if saga.phase is not SagaStatus.PAUSED:
        raise RefusedError(f"saga {saga.id} is {saga.phase}, and not paused")
    own = not command.follows and require_decider(saga.begun, command.by, f"unpause saga {saga.id}")
    deadline_at = window_end(saga, command)
    if saga.rollback is None:
        resumed = e.WorkResumed(by=command.by, deadline_at=deadline_at if saga.rewinding else 0, own=own)
        return (*one_more(saga.budget, command.by, "", command.now, own=own), resumed)
    return (e.RollbackResumed(by=command.by, deadline_at=deadline_at, own=own),)


def control(saga: Saga, command: c.KeepControl) -> tuple[e.Event, ...]:
    """What holds for every saga stands in one of its own, which has ended as soon as it began.

    Anybody may hold something back; only people let it go.
    """
    if isinstance(command.fact, e.DispatchUnpaused | e.HoldLifted):
        is_pause = isinstance(command.fact, e.DispatchUnpaused)
        require_person(command.fact.by, "end a pause" if is_pause else "lift a hold")
    begun: tuple[e.Event, ...] = ()
    if saga.begun is None:
        start = e.SagaStarted(definition=CONTROL, version=1, input=None, actor=command.fact.by, env="", labels={})
        begun = (start, e.SagaCompleted(result=None))
    elif saga.begun.definition != CONTROL:
        raise RefusedError(f"saga {saga.id} is {saga.begun.definition}, and controls nothing")
    return (*begun, command.fact)
