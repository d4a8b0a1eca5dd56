"""The command line as its users have it: real processes in a directory with a module of sagas in it."""

import contextlib
import importlib
import io
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import pytest

from amends.cli.main import main
from amends.runtime.declare.registry import PROCESS
from tests.cli.zygote import zygote

GIVEN = Path(__file__).parent / "given"
PATIENCE_S = 60


@dataclass(frozen=True)
class Said:
    """What a command said, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def records(self) -> list[dict[str, Any]]:
        """Its output as JSON lines; each has to be an object with a type."""
        found: list[object] = [json.loads(line) for line in self.out.splitlines()]
        assert {type(record) for record in found} <= {dict}
        records = cast("list[dict[str, Any]]", found)
        assert all(record["type"] for record in records)
        return records

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        return [record for record in self.records if record["type"] == kind]

    @property
    def complaint(self) -> str:
        """The one line of an error. Raises where there is more or less than that."""
        assert self.code == 2, self
        assert not self.out
        (line,) = self.err.splitlines()
        assert line.startswith("amends: ")
        return line.removeprefix("amends: ")


def _hear_ctrl_c() -> None:
    """What a shell starts in the background ignores Ctrl-C, and so would its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _needs_a_start(env: dict[str, str]) -> bool:
    """Whether Python itself looks at one of these when it starts, or it has to start as somebody else."""
    return len(set(os.getresuid())) > 1 or any(name.startswith(("PYTHON", "LC_", "LANG")) for name in env)


class Shell:
    """A working directory, and `amends` in it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.give("shop")

    def give(self, module: str) -> None:
        """Put one of the modules of sagas into the directory."""
        shutil.copy(GIVEN / f"{module}.py", self.place)

    def __call__(self, *words: str, stdin: bytes = b"", **env: str) -> Said:
        """Run a command as a process of its own."""
        if _needs_a_start(env):
            return self.python("-m", "amends.cli.main", *words, stdin=stdin, **env)
        code, out, err = zygote().run(words, place=self.place, env=self._env(env), stdin=stdin, patience_s=PATIENCE_S)
        return Said(code, out.decode(), err.decode())

    def python(self, *words: str, stdin: bytes = b"", **env: str) -> Said:
        """Run a program of the user's own, or a module."""
        done = subprocess.run(
            [sys.executable, *words],
            cwd=self.place,
            env=self._env(env),
            input=stdin,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        return Said(done.returncode, done.stdout.decode(), done.stderr.decode())

    def here(self, *words: str) -> Said:
        """Run a command in this process, which is faster. It knows its own actions alone, which are forgotten again."""
        out, err = io.StringIO(), io.StringIO()
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            self._forgetting(),
            pytest.raises(SystemExit) as ended,
        ):
            main(words)
        assert isinstance(ended.value.code, int)
        return Said(ended.value.code, out.getvalue(), err.getvalue())

    def on_terminal(self, *words: str, typed: str = "") -> Said:
        """Run a command that has a terminal, with somebody who types; what it shows is on stdout, stderr too."""
        ours, theirs = pty.openpty()
        with subprocess.Popen(
            [sys.executable, "-m", "amends.cli.main", *words],
            cwd=self.place,
            env=self._env({"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "200"}),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        ) as process:
            os.close(theirs)
            shown, typing = b"", typed.encode()
            with contextlib.suppress(OSError):  # how a terminal ends when nobody has it any more
                while piece := os.read(ours, 4096):
                    shown += piece
                    if typing and shown.endswith(b"[y/N]: "):
                        os.write(ours, typing)
                        typing = b""
            os.close(ours)
            code = process.wait(PATIENCE_S)
        return Said(code, shown.decode().replace("\r\n", "\n"), "")

    @contextlib.contextmanager
    def _forgetting(self) -> Generator[None]:
        importlib.invalidate_caches()
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.place)
            patch.setattr(sys, "path", list(sys.path))
            for known in ("_actions", "_definitions"):
                patch.setattr(PROCESS, known, {})
            yield
        for name, module in list(sys.modules.items()):
            if (getattr(module, "__file__", None) or "").startswith(str(self.place)):
                del sys.modules[name]

    @contextlib.contextmanager
    def started(self, *words: str, **env: str) -> Generator[subprocess.Popen[str]]:
        """Start a command and go on; whatever becomes of it, it is gone at the end."""
        command = [sys.executable, "-m", "amends.cli.main", *words]
        with subprocess.Popen(
            command,
            cwd=self.place,
            env=self._env(env),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=_hear_ctrl_c,  # noqa: PLW1509 - it sets one signal, and no lock can be held for that
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def _env(self, more: dict[str, str]) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AMENDS_", "FORCE_"))}
        return {**inherited, "TZ": "UTC", **more}

    @contextlib.contextmanager
    def awaiting_lorry(self, saga: str, *words: str) -> Generator[subprocess.Popen[str]]:
        """A saga that stands at a step until the lorry comes; see `let_lorry_come`."""
        if not (self.place / "lorry").exists():
            os.mkfifo(self.place / "lorry")
        with self.started("run", f"shop:{saga}", *words) as process:
            stderr = cast("IO[str]", process.stderr)
            assert stderr.readline() == "the lorry is awaited\n"
            yield process

    def let_lorry_come(self) -> None:
        (self.place / "lorry").write_text("it is here\n", encoding="utf-8")

    def kill_in_the_middle(self, saga: str) -> None:
        """Leave a saga behind whose process got a SIGKILL during its second step."""
        with self.awaiting_lorry("deliver", "--id", saga) as process:
            process.kill()
            assert process.wait(PATIENCE_S) == -signal.SIGKILL

    @property
    def world(self) -> list[str]:
        """What the sagas did, without the keys."""
        lines = (self.place / "world.txt").read_text(encoding="utf-8").splitlines()
        return [" ".join(line.split()[:2]) for line in lines]

    def policy(self, *rules: str, name: str = "policy.yaml") -> str:
        """The name of a file that allows everything but what these rules, each in YAML's short form, restrict."""
        text = "\n".join(["version: v1", "default: allow", "rules:", *(f"  - {rule}" for rule in rules), ""])
        (self.place / name).write_text(text, encoding="utf-8")
        return name

    def approval(self, *words: str, saga: str = "l-1") -> str:
        """The id of an approval that a saga waits for."""
        given = ("--input", '{"name": "Ann"}', "--env", "production", "--actor", "agent:desk")
        said = self.here("run", "office:leave", "--id", saga, *given, *words)
        assert said.code == 6, said
        return f"{saga}/2"

    def denied(self, *words: str) -> str:
        """The id of an incident whose compensation the gate refuses."""
        self.give("office")
        denies = self.policy("{id: hands-off, when: {phase: compensation}, decision: deny, reason: not at night}")
        given = ("--input", '{"name": "Ann"}', "--actor", "agent:desk", "--label", "owner=person:olga")
        assert self.here("run", "office:party", "--id", "p-1", "--policy", denies, *given, *words).code == 4
        return "p-1/1"

    def incident(self) -> str:
        """The id of an open incident of a saga whose robot is jammed."""
        assert self.here("run", "shop:tidy", "--id", "tidy").code == 4
        return "tidy/1"
