"""`amends evidence verify --recompute`: whether each verdict is what its policy says of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from amends.cli.output import Output
from amends.cli.session import opened_to_read
from amends.core.values import SagaId
from amends.evidence.reading import Read, read_bundle
from amends.evidence.texts import counted, visible
from amends.journal.protocol import Entry, SagaQuery
from amends.runtime.recomputing import Again, Held, recomputed

_MOST_SHOWN: Final = 20
_STYLES: Final = {Held.SAME: "green", Held.OTHER: "bold red", Held.UNKNOWN: "yellow"}


def tell_bundle(out: Output, bundle: str) -> bool:
    """Whether no verdict of a bundle, which verifies, is another than its policy says."""
    with Path(bundle).open("rb") as file:
        return _tell(out, read_bundle(file))


def tell_journal(out: Output, address: str) -> bool:
    """The same of a journal."""
    return _tell(out, asyncio.run(_read(address)))


async def _read(address: str) -> Read:
    sagas: dict[SagaId, list[Entry]] = {}
    async with opened_to_read(address) as journal:
        query: SagaQuery | None = SagaQuery(limit=500)
        while query is not None:
            page = await journal.sagas(query)
            for row in page.rows:
                sagas[row.id] = [entry async for entry in journal.read(row.id)]
            query = None if page.cursor is None else replace(query, before=page.cursor)
    return Read(sagas, {}, is_whole=True)


def _tell(out: Output, read: Read) -> bool:
    found = [*recomputed(read.sagas, is_whole=read.is_whole, texts=read.policies)]
    counts = Counter(each.held for each in found)
    for each in found:
        if each.held is not Held.SAME:
            out.record("verdict", {**each._asdict(), "held": str(each.held)})
    _tell_some(out, [each for each in found if each.held is Held.OTHER])
    _tell_unknown(out, [each for each in found if each.held is Held.UNKNOWN])
    out.record("recomputed", {str(held): counts[held] for held in Held})
    said = f"{counted(counts[Held.SAME], 'verdict')} as the policy says, {counts[Held.OTHER]} not"
    worst = Held.OTHER if counts[Held.OTHER] else Held.UNKNOWN if counts[Held.UNKNOWN] else Held.SAME
    out.say((f"{said}, {counts[Held.UNKNOWN]} unknown", _STYLES[worst]))
    return not counts[Held.OTHER]


def _tell_some(out: Output, others: Sequence[Again]) -> None:
    for each in others[:_MOST_SHOWN]:
        where = f"saga {visible(each.saga)}, entry {each.entry} ({visible(each.topic)})"
        out.say(("! ", "bold red"), f"{where}: {visible(each.why, 400)}")
    if len(others) > _MOST_SHOWN:
        out.say(f"  and {len(others) - _MOST_SHOWN} more; --json has them all")


def _tell_unknown(out: Output, unknown: Iterable[Again]) -> None:
    for why, count in Counter(each.why for each in unknown).most_common(_MOST_SHOWN):
        out.say(("? ", "yellow"), f"{counted(count, 'verdict')}: {visible(why, 400)}")
