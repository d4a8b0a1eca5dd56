"""A directory as a snapshot of the world: what is in it, and what may be executed."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

_LEFT_OUT: Final = frozenset({".git", "__pycache__"})
"""They keep what was, and have no way back."""


def seen(directory: str) -> dict[str, str]:
    """Files, links and folders by their path, each with what it is; but for what changesets keep for themselves."""
    root, found = Path(directory), dict[str, str]()
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in _LEFT_OUT and not name.endswith(".changesets"))
        for name in [*folders, *sorted(files)]:
            path = Path(folder) / name
            found[path.relative_to(root).as_posix()] = _what(path)
    return found


def _what(path: Path) -> str:
    if path.is_symlink():
        return f"a link to {path.readlink()}"
    if path.is_dir():
        return "a folder"
    if not path.is_file():
        return "something else"
    may_run = ", may be executed" if os.access(path, os.X_OK) else ""
    return f"sha256 {hashlib.sha256(path.read_bytes()).hexdigest()[:16]}{may_run}"
