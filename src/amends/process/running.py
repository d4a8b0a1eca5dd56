"""Running a tool in a view: its output is bounded, and its end is the end of every process that it started."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from amends.clock import Clock
from amends.dataclass import dataclass
from amends.errors import ViewError
from amends.process import launch

OUTPUT: Final = 1024 * 1024
_PIECE: Final = 65536
_ALWAYS: Final = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "SHELL", "TERM", "NO_COLOR")
_LOCALE: Final = "LC_"
_GRACE_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a command ended. A negative return code is the signal that ended it; None: it was ended by us."""

    returncode: int | None
    stdout: str
    stderr: str
    timed_out: bool = False
    cancelled: bool = False
    truncated: bool = False
    """Some output was left out; a line in its place says how much."""
    confinement: str = ""
    """How it was kept in: `confined`, or `not confined` and why."""

    @property
    def ok(self) -> bool:
        return self.returncode == 0


def small_environment(names: Iterable[str] = ()) -> dict[str, str]:
    """Variables that a command sees of ours: the little that every program needs, and what is named."""
    wanted = {*_ALWAYS, *names}
    return {name: value for name, value in os.environ.items() if name in wanted or name.startswith(_LOCALE)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A view to be mounted over a tree: an overlay prepared in `scratch`, or a workspace to be bound there."""

    target: bytes
    scratch: bytes | None = None
    lowers: int = 0
    masked: bool = False
    """Of an overlay: whether a layer in `scratch` hides what of the tree is amends' own."""
    bind: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A command, and how it is started."""

    command: Sequence[str | bytes]
    cwd: bytes
    mounts: tuple[Mount, ...] = ()
    namespaces: bool = True
    userns: bool = False
    """Ask for a user namespace even where root could do without."""
    confine: bool | None = None
    """None: where this machine can."""
    network: bool = True
    """False: a network of its own, with nothing in it but itself."""
    powerless: bool = False
    """Without any capability, also where it is not confined."""
    room: bytes = b""
    """A folder of ours that a confined command does not see: its scratch space lies over it."""
    masks: tuple[bytes, ...] = ()
    """What a confined command cannot read."""
    why_not: str = ""
    """Why it is not confined, though nobody asked for that."""
    env: Mapping[str, str] | None = None
    inherits: bool = True
    """Whether what it sees of our environment is added to `env`; otherwise that is all."""
    input: bytes = b""
    output: int = OUTPUT
    streams: tuple[Bounded, Bounded] | None = None
    """What keeps its stdout and its stderr; otherwise their beginnings and ends are kept, up to `output`."""
    grace_s: float = 0.0
    """Without namespaces: how long the command may put things in order after it was asked to end."""

    def spec(self) -> str:
        views = [
            {"target": _latin(each.target), "bind": _latin(each.bind)}
            if each.bind is not None
            else {
                "target": _latin(each.target),
                "scratch": _latin(each.scratch or b""),
                "lowers": each.lowers,
                "masked": each.masked,
            }
            for each in self.mounts
        ]
        return json.dumps(
            {
                "namespaces": self.namespaces,
                "userns": self.userns,
                "views": views,
                "confine": bool(self.confine),
                "network": self.network,
                "powerless": self.powerless or bool(self.confine),
                "room": _latin(self.room),
                "masks": [_latin(path) for path in self.masks],
                "cwd": _latin(self.cwd),
                "grace_s": self.grace_s,
            }
        )


def _latin(path: bytes) -> str:
    return path.decode("latin-1")


def confinement_of(asked: Launch) -> str:
    """Words that go on record of how a command was kept in."""
    network = "" if asked.network else ", without network"
    if asked.confine:
        return f"confined{network}"
    return f"not confined{network}: {asked.why_not or 'it was asked for'}"


class Bounded:
    """The beginning and the end of a stream, and how much was between them."""

    def __init__(self, limit: int) -> None:
        self._half = max(limit // 2, 1)
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._kept = 0
        self.left_out = 0

    def take(self, piece: bytes) -> None:
        room = self._half - len(self._head)
        if room > 0:
            self._head += piece[:room]
            piece = piece[room:]
        if not piece:
            return
        self._tail.append(piece)
        self._kept += len(piece)
        while self._kept > self._half:
            over = self._kept - self._half
            first = self._tail.popleft()
            cut = min(over, len(first))
            if cut < len(first):
                self._tail.appendleft(first[cut:])
            self._kept -= cut
            self.left_out += cut

    def text(self) -> str:
        between = f"\n[... {self.left_out} bytes left out ...]\n".encode() if self.left_out else b""
        return (bytes(self._head) + between + b"".join(self._tail)).decode("utf-8", errors="replace")


class Running:
    """A command under way. `wait` for it in one thread; `cancel` it from any."""

    def __init__(self, asked: Launch, clock: Clock) -> None:
        self.confinement = confinement_of(asked)
        self._clock = clock
        self._cancelled = False
        self._closing = threading.Lock()
        hold, self._lifeline = os.pipe()
        self._report, tell = os.pipe()
        given = _nameless(asked.input) if asked.input else subprocess.DEVNULL
        spec = _nameless(asked.spec().encode())  # no argument: of those, none may be longer than 128 KB
        words = [sys.executable, "-I", "-S", launch.__file__, str(hold), str(tell), str(spec), *asked.command]
        try:
            self._child = subprocess.Popen(
                words,
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(hold, tell, spec),
                env=None if asked.env is None else dict(asked.env),
                start_new_session=True,
            )
        except OSError as exc:
            for each in (self._lifeline, self._report):
                os.close(each)
            raise ViewError(f"{sys.executable} cannot be started: {exc.strerror}") from None
        finally:
            for each in (hold, tell, spec, *([given] if given > 2 else [])):  # noqa: PLR2004 - the standard streams
                os.close(each)
        self._streams = asked.streams or (Bounded(asked.output), Bounded(asked.output))
        self._said = Bounded(_PIECE)

    def cancel(self) -> None:
        """End the command with all that it started."""
        self._cancelled = True
        self._let_go()

    def _let_go(self) -> None:
        with self._closing:
            if self._lifeline >= 0:
                os.close(self._lifeline)
                self._lifeline = -1

    def wait(self, timeout_s: float | None = None) -> Ran:
        """Until nothing of it is left. After the timeout it is ended."""
        timed_out = self._read(timeout_s)
        self._let_go()
        try:
            self._child.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._close()
        kind, _, rest = self._said.text().partition(" ")
        ended_by_us = timed_out or (self._cancelled and kind not in {"exit", "signal"})
        if kind == "error" and not ended_by_us:
            raise ViewError(f"the command could not be started: {rest.strip()}")
        code = {"exit": 1, "signal": -1}.get(kind, 0) * int(rest) if kind in {"exit", "signal"} else None
        out, err = self._streams
        return Ran(
            returncode=None if ended_by_us else code,
            stdout=out.text(),
            stderr=err.text(),
            timed_out=timed_out,
            cancelled=self._cancelled and ended_by_us,
            truncated=bool(out.left_out or err.left_out),
            confinement=self.confinement,
        )

    def _read(self, timeout_s: float | None) -> bool:
        """Read until all ends are closed, which is when all that held them are gone. True: the time was up first."""
        until = None if timeout_s is None else self._clock.elapsed() + timeout_s
        timed_out = False
        with selectors.DefaultSelector() as selector:
            for stream, into in zip((self._child.stdout, self._child.stderr), self._streams, strict=True):
                if stream is not None:
                    selector.register(stream, selectors.EVENT_READ, into)
            selector.register(self._report, selectors.EVENT_READ, self._said)
            while selector.get_map():
                left = None if until is None or timed_out else max(0.0, until - self._clock.elapsed())
                ready = selector.select(_GRACE_S if timed_out else left)
                if not ready:
                    if timed_out:
                        return True
                    timed_out = True
                    self._let_go()
                for key, _ in ready:
                    piece = os.read(key.fd, _PIECE)
                    bounded: Bounded = key.data
                    bounded.take(piece)
                    if not piece:
                        selector.unregister(key.fileobj)
        return timed_out

    def _close(self) -> None:
        os.close(self._report)
        for stream in (self._child.stdout, self._child.stderr):
            if stream is not None:
                stream.close()


def _nameless(content: bytes) -> int:
    """A file without a name, to be read from its beginning: nobody has to write while somebody reads."""
    import tempfile

    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        return os.dup(file.fileno())


def run_to_end(asked: Launch, clock: Clock, timeout_s: float | None) -> Ran:
    running = Running(asked, clock)
    try:
        return running.wait(timeout_s)
    except ViewError:
        raise
    except BaseException:  # an interrupt too: nothing of the command may be left
        running.cancel()
        with contextlib.suppress(ViewError):
            running.wait()
        raise
