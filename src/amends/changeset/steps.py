"""A changeset's steps: begun, sealed, dropped, rewound, and merged into. What becomes of it all is changeset.py's."""

from __future__ import annotations

from amends.changeset.branches import Branch, Into, merge_branch
from amends.changeset.disk.os_errors import raise_ours
from amends.changeset.files import Files, Ways
from amends.changeset.landing import landing
from amends.changeset.landing.recovery import recover
from amends.changeset.layers import rebase
from amends.changeset.layers.report import BranchMerged, Conflicted
from amends.changeset.layers.seal import OpenPart, seal_layer
from amends.changeset.layers.stack import stack_over
from amends.changeset.model import results
from amends.changeset.model.model import ChangesetRecord, Layer, LayerStart, Life, Terms
from amends.changeset.model.results import Dropped, Sealed
from amends.changeset.resolve import Resolving
from amends.changeset.store.home import Home, room_of, upper_of
from amends.changeset.store.records import ChangesetFolder
from amends.changeset.views.protocol import View, ViewGround
from amends.clock import Clock
from amends.errors import ChangesetLifeError


class Steps:
    """Of one changeset, which is held by `lock`."""

    _view: View

    def __init__(
        self, shelf: ChangesetFolder, record: ChangesetRecord, homes: tuple[Home, ...], *, clock: Clock, lock: int
    ) -> None:
        self.id = record.id
        self.homes = homes
        self._shelf = shelf
        self._record = record
        self._clock = clock
        self._lock = lock
        self._layers: list[Layer] = []
        self._open: Files | None = None
        self._merging: list[Steps] = []
        """The branches that are in the open step."""
        self._resolving: Resolving | None = None
        """The conflicts that the open step has to do with."""
        self._in_name_of = ""
        """The saga for which it was opened."""
        self._ground = ViewGround(
            homes=homes,
            folder=shelf.folder,
            lowers=self._lowers,
            layers=lambda: tuple(layer.digest for layer in self._layers),
            disk=shelf.disk,
            clock=clock,
        )

    @property
    def life(self) -> Life:
        return self._record.life

    @property
    def provider(self) -> str:
        return self._view.name

    @property
    def terms(self) -> Terms:
        return self._record.terms

    @property
    def branch_of(self) -> str | None:
        return self._record.branch_of

    @property
    def forked_at(self) -> int:
        """Of a branch: the number of the newest layer that it stands on; its own are numbered after that."""
        return self._record.forked_at

    @property
    def newest(self) -> int:
        """The number of its newest sealed layer."""
        return len(self._layers)

    def steps(self) -> tuple[Sealed, ...]:
        """The sealed ones, oldest first; of a branch, its own."""
        return tuple(results.sealed(layer) for layer in self._layers[self.forked_at :])

    def begin(self, name: str = "") -> Files:
        """Open a layer over those that there are. One step is open at a time."""
        self._require_its_saga()
        if self._open is not None:
            raise ChangesetLifeError(f"step {self._open.number} is open; seal it or drop it first")
        for home in self.homes:
            home.require_root()  # it may have been moved away since it was opened
            home.look_again()
        if self.life is Life.REVIEW:
            self._record = self._shelf.move_on(Life.ACTIVE, self._clock.now())
        if self.life is not Life.ACTIVE:
            raise ChangesetLifeError(f"changeset {self.id} is {self.life}; only an active one has further steps")
        number = len(self._layers) + 1
        since = self._view.begin()
        begun = LayerStart(
            changeset=self.id,
            number=number,
            name=name,
            at=self._clock.now(),
            since_ns=tuple(each[0] for each in since),
            landings=tuple(each[1] for each in since),
        )
        layer = self._shelf.make_layer(number, self.homes)
        self._open = Files(
            self._view,
            layer,
            tuple(home.root for home in self.homes),
            changeset=self.id,
            number=number,
            name=name,
            confine=self.terms.confine,
            network=self.terms.network,
            ways=Ways(
                lambda: self._seal(begun), self._drop_newest, lambda branch: self._merge(layer, branch), self._resolve
            ),
        )
        self._resolving = None
        return self._open

    def _resolve(self) -> Resolving:
        """The conflicts of what is sealed, for the open step."""
        if self.branch_of is not None:
            raise ChangesetLifeError(f"changeset {self.id} is a branch: its conflicts are met where it is merged")
        if self._resolving is None and self._open is not None:
            layer = self._shelf.layer_folder(self._open.number)
            self._resolving = Resolving(self._case(), lambda tree: self._view.writing(layer, tree))
        if self._resolving is None:
            raise ChangesetLifeError(f"changeset {self.id} has no open step; begin one to resolve conflicts in it")
        return self._resolving

    def _case(self, landing_id: str | None = None) -> landing.LandingRequest:
        return landing.LandingRequest(
            shelf=self._shelf,
            name=self._record.name,
            homes=self.homes,
            layers=tuple(self._layers),
            terms=self.terms,
            clock=self._clock,
            landing=landing_id,
        )

    def _seal(self, begun: LayerStart) -> Sealed:
        folder = self._shelf.layer_folder(begun.number)
        existed = self._view.collect(folder)
        parts = [
            OpenPart(
                home=home,
                upper=upper_of(folder, tree),
                below=stack_over(home, self._lowers(tree)),
                existed=existed[tree],
                met={} if self._resolving is None else self._resolving.met[tree],
            )
            for tree, home in enumerate(self.homes)
        ]
        recover(self.homes, self._shelf.disk, wait=False)
        with raise_ours("the layer could not be sealed"):
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
        for branch in self._merging:
            branch._be_merged()
        self._open, self._merging, self._resolving = None, [], None
        self._shelf.disk.remove_all(room_of(folder))
        self._view.settle()
        return results.sealed(layer)

    def drop_last(self) -> Dropped:
        """Drop the newest layer, open or sealed."""
        self._require_its_saga()
        if self._open is None and len(self._layers) == self.forked_at:
            raise ChangesetLifeError(f"changeset {self.id} has no layer that could be dropped")
        self._require_unlanded()
        return self._drop_newest()

    def _drop_newest(self) -> Dropped:
        if self._open is not None:
            dropped = Dropped(changeset=self.id, number=self._open.number, name=self._open.name)
            self._open, self._merging, self._resolving = None, [], None
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
        self._require_its_saga()
        if self._open is not None or not self.forked_at < number <= len(self._layers):
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
        """Drop every layer above number `to`, newest first; 0, or of a branch `forked_at`, leaves none of its own."""
        self._require_its_saga()
        if not self.forked_at <= to <= self.newest:
            what = f"layers {self.forked_at + 1} to {self.newest}" if self.forked_at else f"{self.newest} layers"
            raise ChangesetLifeError(f"changeset {self.id} has {what}; it cannot rewind to {to}")
        self._require_unlanded()
        dropped: list[Dropped] = []
        while self._open is not None or len(self._layers) > to:
            dropped.append(self._drop_newest())
        return tuple(dropped)

    def _merge(self, layer: bytes, branch: Steps) -> BranchMerged | Conflicted:
        branch._require_branch_of(self.id)
        if branch.life not in {Life.ACTIVE, Life.REVIEW, Life.MERGED}:
            raise ChangesetLifeError(f"branch {branch.id} is {branch.life}; only one that is not over can be merged")
        into = Into(
            changeset=self.id,
            view=self._view,
            layer=layer,
            homes=self.homes,
            layers=tuple(self._layers),
            terms=self.terms,
        )
        work = Branch(shelf=branch._shelf, layers=tuple(branch._layers), forked_at=branch.forked_at)
        ended = merge_branch(work, into)
        if isinstance(ended, BranchMerged):
            self._merging.append(branch)
        return ended

    def _be_merged(self) -> None:
        if self.life is not Life.MERGED:
            self._record = self._shelf.move_on(Life.MERGED, self._clock.now())

    def _require_branch_of(self, id: str) -> None:
        if self.branch_of != id:
            raise ChangesetLifeError(f"changeset {self.id} is no branch of {id}")

    def _require_mine(self) -> None:
        if self._lock < 0:
            raise ChangesetLifeError(f"changeset {self.id} is closed; open it again")

    def _require_its_saga(self) -> None:
        """Open, and not a saga's behind its back: its record would not know of it, and could not take it back."""
        self._require_mine()
        if self._record.saga and not self._in_name_of:
            raise ChangesetLifeError(
                f"changeset {self.id} belongs to saga {self._record.saga}, and is changed through it: "
                f"`amends changeset land {self.id}` lands it in its name, "
                f"`amends saga cancel {self._record.saga}` takes its work back"
            )

    def _require_unlanded(self) -> None:
        if self.life not in {Life.ACTIVE, Life.REVIEW}:
            what = "reopen it to go on" if self.life is Life.DROPPED else "its layers stay as they are"
            raise ChangesetLifeError(f"changeset {self.id} is {self.life}; {what}")

    def _lowers(self, tree: int) -> tuple[bytes, ...]:
        return tuple(upper_of(self._shelf.layer_folder(layer.number), tree) for layer in reversed(self._layers))
