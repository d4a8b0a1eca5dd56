"""Records as JSON and back. Names on disk are written by hand; what does not read back is damaged, and said to be.

So is the reading, and not derived from annotations as the journal's: the defaults of the model are for whoever opens a
changeset, and a record that lacks its limits is refused, not read as one without limits. Most of the rest has another
shape on disk than in the model: a state has the fields of its kind alone, an ancestor is left out where it is the state
before, a branch is nested, and paths are bytes that are spelled, and checked to stay inside their tree.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar, cast

from amends.changeset.model.model import (
    Ancestor,
    ChangesetRecord,
    Isolation,
    Layer,
    LayerEntry,
    LayerStart,
    Life,
    Limits,
    PathKind,
    PathState,
    Terms,
    Totals,
)
from amends.changeset.model.paths import relative, spell, unspell
from amends.errors import ChangesetDamagedError, PathError

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Fields: TypeAlias = dict[str, Json]
T = TypeVar("T")

FORMAT: Final = 1
_NAME: Final = re.compile(r"[^/\x00-\x1f.\ud800-\udfff][^/\x00-\x1f\ud800-\udfff]{0,199}")
_HURT: Final = "bring it back from a backup; where there is none, keep a copy and remove it"


def dumps(fields: Mapping[str, Json]) -> bytes:
    """A record's bytes: its own digest first, so that a torn one is seen."""
    body = json.dumps(fields, separators=(",", ":"), sort_keys=True)
    return f'{{"digest":"{hashlib.sha256(body.encode()).hexdigest()}","format":{FORMAT},"body":{body}}}\n'.encode()


def loads(raw: bytes, what: str) -> Fields:
    try:
        whole = cast("Fields", json.loads(raw))
        body = cast("Fields", whole["body"])
        said, form = whole["digest"], whole["format"]
    except (ValueError, KeyError, TypeError, RecursionError) as exc:
        raise ChangesetDamagedError(f"{what} is not a whole record ({exc}); {_HURT}") from None
    if form != FORMAT:
        raise ChangesetDamagedError(f"{what} has format {form}, and this version of amends reads {FORMAT}; upgrade")
    if hashlib.sha256(json.dumps(body, separators=(",", ":"), sort_keys=True).encode()).hexdigest() != said:
        raise ChangesetDamagedError(f"{what} does not match its own digest; {_HURT}")
    return body


def read(raw: bytes, what: str, build: Callable[[Fields], T]) -> T:
    """A record as an object. Whatever does not fit means that it is damaged."""
    fields = loads(raw, what)
    try:
        return build(fields)
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        raise ChangesetDamagedError(f"{what} lacks a field or has a wrong one ({exc!r})") from None


def state_fields(state: PathState | None) -> Json:
    if state is None:
        return None
    fields: Fields = {"kind": str(state.kind), "mode": state.mode, "mtime_ns": state.mtime_ns}
    if state.kind is PathKind.FILE:
        fields |= {"size": state.size, "digest": state.digest}
    elif state.kind is PathKind.LINK:
        fields |= {"target": spell(state.target)}
    elif state.kind is PathKind.OTHER:
        fields |= {"digest": state.digest}
    return fields


def state_of(value: Json) -> PathState | None:
    if value is None:
        return None
    fields = cast("Mapping[str, Json]", value)
    return PathState(
        kind=PathKind(text(fields["kind"])),
        mode=number(fields["mode"]),
        mtime_ns=number(fields["mtime_ns"]),
        size=number(fields.get("size", 0)),
        digest=text(fields.get("digest", "")),
        target=unspell(text(fields.get("target", ""))),
    )


def text(value: Json) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def number(value: Json) -> int:
    if not isinstance(value, int):
        raise TypeError(value)
    return value


def items(value: Json) -> list[Json]:
    if not isinstance(value, list):
        raise TypeError(value)
    return value


def fields_of(value: Json) -> Fields:
    if not isinstance(value, dict):
        raise TypeError(value)
    return value


def path_of(value: Json, *, root: bool = False) -> bytes:
    """A path that a record names: below its tree, and nowhere else. `root`: or the tree itself."""
    path = unspell(text(value))
    try:
        is_below = not path.startswith(b"/") and relative(path, b"/") == path and (bool(path) or root)
    except PathError:
        is_below = False
    if not is_below:
        raise ChangesetDamagedError(f"a record names {spell(path)!r}, which is no path inside a tree; {_HURT}")
    return path


def name_of(value: Json) -> str:
    """The name of a folder that a record names: one name, and no way to another place."""
    said = text(value)
    if not _NAME.fullmatch(said):
        raise ChangesetDamagedError(f"a record names {said!r}, which is no landing's id; {_HURT}")
    return said


def optional(value: Json, build: Callable[[Json], T]) -> T | None:
    return None if value is None else build(value)


def texts(values: Sequence[str]) -> Json:
    return list(values)


def _entry_fields(entry: LayerEntry) -> Json:
    fields: Fields = {"path": spell(entry.path), "state": state_fields(entry.state)}
    if entry.before is not None:
        fields["before"] = state_fields(entry.before)
    if not entry.ancestor.is_known:
        fields["ancestor"] = "unknown"
    elif entry.ancestor.state != entry.before:
        fields["ancestor"] = [state_fields(entry.ancestor.state)]
    if entry.is_ephemeral:
        fields["ephemeral"] = True
    if entry.is_rebased:
        fields["rebased"] = True
    if entry.clash:
        fields["clash"] = entry.clash
    return fields


def _entry_of(value: Json) -> LayerEntry:
    fields = fields_of(value)
    before = state_of(fields.get("before"))
    said = fields.get("ancestor")
    if said is None:
        ancestor = Ancestor(state=before)
    elif said == "unknown":
        ancestor = Ancestor(state=None, is_known=False)
    else:
        ancestor = Ancestor(state=state_of(items(said)[0]))
    return LayerEntry(
        path=path_of(fields["path"]),
        state=state_of(fields["state"]),
        before=before,
        ancestor=ancestor,
        is_ephemeral=bool(fields.get("ephemeral", False)),
        is_rebased=bool(fields.get("rebased", False)),
        clash=text(fields.get("clash", "")),
    )


def totals_fields(totals: Totals) -> Fields:
    return {
        "files": totals.files,
        "added_lines": totals.added_lines,
        "removed_lines": totals.removed_lines,
        "bytes": totals.bytes,
    }


def totals_of(value: Json) -> Totals:
    fields = fields_of(value)
    return Totals(
        files=number(fields["files"]),
        added_lines=number(fields["added_lines"]),
        removed_lines=number(fields["removed_lines"]),
        bytes=number(fields["bytes"]),
    )


def begun_fields(begun: LayerStart) -> Fields:
    return {
        "changeset": begun.changeset,
        "number": begun.number,
        "name": begun.name,
        "at": begun.at,
        "since_ns": list(begun.since_ns),
        "landings": list(begun.landings),
    }


def begun_of(fields: Fields) -> LayerStart:
    return LayerStart(
        changeset=text(fields["changeset"]),
        number=number(fields["number"]),
        name=text(fields["name"]),
        at=number(fields["at"]),
        since_ns=tuple(map(number, items(fields["since_ns"]))),
        landings=tuple(map(number, items(fields["landings"]))),
    )


def layer_fields(layer: Layer) -> Fields:
    fields: Fields = {
        "begun": begun_fields(layer.begun),
        "trees": [[_entry_fields(entry) for entry in entries] for entries in layer.trees],
        "sealed_at": layer.sealed_at,
        "provider": layer.provider,
        "totals": totals_fields(layer.totals),
    }
    if layer.formerly:
        fields["formerly"] = texts(layer.formerly)
    if layer.is_dropped:
        fields["dropped"] = True
    return fields


def layer_of(fields: Fields) -> Layer:
    return Layer(
        begun=begun_of(fields_of(fields["begun"])),
        trees=tuple(tuple(map(_entry_of, items(entries))) for entries in items(fields["trees"])),
        sealed_at=number(fields["sealed_at"]),
        provider=text(fields["provider"]),
        totals=totals_of(fields["totals"]),
        digest=digest_of(fields),
        formerly=tuple(map(text, items(fields.get("formerly", [])))),
        is_dropped=bool(fields.get("dropped")),
    )


def digest_of(fields: Fields) -> str:
    """The digest by which a journal can name a layer."""
    return hashlib.sha256(json.dumps(fields, separators=(",", ":"), sort_keys=True).encode()).hexdigest()


def record_fields(record: ChangesetRecord) -> Fields:
    limits, terms = record.terms.limits, record.terms
    branch: Fields = {} if record.branch_of is None else {"of": record.branch_of, "forked_at": record.forked_at}
    return {
        "id": record.id,
        "name": record.name,
        "roots": [spell(root) for root in record.roots],
        "life": str(record.life),
        "opened_at": record.opened_at,
        "ended_at": record.ended_at,
        "landing": record.landing,
        "kept_from": None if record.kept_from is None else str(record.kept_from),
        "inverse_of": record.inverse_of,
        **({"branch": branch} if branch else {}),
        **({"saga": record.saga} if record.saga else {}),
        "terms": {
            "provider": terms.provider,
            "isolation": str(terms.isolation),
            "reads": texts(terms.reads),
            "ephemeral": texts(terms.ephemeral),
            "confine": terms.confine,
            **({} if terms.network else {"network": False}),
            "limits": {
                "files": limits.files,
                "lines": limits.lines,
                "bytes": limits.bytes,
                "denied": texts(limits.denied),
                "links_out": limits.links_out,
                "portable_names": limits.portable_names,
            },
        },
    }


def record_of(fields: Fields) -> ChangesetRecord:
    branch = fields_of(fields.get("branch", {}))
    return ChangesetRecord(
        id=text(fields["id"]),
        name=text(fields["name"]),
        roots=tuple(unspell(text(root)) for root in items(fields["roots"])),
        life=Life(text(fields["life"])),
        opened_at=number(fields["opened_at"]),
        ended_at=optional(fields["ended_at"], number),
        landing=optional(fields["landing"], name_of),
        kept_from=optional(fields["kept_from"], lambda value: Life(text(value))),
        inverse_of=optional(fields["inverse_of"], name_of),
        branch_of=optional(branch.get("of"), text),
        forked_at=number(branch.get("forked_at", 0)),
        saga=text(fields.get("saga", "")),
        terms=_terms_of(fields_of(fields["terms"])),
    )


def _terms_of(fields: Fields) -> Terms:
    limits = fields_of(fields["limits"])
    return Terms(
        provider=text(fields["provider"]),
        isolation=Isolation(text(fields["isolation"])),
        reads=tuple(map(text, items(fields["reads"]))),
        ephemeral=tuple(map(text, items(fields["ephemeral"]))),
        confine=optional(fields["confine"], bool),
        network=bool(fields.get("network", True)),
        limits=Limits(
            files=optional(limits["files"], number),
            lines=optional(limits["lines"], number),
            bytes=optional(limits["bytes"], number),
            denied=tuple(map(text, items(limits["denied"]))),
            links_out=bool(limits["links_out"]),
            portable_names=bool(limits["portable_names"]),
        ),
    )
