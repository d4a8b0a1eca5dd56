"""How long a page of the console takes among few sagas and among many: `python -m bench.console [FEW MANY]`.

A real server and real requests. It needs the environment of `make test-server`.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path

import httpx2

from bench.lists import filled
from tests.server.person import Person
from tests.server.serving import serving

FEW, MANY = 1_000, 1_000_000
TIMES = 15
PAGES = {
    "overview": "/",
    "sagas": "/sagas",
    "sagas, by status": "/sagas?status=completed",
    "sagas, by label": "/sagas?q=tenant%3Dt3",
    "sagas, by how their id begins": "/sagas?q=0",
    "sagas, by the key of a call": "/sagas?q=00000000000000000000000000000007",
    "sagas, the second page": "",
    "approvals": "/approvals",
    "incidents": "/incidents",
    "actions": "/actions",
}


def page_times(folder: Path, sagas: int) -> dict[str, float]:
    """Seconds for each page, the best of some."""
    folder.mkdir(mode=0o700)

    async def fill() -> None:
        journal = await filled(folder / "journal.db", sagas, calls=True)
        while not await journal.note_keys():  # as the first search for one has it done
            pass
        await journal.close()

    asyncio.run(fill())
    best: dict[str, float] = {}
    with serving(folder, journal=folder / "journal.db") as server:
        one = Person.with_token(server, "person:bench", "view")
        one.open("/sagas")
        second = one.page.rpartition('<a class="button" href="')[2].partition('"')[0].replace("&amp;", "&")
        with httpx2.Client(base_url=server.url, cookies=one.cookies, timeout=120, trust_env=False) as client:
            for name, path in PAGES.items():
                for _ in range(TIMES):
                    since = time.perf_counter()
                    client.get(path or second).raise_for_status()
                    best[name] = min(best.get(name, 999.0), time.perf_counter() - since)
    return best


def main() -> None:
    few, many = (int(word) for word in sys.argv[1:3]) if len(sys.argv) > 2 else (FEW, MANY)
    with tempfile.TemporaryDirectory(prefix="amends-bench-") as place:
        small, large = page_times(Path(place) / "few", few), page_times(Path(place) / "many", many)
    sys.stdout.write(f"{'page':<26}{few:>12,}{many:>12,}  ratio\n")
    for name in PAGES:
        ratio = large[name] / small[name]
        sys.stdout.write(f"{name:<26}{small[name] * 1000:>9.1f} ms{large[name] * 1000:>9.1f} ms  {ratio:.2f}\n")


if __name__ == "__main__":
    main()
