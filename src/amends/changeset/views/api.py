"""No view at all: Python reads through the layers and writes into the newest. Works wherever files do."""

from __future__ import annotations

from amends.changeset.ancestors import moment
from amends.changeset.stack import Stack
from amends.changeset.tools import Launch, Running
from amends.changeset.views.protocol import Ground, room_of, upper_of
from amends.changeset.writing import Writing
from amends.errors import ViewError


class ApiView:
    name = "api"

    def __init__(self, ground: Ground) -> None:
        self.ground = ground

    def begin(self) -> tuple[tuple[int, int], ...]:
        return tuple((moment(home.path), home.newest_landing()) for home in self.ground.homes)

    def writing(self, layer: bytes, tree: int) -> Writing:
        return Writing(self.stack(layer, tree), room_of(layer))

    def stack(self, layer: bytes, tree: int) -> Stack:
        home = self.ground.homes[tree]
        return home.stack((upper_of(layer, tree), *self.ground.lowers(tree)))

    def start(self, layer: bytes, asked: Launch) -> Running:
        raise ViewError("the provider `api` has no view that a tool could run in; `doctor` says what the others need")

    def collect(self, layer: bytes) -> tuple[frozenset[bytes], ...]:
        return tuple(frozenset() for _ in self.ground.homes)

    def settle(self) -> None:
        """It keeps nothing."""

    def restore(self, dropped: tuple[frozenset[bytes], ...]) -> None:
        """It keeps nothing."""
