"""Properties of every history, on every prefix of it as if it failed there. `laws.py` says what is held.

HYPOTHESIS_PROFILE=night walks a hundred times as many.
"""

import os
from collections import Counter
from typing import get_args

import pytest
from hypothesis import HealthCheck, example, given, settings

from amends.core import commands as c, events as e
from amends.core.decide import decide
from amends.core.plan import plan
from amends.core.state.saga import Saga, evolve, replay, unstarted
from amends.core.transitions import SAGA, STEP, SagaStatus, StepStatus
from amends.core.words.contracts import OnIncident
from amends.core.words.outcomes import FoundNothing, Succeeded
from amends.core.words.values import SagaId, StepId
from amends.drill.world import goes_first
from amends.errors import PastPivotError, RefusedError, UnknownCheckpointError, UnknownIncidentError
from amends.testing.walk.choices import OUTCOMES, UNDO_OUTCOMES, AcceptedCommand, Tape, tapes
from amends.testing.walk.walk import Walk
from tests.core.laws import is_pivot, judge
from tests.core.story import ALLOW, DENY, contract, start
from tests.parts import rest

_G = SagaStatus
SCALE = {"": 1, "night": 100, "release": 500}[os.environ.get("HYPOTHESIS_PROFILE", "")]
quick = settings(max_examples=100 * SCALE, deadline=None, suppress_health_check=[HealthCheck.too_slow])
thorough = settings(quick, max_examples=1500 * SCALE)


# A lost step that a person had asked about after the work had finished; then the definition was called again.
GIVEN_UP_THEN_CALLED_AGAIN = Tape(
    bytes.fromhex(
        "0000000000000000000000000000000001000000000100000000000000000000010000000002000000000000000000000100000000030000000000"
        "0000000000000000000004000003000000000000000100000000028f00a100000035000000000000000001bd0000000089000000002300010001"
        "0000000000000000000000000000000000000000000000000000000000000000000000000000000000010001000000010001000000010103"
    ).ljust(171, bytes(1))
)


# Cancelled after it had finished early, with a step on its way beside the pivot; the process died, and that was lost.
LOST_BESIDE_THE_PIVOT = Tape(
    bytes.fromhex(
        "7438160c4c545f6599a3031b3b446161aec297d2d6e71d60646db1e477848df26ef4fc0d124c7179798a9ce57e0c7f53aa104ede85f6774fa73909"
        "2a3743515c647173798290a2707f7fed858e94a6b6c8cfd1ebef010538580f7e08491f343a54737e89b2ccde3b79bfef2a363d3e85138bc96ff476"
        "270539a8b2c0c9000225fc3297d4d6ee454d8badbff2f9e80672fc3b9e0b0e0f0f1213151c1e24272c2c3437373c3c3d48484b4e4e50575b5b6066"
        "66686b71717274797c7c7f838587878a8c8e909295a0a5afb2b4bbbec1c1c6cacbd2d2d2d3d3d5dadadbe0e1ebf1f4f8f9fafbffff4a8fbe2f6cf9"
        "90dccbb4"
    )
)


# -- the ledger -------------------------------------------------------------------------------------------------------


@thorough
@given(tape=tapes())
@example(tape=Tape(b""))
@example(tape=GIVEN_UP_THEN_CALLED_AGAIN)
@example(tape=LOST_BESIDE_THE_PIVOT)
def test_every_history_and_every_prefix_of_it_ends_and_its_end_is_true(tape: Tape) -> None:
    """It ends completed, rolled back, mitigated or as an incident; newest first, one at a time; the world agrees."""
    judge(tape)


@rest
def test_fifteen_hundred_seeded_walks_do_too() -> None:
    """The same on tapes that no shrinking has shaped; what fails here fails again by its seed."""
    ends = Counter(judge(Tape.seeded(seed), most_steps=2 + seed % 6).saga.phase for seed in range(1500 * SCALE))
    assert min(ends[phase] for phase in (_G.COMPLETED, _G.ROLLED_BACK, _G.INCIDENT)) > 150
    assert ends[_G.MITIGATED] >= 10


@rest
def test_the_walks_come_to_every_place_in_the_tables() -> None:
    """Else all of this would prove little. What only the policies' own saga does is not walked."""
    seen: set[tuple[str, type[e.Event]]] = set()

    def note(_: Walk, told: AcceptedCommand) -> None:
        saga = told.before.copy()
        for event in told.events:
            if isinstance(event, e.IncidentResolved):
                seen.update((saga.steps[step].status, e.IncidentResolved) for step in event.settled)
            elif isinstance(event, STEP_EVENTS):
                seen.add((saga.steps[event.step].status, type(event)))
            else:
                seen.add((saga.phase, type(event)))
            saga = evolve(saga, event)

    for seed in range(10_500):
        Walk(Tape.seeded(seed), most_steps=2 + seed % 6, watch=note).run().settle()
    steps = {(old, kind) for old, row in STEP.items() for kind in row if kind not in OF_FAMILIES}
    sagas = {(old, kind) for old, row in SAGA.items() for kind in row if kind not in KEPT}
    assert (steps | sagas) - seen - RARE == set()


KEPT = {*get_args(e.RecordEvent), *get_args(e.ControlEvent), e.FamilySettled}
OF_FAMILIES = {e.ReleaseStarted, e.ReleaseEnded}
"""A walk is one saga; test_family_hold tells of those that hold something for one another."""
RARE = {
    (SagaStatus.PAUSED, e.ChildSpent),
    (SagaStatus.MITIGATED, e.SagaHalted),
    (StepStatus.COMPENSATING, e.MitigationSucceeded),
    (StepStatus.RECOMPENSATING, e.MitigationSucceeded),
}
"""Once in several thousand walks, or only of a step that called a child; test_limits and test_mitigation tell so."""
STEP_EVENTS = tuple({kind for row in STEP.values() for kind in row})


# -- the pivot --------------------------------------------------------------------------------------------------------


@quick
@given(tape=tapes())
def test_nothing_older_than_a_pivot_is_ever_taken_back_unless_a_person_vouched_for_the_pivot(tape: Tape) -> None:
    """In a graph: nothing that a pivot came after."""

    def hold(_: Walk, told: AcceptedCommand) -> None:
        saga = told.before
        for event in told.events:
            if isinstance(event, e.CompensationStarted) and saga.phase is _G.ROLLING_BACK:
                pivots = filter(is_pivot, saga.steps.values())
                assert not any(goes_first(saga, pivot, saga.steps[event.step]) for pivot in pivots)

    Walk(tape, watch=hold).run().settle()


@quick
@given(tape=tapes())
def test_a_saga_past_its_pivot_is_not_cancelled_and_the_refusal_names_it(tape: Tape) -> None:
    def hold(_: Walk, told: AcceptedCommand) -> None:
        pivots = [step for step in told.after.steps.values() if is_pivot(step)]
        if pivots and told.after.rollback is None:
            with pytest.raises(PastPivotError) as caught:
                decide(told.after, c.CancelSaga(by="person:a", why=""), c.Moment(0, 0, 1))
            assert f"step {told.after.pivot} (t{told.after.pivot}) took effect" in str(caught.value)

    Walk(tape, watch=hold).run()


# -- keys -------------------------------------------------------------------------------------------------------------


def keys_of(events: list[e.Event]) -> tuple[dict[StepId, set[str]], dict[tuple[StepId, int], set[str]]]:
    """The keys under which each step was done; and was taken back, for each time that it had landed late."""
    done: dict[StepId, set[str]] = {}
    undone: dict[tuple[StepId, int], set[str]] = {}
    saga = unstarted(SagaId("saga"))
    for event in events:
        if isinstance(event, e.ActionDispatched | e.AttemptStarted):
            done.setdefault(event.step, set()).add(event.key)
        elif isinstance(event, e.CompensationStarted):
            undone.setdefault((event.step, saga.steps[event.step].turn), set()).add(event.key)
        saga = evolve(saga, event)
    return done, undone


@quick
@given(tape=tapes())
def test_a_key_is_the_same_on_each_attempt_and_different_for_everything_else(tape: Tape) -> None:
    walk = Walk(tape).run()
    walk.settle()
    done, undone = keys_of(walk.events)
    everything = [*done.values(), *undone.values()]
    assert all(len(keys) == 1 for keys in everything)
    assert len(set[str]().union(*everything)) == len(everything)


def test_two_sagas_that_do_the_same_share_no_key() -> None:
    for seed in range(50):
        keys: list[set[str]] = []
        for name in ("one", "other"):
            walk = Walk(Tape.seeded(seed), id=SagaId(name)).run()
            done, undone = keys_of(walk.events)
            keys.append(set[str]().union(*done.values(), *undone.values()))
        assert not keys[0] & keys[1]
        assert len(keys[0]) == len(keys[1])


# -- folding ----------------------------------------------------------------------------------------------------------


@quick
@given(tape=tapes())
def test_the_state_that_is_changed_in_place_is_the_replay_of_all_facts_after_every_command(tape: Tape) -> None:
    """So deciding has changed nothing either, whether it accepted or refused; and a copy stays as it was."""
    kept: list[tuple[int, Saga]] = []

    def compare(walk: Walk, told: AcceptedCommand) -> None:
        assert told.after == replay(walk.id, walk.events)
        kept.append((len(walk.events), told.after.copy()))

    walk = Walk(tape, watch=compare).run()
    walk.settle()
    for length, state in reversed(kept):
        assert replay(walk.id, walk.events[:length]) == state


@rest
@quick
@given(tape=tapes())
def test_what_is_due_and_what_is_decided_depend_on_nothing_but_the_history(tape: Tape) -> None:
    """A state that others have been made from, and the same state replayed, are asked the same and answer the same."""
    kept: list[tuple[int, int, Saga]] = []
    walk = Walk(tape, watch=lambda walk, told: kept.append((len(walk.events), walk.now, told.after.copy()))).run()
    for length, now, state in reversed(kept):
        again = replay(walk.id, walk.events[:length])
        assert plan(again, now) == plan(state, now)
        for command in requests(state):
            assert answer(again, command) == answer(state, command)


# -- deciding ---------------------------------------------------------------------------------------------------------


def requests(saga: Saga) -> list[c.Command]:
    """Everything that anyone may ask of a saga, in or out of season."""
    late = StepId("never proposed")
    asked: list[c.Command] = [
        start(),
        c.FinishWork(result=None),
        c.FailWork(cause=e.Cause.ERROR, why="", step=None),
        c.CancelSaga(by="person:a", why=""),
        c.OpenIncident(kind=e.IncidentKind.DIVERGED, step=None, why=""),
        c.MakeCheckpoint(place=StepId("somewhere"), name="here"),
        c.Rewind(place=StepId("somewhere"), steps=tuple(saga.steps), why=""),
        c.RollBackTo(to="here", last=None, by="person:a", why=""),
        c.RollBackTo(to=None, last=2, by="person:a", why=""),
        *(c.EndRewind(place=place) for place in saga.rewinds),
        c.EndSaga(),
        c.Recover(),
    ]
    for number in range(len(saga.incidents) + 2):
        asked.append(c.RetryIncident(incident=number, by="person:a"))
        asked.append(c.ResolveIncident(incident=number, by="person:a", reason="r"))
    for step in (*saga.steps, late):
        asked += [
            c.ProposeStep(step=step, contract=contract(on_incident=OnIncident.GO_ON), args={}, digest=""),
            c.DispatchStep(step=step, contract=contract(), args={}, digest="", verdict=ALLOW),
            c.RecordVerdict(step=step, verdict=ALLOW),
            c.RecordVerdict(step=step, verdict=DENY),
            c.PlaceStep(step=step, place=StepId("somewhere")),
            c.KeepBefore(step=step, before=None),
            c.StartAttempt(step=step),
            c.RecordAnswer(step=step, answer=FoundNothing(), reports=0),
            c.EnrolLate(step=step, attempt=1, outcome=Succeeded()),
            c.StartCompensation(step=step, certain=True, verdict=ALLOW),
            c.StartCompensation(step=step, certain=False, verdict=DENY),
            c.OpenIncident(kind=e.IncidentKind.OUTCOME_UNKNOWN, step=step, why=""),
            c.FailWork(cause=e.Cause.FATAL, why="", step=step),
            *(c.RecordOutcome(step=step, outcome=outcome) for outcome in set(OUTCOMES)),
            *(c.RecordCompensation(step=step, outcome=outcome) for outcome in set(UNDO_OUTCOMES)),
        ]
    return asked


def answer(saga: Saga, command: c.Command) -> tuple[e.Event, ...] | str:
    try:
        return decide(saga, command, c.Moment(1_700_000_100_000, 0, 9))
    except (RefusedError, UnknownCheckpointError, UnknownIncidentError) as exc:
        return str(exc)


@quick
@given(tape=tapes(120))
def test_whatever_is_asked_is_refused_or_can_be_folded(tape: Tape) -> None:
    """The runtime decides a request again when another's entry came first: it must never damage a journal by that."""

    def ask_for_everything(_: Walk, told: AcceptedCommand) -> None:
        for command in requests(told.after):
            events = answer(told.after, command)
            if not isinstance(events, str):
                saga = told.after.copy()
                for event in events:
                    evolve(saga, event)
                assert saga.phase not in {_G.COMPLETED, _G.ROLLED_BACK} or not saga.live

    Walk(tape, watch=ask_for_everything).run()


@quick
@given(tape=tapes())
def test_the_driver_s_own_request_is_refused_only_when_somebody_else_s_came_first(tape: Tape) -> None:
    """What `plan` and `forward` ask for, `decide` accepts in the same state: else a driver would go round for ever."""
    walk = Walk(tape, raced=False)
    while walk.moves < walk.most_moves:
        before = walk.refused
        due = walk.due()
        if not due:
            break
        walk.moves += 1
        walk.tape.pick(due)()
        assert walk.refused == before
