"""Proved names in plain Python: the roster of people, and whether a decision is signed by whoever is said to have
made it. Ed25519, ECDSA over P-256, their hardware kinds, and passkeys; verifying only. For the verifier that stands
alone: amends itself has this another time, by other means (evidence.proof).
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import unicodedata
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from amends.evidence.ed25519 import is_signature

CURVE = 2**256 - 2**224 + 2**192 + 2**96 - 1
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
B = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B
GENERATOR = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)
PEOPLE_SAGA = "amends.people"
SIGNABLE: dict[str, tuple[str, tuple[str, ...]]] = {
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
CHANGES = ("person.enrolled/1", "person.revoked/1")
RESUMING = ("work.resumed/1", "rollback.resumed/1")
FOLLOWING = ("limit.raised/1", *RESUMING)
BESIDE = ("rollback.started/1", "saga.paused/1", "limit.reached/1", "incident.opened/1", "approval.requested/1")
CLOSING = ("incident.retried/1", "incident.resolved/1")
NO_WORD = {"settled": "[]", "let_run": "false", "repeat": "false", "proof": '""', "raises": '""'}
ONE_MORE = {
    "step.proposed/1": "steps",
    "action.dispatched/1": "steps",
    "attempt.failed/1": "failures",
    "attempt.lost/1": "failures",
}
USING = (*ONE_MORE, "attempt.started/1", "budget.spent/1", "child.spent/1")
AMOUNTS = {"usd": "usd_micros", "tokens": "tokens", "steps": "steps", "failures": "failures", "retries": "retries"}
CLOCKS_APART = 60_000
SHOWN_NAMES = ("topic", "args", "requester", "env", "policy", "rule", "expires_at", "request")
SIGNED_FORM = (
    r"([1-9][0-9]{0,15}):([0-9a-f]{64}):([0-9a-f]{64}|-):([0-9]{1,16}):([A-Za-z0-9+/]+={0,2})"
    r"(?::([0-9a-f]{64}(?:,[0-9a-f]{64})+))?"
)
Affine = tuple[int, int] | None


# -- P-256 ------------------------------------------------------------------------------------------------------------


def p256_sum(a: Affine, b: Affine) -> Affine:
    if a is None or b is None:
        return a or b
    if a[0] == b[0]:
        if (a[1] + b[1]) % CURVE == 0:
            return None
        slope = (3 * a[0] * a[0] - 3) * pow(2 * a[1], -1, CURVE)
    else:
        slope = (b[1] - a[1]) * pow(b[0] - a[0], -1, CURVE)
    x = (slope * slope - a[0] - b[0]) % CURVE
    return x, (slope * (a[0] - x) - a[1]) % CURVE


def p256_times(scalar: int, point: Affine) -> Affine:
    total: Affine = None
    while scalar:
        total = p256_sum(total, point) if scalar & 1 else total
        point, scalar = p256_sum(point, point), scalar >> 1
    return total


def is_p256_signature(public: bytes, r: int, s: int, message: bytes) -> bool:
    if len(public) != 65 or public[0] != 4 or not (0 < r < ORDER and 0 < s < ORDER):
        return False
    x, y = int.from_bytes(public[1:33], "big"), int.from_bytes(public[33:], "big")
    if x >= CURVE or y >= CURVE or (y * y - x * x * x + 3 * x - B) % CURVE:
        return False
    hashed, inverse = int.from_bytes(hashlib.sha256(message).digest(), "big"), pow(s, -1, ORDER)
    found = p256_sum(p256_times(hashed * inverse % ORDER, GENERATOR), p256_times(r * inverse % ORDER, (x, y)))
    return found is not None and found[0] % ORDER == r


# -- SSH's wire format, and signatures --------------------------------------------------------------------------------


class WireReader:
    def __init__(self, raw: bytes) -> None:
        self.raw, self.place = raw, 0

    def take(self, count: int) -> bytes:
        taken = self.raw[self.place : self.place + count]
        if len(taken) != count:
            raise ValueError("it is cut off")
        self.place += count
        return taken

    def string(self) -> bytes:
        return self.take(int.from_bytes(self.take(4), "big"))

    def integer(self) -> int:
        raw = self.string()
        number = int.from_bytes(raw, "big", signed=True)
        if number <= 0 or raw != number.to_bytes(number.bit_length() // 8 + 1, "big"):
            raise ValueError("it is no number of a signature")
        return number

    def end(self) -> None:
        if self.place != len(self.raw):
            raise ValueError("something comes after its end")


def wired(raw: bytes) -> bytes:
    return len(raw).to_bytes(4, "big") + raw


def proper(text: str) -> bytes:
    raw = base64.b64decode(text.encode("ascii"), validate=True)
    if not raw or base64.b64encode(raw).decode() != text:
        raise ValueError("it is not proper base64")
    return raw


def der_numbers(raw: bytes) -> tuple[int, int]:
    """R and s of an ECDSA signature in its one proper DER spelling."""
    if len(raw) < 8 or raw[0] != 48 or raw[1] != len(raw) - 2:
        raise ValueError("it is no signature")
    numbers: list[int] = []
    place = 2
    for _ in range(2):
        size = raw[place + 1]
        part = raw[place + 2 : place + 2 + size]
        number = int.from_bytes(part, "big", signed=True)
        if raw[place] != 2 or number <= 0 or part != number.to_bytes(number.bit_length() // 8 + 1, "big"):
            raise ValueError("it is no signature")
        numbers.append(number)
        place += 2 + size
    if place != len(raw):
        raise ValueError("it is no signature")
    return numbers[0], numbers[1]


class NameKey:
    """A person's key. Raises ValueError where it is none that is verified here."""

    def __init__(self, line: str) -> None:
        words = line.split(" ")
        self.kind, raw = words[0], proper(words[1])
        is_passkey = self.kind == "webauthn-es256"
        if len(words) != (3 if is_passkey else 2):
            raise ValueError("it is no key")
        self.blob = wired(self.kind.encode()) + wired(raw) + wired(words[2].encode()) if is_passkey else raw
        wire = WireReader(self.blob)
        curve = b"nistp256"
        is_ec = self.kind in {"ecdsa-sha2-nistp256", "sk-ecdsa-sha2-nistp256@openssh.com"}
        is_ed = self.kind in {"ssh-ed25519", "sk-ssh-ed25519@openssh.com"}
        if wire.string() != self.kind.encode() or (is_ec and wire.string() != curve):
            raise ValueError("it is no key")
        self.public, self.is_ed = wire.string(), is_ed
        self.application = wire.string() if is_passkey or self.kind.startswith("sk-") else b""
        wire.end()
        if not (is_ed or is_ec or is_passkey) or len(self.public) != (32 if is_ed else 65):
            raise ValueError("it is no key")
        self.fingerprint = f"SHA256:{base64.b64encode(hashlib.sha256(self.blob).digest()).decode().rstrip('=')}"

    def has_signed_text(self, signature: bytes, text: str) -> bool:
        try:
            is_passkey = self.kind == "webauthn-es256"
            return self._passkey(signature, text) if is_passkey else self._ssh(signature, text)
        except (ValueError, LookupError, RecursionError, TypeError, AttributeError):
            return False

    def _ssh(self, signature: bytes, text: str) -> bool:
        wire = WireReader(signature)
        opening = wire.take(10)
        blob, namespace, reserved, hashed, inner = (wire.string() for _ in range(5))
        wire.end()
        if (opening, blob, namespace, reserved) != (b"SSHSIG\0\0\0\1", self.blob, b"amends", b""):
            return False
        body = {b"sha256": hashlib.sha256, b"sha512": hashlib.sha512}[hashed](text.encode()).digest()
        message = b"SSHSIG" + wired(namespace) + wired(reserved) + wired(hashed) + wired(body)
        wire = WireReader(inner)
        kind, raw = wire.string(), wire.string()
        if self.application:
            flags, counter = wire.take(1), wire.take(4)
            if not flags[0] & 1:
                return False
            message = hashlib.sha256(self.application).digest() + flags + counter + hashlib.sha256(message).digest()
        wire.end()
        if kind != self.kind.encode():
            return False
        if self.is_ed:
            return is_signature(self.public, raw, message)
        numbers = WireReader(raw)
        r, s = numbers.integer(), numbers.integer()
        numbers.end()
        return is_p256_signature(self.public, r, s, message)

    def _passkey(self, signature: bytes, text: str) -> bool:
        wire = WireReader(signature)
        opening = wire.take(8)
        blob, authenticator, client, raw = (wire.string() for _ in range(4))
        wire.end()
        said = json.loads(client)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
        if opening != b"WEBAUTHN" or blob != self.blob or len(authenticator) < 37:
            return False
        if (said.get("type"), said.get("challenge")) != ("webauthn.get", challenge):
            return False
        if authenticator[:32] != hashlib.sha256(self.application).digest() or not authenticator[32] & 1:
            return False
        r, s = der_numbers(raw)
        return is_p256_signature(self.public, r, s, authenticator + hashlib.sha256(client).digest())


# -- what is signed ---------------------------------------------------------------------------------------------------


def parts_of(text: str) -> dict[str, str]:
    """The fields of a JSON object, each as it is spelled."""
    found: dict[str, str] = {}
    scan = json.JSONDecoder().raw_decode
    place = 1
    while text[place : place + 1] not in {"}", ""}:
        name, end = scan(text, place)
        _, after = scan(text, end + 1)
        found[name] = text[end + 1 : after]
        place = after + 1 if text[after] == "," else after
    quoted = json.JSONEncoder(ensure_ascii=False).encode
    if text != "{" + ",".join(f"{quoted(name)}:{value}" for name, value in found.items()) + "}":
        raise ValueError("it cannot be read")
    return found


def text_in(spelled: str) -> str:
    found = json.loads(spelled)
    return found if type(found) is str else ""


def said_by(body: str) -> str:
    return text_in(parts_of(body).get("by", '""'))


def cut_short(spelled: str) -> str:
    if len(spelled) <= 200:
        return spelled
    return f"{spelled[:120]} ({len(spelled)} characters, sha256 {hashlib.sha256(spelled.encode()).hexdigest()})"


def as_time(milliseconds: int) -> str:
    epoch = datetime(1970, 1, 1)  # noqa: DTZ001 - of UTC, as what is added
    try:
        return f"{(epoch + timedelta(milliseconds=milliseconds)).isoformat(timespec='milliseconds')}Z"
    except OverflowError:
        return str(milliseconds)


def as_said(name: str, value: str) -> str:
    is_time = name in {"expires_at", "before"} and value.isdecimal() and len(value) <= 16
    return as_time(int(value)) if is_time else cut_short(value)


def shown_lines(shown: str) -> list[str]:
    fields, lines = parts_of(shown), list[str]()
    for name in SHOWN_NAMES:
        value = fields.get(name, "null")
        if name == "args" and value[:1] == "{":
            for each, text in parts_of(value).items():
                is_word = each.isidentifier() and each.isascii()
                lines.append(f"args.{each if is_word else json.dumps(each, ensure_ascii=False)}: {cut_short(text)}")
        else:
            lines.append(f"{name}: {as_said(name, value)}")
    contract = fields.get("contract", "{}")
    promised = parts_of(contract) if contract[:1] == "{" else {}
    return lines + [f"{name}: {cut_short(promised[name])}" for name in ("undoes", "no_rollback") if name in promised]


def plain_name(name: str) -> str:
    """The form that all spellings of a person's name share."""
    if name.isascii():
        return "".join(name.split()).casefold()
    seen = "".join(each for each in unicodedata.normalize("NFKC", name) if unicodedata.category(each)[0] not in "CZ")
    return unicodedata.normalize("NFKC", seen.casefold())


class People:
    """The roster, folded from its entries; and what they have signed."""

    def __init__(self) -> None:
        self.root, self.newest = "", 0
        self.hashes = dict[int, str]()
        self.keys = dict[bytes, dict[str, Any]]()
        self.used = set[str]()

    def change(self, entry: dict[str, Any]) -> None:
        """Take up a change of the roster. Raises ValueError where it counts for nothing."""
        if entry["name"] not in CHANGES:
            return
        fields = parts_of(entry["body"])
        person, why = text_in(fields["person"]), "it counts for nothing: "
        is_first = not self.root and entry["name"] == "person.enrolled/1"
        is_recovery = fields.get("recovery") == "true"
        if is_first and is_recovery:
            raise ValueError(f"{why}a recovery key cannot be the first")
        text = "" if is_first else self.signed_text(entry, "", self.used)
        if entry["name"] == "person.enrolled/1":
            key = NameKey(text_in(fields["key"]))
            if key.blob in self.keys:
                raise ValueError(f"{why}the key is, or was, somebody's already")
            about = {"person": person, "key": key, "recovery": is_recovery, "number": entry["number"], "gone": None}
            self.keys[key.blob] = about
        else:
            found = [one for one in self.keys.values() if one["key"].fingerprint == text_in(fields["key"])]
            if not found or plain_name(found[0]["person"]) != plain_name(person) or found[0]["gone"] is not None:
                raise ValueError(f"{why}there is no such key")
            found[0]["gone"] = (entry["number"], entry["position"])
        self.root = self.root or entry["hash"]
        self.hashes[entry["number"]] = entry["hash"]
        self.used.add(text)

    def signed_text(self, entry: dict[str, Any], shown: str, used: set[str]) -> str:
        """The text that was signed. Raises ValueError where the decision is not proved."""
        fields = parts_of(entry["body"])
        by = text_in(fields.get("by", '""'))
        if "signed" not in fields:
            raise ValueError(f"{by} is said to have decided it, and it is not signed")
        found = re.fullmatch(SIGNED_FORM, text_in(fields["signed"]))
        if found is None or not self.root or self.hashes.get(int(found[1])) != found[2]:
            raise ValueError("it goes by an entry that the roster of this journal does not have")
        signature = proper(found[5])
        wire = WireReader(signature)
        wire.take(8 if signature[:8] == b"WEBAUTHN" else 10)
        known = self.keys.get(wire.string())
        if known is None or plain_name(known["person"]) != plain_name(by):
            raise ValueError(f"it is not signed by a key that {by} has")
        if known["number"] > int(found[1]):
            raise ValueError("its key was not enrolled yet by the roster that it goes by")
        gone = known["gone"]
        if gone is not None and (gone[0] <= int(found[1]) or entry["position"] > gone[1]):
            raise ValueError("its key was revoked before")
        if known["recovery"] and entry["name"] not in CHANGES:
            raise ValueError("its key is for recovery, and decides about the roster alone")
        word, names = SIGNABLE[entry["name"]]
        ours = {*names, "by", "why", "own", "signed", "deadline_at"}
        is_approval, is_bound = entry["name"][:9] == "approval.", "refused" not in entry["name"]
        is_removal = entry["name"] == "content.removed/1"
        if not fields.keys() <= ours | ({"digest"} if is_approval else {"entries"} if is_removal else set()):
            raise ValueError("it has other fields than such a decision has")
        if is_approval and is_bound and "digest" not in fields:
            raise ValueError("it has other fields than such a decision has")
        about = json.dumps("*" if is_removal else entry["saga"], ensure_ascii=False)
        lines = ["amends decision 1", f"journal: {self.root}", f"saga: {about}", f"decision: {word}"]
        lines += [f"{one}: {as_said(one, fields[one])}" for one in names if one in fields]
        if is_approval:
            if not shown:
                raise ValueError("what was asked is not here")
            digest = hashlib.sha256(shown.encode()).hexdigest()
            if text_in(fields.get("digest", '""')) not in {"", digest}:
                raise ValueError("it is about something else than what was shown")
            lines += [*shown_lines(shown), f"shown: {digest}"]
        lines += [f"{one}: {cut_short(fields[one])}" for one in ("by", "why") if one in fields]
        lines += [f"in force: {found[3]}", f"roster: {found[1]} {found[2]}", f"at: {as_time(int(found[4]))}"]
        text = "\n".join(lines) + "\n"
        if not known["key"].has_signed_text(
            signature, self.covering(text, found, fields["by"], is_approval=is_approval)
        ):
            raise ValueError(f"its signature is not of this decision: what {by} signed says something else")
        if text in used:
            raise ValueError("its signature was used before")
        return text

    def covering(self, text: str, signed: re.Match[str], by: str, *, is_approval: bool) -> str:
        """The text that a signature is over: the decision's own, or a list of several that names it by its digest."""
        if not signed[6]:
            return text
        each = signed[6].split(",")
        if not is_approval or hashlib.sha256(text.encode()).hexdigest() not in each:
            raise ValueError("the list that was signed does not name this decision")
        lines = ["amends decisions 1", f"journal: {self.root}", f"by: {cut_short(by)}"]
        lines += [*(f"sha256: {one}" for one in each), f"in force: {signed[3]}"]
        return "\n".join([*lines, f"roster: {signed[1]} {signed[2]}", f"at: {as_time(int(signed[4]))}", ""])


class Course:
    """How a saga came to stand where it does, as far as that says which entries need no signature of their own."""

    def __init__(self) -> None:
        self.is_own = self.is_wide = False
        self.again, self.tells = (0, ""), dict[str, bool]()
        self.limits: dict[str, Any] | None = None
        self.most, self.before, self.since = dict[str, int](), 0, 0
        self.reached, self.used = dict[str, int](), dict[str, dict[str, int]]()

    def count(self, name: str, fields: dict[str, str]) -> bool:
        """Whether it says how much may be used, or is."""
        own = self.used.setdefault("", dict.fromkeys(AMOUNTS, 0))
        if name == "saga.started/1":
            limits: dict[str, Any] = json.loads(fields.get("limits", "null")) or {}
            self.limits = {limit: about for limit, about in limits.items() if limit != "within"}
            self.most = {limit: about["most"] for limit, about in self.limits.items()}
            self.since = max((about.get("since_at", 0) for about in self.limits.values()), default=0)
        elif name in ONE_MORE:
            own[ONE_MORE[name]] += 1
        elif name == "attempt.started/1":
            own["retries"] += int(fields["attempt"]) > 1
        elif name == "budget.spent/1":
            for limit, field in AMOUNTS.items():
                own[limit] += int(fields.get(field, "0"))
        elif name == "child.spent/1":
            self.used[fields["step"]] = {limit: int(fields.get(field, "0")) for limit, field in AMOUNTS.items()}
        else:
            return False
        return True

    def allows(self, fields: dict[str, str], at: int) -> bool:
        """Whether the runtime may raise a limit so far, where it has the saga go back to a checkpoint."""
        if self.limits is None:
            return True
        limit, most = text_in(fields["limit"]), int(fields["most"])
        about = self.limits.get(limit, {})
        if about.get("then") != "to_checkpoint" or self.reached.get(limit, 0) > about.get("times", 1):
            return False
        if limit == "spin":
            return most <= self.before
        used = sum(each.get(limit, 0) for each in self.used.values())
        used = at - self.since + CLOCKS_APART if limit == "seconds" else used
        return most <= max(self.before, used) + int(about["most"])

    def takes(self, name: str, number: int, fields: dict[str, str], by: str) -> bool:
        """Whether it is no decision, but says which others follow from one, or what may be used."""
        if self.count(name, fields):
            return True
        if name == "limit.raised/1":
            limit = text_in(fields["limit"])
            self.before, self.most[limit] = self.most.get(limit, 0), int(fields["most"])
        if name == "saga.paused/1":
            self.is_own = self.is_own or (fields.get("pause", "0") == "0" and by != "system:family")
            self.is_wide = not self.is_own
        elif name == "limit.reached/1":
            limit = text_in(fields["limit"])
            self.reached[limit] = self.reached.get(limit, 0) + 1
            self.again = (number + 1, fields["limit"]) if fields["then"] == '"to_checkpoint"' else (0, "")
        elif name == "incident.opened/1":
            self.tells.setdefault(fields["incident"], fields["kind"] == '"idle"')
        else:
            return False
        return True

    def exempts(self, entry: dict[str, Any], fields: dict[str, str], by: str, following: str) -> bool:
        name = str(entry["name"])
        if "signed" in fields:
            return False
        if name in RESUMING:
            was_held, self.is_wide = self.is_wide, False
            return was_held
        if not by.startswith("system:"):
            return False
        if name == "limit.raised/1":
            return self.again == (int(entry["number"]), fields["limit"]) and self.allows(fields, int(entry["at"]))
        if name == "incident.resolved/1":
            is_over = self.tells.get(fields["incident"], False) or following == "incident.opened/1"
            return fields["settled"] == "[]" and is_over
        return name == "content.removed/1"


class Names:
    """Takes entries in their order, and what is kept beside them; then says which decisions are not proved."""

    def __init__(self, root: str | None) -> None:
        self.root, self.proved = root, 0
        self.sagas, self.wanted, self.payloads = dict[str, list[dict[str, Any]]](), set[str](), dict[str, str]()
        self.counted = set[str]()

    def take(self, entry: dict[str, Any], needs: list[str]) -> None:
        name, body = entry["name"], entry["body"]
        is_kept = name in SIGNABLE or name in BESIDE or entry["saga"] == PEOPLE_SAGA
        if name == "saga.started/1" and ("to_checkpoint" in body or '"limits":{"digest":' in body):
            is_kept = True
            self.counted.add(entry["saga"])
        is_kept = is_kept or (name in USING and entry["saga"] in self.counted)
        if is_kept and (body[:1] == "{" or entry["saga"] == PEOPLE_SAGA):  # else it was removed since
            self.sagas.setdefault(entry["saga"], []).append(dict(entry))
            self.wanted.update(needs)

    def payload(self, digest: str, text: str, below: list[str]) -> None:
        if digest in self.wanted:
            self.payloads[digest] = text
            self.wanted.update(below)

    def restored(self, digest: str, room: list[int], height: int = 0) -> str:
        text = self.payloads[digest]
        if hashlib.sha256(text.encode()).hexdigest() != digest or height > 24:
            raise ValueError("what is kept beside it is another")
        if text[:1] != "+":
            room[0] -= len(text) - 1
            if room[0] < 0 or text[:1] != "=":
                raise ValueError("what is kept beside it is another")
            return text[1:]
        items: list[str] = json.loads(text[1:])
        return "".join(self.restored(one, room, height + 1) if place % 2 else one for place, one in enumerate(items))

    def whole(self, entry: dict[str, Any]) -> dict[str, Any]:
        fields = parts_of(entry["body"])
        for name, about in json.loads(fields.pop("parts", "{}")).items():
            fields[name] = self.restored(about["digest"], [int(about["size"])])
        for name, about in json.loads(fields.pop("blobs", "{}")).items():
            fields[name] = self.payloads[about["digest"]]
        return {**entry, "body": "{" + ",".join(f'"{name}":{fields[name]}' for name in sorted(fields)) + "}"}

    def judge(self) -> Iterator[tuple[dict[str, Any] | None, str]]:
        people, since = People(), 0
        troubles = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
        for entry in self.sagas.pop(PEOPLE_SAGA, []):
            try:
                people.change(self.whole(entry))
            except troubles as exc:
                yield entry, str(exc)
            since = since or (entry["position"] if people.root else 0)
        self.proved = max(0, len(people.hashes) - 1)
        if self.root is not None and people.root != self.root:
            yield None, f"its roster has the root {people.root or 'of nobody'}, and {self.root} was told"
        for entries in self.sagas.values():
            for entry, why in self.judge_saga(people, entries):
                asked = entry["name"] == "approval.requested/1" and people.root
                if '"signed":' in entry["body"] or asked or (self.root and entry["position"] > since):
                    yield entry, why

    def judge_saga(self, people: People, entries: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], str]]:
        shown, good, used, course = dict[str, str](), dict[int, str](), set[str](), Course()
        raises = dict[int, list[str]]()
        names = {one["number"]: one["name"] for one in entries if one["name"] != "approval.requested/1"}
        unsure = list[tuple[dict[str, Any], str]]()
        for stored in entries:
            try:
                entry = stored if stored["name"] in USING else self.whole(stored)
                fields = parts_of(entry["body"])
                name, by, step = entry["name"], said_by(entry["body"]), text_in(fields.get("step", '""'))
                if name == "approval.requested/1":
                    shown[step] = fields["shown"]
                    if hashlib.sha256(fields["shown"].encode()).hexdigest() != text_in(fields["digest"]):
                        yield stored, "what was shown does not have the digest that it says"
                    continue
                if course.takes(name, entry["number"], fields, by):
                    continue
                resumes = name == "rollback.resumed/1" and by.startswith("system:") and "signed" not in fields
                if name == "rollback.started/1" or resumes:
                    good[entry["number"]], course.is_own = by, False
                    continue
                if course.exempts(entry, fields, by, names.get(entry["number"] + 1, "")):
                    continue
                try:
                    used.add(people.signed_text(entry, shown.get(step, ""), used))
                    good[entry["number"]], self.proved = by, self.proved + 1
                    raises[entry["number"]] = text_in(fields.get("raises", '""')).split(", ")
                    course.is_own = course.is_own and name not in RESUMING
                except (ValueError, LookupError) as exc:
                    if name in RESUMING and self.is_consequence(entry, good, names, raises):
                        course.is_own = False
                    else:
                        unsure.append((entry, str(exc)))
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as exc:
                yield stored, f"it cannot be read: {exc}"
        for entry, why in unsure:
            if not self.is_consequence(entry, good, names, raises):
                yield entry, why

    def is_consequence(
        self, entry: dict[str, Any], good: dict[int, str], names: dict[int, str], raises: dict[int, list[str]]
    ) -> bool:
        name, by, fields = entry["name"], said_by(entry["body"]), parts_of(entry["body"])
        vouches = name in CLOSING and any(fields.get(one, plain) != plain for one, plain in NO_WORD.items())
        amount = f"{text_in(fields['limit'])} {fields['most']}" if name == "limit.raised/1" else ""
        if vouches or "signed" in fields or name not in (*FOLLOWING, *CLOSING):
            return False
        causes = (*FOLLOWING, *CLOSING) if name in FOLLOWING else ("rollback.started/1",)
        for step in (-1,) if name in RESUMING else (-1, 1):
            place = entry["number"] + step
            while names.get(place) in (*FOLLOWING, *CLOSING, "rollback.started/1"):
                if good.get(place) == by and names[place] in causes and (not amount or amount in raises.get(place, [])):
                    return True
                place += step
        return False
