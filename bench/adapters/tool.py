"""The action that all of them call."""

from __future__ import annotations

from amends import Done, action


@action("bench.tool")
async def tool(n: int) -> str:
    """Do nothing."""
    return f"did {n}"


@tool.compensation
async def untool(done: Done) -> None:
    """Nothing to take back: the cost of the adapter is what is measured."""
