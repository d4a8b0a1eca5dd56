"""Questions of a client about sagas that it does not drive itself, and its decisions: lists, approvals, incidents.

Answers are the rows that a coordinator on a journal gives; one thing shown whole is the object that the server tells.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import fields
from os import PathLike
from typing import Any, Final, Literal, TypeVar, cast
from urllib.parse import quote

from amends.clock import SystemClock
from amends.core.events import IncidentKind
from amends.core.transitions import SagaStatus
from amends.core.words.values import Json, SagaId
from amends.errors import InputError, UnsignedError
from amends.evidence.proof.statement import statement_list
from amends.journal.port.journal import ApprovalRow, IncidentRow, SagaRow
from amends.remote.server import Fields, Server
from amends.runtime.coordinator.lists import Listing
from amends.runtime.drive.roster import Proof
from amends.runtime.engine.handle import Ended

T = TypeVar("T")
_GOING: Final = frozenset({"running", "rolling_back"})
_LOOK_S: Final = 0.1


class Asking:
    """The part of a connected coordinator that asks about sagas, and has people's decisions put on record."""

    server: Server

    # -- lists --------------------------------------------------------------------------------------------------------

    def list(
        self,
        *,
        status: str | tuple[str, ...] | None = None,
        definition: str | None = None,
        topic: str | None = None,
        env: str | None = None,
        parent: str | None = None,
        labels: Mapping[str, str] | None = None,
        page: str | None = None,
        limit: int = 100,
    ) -> Listing[SagaRow]:
        """Sagas, newest first: `await` gives a page, `async for` all. labels: all of these, with these values."""
        asked = {
            "status": (status,) if isinstance(status, str) else status,
            "definition": definition,
            "topic": topic,
            "env": env,
            "parent": parent,
            "label": [f"{name}={value}" for name, value in (labels or {}).items()] or None,
            "limit": limit,
        }
        return self._listing("/sagas", SagaRow, asked, begins=page)

    def approvals(self, *, open_only: bool = True, saga: str | None = None, limit: int = 100) -> Listing[ApprovalRow]:
        """Approvals that people are asked for, oldest first: `await` gives a page, `async for` all."""
        asked = {"every": not open_only, "saga": saga, "limit": limit}
        return self._listing("/approvals", ApprovalRow, asked)

    def incidents(self, *, open_only: bool = True, saga: str | None = None, limit: int = 100) -> Listing[IncidentRow]:
        """Incidents, which need a person, oldest first: `await` gives a page, `async for` all."""
        asked = {"every": not open_only, "saga": saga, "limit": limit}
        return self._listing("/incidents", IncidentRow, asked)

    def _listing(self, path: str, cls: type[T], asked: Mapping[str, Any], *, begins: str | None = None) -> Listing[T]:
        async def page(cursor: str | None) -> tuple[tuple[T, ...], str | None]:
            found = await self.server.get(path, **asked, page=cursor)
            return tuple(row(cls, each) for each in found["items"]), found["next"]

        return Listing(page, begins)

    # -- one of them --------------------------------------------------------------------------------------------------

    async def show(self, saga: str) -> Fields:
        """One saga as the server shows it, with its `entries`. Raises UnknownSagaError."""
        shown = await self.server.get(_path("sagas", saga))
        entries: list[object] = []
        after: int | None = 0
        while after is not None:
            found = await self.server.get(f"{_path('sagas', saga)}/entries", after=after)
            entries += found["items"]
            after = found["next"]
        return {**shown, "entries": entries}

    async def approval(self, approval: str) -> Fields:
        """An approval as a person is shown it before they answer. Raises UnknownApprovalError."""
        return await self.server.get(_path("approvals", approval))

    async def incident(self, incident: str) -> Fields:
        """An incident, how it was closed, and what people said about it. Raises UnknownIncidentError."""
        return await self.server.get(_path("incidents", incident))

    async def incident_report(self, incident: str) -> dict[str, Json]:
        """A report to hand on, as data: what happened, what stands, who decided, what attests it."""
        return await self.server.get(f"{_path('incidents', incident)}/report")

    async def record(self, saga: str) -> dict[str, Json]:
        """One saga's evidence: what failed, which rule spoke, what was taken back, and the whole timeline."""
        return await self.server.get(f"/evidence/record/{quote(saga, safe='')}")

    # -- deciding -----------------------------------------------------------------------------------------------------

    async def grant(
        self, approval: str, *, why: str = "", digest: str | None = None, proof: Proof | None = None
    ) -> Fields:
        """Approve exactly what `approval(id)` shows, in the name that the token proves.

        digest: of what the person saw; refused if it has changed. proof: their signature, or what makes one of the text
        that it is called with.
        """
        seen = digest if digest is not None else (await self.approval(approval))["digest"]
        return await self._decide(f"{_path('approvals', approval)}/grant", {"digest": seen, "why": why}, proof)

    async def refuse(self, approval: str, *, why: str, proof: Proof | None = None) -> Fields:
        """Say no: the step is denied. `why` goes on record, and the saga's function is told."""
        return await self._decide(f"{_path('approvals', approval)}/refuse", {"why": why}, proof)

    async def grant_all(
        self, approvals: Mapping[str, str], *, why: str = "", proof: Proof | None = None
    ) -> tuple[Fields, ...]:
        """Approve several at once, with one signature: ids, each with the digest of what the person saw."""
        body: Fields = {"approvals": dict(approvals), "why": why}
        return tuple((await self._decide("/approvals/grant", body, proof))["items"])

    async def refuse_all(self, approvals: Iterable[str], *, why: str, proof: Proof | None = None) -> tuple[Fields, ...]:
        """Say no to several at once, for one reason and with one signature."""
        body: Fields = {"approvals": list(dict.fromkeys(approvals)), "why": why}
        return tuple((await self._decide("/approvals/refuse", body, proof))["items"])

    async def resolve_incident(
        self, incident: str, *, reason: str, proof: str = "", signed: Proof | None = None
    ) -> Fields:
        """Vouch for what an incident stopped at: it was seen to by hand. proof: where others can see that it was."""
        body = {"reason": reason, "proof": proof}
        return await self._decide(f"{_path('incidents', incident)}/resolve", body, signed, as_="signed")

    async def retry_incident(
        self,
        incident: str,
        *,
        let_run: bool = False,
        mitigate: bool = False,
        repeat: bool = False,
        proof: Proof | None = None,
    ) -> Fields:
        """Try again what an incident stopped at."""
        body = {"let_run": let_run, "mitigate": mitigate, "repeat": repeat}
        return await self._decide(f"{_path('incidents', incident)}/retry", body, proof)

    async def comment_incident(self, incident: str, *, text: str) -> Fields:
        """Put a remark on record, for whoever looks next."""
        return await self.server.post(f"{_path('incidents', incident)}/comment", {"text": text})

    async def assign_incident(self, incident: str, *, owner: str) -> Fields:
        """Say who sees to it."""
        return await self.server.post(f"{_path('incidents', incident)}/assign", {"owner": owner})

    async def raise_limit(self, saga: str, *, why: str = "", proof: Proof | None = None, **most: Any) -> Fields:  # noqa: ANN401 - of each limit's own kind
        """Set a saga's limits higher; without amounts, as much again of the one that it has reached."""
        return await self._decide(f"{_path('sagas', saga)}/limits", {**most, "why": why}, proof)

    async def adopt(self, policy: str | PathLike[str], *, why: str, proof: Proof | None = None) -> bool:
        """Have this policy's file judge from now on, in every process on the journal; whether it is another one."""
        from amends.gate.load import load_policy

        before: str = (await self.server.get("/policy"))["digest"]
        text = load_policy(policy).text
        await self._decide("/policy/adopt", {"text": text, "why": why}, proof)
        after: str = (await self.server.get("/policy"))["digest"]
        return before != after

    async def _decide(
        self, path: str, body: Mapping[str, object], proof: Proof | None, *, as_: str = "proof"
    ) -> Fields:
        if not callable(proof):
            return await self.server.post(path, {**body, as_: proof or ""})
        try:
            return await self.server.post(path, body)
        except UnsignedError as exc:
            signed = proof(statement_list(exc.statement, exc.statements) if exc.statements else exc.statement)
            made = await signed if asyncio.iscoroutine(signed) else signed
            return await self.server.post(path, {**body, as_: f"{exc.statement}{made}"})

    # -- control ------------------------------------------------------------------------------------------------------

    async def cancel(
        self, saga: str, *, why: str = "cancelled", mitigate: bool = False, proof: Proof | None = None
    ) -> Ended[Any]:
        """Take a saga back, even one that had completed, as long as it has no pivot. Says how it ended.

        Whoever has its actions makes the calls: a worker, or the client that has its session open.
        """
        await self._decide(f"{_path('sagas', saga)}/cancel", {"why": why, "mitigate": mitigate}, proof)
        return await self.standing(saga)

    async def rollback(
        self,
        saga: str,
        *,
        to: str | None = None,
        last: int | None = None,
        why: str = "rolled back",
        proof: Proof | None = None,
    ) -> Ended[Any]:
        """Take a saga back to a checkpoint, or by its last steps that stand; without either, all of it."""
        await self._decide(f"{_path('sagas', saga)}/rollback", {"to": to, "last": last, "why": why}, proof)
        return await self.standing(saga)

    async def standing(self, saga: str) -> Ended[Any]:
        """Where a saga stands once nothing more is due."""
        while True:
            row = await self.server.get(_path("sagas", saga))
            if row["status"] not in _GOING:
                break
            await SystemClock().sleep(_LOOK_S)
        status, why = SagaStatus(row["status"]), ""
        incidents: tuple[str, ...] = ()
        if status is SagaStatus.INCIDENT:
            found = [each async for each in self.incidents(saga=saga)]
            incidents, why = tuple(one.id for one in found), "; ".join(one.why for one in found)
        return Ended(id=SagaId(saga), status=status, why=why, incidents=incidents, source=self._record_of)

    async def _record_of(self, saga: SagaId) -> dict[str, Json]:
        return await self.record(saga)

    async def signal(self, saga: str, name: str, payload: Json = None, *, early: bool = False) -> None:
        """Send a saga the signal that it waits for. early: keep it until the saga waits for one of that name."""
        await self.server.post(f"{_path('sagas', saga)}/signal", {"name": name, "payload": payload, "early": early})

    async def pause(
        self,
        *,
        saga: str | None = None,
        topic: str = "",
        definition: str = "",
        tenant: str = "",
        why: str,
        rollbacks: Literal["go_on", "stop"] = "go_on",
    ) -> int:
        """Dispatch nothing more for one saga, or of this kind, in any process. Gives the pause's number."""
        body: Fields = {"why": why, "rollbacks": rollbacks}
        if saga is not None:
            if topic or definition or tenant:
                raise InputError("pause one saga, or all of a kind, not both")
            await self.server.post(f"{_path('sagas', saga)}/pause", body)
            return 0
        asked = {**body, "topic": topic, "definition": definition, "tenant": tenant}
        made: int = max(one["number"] for one in (await self.server.post("/pauses", asked))["items"])
        return made

    async def unpause(
        self,
        *,
        saga: str | None = None,
        topic: str = "",
        definition: str = "",
        tenant: str = "",
        everything: bool = False,
        why: str = "",
        proof: Proof | None = None,
    ) -> int:
        """Let a paused saga, or all of this kind, go on; how many do."""
        if saga is not None:
            await self._decide(f"{_path('sagas', saga)}/unpause", {}, proof)
            return 1
        body = {"topic": topic, "definition": definition, "tenant": tenant, "everything": everything, "why": why}
        released: int = (await self._decide("/pauses/end", body, proof))["released"]
        return released


def _path(kind: str, id: str) -> str:
    """The path of one thing; an approval's and an incident's id has a saga's before its slash."""
    saga, slash, rest = id.partition("/")
    return f"/{kind}/{quote(saga, safe='')}{slash}{quote(rest, safe='/')}"


def row(cls: type[T], given: Mapping[str, Any]) -> T:
    """A row of a list, of the fields that a server tells: those that this version knows."""
    names = [each.name for each in fields(cast("Any", cls))]
    return cls(**{name: _spelled(cls, name, given[name]) for name in names if name in given})


def _spelled(cls: type[object], name: str, value: object) -> object:
    if name == "status" and cls is SagaRow:
        return SagaStatus(cast("str", value))
    if name == "kind":
        return IncidentKind(cast("str", value))
    return tuple(cast("list[object]", value)) if isinstance(value, list) else value
