"""Every provider that works here, and changesets opened with them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from amends.changeset import Changeset, Terms
from amends.changeset.disk import syscalls
from amends.changeset.views.probe import make_view
from tests.changeset.trees import PACKAGE, plant
from tests.changeset.worlds import SOAK

NOBODY = 65534

PROVIDERS = ["overlay", "overlay-userns", "clone", "copy", "copy-plain", "api"]
"""`overlay-userns` asks for a user namespace though root needs none; `copy-plain` does without namespaces."""
WITH_VIEW = PROVIDERS[:-1]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what belongs to `make soak`, and what only root can try, where that is not what runs."""
    wanted = {"soak": SOAK, "as_root": os.geteuid() == 0}
    out = [
        item for item in items for mark, is_wanted in wanted.items() if not is_wanted and item.get_closest_marker(mark)
    ]
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in out]


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """A folder of somebody who is not root, and be them."""
    with tempfile.TemporaryDirectory() as place:
        if os.geteuid() != 0:
            yield Path(place)
            return
        os.chown(place, NOBODY, NOBODY)
        os.setresgid(NOBODY, NOBODY, 0)
        os.setresuid(NOBODY, NOBODY, 0)
        try:
            yield Path(place)
        finally:
            os.setresuid(0, 0, 0)
            os.setresgid(0, 0, 0)


Opener = Callable[..., Changeset]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return plant(tmp_path / "tree", PACKAGE)


@pytest.fixture
def opener(monkeypatch: pytest.MonkeyPatch) -> Iterator[Opener]:
    """Opens changesets by a provider's name, and closes them in the end."""
    opened: list[Changeset] = []

    def opening(provider: str, *roots: Path, terms: Terms | None = None, **more: Any) -> Changeset:
        asked = {"overlay-userns": "overlay", "copy-plain": "copy"}.get(provider, provider)
        if provider == "clone":
            monkeypatch.setattr(syscalls, "share_blocks", share_by_copying)
        changeset = Changeset.open(*roots, terms=replace(terms or Terms(), provider=asked), **more)
        if provider in {"overlay-userns", "copy-plain"}:
            ground = replace(changeset._ground, userns=provider == "overlay-userns", namespaces="plain" not in provider)
            changeset._view = make_view(asked, ground)
        opened.append(changeset)
        return changeset

    yield opening
    for each in opened:
        each.close()


def share_by_copying(source: int, target: int) -> bool:
    """What a file system with shared blocks does, as far as anyone can see."""
    at = 0
    while piece := os.pread(source, 1 << 20, at):
        os.pwrite(target, piece, at)
        at += len(piece)
    return True
