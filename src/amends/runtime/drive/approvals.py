"""Steps that people were asked about ahead, by `s.ask`: the next `s.do` of the same thing is that step."""

from __future__ import annotations

from collections import deque
from typing import Final

from amends.core.state.saga import Saga
from amends.core.transitions import StepStatus
from amends.core.words.contracts import Contract
from amends.core.words.values import StepId

_NOT_BEGUN: Final = frozenset({StepStatus.PROPOSED, StepStatus.READY})


class AskedAhead:
    """Steps asked ahead in one drive. The function of a saga asks again when it is called again; whoever drives an open
    one does not, so there they are known from the record.
    """

    def __init__(self, saga: Saga) -> None:
        self.waiting: dict[tuple[str, int, str], deque[StepId]] = {}
        """Those that may wait for their `s.do`, by what is asked for; each step looks whether there are any."""
        self._all: set[StepId] = set()
        """Done since or not: judged again, it still is somebody's wish that people are asked."""
        if saga.begun is None or saga.begun.session is None:
            return
        for step in saga.steps.values():
            if step.ahead is not None:
                self.add(step.id)
                if not step.wanted:
                    self.wait(step.contract, step.digest, step.id)

    def __contains__(self, step: StepId) -> bool:
        return step in self._all

    def add(self, step: StepId) -> None:
        """People are asked about it."""
        self._all.add(step)

    def wait(self, contract: Contract, digest: str, step: StepId) -> None:
        """They have agreed, or will have: it waits to be done."""
        waiting = self.waiting.setdefault(_name(contract, digest), deque())
        if step not in waiting:
            waiting.append(step)

    def take_placed(self, saga: Saga, contract: Contract, digest: str) -> StepId | None:
        """The oldest, where it is of an old journal: it stands where it was asked for."""
        waiting = self.waiting.get(_name(contract, digest))
        return waiting.popleft() if waiting and saga.steps[waiting[0]].ahead is None else None

    def take(self, saga: Saga, contract: Contract, digest: str) -> StepId | None:
        """The oldest that is not done yet, leaving out what was taken back since."""
        waiting = self.waiting.get(_name(contract, digest))
        while waiting:
            step = saga.steps[waiting.popleft()]
            if step.rewind is None and not step.wanted and step.status in _NOT_BEGUN:
                return step.id
        return None


def _name(contract: Contract, digest: str) -> tuple[str, int, str]:
    return contract.topic, contract.version, digest
