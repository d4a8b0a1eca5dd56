"""The fate of one path at a landing: a table over ancestor, ours and theirs. Pure; nothing is read here.

theirs is ours                        already there
the ancestor is unknown               conflict: nobody can say what was changed
theirs is the ancestor                ours is applied
ours is the ancestor                  theirs stays
one side removed, the other changed   conflict
both added, differently               conflict
one is a folder, the other is not     conflict
both changed a link                   conflict
one changed the content, the other    both are taken
    the mode
both changed the mode, differently    conflict
both changed the content              merged line by line; conflict where that is not clean
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import TypeVar

from amends.changeset.model.model import Ancestor, PathKind, PathState, same
from amends.dataclass import dataclass


class Ruling(StrEnum):
    APPLY = "apply"
    ALREADY = "already"
    STAY = "stay"
    MERGE = "merge"
    CONFLICT = "conflict"


class Clash(StrEnum):
    """Kinds of conflict."""

    NO_ANCESTOR = "no-ancestor"
    DELETE_MODIFY = "delete-modify"
    """We removed what they changed."""
    MODIFY_DELETE = "modify-delete"
    """We changed what they removed."""
    ADD_ADD = "add-add"
    KIND = "kind"
    LINK = "link"
    MODE = "mode"
    CONTENT = "content"
    BINARY = "binary"
    """Both changed it, and it is no text, or too large, or the ancestor's content was not kept."""
    NOT_EMPTY = "not-empty"
    """We removed a folder that they have put something into."""
    NO_FOLDER = "no-folder"
    """We put something into a folder that they removed, or put something else in its place."""
    ISOLATION = "isolation"
    """With strict isolation: somebody landed in what we read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    ruling: Ruling
    clash: Clash | None = None
    outcome: PathState | None = None
    """With APPLY, the state to be; with MERGE, the same but for the content."""


def judge(ancestor: Ancestor, ours: PathState | None, theirs: PathState | None) -> Judged:
    if same(ours, theirs):
        return Judged(ruling=Ruling.ALREADY)
    if not ancestor.is_known:
        return _clash(Clash.NO_ANCESTOR)
    before = ancestor.state
    if same(before, theirs):
        return Judged(ruling=Ruling.APPLY, outcome=ours)
    if same(before, ours):
        return Judged(ruling=Ruling.STAY)
    if ours is None:
        return _clash(Clash.DELETE_MODIFY)
    if theirs is None:
        return _clash(Clash.MODIFY_DELETE)
    if ours.kind is not theirs.kind:
        return _clash(Clash.KIND)
    if before is None:
        is_folder = ours.kind is PathKind.FOLDER
        return Judged(ruling=Ruling.STAY) if is_folder else _clash(Clash.ADD_ADD)
    if before.kind is not ours.kind:
        return _clash(Clash.KIND)
    return _both_changed(before, ours, theirs)


def _both_changed(before: PathState, ours: PathState, theirs: PathState) -> Judged:
    """Three states of one kind, no two the same."""
    if ours.kind is PathKind.LINK:
        return _clash(Clash.LINK)
    mode = _taken(before.mode, ours.mode, theirs.mode)
    if mode is None:
        return _clash(Clash.MODE)
    if ours.kind is not PathKind.FILE:
        return Judged(ruling=Ruling.APPLY, outcome=replace(theirs, mode=mode))
    digest = _taken(before.digest, ours.digest, theirs.digest)
    if digest is None:
        return Judged(ruling=Ruling.MERGE, outcome=replace(ours, mode=mode))
    taken = ours if digest == ours.digest else theirs
    return Judged(ruling=Ruling.APPLY, outcome=replace(taken, mode=mode))


T = TypeVar("T", int, str)


def _taken(before: T, ours: T, theirs: T) -> T | None:
    """The side that changed; None if both did, each in its own way."""
    if theirs in {ours, before}:
        return ours
    return theirs if ours == before else None


def _clash(kind: Clash) -> Judged:
    return Judged(ruling=Ruling.CONFLICT, clash=kind)
