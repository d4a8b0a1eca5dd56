"""Each feature of the language with each way to end, every third of them killed on the way and taken up again.

`make test` plays a sixth of the pairs, `make test-all` the others; `make soak` kills all of them. Both are tables
(`features`, `endings`). A pair that fails names itself, its seed, and where its process was killed; it is the same each
time.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.pairs.endings import ENDINGS
from tests.pairs.features import FEATURES
from tests.parts import only_sampled

ROOT = Path(__file__).resolve().parent.parent.parent
PAIRS = [(feature, ending) for feature in FEATURES for ending in ENDINGS]
SAMPLED_EACH = 6
KILLED_EACH = 1 if "AMENDS_SOAK" in os.environ else 3


class Zygote:
    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.pairs.zygote"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def play(self, feature: str, ending: str, *, killed: bool, without: str = "") -> dict[str, Any]:
        asked, told = self._process.stdin, self._process.stdout
        assert asked is not None
        assert told is not None
        wanted = {"feature": feature, "ending": ending, "killed": killed, "without": without}
        asked.write(json.dumps(wanted) + "\n")
        asked.flush()
        answer: dict[str, Any] = json.loads(told.readline())
        return answer

    def end(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process.wait()


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    made = Zygote()
    yield made
    made.end()


@pytest.mark.parametrize(
    ("feature", "ending", "killed"),
    [
        pytest.param(feature, ending, number % KILLED_EACH == 0, marks=only_sampled(feature, ending, each=SAMPLED_EACH))
        for number, (feature, ending) in enumerate(PAIRS)
    ],
)
def test_a_feature_and_an_ending(zygote: Zygote, feature: str, ending: str, *, killed: bool) -> None:
    assert zygote.play(feature, ending, killed=killed)["complaints"] == []


def test_without_ids_that_cannot_clash_it_is_found(zygote: Zygote) -> None:
    told = zygote.play("call of two levels", "rollback to: waiting", killed=False, without="child's id")
    assert any("it is rolled_back, not completed" in what for what in told["complaints"])
