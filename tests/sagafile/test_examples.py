"""The examples of sagas in YAML: done, failed after each step, killed after each step: the world is done or back."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from amends.sagafile import load_saga
from tests.cli.zygote import zygote
from tests.parts import sampled
from tests.sagafile.places import WORLDS, World

PATIENCE_S = 60
STEPS = {
    name: [step.id for step in load_saga(make_file).written.steps]
    for name, make_file in {
        "release": "examples/release.yaml",
        "offboarding": "examples/offboarding.yaml",
        "migration": "examples/migration/migration.yaml",
        "refactoring": "examples/refactoring/refactoring.yaml",
    }.items()
}
PLACES = [(name, step) for name, steps in STEPS.items() for step in steps]
# Past these there is no way back: what fails after them is for a person.
PIVOTS = {"release": "announce", "offboarding": "tell"}
FAILS = "  - {id: then-fail, run: [sh, -c, 'echo it broke >&2; exit 1'], atomic: true, no_rollback: a test}\n"
HANGS = """\
  - id: then-hang
    shell: test -e resumed || { echo hanging; sleep 600; }
    cwd: %s
    read_only: true
"""
LOST = """\
  - id: then-hang
    shell: echo hanging; sleep 600
    cwd: %s
    compensate: ["true"]
"""


class Place:
    """An example's world, and a directory with its file and journal beside it."""

    def __init__(self, name: str, place: Path) -> None:
        self.home = place / "home"
        world = place / "world"
        world.mkdir()
        self.world: World = WORLDS[name](world)
        left_out = shutil.ignore_patterns("refactoring", "tree", "*.db*")
        shutil.copytree(self.world.file.parent, self.home, ignore=left_out)
        self.file = self.home / self.world.file.name

    def after(self, step: str, more: str) -> None:
        """Put another step after this one."""
        parts = re.split(r"^(?=  - id: |result:)", self.file.read_text(encoding="utf-8"), flags=re.MULTILINE)
        at = next(place for place, part in enumerate(parts) if part.startswith(f"  - id: {step}\n"))
        parts.insert(at + 1, more)
        if more:  # one after the other: what is put in has to be waited for
            parts = [re.sub(r"^    after: .*\n", "", part, flags=re.MULTILINE) for part in parts]
        self.file.write_text("".join(parts), encoding="utf-8")

    @property
    def journal(self) -> tuple[str, str]:
        return ("--journal", str(self.home / "amends.db"))

    @property
    def env(self) -> dict[str, str]:
        return {**os.environ, **self.world.env}

    def run(self) -> subprocess.CompletedProcess[str]:
        return self.amends("run", self.file.name, "--input", json.dumps(self.world.given), "--id", "s-1")

    def amends(self, *words: str) -> subprocess.CompletedProcess[str]:
        asked = (*words, *self.journal)
        code, out, err = zygote().run(asked, place=self.home, env=self.env, stdin=b"", patience_s=PATIENCE_S)
        return subprocess.CompletedProcess(["amends", *asked], code, out.decode(), err.decode())

    def kill_while_it_hangs(self) -> None:
        """Start it, wait for the step that hangs, and kill the process of amends."""
        words = ["run", self.file.name, "--input", json.dumps(self.world.given), "--id", "s-1", "--json", *self.journal]
        command = [sys.executable, "-m", "amends.cli.main", *words]
        with subprocess.Popen(command, cwd=self.home, env=self.env, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if json.loads(line).get("line") == "hanging":
                    break
            process.send_signal(signal.SIGKILL)
            process.wait(PATIENCE_S)


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    name: str = request.node.callspec.params["name"]
    return Place(name, tmp_path)


@pytest.mark.parametrize("name", WORLDS)
def test_it_is_done(name: str, place: Place) -> None:
    before = place.world.look()
    done = place.run()
    assert done.returncode == 0, done.stdout + done.stderr
    assert place.world.look() != before
    again = place.run()
    assert (again.returncode, place.amends("resume").stdout) == (0, "nothing to resume\n")


@pytest.mark.parametrize(("name", "step"), sampled(PLACES, each=3))
def test_what_fails_after_a_step_takes_everything_back(name: str, step: str, place: Place) -> None:
    before = place.world.look()
    place.after(step, FAILS)
    done = place.run()
    if step == PIVOTS.get(name):
        assert done.returncode == 4, done.stdout
        assert "announced" in done.stdout or "past its pivot" in done.stdout or "irreversible" in done.stdout
    else:
        assert done.returncode == 3, done.stdout + done.stderr
        assert place.world.look() == before
    assert "then-fail │ it broke" in done.stdout


@pytest.mark.parametrize(("name", "step"), sampled(PLACES, each=3))
def test_what_is_killed_after_a_step_is_done_by_the_next_process(name: str, step: str, place: Place) -> None:
    place.after(step, HANGS.replace("%s", str(place.home)))
    place.kill_while_it_hangs()
    (place.home / "resumed").touch()
    place.file.unlink()  # the journal has it as it was
    done = place.amends("resume")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "s-1 completed" in done.stdout


LAST = [("release", "upload"), ("offboarding", "home"), ("migration", "open"), ("refactoring", "test")]


@pytest.mark.parametrize(("name", "step"), LAST)
def test_what_is_killed_and_in_doubt_is_taken_back_by_the_next_process(name: str, step: str, place: Place) -> None:
    before = place.world.look()
    place.after(step, LOST.replace("%s", str(place.home)))
    place.kill_while_it_hangs()
    place.file.unlink()
    done = place.amends("resume")
    assert "s-1 rolled back" in done.stdout, done.stdout + done.stderr
    assert place.world.look() == before


@pytest.mark.parametrize("name", ["offboarding"])
def test_a_branch_that_fails_takes_back_what_was_done_beside_it(name: str, place: Place) -> None:
    before = place.world.look()
    text = place.file.read_text(encoding="utf-8").replace("archive/", "no-such-place/")
    place.file.write_text(text, encoding="utf-8")
    done = place.run()
    assert done.returncode == 3, done.stdout + done.stderr
    assert place.world.look() == before
