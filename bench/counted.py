"""The work that `bench.against` counts and times: `python counted.py KIND AMOUNT PATH` prints its CPU seconds.

It is run as a file, with the tree that is measured on Python's path: the sagas are that tree's own.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from pathlib import Path

from amends import Coordinator
from bench import ours

IN_FLIGHT = 64


async def main(kind: str, amount: int, path: Path) -> None:
    ours.RELEASE.append(asyncio.Event())
    ours.RELEASE[0].set()
    async with ours.coordinator(path) as opened:
        if kind == "busy":
            await ours.run_lanes(opened, IN_FLIGHT, IN_FLIGHT)
        gc.collect()
        since = time.process_time()
        await work(opened, kind, amount)
        print(time.process_time() - since)


async def work(opened: Coordinator, kind: str, amount: int) -> None:
    match kind:
        case "busy":
            await ours.run_lanes(opened, amount, IN_FLIGHT)
        case "alone":
            await ours.run_lanes(opened, amount, 1)
        case "back":
            ended = await opened.run(ours.long, amount, [], fail=True)
            if ended.status != "rolled_back":
                raise AssertionError(ended)
        case "recovered":
            ended_all = await opened.resume()
            if len(ended_all) != amount:
                raise AssertionError(f"{len(ended_all)} of {amount} sagas were recovered")
        case _:
            raise ValueError(kind)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])))
