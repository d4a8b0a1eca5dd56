"""Finding the content that belongs to a state: in a layer, among the ancestors, in the tree, or in a landing's undo."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Final, TypeAlias

from amends.changeset.disk.disk import digest_of
from amends.changeset.disk.read import content_at, readable
from amends.changeset.layers.net import net_changes
from amends.changeset.model.codec import fields_of, items, path_of
from amends.changeset.model.model import Layer, PathKind, PathState
from amends.changeset.store.home import Home, kept_at
from amends.changeset.store.objects import Objects
from amends.changeset.store.records import ChangesetFolder, content_in
from amends.changeset.text.diff import MOST_SHOWN, Bulk, Overview, Shown, overview, unified
from amends.changeset.text.lines import LARGEST_TEXT, lines_in, widest_in
from amends.errors import ChangesetLifeError

_PIECE: Final = 1 << 20
_Read: TypeAlias = "io.BytesIO | io.FileIO"


class Contents:
    """Of one tree of a changeset."""

    def __init__(self, shelf: ChangesetFolder, home: Home, layers: Sequence[Layer], tree: int) -> None:
        self._shelf = shelf
        self._home = home
        self._layers = layers
        self._tree = tree
        self._objects = Objects(home)

    def of(self, path: bytes, state: PathState | None) -> bytes | None:
        """None: it is no longer to be had, or too much to show."""
        if state is None or state.kind is PathKind.FOLDER:
            return b""
        if state.kind is PathKind.LINK:
            return state.target
        if state.size > LARGEST_TEXT:
            return None
        kept = self._objects.get(state.digest)
        if kept is not None:
            return kept
        for place in self._places(path, state):
            try:
                content = content_at(place)
            except OSError:
                continue
            if sha256(content).hexdigest() == state.digest:
                return content
        return None

    def shown(self, path: bytes, before: PathState | None, after: PathState | None) -> Shown:
        """One path's change, with its contents; of what is too large to hold, with the part that is not the same."""
        if not any(state is not None and state.size > LARGEST_TEXT for state in (before, after)):
            return Shown(path=path, before=before, after=after, old=self.of(path, before), new=self.of(path, after))
        with contextlib.ExitStack() as files:
            old, new = (self._opened(path, state, files) for state in (before, after))
            old_bulk, new_bulk = held_against(old, new)
        return Shown(path=path, before=before, after=after, old=None, new=None, old_bulk=old_bulk, new_bulk=new_bulk)

    def _opened(self, path: bytes, state: PathState | None, files: contextlib.ExitStack) -> _Read | None:
        """The content to read; None: there is none, or it is no longer to be had."""
        if state is None or state.kind is PathKind.FOLDER:
            return None
        if state.size <= LARGEST_TEXT:
            content = self.of(path, state)
            return None if content is None else io.BytesIO(content)
        for place in self._places(path, state):
            with contextlib.suppress(OSError):
                file = files.enter_context(readable(place))
                if digest_of(file) == state.digest:
                    return files.enter_context(open(file, "rb", buffering=0, closefd=False))
        return None

    def _places(self, path: bytes, state: PathState) -> Iterator[bytes]:
        for layer in reversed(self._layers):
            for entry in layer.trees[self._tree]:
                if entry.path == path and entry.state is not None and entry.state.digest == state.digest:
                    yield content_in(self._shelf, layer.number, self._tree, path)
        if self._home.hidden.why_not(path, is_folder=True) is None:
            yield self._home.root + b"/" + path
        for landing in reversed(self._home.log_after(0)):
            for value in items(landing["paths"]):
                fields = fields_of(value)
                kept = kept_at(self._home, landing, fields)
                if kept is not None and path_of(fields["path"]) == path:
                    yield kept


def shown_net(
    shelf: ChangesetFolder, homes: Sequence[Home], layers: Sequence[Layer], forked_at: int
) -> Iterator[Shown]:
    """The whole changeset against what it started from."""
    for tree, home in enumerate(homes):
        contents = Contents(shelf, home, layers, tree)
        befores = {each.path: each.before for layer in reversed(layers[forked_at:]) for each in layer.trees[tree]}
        for net in net_changes(layers, tree, forked_at):
            before = net.ancestor.state if net.ancestor.is_known else befores.get(net.path)
            yield contents.shown(net.path, before, net.ours)


def shown_step(shelf: ChangesetFolder, homes: Sequence[Home], layers: Sequence[Layer], number: int) -> Iterator[Shown]:
    """One layer against what was below it."""
    for tree, home in enumerate(homes):
        contents = Contents(shelf, home, layers, tree)
        for entry in layers[number - 1].trees[tree]:
            if not entry.is_ephemeral:
                yield contents.shown(entry.path, entry.before, entry.state)


def diff_of(
    shelf: ChangesetFolder, homes: Sequence[Home], layers: Sequence[Layer], step: int | None, forked_at: int = 0
) -> str:
    """A unified diff of all layers together, of a branch its own, or of one. ChangesetLifeError: no such step."""
    if step is None:
        return unified(list(shown_net(shelf, homes, layers, forked_at)))
    if not 1 <= step <= len(layers):
        raise ChangesetLifeError(f"changeset {shelf.id} has {len(layers)} sealed steps; there is no step {step}")
    return unified(list(shown_step(shelf, homes, layers, step)))


def overview_of(shelf: ChangesetFolder, homes: Sequence[Home], layers: Sequence[Layer], forked_at: int = 0) -> Overview:
    """The diff of all layers together, and the sizes of just that."""
    return overview(list(shown_net(shelf, homes, layers, forked_at)))


# -- what is too large to hold ----------------------------------------------------------------------------------------


def held_against(old: _Read | None, new: _Read | None) -> tuple[Bulk | None, Bulk | None]:
    """Both sides of a change, without what they begin and end with alike."""
    start = 0 if old is None or new is None else _alike(old, new)
    end = 0 if old is None or new is None else _alike_at_end(old, new, start)
    return (_bulk(old, start, end), _bulk(new, start, end))


def _bulk(file: _Read | None, start: int, end: int) -> Bulk | None:
    if file is None:
        return None
    length = _size(file) - start - end
    file.seek(start)
    part = file.read(min(length, MOST_SHOWN))
    return Bulk(lines=lines_in(_pieces(file)), widest=widest_in(_pieces(file)), start=start, length=length, part=part)


def _size(file: _Read) -> int:
    return file.seek(0, os.SEEK_END)


def _pieces(file: _Read) -> Iterator[bytes]:
    file.seek(0)
    while piece := file.read(_PIECE):
        yield piece


def _alike(one: _Read, other: _Read) -> int:
    """How many bytes both begin with."""
    at = 0
    for first, second in zip(_pieces(one), _pieces(other), strict=False):
        if first != second:
            return at + _common(first, second)
        at += len(first)
    return at


def _alike_at_end(one: _Read, other: _Read, start: int) -> int:
    """How many bytes both end with, beyond those that they begin with."""
    sizes = (_size(one), _size(other))
    done, most = 0, min(sizes) - start
    while done < most:
        length = min(_PIECE, most - done)
        one.seek(sizes[0] - done - length)
        other.seek(sizes[1] - done - length)
        first, second = one.read(length), other.read(length)
        if first != second:
            return done + _common(first[::-1], second[::-1])
        done += length
    return done


def _common(one: bytes, other: bytes) -> int:
    """The length of what two different pieces begin with."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low
