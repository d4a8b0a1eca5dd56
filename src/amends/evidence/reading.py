"""A bundle's entries as they can be worked with, once it has been verified. Believes what it reads."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from amends.core.values import SagaId
from amends.errors import JournalError
from amends.journal.codec import decode, removed_digest
from amends.journal.protocol import Entry, RemovedEntry


class Read(NamedTuple):
    """What a bundle has: its sagas, the texts of policies that came along, and whether it is a whole journal."""

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
