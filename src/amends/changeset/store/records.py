"""One changeset on disk: its record and its layers, read and written. Which step may follow which is not known here."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
from collections.abc import Generator, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Final

from amends.changeset.disk.disk import Disk, spot
from amends.changeset.disk.read import content_at
from amends.changeset.model import codec
from amends.changeset.model.model import LIFE, ChangesetRecord, Layer, Life, PathKind, PathState
from amends.changeset.model.paths import parents, spell
from amends.changeset.store.home import Home, room_of, throw_away, upper_of, write_record
from amends.errors import (
    ChangesetBusyError,
    ChangesetDamagedError,
    ChangesetLifeError,
    PathError,
    UnknownChangesetError,
)

_MISSING: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP})
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


class ChangesetFolder:
    """The folder of the changeset `id` in a tree's home."""

    def __init__(self, home: Home, id: str, disk: Disk) -> None:
        if not _ID.fullmatch(id):
            raise PathError(f"{id!r} cannot be a changeset's id; use letters, digits, `_`, `.`, `-`")
        self.home = home
        self.id = id
        self.disk = disk
        self.folder = home.within(b"changesets", id.encode())
        self.layers_folder = self.folder + b"/layers"

    @property
    def is_there(self) -> bool:
        return os.path.exists(self.folder + b"/record.json")

    def make(self, record: ChangesetRecord) -> None:
        for each in (self.folder, self.layers_folder):
            with contextlib.suppress(FileExistsError):
                self.disk.make_folder(spot(each))
        self.write(record)

    def record(self) -> ChangesetRecord:
        path = self.folder + b"/record.json"
        try:
            raw = content_at(path)
        except FileNotFoundError:
            raise UnknownChangesetError(
                f"no changeset of {spell(self.home.root)} has the id {self.id}; `amends changeset list` shows them"
            ) from None
        return codec.read(raw, spell(path), codec.record_of)

    def write(self, record: ChangesetRecord) -> None:
        write_record(self.disk, self.folder, b"record.json", codec.record_fields(record))

    def move_on(self, life: Life, now: int, *, landing: str | None = None) -> ChangesetRecord:
        """Write down the next stage of its life. Raises ChangesetLifeError if it cannot be the next."""
        record = self.record()
        if life not in LIFE[record.life]:
            raise ChangesetLifeError(
                f"changeset {self.id} is {record.life}; it can become "
                f"{' or '.join(sorted(LIFE[record.life])) or 'nothing else'}, not {life}"
            )
        ends = life in {Life.LANDED, Life.MERGED, Life.DROPPED, Life.PRUNED, Life.KEPT}
        moved = replace(
            record,
            life=life,
            ended_at=(record.ended_at or now) if ends else None,
            landing=landing or record.landing,
            kept_from=record.life if life is Life.KEPT else None,
        )
        self.write(moved)
        return moved

    def mark_landed(self, now: int, landing: str) -> None:
        """It is in the trees, whatever anybody has said of it meanwhile."""
        self.write(replace(self.record(), life=Life.LANDED, ended_at=now, landing=landing, kept_from=None))

    def lock(self) -> int:
        """Hold it, so that no other process works on it. The answer is an open file; closing it lets go."""
        file = os.open(self.folder + b"/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            raise ChangesetBusyError(f"changeset {self.id} is open elsewhere; it has one user at a time") from None
        return file

    @contextlib.contextmanager
    def held(self) -> Generator[None]:
        """Hold one that exists, for a moment."""
        self.record()
        lock = self.lock()
        try:
            yield
        finally:
            os.close(lock)

    def layer_folder(self, number: int) -> bytes:
        return self.layers_folder + b"/%d" % number

    def make_layer(self, number: int, homes: Sequence[Home]) -> bytes:
        """The folders of a layer that is begun; its trees look as their roots do."""
        layer = self.layer_folder(number)
        for folder in (layer, room_of(layer)):
            self.disk.make_folder(spot(folder))
        for tree, home in enumerate(homes):
            about = os.stat(home.root)
            self.disk.make_folder(spot(upper_of(layer, tree)))
            self.disk.chmod_folder(spot(upper_of(layer, tree)), about.st_mode & 0o7777)
            with contextlib.suppress(PermissionError):  # the root of an overlay looks as its newest layer does
                os.chown(upper_of(layer, tree), about.st_uid, about.st_gid)
        return layer

    def layers(self) -> list[Layer]:
        """The sealed ones, oldest first."""
        found: list[Layer] = []
        for number in self._numbers():
            path = self.layer_folder(number) + b"/sealed.json"
            if os.path.exists(path):
                found.append(codec.read(content_at(path), spell(path), codec.layer_of))
        if [layer.number for layer in found] != list(range(1, len(found) + 1)):
            raise ChangesetDamagedError(f"changeset {self.id} lacks a layer: {[layer.number for layer in found]}")
        return found

    def _numbers(self) -> list[int]:
        if not os.path.isdir(self.layers_folder):
            return []
        return sorted(int(name) for name in os.listdir(self.layers_folder) if name.isdigit())

    def open_numbers(self) -> list[int]:
        """Layers that nobody sealed."""
        return [each for each in self._numbers() if not os.path.exists(self.layer_folder(each) + b"/sealed.json")]

    def throw_layer_away(self, number: int) -> None:
        throw_away(self.disk, self.home, self.layer_folder(number), f"{self.id}.{number}".encode())


@contextlib.contextmanager
def as_sealed(shelf: ChangesetFolder, number: int, path: bytes) -> Generator[None]:
    """Raise ChangesetDamagedError where a layer does not have what its record says: that never heals by itself."""
    try:
        yield
    except OSError as exc:
        if exc.errno not in _MISSING:
            raise
        raise damaged(shelf, number, path) from exc


def damaged(shelf: ChangesetFolder, number: int, path: bytes) -> ChangesetDamagedError:
    return ChangesetDamagedError(
        f"{spell(path)} in layer {number} of {shelf.id} is not what was sealed; rewind to {number - 1} and do it again"
    )


def sealed_content(shelf: ChangesetFolder, number: int, tree: int, path: bytes, state: PathState | None) -> bytes:
    """A path's content in a layer, as it was sealed and not otherwise."""
    with as_sealed(shelf, number, path):
        content = content_at(content_in(shelf, number, tree, path))
    if state is not None and state.kind is PathKind.FILE and sha256(content).hexdigest() != state.digest:
        raise damaged(shelf, number, path)
    return content


def content_in(shelf: ChangesetFolder, number: int, tree: int, path: bytes) -> bytes:
    """Where a layer has a path's content. Raises ChangesetDamagedError if a link in the layer would lead elsewhere."""
    upper = upper_of(shelf.layer_folder(number), tree)
    if any(os.path.islink(upper + b"/" + folder) for folder in parents(path)):
        raise ChangesetDamagedError(f"{spell(path)} in layer {number} of changeset {shelf.id} lies behind a link")
    return upper + b"/" + path
