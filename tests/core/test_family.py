"""What children use up, as their parent counts it: told late, twice or out of order, each amount counts once."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from amends.core import commands as c
from amends.core.decide import decide
from amends.core.state.saga import Saga, evolve, replay
from amends.core.transitions import SagaStatus
from amends.core.words.values import Json, SagaId, StepId

MOMENT = c.Moment(now=1_700_000_000_000, jitter=0, window_s=900)
Amounts = tuple[int, int, int]
more = st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 2))
acts = st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), more, st.integers(0, 3)), max_size=30)


def told(saga: Saga, child: str, used: Amounts) -> Saga:
    tokens, usd, steps = used
    command = c.CountChild(StepId(child), tokens, usd, steps)
    for event in decide(saga, command, MOMENT):
        saga = evolve(saga, event)
    return saga


def begun(limits: Json) -> Saga:
    start = c.StartSaga("d", version=1, input={}, actor="a", env="e", labels={}, limits=limits)
    started = decide(replay(SagaId("p"), []), start, MOMENT)
    return replay(SagaId("p"), started)


@settings(max_examples=200, deadline=None)
@given(acts=acts)
def test_what_children_used_up_is_neither_lost_nor_counted_twice(acts: list[tuple[str, Amounts, int]]) -> None:
    """A kill loses a report, or has it told again; an older one may come after a newer. All get the last word."""
    saga, said = begun({"usd": {"most": 5, "then": "pause"}}), dict[str, list[Amounts]]()
    for child, (tokens, usd, steps), back in acts:
        history = said.setdefault(child, [(0, 0, 0)])
        last = history[-1]
        history.append((last[0] + tokens, last[1] + usd, last[2] + steps))
        if back < len(history):  # else it is lost with the process
            saga = told(saga, child, history[-1 - back])
    for child, history in said.items():
        saga = told(told(saga, child, history[-1]), child, history[0])
    totals = [sum(history[-1][each] for history in said.values()) for each in range(3)]
    counted = saga.budget
    assert counted is not None
    assert [counted.tokens, counted.usd_micros, counted.steps] == totals
    assert (saga.phase is SagaStatus.PAUSED) == (totals[1] > 5)


@settings(max_examples=200, deadline=None)
@given(acts=acts, most=st.integers(1, 8))
def test_no_step_of_a_child_is_counted_past_the_limit_and_one_too_many_ends_the_parent(
    acts: list[tuple[str, Amounts, int]], most: int
) -> None:
    saga = begun({"steps": {"most": most, "then": "pause"}})
    done = dict.fromkeys("abc", 0)
    for child, _, _ in acts:
        if saga.works:
            saga = told(saga, child, (0, 0, done[child] + 1))
            done[child] += saga.works  # a step is dispatched only if its parent still works then
    assert sum(done.values()) == min(len(acts), most)
    assert saga.works == (len(acts) <= most)
    assert saga.budget is not None
    assert saga.budget.steps == sum(done.values())
