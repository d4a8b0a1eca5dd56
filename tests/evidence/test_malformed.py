"""Whatever comes in place of a bundle, a note or a key: a typed error or a verdict, from both verifiers the same."""

import io
import json
import os
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from amends.errors import EvidenceError
from amends.evidence.bundle import spell
from amends.evidence.verify import verify
from amends.evidence.verify.verify import verify_bundle
from amends.journal.tree import leaf
from tests.evidence.given import UNREADABLE, conclusion, ended, lines_of, made, verdict
from tests.parts import sampled

EXAMPLES = int(os.environ.get("AMENDS_FUZZ", "300"))
SMALL = made(3)
BUNDLE = SMALL.bundle()
LINES = lines_of(BUNDLE)
HEAD = LINES[0]

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def read(bundle: bytes) -> str:
    return conclusion(bundle, SMALL.key)


@pytest.mark.parametrize(
    ("bundle", "says"),
    [
        (b"", "line 1 of the bundle cannot be read: it is cut off"),
        (b"\n", "line 1 of the bundle cannot be read: it is not JSON"),
        (b"{}\n", "line 1 .*: it has no type"),
        (b"[]\n", "line 1 .*: it is not one JSON object"),
        (b"null\n", "line 1 .*: it is not one JSON object"),
        (b'{"type":1}\n', "line 1 .*: it has no type"),
        (b'{"type":"end"}\n', "line 1 .*: it is no bundle"),
        (b'{"type": "bundle"}\n', "line 1 .*: it is not spelled as"),
        (b"\xff\xfe\n", "line 1 .*: it is not JSON"),
        (b"[" * 100_000 + b"\n", "line 1 .*: it is not JSON"),
        (b"{" * 100_000 + b"\n", "line 1 .*: it is not JSON"),
        (b"1" * 10_000 + b"\n", "line 1 .*: it is not"),
        (HEAD.replace(b"evidence/1", b"evidence/9"), "it is of the format 'amends.evidence/9'"),
        (HEAD.replace(b"null", b"7"), "its sagas is not what a bundle has"),
        (HEAD, "line 2 .*: it is cut off"),
        (HEAD + HEAD, "line 2 .*: it is no end"),
        (BUNDLE + b"x", "something comes after the end"),
        (BUNDLE + BUNDLE, "something comes after the end"),
        (BUNDLE[:-1], "it is cut off"),
        (BUNDLE.replace(b"\n", b"\r\n"), "line 1 .*: it is not one JSON object"),
        (b"\xef\xbb\xbf" + BUNDLE, "line 1 .*: it is not JSON"),
        (b"PK\x03\x04" + bytes(1000), "line 1"),
        (b'{"type":"bundle","type":"bundle"}\n', "it is not spelled as"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_no_bundle_is_refused_in_clear_words(bundle: bytes, says: str) -> None:
    with pytest.raises(EvidenceError, match=says):
        verify_bundle(io.BytesIO(bundle), SMALL.key)
    assert read(bundle) == UNREADABLE


def test_a_line_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "LONGEST_LINE", 1000)
    with pytest.raises(EvidenceError, match=r"line 1 .*: it is too long"):
        verify_bundle(io.BytesIO(b'{"a":"' + b"x" * 5000), SMALL.key)


def test_more_notes_than_anybody_would_verify_are_given_up() -> None:
    assert read(ended([HEAD, *LINES[1:2] * 1001])) == UNREADABLE
    assert read(ended([HEAD, *LINES[1:2] * 3, *LINES[2:]])) == "unattested"


@pytest.mark.parametrize("key", ["", "x", "a+b+c", SMALL.key[:-1], SMALL.key + "x"])
def test_what_is_no_key_is_refused(key: str) -> None:
    with pytest.raises(EvidenceError, match="is not a public key"):
        verify_bundle(io.BytesIO(BUNDLE), key)
    assert conclusion(BUNDLE, key) == UNREADABLE


@pytest.mark.parametrize("note", ["", "x", "\n\n", "a\nb\nc\n\n— d e\n"])
def test_what_is_no_checkpoint_is_a_trouble(note: str) -> None:
    assert verdict(BUNDLE, SMALL.key, note)["conclusion"] == "failed"


FIELDS = ("at", "body", "hash", "name", "number", "position", "saga", "type")


@settings(max_examples=EXAMPLES)
@given(place=st.integers(1, len(LINES) - 1), name=st.sampled_from(FIELDS), value=JSON)
def test_any_value_in_place_of_any_other_is_seen_or_refused(place: int, name: str, value: object) -> None:
    fields: dict[str, Any] = json.loads(LINES[place])
    if name not in fields or (fields[name] == value and type(fields[name]) is type(value)):
        return
    try:
        line = spell({**fields, name: value}).encode() + b"\n"
    except (ValueError, UnicodeEncodeError):
        return
    assert read(ended([*LINES[:place], line, *LINES[place + 1 :]])) in {UNREADABLE, "failed"}


@settings(max_examples=EXAMPLES)
@given(place=st.integers(0, len(LINES) - 1), fields=st.dictionaries(st.sampled_from((*FIELDS, "x")), JSON))
def test_any_other_line_is_seen_or_refused(place: int, fields: dict[str, Any]) -> None:
    try:
        line = spell(fields).encode() + b"\n"
    except (ValueError, UnicodeEncodeError):
        return
    assert read(ended([*LINES[:place], line, *LINES[place + 1 :]])) in {UNREADABLE, "failed"}


@settings(max_examples=EXAMPLES)
@given(bundle=st.binary(max_size=300) | st.text(max_size=200).map(lambda text: text.encode(errors="replace")))
def test_any_bytes_are_refused(bundle: bytes) -> None:
    assert read(bundle) == UNREADABLE
    assert read(HEAD + bundle) == UNREADABLE


EDITS: tuple[Callable[[random.Random, bytearray], None], ...] = (
    lambda chance, data: data.__setitem__(chance.randrange(len(data)), chance.randrange(256)),
    lambda chance, data: data.insert(chance.randrange(len(data)), chance.randrange(256)),
    lambda chance, data: data.__delitem__(chance.randrange(len(data))),
    lambda chance, data: data.__delitem__(slice(*sorted(chance.sample(range(len(data)), 2)))),
    lambda chance, data: data.extend(data[chance.randrange(len(data)) :]),
)


@pytest.mark.parametrize("seed", sampled(range(962, 967), each=5))
def test_bundles_that_were_mangled_at_random_are_seen_or_refused(
    seed: int, record_property: Callable[[str, object], None]
) -> None:
    chance = random.Random(seed)
    for turn in range(EXAMPLES):
        data = bytearray(BUNDLE)
        for _ in range(1 + turn % 4):
            chance.choice(EDITS)(chance, data)
        assert bytes(data) == BUNDLE or read(bytes(data)) in {UNREADABLE, "failed"}
    record_property("tampered", {"mangled bundles": EXAMPLES})


def test_branches_where_none_can_be_are_refused() -> None:
    bundle = made(8, tail=False).bundle("s3")
    lines = lines_of(bundle)
    places = [place for place, line in enumerate(lines) if b'"branch"' in line]
    for place in places:
        for name, value in (("height", 9), ("height", 52), ("position", 1), ("position", 2**53), ("height", -1)):
            fields = {**json.loads(lines[place]), name: value}
            line = spell(fields).encode() + b"\n"
            if line != lines[place]:
                assert read_of(8, ended([*lines[:place], line, *lines[place + 1 :]])) in {UNREADABLE, "failed"}
        assert read_of(8, ended([*lines[:place], *lines[place + 1 :]])) in {UNREADABLE, "failed"}
        assert read_of(8, ended([*lines[: place + 1], *lines[place:]])) in {UNREADABLE, "failed"}


def read_of(sagas: int, bundle: bytes) -> str:
    return conclusion(bundle, made(sagas, tail=False).key)


def test_an_entry_of_a_saga_that_is_hidden_in_a_branch_is_missed() -> None:
    """Whoever makes a bundle can show less of a saga than there is; in the middle of it, that shows."""
    whole = made(8, tail=False)
    lines = lines_of(whole.bundle("s3"))
    entries = [place for place, line in enumerate(lines) if line.startswith(b'{"at"')]
    hashes = [json.loads(lines[place]) for place in entries]
    place, hidden = entries[4], hashes[4]
    branch = {"hash": leaf(bytes.fromhex(hidden["hash"])).hex(), "height": 0, "position": hidden["position"]}
    forged = [*lines[:place], spell({**branch, "type": "branch"}).encode() + b"\n", *lines[place + 1 :]]
    found = verdict(ended(forged), whole.key)
    assert (found["conclusion"], found["missing"]["count"]) == ("failed", 1)
    assert found["unattested"]["count"] == 1  # the one after it has lost the hash that it builds on
