"""Values that nobody can keep: too deep, too large, without an end, or of classes that fight back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn


def deep(levels: int) -> object:
    value: object = 1
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


def cycle() -> object:
    value: dict[str, object] = {}
    value["self"] = [value]
    return value


def thicket() -> object:
    """Each level holds the one below twice, and the last the first: walked to its end, it has none."""
    value: list[object] = []
    value += [value, value]
    return value


def laughs() -> object:
    """A billion laughs: 10**9 parts in a hundred lists."""
    value: object = "ha"
    for _ in range(9):
        value = [value] * 10
    return value


def _refuses(_: object) -> NoReturn:
    raise SystemExit("not even that")


NoClass: type = type("NoClass", (), {"__class__": property(_refuses)})
NoName: type = type("NoName", (type,), {"__name__": property(_refuses)})
Nameless: type = NoName("Nameless", (), {})


class LyingList(list[object]):
    def __len__(self) -> int:
        return 10**15

    def __iter__(self) -> Iterator[object]:
        while True:
            yield self


class LyingDict(dict[str, object]):
    def items(self) -> NoReturn:
        raise MemoryError

    def values(self) -> NoReturn:
        raise KeyboardInterrupt

    def get(self, *_: object) -> NoReturn:
        raise SystemExit


class LyingText(str):
    __slots__ = ()

    def isascii(self) -> NoReturn:
        raise OSError("no")

    def encode(self, *_: object, **__: object) -> NoReturn:
        raise RecursionError


class LyingNumber(int):
    def __le__(self, other: int) -> bool:
        return True

    def __ge__(self, other: int) -> bool:
        return True

    def __repr__(self) -> str:
        return "1}"


class LyingKey:
    """It has the hash of the mark of a secret, and equals nothing without a fight."""

    def __init__(self) -> None:
        self.kept = False

    def __hash__(self) -> int:
        if self.kept:
            raise RecursionError("asked again")
        self.kept = True
        return hash("$secret")

    def __eq__(self, other: object) -> NoReturn:
        raise KeyboardInterrupt

    def __repr__(self) -> NoReturn:
        raise SystemExit("not shown")


class NoAttributes:
    def __getattribute__(self, name: str) -> NoReturn:
        raise MemoryError(name)


def huge_key() -> object:
    return {"k" * 20_000_000: {1}}


def with_a_long_way() -> object:
    value: object = {1}
    for _ in range(50):
        value = {"k" * 100_000: value}
    return value


HOSTILE: dict[str, Callable[[], Any]] = {
    "65 levels": lambda: deep(65),
    "480 levels": lambda: deep(480),
    "600 levels": lambda: deep(600),
    "50,000 levels": lambda: deep(50_000),
    "a cycle": cycle,
    "a thicket": thicket,
    "a billion laughs": laughs,
    "no class": NoClass,
    "no class, in a list": lambda: [[NoClass()]],
    "no name": lambda: {"a": Nameless()},
    "a lying list": lambda: LyingList([1]),
    "a lying list, in an object": lambda: {"a": LyingList([1])},
    "a lying object": lambda: LyingDict(a=1),
    "a lying object, in a list": lambda: [LyingDict(a=1)],
    "a lying text": lambda: [LyingText("x")],
    "a lying number": lambda: [LyingNumber(7)],
    "a lying key": lambda: {LyingKey(): 1},
    "a lying key, among good ones": lambda: {"a": [{"b": 1, LyingKey(): 1}]},
    "no attributes": NoAttributes,
    "a huge key": huge_key,
    "a long way": with_a_long_way,
    "half a character": lambda: {"a": ["\ud800"]},
    "an integer of 10,000 digits": lambda: [10**10_000],
    "a key of 10,000 digits": lambda: {10**10_000: 1},
    "not a number": lambda: [float("nan")],
    "30 million items": lambda: [0] * 30_000_000,
    "30 million items, in lists": lambda: [[0] * 30_000] * 1_000,
    "100 MB of text": lambda: "x" * 100_000_000,
    "100 MB of text, in pieces": lambda: ["x" * 100_000] * 1_000,
}
"""By name: what makes one, afresh."""
