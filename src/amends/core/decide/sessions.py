"""Open sagas, which an agent drives from outside: their waits that nobody is at any more, and standing idle. Pure."""

from __future__ import annotations

from typing import assert_never

from amends.core import commands as c, events as e
from amends.core.decide.incidents import opened_idle
from amends.core.decide.require import require_work
from amends.core.state.saga import Saga, open_waits
from amends.core.words.values import RUNTIME
from amends.errors import RefusedError


def decide_session(saga: Saga, command: c.SessionCommand) -> tuple[e.Event, ...]:
    """Raises RefusedError where the saga is not open, or does not go forward."""
    require_work(saga)
    if saga.begun is None or saga.begun.session is None:
        raise RefusedError(f"saga {saga.id} has a function of its own, and is no session")
    idle = tuple(one for one in saga.open_incidents if one.kind is e.IncidentKind.IDLE)
    match command:
        case c.LeaveWaits(places=places):
            left = (wait.place for wait in open_waits(saga) if wait.place in places)
            return tuple(e.WaitEnded(place=place, signal=None) for place in left)
        case c.ReportIdle(why=why):
            return () if idle else (opened_idle(saga, why),)
        case c.EndIdle():
            reason = "somebody goes on with it"
            return tuple(e.IncidentResolved(incident=one.number, by=RUNTIME, reason=reason, settled=()) for one in idle)
        case _:
            assert_never(command)
