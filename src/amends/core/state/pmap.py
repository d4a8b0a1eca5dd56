"""A map whose old versions stay readable, at a plain dict's price for the newest one.

The newest version owns the dict; each older one remembers the single change that separates it from the next newer
(Baker's rerooting). Setting a key is O(1) and copies nothing, so folding a saga of ten thousand steps is linear.
Reading an old version moves the dict back to it, one change at a time; the runtime never does, the property tests
do. Not for several threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Generic, TypeVar, cast, overload

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")
_ABSENT: Final = object()
_EMPTY: Final[dict[Any, Any]] = {}  # what all empty maps share; nothing is ever put into it


class Pmap(Mapping[K, V], Generic[K, V]):
    """An immutable mapping; `set` and `drop` give the next version."""

    __slots__ = ("_change", "_dict")

    def __init__(self, items: dict[K, V] | None = None) -> None:
        self._dict: dict[K, V] | None = _EMPTY if items is None else items
        self._change: tuple[K, object, Pmap[K, V]] | None = None

    def set(self, key: K, value: V) -> Pmap[K, V]:
        items = (self._own() if self._dict is None else self._dict) or {}
        newer = Pmap(items)
        self._dict, self._change = None, (key, items.get(key, _ABSENT), newer)
        items[key] = value
        return newer

    def drop(self, key: K) -> Pmap[K, V]:
        """The next version without this key; the same one where it has none."""
        items = self._own()
        if key not in items:
            return self
        newer = Pmap(items)
        self._dict, self._change = None, (key, items.pop(key), newer)
        return newer

    def _own(self) -> dict[K, V]:
        if self._dict is not None:
            return self._dict
        chain: list[Pmap[K, V]] = []
        version = self
        while version._change is not None:
            chain.append(version)
            version = version._change[2]
        items = cast("dict[K, V]", version._dict)
        for older in reversed(chain):
            key, old, newer = cast("tuple[K, object, Pmap[K, V]]", older._change)
            newer._dict, newer._change = None, (key, items.get(key, _ABSENT), older)
            _put(items, key, old)
            older._dict, older._change = items, None
        return items

    def __getitem__(self, key: K) -> V:
        return (self._dict if self._dict is not None else self._own())[key]

    @overload
    def get(self, key: K, /) -> V | None: ...
    @overload
    def get(self, key: K, /, default: V | T) -> V | T: ...
    def get(self, key: K, /, default: T | None = None) -> V | T | None:
        return (self._dict if self._dict is not None else self._own()).get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in (self._dict if self._dict is not None else self._own())

    def __iter__(self) -> Iterator[K]:
        return iter(tuple(self._own()))

    def __len__(self) -> int:
        return len(self._dict if self._dict is not None else self._own())

    def has_value(self, value: V) -> bool:
        return value in self._own().values()

    def is_within(self, other: Pmap[K, Any]) -> bool:
        """Whether the other has all of its keys."""
        return set(self._own()) <= other._own().keys()  # a copy: the other may be a version of the same dict

    def __repr__(self) -> str:
        return f"Pmap({self._own()!r})"


def _put(items: dict[K, V], key: K, value: object) -> None:
    if value is _ABSENT:
        del items[key]
    else:
        items[key] = cast("V", value)
