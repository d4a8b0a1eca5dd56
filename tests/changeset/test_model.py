"""Any sequence of file operations, in any number of steps, does to a changeset what it does to a plain folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from hypothesis import given, settings, strategies as st

from amends.changeset import Changeset, Landed, Terms
from amends.changeset.files import Files
from amends.changeset.views.protocol import View
from tests.changeset.shims import Watched
from tests.changeset.trees import Plants, plant, seen

TREE: Plants = {"a": "a\n", "d/a": "da\n", "d/b": "db\n", "d/e/a": "dea\n", "f/a": "fa\n"}
PATHS = ["a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "f", "f/a", "n", "n/a"]

paths = st.sampled_from(PATHS)
operations = st.one_of(
    st.tuples(st.just("write"), paths, st.sampled_from(["1\n", "2\n", "a\n"])),
    st.tuples(st.just("remove"), paths),
    st.tuples(st.just("rename"), paths, paths),
    st.tuples(st.just("make"), paths),
    st.tuples(st.just("chmod"), paths, st.sampled_from([0o700, 0o755])),
    st.tuples(st.just("begin"), st.booleans()),
)


def plainly(root: Path, operation: tuple[Any, ...]) -> None:
    """What anybody would do."""
    match operation:
        case ("write", path, text):
            (root / path).write_text(text)
        case ("remove", path):
            target = root / path
            shutil.rmtree(target) if target.is_dir() and not target.is_symlink() else os.unlink(target)
        case ("rename", old, new):
            os.rename(root / old, root / new)
        case ("make", path):
            os.mkdir(root / path)
        case ("chmod", path, mode):
            os.chmod(root / path, mode)
        case _:
            raise AssertionError(operation)


def changed(files: Files, operation: tuple[Any, ...]) -> None:
    match operation:
        case ("write", path, text):
            files.write_text(path, text)
        case ("remove", path):
            files.remove(path, recursive=True)
        case ("rename", old, new):
            files.rename(old, new)
        case ("make", path):
            files.make_folder(path)
        case ("chmod", path, mode):
            files.chmod(path, mode)
        case _:
            raise AssertionError(operation)


def is_done(act: Callable[[Any, tuple[Any, ...]], None], where: object, operation: tuple[Any, ...]) -> bool:
    try:
        act(where, operation)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def places() -> Generator[tuple[Path, Path, Path]]:
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        top = Path(name)
        plant(top / "tree", TREE)
        plant(top / "plain", TREE)
        yield top / "tree", top / "plain", top / "kept"


def viewed(files: Files, view: View, place: Path) -> dict[bytes, tuple[object, ...]]:
    """The whole view, as Python sees it."""
    stack = view.writing(files._layer, 0).stack
    found: dict[bytes, tuple[object, ...]] = {}
    for path, each in stack.walk(b""):
        if each.is_folder:
            found[path] = ("folder", each.mode)
        else:
            found[path] = ("file", each.mode, files.read_bytes(path))
    return found


def plain_view(place: Path) -> dict[bytes, tuple[object, ...]]:
    found = seen(place, times=False)
    found.pop(b"")
    return found


def compare(provider: str, script: list[tuple[Any, ...]]) -> None:
    with places() as (tree, plain, kept):
        before = seen(tree)
        with Changeset.open(tree, terms=Terms(provider=provider), disk=Watched()) as changeset:
            files = changeset.begin("first")
            shutil.copytree(plain, kept, symlinks=True)
            for operation in script:
                if operation[0] != "begin":
                    assert is_done(changed, files, operation) == is_done(plainly, plain, operation), operation
                elif operation[1]:
                    files.seal()
                    shutil.rmtree(kept)
                    shutil.copytree(plain, kept, symlinks=True)
                    files = changeset.begin("next")
                else:
                    files.drop()
                    shutil.rmtree(plain)
                    shutil.copytree(kept, plain, symlinks=True)
                    files = changeset.begin("again")
            assert viewed(files, changeset._view, tree) == plain_view(plain)
            assert seen(tree) == before
            files.seal()
            assert isinstance(changeset.land(), Landed)
        assert plain_view(tree) == plain_view(plain)


@settings(max_examples=60)
@given(st.lists(operations, max_size=14))
def test_the_api_does_what_a_plain_folder_does(script: list[tuple[Any, ...]]) -> None:
    compare("api", script)


@settings(max_examples=25)
@given(st.lists(operations, max_size=14))
def test_a_copy_does_what_a_plain_folder_does(script: list[tuple[Any, ...]]) -> None:
    compare("copy", script)
