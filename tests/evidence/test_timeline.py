"""A person reads what happened: every event has its words, nothing that came from outside can harm the reader."""

from collections.abc import Sequence
from typing import cast

import pytest
from hypothesis import given, strategies as st

from amends.core import events as e
from amends.core.words.contracts import Contract, Topic
from amends.core.words.values import Json, SagaId, StepId
from amends.evidence.story.commands import changeset_line
from amends.evidence.story.timeline import Direction, Line, Timeline, Tone, span, timeline, visible
from amends.journal.codec import encode
from amends.journal.port.journal import Entry
from amends.secrets import Secret, mask
from amends.testing.journal_suite.samples import EVERY_EVENT
from amends.text import LONGEST_ARGS, LONGEST_REASON, spelled, spelled_args

SAGA = SagaId("s-1")
FLIGHT, HOTEL = StepId("1"), StepId("1.1/1")
NOON = 43_200_000


def entries(events: Sequence[e.Event]) -> list[Entry]:
    """One a second."""
    return [
        Entry(saga=SAGA, number=number, at=NOON + 1000 * number, name=wire.name, body=wire.body, hash=b"", event=event)
        for number, event in enumerate(events, start=1)
        for wire in [encode(event)]
    ]


def dispatched(step: StepId, topic: str, args: Json, rule: str = "builtin-allow") -> e.ActionDispatched:
    contract = Contract(topic=Topic(topic))
    return e.ActionDispatched(
        step=step, topic=Topic(topic), version=1, args=args, digest="", rule=rule, policy="", key="", contract=contract
    )


def proposed(step: StepId, topic: str, args: Json) -> e.StepProposed:
    return e.StepProposed(
        step=step, topic=Topic(topic), version=1, args=args, digest="", contract=Contract(topic=Topic(topic))
    )


def texts(*events: e.Event) -> list[str]:
    return [line.text for line in timeline(entries(events))]


def text_of_args(args: Json) -> str:
    (text,) = texts(dispatched(FLIGHT, "flight.book", args))
    return text


def test_a_step_that_succeeds_is_two_lines_with_its_arguments_and_its_result() -> None:
    told = timeline(
        entries(
            [
                dispatched(FLIGHT, "payments.charge", {"order": "o1", "cents": 900}),
                e.AttemptSucceeded(step=FLIGHT, attempt=1, result="F-7"),
            ]
        )
    )
    assert told == (
        Line(
            at=NOON + 1000,
            entry=1,
            direction=Direction.FORWARD,
            step="1",
            topic="payments.charge",
            text="charge order=o1 cents=900 (attempt 1)",
            tone=Tone.PLAIN,
            who="system:runtime",
        ),
        Line(
            at=NOON + 2000,
            entry=2,
            direction=Direction.FORWARD,
            step="1",
            topic="payments.charge",
            text="succeeded: F-7",
            tone=Tone.GOOD,
            who="system:runtime",
        ),
    )


def test_a_step_that_was_proposed_and_judged_before_its_attempt_reads_the_same() -> None:
    events = (
        proposed(FLIGHT, "payments.charge", {"order": "o1"}),
        e.ActionAllowed(step=FLIGHT, rule="builtin-allow", policy=""),
        e.AttemptStarted(step=FLIGHT, attempt=1, key=""),
    )
    assert texts(*events) == ["charge order=o1 (attempt 1)"]


def test_a_rule_that_somebody_wrote_is_named() -> None:
    written = dispatched(FLIGHT, "flight.book", {}, rule="at-most-20-a-minute")
    assert texts(written) == ["book (attempt 1, allowed by at-most-20-a-minute)"]


def test_a_step_is_shown_by_its_id_wherever_it_is_spoken_of() -> None:
    story: list[e.Event] = [
        dispatched(FLIGHT, "flight.book", {}),
        dispatched(HOTEL, "hotel.book", {}),
        e.AttemptLost(step=HOTEL, attempt=1, error="no answer in 10 s", fatal=False, retry_at=None),
        e.RollbackStarted(
            cause=e.Cause.LOST, why="hotel.book (step 1.1/1): lost", step=HOTEL, by="system:runtime", deadline_at=0
        ),
        e.CompensationStarted(step=HOTEL, attempt=1, key="", certain=False, rule="", policy=""),
        e.IncidentOpened(
            incident=1, kind=e.IncidentKind.COMPENSATION_FAILED, step=HOTEL, why="no", left=(HOTEL, FLIGHT)
        ),
    ]
    told = timeline(entries(story))
    assert [(line.direction, line.step) for line in told] == [
        ("forward", FLIGHT),
        ("forward", HOTEL),
        ("forward", HOTEL),
        ("saga", None),
        ("back", HOTEL),
        ("person", HOTEL),
    ]
    assert [line.text for line in told[2:]] == [
        "lost: no answer in 10 s",
        "rollback began: hotel.book (step 1.1/1): lost",
        "compensation began (attempt 1, uncertain whether it happened)",
        "incident 1 opened: compensation failed: no; left: steps 1.1/1, 1",
    ]


def test_when_it_is_tried_again_is_told_by_how_long_that_is() -> None:
    failed = e.AttemptFailed(step=FLIGHT, attempt=1, error="busy", fatal=False, retry_at=NOON + 2000 + 1500)
    assert texts(dispatched(FLIGHT, "flight.book", {}), failed)[1] == "failed: busy (again in 1.5 s)"


def test_who_asked_for_a_rollback_is_named_unless_it_was_the_runtime() -> None:
    asked = e.RollbackStarted(cause=e.Cause.CANCELLED, why="enough", step=None, by="person:ann", deadline_at=0)
    assert texts(asked) == ["rollback began (asked for by person:ann): enough"]


@pytest.mark.parametrize("event", EVERY_EVENT, ids=lambda event: type(event).__name__)
def test_every_event_is_one_line_or_none_and_needs_no_other(event: e.Event) -> None:
    told = timeline(entries([event]))
    is_quiet = isinstance(event, e.StepProposed | e.ActionAllowed)
    assert len(told) == (0 if is_quiet else 1)
    for line in told:
        assert line.text
        assert line.text.isprintable()
        assert len(line.text) < 500


def test_entry_by_entry_it_is_the_same_story() -> None:
    story = entries(EVERY_EVENT)
    told = Timeline()
    assert tuple(line for entry in story if (line := told.line(entry)) is not None) == timeline(story)


def test_a_changeset_is_shown_as_the_trees_that_it_is_of() -> None:
    files: Json = {"$files": "01k-abc", "roots": ["/srv/shop", "/srv/docs/"]}
    assert spelled_args({"files": files, "n": 1}) == "files=shop, docs n=1"
    assert spelled({"$files": "01k-abc"}) == "01k-abc"
    review: Json = {"changed_files": 1, "changed_lines": 2, "diff": "-a+b"}
    assert changeset_line(review) == "1 file, 2 lines"
    assert changeset_line({"landed": True, "applied": ["a", "b"], "merged": ["b"]}) == (
        "2 paths landed, 1 of them merged with what others did"
    )
    assert changeset_line({"files": files, "child": "p~2", "branch": files}) == "what child p~2 made"
    assert (
        changeset_line({"layer": 2, "applied": ["a"], "merged": ["a"]})
        == "1 path, 1 of them merged with what the saga has"
    )
    assert changeset_line({"anything": "else"}) is None


def test_a_secret_is_the_word_secret_wherever_it_stands() -> None:
    masked = mask({"token": Secret("hunter2"), "deep": [{"er": Secret.env("NAME")}], "none": 1}, "salt")
    text = text_of_args(cast("Json", masked))
    assert text == 'book token=secret deep=[{"er": secret}] none=1 (attempt 1)'


@pytest.mark.parametrize(
    ("harmful", "shown"),
    [
        ("\x1b[2J", '"\\x1b[2J"'),
        ("a\nb\tc\rd", '"a\\nb\\tc\\rd"'),
        ("\u202egpj.exe", '"\\u202egpj.exe"'),
        ("zero\u200bwidth", '"zero\\u200bwidth"'),
        ("\u2028", '"\\u2028"'),
        ("\x00\x7f\x9b", '"\\x00\\x7f\\x9b"'),
        ('say "hi" \\', '"say \\"hi\\" \\\\"'),
        ("two words", '"two words"'),
        ("", '""'),
        ("plain-word_1.2:3/4@5", "plain-word_1.2:3/4@5"),
        ("日本 é 😀", '"日本 é 😀"'),
        ("true", "true"),
    ],
)
def test_what_a_terminal_would_act_upon_is_shown_as_its_escape(harmful: str, shown: str) -> None:
    assert text_of_args({"x": harmful}) == f"book x={shown} (attempt 1)"


def test_the_name_of_an_argument_cannot_harm_either() -> None:
    assert text_of_args({"a\x1b[31m": 1}) == "book a\\x1b[31m=1 (attempt 1)"


@pytest.mark.parametrize("text", ["x" * 10**6, "\u202e" * 10**6, ["x" * 999] * 999, {"k" * 99: 1}, list(range(9999))])
def test_a_large_value_is_cut_and_says_so(text: Json) -> None:
    told = text_of_args({"big": text, "after": 1})
    assert "…" in told
    assert "after=1" in told
    assert len(told) < 100


def test_many_arguments_are_cut_between_two_of_them() -> None:
    told = text_of_args({f"argument_{number}": number for number in range(1000)})
    assert len(told) <= LONGEST_ARGS + len("book … (attempt 1)")
    assert told.endswith("… (attempt 1)")


def test_an_error_of_many_lines_is_told_by_its_first_and_has_some_more_below() -> None:
    lost = e.AttemptLost(step=FLIGHT, attempt=1, error="first\n" + "\x1b[2Jmore\n" * 1000, fatal=True, retry_at=None)
    (line,) = timeline(entries((lost,)))
    assert line.text == "lost, and not tried again: first"
    assert line.more == (*["\\x1b[2Jmore"] * 20, "… 980 more lines")


def test_an_error_of_any_length_fits_on_a_line() -> None:
    lost = e.AttemptLost(step=FLIGHT, attempt=1, error="very long\t" * 1000, fatal=True, retry_at=None)
    (text,) = texts(lost)
    assert text.startswith("lost, and not tried again: very long\\tvery long")
    assert text.endswith("…")
    assert len(text) < LONGEST_REASON + 50


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
SCALARS = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(0, 1) | TEXTS
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=9) | st.dictionaries(TEXTS, inner, max_size=9), max_leaves=9
)


@given(st.dictionaries(TEXTS, JSON, max_size=9))
def test_whatever_the_arguments_the_line_is_one_printable_line(args: dict[str, Json]) -> None:
    text = text_of_args(args)
    assert text.isprintable()
    assert len(text) <= LONGEST_ARGS + len("book … (attempt 1)")


@given(st.text(), st.integers(1, 50))
def test_a_text_made_visible_is_printable_and_no_longer_than_asked(text: str, longest: int) -> None:
    shown = visible(text, longest)
    assert shown.isprintable()
    assert len(shown) <= longest + 1
    if text.isprintable() and len(text) <= longest:
        assert shown == text


@pytest.mark.parametrize(
    ("milliseconds", "said"),
    [
        (0, "0 ms"),
        (-5, "0 ms"),
        (999, "999 ms"),
        (1500, "1.5 s"),
        (60_000, "60 s"),
        (118_000, "118 s"),
        (119_900, "2 min"),
        (180_000, "3 min"),
        (7_100_000, "118 min"),
        (7_199_900, "2 h"),
        (7_200_000, "2 h"),
        (259_200_000, "3 d"),
    ],
)
def test_a_duration_is_said_in_the_unit_that_suits_it(milliseconds: int, said: str) -> None:
    assert span(milliseconds) == said
