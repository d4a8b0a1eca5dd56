"""Looking at sagas, and answering what people are asked: the half of a coordinator that runs nothing itself.

An `Approval` is what a person is shown before they answer: what will happen, why they are asked, and what would take it
back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, cast

from amends.clock import Clock
from amends.core import commands as c
from amends.core.decide.approvals import signed
from amends.core.events import (
    ApprovalGranted,
    ApprovalRefused,
    ApprovalRequested,
    ApprovalSigned,
    BeforeCaptured,
    resuming,
)
from amends.core.state import step as state
from amends.core.state.saga import Saga, evolve, unstarted
from amends.core.transitions import ApprovalStatus
from amends.core.words.values import Json, SagaId, StepId
from amends.core.words.verdict import Need
from amends.dataclass import dataclass
from amends.errors import (
    AmendsError,
    InputError,
    RefusedError,
    UnknownApprovalError,
    UnknownSagaError,
    unknown_saga,
)
from amends.evidence.proof.statement import MOST_TOGETHER
from amends.journal.port.journal import ApprovalRow, Entry, IncidentRow, Journal, PersonQuery, SagaQuery, SagaRow
from amends.journal.port.locks import LockQuery, LockRow
from amends.runtime.coordinator.lists import History, Listing
from amends.runtime.coordinator.report import incident_report
from amends.runtime.coordinator.signing import proved, proved_together
from amends.runtime.declare.names import checked_actor, checked_status, incident_id
from amends.runtime.drive.kinship import unmitigated_below
from amends.runtime.drive.roster import Proof
from amends.runtime.engine.handle import Ended
from amends.runtime.engine.local import LocalEngine
from amends.runtime.settings import Settings

if TYPE_CHECKING:
    from amends.evidence.story.timeline import Line


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """One approval, as it is shown. `shown` is what `digest` binds; all else of it is taken from there or the journal.

    `args` come from the agent, `does` and `undoes` from the authors of the action; none of them is ours.
    """

    id: str
    saga: SagaId
    step: StepId
    status: str
    digest: str
    topic: str
    args: Json
    does: str
    undoes: str
    no_rollback: str | None
    requester: str
    definition: str
    env: str
    rule: str
    why: str
    policy: str
    needs: tuple[Need, ...]
    signers: tuple[str, ...]
    requested_at: int
    expires_at: int
    shown: Json
    so_far: tuple[Line, ...]
    own: tuple[str, ...] = ()
    """Who of them had asked for it themselves, and could agree in development alone."""
    before: Json = None
    before_at: int | None = None
    """The newest before-image, and when it was taken; None where there is none. It is no part of what is agreed to."""

    @property
    def mitigates(self) -> bool:
        """Whether something is declared that a person may have done about it, though it cannot be taken back."""
        return _object(_object(self.shown).get("contract")).get("mitigation") is True

    @property
    def compensation(self) -> str:
        """The compensation in words, or why there is none."""
        if self.no_rollback is not None:
            return f"none: {self.no_rollback}" + (f"; mitigation: {self.undoes}" if self.mitigates else "")
        return self.undoes or "none is declared"


def asking(saga: Saga, step: StepId, entries: Iterable[Entry]) -> Approval:
    """Raises UnknownApprovalError where people were never asked about this step."""
    from amends.evidence.story.timeline import timeline

    known = saga.steps.get(step)
    approval = None if known is None else known.approval
    if approval is None:
        raise no_approval(f"{saga.id}/{step}")
    kept = tuple(entries)
    asked = [one for one in kept if isinstance(one.event, ApprovalRequested) and one.event.step == step][-1]
    event = cast("ApprovalRequested", asked.event)
    shown = _object(approval.shown)
    contract = _object(shown.get("contract"))
    no_rollback = contract.get("no_rollback")
    looked = [one.at for one in kept if isinstance(one.event, BeforeCaptured) and one.event.step == step]
    return Approval(
        id=f"{saga.id}/{step}",
        saga=saga.id,
        step=step,
        status=approval.status,
        digest=approval.digest,
        topic=_text(shown, "topic"),
        args=shown.get("args"),
        does=_text(contract, "does"),
        undoes=_text(contract, "undoes"),
        no_rollback=None if no_rollback is None else str(no_rollback),
        requester=_text(shown, "requester"),
        definition=_text(shown, "definition"),
        env=_text(shown, "env"),
        rule=approval.rule,
        why=event.why,
        policy=approval.policy,
        needs=approval.needs,
        signers=approval.signers,
        requested_at=asked.at,
        expires_at=approval.expires_at,
        shown=approval.shown,
        so_far=timeline(kept),
        own=_own(kept[kept.index(asked) :], step),
        before=known.before if looked and known is not None else None,
        before_at=looked[-1] if looked else None,
    )


def _own(entries: Iterable[Entry], step: StepId) -> tuple[str, ...]:
    events = (one.event for one in entries)
    answered = (each for each in events if isinstance(each, ApprovalSigned | ApprovalGranted | ApprovalRefused))
    return tuple(each.by for each in answered if each.step == step and each.own)


def lacking(approval: state.Approval | Approval) -> str:
    """People who have still to agree, in words."""
    left = [(need, need.approvals - signed(need, approval.signers)) for need in approval.needs]
    return ", ".join(_people(count, need.approvers) for need, count in left if count > 0)


def _people(count: int, approvers: tuple[str, ...]) -> str:
    if approvers:
        return f"{count} of {' or '.join(approvers)}"
    return "1 person" if count == 1 else f"{count} people"


def approval_id(name: str) -> tuple[SagaId, StepId]:
    """`<saga>/<step>`; a step's own name may hold slashes, a saga's never does."""
    saga, slash, step = name.partition("/")
    if not slash or not step:
        raise UnknownApprovalError(
            f"{name!r} is not an approval's id; they look like 01k…/2: see `amends approval list`"
        )
    return SagaId(saga), StepId(step)


def no_approval(name: str) -> UnknownApprovalError:
    return UnknownApprovalError(f"nobody was asked about {name}; `amends approval list --all` shows what was asked")


def _object(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _text(fields: dict[str, Json], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""


class Answering:
    """Where people look, answer and see to what is left."""

    journal: Journal
    settings: Settings
    _clock: Clock
    _engine: LocalEngine
    _leaves_driving: bool = False

    def leave_driving(self) -> None:
        """Have what people ask for be put on record here, and done by a worker that knows the saga: for a server.

        A process that took up a saga whose actions it does not know would end it as an incident.
        """
        self._leaves_driving = True

    async def _ask(self, saga: SagaId, command: c.Command, *, wait: bool = True) -> Ended:
        """Have it recorded, and driven as far as it goes; without `wait`, that goes on in the background."""
        state = await self._engine.request(saga, command)
        is_left = self._leaves_driving and self._engine.running(saga) is None
        if is_left or not wait:
            await self._engine.go_on(saga)
            if self._engine.running(saga) is None:
                self._engine.tell_parent(state)
            return await self._engine.told(await self._engine.state(saga))
        driven = await self._engine.drive(saga)
        if driven is None:
            self._engine.tell_parent(state)
        return driven or await self._engine.told(state)

    # -- looking ------------------------------------------------------------------------------------------------------

    def list(  # noqa: PLR0913 - one for each filter
        self,
        *,
        status: str | tuple[str, ...] | None = None,
        definition: str | None = None,
        topic: str | None = None,
        env: str | None = None,
        parent: str | None = None,
        started_from: int | None = None,
        started_until: int | None = None,
        ended_from: int | None = None,
        ended_until: int | None = None,
        labels: Mapping[str, str] | None = None,
        page: str | None = None,
        limit: int = 100,
    ) -> Listing[SagaRow]:
        """Sagas, newest first: `await` gives a page, `async for` all. `parent`: only this saga's children.

        Times are milliseconds of UTC: from one on, until before the other. labels: all of these, with these values.
        page: begin there; a listing says as `next`, once it has given a page, where the next one begins.
        """
        statuses = (status,) if isinstance(status, str) else status

        async def read(cursor: str | None) -> tuple[tuple[SagaRow, ...], str | None]:
            query = SagaQuery(
                statuses=None if statuses is None else tuple(map(checked_status, statuses)),
                definition=definition,
                topic=topic,
                env=env,
                parent=None if parent is None else SagaId(parent),
                started_from=started_from,
                started_until=started_until,
                ended_from=ended_from,
                ended_until=ended_until,
                labels=tuple(sorted((labels or {}).items())),
                before=cursor,
                limit=limit,
            )
            found = await self.journal.sagas(query)
            return found.rows, found.cursor

        return Listing(read, page)

    async def show(self, saga: str) -> History:
        """One saga's whole history; where that was pruned, what is left of it. Raises UnknownSagaError."""
        await self._engine.put_on_record(SagaId(saga))
        row = await self.journal.saga(SagaId(saga))
        if row is None:
            raise unknown_saga(saga)
        state, entries = unstarted(row.id), list[Entry]()
        async for entry in self.journal.read(row.id):
            state = state if row.pruned or entry.is_removed else evolve(state, entry.event)
            entries.append(entry)
        return History(row=row, saga=state, entries=tuple(entries))

    def locks(self, *, resource: str | None = None, saga: str | None = None, limit: int = 100) -> Listing[LockRow]:
        """Holders and waiters of resources, in the order of asking: `await` gives a page, `async for` all.

        A row's `place` is 0 for who holds the resource, 1 for the next.
        """

        async def page(cursor: str | None) -> tuple[tuple[LockRow, ...], str | None]:
            of = None if saga is None else SagaId(saga)
            found = await self.journal.locks(LockQuery(resource=resource, saga=of, after=cursor, limit=limit))
            return found.rows, found.cursor

        return Listing(page)

    # -- approvals ----------------------------------------------------------------------------------------------------

    def approvals(self, *, open_only: bool = True, saga: str | None = None, limit: int = 100) -> Listing[ApprovalRow]:
        """Approvals that people are asked for, oldest first: `await` gives a page, `async for` all."""

        async def page(cursor: str | None) -> tuple[tuple[ApprovalRow, ...], str | None]:
            of = None if saga is None else SagaId(saga)
            found = await self.journal.approvals(PersonQuery(open_only=open_only, saga=of, after=cursor, limit=limit))
            return found.rows, found.cursor

        return Listing(page)

    async def approval(self, approval: str) -> Approval:
        """An approval as a person is shown it before they answer. Raises UnknownApprovalError."""
        saga, step = approval_id(approval)
        try:
            history = await self.show(saga)
        except UnknownSagaError:
            raise no_approval(approval) from None
        return asking(history.saga, step, history.entries)

    async def grant(
        self, approval: str, *, by: str, why: str = "", digest: str | None = None, proof: Proof | None = None
    ) -> Approval:
        """Approve exactly what `approval(id)` shows; `digest` is of what the person saw, and refused if it has changed.

        `by` is a person, neither who asked nor who owns or acts for them. The step starts once enough have agreed.
        `proof`: their signature, or what makes one of the text that it is called with. Raises ProofError.
        """
        return await self._answer(approval, by=by, why=why, digest=digest, granted=True, proof=proof)

    async def refuse(self, approval: str, *, by: str, why: str, proof: Proof | None = None) -> Approval:
        """Say no: the step is denied. `why` goes on record, and the saga's function is told."""
        return await self._answer(approval, by=by, why=why, digest=None, granted=False, proof=proof)

    async def grant_all(
        self, approvals: Mapping[str, str], *, by: str, why: str = "", proof: Proof | None = None
    ) -> tuple[Approval, ...]:
        """Approve several at once: ids, each with the digest of what the person saw; `proof` is one signature for all.

        Where one of them cannot be granted, none is. Where one changes while they go on record, the others stand, and
        the RefusedError says which. What `proof` is called with has the text of each decision as `.statements`.
        """
        return await self._answer_all(dict(approvals), by=by, why=why, granted=True, proof=proof)

    async def refuse_all(
        self, approvals: Iterable[str], *, by: str, why: str, proof: Proof | None = None
    ) -> tuple[Approval, ...]:
        """Say no to several at once, for one reason and with one signature; else as `grant_all`."""
        return await self._answer_all(dict.fromkeys(approvals), by=by, why=why, granted=False, proof=proof)

    async def _answer_all(
        self, digests: Mapping[str, str | None], *, by: str, why: str, granted: bool, proof: Proof | None
    ) -> tuple[Approval, ...]:
        if not 0 < len(digests) <= MOST_TOGETHER:
            raise InputError(f"{len(digests)} approvals cannot be answered at once; choose 1 to {MOST_TOGETHER}")
        answers = [
            await self._answering(approval, by=by, why=why, digest=digest, granted=granted)
            for approval, digest in digests.items()
        ]
        commands = await proved_together(self._engine, answers, proof)
        done, wrong = list[Approval](), list[str]()
        for approval, command in zip(digests, commands, strict=True):
            try:
                done.append(await self._answered(approval, command))
            except AmendsError as exc:
                wrong.append(f"{approval}: {exc}")
        if wrong:
            word = "granted" if granted else "refused"
            others = f"; {', '.join(each.id for each in done)} {'are' if len(done) > 1 else 'is'}" if done else ""
            raise RefusedError(f"not {word}: {'; '.join(wrong)}{others}")
        return tuple(done)

    async def _answer(
        self, approval: str, *, by: str, why: str, digest: str | None, granted: bool, proof: Proof | None
    ) -> Approval:
        saga, command = await self._answering(approval, by=by, why=why, digest=digest, granted=granted)
        return await self._answered(approval, await proved(self._engine, saga, command, proof))

    async def _answering(
        self, approval: str, *, by: str, why: str, digest: str | None, granted: bool
    ) -> tuple[SagaId, c.AnswerApproval]:
        await self.approval(approval)
        saga, step = approval_id(approval)
        policy = await self._engine.policy_in_force()
        return saga, c.AnswerApproval(
            step=step, by=checked_actor(by), granted=granted, why=why, digest=digest, policy=policy
        )

    async def _answered(self, approval: str, command: c.Command) -> Approval:
        saga, step = approval_id(approval)
        state = await self._engine.request(saga, command)
        given = state.steps[step].approval
        await self._engine.go_on(saga)
        if given is not None and given.status is ApprovalStatus.VOID:
            raise RefusedError(
                f"approval {approval} was asked under policy {given.policy[:12]}, and another was adopted since: it is "
                "void, and the gate judges again where a process drives the saga. Where none does: "
                f"{resuming(state.begun)}; then look at what is asked: amends approval list"
            )
        answered = await self.approval(approval)
        if answered.status == ApprovalStatus.EXPIRED:
            raise RefusedError(f"approval {approval} has expired: it had to be answered in time")
        return answered

    # -- incidents ----------------------------------------------------------------------------------------------------

    def incidents(self, *, open_only: bool = True, saga: str | None = None, limit: int = 100) -> Listing[IncidentRow]:
        """Incidents, which need a person, oldest first: `await` gives a page, `async for` all."""

        async def page(cursor: str | None) -> tuple[tuple[IncidentRow, ...], str | None]:
            of = None if saga is None else SagaId(saga)
            found = await self.journal.incidents(PersonQuery(open_only=open_only, saga=of, after=cursor, limit=limit))
            return found.rows, found.cursor

        return Listing(page)

    async def incident_report(self, incident: str) -> dict[str, Json]:
        """A report to hand on, as data: what happened, what stands, who decided, what attests it.

        Raises UnknownIncidentError.
        """
        return await incident_report(self.journal, incident)

    async def retry_incident(
        self,
        incident: str,
        *,
        by: str | None = None,
        let_run: bool = False,
        mitigate: bool = False,
        repeat: bool = False,
        proof: Proof | None = None,
        wait: bool = True,
    ) -> Ended:
        """Try again what an incident stopped at. `by` says who asks.

        let_run: have the compensation run that the gate refused; for a person, who takes it on themselves.
        mitigate: have the saga go back past its pivot, as `cancel(mitigate=True)` does; for a person, too.
        repeat: have a step done once more of which an attempt was lost, which is not idempotent and has no probe: it
            may then take effect twice. Refused without; who has looked first and found that it did, resolves instead.
        wait: as for `cancel`.
        """
        saga, number = incident_id(incident)
        who, missing = checked_actor(by), await self._unmitigated_below(saga) if mitigate else ()
        command = c.RetryIncident(
            incident=number,
            by=who,
            let_run=let_run,
            mitigate=mitigate,
            unmitigated=missing,
            repeat=repeat,
        )
        return await self._ask(saga, await proved(self._engine, saga, command, proof), wait=wait)

    async def _unmitigated_below(self, saga: SagaId) -> tuple[str, ...]:
        return await unmitigated_below(self.journal, await self._engine.state(saga))

    async def resolve_incident(
        self,
        incident: str,
        *,
        reason: str,
        by: str | None = None,
        proof: str = "",
        signed: Proof | None = None,
        wait: bool = True,
    ) -> Ended:
        """Vouch for what an incident stopped at: it was seen to by hand. The saga then goes on without it.

        proof: where others can see that it was: a ticket, a receipt, an entry elsewhere.
        signed: who vouches for it proves their name, as `proof` of `grant` does. wait: as for `cancel`.
        """
        saga, number = incident_id(incident)
        command = c.ResolveIncident(incident=number, by=checked_actor(by), reason=reason, proof=proof)
        return await self._ask(saga, await proved(self._engine, saga, command, signed), wait=wait)

    async def assign_incident(self, incident: str, *, owner: str, by: str | None = None) -> None:
        """Say who sees to it."""
        saga, number = incident_id(incident)
        command = c.AssignIncident(incident=number, owner=checked_actor(owner), by=checked_actor(by))
        await self._engine.request(saga, command)

    async def comment_incident(self, incident: str, *, text: str, by: str | None = None) -> None:
        """Put a remark on record, for whoever looks next."""
        saga, number = incident_id(incident)
        await self._engine.request(saga, c.CommentIncident(incident=number, by=checked_actor(by), text=text))
