"""An open step: the tree with the changeset's layers over it, to read, to write, and to run tools in.

Paths are relative to the (first) tree, or absolute and inside one of the trees. What goes wrong with a file goes wrong
as it would anywhere: FileNotFoundError, IsADirectoryError, PermissionError.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from amends.changeset.disk.read import content_at
from amends.changeset.layers.stack import FoundPath, Stack
from amends.changeset.layers.writing import Writing
from amends.changeset.model.codec import Fields
from amends.changeset.model.paths import Given, beneath, matcher, relative, spell
from amends.changeset.model.results import Dropped, Sealed, as_take
from amends.changeset.views.protocol import View
from amends.dataclass import dataclass
from amends.errors import ChangesetLifeError
from amends.process.running import OUTPUT, Bounded, Launch, Ran, Running

if TYPE_CHECKING:
    from amends.changeset.changeset import Changeset
    from amends.changeset.layers.report import BranchMerged, Conflict, Conflicted
    from amends.changeset.resolve import Resolving


@dataclass(frozen=True, slots=True)
class Ways:
    """Ways in which a changeset goes on with an open step."""

    seal: Callable[[], Sealed]
    drop: Callable[[], Dropped]
    merge: Callable[[Changeset], BranchMerged | Conflicted]
    resolving: Callable[[], Resolving]


class Files:
    """Made by `Changeset.begin`. As a context: sealed at its end, dropped if an exception leaves it."""

    def __init__(
        self,
        view: View,
        layer: bytes,
        roots: tuple[bytes, ...],
        *,
        changeset: str,
        number: int,
        name: str,
        confine: bool | None,
        network: bool,
        ways: Ways,
    ) -> None:
        self.changeset = changeset
        self.number = number
        self.name = name
        self.roots = roots
        self._view = view
        self._layer = layer
        self._confine = confine
        self._network = network
        self._confinements: list[str] = []
        self._ways = ways
        self._is_open = True
        self._running: list[Running] = []
        self._stopped = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_open:
            return
        if exc is not None:
            self.drop()
            return
        try:
            self.seal()
        except BaseException:  # a limit, a full disk, an interrupt: the layer goes, and the exception flies on
            self.drop()
            raise

    def data(self) -> Fields:
        """The step's beginning, as a journal can hold it."""
        return {"changeset": self.changeset, "number": self.number, "name": self.name}

    def seal(self) -> Sealed:
        """Close the layer for good. Raises LimitError, and then the step is still open."""
        self._require_open()
        sealed = self._ways.seal()
        self._is_open = False
        return sealed

    def drop(self) -> Dropped:
        self._require_open()
        dropped = self._ways.drop()
        self._is_open = False
        return dropped

    def stop(self) -> None:
        """End the tools that run in it, from another thread. The step stays open; no other tool is started."""
        self._stopped.set()
        for each in tuple(self._running):
            each.cancel()

    @property
    def confinement(self) -> str:
        """How the commands that were started in it were kept in, each way once; nothing where none was."""
        return "; ".join(dict.fromkeys(self._confinements))

    def read_bytes(self, path: Given) -> bytes:
        stack, at = self._place(path)
        found = self._found(stack, stack.resolve(at), path)
        if found.is_folder:
            raise IsADirectoryError(21, "Is a directory", spell(at))
        return content_at(found.where)

    def read_text(self, path: Given) -> str:
        return self.read_bytes(path).decode("utf-8")

    def write_bytes(self, path: Given, content: bytes, *, mode: int | None = None) -> None:
        """Make or replace a file; the mode stays as it was unless one is given."""
        writing, at = self._writing(path)
        writing.write(at, content, mode)

    def write_text(self, path: Given, text: str, *, mode: int | None = None) -> None:
        self.write_bytes(path, text.encode("utf-8"), mode=mode)

    def remove(self, path: Given, *, recursive: bool = False) -> None:
        writing, at = self._writing(path)
        writing.remove(at, recursive=recursive)

    def rename(self, old: Given, new: Given) -> None:
        writing, source = self._writing(old)
        other, target = self._writing(new)
        if other.upper != writing.upper:
            raise OSError(18, "a rename cannot go from one tree to another", spell(source))
        writing.rename(source, target)

    def make_folder(self, path: Given, *, parents: bool = False, exist_ok: bool = False) -> None:
        writing, at = self._writing(path)
        writing.make_folder(at, parents=parents, exist_ok=exist_ok)

    def symlink(self, path: Given, target: Given) -> None:
        """Make a link at `path`."""
        writing, at = self._writing(path)
        writing.symlink(at, os.fsencode(target))

    def readlink(self, path: Given) -> str:
        stack, at = self._place(path)
        return os.fsdecode(os.readlink(self._found(stack, stack.resolve(at, follow_last=False), path).where))

    def chmod(self, path: Given, mode: int) -> None:
        writing, at = self._writing(path)
        writing.chmod(at, mode)

    def promote(self, path: Given) -> None:
        """Copy a folder of the tree into the layer, so that a tool in an overlay can rename it."""
        writing, at = self._writing(path)
        writing.promote(at)

    def conflicts(self) -> tuple[Conflict, ...]:
        """Conflicts with the tree of now, were the steps before this one landed."""
        self._require_open()
        return self._ways.resolving().conflicts()

    def mark_conflicts(self) -> tuple[Conflict, ...]:
        """Have both sides of each conflict in the view, with marks, for tools, editors and models to work on.

        What is no text is left as ours. Nothing lands until each is resolved, in this step or a later one.
        """
        self._require_open()
        return self._ways.resolving().mark()

    def resolve(self, path: Given, take: str, *, draft: str | None = None) -> None:
        """Resolve a conflict: take `ours`, `theirs` (what is in the tree), or, as `merged`, what the step shows.

        `draft` is for a person's decision, who has seen drafts: with `merged`, the digest of the one that is meant, or
        nothing for whatever it is now. Raises PathError for a path that is not in conflict, and for a text that still
        has marks in it.
        """
        self._require_open()
        root, at = self._split(path)
        if draft is None:
            self._ways.resolving().resolve(root, at, as_take(take))
        else:
            self._ways.resolving().resolve_by_draft(root, at, as_take(take), draft)

    def merge(self, branch: Changeset) -> BranchMerged | Conflicted:
        """Bring in what a branch has changed since it was forked, by the rules of a landing.

        Conflicted: nothing of it is in the step. When the step is sealed, the branch is `merged`.
        """
        self._require_open()
        return self._ways.merge(branch)

    def exists(self, path: Given) -> bool:
        stack, at = self._place(path)
        return stack.find(stack.resolve(at)) is not None

    def is_folder(self, path: Given) -> bool:
        stack, at = self._place(path)
        found = stack.find(stack.resolve(at))
        return found is not None and found.is_folder

    def mode(self, path: Given) -> int:
        stack, at = self._place(path)
        return stat.S_IMODE(self._found(stack, stack.resolve(at), path).about.st_mode)

    def names(self, path: Given = ".") -> list[str]:
        """Names in a folder."""
        stack, at = self._place(path)
        found = self._found(stack, stack.resolve(at), path)
        if not found.is_folder:
            raise NotADirectoryError(20, "Not a directory", spell(at))
        return [os.fsdecode(name) for name in stack.names(found)]

    def glob(self, pattern: str, *, within: Given = ".") -> list[str]:
        """Paths that match, as `**/*.py` does; links are not followed."""
        stack, at = self._place(within)
        matches = matcher(pattern)
        start = len(at) + 1 if at else 0
        return [os.fsdecode(path) for path, _ in stack.walk(at) if matches(path[start:])]

    def run(
        self,
        command: Sequence[str | bytes],
        *,
        timeout_s: float | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Given = ".",
        input: bytes = b"",
        output: int = OUTPUT,
        confine: bool | None = None,
        network: bool | None = None,
    ) -> Ran:
        """Run a command in the view to its end, or to the timeout's, with all that it starts.

        It is confined where this machine can: whatever it writes outside the view fails, it has no capabilities, sees
        no journal and no key, and of the environment the little that every program needs, and `env`. With
        `confine=True` it is confined or does not run; with `confine=False` it is not, has the whole environment, and
        that is on record. With `network=False` it has a network of its own, with nothing in it.
        """
        running = self.start(command, env=env, cwd=cwd, input=input, output=output, confine=confine, network=network)
        try:
            return running.wait(timeout_s)
        except KeyboardInterrupt:
            running.cancel()
            running.wait()
            raise

    def start(
        self,
        command: Sequence[str | bytes],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Given = ".",
        input: bytes = b"",
        output: int = OUTPUT,
        confine: bool | None = None,
        network: bool | None = None,
        inherits: bool = True,
        streams: tuple[Bounded, Bounded] | None = None,
    ) -> Running:
        """Start a command; `wait` for it, or `cancel` it from another thread.

        Where it inherits nothing, `env` is all that it sees; `streams` keep its output in place of the usual ones.
        """
        self._require_open()
        if self._stopped.is_set():
            raise ChangesetLifeError(f"step {self.number} ({self.name}) was stopped; nothing more runs in it")
        root, at = self._split(cwd)
        running = self._view.start(
            self._layer,
            Launch(
                command=command,
                cwd=self.roots[root] + (b"/" + at if at else b""),
                env=env,
                inherits=inherits,
                input=input,
                output=output,
                streams=streams,
                confine=self._confine if confine is None else confine,
                network=self._network if network is None else network,
            ),
        )
        self._confinements.append(running.confinement)
        self._running.append(running)
        if self._stopped.is_set():  # in the meantime
            running.cancel()
        return running

    def _require_open(self) -> None:
        if not self._is_open:
            raise ChangesetLifeError(f"step {self.number} ({self.name}) is over; begin another")

    def _split(self, path: Given) -> tuple[int, bytes]:
        raw = os.fsencode(path)
        if raw.startswith(b"/"):
            for number, root in enumerate(self.roots):
                if beneath(raw, root) is not None:
                    return number, relative(raw, root)
        return 0, relative(raw, self.roots[0])

    def _writing(self, path: Given) -> tuple[Writing, bytes]:
        self._require_open()
        root, at = self._split(path)
        return self._view.writing(self._layer, root), at

    def _place(self, path: Given) -> tuple[Stack, bytes]:
        writing, at = self._writing(path)
        return writing.stack, at

    @staticmethod
    def _found(stack: Stack, at: bytes, path: Given) -> FoundPath:
        found = stack.find(at)
        if found is None:
            raise FileNotFoundError(2, "No such file or directory", os.fsdecode(path))
        return found
