"""The runtime's own actions and definitions, made known to whichever registry is gone by.

What works on changesets is loaded when it is asked for: most processes never need it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from amends.runtime.declare.action import Action
from amends.runtime.declare.definition import SagaDefinition
from amends.runtime.declare.registry import Name, Registry
from amends.runtime.drive.children import CALL, REVERT
from amends.runtime.files import topics
from amends.runtime.files.merging import MERGE, UNMERGE

BUILT_IN: Final = (CALL, REVERT, MERGE, UNMERGE)
ANSWER_TOPIC: Final = "amends.answer"
DELEGATE_TOPIC: Final = "amends.delegate"
_LANDING: Final = (topics.REVIEW, topics.LAND, topics.MARK, topics.RESOLVE)


def know_built_in(registry: Registry) -> None:
    """Have a registry know what is the runtime's own, unless somebody has put another in its place."""
    for action in BUILT_IN:
        registry.ensure_action(action)
    actions: dict[Name, Callable[[], Action[..., Any]]] = {(topic, 1): partial(_landing, topic) for topic in _LANDING}
    actions[ANSWER_TOPIC, 1], actions[DELEGATE_TOPIC, 1] = _answer, _delegate
    definitions: dict[Name, Callable[[], SagaDefinition]] = {
        (name, topics.BY_HAND_VERSION): partial(_by_hand, name) for name in topics.BY_HAND
    }
    definitions[topics.RECOVERY, 1] = _recovery_key_used
    registry.add_built_in(actions, definitions)


def _landing(topic: str) -> Action[..., Any]:
    from amends.runtime.files.landing import ACTIONS

    return next(action for action in ACTIONS if action.topic == topic)


def _answer() -> Action[..., Any]:
    from amends.runtime.saga.model_answers import ANSWER

    return ANSWER


def _delegate() -> Action[..., Any]:
    from amends.runtime.saga.delegates import DELEGATE

    return DELEGATE


def _by_hand(name: str) -> SagaDefinition:
    from amends.runtime.saga.by_hand import DEFINITIONS

    return DEFINITIONS[name]


def _recovery_key_used() -> SagaDefinition:
    from amends.runtime.saga.recovery_key import recovery_key_used

    return recovery_key_used
