"""A process that has imported what commands need, and forks one for each that it is asked for.

Three quarters of a short command are Python's start and its imports, and the stories run thousands of them. A forked
one is a process as any other: it has its own number, directory, environment and files, is killed alone, and ends as
Python ends, but for the last of it (`_end`). It does not try the start itself; `Shell.started`, `Shell.on_terminal`
and tests/cli/test_startup.py do.

Many can run at once: whoever forks them waits for all of them, and tells how each has ended.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any, Final

import amends
from amends.runtime.declare.registry import PROCESS

ROOT: Final = Path(__file__).resolve().parent.parent.parent
MOST_BYTES: Final = 1 << 17
FRESH: Final = (
    "amends.__main__",
    "amends.cli.commands.changeset",
    "amends.cli.commands.conflicts",
    "amends.cli.demo.console",
    "amends.cli.demo.demo",
    "amends.cli.demo.trip",
    "amends.runtime.files.by_hand",
    "amends.runtime.files.retention",
    "amends.runtime.saga.by_hand",
    "amends.runtime.saga.recovery_key",
    "amends.testing",
)
"""Left to the command that needs them: they declare actions or sagas, or bring a test runner along."""


# -- who asks -------------------------------------------------------------------------------------------------------


class Zygote:
    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.cli.zygote", str(theirs.fileno())], cwd=ROOT, pass_fds=[theirs.fileno()]
            )

    def run(
        self,
        words: tuple[str, ...],
        *,
        place: Path,
        env: Mapping[str, str],
        stdin: bytes,
        patience_s: float,
        in_one: bool = False,
    ) -> tuple[int, bytes, bytes]:
        """The exit code of `amends WORDS` (below zero: the signal that ended it), and what it wrote to both streams.

        `in_one`: what it wrote to either stands in the first of them, in the order in which it came.
        """
        asked = json.dumps({"words": words, "place": str(place), "env": dict(env)}).encode()
        with (
            tempfile.TemporaryFile() as given,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
        ):
            given.write(stdin)
            given.seek(0)
            hear, tell = os.pipe()
            with os.fdopen(hear, "rb", buffering=0) as told:
                try:
                    with self._lock:
                        socket.send_fds(
                            self._ours, [asked], [given.fileno(), out.fileno(), (out if in_one else err).fileno(), tell]
                        )
                finally:
                    os.close(tell)
                code = self._code(told, words, patience_s)
            out.seek(0)
            err.seek(0)
            return code, out.read(), err.read()

    def _code(self, told: IO[bytes], words: tuple[str, ...], patience_s: float) -> int:
        until = time.monotonic() + patience_s
        said = b""
        while select.select([told], [], [], max(0.0, until - time.monotonic()))[0]:
            piece = told.read(100)
            if not piece:
                break
            said += piece
        numbers = [int(line) for line in said.split()]
        if len(numbers) == 1:
            with contextlib.suppress(ProcessLookupError):
                os.kill(numbers[0], signal.SIGKILL)
            raise subprocess.TimeoutExpired(["amends", *words], patience_s)
        _, code = numbers
        return code

    def end(self) -> None:
        self._ours.close()
        self._process.wait()


@functools.cache
def zygote() -> Zygote:
    """The one of this process, made when it is first asked for."""
    made = Zygote()
    atexit.register(made.end)
    return made


# -- who forks ------------------------------------------------------------------------------------------------------


def main(asked: socket.socket) -> None:
    _import_all()
    gc.disable()  # a collection would touch, and so copy, every page that a command shares with us
    gc.freeze()
    wake, woken = os.pipe()
    for each in (wake, woken):
        os.set_blocking(each, False)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _heard)
    told: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([asked.fileno(), wake], [], [])
        if wake in ready:
            os.read(wake, MOST_BYTES)
            _tell_ended(told)
        if asked.fileno() in ready:
            message, files, *_ = socket.recv_fds(asked, MOST_BYTES, 4)
            if not message:
                return
            child = os.fork()
            if child == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                asked.close()
                for each in (wake, woken, *told.values()):
                    os.close(each)
                _become(json.loads(message), files)
            *streams, told[child] = files
            for each in streams:
                os.close(each)
            os.write(told[child], f"{child}\n".encode())


def _heard(_number: int, _frame: object) -> None:
    """Have the pipe written to: without a handler of Python's own, nothing is."""


def _tell_ended(told: dict[int, int]) -> None:
    """Tell of each command that has ended how it did; `told` has the pipe of each that runs."""
    while told:
        child, status = os.waitpid(-1, os.WNOHANG)
        if child == 0:
            return
        tell = told.pop(child)
        with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more
            os.write(tell, f"{os.waitstatus_to_exitcode(status)}\n".encode())
        os.close(tell)


def _import_all() -> None:
    _import_below(amends.__path__, "amends.")
    assert not PROCESS._definitions, "a command begins without sagas: add the module that declares one to FRESH"
    assert threading.active_count() == 1


def _import_below(folders: Iterable[str], prefix: str) -> None:
    for module in pkgutil.iter_modules(folders, prefix):
        if module.name not in FRESH:
            with contextlib.suppress(ImportError):  # of an extra that is not installed
                imported = importlib.import_module(module.name)
                _import_below(getattr(imported, "__path__", ()), f"{module.name}.")


def _become(wanted: dict[str, Any], files: list[int]) -> None:
    """Be the command. It ends with SystemExit, and so this process does, in the way of any other."""
    for number, file in enumerate(files[:3]):
        os.dup2(file, number)
    for each in files:
        os.close(each)
    os.chdir(wanted["place"])
    os.environ.clear()
    os.environ.update(wanted["env"])
    time.tzset()
    sys.path[:] = [each for each in sys.path if each not in {"", str(ROOT)}]
    sys.argv[:] = ["amends", *wanted["words"]]
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[name]
    gc.enable()
    from amends.cli.main import main as command

    try:
        command()
    except SystemExit as end:
        _end(end)
        raise


def _end(end: SystemExit) -> None:
    """End as Python does: threads, then what was left for the exit, then garbage, then the streams. Only that it takes
    itself apart is left out, which would copy every page that it shares with us: half of the cost of a short command.

    It returns where Python has more to say than a number, or cannot write any more.
    """
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return
    if isinstance(end.code, int):
        vars(threading)["_shutdown"]()  # what Python itself calls: it ends the pools of threads, and joins the others
        atexit._run_exitfuncs()
        gc.collect()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code & 0xFF)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as given:
        main(given)
