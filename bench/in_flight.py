"""Holds sagas in flight and says the peak memory in KB: `python -m bench.in_flight PATH COUNT`."""

from __future__ import annotations

import asyncio
import resource
import sys
from pathlib import Path

from bench import ours


async def main(path: Path, count: int) -> None:
    ours.RELEASE.append(asyncio.Event())
    async with ours.coordinator(path) as opened:
        handles = [await opened.start(ours.waiting, n) for n in range(count)]
        while len(await opened.list(topic="bench.wait", limit=count)) < count:
            await asyncio.sleep(0.05)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        ours.RELEASE[0].set()
        await asyncio.gather(*handles)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
