"""Threads of frameworks: the session that one is in, the runs that are a part of it, and what people answer there.

The thread's id is the session's; the next run after its end is `thread.2`. A run inside of somebody's session is a part
of that, and does not end it; its calls have ids within that of the call it is in, so that no two are the same.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Final

from amends.bootstrap import Coordinator
from amends.dataclass import dataclass
from amends.errors import RefusedError
from amends.logs import logger
from amends.runtime.saga.delegates import delegate
from amends.runtime.saga.model_answers import Answers
from amends.runtime.saga.session import Session, current_session

_log = logger("amends.adapters")
THREAD: Final = "thread"
"""The label of a session that says which thread it is in."""


@dataclass(frozen=True, slots=True)
class Part:
    """A run's part of a session; `is_whole` where the run has opened it, and ends it."""

    session: Session
    answers: Answers
    within: str = ""
    is_whole: bool = False

    @contextmanager
    def call(self, call: str) -> Generator[str]:
        """Make a call in this block; gives the id of its step."""
        step = self.within + call
        token = entered.set(replace(self, within=f"{step}/", is_whole=False))
        try:
            yield step
        finally:
            entered.reset(token)


entered: Final[ContextVar[Part | None]] = ContextVar("adapter_part", default=None)
"""The part that the asking code is in; while a call is made, what is within that."""


@asynccontextmanager
async def opened(
    coordinator: Coordinator, name: str, thread: str | None, options: Mapping[str, Any]
) -> AsyncGenerator[Part]:
    """Run an agent in this block: in the session that it is in, else in its thread's, or in a new one."""
    outer, around = current_session.get(), entered.get()
    if outer is not None:
        within = "" if around is None else around.within
        with _entering(Part(outer, Answers(outer, within), within)) as part:
            yield part
        return
    saga = None if thread is None else await session_of(coordinator, thread)
    labels: dict[str, str] = {**({} if thread is None else {THREAD: thread}), **(options.get("labels") or {})}
    asked: dict[str, Any] = {"actor": f"agent:{name}", **options, "labels": labels}
    async with coordinator.session(name, id=saga, **asked) as session:
        with _entering(Part(session, Answers(session), is_whole=True)) as part:
            yield part


async def done_by_child(
    coordinator: Coordinator,
    part: Part,
    agent: str,
    arguments: Mapping[str, Any],
    run: Callable[..., Awaitable[Any]],
    *,
    call: str,
) -> Any:
    """Make a call in which another agent works, as a session of its own; taking that step back takes all of it back."""

    async def work(child: str) -> Any:
        labels = {"parent": part.session.id}
        async with coordinator.session(agent, id=child, actor=f"agent:{agent}", labels=labels) as session:
            with _entering(Part(session, Answers(session))):
                return await run(**arguments)

    return await delegate(part.session, agent, dict(arguments), work, call=call)


@contextmanager
def _entering(part: Part) -> Generator[Part]:
    token = entered.set(part)
    try:
        yield part
    finally:
        entered.reset(token)


async def session_of(coordinator: Coordinator, thread: str) -> str:
    """The id of the thread's session that has not ended; else of the next: `thread`, `thread.2`, `thread.3`."""
    rows = await coordinator.list(labels={THREAD: thread}, limit=1)
    if not rows or not rows[0].status.ended:
        return rows[0].id if rows else thread
    return f"{thread}.{int(rows[0].id.removeprefix(thread).removeprefix('.') or 1) + 1}"


async def answer(coordinator: Coordinator, part: Part, call: str, by: str, *, refused: str = "") -> None:
    """Answer what people are asked about a call, as somebody has in the framework; what is answered stays so."""
    known = (one for one in reversed(part.session.steps) if one.call == part.within + call)
    step = next((one for one in known if one.status == "awaiting"), None)
    if step is None:
        return
    approval = f"{part.session.id}/{step.step}"
    try:
        if refused:
            await coordinator.refuse(approval, by=by, why=refused)
        else:
            await coordinator.grant(approval, by=by, why="approved in the agent's own run")
    except RefusedError as exc:
        _log.info("the answer to approval %s that was given in the framework does not count: %s", approval, exc)
