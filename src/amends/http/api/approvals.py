"""Approvals over HTTP: what people are asked, and what they answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, cast

from starlette.responses import Response

from amends.core import events as e
from amends.core.words.values import SagaId
from amends.http.api.operations import At, Leaves, Operation, get, post
from amends.http.api.sagas import checked_limit
from amends.http.api.shapes import TEXT, many, page, record, shape
from amends.http.api.signing import decided
from amends.http.callers import Scope
from amends.journal.port.journal import ApprovalRow, Entry, PersonQuery
from amends.operate.fields import approval_fields, asking_fields
from amends.runtime.coordinator.people import Approval

APPROVAL: Final = shape(ApprovalRow)
ASKED: Final = shape(Approval, compensation=TEXT, lacking=TEXT)


async def list_approvals(
    at: At, *, every: bool = False, saga: str | None = None, limit: int = 50, page: str | None = None
) -> object:
    """List what people are asked, oldest first.

    `every`: those too that are answered, used or void.
    """
    of = None if saga is None else SagaId(saga)
    found = await at.journal.approvals(
        PersonQuery(open_only=not every, saga=of, after=page, limit=checked_limit(limit))
    )
    return {"items": [approval_fields(row) for row in found.rows], "next": found.cursor}


async def show_approval(at: At, saga: str, step: str) -> object:
    """Show everything that a person should know before they answer."""
    return asking_fields(await at.coordinator.approval(f"{saga}/{step}"))


async def grant_approval(at: At, saga: str, step: str, *, digest: str, why: str = "", proof: str = "") -> object:
    """Approve exactly what was shown: `digest` is of that, and one that has changed is refused.

    In the caller's own name: a person, neither who asked nor who owns it or acts for them. Where the policy asks for a
    signature and `proof` gives none, the problem has the text to sign as `statement`; sign that, and send it all as
    `proof`, under a new key.
    """
    name, by = f"{saga}/{step}", at.caller.name
    answered = await decided(
        lambda signed: at.coordinator.grant(name, by=by, why=why, digest=digest, proof=signed), proof
    )
    return answered if isinstance(answered, Response) else asking_fields(answered)


async def refuse_approval(at: At, saga: str, step: str, *, why: str, proof: str = "") -> object:
    """Say no, and why: the step is denied, and whoever asked is told."""
    name, by = f"{saga}/{step}", at.caller.name
    answered = await decided(lambda signed: at.coordinator.refuse(name, by=by, why=why, proof=signed), proof)
    return answered if isinstance(answered, Response) else asking_fields(answered)


async def grant_approvals(at: At, *, approvals: dict[str, str], why: str = "", proof: str = "") -> object:
    """Approve several at once: ids, each with the digest of what was shown.

    As each alone, with one signature for all where they take one: `statement` of the problem is then a list that has
    each of `statements` by its SHA-256. Where one of them cannot be granted, none is.
    """
    by = at.caller.name
    answered = await decided(lambda signed: at.coordinator.grant_all(approvals, by=by, why=why, proof=signed), proof)
    return answered if isinstance(answered, Response) else {"items": [asking_fields(each) for each in answered]}


async def refuse_approvals(at: At, *, approvals: list[str], why: str, proof: str = "") -> object:
    """Say no to several at once, for one reason; `proof` as for granting several."""
    by = at.caller.name
    answered = await decided(lambda signed: at.coordinator.refuse_all(approvals, by=by, why=why, proof=signed), proof)
    return answered if isinstance(answered, Response) else {"items": [asking_fields(each) for each in answered]}


async def _shown(at: At, saga: str, step: str, **_: object) -> object:
    return await show_approval(at, saga, step)


async def _all_shown(at: At, approvals: Iterable[str], **_: object) -> object:
    return {"items": [asking_fields(await at.coordinator.approval(each)) for each in approvals]}


def _is_one_of(entry: Entry, given: Mapping[str, object]) -> bool:
    return f"{entry.saga}/{getattr(entry.event, 'step', '')}" in cast("Iterable[str]", given["approvals"])


def operations() -> tuple[Operation, ...]:
    grants = Leaves(events=(e.ApprovalGranted, e.ApprovalSigned), shows=_shown)
    refuses = Leaves(events=(e.ApprovalRefused,), shows=_shown)
    grants_all = Leaves(events=grants.events, shows=_all_shown, fits=_is_one_of)
    refuses_all = Leaves(events=refuses.events, shows=_all_shown, fits=_is_one_of)
    one, several = "/approvals/{saga}/{step:path}", record(items=many(ASKED))
    return (
        post("/approvals/grant", grant_approvals, several, scope=Scope.DECIDE, leaves=grants_all),
        post("/approvals/refuse", refuse_approvals, several, scope=Scope.DECIDE, leaves=refuses_all),
        post(f"{one}/grant", grant_approval, ASKED, scope=Scope.DECIDE, leaves=grants),
        post(f"{one}/refuse", refuse_approval, ASKED, scope=Scope.DECIDE, leaves=refuses),
        get("/approvals", list_approvals, page(APPROVAL)),
        get(one, show_approval, ASKED),
    )
