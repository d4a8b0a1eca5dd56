"""A drill from code without an event loop: what the pytest plugin calls."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from amends.drill.drilling import drill
from amends.drill.records import record_of
from amends.drill.report import Report
from amends.errors import InputError, RefusedError
from amends.runtime.declare.definition import SagaDefinition


def rehearsed(definition: object, given: object, options: dict[str, Any]) -> Report:
    """`options` are those of `drill`, and `journal`: where to put the result on record."""
    if not isinstance(definition, SagaDefinition):
        raise InputError(f"{definition!r} is not a saga; decorate it with @saga(name), or make a SagaDefinition")
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass  # there is none, as there should be
    else:
        raise RefusedError("this test has an event loop of its own; there, await amends.drill.drill(…) instead")
    more = dict(options)
    journal = more.pop("journal", None)
    return asyncio.run(_whole(cast("SagaDefinition", definition), given, more, journal))


async def _whole(definition: SagaDefinition, given: object, options: dict[str, Any], journal: str | None) -> Report:
    report = await drill(definition, given, **options)
    if journal is not None:
        from amends.addresses import open_journal
        from amends.clock import SystemClock
        from amends.evidence.drills import record_drill

        clock = SystemClock()
        opened = await open_journal(journal, clock)
        module = getattr(definition.function, "__module__", "")
        name = getattr(definition, "__name__", definition.name)
        try:
            drilled = record_of(report, f"{module}:{name}")
            await record_drill(opened, clock, drilled, by=options.get("actor", "system:drill"), env=report.env)
        finally:
            await opened.close()
    return report
