"""Attacks by a colleague: another user of the machine who can make files in a directory that is not theirs alone."""

import asyncio
import contextlib
import json
import os
import shlex
import shutil
import sqlite3
import stat
from collections.abc import Callable, Generator
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import pytest

from amends import Coordinator, ownership
from amends.changeset import (
    Changeset,
    Landed,
    Terms,
    diff,
    doctor,
    late_writes,
    list_changesets,
    prune,
    queue,
    show,
    take_back,
)
from amends.changeset.model import codec
from amends.changeset.model.landing_plan import Do
from amends.errors import (
    ChangesetDamagedError,
    ChangesetError,
    JournalAccessError,
    PolicyNotInForceError,
    RootError,
)
from amends.runtime.drive.policies import Policies
from tests.cli.shell import Said, Shell
from tests.security import others
from tests.security.planted import EVIL, Fields, Victim, rewrite

# -- ownership --------------------------------------------------------------------------------------------------------

STRICT = "version: v1\ndefault: deny\nrules: []\n"
LAX = "version: v1\ndefault: allow\nrules: []\n"
RUNS = """
version: v1
saga: runs
steps:
  - id: say
    shell: if test -e {go}; then id -u > {proof}; else echo begun; sleep 60; fi
    idempotent: true
    compensate: ["true"]
"""


class Attack(NamedTuple):
    """A journal that somebody else made: its log, with every page in it, and what its saga would write if resumed."""

    log: Path
    proof: Path


@pytest.fixture(scope="module")
def ownership_attack() -> Generator[Attack]:
    """A journal with an unfinished saga, without its signers, all of it in its log: made by whoever, to be planted."""
    with others.a_place() as place:
        own, go, proof = others.folder(place / "own", others.ROOT), place / "go", place / "proof"
        others.folder(place / "open", others.ROOT, 0o777)
        proof = place / "open" / "proof"
        (own / "runs.yaml").write_text(RUNS.format(go=go, proof=proof))
        with Shell(own).started("run", "runs.yaml", "--id", "x1") as process:
            assert any("begun" in line for line in cast("IO[str]", process.stdout))
            process.kill()
            process.wait()
        connection = sqlite3.connect(own / "amends.db", isolation_level=None)
        for statement in ("DELETE FROM signer", "DELETE FROM checkpoint", "VACUUM"):
            connection.execute(statement)
        log = others.file(place / "log", "", others.ROOT)
        shutil.copyfile(own / "amends.db-wal", log)
        connection.close()
        go.touch()
        yield Attack(log, proof)


def ownership_plant(attack: Attack, journal: Path) -> None:
    """As the stranger, with no other right than to make a file in that directory."""
    others.command_as(others.STRANGER, "cp", str(attack.log), f"{journal}-wal")
    others.command_as(others.STRANGER, "chmod", "666", f"{journal}-wal")


@pytest.fixture
def ownership_place() -> Generator[Path]:
    with others.a_place() as place:
        yield place


VICTIMS = sorted({others.ROOT if others.IS_ROOT else others.VICTIM, others.VICTIM})


@pytest.mark.parametrize("victim", VICTIMS)
def test_a_log_planted_beside_the_journal_is_not_replayed(
    ownership_place: Path, ownership_attack: Attack, victim: int
) -> None:
    """A colleague puts a log of their own beside a journal in a sticky directory; SQLite would replay it."""
    shared = others.folder(ownership_place / "shared", victim, 0o700)
    others.file(shared / "strict.yaml", STRICT, victim)
    assert others.amends_as(victim, shared, "policy", "adopt", "strict.yaml", "--why", "x").code == 0
    shared.chmod(0o1777)
    ownership_plant(ownership_attack, shared / "amends.db")
    for words in (("policy", "show"), ("resume",)):
        said = others.amends_as(victim, shared, *words)
        assert said.code == 2
        assert f"{shared} can be written by other users (mode 1777)" in said.err
    shared.chmod(0o700)  # what was planted before stays what it is
    said = others.amends_as(victim, shared, "resume")
    assert said.code == 2
    assert f"{shared}/amends.db-wal" in said.err
    assert ("belongs to uid 1234 (mode 666)" if others.IS_ROOT else "is open to other users (mode 666)") in said.err
    assert not ownership_attack.proof.exists()
    if others.IS_ROOT:
        assert f"mv {shared}/amends.db-wal {shared}/amends.db-wal.refused" in said.err
        (shared / "amends.db-wal").rename(shared / "amends.db-wal.refused")
        assert "default: deny" in others.amends_as(victim, shared, "policy", "show").out


def test_a_planted_log_would_have_run_a_command_as_the_owner(
    ownership_place: Path, ownership_attack: Attack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: with the rule switched off, the very same attack works. Without this, nothing above says much."""
    shared = others.folder(ownership_place / "shared", os.geteuid(), 0o700)
    shell = Shell(shared)
    others.file(shared / "strict.yaml", STRICT, os.geteuid())
    assert shell.here("policy", "adopt", "strict.yaml", "--why", "x").code == 0
    shared.chmod(0o1777)
    ownership_plant(ownership_attack, shared / "amends.db")

    def faultless(path: Path, group: int | None = None) -> list[ownership.OwnershipFault]:
        return []

    monkeypatch.setattr(ownership, "journal_faults", faultless)
    assert shell.here("resume").code == 0
    assert ownership_attack.proof.read_text().strip() == str(os.geteuid())
    ownership_attack.proof.unlink()


@pytest.mark.parametrize("end", ["", "-wal", "-shm", "-journal"])
@pytest.mark.parametrize("mode", [0o606, 0o640, 0o660, 0o602])
def test_whatever_sqlite_would_believe_is_its_owners_alone(tmp_path: Path, end: str, mode: int) -> None:
    """Any of its files that a group or others may read or write is refused, whichever it is."""
    shell = Shell(tmp_path)
    assert shell.here("run", "shop:chat").code == 0
    others.file(tmp_path / f"amends.db{end}", "", os.geteuid()) if end else None
    (tmp_path / f"amends.db{end}").chmod(mode)
    complaint = shell.here("saga", "list").complaint
    assert complaint.startswith(f"{tmp_path}/amends.db{end} is open to other users (mode {mode:o})")
    assert complaint.endswith(f"run: chmod 600 {tmp_path}/amends.db{end}")


@pytest.mark.parametrize("mode", [0o1777, 0o777, 0o702, 0o1702])
def test_no_journal_is_made_in_a_directory_that_others_can_write(tmp_path: Path, mode: int) -> None:
    """Who can make a file beside it can change it, later as well as before."""
    place = tmp_path / "shared"
    place.mkdir()
    place.chmod(mode)
    complaint = Shell(place).here("run", "shop:chat").complaint
    assert complaint.startswith(f"{place} can be written by other users (mode {mode:o})")
    assert not (place / "amends.db").exists()
    assert not (place / "amends.db.key").exists()


def test_a_journal_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    """A link in the place of a journal can be turned to another one at any moment."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert Shell(elsewhere).here("run", "shop:chat").code == 0
    (tmp_path / "amends.db").symlink_to(elsewhere / "amends.db")
    complaint = Shell(tmp_path).here("saga", "list").complaint
    assert complaint == (
        f"{tmp_path}/amends.db is a symbolic link; a journal is no link: name what it means, {elsewhere}/amends.db"
    )


@pytest.mark.as_root
def test_the_journal_of_another_user_is_not_opened(ownership_place: Path, ownership_attack: Attack) -> None:
    """Root looks into a journal that an ordinary user made, and would run its commands as root."""
    theirs = others.folder(ownership_place / "theirs", others.STRANGER)
    ownership_plant(ownership_attack, theirs / "amends.db")
    others.file(theirs / "amends.db", "", others.STRANGER, 0o600)
    (theirs / "amends.db-wal").chmod(0o600)
    said = others.amends_as(others.ROOT, theirs, "resume")
    assert said.code == 2
    assert f"{theirs} belongs to uid 1234 (mode 700), and not to root" in said.err
    assert f"AMENDS_SAFE_DIRECTORIES={theirs}" in said.err
    assert not ownership_attack.proof.exists()


@pytest.mark.as_root
def test_a_journal_of_another_user_in_a_directory_of_ours_is_not_opened(ownership_place: Path) -> None:
    """The same, moved into a directory of the victim's own: no trust in the directory would help."""
    ours = others.folder(ownership_place / "ours", others.VICTIM)
    others.file(ours / "amends.db", "", others.STRANGER, 0o600)
    said = others.amends_as(others.VICTIM, ours, "saga", "list")
    assert said.code == 2
    assert f"{ours}/amends.db belongs to uid 1234 (mode 600), and neither to you" in said.err
    assert f"sudo chown {others.VICTIM} {ours}/amends.db" in said.err
    assert "AMENDS_SAFE_DIRECTORIES" not in said.err


@pytest.mark.parametrize("name", ["amends.toml", "pyproject.toml"])
def test_configuration_that_another_user_put_above_is_refused_and_not_passed_by(
    ownership_place: Path, name: str
) -> None:
    """A colleague puts amends.toml, with a lax policy, into a sticky directory above the victim's own."""
    parent = others.folder(ownership_place / "parent", others.ROOT if others.IS_ROOT else others.VICTIM, 0o1777)
    mine = others.folder(parent / "mine", others.VICTIM)
    others.file(mine / "strict.yaml", STRICT, others.VICTIM)
    others.file(mine / "saga.yaml", RUNS.format(go=mine, proof=mine / "proof"), others.VICTIM)
    assert others.amends_as(others.VICTIM, mine, "policy", "adopt", "strict.yaml", "--why", "x").code == 0
    table = "" if name == "amends.toml" else "[tool.amends]\n"
    others.file(parent / "lax.yaml", LAX, others.STRANGER)
    others.file(parent / name, f'{table}policy = "lax.yaml"\n', others.STRANGER, 0o644 if others.IS_ROOT else 0o666)
    said = others.amends_as(others.VICTIM, mine, "run", "saga.yaml", "--env", "production")
    assert said.code == 2
    whose = "belongs to uid 1234 (mode 644)" if others.IS_ROOT else "is open to other users (mode 666)"
    assert f"{parent / name} {whose}" in said.err
    assert not (mine / "proof").exists()
    (parent / name).unlink()
    assert others.amends_as(others.VICTIM, mine, "run", "saga.yaml", "--env", "production").code == 5


@pytest.mark.parametrize("what", ["policy", "saga"])
def test_a_policy_or_a_sagas_file_that_others_can_write_is_not_believed(tmp_path: Path, what: str) -> None:
    """What it says is what amends does, as the user who runs it."""
    path = tmp_path / "file.yaml"
    path.write_text(LAX if what == "policy" else RUNS.format(go=tmp_path, proof=tmp_path / "proof"))
    path.chmod(0o666)
    words = ("policy", "adopt", "file.yaml", "--why", "x") if what == "policy" else ("run", "file.yaml")
    complaint = Shell(tmp_path).here(*words).complaint
    assert complaint.startswith(f"{path} is open to other users (mode 666), and amends would do as it says")
    assert complaint.endswith(f"run: chmod go-w {path}")
    assert not (tmp_path / "proof").exists()


@pytest.mark.as_root
def test_the_policy_and_the_saga_of_another_user_are_not_believed(ownership_place: Path) -> None:
    """Not by their path, and not through a link of the victim's own."""
    mine = others.folder(ownership_place / "mine", others.VICTIM)
    theirs = others.folder(ownership_place / "theirs", others.STRANGER, 0o755)
    others.file(theirs / "lax.yaml", LAX, others.STRANGER)
    (mine / "link.yaml").symlink_to(theirs / "lax.yaml")
    os.chown(mine / "link.yaml", others.VICTIM, others.VICTIM, follow_symlinks=False)
    for path in (str(theirs / "lax.yaml"), "link.yaml"):
        said = others.amends_as(others.VICTIM, mine, "policy", "adopt", path, "--why", "x")
        assert said.code == 2
        assert f"{theirs} belongs to uid 1234" in said.err
    allowed = others.amends_as(
        others.VICTIM, mine, "policy", "adopt", "link.yaml", "--why", "x", AMENDS_SAFE_DIRECTORIES=str(theirs)
    )
    assert allowed.code == 0


@pytest.mark.as_root
def test_a_checkout_of_another_user_is_worked_in_once_the_user_says_so(ownership_place: Path) -> None:
    """Root in a container, over a checkout of the user outside: as git has safe.directory. Never by the checkout."""
    checkout = others.folder(ownership_place / "checkout", others.STRANGER, 0o755)
    others.file(checkout / "amends.toml", 'journal = "j/amends.db"\n', others.STRANGER)
    others.folder(checkout / "j", others.STRANGER)
    runs = RUNS.format(go=checkout, proof=checkout / "proof") + "confine: false\n"  # or root has no power over it
    others.file(checkout / "saga.yaml", runs, others.STRANGER)
    said = others.amends_as(others.ROOT, checkout, "run", "saga.yaml")
    assert said.code == 2
    assert f"export AMENDS_SAFE_DIRECTORIES={checkout}" in said.err

    def trusting() -> Said:
        safe = f"/nowhere:{checkout}"
        return others.amends_as(others.ROOT, checkout, "run", "saga.yaml", AMENDS_SAFE_DIRECTORIES=safe)

    assert trusting().code == 0
    assert (checkout / "proof").read_text() == "0\n"
    others.file(checkout / "amends.toml", f'safe_directories = ["{checkout}"]\n', others.STRANGER)
    said = trusting()
    assert said.code == 2
    assert "safe_directories is for the user to say" in said.err
    others.file(checkout / "amends.toml", "", others.VICTIM)
    said = trusting()
    assert f"amends.toml belongs to nobody (uid {others.VICTIM})" in said.err  # trusted is the owner, not everybody


@pytest.mark.as_root
def test_a_group_shares_a_journal_on_purpose_and_nobody_else_does(ownership_place: Path) -> None:
    """Two members of a group and one who is none, by their uids; and without the word, not even members."""
    team, ann, bob = 4711, 1301, 1302
    shared = others.folder(ownership_place / "shared", others.ROOT, 0o2770, group=team)
    others.folder(ownership_place / "work", others.ROOT, 0o755)
    work = ownership_place / "work"
    others.file(work / "amends.toml", f'journal = "{shared}/amends.db"\n', others.ROOT)
    others.file(work / "lax.yaml", LAX, others.ROOT)
    others.file(work / "strict.yaml", STRICT, others.ROOT)
    adopts = ("policy", "adopt", "--why", "x")
    said = others.amends_as(ann, work, *adopts, "lax.yaml", groups=(team,))
    assert said.code == 2
    assert f"{shared} can be written by group 4711 (mode 2770)" in said.err
    assert "journal_group = '4711'" in said.err
    others.file(work / "amends.toml", f'journal = "{shared}/amends.db"\njournal_group = "4711"\n', others.ROOT)
    for who, name in ((ann, "lax.yaml"), (bob, "strict.yaml"), (ann, "lax.yaml"), (others.ROOT, "strict.yaml")):
        said = others.amends_as(who, work, *adopts, name, groups=(team,))
        assert said.code == 0, f"{who}: {said.out} {said.err}"
    about = (shared / "amends.db").stat()
    assert (about.st_uid, about.st_gid, about.st_mode & 0o7777) == (ann, team, 0o660)
    key = (shared / "amends.db.key").stat()
    assert (key.st_uid, key.st_mode & 0o7777) == (ann, 0o600)
    assert "default: deny" in others.amends_as(bob, work, "policy", "show", groups=(team,)).out
    said = others.amends_as(others.STRANGER, work, "saga", "list")
    assert (said.code, "cannot be opened: Permission denied" in said.err) == (2, True)
    said = others.amends_as(bob, work, "evidence", "tree-head", "--new", groups=(team,))
    assert (said.code, f"is the key of uid {ann}, who alone signs this journal" in said.err) == (2, True)
    assert others.amends_as(ann, work, "evidence", "tree-head", "--new", groups=(team,)).code == 0
    assert others.amends_as(bob, work, "evidence", "verify", groups=(team,)).code == 0


def test_the_files_that_a_group_shares_are_made_for_it(tmp_path: Path) -> None:
    """The journal and what SQLite puts beside it are of the group, mode 660; the key stays its owner's alone."""
    tmp_path.chmod(0o2770)

    def modes() -> dict[str, int]:
        return {each.name: stat.S_IMODE(each.stat().st_mode) for each in sorted(tmp_path.iterdir())}

    async def live() -> dict[str, int]:
        async with Coordinator.open(str(tmp_path / "j.db"), journal_group=str(os.getegid()), signals=False):
            return modes()

    shared = dict.fromkeys(["j.db", "j.db-shm", "j.db-wal"], 0o660)
    assert asyncio.run(live()) == {**shared, "j.db.key": 0o600}
    with pytest.raises(JournalAccessError, match=r"can be written by group|is open to other users"):
        asyncio.run(open_once(tmp_path / "j.db"))


async def open_once(path: Path) -> None:
    async with Coordinator.open(str(path), signals=False):
        pass


def test_doctor_names_whatever_is_not_ours_alone(tmp_path: Path) -> None:
    """All of it as findings, with the commands; none of it as a traceback or one error at a time."""
    shell = Shell(tmp_path)
    assert shell.here("run", "shop:chat").code == 0
    (tmp_path / "policy.yaml").write_text(LAX)
    (tmp_path / "amends.toml").write_text('policy = "policy.yaml"\n')
    planted = tmp_path / "amends.db-wal"
    planted.touch()
    for path, mode in (
        (tmp_path, 0o1777),
        (tmp_path / "amends.db", 0o640),
        (planted, 0o666),
        (tmp_path / "amends.db.key", 0o644),
        (tmp_path / "amends.toml", 0o666),
        (tmp_path / "policy.yaml", 0o666),
    ):
        path.chmod(mode)
    said = shell("doctor", "--json", "--policy", "policy.yaml")
    wrong = {record["found"].split(" ")[0]: record for record in said.of_type("check") if record["state"] == "wrong"}
    assert said.code == 1
    assert set(wrong) >= {
        str(tmp_path),
        *(str(tmp_path / name) for name in ("amends.db", "amends.db-wal", "amends.db.key", "amends.toml")),
        str(tmp_path / "policy.yaml"),
    }
    assert wrong[str(planted)]["do"] == f"chmod 600 {planted}"


# -- what is only named -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["option", "variable", "amends.toml", "resume"])
def test_a_policy_that_is_only_named_never_takes_the_place_of_the_one_in_force(tmp_path: Path, way: str) -> None:
    """An option, a variable or a line in a file replaced the strict policy, as `system:local`, unasked."""
    shell = Shell(tmp_path)
    (tmp_path / "strict.yaml").write_text(STRICT)
    (tmp_path / "lax.yaml").write_text(LAX)
    assert shell.here("policy", "adopt", "strict.yaml", "--why", "x", "--by", "person:ann").code == 0
    words, named = ["run", "shop:chat", "--env", "production"], ""
    match way:
        case "option":
            words += ["--policy", "lax.yaml"]
        case "variable":
            named = "lax.yaml"
        case "amends.toml":
            (tmp_path / "amends.toml").write_text('policy = "lax.yaml"\n')
        case _:
            words = ["resume", "shop", "--policy", "lax.yaml"]
    complaint = shell(*words, AMENDS_POLICY=named).complaint
    assert complaint.startswith("lax.yaml is not the policy in force on amends.db: ")
    assert "adopted by person:ann (x)" in complaint
    command = "amends policy adopt lax.yaml --journal amends.db --why REASON"
    assert command in complaint
    assert "default: deny" in shell.here("policy", "show").out
    assert shell.here(*shlex.split(command)[1:], "--by", "person:ann").code == 0
    assert shell(*words, AMENDS_POLICY=named).code == 0


def test_a_coordinator_is_not_opened_with_a_policy_that_nobody_adopted(tmp_path: Path) -> None:
    """In Python as on the line: a journal that holds nothing begins with it, any other has to adopt it."""
    (tmp_path / "strict.yaml").write_text(STRICT)
    (tmp_path / "lax.yaml").write_text(LAX)
    path = str(tmp_path / "j.db")

    async def opened(name: str | None) -> str:
        policy = None if name is None else tmp_path / name
        async with Coordinator.open(path, policy=policy, signals=False) as coordinator:
            return cast("Policies", coordinator._gate).policy.text

    assert asyncio.run(opened("strict.yaml")) == STRICT
    assert asyncio.run(opened("strict.yaml")) == STRICT
    with pytest.raises(PolicyNotInForceError, match=r"adopted by person:\w+ \(the journal begins with"):
        asyncio.run(opened("lax.yaml"))
    assert asyncio.run(opened(None)) == STRICT


def test_a_journal_that_holds_sagas_does_not_begin_with_a_policy_any_more(tmp_path: Path) -> None:
    """Whoever runs sagas under the built-in policy has them judged by it until somebody adopts another."""
    shell = Shell(tmp_path)
    (tmp_path / "lax.yaml").write_text(LAX)
    assert shell.here("run", "shop:chat").code == 0
    complaint = shell.here("run", "shop:chat", "--policy", "lax.yaml").complaint
    assert "the built-in one judges; adopt it, saying why: amends policy adopt lax.yaml" in complaint


# -- the state of changesets ------------------------------------------------------------------------------------------

ASKS: dict[str, Callable[[Path], object]] = {
    "open": Changeset.open,
    "list": list_changesets,
    "queue": queue,
    "late": late_writes,
    "prune": prune,
    "doctor": doctor,
    "show": lambda tree: show(tree, "c"),
    "diff": lambda tree: diff(tree, "c"),
    "land again": lambda tree: take_back(tree, landing=EVIL),
}


def _by_another_user(victim: Victim) -> None:
    """Where only one user is to be had, their directory is one that anybody can write."""
    victim.state.chmod(0o777)
    if os.geteuid() == 0:
        for path in (victim.state, *victim.state.rglob("*")):
            os.chown(path, others.STRANGER, others.STRANGER)


def _open_to_all(victim: Victim) -> None:
    victim.state.chmod(0o777)


def _open_to_a_group(victim: Victim) -> None:
    os.chown(victim.state, -1, 1 if os.geteuid() == 0 else -1)
    victim.state.chmod(0o720 if os.geteuid() == 0 else 0o702)


def _behind_a_link(victim: Victim) -> None:
    elsewhere = victim.state.with_name("elsewhere")
    victim.state.rename(elsewhere)
    victim.state.symlink_to(elsewhere)


@pytest.mark.parametrize("ask", ASKS)
@pytest.mark.parametrize("how", [_by_another_user, _open_to_all, _open_to_a_group, _behind_a_link])
def test_a_planted_state_directory_is_refused_and_its_landing_is_not_finished(
    how: Callable[[Victim], None], ask: str, tmp_path: Path
) -> None:
    """Beside a tree in a sticky directory somebody makes its state, with a landing whose tree is another's home."""
    tmp_path.chmod(0o1777)
    victim = Victim(tmp_path)
    victim.have_state()
    victim.plant(lambda plan: plan["trees"][0].update(root=str(victim.home / ".ssh")), path="authorized_keys")
    how(victim)
    with pytest.raises(RootError) as refused:
        ASKS[ask](victim.tree)
    assert ".tree.changesets" in str(refused.value)
    assert victim.is_untouched()
    assert (victim.tree / "in/authorized_keys").read_text() == "mine\n"


Value = str | list[Any] | Callable[[Victim], object]


def _at(*way: str | int, to: Value) -> Callable[[Fields, Victim], None]:
    def change(fields: Any, victim: Victim) -> None:
        for part in way[:-1]:
            fields = fields[part]
        fields[way[-1]] = to(victim) if callable(to) else to

    return change


def _act(name: str, to: Value) -> Callable[[Fields, Victim], None]:
    return _at("trees", 0, "acts", 0, name, to=to)


def _tree(name: str, to: Value) -> Callable[[Fields, Victim], None]:
    return _at("trees", 0, name, to=to)


def _another_root(fields: Fields, victim: Victim) -> None:
    """The tree of the landing is somebody's home."""
    fields["trees"][0]["root"] = str(victim.home / ".ssh")
    new = fields["trees"][0]["acts"][0]["old"] is None
    fields["trees"][0]["acts"][0]["path"] = "new_keys" if new else "authorized_keys"


def _another_tree(fields: Fields, victim: Victim) -> None:
    """The same acts once more, in a tree that knows of no landing."""
    ssh = {"root": str(victim.home / ".ssh"), "home": str(victim.home), "room": fields["trees"][0]["room"]}
    fields["trees"].append({**fields["trees"][0], **ssh})


def _another_tree_of_ours(fields: Fields, victim: Victim) -> None:
    Changeset.open(victim.home).close()
    home = str(victim.home.with_name(".home.changesets"))
    acts = [{**fields["trees"][0]["acts"][0], "path": ".ssh/authorized_keys"}]
    more = {"root": str(victim.home), "home": home, "acts": acts}
    fields["trees"].append({**fields["trees"][0], **more})


PLANTED = {
    "root": _another_root,
    "home": _tree("home", lambda victim: str(victim.home)),
    "room": _tree("room", lambda victim: str(victim.home)),
    "room in the tree": _tree("room", lambda victim: f"{victim.home}/.amends-landing-{EVIL}"),
    "absolute path": _act("path", lambda victim: str(victim.home / ".ssh/authorized_keys")),
    "path that goes up": _act("path", "../home/.ssh/authorized_keys"),
    "path that goes up inside": _act("path", "in/../../home/.ssh/authorized_keys"),
    "path through a link": _act("path", "link/authorized_keys"),
    "empty path": _act("path", ""),
    "path with a zero": _act("path", "in/authorized_keys\\x00"),
    "times that go up": _tree("times", [["../home", 1]]),
    "times that are absolute": _tree("times", lambda victim: [[str(victim.home), 1]]),
    "id": _at("id", to="../../../home/x"),
    "another id": _at("id", to="other"),
    "changeset": _at("changeset", to="../../../../home"),
    "no tree": _at("trees", to=[]),
    "another tree": _another_tree,
    "another tree of ours": _another_tree_of_ours,
}


@pytest.mark.parametrize("do", [Do.SWAP, Do.PUT, Do.TAKE])
@pytest.mark.parametrize("field", PLANTED)
def test_no_field_of_a_planted_plan_leads_out_of_its_tree(field: str, do: Do, tmp_path: Path) -> None:
    """A plan that got into a state directory of ours, by whatever way: nothing but the tree is touched by it."""
    victim = Victim(tmp_path)
    victim.have_state()
    (victim.tree / "link").symlink_to(victim.home / ".ssh")
    if do is Do.PUT:
        (victim.tree / "in/authorized_keys").unlink()
    victim.plant(lambda plan: PLANTED[field](plan, victim), do=do)
    with contextlib.suppress(ChangesetError):
        Changeset.open(victim.tree).close()
    with contextlib.suppress(ChangesetError):
        tuple(late_writes(victim.tree))
    assert victim.is_untouched()
    assert victim.home.stat().st_mtime_ns > 10**9


@pytest.mark.parametrize("name", ["{home}", "{home}/.amends-landing-evil", "link"])
def test_a_landing_that_was_never_decided_removes_nothing_but_its_own_room(name: str, tmp_path: Path) -> None:
    """Its record says that its room is somebody's home, and what was only staged is thrown away."""
    victim = Victim(tmp_path)
    victim.have_state()
    folder = victim.plant(lambda _: None)
    (folder / "plan.json").unlink()
    room = name.format(home=victim.home)
    if name == "link":
        (victim.tree / f".amends-landing-{EVIL}").symlink_to(victim.home)
        room = str(victim.tree / f".amends-landing-{EVIL}")
    (folder / "begun.json").write_bytes(codec.dumps({"first": str(folder), "room": room, "time": 1}))
    with contextlib.suppress(ChangesetError):
        Changeset.open(victim.tree).close()
    assert victim.is_untouched()


def test_a_landing_does_not_believe_a_plan_that_lies_elsewhere(tmp_path: Path) -> None:
    """Its record says that its plan is with the first tree, whose state directory somebody else made."""
    victim = Victim(tmp_path)
    victim.have_state()
    folder = victim.plant(lambda plan: _tree("root", str(victim.home / ".ssh"))(plan, victim), path="authorized_keys")
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "landings").mkdir(parents=True)
    folder.rename(elsewhere / "landings" / EVIL)
    folder.mkdir()
    first = str(elsewhere / "landings" / EVIL)
    (folder / "begun.json").write_bytes(codec.dumps({"first": first, "room": str(folder), "time": 1}))
    with pytest.raises(ChangesetDamagedError, match="no state directory of a tree"):
        Changeset.open(victim.tree)
    elsewhere.chmod(0o777)
    with pytest.raises(ChangesetDamagedError, match="can be written by other users"):
        Changeset.open(victim.tree)
    assert victim.is_untouched()


def _first_path(path: str) -> Callable[[Fields], None]:
    def change(layer: Fields) -> None:
        layer["trees"][0][0]["path"] = path

    return change


def test_no_path_of_a_record_a_layer_or_a_log_leads_out_of_its_tree(tmp_path: Path) -> None:
    """A record, a layer or a log in the state directory names a path outside of its tree."""
    victim = Victim(tmp_path)
    out = "../../../../../home/.ssh/authorized_keys"
    with Changeset.open(victim.tree, id="c", terms=Terms(provider="copy")) as changeset, changeset.begin() as files:
        files.write_text("in/authorized_keys", "ours\n")
        files.write_text("new", "new\n")
    folder = victim.state / "changesets/c"
    ws = json.loads((folder / "ws/0.json").read_text())
    ws["known"][out] = [1]
    (folder / "ws/0.json").write_text(json.dumps(ws))
    with Changeset.open(victim.tree, id="c") as changeset:
        changeset.begin().drop()
    assert victim.is_untouched()
    kept = (folder / "layers/1/sealed.json").read_bytes()
    for path in (out, str(victim.home / ".ssh/authorized_keys"), "in/../../home/x", ""):
        rewrite(folder / "layers/1/sealed.json", _first_path(path))
        with pytest.raises(ChangesetDamagedError, match="no path inside a tree"):
            Changeset.open(victim.tree, id="c")
        (folder / "layers/1/sealed.json").write_bytes(kept)
    shutil.rmtree(folder / "layers/1/0/in")
    (folder / "layers/1/0/in").symlink_to(victim.home / ".ssh")
    with Changeset.open(victim.tree, id="c") as changeset, pytest.raises(ChangesetDamagedError, match="behind a link"):
        changeset.land()
    rewrite(folder / "record.json", lambda record: record.update(landing="../../../home", life="landed"))
    with pytest.raises(ChangesetDamagedError, match="no landing's id"):
        show(victim.tree, "c")
    assert victim.is_untouched()


def test_a_log_that_names_what_it_replaced_elsewhere_shows_nothing_of_it(tmp_path: Path) -> None:
    """A log says that what a landing replaced lies somewhere else, in a file of somebody's."""
    victim = Victim(tmp_path)
    secret = victim.home / ".ssh/authorized_keys"
    with Changeset.open(victim.tree, id="c") as changeset:
        with changeset.begin() as files:
            files.write_text("in/authorized_keys", "ours\n")
        assert isinstance(changeset.land(), Landed)
    rewrite(victim.state / "log/1.json", lambda log: log["paths"][0].update(kept=str(secret)))
    (victim.state / "objects").rename(victim.state / "gone")
    (victim.state / "objects").mkdir()
    with pytest.raises(ChangesetDamagedError, match="nothing that was replaced"):
        diff(victim.tree, "c")
