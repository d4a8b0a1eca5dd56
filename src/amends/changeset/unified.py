"""A unified diff as git writes it, so that people can read it, agents can review it, and `git apply` takes it.

Contents that are no text are named and not shown. Folders, which git does not know, have a line of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from amends.changeset.model import Kind, State
from amends.changeset.texts import is_text, lines_of, matching
from amends.dataclass import dataclass

CONTEXT: Final = 3
_MARK: Final = "\\ No newline at end of file\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One path's change; a content of None is one that is no longer to be had."""

    path: bytes
    before: State | None
    after: State | None
    old: bytes | None = b""
    new: bytes | None = b""


def unified(changes: Sequence[Shown]) -> str:
    return "".join(line for change in changes for line in _change(change))


def _change(change: Shown) -> Iterator[str]:
    before, after = change.before, change.after
    kinds = {state.kind for state in (before, after) if state is not None}
    if before is not None and after is not None and len(kinds) > 1:
        yield from _change(Shown(path=change.path, before=before, after=None, old=change.old))
        yield from _change(Shown(path=change.path, before=None, after=after, new=change.new))
    elif Kind.FOLDER in kinds or Kind.OTHER in kinds:
        yield _folder(change)
    else:
        yield from _file(change)


def _folder(change: Shown) -> str:
    name = quoted(change.path)
    if change.after is None:
        what = "folder" if change.before is not None and change.before.kind is Kind.FOLDER else "special file"
        return f"deleted {what} {name}\n"
    if change.before is None:
        return f"new folder {name} (mode {change.after.mode:o})\n"
    return f"folder {name}: mode {change.before.mode:o} to {change.after.mode:o}\n"


def _file(change: Shown) -> Iterator[str]:
    one, other = quoted(b"a/" + change.path), quoted(b"b/" + change.path)
    yield f"diff --git {one} {other}\n"
    before, after = change.before, change.after
    if before is None and after is not None:
        yield f"new file mode {_mode(after)}\n"
    elif after is None and before is not None:
        yield f"deleted file mode {_mode(before)}\n"
    elif before is not None and after is not None and _mode(before) != _mode(after):
        yield f"old mode {_mode(before)}\n"
        yield f"new mode {_mode(after)}\n"
    if before is not None and after is not None and (before.digest, before.target) == (after.digest, after.target):
        return
    one, other = one if before is not None else "/dev/null", other if after is not None else "/dev/null"
    if change.old is None or change.new is None or not (is_text(change.old) and is_text(change.new)):
        yield f"Binary files {one} and {other} differ\n"
        return
    hunks = list(_hunks(lines_of(change.old), lines_of(change.new)))
    if hunks:
        yield f"--- {one}\n"
        yield f"+++ {other}\n"
        yield from hunks


def _mode(state: State) -> str:
    """As git has it: a link, or a file that can be run, or one that cannot."""
    if state.kind is Kind.LINK:
        return "120000"
    return f"100{state.mode & 0o777:03o}" if state.mode & 0o777 in {0o644, 0o755} else f"100{_nearest(state.mode)}"


def _nearest(mode: int) -> str:
    return "755" if mode & 0o100 else "644"


Piece: TypeAlias = tuple[bool, int, int, int, int]
"""Whether it is equal on both sides, and where it begins and ends on each."""


def _hunks(old: list[bytes], new: list[bytes]) -> Iterator[str]:
    for group in _groups(list(_pieces(old, new))):
        first, last = group[0], group[-1]
        yield f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@\n"
        for is_equal, a, b, c, d in group:
            if is_equal:
                yield from _said(" ", old[a:b])
            else:
                yield from _said("-", old[a:b])
                yield from _said("+", new[c:d])


def _pieces(old: list[bytes], new: list[bytes]) -> Iterator[Piece]:
    blocks = matching(old, new) or [(len(old), len(new), 0)]
    at, to = 0, 0
    for a, b, length in blocks:
        if a > at or b > to:
            yield False, at, a, to, b
        if length:
            yield True, a, a + length, b, b + length
        at, to = a + length, b + length


def _groups(pieces: list[Piece]) -> Iterator[list[Piece]]:
    """Changes with some lines around them; two with few equal lines between them stay together."""
    group: list[Piece] = []
    for place, (is_equal, a, b, c, d) in enumerate(pieces):
        if not is_equal:
            group.append((False, a, b, c, d))
            continue
        is_first, is_last = place == 0, place == len(pieces) - 1
        if is_first:
            group = [(True, max(a, b - CONTEXT), b, max(c, d - CONTEXT), d)]
        elif is_last:
            group.append((True, a, min(b, a + CONTEXT), c, min(d, c + CONTEXT)))
        elif b - a > 2 * CONTEXT:
            group.append((True, a, a + CONTEXT, c, c + CONTEXT))
            yield group
            group = [(True, b - CONTEXT, b, d - CONTEXT, d)]
        else:
            group.append((True, a, b, c, d))
    if any(not piece[0] for piece in group):
        yield group


def _range(start: int, end: int) -> str:
    length = end - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"


def _said(sign: str, lines: list[bytes]) -> Iterator[str]:
    for line in lines:
        text = line.decode("utf-8")
        yield sign + text if text.endswith("\n") else f"{sign}{text}\n{_MARK}"


def quoted(path: bytes) -> str:
    """As git quotes names that a line cannot hold as they are."""
    try:
        text = path.decode("utf-8")
    except UnicodeDecodeError:
        return _quoted(path)
    return text if text.isprintable() and '"' not in text and "\\" not in text else _quoted(path)


def _quoted(path: bytes) -> str:
    special = {0x22: '\\"', 0x5C: "\\\\", 0x0A: "\\n", 0x09: "\\t", 0x0D: "\\r"}
    return '"' + "".join(special.get(c) or (chr(c) if 0x20 <= c < 0x7F else f"\\{c:03o}") for c in path) + '"'  # noqa: PLR2004 - the borders of ASCII
