"""The model of leases, fences and rollbacks holds in every order of events; without any one mechanism it breaks."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.model.checker import ABLATIONS, MODEL, checked, lacking
from tests.parts import sampled

needs_spin = pytest.mark.usefixtures("spin")


@pytest.fixture
def spin() -> None:
    """The model checker, which nobody installs unasked. Where everything has to be tried, it has to be there."""
    missing = lacking()
    if missing is not None and os.environ.get("CI"):
        pytest.fail(f"CI is set, and leaves nothing out: {missing}")
    if missing is not None:
        pytest.skip(missing)


@needs_spin
def test_two_workers_with_leases_that_end_at_any_moment(tmp_path: Path) -> None:
    found = checked(tmp_path, workers=2, steps=2, expiries=2, deaths=1)
    assert (found.broken, found.is_whole) == (None, True)
    assert found.states > 100_000


@needs_spin
@pytest.mark.parametrize(("switch", "broken"), sampled(ABLATIONS.items(), each=3))
def test_without_one_mechanism_it_breaks(switch: str, broken: str, tmp_path: Path) -> None:
    assert checked(tmp_path, switch).broken == broken


@needs_spin
def test_a_replaced_worker_that_calls_and_dies_is_covered_only_by_tombstones(tmp_path: Path) -> None:
    (tmp_path / "without").mkdir()
    (tmp_path / "with").mkdir()
    assert checked(tmp_path / "without", "ZOMBIES_DIE").broken == "ended"
    assert checked(tmp_path / "with", "ZOMBIES_DIE", "TOMBSTONE").broken is None


def test_every_switch_of_the_model_is_tried() -> None:
    assert set(re.findall(r"-D(NO_\w+)", MODEL.read_text(encoding="utf-8"))) == set(ABLATIONS)


@pytest.mark.parametrize(("ci", "outcome"), [("", "skipped"), ("true", "error")])
def test_without_the_model_checker_its_tests_are_left_out_and_say_so_but_fail_in_ci(ci: str, outcome: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", __file__, "-k", "two_workers"],
        env={**os.environ, "PATH": "/nowhere", "CI": ci},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"1 {outcome}" in done.stdout, done.stdout
    assert ("left out: 1 of tests/model: spin and gcc not installed; as root, `make spin`" in done.stdout) == (not ci)
    assert ("CI is set, and leaves nothing out" in done.stdout) == bool(ci)
