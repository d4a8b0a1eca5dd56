"""The state directory of one tree: where its changesets, landings and locks are kept, beside the tree and never in it.

    <parent of the tree>/.<name>.changesets/
      root.json             which tree it belongs to
      lock                  held while a landing or a recovery is at work, shared while a layer is sealed
      changesets/<id>/      record.json, lock, layers/<n>/{begun.json, sealed.json, 0/, 1/, ...}, ws/
      landings/<id>/        a landing under way: plan.json, aborted, staged/, undo/
      landed/<id>/          one that is over; undo/ holds what it replaced
      log/<n>.json          what the n-th landing changed, from what to what
      queue/                who waits to land, in order
      objects/              the contents of ancestors, by digest
      trash/                what was dropped; emptied when somebody has the time

A tree whose parent cannot be written, or which is a mount of its own, has it under the user's state directory. What is
staged there cannot be moved into the tree by a rename; a landing then has its room in the tree while it lasts.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Generator, Sequence
from typing import Final

from amends import ownership, private
from amends.changeset.disk import syscalls
from amends.changeset.disk.disk import FOLDER, Disk, Sync, opened, spot
from amends.changeset.disk.read import content_at, open_root
from amends.changeset.model import codec
from amends.changeset.model.codec import Fields
from amends.changeset.model.paths import Given, beneath, name, spell, unspell
from amends.changeset.store.hidden import HiddenPaths, hidden_in, look_for
from amends.errors import ChangesetBusyError, ChangesetDamagedError, RootError

FOLDERS: Final = (b"changesets", b"landings", b"landed", b"log", b"queue", b"objects", b"trash")


class Home:
    """The state directory of the tree at `root`, which is a real path."""

    def __init__(self, root: bytes, path: bytes) -> None:
        self.root = root
        self.path = path
        self._found: frozenset[bytes] | None = None
        self._hidden: tuple[int, HiddenPaths] | None = None

    @property
    def hidden(self) -> HiddenPaths:
        """The parts of the tree that are amends' own."""
        if self._found is None:
            self._found = look_for(self.root)
        if self._hidden is None or self._hidden[0] != private.count():
            self._hidden = (private.count(), hidden_in(self.root, self._found))
        return self._hidden[1]

    def look_again(self) -> None:
        """See what of the tree is amends' own by now."""
        self._found = self._hidden = None

    @classmethod
    def of(cls, root: bytes, state: bytes | None = None) -> Home:
        """The tree's home, which need not be there yet.

        Raises RootError where there is no tree or no place, and where somebody else could have written what is there.
        """
        real = os.path.realpath(root)
        os.close(open_root(real))
        place = _default(real) if state is None else os.path.realpath(state)
        if beneath(place, real) is not None:
            raise RootError(f"the state directory {spell(place)} lies inside the tree {spell(real)}; put it elsewhere")
        ownership.require(place, ownership.STATE, error=RootError)
        return cls(real, place)

    def within(self, *parts: bytes) -> bytes:
        return b"/".join((self.path, *parts))

    @property
    def is_made(self) -> bool:
        return os.path.exists(self.within(b"root.json"))

    def make(self, disk: Disk) -> None:
        """Have it on disk; refuse one that belongs to another tree."""
        if self.is_made:
            self.require_root()
            return
        try:
            os.makedirs(self.path, 0o700, exist_ok=True)
            for folder in FOLDERS:
                with contextlib.suppress(FileExistsError):
                    disk.make_folder(spot(self.within(folder)))
        except OSError as exc:
            raise RootError(f"the state directory {spell(self.path)} cannot be made: {exc.strerror}") from None
        with self.locked():  # several may come at once, and one of them makes it
            if not self.is_made:
                inode = os.stat(self.root).st_ino
                write_record(disk, self.path, b"root.json", {"root": spell(self.root), "inode": inode})
        disk.sync_folder(spot(os.path.dirname(self.path)), Sync.RECORD_FOLDER)

    def _said(self) -> Fields:
        return codec.loads(content_at(self.within(b"root.json")), f"{spell(self.path)}/root.json")

    def said_root(self) -> bytes:
        """The tree that it was made for, as it was called then."""
        return unspell(codec.text(self._said()["root"]))

    def require_root(self) -> None:
        """Raise RootError if the tree is not the one that this home was made for."""
        said = self._said()
        folder = open_root(self.root)
        try:
            inode = os.fstat(folder).st_ino
        finally:
            os.close(folder)
        if said.get("inode") != inode:
            raise RootError(
                f"{spell(self.root)} is another folder than the one that {spell(self.path)} was made for "
                f"({said.get('root')}). In a view of the tree no changeset of it can be opened. If the tree was "
                "replaced: put the old one back, or remove its state directory"
            )

    @contextlib.contextmanager
    def locked(self, *, shared: bool = False, wait: bool = True) -> Generator[None]:
        """Hold the tree's lock. The kernel gives it back when its holder dies."""
        with _flocked(self.within(b"lock"), shared=shared, wait=wait) as got:
            if not got:
                raise ChangesetBusyError(f"another process lands in {spell(self.root)} just now; try again")
            yield

    def can_move_into(self) -> bool:
        """Whether a name can be moved from here into the tree by one rename."""
        with opened(spot(self.path), FOLDER) as here, opened(spot(self.root), FOLDER) as tree:
            ours, theirs = syscalls.mount_id(here), syscalls.mount_id(tree)
            return os.fstat(here).st_dev == os.fstat(tree).st_dev and ours == theirs

    @property
    def is_case_blind(self) -> bool:
        """Whether two names that differ by case alone are one here, or in the tree, as far as its names tell."""
        return os.path.exists(self.within(b"ROOT.JSON")) or _is_case_blind(self.root)

    def newest_landing(self) -> int:
        return max((int(each[:-5]) for each in os.listdir(self.within(b"log")) if each[:-5].isdigit()), default=0)

    def log_after(self, number: int) -> list[Fields]:
        """Records of what landed after a landing, oldest first."""
        newest = self.newest_landing()
        found: list[Fields] = []
        for each in range(number + 1, newest + 1):
            path = self.within(b"log", b"%d.json" % each)
            with contextlib.suppress(FileNotFoundError):
                found.append(codec.loads(content_at(path), spell(path)))
        return found

    def changesets(self) -> list[str]:
        if not self.is_made:
            return []
        return sorted(os.fsdecode(each) for each in os.listdir(self.within(b"changesets")))


def upper_of(layer: bytes, tree: int) -> bytes:
    """The folder of a layer that has one tree's changes."""
    return layer + b"/%d" % tree


def room_of(layer: bytes) -> bytes:
    """The folder of a layer that has what is not part of it."""
    return layer + b"/room"


def landing_folder(home: bytes, id: str) -> bytes:
    return home + b"/landings/" + id.encode()


def landed_folder(home: bytes, id: str) -> bytes:
    return home + b"/landed/" + id.encode()


def kept_at(home: Home, landing: Fields, path: Fields) -> bytes | None:
    """Where a landing in the log keeps what it replaced at a path; None where that was nothing."""
    kept = path.get("kept")
    if kept is None:
        return None
    number = name(unspell(codec.text(kept)))
    if not number.isdigit():
        raise ChangesetDamagedError(f"the log of {spell(home.path)} names {kept!r}, which is nothing that was replaced")
    return landed_folder(home.path, codec.name_of(landing["landing"])) + b"/undo/" + number


def homes_of(roots: Sequence[Given], state: Given | None) -> tuple[Home, ...]:
    """The trees' homes. Raises RootError for no tree, the same one twice, or one inside another."""
    if not roots:
        raise RootError("a changeset needs a tree: name a folder")
    places = [None if state is None else os.fsencode(state)] * len(roots)
    if state is not None and len(roots) > 1:
        places = [os.path.join(os.fsencode(state), b"%d" % number) for number in range(len(roots))]
    homes = tuple(Home.of(os.fsencode(root), place) for root, place in zip(roots, places, strict=True))
    for one in homes:
        for other in homes:
            if one is not other and beneath(one.root, other.root) is not None:
                raise RootError(f"{spell(one.root)} lies inside {spell(other.root)}; one changeset holds them apart")
    return homes


def _is_case_blind(folder: bytes) -> bool:
    with contextlib.suppress(OSError), os.scandir(folder) as inside:
        for each in inside:
            if (other := each.name.swapcase()) != each.name:
                with contextlib.suppress(FileNotFoundError):
                    about = os.lstat(folder + b"/" + other)
                    return os.path.samestat(about, each.stat(follow_symlinks=False)) and other not in os.listdir(folder)
                return False
    return False


def _default(root: bytes) -> bytes:
    above = os.path.dirname(root)
    beside = os.path.join(above, b"." + name(root) + b".changesets")
    if name(root) and (os.path.isdir(beside) or (os.access(above, os.W_OK) and not os.path.ismount(root))):
        return beside
    short = hashlib.sha256(root).hexdigest()[:16].encode()
    return os.path.join(common_state(), (name(root) or b"root") + b"-" + short)


def common_state() -> bytes:
    """Where the state directories are that cannot lie beside their trees."""
    state = os.environb.get(b"XDG_STATE_HOME") or os.path.expanduser(b"~/.local/state")
    return os.path.join(state, b"amends", b"changesets")


@contextlib.contextmanager
def _flocked(path: bytes, *, shared: bool, wait: bool) -> Generator[bool]:
    flags = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB)
    with opened(spot(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600) as file:
        try:
            fcntl.flock(file, flags)
        except BlockingIOError:
            yield False
            return
        yield True


def write_record(
    disk: Disk,
    folder: bytes,
    file: bytes,
    fields: Fields,
    *,
    syncs: tuple[Sync, Sync] = (Sync.RECORD_FILE, Sync.RECORD_FOLDER),
) -> None:
    """Write a record whole or not at all: beside its place, then renamed into it."""
    beside = spot(folder + b"/." + file + b".new")
    with contextlib.suppress(FileNotFoundError):
        disk.remove(beside) if os.path.lexists(beside.name) else None
    disk.write(beside, codec.dumps(fields))
    disk.sync_file(beside, syncs[0])
    disk.rename(beside, spot(folder + b"/" + file))
    disk.sync_folder(spot(folder), syncs[1])


def throw_away(disk: Disk, home: Home, path: bytes, called: bytes) -> None:
    """Move a folder of ours out of sight in one instant; what it holds goes later."""
    number = 0
    while os.path.lexists(place := home.within(b"trash", called + b".%d" % number)):
        number += 1
    disk.rename(spot(path), spot(place))


def empty_trash(disk: Disk, home: Home) -> None:
    """Remove what was thrown away. What cannot go now (somebody else is at it, a flag forbids it) goes another time."""
    for each in os.listdir(home.within(b"trash")):
        with contextlib.suppress(OSError):
            disk.remove_all(home.within(b"trash", each))
