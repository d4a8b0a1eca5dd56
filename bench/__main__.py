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
from collections.abc import Awaitable, Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from amends import Coordinator
from bench import against, baselines, changesets, evidence, histories, judging, lists, ours, simulation, stalls, wakes

ROUNDS = 3


class Figures:
    """Rows of the table; remembers whether a bound was missed."""

    def __init__(self) -> None:
        self.table = Table(title="amends, against baselines of the same run", title_justify="left")
        for column in ("figure", "measured", "bound", ""):
            self.table.add_column(column, justify="right" if column in {"measured", "bound"} else "left")
        self.missed = 0

    def at_most(self, name: str, value: float, bound: float, unit: str = "x") -> None:
        self._row(name, f"{value:.2f} {unit}", f"<= {bound:g} {unit}", kept=value <= bound)

    def at_least(self, name: str, value: float, bound: float, unit: str = "x") -> None:
        self._row(name, f"{value:.2f} {unit}", f">= {bound:g} {unit}", kept=value >= bound)

    def _row(self, name: str, value: str, bound: str, *, kept: bool) -> None:
        self.missed += not kept
        self.table.add_row(name, value, bound, "ok" if kept else "MISSED")


def cpu_of(work: Callable[[], object]) -> float:
    gc.collect()
    since = time.process_time()
    work()
    return time.process_time() - since


async def timed(work: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    """CPU and wall seconds."""
    gc.collect()
    cpu, wall = time.process_time(), time.perf_counter()
    await work()
    return time.process_time() - cpu, time.perf_counter() - wall


def fresh(folder: Path) -> Path:
    return Path(tempfile.mkdtemp(dir=folder)) / "journal.db"


async def saga_costs(folder: Path, figures: Figures) -> None:
    """CPU per durable step and what judging has of it, throughput, commits."""
    reference, alone, busy, raw_rate, our_rate = [], [], [], [], []
    for _ in range(ROUNDS):
        reference.append(cpu_of(lambda: baselines.by_hand(fresh(folder), 200)) / (200 * baselines.STEPS))
        async with ours.coordinator(fresh(folder)) as opened:
            await ours.run_lanes(opened, 16, 16)
            cpu, _ = await timed(lambda: ours.run_lanes(opened, 200, 1))
            alone.append(cpu / (200 * baselines.STEPS))
            cpu, _ = await timed(lambda: ours.run_lanes(opened, 1024, 64))
            busy.append(cpu / (1024 * baselines.STEPS))
        writer = baselines.RawWriter(fresh(folder))

        async def raw_lanes(writer: baselines.RawWriter = writer) -> None:
            async def lane(first: int) -> None:
                for n in range(8):
                    await baselines.raw_saga(writer, f"saga-{first}-{n}")

            await asyncio.gather(*(lane(first) for first in range(256)))

        _, wall = await timed(raw_lanes)
        writer.close()
        raw_rate.append(2048 / wall)
        async with ours.coordinator(fresh(folder)) as opened:
            _, wall = await timed(lambda: ours.run_lanes(opened, 2048, 256))
            our_rate.append(2048 / wall)
    print(
        f"by hand {min(reference) * 1e6:.0f} us a step; ours alone {min(alone) * 1e6:.0f}, busy {min(busy) * 1e6:.0f}"
    )
    print(f"raw group commit {max(raw_rate):.0f} sagas/s, ours {max(our_rate):.0f}")
    figures.at_most("CPU per durable step, 64 sagas in flight / by hand", min(busy) / min(reference), 6)
    figures.at_most("CPU per durable step, one saga after another / by hand", min(alone) / min(reference), 10)
    figures.at_least("sagas a second, 256 in flight / raw group commit", max(our_rate) / max(raw_rate), 0.4)
    figures.at_most("a verdict by 20 rules / a durable step", judging.cost_s(20) / min(busy) * 100, 5, "%")
    figures.at_most("a verdict by 1,000 rules", judging.cost_s(1000) * 1e6, 50, "us CPU")
    async with ours.coordinator(fresh(folder)) as opened:
        await opened.run(ours.five, 0)
        before = ours.commits(opened)
        await opened.run(ours.five, 0)
        figures.at_most("commits of a five-step saga", ours.commits(opened) - before, baselines.STEPS + 1, "commits")


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
    few, many = [], []
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
    figures.at_most("disk per step", size / (2000 * baselines.STEPS) / 1024, 1.5, "KB")


async def evidence_costs(folder: Path, figures: Figures) -> None:
    """What the tree and the signatures add, and how fast a bundle is verified."""
    paths = [fresh(folder) for _ in range(2 * ROUNDS)]
    alone = await evidence.overhead(paths, 200, 1)
    busy = await evidence.overhead([fresh(folder) for _ in paths], 1024, 64)
    figures.at_most("CPU per durable step with evidence / without, one after another", alone, 1.25)
    figures.at_most("CPU per durable step with evidence / without, 64 in flight", busy, 1.25)
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


def memory_and_start(folder: Path, figures: Figures) -> None:
    told = subprocess.run(
        [sys.executable, "-m", "bench.in_flight", str(fresh(folder)), "10000"],
        check=True,
        capture_output=True,
        text=True,
    )
    figures.at_most("peak memory, 10,000 sagas in flight", int(told.stdout) / 1024, 600, "MB")
    starts = []
    for _ in range(9):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", "from amends import Coordinator"], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        with_it = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        bare = resource.getrusage(resource.RUSAGE_CHILDREN)
        starts.append(with_it - (bare.ru_utime + bare.ru_stime - after.ru_utime - after.ru_stime))
    figures.at_most("import amends, the least of nine", min(starts) * 1000, 150, "ms CPU")


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


def everything(folder: Path, figures: Figures) -> None:
    asyncio.run(saga_costs(folder, figures))
    asyncio.run(long_sagas(folder, figures))
    asyncio.run(families(folder, figures))
    asyncio.run(many_sagas(folder, figures))
    asyncio.run(evidence_costs(folder, figures))
    asyncio.run(values(folder, figures))
    asyncio.run(agent_loops(folder, figures))
    asyncio.run(growth(folder, figures))
    simulated(figures)
    recovery(folder, figures)
    memory_and_start(folder, figures)


def main() -> int:
    figures = Figures()
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as name:
        folder = Path(name)
        match sys.argv[1:]:
            case []:
                everything(folder, figures)
            case ["changesets"]:
                changesets.measured(folder, figures)
            case ["families"]:
                asyncio.run(families(folder, figures))
            case ["growth"]:
                asyncio.run(growth(folder, figures))
            case ["values"]:
                asyncio.run(values(folder, figures))
            case ["histories"]:
                asyncio.run(agent_loops(folder, figures))
            case ["against", revision]:
                against.measured(figures, revision)
            case _:
                raise SystemExit(
                    "make bench, with ARGS=changesets, families, growth, histories or values, "
                    'with ARGS="against REVISION", or without'
                )
    Console(width=110).print(figures.table)
    return 1 if figures.missed else 0


if __name__ == "__main__":
    sys.exit(main())
