"""Trees to work on: planted from a description, and seen whole, down to times, modes and empty folders."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from amends.changeset.model.model import Layer, PathKind


@dataclass(frozen=True)
class File:
    content: bytes = b""
    mode: int = 0o644


@dataclass(frozen=True)
class Folder:
    mode: int = 0o755


@dataclass(frozen=True)
class Link:
    target: bytes


Thing: TypeAlias = File | Folder | Link
Plants: TypeAlias = Mapping[str, str | Thing]

LONG_AGO = 1_600_000_000_123_456_789

PACKAGE: Plants = {
    "pkg": Folder(),
    "pkg/__init__.py": "",
    "pkg/one.py": "def one():\n    return 1\n",
    "pkg/two.py": "def two():\n    return 2\n",
    "pkg/sub": Folder(),
    "pkg/sub/deep.py": "deep = True\n",
    "pkg/sub/other.py": "other = True\n",
    "docs": Folder(),
    "docs/page.md": "# A page\n\none\ntwo\nthree\nfour\nfive\n",
    "empty": Folder(),
    "run.sh": File(b"#!/bin/sh\necho ran\n", 0o755),
    "secret": File(b"s\n", 0o600),
    "to_page": Link(b"docs/page.md"),
    "data.bin": File(bytes(range(256)) * 4),
}


def plant(root: Path, plants: Plants) -> Path:
    """Make a tree; all its times are long ago, those of folders too."""
    root.mkdir(parents=True, exist_ok=True)
    for name, given in plants.items():
        path = os.fsencode(root) + b"/" + os.fsencode(name)
        thing = File(given.encode()) if isinstance(given, str) else given
        os.makedirs(os.path.dirname(path), exist_ok=True)
        match thing:
            case Folder(mode):
                os.makedirs(path, exist_ok=True)
            case Link(target):
                os.symlink(target, path)
            case File(content, mode):
                with open(path, "wb") as file:
                    file.write(content)
                os.chmod(path, mode)
    for folder, _, files in os.walk(os.fsencode(root), topdown=False):
        for file_name in files:
            os.utime(folder + b"/" + file_name, ns=(LONG_AGO, LONG_AGO), follow_symlinks=False)
        os.utime(folder, ns=(LONG_AGO, LONG_AGO))
    for name, given in plants.items():
        if isinstance(given, Folder):
            os.chmod(root / name, given.mode)
    return root


Seen: TypeAlias = dict[bytes, tuple[object, ...]]


def seen(root: Path, *, times: bool = True) -> Seen:
    """All that there is below a folder, and the folder itself: kind, mode, content or target, and time."""
    top = os.fsencode(root)
    found: Seen = {b"": _about(top, times=times)}
    for folder, folders, files in os.walk(top):
        for name in (*folders, *files):
            path = folder + b"/" + name
            found[path[len(top) + 1 :]] = _about(path, times=times)
    return found


def _about(path: bytes, *, times: bool) -> tuple[object, ...]:
    about = os.lstat(path)
    when = (about.st_mtime_ns,) if times else ()
    mode = stat.S_IMODE(about.st_mode)
    if stat.S_ISDIR(about.st_mode):
        return ("folder", mode, *when)
    if stat.S_ISLNK(about.st_mode):
        return ("link", os.readlink(path), *when)
    if stat.S_ISREG(about.st_mode):
        with open(path, "rb") as file:
            return ("file", mode, file.read(), *when)
    return ("other", stat.S_IFMT(about.st_mode), *when)


Said: TypeAlias = dict[str, tuple[object, ...] | None]


def said(layer: Layer, tree: int = 0, *, ephemeral: bool = False) -> Said:
    """What a layer says of each path, without its times: the part that all providers have to agree on."""
    found: Said = {}
    for entry in layer.trees[tree]:
        if entry.is_ephemeral != ephemeral:
            continue
        state = entry.state
        name = entry.path.decode("utf-8", "backslashreplace")
        if state is None:
            found[name] = None
        elif state.kind is PathKind.FOLDER:
            found[name] = ("folder", state.mode)
        elif state.kind is PathKind.LINK:
            found[name] = ("link", state.target)
        else:
            found[name] = ("file", state.mode, state.digest)
    return found
