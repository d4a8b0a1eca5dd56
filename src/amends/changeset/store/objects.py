"""Contents by digest: what ancestors looked like, for merges and diffs.

Nobody waits for the disk here. A content is believed only if it has the digest that it is asked by; one that a power
cut took is one that could not be kept, and then two versions are in conflict where they might have been merged.
"""

from __future__ import annotations

import contextlib
import hashlib
import os

from amends.changeset.disk.read import content_at
from amends.changeset.store.home import Home
from amends.changeset.text.lines import LARGEST_TEXT, is_text


class Objects:
    def __init__(self, home: Home) -> None:
        self._home = home

    def _path(self, digest: str) -> bytes:
        return self._home.within(b"objects", digest[:2].encode(), digest[2:].encode())

    def get(self, digest: str) -> bytes | None:
        if not digest or digest.startswith("stat:"):
            return None
        try:
            content = content_at(self._path(digest))
        except OSError:
            return None
        return content if hashlib.sha256(content).hexdigest() == digest else None

    def keep(self, digest: str, path: bytes, size: int) -> None:
        """Keep a file's content if it is text of a fair size, and still is what the digest says."""
        place = self._path(digest)
        if size > LARGEST_TEXT or not digest or digest.startswith("stat:") or os.path.exists(place):
            return
        with contextlib.suppress(OSError):
            self.put(content_at(path), digest)

    def put(self, content: bytes, digest: str) -> None:
        place = self._path(digest)
        if os.path.exists(place) or not is_text(content) or hashlib.sha256(content).hexdigest() != digest:
            return
        os.makedirs(os.path.dirname(place), 0o700, exist_ok=True)
        beside = place + b".%d" % os.getpid()
        with open(beside, "wb") as file:
            file.write(content)
        os.rename(beside, place)

    def digests(self) -> list[str]:
        top = self._home.within(b"objects")
        return [(pair + rest).decode() for pair in os.listdir(top) for rest in os.listdir(os.path.join(top, pair))]

    def forget(self, digest: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path(digest))
