"""What the tests of attacks that hold share: a desk with a policy on it, and the forms of what is tried there."""

import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

from amends import Coordinator, Registry, Secret
from amends.evidence.bundle import spell
from amends.gate.load import parse_policy
from amends.gate.policy import PolicyGate
from amends.journal.codec import FIRST, chain
from amends.journal.memory import MemoryJournal
from tests.runtime.support import QuickClock
from tests.runtime.test_approvals import NOW_PARKED


def desk(policy: str, clock: QuickClock | None = None, *, park_s: float = NOW_PARKED.park_s) -> Coordinator:
    used, settings = clock or QuickClock(), replace(NOW_PARKED, park_s=park_s)
    gate = PolicyGate(parse_policy(policy))
    return Coordinator(
        journal=MemoryJournal(used), gate=gate, clock=used, settings=settings, registry=Registry(), env="production"
    )


# -- a payment --------------------------------------------------------------------------------------------------------

SMALL_ONLY = """
version: v1
default: deny
rules:
  - id: small-payments-in-euros
    when: {topic: test.pay, args.cents: {lte: 1000}, args.currency: EUR}
    decision: allow
"""


class Lying(int):
    """A million that says it is less than anything."""

    def __le__(self, other: object) -> bool:
        return True

    def __lt__(self, other: object) -> bool:
        return True

    def __gt__(self, other: object) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


class LyingText(str):
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return hash("EUR")


AMOUNTS: list[Any] = [
    1001,
    1000.5,
    1e9,
    10**15,
    "1000",
    "1001",
    "\u0661\u0660\u0660\u0660",
    "\uff11",
    "1_0",
    "0x10",
    True,
    None,
    [1],
    {"cents": 1},
    float("nan"),
    float("inf"),
    float("-inf"),
    Decimal(1),
    Fraction(1, 2),
    1j,
    b"1",
    Lying(1_000_000),
    Secret("1"),
]
CURRENCIES: list[Any] = [
    "eur",
    "EUR ",
    "EU\u200bR",
    "\u0415UR",
    "\uff25\uff35\uff32",
    "EUR\n",
    "USD",
    ["EUR"],
    None,
    LyingText("USD"),
    Secret("EUR"),
]


# -- a journal's file -------------------------------------------------------------------------------------------------


def sql(file: Path, statement: str) -> None:
    database = sqlite3.connect(file)
    database.execute(statement)
    database.commit()
    database.close()


EDITS = {
    "an argument": "UPDATE entry SET body = replace(body, 'Ann', 'Bob')",
    "a verdict": "UPDATE entry SET name = 'action.allowed/1' WHERE name = 'approval.requested/1'",
    "a grant by its name": "UPDATE entry SET name = 'approval.granted/1' WHERE name = 'approval.requested/1'",
    "an entry is gone": "DELETE FROM entry WHERE name = 'approval.requested/1'",
    "the newest is gone": "DELETE FROM entry WHERE seq = (SELECT max(seq) FROM entry)",
    "an entry of another saga": "UPDATE entry SET saga = saga + 1",
    "the saga's row: no approval is open": "UPDATE saga SET open_approvals = 0, status = 'running', wake_at = NULL",
    "the list: it is granted": "UPDATE approval SET status = 'granted'",
    "the list: nobody is asked": "DELETE FROM approval",
    "the saga's actor and labels": "UPDATE saga SET actor = 'system:x', labels = '{}'",
    "the saga's head": "UPDATE saga SET head = head - 1",
    "the tree": "UPDATE tree SET kept = zeroblob(length(kept))",
    "the signer": "DELETE FROM signer",
}


# -- bundles ----------------------------------------------------------------------------------------------------------


def ended_bundle(*lines: bytes) -> bytes:
    whole = b"".join(line + b"\n" for line in lines)
    end = {"entries": sum(line.startswith(b'{"at":') for line in lines), "sha256": sha256(whole).hexdigest()}
    return whole + spell({**end, "type": "end"}).encode() + b"\n"


HEAD = b'{"format":"amends.evidence/1","key":null,"sagas":null,"type":"bundle"}'


def entry(**changed: Any) -> bytes:
    plain = {"at": 1, "body": "{}", "hash": "0" * 64, "name": "saga.started/1", "number": 1, "position": 1, "saga": "s"}
    return spell({**plain, "type": "entry", **changed}).encode()


def branch(**changed: Any) -> bytes:
    return spell({"hash": "0" * 64, "height": 0, "position": 1, "type": "branch", **changed}).encode()


def group(name: str, times: int = 2) -> str:
    """A part that names another one so many times."""
    return "+" + json.dumps(["", *[name, ""] * times], separators=(",", ":"))


def tower(height: int, times: int = 2) -> list[str]:
    """Parts of which each names the one before so many times: the last one stands for times to the height of them."""
    parts = ["=" + "x" * 4096]
    for _ in range(height):
        parts.append(group(sha256(parts[-1].encode()).hexdigest(), times))
    return parts


def with_parts(parts: dict[str, str], root: str) -> bytes:
    """A bundle of one entry that has these parts beside it."""
    body = f'{{"parts":{{"input":{{"digest":"{root}","size":16777216}}}}}}'
    hashed = chain(FIRST, "s", 1, 1, "saga.started/1", body).hex()
    lines = [spell({"digest": name, "text": text, "type": "payload"}).encode() for name, text in parts.items()]
    return ended_bundle(HEAD.replace(b"/1", b"/2"), entry(body=body, hash=hashed), *lines)


def by_digest(parts: list[str]) -> dict[str, str]:
    return {sha256(part.encode()).hexdigest(): part for part in parts}


MEGABYTE = 1 << 20
BOMBS: dict[str, Callable[[], bytes]] = {
    "a line of forty megabytes": lambda: HEAD + b"\n" + b"x" * (40 * MEGABYTE),
    "depth": lambda: HEAD + b"\n" + b"[" * MEGABYTE + b"\n",
    "depth in a body": lambda: ended_bundle(HEAD, entry(body='{"blobs":' + "[" * MEGABYTE)),
    "depth in a record of a removal": lambda: ended_bundle(
        HEAD,
        entry(body="sha256:" + "0" * 64),
        entry(body="[" * MEGABYTE, name="content.removed/1", number=2, position=2),
    ),
    "a hundred thousand notes": lambda: ended_bundle(HEAD, *([b'{"note":"","type":"rotation"}'] * 100_000)),
    "a huge number": lambda: ended_bundle(HEAD, entry().replace(b'"number":1', b'"number":' + b"9" * 5000)),
    "a huge position": lambda: ended_bundle(HEAD, entry(position=2**53)),
    "a tower of branches": lambda: ended_bundle(HEAD, *[branch(position=1 + (1 << n), height=n) for n in range(52)]),
    "a branch as high as the sky": lambda: ended_bundle(HEAD, branch(height=10**9)),
    "a part that names itself": lambda: with_parts({"0" * 64: group("0" * 64)}, "0" * 64),
    "parts that would fill a disk, but for the first": lambda: with_parts(
        dict(reversed(list(by_digest(tower(60, 1000)).items())[1:])), list(by_digest(tower(60, 1000)))[-1]
    ),
    "a part that names very many": lambda: with_parts(
        by_digest([group("0" * 64, 50_000)]), next(iter(by_digest([group("0" * 64, 50_000)])))
    ),
    "depth in a part": lambda: with_parts(
        by_digest(["+" + "[" * MEGABYTE]), next(iter(by_digest(["+" + "[" * MEGABYTE])))
    ),
    "no end": lambda: HEAD + b"\n" + entry() + b"\n",
    "sagas that are none": lambda: HEAD.replace(b"null,", b"[" * 500 + b"]" * 500 + b",", 1),
}


# -- what a terminal acts upon ----------------------------------------------------------------------------------------

EVIL = "a\x1b[2J\x9b31m\r\n\x07\u202e\u2066\u2028\u200b\x00z"


def is_raw(shown: str) -> list[str]:
    """What stands in a text that a terminal would act upon, or nobody would see."""
    harmful = {"\x1b", "\x9b", "\r", "\x07", "\x00", "\u202e", "\u2066", "\u2028", "\u200b"}
    return sorted(harmful.intersection(shown))


def json_of(value: object) -> str:
    return json.dumps(value)
