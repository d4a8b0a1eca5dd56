"""Several processes on one journal, killed for real while their sagas hold, wait and count: nothing leaks, all ends."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CROWD = Path(__file__).with_name("crowd.py")
MANY, PATIENCE_S = 8, 120


def started(*words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, str(CROWD), *words], stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("spared", [1, 4])
def test_no_lock_and_no_update_is_lost_when_processes_are_killed(tmp_path: Path, spared: int) -> None:
    journal = str(tmp_path / "journal.db")
    crowds = [started(journal, "begin", name, str(MANY)) for name in ("a", "b", "c")]
    try:
        first = crowds[0].stdout
        assert first is not None
        heard = [first.readline() for _ in range(spared)]
        for crowd in crowds:  # whoever is alive when others are killed waits for what those hold
            crowd.send_signal(signal.SIGKILL)
        assert all(heard)
    finally:
        for crowd in crowds:
            crowd.kill()
            crowd.wait()
            if crowd.stdout is not None:
                crowd.stdout.close()
    done = subprocess.run(
        [sys.executable, str(CROWD), journal, "resume"], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert told["sagas"] == told["ended"] > 0
    assert told["counted"] == told["completed"]
    assert told["held"] == 0
