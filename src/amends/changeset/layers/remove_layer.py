"""The layers of a changeset without one of them that others lie over. Reads layers, and writes nothing.

Above the layer that goes, each path of it is looked at from below upwards. What a layer above made of it is made anew
from what is there once the layer is gone, by the table of landings (three_way.py): ours is the layer above, theirs what
is below it now, and the ancestor what it started from. The first layer that comes to the same as before ends the walk.

    no layer above has it                         it is again what it was
    one above changed other lines of it           merged
    one above changed what this one had made      conflict, and nothing is dropped
    one above removed the folder that it was in   conflict: the layer that goes had removed it before
    one above put something into its new folder   the folder is that layer's, from now on
    a cache that both wrote                       the one above is right
    a repository (`.git`) that both worked in     conflict: half of its objects would go
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from hashlib import sha256

from amends.changeset.disk import whiteouts
from amends.changeset.disk.read import about_path, content_at
from amends.changeset.layers.report import Conflict
from amends.changeset.layers.stack import Stack, stack_over
from amends.changeset.model.model import Ancestor, Layer, LayerEntry, PathKind, PathState, Totals, same
from amends.changeset.model.paths import is_gits_own, parents, spell
from amends.changeset.model.three_way import Clash, Ruling, judge
from amends.changeset.store.home import Home, upper_of
from amends.changeset.store.records import ChangesetFolder, content_in
from amends.changeset.text.lines import LARGEST_TEXT
from amends.changeset.text.merge import Merged, merge
from amends.dataclass import dataclass
from amends.errors import ChangesetDamagedError


@dataclass(frozen=True, slots=True)
class Source:
    """Where a file's content is: at a place on disk, or nowhere yet."""

    where: bytes = b""
    content: bytes | None = None

    def text(self, state: PathState) -> bytes | None:
        """None: too much to merge, or it is not what it should be: somebody writes to it just now."""
        if state.size > LARGEST_TEXT:
            return None
        content = content_at(self.where) if self.content is None else self.content
        return content if sha256(content).hexdigest() == state.digest else None


@dataclass(slots=True)
class ReducedPart:
    """One tree's part of a layer, as it has to become."""

    entries: dict[bytes, LayerEntry]
    put: dict[bytes, Source] = field(default_factory=dict[bytes, Source])
    """New contents; their modes are in the entries."""
    gone: set[bytes] = field(default_factory=set[bytes])
    """What its folder has, and should not any more."""
    modes: dict[bytes, int] = field(default_factory=dict[bytes, int])
    """Of folders that were copied up into it."""

    @property
    def is_changed(self) -> bool:
        return bool(self.put or self.gone or self.modes)


@dataclass(frozen=True, slots=True)
class Remade:
    """A layer that has to be laid anew."""

    layer: Layer
    parts: tuple[ReducedPart, ...]
    formerly: str
    """Its digest until now."""


@dataclass(slots=True)
class Without:
    """The layers that change, and the paths whose view does; or, with conflicts, why none can."""

    remade: list[Remade] = field(default_factory=list[Remade])
    paths: tuple[frozenset[bytes], ...] = ()
    conflicts: list[Conflict] = field(default_factory=list[Conflict])


def without(shelf: ChangesetFolder, homes: Sequence[Home], layers: Sequence[Layer], number: int) -> Without:
    """Say what the layers come to without layer `number`."""
    out, over = layers[number - 1], layers[number:]
    parts = {layer.number: [ReducedPart({each.path: each for each in tree}) for tree in layer.trees] for layer in over}
    found = Without()
    paths: list[frozenset[bytes]] = []
    for tree, home in enumerate(homes):
        below = [upper_of(shelf.layer_folder(each.number), tree) for each in reversed(layers[: number - 1])]
        above = [Above(shelf, layer, tree, parts[layer.number][tree]) for layer in over]
        walk = TreeWalk(shelf, home, stack_over(home, below), above, out, tree)
        found.conflicts += walk.conflicts()
        paths.append(frozenset(entry.path for entry in out.trees[tree]))
    hollow = replace(out, trees=tuple(() for _ in homes), totals=Totals(), is_dropped=True, formerly=())
    found.remade.append(Remade(hollow, tuple(ReducedPart({}) for _ in homes), out.digest))
    for layer in over:
        changed = parts[layer.number]
        if any(part.is_changed for part in changed):
            trees = tuple(tuple(part.entries[path] for path in sorted(part.entries)) for part in changed)
            remade = replace(layer, trees=trees, formerly=(*layer.formerly, layer.digest))
            found.remade.append(Remade(remade, tuple(changed), layer.digest))
    found.paths = tuple(paths)
    return found


@dataclass(frozen=True, slots=True)
class Above:
    """A layer that stays, and lies over the one that goes; `part` is what it becomes."""

    shelf: ChangesetFolder
    layer: Layer
    tree: int
    part: ReducedPart

    def has_folder(self, path: bytes) -> bool:
        about = about_path(self.where(path))
        return about is not None and stat.S_ISDIR(about.st_mode)

    def where(self, path: bytes) -> bytes:
        return content_in(self.shelf, self.layer.number, self.tree, path)

    def hides(self, path: bytes) -> bool:
        """Whether a folder above the path is gone by this layer, or shows nothing of what is below it."""
        for folder in parents(path):
            where = self.where(folder)
            about = about_path(where)
            if about is not None and (not stat.S_ISDIR(about.st_mode) or whiteouts.is_opaque(where)):
                return True
        return False

    def has_below(self, path: bytes) -> bool:
        """Whether the layer puts something into a folder."""
        return any(
            entry.state is not None and entry.path.startswith(path + b"/") for entry in self.layer.trees[self.tree]
        )


@dataclass(frozen=True, slots=True)
class TreeWalk:
    """One tree of the layer that goes, path by path."""

    shelf: ChangesetFolder
    home: Home
    below: Stack
    above: Sequence[Above]
    out: Layer
    tree: int

    def conflicts(self) -> Iterator[Conflict]:
        yield from self._repositories()
        for entry in self.out.trees[self.tree]:
            if not entry.is_ephemeral:
                yield from self._up_from(entry)

    def _up_from(self, gone: LayerEntry) -> Iterator[Conflict]:
        """Walk from the layer that goes upwards: `was` is what was at the path so far, `now` what will be."""
        path, was, now = gone.path, gone.state, self.below.state(gone.path)
        found = self.below.find(path)
        held = Source(content_in(self.shelf, self.out.number, self.tree, path))
        new = Source(b"" if found is None else found.where)
        for each in self.above:
            if same(was, now):
                return
            entry = each.part.entries.get(path)
            if entry is None:
                clash = self._beside(each, gone, was, now)
                if clash is not None:
                    yield self._conflict(each, path, clash, was, was, now)
                    return
                if path in each.part.entries:
                    return
                continue
            made = self._made(each, entry, was, now, (held, new))
            if isinstance(made, Conflict):
                yield made
                return
            was, held = entry.state, Source(each.where(path))
            now, new = made

    def _beside(self, above: Above, gone: LayerEntry, was: PathState | None, now: PathState | None) -> Clash | None:
        """A layer that does not say anything of the path may have its folder, or hide it."""
        path, part = gone.path, above.part
        if now is not None and above.hides(path):
            return Clash.NOT_EMPTY
        if was is None or was.kind is not PathKind.FOLDER or not above.has_folder(path):
            return None
        if now is not None and now.kind is PathKind.FOLDER:
            part.modes[path] = now.mode
            return None
        if not above.has_below(path):
            part.gone.add(path)
            return None
        if now is not None:
            return Clash.KIND
        part.entries[path] = LayerEntry(path=path, state=was, before=None, ancestor=gone.ancestor)
        part.modes[path] = was.mode
        return None

    def _made(
        self,
        above: Above,
        entry: LayerEntry,
        was: PathState | None,
        now: PathState | None,
        sources: tuple[Source, Source],
    ) -> tuple[PathState | None, Source] | Conflict:
        """The path as the layer above makes it, from what will be there; and where its content is then."""
        ours, part = entry.state, above.part
        folders = [state is not None and state.kind is PathKind.FOLDER for state in (was, ours, now)]
        if any(folders) and not all(folders) and not (ours is None and now is None):
            return self._conflict(above, entry.path, Clash.KIND, was, ours, now)
        judged = judge(Ancestor(state=was), ours, now)
        if judged.ruling is Ruling.CONFLICT:
            return self._conflict(above, entry.path, judged.clash or Clash.CONTENT, was, ours, now)
        if judged.ruling in {Ruling.ALREADY, Ruling.STAY}:
            del part.entries[entry.path]
            if now is not None and now.kind is PathKind.FOLDER:
                part.modes[entry.path] = now.mode
            else:
                part.gone.add(entry.path)
            return now, sources[1]
        outcome, source = judged.outcome, Source(above.where(entry.path))
        if judged.ruling is Ruling.MERGE:
            merged = self._merged(above, entry, was, now, sources)
            if merged is None or merged.hunks or outcome is None or now is None:
                clash = Clash.BINARY if merged is None else Clash.CONTENT
                return self._conflict(above, entry.path, clash, was, ours, now, merged)
            time = max(outcome.mtime_ns, now.mtime_ns)
            digest = sha256(merged.content).hexdigest()
            outcome = replace(outcome, digest=digest, size=len(merged.content), mtime_ns=time)
            source = Source(content=merged.content)
        elif outcome is not None and ours is not None and outcome.digest != ours.digest:
            source = sources[1]
        part.entries[entry.path] = replace(entry, state=outcome, before=now)
        if outcome is not None and outcome.kind is PathKind.FOLDER:
            part.modes[entry.path] = outcome.mode
        else:
            part.put[entry.path] = source
        return outcome, source

    @staticmethod
    def _merged(
        above: Above, entry: LayerEntry, was: PathState | None, now: PathState | None, sources: tuple[Source, Source]
    ) -> Merged | None:
        if was is None or now is None or entry.state is None:
            return None
        texts = (
            sources[0].text(was),
            Source(above.where(entry.path)).text(entry.state),
            sources[1].text(now),
        )
        before, ours, theirs = texts
        return None if before is None or ours is None or theirs is None else merge(before, ours, theirs)

    def _repositories(self) -> Iterator[Conflict]:
        mine = _repositories(self.out.trees[self.tree])
        for each in self.above:
            for path in sorted(mine & _repositories(each.layer.trees[self.tree])):
                yield self._conflict(each, path, Clash.BINARY, None, None, None)

    def _conflict(
        self,
        above: Above,
        path: bytes,
        clash: Clash,
        was: PathState | None,
        ours: PathState | None,
        now: PathState | None,
        merged: Merged | None = None,
    ) -> Conflict:
        return Conflict(
            root=self.home.root,
            path=path,
            clash=clash,
            ancestor=was,
            is_ancestor_known=True,
            ours=ours,
            theirs=now,
            hunks=() if merged is None else merged.hunks,
            marked=None if merged is None else merged.content,
            detail=f"step {above.layer.number} ({spell(above.layer.name.encode())}) worked on it since",
        )


def _repositories(entries: Sequence[LayerEntry]) -> set[bytes]:
    """The `.git` of each repository that a layer worked in."""
    found: set[bytes] = set()
    for entry in entries:
        if entry.is_ephemeral:
            names = entry.path.split(b"/")
            if own := next((number for number, name in enumerate(names, start=1) if is_gits_own(name)), 0):
                found.add(b"/".join(names[:own]))
    return found


def matches(layer: Layer, digest: str) -> bool:
    """Whether a journal that names a layer by this digest means this one, under whatever it was laid since."""
    return digest == layer.digest or digest in layer.formerly


def require_all(id: str, layers: Sequence[Layer], named: Mapping[int, str]) -> None:
    """Raise ChangesetDamagedError if a layer that a journal names is not among these."""
    known = {layer.number: layer for layer in layers}
    for number, digest in named.items():
        if number not in known or not matches(known[number], digest):
            raise ChangesetDamagedError(
                f"changeset {id}: layer {number} of the journal is missing, or is another one, on disk: it was rewound "
                "behind its saga, or its state directory was replaced; bring that back from a backup"
            )
