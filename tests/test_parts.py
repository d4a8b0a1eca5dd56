"""`make test` and `make test-all` are all of the tests together, and none is in both."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.parts import PARTS, is_played, number_of, only_sampled, sampled
from tests.simulation.test_simulation import CHUNK, SAMPLED, SCHEDULES

ROOT = Path(__file__).resolve().parent.parent
CAMPAIGNS = ("tests/crash", "tests/simulation", "tests/pairs")


def collected(part: str, *args: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *args]
    env = {**os.environ, "AMENDS_TESTS": part}
    env.pop("AMENDS_SOAK", None)
    return subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, check=False)


def names(part: str) -> list[str]:
    return [line for line in collected(part, *CAMPAIGNS).stdout.splitlines() if "::" in line]


def test_both_parts_are_the_whole_and_share_nothing() -> None:
    sample, others, everything = (names(part) for part in PARTS)
    assert sorted(sample + others) == sorted(everything)
    assert len(set(everything)) == len(everything)
    assert 3 * len(sample) > len(others) > len(sample)
    for campaign in CAMPAIGNS:
        assert any(name.startswith(campaign) for name in sample)
        assert any(name.startswith(campaign) for name in others)


def test_all_schedules_are_played_by_one_part_or_the_other() -> None:
    assert SAMPLED % CHUNK == SCHEDULES % CHUNK == 0
    assert 0 < SAMPLED < SCHEDULES


def test_a_part_that_there_is_not_is_refused() -> None:
    done = collected("half", "tests/test_clock.py")
    assert done.returncode != 0
    assert "AMENDS_TESTS is 'half': it has to be one of sample, rest, all" in done.stdout + done.stderr


@pytest.mark.parametrize("in_rest", [False, True])
def test_what_is_in_one_part_is_not_in_the_other(in_rest: bool) -> None:
    assert is_played(in_rest=in_rest, part="sample") != is_played(in_rest=in_rest, part="rest")
    assert is_played(in_rest=in_rest, part="all")


def test_a_name_says_by_itself_where_it_belongs() -> None:
    assert number_of("a", "b") == 133_447_708
    marked = [only_sampled(str(number), each=3) for number in range(3_000)]
    assert 900 < marked.count(()) < 1_100
    cases = sampled(["a", "b", "c", "d"], each=3)
    assert [case for case in cases if isinstance(case, str)] == ["a", "d"]
    assert [case.values for case in cases if not isinstance(case, str)] == [("b",), ("c",)]


def test_what_has_to_pass_before_a_change_lands_is_both_parts() -> None:
    made = re.findall(r"^timed make (.+)$", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.MULTILINE)
    assert {"check", "test", "test-all"} <= set(made)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^test: .*\n\t@\$\(PYTEST\) \$\(ARGS\)$", makefile, re.MULTILINE)
    assert re.search(r"^test-all: .*\n\t@AMENDS_TESTS=rest \$\(PYTEST\) \$\(ARGS\)$", makefile, re.MULTILINE)
