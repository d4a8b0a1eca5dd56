"""Paths inside a tree: relative, of bytes, and never out of it; how they are spelled as text; patterns over them.

A path has no `.`, no `..`, no empty part, and no slash at either end. The tree itself is the empty path.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Final, TypeAlias

from amends.errors import PathError

Given: TypeAlias = "str | bytes | os.PathLike[str] | os.PathLike[bytes]"

LONGEST_NAME: Final = 255
LONGEST_PATH: Final = 4095
DEEPEST: Final = 200
"""How many folders may lie in each other."""

_PLAIN: Final = re.compile(r"[^\x00-\x1f\x7f\\\ud800-\udfff]*", re.ASCII)
_IGNORED: Final = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
"""What some disks leave out of a name when they look for it."""
GIT: Final = b".git"
_ESCAPE: Final = re.compile(r"\\x([0-9a-f]{2})|\\\\")


def relative(given: Given, root: bytes) -> bytes:
    """The path below the root. Raises PathError for what leaves it, or what no file can be called."""
    raw = os.fsencode(given)
    if raw.startswith(b"/"):
        inside = beneath(raw, root)
        if inside is None:
            raise PathError(f"{spell(raw)} is not inside {spell(root)}")
        raw = inside
    parts = [part for part in raw.split(b"/") if part not in {b"", b"."}]
    if b".." in parts:
        raise PathError(f"{spell(raw)} goes up by `..`; name the path from the tree's root")
    if b"\0" in raw:
        raise PathError(f"{spell(raw)} holds a zero byte; no file can be called so")
    long = next((part for part in parts if len(part) > LONGEST_NAME), None)
    if long is not None:
        raise PathError(f"a name of {len(long)} bytes is longer than {LONGEST_NAME}: {spell(long[:40])}...")
    if len(parts) > DEEPEST:
        raise PathError(f"a path of {len(parts)} parts goes deeper than {DEEPEST}: {spell(b'/'.join(parts)[:40])}...")
    path = b"/".join(parts)
    if len(path) > LONGEST_PATH:
        raise PathError(f"a path of {len(path)} bytes is longer than {LONGEST_PATH}: {spell(path[:40])}...")
    return path


def beneath(path: bytes, root: bytes) -> bytes | None:
    """The rest of an absolute path below the root; None if it is not below it."""
    if path.rstrip(b"/") == root:
        return b""
    prefix = root.rstrip(b"/") + b"/"
    return path[len(prefix) :] if path.startswith(prefix) else None


def join(folder: bytes, name: bytes) -> bytes:
    return folder + b"/" + name if folder else name


def parent(path: bytes) -> bytes:
    return path.rpartition(b"/")[0]


def name(path: bytes) -> bytes:
    return path.rpartition(b"/")[2]


def depth(path: bytes) -> int:
    return path.count(b"/")


def parents(path: bytes) -> Iterator[bytes]:
    """The folders above, nearest first, without the root."""
    while path := parent(path):
        yield path


def spell(path: bytes) -> str:
    r"""As text that a terminal and JSON can hold, and that leads back: odd bytes are `\xNN`, a backslash is `\\`."""
    text = path.decode("utf-8", errors="surrogateescape")
    if _PLAIN.fullmatch(text):
        return text
    return "".join(map(_escaped, text))


def _escaped(letter: str) -> str:
    if letter == "\\":
        return "\\\\"
    if "\udc80" <= letter <= "\udcff":
        return f"\\x{ord(letter) - 0xDC00:02x}"
    return f"\\x{ord(letter):02x}" if ord(letter) < 0x20 or ord(letter) == 0x7F else letter  # noqa: PLR2004 - the borders of ASCII


def unspell(text: str) -> bytes:
    return b"".join(_unescaped(text))


def _unescaped(text: str) -> Iterator[bytes]:
    at = 0
    for found in _ESCAPE.finditer(text):
        yield text[at : found.start()].encode()
        yield bytes([int(found[1], 16)]) if found[1] else b"\\"
        at = found.end()
    yield text[at:].encode()


class Patterns:
    """Globs as in an ignore file: without a slash, of a name anywhere; with one, of a path from the root.

    `**` stands for any number of folders. What covers a folder covers all that is below it, and `x/**` covers `x`.

    Where a disk does not tell letters by their case, patterns do not either. Whatever git would take for its own folder
    on some disk (`.GIT`) is covered as that, everywhere: a tree may be checked out on such a disk later.
    """

    def __init__(self, patterns: Iterable[str], *, is_case_blind: bool = False) -> None:
        self.given = tuple(patterns)
        self._is_case_blind = is_case_blind

    @cached_property
    def _compiled(self) -> tuple[tuple[str, re.Pattern[bytes]], ...]:
        spelled = [(each, folded(each.encode("utf-8", errors="surrogateescape"))) for each in self.given]
        return tuple(
            (each, re.compile(_translated(blind if self._is_case_blind else each), re.DOTALL))
            for each, blind in spelled
        )

    def covering(self, path: bytes) -> str | None:
        """The first pattern that covers the path."""
        for said in {path: 0, _with_gits_own(path): 0}:
            told = folded(said).encode("utf-8", errors="surrogateescape") if self._is_case_blind else said
            for given, compiled in self._compiled:
                if compiled.match(told):
                    return given
        return None

    def __contains__(self, path: bytes) -> bool:
        return self.covering(path) is not None


def matcher(pattern: str) -> Callable[[bytes], bool]:
    """Whether a whole path fits a glob from the root, as in `**/*.py`."""
    compiled = re.compile(f"{_translated_path(pattern)}\\Z".encode("utf-8", errors="surrogateescape"), re.DOTALL)
    return lambda path: compiled.match(path) is not None


def folded(name: bytes) -> str:
    """A name as a disk knows it that tells letters neither by case nor by composition."""
    return unicodedata.normalize("NFC", name.decode("utf-8", errors="surrogateescape")).casefold()


def _with_gits_own(path: bytes) -> bytes:
    return b"/".join(GIT if is_gits_own(part) else part for part in path.split(b"/"))


def is_gits_own(name: bytes) -> bool:
    """Whether a name is that of git's own folder on some disk: any case, a short name, letters that do not count."""
    if name.isascii() and b"git" not in name.lower():
        return False
    return _IGNORED.sub("", folded(name)).partition(":")[0].rstrip(". ") in {".git", "git~1"}


def _translated(pattern: str) -> bytes:
    anywhere = "" if "/" in pattern.rstrip("/") else "(?:.*/)?"
    while pattern.rstrip("/").endswith("/**") and pattern.strip("/*"):
        pattern = pattern.rstrip("/").removesuffix("/**")
    whole = f"{anywhere}{_translated_path(pattern)}(?:/.*)?\\Z"
    return whole.encode("utf-8", errors="surrogateescape")


def _translated_path(pattern: str) -> str:
    parts = [part for part in pattern.split("/") if part]
    if not parts:
        raise PathError(f"{pattern!r} is not a pattern; write a name such as *.lock, or a path such as docs/**")
    spelled = ""
    for place, part in enumerate(parts):
        is_last = place == len(parts) - 1
        if part == "**":
            spelled += ".*" if is_last else "(?:.*/)?"
        else:
            spelled += _translated_name(part) + ("" if is_last else "/")
    return spelled


def _translated_name(part: str) -> str:
    """One name of a glob: no star crosses a slash."""
    spelled, at = "", 0
    while at < len(part):
        letter, at = part[at], at + 1
        end = part.find("]", at + 1 + (part[at : at + 1] == "!")) if letter == "[" else -1
        if letter == "*":
            spelled += "[^/]*"
        elif letter == "?":
            spelled += "[^/]"
        elif end > 0:
            inner = part[at:end].replace("\\", r"\\")
            spelled += f"[^/{inner[1:]}]" if inner.startswith("!") else f"[{inner}]"
            at = end + 1
        else:
            spelled += re.escape(letter)
    return spelled
