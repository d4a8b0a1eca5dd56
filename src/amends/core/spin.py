"""Is an agent going round in circles? Steps that ask for nearly the same and bring nothing new. Pure.

Two values are near when they have the same shape and each leaf is near: texts that are the same but for case and white
space, or whose words (as sets) overlap by nine tenths; everything else only when it is equal. Each leaf on its own: a
hundred letters to a hundred people share most of their words, and differ in whom they are to.
"""

from __future__ import annotations

import re
from typing import Final

from amends.core.saga import Saga, Step
from amends.core.transitions import StepStatus
from amends.core.values import Json

_WORD: Final = re.compile(r"\w+")
_NEAR: Final = 0.9
_S = StepStatus


def spins(saga: Saga, topic: str, args: Json, most: int) -> bool:
    """Whether the last `most` steps were near this one that is asked for, and ended near each other."""
    budget = saga.budget
    if budget is None or len(budget.newest) < most:
        return False
    steps = [saga.steps[name] for name in budget.newest[-most:]]
    first = steps[0]
    return all(
        step.topic == topic and _is_over(step) and near(step.args, args) and _ended_alike(first, step) for step in steps
    )


def _is_over(step: Step) -> bool:
    return step.status in {_S.SUCCEEDED, _S.DENIED} or (step.status in {_S.FAILED, _S.UNKNOWN} and step.given_up)


def _ended_alike(one: Step, other: Step) -> bool:
    return one.status is other.status and near(one.result, other.result) and near(one.error, other.error)


def near(one: Json, other: Json) -> bool:
    if isinstance(one, str) and isinstance(other, str):
        return one == other or _near_texts(one, other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(near(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(near, one, other))
    return type(one) is type(other) and one == other


def _near_texts(one: str, other: str) -> bool:
    if " ".join(one.casefold().split()) == " ".join(other.casefold().split()):
        return True
    words, others = set(_WORD.findall(one.casefold())), set(_WORD.findall(other.casefold()))
    return bool(words or others) and len(words & others) >= _NEAR * len(words | others)
