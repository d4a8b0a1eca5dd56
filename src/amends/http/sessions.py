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
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from starlette.requests import Request

from amends.clock import Clock
from amends.core.events import RewindStarted
from amends.core.state.step import LIVE
from amends.core.words.values import SagaId
from amends.documents.documents import spelled_body
from amends.errors import (
    AmendsError,
    Detach,
    InputError,
    RefusedError,
    SessionNotOpenError,
    SessionOverError,
    UnknownError,
)
from amends.http.actions import RemoteAction, RemoteRegistry
from amends.http.callers import Caller
from amends.http.feed import Feed
from amends.http.references import received_args
from amends.http.steps import StepUnderWay
from amends.http.tasks import AttemptName, Task, Tasks
from amends.journal.port.journal import Entry
from amends.logs import logger
from amends.remote.contracts import DeclaredContract, contract_of, sources
from amends.remote.outcomes import CallReport, outcome_of, require_fitting
from amends.runtime.declare.action import Action
from amends.runtime.declare.limits import Limits
from amends.runtime.drive.children import CALL, REVERT
from amends.runtime.drive.kinship import child_id
from amends.runtime.saga.documents import delete_document, get_document, set_document
from amends.runtime.saga.open import OnIdle
from amends.runtime.saga.session import Session

if TYPE_CHECKING:
    from amends.bootstrap import Coordinator

T = TypeVar("T")
Fields = dict[str, object]
TAKE_UP_S: Final = 5.0
_LOOKS: Final = 10
"""So often it is looked in an idle time whether a session was left alone."""
_LOST_S: Final = 0.5
"""How long a server that stops waits until a call that is out is on record as lost."""
_log = logger("amends.http")
_ENDS: Final = frozenset({"saga.completed/1", "saga.rolled_back/1", "saga.mitigated/1"})
_OWN: Final[Mapping[str, Action[..., Any]]] = {
    str(one.topic): one for one in (REVERT, get_document, set_document, delete_document)
}
"""Actions that a server does itself, wherever the functions of a session's others are."""
_ON_DOCUMENTS: Final = (get_document, set_document, delete_document)
_NAMED: Final = 80
"""So much of a saga's id is in those of its children at least."""
_ASKED: Final = "\n?"
_WAITED: Final = "\n."
"""Before a call, what people are asked about it, and a wait; no call has a line's end in it."""


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
    starts_over: bool = False
    """Whoever opens it calls a function, and calls it again where a part of it was taken back from outside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildRequest:
    """A child as it is called by whoever has its function."""

    definition: str
    version: int
    input: Mapping[str, Any]
    limits: Limits | None = None
    timeout_s: float | None = None

    def given(self) -> Mapping[str, object]:
        """The arguments of the step that runs it."""
        named: dict[str, object] = {
            "definition": self.definition,
            "version": self.version,
            "given": received_args(self.input),
            "actor": "",
        }
        return named if self.timeout_s is None else {**named, "timeout_s": self.timeout_s}


@dataclass(slots=True)
class OpenSession:
    """One session that is open here. `holder` is the secret of whoever has it."""

    id: SagaId
    name: str
    actor: str
    holder: str
    client: str
    opened: asyncio.Future[Session]
    starts_over: bool = False
    leave: asyncio.Event = field(default_factory=asyncio.Event)
    owner: asyncio.Task[None] | None = None
    contracts: dict[str, RemoteAction] = field(default_factory=dict[str, RemoteAction])
    steps: dict[str, StepUnderWay] = field(default_factory=dict[str, StepUnderWay])
    asking: dict[asyncio.Task[Any], Request] = field(default_factory=dict[asyncio.Task[Any], Request])
    """The requests about it that are being answered."""
    seen_at: float = 0.0
    """When the last of them came, or was answered, by the clock that no one sets."""
    tokens: dict[str, StepUnderWay] = field(default_factory=dict[str, StepUnderWay])
    verbs: dict[str, asyncio.Future[Any]] = field(default_factory=dict[str, "asyncio.Future[Any]"])
    """Verbs that take long and are under way, its ends among them: whoever asks again waits for the same."""

    async def within(self, verb: str, begin: Callable[[], Coroutine[Any, Any, T]], wait_s: float) -> asyncio.Future[T]:
        """A verb, begun here unless it is under way; it may not be done within `wait_s`."""
        under_way: asyncio.Future[T] | None = self.verbs.get(verb)
        if under_way is None:
            under_way = self.verbs[verb] = asyncio.ensure_future(begin())
            under_way.add_done_callback(lambda _: self.verbs.pop(verb, None))
        await asyncio.wait({under_way}, timeout=wait_s)
        return under_way

    def answers(self, request: Request, elapsed: Callable[[], float]) -> None:
        """The calling task answers a request about it."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a request is answered in a task")

        def answered(_: object) -> None:
            self.asking.pop(task, None)
            self.seen_at = elapsed()

        self.seen_at = elapsed()
        self.asking[task] = request
        task.add_done_callback(answered)

    async def is_asked_about(self) -> bool:
        """Whether somebody waits for an answer who is still there."""
        return any([not await one.is_disconnected() for one in tuple(self.asking.values())])

    @property
    def has_calls_out(self) -> bool:
        """Whether a call of it is being made, here or by a worker, that will be lost by itself once its time is up."""
        if not self.opened.done() or self.opened.exception() is not None:
            return False
        endless = {one.endless for one in self.steps.values()}
        on_record = self.opened.result().steps_on_record.values()
        return any(step.status in LIVE and step.id not in endless for step in on_record)

    def require_holder(self, holder: str, caller: Caller) -> None:
        """Raises SessionOverError for whoever does not hold it."""
        if caller.name != self.actor or not hmac.compare_digest(holder.encode(), self.holder.encode()):
            raise SessionOverError(
                f"session {self.id} was taken up by somebody else, or opened anew: open it again, by its id, to go on"
            )


class OpenSessions:
    """All of them."""

    def __init__(
        self, coordinator: Coordinator, tasks: Tasks, registry: RemoteRegistry, feed: Feed, clock: Clock
    ) -> None:
        self._coordinator = coordinator
        self._clock = clock
        self._tasks = tasks
        self._registry = registry
        self._feed = feed
        self._open: dict[str, OpenSession] = {}
        coordinator.observe(self._look_at)

    def client_of(self, task: Task) -> str:
        """The client that has a task's session open, or that of its family's root; empty where none has, or it did not
        say who it is.
        """
        one = self._open.get(task.saga) or self._open.get(task.root)
        return "" if one is None else one.client

    def is_held(self, saga: SagaId) -> bool:
        """Whether a client has it open that is there."""
        one = self._open.get(saga)
        return one is not None and one.client != "" and self._tasks.is_there(one.client)

    def _look_at(self, entry: Entry) -> None:
        one = self._open.get(entry.saga)
        if one is None:
            return
        if entry.name in _ENDS:
            one.leave.set()
        elif one.starts_over and isinstance(entry.event, RewindStarted) and entry.event.place is None:
            one.holder = self._tasks.new_token()  # whoever calls its function has to call it again
            for step in tuple(one.steps.values()):
                step.leave()

    # -- opening ------------------------------------------------------------------------------------------------------

    async def open(
        self,
        asked: OpenRequest,
        caller: Caller,
        contracts: list[DeclaredContract],
        wait_s: float,
        request: Request,
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
            for call, step in tuple(one.steps.items()):
                step.abandon(self._tasks)
                if call.startswith(_WAITED):  # whoever waited has gone, and what comes is not theirs
                    step.leave()
        one.client, one.starts_over = asked.client, asked.starts_over
        one.holder = self._tasks.new_token()
        one.answers(request, self._clock.elapsed)
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

    async def sweep(self, idle_s: float) -> None:
        """Leave those whose client has gone, until cancelled: after so long without a request about them.

        Each stays on record as it is, and whoever opens it goes on with it.
        """
        while True:
            await self._clock.sleep(idle_s / _LOOKS)
            for one in tuple(self._open.values()):
                if await self._is_left_alone(one, idle_s):
                    _log.info("session %s is let go: nobody has asked anything about it for %g s", one.id, idle_s)
                    await self._leave(one)

    async def _is_left_alone(self, one: OpenSession, idle_s: float) -> bool:
        if one.leave.is_set() or self._clock.elapsed() - one.seen_at < idle_s:
            return False
        if (one.client and self._tasks.is_there(one.client)) or one.has_calls_out:
            return False
        return not await one.is_asked_about()

    async def _leave(self, one: OpenSession) -> None:
        steps = tuple(one.steps.values())
        for step in steps:
            step.abandon(self._tasks)
        if steps:  # each has put on record that it was lost
            await asyncio.wait({step.doing for step in steps}, timeout=_LOST_S)
        for step in steps:
            step.leave()
        one.leave.set()

    async def close(self) -> None:
        """Leave all of them, for whoever takes them up: the calls that are out are lost."""
        owners = [one.owner for one in self._open.values() if one.owner is not None]
        endings = [each for one in self._open.values() for each in one.verbs.values()]
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
        for ending in endings:
            ending.cancel()  # on record it is as far as it came
        if endings:
            await asyncio.wait(endings)

    # -- using --------------------------------------------------------------------------------------------------------

    async def held(
        self, id: str, holder: str, caller: Caller, wait_s: float, request: Request
    ) -> tuple[OpenSession, Session]:
        """The session that the caller holds. Raises SessionOverError, and RefusedError while it is not ready."""
        one = self._open.get(id)
        if one is None or one.leave.is_set():
            raise SessionNotOpenError(f"session {id} is not open at this server: open it again, by its id, to go on")
        one.require_holder(holder, caller)
        one.answers(request, self._clock.elapsed)
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
        action = self._own_action(one, topic, args) or self._action(one, topic, contract)
        given = received_args(args)
        return await self._until_told(
            one,
            call,
            lambda: session.do_named(action, dict(given), call=call, waits=False),
            wait_s,
            own=not by_worker,
        )

    async def ask(
        self,
        one: OpenSession,
        session: Session,
        *,
        topic: str,
        args: Mapping[str, Any],
        call: str,
        contract: DeclaredContract | None,
        wait_s: float,
    ) -> Fields:
        """Have people approve a step ahead; who did, or that they are still asked."""
        action, given = self._action(one, topic, contract), received_args(args)

        async def signers() -> list[str]:
            return list(await session.ask_named(action, dict(given), call=call))

        said = await self._until_told(one, f"{_ASKED}{call}", signers, wait_s)
        return {**said, "call": call}

    async def wait(
        self,
        one: OpenSession,
        session: Session,
        *,
        signal: str | None,
        seconds: float | None,
        call: str,
        wait_s: float,
    ) -> Fields:
        """Wait for a signal, or for the time alone; what came, or that it has to be asked for again."""

        async def waited() -> object:
            if signal is not None:
                return await session.wait_for(signal, seconds)
            await session.sleep(seconds or 0.0)
            return None

        said = await self._until_told(one, f"{_WAITED}{call}", waited, wait_s)
        payload = {"payload": said["result"]} if "result" in said else {}
        return {"state": said["state"], "call": call, **payload}

    async def call(
        self,
        one: OpenSession,
        session: Session,
        *,
        child: ChildRequest,
        call: str,
        is_begun: bool,
        wait_s: float,
    ) -> Fields:
        """Run a child to its end, whose function whoever calls has: the session to drive it by, or how it ended.

        `is_begun`: its caller has driven it as far as it goes, and waits for its end.
        """
        self._registry.know_child(child.definition, child.version, child.limits)
        given = child.given()

        def begin() -> Coroutine[Any, Any, Any]:
            return session.do_named(CALL, given, call=call, waits=False)

        until = asyncio.get_running_loop().time() + wait_s
        while True:
            seen = self._feed.position
            said = await self._until_told(one, call, begin, wait_s if is_begun else 0.0)
            if said["state"] not in {"running", "pending"}:
                return said
            begun = await self._child_of(one, session, call)
            if begun is not None:
                return {"state": "child", "call": call, "child": begun}
            left_s = until - asyncio.get_running_loop().time()
            if left_s <= 0:
                return said
            await self._news_of_family(one, call, seen, left_s)

    async def _news_of_family(self, one: OpenSession, call: str, seen: int, most_s: float) -> None:
        """Wait until something new is on record of a session or of what it has called, or a call has ended."""
        news = asyncio.ensure_future(self._news(lambda saga: saga.startswith(one.id[:_NAMED]), seen, most_s))
        under_way = one.steps.get(call)
        try:
            await asyncio.wait(
                {news} if under_way is None else {news, under_way.doing}, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            news.cancel()

    async def _child_of(self, one: OpenSession, session: Session, call: str) -> SagaId | None:
        """The child that a call has begun, while it has not ended."""
        steps = session.steps_on_record.values()
        step = next((step for step in steps if step.call == call), None)
        if step is None:
            return None
        child = child_id(one.id, step.id)
        row = await self._coordinator.journal.saga(child)
        return None if row is None or row.status.ended else child

    def _action(self, one: OpenSession, topic: str, contract: DeclaredContract | None) -> RemoteAction:
        """The action of a topic, as whoever holds the session has declared it. Raises InputError."""
        if contract is not None:
            declared = self._declared(contract)
            if declared.topic != topic:
                raise InputError(f"the contract is of {declared.topic}, and the step of {topic[:128]}")
            one.contracts[topic] = declared
        action = one.contracts.get(topic)
        if action is None:
            raise InputError(f"nobody has declared {topic} here; send its contract with the step, or open with it")
        return action

    def _own_action(self, one: OpenSession, topic: str, args: Mapping[str, Any]) -> Action[..., Any] | None:
        """The server's own action of a topic. Raises InputError for what it does not do for this session's actor."""
        action = _OWN.get(topic)
        if action in _ON_DOCUMENTS:
            name = str(args.get("name", ""))
            if not name.startswith(f"{one.actor}/"):
                raise InputError(
                    f"document {name[:128]!r} is not {one.actor}'s own; through a server a saga has the documents "
                    f"whose names begin with {one.actor}/"
                )
            if "body" in args:
                spelled_body(name, args["body"], self._coordinator.settings.document_bytes)
        return action

    async def _until_told(
        self,
        one: OpenSession,
        call: str,
        begin: Callable[[], Coroutine[Any, Any, Any]],
        wait_s: float,
        *,
        own: bool = True,
    ) -> Fields:
        """Begin what was asked for, or go on with it, and say how it stands after so long at most."""
        until = asyncio.get_running_loop().time() + wait_s
        pending: Fields | None = None
        while True:
            seen = self._feed.position
            under_way = one.steps.get(call) or self._begin(one, call, begin, own=own)
            said = await under_way.stand(max(0.0, until - asyncio.get_running_loop().time()))
            left_s = until - asyncio.get_running_loop().time()
            if said["state"] == "running" and pending is not None:
                return pending
            if said["state"] != "pending" or left_s <= 0:
                return said
            pending = said
            await self._news(one.id.__eq__, seen, left_s)

    async def _news(self, is_meant: Callable[[SagaId], bool], seen: int, most_s: float) -> None:
        """Wait until something new is on record of such a saga."""
        with suppress(TimeoutError):
            async with asyncio.timeout(most_s), aclosing(self._feed.follow(seen)) as entries:
                async for logged in entries:
                    if is_meant(logged.entry.saga):
                        return

    def _begin(
        self, one: OpenSession, call: str, begin: Callable[[], Coroutine[Any, Any, Any]], *, own: bool
    ) -> StepUnderWay:
        under_way = StepUnderWay(one, call, begin, own=own)
        one.steps[call] = under_way
        under_way.doing.add_done_callback(lambda _: one.steps.pop(call, None))
        return under_way

    async def after_report(self, token: str, wait_s: float) -> Fields:
        """Where a step stands after one of its calls was reported; nothing where it is no step of a session here."""
        for one in self._open.values():
            if (step := one.tokens.pop(token, None)) is not None:
                return await step.stand(wait_s)
        return {"state": "taken"}

    async def report_late(self, attempt: AttemptName, report: CallReport, caller: Caller) -> Fields:
        """Take the report of an attempt that a server before this one has begun: how it ended goes on record."""
        require_fitting(report, "action")
        row = await self._coordinator.journal.saga(attempt.saga)
        if row is None:
            raise UnknownError(f"saga {attempt.saga} is not on record any more")
        caller.require_definition(row.definition)
        outcome = outcome_of(report, attempt.saga)
        await self._coordinator.tell_end(
            attempt.saga, attempt.step, attempt=attempt.number, outcome=outcome, wait=TAKE_UP_S
        )
        return {"state": "taken"}
