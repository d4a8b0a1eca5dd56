"""A journal of 1,000 entries is edited in every way that we can think of, and not one edit goes unseen.

Two verifiers look: ours, and the one that stands alone; they have to agree. Where an edit touches what nobody has
signed yet, it has to be named as unattested. What is tried is counted, and said at the end of the run. By default:

- every byte of every entry's line, flipped: each line is read and held against its chain, as in a whole run;
- every byte of two whole small bundles, flipped: the full way, by both verifiers, with and without a mended end;
- every entry deleted, doubled, swapped with its neighbour, rewritten with all hashes after it, and the journal cut
  off before it; each fourth backdated, or with the positions after it moved up, so that no gap shows: by the
  examination that is behind our verifier; some of each kind also the full way, by both;
- the same on an SQLite file, for some of its entries, verified where it lies.

AMENDS_TAMPER=all flips each bit of each byte, and tries every entry in the file and by both verifiers.
"""

import asyncio
import io
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import pytest

from amends.core.words.values import SagaId, digest
from amends.errors import EvidenceError
from amends.evidence import ed25519, standalone
from amends.evidence.bundle import spell, spell_entry
from amends.evidence.sign import note as notes
from amends.evidence.standalone_names import Names
from amends.evidence.verify import verify
from amends.evidence.verify.examine import Conclusion, Examination
from amends.journal.codec import FIRST, chain
from amends.journal.port.evidence import Stored
from amends.journal.sqlite import SqliteJournal
from amends.journal.sqlite.database import Database
from amends.journal.tree import Tree, leaf
from amends.testing.clock import ManualClock
from tests.evidence.given import UNREADABLE, Made, conclusion, ended, lines_of, made, notary, verdict, write
from tests.parts import rest, sampled

ALL = os.environ.get("AMENDS_TAMPER") == "all"
PARTS = 4
SAGAS = 112  # of 9 entries: 1,008, the last 4 of them not signed
Record = Callable[[str, object], None]


def journal() -> Made:
    return made(SAGAS)


def attested() -> int:
    return max(journal().checkpoints)


def flips(line: bytes) -> Iterator[bytes]:
    """The line with one bit of one byte changed: of each byte one, or all."""
    for place, byte in enumerate(line):
        for bit in range(8) if ALL else [place * 7 % 8]:
            yield line[:place] + bytes([byte ^ 1 << bit]) + line[place + 1 :]


@pytest.fixture(autouse=True)
def _remembered_signatures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain Python takes a while for a signature, and here it is nearly always the same one."""
    monkeypatch.setattr(standalone, "is_signature", lru_cache(maxsize=None)(ed25519.is_signature))


# -- every byte ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", sampled(range(PARTS), each=4))
def test_a_flipped_byte_of_any_entry_is_seen(part: int, record_property: Record) -> None:
    heads: dict[str, bytes] = {}
    tried = 0
    for stored in journal().stored:
        previous, heads[stored.saga] = heads.get(stored.saga, FIRST), stored.hash
        if stored.position % PARTS == part:
            for line in flips(line_of(stored)):
                assert is_seen(line, stored, previous), line
                assert is_seen_alone(line, stored, previous), line
                tried += 1
    record_property("tampered", {"flipped bytes of entries": tried})


def line_of(stored: Stored) -> bytes:
    return spell_entry({**stored._asdict(), "hash": stored.hash.hex()}).encode() + b"\n"


def is_seen(line: bytes, stored: Stored, previous: bytes) -> bool:
    """What becomes of a line in a whole run: unreadable, not what its hash says, or another hash in the tree."""
    try:
        reading = verify._Reading(io.BytesIO(line))
        fields = reading._line()
        if fields["type"] != "entry":
            return True
        found = reading._entry(fields)
    except EvidenceError:
        return True
    _, saga, number, at, name, body, hashed = found
    is_its_own = (saga, number) == (stored.saga, stored.number)
    holds = is_its_own and chain(previous, saga, number, at, name, body) == hashed
    return not holds or found.position != stored.position or hashed != stored.hash


def is_seen_alone(line: bytes, stored: Stored, previous: bytes) -> bool:
    reading = object.__new__(standalone.Verification)
    reading.file, reading.line_number, reading.raw, reading.whole = io.BytesIO(line), 0, b"", sha256()
    try:
        found = reading._line()
    except ValueError:
        return True
    if found["type"] != "entry" or (found["saga"], found["number"]) != (stored.saga, stored.number):
        return True
    reading.entries, reading.place, reading.is_whole, reading.sagas = 0, stored.position, False, None
    reading.present, reading.missing, reading.altered, reading.untied = (standalone.Ranges() for _ in range(4))
    reading.heads, reading.removed, reading.holes = {stored.saga: (stored.number - 1, previous)}, 0, 0
    reading.wanted, reading.given, reading.empty, reading.findings = {}, set(), {}, []
    reading.names = Names(None)
    reading._entry(found)
    return bool(reading.altered or reading.missing) or found["hash"] != stored.hash.hex()


@pytest.mark.parametrize("sagas", [pytest.param((), marks=rest), ("s1",)], ids=["whole", "one saga"])
def test_a_flipped_byte_anywhere_in_a_bundle_is_seen_by_both(sagas: tuple[str, ...], record_property: Record) -> None:
    small = made(2)
    tried = 0
    for changed in flips(small.bundle(*sagas)):
        assert conclusion(changed, small.key) in {"failed", UNREADABLE}
        tried += 1
    record_property("tampered", {"flipped bytes of bundles": tried})


@rest
@pytest.mark.parametrize("sagas", [(), ("s1",)], ids=["whole", "one saga"])
def test_a_flipped_byte_is_seen_even_if_the_end_is_mended(sagas: tuple[str, ...], record_property: Record) -> None:
    small = made(2)
    lines = lines_of(small.bundle(*sagas))
    tried = 0
    for place, line in enumerate(lines):
        for changed in flips(line):
            mended = ended([*lines[:place], changed, *lines[place + 1 :]])
            found = conclusion(mended, small.key)
            # where nothing was signed, and sagas are left out, one position is as good as another
            is_tail = bool(sagas) and json.loads(line).get("position", 0) > max(small.checkpoints)
            assert found in {"failed", UNREADABLE, *(["unattested"] if is_tail else [])}, changed
            tried += 1
    record_property("tampered", {"flipped bytes of bundles, with a mended end": tried})


# -- every entry --------------------------------------------------------------------------------------------------


def deleted(stored: Sequence[Stored], place: int) -> list[Stored]:
    return [*stored[:place], *stored[place + 1 :]]


def deleted_and_closed_up(stored: Sequence[Stored], place: int) -> list[Stored]:
    return renumbered(deleted(stored, place))


def doubled(stored: Sequence[Stored], place: int) -> list[Stored]:
    return [*stored[: place + 1], *stored[place:]]


def doubled_and_moved_on(stored: Sequence[Stored], place: int) -> list[Stored]:
    return renumbered(doubled(stored, place))


def swapped(stored: Sequence[Stored], place: int) -> list[Stored]:
    other = place + 1 if place + 1 < len(stored) else place - 1
    first, second = sorted((place, other))
    return [*stored[:first], stored[second], stored[first], *stored[second + 1 :]]


def swapped_with_positions(stored: Sequence[Stored], place: int) -> list[Stored]:
    return renumbered(swapped(stored, place))


def rewritten(stored: Sequence[Stored], place: int) -> list[Stored]:
    """Another body, and every hash after it in its saga made anew."""
    return rehashed([*stored[:place], stored[place]._replace(body='{"by":"eve"}'), *stored[place + 1 :]], place)


def backdated(stored: Sequence[Stored], place: int) -> list[Stored]:
    return rehashed([*stored[:place], stored[place]._replace(at=stored[place].at - 1), *stored[place + 1 :]], place)


def inserted(stored: Sequence[Stored], place: int) -> list[Stored]:
    """One more saga, begun by somebody who was not there."""
    forged = stored[place]._replace(saga="forged", number=1)
    return renumbered(rehashed([*stored[:place], forged, *stored[place:]], place))


def cut_off(stored: Sequence[Stored], place: int) -> list[Stored]:
    return list(stored[:place])


def renumbered(stored: Sequence[Stored]) -> list[Stored]:
    return [one._replace(position=position) for position, one in enumerate(stored, 1)]


def rehashed(stored: list[Stored], place: int) -> list[Stored]:
    heads = {one.saga: one.hash for one in stored[:place]}
    saga = stored[place].saga
    for at in range(place, len(stored)):
        one = stored[at]
        if one.saga == saga:
            heads[saga] = chain(heads.get(saga, FIRST), one.saga, one.number, one.at, one.name, one.body)
            stored[at] = one._replace(hash=heads[saga])
    return stored


Edit = Callable[[Sequence[Stored], int], list[Stored]]
EDITS: tuple[Edit, ...] = (
    deleted,
    deleted_and_closed_up,
    doubled,
    doubled_and_moved_on,
    swapped,
    swapped_with_positions,
    rewritten,
    backdated,
    inserted,
    cut_off,
)


COMMON = frozenset({deleted, doubled, swapped, rewritten, cut_off})


@pytest.mark.parametrize("edit", sampled(EDITS, each=5), ids=lambda edit: edit.__name__)
def test_an_edit_of_any_entry_is_seen(edit: Edit, record_property: Record) -> None:
    stored = journal().stored
    checkpoint = notes.read_checkpoint(notes.read_note(journal().checkpoints[attested()]))
    places = range(0, len(stored), 1 if ALL or edit in COMMON else 4)
    for place in places:
        examination = Examination([(checkpoint.size, checkpoint.root)])
        for one in edit(stored, place):
            examination.entry(one)
        found = examination.finish().conclusion
        assert is_expected(found, place, edit), (place, found)
    record_property("tampered", {"edits of entries": len(places)})


def is_expected(found: str, place: int, edit: Edit) -> bool:
    """What is signed fails; what is not is at least named as not signed. A tail that is gone is gone."""
    if place < attested():
        return found == Conclusion.FAILED
    return found in {Conclusion.FAILED, Conclusion.UNATTESTED} or (edit is cut_off and place == attested())


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__)
def test_an_edit_of_a_bundle_is_seen_by_both(edit: Edit, record_property: Record) -> None:
    stored = journal().stored
    head = [line for line in lines_of(journal().bundle()) if not line.startswith(b'{"at"')]
    places = range(len(stored)) if ALL else range(0, len(stored), 84)
    for place in places:
        found = conclusion(ended([*head, *map(line_of, edit(stored, place))]), journal().key)
        assert is_expected(found, place, edit), (place, found)
    record_property("tampered", {"edits of bundles": len(places)})


def test_a_bundle_that_was_cut_off_anywhere_is_seen_by_both(record_property: Record) -> None:
    small = made(3)
    bundle = small.bundle()
    lengths = range(0, len(bundle), 1 if ALL else 5)
    for length in lengths:
        assert conclusion(bundle[:length], small.key) == UNREADABLE
    signed = max(small.checkpoints)
    for kept in range(27):
        found = verdict(ended(lines_of(bundle)[: 2 + kept]), small.key)
        expected = "failed" if kept < signed else "covered" if kept == signed else "unattested"  # a tail that is gone
        assert (kept, found["conclusion"], found["missing"]["count"]) == (kept, expected, max(0, signed - kept))
    record_property("tampered", {"bundles cut off": len(lengths) + 26})


# -- signatures and keys ------------------------------------------------------------------------------------------


def with_checkpoint(bundle: bytes, *noted: str) -> bytes:
    """The bundle with other checkpoints, and an end that fits."""
    lines = lines_of(bundle)
    place = next(place for place, line in enumerate(lines) if b'"checkpoint"' in line)
    fresh = [spell({"note": note, "type": "checkpoint"}).encode() + b"\n" for note in noted]
    return ended([*lines[:place], *fresh, *lines[place + 1 :]])


def test_a_signature_that_is_gone_or_another_is_seen(record_property: Record) -> None:
    story = journal()
    note = story.checkpoints[attested()]
    text, _, signature = note.partition("\n\n")
    size, root = attested(), notes.read_checkpoint(notes.read_note(note)).root
    eve = notary(9)
    by_eve = eve.sign(eve.public(story.key.partition("+")[0]), size, root, 0)
    elsewhere = notary(1).sign(notary(1).public("amends/elsewhere"), size, root, 0)
    another = notary(1).sign(story.key, size, bytes(32), 0)
    forged = {
        "nothing is left of it": with_checkpoint(story.bundle()),
        "its signature is gone": with_checkpoint(story.bundle(), text + "\n\n"),
        "its signature is empty": with_checkpoint(story.bundle(), text + "\n\n\n"),
        "somebody else signed it": with_checkpoint(story.bundle(), by_eve),
        "somebody else signed it too": with_checkpoint(story.bundle(), note, by_eve),
        "it has another's signature": with_checkpoint(story.bundle(), f"{text}\n\n{another.partition(chr(10) * 2)[2]}"),
        "it is of another journal": with_checkpoint(story.bundle(), elsewhere),
        "it is another root": with_checkpoint(story.bundle(), another),
        "it is of more entries": with_checkpoint(story.bundle(), notary(1).sign(story.key, size + 100, root, 0)),
    }
    for what, bundle in forged.items():
        found = verdict(bundle, story.key)
        expected = "unattested" if what == "nothing is left of it" else "failed"
        if what == "somebody else signed it too":
            assert (what, found["conclusion"], found["covered"]["count"]) == (what, "failed", attested())
        else:
            assert (what, found["conclusion"], found["covered"]["count"]) == (what, expected, 0)
    assert signature
    record_property("tampered", {"forged signatures": len(forged)})


def test_a_key_that_was_exchanged_is_seen() -> None:
    """The whole bundle signed anew by somebody else: it verifies by that key, and not by the pinned one."""
    story = journal()
    eve = notary(9)
    key = eve.public(story.key.partition("+")[0])
    tree = Tree()
    stored = rewritten(story.stored, 3)
    for one in stored:
        tree.add(leaf(one.hash))
    lines = lines_of(story.bundle())
    forged = [
        lines[0].replace(story.key.encode(), key.encode()),
        spell({"note": eve.sign(key, tree.size, tree.root, 0), "type": "checkpoint"}).encode() + b"\n",
        *map(line_of, stored),
    ]
    assert conclusion(ended(forged), key) == "covered"
    found = verdict(ended(forged), story.key)
    assert (found["conclusion"], found["covered"]["count"], found["troubles"]) == ("failed", 0, True)


def test_an_old_checkpoint_in_place_of_the_newest_leaves_a_tail_that_is_named(record_property: Record) -> None:
    story = journal()
    old = random.Random(3).sample(sorted(story.checkpoints), 12)
    for size in old:
        bundle = with_checkpoint(story.bundle(), story.checkpoints[size])
        found = verdict(bundle, story.key)
        assert found["unattested"]["entries"] == (
            "" if size == len(story.stored) else f"{size + 1}-{len(story.stored)}"
        )
        held = verdict(bundle, story.key, story.checkpoints[attested()])
        assert (held["conclusion"], held["attested"]) == ("unattested", attested())
    record_property("tampered", {"old checkpoints": 2 * len(old)})


# -- in the file --------------------------------------------------------------------------------------------------

Change = Callable[[Database, int], None]


@pytest.fixture(name="file", scope="module")
def _file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    async def live() -> None:
        store = await SqliteJournal.open(path, ManualClock(), notary=notary())
        await write(store, SAGAS, tail=False)
        await store.close()

    path = tmp_path_factory.mktemp("tampered") / "journal.db"
    asyncio.run(live())
    return path


def delete_row(database: Database, seq: int) -> None:
    database.run("DELETE FROM entry WHERE seq = ?", (seq,))


def swap_rows(database: Database, seq: int) -> None:
    """Two neighbours change places in the journal; their sagas do not notice."""
    other = seq + 1 if seq < 1008 else seq - 1
    database.run("UPDATE entry SET seq = 999999 WHERE seq = ?", (seq,))
    database.run("UPDATE entry SET seq = ? WHERE seq = ?", (seq, other))
    database.run("UPDATE entry SET seq = ? WHERE seq = 999999", (other,))


def change_body(database: Database, seq: int) -> None:
    database.run("UPDATE entry SET body = replace(body, '\"', ' \"') WHERE seq = ?", (seq,))


def strip_body(database: Database, seq: int) -> None:
    """As if it had been removed: what is left still gives its hash."""
    ((body,),) = database.rows("SELECT body FROM entry WHERE seq = ?", (seq,))
    database.run("UPDATE entry SET body = ? WHERE seq = ?", (f"sha256:{digest(body)}", seq))


def strip_body_as_pruning_does(database: Database, seq: int) -> None:
    """As pruning leaves it, but for the record of that: the digest stands after the hash."""
    ((body, hashed),) = database.rows("SELECT body, hash FROM entry WHERE seq = ?", (seq,))
    left = hashed + bytes.fromhex(digest(body))
    database.run("UPDATE entry SET body = '', hash = ? WHERE seq = ?", (left, seq))


def change_hash(database: Database, seq: int) -> None:
    database.run("UPDATE entry SET hash = zeroblob(32) WHERE seq = ?", (seq,))


def spoil_text(database: Database, seq: int) -> None:
    database.run("UPDATE entry SET body = CAST(x'7bff7d' AS TEXT) WHERE seq = ?", (seq,))


def rewrite(database: Database, seq: int) -> None:
    """Another body, every hash after it in its saga, the saga's head and the whole tree made anew."""
    sql = "SELECT seq, saga.name, number, at, entry.name, body, entry.hash FROM entry JOIN saga ON saga.id = entry.saga"
    stored = [Stored(*row) for row in database.rows(f"{sql} ORDER BY seq")]
    tree = Tree()
    for one in rewritten(stored, seq - 1):
        database.run("UPDATE entry SET body = ?, hash = ? WHERE seq = ?", (one.body, one.hash, one.position))
        database.run("UPDATE saga SET hash = ? WHERE name = ? AND head = ?", (one.hash, one.saga, one.number))
        tree.add(leaf(one.hash))
    database.run("UPDATE tree SET kept = ?", (tree.spelled(),))


def cut_back(database: Database, seq: int) -> None:
    """Everything after it is gone, and the tree with it; the checkpoints are not."""
    tree = Tree()
    for (hashed,) in database.rows("SELECT hash FROM entry WHERE seq < ? ORDER BY seq", (seq,)):
        tree.add(leaf(hashed))
    database.run("DELETE FROM entry WHERE seq >= ?", (seq,))
    database.run("UPDATE tree SET size = ?, kept = ?", (tree.size, tree.spelled()))


def lose_saga(database: Database, seq: int) -> None:
    database.run("DELETE FROM saga WHERE id = (SELECT saga FROM entry WHERE seq = ?)", (seq,))


def change_checkpoint(database: Database, seq: int) -> None:
    database.run(
        """
        UPDATE checkpoint SET note = replace(note, substr(note, 60, 4), 'AAAA')
         WHERE size = (SELECT min(size) FROM checkpoint WHERE size >= ?)
        """,
        (seq,),
    )


def change_tree(database: Database, seq: int) -> None:
    database.run("UPDATE tree SET kept = zeroblob(length(kept))")


CHANGES: tuple[Change, ...] = (
    delete_row,
    swap_rows,
    change_body,
    strip_body,
    strip_body_as_pruning_does,
    change_hash,
    spoil_text,
    rewrite,
    cut_back,
    lose_saga,
    change_checkpoint,
    change_tree,
)


@pytest.mark.parametrize("change", sampled(CHANGES, each=3), ids=lambda change: change.__name__)
def test_an_edit_of_the_file_is_seen_where_it_lies(
    change: Change, file: Path, ram_path: Path, record_property: Record
) -> None:
    places = range(1, 1009) if ALL else sorted({1, 2, 1008, *random.Random(change.__name__).sample(range(1, 1009), 9)})
    for seq in places:
        copy = ram_path / f"{seq}.db"
        shutil.copy(file, copy)
        database = Database(copy, busy_timeout_s=0, vfs=None)
        change(database, seq)
        database.close()
        report = asyncio.run(verified(copy))
        assert report["conclusion"] == "failed", (seq, report)
    record_property("tampered", {"edits of the file": len(places)})


async def verified(path: Path) -> dict[str, Any]:
    store = await SqliteJournal.open(path, ManualClock(), checked=False)
    try:
        return cast("dict[str, Any]", (await verify.verify_journal(store)).fields())
    finally:
        await store.close()


def test_the_file_is_whole_before_it_is_edited(file: Path) -> None:
    found = asyncio.run(verified(file))
    assert (found["conclusion"], found["covered"]["count"]) == ("covered", 1008)


def test_what_was_cut_back_with_its_checkpoints_is_seen_only_by_who_holds_one(file: Path, ram_path: Path) -> None:
    async def live(checkpoint: str | None) -> str:
        store = await SqliteJournal.open(copy, ManualClock())
        try:
            return (await verify.verify_journal(store, checkpoint=checkpoint)).conclusion
        finally:
            await store.close()

    copy = ram_path / "cut.db"
    shutil.copy(file, copy)
    database = Database(copy, busy_timeout_s=0, vfs=None)
    last = next(iter(database.rows("SELECT note FROM checkpoint ORDER BY size DESC LIMIT 1")))[0]
    cut_back(database, 500)
    database.run("DELETE FROM checkpoint WHERE size >= 500")
    database.run("DELETE FROM saga WHERE id NOT IN (SELECT saga FROM entry)")
    database.run("UPDATE saga SET head = (SELECT max(number) FROM entry WHERE saga = saga.id)")
    database.run("UPDATE saga SET hash = (SELECT hash FROM entry WHERE saga = saga.id AND number = head)")
    database.close()
    assert asyncio.run(live(None)) == "unattested"
    assert asyncio.run(live(last)) == "failed"


def test_the_saga_that_was_edited_is_named(file: Path, ram_path: Path) -> None:
    copy = ram_path / "named.db"
    shutil.copy(file, copy)
    database = Database(copy, busy_timeout_s=0, vfs=None)
    change_body(database, 500)
    (saga, number) = database.rows(
        "SELECT saga.name, number FROM entry JOIN saga ON saga.id = entry.saga WHERE seq = 500"
    )[0]
    database.close()
    found = asyncio.run(verified(copy))
    assert found["altered"] == {"count": 1, "entries": "500"}
    assert found["covered"] == {"count": 1007, "entries": "1-499, 501-1008"}
    assert found["findings"] == [f"entry 500 (saga {SagaId(saga)}, number {number}): it is not what its hash says"]
