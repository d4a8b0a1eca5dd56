"""Every provider that works here, and changesets opened with them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from amends.changeset import Changeset, Terms, calls
from amends.changeset.views.probe import named
from tests.changeset.trees import PACKAGE, plant

PROVIDERS = ["overlay", "overlay-userns", "clone", "copy", "copy-plain", "api"]
"""`overlay-userns` asks for a user namespace though root needs none; `copy-plain` does without namespaces."""
WITH_VIEW = PROVIDERS[:-1]

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
            monkeypatch.setattr(calls, "share_blocks", share_by_copying)
        changeset = Changeset.open(*roots, terms=replace(terms or Terms(), provider=asked), **more)
        if provider in {"overlay-userns", "copy-plain"}:
            ground = replace(changeset._ground, userns=provider == "overlay-userns", namespaces="plain" not in provider)
            changeset._view = named(asked, ground)
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
