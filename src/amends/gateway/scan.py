"""Looking at a server: its tools as it defines them, and the contracts file that can be drafted from that."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from amends.gateway.draft import draft
from amends.gateway.model import ServerPlan, without_contracts
from amends.gateway.servers import ToolServers


async def scanned(plan: ServerPlan) -> str:
    """A draft for one server. Raises NotDone where it cannot be reached. No tool is called."""
    servers = ToolServers(without_contracts([plan]))
    try:
        await servers.upstreams[plan.name].tools()
        known = await servers.known()
        return draft(plan, [(one.wire, one.digest) for one in known.values()])
    finally:
        await servers.close()


def scan(plan: ServerPlan) -> str:
    """A draft for one server, for whoever has no loop."""
    return asyncio.run(scanned(replace(plan)))
