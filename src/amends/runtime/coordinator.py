"""The object that users hold: journal, gate, registry and engine, behind a few verbs. Thin on purpose."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Self, cast

from amends.clock import Clock
from amends.core import commands as c
from amends.core.saga import evolve, unstarted
from amends.core.transitions import ApprovalStatus, SagaStatus
from amends.core.values import POLICIES, Json, SagaId, canonical
from amends.errors import InputError, RefusedError, UnknownIncidentError, UnknownSagaError
from amends.gate.protocol import Gate
from amends.journal.protocol import ApprovalRow, Entry, IncidentRow, Journal, PersonQuery, SagaQuery, SagaRow
from amends.runtime.approvals import Asking, approval_id, asking, no_approval
from amends.runtime.definition import SagaDefinition
from amends.runtime.duty import Duty
from amends.runtime.executor import Executor
from amends.runtime.handle import Ended, Handle
from amends.runtime.listing import History, Listing
from amends.runtime.local import LocalEngine
from amends.runtime.notices.couriers import Couriers
from amends.runtime.notices.target import Target
from amends.runtime.observe import Observer, Observers
from amends.runtime.policies import Policies
from amends.runtime.registry import PROCESS, Registry
from amends.runtime.secret import mask, secrets_in
from amends.runtime.settings import Settings

SYSTEM = "system:local"
LONGEST_ID = 128
ACTORS = ("agent", "person", "system")


class Coordinator:
    """Runs sagas on a journal. `amends.Coordinator.open(path)` makes one; use it as an async context manager."""

    def __init__(
        self,
        *,
        journal: Journal,
        gate: Gate,
        clock: Clock,
        env: str = "development",
        registry: Registry = PROCESS,
        settings: Settings | None = None,
        notify: Sequence[Target] = (),
        executor: Executor | None = None,
    ) -> None:
        """`executor` makes the calls of users' functions; another one may watch them, or let them fail."""
        self.env = env
        self._gate = gate
        self.journal = journal
        self.registry = registry
        self.settings = settings or Settings()
        self._clock = clock
        self._observers = Observers()
        self._closing: asyncio.Task[None] | None = None
        self._engine = LocalEngine(
            journal=journal,
            gate=gate,
            registry=registry,
            settings=self.settings,
            clock=clock,
            observers=self._observers,
            executor=executor,
        )
        self._duty = Duty(self._engine, clock, self.settings)
        self._couriers = Couriers(journal, notify, clock, self.settings)

    async def __aenter__(self) -> Self:
        await self._engine.start()
        self._couriers.start(self.observe)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Let running attempts finish for a while, write what is known, give the leases back.

        Whoever calls it again, from a signal or the end of a block, waits for the same end.
        """
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        try:
            await self._duty.end()
            await self._engine.stop()
            await self._couriers.close()
        finally:
            await self.journal.close()

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Tell `observer` of every entry that this coordinator makes durable; the answer ends that."""
        return self._observers.add(observer)

    # -- running ------------------------------------------------------------------------------------------------------

    async def run(
        self,
        definition: SagaDefinition,
        *args: Any,  # noqa: ANN401 - the saga's own
        id: str | None = None,
        actor: str = SYSTEM,
        labels: Mapping[str, str] | None = None,
        **kwargs: Any,  # noqa: ANN401 - the saga's own
    ) -> Ended:
        """Run a saga to its end: completed, rolled back, or an incident."""
        handle = await self.start(definition, *args, id=id, actor=actor, labels=labels, **kwargs)
        return await handle

    async def start(
        self,
        definition: SagaDefinition,
        *args: Any,  # noqa: ANN401 - the saga's own
        id: str | None = None,
        actor: str = SYSTEM,
        labels: Mapping[str, str] | None = None,
        **kwargs: Any,  # noqa: ANN401 - the saga's own
    ) -> Handle:
        """Start a saga and go on; awaiting the handle waits for its end.

        The same id twice is one saga: the second call joins the first, as long as it asks for the same.
        """
        if not isinstance(cast("object", definition), SagaDefinition):
            raise InputError(f"{definition!r} is not a saga; decorate it with @saga(name), or make a SagaDefinition")
        return await self.start_bound(definition, definition.bind(args, kwargs), id=id, actor=actor, labels=labels)

    async def start_bound(
        self,
        definition: SagaDefinition,
        named: Mapping[str, object],
        *,
        id: str | None = None,
        actor: str = SYSTEM,
        labels: Mapping[str, str] | None = None,
    ) -> Handle:
        """Start with the arguments by name, as a definition's `bind` or `bind_document` gives them."""
        if self._closing is not None:
            raise RefusedError("this coordinator is closed; open another")
        saga = SagaId(_checked_id(id) if id is not None else self._clock.new_id())
        masked = mask(dict(named), saga)
        canonical(masked, what=f"saga {definition.name}: input")
        start = c.StartSaga(
            definition=definition.name,
            version=definition.version,
            input=cast("Json", masked),
            actor=checked_actor(actor),
            env=self.env,
            labels=_checked_labels(labels),
        )
        self.registry.add_definition(definition)
        joined = None if id is None else await self._join(saga, start)
        if id is not None and joined is None and self._engine.running(saga) is not None:
            joined = await self._join(saga, start)  # another call of this process began it meanwhile
        return joined or self._engine.begin(definition, start, saga, tuple(secrets_in(dict(named))))

    async def _join(self, saga: SagaId, start: c.StartSaga) -> Handle | None:
        """The saga of this id, where there is one already. Raises RefusedError where it is another."""
        begun = await self._engine.begun(saga)
        if begun is None:
            return None
        if (begun.definition, begun.version, begun.input) != (start.definition, start.version, start.input):
            raise RefusedError(
                f"saga {saga} exists already: {begun.definition} version {begun.version} with its own input; "
                "use another id, or the same input to join it"
            )
        return self._engine.running(saga) or self._engine.follow(saga)

    async def resume(self) -> list[Ended]:
        """Drive every unfinished saga whose definition this process knows; says how each ended."""
        return await self._engine.resume()

    async def work(self) -> None:
        """Drive what is due, now and whenever something becomes due, until cancelled or this coordinator closes.

        Only sagas that no living worker has and whose definition this process knows, as `resume` does once.
        """
        await self._duty.work()

    async def drive(self, saga: str) -> Ended | None:
        """Drive one saga as far as it goes. None where another worker has it, or nothing is due."""
        return await self._engine.drive(SagaId(saga))

    async def cancel(self, saga: str, *, why: str = "cancelled", by: str = SYSTEM) -> Ended:
        """Take a saga back, even one that had completed, as long as it has no pivot. Raises PastPivotError."""
        command = c.CancelSaga(by=checked_actor(by), why=why, now=self._clock.now(), window_s=self.settings.rollback_s)
        return await self._ask(SagaId(saga), command)

    async def _ask(self, saga: SagaId, command: c.Command) -> Ended:
        state = await self._engine.request(saga, command)
        return await self._engine.drive(saga) or self._engine.told(state)

    # -- looking ------------------------------------------------------------------------------------------------------

    def list(
        self,
        *,
        status: str | tuple[str, ...] | None = None,
        definition: str | None = None,
        topic: str | None = None,
        env: str | None = None,
        started_from: int | None = None,
        started_until: int | None = None,
        limit: int = 100,
    ) -> Listing[SagaRow]:
        """Sagas, newest first: `await` gives a page, `async for` all."""
        statuses = (status,) if isinstance(status, str) else status

        async def page(cursor: str | None) -> tuple[tuple[SagaRow, ...], str | None]:
            query = SagaQuery(
                statuses=None if statuses is None else tuple(map(_checked_status, statuses)),
                definition=definition,
                topic=topic,
                env=env,
                started_from=started_from,
                started_until=started_until,
                before=cursor,
                limit=limit,
            )
            found = await self.journal.sagas(query)
            return found.rows, found.cursor

        return Listing(page)

    async def show(self, saga: str) -> History:
        """One saga's whole history. Raises UnknownSagaError."""
        row = await self.journal.saga(SagaId(saga))
        if row is None:
            raise UnknownSagaError(f"no saga has the id {saga}; `amends saga list` shows those that there are")
        state, entries = unstarted(row.id), list[Entry]()
        async for entry in self.journal.read(row.id):
            state = evolve(state, entry.event)
            entries.append(entry)
        return History(row=row, saga=state, entries=tuple(entries))

    # -- approvals ----------------------------------------------------------------------------------------------------

    def approvals(self, *, open_only: bool = True, saga: str | None = None, limit: int = 100) -> Listing[ApprovalRow]:
        """What people are asked, oldest first: `await` gives a page, `async for` all."""

        async def page(cursor: str | None) -> tuple[tuple[ApprovalRow, ...], str | None]:
            of = None if saga is None else SagaId(saga)
            found = await self.journal.approvals(PersonQuery(open_only=open_only, saga=of, after=cursor, limit=limit))
            return found.rows, found.cursor

        return Listing(page)

    async def approval(self, approval: str) -> Asking:
        """What a person is shown before they answer. Raises UnknownApprovalError."""
        saga, step = approval_id(approval)
        try:
            history = await self.show(saga)
        except UnknownSagaError:
            raise no_approval(approval) from None
        return asking(history.saga, step, history.entries)

    async def grant(self, approval: str, *, by: str, why: str = "", digest: str | None = None) -> Asking:
        """Approve exactly what `approval(id)` shows; `digest` is of what the person saw, and refused if it has changed.

        `by` is a person, neither who asked nor who owns or acts for them. The step starts once enough have agreed.
        """
        return await self._answer(approval, by=by, why=why, digest=digest, granted=True)

    async def refuse(self, approval: str, *, by: str, why: str) -> Asking:
        """Say no: the step is denied. `why` goes on record, and the saga's function is told."""
        return await self._answer(approval, by=by, why=why, digest=None, granted=False)

    async def _answer(self, approval: str, *, by: str, why: str, digest: str | None, granted: bool) -> Asking:
        await self.approval(approval)
        saga, step = approval_id(approval)
        command = c.AnswerApproval(
            step=step, by=checked_actor(by), granted=granted, why=why, now=self._clock.now(), digest=digest
        )
        await self._engine.request(saga, command)
        await self._engine.go_on(saga)
        answered = await self.approval(approval)
        if answered.status == ApprovalStatus.EXPIRED:
            raise RefusedError(f"approval {approval} has expired: it had to be answered in time")
        return answered

    # -- the policy ---------------------------------------------------------------------------------------------------

    async def adopt(self, policy: str | PathLike[str], *, by: str, why: str) -> bool:
        """Have this policy's file judge from now on, in every process on this journal; whether it is another one.

        What is waiting for people under the one before is void, and judged again. Raises PolicyError.
        """
        from amends.gate.load import load_policy

        if not isinstance(self._gate, Policies):
            raise RefusedError("this coordinator has a gate of its own, which goes by no policy")
        adopter = checked_actor(by)
        return await self._gate.adopt(load_policy(policy), by=adopter, why=why)

    # -- incidents ----------------------------------------------------------------------------------------------------

    def incidents(self, *, open_only: bool = True, saga: str | None = None, limit: int = 100) -> Listing[IncidentRow]:
        """What needs a person, oldest first: `await` gives a page, `async for` all."""

        async def page(cursor: str | None) -> tuple[tuple[IncidentRow, ...], str | None]:
            of = None if saga is None else SagaId(saga)
            found = await self.journal.incidents(PersonQuery(open_only=open_only, saga=of, after=cursor, limit=limit))
            return found.rows, found.cursor

        return Listing(page)

    async def retry_incident(self, incident: str, *, by: str = SYSTEM, let_run: bool = False) -> Ended:
        """Try again what an incident stopped at. `by` says who asks.

        let_run: have the compensation run that the gate refused; for a person, who takes it on themselves.
        """
        saga, number = _incident(incident)
        now, window_s = self._clock.now(), self.settings.rollback_s
        command = c.RetryIncident(incident=number, by=checked_actor(by), now=now, window_s=window_s, let_run=let_run)
        return await self._ask(saga, command)

    async def resolve_incident(self, incident: str, *, reason: str, by: str = SYSTEM, proof: str = "") -> Ended:
        """Vouch for what an incident stopped at: it was seen to by hand. The saga then goes on without it.

        proof: where others can see that it was: a ticket, a receipt, an entry elsewhere.
        """
        saga, number = _incident(incident)
        now, window_s = self._clock.now(), self.settings.rollback_s
        command = c.ResolveIncident(
            incident=number, by=checked_actor(by), reason=reason, now=now, window_s=window_s, proof=proof
        )
        return await self._ask(saga, command)

    async def assign_incident(self, incident: str, *, owner: str, by: str = SYSTEM) -> None:
        """Say who sees to it."""
        saga, number = _incident(incident)
        command = c.AssignIncident(incident=number, owner=checked_actor(owner), by=checked_actor(by))
        await self._engine.request(saga, command)

    async def comment_incident(self, incident: str, *, text: str, by: str = SYSTEM) -> None:
        """Put a remark on record, for whoever looks next."""
        saga, number = _incident(incident)
        await self._engine.request(saga, c.CommentIncident(incident=number, by=checked_actor(by), text=text))


def _incident(name: str) -> tuple[SagaId, int]:
    saga, slash, number = name.rpartition("/")
    if not slash or not number.isdecimal():
        raise UnknownIncidentError(
            f"{name!r} is not an incident's id; they look like 01k…/1: see `amends incident list`"
        )
    return SagaId(saga), int(number)


def checked_actor(name: str) -> str:
    """Who does something: `agent:`, `person:` or `system:`, and a name."""
    kind, colon, rest = name.partition(":")
    if kind not in ACTORS or not colon or not rest.strip() or len(name) > LONGEST_ID or not name.isprintable():
        raise InputError(
            f"{name!r} is not an actor: write agent:<name>, person:<name> or system:<name>, "
            f"at most {LONGEST_ID} characters"
        )
    return name


def _checked_id(name: str) -> str:
    if name == POLICIES:
        raise InputError(f"the id {POLICIES} is taken: the journal keeps its policies under it")
    if not 0 < len(name) <= LONGEST_ID or not name.isascii() or not name.isprintable() or "/" in name:
        raise InputError(f"{name!r} is not a saga id: use 1 to {LONGEST_ID} printable ASCII characters without '/'")
    return name


def _checked_status(name: str) -> SagaStatus:
    try:
        return SagaStatus(name)
    except ValueError:
        raise InputError(f"{name!r} is not a status; they are {', '.join(SagaStatus)}") from None


def _checked_labels(labels: Mapping[str, str] | None) -> dict[str, str]:
    checked = dict(labels or {})
    for name, value in checked.items():
        if not isinstance(cast("object", name), str) or not isinstance(cast("object", value), str):
            raise InputError(f"label {name!r}: names and values must be strings")
    return checked
