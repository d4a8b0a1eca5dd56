"""A process that forks: asked for a pair by name on its standard input, it plays it, killed or not, in children.

It stays single-threaded, which a test runner's worker is not. A child that goes on and on is ended by an alarm.
"""

import gc
import json
import logging
import os
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from amends.gate.load import builtin_policy
from amends.runtime.drive.kinship import former_child_id
from amends.runtime.engine import children
from amends.testing.crash.life import Blow
from amends.testing.simulation.loop import Dice
from tests.pairs.endings import ENDINGS
from tests.pairs.features import FEATURES
from tests.pairs.story import Folder, Pair, PairLife, first_policy, lived, notary

MEMORY = Path("/dev/shm")
PATIENCE_S = 60


def _clashing_ids() -> None:
    """The second time at a step calls a child whose id may be another's, and whoever has the id is taken for it."""
    for name, patch in {"child_id": former_child_id, "require_child": _unasked, "says_it_is": _unasked}.items():
        setattr(children, name, patch)  # in this process, which ends before long


def _unasked(*_about: object) -> bool:
    return True


WITHOUT: dict[str, Callable[[], None]] = {"": lambda: None, "child's id": _clashing_ids}
"""Mechanisms that are switched off in the child alone, to see that it shows."""


def in_a_child(pair: Pair, folder: Path, *, number: int, since_s: float, kill_at: int | None) -> dict[str, Any]:
    """One life. How it went: `killed`, where that was, how far it came, and what is wrong."""
    hear, tell = os.pipe()
    one = os.fork()
    if one == 0:
        os.close(hear)
        _whole_life(pair, folder, tell, number=number, since_s=since_s, kill_at=kill_at)
    os.close(tell)
    with os.fdopen(hear, "rb") as pipe:
        said = pipe.read().splitlines()
    _, status = os.waitpid(one, 0)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    if not said or (not killed and status != 0):
        why = "it goes on and on" if os.WIFSIGNALED(status) else f"the child ended with status {status}"
        return {"killed": False, "ended_s": since_s, "points": 0, "complaints": [f"{why}: {b' '.join(said).decode()}"]}
    last: dict[str, Any] = json.loads(said[-1])
    return {"complaints": [], **last, "killed": killed}


def _whole_life(pair: Pair, folder: Path, tell: int, *, number: int, since_s: float, kill_at: int | None) -> None:
    """The child's own: it never returns into what its parent was doing."""
    signal.alarm(PATIENCE_S)
    WITHOUT[pair.without]()
    status = 1

    def say(life: PairLife, **more: Any) -> None:
        where = life.passed[-1] if life.passed else "its start"
        told = {"ended_s": life.loop.time(), "points": len(life.passed), "at": where, **more}
        os.write(tell, json.dumps(told).encode() + b"\n")

    try:
        lives: list[PairLife] = []

        def told(life: PairLife) -> None:
            lives.append(life)
            say(life)

        complaints = lived(
            pair,
            Folder(folder),
            number=number,
            since_s=since_s,
            life={"ends_at": kill_at, "blow": Blow.KILL},
            told=told,
        )
        say(lives[-1], complaints=complaints)
        status = 0
    except BaseException:  # noqa: BLE001 - a child that cannot go on says why, and ends here
        os.write(tell, traceback.format_exc().replace("\n", " | ").encode() + b"\n")
    finally:
        os._exit(status)


def played(pair: Pair, *, killed: bool, root: Path) -> dict[str, Any]:
    """The pair without a kill; and then, where it is to be killed, once more with one at a point that its seed says."""
    whole = _in(root, pair, None)
    if not killed or whole["complaints"] or whole["points"] == 0:
        return whole
    point = 1 + Dice(pair.seed).below(int(whole["points"]))
    return _in(root, pair, point)


def _in(root: Path, pair: Pair, point: int | None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=root) as made:
        folder = Path(made) / "pair"
        before = in_a_child(pair, folder, number=1, since_s=1_000.0, kill_at=point)
        if not before["killed"]:
            return before
        after = in_a_child(pair, folder, number=2, since_s=float(before["ended_s"]), kill_at=None)
        story = f"killed at point {before['points']} ({before['at']}), seed {pair.seed}"
        after["complaints"] = [f"{story}: {what}" for what in after["complaints"]]
        shutil.rmtree(folder)
        return {**after, "deaths": 1}


def main() -> None:
    logging.getLogger("amends").setLevel(logging.CRITICAL + 1)
    for make in (builtin_policy, first_policy, notary):
        make()  # each child would have to by itself
    gc.disable()  # a collection would touch, and so copy, every page that a child shares with us
    gc.freeze()
    for line in sys.stdin:
        asked = json.loads(line)
        pair = Pair(FEATURES[asked["feature"]], ENDINGS[asked["ending"]], asked["without"])
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
            told = played(pair, killed=asked["killed"], root=Path(folder))
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
