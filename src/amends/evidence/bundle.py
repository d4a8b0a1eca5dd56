"""Evidence in one file: what it is made of, and how it is made from a journal.

A bundle is lines of JSON, each in its one canonical spelling (keys sorted, no spaces, UTF-8):

    {"format": "amends.evidence/1", "key": …, "sagas": null, "type": "bundle"}    null: the whole journal
    {"note": …, "type": "rotation"}                                               changes of keys, oldest first
    {"note": …, "type": "checkpoint"}                                             the newest signed root
    {"digest": …, "text": …, "type": "policy"}                                    policies that the entries name
    {"at": …, "body": …, "hash": …, "name": …, "number": …, "position": …, "saga": …, "type": "entry"}
    {"digest": …, "text": …, "type": "payload"}                                   beside the body of the one before, or
                                                                                  named by such a one (words.parts)
    {"hash": …, "height": …, "position": …, "type": "branch"}                     entries that are not shown
    {"entries": …, "sha256": …, "type": "end"}                                    over every byte before this line

Entries and branches stand in the order of their positions. A branch is the root of a full subtree, 2^height leaves from
its position on: with all of them the root of the tree can be made, though only some entries are shown. The same journal
makes the same bundle, byte for byte. Where an entry has parts beside it, the format is `amends.evidence/2`: verifiers
from before there were parts then say that it is newer than they are. Else it is what it always was.

A bundle's entries can be worked with once it has been verified; reading them believes what it reads. With a bundle goes
the verifier that stands alone, as the one file that it is when it is handed to somebody.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from importlib import resources
from json.encoder import encode_basestring as quote
from typing import Any, Final, NamedTuple

from amends.core.words.parts import named_by
from amends.core.words.values import PEOPLE, POLICIES, SagaId, digest
from amends.errors import EvidenceError, JournalDamagedError, JournalError, unknown_saga
from amends.evidence.sign import note as notes
from amends.journal.codec import decode, has_parts, references, removed_digest
from amends.journal.port.evidence import Stored, TreeHead
from amends.journal.port.journal import Entry, Journal, RemovedEntry
from amends.journal.tree import full_subtrees

FORMAT: Final = "amends.evidence/1"
WITH_PARTS: Final = "amends.evidence/2"
FORMATS: Final = (FORMAT, WITH_PARTS)
POLICY_SAGA: Final = SagaId(POLICIES)
SHORTEST_DIGEST: Final = 16

spell: Final[Callable[[object], str]] = json.JSONEncoder(
    sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False
).encode


def spell_entry(entry: Mapping[str, Any]) -> str:
    """An entry as `spell` writes it, in a third of the time."""
    return (
        f'{{"at":{entry["at"]},"body":{quote(entry["body"])},"hash":"{entry["hash"]}","name":{quote(entry["name"])},'
        f'"number":{entry["number"]},"position":{entry["position"]},"saga":{quote(entry["saga"])},"type":"entry"}}'
    )


async def export(
    journal: Journal,
    sagas: Sequence[str] | None = None,
    *,
    policies: Mapping[str, str] | None = None,
    checkpoint: str | None = None,
) -> AsyncIterator[str]:
    """The lines of a bundle, each with its newline: of these sagas, or of the whole journal.

    policies: texts by digest, which is that of the text, or the beginning of it. Those that are journaled come along.
    checkpoint: one that the reader holds; the bundle is made so that it can be held against it.
    Raises UnknownSagaError, EvidenceError, and JournalDamagedError where a saga's own chain does not hold.
    """
    whole = sha256()
    entries = 0
    async for line in _lines(journal, sagas, policies or {}, checkpoint):
        whole.update(line.encode())
        entries += line.startswith('{"at":')
        yield line
    yield spell({"entries": entries, "sha256": whole.hexdigest(), "type": "end"}) + "\n"


async def _lines(
    journal: Journal, sagas: Sequence[str] | None, policies: Mapping[str, str], pinned: str | None
) -> AsyncIterator[str]:
    shown = None if sagas is None else await _asked(journal, sagas)
    size = (await journal.tree()).size
    wanted = None if shown is None else await _entries(journal, shown)
    form = WITH_PARTS if await _has_parts(journal, wanted, size) else FORMAT
    newest = await journal.tree_head()
    signers = await journal.signers()
    key = signers[-1].key if signers else None
    yield _line({"format": form, "key": key, "sagas": shown, "type": "bundle"})
    for signer in signers[1:]:
        yield _line({"note": signer.note, "type": "rotation"})
    if newest is not None:
        yield _line({"note": newest.note, "type": "checkpoint"})
    for name in sorted(policies):
        yield _line(_policy(name, policies[name]))
    payloads = _Payloads(journal)
    if wanted is None:
        async for stored in journal.stored():
            if stored.position > size:
                break
            async for line in payloads.after(stored):
                yield line
    else:
        async for line in _some(journal, wanted, payloads, size, _cuts(newest, pinned, size)):
            yield line


class Placed(NamedTuple):
    position: int
    entry: Entry


async def _entries(journal: Journal, sagas: Sequence[str]) -> list[Placed]:
    """All entries of these sagas, in journal order."""
    found: list[Placed] = []
    for name in sagas:
        entries = [entry async for entry in journal.read(SagaId(name))]
        positions = await journal.positions(SagaId(name))  # asked later: there may be more by now
        found += map(Placed, positions, entries)
    return sorted(found, key=lambda one: one.position)


async def _has_parts(journal: Journal, wanted: Sequence[Placed] | None, size: int) -> bool:
    if wanted is not None:
        return any(has_parts(one.entry.body) for one in wanted)
    async for stored in journal.stored():
        if stored.position > size:
            break
        if has_parts(stored.body):
            return True
    return False


async def _asked(journal: Journal, sagas: Sequence[str]) -> list[str]:
    for name in sagas:
        if await journal.saga(SagaId(name)) is None:
            raise unknown_saga(name)
    beside = [own for own in (POLICY_SAGA, SagaId(PEOPLE)) if await journal.saga(own) is not None]
    return sorted({*sagas, *beside})


def _policy(name: str, text: str) -> dict[str, str]:
    if not is_policy(name, text):
        raise EvidenceError(f"the text given for policy {name} has another digest: {digest(text)}")
    return {"digest": name, "text": text, "type": "policy"}


def is_policy(name: str, text: str) -> bool:
    """Whether a policy goes by the digest of its text, or by the beginning of it."""
    return len(name) >= SHORTEST_DIGEST and digest(text).startswith(name)


def _line(fields: Mapping[str, object]) -> str:
    return spell(fields) + "\n"


@dataclass(slots=True)
class _Payloads:
    """Entries as lines, with the payloads beside them, each once."""

    journal: Journal
    _seen: set[str] = field(default_factory=set[str])

    async def after(self, stored: Stored) -> AsyncIterator[str]:
        yield spell_entry({**stored._asdict(), "hash": stored.hash.hex()}) + "\n"
        left = list(reversed(payload_digests(stored.body)))
        while left:
            name = left.pop()
            text = None if name in self._seen else await self.journal.payload(name)
            self._seen.add(name)
            if text is not None:
                yield _line({"digest": name, "text": text, "type": "payload"})
                left += reversed(below(text))


def payload_digests(body: str) -> tuple[str, ...]:
    """The digests of the payloads that a body needs. Raises JournalDamagedError."""
    return () if removed_digest(body) is not None else references(body)


def below(payload: str) -> tuple[str, ...]:
    """The digests that a payload names in turn; none for what is no part, or a broken one, which has no digest here."""
    try:
        return named_by(payload)
    except JournalDamagedError:
        return ()


# -- some of the sagas ------------------------------------------------------------------------------------------------


def _cuts(newest: TreeHead | None, pinned: str | None, size: int) -> tuple[int, ...]:
    """Sizes at which a branch has to end; the last is how far branches go."""
    last = 0 if newest is None else newest.size
    if pinned is None:
        return (last,)
    held = notes.read_checkpoint(notes.read_note(pinned)).size
    if held > size:
        raise EvidenceError(f"the checkpoint is of {held} entries, and the journal has {size}; is it of this journal?")
    return tuple(sorted({held, last}))


async def _some(
    journal: Journal, wanted: Sequence[Placed], payloads: _Payloads, size: int, cuts: tuple[int, ...]
) -> AsyncIterator[str]:
    """Each entry that is wanted, and what lies between two as branches, which end at each cut."""
    reached = 0
    for position, entry in wanted:
        if position > size:
            break
        async for line in _between(journal, reached, min(position - 1, cuts[-1]), cuts):
            yield line
        stored = Stored(position, entry.saga, entry.number, entry.at, entry.name, entry.body, entry.hash)
        async for line in payloads.after(stored):
            yield line
        reached = position
    async for line in _between(journal, reached, cuts[-1], cuts):
        yield line


async def _between(journal: Journal, after: int, last: int, cuts: tuple[int, ...]) -> AsyncIterator[str]:
    """A run of leaves as the roots of as few full subtrees as there can be."""
    ends = [*(cut for cut in cuts if after < cut < last), last]
    asked = [one for first, end in zip((after, *ends), ends, strict=False) for one in full_subtrees(first + 1, end)]
    for one, hashed in zip(asked, await journal.subtrees(asked) if asked else (), strict=True):
        yield _line({"hash": hashed.hex(), "height": one.height, "position": one.position, "type": "branch"})


class Read(NamedTuple):
    """Contents of a bundle: its sagas, the texts of policies that came along, and whether it is a whole journal."""

    sagas: dict[SagaId, list[Entry]]
    policies: dict[str, str]
    is_whole: bool


def read_bundle(lines: Iterable[bytes]) -> Read:
    """The entries of a bundle that verifies. Sagas with an entry of a later version are left out."""
    kept: dict[SagaId, list[dict[str, Any]]] = {}
    blobs: dict[str, str] = {}
    read = Read({}, {}, is_whole=False)
    for raw in lines:
        line = json.loads(raw)
        match line["type"]:
            case "bundle":
                read = read._replace(is_whole=line["sagas"] is None)
            case "policy":
                read.policies[line["digest"]] = line["text"]
            case "payload":
                blobs[line["digest"]] = line["text"]
            case "entry":
                kept.setdefault(SagaId(line["saga"]), []).append(line)
            case _:
                pass
    for saga, entries in kept.items():
        try:
            read.sagas[saga] = [_entry(saga, line, blobs) for line in sorted(entries, key=lambda line: line["number"])]
        except JournalError:
            read = read._replace(is_whole=False)
    return read


def _entry(saga: SagaId, line: dict[str, Any], blobs: dict[str, str]) -> Entry:
    name, body, hashed = line["name"], line["body"], bytes.fromhex(line["hash"])
    if removed_digest(body) is not None:
        return RemovedEntry.of(saga, line["number"], line["at"], name, body, hashed)
    return Entry(saga, line["number"], line["at"], name, body, hashed, decode(name, body, blobs))


_IMPORTED: Final = (
    ("from amends.evidence.ed25519 import is_signature\n", "ed25519.py", "Ed25519 (RFC 8032), verifying only"),
    ("from amends.evidence.standalone_names import Names\n", "standalone_names.py", "proved names"),
)
_OWN_IMPORTS: Final = re.compile(r"^(from|import) .*\n", re.MULTILINE)


def verifier_source() -> str:
    """The source of a program that needs nothing but Python: the parts that it would import stand in their place."""
    folder = resources.files("amends.evidence")
    whole = (folder / "standalone.py").read_text(encoding="utf-8")
    for line, name, about in _IMPORTED:
        part = (folder / name).read_text(encoding="utf-8")
        _, _, code = part.partition("from __future__ import annotations\n")
        needed = [each.group() for each in _OWN_IMPORTS.finditer(code) if "amends." not in each.group()]
        code = _OWN_IMPORTS.sub("", code).strip()
        more = "".join(each for each in needed if each not in whole)
        whole = whole.replace("import argparse\n", f"import argparse\n{more}", 1)
        whole = whole.replace(line, f"# -- {about} {'-' * (115 - len(about))}\n\n{code}\n\n")
    return whole
