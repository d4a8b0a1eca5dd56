"""Finding the content that belongs to a state: in a layer, among the ancestors, in the tree, or in a landing's undo."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256

from amends.changeset.codec import fields_of, items, text
from amends.changeset.home import Home
from amends.changeset.look import content_at
from amends.changeset.model import Kind, Layer, State
from amends.changeset.net import net_changes
from amends.changeset.objects import Objects
from amends.changeset.paths import unspell
from amends.changeset.shelf import Shelf, content_in
from amends.changeset.texts import LARGEST_TEXT
from amends.changeset.unified import Shown, unified
from amends.errors import ChangesetLifeError


class Contents:
    """Of one tree of a changeset."""

    def __init__(self, shelf: Shelf, home: Home, layers: Sequence[Layer], tree: int) -> None:
        self._shelf = shelf
        self._home = home
        self._layers = layers
        self._tree = tree
        self._objects = Objects(home)

    def of(self, path: bytes, state: State | None) -> bytes | None:
        """None: it is no longer to be had, or too much to show."""
        if state is None or state.kind is Kind.FOLDER:
            return b""
        if state.kind is Kind.LINK:
            return state.target
        if state.size > LARGEST_TEXT:
            return None
        kept = self._objects.get(state.digest)
        if kept is not None:
            return kept
        for place in self._places(path, state):
            try:
                content = content_at(place)
            except OSError:
                continue
            if sha256(content).hexdigest() == state.digest:
                return content
        return None

    def _places(self, path: bytes, state: State) -> Iterator[bytes]:
        for layer in reversed(self._layers):
            for entry in layer.trees[self._tree]:
                if entry.path == path and entry.state is not None and entry.state.digest == state.digest:
                    yield content_in(self._shelf, layer.number, self._tree, path)
        yield self._home.root + b"/" + path
        for landing in reversed(self._home.log_after(0)):
            for value in items(landing["paths"]):
                fields = fields_of(value)
                kept = fields.get("kept")
                if kept is not None and unspell(text(fields["path"])) == path:
                    yield unspell(text(kept))


def shown_net(shelf: Shelf, homes: Sequence[Home], layers: Sequence[Layer], forked_at: int) -> Iterator[Shown]:
    """The whole changeset against what it started from."""
    for tree, home in enumerate(homes):
        contents = Contents(shelf, home, layers, tree)
        befores = {each.path: each.before for layer in reversed(layers[forked_at:]) for each in layer.trees[tree]}
        for net in net_changes(layers, tree, forked_at):
            before = net.ancestor.state if net.ancestor.is_known else befores.get(net.path)
            yield Shown(
                path=net.path,
                before=before,
                after=net.ours,
                old=contents.of(net.path, before),
                new=contents.of(net.path, net.ours),
            )


def shown_step(shelf: Shelf, homes: Sequence[Home], layers: Sequence[Layer], number: int) -> Iterator[Shown]:
    """One layer against what was below it."""
    for tree, home in enumerate(homes):
        contents = Contents(shelf, home, layers, tree)
        for entry in layers[number - 1].trees[tree]:
            if not entry.is_ephemeral:
                yield Shown(
                    path=entry.path,
                    before=entry.before,
                    after=entry.state,
                    old=contents.of(entry.path, entry.before),
                    new=contents.of(entry.path, entry.state),
                )


def diff_of(shelf: Shelf, homes: Sequence[Home], layers: Sequence[Layer], step: int | None, forked_at: int = 0) -> str:
    """A unified diff of all layers together, of a branch its own, or of one. ChangesetLifeError: no such step."""
    if step is None:
        return unified(list(shown_net(shelf, homes, layers, forked_at)))
    if not 1 <= step <= len(layers):
        raise ChangesetLifeError(f"changeset {shelf.id} has {len(layers)} sealed steps; there is no step {step}")
    return unified(list(shown_step(shelf, homes, layers, step)))
