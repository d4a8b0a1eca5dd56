"""Real processes, real signals, a real file: victims die, stop and come back; others recover; the ledger has to hold.

Nothing here sleeps to let something happen: a victim dies by its own hand at a named point, a stop is seen by waitpid,
and what a process has to say it says through a pipe.
"""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from amends.core import events as e
from amends.core.state.saga import replay
from amends.core.transitions import SagaStatus
from amends.journal.port.journal import RemovedEntry
from tests.crash.processes import Scene, scene_at
from tests.parts import sampled

COMPLETED, ROLLED_BACK, INCIDENT = SagaStatus.COMPLETED, SagaStatus.ROLLED_BACK, SagaStatus.INCIDENT


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with scene_at(tmp_path) as made:
        yield made


def one(standing: dict[str, SagaStatus]) -> SagaStatus:
    (status,) = standing.values()
    return status


# -- one kill --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "point", "status"),
    sampled(
        [
            ("keyed", "keyed.a:enter", COMPLETED),
            ("keyed", "keyed.a:done", COMPLETED),
            ("keyed", "between", COMPLETED),
            ("keyed", "keyed.b:done", COMPLETED),
            ("plain", "plain.a:enter", ROLLED_BACK),
            ("plain", "plain.a:done", ROLLED_BACK),
            ("plain", "plain.b:done", ROLLED_BACK),
            ("back", "plain.b:undo", ROLLED_BACK),
            ("back", "plain.b:undone", ROLLED_BACK),
            ("back", "keyed.a:undone", ROLLED_BACK),
            ("parent", "keyed.b:done", COMPLETED),
            ("parent_back", "keyed.b:done", ROLLED_BACK),
            ("parent_back", "keyed.b:undone", ROLLED_BACK),
            ("threads", "keyed.thread:done", COMPLETED),
            ("threads", "keyed.thread:done#2", COMPLETED),
            ("threads_back", "keyed.thread:undone", ROLLED_BACK),
            ("probed", "plain.probed:enter", COMPLETED),
            ("probed", "plain.probed:done", COMPLETED),
            ("gather", "plain.probed:done", COMPLETED),
            ("gather", "keyed.thread:enter", COMPLETED),
            ("gather_plain", "plain.b:done", ROLLED_BACK),
            ("shuffled", "keyed.a:done#2", COMPLETED),
            ("shuffled", "keyed.b:enter#3", COMPLETED),
            ("later", "entry:attempt.failed/1", COMPLETED),
            ("back", "entry:rollback.started/1", ROLLED_BACK),
            ("back", "entry:compensation.succeeded/1#2", ROLLED_BACK),
            ("rewinds", "entry:rewind.started/1", COMPLETED),
            ("rewinds", "keyed.b:undone", COMPLETED),
            ("rewinds", "keyed.a:undo", COMPLETED),
            ("rewinds", "entry:rewind.ended/1", COMPLETED),
            ("tries", "keyed.b:undone", COMPLETED),
            ("tries", "keyed.a:done#2", COMPLETED),
            ("holds", "entry:work.finished/1", COMPLETED),
            ("holds", "keyed.mail:enter", COMPLETED),
            ("holds", "keyed.mail:done", COMPLETED),
            ("holds_back", "plain.b:undone", ROLLED_BACK),
            ("verified", "asserted", COMPLETED),
            ("flawed", "plain.answer:enter#2", COMPLETED),
        ],
        each=3,
    ),
)
def test_a_killed_saga_is_recovered(scene: Scene, name: str, point: str, status: SagaStatus) -> None:
    """With its children, where it has any."""
    scene.kill("run", name, at=point)
    scene.run("resume")
    assert set(scene.audit().values()) == {status}


@pytest.mark.parametrize(
    "point", sampled(["budget.spent/1", "child.spent/1#2", "budget.spent/1#2", "limit.reached/1"], each=3)
)
def test_what_a_child_spent_is_counted_once_and_ends_its_parent(scene: Scene, point: str) -> None:
    scene.kill("run", "budget", at=f"entry:{point}")
    scene.run("resume")
    assert set(scene.audit().values()) == {ROLLED_BACK}
    sagas = [replay(entries[0].saga, [entry.event for entry in entries]) for entries in scene.histories()]
    spent = {saga.id.count("~"): 0 if saga.budget is None else saga.budget.usd_micros for saga in sagas}
    assert spent == {0: 6_000_000, 1: 3_000_000}


@pytest.mark.parametrize(
    ("name", "point", "count"),
    [
        ("writes", "keyed.b:done", 1),
        ("writes", "entry:attempt.succeeded/1", 1),
        ("writes_back", "plain.b:undone", None),
    ],
)
def test_a_document_is_what_the_killed_saga_came_to(scene: Scene, name: str, point: str, count: int | None) -> None:
    scene.kill("run", name, at=point)
    scene.run("resume")
    assert one(scene.audit()) is (ROLLED_BACK if count is None else COMPLETED)
    assert scene.document("count") == count


def test_who_prunes_is_killed_in_the_middle_and_the_next_one_does_the_rest(scene: Scene) -> None:
    """What is gone and who removed it come together: no kill leaves the one without the other."""

    def pruned() -> list[bool]:
        found: list[bool] = []
        for *entries, last in scene.histories():
            is_recorded = last.name.startswith("content.removed/")
            assert {isinstance(entry, RemovedEntry) for entry in entries[1:]} == {is_recorded}
            found.append(is_recorded)
        return sorted(found)

    scene.run("run", "keyed", "5")
    scene.kill("prune", at="pruned#2")
    assert pruned() == [False, True, True, True, True]
    scene.run("prune")
    assert pruned() == [True] * 5


@pytest.mark.parametrize(
    "point", sampled(["plain.upgraded:done", "plain.upgraded:undo", "plain.upgraded:undone"], each=3)
)
def test_what_a_killed_process_began_is_taken_back_by_the_version_that_it_began_with(scene: Scene, point: str) -> None:
    scene.kill("run", "upgraded", at=point)
    scene.kill("resume", at="plain.upgraded:undone", release="2")
    scene.run("resume", release="2")
    assert one(scene.audit()) is ROLLED_BACK


def test_a_release_without_the_version_that_a_killed_process_began_with_stops_that_saga_alone(scene: Scene) -> None:
    scene.kill("run", "upgraded", at="plain.upgraded:undo")
    scene.kill("run", "keyed", at="keyed.a:done")
    scene.run("resume", release="3")
    assert scene.audit() == {"upgraded-0": INCIDENT, "keyed-0": COMPLETED}


def test_a_kill_between_two_steps_that_cannot_be_repeated_is_recovered(scene: Scene) -> None:
    """The first step's outcome waits to share the second's write: whether it is durable yet, only the kill knows."""
    scene.kill("run", "plain", at="between")
    scene.run("resume")
    assert one(scene.audit()) in {COMPLETED, ROLLED_BACK}


def test_a_kill_with_two_compensations_in_flight_is_recovered(scene: Scene) -> None:
    scene.kill("run", "graph_back", at="both:undo")
    (died,) = scene.histories()
    begun = [entry.event.step for entry in died if isinstance(entry.event, e.CompensationStarted)]
    assert sorted(begun) == ["left", "right"]
    assert not any(isinstance(entry.event, e.CompensationSucceeded) for entry in died)
    scene.run("resume")
    assert one(scene.audit()) is ROLLED_BACK
    (history,) = scene.histories()
    lost = [entry.event.step for entry in history if isinstance(entry.event, e.CompensationLost)]
    assert sorted(lost) == ["left", "right"]


@pytest.mark.parametrize("point", ["keyed.left:undone", "keyed.right:undone", "plain.a:undo"])
def test_a_graph_killed_on_its_way_back_is_recovered(scene: Scene, point: str) -> None:
    scene.kill("run", "graph_back", at=point)
    scene.run("resume")
    assert one(scene.audit()) is ROLLED_BACK


# -- several kills ---------------------------------------------------------------------------------------------------


def test_two_recoveries_die_one_after_the_other(scene: Scene) -> None:
    scene.kill("run", "back", at="plain.b:undone")
    scene.kill("resume", at="plain.b:undone")
    scene.kill("resume", at="keyed.a:undone")
    scene.run("resume")
    assert one(scene.audit()) is ROLLED_BACK


def test_a_recovery_dies_at_its_first_word_and_the_next_before_it(scene: Scene) -> None:
    scene.kill("run", "plain", at="plain.b:done")
    scene.kill("resume", at="entry:attempt.lost/1")
    scene.kill("resume", at="entry:compensation.started/1")
    scene.kill("resume", at="plain.b:undo")
    scene.run("resume")
    assert one(scene.audit()) is ROLLED_BACK


def test_a_step_is_killed_in_each_of_three_processes_and_done_in_the_fourth(scene: Scene) -> None:
    scene.kill("run", "keyed", at="keyed.b:done")
    scene.kill("resume", at="keyed.b:enter")
    scene.kill("resume", at="keyed.b:done")
    scene.run("resume")
    assert one(scene.audit()) is COMPLETED


# -- many sagas ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "point", "statuses"),
    [
        ("keyed", "keyed.b:done#10", {COMPLETED}),
        ("plain", "plain.b:enter#20", {COMPLETED, ROLLED_BACK}),
        ("back", "plain.b:undone#7", {ROLLED_BACK}),
        ("threads_back", "keyed.thread:done#30", {ROLLED_BACK}),
        ("gather", "plain.probed:done#11", {COMPLETED}),
    ],
)
def test_twenty_sagas_die_together_and_are_recovered(
    scene: Scene, name: str, point: str, statuses: set[SagaStatus]
) -> None:
    scene.kill("run", name, "20", at=point)
    scene.run("resume")
    standing = scene.audit()
    assert len(standing) == 20
    assert set(standing.values()) <= statuses


def test_twenty_sagas_die_in_three_recoveries_too(scene: Scene) -> None:
    scene.kill("run", "back", "20", at="plain.b:done#20")
    scene.kill("resume", at="plain.b:undone#4")
    scene.kill("resume", at="keyed.a:undo#9")
    scene.kill("resume", at="entry:compensation.succeeded/1#5")
    scene.run("resume")
    assert set(scene.audit().values()) == {ROLLED_BACK}


def test_two_processes_resume_at_once_and_each_saga_is_driven_by_one(scene: Scene) -> None:
    scene.kill("run", "back", "20", at="plain.b:done#20")
    pair = [scene.start("resume-once", **{"await": "1"}) for _ in range(2)]
    for victim in pair:
        victim.await_point("ready")
    for victim in pair:
        victim.go_on()
    drove = [victim.ended_well() for victim in pair]
    assert sorted([*drove[0], *drove[1]]) == sorted(f"back-{n}" for n in range(20))
    assert set(scene.audit().values()) == {ROLLED_BACK}


def test_two_processes_start_the_same_saga_at_once_and_it_is_one_saga(scene: Scene) -> None:
    pair = [scene.start("run", "back", "5", **{"await": "1"}) for _ in range(2)]
    for victim in pair:
        victim.await_point("ready")
    for victim in pair:
        victim.go_on()
    ends = [victim.ended_well() for victim in pair]
    assert ends[0] == ends[1] == {f"back-{n}": "rolled_back" for n in range(5)}
    standing = scene.audit()
    assert len(standing) == 5
    assert set(standing.values()) == {ROLLED_BACK}


# -- people ----------------------------------------------------------------------------------------------------------


def test_a_cancel_is_killed_in_the_middle(scene: Scene) -> None:
    scene.run("run", "keyed")
    scene.kill("cancel", "keyed-0", at="keyed.b:undone")
    scene.run("resume")
    assert one(scene.audit()) is ROLLED_BACK


def test_a_cancel_is_killed_as_soon_as_it_is_on_record(scene: Scene) -> None:
    scene.run("run", "keyed")
    scene.kill("cancel", "keyed-0", at="entry:rollback.started/1")
    scene.run("resume")
    assert one(scene.audit()) is ROLLED_BACK


def test_a_cancel_from_elsewhere_reaches_the_process_that_drives(scene: Scene) -> None:
    driving = scene.start("run", "keyed", hold="keyed.a:done")
    driving.await_point("keyed.a:done")
    cancelling = scene.start("cancel", "keyed-0")
    assert cancelling.ended_well() == {"keyed-0": "rolling_back"}
    driving.go_on()
    assert driving.ended_well() == {"keyed-0": "rolled_back"}
    assert one(scene.audit()) is ROLLED_BACK


def test_a_process_that_drives_is_killed_after_a_cancel_from_elsewhere(scene: Scene) -> None:
    driving = scene.start("run", "keyed", hold="keyed.a:done")
    driving.await_point("keyed.a:done")
    scene.run("cancel", "keyed-0")
    driving.send(signal.SIGKILL)
    driving.died()
    scene.run("resume")
    assert one(scene.audit()) is ROLLED_BACK


def test_a_saga_that_had_completed_is_cancelled_from_elsewhere_while_its_process_lives(scene: Scene) -> None:
    """The process that ran it still holds its lease, so it has to be the one that takes it back."""
    driving = scene.start("run-and-stay", "keyed")
    driving.await_point("staying")
    scene.run("cancel", "keyed-0")
    scene.run("resume")
    assert one(scene.audit()) is ROLLED_BACK
    driving.go_on()
    assert driving.ended_well() == {"keyed-0": "completed"}


# -- waiting ---------------------------------------------------------------------------------------------------------


def test_a_saga_is_signalled_after_the_process_that_waited_was_killed(scene: Scene) -> None:
    scene.kill("run", "waits", at="entry:wait.started/1")
    assert scene.run("signal", "waits-0") == {"waits-0": "signalled"}
    scene.run("resume")
    assert one(scene.audit()) is COMPLETED


def test_a_signal_reaches_the_process_that_waits_from_another_one(scene: Scene) -> None:
    waiting = scene.start("run", "waits", hold="entry:wait.started/1")
    waiting.await_point("entry:wait.started/1")
    waiting.go_on()
    scene.run("signal", "waits-0")
    assert waiting.ended_well() == {"waits-0": "completed"}
    assert one(scene.audit()) is COMPLETED


def test_who_signals_is_killed_and_the_signal_counts_once(scene: Scene) -> None:
    scene.kill("run", "waits", at="entry:wait.started/1")
    scene.kill("signal", "waits-0", at="entry:signal.received/1")
    assert "nothing in it will wait" in scene.run("signal", "waits-0")["waits-0"] or scene.run("resume")
    scene.run("resume")
    assert one(scene.audit()) is COMPLETED
    (entries,) = scene.histories()
    assert len([entry for entry in entries if isinstance(entry.event, e.SignalReceived)]) == 1


def test_a_sleep_is_slept_through_by_the_process_that_comes_after_a_kill(scene: Scene) -> None:
    scene.kill("run", "sleeps", at="entry:wait.started/1")
    scene.kill("resume", at="entry:wait.ended/1")
    scene.run("resume")
    assert one(scene.audit()) is COMPLETED


# -- paused ----------------------------------------------------------------------------------------------------------


def test_a_pause_reaches_the_process_that_drives_and_what_it_paused_goes_on_there(scene: Scene) -> None:
    driving = scene.start("run", "keyed", hold="keyed.a:done")
    driving.await_point("keyed.a:done")
    scene.run("pause")
    driving.go_on()
    scene.await_status("keyed-0", "paused")
    assert scene.run("unpause") == {"released": "1"}
    assert driving.ended_well() == {"keyed-0": "completed"}
    assert COMPLETED in scene.audit().values()


def test_who_unpauses_is_killed_in_the_middle_and_the_next_resume_lets_the_rest_go_on(scene: Scene) -> None:
    scene.run("pause")
    driving = scene.start("run", "keyed", "5")
    for n in range(5):
        scene.await_status(f"keyed-{n}", "paused")
    driving.send(signal.SIGKILL)
    driving.died()
    scene.kill("unpause", at="entry:work.resumed/1#2")
    scene.run("resume")
    standing = scene.audit()
    assert {standing[f"keyed-{n}"] for n in range(5)} == {COMPLETED}


def test_a_paused_saga_of_a_killed_process_goes_on_in_another(scene: Scene) -> None:
    scene.run("pause")
    scene.kill("run", "keyed", at="entry:saga.paused/1")
    assert scene.run("resume-once") == {}
    scene.run("unpause")
    scene.run("resume")
    assert scene.audit()["keyed-0"] is COMPLETED


# -- stopped past the lease ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "point", "while_stopped", "at_last"),
    sampled(
        [
            ("keyed", "keyed.b:enter", {COMPLETED}, {COMPLETED}),
            ("keyed", "keyed.b:done", {COMPLETED}, {COMPLETED}),
            ("plain", "plain.b:enter", {ROLLED_BACK}, {INCIDENT}),
            ("plain", "plain.b:done", {ROLLED_BACK}, {INCIDENT}),
            ("probed", "plain.probed:done", {COMPLETED}, {COMPLETED}),
            ("back", "plain.b:undo", {ROLLED_BACK}, {ROLLED_BACK}),
            ("back", "keyed.a:undone", {ROLLED_BACK}, {ROLLED_BACK}),
            ("threads", "keyed.thread:enter", {COMPLETED}, {COMPLETED}),
            ("gather_plain", "plain.a:enter", {ROLLED_BACK}, {INCIDENT}),
        ],
        each=3,
    ),
)
def test_a_process_that_slept_through_its_lease_writes_nothing_as_its_driver(
    scene: Scene, name: str, point: str, while_stopped: set[SagaStatus], at_last: set[SagaStatus]
) -> None:
    sleeper = scene.start("run-and-stay", name, stop=point, lease="1")
    sleeper.await_stop()
    scene.run("resume", lease="1")
    (before,) = scene.histories()
    assert one(scene.audit()) in while_stopped

    sleeper.send(signal.SIGCONT)
    sleeper.await_point("staying")
    scene.run("resume", lease="1")
    sleeper.go_on()
    sleeper.await_end()

    scene.run("resume", lease="1")
    assert one(scene.audit()) in at_last
    (after,) = scene.histories()
    late = [entry.event for entry in after[len(before) :]]
    assert not late or isinstance(late[0], e.LateSuccessEnrolled)


def test_a_late_effect_is_seen_to_while_the_one_who_took_over_lives(scene: Scene) -> None:
    """Who took over still holds the lease when the sleeper's effect turns up: it has to see to it."""
    sleeper = scene.start("run-and-stay", "plain", stop="plain.b:enter", lease="1")
    sleeper.await_stop()
    other = scene.start("resume-and-stay", lease="1")
    other.await_point("staying")
    sleeper.send(signal.SIGCONT)
    sleeper.await_point("staying")
    scene.run("resume", lease="1")
    assert one(scene.audit()) is INCIDENT
    for victim in (sleeper, other):
        victim.go_on()
        assert victim.await_end() == 0


# -- asked to end ----------------------------------------------------------------------------------------------------


def test_a_process_that_is_asked_to_end_lets_its_attempt_finish_and_gives_its_saga_back(scene: Scene) -> None:
    ending = scene.start("run", "plain", hold="plain.a:done")
    ending.await_point("plain.a:done")
    ending.send(signal.SIGTERM)
    ending.await_point("closing")
    ending.go_on()
    assert ending.await_end() == -signal.SIGTERM
    (entries,) = scene.histories()
    assert isinstance(entries[-1].event, e.AttemptSucceeded)
    assert scene.run("resume-once") == {"plain-0": "completed"}
    assert one(scene.audit()) is COMPLETED


def test_twenty_sagas_are_handed_over_by_a_process_that_is_asked_to_end(scene: Scene) -> None:
    ending = scene.start("run", "plain", "20", hold="plain.b:enter#20")
    ending.await_point("plain.b:enter")
    ending.send(signal.SIGTERM)
    ending.await_point("closing")
    ending.go_on()
    assert ending.await_end() == -signal.SIGTERM
    scene.run("resume-once")
    assert set(scene.audit().values()) == {COMPLETED}
