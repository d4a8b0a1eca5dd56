"""Approvals over HTTP: what people are asked."""

from __future__ import annotations

from typing import Final

from amends.core.words.values import SagaId
from amends.http.api.operations import At, Operation, get
from amends.http.api.sagas import checked_limit
from amends.http.api.shapes import TEXT, page, shape
from amends.journal.port.journal import ApprovalRow, PersonQuery
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


def operations() -> tuple[Operation, ...]:
    return (
        get("/approvals", list_approvals, page(APPROVAL)),
        get("/approvals/{saga}/{step:path}", show_approval, ASKED),
    )
