"""Graphs on their way back: independent branches side by side, one of them in trouble, and every crash in between."""

from amends import Fatal, Retries, SagaDefinition, Step
from tests.crash.scenarios import (
    COMPLETED,
    INCIDENT,
    ROLLED_BACK,
    act,
    always,
    fatal_clean,
    keyed_a,
    keyed_b,
    list_scenario,
    nothing,
    plain_b,
    undo_fails_at_first,
)

SOON = Retries(attempts=3, first_s=0.5)
stuck = act("keyed.stuck", undo=undo_fails_at_first(Fatal("never"), 1_000_000), compensation_retries=SOON)
half_done = act("plain.half_done", always(Fatal("cut"), effect=True), probe=nothing)

list_scenario(
    "a diamond goes back side by side",
    SagaDefinition(
        "crash.diamond",
        [
            Step(keyed_a, {"n": 1}, name="root"),
            Step(keyed_b, {"n": 2}, name="left", after=["root"]),
            Step(plain_b, {"n": 3}, name="right", after=["root"]),
            Step(fatal_clean, {"n": 4}, name="join", after=["left", "right"]),
        ],
    ),
    ROLLED_BACK,
)
list_scenario(
    "one branch of a graph cannot be taken back, and the other is",
    SagaDefinition(
        "crash.stuck_branch",
        [
            Step(keyed_a, {"n": 1}, name="root"),
            Step(stuck, {"n": 2}, name="left", after=["root"]),
            Step(keyed_b, {"n": 3}, name="right"),
            Step(fatal_clean, {"n": 4}, name="join", after=["left", "right"]),
        ],
    ),
    INCIDENT,
    ROLLED_BACK,
)
list_scenario(
    "a lost step is settled, then recovered by another",
    SagaDefinition(
        "crash.settled",
        [
            Step(keyed_a, {"n": 1}, name="a"),
            Step(half_done, {"n": 2}, name="b", after=["a"], on_failure=Step(keyed_b, {"n": 3}, name="c")),
        ],
    ),
    COMPLETED,
)
