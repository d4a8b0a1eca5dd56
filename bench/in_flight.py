"""Holds sagas in flight and says the peak memory in KB: `python -m bench.in_flight PATH COUNT`."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

from bench import ours


async def main(path: Path, count: int) -> None:
    ours.RELEASE.append(asyncio.Event())
    async with ours.coordinator(path) as opened:
        handles = [await opened.start(ours.waiting, n) for n in range(count)]
        while len(await opened.list(topic="bench.wait", limit=count)) < count:
            await asyncio.sleep(0.05)
        print(peak_kb())
        ours.RELEASE[0].set()
        await asyncio.gather(*handles)


def peak_kb() -> int:
    """Of this program alone: what getrusage says begins with the peak of whoever has started it."""
    found = re.search(r"^VmHWM:\s*(\d+) kB$", Path("/proc/self/status").read_text(encoding="ascii"), re.MULTILINE)
    if found is None:
        raise SystemExit("this system does not say how much memory a program has had at most")
    return int(found[1])


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
