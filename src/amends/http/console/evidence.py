"""Evidence: the tree heads and keys, a check of the whole journal, and bundles that verify without us."""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import AsyncGenerator
from typing import Final

from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute

from amends.core.words.values import SagaId
from amends.errors import UnknownSagaError
from amends.evidence import record as records
from amends.evidence.bundle import export
from amends.evidence.drills import last_drills
from amends.evidence.sign.note import read_checkpoint, read_note
from amends.evidence.verify.examine import VerificationReport
from amends.evidence.verify.verify import verify_journal
from amends.http.callers import Scope
from amends.http.console.visit import Visit, decided, shown
from amends.journal.port.evidence import TreeHead
from amends.operate.reading import unknown

MOST_HEADS: Final = 20
_LOOKED_AT: Final = 10_000
"""How many of the newest entries are gone through for tree heads."""
_BUNDLE_TYPE = "application/x-ndjson"


async def _page(visit: Visit) -> Response:
    return await _show(visit)


async def _show(visit: Visit, report: VerificationReport | None = None) -> Response:
    journal = visit.journal
    tree, head = await journal.tree(), await journal.tree_head()
    heads = deque[TreeHead](maxlen=MOST_HEADS)
    if head is not None:
        async for each in journal.tree_heads(after=max(0, head.size - _LOOKED_AT)):
            heads.appendleft(each)
    return await visit.show(
        "evidence.html",
        size=tree.size,
        head=head,
        heads=[(each, _root_of(each)) for each in heads],
        pinned=visit.coordinator.settings.root or "",
        signers=await journal.signers(),
        unnumbered=(await journal.unnumbered()).entries,
        report=report,
    )


def _root_of(head: TreeHead) -> str:
    return base64.b64encode(read_checkpoint(read_note(head.note)).root).decode()


async def _verify(visit: Visit) -> Response:
    """Go over every entry, as `amends evidence verify` does. Changes nothing."""
    return await _show(visit, await verify_journal(visit.journal, root=visit.coordinator.settings.root))


async def _seal(visit: Visit) -> Response:
    head = await visit.journal.seal()
    visit.tell("Nothing is there to be signed yet." if head is None else f"Signed: {head.size} entries.")
    return visit.go("/evidence")


async def _bundle(visit: Visit) -> Response:
    sagas = visit.asked.all("saga") or None
    for one in sagas or ():
        await _require(visit, one)
    lines = export(visit.journal, sagas)
    begun = [await anext(lines)]  # what cannot be made is a page that says so, and no broken file

    async def all_of_it() -> AsyncGenerator[str]:
        for line in begun:
            yield line
        async for line in lines:
            yield line

    headers = {"content-disposition": 'attachment; filename="bundle.jsonl"'}
    return StreamingResponse(all_of_it(), media_type=_BUNDLE_TYPE, headers=headers)


async def _record(visit: Visit) -> Response:
    saga = visit.named("saga")
    await _require(visit, saga)
    return JSONResponse(await records.record_of(visit.journal, SagaId(saga), last_drills))


async def _require(visit: Visit, saga: str) -> None:
    """Raises UnknownSagaError."""
    if await visit.journal.saga(SagaId(saga)) is None:
        found: UnknownSagaError = await unknown(visit.journal, saga)
        raise found


def routes() -> list[BaseRoute]:
    return [
        shown("/evidence", _page),
        decided("/evidence/verify", _verify, Scope.VIEW),
        decided("/evidence/tree-head", _seal, Scope.ADMIN),
        shown("/evidence/bundle", _bundle),
        shown("/evidence/record/{saga}", _record),
    ]
