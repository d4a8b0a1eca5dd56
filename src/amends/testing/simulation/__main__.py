"""Play many schedules on all processors, or one, and tell its story.

python -m amends.testing.simulation --schedules 1000000
python -m amends.testing.simulation --seed 56
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Final

from amends.testing.simulation.schedule import simulate
from amends.testing.simulation.tally import Tally, play

_CHUNK: Final = 500
_NEWS_EACH: Final = 100


def _one(seed: int, workers: int | None, *, is_slow: bool) -> int:
    logging.getLogger("amends").setLevel(logging.CRITICAL + 1)
    played = simulate(seed, listens=True, workers=workers, is_slow=is_slow)
    broken = played.complaints or ["no promise broken"]
    sys.stdout.write("\n".join([*played.story, f"it ended {played.status}, after {played.turns} turns", *broken, ""]))
    return 1 if played.complaints else 0


def _many(since: int, schedules: int, processes: int, playing: Callable[[range], Tally]) -> int:
    whole, end = Tally(), since + schedules
    chunks = [range(start, min(end, start + _CHUNK)) for start in range(since, end, _CHUNK)]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for done, tally in enumerate(pool.imap_unordered(playing, chunks), start=1):
            whole.add(tally)
            for seed, complaints in tally.found:
                sys.stdout.write(f"seed {seed}: {complaints[0]}\n    to see it again: make simulate SEED={seed}\n")
            if done % _NEWS_EACH == 0:
                sys.stdout.write(f"{whole.schedules:,} schedules, promises broken: {len(whole.found)}\n")
            sys.stdout.flush()
    sys.stdout.write(f"seeds {since:,} to {end - 1:,}: {whole}\n")
    return 1 if whole.found else 0


def main() -> int:
    asked = argparse.ArgumentParser(prog="python -m amends.testing.simulation")
    asked.add_argument("--schedules", type=int, default=20_000, help="how many to play")
    asked.add_argument("--since", type=int, default=0, help="the first seed")
    asked.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    asked.add_argument("--seed", type=int, help="play this one only, and tell its story")
    asked.add_argument("--workers", type=int, help="how many drive; otherwise two or three")
    asked.add_argument("--slow", action="store_true", help="have the way to the journal take seconds in every schedule")
    words = asked.parse_args()
    if words.seed is not None:
        return _one(words.seed, words.workers, is_slow=words.slow)
    playing = partial(play, workers=words.workers, is_slow=words.slow)
    return _many(words.since, words.schedules, words.processes, playing)


if __name__ == "__main__":
    sys.exit(main())
