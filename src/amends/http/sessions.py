"""Sessions that clients have open through this server: the block of each runs here, its steps are asked for over HTTP.

Whoever opens one, or takes it up again, holds it by a secret of its own; who held it before holds it no more, and what
they were doing is lost. A step is under way until its end was told: whoever holds the session makes the calls that it
needs, each a task, and reports. Where the server is started anew, a session is taken up by its id, as in any process.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable, Coroutine, Mapping
from contextlib import aclosing, suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from amends.core.words.values import SagaId
from amends.errors import (
    AmendsError,
    ApprovalPending,
    Detach,
    InputError,
    RefusedError,
    SessionNotOpenError,
    SessionOverError,
    StepDeniedError,
    StepError,
)
from amends.http.actions import RemoteAction, RemoteRegistry
from amends.http.callers import Caller
from amends.http.feed import Feed
from amends.http.tasks import Task, Tasks, asked_by, new_token
from amends.journal.port.journal import Entry
from amends.logs import logger
from amends.remote.contracts import DeclaredContract, contract_of, sources
from amends.remote.errors import step_error_fields
from amends.remote.outcomes import CallReport
from amends.runtime.declare.limits import Limits
from amends.runtime.saga.open import OnIdle
from amends.runtime.saga.session import Session

if TYPE_CHECKING:
    from amends.bootstrap import Coordinator

Fields = dict[str, object]
TAKE_UP_S: Final = 5.0
_LOST_S: Final = 0.5
"""How long a server that stops waits until a call that is out is on record as lost."""
_log = logger("amends.http")
_ENDS: Final = frozenset({"saga.completed/1", "saga.rolled_back/1", "saga.mitigated/1"})
_GONE: Final[CallReport] = {"outcome": "lost", "why": "whoever made the call has gone: its session was taken up again"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRequest:
    """A session as it is asked for."""

    name: str
    id: str
    labels: Mapping[str, str] | None = None
    limits: Limits | None = None
    idle: str | float = "1h"
    on_idle: OnIdle = "call"
    input: Mapping[str, Any] | None = None
    client: str = ""
    """The id under which whoever opens it takes its tasks."""


class StepUnderWay:
    """One step that is being done: what its asker has to call next, and how it ended."""

    def __init__(
        self, session: OpenSession, call: str, begin: Callable[[], Coroutine[Any, Any, Any]], *, own: bool
    ) -> None:
        self.call = call
        self._session = session
        self._offered: Task | None = None
        self._news = asyncio.Event()
        context = copy_context()
        context.run(asked_by.set, self if own else None)
        self.doing: asyncio.Task[Any] = asyncio.get_running_loop().create_task(begin(), context=context)
        self.doing.add_done_callback(self._end)

    def _end(self, doing: asyncio.Task[Any]) -> None:
        if not doing.cancelled():
            doing.exception()
        self._news.set()

    @property
    def is_over(self) -> bool:
        return self.doing.done()

    def offer(self, task: Task) -> None:
        self._offered = task
        self._session.tokens[task.token] = self
        self._news.set()

    def withdraw(self, task: Task) -> None:
        if self._offered is task:
            self._offered = None

    def leave(self) -> None:
        self.doing.cancel()

    def abandon(self, tasks: Tasks) -> None:
        """Say that whoever made its calls has gone."""
        if self._offered is not None and self._offered.taken.is_set():
            tasks.end(self._offered, _GONE if self._offered.part != "probe" else {**_GONE, "outcome": "lost"})

    async def stand(self, wait_s: float) -> Fields:
        """Say what its asker has to do next, or how it ended; `running` where neither is known in time."""
        until = asyncio.get_running_loop().time() + wait_s
        while True:
            self._news.clear()
            if self.doing.done():
                return self._told()
            if (task := self._offered) is not None and not task.report.done():
                task.taken.set()
                return {"state": "perform", "call": self.call, **task.fields()}
            left_s = until - asyncio.get_running_loop().time()
            if left_s <= 0:
                return {"state": "running", "call": self.call}
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), left_s)

    def _told(self) -> Fields:
        """How it ended. Raises AmendsError where it could not be done at all."""
        if self.doing.cancelled():
            return {"state": "running", "call": self.call}
        error = self.doing.exception()
        if error is None:
            return {"state": "succeeded", "call": self.call, "result": self.doing.result()}
        if isinstance(error, ApprovalPending):
            return {
                "state": "pending",
                "call": self.call,
                "approval": error.approval,
                "topic": error.topic,
                "rule": error.rule,
                "why": error.why,
                "digest": error.digest,
                "expires_at": error.expires_at,
            }
        if isinstance(error, StepError):
            return {"state": _state(error), "call": self.call, "error": step_error_fields(error)}
        raise error


def _state(error: StepError) -> str:
    if isinstance(error, StepDeniedError):
        return "denied"
    return "failed" if error.happened is False else "lost"


@dataclass(slots=True)
class OpenSession:
    """One session that is open here. `holder` is the secret of whoever has it."""

    id: SagaId
    name: str
    actor: str
    holder: str
    client: str
    opened: asyncio.Future[Session]
    leave: asyncio.Event = field(default_factory=asyncio.Event)
    owner: asyncio.Task[None] | None = None
    contracts: dict[str, RemoteAction] = field(default_factory=dict[str, RemoteAction])
    steps: dict[str, StepUnderWay] = field(default_factory=dict[str, StepUnderWay])
    tokens: dict[str, StepUnderWay] = field(default_factory=dict[str, StepUnderWay])

    def require_holder(self, holder: str, caller: Caller) -> None:
        """Raises SessionOverError for whoever does not hold it."""
        if caller.name != self.actor or not hmac.compare_digest(holder.encode(), self.holder.encode()):
            raise SessionOverError(
                f"session {self.id} was taken up by somebody else, or opened anew: open it again, by its id, to go on"
            )


class OpenSessions:
    """All of them."""

    def __init__(self, coordinator: Coordinator, tasks: Tasks, registry: RemoteRegistry, feed: Feed) -> None:
        self._coordinator = coordinator
        self._tasks = tasks
        self._registry = registry
        self._feed = feed
        self._open: dict[str, OpenSession] = {}
        coordinator.observe(self._look_at)

    def client_of(self, saga: SagaId) -> str:
        """The client that has a session open; empty where none has, or it did not say who it is."""
        one = self._open.get(saga)
        return "" if one is None else one.client

    def is_held(self, saga: SagaId) -> bool:
        """Whether a client has it open that is there."""
        one = self._open.get(saga)
        return one is not None and one.client != "" and self._tasks.is_there(one.client)

    def _look_at(self, entry: Entry) -> None:
        if entry.name in _ENDS and (one := self._open.get(entry.saga)) is not None:
            one.leave.set()

    # -- opening ------------------------------------------------------------------------------------------------------

    async def open(
        self, asked: OpenRequest, caller: Caller, contracts: list[DeclaredContract], wait_s: float
    ) -> OpenSession:
        """Open a session, or take one up: the caller holds it from now on. It may not be ready within `wait_s`."""
        caller.require_definition(asked.name)
        declared = {str(action.topic): action for action in map(self._declared, contracts)}
        one = self._open.get(asked.id)
        while one is not None and one.leave.is_set() and one.owner is not None:
            await asyncio.wait({one.owner})
            one = self._open.get(asked.id)
        if one is None:
            opened: asyncio.Future[Session] = asyncio.get_running_loop().create_future()
            one = OpenSession(SagaId(asked.id), asked.name, caller.name, "", asked.client, opened)
            self._open[asked.id] = one
            one.owner = asyncio.create_task(self._own(one, asked), name=f"session {asked.id}")
        elif (one.name, one.actor) != (asked.name, caller.name):
            raise RefusedError(f"session {asked.id} is {one.actor}'s, and is {one.name}; use another id")
        elif one.client != asked.client and self._tasks.is_there(one.client):
            raise RefusedError(f"session {asked.id} is open at another client, which is there; leave it there first")
        else:
            for step in tuple(one.steps.values()):
                step.abandon(self._tasks)
        one.client = asked.client
        one.holder = new_token()
        one.contracts.update(declared)
        await asyncio.wait({one.opened}, timeout=wait_s)
        if one.opened.done() and one.opened.exception() is not None:
            raise one.opened.exception() or AssertionError
        return one

    def _declared(self, declared: DeclaredContract) -> RemoteAction:
        return self._registry.remote(contract_of(declared), sources(declared))

    async def _own(self, one: OpenSession, asked: OpenRequest) -> None:
        try:
            async with self._coordinator.session(
                asked.name,
                id=asked.id,
                actor=one.actor,
                labels=asked.labels,
                limits=asked.limits,
                idle=asked.idle,
                on_idle=asked.on_idle,
                wait=TAKE_UP_S,
                input=asked.input,
            ) as session:
                one.opened.set_result(session)
                await one.leave.wait()
                raise Detach
        except Detach:
            pass
        except (AmendsError, asyncio.CancelledError) as exc:
            if not one.opened.done():
                one.opened.set_exception(exc if isinstance(exc, AmendsError) else RefusedError("the server ends"))
                one.opened.exception()
            elif not one.leave.is_set():
                _log.warning("session %s was left: %s", one.id, exc)
        finally:
            one.leave.set()
            if self._open.get(one.id) is one:
                del self._open[one.id]

    async def close(self) -> None:
        """Leave all of them, for whoever takes them up: the calls that are out are lost."""
        owners = [one.owner for one in self._open.values() if one.owner is not None]
        steps = [step for one in self._open.values() for step in one.steps.values()]
        for step in steps:
            step.abandon(self._tasks)
        if steps:  # each has put on record that it was lost, and is not tried again by this server
            await asyncio.wait({step.doing for step in steps}, timeout=_LOST_S)
        for step in steps:
            step.leave()
        for one in tuple(self._open.values()):
            one.leave.set()
        if owners:
            await asyncio.wait(owners)

    # -- using --------------------------------------------------------------------------------------------------------

    async def held(self, id: str, holder: str, caller: Caller, wait_s: float) -> tuple[OpenSession, Session]:
        """The session that the caller holds. Raises SessionOverError, and RefusedError while it is not ready."""
        one = self._open.get(id)
        if one is None or one.leave.is_set():
            raise SessionNotOpenError(f"session {id} is not open at this server: open it again, by its id, to go on")
        one.require_holder(holder, caller)
        await asyncio.wait({one.opened}, timeout=wait_s)
        if not one.opened.done():
            raise RefusedError(f"session {id} is being settled: take its tasks, and ask again")
        return one, one.opened.result()

    async def step(
        self,
        one: OpenSession,
        session: Session,
        *,
        topic: str,
        args: Mapping[str, Any],
        call: str,
        contract: DeclaredContract | None,
        by_worker: bool,
        wait_s: float,
    ) -> Fields:
        """Do a step, or go on with it: what whoever holds the session has to do next, or how it ended."""
        if contract is not None:
            declared = self._declared(contract)
            if declared.topic != topic:
                raise InputError(f"the contract is of {declared.topic}, and the step of {topic[:128]}")
            one.contracts[topic] = declared
        action = one.contracts.get(topic)
        if action is None:
            raise InputError(f"nobody has declared {topic} here; send its contract with the step, or open with it")
        until = asyncio.get_running_loop().time() + wait_s
        pending: Fields | None = None
        while True:
            seen = self._feed.position
            under_way = one.steps.get(call) or self._begin(one, session, action, args, call, own=not by_worker)
            told = await under_way.stand(max(0.0, until - asyncio.get_running_loop().time()))
            left_s = until - asyncio.get_running_loop().time()
            if told["state"] == "running" and pending is not None:
                return pending
            if told["state"] != "pending" or left_s <= 0:
                return told
            pending = told
            await self._news(one.id, seen, left_s)

    async def _news(self, saga: SagaId, seen: int, most_s: float) -> None:
        """Wait until something new is on record of a saga."""
        with suppress(TimeoutError):
            async with asyncio.timeout(most_s), aclosing(self._feed.follow(seen)) as entries:
                async for logged in entries:
                    if logged.entry.saga == saga:
                        return

    def _begin(
        self, one: OpenSession, session: Session, action: RemoteAction, args: Mapping[str, Any], call: str, *, own: bool
    ) -> StepUnderWay:
        under_way = StepUnderWay(
            one, call, lambda: session.do_named(action, dict(args), call=call, waits=False), own=own
        )
        one.steps[call] = under_way
        under_way.doing.add_done_callback(lambda _: one.steps.pop(call, None))
        return under_way

    async def after_report(self, token: str, wait_s: float) -> Fields:
        """Where a step stands after one of its calls was reported; nothing where it is no step of a session here."""
        for one in self._open.values():
            if (step := one.tokens.pop(token, None)) is not None:
                return await step.stand(wait_s)
        return {"state": "taken"}
