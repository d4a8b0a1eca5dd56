"""Resolving conflicts: a step says of each path what shall be, and what of the others' it has seen.

A resolution is a layer like any other. It holds what shall be in the tree, and takes what others have there for its
ancestor: so it lands if that is still there, is merged or in conflict again if they have changed it since, and is
taken back by dropping the layer.

    ours      what the changeset had made, whatever others did
    theirs    what is in the tree now; nothing of ours lands there
    merged    what the step shows now, made by hand or by a tool; not while marks stand in it

Marks are a layer too: a text with both sides and what both started from, where tools and editors see it. Its entries
say that they are in conflict, and nothing lands until each is resolved. A person who has no step edits a *draft*: the
same text, in the changeset's folder, beside what each side has.

| the conflict                       | ours                               | theirs                      |
|------------------------------------|------------------------------------|-----------------------------|
| they removed the folder it is in   | the folder is made again           | ours goes                   |
| they put something into a folder   | that goes too                      | the folder stays, with it   |
| that we removed                    |                                    |                             |
| a folder here, something else there| what is there makes room           | ours makes room             |
| somebody landed in what we read    | seen, and nothing to change        | the same                    |
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from difflib import get_close_matches
from hashlib import sha256
from typing import Final

from amends.changeset.branches import StackNow
from amends.changeset.disk.read import content_at, open_root
from amends.changeset.landing import landing
from amends.changeset.landing.validate import TreeNow
from amends.changeset.layers.delta import Delta
from amends.changeset.layers.net import net_changes
from amends.changeset.layers.report import Conflict
from amends.changeset.layers.stack import FoundPath
from amends.changeset.layers.writing import Writing
from amends.changeset.model import codec
from amends.changeset.model.codec import fields_of, loads, optional, state_fields, state_of
from amends.changeset.model.model import Layer, LayerEntry, Met, PathKind, PathState, same
from amends.changeset.model.paths import Given, beneath, parents, relative, spell
from amends.changeset.model.results import Take
from amends.changeset.model.three_way import Clash
from amends.changeset.store.home import write_record
from amends.changeset.store.objects import Objects
from amends.changeset.store.records import ChangesetFolder, content_in
from amends.changeset.text.lines import LARGEST_TEXT, is_text
from amends.changeset.text.merge import merge
from amends.dataclass import dataclass
from amends.errors import ChangesetBusyError, ChangesetDamagedError, PathError

_MARK: Final = re.compile(rb"^(<<<<<<< ours|\|\|\|\|\|\|\| ancestor|>>>>>>> theirs)$", re.MULTILINE)
_DRAFTS: Final = b"conflicts"


def marks_in(content: bytes) -> list[int]:
    """The lines, counted from 1, that have marks of a conflict."""
    return [content.count(b"\n", 0, found.start()) + 1 for found in _MARK.finditer(content)]


class Resolving:
    """The conflicts of a changeset, in one open step of it."""

    def __init__(self, case: landing.LandingRequest, writing: Callable[[int], Writing]) -> None:
        self._case = case
        self._writing = writing
        self.met: tuple[dict[bytes, Met], ...] = tuple({} for _ in case.homes)

    def conflicts(self) -> tuple[Conflict, ...]:
        """Conflicts that there would be, were all but this step landed now, and that are not resolved in it."""
        found: dict[tuple[bytes, bytes], Conflict] = {}
        for each in landing.conflicts_of(landing.check(self._case)):
            met = self.met[self._tree(each)].get(each.path)
            if met is None or met.clash:
                found.setdefault((each.root, each.path), each)
        return tuple(found.values())

    def mark(self) -> tuple[Conflict, ...]:
        """Have both sides of each conflict in the view, with marks, where they are texts."""
        found = self.conflicts()
        for each in found:
            tree = self._tree(each)
            with self._now(tree) as now:
                theirs = now.state(each.path)
                marked = self._marked(each, tree, now)
            if marked is not None:
                mode = next((side.mode for side in (each.ours, theirs) if side is not None), 0o644)
                self._put(tree, each.path, marked, mode, self._case.clock.now() * 1_000_000)
            self._meet(tree, each.path, theirs, str(each.clash))
        return found

    def resolve(self, tree: int, path: bytes, take: Take, draft: bytes | None = None, seen: Met | None = None) -> None:
        """Resolve one conflict. `draft`: what a person has made of it; `seen`: what of the tree they had in view."""
        conflict = conflict_at(self.conflicts(), self._case.homes[tree].root, path)
        with self._now(tree) as now:
            theirs = now.state(path)
            if take is Take.THEIRS or conflict.clash is Clash.ISOLATION:
                self._bring(tree, path, now)
                self._meet(tree, path, theirs)
                return
            if take is Take.OURS:
                self._restore(tree, path)
            else:
                self._take_merged(tree, path, draft, conflict)
            self._make_way(tree, path, now)
            known = seen or self._seen(tree, path)
            self._meet(tree, path, theirs if known is None else known.theirs)

    def resolve_by_draft(self, tree: int, path: bytes, take: Take, digest: str) -> None:
        """Resolve what a person has decided, who has seen drafts; `digest` is of the one that they mean, if of any."""
        draft, seen = None, seen_in_draft(self._case.shelf, tree, path)
        if take is Take.MERGED:
            conflict_at(self.conflicts(), self._case.homes[tree].root, path)
            draft, seen = draft_of(self._case.shelf, tree, path)
            draft = require_draft(draft, digest, path) if digest else draft
        self.resolve(tree, path, take, draft, seen)

    # -- what is seen -------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _now(self, tree: int) -> Generator[TreeNow]:
        root = open_root(self._case.homes[tree].root)
        try:
            yield TreeNow(root)
        finally:
            os.close(root)

    def _tree(self, conflict: Conflict) -> int:
        return next(number for number, home in enumerate(self._case.homes) if home.root == conflict.root)

    def _seen(self, tree: int, path: bytes) -> Met | None:
        """The part of the tree that was shown with the marks: what came after that, nobody has seen."""
        return self.met[tree].get(path) or unresolved(self._case.layers, tree).get(path)

    def _meet(self, tree: int, path: bytes, theirs: PathState | None, clash: str = "") -> None:
        self.met[tree][path] = Met(theirs=theirs, clash=clash)
        if theirs is not None and theirs.kind is PathKind.FILE:
            home = self._case.homes[tree]
            Objects(home).keep(theirs.digest, home.root + b"/" + path, theirs.size)

    def _marked(self, conflict: Conflict, tree: int, now: TreeNow) -> bytes | None:
        if conflict.marked is not None:
            return conflict.marked
        return _marked(sides(self._case, conflict, tree, now), conflict)

    # -- what is made -------------------------------------------------------------------------------------------------

    def _restore(self, tree: int, path: bytes) -> None:
        """Show ours again, where marks stand in its place."""
        state, number = ours_of(self._case.layers, tree, path)
        if same(StackNow(self._writing(tree).stack).state(path), state):
            return
        if state is None:
            self._take_out(tree, path)
        elif state.kind is not PathKind.FOLDER:
            where = content_in(self._case.shelf, number, tree, path)
            self._put(tree, path, FoundPath(where, os.lstat(where)), state.mode, state.mtime_ns)

    def _take_merged(self, tree: int, path: bytes, draft: bytes | None, conflict: Conflict) -> None:
        writing = self._writing(tree)
        found = writing.stack.find(path)
        content = draft
        if draft is None and found is not None and not found.is_folder and not found.is_link:
            content = content_at(found.where)
        lines = marks_in(content) if content is not None else []
        if lines:
            where = ", ".join(map(str, lines[:5]))
            raise PathError(
                f"{spell(path)} has marks of the conflict in lines {where}; edit them away, then resolve it"
            )
        if draft is not None:
            mode = next((side.mode for side in (conflict.ours, conflict.theirs) if side is not None), 0o644)
            self._put(tree, path, draft, mode, self._case.clock.now() * 1_000_000)

    def _make_way(self, tree: int, path: bytes, now: TreeNow) -> None:
        """Clear the way for ours with the landing; the folders that it needs are made by it."""
        view = StackNow(self._writing(tree).stack)
        if view.state(path) is not None:
            for above in parents(path):
                theirs = now.state(above)
                if theirs is None or theirs.kind is not PathKind.FOLDER:
                    self._meet(tree, above, theirs)
        if (shown := view.state(path)) is None or shown.kind is not PathKind.FOLDER:
            for inner in _below(now, path):
                self._meet(tree, inner, now.state(inner))

    def _bring(self, tree: int, path: bytes, now: TreeNow) -> None:
        """Have in the layer what is in the tree."""
        state, writing = now.state(path), self._writing(tree)
        shown = StackNow(writing.stack).state(path)
        if state is None:
            self._take_out(tree, path)
            return
        if state.kind is not PathKind.FOLDER:
            where = self._case.homes[tree].root + b"/" + path
            self._put(tree, path, FoundPath(where, os.lstat(where)), state.mode, state.mtime_ns)
            if state.kind is PathKind.FILE and Delta.file_state(writing.upper + b"/" + path).digest != state.digest:
                raise ChangesetBusyError(f"somebody writes to {spell(path)} just now; try again")
            return
        if shown is None or shown.kind is not PathKind.FOLDER:
            self._take_out(tree, path)
            writing.lay_folder(path)
        gone = {net.path for net in net_changes(self._case.layers, tree) if net.ours is None}
        for inner in now.inside(path):
            if inner not in gone:
                self._bring(tree, inner, now)
                self._meet(tree, inner, now.state(inner))
        writing.finish_folder(path, state.mode, state.mtime_ns)

    def _put(self, tree: int, path: bytes, content: FoundPath | bytes, mode: int, mtime_ns: int) -> None:
        writing = self._writing(tree)
        there = writing.stack.find(path)
        if there is not None and there.is_folder:
            self._take_out(tree, path)
        for above in reversed(list(parents(path))):
            found = writing.stack.find(above)
            if found is not None and not found.is_folder:
                writing.take_out(above)
            if found is None or not found.is_folder:
                writing.lay_folder(above)
        writing.put(path, content, mode, mtime_ns)

    def _take_out(self, tree: int, path: bytes) -> None:
        writing = self._writing(tree)
        if writing.stack.find(path) is not None:
            writing.take_out(path)


def _below(now: TreeNow, folder: bytes) -> Iterator[bytes]:
    """Paths in a folder of the tree, and in its folders; what is inside comes first."""
    found = list(now.inside(folder))
    for each in found:  # it grows on the way
        found += now.inside(each)
    yield from reversed(found)


def conflict_at(conflicts: Sequence[Conflict], root: bytes, path: bytes) -> Conflict:
    """Raises PathError, which names the nearest one."""
    for each in conflicts:
        if each.root == root and each.path == path:
            return each
    raise no_conflict(path, [each.path for each in conflicts])


def no_conflict(path: bytes, known: Sequence[bytes]) -> PathError:
    if not known:
        return PathError(f"{spell(path)} is not in conflict, and nothing else is")
    near = get_close_matches(spell(path), list(map(spell, known)), n=1, cutoff=0.5)
    meant = f"; did you mean {near[0]}?" if near else f"; in conflict are {', '.join(map(spell, known[:5]))}"
    return PathError(f"{spell(path)} is not in conflict{meant}")


def unresolved(layers: Sequence[Layer], tree: int) -> dict[bytes, Met]:
    """Paths with marks that nobody has resolved since."""
    found: dict[bytes, Met] = {}
    for layer in layers:
        for entry in layer.trees[tree]:
            if entry.is_rebased:
                found[entry.path] = Met(theirs=entry.ancestor.state, clash=entry.clash)
    return {path: met for path, met in found.items() if met.clash}


def ours_of(layers: Sequence[Layer], tree: int, path: bytes) -> tuple[PathState | None, int]:
    """The state that the changeset had given a path before marks were laid over it, and the layer that has it."""
    found: list[tuple[LayerEntry, int]] = [
        (entry, layer.number) for layer in layers for entry in layer.trees[tree] if entry.path == path
    ]
    rebased = [place for place, (entry, _) in enumerate(found) if entry.is_rebased]
    while rebased and found[rebased[-1]][0].clash:
        del found[rebased.pop() :]
    if not found:
        return None, 0
    state = found[-1][0].state
    while len(found) > 1 and found[-1][0].is_rebased and same(found[-1][0].before, state):
        found.pop()  # it says what it is held against, and has no content
    return state, found[-1][1]


# -- both sides, for a person -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """The contents of a conflict; None: there is none, or none that can be had."""

    ours: bytes | None
    theirs: bytes | None
    base: bytes | None


def sides(case: landing.LandingRequest, conflict: Conflict, tree: int, now: TreeNow) -> Sides:
    ours, number = ours_of(case.layers, tree, conflict.path)
    theirs, base = now.state(conflict.path), conflict.ancestor
    return Sides(
        ours=_content(ours, lambda: content_at(content_in(case.shelf, number, tree, conflict.path))),
        theirs=_content(theirs, lambda: now.content(conflict.path)),
        base=None if base is None else Objects(case.homes[tree]).get(base.digest),
    )


def _content(state: PathState | None, read: Callable[[], bytes]) -> bytes | None:
    if state is None or state.kind is not PathKind.FILE or state.size > LARGEST_TEXT:
        return None
    with contextlib.suppress(OSError):
        return read()
    return None


def _marked(found: Sides, conflict: Conflict) -> bytes | None:
    """Both sides with marks; None: they are no texts."""
    for state, content in ((conflict.ours, found.ours), (conflict.theirs, found.theirs)):
        if state is not None and (content is None or not is_text(content)):
            return None
    if found.ours is None and found.theirs is None:
        return None
    answer = merge(found.base or b"", found.ours or b"", found.theirs or b"")
    return None if answer is None else answer.content


def draft_folder(shelf: ChangesetFolder) -> bytes:
    return shelf.folder + b"/" + _DRAFTS


def write_drafts(case: landing.LandingRequest, conflicts: Sequence[Conflict]) -> tuple[tuple[str, str], ...]:
    """Have a file to edit for each conflict, beside both sides. The answer: path, and where its draft is.

    A draft that somebody has begun to edit stays, as long as the tree is what it was made from.
    """
    folder, known = draft_folder(case.shelf), _drafted(case.shelf)
    seen: codec.Fields = {}
    written: list[tuple[str, str]] = []
    for each in conflicts:
        if each.clash is Clash.ISOLATION:
            continue
        tree = next(number for number, home in enumerate(case.homes) if home.root == each.root)
        root = open_root(each.root)
        try:
            theirs = TreeNow(root).state(each.path)
            found = sides(case, each, tree, TreeNow(root))
        finally:
            os.close(root)
        name, place = f"{tree}/{spell(each.path)}", b"%d/%s" % (tree, each.path)
        seen[name] = {"theirs": state_fields(theirs)}
        for side, content in (("ours", found.ours), ("theirs", found.theirs), ("base", found.base)):
            _draft(folder + b"/" + side.encode() + b"/" + place, content)
        draft = folder + b"/merged/" + place
        is_same = name in known and same(known[name].theirs, theirs) and os.path.exists(draft)
        if not is_same:
            marked = each.marked if each.marked is not None else _marked(found, each)
            _draft(draft, marked if marked is not None else found.ours if found.ours is not None else found.theirs)
        if os.path.exists(draft):
            written.append((spell(each.path), os.fsdecode(draft)))
    if seen or known:
        write_record(case.disk, folder, b"seen.json", {"paths": seen}) if os.path.isdir(folder) else None
    return tuple(written)


def _draft(where: bytes, content: bytes | None) -> None:
    if content is None:
        with contextlib.suppress(OSError):
            os.unlink(where)
        return
    os.makedirs(os.path.dirname(where), 0o700, exist_ok=True)
    beside = where + b".new"
    with open(beside, "wb") as file:
        file.write(content)
    os.rename(beside, where)


def _drafted(shelf: ChangesetFolder) -> dict[str, Met]:
    path = draft_folder(shelf) + b"/seen.json"
    if not os.path.exists(path):
        return {}
    paths = fields_of(loads(content_at(path), spell(path))["paths"])
    return {name: Met(theirs=optional(fields_of(value)["theirs"], state_of)) for name, value in paths.items()}


def draft_of(shelf: ChangesetFolder, tree: int, path: bytes) -> tuple[bytes, Met]:
    """A person's draft of a conflict, and what they had before them. PathError: there is no draft of it."""
    known = _drafted(shelf).get(f"{tree}/{spell(path)}")
    where = draft_folder(shelf) + b"/merged/%d/" % tree + path
    if known is None or not os.path.exists(where):
        raise PathError(
            f"{spell(path)} has no draft to take: try to land, which writes one, or resolve it with ours or theirs"
        )
    return content_at(where), known


def seen_in_draft(shelf: ChangesetFolder, tree: int, path: bytes) -> Met | None:
    return _drafted(shelf).get(f"{tree}/{spell(path)}")


def require_draft(content: bytes, digest: str, path: bytes) -> bytes:
    """The draft that somebody has decided for, and no other."""
    if sha256(content).hexdigest() != digest:
        raise ChangesetDamagedError(f"the draft of {spell(path)} was edited since it was decided for; resolve it again")
    return content


def require_no_marks(content: bytes, path: bytes) -> None:
    lines = marks_in(content)
    if lines:
        where = ", ".join(map(str, lines[:5]))
        raise PathError(f"{spell(path)} has marks of the conflict in lines {where}; edit them away, then resolve it")


def place_in_trees(roots: Sequence[bytes], path: Given) -> tuple[int, bytes]:
    """Which tree a path is of, and where in it."""
    raw = os.fsencode(path)
    if raw.startswith(b"/"):
        for number, root in enumerate(roots):
            if beneath(raw, root) is not None:
                return number, relative(raw, root)
    return 0, relative(raw, roots[0])
