"""An agent hands its whole history to the model on every turn; the journal grows by what is new, and proves it all."""

from __future__ import annotations

import asyncio
import io
import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from amends import Coordinator, Secret, Work, action, saga
from amends.core.events import ActionDispatched, AttemptSucceeded, StepProposed
from amends.core.words.values import SagaId, canonical
from amends.errors import JournalDamagedError
from amends.evidence import standalone
from amends.evidence.bundle import export
from amends.evidence.verify.verify import verify_bundle, verify_journal

WORDS = ("flight", "hotel", "Lisbon,", "refund", "is", "booked.", "the", "a", "number", "\n")
Messages = list[dict[str, str]]


def said(turn: int, length: int) -> str:
    words = random.Random(turn)
    return " ".join(f"{words.choice(WORDS)} {words.randrange(10_000)}" for _ in range(length // 8))[:length]


@action("llm.next", read_only=True)
async def ask(messages: Messages, turn: int) -> str:
    return said(turn, 2_000)


@saga("agent.loop")
async def loop(s: Work, turns: int, window: int | None = None) -> int:
    messages: Messages = [{"role": "system", "content": said(-1, 3_000)}]
    for turn in range(turns):
        seen = messages if window is None else [messages[0], *messages[1:][-window:]]
        answer: str = await s.do(ask, seen, turn)
        messages.append({"role": "assistant", "content": answer})
    return len(messages)


def size_of(path: Path) -> int:
    return sum(file.stat().st_size for file in path.parent.iterdir() if file.name.startswith(path.name))


async def run(path: Path, turns: int, window: int | None = None) -> int:
    """How many bytes the journal takes after so many turns."""
    async with Coordinator.open(str(path)) as coordinator:
        ended = await coordinator.run(loop, turns, window, id="agent")
        assert (ended.status, ended.result) == ("completed", turns + 1)
    return size_of(path)


def test_two_hundred_turns_cost_four_times_as_much_as_fifty_and_a_few_times_the_text(tmp_path: Path) -> None:
    few = asyncio.run(run(tmp_path / "few.db", 50))
    many = asyncio.run(run(tmp_path / "many.db", 200))
    assert many < 4.5 * few
    assert many < 5 * 200 * 2_000


def test_a_window_over_the_newest_messages_costs_what_is_new(tmp_path: Path) -> None:
    assert asyncio.run(run(tmp_path / "window.db", 80, 20)) < 5 * 80 * 2_000


@pytest.fixture(name="journal", scope="module")
def _journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("loop") / "journal.db"
    asyncio.run(run(path, 30))
    return path


def copy_of(journal: Path, folder: Path) -> Path:
    for name in (journal.name, f"{journal.name}.key"):
        (folder / name).write_bytes((journal.parent / name).read_bytes())
        (folder / name).chmod(0o600)
    return folder / journal.name


def test_each_turn_is_read_back_as_the_model_was_asked(journal: Path) -> None:
    async def turns() -> list[Any]:
        async with Coordinator.open(str(journal)) as coordinator:
            entries = [entry.event async for entry in coordinator.journal.read(SagaId("agent"))]
        answers = [one.result for one in entries if isinstance(one, AttemptSucceeded)]
        assert answers == [said(turn, 2_000) for turn in range(30)]
        return [one.args for one in entries if isinstance(one, (StepProposed, ActionDispatched))]

    asked = asyncio.run(turns())
    assert [len(one["messages"]) for one in asked] == list(range(1, 31))
    assert asked[-1]["messages"][1:] == [{"role": "assistant", "content": said(turn, 2_000)} for turn in range(29)]


def test_a_bundle_of_it_is_verified_by_both_and_no_part_can_be_changed_or_left_out(journal: Path) -> None:
    async def exported() -> tuple[str, list[str]]:
        async with Coordinator.open(str(journal)) as coordinator:
            assert (await verify_journal(coordinator.journal)).conclusion == "covered"
            (signer,) = await coordinator.journal.signers()
            return signer.key, [line async for line in export(coordinator.journal, ["agent"])]

    key, lines = asyncio.run(exported())
    assert '"format":"amends.evidence/2"' in lines[0]
    whole = "".join(lines).encode()
    assert len(whole) < 5 * 30 * 2_000
    assert verdicts(whole, key) == ["covered", "covered"]
    for place in [place for place, line in enumerate(lines) if line.endswith('"type":"payload"}\n')][::7]:
        assert verdicts("".join([*lines[:place], *lines[place + 1 :]]).encode(), key) == ["failed", "failed"]
        other = lines[place].replace("4", "5")
        assert verdicts("".join([*lines[:place], other, *lines[place + 1 :]]).encode(), key) == ["failed", "failed"]


def verdicts(bundle: bytes, key: str) -> list[str]:
    ours = verify_bundle(io.BytesIO(bundle), key).conclusion
    alone = standalone.Verification(io.BytesIO(bundle), key).report()["conclusion"]
    return [str(ours), str(alone)]


@pytest.mark.parametrize(
    "edit",
    [
        "DELETE FROM blob WHERE id = ?",
        "UPDATE blob SET data = data || ' ' WHERE id = ?",
        'UPDATE blob SET data = \'+["","\' || digest || \'",""]\' WHERE id = ?',
        "UPDATE blob SET data = (SELECT data FROM blob AS other WHERE other.id <> blob.id LIMIT 1) WHERE id = ?",
    ],
)
def test_a_part_that_somebody_changed_is_seen_and_named(journal: Path, tmp_path: Path, edit: str) -> None:
    path = copy_of(journal, tmp_path)
    database = sqlite3.connect(path)
    ((last,),) = database.execute("SELECT max(id) FROM blob")
    for part in (1, last // 2, last):
        database.execute(edit, (part,))
        database.commit()
        says = asyncio.run(damage(path))
        assert says.startswith("saga agent, entry ")
        assert "its part " in says
        database.execute("DELETE FROM blob")
        database.execute("ATTACH ? AS kept", (str(journal),))
        database.execute("INSERT INTO blob SELECT * FROM kept.blob")
        database.commit()
        database.execute("DETACH kept")
    database.close()


async def damage(path: Path) -> str:
    """What a reader is told; and the verifier that goes over the journal names the same entry."""
    async with Coordinator.open(str(path)) as coordinator:
        with pytest.raises(JournalDamagedError) as refused:
            _ = [entry async for entry in coordinator.journal.read(SagaId("agent"))]
        report = await verify_journal(coordinator.journal)
        assert report.conclusion == "failed"
        assert len(report.altered)
    return str(refused.value)


def test_a_secret_is_in_no_part(tmp_path: Path) -> None:
    @saga("agent.with.secret")
    async def hidden(s: Work) -> None:
        await s.do(remember, {"messages": [said(1, 3_000), Secret("hunter2-hunter2"), said(2, 3_000)]})

    async def live() -> None:
        async with Coordinator.open(str(tmp_path / "journal.db")) as coordinator:
            assert (await coordinator.run(hidden)).status == "completed"

    asyncio.run(live())
    database = sqlite3.connect(tmp_path / "journal.db")
    parts = [data for (data,) in database.execute("SELECT data FROM blob")]
    database.close()
    assert any("$secret" in part for part in parts)
    assert not any("hunter2" in part for part in parts)


@action("agent.remember", read_only=True)
async def remember(about: Any) -> int:
    return len(canonical(about["messages"][0]))
