"""Changesets from outside, for people and programs: list, show, diff, keep, take back, ask the doctor.

Nothing here holds a changeset longer than it takes. Reading needs no lock; what changes one is refused while somebody
has it open.
"""

from __future__ import annotations

import contextlib
import os
from hashlib import sha256

from amends.changeset.changeset import Changeset
from amends.changeset.disk.disk import Disk
from amends.changeset.landing import landing
from amends.changeset.landing.late_writes import LateWrite, late_in
from amends.changeset.landing.revert import make_inverse, plan_of_landing
from amends.changeset.layers.contents import diff_of
from amends.changeset.layers.net import net_changes
from amends.changeset.layers.report import Conflict, Landed
from amends.changeset.model import results
from amends.changeset.model.codec import Fields
from amends.changeset.model.model import ChangesetRecord, Life, Terms, Totals
from amends.changeset.model.paths import Given, spell
from amends.changeset.model.results import Sealed, as_take
from amends.changeset.resolve import conflict_at, draft_of, place_in_trees, require_no_marks, write_drafts as drafts
from amends.changeset.store.home import Home, homes_of
from amends.changeset.store.queue import Ticket, waiting
from amends.changeset.store.records import ChangesetFolder
from amends.changeset.views.probe import Answer, doctor as ask
from amends.changeset.views.protocol import Budget
from amends.clock import Clock, SystemClock
from amends.dataclass import dataclass
from amends.errors import ChangesetDamagedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A changeset in a few words."""

    id: str
    name: str
    life: Life
    roots: tuple[str, ...]
    opened_at: int
    ended_at: int | None
    landing: str | None
    inverse_of: str | None
    branch_of: str | None
    saga: str
    steps: tuple[Sealed, ...]
    files: int
    totals: Totals

    def data(self) -> Fields:
        return {
            "id": self.id,
            "name": self.name,
            "life": str(self.life),
            "roots": list(self.roots),
            "opened_at": self.opened_at,
            "ended_at": self.ended_at,
            "landing": self.landing,
            "inverse_of": self.inverse_of,
            "branch_of": self.branch_of,
            "saga": self.saga or None,
            "steps": [step.data() for step in self.steps],
            "files": self.files,
            "added_lines": self.totals.added_lines,
            "removed_lines": self.totals.removed_lines,
        }


def list_changesets(root: Given, *, state: Given | None = None) -> tuple[Summary, ...]:
    """All that the tree's state directory knows, oldest first."""
    (home,) = homes_of([root], state)
    found: list[Summary] = []
    for each in home.changesets():
        shelf = ChangesetFolder(home, each, Disk())
        with contextlib.suppress(ChangesetDamagedError):
            if shelf.is_there:
                found.append(_summary(shelf))
    return tuple(sorted(found, key=lambda each: (each.opened_at, each.id)))


def show(root: Given, id: str, *, state: Given | None = None) -> Summary:
    """Raises UnknownChangesetError."""
    (home,) = homes_of([root], state)
    return _summary(ChangesetFolder(home, id, Disk()))


def _summary(shelf: ChangesetFolder) -> Summary:
    record = shelf.record()
    layers = shelf.layers()
    own = layers[record.forked_at :]
    return Summary(
        id=record.id,
        name=record.name,
        life=record.life,
        roots=tuple(map(spell, record.roots)),
        opened_at=record.opened_at,
        ended_at=record.ended_at,
        landing=record.landing,
        inverse_of=record.inverse_of,
        branch_of=record.branch_of,
        saga=record.saga,
        steps=tuple(map(results.sealed, own)),
        files=sum(len(net_changes(layers, tree, record.forked_at)) for tree in range(len(record.roots))),
        totals=Totals(
            added_lines=sum(layer.totals.added_lines for layer in own),
            removed_lines=sum(layer.totals.removed_lines for layer in own),
        ),
    )


def diff(root: Given, id: str, *, step: int | None = None, state: Given | None = None) -> str:
    """A unified diff of all of it, or of one step."""
    (home,) = homes_of([root], state)
    shelf = ChangesetFolder(home, id, Disk())
    record, layers = shelf.record(), shelf.layers()
    return diff_of(shelf, _homes(record, home, state), layers, step, record.forked_at)


def _homes(record: ChangesetRecord, home: Home, state: Given | None) -> tuple[Home, ...]:
    if len(record.roots) == 1:
        return (home,)
    homes = homes_of((home.root, *record.roots[1:]), None if state is None else os.path.dirname(home.path))
    for other in homes[1:]:
        if not other.is_made:
            raise ChangesetDamagedError(f"changeset {record.id} names {spell(other.root)}, which has no changesets")
        other.require_root()
    return homes


def conflicts_of(root: Given, id: str, *, state: Given | None = None) -> tuple[Conflict, ...]:
    """Conflicts that there would be, were it landed now. One that has landed, or is a branch, has none."""
    case = _case(root, id, state)
    return () if case is None else landing.conflicts_of(landing.check(case))


def require_conflict(root: Given, id: str, path: Given, take: str, *, state: Given | None = None) -> str:
    """The path as a step is given it. Raises PathError for one that is not in conflict, and names the nearest."""
    as_take(take)
    (home,) = homes_of([root], state)
    shelf = ChangesetFolder(home, id, Disk())
    roots = shelf.record().roots
    tree, at = place_in_trees((home.root, *roots[1:]), path)
    found = conflicts_of(root, id, state=state)
    conflict_at(found, (home.root, *roots[1:])[tree], at)
    return os.fsdecode(at if tree == 0 else roots[tree] + b"/" + at)


def write_drafts(root: Given, id: str, *, state: Given | None = None) -> tuple[tuple[str, str], ...]:
    """Have a draft of each conflict for a person to edit, beside ours, theirs and base: its path, and where it is."""
    case = _case(root, id, state)
    return () if case is None else drafts(case, landing.conflicts_of(landing.check(case)))


def draft_digest(root: Given, id: str, path: Given, *, state: Given | None = None) -> str:
    """Digest of the draft of a conflict as it is now. Raises PathError where there is none, or marks stand in it."""
    (home,) = homes_of([root], state)
    shelf = ChangesetFolder(home, id, Disk())
    tree, at = place_in_trees(shelf.record().roots, path)
    content, _ = draft_of(shelf, tree, at)
    require_no_marks(content, at)
    return sha256(content).hexdigest()


def _case(root: Given, id: str, state: Given | None) -> landing.LandingRequest | None:
    (home,) = homes_of([root], state)
    shelf = ChangesetFolder(home, id, Disk())
    record = shelf.record()
    if record.branch_of is not None or record.life not in {Life.ACTIVE, Life.REVIEW}:
        return None
    return landing.LandingRequest(
        shelf=shelf,
        name=record.name,
        homes=_homes(record, home, state),
        layers=tuple(shelf.layers()),
        terms=record.terms,
        clock=SystemClock(),
    )


def queue(root: Given, *, state: Given | None = None) -> tuple[Ticket, ...]:
    """Tickets of who lands, and who waits for it, in order."""
    (home,) = homes_of([root], state)
    return waiting(home)


def late_writes(root: Given, *, state: Given | None = None) -> tuple[LateWrite, ...]:
    """Writes to files that landings had replaced already; they are not in the tree, and are not lost."""
    (home,) = homes_of([root], state)
    return tuple(late_in(home))


def doctor(
    *roots: Given,
    state: Given | None = None,
    budget: Budget | None = None,
    clock: Clock | None = None,
    disk: Disk | None = None,
) -> tuple[Answer, ...]:
    """Answers of the providers for these trees, the best first: whether each works, and why or why not."""
    homes = homes_of(roots, state)
    for home in homes:
        home.make(disk or Disk())
    return ask(homes, clock=clock or SystemClock(), disk=disk or Disk(), budget=budget or Budget())


def landing_of(root: Given, landing: str, *, state: Given | None = None) -> Landed:
    """A landing and what it did, as it is kept. Raises ChangesetLifeError where it is not, any more."""
    (home,) = homes_of([root], state)
    plan = plan_of_landing(home, landing)
    paths = tuple(dict.fromkeys(spell(act.path) for tree in plan.trees for act in tree.acts))
    sequences = tuple(tree.sequence for tree in plan.trees)
    return Landed(id=plan.id, changeset=plan.changeset, sequences=sequences, applied=paths)


def keep(root: Given, id: str, *, state: Given | None = None, clock: Clock | None = None) -> Summary:
    """Let a changeset that is over stay for good."""
    (home,) = homes_of([root], state)
    shelf = ChangesetFolder(home, id, Disk())
    with shelf.held():
        shelf.move_on(Life.KEPT, (clock or SystemClock()).now())
    return _summary(shelf)


def take_back(
    *roots: Given,
    landing: str,
    id: str | None = None,
    state: Given | None = None,
    terms: Terms | None = None,
    clock: Clock | None = None,
    disk: Disk | None = None,
) -> Changeset:
    """Open the inverse of a landing, ready to land: the compensation of a landing.

    With an id, asking again opens the one that was made before.
    """
    clock, disk = clock or SystemClock(), disk or Disk()
    homes = homes_of(roots, state)
    named = id or clock.new_id()
    if not ChangesetFolder(homes[0], named, disk).is_there:
        plan = plan_of_landing(homes[0], landing)
        make_inverse(homes, plan, id=named, terms=terms or Terms(), clock=clock, disk=disk)
    return Changeset.open(*roots, id=named, state=state, clock=clock, disk=disk)
