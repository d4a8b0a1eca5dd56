"""`make bench`: one run, every figure a ratio, beside the bound that it should keep."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from amends import Coordinator
from bench import (
    against,
    baselines,
    changesets,
    evidence,
    histories,
    lists,
    ours,
    simulation,
    stalls,
    steps,
    wakes,
)
from bench.figures import ROUNDS, Figures, fresh


async def long_sagas(folder: Path, figures: Figures) -> None:
    """Rollback against forward; step 10,000 against step 100."""
    back, late = [], []
    for _ in range(ROUNDS):
        ours.MARKS.clear()
        async with ours.coordinator(fresh(folder)) as opened:
            since = time.process_time()
            await opened.run(ours.long, 1000, [], fail=True)
            forward, rest = ours.MARKS[0] - since, time.process_time() - ours.MARKS[0]
            back.append(rest / forward)
            ours.MARKS.clear()
            await opened.run(ours.long, 10_000, [100, 1100, 9000], fail=False)
            early, _, late_from, end = ours.MARKS[0], *ours.MARKS[1:]
            late.append((end - late_from) / (ours.MARKS[1] - early))
    figures.at_most("rollback of 1,000 steps / going forward", min(back), 1.5)
    figures.at_most("CPU of steps 9,000-10,000 / of steps 100-1,100", min(late), 1.3)


async def families(folder: Path, figures: Figures) -> None:
    """What it costs to take back one child of many, against one child of few."""
    few: list[float] = []
    many: list[float] = []
    async with ours.coordinator(fresh(folder)) as opened:
        for children in (100, 1_000, 100, 100):
            (few if children == 100 else many).append(await rollback_s(opened, children))
    print(f"a child is taken back in {min(few) * 1e6:.0f} us CPU of 100, in {min(many) * 1e6:.0f} of 1,000")
    figures.at_most("rollback of each of 1,000 children / of each of 100", min(many) / min(few), 1.5)


async def rollback_s(opened: Coordinator, children: int) -> float:
    """CPU for each child, with its own compensation."""
    ours.MARKS.clear()
    gc.collect()
    ended = await opened.run(ours.family, children)
    if ended.status != "rolled_back":
        raise AssertionError(ended)
    return (time.process_time() - ours.MARKS[0]) / children


async def many_sagas(folder: Path, figures: Figures) -> None:
    """Lists among many, disk per step, recovery, memory."""
    small, large = await lists.page_times(fresh(folder), 3_000), await lists.page_times(fresh(folder), 200_000)
    worst = max(large[name] / small[name] for name in small)
    figures.at_most("a list page among 200,000 sagas / among 3,000", worst, 3)
    path = fresh(folder)
    async with ours.coordinator(path) as opened:
        await ours.run_lanes(opened, 2000, 50)
    size = sum(file.stat().st_size for file in path.parent.iterdir())
    figures.at_most("disk per step", size / (2000 * baselines.STEPS), 691, "bytes")


async def evidence_costs(folder: Path, figures: Figures) -> None:
    """What the tree and the signatures add, and how fast a bundle is verified."""
    alone = await evidence.cost([fresh(folder) for _ in range(2 * ROUNDS)], 200, 1)
    busy = await evidence.cost([fresh(folder) for _ in range(2 * ROUNDS)], 1024, 64)
    for name, cost in (("one after another", alone), ("64 in flight", busy)):
        figures.at_most(f"CPU per durable step with evidence / without, {name}", cost.with_it_s / cost.without_s, 1.25)
        figures.shown(f"CPU of evidence, {name}", (cost.with_it_s - cost.without_s) * 1e6, "us a step")
        figures.shown(f"bytes of evidence, {name}", cost.with_it_bytes - cost.without_bytes, "bytes a step")
    figures.shown("bytes of a step, 64 in flight", busy.with_it_bytes, "bytes")
    bundle, key = await evidence.bundle(fresh(folder), 4096)
    rate = max(evidence.verified_a_second(bundle, key) for _ in range(ROUNDS))
    figures.at_least("entries verified offline in a second of CPU", rate, 100_000, "entries")


def recovery(folder: Path, figures: Figures) -> None:
    path = fresh(folder)
    started = subprocess.run([sys.executable, "-m", "bench.interrupted", str(path), "10000"], check=False)
    if started.returncode != -9:
        raise AssertionError(f"the child that was to be killed ended with {started.returncode}")
    told = subprocess.run(
        [sys.executable, "-m", "bench.recovered", str(path)], check=True, capture_output=True, text=True
    )
    count, seconds = told.stdout.split()
    figures.at_least("10,000 interrupted sagas, recovered a second", int(count) / float(seconds), 500, "sagas")
    if int(count) != 10_000:
        raise AssertionError(f"{count} of 10,000 sagas were recovered")


def memory(folder: Path, figures: Figures) -> None:
    told = subprocess.run(
        [sys.executable, "-m", "bench.in_flight", str(fresh(folder)), "10000"],
        check=True,
        capture_output=True,
        text=True,
    )
    figures.at_most("peak memory, 10,000 sagas in flight", int(told.stdout) / 1024, 600, "MB")


def start(folder: Path, figures: Figures) -> None:
    """What it costs to begin: the package, the command line, and a command that looks at one saga."""
    path = fresh(folder)
    saga = asyncio.run(_one_saga(path))
    command = [sys.executable, "-m", "amends"]
    programs = {
        "nothing": [sys.executable, "-c", "pass"],
        "package": [sys.executable, "-c", "from amends import Coordinator"],
        "bare": [sys.executable, "-c", "import click, apsw"],
        "help": [*command, "--help"],
        "show": [*command, "saga", "show", saga, "--journal", str(path)],
    }
    costs = {name: min(taken) for name, taken in _cpu_of_programs(programs, 9).items()}
    figures.at_most("import amends, the least of nine", (costs["package"] - costs["nothing"]) * 1000, 150, "ms CPU")
    figures.at_most("amends --help / python -c 'import click, apsw'", costs["help"] / costs["bare"], 1.3)
    figures.at_most("amends saga show ID / python -c 'import click, apsw'", costs["show"] / costs["bare"], 2.5)


async def _one_saga(path: Path) -> str:
    async with ours.coordinator(path) as opened:
        return (await opened.run(ours.five, 1)).id


def _cpu_of_programs(programs: dict[str, list[str]], rounds: int) -> dict[str, list[float]]:
    """CPU seconds of each, run in turn, so that what disturbs the machine disturbs them alike."""
    taken: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(rounds):
        for name, words in programs.items():
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            taken[name].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return taken


async def values(folder: Path, figures: Figures) -> None:
    """The longest stall of the loop by a value that an action returns."""
    for name, made in (*stalls.REFUSED.items(), *stalls.KEPT.items()):
        for in_a_thread in (True, False):
            both = [await stalls.stalls(fresh(folder), made, in_a_thread=in_a_thread) for _ in range(ROUNDS)]
            given, what = min(one for _, one in both), f"longest stall, {name} from a "
            what += "thread" if in_a_thread else "coroutine"
            if name in stalls.KEPT:
                by_hand = min(stalls.spelled_s(made) for _ in range(ROUNDS))
                figures.at_most(f"{what}, kept / json.dumps and SHA-256", given / by_hand, 1.5)
            else:
                figures.at_most(f"{what} / made and dropped", given / min(one for one, _ in both), 3)


async def agent_loops(folder: Path, figures: Figures) -> None:
    """What a journal takes whose agent hands its whole history to the model on every turn."""
    few, many = await histories.bytes_of(fresh(folder), 50), await histories.bytes_of(fresh(folder), 200)
    print(f"a history of 2 KB a turn takes {few / 50 / 1024:.1f} KB a turn at 50 turns, {many / 200 / 1024:.1f} at 200")
    figures.at_most("disk of 200 turns with all history / of 50 turns", many / few, 4.5)
    figures.at_most("disk of 200 turns with all history / its text", many / (200 * histories.TEXT), 5)


async def growth(folder: Path, figures: Figures) -> None:
    """What should cost the same however much there is of it."""
    ratio, commits = await wakes.costs(fresh(folder), 100, 10_000)
    figures.at_most("CPU of one of 10,000 wake-ups at once / of one of 100", ratio, 1.5)
    figures.at_most("commits of one of 10,000 wake-ups at once", commits, 0.2, "commits")
    few, many = [await evidence.of_one_saga(fresh(folder), among) for among in (1_000, 50_000)]
    print(f"a bundle of one saga takes {few * 1e3:.1f} ms CPU among 1,000, {many * 1e3:.1f} among 50,000")
    figures.at_most("a bundle of one saga among 50,000 / among 1,000", many / few, 3)
    figures.at_most("a file of small sagas, pruned / before", await evidence.pruned(fresh(folder), 1_500), 0.75)


def simulated(figures: Figures) -> None:
    schedule_s, undisturbed_s = simulation.schedule_s(), simulation.undisturbed_s()
    figures.at_most("a simulated schedule of a five-step saga / that saga undisturbed", schedule_s / undisturbed_s, 8)
    figures.at_most("a simulated schedule of a five-step saga", schedule_s * 1000, 5, "ms CPU")


PARTS: dict[str, Callable[[Path, Figures], None]] = {
    "steps": steps.measured,
    "long": lambda folder, figures: asyncio.run(long_sagas(folder, figures)),
    "families": lambda folder, figures: asyncio.run(families(folder, figures)),
    "lists": lambda folder, figures: asyncio.run(many_sagas(folder, figures)),
    "evidence": lambda folder, figures: asyncio.run(evidence_costs(folder, figures)),
    "values": lambda folder, figures: asyncio.run(values(folder, figures)),
    "histories": lambda folder, figures: asyncio.run(agent_loops(folder, figures)),
    "growth": lambda folder, figures: asyncio.run(growth(folder, figures)),
    "simulation": lambda _, figures: simulated(figures),
    "recovery": recovery,
    "memory": memory,
    "start": start,
}
"""What a bench without a word measures, in this order."""


def main() -> int:
    figures = Figures()
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as name:
        folder = Path(name)
        match sys.argv[1:]:
            case []:
                for part in PARTS.values():
                    part(folder, figures)
            case ["changesets"]:
                changesets.measured(folder, figures)
            case ["against", revision, *goals] if len(goals) in {0, 2}:
                against.measured(figures, revision, *map(float, goals))
            case [name] if name in PARTS:
                PARTS[name](folder, figures)
            case _:
                raise SystemExit(
                    f"make bench, without ARGS or with one of: {', '.join(PARTS)}, changesets; "
                    'with ARGS="against REVISION", or "against REVISION INSTRUCTIONS CPU" with what is aimed at'
                )
    Console(width=110).print(figures.table)
    return 1 if figures.missed else 0


if __name__ == "__main__":
    sys.exit(main())
