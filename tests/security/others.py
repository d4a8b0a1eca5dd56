"""Other users of the machine: `amends` and plain commands under another uid, where these tests run as root.

Where they do not, nobody else can be played: the same files are then made by the one user there is, with the modes that
would let others in, and what has to be refused has to be refused all the same.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.shell import PATIENCE_S, Said

IS_ROOT = os.geteuid() == 0
ROOT = 0
VICTIM = 65534 if IS_ROOT else os.geteuid()
STRANGER = 1234 if IS_ROOT else os.geteuid()

AS_USER = """
import contextlib, getpass, grp, importlib, io, os, pkgutil, pwd, sys, tempfile
import amends, amends.cli.main as face
from amends.cli import config
SAGA = "version: v1\\nsaga: warm\\nsteps: [{id: a, run: ['true'], read_only: true}]\\n"
user, groups, here, *words = sys.argv[1:]
if os.geteuid() == 0 and user != "0":
    for module in pkgutil.walk_packages(amends.__path__, "amends.", lambda _: None):
        if not module.name.startswith(("amends.testing", "amends.__main__")):
            with contextlib.suppress(ImportError):  # of an extra that is not installed
                importlib.import_module(module.name)
    with tempfile.TemporaryDirectory() as place, contextlib.redirect_stdout(io.StringIO()):
        os.chdir(place)  # what is imported late may not be readable for another user: so it is all used once before
        open("p.yaml", "w").write("version: v1\\ndefault: allow\\nrules: []\\n")
        open("warm.yaml", "w").write(SAGA)
        open("amends.toml", "w").write("env = 'staging'\\n")
        for each in ("policy adopt p.yaml --why x", "run warm.yaml", "doctor"):
            with contextlib.redirect_stderr(io.StringIO()):
                face._code(each.split())
        os.chdir("/")
    config._configured.cache_clear()
    os.setgroups([int(each) for each in groups.split(",") if each])
    os.setgid(int(user))
    os.setuid(int(user))
os.chdir(here)
os.environ["HOME"] = "/nonexistent"
os.umask(0o022)
face.main(words)
"""


@contextmanager
def a_place(mode: int = 0o755) -> Generator[Path]:
    """A directory that other users can go through: those of pytest are their owner's alone."""
    with tempfile.TemporaryDirectory(prefix="amends-") as name:
        Path(name).chmod(mode)
        yield Path(name)


def folder(path: Path, owner: int, mode: int = 0o700, group: int | None = None) -> Path:
    path.mkdir()
    if IS_ROOT:
        os.chown(path, owner, owner if group is None else group)
    path.chmod(mode)
    return path


def file(path: Path, text: str, owner: int, mode: int = 0o644) -> Path:
    path.write_text(text, encoding="utf-8")
    if IS_ROOT:
        os.chown(path, owner, owner)
    path.chmod(mode)
    return path


def amends_as(owner: int, here: Path, *words: str, groups: tuple[int, ...] = (), **env: str) -> Said:
    """A command of amends, as this user."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AMENDS_", "FORCE_", "XDG_"))}
    numbers = ",".join(map(str, groups))
    done = subprocess.run(
        [sys.executable, "-c", AS_USER, str(owner), numbers, str(here), *words],
        env={**kept, "TZ": "UTC", **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=2 * PATIENCE_S,
        check=False,
    )
    return Said(done.returncode, done.stdout.decode(), done.stderr.decode())


def command_as(owner: int, *words: str) -> None:
    """A plain command of the machine, as this user, who has no other rights."""
    program = shutil.which(words[0])
    assert program is not None
    user, groups = (owner, list[int]()) if IS_ROOT else (None, None)
    subprocess.run([program, *words[1:]], check=True, timeout=PATIENCE_S, user=user, group=user, extra_groups=groups)
