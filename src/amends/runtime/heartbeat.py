"""What keeps a worker alive: a thread that renews its row, and brings word of what others wrote to its sagas."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from amends.core.values import SagaId
from amends.errors import AmendsError
from amends.runtime.logs import logger

_log = logger("amends.engine")


class Heart(Protocol):
    def start(self) -> None: ...

    def stop(self) -> None: ...


class MakeHeart(Protocol):
    """Makes what keeps a worker alive: a thread, or, where time is not real, something else.

    `renew` is called at each beat, and renews where that is due: by the time, not by a count of beats, which take as
    long as a busy journal lets them. One that fails is due again at the next beat.
    """

    def __call__(
        self,
        *,
        renew: Callable[[], None],
        nudged: Callable[[], tuple[SagaId, ...]],
        tell: Callable[[tuple[SagaId, ...]], object],
        poll_s: float,
    ) -> Heart: ...


class Heartbeat(threading.Thread):
    """Renews the worker's row and looks for nudges, whatever the event loop is busy with."""

    def __init__(
        self,
        *,
        renew: Callable[[], None],
        nudged: Callable[[], tuple[SagaId, ...]],
        tell: Callable[[tuple[SagaId, ...]], object],
        poll_s: float,
    ) -> None:
        super().__init__(name="amends heartbeat", daemon=True)
        self._renew, self._nudged, self._tell = renew, nudged, tell
        self._poll_s = poll_s
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.wait(self._poll_s):
            try:
                self._renew()
                sagas = self._nudged()
                if sagas:
                    self._tell(sagas)
            except AmendsError as exc:
                _log.warning("the worker could not be renewed: %s", exc)
            except RuntimeError:
                return  # the loop has closed under us

    def stop(self) -> None:
        self._stopped.set()
        if self.is_alive():
            self.join()
