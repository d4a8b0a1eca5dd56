"""Steps: begin, seal, drop, rewind; what a resumed changeset has; limits; a changeset's life."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amends.changeset import (
    Budget,
    Changeset,
    Landed,
    Life,
    Limits,
    Terms,
    diff,
    doctor,
    keep,
    list_changesets,
    prune,
    show,
    take_back,
)
from amends.changeset.disk.disk import Disk, DiskName
from amends.changeset.model.model import LIFE
from amends.changeset.views import probe
from amends.changeset.views.workspace import CopyView
from amends.clock import SystemClock
from amends.core.words.values import canonical
from amends.errors import (
    ChangesetBusyError,
    ChangesetDamagedError,
    ChangesetFullError,
    ChangesetLifeError,
    LandingStuckError,
    LimitError,
    PathError,
    RootError,
    UnknownChangesetError,
    ViewError,
)
from tests.changeset.conftest import PROVIDERS, Opener
from tests.changeset.trees import PACKAGE, plant, said, seen

API = Terms(provider="api")


def opened(tree: Path, *, terms: Terms = API, **more: Any) -> Changeset:
    return Changeset.open(tree, terms=terms, **more)


# Layers


def test_a_step_of_nothing_is_a_layer_of_nothing(tree: Path) -> None:
    with opened(tree) as changeset:
        with changeset.begin("nothing"):
            pass
        assert changeset.steps()[0].totals.files == 0
        assert isinstance(changeset.land(), Landed)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_change_taken_back_in_a_later_step_comes_to_nothing(provider: str, tree: Path, opener: Opener) -> None:
    before = seen(tree)
    changeset = opener(provider, tree)
    with changeset.begin("there") as files:
        old = files.read_text("pkg/one.py")
        files.write_text("pkg/one.py", "changed\n")
        files.write_text("pkg/new.py", "new\n")
        files.remove("pkg/two.py")
    with changeset.begin("and back") as files:
        two = (tree / "pkg/two.py").read_text()
        files.write_text("pkg/one.py", old)
        files.remove("pkg/new.py")
        files.write_text("pkg/two.py", two, mode=0o644)
    landed = changeset.land()
    assert isinstance(landed, Landed)
    assert landed.applied == ()
    assert seen(tree) == before


@pytest.mark.parametrize("provider", PROVIDERS)
def test_deleted_in_one_and_made_again_in_two(provider: str, tree: Path, opener: Opener) -> None:
    changeset = opener(provider, tree)
    with changeset.begin("one") as files:
        files.remove("pkg/sub", recursive=True)
    with changeset.begin("two") as files:
        assert not files.exists("pkg/sub")
        files.make_folder("pkg/sub")
        files.chmod("pkg/sub", 0o755)
        files.write_text("pkg/sub/deep.py", "again\n", mode=0o644)
    assert list(said(changeset._layers[1])) == ["pkg/sub", "pkg/sub/deep.py"]
    assert isinstance(changeset.land(), Landed)
    assert sorted(os.listdir(tree / "pkg/sub")) == ["deep.py"]
    assert (tree / "pkg/sub/deep.py").read_text() == "again\n"


def test_only_the_newest_layer_can_be_dropped_and_a_rewind_goes_newest_first(tree: Path) -> None:
    with opened(tree) as changeset:
        for name in ("one", "two", "three"):
            with changeset.begin(name) as files:
                files.write_text(name, name)
        assert changeset.drop_last().data() == {"changeset": changeset.id, "number": 3, "name": "three"}
        assert [each.name for each in changeset.rewind(0)] == ["two", "one"]
        with pytest.raises(ChangesetLifeError, match="no layer"):
            changeset.drop_last()
        with changeset.begin("anew") as files:
            assert not files.exists("one")
        with pytest.raises(ChangesetLifeError, match="cannot rewind to 5"):
            changeset.rewind(5)


def test_one_step_is_open_at_a_time_and_is_over_when_it_is(tree: Path) -> None:
    with opened(tree) as changeset:
        files = changeset.begin("one")
        with pytest.raises(ChangesetLifeError, match="step 1 is open"):
            changeset.begin("two")
        with pytest.raises(ChangesetLifeError, match="before landing"):
            changeset.land()
        files.seal()
        for again in (files.seal, files.drop, lambda: files.write_text("x", "x")):
            with pytest.raises(ChangesetLifeError, match="is over"):
                again()


def test_a_file_still_open_for_writing_at_the_seal_is_sealed_as_it_is_then(tree: Path, opener: Opener) -> None:
    changeset = opener("copy", tree)
    files = changeset.begin("one")
    view = changeset._view
    assert isinstance(view, CopyView)
    with open(view.workspaces[0].path + b"/late", "w") as file:
        file.write("before")
        file.flush()
        files.seal()
        file.write(" and after")
    assert changeset.diff().endswith("+before\n\\ No newline at end of file\n")


# Plain data for a journal


def test_answers_are_plain_data_that_a_journal_takes(tree: Path) -> None:
    with opened(tree) as changeset:
        with changeset.begin("one") as files:
            files.write_bytes(b"odd\xff\nname", b"x\n")
        sealed = changeset.steps()[0]
        assert json.loads(canonical(sealed.data()))["files"] == 1
        assert json.loads(canonical(changeset.land().data()))["applied"] == ["odd\\xff\\x0aname"]


def test_a_resumed_changeset_has_what_was_sealed_and_drops_what_was_open(tree: Path) -> None:
    first = opened(tree, id="work")
    with first.begin("one") as files:
        files.write_text("one", "1")
    left_open = first.begin("two")
    left_open.write_text("two", "2")
    os.close(first._lock)  # as a kill does
    with opened(tree, id="work") as changeset:
        assert [step.name for step in changeset.steps()] == ["one"]
        with changeset.begin("two again") as files:
            assert files.exists("one")
            assert not files.exists("two")


def test_a_layer_that_the_journal_does_not_know_is_dropped(tree: Path) -> None:
    """It was sealed, and the process was killed before the step's outcome was journaled: nothing was sealed."""
    with opened(tree, id="work") as changeset:
        for name in ("one", "two"):
            with changeset.begin(name) as files:
                files.write_text(name, name)
        known = {step.number: step.digest for step in changeset.steps()[:1]}
    with opened(tree, id="work", sealed=known) as changeset:
        assert [step.name for step in changeset.steps()] == ["one"]
    with pytest.raises(ChangesetDamagedError, match="layer 2"):
        opened(tree, id="work", sealed={1: known[1], 2: "0" * 64})


def test_a_damaged_record_is_said_to_be_and_nothing_is_done(tree: Path, tmp_path: Path) -> None:
    with opened(tree, id="work") as changeset, changeset.begin("one") as files:
        files.write_text("one", "1")
    record = tmp_path / ".tree.changesets/changesets/work/layers/1/sealed.json"
    record.write_bytes(record.read_bytes().replace(b'"one"', b'"two"'))
    with pytest.raises(ChangesetDamagedError, match="digest"):
        opened(tree, id="work")


def test_a_layer_that_was_changed_since_its_seal_does_not_land(tree: Path, tmp_path: Path) -> None:
    before = seen(tree)
    with opened(tree, id="work") as changeset:
        with changeset.begin("one") as files:
            files.write_text("pkg/one.py", "sealed\n")
        (tmp_path / ".tree.changesets/changesets/work/layers/1/0/pkg/one.py").write_text("meddled\n")
        with pytest.raises(ChangesetDamagedError, match="not what was sealed"):
            changeset.land()
    assert seen(tree) == before


def test_a_state_directory_that_was_deleted_is_an_unknown_changeset(tree: Path, tmp_path: Path) -> None:
    import shutil

    with opened(tree, id="work") as changeset, changeset.begin("one") as files:
        files.write_text("one", "1")
    shutil.rmtree(tmp_path / ".tree.changesets")
    with pytest.raises(UnknownChangesetError, match="work"):
        show(tree, "work")


# Limits


@pytest.mark.parametrize(
    ("limits", "broken"),
    [
        (Limits(files=2), "3 files are changed, and 2 may be"),
        (Limits(lines=3), "lines are changed, and 3 may be"),
        (Limits(bytes=10), "bytes are written, and 10 may be"),
        (Limits(denied=("*.lock",)), r"deep/uv.lock is changed, and \*.lock is denied"),
        (Limits(denied=("pkg/**",)), r"pkg/one.py is changed, and pkg/\*\* is denied"),
    ],
)
def test_a_limit_stops_the_seal_and_says_which(tree: Path, limits: Limits, broken: str) -> None:
    before = seen(tree)
    with opened(tree, terms=Terms(provider="api", limits=limits)) as changeset:
        files = changeset.begin("much")
        files.write_text("pkg/one.py", "1\n2\n3\n4\n")
        files.make_folder("deep")
        files.write_text("deep/uv.lock", "locked\n")
        files.write_text("more", "more\n")
        with pytest.raises(LimitError, match=broken) as caught:
            files.seal()
        assert len(caught.value.broken) == 1
        assert changeset.steps() == ()
        files.drop()
    assert seen(tree) == before


def test_limits_count_the_whole_changeset_and_a_path_once(tree: Path) -> None:
    with opened(tree, terms=Terms(provider="api", limits=Limits(files=2))) as changeset:
        for name in ("one", "two", "one"):
            with changeset.begin(name) as files:
                files.write_text(name, str(len(changeset.steps())))
        with pytest.raises(LimitError), changeset.begin("three") as files:
            files.write_text("three", "3")
        assert len(changeset.steps()) == 3


def test_ephemeral_paths_do_not_count(tree: Path) -> None:
    terms = Terms(provider="api", limits=Limits(files=0, denied=(".git",)), ephemeral=(".git", "build"))
    with opened(tree, terms=terms) as changeset, changeset.begin("caches") as files:
        files.make_folder("build")
        files.write_text("build/x", "x")
        files.make_folder(".git")
        files.write_text(".git/x", "x")
        assert files.seal().totals.files == 0


@pytest.mark.parametrize(
    ("target", "is_out"),
    [
        ("../outside", True),
        ("/etc/passwd", True),
        ("pkg/../../x", True),
        ("leaves", True),
        ("pkg/one.py", False),
        ("./pkg/../docs", False),
        ("nowhere", False),
        ("itself", False),
    ],
)
def test_a_new_link_out_of_the_tree_is_refused_even_by_way_of_an_old_one(tree: Path, target: str, is_out: bool) -> None:
    (tree / "leaves").symlink_to("/etc")
    with opened(tree) as changeset:
        files = changeset.begin("link")
        files.symlink("itself", target)
        if is_out:
            with pytest.raises(LimitError, match="out of the tree"):
                files.seal()
        else:
            files.seal()


def test_an_old_link_out_of_the_tree_may_stay_and_an_absolute_one_into_it_may_come(tree: Path) -> None:
    (tree / "leaves").symlink_to("/etc")
    with opened(tree) as changeset:
        with changeset.begin("one") as files:
            files.write_text("pkg/one.py", "1\n")
            files.symlink("absolute", tree / "pkg")
        assert isinstance(changeset.land(), Landed)
    assert os.readlink(tree / "leaves") == "/etc"


@pytest.mark.parametrize("provider", ["overlay", "copy"])
@pytest.mark.parametrize(
    ("script", "broken"),
    [
        ("mkfifo pipe", "pipe is a pipe, a socket or a device"),
        ("chmod u+s run.sh", "run.sh is setuid"),
    ],
)
def test_pipes_devices_and_setuid_files_are_refused(
    provider: str, script: str, broken: str, tree: Path, opener: Opener
) -> None:
    changeset = opener(provider, tree)
    files = changeset.begin("odd")
    assert files.run(["sh", "-c", script]).ok
    with pytest.raises(LimitError, match=broken):
        files.seal()
    files.drop()


def test_a_socket_in_a_cache_is_nobodys_business(tree: Path, opener: Opener) -> None:
    changeset = opener("overlay", tree)
    with changeset.begin("odd") as files:
        files.make_folder(".git")
        place = os.fsdecode(changeset._shelf.layer_folder(1)) + "/0/.git"
        here = os.getcwd()
        os.chdir(place)
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind("socket")
        os.chdir(here)
        files.write_text(".git/config", "x")
    with changeset.begin("next") as files:
        assert files.names(".git") == ["config"]


def test_names_that_differ_by_case_or_composition_are_refused_where_asked(tree: Path) -> None:
    with opened(tree, terms=Terms(provider="api", limits=Limits(portable_names=True))) as changeset:
        for names in (("a.txt", "A.TXT"), ("caf\u00e9", "cafe\u0301")):
            files = changeset.begin("two names")
            for name in names:
                files.write_text(name, name)
            with pytest.raises(LimitError, match="case or composition"):
                files.seal()
            files.drop()
        with changeset.begin("a rename by case alone") as files:
            files.rename("run.sh", "RUN.sh")


# Paths


@pytest.mark.parametrize(
    "path", ["..", "../x", "/etc/passwd", "a/../../b", "pkg/../x", "x\0y", "n" * 256, "/".join(["d" * 200] * 25)]
)
def test_a_path_that_leaves_the_tree_or_cannot_be_is_refused(path: str, tree: Path) -> None:
    before = seen(tree)
    with opened(tree) as changeset, changeset.begin("out") as files:
        acts: list[Callable[[], object]] = [
            lambda: files.write_text(path, "x"),
            lambda: files.read_text(path),
            lambda: files.remove(path),
            lambda: files.rename("pkg/one.py", path),
            lambda: files.make_folder(path),
        ]
        for act in acts:
            with pytest.raises(PathError):
                act()
    assert seen(tree) == before


@pytest.mark.parametrize(
    ("path", "same"), [("./pkg//one.py", "pkg/one.py"), ("pkg/", "pkg"), ("-dash", "-dash"), (".wh.x", ".wh.x")]
)
def test_a_path_may_be_spelled_in_odd_ways(path: str, same: str, tree: Path) -> None:
    with opened(tree) as changeset, changeset.begin("odd") as files:
        if not files.exists(path):
            files.write_text(path, "x")
        assert files.exists(same)


def test_a_write_through_a_link_that_leaves_the_tree_is_refused(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tree / "leaves").symlink_to(tmp_path / "outside")
    (tree / "round").symlink_to("round")
    with opened(tree) as changeset, changeset.begin("out") as files:
        with pytest.raises(PathError, match="out of the tree"):
            files.write_text("leaves/x", "x")
        with pytest.raises(OSError, match="levels of symbolic links"):
            files.read_text("round")
    assert list((tmp_path / "outside").iterdir()) == []


def test_the_tree_itself_is_not_for_removing(tree: Path) -> None:
    with opened(tree) as changeset, changeset.begin("all") as files:
        with pytest.raises(PermissionError):
            files.remove(".", recursive=True)
        with pytest.raises(PermissionError):
            files.chmod(".", 0o700)
        with pytest.raises(OSError, match="into itself"):
            files.rename("pkg", "pkg/inside")


def test_a_tree_reached_by_a_link_is_the_same_tree(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(tree)
    with opened(tmp_path / "alias", id="work") as changeset:
        with changeset.begin("one") as files:
            files.write_text(tree / "pkg/one.py", "absolute\n")
        assert isinstance(changeset.land(), Landed)
    assert (tree / "pkg/one.py").read_text() == "absolute\n"
    assert [each.id for each in list_changesets(tree)] == ["work"]


def test_a_tree_with_a_folder_called_like_a_state_directory_is_a_tree_like_any_other(tree: Path) -> None:
    plant(tree / ".tree.changesets", {"file": "x\n"})
    with opened(tree) as changeset:
        with changeset.begin("one") as files:
            files.write_text(".tree.changesets/file", "y\n")
        assert isinstance(changeset.land(), Landed)
    assert (tree / ".tree.changesets/file").read_text() == "y\n"


# Places


def test_a_state_directory_inside_the_tree_is_refused(tree: Path) -> None:
    with pytest.raises(RootError, match="inside the tree"):
        opened(tree, state=tree / "state")


def test_a_state_directory_on_another_file_system_lands_by_a_room_in_the_tree(tree: Path) -> None:
    import tempfile

    with tempfile.TemporaryDirectory(dir="/dev/shm") as state:
        with opened(tree, state=state) as changeset:
            with changeset.begin("one") as files:
                files.write_text("pkg/one.py", "landed\n")
                files.remove("docs", recursive=True)
                files.write_text("new", "new\n")
            landed = changeset.land()
            assert isinstance(landed, Landed)
        assert (tree / "pkg/one.py").read_text() == "landed\n"
        assert not [name for name in os.listdir(tree) if name.startswith(".amends")]
        with take_back(tree, landing=landed.id, state=state, terms=API) as inverse:
            assert isinstance(inverse.land(), Landed)
        assert (tree / "docs/page.md").exists()


def test_a_tree_whose_parent_cannot_be_written_has_its_home_elsewhere(
    unprivileged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (unprivileged / "above").mkdir()
    tree = plant(unprivileged / "above/tree", PACKAGE)
    monkeypatch.setenv("XDG_STATE_HOME", str(unprivileged / "state"))
    tree.parent.chmod(0o555)
    with opened(tree) as changeset:
        with changeset.begin("one") as files:
            files.write_text("x", "x")
        assert isinstance(changeset.land(), Landed)
    assert (tree / "x").read_text() == "x"
    assert [path.name for path in tree.parent.iterdir()] == ["tree"]
    assert len(list((unprivileged / "state/amends/changesets").iterdir())) == 1
    tree.parent.chmod(0o755)


def test_a_read_only_tree_is_not_landed_in_and_is_as_it_was(unprivileged: Path) -> None:
    tree = plant(unprivileged / "tree", PACKAGE)
    (tree / "pkg").chmod(0o555)
    before = seen(tree)
    with opened(tree) as changeset:
        with changeset.begin("one") as files:
            files.write_text("run.sh", "x\n")
            files.chmod("pkg/one.py", 0o600)
        with pytest.raises(RootError, match="not permitted"):
            changeset.land()
    assert seen(tree) == before
    (tree / "pkg").chmod(0o755)


class FullDisk(Disk):
    """Has room for so many files, and then for no more."""

    def __init__(self, room: int) -> None:
        self.room = room

    def write(self, at: DiskName, content: bytes, mode: int = 0o600, owner: tuple[int, int] | None = None) -> None:
        self._spend()
        super().write(at, content, mode, owner)

    def copy(self, source: int, at: DiskName, mode: int, owner: tuple[int, int] | None = None) -> str:
        self._spend()
        return super().copy(source, at, mode, owner)

    def _spend(self) -> None:
        self.room -= 1
        if self.room < 0:
            raise OSError(28, "No space left on device")


@pytest.mark.parametrize("room", range(6))
def test_a_full_disk_at_any_file_leaves_the_tree_and_the_changeset(tree: Path, room: int) -> None:
    before = seen(tree)
    disk = FullDisk(100)
    with opened(tree, disk=disk) as changeset:
        files = changeset.begin("one")
        files.write_text("pkg/one.py", "x\n")
        files.write_text("new", "x\n")
        disk.room = 0
        with pytest.raises(ChangesetFullError, match="no room"):
            files.seal()
        disk.room = 1
        files.seal()
        disk.room = room
        if room < 4:
            with pytest.raises(ChangesetFullError, match="no room"):
                changeset.land()
            assert seen(tree) == before
            assert changeset.life is Life.ACTIVE
        disk.room = 100 if room != 4 else 4
        if room == 4:
            with pytest.raises(LandingStuckError, match="whoever opens the tree next"):
                changeset.land()
            disk.room = 100
        else:
            assert isinstance(changeset.land(), Landed)
    assert opened(tree, id=changeset.id).life is Life.LANDED
    assert (tree / "pkg/one.py").read_text() == "x\n"


# Providers, asked and chosen


def test_the_doctor_says_what_works_and_why_not(tree: Path) -> None:
    answers = {answer.provider: answer for answer in doctor(tree)}
    assert list(answers) == ["overlay", "clone", "copy", "api"]
    assert answers["api"].usable
    assert all(answer.why for answer in answers.values())


def test_an_unknown_provider_and_one_that_does_not_work_are_refused(tree: Path) -> None:
    with pytest.raises(ViewError, match="there is no provider 'zfs'"):
        opened(tree, terms=Terms(provider="zfs"))
    if not doctor(tree)[1].usable:
        with pytest.raises(ViewError, match="cannot share their blocks"):
            opened(tree, terms=Terms(provider="clone"))


def forbid_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> probe.Probed:
        no = "unshare: Operation not permitted"
        return probe.Probed(namespaces=no, overlay=no, confinement=no)

    monkeypatch.setattr(probe, "_probed", refused)


def test_without_namespaces_the_next_provider_is_chosen_and_it_is_said_why(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forbid_namespaces(monkeypatch)
    with opened(tree, terms=Terms()) as changeset:
        assert changeset.provider == "copy"
        assert [(answer.provider, answer.usable) for answer in changeset.answers] == [
            ("overlay", False),
            ("clone", False),
            ("copy", True),
        ]
        assert "not permitted" in changeset.answers[0].why
        with changeset.begin("one") as files:
            assert files.run(["sh", "-c", "echo x > made; cat made"]).stdout == "x\n"
    assert not (tree / "made").exists()


def test_a_tree_too_large_to_copy_falls_back_to_the_api(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forbid_namespaces(monkeypatch)
    with opened(tree, terms=Terms(), budget=Budget(files=3)) as changeset:
        assert changeset.provider == "api"
        assert "larger than the budget" in changeset.answers[2].why


def test_a_copy_that_outgrows_its_budget_is_stopped(tree: Path, opener: Opener) -> None:
    changeset = opener("copy", tree, budget=Budget(files=100))
    plant(tree / "many", {str(number): "x" for number in range(100)})
    with pytest.raises(ViewError, match="larger than a copy may be"):
        changeset.begin("one")


# Life


def test_every_stage_of_life_says_what_may_follow() -> None:
    assert set(LIFE) == set(Life)
    assert {after for follow in LIFE.values() for after in follow} == set(Life)


def test_a_dropped_changeset_stays_for_a_while_can_be_seen_and_taken_up_again(tree: Path) -> None:
    with opened(tree, id="work", name="the work") as changeset:
        with changeset.begin("one") as files:
            files.write_text("pkg/one.py", "one\n")
        changeset.review()
        assert changeset.life is Life.REVIEW
        changeset.drop()
        with pytest.raises(ChangesetLifeError, match="dropped"):
            changeset.land()
    assert show(tree, "work").life is Life.DROPPED
    assert "+one\n" in diff(tree, "work")
    assert prune(tree) == ()
    with opened(tree, id="work") as changeset:
        changeset.reopen()
        assert isinstance(changeset.land(), Landed)


def test_begin_after_a_review_makes_it_active_again(tree: Path) -> None:
    with opened(tree) as changeset:
        changeset.review()
        with changeset.begin("more"):
            pass
        assert changeset.life is Life.ACTIVE


class Later(SystemClock):
    def now(self) -> int:
        return super().now() + 30 * 24 * 3600 * 1000


def test_what_is_over_for_long_is_pruned_and_what_is_kept_is_not(tree: Path, tmp_path: Path) -> None:
    for name in ("gone", "kept", "active"):
        with opened(tree, id=name) as changeset:
            with changeset.begin("one") as files:
                files.write_text("pkg/one.py", name)
            if name != "active":
                changeset.drop()
    keep(tree, "kept")
    assert prune(tree) == ()
    with opened(tree, id="gone"):
        assert prune(tree, clock=Later()) == ()
    assert prune(tree, clock=Later()) == ("gone",)
    lives = {each.id: each.life for each in list_changesets(tree)}
    assert lives == {"gone": Life.PRUNED, "kept": Life.KEPT, "active": Life.ACTIVE}
    assert "+kept" in diff(tree, "kept")
    assert diff(tree, "gone") == ""
    assert list((tmp_path / ".tree.changesets/trash").iterdir()) == []
    assert prune(tree, clock=Later()) == ()


def test_an_id_that_nothing_has_is_unknown_and_one_that_cannot_be_is_refused(tree: Path) -> None:
    with pytest.raises(UnknownChangesetError):
        show(tree, "nothing")
    for odd in ("../x", "", "a/b", ".hidden"):
        with pytest.raises(PathError):
            show(tree, odd)


def test_a_changeset_that_is_open_elsewhere_is_busy(tree: Path) -> None:
    with opened(tree, id="work"), pytest.raises(ChangesetBusyError, match="open elsewhere"):
        opened(tree, id="work")


# Taking a landing back


def test_a_landing_is_taken_back_to_the_byte(tree: Path) -> None:
    before = seen(tree, times=False)
    times = {path: about[-1] for path, about in seen(tree).items() if about[0] == "file"}
    with opened(tree) as changeset:
        with changeset.begin("all sorts") as files:
            files.write_text("pkg/one.py", "changed\n")
            files.remove("docs", recursive=True)
            files.write_text("docs", "a file\n")
            files.rename("run.sh", "pkg/run.sh")
            files.make_folder("new/deep", parents=True)
            files.write_text("new/deep/x", "x")
            files.remove("to_page")
            files.chmod("empty", 0o700)
        landed = changeset.land()
        assert isinstance(landed, Landed)
    with take_back(tree, landing=landed.id, id="back", terms=API) as inverse:
        assert "-changed\n" in inverse.diff()
        assert isinstance(inverse.land(), Landed)
    assert seen(tree, times=False) == before
    assert {path: about[-1] for path, about in seen(tree).items() if about[0] == "file"} == times


@pytest.mark.parametrize("edit", ["elsewhere", "same"])
def test_taking_back_keeps_what_others_did_since_or_is_in_conflict(tree: Path, edit: str) -> None:
    page = (tree / "docs/page.md").read_text()
    with opened(tree) as changeset:
        with changeset.begin("one") as files:
            files.write_text("docs/page.md", page.replace("five", "FIVE"))
        landed = changeset.land()
        assert isinstance(landed, Landed)
    now = (tree / "docs/page.md").read_text()
    edited = now.replace("one", "edited since") if edit == "elsewhere" else now.replace("FIVE", "edited since")
    (tree / "docs/page.md").write_text(edited)
    with take_back(tree, landing=landed.id, terms=API) as inverse:
        ended = inverse.land()
    if edit == "elsewhere":
        assert isinstance(ended, Landed)
        assert (tree / "docs/page.md").read_text() == page.replace("one", "edited since")
    else:
        assert not isinstance(ended, Landed)
        assert (tree / "docs/page.md").read_text() == edited


def test_an_inverse_asked_for_twice_is_one_and_a_pruned_landing_has_none(tree: Path) -> None:
    with opened(tree, id="work") as changeset:
        with changeset.begin("one") as files:
            files.write_text("pkg/one.py", "x\n")
        landed = changeset.land()
        assert isinstance(landed, Landed)
    for _ in range(2):
        with take_back(tree, landing=landed.id, id="back", terms=API) as inverse:
            assert [step.name for step in inverse.steps()] == ["take back work"]
            assert show(tree, "back").inverse_of == landed.id
    prune(tree, clock=Later())
    with pytest.raises(ChangesetLifeError, match="pruned"):
        take_back(tree, landing=landed.id, terms=API)


@pytest.mark.parametrize("provider", ["overlay", "copy"])
def test_the_view_of_an_inverse_shows_the_tree_as_it_was(provider: str, tree: Path, opener: Opener) -> None:
    with opened(tree) as changeset:
        with changeset.begin("one") as files:
            files.remove("pkg/sub", recursive=True)
            files.write_text("pkg/one.py", "x\n")
            files.write_text("pkg/new.py", "x\n")
        landed = changeset.land()
        assert isinstance(landed, Landed)
    with take_back(tree, landing=landed.id, terms=Terms(provider=provider)) as inverse, inverse.begin("look") as files:
        assert files.run(["cat", "pkg/sub/deep.py", "pkg/one.py"]).stdout == "deep = True\ndef one():\n    return 1\n"
        assert not files.run(["test", "-e", "pkg/new.py"]).ok
