"""A unified diff as git writes it, so that people can read it, agents can review it, and `git apply` takes it.

Content that is no text, or too large to be compared line by line, is named with its size and digest, and as much of it
as is worth reading follows, each line after a bar, which no program takes for a part of a patch. Folders, which git
does not know, have a line of their own. Modes stand in full.

A diff is data: its lines end by newlines, and everything else in it stands as it is in the files. Whoever shows it to
people makes the rest visible. Its sizes are of just what it shows: see `overview`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from amends.changeset.model.model import PathKind, PathState, mode_differs
from amends.changeset.text.lines import (
    Piece,
    count_lines,
    is_text,
    lines_by_size,
    lines_in,
    lines_of,
    pieces,
    widest_in,
    width,
)
from amends.dataclass import dataclass

CONTEXT: Final = 3
MOST_SHOWN: Final = 64 * 1024
"""Characters that are shown of one file that is no text."""
_PER_ESCAPE: Final = 32
"""How many of them an escape costs: of a picture little is shown, of a script with one odd byte nearly all."""
_MARK: Final = "\\ No newline at end of file\n"
_ESCAPES: Final = {
    **{each: f"\\x{each:02x}" for each in (*range(0x20), 0x7F) if chr(each) != "\t"},
    **{0xDC00 + each: f"\\x{each:02x}" for each in range(0x80, 0x100)},
    ord("\\"): "\\\\",
}
"""Of what was decoded byte by byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bulk:
    """Content that is too large to hold: how much it is, and the part of it that is not the same on both sides."""

    lines: int
    widest: int
    start: int
    """Where that part begins, in bytes."""
    length: int
    part: bytes
    """Its beginning; all of it, where it is not much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One path's change; a content of None is one that is no longer to be had, or too large to hold."""

    path: bytes
    before: PathState | None
    after: PathState | None
    old: bytes | None = b""
    new: bytes | None = b""
    old_bulk: Bulk | None = None
    new_bulk: Bulk | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """A diff for a reviewer, and the sizes of just that, for rules."""

    diff: str
    changed_lines: int
    """Added and removed ones. What is no text counts whole, and a changed mode as one line in place of another."""
    binary_files: int
    """Files with another content, which is or was no text, or too large for it."""
    modes_changed: int
    """Of files and folders that were there and stay."""
    widest_line: int
    """The widest line that is added: in characters, or in bytes where it is no text."""


def overview(changes: Sequence[Shown]) -> Overview:
    """All of it. Each is compared once."""
    compared = [_Compared(change) for change in changes]
    return Overview(
        diff="".join(line for each in compared for line in each.text()),
        changed_lines=sum(sum(each.changed_lines()) for each in compared),
        binary_files=sum(each.is_binary for each in compared),
        modes_changed=sum(each.is_mode_changed for each in compared),
        widest_line=max((each.widest() for each in compared), default=0),
    )


def unified(changes: Sequence[Shown]) -> str:
    return "".join(line for change in changes for line in _Compared(change).text())


class _Compared:
    """One change, its lines held against each other."""

    def __init__(self, change: Shown) -> None:
        before, after = change.before, change.after
        self._change = change
        self.is_mode_changed = mode_differs(before, after)
        self._is_other = _content(before) != _content(after)
        has_both = self._is_other and change.old is not None and change.new is not None
        self._old = lines_of(change.old or b"") if has_both else []
        self._new = lines_of(change.new or b"") if has_both else []
        self._pieces = list(pieces(self._old, self._new))
        is_file = any(state is not None and state.kind is PathKind.FILE for state in (before, after))
        self.is_binary = self._is_other and is_file and not (_is_text(change.old) and _is_text(change.new))

    def changed_lines(self) -> tuple[int, int]:
        change, mode = self._change, int(self.is_mode_changed)
        if self.is_binary:
            added = _lines(change.after, change.new, change.new_bulk)
            return (added + mode, _lines(change.before, change.old, change.old_bulk) + mode)
        added, removed = count_lines(self._old, self._new, self._pieces)
        return (added + mode, removed + mode)

    def widest(self) -> int:
        change = self._change
        if self.is_binary:
            return change.new_bulk.widest if change.new_bulk is not None else widest_in([change.new or b""])
        lines = (line for is_equal, _, _, c, d in self._pieces if not is_equal for line in self._new[c:d])
        return max(map(width, lines), default=0)

    def text(self) -> Iterator[str]:
        change, before, after = self._change, self._change.before, self._change.after
        kinds = {state.kind for state in (before, after) if state is not None}
        if before is not None and after is not None and len(kinds) > 1:
            gone = Shown(path=change.path, before=before, after=None, old=change.old, old_bulk=change.old_bulk)
            made = Shown(path=change.path, before=None, after=after, new=change.new, new_bulk=change.new_bulk)
            yield from _Compared(gone).text()
            yield from _Compared(made).text()
        elif PathKind.FOLDER in kinds or PathKind.OTHER in kinds:
            yield _folder(change)
        else:
            yield from self._file()

    def _file(self) -> Iterator[str]:
        change, before, after = self._change, self._change.before, self._change.after
        one, other = quoted(b"a/" + change.path), quoted(b"b/" + change.path)
        yield f"diff --git {one} {other}\n"
        if before is None and after is not None:
            yield f"new file mode {_mode(after)}\n"
        elif after is None and before is not None:
            yield f"deleted file mode {_mode(before)}\n"
        elif before is not None and after is not None and self.is_mode_changed:
            yield f"old mode {_mode(before)}\n"
            yield f"new mode {_mode(after)}\n"
        one, other = one if before is not None else "/dev/null", other if after is not None else "/dev/null"
        if self.is_binary:
            yield f"Binary files {one} and {other} differ\n"
            yield from self._no_text()
        elif self._pieces:
            yield f"--- {one}\n"
            yield f"+++ {other}\n"
            yield from self._hunks(_said)

    def _no_text(self) -> Iterator[str]:
        change = self._change
        sides = (
            ("before", change.before, change.old, change.old_bulk),
            ("after", change.after, change.new, change.new_bulk),
        )
        for side, state, content, bulk in sides:
            if state is not None:
                counts = _lines(state, content, bulk)
                yield f"| {side}: {state.size} bytes, lines counted: {counts}, sha256 {state.digest}\n"
        has_both = change.old is not None and change.new is not None
        yield from _bounded(self._hunks(_said_of_bytes) if has_both else _parts(change))

    def _hunks(self, said: Callable[[str, Sequence[bytes]], Iterator[str]]) -> Iterator[str]:
        bar = "" if said is _said else "|"
        for group in _groups(self._pieces):
            first, last = group[0], group[-1]
            yield f"{bar}@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@\n"
            for is_equal, a, b, c, d in group:
                if is_equal:
                    yield from said(" ", self._old[a:b])
                else:
                    yield from said("-", self._old[a:b])
                    yield from said("+", self._new[c:d])


def _content(state: PathState | None) -> tuple[PathKind, str, bytes] | None:
    return None if state is None else (state.kind, state.digest, state.target)


def _is_text(content: bytes | None) -> bool:
    return content is not None and is_text(content)


def _lines(state: PathState | None, content: bytes | None, bulk: Bulk | None) -> int:
    """How many lines one side counts for, of what is no text. What is not to be had counts by its size."""
    if bulk is not None:
        return bulk.lines
    return lines_in([content]) if content is not None else lines_by_size(0 if state is None else state.size)


def _parts(change: Shown) -> Iterator[str]:
    """One side after the other, where they cannot be compared line by line."""
    sides = (
        ("-", change.before, change.old, change.old_bulk),
        ("+", change.after, change.new, change.new_bulk),
    )
    for sign, state, content, bulk in sides:
        if bulk is not None:
            yield f"| {sign} {bulk.length} bytes from byte {bulk.start} on\n"
            yield from _said_of_bytes(sign, lines_of(bulk.part))
            if bulk.length > len(bulk.part):
                yield f"| [... {bulk.length - len(bulk.part)} more bytes are not shown]\n"
        elif content is not None:
            yield from _said_of_bytes(sign, lines_of(content))
        elif state is not None:
            yield f"| {sign} its content cannot be read any more\n"


def _bounded(lines: Iterator[str]) -> Iterator[str]:
    """As much as is worth reading, and how much is left out."""
    room = MOST_SHOWN
    for line in lines:
        cost = len(line) + _PER_ESCAPE * line.count("\\x")
        if cost > room:
            yield f"{line[: room // _PER_ESCAPE]}\n"
            yield f"| [... cut here: {1 + sum(1 for _ in lines)} lines of this file are not shown, or not whole]\n"
            return
        room -= cost
        yield line


def _folder(change: Shown) -> str:
    name = quoted(change.path)
    if change.after is None:
        what = "folder" if change.before is not None and change.before.kind is PathKind.FOLDER else "special file"
        return f"deleted {what} {name}\n"
    if change.before is None:
        return f"new folder {name} (mode {change.after.mode:o})\n"
    return f"folder {name}: mode {change.before.mode:o} to {change.after.mode:o}\n"


def _mode(state: PathState) -> str:
    """All of it, as git would spell it, which knows two: a rule or a person may mind the others."""
    return "120000" if state.kind is PathKind.LINK else f"10{state.mode & 0o7777:04o}"


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


def _said(sign: str, lines: Sequence[bytes]) -> Iterator[str]:
    for line in lines:
        text = line.decode("utf-8")
        yield sign + text if text.endswith("\n") else f"{sign}{text}\n{_MARK}"


def _said_of_bytes(sign: str, lines: Sequence[bytes]) -> Iterator[str]:
    """Lines of what is no text: what is none of it is escaped, and so is a backslash, so that no two look alike."""
    for line in lines:
        text = line.removesuffix(b"\n").decode("utf-8", errors="surrogateescape")
        yield f"|{sign}{text.translate(_ESCAPES)}\n"


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
