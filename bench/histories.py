"""What the journal takes for each turn of an agent that hands its whole history to the model."""

from __future__ import annotations

import random
from pathlib import Path

from amends import Coordinator, Work, action, saga

TEXT = 2_000
WORDS = ("flight", "hotel", "refund", "Lisbon,", "is", "booked.", "the", "number", "\n")


def said(turn: int) -> str:
    words = random.Random(turn)
    return " ".join(f"{words.choice(WORDS)} {words.randrange(10_000)}" for _ in range(TEXT // 6))[:TEXT]


@action("bench.ask", read_only=True)
async def ask(messages: list[dict[str, str]], turn: int) -> str:
    return said(turn)


@saga("bench.history")
async def history(s: Work, turns: int) -> None:
    messages: list[dict[str, str]] = []
    for turn in range(turns):
        messages.append({"role": "assistant", "content": await s.do(ask, messages, turn)})


async def bytes_of(path: Path, turns: int) -> int:
    """All files of the journal after so many turns of 2 KB."""
    async with Coordinator.open(str(path)) as coordinator:
        await coordinator.run(history, turns)
    return sum(file.stat().st_size for file in path.parent.iterdir())
