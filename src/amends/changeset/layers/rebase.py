"""Dropping a layer from under others: those that change are laid anew beside the layers, and take their places at once.

    stage     every layer that changes, whole, in rebased/<n>; what stays of it is linked. Wait for the disk
    decide    rebased.json says which layers take which places; from here on it will happen
    apply     each staged layer and the one in its place change places; again and again, until it is so
    retire    rebased.json goes, then what was replaced

    killed before the decision    whoever opens the changeset removes what was staged: nothing has happened
    killed after it               whoever opens the changeset applies it

The layer that goes keeps its number and is empty, so that the layers above keep theirs. One that was laid anew says
which digests it had before: a journal that names it by one of these means it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

from amends.changeset.disk import syscalls, whiteouts
from amends.changeset.disk.disk import Disk, Sync, opened, spot
from amends.changeset.disk.read import content_at, readable
from amends.changeset.layers.remove_layer import ReducedPart, Remade, without
from amends.changeset.layers.report import Conflicted
from amends.changeset.layers.seal import sync_layer
from amends.changeset.model import codec
from amends.changeset.model.codec import fields_of, loads, text
from amends.changeset.model.model import Layer
from amends.changeset.model.paths import spell
from amends.changeset.store.home import Home, upper_of, write_record
from amends.changeset.store.records import ChangesetFolder
from amends.errors import ChangesetBusyError

_DECISION = b"rebased.json"


def drop_from_under(
    shelf: ChangesetFolder, homes: Sequence[Home], layers: Sequence[Layer], number: int
) -> tuple[frozenset[bytes], ...] | Conflicted:
    """Drop layer `number`, which others lie over. The answer is, for each tree, the paths that may look different."""
    found = without(shelf, homes, layers, number)
    if found.conflicts:
        return Conflicted(changeset=shelf.id, conflicts=tuple(found.conflicts), step=number)
    finish(shelf)
    shelf.disk.make_folder(spot(_staged(shelf)))
    places: codec.Fields = {}
    for each in found.remade:
        places[str(each.layer.number)] = {"old": each.formerly, "new": _stage(shelf, each)}
    shelf.disk.sync_folder(spot(_staged(shelf)), Sync.LAYER_FOLDERS)
    write_record(shelf.disk, shelf.folder, _DECISION, {"places": places})
    finish(shelf)
    return found.paths


def finish(shelf: ChangesetFolder) -> None:
    """Bring what somebody began to its end: what was decided happens, what was not has not happened."""
    disk, decision = shelf.disk, shelf.folder + b"/" + _DECISION
    if os.path.exists(decision):
        for number, place in fields_of(loads(content_at(decision), spell(decision))["places"]).items():
            _put(shelf, int(number), old=text(fields_of(place)["old"]), new=text(fields_of(place)["new"]))
        for folder in (shelf.layers_folder, _staged(shelf)):
            disk.sync_folder(spot(folder), Sync.LAYER_FOLDERS)
        disk.remove(spot(decision))
        disk.sync_folder(spot(shelf.folder), Sync.RECORD_FOLDER)
    disk.remove_all(_staged(shelf))


def _put(shelf: ChangesetFolder, number: int, *, old: str, new: str) -> None:
    """Let a staged layer take its place, unless it has."""
    disk, staged, place = shelf.disk, _staged(shelf) + b"/%d" % number, shelf.layer_folder(number)
    there = _digest(place)
    if there not in {old, None} or _digest(staged) != new:
        return
    try:
        if there is None:
            disk.rename(spot(staged), spot(place))
        else:
            disk.exchange(spot(staged), spot(place))
    except OSError as exc:
        if not syscalls.is_unsupported(exc):
            raise
        shelf.throw_layer_away(number)
        disk.rename(spot(staged), spot(place))


def _digest(folder: bytes) -> str | None:
    path = folder + b"/sealed.json"
    try:
        return codec.digest_of(loads(content_at(path), spell(path)))
    except FileNotFoundError:
        return None


def _staged(shelf: ChangesetFolder) -> bytes:
    return shelf.folder + b"/rebased"


def _stage(shelf: ChangesetFolder, remade: Remade) -> str:
    """Lay a layer anew, beside the others. Its digest is the answer."""
    disk, number = shelf.disk, remade.layer.number
    source, target = shelf.layer_folder(number), _staged(shelf) + b"/%d" % number
    disk.make_folder(spot(target))
    for tree, part in enumerate(remade.parts):
        upper = upper_of(target, tree)
        laid = _Laid(disk, upper_of(source, tree), upper, part)
        laid.folder(b"", is_empty=remade.layer.is_dropped)
        sync_layer(disk, upper)
    disk.sync_folder(spot(target), Sync.LAYER_FOLDERS)
    fields = codec.layer_fields(remade.layer)
    write_record(disk, target, b"sealed.json", fields)
    return codec.digest_of(fields)


def link_layer(disk: Disk, source: bytes, target: bytes, trees: int) -> None:
    """Have a sealed layer a second time, for another changeset: its folders anew, its files the very same."""
    disk.make_folder(spot(target))
    for tree in range(trees):
        _Laid(disk, upper_of(source, tree), upper_of(target, tree), ReducedPart({})).folder(b"")
        sync_layer(disk, upper_of(target, tree))
    disk.link(spot(source + b"/sealed.json"), spot(target + b"/sealed.json"))
    disk.sync_folder(spot(target), Sync.LAYER_FOLDERS)


class _Laid:
    """One tree's part of a layer, laid anew: what stays the same is the very same file."""

    def __init__(self, disk: Disk, source: bytes, target: bytes, part: ReducedPart) -> None:
        self._disk = disk
        self._source = source
        self._target = target
        self._part = part

    def folder(self, path: bytes, *, is_empty: bool = False) -> None:
        source, target = self._from(path), self._to(path)
        about = os.lstat(source)
        self._disk.make_folder(spot(target))
        if not is_empty:
            with os.scandir(source) as inside:
                names = sorted(each.name for each in inside)
            for name in names:
                self._one(path + b"/" + name if path else name)
        if whiteouts.is_opaque(source):
            whiteouts.make_opaque(target)
        _own(target, about)
        self._disk.chmod_folder(spot(target), self._part.modes.get(path, stat.S_IMODE(about.st_mode)))
        self._disk.set_time(spot(target), about.st_mtime_ns)

    def _one(self, path: bytes) -> None:
        if path in self._part.gone:
            return
        if path in self._part.put:
            self._new(path)
            return
        about = os.lstat(self._from(path))
        if stat.S_ISDIR(about.st_mode):
            self.folder(path)
        else:
            self._disk.link(spot(self._from(path)), spot(self._to(path)))

    def _new(self, path: bytes) -> None:
        """A file whose content, or whose mode, is another one now."""
        state, source, at = self._part.entries[path].state, self._part.put[path], spot(self._to(path))
        if state is None:
            raise AssertionError(spell(path))
        about = os.lstat(self._from(path))
        owner = (about.st_uid, about.st_gid)
        if source.content is not None:
            self._disk.write(at, source.content, state.mode, owner)
        else:
            with readable(source.where) as file:
                digest = self._disk.copy(file, at, state.mode, owner)
            if digest != state.digest:
                raise ChangesetBusyError(f"somebody writes to {spell(source.where)} just now; try again")
        self._disk.set_time(at, state.mtime_ns)

    def _from(self, path: bytes) -> bytes:
        return self._source + b"/" + path if path else self._source

    def _to(self, path: bytes) -> bytes:
        return self._target + b"/" + path if path else self._target


def _own(folder: bytes, about: os.stat_result) -> None:
    """Give it back to whoever has it in the view."""
    with opened(spot(folder), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) as file:
        if (os.fstat(file).st_uid, os.fstat(file).st_gid) != (about.st_uid, about.st_gid):
            os.fchown(file, about.st_uid, about.st_gid)
