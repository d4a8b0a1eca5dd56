"""The text that a person signs: one screen, made from a decision as it stands on record. Pure.

    amends decision 1
    journal: 3f0c…                          the hash of the roster's first entry
    saga: "trip-1"
    decision: grant
    step: "2"
    …                                       what was decided about; of an approval, what was shown
    by: "person:kim"
    why: "as agreed with the customer"
    in force: 91ab…                         the policy that judged then
    roster: 3 5d2e…                         the roster's newest entry then, and its hash
    at: 2026-09-21T13:33:20.000Z            when it was signed

Each value is the text that the journal has for it, letter by letter, so a verifier needs no more than the entry, and
of an approval the entry that asked. A long value is cut, and has its digest. What the runtime works out beside a
decision (`own`, a deadline, whether it was the last approval that was needed) is not the person's, and is left out.

Several approvals may share one signature. It is then over a list of their texts, each by its digest:

    amends decisions 1
    journal: 3f0c…
    by: "person:kim"
    sha256: 77aa…                           the digest of one whole text as above; one line for each
    sha256: 80c1…
    in force: 91ab…
    roster: 3 5d2e…
    at: 2026-09-21T13:33:20.000Z

Each entry keeps the digests behind the signature, so it is verified without the others, and does not tell of them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from amends.errors import EvidenceError

FIRST_LINE: Final = "amends decision 1"
FIRST_OF_LIST: Final = "amends decisions 1"
MOST_TOGETHER: Final = 50
"""How many approvals one signature may cover: as many as somebody reads."""
DECISIONS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "approval.signed/1": ("grant", ("step",)),
    "approval.granted/1": ("grant", ("step",)),
    "approval.refused/1": ("refuse", ("step",)),
    "incident.retried/1": ("retry", ("incident", "mitigate", "let_run", "repeat", "raises")),
    "incident.resolved/1": ("resolve", ("incident", "mitigate", "reason", "settled", "proof", "raises")),
    "limit.raised/1": ("raise-limit", ("limit", "most", "raises")),
    "work.resumed/1": ("unpause", ("raises",)),
    "rollback.resumed/1": ("unpause", ("mitigate",)),
    "policy.adopted/1": ("adopt", ("digest", "text")),
    "dispatch.unpaused/1": ("unpause", ("pause",)),
    "hold.lifted/1": ("lift", ("saga",)),
    "content.removed/1": ("forget", ("before", "was_gone")),
    "person.enrolled/1": ("enrol", ("person", "key", "recovery")),
    "person.revoked/1": ("revoke", ("person", "key")),
}
"""By wire name: the word for a decision, and what of it is signed, in this order."""
APPROVALS: Final = frozenset({"approval.signed/1", "approval.granted/1", "approval.refused/1"})
ASKED: Final = "approval.requested/1"
REMOVED: Final = "content.removed/1"
"""A decision about every saga that ended before a time; each that it took has it, with the same signature."""
EVERY_SAGA: Final = "*"
_BOUND: Final = frozenset({"approval.signed/1", "approval.granted/1"})
_ALWAYS: Final = frozenset({"by", "why", "own", "signed", "deadline_at"})
_SHOWN: Final = ("topic", "args", "requester", "env", "policy", "rule", "expires_at", "request")
_TIMES: Final = frozenset({"expires_at", "before"})
_BESIDE: Final[Mapping[str, tuple[str, ...]]] = {**dict.fromkeys(APPROVALS, ("digest",)), REMOVED: ("entries",)}
"""What else an entry has, that is signed in other words, or not the person's."""
_LISTED: Final = "sha256: "
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - both are of UTC, and neither says so
_LONGEST_TIME: Final = 16
_LONGEST: Final = 200
_KEPT: Final = 120
_SIGNED: Final = re.compile(
    r"([1-9][0-9]{0,15}):([0-9a-f]{64}):([0-9a-f]{64}|-):([0-9]{1,16}):([A-Za-z0-9+/]+={0,2})"
    r"(?::([0-9a-f]{64}(?:,[0-9a-f]{64})+))?"
)
_quoted: Final = json.JSONEncoder(ensure_ascii=False).encode
_scan: Final = json.JSONDecoder().raw_decode


class SignatureField(NamedTuple):
    """The field `signed` of a decision: what it goes by, when it was signed, and the signature in base64.

    together: of a signature over several texts, the digest of each; empty for one over this text alone.
    """

    entry: int
    hash: str
    policy: str
    at: int
    signature: str
    together: tuple[str, ...] = ()

    def __str__(self) -> str:
        alone = f"{self.entry}:{self.hash}:{self.policy}:{self.at}:{self.signature}"
        return f"{alone}:{','.join(self.together)}" if self.together else alone


def read_signed(text: str) -> SignatureField:
    """Raises EvidenceError."""
    found = _SIGNED.fullmatch(text)
    if found is None:
        raise EvidenceError("what should be its signature is none")
    together = tuple(found[6].split(",")) if found[6] else ()
    return SignatureField(int(found[1]), found[2], found[3], int(found[4]), found[5], together)


def fields_of(text: str) -> dict[str, str]:
    """The fields of a JSON object in its canonical spelling, each as it is spelled. Raises EvidenceError."""
    found: dict[str, str] = {}
    place = 1
    try:
        while text[place : place + 1] not in {"}", ""}:
            name, end = _scan(text, place)
            _, after = _scan(text, end + 1)
            found[name] = text[end + 1 : after]
            place = after + 1 if text[after] == "," else after
    except (ValueError, IndexError, RecursionError, TypeError):
        raise EvidenceError("a decision cannot be read") from None
    if text != "{" + ",".join(f"{_quoted(name)}:{value}" for name, value in found.items()) + "}":
        raise EvidenceError("a decision cannot be read")
    return found


def text_of(spelled: str) -> str:
    """A text by its spelling; '' for what is none."""
    found = json.loads(spelled)
    return found if type(found) is str else ""


class Question(NamedTuple):
    """A question to people about a step: the text of what was shown, and its digest."""

    digest: str
    shown: str


def statement(root: str, saga: str, name: str, body: str, signed: SignatureField, asked: Question | None = None) -> str:
    """The text that is signed. Raises EvidenceError where the decision cannot be read."""
    word, names = DECISIONS[name]
    fields = fields_of(body)
    ours = {*names, *_ALWAYS, *_BESIDE.get(name, ())}
    if not fields.keys() <= ours or (name in _BOUND and "digest" not in fields):
        raise EvidenceError("it has other fields than such a decision has")
    about = json.dumps(EVERY_SAGA if name == REMOVED else saga, ensure_ascii=False)
    lines = [FIRST_LINE, f"journal: {root}", f"saga: {about}", f"decision: {word}"]
    lines += [f"{each}: {_said(each, fields[each])}" for each in names if each in fields]
    if name in APPROVALS:
        if asked is None:
            raise EvidenceError("what was asked is not here")
        lines += _shown(asked)
    lines += [f"{each}: {_short(fields[each])}" for each in ("by", "why") if each in fields]
    lines += [f"in force: {signed.policy}", f"roster: {signed.entry} {signed.hash}", f"at: {spelled_time(signed.at)}"]
    return "\n".join(lines) + "\n"


class StatementList(str):
    """The text that is signed once for several decisions. `statements` are theirs, for whoever reads before signing."""

    __slots__ = ("statements",)
    statements: tuple[str, ...]


def statement_list(text: str, statements: Sequence[str]) -> StatementList:
    """A list with the texts that it stands for. Raises EvidenceError where it stands for others."""
    said = [line.removeprefix(_LISTED) for line in text.split("\n") if line.startswith(_LISTED)]
    if said != [digest_of(each) for each in statements]:
        raise EvidenceError("the list that is to be signed stands for other decisions than those that are shown")
    made = StatementList(text)
    made.statements = tuple(statements)
    return made


def listed(root: str, by: str, signed: SignatureField) -> str:
    """The text over several decisions of one person; `by` as it is spelled."""
    lines = [FIRST_OF_LIST, f"journal: {root}", f"by: {_short(by)}"]
    lines += [f"{_LISTED}{each}" for each in signed.together]
    lines += [f"in force: {signed.policy}", f"roster: {signed.entry} {signed.hash}", f"at: {spelled_time(signed.at)}"]
    return "\n".join(lines) + "\n"


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _shown(asked: Question) -> list[str]:
    fields = fields_of(asked.shown)
    lines: list[str] = []
    for name in _SHOWN:
        value = fields.get(name, "null")
        if name == "args" and value[:1] == "{":
            lines += [f"args.{_word(each)}: {_short(text)}" for each, text in fields_of(value).items()]
        else:
            lines.append(f"{name}: {_said(name, value)}")
    contract = fields.get("contract", "{}")
    promised = fields_of(contract) if contract[:1] == "{" else {}
    lines += [f"{name}: {_short(promised[name])}" for name in ("undoes", "no_rollback") if name in promised]
    return [*lines, f"shown: {asked.digest}"]


def spelled_time(milliseconds: int) -> str:
    """A time of UTC, to be read; past the year 9999 as it is."""
    try:
        return f"{(_EPOCH + timedelta(milliseconds=milliseconds)).isoformat(timespec='milliseconds')}Z"
    except OverflowError:
        return str(milliseconds)


def read_time(text: str) -> int:
    """Raises ValueError."""
    return round((datetime.fromisoformat(text.removesuffix("Z")) - _EPOCH) / timedelta(milliseconds=1))


def _said(name: str, spelled: str) -> str:
    is_time = name in _TIMES and spelled.isdecimal() and len(spelled) <= _LONGEST_TIME
    return spelled_time(int(spelled)) if is_time else _short(spelled)


def _word(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else json.dumps(name, ensure_ascii=False)


def _short(spelled: str) -> str:
    if len(spelled) <= _LONGEST:
        return spelled
    digest = hashlib.sha256(spelled.encode()).hexdigest()
    return f"{spelled[:_KEPT]} ({len(spelled)} characters, sha256 {digest})"
