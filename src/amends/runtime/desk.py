"""Looking at sagas, and answering what people are asked: the half of a coordinator that runs nothing itself."""

from __future__ import annotations

from amends.clock import Clock
from amends.core import commands as c
from amends.core.declared import resuming
from amends.core.saga import evolve, unstarted
from amends.core.transitions import ApprovalStatus
from amends.core.values import Json, SagaId
from amends.errors import RefusedError, UnknownSagaError
from amends.journal.locking import LockQuery, LockRow
from amends.journal.protocol import ApprovalRow, Entry, IncidentRow, Journal, PersonQuery, SagaQuery, SagaRow
from amends.runtime.approvals import Asking, approval_id, asking, no_approval
from amends.runtime.checked import checked_actor, checked_status, incident_id
from amends.runtime.handle import Ended
from amends.runtime.kinship import unmitigated_below
from amends.runtime.listing import History, Listing
from amends.runtime.local import LocalEngine
from amends.runtime.reporting import incident_report
from amends.runtime.settings import Settings


class Desk:
    """Where people look, answer and see to what is left."""

    journal: Journal
    settings: Settings
    _clock: Clock
    _engine: LocalEngine

    async def _ask(self, saga: SagaId, command: c.Command) -> Ended:
        state = await self._engine.request(saga, command)
        driven = await self._engine.drive(saga)
        if driven is None:
            self._engine.tell_parent(state)
        return driven or await self._engine.told(state)

    # -- looking ------------------------------------------------------------------------------------------------------

    def list(
        self,
        *,
        status: str | tuple[str, ...] | None = None,
        definition: str | None = None,
        topic: str | None = None,
        env: str | None = None,
        parent: str | None = None,
        started_from: int | None = None,
        started_until: int | None = None,
        limit: int = 100,
    ) -> Listing[SagaRow]:
        """Sagas, newest first: `await` gives a page, `async for` all. `parent`: only this saga's children."""
        statuses = (status,) if isinstance(status, str) else status

        async def page(cursor: str | None) -> tuple[tuple[SagaRow, ...], str | None]:
            query = SagaQuery(
                statuses=None if statuses is None else tuple(map(checked_status, statuses)),
                definition=definition,
                topic=topic,
                env=env,
                parent=None if parent is None else SagaId(parent),
                started_from=started_from,
                started_until=started_until,
                before=cursor,
                limit=limit,
            )
            found = await self.journal.sagas(query)
            return found.rows, found.cursor

        return Listing(page)

    async def show(self, saga: str) -> History:
        """One saga's whole history; where that was pruned, what is left of it. Raises UnknownSagaError."""
        await self._engine.put_on_record(SagaId(saga))
        row = await self.journal.saga(SagaId(saga))
        if row is None:
            raise UnknownSagaError(f"no saga has the id {saga}; `amends saga list` shows those that there are")
        state, entries = unstarted(row.id), list[Entry]()
        async for entry in self.journal.read(row.id):
            state = state if row.pruned or entry.is_removed else evolve(state, entry.event)
            entries.append(entry)
        return History(row=row, saga=state, entries=tuple(entries))

    def locks(self, *, resource: str | None = None, saga: str | None = None, limit: int = 100) -> Listing[LockRow]:
        """Who holds what, and who stands in line for it, in the order of asking: `await` gives a page, `async for` all.

        A row's `place` is 0 for who holds the resource, 1 for the next.
        """

        async def page(cursor: str | None) -> tuple[tuple[LockRow, ...], str | None]:
            of = None if saga is None else SagaId(saga)
            found = await self.journal.locks(LockQuery(resource=resource, saga=of, after=cursor, limit=limit))
            return found.rows, found.cursor

        return Listing(page)

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
        now, policy = self._clock.now(), await self._engine.policy_in_force()
        command = c.AnswerApproval(
            step=step, by=checked_actor(by), granted=granted, why=why, now=now, digest=digest, policy=policy
        )
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
        """What needs a person, oldest first: `await` gives a page, `async for` all."""

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
    ) -> Ended:
        """Try again what an incident stopped at. `by` says who asks.

        let_run: have the compensation run that the gate refused; for a person, who takes it on themselves.
        mitigate: have the saga go back past its pivot, as `cancel(mitigate=True)` does; for a person, too.
        repeat: have a step done once more of which an attempt was lost, which is not idempotent and has no probe: it
            may then take effect twice. Refused without; who has looked first and found that it did, resolves instead.
        """
        saga, number = incident_id(incident)
        who, missing = checked_actor(by), await self._unmitigated_below(saga) if mitigate else ()
        now, window_s = self._clock.now(), self.settings.rollback_s
        command = c.RetryIncident(
            incident=number,
            by=who,
            now=now,
            window_s=window_s,
            let_run=let_run,
            mitigate=mitigate,
            unmitigated=missing,
            repeat=repeat,
        )
        return await self._ask(saga, command)

    async def _unmitigated_below(self, saga: SagaId) -> tuple[str, ...]:
        return await unmitigated_below(self.journal, await self._engine.state(saga))

    async def resolve_incident(self, incident: str, *, reason: str, by: str | None = None, proof: str = "") -> Ended:
        """Vouch for what an incident stopped at: it was seen to by hand. The saga then goes on without it.

        proof: where others can see that it was: a ticket, a receipt, an entry elsewhere.
        """
        saga, number = incident_id(incident)
        now, window_s = self._clock.now(), self.settings.rollback_s
        command = c.ResolveIncident(
            incident=number, by=checked_actor(by), reason=reason, now=now, window_s=window_s, proof=proof
        )
        return await self._ask(saga, command)

    async def assign_incident(self, incident: str, *, owner: str, by: str | None = None) -> None:
        """Say who sees to it."""
        saga, number = incident_id(incident)
        command = c.AssignIncident(incident=number, owner=checked_actor(owner), by=checked_actor(by))
        await self._engine.request(saga, command)

    async def comment_incident(self, incident: str, *, text: str, by: str | None = None) -> None:
        """Put a remark on record, for whoever looks next."""
        saga, number = incident_id(incident)
        await self._engine.request(saga, c.CommentIncident(incident=number, by=checked_actor(by), text=text))
