"""A journal of 0.1 is read, and what is read would be written again byte for byte: see golden.py."""

import asyncio
import gzip
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from amends.evidence.verify.examine import Conclusion
from amends.evidence.verify.verify import verify_journal
from amends.journal import codec
from amends.journal.port.evidence import Stored
from amends.journal.sqlite import SqliteJournal
from amends.testing.clock import ManualClock
from tests.evidence.given import conclusion
from tests.journal.golden import BUNDLE, JOURNAL, KEY, unpacked


async def stored(path: Path) -> tuple[list[Stored], dict[str, str]]:
    journal = await SqliteJournal.open(path, ManualClock())
    entries = [entry async for entry in journal.stored()]
    await journal.close()
    with closing(sqlite3.connect(path)) as database:
        payloads = dict(database.execute("SELECT digest, data FROM blob").fetchall())
    return entries, payloads


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Stored], dict[str, str]]:
    return asyncio.run(stored(unpacked(JOURNAL, tmp_path_factory.mktemp("golden", numbered=True) / "journal.db")))


def test_every_wire_name_is_in_it(golden: tuple[list[Stored], dict[str, str]]) -> None:
    written = {entry.name for entry in golden[0]}
    assert {name for name in codec.WIRE if name not in written} <= ONLY_BY_A_STORE


ONLY_BY_A_STORE = frozenset(
    {"content.removed/1", "person.enrolled/1", "person.revoked/1", "token.made/1", "token.revoked/1"}
)
"""And those that 0.1 did not have yet."""


def test_each_entry_is_read_and_spelled_again_byte_for_byte(golden: tuple[list[Stored], dict[str, str]]) -> None:
    entries, payloads = golden
    assert len(payloads) > 20
    for entry in entries:
        wire = codec.encode(codec.decode(entry.name, entry.body, payloads))
        assert (wire.name, wire.body) == (entry.name, entry.body)
        assert {name: payloads[name] for name in wire.blobs} == dict(wire.blobs)


def test_each_saga_is_chained_as_it_was(golden: tuple[list[Stored], dict[str, str]]) -> None:
    before: dict[str, bytes] = {}
    for entry in golden[0]:
        previous = before.get(entry.saga, codec.FIRST)
        assert codec.chain(previous, entry.saga, entry.number, entry.at, entry.name, entry.body) == entry.hash
        before[entry.saga] = entry.hash


def test_the_tree_and_its_signature_hold(tmp_path: Path) -> None:
    async def verified() -> Conclusion:
        journal = await SqliteJournal.open(unpacked(JOURNAL, tmp_path / "journal.db"), ManualClock())
        report = await verify_journal(journal, KEY.read_text(encoding="utf-8").strip(), reads_sagas=False)
        await journal.close()
        return report.conclusion

    assert asyncio.run(verified()) is Conclusion.COVERED


def test_both_verifiers_find_its_bundle_as_it_was_signed() -> None:
    assert conclusion(gzip.decompress(BUNDLE.read_bytes()), KEY.read_text(encoding="utf-8").strip()) == "covered"
