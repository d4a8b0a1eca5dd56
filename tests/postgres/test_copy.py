"""`amends journal copy`: a file to PostgreSQL and back, with nothing lost, nothing doubled and nobody signing twice."""

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from amends import Coordinator, Done, Fatal, Settings, Work, action, saga
from amends.addresses import open_journal, transfer
from amends.clock import SystemClock
from amends.core.words.values import SagaId
from amends.errors import JournalMovedError, RefusedError
from amends.journal.port.evidence import Stored
from amends.journal.port.lists import PersonQuery, SagaQuery
from amends.journal.port.transfer import ARRIVING, COMPLETE, COPYING, MOVED, TABLES, CopyMark, chunks
from amends.operate import copying
from tests.postgres.test_in_use import command

SETTINGS = Settings(park_s=0.1)


@action("paper.write", idempotent=True)
async def write(text: str) -> str:
    return text


@write.compensation
async def unwrite(done: Done) -> None:
    if "page 2" in str(done.args["text"]):
        raise RuntimeError("no answer")


@saga("paper.make", compensation_attempts=1)
async def make(s: Work, number: int) -> str:
    await s.do(write, f"page {number} " + "x" * 3000)
    if number in {1, 2}:
        raise Fatal("torn")
    if number == 4:
        await s.wait_for("go", 3600)
    return f"done {number}"


async def fill(address: str) -> None:
    """One completed and emptied since, one taken back, one that needs a person, one that waits."""
    async with Coordinator.open(address, settings=SETTINGS) as coordinator:
        for n in range(4):
            await coordinator.run(make, n, id=f"s{n}", labels={"team": "travel", "odd": str(n % 2)})
        await (await coordinator.start(make, 4, id="s4")).halt()
        journal = coordinator.journal
        await journal.move_cursor("mail", 3, note="so far")
        await journal.remove_payloads(by="person:ann", why="old", ended_before=2**50, sagas={SagaId("s3")})


async def run(address: str, number: int) -> None:
    async with Coordinator.open(address, settings=SETTINGS) as coordinator:
        ended = await coordinator.run(make, number, id=f"s{number}")
    assert ended.status == "completed"


async def whole(address: str) -> tuple[list[Stored], object]:
    journal = await open_journal(address, SystemClock(), signs=False)
    try:
        stored = [one async for one in journal.stored()]
        rows = (await journal.sagas(SagaQuery())).rows
        incidents = (await journal.incidents(PersonQuery(open_only=False))).rows
        heads = [one async for one in journal.tree_heads()]
        labelled = (await journal.sagas(SagaQuery(labels=(("team", "travel"),)))).rows
        rest = (await journal.signers(), await journal.cursors("mail"), (await journal.tree()).root)
        return stored, (rows, incidents, heads, labelled, rest)
    finally:
        await journal.close()


def verify(address: str) -> None:
    done = command("evidence", "verify", "--journal", address)
    assert (done.returncode, "as it was signed" in done.stdout) == (0, True), done.stdout + done.stderr


def test_a_journal_goes_to_postgresql_and_back_byte_for_byte_and_its_sagas_go_on(
    address: str, environment: dict[str, str], tmp_path: Path
) -> None:
    first, last = str(tmp_path / "first.db"), str(tmp_path / "last.db")
    asyncio.run(fill(first))
    before = asyncio.run(whole(first))
    done = asyncio.run(copying.copy(first, address))
    assert done.entries == len(before[0])
    assert asyncio.run(whole(address)) == before
    assert asyncio.run(whole(first)) == before, "the source can still be read"
    with pytest.raises(RefusedError, match=r"was moved there already, and all of it is there: open postgresql://127"):
        asyncio.run(copying.copy(first, address))
    with pytest.raises(JournalMovedError, match=r"was moved to postgresql://127"):
        asyncio.run(run(first, 9))
    asyncio.run(run(address, 5))
    verify(address)
    again = asyncio.run(whole(address))
    asyncio.run(copying.copy(address, last))
    assert asyncio.run(whole(last)) == again
    with pytest.raises(JournalMovedError, match=r"was moved to .*last\.db"):
        asyncio.run(run(address, 9))
    for place in (address, first):
        with pytest.raises(RefusedError, match=r"is sealed: it was moved to .* itself; name an empty place"):
            asyncio.run(copying.copy(last, place))

    async def end() -> None:
        async with Coordinator.open(last, settings=SETTINGS) as coordinator:
            await coordinator.signal("s4", "go")
            async with asyncio.timeout(20):
                while (row := await coordinator.journal.saga(SagaId("s4"))) is None or row.status != "completed":
                    await coordinator.resume()
                    await asyncio.sleep(0.05)

    asyncio.run(end())
    asyncio.run(run(last, 6))
    verify(last)


@pytest.mark.parametrize("to", ["postgres", "file"])
@pytest.mark.parametrize("until", ["marked", "half", "complete", "moved"])
def test_a_copy_that_is_interrupted_goes_on_and_is_never_half_used(
    address: str, environment: dict[str, str], tmp_path: Path, until: str, to: str
) -> None:
    source, target = str(tmp_path / "first.db"), address
    asyncio.run(fill(source))
    if to == "file":
        asyncio.run(copying.copy(source, address))
        source, target = address, str(tmp_path / "other.db")
    before = asyncio.run(whole(source))
    from_place, to_place = copying.place(source), copying.place(target)
    with closing(transfer(source)) as ours, closing(transfer(target)) as theirs:
        theirs.set_mark(CopyMark(ARRIVING, from_place))
        ours.freeze(CopyMark(COPYING, to_place))
        tables = {"marked": [], "half": ["saga", "entry"]}.get(until, list(TABLES))
        for table in tables:
            for rows in chunks(ours.rows(table), 7):
                theirs.add(table, rows)
        if until in {"complete", "moved"}:
            theirs.set_mark(CopyMark(COMPLETE, from_place))
        if until == "moved":
            ours.freeze(CopyMark(MOVED, to_place))
    for place in (source, target):
        with pytest.raises(JournalMovedError):
            asyncio.run(run(place, 9))
    with pytest.raises(RefusedError):
        asyncio.run(copying.copy(source, str(tmp_path / "elsewhere.db")))
    asyncio.run(copying.copy(source, target))
    assert asyncio.run(whole(target)) == before
    asyncio.run(run(target, 7))


def test_a_copy_can_be_thrown_away_as_long_as_it_is_not_complete(
    address: str, environment: dict[str, str], tmp_path: Path
) -> None:
    source = str(tmp_path / "first.db")
    asyncio.run(fill(source))
    with pytest.raises(RefusedError, match="no copy of"):
        copying.abandon(source, address)
    with closing(transfer(source)) as ours, closing(transfer(address)) as theirs:
        theirs.set_mark(CopyMark(ARRIVING, copying.place(source)))
        ours.freeze(CopyMark(COPYING, copying.place(address)))
        for rows in chunks(ours.rows("saga"), 100):
            theirs.add("saga", rows)
    done = command("journal", "copy", source, address, "--abandon")
    assert done.returncode == 0, done.stderr
    asyncio.run(run(source, 7))
    asyncio.run(run(address, 8))
    with pytest.raises(RefusedError, match="holds sagas already"):
        asyncio.run(copying.copy(source, address))


def test_a_journal_with_living_workers_is_not_copied_and_the_command_says_what_it_did(
    address: str, environment: dict[str, str], tmp_path: Path
) -> None:
    source = str(tmp_path / "first.db")
    asyncio.run(fill(source))

    async def beside() -> None:
        async with Coordinator.open(source, settings=SETTINGS) as coordinator:
            with pytest.raises(RefusedError, match="1 worker of"):
                await copying.copy(source, address)
            assert (await coordinator.run(make, 7)).status == "completed"

    asyncio.run(beside())
    done = command("journal", "copy", source, address)
    assert done.returncode == 0, done.stderr
    assert "is sealed" in done.stdout
    verify(address)
    left = command("doctor", "--journal", source)
    assert "this journal was moved to postgresql://" in " ".join(left.stdout.split())
    assert "open that one" in left.stdout
    assert "moved" not in command("doctor", "--journal", address).stdout
    assert asyncio.run(copying.copy(address, last := str(tmp_path / "last.db"))).entries
    assert f"was moved to {last}, and is shown as it was" in command("saga", "list", "--journal", address).stderr
    assert command("saga", "list", "--journal", last).stderr == ""
