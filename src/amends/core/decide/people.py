"""The roster of people, and decisions that one of them has signed. Pure: whether a signature holds is found outside."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, cast

from amends.core import commands as c, events as e
from amends.core.state.deciders import require_person
from amends.core.state.saga import Saga
from amends.core.words.values import PEOPLE
from amends.dataclass import altered
from amends.errors import RefusedError

_LAST_FIRST: Final = (e.WorkResumed, e.RollbackResumed)


def change_roster(saga: Saga, command: c.ChangeRoster) -> tuple[e.Event, ...]:
    """The roster stands in a saga of its own, which has ended as soon as it began."""
    fact = command.fact
    require_person(fact.by, "change the roster")
    begun: tuple[e.Event, ...] = ()
    if saga.begun is None:
        if isinstance(fact, e.PersonRevoked):
            raise RefusedError("nobody is enrolled on this journal, so there is nobody to revoke")
        start = e.SagaStarted(definition=PEOPLE, version=1, input=None, actor=fact.by, env="", labels={})
        begun = (start, e.SagaCompleted(result=None))
    elif saga.begun.definition != PEOPLE:
        raise RefusedError(f"saga {saga.id} is {saga.begun.definition}, and is no roster")
    return (*begun, fact)


def decision_in(events: tuple[e.Event, ...]) -> e.DecisionEvent:
    """The one of these facts that a person decides, with the limits that it raises; the others follow from it.

    Raises RefusedError.
    """
    decisions = [event for event in events if isinstance(event, e.DecisionEvent)]
    answered = [event for event in decisions if not isinstance(event, (*_LAST_FIRST, e.LimitRaised))]
    resumed = [event for event in decisions if isinstance(event, _LAST_FIRST)]
    raised = [event for event in decisions if isinstance(event, e.LimitRaised)]
    found: list[e.DecisionEvent] = [*answered, *(raised if not answered and not _follows(raised, resumed) else resumed)]
    if not found:
        raise RefusedError("there is nothing left to be decided: it was void, has expired, or is decided already")
    others = ", ".join(f"{each.limit} {each.most}" for each in raised if each is not found[0])
    return cast(e.DecisionEvent, replace(cast(Any, found[0]), raises=others)) if others else found[0]


def _follows(raised: list[e.LimitRaised], resumed: list[e.WorkResumed | e.RollbackResumed]) -> bool:
    """Whether limits were raised because a saga was let go on, and not the other way round."""
    return bool(resumed) and not any(each.why for each in raised)


def signed(event: e.Event, signature: str) -> e.Event:
    """A decision with its signature; '' for none."""
    return cast(e.Event, replace(cast(Any, event), signed=signature))


def with_signature(saga: Saga, events: tuple[e.Event, ...], command: c.Sign) -> tuple[e.Event, ...]:
    """The facts, with the signature on the one that was signed, and limits raised to what was signed.

    Of time, as much again is a little more by now than when it was signed. Raises RefusedError where what was signed is
    not among the facts, or a limit would be raised to less by now.
    """
    place = next((at for at, event in enumerate(events) if _plain(event) == _plain(command.fact)), None)
    amounts = _amounts(command.fact)
    now = {event.limit: event.most for event in events if isinstance(event, e.LimitRaised)}
    if place is None or amounts.keys() != now.keys() or any(most > now[name] for name, most in amounts.items()):
        raise RefusedError(f"what was signed is not what would be recorded of saga {saga.id} by now; look at it again")
    facts = [
        altered(event, most=amounts[event.limit]) if isinstance(event, e.LimitRaised) else event for event in events
    ]
    if now:
        facts[place] = cast(e.Event, replace(cast(Any, facts[place]), raises=getattr(command.fact, "raises", "")))
    facts[place] = signed(facts[place], command.signed)
    return tuple(facts)


def _amounts(fact: e.DecisionEvent) -> dict[str, int]:
    """Limits that a signed decision raises, and to what."""
    others = (each.partition(" ") for each in getattr(fact, "raises", "").split(", ") if each)
    amounts = {name: int(most) for name, _, most in others}
    return {**amounts, fact.limit: fact.most} if isinstance(fact, e.LimitRaised) else amounts


def _plain(event: e.Event) -> e.Event:
    """A decision as it is signed, but for what limits are raised to.

    Whether another person has to agree too, and until when, is not the decider's.
    """
    if isinstance(event, e.ApprovalGranted):
        return e.ApprovalSigned(step=event.step, by=event.by, digest=event.digest, why=event.why)
    if isinstance(event, e.ApprovalSigned):
        return altered(event, own=False, signed="")
    if isinstance(event, e.WorkResumed):
        return altered(event, own=False, signed="", deadline_at=0, raises="")
    if isinstance(event, e.RollbackResumed):
        return altered(event, own=False, signed="", deadline_at=0)
    if isinstance(event, e.LimitRaised):
        return altered(event, own=False, signed="", raises="", most=0)
    if isinstance(event, e.IncidentRetried | e.IncidentResolved):
        return cast(e.Event, replace(cast(Any, event), own=False, signed="", raises=""))
    if isinstance(event, e.ApprovalRefused):
        return altered(event, own=False, signed="")
    return event
