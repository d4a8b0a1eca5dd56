"""What each fact changes in a step, and that it changes nothing else."""

from typing import Any

import pytest

from amends.core import events as e
from amends.core.state.step import (
    OFTEN,
    Approval,
    SettlingEvent,
    Step,
    Throttle,
    Told,
    changed,
    rate_words,
    renewed,
    told_of,
    waits,
)
from amends.core.transitions import ApprovalStatus, StepStatus
from amends.core.words.verdict import Need
from amends.dataclass import altered
from amends.errors import JournalDamagedError
from tests.core.story import ACT, FLIGHT, HOTEL, IDEMPOTENT

S, K = StepStatus, e.IncidentKind
TOLD = Told(S.FAILED, "e0", fatal=True)
ASKED = Approval(number=3, digest="d", shown={}, rule="ask", policy="p", needs=(Need(rule="ask"),), expires_at=9)
# Every field has a value of its own, so that one that is left alone, or not, is seen.
USED = Step(
    id=FLIGHT, contract=IDEMPOTENT, args={"n": 1}, digest="d", status=S.UNKNOWN, number=4, attempts=5, renewed_at=2,
    probes=1, undo_attempts=6, undo_renewed_at=3, retry_at=77, result="r0", before="b0", layer="l0", seen=("s0",),
    queued_until=8, deadlocked=True, error="e0", reasons=("e0",), fatal=True, given_up=True, unsure=True, certain=False,
    turn=1, late=True, reports=2, trouble=K.CHANGED_SINCE, approval=ASKED, after=(HOTEL,), entry=11,
)  # fmt: skip
FRESH = altered(USED, unsure=False, certain=True, late=False, given_up=False, fatal=False, deadlocked=False)


@pytest.mark.parametrize("step", [USED, FRESH], ids=["used", "fresh"])
@pytest.mark.parametrize(
    ("fact", "becomes"),
    [
        (e.AttemptStarted(step=FLIGHT, attempt=7, key="k"),
         {"attempts": 7, "key": "k", "retry_at": None, "probes": 0, "fatal": False, "given_up": False}),
        (e.AttemptSucceeded(step=FLIGHT, attempt=7, result="r", opaque="o", layer="l"),
         {"result": "r", "certain": True, "unsure": False, "error": "o", "layer": "l"}),
        (e.ProbeFound(step=FLIGHT, result="r"),
         {"certain": True, "late": False, "unsure": False, "result": "r", "retry_at": None, "error": ""}),
        (e.ProbeFoundNothing(step=FLIGHT, retry_at=None),
         {"retry_at": None, "given_up": True, "late": False, "unsure": False}),
        (e.ProbeUnanswered(step=FLIGHT, error="x", retry_at=None), {"retry_at": None, "given_up": True, "probes": 2}),
        (e.AttemptFailed(step=FLIGHT, attempt=7, error="x", fatal=True, retry_at=None),
         {"error": "x", "fatal": True, "retry_at": None, "given_up": True, "reasons": ("e0", "x")}),
        (e.AttemptLost(step=FLIGHT, attempt=7, error="x", fatal=False, retry_at=5),
         {"error": "x", "fatal": False, "retry_at": 5, "given_up": False, "unsure": True, "reasons": ("e0", "x")}),
        (e.BeforeCaptured(step=FLIGHT, before="b"), {"before": "b"}),
        (e.AfterCaptured(step=FLIGHT, after="a"), {"seen": ("a",)}),
        (e.LockAwaited(step=FLIGHT, resources=(), holder="", until=5), {"queued_until": 5}),
        (e.StepThrottled(step=FLIGHT, rule="r", policy="p", most=2, per_s=60.0, until=5),
         {"throttle": Throttle("r", "p", 2, 60.0, 5)}),
        (e.LockTaken(step=FLIGHT), {}),
        (e.LockRefused(step=FLIGHT, error="x", deadlock=True),
         {"error": "x", "deadlocked": True, "retry_at": None, "given_up": True}),
        (e.ActionDenied(step=FLIGHT, rule="r", policy="p", why="x"), {"error": "x", "denied_by": "r"}),
        (e.ActionAllowed(step=FLIGHT, rule="r", policy="p"), {}),
        (e.StepPlaced(step=FLIGHT, place=FLIGHT), {}),
        (e.StepDropped(step=FLIGHT, why="x"), {}),
        (e.ApprovalRefused(step=FLIGHT, by="bob", why="no"),
         {"error": "bob refused it: no", "approval": altered(ASKED, status=ApprovalStatus.REFUSED)}),
        (e.ApprovalExpired(step=FLIGHT),
         {"error": "its approval was not given, or not used, in time",
          "approval": altered(ASKED, status=ApprovalStatus.EXPIRED)}),
        (e.ApprovalVoided(step=FLIGHT, why="x"), {"approval": altered(ASKED, status=ApprovalStatus.VOID)}),
        (e.ApprovalGranted(step=FLIGHT, by="bob", digest="d"),
         {"approval": altered(ASKED, status=ApprovalStatus.GRANTED, signers=("bob",))}),
        (e.ApprovalRequested(step=FLIGHT, digest="e", shown=[1], rule="r", policy="q", needs=(), expires_at=5),
         {"approval": Approval(number=4, digest="e", shown=[1], rule="r", policy="q", needs=(), expires_at=5)}),
    ],
    ids=lambda given: type(given).__name__,
)  # fmt: skip
def test_a_fact_changes_what_it_speaks_of(step: Step, fact: SettlingEvent, becomes: dict[str, Any]) -> None:
    assert changed(step, fact, S.READY) == altered(step, status=S.READY, **becomes)


def test_whatever_comes_next_ends_the_wait_for_a_rate() -> None:
    throttled = e.StepThrottled(step=FLIGHT, rule="r", policy="p", most=2, per_s=60.0, until=5)
    once = changed(FRESH, throttled, S.PROPOSED)
    assert changed(once, throttled, S.PROPOSED).throttle == Throttle("r", "p", 2, 60.0, 5, times=2)
    for fact in (
        e.ActionAllowed(step=FLIGHT, rule="r", policy="p"),
        e.ActionDenied(step=FLIGHT, rule="r", policy="p", why=""),
    ):
        assert changed(once, fact, S.READY).throttle is None


def test_a_step_waits_for_a_rate_only_as_long_as_it_is_to_go_forward() -> None:
    once = altered(FRESH, throttle=Throttle("r", "p", 2, 60.0, 5), status=S.PROPOSED, retry_at=None)
    assert (waits(once), once.wake_at, once.is_idle) == (True, 5, True)
    assert waits(altered(once, status=S.READY))
    for going_back in (altered(once, status=S.SUCCEEDED), altered(once, rewind=HOTEL)):
        assert not waits(going_back)


def test_a_rate_that_passes_a_step_over_again_and_again_is_told_of_less_and_less_often() -> None:
    """A thousand that wait for one rate are woken together each time it lets a few pass."""
    throttle, told = Throttle("r", "p", 1, 60.0, until=60_000), 1
    for until in range(120_000, 10_000 * 60_000, 60_000):
        if throttle.is_news("r", 60.0, until):
            throttle, told = throttle._replace(until=until, times=throttle.times + 1), told + 1
    assert OFTEN <= told <= OFTEN + 15
    assert not throttle.is_news("r", 60.0, throttle.until + 999)
    assert throttle.is_news("another", 60.0, throttle.until)


def test_a_rate_is_told_as_its_rule_says_it() -> None:
    spans = (0.5, 60.0, 90.0, 300.0, 3600.0, 86_400.0)
    assert [rate_words(20, per_s) for per_s in spans] == [
        "20 per 0.5 s", "20 per 60 s", "20 per 90 s", "20 per 5 min", "20 per 1 h", "20 per 1 d"
    ]  # fmt: skip


def test_a_probe_that_is_asked_again_gives_nothing_up() -> None:
    for fact in (e.ProbeFoundNothing(step=FLIGHT, retry_at=5), e.ProbeUnanswered(step=FLIGHT, error="", retry_at=5)):
        assert changed(FRESH, fact, S.UNKNOWN).given_up is False
        assert changed(USED, fact, S.UNKNOWN).given_up is True


@pytest.mark.parametrize(
    ("fact", "becomes"),
    [
        (e.CompensationStarted(step=FLIGHT, attempt=7, key="k", certain=True, rule="r", policy="p"),
         {"undo_attempts": 7, "certain": True, "retry_at": None, "trouble": None}),
        (e.CompensationSucceeded(step=FLIGHT, attempt=7), {"error": ""}),
        (e.CompensationFailed(step=FLIGHT, attempt=7, error="x", changed_since=False, retry_at=5),
         {"error": "x", "retry_at": 5, "trouble": K.COMPENSATION_FAILED}),
        (e.CompensationFailed(step=FLIGHT, attempt=7, error="x", changed_since=True, retry_at=None),
         {"error": "x", "retry_at": None, "trouble": K.CHANGED_SINCE}),
        (e.CompensationLost(step=FLIGHT, attempt=7, error="x", timed_out=True, retry_at=5),
         {"error": "x", "retry_at": 5, "trouble": K.COMPENSATION_TIMED_OUT}),
        (e.CompensationLost(step=FLIGHT, attempt=7, error="x", timed_out=False, retry_at=5),
         {"error": "x", "retry_at": 5, "trouble": K.COMPENSATION_FAILED}),
        (e.CompensationDenied(step=FLIGHT, rule="r", policy="p", why="x"),
         {"error": "x", "retry_at": None, "trouble": K.COMPENSATION_DENIED}),
        (e.IncidentResolved(incident=1, by="person:a", reason="r", settled=(FLIGHT,)), {}),
    ],
    ids=lambda given: type(given).__name__,
)  # fmt: skip
def test_what_the_definition_was_told_is_kept_when_a_step_is_taken_back(
    fact: SettlingEvent, becomes: dict[str, Any]
) -> None:
    kept = Told(S.UNKNOWN, "e0", fatal=True)
    assert changed(USED, fact, S.SETTLED) == altered(USED, status=S.SETTLED, told=kept, **becomes)
    assert changed(altered(USED, told=TOLD), fact, S.SETTLED).told is TOLD


def test_a_success_that_came_too_late_was_told_as_unknown() -> None:
    assert told_of(altered(USED, status=S.SUCCEEDED)) == Told(S.UNKNOWN, "e0", fatal=True)
    assert told_of(altered(USED, status=S.SUCCEEDED, rewind=HOTEL)) == Told(S.SUCCEEDED, "e0", fatal=True)
    assert told_of(altered(FRESH, status=S.SUCCEEDED)) == Told(S.SUCCEEDED, "e0", fatal=False)


LATE = e.LateSuccessEnrolled(step=FLIGHT, attempt=1, result="r")
LATE_LOSS = e.LateLossEnrolled(step=FLIGHT, attempt=1, error="x")


def test_a_success_that_lands_late() -> None:
    seen: dict[str, Any] = {"result": "r", "probes": 0, "reports": 3}
    landed = changed(FRESH, LATE, S.SUCCEEDED)
    assert landed == altered(FRESH, status=S.SUCCEEDED, **seen, certain=True, unsure=False, error="")
    given_up = changed(altered(USED, late=False), LATE, S.SUCCEEDED)
    assert given_up == altered(USED, late=False, status=S.SUCCEEDED, **seen, certain=True, unsure=False)
    running = changed(FRESH, LATE, S.RUNNING)
    assert running == altered(FRESH, status=S.RUNNING, **seen, certain=True, unsure=True)
    gone = altered(FRESH, status=S.COMPENSATED)
    assert changed(gone, LATE, S.UNKNOWN) == altered(
        gone, status=S.UNKNOWN, **seen, certain=False, late=True, turn=2, retry_at=None
    )
    assert changed(gone, LATE, S.UNCOMPENSATED) == altered(
        gone, status=S.UNCOMPENSATED, **seen, certain=False, late=False, turn=2
    )


def test_a_loss_that_is_told_late() -> None:
    seen: dict[str, Any] = {"error": "x", "probes": 0, "reports": 3, "certain": False, "unsure": True}
    assert changed(FRESH, LATE_LOSS, S.UNKNOWN) == altered(FRESH, status=S.UNKNOWN, **seen)
    once = altered(FRESH, contract=ACT)
    assert changed(once, LATE_LOSS, S.UNKNOWN) == altered(once, status=S.UNKNOWN, **seen, retry_at=None, given_up=True)
    assert changed(once, LATE_LOSS, S.RUNNING) == altered(once, status=S.RUNNING, **seen)
    assert changed(USED, LATE_LOSS, S.UNKNOWN) == altered(USED, status=S.UNKNOWN, **seen, retry_at=None)


def test_what_was_given_up_is_due_at_once_with_a_full_measure() -> None:
    for given_up in (True, False):
        assert renewed(USED, given_up=given_up) == altered(
            USED, retry_at=0, given_up=given_up, fatal=False, probes=0, renewed_at=5, undo_renewed_at=6
        )
    done = altered(USED, status=S.SUCCEEDED)
    assert renewed(done, given_up=False) is done


def test_who_waits() -> None:
    for status in (S.FAILED, S.UNKNOWN):
        assert waits(altered(USED, status=status))
        assert not waits(altered(USED, status=status, retry_at=None))
    assert waits(altered(USED, status=S.AWAITING, retry_at=None))
    assert not waits(altered(USED, status=S.SUCCEEDED))
    assert not waits(altered(USED, status=S.UNCOMPENSATED))


def test_an_answer_that_nobody_asked_for_is_damage() -> None:
    voided = e.ApprovalVoided(step=FLIGHT, why="")
    with pytest.raises(JournalDamagedError, match=r"^step flight: ApprovalVoided, and nobody was asked$"):
        changed(altered(USED, approval=None), voided, S.READY)
    with pytest.raises(JournalDamagedError, match=r"^step flight: ApprovalVoided, and its approval is void$"):
        changed(altered(USED, approval=altered(ASKED, status=ApprovalStatus.VOID)), voided, S.READY)


def test_a_request_without_one_before_is_the_first() -> None:
    asked = e.ApprovalRequested(step=FLIGHT, digest="e", shown=[1], rule="r", policy="q", needs=(), expires_at=5)
    found = changed(altered(USED, approval=None), asked, S.AWAITING).approval
    assert found is not None
    assert found.number == 1
