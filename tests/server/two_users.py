"""A server as another user of the machine, for tests that run as root."""

import contextlib
import json
import select
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

from tests.security.others import AS_USER, VICTIM
from tests.server.serving import PATIENCE_S, Serving, clean_environment

LATER = "import encodings.ascii, encodings.idna, encodings.latin_1, encodings.utf_8_sig\n"
"""Parts of Python that it loads when they are first used, from where another user may not look."""


@contextlib.contextmanager
def served_by_another(folder: Path, shared: Path, *more: str, token: str) -> Generator[Serving]:
    """A server of VICTIM's on the journal in its own folder, with its socket in one that all may look into."""
    words = ["serve", "--journal", str(folder / "journal.db"), "--socket", str(shared / "s"), "--json", *more]
    words += ["--host", "127.0.0.1", "--port", "0"]
    started = subprocess.Popen(
        [sys.executable, "-c", LATER + AS_USER, str(VICTIM), "", str(folder), *words],
        env=clean_environment() | {"TZ": "UTC"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert started.stdout is not None
        ready, _, _ = select.select([started.stdout], [], [], 3 * PATIENCE_S)
        line = started.stdout.readline() if ready else ""
        assert line, f"the server did not say that it is ready; exit code {started.poll()}"
        url = json.loads(line)["urls"][-1]
        yield Serving(
            url=url,
            socket=f"unix://{shared / 's'}",
            journal=folder / "journal.db",
            token=token,
            login="",
            started=started,
        )
    finally:
        started.send_signal(signal.SIGTERM)
        started.wait(PATIENCE_S)
        if started.stdout is not None:
            started.stdout.close()
