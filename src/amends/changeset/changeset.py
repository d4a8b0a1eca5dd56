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

import functools
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

from amends.changeset.branches import fork
from amends.changeset.disk.disk import Disk
from amends.changeset.disk.os_errors import raise_ours
from amends.changeset.landing import landing
from amends.changeset.landing.recovery import recover
from amends.changeset.landing.validate import Validated
from amends.changeset.landing.verify import LandingVerification
from amends.changeset.layers import rebase
from amends.changeset.layers.contents import diff_of, overview_of
from amends.changeset.layers.net import net_changes
from amends.changeset.layers.remove_layer import matches, require_all
from amends.changeset.layers.report import Conflicted
from amends.changeset.model.model import ChangesetRecord, Life, Terms
from amends.changeset.model.paths import Given, Patterns, spell
from amends.changeset.model.results import Sealed
from amends.changeset.resolve import write_drafts
from amends.changeset.steps import Steps
from amends.changeset.store.home import empty_trash, homes_of
from amends.changeset.store.records import ChangesetFolder
from amends.changeset.text.diff import Overview
from amends.changeset.views.probe import Answer, choose
from amends.changeset.views.protocol import Budget
from amends.clock import Clock, SystemClock
from amends.errors import ChangesetLifeError, RootError
from amends.process.running import Ran


class Changeset(Steps):
    """Made by `open`."""

    answers: tuple[Answer, ...] = ()
    """What the providers said, up to the one that was chosen."""
    confinement: str = ""
    """How the command that verified its landing was kept in, where there was one."""

    @classmethod
    def open(  # noqa: PLR0913 - what can be chosen, each by name
        cls,
        *roots: Given,
        id: str | None = None,
        name: str = "",
        state: Given | None = None,
        terms: Terms | None = None,
        budget: Budget | None = None,
        sealed: Mapping[int, str] | None = None,
        doubtful: Mapping[int, str] | None = None,
        saga: str = "",
        clock: Clock | None = None,
        disk: Disk | None = None,
    ) -> Changeset:
        """Open a new changeset of these trees, or the one that has this id.

        One that exists keeps the terms that it was opened with first. `sealed` names the layers that a journal knows,
        by number and digest: others are dropped, and one of these that is missing raises ChangesetDamagedError.
        Of those in `doubtful` it may be that they were dropped: they stay if they are there. `saga` says in whose name
        it is opened: a new one is that saga's then, and what is a saga's is looked at by anybody, and changed by sagas.
        """
        clock, disk = clock or SystemClock(), disk or Disk()
        homes = homes_of(roots, state)
        for home in homes:
            home.make(disk)
        recover(homes, disk, wait=False)
        terms = terms or Terms()
        for patterns in (terms.reads, terms.ephemeral, terms.limits.denied):
            Patterns(patterns).covering(b"")
        shelf = ChangesetFolder(homes[0], id or clock.new_id(), disk)
        if not shelf.is_there:
            record = ChangesetRecord(
                id=shelf.id,
                name=name,
                roots=tuple(home.root for home in homes),
                life=Life.ACTIVE,
                terms=terms,
                opened_at=clock.now(),
                saga=saga,
            )
            shelf.make(record)
        opened = cls(shelf, shelf.record(), homes, clock=clock, lock=shelf.lock())
        opened._in_name_of = saga
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
        own = len(self._layers) - self.forked_at
        while (own := own - 1) >= 0 and not matches(self._layers[-1], wanted.get(self._layers[-1].number, "")):
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
    def landed_as(self) -> str | None:
        """Of one that has landed: its landing's id; None also where there was nothing to change."""
        return self._record.landing

    @property
    def inverse_of(self) -> str | None:
        return self._record.inverse_of

    def diff(self, step: int | None = None) -> str:
        """A unified diff of all sealed layers together, or of one: what a reviewer needs, and nothing else."""
        return diff_of(self._shelf, self.homes, self._layers, step, self.forked_at)

    def overview(self) -> Overview:
        """The diff of all sealed layers together, and the sizes of just that: what rules and reviewers go by."""
        return overview_of(self._shelf, self.homes, self._layers, self.forked_at)

    def paths(self) -> tuple[str, ...]:
        """Paths that would land, all sealed layers together."""
        trees = range(len(self.homes))
        return tuple(spell(net.path) for tree in trees for net in net_changes(self._layers, tree, self.forked_at))

    def digest(self) -> str:
        """The digest that an approval of exactly this changeset can be bound to: another layer, another digest."""
        return hashlib.sha256("\n".join(layer.digest for layer in self._layers).encode()).hexdigest()

    def branch(self, *, id: str | None = None, name: str = "") -> Changeset:
        """Open a branch: a changeset that begins with all that is sealed here, and is merged back by `Files.merge`.

        Neither sees what the other does from now on. With an id, asking again opens the one that was made before.
        """
        self._require_its_saga()
        self._require_unlanded()
        named = id or self._clock.new_id()
        with raise_ours("the branch was not made"):
            shelf = fork(self._shelf, self._layers, id=named, name=name, now=self._clock.now())
        branch = Changeset(shelf, shelf.record(), self.homes, clock=self._clock, lock=shelf.lock())
        branch._in_name_of = self._in_name_of
        try:
            branch._require_branch_of(self.id)
            branch._resume(None, {}, self._ground.budget)
        except BaseException:  # whatever it was, it flies on; the lock must not stay
            branch.close()
            raise
        return branch

    def review(self) -> None:
        """Say that it is done and waits for somebody's yes; the next `begin` makes it active again."""
        self._require_its_saga()
        self._record = self._shelf.move_on(Life.REVIEW, self._clock.now())

    def drop(self) -> None:
        """Give it up. Its layers stay on disk until it is pruned; `reopen` takes that back."""
        self._require_its_saga()
        if self._open is not None:
            self._drop_newest()
        self._record = self._shelf.move_on(Life.DROPPED, self._clock.now())

    def reopen(self) -> None:
        """Take back a drop, or go on after a review, or with a branch whose merge was dropped."""
        self._require_its_saga()
        self._record = self._shelf.move_on(Life.ACTIVE, self._clock.now())

    def take_up(self, inverse: Changeset) -> None:
        """Go on with one that had landed, now that its landing was taken back: its layers are as they were."""
        self._require_its_saga()
        if self.life is Life.ACTIVE:
            return
        if inverse.life is not Life.LANDED or inverse.inverse_of != self.landed_as or self.landed_as is None:
            raise ChangesetLifeError(f"changeset {self.id} is {self.life}, and its landing was not taken back")
        self._record = replace(self._record, life=Life.ACTIVE, ended_at=None, landing=None, kept_from=None)
        self._shelf.write(self._record)

    def check(self) -> Conflicted | None:
        """Whether it would be in conflict, were it landed now. Nothing is locked or changed."""
        self._require_mine()
        self._require_no_branch()
        conflicts = landing.conflicts_of(landing.check(self._case()))
        return Conflicted(changeset=self.id, conflicts=conflicts) if conflicts else None

    def resolve(self, path: Given, take: str, *, draft: str = "") -> Sealed:
        """Resolve a conflict, as a step of its own: take `ours`, `theirs`, or, as `merged`, the draft of it.

        `draft` is the digest of the draft that is meant. Raises PathError for a path that is not in conflict.
        """
        with self.begin(f"resolve {spell(os.fsencode(path))}: {take}") as files:
            files.resolve(path, take, draft=draft)
            return files.seal()

    def drafts(self) -> tuple[tuple[str, str], ...]:
        """Have a draft for each conflict that there is now, for a person to edit: its path, and where the draft is."""
        self._require_mine()
        self._require_no_branch()
        case = self._case()
        return write_drafts(case, landing.conflicts_of(landing.check(case)))

    def land(
        self,
        *,
        verify: Sequence[str | bytes] | None = None,
        verify_s: float | None = None,
        verify_env: Mapping[str, str] | None = None,
        wait_s: float | None = None,
        landing_id: str | None = None,
    ) -> landing.Ended:
        """Bring all of it into the trees, or nothing: Landed, Conflicted, or Unverified.

        `verify` is a command that runs in the view over the trees of now, for at most `verify_s`; it has to end with 0.
        `verify_env` is all that it sees of the environment; otherwise it sees what commands in a view see.
        `wait_s` bounds the time in the line of landings; ChangesetBusyError says who is ahead. The landing gets
        `landing_id`, with a number behind it if it has to be tried again.
        """
        self._require_its_saga()
        if self._open is not None:
            raise ChangesetLifeError(f"step {self._open.number} is open; seal it or drop it before landing")
        self._require_no_branch()
        self._require_unlanded()
        check, case = None, self._case(landing_id)
        if verify is not None:
            command = LandingVerification(
                verify, self._ground, self.provider, self._shelf.folder, case.opener, verify_s, verify_env, self.terms
            )
            check = functools.partial(self._verified, command)
        ended = landing.land(case, verify=check, wait_s=wait_s)
        self._record = self._shelf.record()
        return ended

    def _verified(self, command: LandingVerification, found: Sequence[Validated]) -> Ran:
        ran = command.run(found)
        self.confinement = ran.confinement
        return ran

    def _require_no_branch(self) -> None:
        if self.branch_of is not None:
            raise ChangesetLifeError(f"changeset {self.id} is a branch: merge it into {self.branch_of}, which lands it")
