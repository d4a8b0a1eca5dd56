"""Pydantic AI's durable interface with our journal behind it: what the model has answered is not asked again.

Only requests of the model go through it. Tools are steps already, and see to that themselves.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.durable_exec import (
    JSON_CODEC,
    BaseDurabilityCapability,
    DurabilityEngineSpec,
    JournalCallableOperationBackend,
    ModelCompactMessagesId,
    ModelRequestId,
    RoleBasedOperationConfig,
)
from pydantic_ai.models import Model
from pydantic_core import to_jsonable_python

from amends.adapters.threads import entered
from amends.runtime.saga.model_answers import digest_of


class Durable(BaseDurabilityCapability[Any]):
    """Has an agent's model answer through the session that a run is in; outside of one it is not there."""

    engine_spec = DurabilityEngineSpec(
        engine_name="amends",
        durable_unit_noun="step",
        durable_container_noun="session",
        codec=JSON_CODEC,
        wrapped_toolset_kinds=frozenset(),
        journal_discovery=False,
    )

    async def for_run(self, ctx: RunContext[Any]) -> AbstractCapability[Any]:
        if ctx.agent is None or ctx.model is ctx.agent.model or not isinstance(ctx.model, Model):
            return self
        return Durable(models={**self._extra_models, "run": ctx.model}, name=self.name).for_agent(ctx.agent)

    @property
    def in_durable_context(self) -> bool:
        return entered.get() is not None

    def get_durable_operation_backend(self) -> JournalCallableOperationBackend[None]:
        config = RoleBasedOperationConfig[None](model=None, event=None, capability=None, tool=None)
        return _Journal(agent_name=self.name, default_model_id=self.default_model_id, config=config)


class _Journal(JournalCallableOperationBackend[None]):
    async def execute(
        self, *, operation_id: Any, name: str, body: Callable[[], Awaitable[Any]], cache_key: Any, config: None
    ) -> Any:
        part = entered.get()
        if part is None or not isinstance(operation_id, ModelRequestId | ModelCompactMessagesId):
            return await body()
        request = [name]
        for one in cache_key:
            if isinstance(one, list):
                request += [part.answers.digest(message, _told) for message in cast("list[object]", one)]
            elif not isinstance(one, RunContext):
                request.append(digest_of(_told(one)))
        return await part.answers.ask(name, digest_of(request), body)


def _told(part: object) -> object:
    return to_jsonable_python(part, fallback=repr)
