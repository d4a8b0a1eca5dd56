"""Observers: told of each durable entry, in order. What they raise stops here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from amends.core.state.saga import Saga
from amends.core.words.values import SagaId
from amends.journal.port.journal import Entry
from amends.logs import logger

Observer: TypeAlias = Callable[[Entry], None]
_log = logger("amends.observe")


class DetailedObserver(Protocol):
    """An observer that wants to know more: which saga an entry belongs to, and how long its append took."""

    def begin(self, saga: SagaId, definition: str, labels: dict[str, str]) -> dict[str, str]:
        """A saga is about to start; the labels that it starts with."""
        ...

    def tell(self, entry: Entry, saga: Saga) -> None:
        """An entry is durable. The saga has it, and may be further by now."""
        ...

    def now(self) -> float: ...

    def took(self, seconds: float) -> None:
        """An append was durable after so long, by `now`."""
        ...


class Observers:
    def __init__(self, telemetry: DetailedObserver | None = None) -> None:
        self.telemetry = telemetry
        self._all: list[Observer] = []
        self.listen = telemetry is not None
        """Whether there is anybody to tell."""

    def add(self, observer: Observer) -> Callable[[], None]:
        """Tell this observer from now on; the answer ends that."""
        self._all.append(observer)
        self.listen = True
        return lambda: self._remove(observer)

    def _remove(self, observer: Observer) -> None:
        if observer in self._all:
            self._all.remove(observer)
        self.listen = self.telemetry is not None or bool(self._all)

    def asked(self) -> float:
        """An append is asked for: what to give back when it has been answered."""
        return 0.0 if self.telemetry is None else self.telemetry.now()

    def tell(self, entries: Sequence[Entry], saga: Saga, asked: float | None = None) -> None:
        """These are durable, by an append that was `asked` for then; the saga has them, and may be further by now."""
        if self.telemetry is not None:
            self._tell_telemetry(self.telemetry, entries, saga, asked)
        for observer in tuple(self._all):
            for entry in entries:
                try:
                    observer(entry)
                except Exception:  # noqa: BLE001 - an observer's fault must not reach the saga that it watches
                    _log.exception("an observer failed on entry %s of saga %s", entry.number, entry.saga)

    def _tell_telemetry(
        self, telemetry: DetailedObserver, entries: Sequence[Entry], saga: Saga, asked: float | None
    ) -> None:
        try:
            if asked is not None:
                telemetry.took(telemetry.now() - asked)
            for entry in entries:
                telemetry.tell(entry, saga)
        except Exception:  # noqa: BLE001 - nor must theirs who measure it
            _log.exception("telemetry failed on saga %s", saga.id)
