"""Sagas that work on files, killed for real: at every call that changes a disk, and before and after every append.

    python -m tests.crash.files_killed SCENE PLACE STRIDE TWICE

One process, without threads of its own, that forks: a child lives until the n-th point and is gone there (SIGKILL); a
second one resumes, and may be killed too; a last one resumes undisturbed and is held to the end that the scene allows.
It prints what was tried and what was found wrong, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from amends import Coordinator, Fatal, SagaDefinition, Work, action, saga
from amends.changeset import Changeset, Files, Life, Terms, late_writes, list_changesets
from amends.changeset.disk import Disk, Spot, Sync
from amends.journal.sqlite import SqliteJournal
from tests.changeset.shims import CALLS
from tests.changeset.trees import PACKAGE, Seen, plant, seen

ID = "killed"


class Points:
    """Counts the points that a process passes, and ends it at one of them."""

    def __init__(self, ends_at: int | None) -> None:
        self.passed = 0
        self._ends_at = ends_at

    def __call__(self) -> None:
        self.passed += 1
        if self.passed == self._ends_at:
            os.kill(os.getpid(), signal.SIGKILL)


def watch(points: Points) -> None:
    """From now on every call of this process that changes a disk, and every append, is a point."""
    for name in CALLS:
        if not name.startswith("sync"):
            setattr(Disk, name, _counted(points, getattr(Disk, name)))

    def no_wait(self: Disk, at: Spot, why: Sync) -> None:
        points()

    for name in ("sync_file", "sync_folder"):
        setattr(Disk, name, no_wait)  # a kill loses nothing that was written
    plain = SqliteJournal.append

    async def append(self: SqliteJournal, *args: Any, **more: Any) -> Any:
        points()
        answer = await plain(self, *args, **more)
        points()
        return answer

    setattr(SqliteJournal, "append", append)  # noqa: B010 - for this process alone


def _counted(points: Points, plain: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: Disk, *args: Any, **more: Any) -> Any:
        points()
        return plain(self, *args, **more)

    return call


@action("killed.write")
def write(files: Files, path: str, text: str) -> None:
    files.write_text(path, text)


@action("killed.reshape")
def reshape(files: Files) -> None:
    files.remove("docs", recursive=True)
    files.rename("pkg/one.py", "pkg/renamed.py")
    files.chmod("run.sh", 0o700)


@action("killed.fatal")
def fatal(files: Files) -> None:
    files.write_text("half", "done")
    raise Fatal("no further")


@action("killed.stops", read_only=True)
def stops() -> None:
    raise Fatal("it was wrong")


def place() -> Path:
    return Path(os.environ["KILLED_AT"])


@saga("killed.rolled_back")
async def rolled_back(s: Work) -> None:
    files = s.files(place() / "tree", provider="api")
    await s.do(write, files, "new", "1\n")
    await s.do(reshape, files)
    await s.do(fatal, files)


@saga("killed.landed")
async def landed(s: Work) -> None:
    files = s.files(place() / "tree", provider="api")
    await s.do(write, files, "new", "1\n")
    await s.do(reshape, files)
    await s.land(files, "both")


@saga("killed.taken_back")
async def taken_back(s: Work) -> None:
    files = s.files(place() / "tree", provider="api")
    await s.do(write, files, "new", "1\n")
    await s.do(reshape, files)
    await s.land(files, "both")
    await s.do(stops)


SCENES: Mapping[str, tuple[SagaDefinition, str]] = {
    "rolled back": (rolled_back, "rolled_back"),
    "landed": (landed, "completed"),
    "taken back": (taken_back, "rolled_back"),
}


async def begin(on: Coordinator, scene: str) -> None:
    await on.run(SCENES[scene][0], id=ID)


async def go_on(on: Coordinator, scene: str) -> None:
    await on.resume()


def in_child(work: Callable[[], object]) -> tuple[int, bytes]:
    """Its end, and what it said."""
    heard, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(heard)
        code = 1
        try:
            os.write(tell, json.dumps(work()).encode())
            code = 0
        except BaseException:  # noqa: BLE001 - it is told, and only the parent goes on
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(tell)
    said = b""
    while piece := os.read(heard, 65536):
        said += piece
    os.close(heard)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said


def live(script: Callable[[Coordinator, str], Awaitable[None]], scene: str, ends_at: int | None) -> int | None:
    """How many points it passed; None: it was killed."""

    def whole() -> int:
        points = Points(ends_at)
        watch(points)

        async def main() -> None:
            async with Coordinator.open(str(place() / "amends.db")) as on:
                await script(on, scene)

        asyncio.run(main())
        return points.passed

    code, said = in_child(whole)
    if code not in {0, -signal.SIGKILL}:
        raise RuntimeError(f"a life ended with {code}")
    return int(said) if code == 0 else None


def end() -> dict[str, Any]:
    """How it stands: the saga, the tree, what is left beside it."""

    async def main() -> str:
        async with Coordinator.open(str(place() / "amends.db")) as on:
            rows = list(await on.list())
            return str(rows[0].status) if rows else "never began"

    status = asyncio.run(main())
    home = place() / ".tree.changesets"
    left = [path.name for path in (home / "landings").iterdir()] if home.exists() else []
    lives = [str(each.life) for each in list_changesets(place() / "tree")] if home.exists() else []
    return {"status": status, "left": left, "lives": lives, "late": len(late_writes(place() / "tree"))}


def contents(found: Seen) -> Seen:
    """What there is, without the times of folders: things came and went in them."""
    return {path: about[:-1] if about[0] == "folder" else about for path, about in found.items()}


def fresh() -> None:
    shutil.rmtree(place(), ignore_errors=True)
    place().mkdir(parents=True)
    plant(place() / "tree", PACKAGE)


class Tried:
    def __init__(self, scene: str) -> None:
        self.scene = scene
        self.kills = self.histories = 0
        self.complaints: list[str] = []
        fresh()
        self.before = seen(place() / "tree")
        with Changeset.open(place() / "tree", terms=Terms(provider="api")) as model:
            with model.begin() as files:
                write(files, "new", "1\n")
            with model.begin() as files:
                reshape(files)
            model.land()
        self.after = seen(place() / "tree", times=False)

    def check(self, story: str) -> None:
        self.histories += 1
        tree = place() / "tree"
        found = json.loads(in_child(end)[1])
        wanted = SCENES[self.scene][1]
        if found["status"] not in {wanted, "never began"}:
            self.complaints.append(f"{story}: it is {found['status']}, and not {wanted}")
        is_after = found["status"] == "completed"
        is_right = seen(tree, times=False) == self.after if is_after else contents(seen(tree)) == contents(self.before)
        if not is_right or (self.scene == "rolled back" and seen(tree) != self.before):
            now, wanted_tree = (seen(tree, times=False), self.after) if is_after else (seen(tree), self.before)
            odd_paths = [path for path in {*now, *wanted_tree} if now.get(path) != wanted_tree.get(path)]
            self.complaints.append(f"{story}: the tree is not as it should be: {odd_paths}")
        allowed = {"completed": [str(Life.LANDED)], "rolled_back": [str(Life.DROPPED), str(Life.LANDED)]}
        odd = [life for life in found["lives"] if life not in allowed.get(found["status"], [])]
        if found["left"] or found["late"] or odd:
            self.complaints.append(f"{story}: left behind: {found}")

    def every(self, stride: int, twice: int) -> None:
        point = 1
        while True:
            fresh()
            if live(begin, self.scene, point) is not None:
                live(go_on, self.scene, None)
                self.check("undisturbed")
                return
            self.kills += 1
            if twice and point % twice == 0:
                for again in range(2, 40, 13):
                    if live(go_on, self.scene, again) is not None:
                        break
                    self.kills += 1
            live(go_on, self.scene, None)
            self.check(f"{self.scene}, killed at point {point}")
            point += stride


if __name__ == "__main__":
    scene, where, stride, twice = sys.argv[1:]
    os.environ["KILLED_AT"] = where
    tried = Tried(scene)
    tried.every(int(stride), int(twice))
    sys.stdout.write(json.dumps({"kills": tried.kills, "histories": tried.histories, "complaints": tried.complaints}))
