"""Entries on disk: a wire name, a body, a hash. The names are written by hand and outlive every class name.

An event becomes a name and a body, the canonical JSON of its fields (see fields.py). A large payload is kept beside
the body in parts (see words.parts), each under its digest; the body holds the digest of the one that stands for all, so
the hash covers them all the same. Older journals kept a payload of more than 256 KiB beside the body in one piece, as a
blob; such entries stay as they are. An entry's hash also covers the hash of the entry before: change, remove or move
one, and none after it verifies. It covers the body by its digest, so a body can be removed later: what is left in its
place is that digest, and the chain still verifies.

msgspec spells and reads what is usual (see fields.py). An event that it would spell in another way than a body must be,
and a body that it cannot read, go the exact way, which has the words for what is wrong. Both give the same bytes.

The meaning of a wire name never changes. A new shape gets a new number (`attempt.lost/2`), and UPCASTS the function
that lifts the old one to it. A name from the future is refused, never guessed at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Final, NoReturn, cast

import msgspec
from msgspec.json import Decoder

from amends.core import events as e
from amends.core.words.parts import Payloads, cut, restored
from amends.core.words.values import LARGEST_INT, LARGEST_VALUE, digest, size_of, spelling_of
from amends.dataclass import dataclass
from amends.errors import JournalDamagedError, JournalVersionError, NotJsonError, TooLargeError
from amends.journal.fields import INLINE, Layout, layouts

WIRE: Final[Mapping[str, type[e.Event]]] = {
    "saga.started/1": e.SagaStarted,
    "saga.completed/1": e.SagaCompleted,
    "saga.rolled_back/1": e.SagaRolledBack,
    "saga.mitigated/1": e.SagaMitigated,
    "saga.halted/1": e.SagaHalted,
    "work.finished/1": e.WorkFinished,
    "work.resumed/1": e.WorkResumed,
    "rollback.awaited/1": e.RollbackAwaited,
    "rollback.started/1": e.RollbackStarted,
    "rollback.resumed/1": e.RollbackResumed,
    "checkpoint.made/1": e.CheckpointMade,
    "rewind.started/1": e.RewindStarted,
    "rewind.ended/1": e.RewindEnded,
    "step.proposed/1": e.StepProposed,
    "action.dispatched/1": e.ActionDispatched,
    "action.allowed/1": e.ActionAllowed,
    "action.denied/1": e.ActionDenied,
    "step.throttled/1": e.StepThrottled,
    "step.placed/1": e.StepPlaced,
    "step.dropped/1": e.StepDropped,
    "family.settled/1": e.FamilySettled,
    "release.started/1": e.ReleaseStarted,
    "release.ended/1": e.ReleaseEnded,
    "before.captured/1": e.BeforeCaptured,
    "lock.awaited/1": e.LockAwaited,
    "lock.taken/1": e.LockTaken,
    "lock.refused/1": e.LockRefused,
    "attempt.started/1": e.AttemptStarted,
    "attempt.succeeded/1": e.AttemptSucceeded,
    "after.captured/1": e.AfterCaptured,
    "attempt.failed/1": e.AttemptFailed,
    "attempt.lost/1": e.AttemptLost,
    "probe.found/1": e.ProbeFound,
    "probe.found_nothing/1": e.ProbeFoundNothing,
    "probe.unanswered/1": e.ProbeUnanswered,
    "late_success.enrolled/1": e.LateSuccessEnrolled,
    "late_loss.enrolled/1": e.LateLossEnrolled,
    "compensation.started/1": e.CompensationStarted,
    "compensation.succeeded/1": e.CompensationSucceeded,
    "compensation.failed/1": e.CompensationFailed,
    "compensation.lost/1": e.CompensationLost,
    "compensation.denied/1": e.CompensationDenied,
    "mitigation.started/1": e.MitigationStarted,
    "mitigation.succeeded/1": e.MitigationSucceeded,
    "mitigation.failed/1": e.MitigationFailed,
    "mitigation.lost/1": e.MitigationLost,
    "mitigation.denied/1": e.MitigationDenied,
    "approval.requested/1": e.ApprovalRequested,
    "approval.signed/1": e.ApprovalSigned,
    "approval.granted/1": e.ApprovalGranted,
    "approval.refused/1": e.ApprovalRefused,
    "approval.expired/1": e.ApprovalExpired,
    "approval.voided/1": e.ApprovalVoided,
    "approval.used/1": e.ApprovalUsed,
    "incident.opened/1": e.IncidentOpened,
    "incident.assigned/1": e.IncidentAssigned,
    "incident.commented/1": e.IncidentCommented,
    "incident.retried/1": e.IncidentRetried,
    "incident.resolved/1": e.IncidentResolved,
    "policy.adopted/1": e.PolicyAdopted,
    "person.enrolled/1": e.PersonEnrolled,
    "person.revoked/1": e.PersonRevoked,
    "wait.started/1": e.WaitStarted,
    "wait.ended/1": e.WaitEnded,
    "signal.received/1": e.SignalReceived,
    "saga.paused/1": e.SagaPaused,
    "dispatch.paused/1": e.DispatchPaused,
    "dispatch.unpaused/1": e.DispatchUnpaused,
    "hold.placed/1": e.HoldPlaced,
    "hold.lifted/1": e.HoldLifted,
    "drill.missed/1": e.DrillMissed,
    "token.made/1": e.TokenMade,
    "token.revoked/1": e.TokenRevoked,
    "content.removed/1": e.ContentRemoved,
    "budget.spent/1": e.BudgetSpent,
    "child.spent/1": e.ChildSpent,
    "limit.reached/1": e.LimitReached,
    "limit.raised/1": e.LimitRaised,
}

Fields = dict[str, Any]
UPCASTS: Final[dict[str, Callable[[Fields], tuple[str, Fields]]]] = {}

_SHOWN: Final = 256 * 1024
FIRST: Final = bytes(32)
_REMOVED: Final = "sha256:"
REMOVAL: Final = "content.removed"
"""The name, without its number, of the entries that say who removed what others held."""
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_BLOBS: Final = "blobs"
_PARTS: Final = "parts"
_NO_BLOBS: Final[Mapping[str, str]] = {}
_NAMES: Final = {kind: name for name, kind in WIRE.items()}
_decoders: Final[dict[str, Callable[[bytes], e.Event]]] = {}
_WIDE: Final = b":" + b"0" * 16
_TO_WIDE: Final = bytes.maketrans(b"123456789,[-", b"000000000:::")
"""Makes a number past 2**53 in a body look like `_WIDE`, and a few texts too, which the exact way sorts out."""


@dataclass(frozen=True, slots=True)
class Wire:
    """An event as it is stored; `blobs` are the parts of its large payloads by digest, each before those it names."""

    name: str
    body: str
    blobs: Mapping[str, str]


def encode(event: e.Event) -> Wire:
    """Raises NotJsonError or TooLargeError for what cannot be stored."""
    name, layout = _NAMES[type(event)], layouts[type(event)]
    body = layout.quick_body(event)
    return _exactly(name, layout, event) if body is None else Wire(name, body.decode(), _NO_BLOBS)


def link(event: e.Event, saga: str, number: int, at: int, previous: bytes) -> tuple[str, str, Mapping[str, str], bytes]:
    """An event in the chain of its saga: name, body, blobs and its hash, on the hash before. Raises as `encode` does.

    This runs for every event: `encode` and then `chain` would spell its body twice.
    """
    name, layout = _NAMES[type(event)], layouts[type(event)]
    body = layout.quick_body(event)
    if body is None:
        wire = _exactly(name, layout, event)
        return name, wire.body, wire.blobs, chain(previous, saga, number, at, name, wire.body)
    head = f"{saga}\n{number}\n{at}\n{name}\n".encode()
    return name, body.decode(), _NO_BLOBS, sha256(previous + head + sha256(body).digest()).digest()


def _exactly(name: str, layout: Layout, event: e.Event) -> Wire:
    texts = layout.texts(event)
    body = "{" + ",".join(texts) + "}"
    if not body.isascii():
        _refuse_half_characters(layout, event, body)
    if len(body) > INLINE:
        return _encode_large(name, layout, event, texts)
    return Wire(name, body, _NO_BLOBS)


def spelled(event: e.Event) -> tuple[str, str]:
    """An event's wire name and its whole body: nothing of it is kept beside."""
    layout = layouts[type(event)]
    return _NAMES[layout.kind], layout.spell(event)


def shown_fields(body: str, event: e.Event) -> Fields:
    """A body for who shows it, with what is kept beside it in its place, unless that is very large."""
    fields = _object(body)
    if _PARTS in fields and all(one.size <= _SHOWN for one in _kept(fields, _PARTS).values()):
        return _object(layouts[type(event)].spell(event))
    return fields


def _refuse_half_characters(layout: Layout, event: e.Event, body: str) -> None:
    try:
        body.encode()
    except UnicodeEncodeError:
        for part, text in layout.spelled(event):
            if text.encode(errors="replace").decode() != text:
                raise NotJsonError(
                    f"{part.name} holds half a surrogate pair, which is not text; decode it properly first"
                ) from None
        raise  # pragma: no cover - one of the fields made the body


def _encode_large(name: str, layout: Layout, event: e.Event, texts: list[str]) -> Wire:
    """`texts` are the fields of the body, each with its name."""
    blobs: dict[str, str] = {}
    kept: list[str] = []
    left: list[str] = []
    for text in texts:
        payload = layout.payload_of(text) if len(text) > INLINE else None
        if payload is None or len(text) - len(payload.opening) <= INLINE:
            left.append(text)
            continue
        known = spelling_of(getattr(event, payload.name))  # made in a thread: here others wait
        spelled = text[len(payload.opening) :]
        made, size = (cut(spelled), size_of(spelled)) if known is None else (known.cut, known.size)
        kept.append(f'{payload.opening}{{"digest":"{made.root}","size":{size}}}')
        blobs |= made.parts
    if kept:
        left = sorted([*left, f'"{_PARTS}":{{{",".join(kept)}}}'], key=_name_in)
    body = "{" + ",".join(left) + "}"
    if len(body) > LARGEST_VALUE // 4 and size_of(body) > LARGEST_VALUE:
        raise TooLargeError(f"a {name} takes more than {LARGEST_VALUE >> 20} MB as JSON; shorten its texts")
    return Wire(name, body, blobs)


def _name_in(text: str) -> str:
    return text[1 : text.index('"', 1)]


def references(body: str) -> tuple[str, ...]:
    """The digests of what a body has beside it; of parts, the one that stands for all. Raises JournalDamagedError."""
    if not _keeps_beside(body):
        return ()
    fields = _object(body)
    return tuple(one.digest for form in (_BLOBS, _PARTS) for one in _kept(fields, form).values())


def has_parts(body: str) -> bool:
    """Whether a body has parts beside it, which versions of amends before them do not know."""
    if f'"{_PARTS}":' not in body or removed_digest(body) is not None:
        return False
    try:
        return _PARTS in _object(body)
    except JournalDamagedError:
        return False


def _keeps_beside(body: str) -> bool:
    return '"parts":' in body or '"blobs":' in body


def decode(name: str, body: str, blobs: Payloads = _NO_BLOBS) -> e.Event:
    """An event, with what is found beside its body. What is too much is never put together.

    Raises JournalVersionError for a name from the future, JournalDamagedError for a body that does not fit.
    """
    event = _read_quickly(name, body)
    return _read_exactly(name, body, blobs) if event is None else event


def _read_quickly(name: str, body: str) -> e.Event | None:
    """An event of a usual body, with nothing beside it and no wide numbers; None of any other, and of what is wrong."""
    read = _decoders.get(name)
    if read is None:
        if name not in WIRE:
            return None
        read = _decoders[name] = Decoder(WIRE[name]).decode
    if _keeps_beside(body):
        return None
    try:
        spelled = body.encode()
        return None if _WIDE in spelled.translate(_TO_WIDE) else read(spelled)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _read_exactly(name: str, body: str, blobs: Payloads) -> e.Event:
    if name not in WIRE and name not in UPCASTS:
        raise JournalVersionError(
            f"{name!r} is an entry that this version of amends does not know: "
            "the journal was written by a newer version; upgrade before you open it"
        )
    fields = _object(body)
    if _PARTS in fields:
        for payload, one in _kept(fields, _PARTS).items():
            fields[payload] = _joined(payload, one, blobs)
        del fields[_PARTS]
    if _BLOBS in fields:
        for payload, one in _kept(fields, _BLOBS).items():
            fields[payload] = _blob(payload, one.digest, blobs)
        del fields[_BLOBS]
    while name not in WIRE:
        name, fields = UPCASTS[name](fields)
    return cast(e.Event, layouts[WIRE[name]].parse(fields))


@dataclass(frozen=True, slots=True)
class _Beside:
    digest: str
    size: int


def _kept(fields: Fields, form: str) -> dict[str, _Beside]:
    """The payloads kept beside a body, by the name of its field."""
    kept: object = fields.get(form, {})
    if type(kept) is not dict:
        raise JournalDamagedError(f"its {form} are not an object")
    found: dict[str, _Beside] = {}
    for payload, about in cast(dict[str, object], kept).items():
        said = cast(Fields, about) if type(about) is dict else {}
        key, size = said.get("digest"), said.get("size")
        if type(key) is not str:
            raise JournalDamagedError(f"its {form[:-1]} {payload} has no digest")
        if form == _PARTS and (type(size) is not int or not 0 < size <= LARGEST_VALUE):
            raise JournalDamagedError(f"its part {payload} has no size that a value can have")
        found[payload] = _Beside(key, size if type(size) is int else 0)
    return found


def _joined(payload: str, kept: _Beside, blobs: Payloads) -> object:
    try:
        text = restored(kept.digest, kept.size, blobs)
    except JournalDamagedError as exc:
        raise JournalDamagedError(f"{exc} (its {payload})") from None
    return _parsed(text)


def _blob(payload: str, key: str, blobs: Payloads) -> object:
    text = blobs.get(key)
    if text is None:
        raise JournalDamagedError(f"the blob of its {payload} is missing")
    if digest(text) != key:
        raise JournalDamagedError(f"the blob of its {payload} does not match its digest")
    return _parsed(text)


def _object(body: str) -> Fields:
    fields = _parsed(body)
    if type(fields) is not dict:
        raise JournalDamagedError("its body is not an object")
    return cast(Fields, fields)


def _parsed(text: str) -> object:
    try:
        return _read(text)
    except (ValueError, RecursionError) as exc:
        raise JournalDamagedError(f"its body is not JSON: {exc}") from None


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number")


def _number(text: str) -> int | float:
    """Canonical JSON spells 1e17 with all its digits; no integer is stored that wide, so it was a float."""
    number = int(text)
    return number if -LARGEST_INT <= number <= LARGEST_INT else float(text)


_read: Final = json.JSONDecoder(parse_constant=_refuse_constant, parse_int=_number).decode


def chain(previous: bytes, saga: str, number: int, at: int, name: str, body: str) -> bytes:
    """The hash of an entry: SHA-256 over the hash before (FIRST where there is none) and all that is stored of it.

    A body counts by its digest, so that one that was removed and only left its digest gives the same hash.
    """
    kept = None if body[:1] == "{" else removed_digest(body)
    kept = kept or sha256(body.encode()).digest()
    return sha256(b"%b%b%b" % (previous, f"{saga}\n{number}\n{at}\n{name}\n".encode(), kept)).digest()


def without_payload(name: str, body: str) -> str:
    """The text stored in place of a body that is removed: its digest.

    What was removed already stays as it is, and so does the record of a removal: it is all that says who did it.
    """
    is_kept = removed_digest(body) is not None or is_removal(name)
    return body if is_kept else f"{_REMOVED}{digest(body)}"


def is_removal(name: str) -> bool:
    """Whether an entry of this name says who removed what the entries before it held."""
    return name.partition("/")[0] == REMOVAL


def removed_digest(body: str) -> bytes | None:
    """The digest of a body that was removed; None for one that is there. A body is an object, so it opens with `{`."""
    if body[:1] == "{" or not body.startswith(_REMOVED):
        return None
    text = body[len(_REMOVED) :]
    return bytes.fromhex(text) if _DIGEST.fullmatch(text) else None
