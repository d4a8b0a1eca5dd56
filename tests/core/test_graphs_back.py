"""Whose turn it is in a graph that goes back: rules told as stories, and what they cost, counted."""

from typing import Self

from amends.core import commands as c, events as e
from amends.core.effects import CallPerson, Compensate, End, Settle
from amends.core.plan import turns
from amends.core.transitions import SagaStatus
from amends.core.words.contracts import Contract, Reversibility
from amends.core.words.outcomes import Failed, Succeeded
from amends.core.words.values import StepId
from tests.core.story import ACT, ALLOW, DENY, DONE, GOES_ON, LOST, PIVOT, READ, Story, contract
from tests.core.test_cost import calls_in

A, B, C, D = map(StepId, "abcd")


class Graph(Story):
    def begins_after(self, step: StepId, *needs: StepId, promised: Contract = ACT) -> Self:
        self.tell(c.DispatchStep(step=step, contract=promised, args={}, digest="", verdict=ALLOW, after=needs))
        return self

    def after(self, step: StepId, *needs: StepId, promised: Contract = ACT) -> Self:
        self.begins_after(step, *needs, promised=promised).ends(step, DONE)
        return self


def diamond() -> Graph:
    return Graph().after(A).after(B, A).after(C, A)


def test_independent_steps_have_their_turn_together_and_what_they_need_after_both() -> None:
    story = diamond().fails()
    assert story.all_due() == (Compensate(C), Compensate(B))
    story.starts_back(B)
    assert story.all_due() == (Compensate(C),)
    story.starts_back(C).ends_back(B)
    assert story.all_due() == (Settle((C,)),)
    story.refuses(c.StartCompensation(step=A, certain=True, verdict=ALLOW), "not the turn of step")
    assert story.ends_back(C).due() == Compensate(A)


def test_nothing_begins_while_an_attempt_that_went_forward_is_on_its_way() -> None:
    story = diamond().begins_after(D, C).fails()
    assert story.all_due() == (Settle((D,)),)
    story.refuses(c.StartCompensation(step=B, certain=True, verdict=ALLOW), "not the turn of step")
    assert story.ends(D, Failed(error="no")).all_due() == (Compensate(C), Compensate(B))


def test_nothing_begins_while_a_second_attempt_is_on_its_way() -> None:
    story = diamond().begins_after(D, C).ends(D, Failed(error="busy"))
    story.later(60).tries(D).fails()
    assert story.all_due() == (Settle((D,)),)


def test_what_only_reads_and_ends_meanwhile_lets_nothing_go_before_its_turn() -> None:
    story = Graph().after(A).begins_after(B, A, promised=READ).after(C, A).fails()
    assert story.all_due() == (Settle((B,)),)
    assert story.ends(B, DONE).due() == Compensate(C)
    assert story.takes_back(C).due() == Compensate(A)


def test_a_step_that_was_not_declared_is_after_all_before_it_and_before_all_since() -> None:
    story = Graph().after(A).after(B)
    story.does(StepId("1"))
    story.after(C).after(D).fails()
    assert story.all_due() == (Compensate(D), Compensate(C))
    story.takes_back(C).takes_back(D)
    assert story.due() == Compensate(StepId("1"))
    assert story.takes_back(StepId("1")).all_due() == (Compensate(B), Compensate(A))


def test_what_a_step_was_declared_to_be_after_waits_for_all_between_them() -> None:
    story = Graph().after(A)
    story.does(StepId("1"))
    assert story.after(C, A).after(D).fails().all_due() == (Compensate(D), Compensate(C))
    assert story.takes_back(C).due() == Compensate(D)
    assert story.takes_back(D).due() == Compensate(StepId("1"))
    assert story.takes_back(StepId("1")).due() == Compensate(A)


def test_a_step_that_was_denied_links_those_on_either_side_of_it() -> None:
    story = Graph().after(A)
    story.tell(c.ProposeStep(step=B, contract=ACT, args={}, digest="", after=(A,))).judges(B, DENY)
    assert story.after(C, B).fails().due() == Compensate(C)
    assert story.takes_back(C).due() == Compensate(A)


def test_what_the_runtime_puts_back_lies_on_what_was_there_and_on_what_it_was_declared_to_be_after() -> None:
    files = contract("act.files", reversibility=Reversibility.REVERSIBLE)
    story = Graph().after(A).after(B, promised=files).after(C, A, promised=files).after(D, promised=files).fails()
    for step in (D, C):
        assert story.due() == Compensate(step)
        story.takes_back(step)
    assert story.all_due() == (Compensate(B), Compensate(A))


def test_what_changed_files_lies_on_what_changed_them_before() -> None:
    story = Graph()
    for step in (A, B, C):
        story.begins_after(step).ends(step, Succeeded(None, layer="" if step == C else f"1:{step}"))
    assert story.fails().all_due() == (Compensate(C), Compensate(B))
    assert story.takes_back(B).all_due() == (Compensate(C), Compensate(A))


def test_an_incident_names_what_waits_for_its_step_and_the_saga_halts_when_nothing_else_is_due() -> None:
    story = diamond().after(D).fails().takes_back(B, Failed(error="gone", fatal=True)).calls_person(B)
    (opened,) = story.facts
    assert isinstance(opened, e.IncidentOpened)
    assert (opened.left, story.phase) == ((B, A), SagaStatus.ROLLING_BACK)
    assert story.all_due() == (Compensate(D), Compensate(C))
    assert story.takes_back(D).takes_back(C).due() == End()
    assert story.comes_to_its_end().phase is SagaStatus.INCIDENT
    assert story.resolves().due() == Compensate(A)


def test_an_incident_does_not_name_what_does_not_wait_for_its_step() -> None:
    story = diamond().fails().takes_back(C, Failed(error="gone", fatal=True)).calls_person(C)
    (opened,) = story.facts
    kind = e.IncidentKind.COMPENSATION_FAILED
    assert opened == e.IncidentOpened(incident=1, kind=kind, step=C, why="it does not work", left=(C, A))


def test_an_incident_names_what_waits_for_its_step_through_others() -> None:
    story = Graph().after(A).after(B, A).after(C, B).after(D).fails()
    assert story.takes_back(C, Failed(error="gone", fatal=True)).calls_person(C).incident.left == (C, B, A)


def test_an_incident_names_what_came_before_the_graph_too() -> None:
    story = Graph()
    story.does(StepId("1"))
    story.after(B).after(C).fails().takes_back(C, Failed(error="gone", fatal=True)).calls_person(C)
    assert story.incident.left == (C, StepId("1"))


def test_what_lands_late_outside_the_graph_waits_for_what_is_in_flight_in_it() -> None:
    story = diamond()
    story.does(D, outcome=Failed(error="no", fatal=True)).fails().starts_back(B).lands(D)
    assert story.due() == Settle((B,))
    assert story.ends_back(B).due() == Compensate(D)


def test_the_last_incident_does_not_name_what_waits_for_another_one_either() -> None:
    """When that other one has been seen to, what waited for it goes back, and nothing should call it left."""
    gone = Failed(error="gone", fatal=True)
    story = diamond().after(D).fails().takes_back(C).takes_back(B, gone).takes_back(D, gone).calls_person(B)
    story.calls_person(D)
    assert story.phase is SagaStatus.INCIDENT
    assert [incident.left for incident in story.saga.open_incidents] == [(B, A), (D,)]
    assert story.resolves(1).due() == Compensate(A)


def test_a_pivot_that_lands_while_the_saga_goes_back_keeps_what_it_came_after_and_nothing_beside_it() -> None:
    story = diamond().begins_after(D, B, promised=PIVOT).ends(D, LOST).fails().lands(D)
    assert [step.id for step in turns(story.saga)] == [D, C]
    story.calls_person(D)
    assert story.incident.left == (D, B, A)
    assert story.takes_back(C).due() == End()


def test_an_incident_at_which_all_of_it_stops_names_also_what_waits_for_another_one() -> None:
    story = diamond().after(D).fails().takes_back(B, Failed(error="gone", fatal=True)).calls_person(B)
    kind = e.IncidentKind.COMPENSATION_TIMED_OUT
    story.tell(c.OpenIncident(kind=kind, step=D, why="too late", stops=True))
    assert [incident.left for incident in story.saga.open_incidents] == [(B, A), (D, C, A)]


def test_past_the_window_what_is_in_flight_is_waited_for_and_then_all_of_it_stops() -> None:
    story = diamond().fails(window_s=60).starts_back(B).later(60)
    assert story.due() == Settle((B,))
    due = diamond().fails(window_s=60).later(60).due()
    assert isinstance(due, CallPerson)
    assert (due.step, due.stops) == (C, True)
    due = story.ends_back(B).due()
    assert isinstance(due, CallPerson)
    assert (due.step, due.stops) == (C, False)


def test_what_lands_late_holds_back_again_what_it_needs() -> None:
    story = diamond().fails().takes_back(B).takes_back(C).lands(C)
    assert [step.id for step in turns(story.saga)] == [C]


def test_what_a_person_has_tried_again_holds_back_again_what_it_needs() -> None:
    story = Graph().after(A).after(B, A, promised=GOES_ON).after(C, A).fails()
    story.takes_back(B, Failed(error="gone", fatal=True)).calls_person(B).takes_back(C)
    assert story.due() == Compensate(A)
    assert story.retries().due() == Compensate(B)
    assert story.takes_back(B).due() == Compensate(A)


def test_after_a_crash_all_that_was_in_flight_is_due_again() -> None:
    story = diamond().fails().starts_back(B).starts_back(C).crashes().later(60)
    assert story.all_due() == (Compensate(C), Compensate(B))


def test_a_compensation_in_a_chain_costs_the_same_however_long_it_is() -> None:
    def cost(many: int) -> int:
        names = [StepId(f"s{number}") for number in range(many)]
        story = Graph()
        for at, name in enumerate(names):
            story.after(name, *names[max(0, at - 1) : at])
        story.fails()
        return calls_in(lambda: story.takes_back(names[-1]))

    assert cost(2000) <= cost(20) * 1.1
