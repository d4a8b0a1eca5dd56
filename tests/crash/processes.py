"""Victims as seen from a test: started, killed, stopped, waited for; and the ledger at the end."""

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from amends.clock import SystemClock
from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId
from amends.drill.world import Account, World, check
from amends.journal.port.journal import Entry, SagaQuery
from amends.journal.sqlite import SqliteJournal

VICTIMS = Path(__file__).with_name("victims.py")
PATIENCE_S = 60.0


class Victim:
    """One process. Lines that it says are JSON objects."""

    def __init__(self, folder: Path, *command: str, **environment: str) -> None:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("VICTIM_")}
        told = {f"VICTIM_{name.upper()}": value for name, value in environment.items()}
        self._process = subprocess.Popen(
            [sys.executable, str(VICTIMS), str(folder), *command],
            env=inherited | told,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._unread = b""
        self.said: list[dict[str, Any]] = []

    @property
    def pid(self) -> int:
        return self._process.pid

    def hear(self) -> dict[str, Any] | None:
        """The next thing that it says; None when it has nothing more to say."""
        out = self._process.stdout
        assert out is not None
        while b"\n" not in self._unread:
            ready, _, _ = select.select([out], [], [], PATIENCE_S)
            assert ready, f"a victim says nothing for {PATIENCE_S:g} s"
            more = os.read(out.fileno(), 65536)
            if not more:
                return None
            self._unread += more
        line, _, self._unread = self._unread.partition(b"\n")
        said: dict[str, Any] = json.loads(line)
        self.said.append(said)
        return said

    def await_point(self, point: str) -> None:
        """Until it says that it is there."""
        while (said := self.hear()) is not None:
            if said.get("at") == point:
                return
        raise AssertionError(f"it ended before it came to {point}: {self._errors()}")

    def go_on(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()

    def send(self, sign: signal.Signals) -> None:
        self._process.send_signal(sign)

    def await_stop(self) -> None:
        """Until the kernel says that it stands still."""
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), f"it ended with {status} instead: {self._errors()}"

    def await_end(self) -> int:
        """Hear it out; its exit code, negative for a signal."""
        while self.hear() is not None:
            pass
        return self._process.wait(timeout=PATIENCE_S)

    def ended_well(self) -> dict[str, str]:
        """How the sagas that it drove stand, by their ids."""
        code = self.await_end()
        assert code == 0, f"it ended with {code}: {self._errors()}"
        return {said["id"]: str(said.get("status") or said["error"]) for said in self.said if "id" in said}

    def died(self) -> None:
        code = self.await_end()
        assert code == -signal.SIGKILL, f"it ended with {code} and not by its own hand: {self._errors()}"

    def _errors(self) -> str:
        assert self._process.stderr is not None
        return self._process.stderr.read().decode()

    def tidy(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
        self._process.wait()


class Scene:
    """A folder with a journal and a world, and the victims that meet there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.world = World(folder / "world")
        self._victims: list[Victim] = []

    def start(self, *command: str, **environment: str) -> Victim:
        victim = Victim(self.folder, *command, **environment)
        self._victims.append(victim)
        return victim

    def kill(self, *command: str, at: str, **environment: str) -> None:
        """A victim that runs this, to its death at this point."""
        self.start(*command, kill=at, **environment).died()

    def run(self, *command: str, **environment: str) -> dict[str, str]:
        return self.start(*command, **environment).ended_well()

    def histories(self) -> list[list[Entry]]:
        return asyncio.run(_histories(self.folder / "journal.db"))

    def await_status(self, saga: str, status: str) -> None:
        """Until the journal says that it stands so."""
        asyncio.run(asyncio.wait_for(_stands(self.folder / "journal.db", SagaId(saga), status), PATIENCE_S))

    def audit(self) -> dict[str, SagaStatus]:
        """Hold the journal against the world; how each saga stands."""
        histories = self.histories()
        assert check(self.world, histories) == []
        sagas = [Account(tuple(entries)).saga for entries in histories]
        return {saga.id: saga.phase for saga in sagas}

    def document(self, name: str) -> object:
        """What a document holds now; None where there is none."""
        return asyncio.run(_document(self.folder / "journal.db", name))

    def tidy(self) -> None:
        for victim in self._victims:
            victim.tidy()


async def _stands(path: Path, saga: SagaId, status: str) -> None:
    journal = await SqliteJournal.open(path, SystemClock())
    try:
        while (row := await journal.saga(saga)) is None or row.status != status:
            await asyncio.sleep(0.02)
    finally:
        await journal.close()


async def _histories(path: Path) -> list[list[Entry]]:
    journal = await SqliteJournal.open(path, SystemClock())
    try:
        page = await journal.sagas(SagaQuery(limit=1000))
        return [[entry async for entry in journal.read(row.id)] for row in page.rows]
    finally:
        await journal.close()


async def _document(path: Path, name: str) -> object:
    journal = await SqliteJournal.open(path, SystemClock())
    try:
        found = await journal.document(name)
        return None if found is None else found.body
    finally:
        await journal.close()


@contextmanager
def scene_at(folder: Path) -> Generator[Scene]:
    scene = Scene(folder)
    try:
        yield scene
    finally:
        scene.tidy()
