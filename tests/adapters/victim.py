"""An agent that is killed inside a tool: `python -m tests.adapters.victim MODULE:CLASS JOURNAL TOOL`."""

from __future__ import annotations

import asyncio
import importlib
import sys
from pathlib import Path

from amends import Coordinator
from tests.adapters.stories import QUICK, TOOLS, Case, Framework, Script, ToolCall


async def whole(framework: Framework, journal: str, tool: str) -> None:
    script: Script = [
        [ToolCall("c1", "book", {"to": "Lisbon"})],
        [ToolCall("c2", tool, {"to": "Lisbon"})],
        "this is not said",
    ]
    policy = Path(journal).with_name("policy.yaml")
    async with Coordinator.open(journal, settings=QUICK, env="development", policy=policy) as coordinator:
        await framework.begin(Case(coordinator, script, TOOLS))


if __name__ == "__main__":
    module, _, name = sys.argv[1].partition(":")
    asyncio.run(whole(getattr(importlib.import_module(module), name)(), sys.argv[2], sys.argv[3]))
