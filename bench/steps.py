"""What a durable step costs: CPU beside code by hand, sagas a second beside a bare writer, one saga alone, calls."""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from pathlib import Path

from bench import baselines, judging, ours
from bench.figures import ROUNDS, Figures, cpu_of, fresh, timed
from tests.runtime.test_calls import MOST_CALLS, counted, in_a_fresh_process

SAGAS = 200
PAIRS = 150


def measured(folder: Path, figures: Figures) -> None:
    asyncio.run(one_after_another(folder, figures))
    asyncio.run(in_flight(folder, figures))
    asyncio.run(latency(folder, figures))
    calls(folder, figures)


async def one_after_another(folder: Path, figures: Figures) -> None:
    """CPU per step, forward and with four compensations; the rollback of a five-step saga; its commits."""
    by_hand, by_hand_back, alone, back, ratio = [], [], [], [], []
    for _ in range(ROUNDS + 2):
        by_hand.append(cpu_of(lambda: baselines.by_hand(fresh(folder), SAGAS)))
        by_hand_back.append(cpu_of(lambda: baselines.by_hand_and_back(fresh(folder), SAGAS // 2)))
        async with ours.coordinator(fresh(folder)) as opened:
            await ours.run_lanes(opened, 16, 16)
            alone.append((await timed(lambda: ours.run_lanes(opened, SAGAS, 1)))[0])
            back.append((await timed(lambda: ours.run_back(opened, SAGAS // 2)))[0])
            gc.collect()
            forward_s, back_s = await ours.forward_and_back_s(opened, SAGAS // 2)
            ratio.append(back_s / forward_s)
    steps = SAGAS * baselines.STEPS
    print(
        f"one saga after another, us CPU a step: by hand {min(by_hand) / steps * 1e6:.0f}, ours "
        f"{min(alone) / steps * 1e6:.0f}; with four compensations {min(by_hand_back) / steps * 2e6:.0f} and "
        f"{min(back) / steps * 2e6:.0f}"
    )
    held(figures, "CPU per durable step, one saga after another / by hand", min(alone) / min(by_hand), 3.0, 2.4)
    held(figures, "the same where the fifth fails and four are compensated", min(back) / min(by_hand_back), 3.0, 2.6)
    figures.at_most("rollback of a five-step saga / going forward", min(ratio), 1.3)
    async with ours.coordinator(fresh(folder)) as opened:
        await opened.run(ours.five, 0)
        before = ours.commits(opened)
        await opened.run(ours.five, 0)
        figures.at_most("commits of a five-step saga", ours.commits(opened) - before, baselines.STEPS + 1, "commits")


async def in_flight(folder: Path, figures: Figures) -> None:
    """Many sagas at once: CPU per step, what judging has of it, and sagas a second."""
    by_hand, busy, raw_rate, our_rate = [], [], [], []
    for _ in range(ROUNDS):
        by_hand.append(cpu_of(lambda: baselines.by_hand(fresh(folder), SAGAS)) / (SAGAS * baselines.STEPS))
        raw_rate.append(await raw_sagas_a_second(fresh(folder), 2048, 256))
        async with ours.coordinator(fresh(folder)) as opened:
            cpu, _ = await timed(lambda: ours.run_lanes(opened, 1024, 64))
            busy.append(cpu / (1024 * baselines.STEPS))
        async with ours.coordinator(fresh(folder)) as opened:
            _, wall = await timed(lambda: ours.run_lanes(opened, 2048, 256))
            our_rate.append(2048 / wall)
    print(f"64 in flight, us CPU a step: {min(busy) * 1e6:.0f}")
    print(f"256 in flight, sagas a second: raw group commit {max(raw_rate):.0f}, ours {max(our_rate):.0f}")
    figures.at_most("CPU per durable step, 64 sagas in flight / by hand", min(busy) / min(by_hand), 1.5)
    rate = max(our_rate) / max(raw_rate)
    figures.at_least("sagas a second, 256 in flight / raw group commit", rate, 0.2)
    figures.goal("sagas a second, 256 in flight / raw group commit", rate, 0.3, at_least=True)
    figures.at_most("a verdict by 20 rules / a durable step", judging.cost_s(20) / min(busy) * 100, 5, "%")
    figures.at_most("a verdict by 1,000 rules", judging.cost_s(1000) * 1e6, 50, "us CPU")


async def raw_sagas_a_second(path: Path, sagas: int, at_once: int) -> float:
    writer = baselines.RawWriter(path)

    async def lane(first: int) -> None:
        for n in range(sagas // at_once):
            await baselines.raw_saga(writer, f"saga-{first}-{n}")

    async def lanes() -> None:
        await asyncio.gather(*(lane(first) for first in range(at_once)))

    _, wall = await timed(lanes)
    writer.close()
    return sagas / wall


async def latency(folder: Path, figures: Figures) -> None:
    """One saga alone and six bare commits, in turns, because the disk has its moods."""
    alone, bare = [], []
    writer = baselines.RawWriter(fresh(folder))
    async with ours.coordinator(fresh(folder)) as opened:
        await ours.run_lanes(opened, 16, 16)
        gc.collect()
        for n in range(PAIRS):
            since = time.perf_counter()
            await baselines.bare_commits(writer, f"bare-{n}")
            between = time.perf_counter()
            await opened.run(ours.five, n)
            bare.append(between - since)
            alone.append(time.perf_counter() - between)
    writer.close()
    ours_s, bare_s = statistics.median(alone), statistics.median(bare)
    print(f"one saga alone, p50: {ours_s * 1e3:.2f} ms; six bare commits {bare_s * 1e3:.2f} ms")
    held(figures, "one saga alone, p50 / six bare commits by a writer's thread", ours_s / bare_s, 3, 1.7)


def calls(folder: Path, figures: Figures) -> None:
    """Functions that a step calls, as the test of it counts them."""
    few, more = (in_a_fresh_process(counted, str(fresh(folder)), steps) for steps in (20, 60))
    figures.at_most("calls of a step", (more - few) / 40, MOST_CALLS, "calls")


def held(figures: Figures, name: str, value: float, bound: float, aim: float) -> None:
    """A bound that is kept, and beside it what is aimed at."""
    figures.at_most(name, value, bound, "x")
    figures.goal(name, value, aim, "x")
