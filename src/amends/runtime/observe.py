"""Observers: told of each durable entry, in order. What they raise stops here."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeAlias

from amends.journal.protocol import Entry

Observer: TypeAlias = Callable[[Entry], None]
_log = logging.getLogger("amends.observe")


class Observers:
    def __init__(self) -> None:
        self._all: list[Observer] = []

    def add(self, observer: Observer) -> Callable[[], None]:
        """Tell this observer from now on; the answer ends that."""
        self._all.append(observer)
        return lambda: self._all.remove(observer) if observer in self._all else None

    def tell(self, entries: Sequence[Entry]) -> None:
        for observer in tuple(self._all):
            for entry in entries:
                try:
                    observer(entry)
                except Exception:  # noqa: BLE001 - an observer's fault must not reach the saga that it watches
                    _log.exception("an observer failed on entry %s of saga %s", entry.number, entry.saga)
