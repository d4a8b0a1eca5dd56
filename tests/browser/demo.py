"""`amends demo --console` in a process of its own."""

import contextlib
import json
import signal
import subprocess
from collections.abc import Generator
from pathlib import Path

from tests.server.serving import PYTHON, clean_environment


@contextlib.contextmanager
def demo_console(folder: Path) -> Generator[str]:
    """The address at which it says that its console is. Nothing is left in the folder afterwards."""
    started = subprocess.Popen(
        [PYTHON, "-m", "amends", "demo", "--console", "--json"],
        env=clean_environment() | {"TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert started.stdout is not None
    with started.stdout as said:
        try:
            yield json.loads(said.readline())["login"]
        finally:
            started.send_signal(signal.SIGINT)
            assert started.wait(30) == 0
    assert list(folder.iterdir()) == []
