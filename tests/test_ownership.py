"""Whose a thing is, and who else can change it: the rule, by modes and owners of real files."""

import grp
import os
import pwd
import struct
from pathlib import Path

import pytest

from amends import ownership
from amends.errors import InputError, RefusedError
from amends.ownership import DOCUMENT, FOLDER, JOURNAL, KEY, STATE, PrivateKind, fault

STRANGER = 1234


@pytest.fixture
def place(tmp_path: Path) -> Path:
    made = tmp_path / "place"
    made.mkdir(mode=0o700)
    return made


@pytest.fixture(autouse=True)
def _nothing_is_safe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv(ownership.SAFE, raising=False)


def made(path: Path, mode: int = 0o600, text: str = "") -> Path:
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def said(path: Path, kind: PrivateKind, group: int | None = None) -> str:
    return str(fault(path, kind, group=group) or "")


# -- modes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
@pytest.mark.parametrize("kind", [JOURNAL, KEY, DOCUMENT])
def test_a_file_for_its_owner_alone_is_believed(place: Path, kind: PrivateKind, mode: int) -> None:
    assert said(made(place / "file", mode), kind) == ""


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o666])
@pytest.mark.parametrize("kind", [JOURNAL, KEY])
def test_what_nobody_else_may_read_is_refused_where_they_can(place: Path, kind: PrivateKind, mode: int) -> None:
    path = made(place / "file", mode)
    assert said(path, kind).endswith(f"run: chmod 600 {path}")
    assert f"is open to other users (mode {mode:o})" in said(path, kind)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o755])
def test_a_document_may_be_read_by_all(place: Path, mode: int) -> None:
    assert said(made(place / "file", mode), DOCUMENT) == ""


@pytest.mark.parametrize("mode", [0o602, 0o666, 0o622])
def test_a_document_that_others_can_write_is_refused(place: Path, mode: int) -> None:
    path = made(place / "file", mode)
    assert said(path, DOCUMENT).endswith(f"run: chmod go-w {path}")


@pytest.mark.parametrize("mode", [0o702, 0o777, 0o722])
@pytest.mark.parametrize("kind", [FOLDER, STATE])
def test_a_directory_that_others_can_write_is_refused(place: Path, kind: PrivateKind, mode: int) -> None:
    place.chmod(mode)
    assert f"{place} can be written by other users (mode {mode:o})" in said(place, kind)
    assert said(place, kind).endswith(f"run: chmod go-w {place}")


def test_a_sticky_directory_is_no_place_for_a_journal_and_good_enough_for_a_document(place: Path) -> None:
    place.chmod(0o1777)
    assert "use a directory of your own, such as: mkdir -m 700" in said(place, FOLDER)
    assert "can be written by other users (mode 1777)" in "".join(map(str, ownership.journal_faults(place / "j.db")))
    assert said(made(place / "amends.toml"), DOCUMENT) == ""


def test_a_directory_on_the_way_that_others_can_write_is_refused(place: Path) -> None:
    inside = place / "one" / "two"
    inside.mkdir(parents=True, mode=0o700)
    place.chmod(0o777)
    for path, kind in ((inside, FOLDER), (inside / "j.db", JOURNAL), (inside / "p.yaml", DOCUMENT), (inside, STATE)):
        assert f"{place} can be written by other users (mode 777)" in said(path, kind)
    place.chmod(0o1777)
    assert said(inside, FOLDER) == ""


def test_a_group_that_can_write_is_somebody_else_unless_it_is_meant(place: Path) -> None:
    made(place / "j.db", 0o660)
    place.chmod(0o2770)
    group, name = os.getegid(), ownership.group_name(os.getegid())
    if os.geteuid() == 0:  # the group of an ordinary user may be their own
        assert f"can be written by group {name} (mode 2770)" in said(place, FOLDER)
        assert f"journal_group = {name!r}" in said(place, FOLDER)
    assert [*ownership.journal_faults(place / "j.db", group=group)] == []
    place.chmod(0o700)
    assert said(place / "j.db", JOURNAL).endswith(f"run: chmod 600 {place / 'j.db'}")
    assert said(place / "j.db", JOURNAL, group + 1).endswith(f"run: chmod 660 {place / 'j.db'}")


@pytest.mark.parametrize("mode", [0o700, 0o770, 0o2750])
def test_a_shared_directory_has_to_let_its_group_in_and_hand_it_on(place: Path, mode: int) -> None:
    place.chmod(mode)
    found = said(place, FOLDER, os.getegid())
    assert f"is of group {ownership.group_name(os.getegid())}, which is to share the journal" in found
    assert found.endswith(f"run: chmod 2770 {place}")
    assert said(place, FOLDER, os.getegid() + 1) == ("" if mode != 0o770 or os.geteuid() else said(place, FOLDER))


def test_a_key_in_a_shared_directory_stays_its_owners_alone(place: Path) -> None:
    place.chmod(0o2770)
    key = made(place / "j.db.key", 0o660)
    assert said(key, KEY, os.getegid()).endswith(f"run: chmod 600 {key}")
    key.chmod(0o600)
    assert said(key, KEY, os.getegid()) == ""


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="access lists are looked for on Linux only")
def test_an_access_list_is_seen_where_the_group_would_be_allowed(place: Path) -> None:
    place.chmod(0o2770)
    entries = [(1, 7, -1), (2, 7, STRANGER), (4, 0, -1), (16, 7, -1), (32, 0, -1)]  # owner, user, group, mask, others
    os.setxattr(
        place, "system.posix_acl_access", struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *e) for e in entries)
    )
    assert f"setfacl -b {place}" in said(place, FOLDER, os.getegid())


# -- links and kinds of file ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [JOURNAL, KEY])
def test_what_amends_made_itself_is_no_link(place: Path, kind: PrivateKind) -> None:
    target = made(place / "target")
    (place / "link").symlink_to(target)
    assert said(place / "link", kind) == (
        f"{place / 'link'} is a symbolic link; {kind.word} is no link: name what it means, {target}"
    )


def test_a_link_to_a_document_is_followed_and_each_place_on_the_way_is_looked_at(place: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    made(elsewhere / "real.yaml")
    (place / "policies").symlink_to("../elsewhere")
    (place / "policy.yaml").symlink_to("policies/real.yaml")
    assert said(place / "policy.yaml", DOCUMENT) == ""
    elsewhere.chmod(0o777)
    assert f"{elsewhere} can be written by other users" in said(place / "policy.yaml", DOCUMENT)


def test_a_way_that_ends_in_two_dots_means_the_place_behind_the_link(place: Path, tmp_path: Path) -> None:
    (tmp_path / "open" / "deep").mkdir(parents=True)
    (tmp_path / "open").chmod(0o777)
    (place / "link").symlink_to(tmp_path / "open" / "deep")
    (place / "up").symlink_to("link/..")
    for each in (f"{place}/link/..", f"{place}/up", f"{place}/up/.", f"{place}/link/../deep/.."):
        assert f"{tmp_path}/open can be written by other users" in str(fault(each, FOLDER))
        assert f"{tmp_path}/open can be written" in "".join(map(str, ownership.journal_faults(f"{each}/j.db")))
    assert fault("/", FOLDER) is None


def test_links_that_lead_nowhere_or_in_a_circle_are_left_to_whoever_opens_them(place: Path) -> None:
    (place / "a").symlink_to("b")
    (place / "b").symlink_to("a")
    (place / "gone").symlink_to("nothing")
    assert said(place / "a", DOCUMENT) == said(place / "gone", DOCUMENT) == said(place / "none", JOURNAL) == ""


def test_a_pipe_a_directory_and_a_file_in_the_wrong_place_are_refused(place: Path) -> None:
    os.mkfifo(place / "pipe", 0o600)
    (place / "dir").mkdir(mode=0o700)
    assert "is not a regular file" in said(place / "pipe", DOCUMENT)
    assert "is not a regular file" in said(place / "dir", JOURNAL)
    assert "is not a directory" in said(made(place / "file"), STATE)


def test_a_descriptor_that_was_handed_over_is_nobody_elses() -> None:
    reads, writes = os.pipe()
    os.write(writes, b"version: v1")
    os.close(writes)
    try:
        assert ownership.read_own(f"/dev/fd/{reads}", DOCUMENT, most=100, error=RefusedError) == b"version: v1"
    finally:
        os.close(reads)


def test_a_file_is_read_up_to_a_bound_and_a_fault_is_raised_as_the_callers_error(place: Path) -> None:
    path = made(place / "p.yaml", text="123456")
    assert ownership.read_own(path, DOCUMENT, most=4, error=RefusedError) == b"1234"
    path.chmod(0o666)
    with pytest.raises(RefusedError, match="chmod go-w"):
        ownership.read_own(path, DOCUMENT, most=4, error=RefusedError)


def test_a_name_need_not_be_text(place: Path) -> None:
    inside = os.fsencode(place) + b"/\xff"
    os.mkdir(inside, 0o700)  # noqa: PTH102 - as bytes
    assert fault(inside, STATE) is None
    os.chmod(inside, 0o777)  # noqa: PTH101 - as bytes
    assert fault(inside, STATE) is not None


# -- owners -----------------------------------------------------------------------------------------------------------


@pytest.mark.as_root
@pytest.mark.parametrize("kind", [JOURNAL, KEY, DOCUMENT])
def test_the_file_of_another_user_is_refused_with_what_whose_and_how_to_mend_it(place: Path, kind: PrivateKind) -> None:
    path = made(place / "file")
    os.chown(path, STRANGER, STRANGER)
    found = said(path, kind)
    assert f"{path} belongs to uid {STRANGER} (mode 600), and not to root: {kind.because}" in found
    assert f"chown 0 {path}" in found
    assert f"mv {path} {path}.refused" in found
    assert ownership.SAFE not in found  # the directory is ours: no trust in it would help


@pytest.mark.as_root
def test_a_planted_log_can_only_be_moved_away(place: Path) -> None:
    made(place / "j.db")
    os.chown(made(place / "j.db-wal"), STRANGER, STRANGER)
    (found,) = ownership.journal_faults(place / "j.db")
    assert found.do == f"move it away: mv {place}/j.db-wal {place}/j.db-wal.refused"


@pytest.mark.as_root
def test_a_link_of_another_user_is_not_followed(tmp_path: Path) -> None:
    made(tmp_path / "real.yaml")
    (tmp_path / "link.yaml").symlink_to("real.yaml")
    os.chown(tmp_path / "link.yaml", STRANGER, STRANGER, follow_symlinks=False)
    assert f"chown -h 0 {tmp_path / 'link.yaml'}" in said(tmp_path / "link.yaml", DOCUMENT)


@pytest.mark.as_root
def test_a_directory_of_another_user_is_safe_once_the_user_says_so(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = place / "deep"
    inside.mkdir(mode=0o755)
    path = made(inside / "amends.toml", 0o644)
    for each in (place, inside, path):
        os.chown(each, STRANGER, STRANGER)
    assert f"export {ownership.SAFE}={inside}" in said(path, DOCUMENT)
    monkeypatch.setenv(ownership.SAFE, f"/nowhere{os.pathsep}{inside}")
    assert said(path, DOCUMENT) == ""
    os.chown(path, STRANGER + 1, STRANGER)
    assert f"belongs to uid {STRANGER + 1}" in said(path, DOCUMENT)  # trusted is who owns the directory, not everybody
    os.chown(path, STRANGER, STRANGER)
    path.chmod(0o666)
    assert "is open to other users (mode 666)" in said(path, DOCUMENT)


@pytest.mark.as_root
def test_a_users_own_file_names_safe_directories_and_has_to_be_theirs(place: Path) -> None:
    os.chown(place, STRANGER, STRANGER)
    config = Path(ownership.user_file())
    config.parent.mkdir(parents=True)
    made(config, 0o644, f'safe_directories = ["{place}"]\n')
    assert said(place, FOLDER) == ""
    os.chown(config, STRANGER, STRANGER)
    with pytest.raises(InputError, match=rf"config\.toml belongs to uid {STRANGER}"):
        fault(place, FOLDER)


@pytest.mark.as_root
def test_an_own_group_is_nobody_else_and_roots_is(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def of_the_machine(group: str, *members: str) -> None:
        found = grp.struct_group((group, "x", STRANGER, list(members)))
        monkeypatch.setattr(grp, "getgrgid", {STRANGER: found, 0: found}.__getitem__)

    person = pwd.struct_passwd(("ann", "x", STRANGER, STRANGER, "", "/", ""))
    monkeypatch.setattr(pwd, "getpwuid", {STRANGER: person, 0: person}.__getitem__)
    of_the_machine("ann")
    monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    place.chmod(0o775)
    os.chown(place, STRANGER, STRANGER)
    assert said(place, FOLDER) == ""
    of_the_machine("ann", "ann", "eve")
    assert "can be written by group ann" in said(place, FOLDER)
    of_the_machine("staff")
    assert "can be written by group staff" in said(place, FOLDER)


# -- what the user says -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("safe_directories = 'x'", "has to be a list of paths"),
        ("safe_directories = [1]", "has to be a list of paths"),
        ("safe_directories = ['here']", "'here' is no whole path"),
        ("safe_directory = []", "unknown key 'safe_directory'; known: safe_directories"),
        ("safe_directories = [", "cannot be read"),
    ],
)
def test_a_users_file_that_says_what_it_cannot_say_is_refused(text: str, complaint: str) -> None:
    config = Path(ownership.user_file())
    config.parent.mkdir(parents=True)
    made(config, 0o644, text)
    with pytest.raises(InputError, match=complaint):
        ownership.safe_directories()


def test_a_group_is_known_by_its_name_or_its_number() -> None:
    assert ownership.group_number(grp.getgrgid(0).gr_name) == 0
    assert ownership.group_number("4711") == 4711
    with pytest.raises(InputError, match=r"there is no group 'nobodys-own'.*groupadd nobodys-own"):
        ownership.group_number("nobodys-own")
