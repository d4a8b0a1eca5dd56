"""A changeset: the object that users hold. Steps begin, are sealed or dropped, and can be rewound, newest first.

    with Changeset.open("repo", name="refactoring") as changeset:
        with changeset.begin("migrate") as files:
            files.write_text("b.py", files.read_text("a.py"))
            files.run(["pytest", "-q"])
        changeset.land()

Its layers are all that it has: what a process that was killed left open is dropped by the next one that opens it, and
what it sealed is there. A runtime that journals its own steps passes the layers that its journal knows (`sealed`); a
layer that was sealed and not journaled is dropped then, as if the seal had not happened.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

from amends.changeset import landing, rebase, results
from amends.changeset.contents import diff_of
from amends.changeset.disk import Disk, spot
from amends.changeset.files import Files
from amends.changeset.home import Home, empty_trash, homes_of
from amends.changeset.model import Begun, Layer, Life, Record, Terms
from amends.changeset.net import net_changes
from amends.changeset.paths import Given, Patterns, spell
from amends.changeset.recovery import recover
from amends.changeset.report import Conflicted
from amends.changeset.results import Dropped, Sealed
from amends.changeset.seal import Part, seal_layer
from amends.changeset.shelf import Shelf
from amends.changeset.stack import Stack
from amends.changeset.troubles import told
from amends.changeset.verify import Verification
from amends.changeset.views.probe import Answer, choose
from amends.changeset.views.protocol import Budget, Ground, room_of, upper_of
from amends.changeset.without import matches, require_all
from amends.clock import Clock, SystemClock
from amends.errors import ChangesetLifeError, RootError


class Changeset:
    """Made by `open`."""

    def __init__(self, shelf: Shelf, record: Record, homes: tuple[Home, ...], *, clock: Clock, lock: int) -> None:
        self.id = record.id
        self.homes = homes
        self.answers: tuple[Answer, ...] = ()
        """What the providers said, up to the one that was chosen."""
        self._shelf = shelf
        self._record = record
        self._clock = clock
        self._lock = lock
        self._layers: list[Layer] = []
        self._open: Files | None = None
        self._ground = Ground(
            homes=homes,
            folder=shelf.folder,
            lowers=self._lowers,
            layers=lambda: tuple(layer.digest for layer in self._layers),
            disk=shelf.disk,
            clock=clock,
        )

    @classmethod
    def open(
        cls,
        *roots: Given,
        id: str | None = None,
        name: str = "",
        state: Given | None = None,
        terms: Terms | None = None,
        budget: Budget | None = None,
        sealed: Mapping[int, str] | None = None,
        doubtful: Mapping[int, str] | None = None,
        clock: Clock | None = None,
        disk: Disk | None = None,
    ) -> Changeset:
        """Open a new changeset of these trees, or the one that has this id.

        One that exists keeps the terms that it was opened with first. `sealed` names the layers that a journal knows,
        by number and digest: others are dropped, and one of these that is missing raises ChangesetDamagedError.
        Of those in `doubtful` it may be that they were dropped: they stay if they are there.
        """
        clock, disk = clock or SystemClock(), disk or Disk()
        homes = homes_of(roots, state)
        for home in homes:
            home.make(disk)
        recover(homes, disk, wait=False)
        terms = terms or Terms()
        for patterns in (terms.reads, terms.ephemeral, terms.limits.denied):
            Patterns(patterns).covering(b"")
        shelf = Shelf(homes[0], id or clock.new_id(), disk)
        if not shelf.is_there:
            record = Record(
                id=shelf.id,
                name=name,
                roots=tuple(home.root for home in homes),
                life=Life.ACTIVE,
                terms=terms,
                opened_at=clock.now(),
            )
            shelf.make(record)
        opened = cls(shelf, shelf.record(), homes, clock=clock, lock=shelf.lock())
        try:
            opened._resume(sealed, doubtful or {}, budget)
        except BaseException:  # whatever it was, it flies on; the lock must not stay
            opened.close()
            raise
        return opened

    def _resume(self, sealed: Mapping[int, str] | None, doubtful: Mapping[int, str], budget: Budget | None) -> None:
        roots = tuple(home.root for home in self.homes)
        if self._record.roots[1:] != roots[1:]:  # the first was recognised by its home, wherever both have moved
            trees = ", ".join(map(spell, self._record.roots))
            raise RootError(f"changeset {self.id} is of {trees}; open it with these")
        rebase.finish(self._shelf)
        for number in reversed(self._shelf.open_numbers()):
            self._shelf.throw_layer_away(number)
        self._layers = self._shelf.layers()
        if sealed is not None:
            self._keep_only(sealed, doubtful)
        if budget is not None:
            self._ground = replace(self._ground, budget=budget)
        self._view, self.answers = choose(self._record.terms.provider, self._ground)

    def _keep_only(self, sealed: Mapping[int, str], doubtful: Mapping[int, str]) -> None:
        require_all(self.id, self._layers, sealed)
        wanted = {**doubtful, **sealed}
        while self._layers and not matches(self._layers[-1], wanted.get(self._layers[-1].number, "")):
            self._shelf.throw_layer_away(self._layers.pop().number)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of it. An open step is dropped; nothing else changes."""
        if self._lock < 0:
            return
        try:
            if self._open is not None:
                self._drop_newest()
            for home in self.homes:
                empty_trash(self._shelf.disk, home)
        finally:
            os.close(self._lock)
            self._lock = -1

    @property
    def name(self) -> str:
        return self._record.name

    @property
    def life(self) -> Life:
        return self._record.life

    @property
    def landed_as(self) -> str | None:
        """Of one that has landed: its landing's id; None also where there was nothing to change."""
        return self._record.landing

    @property
    def inverse_of(self) -> str | None:
        return self._record.inverse_of

    @property
    def provider(self) -> str:
        return self._view.name

    @property
    def terms(self) -> Terms:
        return self._record.terms

    def steps(self) -> tuple[Sealed, ...]:
        """The sealed ones, oldest first."""
        return tuple(results.sealed(layer) for layer in self._layers)

    def diff(self, step: int | None = None) -> str:
        """A unified diff of all sealed layers together, or of one: what a reviewer needs, and nothing else."""
        return diff_of(self._shelf, self.homes, self._layers, step)

    def paths(self) -> tuple[str, ...]:
        """What would land, all sealed layers together."""
        trees = range(len(self.homes))
        return tuple(spell(net.path) for tree in trees for net in net_changes(self._layers, tree))

    def digest(self) -> str:
        """What an approval of exactly this changeset can be bound to: another layer, another digest."""
        return hashlib.sha256("\n".join(layer.digest for layer in self._layers).encode()).hexdigest()

    def begin(self, name: str = "") -> Files:
        """Open a layer over those that there are. One step is open at a time."""
        self._require_mine()
        if self._open is not None:
            raise ChangesetLifeError(f"step {self._open.number} is open; seal it or drop it first")
        if self.life is Life.REVIEW:
            self._record = self._shelf.move_on(Life.ACTIVE, self._clock.now())
        if self.life is not Life.ACTIVE:
            raise ChangesetLifeError(f"changeset {self.id} is {self.life}; only an active one has further steps")
        number = len(self._layers) + 1
        layer, disk = self._shelf.layer_folder(number), self._shelf.disk
        since = self._view.begin()
        begun = Begun(
            changeset=self.id,
            number=number,
            name=name,
            at=self._clock.now(),
            since_ns=tuple(each[0] for each in since),
            landings=tuple(each[1] for each in since),
        )
        for folder in (layer, room_of(layer)):
            disk.make_folder(spot(folder))
        for tree, home in enumerate(self.homes):
            about = os.stat(home.root)
            disk.make_folder(spot(upper_of(layer, tree)))
            disk.chmod_folder(spot(upper_of(layer, tree)), about.st_mode & 0o7777)
            with contextlib.suppress(PermissionError):  # the root of an overlay looks as its newest layer does
                os.chown(upper_of(layer, tree), about.st_uid, about.st_gid)
        self._open = Files(
            self._view,
            layer,
            tuple(home.root for home in self.homes),
            changeset=self.id,
            number=number,
            name=name,
            confine=self.terms.confine,
            seal=lambda: self._seal(begun),
            drop=self._drop_newest,
        )
        return self._open

    def _seal(self, begun: Begun) -> Sealed:
        folder = self._shelf.layer_folder(begun.number)
        existed = self._view.collect(folder)
        parts = [
            Part(
                home=home,
                upper=upper_of(folder, tree),
                below=Stack((*self._lowers(tree), home.root), home.root),
                existed=existed[tree],
            )
            for tree, home in enumerate(self.homes)
        ]
        recover(self.homes, self._shelf.disk, wait=False)
        with told("the layer could not be sealed"):
            layer = seal_layer(
                begun,
                parts,
                folder=folder,
                live=self._layers,
                terms=self.terms,
                provider=self.provider,
                now=self._clock.now(),
                disk=self._shelf.disk,
            )
        self._layers.append(layer)
        self._open = None
        self._shelf.disk.remove_all(room_of(folder))
        self._view.settle()
        return results.sealed(layer)

    def drop_last(self) -> Dropped:
        """Drop the newest layer, open or sealed."""
        self._require_mine()
        if self._open is None and not self._layers:
            raise ChangesetLifeError(f"changeset {self.id} has no layer that could be dropped")
        self._require_unlanded()
        return self._drop_newest()

    def _drop_newest(self) -> Dropped:
        if self._open is not None:
            dropped = Dropped(changeset=self.id, number=self._open.number, name=self._open.name)
            self._open = None
            paths = tuple(frozenset[bytes]() for _ in self.homes)
        else:
            layer = self._layers.pop()
            dropped = Dropped(changeset=self.id, number=layer.number, name=layer.name)
            paths = tuple(frozenset(entry.path for entry in entries) for entries in layer.trees)
        self._shelf.throw_layer_away(dropped.number)
        self._view.restore(paths)
        return dropped

    def drop_step(self, number: int) -> Dropped | Conflicted:
        """Drop one layer and leave those that lie over it. Conflicted: these have changed what it had made."""
        self._require_mine()
        if self._open is not None or not 1 <= number <= len(self._layers):
            raise ChangesetLifeError(f"changeset {self.id} has no sealed step {number} that could be dropped just now")
        self._require_unlanded()
        layer = self._layers[number - 1]
        if number == len(self._layers):
            return self._drop_newest()
        if not layer.is_dropped:
            ended = rebase.drop_from_under(self._shelf, self.homes, self._layers, number)
            if isinstance(ended, Conflicted):
                return ended
            self._layers = self._shelf.layers()
            self._view.restore(ended)
        return Dropped(changeset=self.id, number=number, name=layer.name)

    def rewind(self, to: int) -> tuple[Dropped, ...]:
        """Drop every layer above number `to`, newest first; 0 leaves none."""
        self._require_mine()
        if not 0 <= to <= len(self._layers):
            raise ChangesetLifeError(f"changeset {self.id} has {len(self._layers)} layers; it cannot rewind to {to}")
        self._require_unlanded()
        dropped: list[Dropped] = []
        while self._open is not None or len(self._layers) > to:
            dropped.append(self._drop_newest())
        return tuple(dropped)

    def review(self) -> None:
        """Say that it is done and waits for somebody's yes; the next `begin` makes it active again."""
        self._require_mine()
        self._record = self._shelf.move_on(Life.REVIEW, self._clock.now())

    def drop(self) -> None:
        """Give it up. Its layers stay on disk until it is pruned; `reopen` takes that back."""
        self._require_mine()
        if self._open is not None:
            self._drop_newest()
        self._record = self._shelf.move_on(Life.DROPPED, self._clock.now())

    def reopen(self) -> None:
        """Take back a drop, or go on after a review."""
        self._require_mine()
        self._record = self._shelf.move_on(Life.ACTIVE, self._clock.now())

    def take_up(self, inverse: Changeset) -> None:
        """Go on with one that had landed, now that its landing was taken back: its layers are as they were."""
        self._require_mine()
        if self.life is Life.ACTIVE:
            return
        if inverse.life is not Life.LANDED or inverse.inverse_of != self.landed_as or self.landed_as is None:
            raise ChangesetLifeError(f"changeset {self.id} is {self.life}, and its landing was not taken back")
        self._record = replace(self._record, life=Life.ACTIVE, ended_at=None, landing=None, kept_from=None)
        self._shelf.write(self._record)

    def check(self) -> Conflicted | None:
        """Whether it would be in conflict, were it landed now. Nothing is locked or changed."""
        self._require_mine()
        conflicts = landing.conflicts_of(landing.check(self._case()))
        return Conflicted(changeset=self.id, conflicts=conflicts) if conflicts else None

    def land(
        self,
        *,
        verify: Sequence[str | bytes] | None = None,
        verify_s: float | None = None,
        wait_s: float | None = None,
        landing_id: str | None = None,
    ) -> landing.Ended:
        """Bring all of it into the trees, or nothing: Landed, Conflicted, or Unverified.

        `verify` is a command that runs in the view over the trees of now, for at most `verify_s`; it has to end with 0.
        `wait_s` bounds the time in the line of landings; ChangesetBusyError says who is ahead. The landing gets
        `landing_id`, with a number behind it if it has to be tried again.
        """
        self._require_mine()
        if self._open is not None:
            raise ChangesetLifeError(f"step {self._open.number} is open; seal it or drop it before landing")
        self._require_unlanded()
        check = None
        if verify is not None:
            check = Verification(verify, self._ground, self.provider, self._shelf.folder, verify_s).run
        ended = landing.land(self._case(landing_id), verify=check, wait_s=wait_s)
        self._record = self._shelf.record()
        return ended

    def _case(self, landing_id: str | None = None) -> landing.Case:
        return landing.Case(
            shelf=self._shelf,
            name=self.name,
            homes=self.homes,
            layers=tuple(self._layers),
            terms=self.terms,
            clock=self._clock,
            landing=landing_id,
        )

    def _require_mine(self) -> None:
        if self._lock < 0:
            raise ChangesetLifeError(f"changeset {self.id} is closed; open it again")

    def _require_unlanded(self) -> None:
        if self.life not in {Life.ACTIVE, Life.REVIEW}:
            raise ChangesetLifeError(f"changeset {self.id} is {self.life}; its layers stay as they are")

    def _lowers(self, tree: int) -> tuple[bytes, ...]:
        return tuple(upper_of(self._shelf.layer_folder(layer.number), tree) for layer in reversed(self._layers))
