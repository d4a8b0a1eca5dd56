"""The queue of landings: a line of tickets in the tree's home, in the order of coming, for everybody to see.

A ticket is a file that its owner holds locked. A ticket whose lock nobody holds is one of a dead process, and is taken
out of the line by whoever sees it. Whoever waits, waits for the lock of the ticket before its own.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import threading
from collections.abc import Generator

from amends.changeset.disk.disk import opened, spot
from amends.changeset.disk.read import content_at
from amends.changeset.model.codec import Fields
from amends.changeset.model.paths import spell
from amends.changeset.store.home import Home
from amends.clock import Clock
from amends.dataclass import dataclass
from amends.errors import ChangesetBusyError

_TURN_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """A landing that waits, or, first in the line, is at work."""

    number: int
    changeset: str
    name: str
    since: int
    pid: int

    def data(self) -> Fields:
        return {
            "number": self.number,
            "changeset": self.changeset,
            "name": self.name,
            "since": self.since,
            "pid": self.pid,
        }


def waiting(home: Home) -> tuple[Ticket, ...]:
    """The line as it is, dead owners left out."""
    if not home.is_made:
        return ()
    with _door(home):
        return tuple(ticket for ticket, _ in _alive(home))


@contextlib.contextmanager
def turn(home: Home, *, changeset: str, name: str, clock: Clock, wait_s: float | None) -> Generator[None]:
    """Stand in the line, wait, and have one's turn. ChangesetBusyError: it took longer than `wait_s`; who is ahead."""
    with _door(home):
        ahead = _alive(home)
        number = max((ticket.number for ticket, _ in ahead), default=0) + 1
        path = home.within(b"queue", b"%020d" % number)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX)
        whole = {"changeset": changeset, "name": name, "since": clock.now(), "pid": os.getpid()}
        os.write(file, json.dumps(whole).encode())
    try:
        _wait(home, number, clock, wait_s)
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        os.close(file)


def _wait(home: Home, number: int, clock: Clock, wait_s: float | None) -> None:
    until = None if wait_s is None else clock.elapsed() + wait_s
    while True:
        with _door(home):
            ahead = [(ticket, path) for ticket, path in _alive(home) if ticket.number < number]
        if not ahead:
            return
        if until is None:
            _wait_for(ahead[-1][1])
        elif clock.elapsed() >= until:
            names = ", ".join(ticket.name or ticket.changeset for ticket, _ in ahead)
            raise ChangesetBusyError(
                f"{len(ahead)} landing(s) in {spell(home.root)} are ahead: {names}; try again later"
            )
        else:
            threading.Event().wait(_TURN_S)


def _wait_for(path: bytes) -> None:
    with contextlib.suppress(FileNotFoundError), opened(spot(path), os.O_RDWR | os.O_CLOEXEC) as file:
        fcntl.flock(file, fcntl.LOCK_SH)


@contextlib.contextmanager
def _door(home: Home) -> Generator[None]:
    """Held for an instant: while it is, nobody comes or is taken for dead."""
    with opened(spot(home.within(b"queue", b"door")), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _alive(home: Home) -> list[tuple[Ticket, bytes]]:
    found: list[tuple[Ticket, bytes]] = []
    for name in sorted(os.listdir(home.within(b"queue"))):
        if not name.isdigit():
            continue
        path = home.within(b"queue", name)
        with contextlib.suppress(FileNotFoundError):  # its owner had its turn, and has just left
            if _is_held(path):
                found.append((_ticket(int(name), content_at(path)), path))
            else:
                os.unlink(path)
    return found


def _is_held(path: bytes) -> bool:
    with opened(spot(path), os.O_RDWR | os.O_CLOEXEC) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _ticket(number: int, raw: bytes) -> Ticket:
    said = json.loads(raw or b"{}")
    return Ticket(
        number=number,
        changeset=str(said.get("changeset", "")),
        name=str(said.get("name", "")),
        since=int(said.get("since", 0)),
        pid=int(said.get("pid", 0)),
    )
