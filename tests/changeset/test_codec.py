"""A record on disk is read back as it was, and one that lacks something is damaged: no default stands in for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from amends.changeset import Isolation, Life, Limits, Terms, Totals
from amends.changeset.model import codec
from amends.changeset.model.model import (
    UNKNOWN,
    Ancestor,
    ChangesetRecord,
    Layer,
    LayerEntry,
    LayerStart,
    PathKind,
    PathState,
)
from amends.errors import ChangesetDamagedError

LIMITS = Limits(files=3, lines=40, bytes=500, denied=("*.pem",), links_out=True)
RECORD = ChangesetRecord(
    id="c1",
    name="trip",
    roots=(b"/srv/a", b"/srv/\xff"),
    life=Life.KEPT,
    terms=Terms(isolation=Isolation.STRICT, reads=("src/*",), limits=LIMITS, confine=True, network=False),
    opened_at=7,
    kept_from=Life.LANDED,
    landing="1-a",
    branch_of="c0",
    forked_at=2,
    saga="s1",
)
FILE = PathState(kind=PathKind.FILE, mode=0o644, size=2, mtime_ns=9, digest="d")
LINK = PathState(kind=PathKind.LINK, mode=0o777, mtime_ns=9, target=b"to/\xfe")
LAYER = Layer(
    begun=LayerStart(changeset="c1", number=1, name="one", at=8, since_ns=(5,), landings=(0,)),
    trees=(
        (
            LayerEntry(path=b"a", state=FILE, before=None, ancestor=Ancestor(state=None)),
            LayerEntry(path=b"b", state=None, before=LINK, ancestor=Ancestor(state=FILE), is_ephemeral=True),
            LayerEntry(path=b"c", state=LINK, before=FILE, ancestor=UNKNOWN, is_rebased=True, clash="both"),
        ),
    ),
    sealed_at=9,
    provider="copy",
    totals=Totals(files=2, added_lines=1, bytes=2),
    formerly=("e",),
)
MAY_LACK = frozenset({"saga", "branch", "branch.of", "branch.forked_at", "terms.network", "formerly"})
"""Written only where there is something to say; each is read as if it were not."""


def without(fields: codec.Fields, path: str) -> codec.Fields:
    name, _, rest = path.partition(".")
    if not rest:
        return {key: value for key, value in fields.items() if key != name}
    return {**fields, name: without(codec.fields_of(fields[name]), rest)}


def paths(fields: codec.Fields, under: str = "") -> Iterator[str]:
    for name, value in fields.items():
        yield under + name
        if isinstance(value, dict):
            yield from paths(value, f"{under}{name}.")


@pytest.mark.parametrize("lacking", list(paths(codec.record_fields(RECORD))))
def test_a_record_that_lacks_a_field_is_damaged_and_never_one_without_limits(lacking: str) -> None:
    raw = codec.dumps(without(codec.record_fields(RECORD), lacking))
    if lacking in MAY_LACK:
        assert codec.read(raw, "record.json", codec.record_of) != RECORD
        return
    with pytest.raises(ChangesetDamagedError, match=r"record\.json lacks a field"):
        codec.read(raw, "record.json", codec.record_of)


@pytest.mark.parametrize("lacking", list(paths(codec.layer_fields(LAYER))))
def test_a_layer_that_lacks_a_field_is_damaged(lacking: str) -> None:
    raw = codec.dumps(without(codec.layer_fields(LAYER), lacking))
    if lacking in MAY_LACK:
        assert codec.read(raw, "sealed.json", codec.layer_of).formerly == ()
        return
    with pytest.raises(ChangesetDamagedError, match=r"sealed\.json lacks a field"):
        codec.read(raw, "sealed.json", codec.layer_of)


def test_what_was_written_is_read_back() -> None:
    assert codec.read(codec.dumps(codec.record_fields(RECORD)), "record.json", codec.record_of) == RECORD
    layer = codec.read(codec.dumps(codec.layer_fields(LAYER)), "sealed.json", codec.layer_of)
    assert (layer.trees, layer.totals, layer.begun) == (LAYER.trees, LAYER.totals, LAYER.begun)
    assert layer.digest == codec.digest_of(codec.layer_fields(LAYER))
