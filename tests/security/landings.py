"""Landings under attack: an agent's change to a tree, as far as a policy judges it, and what people are shown of it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amends import Coordinator, Settings, Work, action, saga
from amends.changeset import Files
from tests.cli.zygote import zygote

MANY_LINES = "args.changed_lines: {gt: 200}"
LARGE = 9 * 1024 * 1024


@dataclass(frozen=True)
class Judged:
    """How a landing came out: what people are asked, if they are; else it has landed."""

    asked: dict[str, Any] | None
    approval: str
    status: str
    why: str


@action("agent.edits", risk={"files"})
def edits(files: Files, change: str) -> None:
    """Do to the tree what a test has put under this name."""
    CHANGES[change](files)


CHANGES: dict[str, Callable[[Files], None]] = {}


def judged_landing(
    tree: Path,
    journal: Path,
    change: Callable[[Files], None],
    rule: str,
    provider: str = "api",
    harm: Callable[[], None] = lambda: None,
) -> Judged:
    """Let an agent change the tree and land that, under a policy that asks a person by one rule; wait for either."""
    CHANGES["it"] = change
    policy = journal.with_suffix(".yaml")
    when = f"topic: amends.changeset.land, phase: forward, {rule}"
    policy.write_text(
        f"version: v1\ndefault: allow\nrules:\n  - {{id: somebody-looks, when: {{{when}}}, decision: require_human}}\n"
    )

    @saga("security.landing")
    async def lands(s: Work) -> None:
        files = s.files(tree, provider=provider)
        await s.do(edits, files, "it")
        harm()
        await s.land(files, "tidy up")

    async def whole() -> Judged:
        settings = Settings(poll_s=0.02, park_s=0.0)
        async with Coordinator.open(str(journal), policy=str(policy), settings=settings) as on:
            handle = await on.start(lands, id="landing")
            ended = await asyncio.wait_for(handle.halt(), 60)
            for asked in await on.approvals():
                shown = await on.approval(asked.id)
                assert isinstance(shown.args, dict)
                return Judged(shown.args, shown.id, str(ended.status), ended.why)
            return Judged(None, "", str(ended.status), ended.why)

    return asyncio.run(whole())


def shown_by_command(journal: Path, *words: str) -> str:
    """What a command prints to a person."""
    command = (*words, "--journal", str(journal))
    code, out, err = zygote().run(command, place=journal.parent, env=os.environ, stdin=b"", patience_s=60)
    assert code == 0, err.decode()
    return out.decode()
