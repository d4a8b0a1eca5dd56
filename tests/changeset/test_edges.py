"""Odd files, odd trees, odd moments: one named test for each."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from amends.changeset import Changeset, Landed, Life, Terms, list_changesets, prune
from amends.changeset.disk.disk import Disk, DiskName, Sync
from amends.changeset.disk.read import content_at
from amends.changeset.store.home import Home
from amends.changeset.views import probe
from amends.clock import SystemClock
from amends.errors import ChangesetError, LimitError, RootError
from tests.changeset.conftest import Opener
from tests.changeset.test_crashes import MEMORY, world
from tests.changeset.trees import File, Folder, plant, said, seen
from tests.changeset.worlds import Crashes, World

__all__ = ["MEMORY", "world"]

API = Terms(provider="api")
VIEWS = ["overlay", "copy"]
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


def git(tree: Path, *words: str) -> str:
    whole = ["git", "-c", "user.name=n", "-c", "user.email=e@example.com", *words]
    return subprocess.run(whole, cwd=tree, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("provider", [*VIEWS, "api"])
def test_files_that_may_not_be_read_can_be_changed_removed_and_landed(
    provider: str, tree: Path, opener: Opener
) -> None:
    plant(tree / "locked", {"none": File(b"none\n", 0o000), "gone": File(b"gone\n", 0o000)})
    changeset = opener(provider, tree)
    with changeset.begin("one") as files:
        files.remove("locked/gone")
        files.chmod("locked/none", 0o600)
        files.write_text("locked/none", "changed\n")
        files.chmod("locked/none", 0o000)
    assert isinstance(changeset.land(), Landed)
    assert os.listdir(tree / "locked") == ["none"]
    assert stat.S_IMODE((tree / "locked/none").stat().st_mode) == 0
    (tree / "locked/none").chmod(0o600)
    assert (tree / "locked/none").read_text() == "changed\n"


@pytest.mark.parametrize("provider", VIEWS)
def test_a_hard_link_in_the_tree_is_not_written_through(provider: str, tree: Path, opener: Opener) -> None:
    os.link(tree / "pkg/one.py", tree / "twin.py")
    changeset = opener(provider, tree)
    with changeset.begin("one") as files:
        files.run(["sh", "-c", "echo more >> twin.py"])
    assert list(said(changeset._layers[0])) == ["twin.py"]
    assert isinstance(changeset.land(), Landed)
    assert (tree / "pkg/one.py").read_text() == "def one():\n    return 1\n"
    assert (tree / "twin.py").read_text().endswith("more\n")


@pytest.mark.parametrize("provider", VIEWS)
def test_a_write_by_a_memory_map_is_seen(provider: str, tree: Path, opener: Opener) -> None:
    script = "import mmap; f = open('pkg/one.py', 'r+b'); m = mmap.mmap(f.fileno(), 0); m[0:3] = b'DEF'; m.flush()"
    changeset = opener(provider, tree)
    with changeset.begin("one") as files:
        ran = files.run([sys.executable, "-c", script])
        assert ran.ok, ran.stderr
    assert list(said(changeset._layers[0])) == ["pkg/one.py"]


@pytest.mark.parametrize("provider", VIEWS)
def test_a_file_removed_while_it_is_open_leaves_nothing(provider: str, tree: Path, opener: Opener) -> None:
    changeset = opener(provider, tree)
    with changeset.begin("one") as files:
        files.run([sys.executable, "-c", "import os; f = open('brief', 'w'); os.unlink('brief'); f.write('x')"])
    assert said(changeset._layers[0]) == {}


@needs_git
@pytest.mark.parametrize("provider", VIEWS)
def test_git_works_in_the_view_and_its_repository_stays_as_it_was(provider: str, tree: Path, opener: Opener) -> None:
    git(tree, "init", "-q")
    (tree / ".gitignore").write_text("ignored\n")
    git(tree, "add", "-A")
    git(tree, "commit", "-qm", "first")
    (tree / "ignored").write_text("x\n")
    before = seen(tree / ".git")
    changeset = opener(provider, tree)
    with changeset.begin("one") as files:
        files.write_text("pkg/one.py", "committed in the view\n")
        files.write_text("ignored", "changed\n")
        commit = "git -c user.name=n -c user.email=e@example.com commit -qam second && git log --oneline | wc -l"
        ran = files.run(["sh", "-c", commit])
        assert ran.stdout.strip() == "2", ran.stderr
    with changeset.begin("two") as files:
        assert files.run(["git", "log", "-1", "--format=%s"]).stdout == "second\n"
    assert isinstance(changeset.land(), Landed)
    assert seen(tree / ".git") == before
    assert git(tree, "log", "--format=%s") == "first\n"
    assert (tree / "ignored").read_text() == "changed\n"
    assert git(tree, "status", "--porcelain") == " M pkg/one.py\n"


@needs_git
def test_a_git_hook_runs_in_the_view(tree: Path, opener: Opener) -> None:
    git(tree, "init", "-q")
    hook = tree / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\necho by the hook > hooked\n")
    hook.chmod(0o755)
    changeset = opener("overlay", tree)
    with changeset.begin("one") as files:
        files.run(["sh", "-c", "git add -A && git -c user.name=n -c user.email=e@example.com commit -qm x"])
    assert list(said(changeset._layers[0])) == ["hooked"]
    assert not (tree / "hooked").exists()


def test_nested_repositories_and_submodules_keep_their_git(tree: Path) -> None:
    plant(tree / "vendor", {".git": "gitdir: ../somewhere\n", "code.py": "code\n"})
    with Changeset.open(tree, terms=API) as changeset:
        with changeset.begin("one") as files:
            files.write_text("vendor/.git", "meddled\n")
            files.write_text("vendor/code.py", "changed\n")
        assert isinstance(changeset.land(), Landed)
    assert (tree / "vendor/.git").read_text() == "gitdir: ../somewhere\n"
    assert (tree / "vendor/code.py").read_text() == "changed\n"


def test_a_folder_that_goes_takes_its_caches_along(tree: Path) -> None:
    plant(tree / "pkg/sub/__pycache__", {"deep.pyc": "compiled"})
    with Changeset.open(tree, terms=API) as changeset:
        with changeset.begin("one") as files:
            files.remove("pkg/sub", recursive=True)
        landed = changeset.land()
        assert isinstance(landed, Landed), landed
    assert not (tree / "pkg/sub").exists()


def test_a_file_system_inside_the_tree_keeps_overlayfs_away(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounted = f"36 35 98:0 / {tree}/pkg/with\\040space rw - tmpfs tmpfs rw\n".encode()

    def told(path: bytes) -> bytes:
        return mounted if path.endswith(b"mountinfo") else content_at(path)

    monkeypatch.setattr(probe, "content_at", told)
    with Changeset.open(tree) as changeset:
        assert changeset.provider != "overlay"
        assert "pkg/with space" in changeset.answers[0].why


@pytest.mark.as_root
@pytest.mark.parametrize("provider", ["overlay", "copy", "api"])
def test_a_file_keeps_its_owner(provider: str, tree: Path, opener: Opener) -> None:
    os.chown(tree / "pkg/one.py", 1234, 1234)
    changeset = opener(provider, tree)
    with changeset.begin("one") as files:
        files.write_text("pkg/one.py", "changed\n")
    assert isinstance(changeset.land(), Landed)
    assert (tree / "pkg/one.py").stat().st_uid == 1234


def test_a_file_that_someone_keeps_open_lands_all_the_same(tree: Path) -> None:
    with Changeset.open(tree, terms=API) as changeset, open(tree / "pkg/one.py", "r+b"):
        with changeset.begin("one") as files:
            files.write_text("pkg/one.py", "changed\n")
        assert isinstance(changeset.land(), Landed)


def test_a_large_sparse_file_stays_sparse(tree: Path) -> None:
    with open(tree / "sparse", "wb") as file:
        file.truncate(64 << 20)
    with Changeset.open(tree, terms=API) as changeset:
        with changeset.begin("one") as files:
            files.chmod("sparse", 0o600)
        assert isinstance(changeset.land(), Landed)
    about = (tree / "sparse").stat()
    assert (about.st_size, about.st_blocks * 512 < 1 << 20) == (64 << 20, True)


@pytest.mark.soak
def test_a_file_of_five_gigabytes_lands(tree: Path, opener: Opener) -> None:
    changeset = opener("overlay", tree)
    with changeset.begin("one") as files:
        assert files.run(["sh", "-c", "truncate -s 5G huge; printf end >> huge"]).ok
    assert isinstance(changeset.land(), Landed)
    about = (tree / "huge").stat()
    assert (about.st_size, about.st_blocks * 512 < 1 << 20) == ((5 << 30) + 3, True)


@pytest.mark.parametrize("provider", ["overlay", "copy", "api"])
def test_times_of_landed_files_are_those_of_the_view(provider: str, tree: Path, opener: Opener) -> None:
    changeset = opener(provider, tree)
    with changeset.begin("one") as files:
        files.write_text("pkg/one.py", "changed\n")
        if provider != "api":
            files.run(["touch", "-d", "2001-02-03", "pkg/one.py"])
    assert isinstance(changeset.land(), Landed)
    if provider != "api":
        assert (tree / "pkg/one.py").stat().st_mtime < 1e9


def test_the_tree_is_untouched_to_the_last_byte_until_it_lands(tree: Path, opener: Opener) -> None:
    before = seen(tree)
    changeset = opener("overlay", tree)
    for number in range(3):
        with changeset.begin(str(number)) as files:
            files.write_text(f"new{number}", "x")
            files.run(["sh", "-c", "rm -rf docs pkg/sub; mkdir -p docs; chmod 700 empty; touch run.sh"])
    changeset.rewind(1)
    changeset.rewind(0)
    changeset.drop()
    assert seen(tree) == before


def test_a_state_directory_that_vanishes_in_the_middle_is_an_error_and_no_harm(tree: Path, tmp_path: Path) -> None:
    before = seen(tree)
    changeset = Changeset.open(tree, terms=API)
    files = changeset.begin("one")
    files.write_text("pkg/one.py", "x\n")
    shutil.rmtree(tmp_path / ".tree.changesets")
    with pytest.raises((ChangesetError, OSError)):
        files.seal()
    assert seen(tree) == before


class Later(SystemClock):
    def now(self) -> int:
        return super().now() + 365 * 24 * 3600 * 1000


def test_pruning_killed_at_any_call_can_be_done_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with world.open() as changeset:
        with changeset.begin("one") as files:
            files.write_text("edited.py", "x\n")
        changeset.land()
    world.keep()
    world.bring_back()
    tree = seen(world.tree())
    from amends.changeset import pruning

    def prune_by(world: World, disk: Disk) -> object:
        monkeypatch.setattr(pruning, "Disk", lambda: disk)
        return prune(world.tree(), clock=Later())

    def check(world: World, story: str) -> list[str]:
        lives = [str(each.life) for each in list_changesets(world.tree())]
        is_same = seen(world.tree()) == tree
        return [] if lives == ["pruned"] and is_same else [f"{story}: {lives} {is_same}"]

    crashes = Crashes(world, prune_by, prune_by, check).run()
    assert crashes.complaints == []
    assert crashes.points > 5


@pytest.mark.parametrize("provider", [*VIEWS, "overlay-userns"])
def test_a_file_that_a_tool_renames_was_not_there_under_its_new_name(provider: str, tree: Path, opener: Opener) -> None:
    """A kernel remembers where a renamed file came from, and that was once taken for somebody else's doing."""
    changeset = opener(provider, tree)
    with changeset.begin("rename") as files:
        assert files.run(["sh", "-c", "mv pkg/one.py pkg/other.py && echo '# more' >> pkg/other.py"]).ok
    assert changeset.steps()[0].moved == ()
    assert isinstance(changeset.land(), Landed)
    assert (tree / "pkg/other.py").exists()
    assert not (tree / "pkg/one.py").exists()


@pytest.mark.parametrize("provider", ["overlay", "overlay-userns"])
def test_a_file_that_somebody_removes_while_a_tool_changes_it_is_not_taken_for_a_new_one(
    provider: str, tree: Path, opener: Opener
) -> None:
    changeset = opener(provider, tree)
    with changeset.begin("change") as files:
        assert files.run(["sh", "-c", "echo '# more' >> pkg/one.py"]).ok
        (tree / "pkg/one.py").unlink()
    assert changeset.steps()[0].moved == ("pkg/one.py",)


@pytest.mark.parametrize("path", ["", "."])
def test_the_empty_path_and_the_dot_are_the_tree_itself(path: str, tree: Path) -> None:
    with Changeset.open(tree, terms=API) as changeset, changeset.begin("one") as files:
        assert files.names(path) == sorted(os.listdir(tree))
        acts: list[Callable[[], object]] = [
            lambda: files.write_text(path, "x"),
            lambda: files.make_folder(path),
            lambda: files.remove(path, recursive=True),
            lambda: files.chmod(path, 0o700),
        ]
        for act in acts:
            with pytest.raises(OSError, match=r"directory|exists|itself|own mode"):
                act()


def test_a_dangling_link_and_a_link_to_itself_land_as_they_are(tree: Path) -> None:
    with Changeset.open(tree, terms=API) as changeset:
        with changeset.begin("one") as files:
            files.symlink("dangling", "nowhere/at/all")
            files.symlink("round", "round")
        assert isinstance(changeset.land(), Landed)
    assert [os.readlink(tree / name) for name in ("dangling", "round")] == ["nowhere/at/all", "round"]


@pytest.mark.parametrize("provider", ["overlay", "copy", "api"])
def test_the_umask_counts_for_what_is_new(provider: str, tree: Path, opener: Opener) -> None:
    changeset = opener(provider, tree)
    old = os.umask(0o077)
    try:
        with changeset.begin("one") as files:
            files.write_text("private", "x\n")
            files.write_text("pkg/one.py", "changed\n")
    finally:
        os.umask(old)
    assert isinstance(changeset.land(), Landed)
    modes = [stat.S_IMODE((tree / name).stat().st_mode) for name in ("private", "pkg/one.py")]
    assert modes == [0o600, 0o644]


def test_a_file_in_a_read_only_folder_is_changed_and_lands_once_it_may(unprivileged: Path) -> None:
    tree = plant(unprivileged / "tree", {"locked": Folder(), "locked/file": "as it was\n"})
    (tree / "locked").chmod(0o555)
    with Changeset.open(tree, terms=API) as changeset:
        with changeset.begin("one") as files:
            files.write_text("locked/file", "changed\n")
            with pytest.raises(PermissionError):
                files.write_text("locked/new", "x")
        with pytest.raises(RootError, match=r"not permitted.*as it was"):
            changeset.land()
        assert (tree / "locked/file").read_text() == "as it was\n"
        (tree / "locked").chmod(0o755)
        assert isinstance(changeset.land(), Landed)
    assert (tree / "locked/file").read_text() == "changed\n"


def test_an_edited_gitignore_is_a_file_like_any_other_and_hides_nothing(tree: Path) -> None:
    with Changeset.open(tree, terms=API) as changeset:
        with changeset.begin("one") as files:
            files.write_text(".gitignore", "made\n")
            files.write_text("made", "ignored by git\n")
        assert changeset.paths() == (".gitignore", "made")
        assert isinstance(changeset.land(), Landed)
    assert (tree / "made").exists()


@pytest.mark.parametrize("provider", ["overlay", "api"])
def test_a_step_that_is_dropped_while_the_tree_moves_leaves_the_tree_as_it_is_by_then(
    provider: str, tree: Path, opener: Opener
) -> None:
    changeset = opener(provider, tree)
    files = changeset.begin("one")
    files.write_text("pkg/one.py", "ours\n")
    (tree / "pkg/one.py").write_text("theirs\n")
    (tree / "pkg/two.py").unlink()
    files.drop()
    with changeset.begin("two") as files:
        assert files.read_text("pkg/one.py") == "theirs\n"
        assert not files.exists("pkg/two.py")
        files.write_text("pkg/one.py", "theirs\nand ours\n")
    assert isinstance(changeset.land(), Landed)
    assert (tree / "pkg/one.py").read_text() == "theirs\nand ours\n"


class Failing(Disk):
    """The disk does not say that it has got something."""

    def __init__(self) -> None:
        self.fails: Sync | None = None

    def sync_file(self, at: DiskName, why: Sync) -> None:
        self._fail(why)

    def sync_folder(self, at: DiskName, why: Sync) -> None:
        self._fail(why)

    def _fail(self, why: Sync) -> None:
        if why is self.fails:
            raise OSError(5, "Input/output error")


@pytest.mark.parametrize("why", [each for each in Sync if each is not Sync.ABORTED])
def test_an_fsync_that_fails_is_an_error_and_the_tree_is_before_or_after(why: Sync, tree: Path) -> None:
    before, disk = seen(tree), Failing()
    with Changeset.open(tree, id="work", terms=API, disk=disk) as changeset:
        files = changeset.begin("one")
        files.write_text("pkg/one.py", "changed\n")
        files.remove("docs", recursive=True)
        disk.fails = why
        with pytest.raises(ChangesetError, match="Input/output error"):  # noqa: PT012 - whichever of the two waits for it
            files.seal()
            changeset.land()
        if why is not Sync.TREE_FOLDERS:
            assert seen(tree) == before
    with Changeset.open(tree, id="work", terms=API) as changeset:
        if changeset.life is Life.ACTIVE:
            assert seen(tree) == before
        else:
            assert (changeset.life, (tree / "pkg/one.py").read_text()) == (Life.LANDED, "changed\n")


def test_eight_who_land_at_once_all_land_and_nothing_is_lost(tree: Path) -> None:
    lines = [f"line {number}\n" for number in range(40)]
    (tree / "lines").write_text("".join(lines))
    ended: list[object] = []

    def work(number: int) -> None:
        with Changeset.open(tree, terms=API, name=str(number)) as changeset:
            with changeset.begin("one") as files:
                mine = [*lines]
                mine[5 * number] = f"by {number}\n"
                files.write_text("lines", "".join(mine))
                files.write_text(f"file {number}", "x")
            start.wait(60)
            ended.append(changeset.land())

    start = threading.Barrier(8)
    threads = [threading.Thread(target=work, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [type(each) for each in ended] == [Landed] * 8
    assert [line for line in (tree / "lines").read_text().splitlines() if line.startswith("by")] == [
        f"by {number}" for number in range(8)
    ]
    assert len(list(tree.glob("file *"))) == 8


NESTED = """
import sys
from amends.changeset import Changeset
with Changeset.open(sys.argv[1]) as changeset:
    with changeset.begin("inner") as files:
        print(files.run(["sh", "-c", "echo x > inner; ls"]).stdout)
    print(type(changeset.land()).__name__)
"""


def test_a_view_within_a_view_is_of_another_tree(tree: Path, tmp_path: Path, opener: Opener) -> None:
    """And one of the same tree is refused: its state directory belongs to the tree, and not to the view."""
    other = plant(tmp_path / "other", {"lib.py": "lib\n"})
    changeset = opener("overlay", tree)
    with changeset.begin("outer") as files:
        ran = files.run([sys.executable, "-c", NESTED, str(other)], confine=False)
        assert ran.stdout.split() == ["inner", "lib.py", "Landed"], ran.stderr
        ran = files.run([sys.executable, "-c", NESTED, str(tree)], confine=False)
        assert "In a view of the tree no changeset of it can be opened" in ran.stderr
    assert (changeset.paths(), (other / "inner").exists()) == ((), True)


def test_names_that_differ_by_case_are_refused_unasked_where_the_file_system_makes_them_one(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Home, "is_case_blind", True)
    with Changeset.open(tree, terms=API) as changeset:
        files = changeset.begin("one")
        files.write_text("Pkg", "x")
        with pytest.raises(LimitError, match="case or composition"):
            files.seal()


@pytest.mark.skipif(not MEMORY.is_dir(), reason="needs /dev/shm")
def test_a_tree_in_memory_has_a_view_and_lands(opener: Opener) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as place:
        tree = plant(Path(place) / "tree", {"file": "as it was\n"})
        changeset = opener("auto", tree)
        with changeset.begin("one") as files:
            if changeset.provider != "api":
                assert files.run(["sh", "-c", "echo more >> file"]).ok
            else:
                files.write_text("file", "as it was\nmore\n")
        assert isinstance(changeset.land(), Landed)
        assert (tree / "file").read_text() == "as it was\nmore\n"
        changeset.close()
