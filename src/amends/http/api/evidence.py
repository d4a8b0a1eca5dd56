"""Evidence over HTTP: a saga's record, and bundles that verify offline."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from amends.core.words.values import SagaId
from amends.evidence import record as records
from amends.evidence.bundle import export
from amends.evidence.drills import last_drills
from amends.http.api.operations import At, Operation, Sent, get
from amends.http.api.sagas import told
from amends.http.api.shapes import SOME_OBJECT, TEXT

BUNDLE_TYPE = "application/x-ndjson"


async def show_record(at: At, saga: str) -> object:
    """Show one saga's record: what failed, which rule spoke, what was taken back, and the whole timeline."""
    return await records.record_of(at.journal, SagaId(saga), last_drills)


async def export_bundle(at: At, *, saga: list[str] | None = None, tree_head: str | None = None) -> object:
    """Export a bundle that anybody can verify with `amends evidence verify`: of these sagas, or of the whole journal.

    `tree_head`: one that the reader holds, which the bundle can then be held against.
    """
    for one in saga or ():
        await told(at, one)
    lines = export(at.journal, saga, checkpoint=tree_head)
    begun = [await anext(lines)]  # what cannot be made is a problem, and no broken answer

    async def all_of_it() -> AsyncGenerator[str]:
        for line in begun:
            yield line
        async for line in lines:
            yield line

    return Sent(all_of_it(), BUNDLE_TYPE, {"Content-Disposition": 'attachment; filename="bundle.jsonl"'})


def operations() -> tuple[Operation, ...]:
    return (
        get("/evidence/record/{saga}", show_record, SOME_OBJECT),
        get("/evidence/bundle", export_bundle, TEXT, media_type=BUNDLE_TYPE),
    )
