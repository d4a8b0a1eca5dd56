"""Sagas that work on files, killed for real: at every call that changes a disk, and before and after every append.

    python -m tests.crash.files_killed SCENE PLACE STRIDE TWICE

One process, without threads of its own, that forks: a child lives until the n-th point and is gone there (SIGKILL); a
second one resumes, and may be killed too; a last one resumes undisturbed and is held to the end that the scene allows.
Before and after every append; and at every STRIDE-th call. After every TWICE-th of these the second one is killed, too.
It prints what was tried and what was found wrong, as JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, cast

from amends import Coordinator, Fatal, SagaDefinition, SagaStatus, StepError, Work, action, child, saga
from amends.changeset import Changeset, Files, Life, Terms, late_writes, list_changesets
from amends.changeset.disk.disk import Disk, DiskName, Sync
from amends.core.words.values import SagaId
from amends.journal.sqlite import SqliteJournal
from tests.changeset.shims import CALLS
from tests.changeset.trees import PACKAGE, Seen, plant, seen

ID = "killed"


class Points:
    """Counts the points of each kind that a process passes, and ends it at one of them."""

    def __init__(self, ends_at: tuple[str, int] | None) -> None:
        self.passed = {"call": 0, "append": 0}
        self._ends_at = ends_at

    def __call__(self, kind: str) -> None:
        self.passed[kind] += 1
        if (kind, self.passed[kind]) == self._ends_at:
            os.kill(os.getpid(), signal.SIGKILL)


def watch(points: Points) -> None:
    """From now on every call of this process that changes a disk, and every append, is a point."""
    for name in CALLS:
        if not name.startswith("sync"):
            setattr(Disk, name, _counted(points, getattr(Disk, name)))

    def no_wait(self: Disk, at: DiskName, why: Sync) -> None:
        points("call")

    for name in ("sync_file", "sync_folder"):
        setattr(Disk, name, no_wait)  # a kill loses nothing that was written
    plain = SqliteJournal.append

    async def append(self: SqliteJournal, *args: Any, **more: Any) -> Any:
        points("append")
        answer = await plain(self, *args, **more)
        points("append")
        return answer

    setattr(SqliteJournal, "append", append)  # noqa: B010 - for this process alone


def _counted(points: Points, plain: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: Disk, *args: Any, **more: Any) -> Any:
        points("call")
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


@saga("killed.one_branch_back")
async def one_branch_back(s: Work) -> None:
    files = s.files(place() / "tree", provider="api")
    worked, reshaped = asyncio.Event(), asyncio.Event()

    async def one() -> None:
        await s.checkpoint("one")
        await s.do(write, files, "aside", "1\n")
        worked.set()
        await reshaped.wait()
        await s.rollback_to("one", "alone")

    async def other() -> None:
        await worked.wait()
        await s.do(write, files, "new", "1\n")
        await s.do(reshape, files)
        reshaped.set()

    await asyncio.gather(one(), other())
    await s.land(files, "what is left")


@saga("killed.child")
async def reshapes(s: Work) -> None:
    await s.do(reshape, s.files(place() / "tree", provider="api"))


@saga("killed.shared")
async def shared(s: Work) -> None:
    files = s.files(place() / "tree", provider="api")
    await s.do(write, files, "new", "1\n")
    await s.call(reshapes, files="share")
    await s.do(fatal, files)


@saga("killed.other_child")
async def writes(s: Work) -> None:
    await s.do(write, s.files(place() / "tree", provider="api"), "new", "1\n")


@saga("killed.third_child")
async def writes_else(s: Work) -> None:
    await s.do(write, s.files(place() / "tree", provider="api"), "new", "2\n")


@saga("killed.conflicted")
async def conflicted(s: Work) -> None:
    files = s.files(place() / "tree", provider="api")
    with contextlib.suppress(StepError):
        await s.call_all([child(writes_else, files="branch"), child(writes, files="branch")])
    await s.call(reshapes, files="branch")
    await s.do(write, files, "new", "1\n")
    await s.land(files, "without the two that were in conflict")


@saga("killed.merged")
async def merged(s: Work) -> None:
    files = s.files(place() / "tree", provider="api")
    await s.call_all([child(reshapes, files="branch"), child(writes, files="branch")])
    await s.land(files, "what both made")


@saga("killed.unmerged")
async def unmerged(s: Work) -> None:
    files = s.files(place() / "tree", provider="api")
    await s.do(write, files, "new", "1\n")
    await s.call(reshapes, files="branch")
    await s.do(fatal, files)


@saga("killed.left")
async def left(s: Work) -> None:
    files = s.files(place() / "tree", provider="api")
    await s.do(write, files, "new", "1\n")
    await s.do(reshape, files)


async def land_by_hand(on: Coordinator, scene: str) -> None:
    """What a person does about it once it has completed; done again, it comes to the same."""
    row = await on.journal.saga(SagaId(ID))
    if scene not in BY_HAND or row is None or row.status is not SagaStatus.COMPLETED:
        return
    for each in list_changesets(place() / "tree"):
        if each.saga == ID and each.life in {Life.ACTIVE, Life.REVIEW}:
            await (await on.land(place() / "tree", each.id, by="person:ann"))
    if SCENES[scene][1] == "rolled_back":
        await on.cancel(ID)


BY_HAND = {"landed by hand", "landed by hand, and taken back"}

SCENES: Mapping[str, tuple[SagaDefinition, str]] = {
    "rolled back": (rolled_back, "rolled_back"),
    "one branch back": (one_branch_back, "completed"),
    "landed": (landed, "completed"),
    "taken back": (taken_back, "rolled_back"),
    "shared with a child": (shared, "rolled_back"),
    "branches in conflict": (conflicted, "completed"),
    "branches merged": (merged, "completed"),
    "a branch taken back": (unmerged, "rolled_back"),
    "landed by hand": (left, "completed"),
    "landed by hand, and taken back": (left, "rolled_back"),
}


GIVES_UP = {"branches in conflict"}
"""Where branches are dropped, and the saga goes on."""


async def begin(on: Coordinator, scene: str) -> None:
    await on.run(SCENES[scene][0], id=ID)
    await land_by_hand(on, scene)


async def go_on(on: Coordinator, scene: str) -> None:
    await on.resume()
    await land_by_hand(on, scene)


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


def live(
    script: Callable[[Coordinator, str], Awaitable[None]], scene: str, ends_at: tuple[str, int] | None
) -> dict[str, Any] | None:
    """How it stands when it is over; None: it was killed."""

    def whole() -> dict[str, Any]:
        points = Points(ends_at)
        watch(points)

        async def main() -> str:
            async with Coordinator.open(str(place() / "amends.db")) as on:
                await script(on, scene)
                return next((str(row.status) for row in await on.list() if row.id == ID), "never began")

        status = asyncio.run(main())
        return {"status": status, "passed": points.passed, **beside()}

    code, said = in_child(whole)
    if code not in {0, -signal.SIGKILL}:
        raise RuntimeError(f"a life ended with {code}")
    return cast("dict[str, Any]", json.loads(said)) if code == 0 else None


def beside() -> dict[str, Any]:
    """What is left beside the tree."""
    home = place() / ".tree.changesets"
    left = [path.name for path in (home / "landings").iterdir()] if home.exists() else []
    lives = [str(each.life) for each in list_changesets(place() / "tree")] if home.exists() else []
    return {"left": left, "lives": lives, "late": len(late_writes(place() / "tree"))}


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
        """Let the last one resume, undisturbed, and look at what it left."""
        self.histories += 1
        tree = place() / "tree"
        found = live(go_on, self.scene, None)
        if found is None:
            raise RuntimeError("an undisturbed life was killed")
        wanted = SCENES[self.scene][1]
        if found["status"] not in {wanted, "never began"}:
            self.complaints.append(f"{story}: it is {found['status']}, and not {wanted}")
        is_after = found["status"] == "completed"
        is_right = seen(tree, times=False) == self.after if is_after else contents(seen(tree)) == contents(self.before)
        if not is_right or (self.scene == "rolled back" and seen(tree) != self.before):
            now, wanted_tree = (seen(tree, times=False), self.after) if is_after else (seen(tree), self.before)
            odd_paths = [path for path in {*now, *wanted_tree} if now.get(path) != wanted_tree.get(path)]
            self.complaints.append(f"{story}: the tree is not as it should be: {odd_paths}")
        allowed = {
            "completed": [str(Life.LANDED), str(Life.MERGED), *([str(Life.DROPPED)] if self.scene in GIVES_UP else [])],
            "rolled_back": [str(Life.DROPPED), str(Life.LANDED)],
        }
        odd = [life for life in found["lives"] if life not in allowed.get(found["status"], [])]
        if found["left"] or found["late"] or odd:
            self.complaints.append(f"{story}: left behind: {found}")

    def every(self, stride: int, twice: int) -> None:
        self._each("append", 1, 0)
        self._each("call", stride, twice)
        self.check("undisturbed")

    def _each(self, kind: str, stride: int, twice: int) -> None:
        point = 1
        while True:
            fresh()
            if live(begin, self.scene, (kind, point)) is not None:
                return
            self.kills += 1
            if twice and point % twice == 0:
                for again in range(2, 40, 13):
                    if live(go_on, self.scene, ("call", again)) is not None:
                        break
                    self.kills += 1
            self.check(f"{self.scene}, killed at {kind} {point}")
            point += stride


if __name__ == "__main__":
    scene, where, stride, twice = sys.argv[1:]
    os.environ["KILLED_AT"] = where
    tried = Tried(scene)
    tried.every(int(stride), int(twice))
    sys.stdout.write(json.dumps({"kills": tried.kills, "histories": tried.histories, "complaints": tried.complaints}))
