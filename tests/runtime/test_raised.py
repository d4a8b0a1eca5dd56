"""What an exception of somebody's code says beside its words: the line that raised it, and whether it is a mistake."""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import amends
from amends import (
    Abort,
    Asked,
    ChangedSince,
    Done,
    Ended,
    Fatal,
    Happened,
    NotDone,
    NotHappened,
    Retry,
    SagaDefinition,
    Secret,
    Settings,
    StepError,
    Work,
    action,
    saga,
)
from amends.core.events import AttemptFailed, AttemptLost, CompensationFailed, CompensationLost, ProbeUnanswered
from amends.journal.port.journal import Entry
from amends.runtime.drive.exceptions import is_bug, place_of
from tests.runtime.support import World, coordinator

HERE = "tests/runtime/test_raised.py"


def caught(function: Callable[[], object]) -> Exception:
    try:
        function()
    except Exception as exc:  # noqa: BLE001 - it is what is looked at
        return exc
    raise AssertionError("it raised nothing")


def run(definition: SagaDefinition, *args: Any, **options: Any) -> tuple[Ended, tuple[Entry, ...]]:
    async def whole() -> tuple[Ended, tuple[Entry, ...]]:
        async with coordinator(settings=Settings(lease_s=1_000_000, settle_s=1), **options) as opened:
            ended = await opened.run(definition, *args)
            return ended, tuple([entry async for entry in opened.journal.read(ended.id)])

    return asyncio.run(whole())


def asking(*actions: amends.Action[..., Any]) -> SagaDefinition:
    @saga("test.raised")
    async def line(s: Work) -> list[Any]:
        return [await s.do(each) for each in actions]

    return line


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """What was logged of users' exceptions at WARNING, with its tracebacks."""
    caplog.set_level(logging.DEBUG)

    def told() -> list[str]:
        found = [one for one in caplog.records if one.name == "amends.raised" and one.levelno == logging.WARNING]
        return [f"{one.getMessage()}\n{one.exc_text}" for one in found]

    return told


# -- the place --------------------------------------------------------------------------------------------------------


def raises_here() -> None:
    raise RuntimeError("here")


def test_the_place_is_a_module_path_a_line_and_a_function() -> None:
    line = raises_here.__code__.co_firstlineno + 1
    assert place_of(caught(raises_here)) == f"{HERE}:{line}, in raises_here"


def test_it_is_the_line_that_calls_a_library_and_not_the_library() -> None:
    def reads() -> object:
        return json.loads("{")

    assert place_of(caught(reads)).endswith(f":{reads.__code__.co_firstlineno + 1}, in reads")


def test_where_nobody_else_is_to_be_seen_it_is_the_library() -> None:
    exc = caught(raises_here)
    exc.__traceback__ = caught(lambda: json.loads("{")).__traceback__
    assert exc.__traceback__ is not None
    while exc.__traceback__.tb_next is not None:
        exc.__traceback__ = exc.__traceback__.tb_next
    assert place_of(exc).startswith("json/decoder.py:")


def test_what_only_amends_raised_has_no_place() -> None:
    exc = caught(lambda: amends.action("No Topic"))
    while exc.__traceback__ is not None and HERE in exc.__traceback__.tb_frame.f_code.co_filename:
        exc.__traceback__ = exc.__traceback__.tb_next
    assert place_of(exc) == ""
    assert place_of(KeyError("never raised")) == ""


def test_of_several_at_once_it_is_the_first_one_s() -> None:
    def whole() -> None:
        raise ExceptionGroup("several", [caught(raises_here)])

    assert place_of(caught(whole)).endswith(", in raises_here")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    made = tmp_path / "deep" / "wares" / "inner"
    made.mkdir(parents=True)
    (made.parent / "__init__.py").touch()
    (made / "__init__.py").write_text("def fails(): raise ValueError('x')\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "deep"), *sys.path])
    yield importlib.import_module("wares.inner")
    for name in ("wares.inner", "wares"):
        sys.modules.pop(name)


def test_no_path_of_a_whole_disk_is_told(package: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    exc = caught(package.fails)
    assert place_of(exc).endswith(", in fails")
    own = place_of(exc)
    assert own == "wares/inner/__init__.py:1, in fails"
    monkeypatch.chdir("/")
    assert place_of(exc) == own


# -- mistakes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exc", "mistake"),
    [
        (TypeError(), True),
        (NameError(), True),
        (UnboundLocalError(), True),
        (AttributeError(), True),
        (KeyError(), True),
        (IndexError(), True),
        (ImportError(), True),
        (AssertionError(), True),
        (NotImplementedError(), True),
        (ZeroDivisionError(), True),
        (RecursionError(), True),
        (SyntaxError(), True),
        (ValueError(), False),
        (json.JSONDecodeError("cut off", "{", 1), False),
        (UnicodeDecodeError("utf-8", b"x", 0, 1, "cut off"), False),
        (RuntimeError(), False),
        (ConnectionError(), False),
        (TimeoutError(), False),
        (OSError(), False),
        (MemoryError(), False),
        (ExceptionGroup("all", [TypeError(), ExceptionGroup("in", [KeyError()])]), True),
        (ExceptionGroup("one", [TypeError(), OSError()]), False),
    ],
)
def test_mistakes_are_a_closed_list(exc: BaseException, mistake: bool) -> None:
    assert is_bug(exc) is mistake


PROMISES = [{"read_only": True}, {"atomic": True}, {"idempotent": True}]


@pytest.mark.parametrize("promise", PROMISES)
def test_a_mistake_is_made_once_though_it_could_be_repeated(promise: dict[str, Any]) -> None:
    world = World()
    ended, _ = run(asking(world.action("a", *[KeyError("x")] * 9, **promise)))
    assert world.seen.count("a") == 1
    assert ended.status == "rolled_back"
    assert ended.why.startswith("test.a (step 1): KeyError: 'x' (tests/runtime/support.py:")


@pytest.mark.parametrize("promise", PROMISES)
def test_it_is_repeated_where_its_author_says_how_often(promise: dict[str, Any]) -> None:
    world = World()
    run(asking(world.action("a", *[KeyError("x")] * 9, retries=3, **promise)))
    assert world.seen.count("a") == 3


def test_what_the_world_does_wrong_is_repeated_as_ever() -> None:
    world = World()
    ended, _ = run(asking(world.action("a", *[ConnectionError("down")] * 9, read_only=True)))
    assert (ended.status, world.seen) == ("completed", ["a"] * 10)


@pytest.mark.parametrize(
    ("promise", "kind", "undone"),
    [({}, AttemptLost, ["una?"]), ({"atomic": True}, AttemptFailed, []), ({"idempotent": True}, AttemptLost, ["una?"])],
)
def test_the_outcome_of_a_mistake_is_as_honest_as_ever(promise: dict[str, Any], kind: type, undone: list[str]) -> None:
    world = World()
    _, entries = run(asking(world.action("a", TypeError("x"), **promise)))
    (ended,) = (one.event for one in entries if isinstance(one.event, (AttemptFailed, AttemptLost)))
    assert isinstance(ended, kind)
    assert (ended.retry_at, ended.fatal) == (None, False)
    assert world.seen == ["a", *undone]


def test_a_lost_mistake_is_asked_about_and_the_work_goes_on_where_it_had_happened() -> None:
    world = World()
    ended, _ = run(asking(world.action("a", KeyError("id"), probe=[Happened("T-1")])))
    assert (ended.status, ended.result, world.seen) == ("completed", ["T-1"], ["a", "ask a"])


@pytest.mark.parametrize("answers", [[NotHappened()], [ConnectionError("down")] * 3])
def test_it_is_not_repeated_whatever_the_probe_says(answers: list[Any]) -> None:
    world = World()
    ended, _ = run(asking(world.action("a", *[KeyError("id")] * 9, probe=answers, idempotent=True)))
    assert ended.status == "rolled_back"
    assert world.seen.count("a") == 1


def test_a_mistake_in_a_compensation_calls_a_person_at_once() -> None:
    world = World()
    ended, entries = run(asking(world.action("a", undo=[KeyError("x")] * 9), world.action("b", Fatal("stop"))))
    assert ended.status == "incident"
    assert world.seen.count("una") == 1
    (lost,) = (one.event for one in entries if isinstance(one.event, CompensationLost))
    assert lost.where.startswith("tests/runtime/support.py:")
    assert f"KeyError: 'x' ({lost.where})" in ended.why


def test_but_not_where_its_author_says_how_often_it_is_tried() -> None:
    world = World()
    failing = world.action("a", undo=[KeyError("x")] * 2, compensation_retries=4)
    ended, _ = run(asking(failing, world.action("b", Fatal("stop"))))
    assert (ended.status, world.seen.count("una")) == ("rolled_back", 3)


# -- on record, and in the log ----------------------------------------------------------------------------------------


def test_what_was_said_on_purpose_stays_as_it_was_written(warned: Callable[[], list[str]]) -> None:
    world = World()
    for said in (Fatal("declined", happened=False), NotDone("busy"), Retry("later", after=0.01)):
        ended, entries = run(asking(world.action("a", said, retries=1)))
        assert ended.why == f"test.a (step 1): {said}"
        assert [one.event.where for one in entries if isinstance(one.event, AttemptFailed)] == [""]
    assert warned() == []


def test_the_words_that_are_compared_and_told_to_models_have_no_place_in_them() -> None:
    heard: list[tuple[str, ...]] = []

    @action("test.model", read_only=True, retries=2)
    def model() -> str:
        heard.append(amends.reasons())
        raise ConnectionError("down")

    _, entries = run(asking(model))
    failed = [one.event for one in entries if isinstance(one.event, AttemptFailed)]
    assert [one.error for one in failed] == ["ConnectionError: down"] * 2
    assert {one.where for one in failed} == {f"{HERE}:{model.parts.function.__code__.co_firstlineno + 3}, in model"}
    assert heard == [(), ("ConnectionError: down",)]


def test_a_function_that_catches_it_is_told_both() -> None:
    world, caught_ones = World(), list[StepError]()

    @saga("test.catches")
    async def catches(s: Work) -> None:
        try:
            await s.do(world.action("a", KeyError("x")))
        except StepError as exc:
            caught_ones.append(exc)

    run(catches)
    (exc,) = caught_ones
    assert exc.reason == "KeyError: 'x'"
    assert exc.where.endswith(", in act")
    assert str(exc) == f"test.a (step 1): KeyError: 'x' ({exc.where})"


def test_a_traceback_is_logged_once_for_each_step_and_place(warned: Callable[[], list[str]]) -> None:
    world = World()
    flaky = [ConnectionError("down")] * 3
    ended, _ = run(asking(world.action("a", *flaky, read_only=True), world.action("b", OSError("x"), atomic=True)))
    assert ended.status == "completed"
    first, second = warned()
    assert first.startswith(f"saga {ended.id}: step 1 (test.a) raised ConnectionError: down (tests/runtime/support.py:")
    assert second.startswith(f"saga {ended.id}: step 2 (test.b) raised OSError: x (tests/runtime/support.py:")
    assert "Traceback (most recent call last):\n  File " in first
    assert "    raise failure\n" in first
    assert "executor.py" not in first


def test_the_function_s_own_exception_is_seen_with_its_place(warned: Callable[[], list[str]]) -> None:
    @saga("test.mistaken")
    async def mistaken(s: Work) -> None:
        await asyncio.sleep(0)
        raise_in_branch()

    def raise_in_branch() -> None:
        raise KeyError("nope")

    ended, _ = run(mistaken)
    assert ended.why == f"KeyError: 'nope' ({HERE}:{raise_in_branch.__code__.co_firstlineno + 1}, in raise_in_branch)"
    (said,) = warned()
    assert said.startswith(f"saga {ended.id}: its function raised KeyError: 'nope' (")
    assert ", in mistaken" in said


def test_a_branch_s_exception_is_told_with_its_own_words_and_traceback(warned: Callable[[], list[str]]) -> None:
    async def branch() -> None:
        raise KeyError("nope")

    @saga("test.branches")
    async def branches(s: Work) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(branch())

    ended, _ = run(branches)
    assert "; KeyError: 'nope' (" in ended.why
    assert ended.why.endswith(", in branch)")
    (said,) = warned()
    assert '  |     raise KeyError("nope")' in said


def test_giving_up_is_no_mistake(warned: Callable[[], list[str]]) -> None:
    @saga("test.gives.up")
    async def gives_up(s: Work) -> None:
        raise Abort("enough")

    ended, _ = run(gives_up)
    assert (ended.why, warned()) == ("enough", [])


def test_every_part_of_an_action_has_its_place_and_its_traceback(warned: Callable[[], list[str]]) -> None:
    seen: list[str] = []

    @action("test.parts", retries=1)
    def act(n: int = 0) -> str:
        seen.append("act")
        if len(seen) == 1:
            raise ConnectionError("lost")
        return "done"

    @act.probe
    def ask(asked: Asked) -> Happened:
        if "ask" not in seen:
            seen.append("ask")
            raise LookupError("probe")
        return Happened("done")

    @act.reread
    def look(done: Done) -> None:
        raise LookupError("reread")

    @act.compensation
    def undo(done: Done) -> None:
        raise LookupError("compensation")

    @action("test.before")
    def other() -> None: ...

    @other.before
    def image(asked: Asked) -> None:
        raise LookupError("before")

    @other.compensation
    def unother(done: Done) -> None: ...

    ended, entries = run(asking(act, other))
    assert ended.status == "incident"
    places = {
        type(one.event).__name__: one.event.where.rpartition(", in ")[2]
        for one in entries
        if isinstance(one.event, (AttemptFailed, AttemptLost, ProbeUnanswered, CompensationFailed, CompensationLost))
    }
    assert places == {
        "AttemptLost": "act",
        "ProbeUnanswered": "ask",
        "AttemptFailed": "image",
        "CompensationLost": "undo",
    }
    told = [one.partition(": ")[2].partition(" raised")[0] for one in warned()]
    assert told == [
        "step 1 (test.parts)",
        "the probe of step 1 (test.parts)",
        "the before-image of step 2 (test.before)",
        "the compensation of step 1 (test.parts)",
    ]


def test_a_validation_and_an_assertion_have_theirs(warned: Callable[[], list[str]]) -> None:
    @action("test.plan", read_only=True)
    def plan() -> dict[str, int]:
        return {}

    def look(result: dict[str, int]) -> None:
        assert result["town"]

    plan.validate(look, tries=1)
    ended, _ = run(asking(plan))
    assert f"flawed: KeyError: 'town' ({HERE}:" in ended.why

    def paid(result: Any) -> bool:
        return bool(result["paid"])

    @saga("test.verified", verify=[paid])
    async def verified(s: Work) -> dict[str, int]:
        return {}

    ended, _ = run(verified)
    assert "verification paid failed: KeyError: 'paid' (" in ended.why
    assert ended.why.endswith(", in paid)")
    assert [", in look" in one or ", in paid" in one for one in warned()] == [True, True]


def test_no_secret_is_in_a_message_a_place_or_a_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    short, long = "z-9k!", "a-long-token-of-the-bank"

    @action("test.leaks", read_only=True)
    def leaks(token: Secret, pin: Secret) -> None:
        try:
            raise ConnectionError(f"<{token.reveal()}> <{pin.reveal()}>")
        except ConnectionError as exc:
            noted = LookupError(f"<{token.reveal()}> <{pin.reveal()}>" + "x" * 5000)
            noted.add_note(f"<{pin.reveal()}>")
            raise noted from exc

    @saga("test.leaking")
    async def leaking(s: Work) -> None:
        await s.do(leaks, Secret(long), Secret(short))

    ended, entries = run(leaking)
    assert ended.status == "rolled_back"
    everything = "\n".join(
        [
            ended.why,
            *(repr(one.event) for one in entries),
            *(f"{one.getMessage()}{one.exc_text}" for one in caplog.records),
        ]
    )
    assert "<[secret]> <[secret]>" in everything
    assert long not in everything
    assert short not in everything


def test_an_exception_that_defends_itself_ends_its_attempt_all_the_same(warned: Callable[[], list[str]]) -> None:
    class Odd(Exception):  # noqa: N818 - somebody else's
        def __str__(self) -> str:
            raise SystemExit

    world = World()
    ended, _ = run(asking(world.action("a", Odd(), read_only=True, retries=1)))
    assert ended.status == "rolled_back"
    assert ended.why.startswith("test.a (step 1): Odd, which cannot be read: SystemExit (tests/runtime/support.py:")
    (said,) = warned()
    assert "raised what cannot be logged" in said


def test_it_is_no_mistake_that_someone_changed_it_since() -> None:
    world = World()
    changed = world.action("a", undo=[ChangedSince("it has left")])
    ended, entries = run(asking(changed, world.action("b", Fatal("stop", happened=False))))
    (failed,) = (one.event for one in entries if isinstance(one.event, CompensationFailed))
    assert (ended.why, failed.where) == ("it has left", "")


def test_a_fatal_failure_of_what_changes_nothing_is_not_lost() -> None:
    world = World()
    _, entries = run(asking(world.action("a", Fatal("no such town"), read_only=True)))
    (failed,) = (one.event for one in entries if isinstance(one.event, (AttemptFailed, AttemptLost)))
    assert isinstance(failed, AttemptFailed)
    assert (failed.fatal, failed.error) == (True, "no such town")
