"""Sealing a layer: from a folder that tools wrote into to a record that nothing changes any more.

    read        what changed against what is below, spelled out path by path
    judge       the limits; a layer that breaks one stays open, and can only be dropped
    prove       each path's ancestor, under the tree's lock, so that no landing is half done meanwhile
    wait        for the layer's files and folders to be on disk
    write       the record, in one rename: that is the seal

A kill before the rename leaves an open layer, which is dropped; after it, a sealed one. No tree is touched.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace

from amends.changeset.disk.disk import Disk, Sync, spot
from amends.changeset.disk.read import content_at, content_by_pieces
from amends.changeset.layers import limits
from amends.changeset.layers.ancestors import Ancestry, moment
from amends.changeset.layers.delta import Change, Delta
from amends.changeset.layers.stack import Stack
from amends.changeset.model import codec
from amends.changeset.model.model import (
    UNKNOWN,
    Ancestor,
    Layer,
    LayerEntry,
    LayerStart,
    Met,
    PathKind,
    PathState,
    Terms,
    Totals,
    mode_differs,
)
from amends.changeset.model.paths import Patterns
from amends.changeset.store.home import Home, write_record
from amends.changeset.store.objects import Objects
from amends.changeset.text.lines import LARGEST_TEXT, changed_lines, lines_by_size, lines_in
from amends.dataclass import dataclass
from amends.errors import LimitError


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenPart:
    """One tree's part of an open layer."""

    home: Home
    upper: bytes
    below: Stack
    existed: frozenset[bytes] = frozenset()
    """Paths that a provider knows to have been there when the step began."""
    met: Mapping[bytes, Met] = field(default_factory=dict[bytes, Met])
    """Conflicts that the step shows or has resolved."""


def seal_layer(
    begun: LayerStart,
    parts: Sequence[OpenPart],
    *,
    folder: bytes,
    live: Sequence[Layer],
    terms: Terms,
    provider: str,
    now: int,
    disk: Disk,
) -> Layer:
    """Seal the layer in `folder` over the layers that live. Raises LimitError, and then the layer is still open."""
    for part in parts:
        limits.require_shallow(part.upper)
    found = [_changes(part, terms, disk) for part in parts]
    found = [list(_without_sockets(changes, part, disk)) for changes, part in zip(found, parts, strict=True)]
    totals = _totals(parts, found)
    _require_limits(found, parts, live, totals, terms)
    trees: list[tuple[LayerEntry, ...]] = []
    with contextlib.ExitStack() as locks:
        for home in sorted({part.home.path: part.home for part in parts}.values(), key=lambda home: home.path):
            locks.enter_context(home.locked(shared=True))
        for number, (part, changes) in enumerate(zip(parts, found, strict=True)):
            earlier = earliest_ancestors(live, number)
            trees.append(tuple(_entries(part, changes, begun, number, earlier)))
    for part in parts:
        sync_layer(disk, part.upper)
    disk.sync_folder(spot(folder), Sync.LAYER_FOLDERS)
    disk.sync_folder(spot(os.path.dirname(folder)), Sync.LAYER_FOLDERS)
    layer = Layer(begun=begun, trees=tuple(trees), sealed_at=now, provider=provider, totals=totals)
    fields = codec.layer_fields(layer)
    write_record(disk, folder, b"sealed.json", fields)
    return replace(layer, digest=codec.digest_of(fields))


def _changes(part: OpenPart, terms: Terms, disk: Disk) -> list[Change]:
    ephemeral = Patterns(terms.ephemeral, is_case_blind=part.home.is_case_blind)
    return Delta(part.upper, part.below, ephemeral, disk).changes()


def _without_sockets(changes: Sequence[Change], part: OpenPart, disk: Disk) -> Iterator[Change]:
    """Caches may hold sockets; nobody misses them."""
    for change in changes:
        if change.is_ephemeral and change.after is not None and change.after.kind is PathKind.OTHER:
            disk.remove(spot(part.upper + b"/" + change.path))
        else:
            yield change


def _entries(
    part: OpenPart, changes: Sequence[Change], begun: LayerStart, number: int, earlier: Mapping[bytes, Ancestor]
) -> Iterator[LayerEntry]:
    since_ns = begun.since_ns[number]
    if moment(part.home.path) < since_ns:
        since_ns = 0  # the clock went back while the step ran: no time proves anything
    ancestry = Ancestry(
        part.home, Objects(part.home), since_ns=since_ns, landing=begun.landings[number], earlier=earlier
    )
    met = dict(part.met)
    for change in changes:
        seen = None if change.is_ephemeral else met.pop(change.path, None)
        if seen is not None:
            ancestor = Ancestor(state=seen.theirs)
        elif change.is_ephemeral and change.after is not None:
            ancestor = Ancestor(state=None)
        elif change.path in part.existed and change.before is None and change.path not in earlier:
            ancestor = UNKNOWN
        else:
            ancestor = ancestry.of(change)
        yield LayerEntry(
            path=change.path,
            state=change.after,
            before=change.before,
            ancestor=ancestor,
            is_ephemeral=change.is_ephemeral,
            is_rebased=seen is not None,
            clash="" if seen is None else seen.clash,
        )
    for path, seen in sorted(met.items()):  # as the layers below have it: what is new is what it is held against
        state = part.below.state(path)
        theirs = Ancestor(state=seen.theirs)
        yield LayerEntry(path=path, state=state, before=state, ancestor=theirs, is_rebased=True, clash=seen.clash)


def earliest_ancestors(live: Sequence[Layer], tree: int) -> dict[bytes, Ancestor]:
    """Ancestors of the changeset, for each path that one of these layers has, or was last held against."""
    found: dict[bytes, Ancestor] = {}
    for layer in live:
        for entry in layer.trees[tree]:
            if entry.is_rebased:
                found[entry.path] = entry.ancestor
            elif not entry.is_ephemeral or entry.state is None:
                found.setdefault(entry.path, entry.ancestor)
    return found


def _totals(parts: Sequence[OpenPart], found: Sequence[Sequence[Change]]) -> Totals:
    files = added = removed = size = 0
    for part, changes in zip(parts, found, strict=True):
        for change in changes:
            if change.is_ephemeral:
                continue
            mode = int(mode_differs(change.before, change.after))
            added, removed = added + mode, removed + mode
            kinds = {state.kind for state in (change.before, change.after) if state is not None}
            if kinds == {PathKind.FOLDER}:
                continue
            files += 1
            size += change.after.size if change.after is not None else 0
            if PathKind.FILE in kinds:
                more, less = _lines(part, change)
                added, removed = added + more, removed + less
    return Totals(files=files, added_lines=added, removed_lines=removed, bytes=size)


def _lines(part: OpenPart, change: Change) -> tuple[int, int]:
    """How many lines a change adds and removes; what is too large to be compared, or unreadable, counts whole."""
    before, after = change.before, change.after
    if before is not None and after is not None and before.digest == after.digest:
        return (0, 0)
    below = part.below.find(change.path) if before is not None else None
    old, new = None if below is None else below.where, part.upper + b"/" + change.path
    if all(state is None or state.size <= LARGEST_TEXT for state in (before, after)):
        with contextlib.suppress(OSError):  # it may not be read, or has just gone
            return changed_lines(_content(before, old), _content(after, new))
    return (_whole(after, new), _whole(before, old))


def _content(state: PathState | None, where: bytes | None) -> bytes:
    return b"" if state is None or state.kind is not PathKind.FILE or where is None else content_at(where)


def _whole(state: PathState | None, where: bytes | None) -> int:
    if state is None or state.kind is not PathKind.FILE:
        return 0
    try:
        return lines_by_size(state.size) if where is None else lines_in(content_by_pieces(where))
    except OSError:
        return lines_by_size(state.size)


def _require_limits(
    found: Sequence[Sequence[Change]], parts: Sequence[OpenPart], live: Sequence[Layer], totals: Totals, terms: Terms
) -> None:
    broken: list[str] = []
    for part, changes in zip(parts, found, strict=True):
        view = Stack((part.upper, *part.below.parts), part.below.root, part.below.hidden)
        hidden, is_case_blind = part.home.hidden, part.home.is_case_blind
        broken += limits.kinds_broken(changes, view, terms.limits, hidden, is_case_blind=is_case_blind)
        if terms.limits.portable_names or part.home.is_case_blind:
            broken += limits.collisions(changes, view)
    whole = Totals(
        files=len(
            _paths(live) | {(n, each.path) for n, changes in enumerate(found) for each in changes if _counts(each)}
        ),
        added_lines=totals.added_lines + sum(layer.totals.added_lines for layer in live),
        removed_lines=totals.removed_lines + sum(layer.totals.removed_lines for layer in live),
        bytes=totals.bytes + sum(layer.totals.bytes for layer in live),
    )
    broken += limits.numbers_broken(whole, terms.limits)
    if broken:
        raise LimitError(f"the step cannot be sealed: {limits.said(broken)}", broken=tuple(broken))


def _counts(change: Change) -> bool:
    states = [state for state in (change.before, change.after) if state is not None]
    return not change.is_ephemeral and any(state.kind is not PathKind.FOLDER for state in states)


def _paths(live: Sequence[Layer]) -> set[tuple[int, bytes]]:
    return {
        (number, entry.path)
        for layer in live
        for number, entries in enumerate(layer.trees)
        for entry in entries
        if not entry.is_ephemeral
        and any(state is not None and state.kind is not PathKind.FOLDER for state in (entry.state, entry.before))
    }


def sync_layer(disk: Disk, folder: bytes) -> None:
    """Have a layer's files and folders on disk, what is inside first."""
    folders = [folder]
    for each in folders:  # it grows on the way
        with os.scandir(each) as inside:
            found = [(one.path, one.stat(follow_symlinks=False).st_mode) for one in inside]
        folders += [path for path, mode in found if stat.S_ISDIR(mode)]
        for path, mode in found:
            if stat.S_ISREG(mode) and mode & stat.S_IRUSR:
                disk.sync_file(spot(path), Sync.LAYER_FILES)
    for each in reversed(folders):
        disk.sync_folder(spot(each), Sync.LAYER_FOLDERS)
