"""What somebody else would change between an action and its compensation: declared for drills, one for each topic.

@somebody_else(set_role)
def promoted(asked): roles[asked.args["user"]] = "admin"
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from amends.runtime.action import Action, Asked

    Change = Callable[[Asked], object]
else:
    Change = Callable[..., object]

C = TypeVar("C", bound=Callable[..., object])

OTHERS: Final[dict[str, Change]] = {}


def somebody_else(action: Action[..., Any]) -> Callable[[C], C]:
    """Declare a change that somebody else may make to what this action has changed. It gets an Asked."""

    def declare(change: C) -> C:
        OTHERS[action.topic] = change
        return change

    return declare
