"""Resumes everything in a journal and says how many, in how many seconds: `python -m bench.recovered PATH`."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from bench import ours


async def main(path: Path) -> None:
    ours.RELEASE.append(asyncio.Event())
    ours.RELEASE[0].set()
    async with ours.coordinator(path) as opened:
        since = time.perf_counter()
        ended = await opened.resume()
        print(len(ended), time.perf_counter() - since)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
