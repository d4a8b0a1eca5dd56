"""Tools in a view: bounded, confined where asked, and gone to the last process when they are over."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from amends import private
from amends.changeset import Changeset, Terms
from amends.changeset.files import Files
from amends.errors import ViewError
from amends.process.running import Bounded
from tests.changeset.conftest import Opener
from tests.changeset.trees import seen

VIEWS = ["overlay", "overlay-userns", "copy", "copy-plain"]
NAMESPACED = VIEWS[:-1]


@pytest.mark.parametrize("provider", VIEWS)
def test_a_tool_has_its_words_its_folder_its_input_and_its_environment(
    provider: str, tree: Path, opener: Opener
) -> None:
    with opener(provider, tree).begin("run") as files:
        ran = files.run(
            ["sh", "-c", 'cat; echo "$1"; basename "$PWD"; echo "$HELLO" >&2; exit 7', "sh", "a word"],
            input=b"given\n",
            env={"HELLO": "hello"},
            cwd="pkg",
        )
    assert (ran.returncode, ran.stdout, ran.stderr) == (7, "given\na word\npkg\n", "hello\n")
    assert not ran.ok
    assert (ran.timed_out, ran.cancelled, ran.truncated) == (False, False, False)


@pytest.mark.parametrize("provider", NAMESPACED)
def test_a_tool_is_at_the_trees_own_path(provider: str, tree: Path, opener: Opener) -> None:
    with opener(provider, tree).begin("run") as files:
        files.write_text("here.txt", "in the view\n")
        assert files.run(["pwd", "-P"]).stdout == f"{tree}\n"
        assert files.run(["cat", str(tree / "here.txt")]).stdout == "in the view\n"
    assert not (tree / "here.txt").exists()


def test_a_script_with_an_absolute_first_line_and_an_editable_install_see_the_view(tree: Path, opener: Opener) -> None:
    (tree / "bin").mkdir()
    (tree / "bin/python").symlink_to(sys.executable)
    (tree / "script").write_text(
        f"#!{tree}/bin/python -I\nimport sys\nsys.path.insert(0, '{tree}')\nimport pkg.one\nprint(pkg.one.one())\n"
    )
    (tree / "script").chmod(0o755)
    with opener("overlay", tree).begin("run") as files:
        files.write_text("pkg/one.py", "def one():\n    return 'the view'\n")
        ran = files.run(["./script"])
    assert ran.stdout == "the view\n", ran.stderr


@pytest.mark.parametrize("provider", VIEWS)
def test_a_signal_is_told_from_an_exit(provider: str, tree: Path, opener: Opener) -> None:
    with opener(provider, tree).begin("run") as files:
        assert files.run(["sh", "-c", "kill -TERM $$"]).returncode == -signal.SIGTERM


@pytest.mark.parametrize("provider", VIEWS)
def test_a_command_that_is_not_there_is_said_to_be(provider: str, tree: Path, opener: Opener) -> None:
    with opener(provider, tree).begin("run") as files, pytest.raises(ViewError, match="no-such-tool"):
        files.run(["no-such-tool"])


@pytest.mark.parametrize("provider", ["overlay", "copy-plain"])
def test_huge_output_is_cut_in_the_middle_and_said_to_be(provider: str, tree: Path, opener: Opener) -> None:
    script = "import sys\nfor n in range(200000): print('line', n)\nprint('the end')"
    with opener(provider, tree).begin("run") as files:
        ran = files.run([sys.executable, "-c", script], output=10_000)
    assert ran.truncated
    assert len(ran.stdout) < 11_000
    assert ran.stdout.startswith("line 0\n")
    assert ran.stdout.endswith("the end\n")
    assert "bytes left out" in ran.stdout


def test_bounded_keeps_a_beginning_and_an_end() -> None:
    bounded = Bounded(8)
    for piece in (b"abc", b"defgh", b"ij", b"klmnop"):
        bounded.take(piece)
    assert bounded.text() == "abcd\n[... 8 bytes left out ...]\nmnop"
    short = Bounded(8)
    short.take(b"abcdefgh")
    assert (short.text(), short.left_out) == ("abcdefgh", 0)


RUNAWAY = """
import os, sys, time
if os.fork() == 0:                # a daemon: a session of its own, a parent that is gone
    os.setsid()
    if os.fork() == 0:
        os.close(1); os.close(2)
        while True:
            open("alive", "a").write("x")
            time.sleep(0.01)
    os._exit(0)
open("started", "w").close()
time.sleep(float(sys.argv[1]))
"""


def grows(files: Files) -> bool:
    before = len(files.read_bytes("alive"))
    time.sleep(0.2)
    return len(files.read_bytes("alive")) != before


@pytest.mark.parametrize("provider", VIEWS)
def test_a_timeout_ends_daemons_too(provider: str, tree: Path, opener: Opener) -> None:
    with opener(provider, tree).begin("run") as files:
        ran = files.run([sys.executable, "-c", RUNAWAY, "60"], timeout_s=1.0)
        assert ran.timed_out
        assert ran.returncode is None
        assert files.exists("alive")
        assert not grows(files)


@pytest.mark.parametrize("provider", VIEWS)
def test_the_end_of_a_command_is_the_end_of_its_daemons(provider: str, tree: Path, opener: Opener) -> None:
    with opener(provider, tree).begin("run") as files:
        ran = files.run([sys.executable, "-c", RUNAWAY, "0.3"], timeout_s=30)
        assert ran.ok, ran
        assert not grows(files)


@pytest.mark.parametrize("provider", VIEWS)
def test_a_cancel_from_another_thread_ends_the_whole_tree(provider: str, tree: Path, opener: Opener) -> None:
    with opener(provider, tree).begin("run") as files:
        running = files.start([sys.executable, "-c", RUNAWAY, "60"])
        timer = threading.Timer(0.5, running.cancel)
        timer.start()
        ran = running.wait(30)
        timer.join()
        assert ran.cancelled
        assert not ran.timed_out
        assert not grows(files)


KILLED = """
import sys, time
from amends import private
from amends.changeset import Changeset, Terms
changeset = Changeset.open(sys.argv[1], id="victim", terms=Terms(provider=sys.argv[2]))
files = changeset.begin("run")
files.write_text("half", "done")
running = files.start([sys.executable, "-c", sys.argv[3], "60"])
print("running", flush=True)
running.wait()
"""


def alive(place: Path) -> list[Path]:
    """What a runaway tool keeps writing to, wherever its provider puts it."""
    found = [*place.glob(".tree.changesets/changesets/victim/layers/1/0/alive")]
    return [*found, *place.glob(".tree.changesets/changesets/victim/ws/0/alive")]


@pytest.mark.parametrize("provider", ["overlay", "copy"])
def test_a_killed_runtime_takes_its_tools_with_it_and_its_open_layer_is_dropped(
    provider: str, tree: Path, tmp_path: Path
) -> None:
    before = seen(tree)
    words = [sys.executable, "-c", KILLED, str(tree), provider, RUNAWAY]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as victim:
        assert victim.stdout is not None
        assert victim.stdout.readline() == b"running\n"
        while not (layers := alive(tmp_path)):
            time.sleep(0.05)
        victim.kill()
    assert len(layers) == 1
    size = layers[0].stat().st_size
    time.sleep(0.3)
    if layers[0].stat().st_size != size:  # the kernel was still at it
        size = layers[0].stat().st_size
        time.sleep(0.5)
    assert layers[0].stat().st_size == size
    with Changeset.open(tree, id="victim", terms=Terms(provider=provider)) as changeset:
        assert changeset.steps() == ()
        with changeset.begin("again") as files:
            assert not files.exists("half")
            assert not files.exists("alive")
            assert not files.run(["test", "-e", "alive"]).ok
    assert seen(tree) == before
    assert str(tree) not in Path("/proc/self/mountinfo").read_text()


@pytest.mark.parametrize("provider", NAMESPACED)
def test_confined_tools_cannot_write_outside_the_view(
    provider: str, tree: Path, opener: Opener, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    home = tmp_path / ".tree.changesets"
    (tree / "planted").symlink_to(outside)
    changeset = opener(provider, tree)
    with changeset.begin("run") as files:
        for place in (outside / "x", Path("planted/x"), home / "x", Path.home() / "x", Path("/tmp/x-of-amends")):
            ran = files.run(["sh", "-c", f"echo x > '{place}'"], confine=True)
            assert not ran.ok
            assert "Read-only file system" in ran.stderr
        ran = files.run(["sh", "-c", 'echo in > pkg/inside && echo t > "$TMPDIR/t" && cat "$TMPDIR/t"'], confine=True)
        assert (ran.ok, ran.stdout) == (True, "t\n"), ran.stderr
        assert files.read_text("pkg/inside") == "in\n"
        assert files.run(["sh", "-c", f"echo x > '{outside}/y'"], confine=False).ok
    assert sorted(path.name for path in outside.iterdir()) == ["y"]


def test_a_changeset_can_confine_all_its_tools(tree: Path, opener: Opener, tmp_path: Path) -> None:
    changeset = opener("overlay", tree, terms=Terms(confine=True))
    with changeset.begin("run") as files:
        assert not files.run(["touch", str(tmp_path / "out")]).ok
    assert not (tmp_path / "out").exists()


def test_confinement_without_namespaces_is_refused(tree: Path, opener: Opener) -> None:
    with opener("copy-plain", tree).begin("run") as files, pytest.raises(ViewError, match="namespaces"):
        files.run(["true"], confine=True)


@pytest.mark.as_root
def test_not_even_root_can_undo_the_view(tree: Path, opener: Opener) -> None:
    with opener("overlay", tree).begin("run") as files:
        ran = files.run(["sh", "-c", f"cd /; umount '{tree}'; echo x > '{tree}/escaped'"])
        assert "must be superuser" in ran.stderr or "permitted" in ran.stderr or "denied" in ran.stderr, ran
    assert not (tree / "escaped").exists()


@pytest.mark.parametrize("provider", ["overlay", "copy"])
def test_two_changesets_run_tools_at_once_and_see_only_their_own(provider: str, tree: Path, opener: Opener) -> None:
    one, other = opener(provider, tree), opener(provider, tree)
    with one.begin("a") as first, other.begin("b") as second:
        first.write_text("mine", "one\n")
        second.write_text("mine", "other\n")
        runs = [each.start(["sh", "-c", "sleep 0.3; cat mine"]) for each in (first, second)]
        assert [each.wait().stdout for each in runs] == ["one\n", "other\n"]


@pytest.mark.parametrize("odd", ["with space", "co:lon", "com,ma", "back\\slash", "quo'te", "caf\u00e9", "new\nline"])
def test_a_tree_with_an_odd_name_can_be_overlaid(odd: str, tmp_path: Path, opener: Opener) -> None:
    tree = tmp_path / odd
    tree.mkdir()
    (tree / "file").write_text("old\n")
    with opener("overlay", tree).begin("run") as files:
        assert files.run(["sh", "-c", "echo new > file; cat file"]).stdout == "new\n"
    assert (tree / "file").read_text() == "old\n"


def test_a_hundred_layers_can_be_overlaid(tree: Path, opener: Opener) -> None:
    changeset = opener("overlay", tree)
    for number in range(100):
        with changeset.begin(str(number)) as files:
            files.write_text(f"f{number}", str(number))
    with changeset.begin("look") as files:
        assert files.run(["sh", "-c", "cat f0 f50 f99"]).stdout == "05099"
        assert len(files.names()) == 100 + 7


def test_a_process_that_has_opened_hundreds_of_journals_still_runs_its_tools(
    tree: Path, opener: Opener, tmp_path: Path
) -> None:
    """Each of them is hidden from the tool; and those whose folder is gone are no burden any more."""
    for number in range(300):
        folder = tmp_path / f"a-folder-with-a-journal-of-its-own-{number}"
        folder.mkdir()
        private.claim_journal(folder / "amends.db")
    with opener("overlay", tree).begin("run") as files:
        assert files.run(["echo", "hello"]).stdout == "hello\n"
    before = len(private.claimed())
    for folder in tmp_path.glob("a-folder-*"):
        folder.rmdir()
    assert len(private.claimed()) <= before - 300
