"""A process that forks: asked for a scenario by name on its standard input, it kills it everywhere.

It stays single-threaded, which a test runner's worker is not.
"""

import dataclasses
import gc
import json
import sys
import tempfile
from pathlib import Path

from amends.gate.load import builtin_policy
from amends.testing.crash.crash import Tried
from amends.testing.crash.fork import every_kill
from tests.crash.scenarios import ALL

MEMORY = Path("/dev/shm")


def main() -> None:
    root = MEMORY if MEMORY.is_dir() else None
    builtin_policy()  # and the YAML scanner with it, which each child would have to load by itself
    gc.disable()  # a collection would touch, and so copy, every page that a child shares with us
    gc.freeze()
    for line in sys.stdin:
        asked = json.loads(line)
        tried = Tried()
        with tempfile.TemporaryDirectory(dir=root) as folder:
            scenario = ALL[asked["scenario"]]
            every_kill(scenario, Path(folder), tried, since=asked["since"], stride=asked["stride"])
        sys.stdout.write(json.dumps(dataclasses.asdict(tried)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
