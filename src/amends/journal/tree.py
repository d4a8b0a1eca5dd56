"""The Merkle tree over all entries of a journal, as RFC 6962 draws it. Pure; it never holds more than one path.

A leaf is SHA-256(0x00 ‖ an entry's hash), a branch SHA-256(0x01 ‖ left ‖ right). Of the whole tree only the roots of
its full subtrees are kept, the largest first: one for each bit of its size. Adding a leaf joins those of equal height,
about one branch for each leaf, and the root of everything is the fold of what is kept, from the right.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from amends.errors import JournalDamagedError

EMPTY: Final = sha256(b"").digest()
HASH_BYTES: Final = 32


def leaf(hashed: bytes) -> bytes:
    return sha256(b"\0" + hashed).digest()


def branch(left: bytes, right: bytes) -> bytes:
    return sha256(b"\1" + left + right).digest()


class Tree:
    """A tree that grows at its right side. `kept` are the roots of its full subtrees, the largest first."""

    __slots__ = ("kept", "size")

    def __init__(self, size: int = 0, kept: Iterable[bytes] = ()) -> None:
        self.size = size
        self.kept = list(kept)

    def add(self, hashed: bytes, height: int = 0) -> None:
        """Put a leaf at the end; or the root of a full subtree of this height, where the size is a multiple of its."""
        kept = self.kept
        place = self.size >> height
        while place & 1:
            hashed = sha256(b"\1" + kept.pop() + hashed).digest()
            place >>= 1
        kept.append(hashed)
        self.size += 1 << height

    @property
    def root(self) -> bytes:
        if not self.kept:
            return EMPTY
        *others, hashed = self.kept
        for left in reversed(others):
            hashed = branch(left, hashed)
        return hashed

    def copy(self) -> Tree:
        return Tree(self.size, self.kept)

    def spelled(self) -> bytes:
        """The kept roots, as one row of a table holds them beside the size."""
        return b"".join(self.kept)

    @classmethod
    def read(cls, size: int, spelled: bytes) -> Tree:
        """Raises JournalDamagedError where the two do not fit each other."""
        kept = [spelled[place : place + HASH_BYTES] for place in range(0, len(spelled), HASH_BYTES)]
        if size < 0 or len(kept) != size.bit_count() or len(spelled) % HASH_BYTES:
            raise JournalDamagedError(f"the tree's row has {len(spelled)} bytes for {size} entries, which do not fit")
        return cls(size, kept)
