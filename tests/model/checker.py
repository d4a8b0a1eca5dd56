"""SPIN over the model of leases: every order of events, with each mechanism there and with each switched off.

    python -m tests.model.checker --workers 3 --steps 3

A counterexample stays in the folder that is printed; `spin -t -p` with the same definitions replays it there.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

MODEL = Path(__file__).resolve().parents[2] / "model" / "lease.pml"
# What each mechanism is there for: the words of the assertion that fails without it.
ABLATIONS = {
    "NO_FENCE": "ended",
    "NO_SEEN": "heard",
    "NO_INTENT": "ended",
    "NO_KEY": "once",
    "NO_TURN": "ended",
    "NO_LATE": "ended",
    "NO_UNCERTAIN": "ended",
    "NO_WAIT": "order",
    "NO_INSIDE": "kept",
}
NEEDED = ("spin", "gcc")
HOW = "as root, `make spin` installs them; else: sudo apt-get install spin gcc libc6-dev"


@dataclass(frozen=True)
class Checked:
    """How many states there are, and which of the model's properties does not hold in one of them."""

    states: int
    broken: str | None
    is_whole: bool
    said: str


def lacking() -> str | None:
    """Which tool is not installed here, in words; None where both are."""
    missing = [name for name in NEEDED if shutil.which(name) is None]
    return f"{' and '.join(missing)} not installed; {HOW}" if missing else None


def checked(folder: Path, *switches: str, patience_s: int = 300, memory_mb: int = 2_000, **sizes: int) -> Checked:
    """Go through all states of the model, in this empty folder."""
    shutil.copy(MODEL, folder)
    defined = [*(f"-D{name}" for name in switches), *(f"-D{name.upper()}={size}" for name, size in sizes.items())]
    _run(["spin", "-a", *defined, MODEL.name], folder, patience_s)
    flags = ["-w", "-O1", "-DSAFETY", "-DNOCLAIM", "-DCOLLAPSE", f"-DMEMLIM={memory_mb}"]
    _run(["gcc", *flags, "-o", "pan", "pan.c"], folder, patience_s)
    said = _run(["./pan", "-m2000000"], folder, patience_s)
    states = re.search(r"^\s*([\d.e+]+) states, stored", said, re.MULTILINE)
    errors = re.search(r"errors: (\d+)", said)
    if states is None or errors is None:
        raise AssertionError(f"SPIN did not come to an end:\n{said}")
    is_whole = "Search not completed" not in said and "max search depth too small" not in said
    return Checked(int(float(states[1])), _broken(folder, defined) if int(errors[1]) else None, is_whole, said)


def _run(command: list[str], folder: Path, patience_s: int) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=patience_s, check=False)
    if done.returncode:
        raise AssertionError(f"{command[0]} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def _broken(folder: Path, defined: list[str]) -> str:
    """The name that the model gives to the assertion at which the counterexample ends."""
    command = ["spin", "-t", *defined, MODEL.name]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    trail = done.stdout + done.stderr
    line = re.search(rf"{re.escape(MODEL.name)}:(\d+), Error: assertion violated", trail)
    text = MODEL.read_text(encoding="utf-8").splitlines()[int(line[1]) - 1] if line else trail
    name = re.search(r"/\* (\w+) \*/\s*$", text)
    return name[1] if name else text.strip()


def main() -> None:
    asked = argparse.ArgumentParser()
    for name, size in (("workers", 3), ("steps", 2), ("expiries", 2), ("deaths", 1), ("memory-mb", 9_000)):
        asked.add_argument(f"--{name}", type=int, default=size)
    asked.add_argument("--ablate", choices=ABLATIONS)
    words = asked.parse_args()
    if missing := lacking():
        sys.exit(missing)
    folder = Path(tempfile.mkdtemp(prefix="amends-model-"))
    sizes = {name: getattr(words, name) for name in ("workers", "steps", "expiries", "deaths")}
    switches = [words.ablate] if words.ablate else []
    found = checked(folder, *switches, patience_s=24 * 3600, memory_mb=words.memory_mb, **sizes)
    whole = "all of them" if found.is_whole else "not all: give it more memory"
    sys.stdout.write(f"{found.states:,} states, {whole}; broken: {found.broken or 'nothing'}; in {folder}\n")
    sys.exit(os.EX_OK if (found.broken is None) == (words.ablate is None) and found.is_whole else 1)


if __name__ == "__main__":
    main()
