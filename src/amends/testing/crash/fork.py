"""Crashes of real processes: each life is a child of its own on a real SQLite file, and dies by SIGKILL.

Forking spares an interpreter's start for each history. The process that forks has never opened a journal, a thread or
a loop, and never will: it only waits, and keeps count. Leases outlast every history, so what frees a dead process's
sagas is that its death is seen.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import shutil
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from amends.clock import Clock
from amends.core.transitions import SagaStatus
from amends.drill.mortal import Author
from amends.drill.world import World, check
from amends.journal.port.journal import Journal
from amends.journal.sqlite import SqliteJournal
from amends.testing.crash.crash import Scenario, Tried, statuses_besides
from amends.testing.crash.life import Blow, CrashLife, Script


@dataclass(slots=True)
class ChildReport:
    """A child's word on its life: how far it came, and, where it came to its own end, what is wrong."""

    killed: bool
    ended_s: float
    passed: list[str] = field(default_factory=list[str])
    complaints: list[str] = field(default_factory=list[str])


class FileGround:
    """A folder that holds a journal and a world."""

    def __init__(self, folder: Path) -> None:
        self.authors: list[Author] = []
        self._folder = folder
        self._lives = 0
        self._now_s = 1_000.0
        folder.mkdir(parents=True)

    @property
    def world(self) -> World:
        return World(self._folder / "world")

    async def open(self, clock: Clock) -> Journal:
        return await SqliteJournal.open(self._folder / "journal.db", clock)

    def copy(self, folder: Path) -> FileGround:
        """Another ground in the same state; nobody may be alive here."""
        twin = FileGround(folder / "twin")
        for path in self._folder.iterdir():
            if path.is_file():
                shutil.copyfile(path, twin._folder / path.name)
                (twin._folder / path.name).chmod(0o600)
        twin._lives, twin._now_s = self._lives, self._now_s
        return twin

    def remove(self) -> None:
        shutil.rmtree(self._folder)

    def live(
        self,
        scenario: Scenario,
        script: Script,
        *,
        ends_at: int | None = None,
        ends: frozenset[SagaStatus] | None = None,
    ) -> ChildReport:
        """One life in a child. `ends` asks for the ledger, and says how its sagas may stand."""
        self._lives += 1
        hear, tell = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(hear)
            _whole_life(tell, lambda: self._lived(tell, scenario, script, ends_at, ends))
        os.close(tell)
        with os.fdopen(hear, "rb") as pipe:
            said = pipe.read()
        _, status = os.waitpid(child, 0)
        if not said or (os.WIFEXITED(status) and os.WEXITSTATUS(status)):
            return ChildReport(
                killed=False, ended_s=self._now_s, complaints=[f"the child ended with status {status}: {said!r}"]
            )
        told = ChildReport(killed=os.WIFSIGNALED(status), **json.loads(said))
        self._now_s = told.ended_s
        return told

    def _lived(
        self, tell: int, scenario: Scenario, script: Script, ends_at: int | None, ends: frozenset[SagaStatus] | None
    ) -> None:
        life = CrashLife(number=self._lives, since_s=self._now_s, world=self.world, ends_at=ends_at, blow=Blow.KILL)
        life.last_words = lambda: _say(tell, ended_s=life.loop.time(), passed=life.passed)
        settings = dataclasses.replace(scenario.settings, lease_s=1e9)
        life.begin(self, script, settings, scenario.env)
        wrong = [] if life.trouble is None else [f"it raised {type(life.trouble).__name__}: {life.trouble}"]
        if ends is not None and life.trouble is None:
            wrong += check(self.world, life.entries) + statuses_besides(life.entries, ends)
        _say(tell, ended_s=life.loop.time(), passed=life.passed, complaints=wrong)


def _whole_life(tell: int, lived: Callable[[], None]) -> None:
    """The child's own: it never returns into what its parent was doing."""
    status = 1
    try:
        lived()
        status = 0
    except BaseException:  # noqa: BLE001 - a child that cannot go on says why, and ends here
        os.write(tell, traceback.format_exc().encode())
    finally:
        sys.stdout.flush()
        os._exit(status)


def _say(tell: int, **said: Any) -> None:  # noqa: ANN401 - whatever JSON can hold
    os.write(tell, json.dumps(said).encode())


def every_kill(
    scenario: Scenario,
    folder: Path,
    tried: Tried,
    *,
    since: int = 1,
    stride: int = 1,
    twice: bool = False,
    make: Callable[[Path], FileGround] | None = None,
) -> None:
    """SIGKILL at each point of the scenario, and (twice) of the recovery too.

    With a `stride`, at each so manieth point of the scenario from `since` on. `make`: grounds of another store.
    """
    for point in itertools.count(since, stride):
        ground = (make or FileGround)(folder / "ground")
        first = ground.live(scenario, scenario.begin, ends_at=point, ends=frozenset({scenario.unharmed}))
        if not first.killed:
            _note(scenario, first, "nobody died", tried)
            ground.remove()
            return
        tried.points += 1
        tried.deaths += 1
        story = f"killed at {_where(first)}"
        if twice:
            _kill_again(scenario, ground, folder, story, tried)
        _settle(scenario, ground, story, tried)
        ground.remove()


def _kill_again(scenario: Scenario, before: FileGround, folder: Path, story: str, tried: Tried) -> None:
    point = 0
    while True:
        point += 1
        ground = before.copy(folder)
        second = ground.live(scenario, scenario.recover_and_then, ends_at=point)
        if second.killed:
            tried.deaths += 1
            _settle(scenario, ground, f"{story}, and then at {_where(second)}", tried)
        ground.remove()
        if not second.killed:
            return


def _settle(scenario: Scenario, ground: FileGround, story: str, tried: Tried) -> None:
    tried.histories += 1
    last = ground.live(scenario, scenario.recover, ends=scenario.ends)
    _note(scenario, last, story, tried)
    if scenario.then is not None:
        ends = scenario.ends if scenario.at_last is None else scenario.at_last
        after = ground.live(scenario, scenario.then, ends=ends)
        _note(scenario, after, f"{story}; then the person acted", tried)


def _where(told: ChildReport) -> str:
    return f"point {len(told.passed)} ({told.passed[-1]})"


def _note(scenario: Scenario, told: ChildReport, story: str, tried: Tried) -> None:
    tried.complaints += [f"{scenario.name}: {story}: {what}" for what in told.complaints]
