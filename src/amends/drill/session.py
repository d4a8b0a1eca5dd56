"""A recorded session as a saga that can be drilled: its steps that stood, with their arguments, one after another."""

from __future__ import annotations

from typing import Any, cast

from amends.core.state.saga import Saga
from amends.core.transitions import StepStatus
from amends.core.words.values import BUILT_IN
from amends.errors import InputError
from amends.runtime.declare.action import Action
from amends.runtime.declare.definition import SagaDefinition
from amends.runtime.declare.registry import Registry
from amends.runtime.saga.work import Work
from amends.secrets import unmask


def recorded(saga: Saga, registry: Registry) -> SagaDefinition[[], None]:
    """Make a definition of what a session did. Raises InputError where there is nothing to do again, UnknownActionError
    for an action that this process does not know, and SecretUnavailableError for a secret that only its agent had.
    """
    begun = saga.begun
    if begun is None or begun.session is None:
        raise InputError(f"saga {saga.id} is no session: drill its own definition, as in module:name")
    done: list[tuple[Action[..., Any], dict[str, Any]]] = []
    for number in sorted(saga.order):
        step = saga.steps[saga.order[number]]
        if step.status is StepStatus.SUCCEEDED and not step.topic.startswith(BUILT_IN):
            action = registry.action(step.contract.topic, step.contract.version)
            named = cast("dict[str, Any]", unmask(step.args, saga.id))
            done.append((action, action.parts.typed.restore(named) if action.parts.typed.loads else named))
    if not done:
        raise InputError(f"session {saga.id} has no step that stands: there is nothing to drill")

    async def function(s: Work) -> None:
        for action, named in done:
            await s.do_named(action, named)

    return SagaDefinition(f"{begun.definition}.recorded", function=function)
