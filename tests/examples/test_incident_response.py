"""The incident-response agent: a remedy that does not help is taken back, across kills too; one that does is kept."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.parts import sampled

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "incident_response" / "respond.py"
BEFORE = {"workers": 4, "cache_mb": 64, "release": "42"}


def service(tmp_path: Path, cause: str) -> Path:
    place = tmp_path / "service"
    place.mkdir()
    (place / "config.json").write_text(json.dumps(BEFORE))
    (place / "cause.txt").write_text(cause)
    return place


def responded(place: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), str(place), str(place.parent / "incidents.db"), "page-1"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def config(place: Path) -> object:
    return json.loads((place / "config.json").read_text())


def test_two_remedies_are_taken_back_and_the_third_is_kept(tmp_path: Path) -> None:
    place = service(tmp_path, "bad release")
    said = responded(place)
    assert said.stdout == "completed well again by release\n", said.stderr
    assert config(place) == BEFORE | {"release": "41"}
    assert (place / "log.txt").read_text().splitlines() == [
        "workers=8",
        "workers=4",
        "cache_mb=512",
        "cache_mb=64",
        "release=41",
    ]


def test_where_nothing_helps_the_service_is_as_it_was_found(tmp_path: Path) -> None:
    place = service(tmp_path, "a broken switch")
    said = responded(place)
    slow = "RuntimeError: still slow after release (respond.py:83, in health)"
    assert said.stdout == f"rolled_back service.health (step 11): {slow}\n", said.stderr
    assert config(place) == BEFORE


@pytest.mark.parametrize(
    "where",
    sampled(["after-workers", "before-undoing-cache_mb", "after-cache_mb", "before-undoing-workers"], each=3),
)
def test_killed_in_a_remedy_or_in_taking_one_back_it_goes_on_from_there(tmp_path: Path, where: str) -> None:
    place = service(tmp_path, "bad release")
    (place / f"kill-{where}").touch()
    assert responded(place).returncode == -signal.SIGKILL
    said = responded(place)
    assert said.stdout == "completed well again by release\n", said.stderr
    assert config(place) == BEFORE | {"release": "41"}


def test_what_somebody_else_changed_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    place = service(tmp_path, "bad release")
    (place / "kill-before-undoing-workers").touch()
    assert responded(place).returncode == -signal.SIGKILL
    (place / "config.json").write_text(json.dumps(BEFORE | {"workers": 16}))
    assert responded(place).stdout.startswith("incident")
    assert config(place) == BEFORE | {"workers": 16}
