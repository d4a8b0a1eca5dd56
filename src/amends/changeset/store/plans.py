"""Reading a landing's plan from disk, and believing of it what can be believed.

Which tree it is for, where that tree's state directory is, and where the landing has its room are known by whoever
reads it, and are taken from there. Only a landing in several trees has to name the others; such a tree counts if its
state directory is ours, was made for it, and says of itself that it takes part in this landing.

Paths in a plan are below their tree, and lead neither up nor through a link: see `codec.path_of`, and apply.py, which
reaches each part of a path by itself.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Final

from amends import ownership
from amends.changeset.disk.read import content_at
from amends.changeset.model import codec
from amends.changeset.model.codec import text
from amends.changeset.model.landing_plan import Plan, TreePlan, read_plan
from amends.changeset.model.paths import name, spell, unspell
from amends.changeset.store.home import Home, landed_folder, landing_folder
from amends.errors import ChangesetDamagedError

ABORTED: Final = b".aborted"
_IN_TREE: Final = b".amends-landing-"


def load_plan(home: Home, folder: bytes) -> Plan | None:
    """The plan of a landing, by its folder in a tree's home; None: there is none, or not any more.

    Raises ChangesetDamagedError for one that is not this landing's, or names trees that know nothing of it.
    """
    landing = codec.name_of(os.fsdecode(name(folder).removesuffix(ABORTED)))
    _refuse_link(folder)
    first, place = _first(home, folder)
    try:
        plan = read_plan(content_at(place + b"/plan.json"), spell(place))
    except (FileNotFoundError, NotADirectoryError):
        return None
    if plan.id != landing or not plan.trees:
        raise ChangesetDamagedError(f"{spell(place)}/plan.json is the plan of another landing ({plan.id!r}); remove it")
    if first.path != home.path and home.path not in {tree.home for tree in plan.trees[1:]}:
        raise ChangesetDamagedError(f"{spell(folder)} is said to be a part of {spell(place)}, which does not name it")
    trees = [_placed(plan.trees[0], first, landing)]
    for tree in plan.trees[1:]:
        other = home if tree.home == home.path else _other(tree, first, landing)
        trees.append(_placed(tree, other, landing))
    return replace(plan, trees=tuple(trees))


def first_folder(folder: bytes) -> bytes:
    """Where the plan of an unfinished landing is: here, or with the first tree."""
    path = folder + b"/begun.json"
    if os.path.lexists(folder + b"/plan.json") or not os.path.lexists(path):
        return folder
    return unspell(text(codec.loads(content_at(path), spell(path))["first"]))


def _first(home: Home, folder: bytes) -> tuple[Home, bytes]:
    """The home of the first tree, and the landing's folder there, which may have been moved to the others."""
    said = first_folder(folder)
    path = os.path.dirname(os.path.dirname(said))
    if said == folder or path == home.path:
        return home, folder
    if not os.path.lexists(path):
        return home, folder  # whoever needs it says so
    if said != landing_folder(path, os.fsdecode(name(folder).removesuffix(ABORTED))):
        raise ChangesetDamagedError(f"{spell(folder)}/begun.json names {spell(said)}, which is not the same landing's")
    ownership.require(path, ownership.STATE, error=ChangesetDamagedError)
    first = Home(b"", path)
    _require_made(first)
    first = Home(first.said_root(), path)
    _require_its_root(first)
    is_over = os.path.basename(os.path.dirname(folder)) == b"landed"
    return first, os.path.join(path, b"landed", name(folder)) if is_over else said


def _other(tree: TreePlan, first: Home, id: str) -> Home:
    """The home of another tree of the landing. One that is not there leads nowhere, and may be named."""
    other = Home(tree.root, tree.home)
    if not os.path.lexists(tree.home):
        return other
    ownership.require(tree.home, ownership.STATE, error=ChangesetDamagedError)
    _require_its_root(other)
    kept = landed_folder(other.path, id)
    for folder in (landing_folder(other.path, id), kept, kept + ABORTED):
        if os.path.lexists(folder):
            _refuse_link(folder)
            said = first_folder(folder)
            has_moved = not os.path.lexists(os.path.dirname(os.path.dirname(said)))
            if said != landing_folder(first.path, id) and not has_moved:
                raise ChangesetDamagedError(
                    f"the plan of landing {id} names {spell(tree.root)}, whose part {spell(folder)} belongs to "
                    f"{spell(said)}"
                )
    return other


def _require_made(home: Home) -> None:
    if not home.is_made:
        raise ChangesetDamagedError(f"{spell(home.path)} is named by a landing, and is no state directory of a tree")


def _require_its_root(home: Home) -> None:
    _require_made(home)
    if home.said_root() != home.root:
        raise ChangesetDamagedError(
            f"{spell(home.path)} was made for {spell(home.said_root())}, and a landing says {spell(home.root)}"
        )
    if os.path.lexists(home.root):
        home.require_root()


def _placed(tree: TreePlan, home: Home, id: str) -> TreePlan:
    return replace(tree, root=home.root, home=home.path, room=landing_room(home, id, tree.room))


def new_room(home: Home, id: str) -> bytes:
    """Where a new landing has staged/ and undo/: with its folder, or, where nothing can be moved from, in the tree."""
    return landing_folder(home.path, id) if home.can_move_into() else _room_in_tree(home, id)


def landing_room(home: Home, id: str, said: bytes) -> bytes:
    """The room of a landing on disk, which only says which of the two it is."""
    if not name(said).startswith(_IN_TREE):
        return landing_folder(home.path, id)
    room = _room_in_tree(home, id)
    _refuse_link(room)
    return room


def _room_in_tree(home: Home, id: str) -> bytes:
    return home.root + b"/" + _IN_TREE + id.encode()


def _refuse_link(folder: bytes) -> None:
    if os.path.islink(folder):
        raise ChangesetDamagedError(f"{spell(folder)} is a link, and has to be a folder of amends; remove it")
