"""Calls: the caller's own ids of a session's steps, and which steps they are; and a step as it is shown to them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, cast

from amends.core.state.saga import Saga, Step
from amends.core.transitions import StepStatus
from amends.core.words.values import StepId
from amends.dataclass import dataclass
from amends.errors import InputError
from amends.runtime.declare.action import Action
from amends.runtime.drive.positions import StepRequest
from amends.secrets import unmask


def checked_call(call: object) -> str:
    """Raises InputError."""
    if not isinstance(call, str) or not 0 < len(call) <= 256 or not call.isprintable():  # noqa: PLR2004 - as the message says
        raise InputError(f"call={call!r} is no id of a step: use 1 to 256 printable characters, or leave it out")
    return call


def takes_call(action: object) -> bool:
    """Whether an action has a parameter of its own that is called call."""
    return isinstance(action, Action) and "call" in cast("Action[..., Any]", action).parts.signature.names


class Calls:
    """The steps that the calls of one drive are. A call is looked for among what is new since it was looked last."""

    def __init__(self) -> None:
        self._steps: dict[str, StepId] = {}
        self._looked_at = 0
        self._unplaced: set[StepId] = set()
        """People were asked about them ahead; what is done of them is done under a further call."""

    def find(self, saga: Saga, asked: StepRequest) -> Step | None:
        """The step that this request is, where it is on record."""
        steps = saga.steps
        if asked.step is None and asked.call:
            new = len(steps) - self._looked_at
            for one in reversed([*islice(reversed(steps.values()), new)]):
                self._know(one)
            for one in tuple(map(steps.__getitem__, self._unplaced)):
                self._know(one)
            self._looked_at = len(steps)
        name = asked.step or self._steps.get(asked.call)
        return None if name is None else steps.get(name)

    def _know(self, step: Step) -> None:
        self._steps |= dict.fromkeys(_calls_of(step), step.id)
        (self._unplaced.discard if step.wanted else self._unplaced.add)(step.id)


def _calls_of(step: Step) -> Iterator[str]:
    """The call that it was done under, and the one that it was asked ahead under."""
    if step.call:
        yield step.call
    if step.ahead is not None and step.ahead.call:
        yield step.ahead.call


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStep:
    """One step of a session as it stands: for an agent that comes back."""

    step: str
    topic: str
    call: str
    status: str
    result: Any = None
    error: str = ""

    @property
    def stands(self) -> bool:
        """Whether it took effect, and was not taken back."""
        return self.status == StepStatus.SUCCEEDED


def shown_step(saga: Saga, step: Step) -> SessionStep:
    result: Any = unmask(step.result, saga.id) if step.status is StepStatus.SUCCEEDED else None
    return SessionStep(
        step=step.id, topic=step.topic, call=step.call, status=str(step.status), result=result, error=step.error
    )
