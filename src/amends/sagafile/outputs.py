"""What a command prints: kept up to a bound, shown line by line, and nowhere with a secret in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from amends.changeset.tools import Bounded

KEPT: Final = 64 * 1024
_LONGEST_LINE: Final = 4096
_HIDDEN: Final = b"[secret]"

Show = Callable[[str], None]
"""Is given each line, as it is printed."""
ShowOf = Callable[[str, str], None]
"""The same with what prints it: a step, or a step on its way back."""


class Output(Bounded):
    """A stream's beginning and end, with the values of secrets replaced before anything else sees them."""

    def __init__(self, limit: int, hidden: Iterable[str], show: Show | None = None) -> None:
        super().__init__(limit)
        values = sorted({value.encode() for value in hidden if value}, key=len, reverse=True)
        self._secrets = re.compile(b"|".join(map(re.escape, values))) if values else None
        self._longest = max(map(len, values), default=1)
        self._held = b""
        self._line = b""
        self._show = show

    def take(self, piece: bytes) -> None:
        """The next piece; an empty one is the end. So much is held back as could be the beginning of a secret."""
        self._held += piece
        cut = len(self._held) if not piece else len(self._held) - self._longest + 1
        clean: list[bytes] = []
        at = 0
        for found in self._secrets.finditer(self._held) if self._secrets else ():
            if found.start() >= cut:
                break
            clean += [self._held[at : found.start()], _HIDDEN]
            at = found.end()
        if at < cut:
            clean.append(self._held[at:cut])
        self._held = self._held[max(at, cut, 0) :]
        self._pass_on(b"".join(clean), is_end=not piece)

    def _pass_on(self, piece: bytes, *, is_end: bool) -> None:
        if piece:
            super().take(piece)
        if self._show is None:
            return
        *lines, self._line = (self._line + piece).split(b"\n")
        if is_end or len(self._line) > _LONGEST_LINE:
            lines += [self._line] if self._line else []
            self._line = b""
        for line in lines:
            self._show(line.decode("utf-8", errors="replace").rstrip("\r"))
