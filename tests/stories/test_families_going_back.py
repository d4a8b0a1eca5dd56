"""From outside: a saga goes back while its child is at work, or waits; and a family is resumed. Real processes, one
journal, and SIGKILLs.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

APP = """
import asyncio, sys
from pathlib import Path
from amends import Coordinator, Settings, Work, action, saga

here = Path(__file__).parent

@action("shelf.put", idempotent=True)
async def put(n: int) -> None:
    with (here / "shelf").open("a") as shelf:
        shelf.write(f"put {n}\\n")
    print("put", n, flush=True)
    if n == 5:
        while not (here / "go").exists():
            await asyncio.sleep(0.01)

@put.compensation
async def take(done) -> None:
    with (here / "shelf").open("a") as shelf:
        shelf.write(f"take {done.args['n']}\\n")

@saga("shelf.fill")
async def fill(s: Work, waits: bool) -> str:
    if waits:
        await s.do(put, 1)
        await s.wait_for("go")
    for n in range(2, 31):
        await s.do(put, n)
    return "filled"

@saga("shelf.floor")
async def floor(s: Work, waits: bool) -> str:
    return await s.call(fill, waits)

@saga("shelf.house")
async def house(s: Work, waits: bool) -> str:
    if await s.checkpoint("empty") is None:
        return await s.call(floor, waits)
    return "left empty"

async def main(waits: bool) -> None:
    async with Coordinator.open(str(here / "amends.db"), settings=Settings(park_s=0.1, poll_s=0.1)) as on:
        handle = await on.start(house, waits, id="h")
        ended = await (handle.halt() if waits else handle)
        print(ended.status, ended.result, flush=True)

if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] == "waits"))
"""


class Place:
    """A directory with the app and its journal."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "app.py").write_text(APP, encoding="utf-8")
        self._env = {**os.environ, "PYTHONPATH": str(path), "AMENDS_JOURNAL": str(path / "amends.db")}

    def start(self, *words: str) -> subprocess.Popen[str]:
        command = [sys.executable, *words]
        return subprocess.Popen(command, cwd=self.path, env=self._env, stdout=subprocess.PIPE, text=True)

    def run(self, *words: str) -> str:
        with self.start(*words) as process:
            return process.communicate(timeout=60)[0]

    def amends(self, *words: str) -> str:
        return self.run("-m", "amends", *words)

    def go(self) -> None:
        (self.path / "go").touch()

    @property
    def shelf(self) -> list[str]:
        return (self.path / "shelf").read_text(encoding="utf-8").splitlines()

    @property
    def put(self) -> set[int]:
        """What was put there at any time."""
        return {int(line.split()[1]) for line in self.shelf if line.startswith("put")}

    @property
    def standing(self) -> set[int]:
        taken = {int(line.split()[1]) for line in self.shelf if line.startswith("take")}
        return self.put - taken

    @property
    def sagas(self) -> dict[str, str]:
        rows = map(json.loads, self.amends("saga", "list", "--json").splitlines())
        return {row["definition"]: row["status"] for row in rows}

    def leaf(self) -> str:
        rows = map(json.loads, self.amends("saga", "list", "--definition", "shelf.fill", "--json").splitlines())
        return str(next(rows)["id"])


WENT_BACK = {"shelf.house": "completed", "shelf.floor": "rolled_back", "shelf.fill": "rolled_back"}


@pytest.mark.parametrize("dies", [False, True])
def test_a_child_that_another_process_drives_stops_when_its_parent_goes_back(tmp_path: Path, *, dies: bool) -> None:
    place = Place(tmp_path)
    with place.start("app.py", "works") as worker:
        assert worker.stdout is not None
        assert any(line == "put 5\n" for line in worker.stdout)
        if dies:
            asked = place.start("-m", "amends", "saga", "rollback", "h", "-m", "app", "--to", "empty")
            assert any(place.sagas["shelf.fill"] == "paused" for _ in range(60))
            worker.send_signal(signal.SIGKILL)
            place.go()
            asked.communicate(timeout=60)
        else:
            place.amends("saga", "rollback", "h", "-m", "app", "--to", "empty")
            place.go()
            assert worker.communicate(timeout=60)[0].splitlines()[-1] == "completed left empty"
    place.amends("resume", "app")
    assert place.sagas == WENT_BACK
    assert (place.put, place.standing) == ({2, 3, 4, 5}, set())


def test_a_child_that_waits_for_a_signal_goes_back_from_the_command_line(tmp_path: Path) -> None:
    place = Place(tmp_path)
    assert place.run("app.py", "waits").splitlines()[-1] == "waiting None"
    place.amends("saga", "rollback", "h", "-m", "app", "--to", "empty")
    assert place.sagas == WENT_BACK
    assert (place.put, place.standing) == ({1}, set())


def test_one_resume_brings_parent_and_grandparent_to_their_end(tmp_path: Path) -> None:
    place = Place(tmp_path)
    assert place.run("app.py", "waits").splitlines()[-1] == "waiting None"
    place.go()
    place.amends("saga", "signal", place.leaf(), "go")
    said = place.amends("resume", "app", "--json")
    assert {json.loads(line)["status"] for line in said.splitlines()} == {"completed"}
    assert place.sagas == dict.fromkeys(WENT_BACK, "completed")
    assert place.standing == {*range(1, 31)}
