"""A part of a session that another agent does in a session of its own: one step, which is taken back as a whole."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, Final

from amends.core.words.contracts import Contract, Retries, Reversibility, Topic
from amends.core.words.values import Json, SagaId
from amends.errors import UnknownSagaError
from amends.runtime.declare.action import Action, Done, current_call
from amends.runtime.drive.children import here
from amends.runtime.saga.session import Session, call_id, current_session

Work = Callable[[SagaId], Awaitable[Json]]
DELEGATE_TOPIC: Final = Topic("amends.delegate")
_work: Final[ContextVar[Work | None]] = ContextVar("delegated_work", default=None)


async def _delegated(agent: str, session: str, arguments: Json) -> Json:  # noqa: ARG001 - for who reads the journal
    """Have another agent work in a session of its own."""
    work = _work.get()
    if work is None:
        raise RuntimeError(f"whoever asked {agent} is gone")
    return await asyncio.ensure_future(_outside(work, SagaId(session)))


async def _outside(work: Work, session: SagaId) -> Json:
    current_session.set(None)
    current_call.set(None)
    call_id.set("")
    return await work(session)


async def _take_back(done: Done) -> None:
    """Takes back all that was done in that session, even after it completed."""
    with suppress(UnknownSagaError):  # it was never opened
        await here.get().revert(SagaId(done.args["session"]), f"saga {done.saga} takes it back", "session")


DELEGATE: Final[Action[..., Any]] = Action(
    _delegated,
    Contract(
        topic=DELEGATE_TOPIC,
        reversibility=Reversibility.COMPENSATABLE,
        timeout_s=None,
        retries=Retries(attempts=1),
        undo_timeout_s=3600.0,
    ),
)
DELEGATE.compensation(_take_back)


async def delegate(session: Session, agent: str, arguments: Json, work: Work, *, call: str) -> Json:
    """Do `work` in another session, whose id it is given, as a step of this one."""
    token = _work.set(work)
    child = f"{session.id[:80]}.{''.join(one if one.isalnum() else '-' for one in call)[-40:]}"
    try:
        named = {"agent": agent, "session": child, "arguments": arguments}
        done: Json = await session.do_named(DELEGATE, named, call=call)
        return done
    finally:
        _work.reset(token)
