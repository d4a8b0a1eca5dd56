"""The object that users hold: journal, gate, registry and engine, behind a few verbs. Thin on purpose."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from os import PathLike
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, cast, overload

from amends.clock import Clock
from amends.core import commands as c
from amends.core.state.saga import unstarted
from amends.core.words.values import SagaId
from amends.documents.documents import Documents
from amends.errors import InputError, JournalConflictError, NotJsonError, RefusedError
from amends.gate.environments import DEVELOPMENT, PRODUCTION, checked_env, checked_environments, taken_for
from amends.gate.facts import Gate
from amends.gate.policy import Policy
from amends.journal.port.journal import Journal
from amends.logs import logger
from amends.notify.target import Target
from amends.runtime.coordinator.control import Pausing, Signalling
from amends.runtime.coordinator.couriers import Couriers
from amends.runtime.coordinator.people import Answering
from amends.runtime.coordinator.preview import RollbackPlan, planned
from amends.runtime.coordinator.retention import Retention
from amends.runtime.coordinator.roster import Enrolling, tell_of_recovery
from amends.runtime.coordinator.sessions import Sessions
from amends.runtime.coordinator.signing import proved, proved_back
from amends.runtime.coordinator.starting import Starting
from amends.runtime.coordinator.upgrade import Unresumable, unresumable
from amends.runtime.declare.action import outside
from amends.runtime.declare.definition import SagaDefinition
from amends.runtime.declare.limits import Amount, Limits, journaled, raised
from amends.runtime.declare.names import checked_actor, checked_id, checked_labels, login, require_own_id
from amends.runtime.declare.registry import PROCESS, Registry
from amends.runtime.drive.executor import Executor
from amends.runtime.drive.kinship import counted_on
from amends.runtime.drive.logbook import Logbook, load
from amends.runtime.drive.observers import DetailedObserver, Observer, Observers
from amends.runtime.drive.policies import Policies
from amends.runtime.drive.roster import Proof
from amends.runtime.engine.background import Heartbeat, MakeHeart
from amends.runtime.engine.drive import drive
from amends.runtime.engine.handle import Ended, Handle
from amends.runtime.engine.local import LocalEngine
from amends.runtime.engine.resume import require_same
from amends.runtime.engine.worker import WorkerLoop
from amends.runtime.saga.session import Session
from amends.runtime.settings import Bounds, Settings, bounded
from amends.runtime.values.bounded import Kept, keep, small_or_off_loop
from amends.secrets import DigestKey, Secret, digests_by, is_alike, unmask

_log = logger("amends.gate")
R = TypeVar("R")


class Coordinator(Starting, Sessions, Answering, Signalling, Pausing, Enrolling, Retention):
    """Runs sagas on a journal. `amends.Coordinator.open(path)` makes one; use it as an async context manager."""

    def __init__(  # noqa: PLR0913 - each is a part that somebody may want another one of
        self,
        *,
        journal: Journal,
        gate: Gate,
        clock: Clock,
        env: str | None = None,
        environments: Mapping[str, Iterable[str]] | None = None,
        registry: Registry = PROCESS,
        settings: Settings | None = None,
        notify: Sequence[Target] = (),
        executor: Executor | None = None,
        telemetry: DetailedObserver | None = None,
        heart: MakeHeart = Heartbeat,
        digest_key: DigestKey | None = None,
    ) -> None:
        """`executor` makes the calls of users' functions; another one may watch them, or let them fail.

        `heart` makes what keeps this worker's leases alive: a thread, where time is real. `digest_key` is what digests
        of secrets are made with; without one, who has the journal can try values until one fits.
        """
        self.env = DEVELOPMENT if env is None else checked_env(env)
        self._says_env = env is not None
        self._environments = checked_environments(environments or {})
        self._said: set[str] = set()
        self._gate = gate
        self.journal = journal
        self.registry = registry
        self.settings = settings or Settings()
        self.documents = Documents(
            journal,
            clock,
            most_bytes=self.settings.document_bytes,
            keep=self.settings.document_versions,
            by=login(),
        )
        """The documents of this journal, from outside of sagas."""
        self._clock = clock
        self._observers = Observers(telemetry)
        self._closing: asyncio.Task[None] | None = None
        self._engine = LocalEngine(
            journal=journal,
            gate=gate,
            registry=registry,
            settings=self.settings,
            clock=clock,
            observers=self._observers,
            executor=executor,
            heart=heart,
            digest_key=digest_key,
        )
        self._digest_key = digest_key
        if isinstance(gate, Policies):
            gate.proofs.tell_of_recovery = partial(tell_of_recovery, self)
        if env is None:
            self._engine.warn_of_undeclared()
        self._duty = WorkerLoop(self._engine, clock, self.settings)
        self._couriers = Couriers(journal, notify, clock, self.settings)

    def __repr__(self) -> str:
        """Text for a notebook: on which journal, in which environment, and whether it is still open."""
        state = "open" if self._closing is None else "closed"
        return f"<Coordinator {state} on {self.journal!r}, env {self.env}>"

    async def __aenter__(self) -> Self:
        self.loop = asyncio.get_running_loop()
        await self._engine.start()
        self._couriers.start(self.observe)
        if isinstance(self._gate, Policies) and self._gate.has_adopted:
            await self._engine.void_outlived()
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

    @property
    def worker(self) -> str:
        """The name of this process among the workers of its journal."""
        return self._engine.worker

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Tell `observer` of every entry that this coordinator makes durable; the answer ends that."""
        return self._observers.add(outside(observer))

    # -- running ------------------------------------------------------------------------------------------------------

    async def start_bound(
        self,
        definition: SagaDefinition[..., R],
        named: Mapping[str, object],
        *,
        id: str | None = None,
        actor: str | None = None,
        labels: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        bounds: Bounds | None = None,
    ) -> Handle[R]:
        """Start with the arguments by name, as a definition's `bind` or `bind_document` gives them.

        bounds: each that is set takes the place of the definition's own.
        """
        saga, start, kept = await self._told_to_start(definition, named, id, actor, labels, limits, bounds)
        joined = None if id is None else await self._join(saga, start, kept.secrets)
        if id is not None and joined is None and self._engine.running(saga) is not None:
            joined = await self._join(saga, start, kept.secrets)  # another call of this process began it meanwhile
        if joined is None:
            await small_or_off_loop(partial(_check, definition, kept, saga))
        if id is not None and joined is None:
            require_own_id(id)
        return joined or self._begin(definition, start, saga, kept.secrets)

    async def put_on_record(
        self,
        definition: SagaDefinition[..., R],
        named: Mapping[str, object],
        *,
        id: str | None = None,
        actor: str | None = None,
        labels: Mapping[str, str] | None = None,
        limits: Limits | None = None,
    ) -> SagaId:
        """Have a saga begun that others drive: `amends work`, or an engine. On record when this returns, and no more.

        As `start_bound`, also in that the same id twice is one saga. Secrets in its input are refused: they are not in
        the journal, and whoever drives it would not have them.
        """
        saga, start, kept = await self._told_to_start(definition, named, id, actor, labels, limits, None)
        if kept.secrets:
            raise InputError(
                f"saga {definition.name} is driven by others, and its input holds a secret, which is not on record; "
                "pass a reference to it"
            )
        while (begun := await self._engine.begun(saga)) is None:
            await small_or_off_loop(partial(_check, definition, kept, saga))
            if id is not None:
                require_own_id(id)
            book = Logbook(self.journal, unstarted(saga), None, self._observers, self._engine.moment)
            book.tell(start)
            with suppress(JournalConflictError):  # another process began it first: that one is looked at
                await book.commit()
                return saga
        require_same(saga, begun, start)
        return saga

    async def _told_to_start(
        self,
        definition: SagaDefinition[..., R],
        named: Mapping[str, object],
        id: str | None,
        actor: str | None,
        labels: Mapping[str, str] | None,
        limits: Limits | None,
        bounds: Bounds | None,
    ) -> tuple[SagaId, c.StartSaga, Kept]:
        if self._closing is not None:
            raise RefusedError("this coordinator is closed; open another")
        saga = SagaId(checked_id(id) if id is not None else self._clock.new_id())
        digests_by.set(self._digest_key)
        kept = await small_or_off_loop(partial(_kept, definition, named, saga))
        env, stands_for = self._placed()
        start = c.StartSaga(
            definition=definition.name,
            version=definition.version,
            input=kept.value,
            actor=checked_actor(actor),
            env=env,
            labels=checked_labels(labels),
            limits=journaled(self.settings.limits, definition.options.limits, limits, now=self._clock.now()),
            taken_for=stands_for,
            module=definition.module,
        )
        start = bounded(start, definition.options, self.settings, bounds)
        self.registry.add_definition(definition)
        return saga, start, kept

    def _placed(self) -> tuple[str, str]:
        """The word for the environment that a saga begins in, and what it stands for where that is another.

        By the policy of now. Where that names the environment of its journal, nobody begins in another one.
        """
        policy = getattr(self._gate, "policy", None)
        pinned = policy.env if isinstance(policy, Policy) and isinstance(self._gate, Policies) else ""
        word = pinned if pinned and not self._says_env else self.env
        if word in {PRODUCTION, DEVELOPMENT} and pinned in {"", word}:
            return word, ""
        declared = (policy.environments,) if isinstance(policy, Policy) else ()
        taken = taken_for(word, *declared, self._environments)
        if pinned and taken.env != pinned:
            raise RefusedError(
                f"the sagas on this journal are in {pinned}, by the policy that was adopted on it, and env={word!r} is "
                f"{taken.env}: leave env out, or use another journal"
            )
        if taken.message and taken.message not in self._said:
            self._said.add(taken.message)
            _log.warning("%s", taken.message)
        return word, taken.for_record

    def _begin_session(self, session: Session, start: c.StartSaga) -> None:
        if self._closing is not None:
            raise RefusedError("this coordinator is closed; open another")
        digests_by.set(self._digest_key)
        _ = self._begin(session.definition, start, session.id, ())

    def _begin(
        self, definition: SagaDefinition, start: c.StartSaga, saga: SagaId, secrets: tuple[Secret, ...]
    ) -> Handle:
        if self._observers.telemetry is not None:
            labels = self._observers.telemetry.begin(saga, definition.name, start.labels)
            start = replace(start, labels=labels)
        return self._engine.begin(definition, start, saga, secrets)

    async def _join(
        self, saga: SagaId, start: c.StartSaga, secrets: tuple[Secret, ...] = (), *, by_anybody: bool = False
    ) -> Handle | None:
        """The saga of this id, where there is one already. Raises RefusedError where it is another."""
        begun = await self._engine.begun(saga)
        if begun is None:
            return None
        if secrets and is_alike(start.input, begun.input, secrets, saga):
            start = replace(start, input=begun.input)
        require_same(saga, begun, start, by_anybody=by_anybody)
        return self._engine.running(saga) or self._engine.follow(saga)

    async def resume(self) -> list[Ended]:
        """Drive every unfinished saga whose definition this process knows; says how each ended."""
        return await self._engine.resume()

    async def unresumable(self, *, completed: bool = False) -> list[Unresumable]:
        """The unfinished sagas that this process could not go on with, or not take back, and what stands in the way.

        Ask before a deploy, with the new code loaded. `completed`: those too that could still be cancelled.
        """
        return [one async for one in unresumable(self.journal, self.registry, completed=completed)]

    async def work(self) -> None:
        """Drive what is due, now and whenever something becomes due, until cancelled or this coordinator closes.

        Only sagas that no living worker has and whose definition this process knows, as `resume` does once.
        """
        await self._duty.work()

    async def drive(self, saga: str) -> Ended:
        """Drive one saga as far as it goes now, and say where it stands: one stretch of work, for whoever keeps time.

        `wake_at` says when to ask again; None where it is over, or only people, or a signal, can have it go on.
        `held_by` names the worker that has it, where that is another one; after `lend`, any may be asked next.
        Raises UnknownDefinitionError, UnknownSagaError.
        """
        return await drive(self._engine, self.journal, self.registry, self._clock, SagaId(saga))

    def lend(self) -> None:
        """Have sagas be nobody's as soon as they wait: an engine says from now on which worker goes on with them."""
        self._engine.sessions.lends = True

    async def cancel(
        self,
        saga: str,
        *,
        why: str = "cancelled",
        by: str | None = None,
        mitigate: bool = False,
        proof: Proof | None = None,
        wait: bool = True,
    ) -> Ended:
        """Take a saga back, even one that had completed, as long as it has no pivot. Raises PastPivotError.

        A child goes back with its parent, not alone, unless it has stopped at an incident: else RefusedError says what
        to cancel, or to roll back.
        mitigate: also past its pivot: what cannot be taken back is mitigated, in its turn, and the saga ends as
        `mitigated`. For a person, as `by`. PastPivotError names the steps that declare no mitigation.
        proof: as for `grant`, where decisions are signed and this answers for an incident. Raises ProofError.
        wait: until nothing more is due; otherwise only until it is on record, and it goes back in the background, here
        where its definition is known.
        """
        one, who = SagaId(saga), checked_actor(by)
        counted_on = await self._counted_on(one)
        missing = await self._unmitigated_below(one) if mitigate else ()
        command = c.CancelSaga(
            by=who,
            why=why,
            counted_on=counted_on,
            mitigate=mitigate,
            unmitigated=missing,
        )
        return await self._ask(one, await proved_back(self._engine, one, command, proof), wait=wait)

    async def _counted_on(self, saga: SagaId) -> str:
        """Which saga counts on how this one ends, and what to ask for instead; empty where none does."""
        begun = await self._engine.begun(saga)
        return "" if begun is None else await counted_on(self.journal, saga, begun)

    @overload
    async def rollback(
        self,
        saga: str,
        *,
        to: str | None = None,
        last: int | None = None,
        why: str = "rolled back",
        by: str | None = None,
        mitigate: bool = False,
        plan: Literal[False] = False,
        proof: Proof | None = None,
        wait: bool = True,
    ) -> Ended: ...

    @overload
    async def rollback(
        self,
        saga: str,
        *,
        to: str | None = None,
        last: int | None = None,
        why: str = "rolled back",
        by: str | None = None,
        mitigate: bool = False,
        plan: Literal[True],
        wait: bool = True,
    ) -> RollbackPlan: ...

    async def rollback(
        self,
        saga: str,
        *,
        to: str | None = None,
        last: int | None = None,
        why: str = "rolled back",
        by: str | None = None,
        mitigate: bool = False,
        plan: bool = False,
        proof: Proof | None = None,
        wait: bool = True,
    ) -> Ended | RollbackPlan:
        """Take a saga back to a checkpoint, or by its last steps that stand; without either, all of it.

        Its definition is stopped, the steps are taken back, newest first, and it is called again: what it did after
        that place is done anew. Also for a saga that had completed, unless it is a child. Returns when nothing more is
        due. With `plan`, nothing is changed: it says what would be taken back. `mitigate` is for all of it, as in
        `cancel`, and `proof` and `wait` too. Raises UnknownCheckpointError, PastPivotError, ProofError.
        """
        if mitigate and (to is not None or last is not None):
            raise InputError("only all of a saga is taken back with mitigation; leave out to= and last=")
        if to is not None and last is not None:
            raise InputError("give to= or last=, not both")
        if last is not None and last < 1:
            raise InputError(f"last={last}: at least 1 step has to be taken back")
        one = SagaId(saga)
        if plan:
            await self._engine.put_on_record(one)
            counted = await self._counted_on(one)
            below = await self._unmitigated_below(one) if mitigate else ()
            state = await self._engine.state(one)  # with what its driver here is about to write
            return planned(
                state, self.registry, to=to, last=last, counted_on=counted, mitigate=mitigate, unmitigated=below
            )
        if to is None and last is None:
            return await self.cancel(saga, why=why, by=by, mitigate=mitigate, proof=proof, wait=wait)
        who, counted = checked_actor(by), await self._counted_on(one)
        command = c.RollBackTo(to=to, last=last, by=who, why=why, counted_on=counted)
        return await self._ask(one, await proved_back(self._engine, one, command, proof), wait=wait)

    async def land(
        self,
        root: str | PathLike[str],
        changeset: str,
        *,
        by: str,
        message: str = "",
        verify: Sequence[str] = (),
        verify_s: float | None = None,
        wait_s: float | None = None,
        state: str | PathLike[str] | None = None,
    ) -> Handle:
        """Start to land what a completed saga has left in its changeset of the tree `root`; awaiting it waits for that.

        It is a saga of its own: judged, approved where the policy asks for it, on record. Cancelling it, or the saga
        whose work it is, lands the inverse. Raises RefusedError where that saga is not over, or not on this journal,
        and where `by` is no person or, outside development, asked for that saga.
        """
        from amends.changeset import show
        from amends.runtime.files.by_hand import next_id, owner_of, start_of
        from amends.runtime.saga.by_hand import land_changeset

        found = show(root, changeset, state=state)
        owner = await owner_of(self.journal, found)
        if owner is None:
            whose = f"belongs to saga {found.saga}, which is not on this journal" if found.saga else "is no saga's"
            raise RefusedError(f"changeset {changeset} {whose}; a changeset by hand is landed by Changeset.land()")
        start = await start_of(
            self.journal,
            found,
            owner,
            by=checked_actor(by),
            message=message,
            verify=verify,
            verify_s=verify_s,
            wait_s=wait_s,
        )
        saga = await next_id(self.journal, changeset)
        self.registry.add_definition(land_changeset)
        return await self._join(saga, start, by_anybody=True) or self._begin(land_changeset, start, saga, ())

    async def resolve(
        self,
        root: str | PathLike[str],
        changeset: str,
        path: str,
        take: Literal["ours", "theirs", "merged"],
        *,
        by: str,
        draft: str = "",
        state: str | PathLike[str] | None = None,
    ) -> Handle:
        """Resolve a conflict of a saga's changeset: take ours, theirs, or, as merged, the draft (with this digest).

        A saga that waits for it goes on; of one that has completed it is done by a saga of its own, as a landing is,
        and goes back with it. Raises PathError for a path that is not in conflict, RefusedError where the saga does
        not wait for it, or is not on this journal.
        """
        from amends.changeset import draft_digest, require_conflict, show
        from amends.runtime.files.by_hand import next_id, owner_of, start_of_resolution, waits_for_people
        from amends.runtime.files.resolving import decides, decision, signal_of
        from amends.runtime.saga.by_hand import resolve_changeset

        found, who = show(root, changeset, state=state), checked_actor(by)
        meant = require_conflict(root, changeset, path, take, state=state)
        draft = draft or (draft_digest(root, changeset, path, state=state) if take == "merged" else "")
        owner = await owner_of(self.journal, found)
        if owner is None:
            whose = f"belongs to saga {found.saga}, which is not on this journal" if found.saga else "is no saga's"
            raise RefusedError(f"changeset {changeset} {whose}; one by hand is resolved by Changeset.resolve()")
        if waits_for_people(owner, await load(self.journal, owner.id), changeset):
            await self._signal(
                owner.id, signal_of(changeset), decision(meant, take, draft), by=who, decides=decides(changeset)
            )
            return self._engine.running(owner.id) or self._engine.follow(owner.id)
        start = await start_of_resolution(self.journal, found, owner, by=who, path=meant, take=take, draft=draft)
        saga = await next_id(self.journal, changeset, resolve_changeset.name)
        self.registry.add_definition(resolve_changeset)
        return await self._join(saga, start, by_anybody=True) or self._begin(resolve_changeset, start, saga, ())

    async def raise_limit(  # noqa: PLR0913 - one for each limit
        self,
        saga: str,
        *,
        tokens: int | None = None,
        usd: Amount | None = None,
        seconds: float | None = None,
        steps: int | None = None,
        failures: int | None = None,
        retries: int | None = None,
        spin: int | None = None,
        why: str = "",
        by: str | None = None,
        proof: Proof | None = None,
        wait: bool = True,
    ) -> Ended:
        """Set a saga's limits higher; one that had stopped at its limit goes on. Raises RefusedError.

        Without amounts: as much again of the one that it has reached. `wait` as for `cancel`.
        """
        amounts = {
            "tokens": tokens,
            "usd": usd,
            "seconds": seconds,
            "steps": steps,
            "failures": failures,
            "retries": retries,
            "spin": spin,
        }
        command = c.RaiseLimits(most=raised(amounts), by=checked_actor(by), why=why)
        return await self._ask(SagaId(saga), await proved(self._engine, SagaId(saga), command, proof), wait=wait)

    # -- the policy ---------------------------------------------------------------------------------------------------

    async def adopt(
        self, policy: str | PathLike[str] | Policy, *, by: str, why: str, proof: Proof | None = None
    ) -> bool:
        """Have this policy's file judge from now on, in every process on this journal; whether it is another one.

        `by` is a person; `proof` as for `grant`.
        What is waiting for people under the one before is void, and judged again. Raises PolicyError.
        """
        from amends.gate.load import load_policy

        if not isinstance(self._gate, Policies):
            raise RefusedError("this coordinator has a gate of its own, which goes by no policy")
        adopter = checked_actor(by)
        meant = policy if isinstance(policy, Policy) else load_policy(policy)
        is_new = await self._gate.adopt(meant, by=adopter, why=why, proof=proof)
        for saga in await self._engine.void_outlived():
            await self._engine.go_on(saga)
        return is_new


def _kept(definition: SagaDefinition, named: Mapping[str, object], saga: SagaId, most: int) -> Kept:
    """A saga's input as it is stored. Raises NotJsonError or TooLargeError."""
    try:
        return keep(dict(named), saga, f"saga {definition.name}: input", most, digests=False)
    except NotJsonError as exc:
        raise definition.typed.not_json(named, exc) from None


def _check(definition: SagaDefinition, kept: Kept, saga: SagaId, most: int) -> None:
    """Raises MisfitError for an input that is not what was declared, TooLargeError where it takes more than `most`."""
    definition.check(cast("dict[str, Any]", unmask(kept.value, saga, kept.secrets, most=most)))
