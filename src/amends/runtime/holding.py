"""The built-in step that takes resources and does nothing else: `s.hold`, and a definition's own `resources=`."""

from __future__ import annotations

from amends.runtime.action import action


@action("amends.hold", read_only=True, resources=["{resources}"])
async def hold(resources: list[str]) -> None:
    """Keep these resources to the saga until it has ended."""
