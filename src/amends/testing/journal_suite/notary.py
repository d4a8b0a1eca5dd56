"""A notary for tests: it signs by saying so. No secret is involved, so nothing is proved by it."""

from __future__ import annotations

from amends.errors import EvidenceError
from amends.journal.attested import Handover, Notary, origin_of


class PlainNotary:
    """`name` stands for its key. `signed` counts; `is_ill` lets it refuse."""

    def __init__(self, name: str = "ann") -> None:
        self.name = name
        self.signed = 0
        self.is_ill = False

    def public(self, origin: str) -> str:
        return f"{origin}+{self.name}"

    def holds(self, key: str) -> bool:
        return key == self.public(origin_of(key))

    def sign(self, key: str, size: int, root: bytes, at: int) -> str:
        if self.is_ill:
            raise EvidenceError(f"{self.name} cannot sign today")
        self.signed += 1
        return f"{origin_of(key)}\n{size}\n{root.hex()}\n\n— {self.public(origin_of(key))}\n"

    def read(self, key: str, note: str) -> tuple[int, bytes]:
        origin, size, root, *rest = note.split("\n")
        if f"— {key}" not in rest or origin != origin_of(key):
            raise EvidenceError(f"{key} has not signed it")
        return int(size), bytes.fromhex(root)

    def succeed(self, before: Notary | None, key: str, size: int, root: bytes, at: int) -> Handover:
        both = self.sign(key, size, root, at) + ("" if before is None else f"— {key}\n")
        return Handover(checkpoint=both, record=f"{key} -> {self.public(origin_of(key))}")
