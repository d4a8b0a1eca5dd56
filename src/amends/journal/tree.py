"""The Merkle tree over all entries of a journal, as RFC 6962 draws it. Pure; it never holds more than one path.

A leaf is SHA-256(0x00 ‖ an entry's hash), a branch SHA-256(0x01 ‖ left ‖ right). Of the whole tree only the roots of
its full subtrees are kept, the largest first: one for each bit of its size. Adding a leaf joins those of equal height,
about one branch for each leaf, and the root of everything is the fold of what is kept, from the right.

A proof needs the roots of full subtrees in the middle of it. A store keeps those whose height is a multiple of `LEVEL`:
a hash for each 256 entries, and any other root is made of 255 of them at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Final, NamedTuple

from amends.errors import JournalDamagedError

EMPTY: Final = sha256(b"").digest()
HASH_BYTES: Final = 32
LEVEL: Final = 8
WIDTH: Final = 1 << LEVEL


class Subtree(NamedTuple):
    """A full one: 2^height leaves, from a position on that is one more than a multiple of that."""

    position: int
    height: int


def leaf(hashed: bytes) -> bytes:
    return sha256(b"\0" + hashed).digest()


def branch(left: bytes, right: bytes) -> bytes:
    return sha256(b"\1" + left + right).digest()


def root_of(roots: Sequence[bytes]) -> bytes:
    """The root over subtrees of equal height that lie side by side; as many as a power of two."""
    while len(roots) > 1:
        roots = [branch(left, right) for left, right in zip(roots[::2], roots[1::2], strict=True)]
    return roots[0]


def full_subtrees(first: int, last: int) -> Iterator[Subtree]:
    """As few as there can be, in their order, that have these positions and no others."""
    while first <= last:
        start = first - 1
        aligned = (start & -start).bit_length() - 1 if start else last.bit_length()
        height = min(aligned, (last - start).bit_length() - 1)
        yield Subtree(first, height)
        first += 1 << height


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

    def extend(self, entries: Iterable[bytes]) -> list[tuple[int, int, bytes]]:
        """Put entries at the end, by their hashes. Gives height, place and root of each subtree to be kept that is full
        then.

        This runs for every entry: it is `leaf` and `add`, without a call of each.
        """
        kept, full = self.kept, list[tuple[int, int, bytes]]()
        for entry in entries:
            hashed = sha256(b"\0" + entry).digest()
            place = self.size
            if place % WIDTH == WIDTH - 1:
                full += self.completed(hashed)
            while place & 1:
                hashed = sha256(b"\1" + kept.pop() + hashed).digest()
                place >>= 1
            kept.append(hashed)
            self.size += 1
        return full

    def completed(self, hashed: bytes) -> list[tuple[int, int, bytes]]:
        """Height, place and root of the subtrees to be kept that a leaf makes full, before it is added."""
        found: list[tuple[int, int, bytes]] = []
        size, height = self.size + 1, LEVEL
        while size % (1 << height) == 0:
            for left in reversed(self.kept[-height : LEVEL - height or None]):
                hashed = branch(left, hashed)
            found.append((height, (size >> height) - 1, hashed))
            height += LEVEL
        return found

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
