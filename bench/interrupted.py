"""Starts sagas, gets each into its second step, then dies by SIGKILL: `python -m bench.interrupted PATH COUNT`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from bench import ours


async def main(path: Path, count: int) -> None:
    ours.RELEASE.append(asyncio.Event())
    async with ours.coordinator(path) as opened:
        handles = [await opened.start(ours.waiting, n) for n in range(count)]
        while len(await opened.list(topic="bench.wait", limit=count)) < len(handles):
            await asyncio.sleep(0.05)
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
