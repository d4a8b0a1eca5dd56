"""A landing's plan: for each path its state before and after, in an order in which the changes can be made.

The plan is whole: nothing in it has to be looked up again. Each act can be done twice, and can be told from one that
was not done, because the old thing is in `undo/<n>` afterwards and the new one is no longer in `staged/<n>`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final

from amends.changeset.model import codec
from amends.changeset.model.codec import (
    Fields,
    Json,
    fields_of,
    items,
    name_of,
    number,
    path_of,
    state_fields,
    state_of,
    text,
)
from amends.changeset.model.model import PathKind, PathState
from amends.changeset.model.paths import depth, parent, spell, unspell
from amends.dataclass import dataclass


class Do(StrEnum):
    TAKE = "take"
    """Move what is there to undo: it is gone, or makes room for something of another kind."""
    TAKE_FOLDER = "take-folder"
    """The same for a folder, which has to be empty by then."""
    MAKE = "make"
    """Move an empty folder from staged to where nothing is."""
    PUT = "put"
    """Move a file or a link from staged to where nothing is."""
    SWAP = "swap"
    """Let a file or a link change places with what is there."""
    CHMOD = "chmod"
    """Of a folder that stays."""
    FINISH = "finish"
    """Give a new folder its mode and time, when all is in it."""


ORDER: Final = (Do.TAKE, Do.TAKE_FOLDER, Do.MAKE, Do.PUT, Do.SWAP, Do.CHMOD, Do.FINISH)
_DEEPEST_FIRST: Final = frozenset({Do.TAKE, Do.TAKE_FOLDER, Do.FINISH})
STAGED: Final = frozenset({Do.MAKE, Do.PUT, Do.SWAP})


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    number: int
    do: Do
    path: bytes
    old: PathState | None
    new: PathState | None
    old_ctime_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedChange:
    """One path's change, as validated: `old` is what was read under the lock, and is what has to be there."""

    path: bytes
    old: PathState | None
    new: PathState | None
    old_ctime_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TreePlan:
    root: bytes
    home: bytes
    room: bytes
    """Where staged/ and undo/ are: in the home, or, where that is on another mount, in the tree."""
    sequence: int
    """The landing's number in this tree's log."""
    acts: tuple[Act, ...]
    times: tuple[tuple[bytes, int], ...]
    """Of the folders that are touched: to be put back if the landing is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    id: str
    changeset: str
    name: str
    at: int
    trees: tuple[TreePlan, ...]


def acts_for(wanted: Sequence[WantedChange]) -> tuple[Act, ...]:
    found = [each for one in wanted for each in _steps(one)]
    found.sort(key=_place)
    return tuple(
        Act(number=n, do=do, path=one.path, old=old, new=new, old_ctime_ns=one.old_ctime_ns)
        for n, (do, one, old, new) in enumerate(found)
    )


def _steps(one: WantedChange) -> Iterator[tuple[Do, WantedChange, PathState | None, PathState | None]]:
    old, new = one.old, one.new
    was_folder = old is not None and old.kind is PathKind.FOLDER
    is_folder = new is not None and new.kind is PathKind.FOLDER
    if was_folder and is_folder:
        yield Do.CHMOD, one, old, new
        return
    if old is not None and (new is None or was_folder or is_folder):
        yield Do.TAKE_FOLDER if was_folder else Do.TAKE, one, old, None
        old = None
    if new is None:
        return
    if is_folder:
        yield Do.MAKE, one, None, new
        yield Do.FINISH, one, None, new
    else:
        yield Do.PUT if old is None else Do.SWAP, one, old, new


def _place(step: tuple[Do, WantedChange, PathState | None, PathState | None]) -> tuple[int, int, bytes]:
    do, one = step[0], step[1]
    level = depth(one.path)
    return (ORDER.index(do), -level if do in _DEEPEST_FIRST else level, one.path)


def touched_folders(acts: Sequence[Act]) -> list[bytes]:
    """Every folder in which a name comes or goes, and every one that is made."""
    found = {parent(act.path) for act in acts if act.do is not Do.FINISH}
    found |= {act.path for act in acts if act.do in {Do.MAKE, Do.CHMOD}}
    return sorted(found)


def plan_fields(plan: Plan) -> Fields:
    return {
        "id": plan.id,
        "changeset": plan.changeset,
        "name": plan.name,
        "at": plan.at,
        "trees": [_tree_fields(tree) for tree in plan.trees],
    }


def _tree_fields(tree: TreePlan) -> Fields:
    return {
        "root": spell(tree.root),
        "home": spell(tree.home),
        "room": spell(tree.room),
        "sequence": tree.sequence,
        "acts": [_act_fields(act) for act in tree.acts],
        "times": [[spell(path), time] for path, time in tree.times],
    }


def _act_fields(act: Act) -> Fields:
    return {
        "number": act.number,
        "do": str(act.do),
        "path": spell(act.path),
        "old": state_fields(act.old),
        "new": state_fields(act.new),
        "old_ctime_ns": act.old_ctime_ns,
    }


def plan_of(fields: Fields) -> Plan:
    return Plan(
        id=name_of(fields["id"]),
        changeset=text(fields["changeset"]),
        name=text(fields["name"]),
        at=number(fields["at"]),
        trees=tuple(_tree_of(fields_of(value)) for value in items(fields["trees"])),
    )


def _tree_of(fields: Fields) -> TreePlan:
    return TreePlan(
        root=unspell(text(fields["root"])),
        home=unspell(text(fields["home"])),
        room=unspell(text(fields["room"])),
        sequence=number(fields["sequence"]),
        acts=tuple(_act_of(fields_of(value)) for value in items(fields["acts"])),
        times=tuple((path_of(pair[0], root=True), number(pair[1])) for pair in map(items, items(fields["times"]))),
    )


def _act_of(fields: Fields) -> Act:
    return Act(
        number=number(fields["number"]),
        do=Do(text(fields["do"])),
        path=path_of(fields["path"]),
        old=state_of(fields["old"]),
        new=state_of(fields["new"]),
        old_ctime_ns=number(fields["old_ctime_ns"]),
    )


def log_fields(plan: Plan, tree: TreePlan, kept: bytes) -> Fields:
    """The log's record of a landing in one tree: each path once, from what to what, and where the old content is."""
    paths: dict[bytes, dict[str, Json]] = {}
    for act in tree.acts:
        if act.do is Do.FINISH:
            continue
        fields = paths.setdefault(act.path, {"path": spell(act.path), "old": None, "old_ctime_ns": 0, "new": None})
        if act.old is not None:
            fields["old"], fields["old_ctime_ns"] = state_fields(act.old), act.old_ctime_ns
            if act.do in {Do.TAKE, Do.SWAP}:
                fields["kept"] = spell(kept + b"/%d" % act.number)
        if act.new is not None:
            fields["new"] = state_fields(act.new)
    return {
        "sequence": tree.sequence,
        "landing": plan.id,
        "changeset": plan.changeset,
        "name": plan.name,
        "at": plan.at,
        "paths": [dict(fields) for fields in paths.values()],
    }


def read_plan(raw: bytes, what: str) -> Plan:
    return codec.read(raw, what, plan_of)
