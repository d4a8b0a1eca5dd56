"""What a power cut can leave: calls are remembered as they are made, and then only some of them have reached the disk.

The model is what POSIX and its file systems promise, and no more:

- a rename, an exchange, a creation is whole or not there;
- the calls on one folder reach the disk in their order; those on different folders in any order;
- waiting for a folder brings all earlier calls on it to the disk, waiting for a file its content, mode and time;
- a file whose content nobody waited for has its name and may be empty.

For a power cut after each call, the extremes are tried: only what was waited for; everything; one folder lags behind
all others; one folder is ahead of all others. Contents that nobody waited for are lost, or are not.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from amends.changeset.disk.disk import Disk, DiskName, Sync
from amends.changeset.disk.syscalls import HERE
from tests.changeset.worlds import World


@dataclass
class Inode:
    mode: int
    mtime_ns: int
    content: bytes = b""
    device: int = 0
    names: dict[bytes, int] = field(default_factory=dict[bytes, int])

    def copy(self) -> Inode:
        return Inode(self.mode, self.mtime_ns, self.content, self.device, dict(self.names))


@dataclass(frozen=True)
class Call:
    """One call: what it does to the inodes, the folders (and inodes) that it belongs to, what waiting for it means."""

    name: str
    where: frozenset[int]
    apply: Callable[[dict[int, Inode]], None] | None = None
    waits_for: int | None = None
    writes: int | None = None
    """The inode whose content it brings."""


class Recorder(Disk):
    """Does everything for real, and remembers it by inodes."""

    def __init__(self, world: World, *, forgets: Sync | None = None, meddle: Callable[[], None] | None = None) -> None:
        self.calls: list[Call] = []
        self.start = loaded(world)
        self._forgets = forgets
        self._known = set(self.start)
        self._meddle = meddle

    def notice(self, world: World) -> None:
        """Remember what was made past this disk, as the files of an open layer are."""
        for folder, folders, files in os.walk(os.fsencode(world.path)):
            for name in (*folders, *files):
                at = DiskName(HERE, folder + b"/" + name)
                if self._inode(at) not in self._known:
                    self._made("noticed", at)

    def _at(self, at: DiskName) -> tuple[int, bytes]:
        """The folder's inode, and the name in it."""
        if at.at is None:
            folder, _, name = at.name.rpartition(b"/")
            return os.stat(folder).st_ino, name
        path = os.readlink(f"/proc/self/fd/{at.folder}")
        if at.name == b".":
            folder, _, last = os.fsencode(path).rpartition(b"/")
            return os.stat(folder).st_ino, last
        return os.stat(path).st_ino, at.name

    def _inode(self, at: DiskName) -> int:
        return os.stat(at.name, dir_fd=at.at, follow_symlinks=False).st_ino

    def _made(self, name: str, at: DiskName) -> None:
        """Remember what was made, as it is now."""
        folder, last = self._at(at)
        about = os.stat(at.name, dir_fd=at.at, follow_symlinks=False)
        content = b""
        if stat.S_ISLNK(about.st_mode):
            content = os.readlink(at.name, dir_fd=at.at)
        elif stat.S_ISREG(about.st_mode):
            file = os.open(at.name, os.O_RDONLY, dir_fd=at.at)
            content = os.pread(file, about.st_size, 0)
            os.close(file)
        made = Inode(about.st_mode, about.st_mtime_ns, content, about.st_rdev)

        def apply(inodes: dict[int, Inode]) -> None:
            if folder in inodes:
                inodes[about.st_ino] = made.copy()
                inodes[folder].names[last] = about.st_ino

        self._known.add(about.st_ino)
        writes = about.st_ino if stat.S_ISREG(about.st_mode) and content else None
        self.calls.append(Call(name, frozenset({folder}), apply, writes=writes))

    def make_folder(self, at: DiskName, mode: int = 0o700) -> None:
        super().make_folder(at, mode)
        self._made("make_folder", at)

    def write(self, at: DiskName, content: bytes, mode: int = 0o600, owner: tuple[int, int] | None = None) -> None:
        super().write(at, content, mode, owner)
        self._made("write", at)

    def copy(self, source: int, at: DiskName, mode: int, owner: tuple[int, int] | None = None) -> str:
        said = super().copy(source, at, mode, owner)
        self._made("copy", at)
        return said

    def symlink(self, target: bytes, at: DiskName) -> None:
        super().symlink(target, at)
        self._made("symlink", at)

    def _unlinked(self, name: str, at: DiskName) -> None:
        folder, last = self._at(at)

        def apply(inodes: dict[int, Inode]) -> None:
            if folder in inodes:
                inodes[folder].names.pop(last, None)

        self.calls.append(Call(name, frozenset({folder}), apply))

    def remove(self, at: DiskName) -> None:
        super().remove(at)
        self._unlinked("remove", at)

    def remove_folder(self, at: DiskName) -> None:
        super().remove_folder(at)
        self._unlinked("remove_folder", at)

    def _moved(self, name: str, old: DiskName, new: DiskName, *, swaps: bool = False) -> None:
        (one, first), (other, second) = self._at(old), self._at(new)

        def apply(inodes: dict[int, Inode]) -> None:
            if one not in inodes or other not in inodes or first not in inodes[one].names:
                return
            moved = inodes[one].names.pop(first)
            if swaps and second in inodes[other].names:
                inodes[one].names[first] = inodes[other].names[second]
            inodes[other].names[second] = moved

        self.calls.append(Call(name, frozenset({one, other}), apply))

    def rename(self, old: DiskName, new: DiskName) -> None:
        super().rename(old, new)
        self._moved("rename", old, new)

    def rename_new(self, old: DiskName, new: DiskName) -> None:
        super().rename_new(old, new)
        self._moved("rename_new", old, new)

    def exchange(self, one: DiskName, other: DiskName) -> None:
        if self._meddle is not None:
            self._meddle()
            self._meddle = None
        super().exchange(one, other)
        self._moved("exchange", one, other, swaps=True)

    def _changed(self, name: str, at: DiskName, change: Callable[[Inode], None]) -> None:
        """A link cannot be waited for: what is said of it goes with its folder."""
        inode = self._inode(at)
        is_link = stat.S_ISLNK(os.stat(at.name, dir_fd=at.at, follow_symlinks=False).st_mode)

        def apply(inodes: dict[int, Inode]) -> None:
            if inode in inodes:
                change(inodes[inode])

        self.calls.append(Call(name, frozenset({self._at(at)[0] if is_link else -inode}), apply))

    def chmod_folder(self, at: DiskName, mode: int) -> None:
        super().chmod_folder(at, mode)
        self._changed("chmod_folder", at, lambda inode: setattr(inode, "mode", stat.S_IFDIR | mode))

    def set_time(self, at: DiskName, mtime_ns: int) -> None:
        super().set_time(at, mtime_ns)
        self._changed("set_time", at, lambda inode: setattr(inode, "mtime_ns", mtime_ns))

    def sync_file(self, at: DiskName, why: Sync) -> None:
        if why is not self._forgets:
            self.calls.append(Call("sync_file", frozenset(), waits_for=self._inode(at)))

    def sync_folder(self, at: DiskName, why: Sync) -> None:
        if why is not self._forgets:
            self.calls.append(Call("sync_folder", frozenset(), waits_for=self._inode(at)))


def loaded(world: World) -> dict[int, Inode]:
    found: dict[int, Inode] = {}
    load(os.fsencode(world.path), found)
    return found


def load(path: bytes, into: dict[int, Inode]) -> int:
    about = os.lstat(path)
    inode = Inode(about.st_mode, about.st_mtime_ns, device=about.st_rdev)
    into[about.st_ino] = inode
    if stat.S_ISDIR(about.st_mode):
        inode.names = {name: load(path + b"/" + name, into) for name in os.listdir(path)}
    elif stat.S_ISLNK(about.st_mode):
        inode.content = os.readlink(path)
    elif stat.S_ISREG(about.st_mode):
        with open(path, "rb") as file:
            inode.content = file.read()
    return about.st_ino


def outcomes(calls: list[Call]) -> Iterator[tuple[str, frozenset[int], bool]]:
    """For a cut after these calls: a story, which calls reached the disk, and whether unawaited contents did."""
    durable = awaited(calls)
    everything = frozenset(place for place, call in enumerate(calls) if call.apply is not None)
    for lost in (False, True):
        yield "only what was waited for", durable, lost
        yield "everything", everything, lost
    lagging = {each for place in everything - durable for each in calls[place].where}
    for folder in sorted(lagging):
        behind = without_order(calls, {place for place in everything - durable if folder in calls[place].where})
        yield f"folder {folder} lags", everything - behind, True
        ahead = with_order(calls, {place for place in everything if folder in calls[place].where})
        yield f"folder {folder} is ahead", durable | ahead, True


def awaited(calls: list[Call]) -> frozenset[int]:
    found: set[int] = set()
    for place, call in enumerate(calls):
        if call.waits_for is not None:
            here = {call.waits_for, -call.waits_for}
            found |= {before for before in range(place) if calls[before].where & here}
    return with_order(calls, found)


def with_order(calls: list[Call], chosen: set[int]) -> frozenset[int]:
    """These, and all that comes before them on the same folders."""
    found, folders = set(chosen), set[int]()
    for place in range(len(calls) - 1, -1, -1):
        if place in found or (calls[place].apply is not None and calls[place].where & folders):
            found.add(place)
            folders |= calls[place].where
    return frozenset(found)


def without_order(calls: list[Call], chosen: set[int]) -> set[int]:
    """These, and all that comes after them on the same folders."""
    found, folders = set(chosen), set[int]()
    for place, call in enumerate(calls):
        if place in found or (call.apply is not None and call.where & folders):
            found.add(place)
            folders |= call.where
    return found


def cut(recorder: Recorder, calls: list[Call], reached: frozenset[int], *, lost: bool) -> dict[int, Inode]:
    """What is on the disk then."""
    inodes = {number: inode.copy() for number, inode in recorder.start.items()}
    synced = {call.waits_for for call in calls if call.waits_for is not None}
    for place in sorted(reached):
        call = calls[place]
        if call.apply is not None:
            call.apply(inodes)
            if lost and call.writes is not None and call.writes not in synced and call.writes in inodes:
                inodes[call.writes].content = b""
    return inodes


def lay_out(world: World, root: int, inodes: dict[int, Inode]) -> None:
    """Bring a disk's content back into the real world."""
    top = os.fsencode(world.path)
    Disk().remove_all(top)
    _lay_out(top, root, inodes)
    world.adopt()


def _lay_out(path: bytes, number: int, inodes: dict[int, Inode]) -> None:
    inode = inodes[number]
    if stat.S_ISDIR(inode.mode):
        os.mkdir(path, 0o700)
        for name, inner in inode.names.items():
            _lay_out(path + b"/" + name, inner, inodes)
        os.chmod(path, stat.S_IMODE(inode.mode))
    elif stat.S_ISLNK(inode.mode):
        os.symlink(inode.content, path)
    elif stat.S_ISCHR(inode.mode):
        os.mknod(path, inode.mode, inode.device)
    else:
        with open(path, "wb") as file:
            file.write(inode.content)
        os.chmod(path, stat.S_IMODE(inode.mode))
    os.utime(path, ns=(inode.mtime_ns, inode.mtime_ns), follow_symlinks=False)


@dataclass
class PowerCuts:
    """Every cut of a scene: recovered from, and checked."""

    world: World
    scene: Callable[[World, Disk], object]
    recover: Callable[[World, Disk], object]
    check: Callable[[World, str], list[str]]
    forgets: Sync | None = None
    states: int = 0
    stops_early: bool = False
    complaints: list[str] = field(default_factory=list[str])

    def run(
        self,
        *,
        then: Callable[[World], None] | None = None,
        only_last: bool = False,
        meddle: Callable[[], None] | None = None,
    ) -> PowerCuts:
        from tests.changeset.shims import Watched

        self.world.bring_back()
        root = os.stat(self.world.path).st_ino
        recorder = Recorder(self.world, forgets=self.forgets, meddle=meddle)
        self.scene(self.world, recorder)
        met: set[str] = set()
        first = len(recorder.calls) if only_last else 1
        for count in range(first, len(recorder.calls) + 1):
            calls = recorder.calls[:count]
            for story, reached, lost in outcomes(calls):
                lay_out(self.world, root, cut(recorder, calls, reached, lost=lost))
                mark = self.world.fingerprint()
                if mark in met:
                    continue
                met.add(mark)
                if then is not None:
                    then(self.world)
                self.states += 1
                told = f"cut after call {count} of {len(recorder.calls)} ({calls[-1].name}), {story}"
                try:
                    self.recover(self.world, Watched())
                    self.complaints += self.check(self.world, told)
                except Exception as exc:  # noqa: BLE001 - whatever it is, it is a complaint
                    self.complaints.append(f"{told}: {exc!r}")
                if self.complaints and self.stops_early:
                    return self
        return self
