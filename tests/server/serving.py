"""A real `amends serve` in a process of its own, for tests: on loopback and at a socket, with a journal of its own."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

PYTHON = sys.executable
PATIENCE_S = 20.0
Address = Path | str
"""Where a journal is: a file, or the URL of a database."""


@dataclass(frozen=True, kw_only=True)
class Serving:
    """`url` is on TCP, `socket` the address of the Unix socket; `token` may everything, as person:admin.

    `login` is the address at which whoever runs it logs in to the console, once.
    """

    url: str
    socket: str
    journal: Path
    token: str
    login: str
    started: "subprocess.Popen[str]"

    def new_token(self, name: str, *scopes: str, definitions: Sequence[str] = (), expires: str = "1h") -> str:
        return new_token(self.journal, name, *scopes, definitions=definitions, expires=expires)

    def headers(self, token: str | None = None) -> dict[str, str]:
        return {"Authorization": f"Bearer {token or self.token}"}

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Tell it to stop, and wait: its exit code."""
        if self.started.poll() is None:
            self.started.send_signal(number)
        return self.started.wait(PATIENCE_S)


def run_cli(*words: str, journal: Address | None = None, env: dict[str, str] | None = None, check: bool = True) -> str:
    """What a command of `amends` prints."""
    if journal is not None:
        words = (*words, "--journal", str(journal))
    whole = clean_environment() | (env or {})
    done = subprocess.run(
        [PYTHON, "-m", "amends", *words], env=whole, capture_output=True, text=True, timeout=60, check=False
    )
    if check:
        assert done.returncode == 0, done.stderr
    return done.stdout if check else done.stdout + done.stderr


def clean_environment() -> dict[str, str]:
    """The environment, without what would have a command go elsewhere."""
    return {name: value for name, value in os.environ.items() if not name.startswith("AMENDS_")}


def new_token(journal: Address, name: str, *scopes: str, definitions: Sequence[str] = (), expires: str = "1h") -> str:
    words = [word for scope in scopes for word in ("--scope", scope)]
    words += [word for one in definitions for word in ("--definition", one)]
    made = run_cli("token", "create", name, *words, "--expires", expires, "--by", "person:admin", journal=journal)
    return made.strip().splitlines()[-1]


@contextlib.contextmanager
def serving(
    folder: Path,
    *more: str,
    journal: Address | None = None,
    tcp: bool = True,
    port: int = 0,
    env: dict[str, str] | None = None,
    token: str | None = None,
    program: str = "amends",
) -> Generator[Serving]:
    """A server on a new journal in this folder, or on another, with these options more."""
    folder.mkdir(mode=0o700, exist_ok=True)
    at = journal or folder / "journal.db"
    token = token or new_token(at, "person:admin", "view", "run", "decide", "admin")
    socket = folder / "s"
    words = ["serve", "--journal", str(at), "--socket", str(socket), "--json", *more]
    words += ["--host", "127.0.0.1", "--port", str(port)] if tcp else []
    started = subprocess.Popen(
        [PYTHON, "-m", program, *words], env=clean_environment() | (env or {}), stdout=subprocess.PIPE, text=True
    )
    try:
        urls, login = _ready(started)
        url = next((one for one in urls if one.startswith("http")), "")
        yield Serving(url=url, socket=f"unix://{socket}", journal=Path(at), token=token, login=login, started=started)
    finally:
        if started.poll() is None:
            started.send_signal(signal.SIGTERM)
        try:
            started.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()
        if started.stdout is not None:
            started.stdout.close()


def _ready(started: "subprocess.Popen[str]") -> tuple[list[str], str]:
    assert started.stdout is not None
    until = monotonic() + PATIENCE_S
    ready, _, _ = select.select([started.stdout], [], [], max(0.0, until - monotonic()))
    line = started.stdout.readline() if ready else ""
    assert line, f"the server did not say that it is ready; exit code {started.poll()}"
    found: dict[str, Any] = json.loads(line)
    return found["urls"], found["login"] or ""
