"""Sagas that work on files, killed by the kernel: the tree is as before or as after, and the journal says which."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.crash.files_killed import SCENES
from tests.parts import sampled

ROOT = Path(__file__).resolve().parent.parent.parent
SOAK = "AMENDS_SOAK" in os.environ
STRIDES = {
    "rolled back": 29,
    "taken back": 37,
    "one branch back": 31,
    "shared with a child": 37,
    "branches merged": 61,
    "a branch taken back": 53,
    "landed by hand, and taken back": 163,
}
"""Of the calls; the appends are all tried. Each call of a changeset alone is in tests/changeset/test_crashes.py."""


@pytest.mark.parametrize(
    "scene", sampled(SCENES if SOAK else STRIDES, each=7)
)  # the others are parts of these, or dearer
def test_killed_at_any_append_or_call_a_saga_of_files_comes_to_its_end(
    scene: str, tmp_path: Path, record_property: Any
) -> None:
    stride, twice = (1, 2) if SOAK else (STRIDES[scene], 2 * STRIDES[scene])
    words = [sys.executable, "-m", "tests.crash.files_killed", scene, str(tmp_path / "place"), str(stride), str(twice)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    tried = json.loads(done.stdout)
    record_property("files", tried)
    assert tried["complaints"] == []
    assert tried["kills"] > 12
