"""The proof that the laws can fail: each mutant breaks the core in one place, and a few walks are enough to see it."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any, cast

import pytest

from amends.core import decide, events as e, plan
from amends.core.decide import incidents, require as refusals
from amends.core.effects import Effect, Wait
from amends.core.state import saga, step
from amends.core.state.saga import Incident, Saga
from amends.core.state.step import Step
from amends.core.transitions import STEP, StepStatus
from amends.core.words.contracts import Contract, OnIncident, Retries
from amends.core.words.outcomes import Failed
from amends.core.words.values import StepId
from amends.errors import JournalDamagedError
from amends.testing.walk import walk
from amends.testing.walk.choices import Tape, Truth, any_contract
from tests.core.laws import judge
from tests.parts import sampled

_S = StepStatus
ENOUGH = 20_000
Patch = pytest.MonkeyPatch
_plan, _left, _changed = plan.plan, incidents._left, step.changed


def in_table(patch: Patch, status: StepStatus, kind: type[e.StepEvent], after: StepStatus) -> None:
    table: dict[StepStatus, Any] = cast("Any", STEP)  # read-only to all but mutants
    patch.setitem(table, status, {**table[status], kind: after})


def always(value: object) -> property:
    """A property that keeps nothing of what it is told."""

    def read(_: object) -> object:
        return value

    def write(_: object, __: object) -> None: ...

    return property(read, write)


def everywhere(patch: Patch, name: str, value: object) -> None:
    """In every module that has imported it."""
    for module in (decide, incidents, plan, refusals, saga, step, walk):
        if hasattr(module, name):
            patch.setattr(module, name, value)


def unturned(_: Saga, __: Step) -> None:
    """Whose turn it is does not matter."""


def a_compensation_of_what_nobody_knows_is_not_owed(patch: Patch) -> None:
    patch.setattr(step, "_STANDING", step._STANDING - {_S.UNKNOWN})


def a_compensation_that_failed_is_not_owed_any_more(patch: Patch) -> None:
    patch.setattr(step, "_STANDING", step._STANDING - {_S.UNCOMPENSATED})


def compensations_do_not_wait_for_what_is_in_flight(patch: Patch) -> None:
    def hasty(state: Saga, now: int) -> tuple[Effect, ...]:
        alone = state.copy()
        alone.live.clear()
        return _plan(alone, now)

    everywhere(patch, "plan", hasty)
    everywhere(patch, "require_turn", unturned)


def the_oldest_goes_first(patch: Patch) -> None:
    def oldest(state: Saga) -> tuple[Step, ...]:
        owed = [one for one in state.steps.values() if one.owed]
        return (min(owed, key=lambda one: one.number),) if owed and state.rollback else ()

    everywhere(patch, "turns", oldest)
    everywhere(patch, "require_turn", unturned)


def a_rollback_passes_every_step_that_an_incident_names(patch: Patch) -> None:
    patch.setattr(Contract, "goes_on", always(True))


def a_rollback_passes_a_pivot_that_says_go_on(patch: Patch) -> None:
    def goes_on(contract: Contract) -> bool:
        return contract.on_incident is OnIncident.GO_ON

    patch.setattr(Contract, "goes_on", property(goes_on))


def a_rollback_forgets_what_an_incident_names(patch: Patch) -> None:
    patch.setattr(Step, "named", always(False))


def an_incident_names_only_where_it_stopped(patch: Patch) -> None:
    def first(state: Saga, stopping: Incident | None = None) -> tuple[StepId, ...]:
        return _left(state, stopping)[:1]

    patch.setattr(incidents, "_left", first)


def a_closed_incident_goes_on_naming_its_step(patch: Patch) -> None:
    def all_of_them(state: Saga) -> tuple[Incident, ...]:
        return state.incidents

    patch.setattr(Saga, "open_incidents", property(all_of_them))


def a_saga_ends_because_somebody_says_so(patch: Patch) -> None:
    def end(state: Saga) -> tuple[e.Event, ...]:
        if state.open_incidents:
            return (e.SagaHalted(),)
        return (e.SagaRolledBack() if state.rollback else e.SagaCompleted(result=state.result),)

    everywhere(patch, "end", end)


def the_pivot_does_not_matter(patch: Patch) -> None:
    patch.setattr(Saga, "pivot", always(None))


def a_later_failure_settles_an_earlier_loss(patch: Patch) -> None:
    patch.setattr(Step, "unsure", always(False))


def what_was_given_up_counts_when_it_lands(patch: Patch) -> None:
    patch.setattr(Step, "given_up", always(False))


def a_late_effect_after_a_compensation_is_forgotten(patch: Patch) -> None:
    in_table(patch, _S.COMPENSATED, e.LateSuccessEnrolled, _S.COMPENSATED)


def a_late_loss_after_a_compensation_is_forgotten(patch: Patch) -> None:
    in_table(patch, _S.COMPENSATED, e.LateLossEnrolled, _S.COMPENSATED)


def a_late_effect_during_a_compensation_counts_as_taken_back(patch: Patch) -> None:
    in_table(patch, _S.RECOMPENSATING, e.CompensationSucceeded, _S.COMPENSATED)


def a_late_effect_after_a_lost_compensation_keeps_the_old_key(patch: Patch) -> None:
    patch.setattr(step, "_TAKEN_BACK", step._TAKEN_BACK - {_S.UNCOMPENSATED})


def a_late_effect_while_another_attempt_runs_is_forgotten(patch: Patch) -> None:
    def forgets(old: Step, event: step.SettlingEvent, status: StepStatus) -> Step:
        late = isinstance(event, (e.LateSuccessEnrolled, e.LateLossEnrolled)) and old.status is _S.RUNNING
        return old if late else _changed(old, event, status)

    everywhere(patch, "changed", forgets)


def what_lands_late_is_not_named_by_a_halted_saga(patch: Patch) -> None:
    def everything(state: Saga) -> set[StepId]:
        return set(state.steps)

    patch.setattr(incidents, "_named_as_left", everything)


def a_timeout_counts_as_a_failure(patch: Patch) -> None:
    in_table(patch, _S.RUNNING, e.AttemptLost, _S.FAILED)


def a_lost_compensation_counts_as_done(patch: Patch) -> None:
    in_table(patch, _S.COMPENSATING, e.CompensationLost, _S.COMPENSATED)


def a_denied_compensation_is_skipped(patch: Patch) -> None:
    in_table(patch, _S.SUCCEEDED, e.CompensationDenied, _S.COMPENSATED)


def a_lost_attempt_is_repeated_blindly(patch: Patch) -> None:
    def truth(*, idempotent: bool) -> Truth:
        return Truth(idempotent=not idempotent)

    patch.setattr(Contract, "repeatable", always(True))
    patch.setattr(walk, "Truth", truth)


def a_rollback_waits_for_ever(patch: Patch) -> None:
    def at(_: int | None, now: int, __: Effect) -> Effect:
        return Wait(now)

    patch.setattr(plan, "_at", at)


def a_compensation_is_tried_without_end(patch: Patch) -> None:
    def untiring(tape: Tape, name: StepId) -> Contract:
        return replace(any_contract(tape, name), undo_retries=Retries(attempts=10**9))

    patch.setattr(walk, "any_contract", untiring)
    patch.setattr(walk, "UNDO_OUTCOMES", (Failed(error="busy"),))


def a_retry_does_not_lift_the_rollback_up_again(patch: Patch) -> None:
    folded = cast("dict[type[e.Event], Any]", saga._FOLD)
    close = folded[e.IncidentRetried]

    def flat(state: Saga, event: e.IncidentRetried) -> None:
        top = state.top
        close(state, event)
        state.top = min(state.top, top)

    patch.setitem(folded, e.IncidentRetried, flat)


def each_attempt_has_a_key_of_its_own(patch: Patch) -> None:
    attempts = count()

    def unheard_of(*_: object) -> str:
        return f"key {next(attempts)}"

    patch.setattr(decide, "key_of", unheard_of)


MUTANTS: list[Callable[[Patch], None]] = [
    a_compensation_of_what_nobody_knows_is_not_owed,
    a_compensation_that_failed_is_not_owed_any_more,
    compensations_do_not_wait_for_what_is_in_flight,
    the_oldest_goes_first,
    a_rollback_passes_every_step_that_an_incident_names,
    a_rollback_passes_a_pivot_that_says_go_on,
    a_rollback_forgets_what_an_incident_names,
    an_incident_names_only_where_it_stopped,
    a_closed_incident_goes_on_naming_its_step,
    a_saga_ends_because_somebody_says_so,
    the_pivot_does_not_matter,
    a_later_failure_settles_an_earlier_loss,
    what_was_given_up_counts_when_it_lands,
    a_late_effect_after_a_compensation_is_forgotten,
    a_late_loss_after_a_compensation_is_forgotten,
    a_late_effect_during_a_compensation_counts_as_taken_back,
    a_late_effect_after_a_lost_compensation_keeps_the_old_key,
    a_late_effect_while_another_attempt_runs_is_forgotten,
    what_lands_late_is_not_named_by_a_halted_saga,
    a_timeout_counts_as_a_failure,
    a_lost_compensation_counts_as_done,
    a_denied_compensation_is_skipped,
    a_lost_attempt_is_repeated_blindly,
    a_rollback_waits_for_ever,
    a_compensation_is_tried_without_end,
    a_retry_does_not_lift_the_rollback_up_again,
    each_attempt_has_a_key_of_its_own,
]


SEEN_AT: dict[Callable[[Patch], None], int] = {
    a_later_failure_settles_an_earlier_loss: 367,
    a_late_effect_during_a_compensation_counts_as_taken_back: 813,
    a_late_effect_after_a_lost_compensation_keeps_the_old_key: 3_339,
    a_late_effect_while_another_attempt_runs_is_forgotten: 5_382,
}
"""The first walk that sees a mutant which few of them see. Where walks have changed it is looked for from the start."""


@pytest.mark.parametrize("mutant", sampled(MUTANTS, each=8), ids=lambda mutant: mutant.__name__)
def test_the_laws_see_that(mutant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    mutant(monkeypatch)
    for seed in (SEEN_AT.get(mutant, 0), *range(ENOUGH)):
        try:
            judge(Tape.seeded(seed), most_steps=2 + seed % 6)
        except (AssertionError, JournalDamagedError):
            return
    pytest.fail(f"{ENOUGH} walks saw nothing")
