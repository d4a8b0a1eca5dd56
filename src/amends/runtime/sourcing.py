"""Arguments that may not be made up: `@action(…, sourced=["cents"])`. What has no source on record is denied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from amends.core.provenance import unsourced
from amends.core.values import Json
from amends.core.verdict import Decision, Verdict
from amends.errors import DeclarationError
from amends.journal.protocol import PARENT

if TYPE_CHECKING:
    from amends.runtime.action import Action
    from amends.runtime.run import Run

RULE: Final = "amends-sourced"


def listed_sources(
    topic: str, sourced: Iterable[str] | Mapping[str, str | Iterable[str]], names: Iterable[str]
) -> dict[str, tuple[str, ...]]:
    """Which arguments need a source, and from which topics. Raises DeclarationError."""
    if isinstance(sourced, str):
        raise DeclarationError(f'{topic}: sourced={sourced!r} is a text; write sourced=["{sourced}"]')
    asked: dict[str, tuple[str, ...]] = {}
    if isinstance(sourced, Mapping):
        for name, topics in cast("Mapping[str, str | Iterable[str]]", sourced).items():
            asked[name] = (topics,) if isinstance(topics, str) else tuple(topics)
    else:
        asked = dict.fromkeys(sourced, ())
    known = tuple(names)
    for name in asked:
        if name not in known:
            raise DeclarationError(
                f"{topic}: sourced= names {name}, which it does not take; it takes {', '.join(known)}"
            )
    return asked


async def unless_made_up(run: Run, action: Action[..., Any], args: Json, verdict: Verdict) -> Verdict:
    """The gate's verdict, or a denial: a person who is asked should not have to notice that a value is made up."""
    saga = run.book.saga
    why = unsourced(saga, args, action.sourced)
    named = {name: topics for name, topics in action.sourced.items() if topics}
    if why and named and PARENT in run.begun.labels:
        free = {name: topics for name, topics in action.sourced.items() if not topics}
        why = unsourced(saga, args, free) or unsourced(saga, args, named, await run.book.above())
    return replace(verdict, decision=Decision.DENY, rule=RULE, why=why) if why else verdict
