"""Holding a changeset against what there is now: what is to be done to each path, or why it cannot be.

What there is now is a tree, for a landing; or what another changeset shows, for a branch that is merged into it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Protocol, TypeAlias

from amends.changeset.disk.disk import DiskName
from amends.changeset.disk.read import about_at, content_below, folder_of, open_root, reached, state_below
from amends.changeset.layers.net import Net
from amends.changeset.layers.report import Conflict, Winner
from amends.changeset.model.codec import fields_of, items, number, path_of, text
from amends.changeset.model.landing_plan import WantedChange
from amends.changeset.model.model import PathKind, PathState, same
from amends.changeset.model.paths import Patterns, join, name, parent, spell
from amends.changeset.model.three_way import Clash, Judged, Ruling, judge
from amends.changeset.store.home import Home
from amends.changeset.store.objects import Objects
from amends.changeset.text.merge import Merged, merge


@dataclass(slots=True)
class Validated:
    """One tree's part: what is wanted, and where its contents come from."""

    home: Home
    wanted: list[WantedChange] = field(default_factory=list[WantedChange])
    merged: dict[bytes, bytes] = field(default_factory=dict[bytes, bytes])
    """Contents that exist nowhere yet."""
    from_tree: set[bytes] = field(default_factory=set[bytes])
    """Paths whose content stays the tree's, and whose mode changes."""
    already: list[bytes] = field(default_factory=list[bytes])
    conflicts: list[Conflict] = field(default_factory=list[Conflict])

    def seen(self) -> tuple[object, ...]:
        """Everything that a verification depends on: if it is the same again, nothing has moved."""
        return (
            tuple((each.path, each.old and replace(each.old, mtime_ns=0), each.new) for each in self.wanted),
            tuple(sorted(self.merged.items())),
        )


class Now(Protocol):
    """The state that a changeset is held against."""

    def state(self, path: bytes) -> PathState | None: ...

    def content(self, path: bytes) -> bytes: ...

    def change_time(self, path: bytes) -> int: ...

    def inside(self, folder: bytes) -> Iterator[bytes]: ...


class TreeNow:
    """A tree, which others change meanwhile."""

    def __init__(self, root: int) -> None:
        self._root = root

    def state(self, path: bytes) -> PathState | None:
        """A path below something that is no folder is not there."""
        try:
            return state_below(self._root, path)
        except NotADirectoryError:
            return None

    def content(self, path: bytes) -> bytes:
        return content_below(self._root, path)

    def change_time(self, path: bytes) -> int:
        try:
            with folder_of(self._root, path) as folder:
                about = about_at(DiskName(folder, name(path)))
        except (FileNotFoundError, NotADirectoryError):
            return 0
        return 0 if about is None else about.st_ctime_ns

    def inside(self, folder: bytes) -> Iterator[bytes]:
        try:
            with reached(self._root, folder) as held:
                inner = os.open(b".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=held)
                try:
                    names = sorted(map(os.fsencode, os.listdir(inner)))
                finally:
                    os.close(inner)
        except (FileNotFoundError, NotADirectoryError):
            return
        for each in names:
            yield join(folder, each)


Content: TypeAlias = Callable[[Net], "bytes | None"]


class Validation:
    """Of one tree. The tree's lock is held, or the answer is for a look only.

    `content` is what a change wants, `before` what it started from, if that can still be had; without it, what is kept
    of the tree's past.
    """

    def __init__(
        self,
        home: Home,
        now: Now,
        changes: Sequence[Net],
        *,
        content: Callable[[Net], bytes],
        since: int,
        before: Content | None = None,
    ) -> None:
        self._home = home
        self._tree = now
        self._changes = {each.path: each for each in changes}
        self._content = content
        self._since = since
        self._before = before or self._kept
        self._found = Validated(home)
        self._theirs: dict[bytes, PathState | None] = {}

    def result(self) -> Validated:
        judged = {path: judge(net.ancestor, net.ours, self._now(path)) for path, net in self._changes.items()}
        for path, net in self._changes.items():
            if net.clash:
                self._conflict(net, Clash(net.clash), detail="it is not resolved")
            else:
                self._rule(net, judged[path])
        self._require_folders()
        self._require_emptiness()
        if self._found.conflicts:
            _name_winners(self._found.conflicts, self._home, self._since)
        return self._found

    def _now(self, path: bytes) -> PathState | None:
        if path not in self._theirs:
            self._theirs[path] = self._tree.state(path)
        return self._theirs[path]

    def _kept(self, net: Net) -> bytes | None:
        return None if net.ancestor.state is None else Objects(self._home).get(net.ancestor.state.digest)

    def _rule(self, net: Net, judged: Judged) -> None:
        match judged.ruling:
            case Ruling.ALREADY:
                self._found.already.append(net.path)
            case Ruling.STAY:
                pass
            case Ruling.CONFLICT:
                self._conflict(net, judged.clash or Clash.CONTENT)
            case Ruling.APPLY:
                self._want(net, judged.outcome)
            case Ruling.MERGE:
                self._merge(net, judged.outcome)

    def _want(self, net: Net, outcome: PathState | None) -> None:
        theirs = self._now(net.path)
        is_theirs = (
            outcome is not None and outcome.kind is PathKind.FILE and outcome.digest != (net.ours and net.ours.digest)
        )
        if is_theirs:
            self._found.from_tree.add(net.path)
        self._found.wanted.append(
            WantedChange(path=net.path, old=theirs, new=outcome, old_ctime_ns=self._tree.change_time(net.path))
        )

    def _merge(self, net: Net, outcome: PathState | None) -> None:
        theirs = self._now(net.path)
        answer = self._merged(net, theirs)
        if answer is None or outcome is None or theirs is None:
            self._conflict(net, Clash.BINARY)
            return
        if answer.hunks:
            self._conflict(net, Clash.CONTENT, answer)
            return
        digest = sha256(answer.content).hexdigest()
        state = replace(
            outcome,
            digest=digest,
            size=len(answer.content),
            mtime_ns=max(outcome.mtime_ns, theirs.mtime_ns),
        )
        self._found.merged[net.path] = answer.content
        self._want(net, state)
        self._found.from_tree.discard(net.path)

    def _merged(self, net: Net, theirs: PathState | None) -> Merged | None:
        if net.ancestor.state is None or theirs is None:
            return None
        ancestor = self._before(net)
        if ancestor is None:
            return None
        content = self._tree.content(net.path)
        if sha256(content).hexdigest() != theirs.digest:
            return None  # it is being written just now; whoever asks again will see
        return merge(ancestor, self._content(net), content)

    def _require_folders(self) -> None:
        """Refuse what has no folder to be put into, in the tree or made by us."""
        made = {each.path for each in self._found.wanted if each.new is not None and each.new.kind is PathKind.FOLDER}
        for each in list(self._found.wanted):
            above = parent(each.path)
            if each.new is None or not above or above in made or self._is_folder(above):
                continue
            self._refuse(each, Clash.NO_FOLDER, f"{spell(above)} is no folder any more")

    def _is_folder(self, path: bytes) -> bool:
        now = self._now(path)
        if now is None or now.kind is not PathKind.FOLDER:
            return False
        ours = next((each for each in self._found.wanted if each.path == path), None)
        return ours is None or (ours.new is not None and ours.new.kind is PathKind.FOLDER)

    def _require_emptiness(self) -> None:
        """A folder that goes may hold only what goes with it."""
        going = {each.path for each in self._found.wanted if each.new is None or each.new.kind is not PathKind.FOLDER}
        for each in list(self._found.wanted):
            if each.old is None or each.old.kind is not PathKind.FOLDER or each.path not in going:
                continue
            extra = [spell(path) for path in self._tree.inside(each.path) if path not in going]
            if extra:
                self._refuse(each, Clash.NOT_EMPTY, f"it also holds {', '.join(extra[:5])}")

    def _refuse(self, wanted: WantedChange, clash: Clash, detail: str) -> None:
        self._found.wanted.remove(wanted)
        self._conflict(self._changes[wanted.path], clash, detail=detail)

    def _conflict(self, net: Net, clash: Clash, merged: Merged | None = None, detail: str = "") -> None:
        self._found.conflicts.append(
            Conflict(
                root=self._home.root,
                path=net.path,
                clash=clash,
                ancestor=net.ancestor.state,
                is_ancestor_known=net.ancestor.is_known,
                ours=net.ours,
                theirs=self._now(net.path),
                hunks=() if merged is None else merged.hunks,
                marked=None if merged is None else merged.content,
                detail=detail,
            )
        )


def state_of(home: Home, path: bytes) -> PathState | None:
    """The state of a path in a tree now."""
    root = open_root(home.root)
    try:
        return TreeNow(root).state(path)
    finally:
        os.close(root)


def _landed_since(home: Home, since: int) -> Iterator[tuple[bytes, Winner]]:
    for landing in home.log_after(since):
        winner = Winner(
            landing=text(landing["landing"]),
            changeset=text(landing["changeset"]),
            name=text(landing["name"]),
            at=number(landing["at"]),
        )
        for value in items(landing["paths"]):
            yield path_of(fields_of(value)["path"]), winner


def _name_winners(conflicts: list[Conflict], home: Home, since: int) -> None:
    """Say who landed first, where the log knows."""
    winners = dict(_landed_since(home, since))
    for place, each in enumerate(conflicts):
        if each.path in winners:
            conflicts[place] = replace(each, winner=winners[each.path])


def strict_conflicts(
    home: Home, since: int, changeset: str, reads: Sequence[str], seen: Mapping[bytes, PathState | None] | None = None
) -> Iterator[Conflict]:
    """Conflicts with what somebody else landed in what this changeset reads, under strict isolation.

    `seen`: paths of which a step has said that it knows them, as they were then.
    """
    patterns, known = Patterns(reads, is_case_blind=home.is_case_blind), dict(seen or {})
    for path, winner in _landed_since(home, since):
        if path in known and same(known[path], state_of(home, path)):
            continue
        if winner.changeset != changeset and (not reads or path in patterns):
            yield Conflict(
                root=home.root,
                path=path,
                clash=Clash.ISOLATION,
                ancestor=None,
                is_ancestor_known=False,
                ours=None,
                theirs=None,
                winner=winner,
                detail="somebody landed there since this changeset began",
            )
