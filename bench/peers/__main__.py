"""`make bench-peers`: five-step sagas, 256 in flight, through amends and through its peers, in turns of one run."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

from bench import ours
from bench.figures import ROUNDS, Figures, fresh, timed
from bench.peers.shape import IN_FLIGHT
from bench.steps import raw_sagas_a_second

HERE = Path(__file__).parent.parent.parent
PEERS = {  # package: module, how many sagas, how many times as many we are to do
    "langgraph-checkpoint-sqlite": ("of_langgraph", 512, 20.0),
    "dbos": ("of_dbos", 512, 20.0),
    "agent-saga": ("of_agent_saga", 2048, 1.0),  # five times as many would be what the bare writer does
}


def of_peer(python: str, module: str, folder: Path, sagas: int) -> dict[str, float]:
    own = tempfile.mkdtemp(dir=folder)
    told = subprocess.run(
        [python, "-m", f"bench.peers.{module}", own, str(sagas)],
        cwd=HERE,
        check=True,
        capture_output=True,
        text=True,
    )
    figures: dict[str, float] = json.loads(told.stdout.splitlines()[-1])
    return figures


async def of_ours(folder: Path, sagas: int) -> dict[str, float]:
    async with ours.coordinator(fresh(folder)) as opened:
        await ours.run_lanes(opened, 16, 16)
        cpu, wall = await timed(lambda: ours.run_lanes(opened, sagas, IN_FLIGHT))
    return {"sagas_a_second": sagas / wall, "cpu_ms": cpu / sagas * 1000}


def versions(python: str) -> dict[str, str]:
    program = "import importlib.metadata as m, sys, json; print(json.dumps({n: m.version(n) for n in sys.argv[1:]}))"
    told = subprocess.run([python, "-c", program, *PEERS], check=True, capture_output=True, text=True)
    found: dict[str, str] = json.loads(told.stdout)
    return found


def main(python: str) -> int:
    figures, ran, raw, mine = Figures(), dict[str, list[dict[str, float]]](), list[float](), list[dict[str, float]]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for _ in range(ROUNDS):
            raw.append(asyncio.run(raw_sagas_a_second(fresh(folder), 2048, IN_FLIGHT)))
            mine.append(asyncio.run(of_ours(folder, 2048)))
            for package, (module, sagas, _) in PEERS.items():
                ran.setdefault(package, []).append(of_peer(python, module, folder, sagas))
    best = max(one["sagas_a_second"] for one in mine)
    figures.shown("raw group commit", max(raw), "sagas/s")
    figures.shown(f"amends {version('amends')}", best, "sagas/s")
    figures.shown("the same", min(one["cpu_ms"] for one in mine), "ms CPU a saga")
    for package, found in versions(python).items():
        rate = max(one["sagas_a_second"] for one in ran[package])
        figures.shown(f"{package} {found}", rate, "sagas/s")
        figures.shown("the same", min(one["cpu_ms"] for one in ran[package]), "ms CPU a saga")
        figures.at_least(f"amends / {package}, sagas a second", best / rate, PEERS[package][2])
    Console(width=120).print(figures.table)
    return 1 if figures.missed else 0


sys.exit(main(sys.argv[1]))
