"""Tasks over HTTP: calls that wait for a worker of their topic, and the report of how a call ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from fnmatch import fnmatchcase
from typing import Any

from amends.errors import InputError, SessionOverError, UnknownError
from amends.http.api.operations import At, Operation, get, post
from amends.http.api.sessions import STEP, checked_wait
from amends.http.api.shapes import SOME_OBJECT, maybe, record
from amends.http.callers import Caller, Scope
from amends.http.references import received
from amends.http.tasks import Task
from amends.remote.outcomes import CallReport, Word

_MOST_TOPICS = 1000


async def take_task(
    at: At, *, topic: list[str], saga: list[str] | None = None, client: str = "", wait: float = 0.0
) -> object:
    """Take one call that waits for somebody: a compensation, a probe, a before-image, an action.

    `topic`: globs of the topics that you have functions for. `saga`: of these sagas only. `client`: of the sessions
    only that you have open under this id, which nobody else takes up while you ask. `wait`: for how many seconds; null
    where none came. What you have taken is yours alone: report how it ended to `/v1/attempts/{token}/outcome`, within
    `timeout_s`; else it is lost.
    """
    if not 0 < len(topic) <= _MOST_TOPICS:
        raise InputError(f"{len(topic)} topics are asked for; it takes 1 to {_MOST_TOPICS}")
    patterns, sagas = tuple(topic), None if saga is None else frozenset(saga)

    def wanted(task: Task) -> bool:
        if sagas is not None and task.saga not in sagas:
            return False
        if client and at.served.sessions.client_of(task) != client:
            return False
        return may_run(at.caller, task.definition) and any(fnmatchcase(task.topic, one) for one in patterns)

    tasks = at.served.tasks
    if sagas is None and not client:
        tasks.note_worker(patterns)
    async with _over(at) as over:
        with tasks.asking(client) as gone:
            task = await tasks.take(wanted, checked_wait(wait), over)
            if over.done() and not at.served.stopping.is_set():
                gone()
                if task is not None:
                    tasks.give_back(task)
                    task = None
    return {"task": None if task is None else task.fields()}


@asynccontextmanager
async def _over(at: At) -> AsyncGenerator[asyncio.Future[Any]]:
    """Done once whoever asks has gone, or the server stops: nothing is to be handed over any more."""

    async def until_gone() -> None:
        while (await at.request.receive())["type"] != "http.disconnect":
            pass

    both = {asyncio.ensure_future(until_gone()), asyncio.ensure_future(at.served.stopping.wait())}
    over: asyncio.Future[Any] = asyncio.ensure_future(asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED))
    try:
        yield over
    finally:
        for one in (over, *both):
            one.cancel()
        await asyncio.wait({over, *both})


def may_run(caller: Caller, definition: str) -> bool:
    return any(fnmatchcase(definition, one) for one in caller.definitions)


async def report_attempt(  # noqa: PLR0913 - one for each thing that can be said of an end
    at: At,
    token: str,
    *,
    outcome: Word,
    result: Any = None,  # noqa: ANN401 - the caller's own
    opaque: str = "",
    why: str = "",
    fatal: bool = False,
    final: bool = False,
    changed_since: bool = False,
    after: float | None = None,
    where: str = "",
    wait: float = 20.0,
) -> object:
    """Report how a call ended: `succeeded` with its result; `failed`, certainly nothing happened; `lost`, who knows.

    Of a probe: `happened`, with what the action would have returned, or `not_happened`. `fatal`: it is not to be tried
    again. `after`: seconds until it may. `changed_since`: a compensation found that somebody else has changed it. The
    answer is where the step stands now, as of `/v1/sessions/{session}/steps`; `taken` where that is to be asked for.
    Where the server was started anew meanwhile, how an action ended goes on record all the same; so does that one took
    effect whose session was left, or whose time was up.
    """
    task = at.served.tasks.find(token)
    report: CallReport = {
        "outcome": outcome,
        "result": received(result),
        "opaque": opaque,
        "why": why,
        "fatal": fatal,
        "final": final,
        "changed_since": changed_since,
        "after": after,
        "where": where,
    }
    if task is None:
        return await at.served.sessions.report_late(at.served.tasks.attempt_of(token), report, at.caller)
    at.caller.require_definition(task.definition)
    if not at.served.tasks.end(task, report) and task.came_late(report):
        with suppress(UnknownError):  # no attempt of its own, or one that is under way elsewhere by now
            await at.served.sessions.report_late(at.served.tasks.attempt_of(token), report, at.caller)
        with suppress(SessionOverError):
            return await at.served.sessions.after_report(token, checked_wait(wait))
        return {"state": "taken"}
    return await at.served.sessions.after_report(token, checked_wait(wait))


def operations() -> tuple[Operation, ...]:
    return (
        get("/tasks", take_task, record(task=maybe(SOME_OBJECT)), scope=Scope.RUN),
        post("/attempts/{token}/outcome", report_attempt, STEP, scope=Scope.RUN, is_keyed=False),
    )
