"""The registry of a gateway: it knows the actions of all tools that its contracts file speaks of, used or not.

So any process that has the same file can settle and take back what another one did, before it has seen the servers.
"""

from __future__ import annotations

from typing import Any

from amends.core.words.contracts import Topic
from amends.errors import ContractsError, UnknownActionError
from amends.gateway.actions import Described, Servers, make_tool_action
from amends.gateway.model import Contracts
from amends.runtime.declare.action import Action
from amends.runtime.declare.registry import Registry


class ToolRegistry(Registry):
    """`servers` has to be set before an action is called."""

    def __init__(self, contracts: Contracts, servers: Servers | None = None) -> None:
        super().__init__()
        self._contracts = contracts
        self.servers = servers

    def action(self, topic: Topic, version: int) -> Action[..., Any]:
        try:
            return super().action(topic, version)
        except UnknownActionError:
            made = self._made(topic, version)
            if made is None:
                raise
            self.ensure_action(made)
            return made

    def _made(self, topic: Topic, version: int) -> Action[..., Any] | None:
        if topic.partition(".")[0] not in self._contracts.servers or self.servers is None:
            return None
        try:
            contract = self._contracts.of(topic)
        except ContractsError:
            return None
        if contract.version != version:
            return None
        return make_tool_action(self._contracts, contract, self.servers, Described(), read_only=contract.read_only)
