"""Promises that an action made when a saga began with it, held against what is registered now. It calls nothing.

A saga keeps the version of each action that it began with, as long as that is still registered. A version whose
clauses have changed is not that version any more, and a saga that began under the old ones must not be taken back by
the new. Timeouts, retries, risks and words may change: a saga goes by those that are on record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from amends.core.state.saga import Saga
from amends.core.words.contracts import Contract
from amends.core.words.values import StepId
from amends.errors import DivergedError, UnknownActionError
from amends.runtime.declare.action import Action
from amends.runtime.declare.registry import Registry

_BINDING: Final = {
    "side_effect": "whether it changes anything",
    "reversibility": "how it is taken back",
    "before": "whether a before-image is captured",
    "probe": "whether it can be probed",
    "idempotent": "whether it may be repeated",
    "mitigation": "whether something is done about it when a person takes it back",
}
_MAY_BE_ADDED: Final = frozenset({"probe", "idempotent", "mitigation"})


def begun_with(saga: Saga, step: StepId, action: Action[..., Any], registry: Registry) -> Action[..., Any]:
    """The action that a step has to go on with: the version on record, with the clauses on record.

    Raises DivergedError where that version is not registered any more, or promises something else.
    """
    state = saga.steps.get(step)
    if state is not None and state.contract.version != action.contract.version:
        try:
            action = registry.action(state.contract.topic, state.contract.version)
        except UnknownActionError:
            raise DivergedError(
                f"step {step} began with {state.topic} version {state.contract.version}, and only version "
                f"{action.contract.version} is at hand; keep the old version declared beside the new one"
            ) from None
    kept = saga.contracts.get((action.contract.topic, action.contract.version))
    return action if kept is None else still_promised(kept, action)


def still_promised(kept: Contract, action: Action[..., Any]) -> Action[..., Any]:
    """The action, as long as it promises what is on record. Raises DivergedError."""
    if kept is not action.contract:
        differs = "; ".join(differences(kept, action.contract))
        if differs:
            what = f"{kept.topic} version {kept.version} does not promise any more what this saga began with"
            raise DivergedError(f"{what}: {differs}; {REMEDY}")
    return action


REMEDY: Final = "declare the changed action with a new version=, and keep the old one beside it"


def differences(kept: Contract, now: Contract) -> Iterator[str]:
    """Each clause that matters for taking a step back, or for repeating it, and that is not what it was."""
    for clause, meaning in _BINDING.items():
        was, has = getattr(kept, clause), getattr(now, clause)
        if was != has and not (clause in _MAY_BE_ADDED and has):
            yield f"{clause} ({meaning}) was {_spelled(was)} and is {_spelled(has)}"


def _spelled(value: object) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)
