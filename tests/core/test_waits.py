"""Waits and signals: whatever the order of events, each signal ends one wait, in order, and what is decided folds."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from amends.core import commands as c, events as e
from amends.core.decide import decide
from amends.core.state.saga import Saga, evolve, open_waits, replay
from amends.core.state.waits import wait_words
from amends.core.transitions import SagaStatus, WaitStatus
from amends.core.words.values import SagaId, StepId
from amends.errors import RefusedError
from tests.core.samples import STARTED

SAGA = SagaId("s1")
NAMES = ("paid", "seen")
MOVES = st.one_of(
    st.tuples(st.just("wait"), st.sampled_from(NAMES), st.integers(1, 9)),
    st.tuples(st.just("signal"), st.sampled_from(NAMES), st.booleans()),
    st.tuples(st.just("time"), st.sampled_from(NAMES), st.integers(1, 9)),
)


class Told:
    """A saga by the events that it was told, and what somebody outside would have to find in it."""

    def __init__(self) -> None:
        self.saga: Saga = replay(SAGA, [STARTED])
        self.events: list[e.Event] = [STARTED]
        self.sent: list[tuple[str, int]] = []
        self.now = 0
        self.waits = 0

    def tell(self, command: c.Command, now: int | None = None) -> bool:
        try:
            events = decide(self.saga, command, c.Moment(self.now if now is None else now, 0, 1))
        except RefusedError:
            return False
        for event in events:
            self.saga = evolve(self.saga, event)
        self.events += events
        return True

    def move(self, kind: str, name: str, amount: int | bool) -> None:
        if kind == "wait":
            self.waits += 1
            self.tell(c.StartWait(place=StepId(str(self.waits)), name=name, until=self.now + amount))
        elif kind == "signal":
            number = len(self.sent) + 1
            if self.tell(c.SendSignal(name=name, payload=number, by="person:a", early=bool(amount))):
                self.sent.append((name, number))
        else:
            self.now += amount
            for wait in open_waits(self.saga):
                assert self.tell(c.EndWait(place=wait.place)) == (wait.until <= self.now)


@given(moves=st.lists(MOVES, max_size=60))
def test_each_signal_ends_one_wait_of_its_name_in_the_order_in_which_they_came(
    moves: list[tuple[str, str, int | bool]],
) -> None:
    told = Told()
    for move in moves:
        told.move(*move)
    waits = told.saga.waits
    places = [] if waits is None else sorted(waits.places.values(), key=lambda wait: wait.number)
    for name in NAMES:
        of_name = [number for sent, number in told.sent if sent == name]
        ended = [event for event in told.events if isinstance(event, e.WaitEnded) and event.signal is not None]
        taken = [one.signal for one in ended if one.signal in of_name]
        assert taken == of_name[: len(taken)], "in order, each once, and none passed over"
        still_open = [wait for wait in places if wait.name == name and wait.status is WaitStatus.OPEN]
        assert not still_open or len(taken) == len(of_name), "nobody waits while there is a signal for them"
        by_signal = [wait for wait in places if wait.name == name and wait.signal is not None]
        assert all(wait.signal in of_name for wait in by_signal)
    assert replay(SAGA, told.events).waits == told.saga.waits


@given(moves=st.lists(MOVES, max_size=30))
def test_a_signal_is_refused_only_where_nothing_waits_for_it(moves: list[tuple[str, str, int | bool]]) -> None:
    told = Told()
    for move in moves:
        told.move(*move)
        wanted = {wait.name for wait in open_waits(told.saga)}
        for name in NAMES:
            try:
                events = decide(
                    told.saga, c.SendSignal(name=name, payload=None, by="person:a"), c.Moment(told.now, 0, 1)
                )
            except RefusedError:
                assert name not in wanted
            else:
                assert [type(event) for event in events] == [e.SignalReceived, e.WaitEnded]


def test_what_people_see_of_a_saga_that_sleeps_is_waiting() -> None:
    told = Told()
    told.move("wait", "paid", 5)
    seen = [told.saga.status]
    told.move("time", "paid", 5)
    assert [*seen, told.saga.status] == [SagaStatus.WAITING, SagaStatus.RUNNING]


def test_a_wait_does_not_end_before_its_time() -> None:
    told = Told()
    assert not told.tell(c.EndWait(place=StepId("1")), now=4)
    told.move("wait", "paid", 5)
    assert not told.tell(c.EndWait(place=StepId("1")), now=4)
    assert told.tell(c.EndWait(place=StepId("1")), now=5)
    assert told.saga.waits is not None
    assert [wait.status for wait in told.saga.waits.places.values()] == [WaitStatus.ENDED]
    assert not told.tell(c.EndWait(place=StepId("1")), now=6)


def test_a_saga_keeps_a_thousand_early_signals_and_no_more() -> None:
    told = Told()
    for _ in range(1000):
        told.move("signal", "paid", amount=True)
    assert len(told.sent) == 1000
    with pytest.raises(RefusedError, match="1000 signals that it has not taken up"):
        decide(told.saga, c.SendSignal(name="paid", payload=None, by="person:a", early=True), c.Moment(told.now, 0, 1))


def test_nobody_is_at_a_wait_once_the_work_has_ended_or_goes_back() -> None:
    fail = c.FailWork(cause=e.Cause.ERROR, why="", step=None)
    for ends in (c.FinishWork(result=None), fail):
        told = Told()
        told.move("wait", "paid", 5)
        assert len(open_waits(told.saga)) == 1
        assert told.tell(ends)
        assert open_waits(told.saga) == ()


def test_a_wait_without_a_name_is_a_sleep() -> None:
    assert (wait_words(""), wait_words("paid")) == ("a sleep", "a wait for paid")


def test_a_wait_has_a_place_to_itself() -> None:
    told = Told()
    told.move("wait", "paid", 5)
    assert not told.tell(c.StartWait(place=StepId("1"), name="", until=9))
