"""Folding one fact costs the same in a saga of ten steps and in one of ten thousand. Counted, not timed."""

import sys
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from types import FrameType

import pytest

from amends.core import commands as c, events as e
from amends.core.decide import decide
from amends.core.plan import plan
from amends.core.state.saga import Saga, evolve, unstarted
from amends.core.words.outcomes import Succeeded
from amends.core.words.values import SagaId, StepId
from tests.core.story import ACT, ALLOW, DONE, NOW, WINDOW_S, start

FEW, MANY, SAMPLE = 10, 10_000, 32


def calls_in(work: Callable[[], object]) -> int:
    """How many functions are called, Python's and C's."""
    calls = 0

    def count(_: FrameType, what: str, __: object) -> None:
        nonlocal calls
        calls += what in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


def bytes_in(work: Callable[[], object]) -> int:
    """How much memory is taken at most: a copy of ten thousand entries would show, though it is one call."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


class Long:
    """A saga of many steps, one command at a time."""

    def __init__(self) -> None:
        self.saga: Saga = unstarted(SagaId("s1"))
        self.tell(start())

    def tell(self, command: c.Command) -> None:
        for event in decide(self.saga, command, c.Moment(NOW, 0, WINDOW_S)):
            self.saga = evolve(self.saga, event)

    def step(self, number: int) -> None:
        step = StepId(str(number))
        self.tell(c.DispatchStep(step=step, contract=ACT, args={}, digest="", verdict=ALLOW))
        self.tell(c.RecordOutcome(step=step, outcome=DONE))

    def back(self) -> None:
        step = self.saga.order[self.saga.top]
        assert plan(self.saga, NOW)
        self.tell(c.StartCompensation(step=step, certain=True, verdict=ALLOW))
        self.tell(c.RecordCompensation(step=step, outcome=Succeeded()))

    def forward(self) -> Iterator[Callable[[], object]]:
        for number in range(1, MANY + 1):
            yield partial(self.step, number)

    def backward(self) -> Iterator[Callable[[], object]]:
        self.tell(c.FailWork(cause=e.Cause.ERROR, why="", step=None))
        for _ in range(MANY):
            yield self.back


@pytest.mark.parametrize("measure", [calls_in, bytes_in])
@pytest.mark.parametrize("way", ["forward", "backward"])
def test_a_step_costs_the_same_however_many_there_are(way: str, measure: Callable[[Callable[[], object]], int]) -> None:
    saga = Long()
    if way == "backward":
        for move in saga.forward():
            move()
    moves = list(saga.forward()) if way == "forward" else saga.backward()
    early: list[int] = []
    late: list[int] = []
    for number, move in enumerate(moves):
        if FEW <= number < FEW + SAMPLE:
            early.append(measure(move))
        elif number >= MANY - SAMPLE:
            late.append(measure(move))
        else:
            move()
    assert median(late) <= median(early) * 1.1
    assert len(saga.saga.steps) == MANY


def test_the_measure_sees_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof that the rule above can fail: a state that is copied for each change."""
    in_place = evolve

    def copied(state: Saga, event: e.Event) -> Saga:
        return in_place(state.copy(), event)

    monkeypatch.setattr("tests.core.test_cost.evolve", copied)
    saga = Long()
    early = bytes_in(lambda: saga.step(1))
    for number in range(2, 500):
        saga.step(number)
    assert bytes_in(lambda: saga.step(500)) > 10 * early
