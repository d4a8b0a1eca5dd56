"""Agents of open sagas: each process has one, and each takes the same session up again until its work is done."""

from __future__ import annotations

import asyncio
from typing import Final

from amends.core.words.values import SagaId
from amends.errors import AmendsError, RefusedError, StepError, UnknownSagaError
from amends.runtime.saga.session import Session
from amends.testing.simulation.actions import ACTIONS, PIVOT
from amends.testing.simulation.language import SESSION, Program
from amends.testing.simulation.process import Process

_IDLE_S: Final = 3_600.0
"""Longer than anybody stands still: whoever comes back goes on, and what nobody comes back for goes back."""
_TRIES: Final = 40


async def work_in_session(process: Process, saga: SagaId, program: Program) -> None:
    """Do the program's steps in a session, and take it up again where another agent has left it; then complete it."""
    for _ in range(_TRIES):
        try:
            session = process.coordinator.session(SESSION, id=saga, actor="agent:sim", idle=_IDLE_S, on_idle="rollback")
            async with session as s:
                await _steps(s, program)
            return
        except (RuntimeError, StepError):
            return  # it goes back, and that goes on without an agent
        except RefusedError:
            if await _has_ended(process, saga):
                return
        except AmendsError:
            pass  # its journal failed it, or another worker has the saga now
        await process.nap(5, 60)


async def _steps(s: Session, program: Program) -> None:
    """Each step has a call of its own, so that whoever goes on does none of them again."""
    groups: list[list[int]] = program["groups"]
    for number, group in enumerate(groups):
        steps = ((ACTIONS[which], number * 10 + place) for place, which in enumerate(group))
        await asyncio.gather(*(s.do_named(action, {"n": n}, call=f"call-{n}") for action, n in steps))
    if program["pivots"]:
        await s.do_named(PIVOT, {"n": 0}, call="call-pivot")
    if program["fails"]:
        raise RuntimeError("it was not meant to be")


async def _has_ended(process: Process, saga: SagaId) -> bool:
    try:
        state = (await process.coordinator.show(saga)).saga
    except UnknownSagaError:
        return False
    return state.status.ended or state.rollback is not None or (bool(state.open_incidents) and not state.works)
