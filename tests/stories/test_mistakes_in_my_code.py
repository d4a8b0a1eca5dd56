"""My own code has a mistake in it: I am told at once, with file and line, and see the traceback if I ask for it."""

from pathlib import Path
from typing import cast

import pytest

from tests.cli.shell import Shell

BUGGY = """\
from amends import Secret, Work, action, saga


@action("b.read", read_only=True)
def read(x: int) -> int:
    return {}["nope"]


@action("b.flaky", read_only=True, retries=3)
def flaky(x: int) -> int:
    raise ConnectionError("down")


@action("b.leaks", read_only=True)
def leaks(token: Secret) -> None:
    raise LookupError(f"no <{token.reveal()}>")


@action("b.make")
def make(x: int) -> str:
    return "made"


@make.compensation
def unmake(done) -> None:
    done.nothing


@saga("b.reads")
async def reads(s: Work, x: int) -> int:
    return await s.do(read, x)


@saga("b.waits")
async def waits(s: Work, x: int) -> int:
    return await s.do(flaky, x)


@saga("b.leaking")
async def leaking(s: Work) -> None:
    await s.do(leaks, Secret("a-long-token-of-the-bank"))


@saga("b.function")
async def function(s: Work, x: int) -> None:
    await s.do(make, x)
    return x.nothing
"""

KEYED = "KeyError: 'nope' (buggy.py:6, in read)"


@pytest.fixture
def amends(tmp_path: Path) -> Shell:
    (tmp_path / "buggy.py").write_text(BUGGY)
    return Shell(tmp_path)


def test_a_mistake_is_told_at_once_with_its_line(amends: Shell) -> None:
    said = amends("run", "buggy:reads", "--input", '{"x": 1}', "--id", "r")
    lines = [line.split(None, 3)[-1] for line in said.out.splitlines()]
    assert said.code == 3
    assert sum("(attempt " in line for line in lines) == 1
    assert said.out.endswith(f"saga r rolled back: b.read: {KEYED}\n")
    assert f"failed: {KEYED}\n" in said.out
    assert said.err == "amends: 1 traceback not shown; --debug shows each as it happens\n"


def test_debug_shows_the_traceback_as_it_happens(amends: Shell) -> None:
    said = amends("run", "buggy:reads", "--input", '{"x": 1}', "--id", "r", "--debug")
    assert said.err.splitlines() == [
        f"WARNING amends.raised: saga r: step 1 (b.read) raised {KEYED}",
        "Traceback (most recent call last):",
        f'  File "{amends.place / "buggy.py"}", line 6, in read',
        '    return {}["nope"]',
        "KeyError: 'nope'",
    ]


def test_with_debug_every_attempt_is_shown_and_else_each_step_counts_once(amends: Shell) -> None:
    said = amends("run", "buggy:waits", "--input", '{"x": 1}', "--id", "w", "--debug")
    assert said.err.count("Traceback") == 3
    assert said.err.count("WARNING") == 1
    assert said.out.count("ConnectionError: down (buggy.py:11, in flaky) (again in ") == 2
    again = amends("run", "buggy:waits", "--input", '{"x": 1}', "--id", "w2")
    assert again.err == "amends: 1 traceback not shown; --debug shows each as it happens\n"


def test_whoever_configures_logging_has_it_in_their_log(amends: Shell) -> None:
    configured = f'import logging\nlogging.basicConfig(format="%(levelname)s|%(message)s")\n{BUGGY}'
    (amends.place / "buggy.py").write_text(configured)
    said = amends("run", "buggy:reads", "--input", '{"x": 1}', "--id", "r")
    assert said.err.startswith("WARNING|saga r: step 1 (b.read) raised KeyError: 'nope' (buggy.py:8, in read)\nTrace")
    assert "not shown" not in said.err


def test_a_program_of_mine_has_the_traceback_on_stderr_and_the_line_in_why(amends: Shell) -> None:
    program = "import logging, amends, buggy\nended = amends.run(buggy.reads, 1, id='r')\nprint(ended.why)\n"
    (amends.place / "mine.py").write_text(program)
    said = amends.python("mine.py")
    assert said.out == f"b.read (step 1): {KEYED}\n"
    assert '    return {}["nope"]\n' in said.err


def test_no_secret_is_shown_with_or_without_debug(amends: Shell) -> None:
    for more in ((), ("--debug",)):
        said = amends("run", "buggy:leaking", *more)
        shown = said.out + said.err
        assert "LookupError: no <[secret]> (buggy.py:16, in leaks)" in shown
        assert "a-long-token" not in shown


def test_the_function_and_a_compensation_have_their_lines_too(amends: Shell) -> None:
    said = amends("run", "buggy:function", "--input", '{"x": 1}', "--id", "f", "--debug")
    assert said.code == 4
    assert (
        "rollback began: AttributeError: 'int' object has no attribute 'nothing' (buggy.py:47, in function)" in said.out
    )
    assert said.out.count("compensation began") == 1
    lost = "AttributeError: 'Done' object has no attribute 'nothing' (buggy.py:26, in unmake)"
    assert f"compensation lost: {lost}\n" in said.out
    assert f"saga f incident: {lost}\n" in said.out
    assert said.err.count("Traceback") == 2
    assert lost in amends.here("incident", "show", "f/1").out


def test_json_has_the_place_beside_the_words(amends: Shell) -> None:
    said = amends("run", "buggy:reads", "--input", '{"x": 1}', "--json")
    (failed,) = (one for one in said.of_type("entry") if one["name"] == "attempt.failed/1")
    body = cast("dict[str, object]", failed["body"])
    assert (body["error"], body["where"]) == ("KeyError: 'nope'", "buggy.py:6, in read")
