"""The model of leases, fences and rollbacks holds in every order of events; without any one mechanism it breaks."""

import os
import re
from pathlib import Path

import pytest

from tests.model.checker import ABLATIONS, MODEL, checked, lacking

# Where the tools can be installed they have to be: root has `make spin`, and `make test` asks for it.
needs_spin = pytest.mark.skipif(lacking() is not None and os.geteuid() != 0, reason=lacking() or "")


@needs_spin
def test_two_workers_with_leases_that_end_at_any_moment(tmp_path: Path) -> None:
    found = checked(tmp_path, workers=2, steps=2, expiries=2, deaths=1)
    assert (found.broken, found.is_whole) == (None, True)
    assert found.states > 100_000


@needs_spin
@pytest.mark.parametrize(("switch", "broken"), ABLATIONS.items())
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
