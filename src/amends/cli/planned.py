"""`amends saga rollback --plan`: what would be taken back, a line each."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from amends.cli.modules import load as load_modules
from amends.cli.output import Output
from amends.cli.session import load, opened_to_read
from amends.core.values import SagaId
from amends.evidence.timeline import visible
from amends.runtime.kinship import counted_on, unmitigated_below
from amends.runtime.registry import PROCESS
from amends.runtime.rollback import planned
from amends.sagafile import remember

_FIELDS: Final = ("order", "step", "topic", "undoes", "certain", "why_not", "mitigates")


def show_plan(
    saga: str,
    *,
    modules: Iterable[str],
    to: str | None,
    last: int | None,
    mitigate: bool,
    journal: str,
    as_json: bool,
) -> int:
    """The exit code: 0 where nothing stands in the way, 4 where something does."""
    out = Output(as_json=as_json)

    async def whole() -> int:
        async with opened_to_read(journal) as opened:
            await remember(opened, saga=saga)
            state = await load(opened, SagaId(saga))
            counted = "" if state.begun is None else await counted_on(opened, state.id, state.begun)
            below = await unmitigated_below(opened, state) if mitigate else ()
            plan = planned(state, PROCESS, to=to, last=last, counted_on=counted, mitigate=mitigate, unmitigated=below)
        for step in plan.steps:
            out.record("planned", {name: getattr(step, name) for name in _FIELDS})
        for line in str(plan).split("\n"):
            order, dot, rest = line.partition(". ") if line.startswith("  ") else ("", "", line)
            out.say_beside((f"{order}{dot}",), visible(rest))
        return 0 if plan.is_clean else 4

    with out.kept_clean():
        load_modules(modules)
    return asyncio.run(whole())
