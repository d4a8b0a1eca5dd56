"""Removing what is over: contents of changesets, what their landings replaced, and what nobody needs any more.

A record stays: that there was such a changeset, when, and how it ended. What a pruned one landed can no longer be taken
back.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator
from typing import Final

from amends.changeset.disk.disk import Disk, spot
from amends.changeset.landing.displaced import holds_held
from amends.changeset.landing.late_writes import late_of
from amends.changeset.landing.revert import plan_of_landing
from amends.changeset.model.codec import fields_of, items, name_of, number, text
from amends.changeset.model.model import ChangesetRecord, Life
from amends.changeset.model.paths import Given
from amends.changeset.resolve import draft_folder
from amends.changeset.store.home import Home, empty_trash, homes_of, landed_folder, throw_away
from amends.changeset.store.objects import Objects
from amends.changeset.store.plans import ABORTED, load_plan
from amends.changeset.store.records import ChangesetFolder
from amends.clock import Clock, SystemClock
from amends.errors import ChangesetBusyError, ChangesetLifeError

KEPT_S: Final = 7 * 24 * 3600
"""How long what is over stays, unless it is asked to stay for good."""


def prune(
    root: Given,
    *,
    older_s: float = KEPT_S,
    id: str | None = None,
    late: bool = False,
    state: Given | None = None,
    clock: Clock | None = None,
) -> tuple[str, ...]:
    """Prune those that have been over for long enough, or one of them. What is kept stays. The answer: their ids.

    A landing stays too while somebody has a file open that it replaced, and if somebody wrote to one: with `late`, what
    they wrote goes like the rest.
    """
    (home,) = homes_of([root], state)
    if not home.is_made:
        return ()
    now, disk = (clock or SystemClock()).now(), Disk()
    ids = None if id is None else (id,)
    pruned = tuple(_pruned(home, disk, now, older_s=older_s, late=late, ids=ids))
    with home.locked():
        _forget_aborted(home, disk, before=now - older_s * 1000, late=late)
        _forget_probes(home, disk)
    _tidy(home, disk)
    return pruned


def prune_some(
    *roots: Given, ids: Collection[str], state: Given | None = None, clock: Clock | None = None
) -> tuple[str, ...]:
    """Prune these of a tree, or of several, and what took their landings back; those that are over, and not kept."""
    now, disk, homes = (clock or SystemClock()).now(), Disk(), homes_of(roots, state)
    if not homes[0].is_made:
        return ()
    meant = {*ids, *_inverses(homes[0], disk, ids)}
    pruned = tuple(_pruned(homes[0], disk, now, older_s=0, late=False, ids=meant))
    for home in homes:
        if home.is_made:
            _tidy(home, disk)
    return pruned


def _pruned(
    home: Home, disk: Disk, now: int, *, older_s: float, late: bool, ids: Collection[str] | None = None
) -> Iterator[str]:
    for each in home.changesets():
        shelf = ChangesetFolder(home, each, disk)
        if not shelf.is_there or (ids is not None and each not in ids):
            continue
        record = shelf.record()
        if record.life is Life.PRUNED:
            _throw_contents(shelf, record, late=late)  # what a kill kept from going, or a late write
            continue
        is_over = record.life in {Life.DROPPED, Life.LANDED, Life.MERGED} and record.ended_at is not None
        if not is_over or now - (record.ended_at or now) < older_s * 1000:
            continue
        with contextlib.suppress(ChangesetBusyError), shelf.held():
            shelf.move_on(Life.PRUNED, now)
            _throw_contents(shelf, record, late=late)
            yield each


def _inverses(home: Home, disk: Disk, ids: Collection[str]) -> Iterator[str]:
    """The changesets by which landings of these were taken back."""
    for each in home.changesets():
        shelf = ChangesetFolder(home, each, disk)
        taken_back = shelf.record().inverse_of if shelf.is_there else None
        with contextlib.suppress(ChangesetLifeError):
            if taken_back is not None and plan_of_landing(home, taken_back).changeset in ids:
                yield each


def _tidy(home: Home, disk: Disk) -> None:
    with home.locked():
        _forget_log(home, disk)
        _forget_objects(home)
    empty_trash(disk, home)


def _throw_contents(shelf: ChangesetFolder, record: ChangesetRecord, *, late: bool) -> None:
    for folder in (shelf.layers_folder, shelf.folder + b"/ws", draft_folder(shelf)):
        if os.path.isdir(folder):
            throw_away(shelf.disk, shelf.home, folder, f"{shelf.id}.pruned".encode())
    for landing in filter(None, (record.landing, record.inverse_of)):  # what it took back is nobody else's any more
        with contextlib.suppress(ChangesetLifeError):
            _throw_landing(shelf, landing, late=late)


def _throw_landing(shelf: ChangesetFolder, landing: str, *, late: bool) -> None:
    trees = plan_of_landing(shelf.home, landing).trees
    homes = [Home(tree.root, tree.home) for tree in trees]
    if not all(_may_go(home, landed_folder(home.path, landing), late=late) for home in homes):
        return
    for tree in reversed(trees):
        folder = landed_folder(tree.home, landing)
        if os.path.isdir(folder):
            throw_away(shelf.disk, Home(tree.root, tree.home), folder, f"{landing}.pruned".encode())


def _may_go(home: Home, folder: bytes, *, late: bool) -> bool:
    """Whether nobody can write to what is kept of a landing, and, unless that is not minded, nobody did."""
    return not holds_held(folder) and (late or not any(late_of(home, folder)))


def _forget_aborted(home: Home, disk: Disk, *, before: float, late: bool) -> None:
    for name in os.listdir(home.within(b"landed")):
        folder = home.within(b"landed", name)
        plan = load_plan(home, folder) if name.endswith(ABORTED) else None
        if plan is not None and plan.at <= before and _may_go(home, folder, late=late):
            throw_away(disk, home, folder, name)


def _forget_probes(home: Home, disk: Disk) -> None:
    """Remove what a kill left of a provider's being tried; one that is being tried now is tried again another time."""
    for name in os.listdir(home.path):
        if name.startswith(b"probe.") and name != b"probe.json":
            disk.remove_all(home.within(name))


def _forget_log(home: Home, disk: Disk) -> None:
    """Entries that no changeset can need, and whose landing cannot be taken back; never the newest."""
    newest = home.newest_landing()
    needed = min((_oldest_landing(shelf) for shelf in _unpruned(home)), default=newest)
    for landing in home.log_after(0):
        place = number(landing["sequence"])
        is_kept = os.path.isdir(landed_folder(home.path, name_of(landing["landing"])))
        if place < min(needed, newest) and not is_kept:
            disk.remove(spot(home.within(b"log", b"%d.json" % place)))


def _unpruned(home: Home) -> Iterator[ChangesetFolder]:
    for each in home.changesets():
        shelf = ChangesetFolder(home, each, Disk())
        if shelf.is_there and shelf.record().life is not Life.PRUNED:
            yield shelf


def _oldest_landing(shelf: ChangesetFolder) -> int:
    return min((min(layer.begun.landings) for layer in shelf.layers()), default=shelf.home.newest_landing())


def _forget_objects(home: Home) -> None:
    """Contents that are nobody's ancestor, and that no landing left or replaced which may be taken back.

    An open step may have begun before any of the landings, and then what they replaced may be its ancestor.
    """
    needed = {
        entry.ancestor.state.digest
        for shelf in _unpruned(home)
        for layer in shelf.layers()
        for entries in layer.trees
        for entry in entries
        if entry.ancestor.state is not None
    }
    is_at_work = any(shelf.open_numbers() for shelf in _unpruned(home))
    for landing in home.log_after(0):
        if not is_at_work and not os.path.isdir(landed_folder(home.path, name_of(landing["landing"]))):
            continue
        for value in items(landing["paths"]):
            for side in ("old", "new"):
                found = fields_of(value).get(side)
                if isinstance(found, dict) and "digest" in found:
                    needed.add(text(found["digest"]))
    objects = Objects(home)
    for digest in objects.digests():
        if digest not in needed:
            objects.forget(digest)
