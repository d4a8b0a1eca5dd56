"""Callers by their login: who is at the other end of the server's Unix socket, as the kernel says."""

from __future__ import annotations

import asyncio
import functools
import os
import pwd
import socket
import stat
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from starlette.requests import HTTPConnection
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from amends.core.state.deciders import checked_name
from amends.errors import InputError, JournalAccessError
from amends.http.callers import EVERY_SCOPE, Caller, Scope

UID: Final = "amends.uid"
_USUAL_OVERFLOW: Final = 65534
_PEER: Final = struct.Struct("3i")


HEAD_S: Final = 30.0
"""How long a request may take to say what it asks for; its body has a time of its own."""


class PeerProtocol(H11Protocol):
    """HTTP which knows the user at the other end of a socket of the machine, and waits for nobody for ever."""

    _slow: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        super().connection_made(transport)
        self._slow = self.loop.call_later(HEAD_S, transport.close)
        found = cast("socket.socket | None", transport.get_extra_info("socket"))
        if found is not None and found.family is socket.AF_UNIX:
            _, uid, _ = _PEER.unpack(found.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
            self.app_state = {**self.app_state, UID: uid}

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        cycle = cast("RequestResponseCycle | None", self.cycle)
        is_asked = cycle is not None and not cycle.response_complete
        if is_asked:
            self._be_patient()
        elif self._slow is None:
            self._slow = self.loop.call_later(HEAD_S, self.transport.close)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._be_patient()  # the time between two requests is another one

    def connection_lost(self, exc: Exception | None) -> None:
        self._be_patient()
        super().connection_lost(exc)

    def _be_patient(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None


class Peers:
    """Recognises users of this machine. The server's own and root may everything; others what `scopes` says."""

    def __init__(self, scopes: Mapping[str, frozenset[Scope]]) -> None:
        self._scopes = {_number(user): what for user, what in scopes.items()}

    async def recognise(self, connection: HTTPConnection) -> Caller | None:
        state = cast("dict[str, Any]", connection.scope.get("state", {}))
        uid: object = state.get(UID)
        if not isinstance(uid, int) or uid == _overflow_uid():
            return None
        scopes = self._scopes.get(uid, EVERY_SCOPE if uid in {0, os.getuid()} else frozenset())
        return Caller(name=_name(uid), scopes=scopes, proof="login")


def peer_scopes(said: tuple[str, ...]) -> dict[str, frozenset[Scope]]:
    """The scopes of users by name, of words like `anna=view,decide`. Raises InputError."""
    found: dict[str, frozenset[Scope]] = {}
    spelled: dict[int, str] = {}
    for word in said:
        user, equals, names = word.partition("=")
        try:
            scopes = frozenset(Scope(name) for name in names.split(",") if name)
        except ValueError:
            scopes = frozenset[Scope]()
        if not user or not equals or not scopes:
            known = ",".join(Scope)
            raise InputError(
                f"--peer {word}: say a user of this machine and what they may, as in anna=view,decide ({known})"
            )
        uid = _number(user)
        _require_seen(user, uid)
        if spelled.setdefault(uid, user) != user:
            raise InputError(
                f"--peer {word}: {user} is the user whom another --peer calls {spelled[uid]}; say once what they may"
            )
        found[user] = found.get(user, frozenset()) | scopes
    return found


def listen_at(path: Path, *, open_to_all: bool) -> socket.socket:
    """A socket at a path: for this user alone, or for every user where callers are told apart and may little.

    Raises JournalAccessError where another server is there, or where others could put their own socket in its place.
    """
    folder = path.absolute().parent
    try:
        about = folder.stat()
    except OSError as exc:
        raise JournalAccessError(
            f"the socket would lie in {folder}, which cannot be looked at: {exc.strerror}"
        ) from None
    is_own = about.st_uid in {0, os.geteuid()}
    if not is_own or (about.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not about.st_mode & stat.S_ISVTX):
        raise JournalAccessError(
            f"the socket would lie in {folder}, where others could put another in its place; make a directory of your "
            f"own for it: mkdir -m 755 DIRECTORY"
        )
    _clear(path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o111 if open_to_all else 0o177)
    try:
        listening.bind(str(path))
    except OSError as exc:
        listening.close()
        raise JournalAccessError(f"no socket can be made at {path}: {exc.strerror or exc}") from None
    finally:
        os.umask(before)
    return listening


def _clear(path: Path) -> None:
    """Remove the socket that a server left which was killed."""
    try:
        about = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(about.st_mode):
        raise JournalAccessError(f"{path} is there, and is no socket; name another path")
    if about.st_uid != os.geteuid():
        raise JournalAccessError(f"{path} is a socket of another user; name another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asked:
        try:
            asked.connect(str(path))
        except OSError:
            path.unlink()
            return
    raise JournalAccessError(f"another server listens at {path}; stop that one, or name another path")


def _number(user: str) -> int:
    try:
        return int(user) if user.isdecimal() else pwd.getpwnam(user).pw_uid
    except KeyError:
        raise InputError(f"there is no user {user} on this machine") from None


def _require_seen(user: str, uid: int) -> None:
    """Raises InputError for a user whom the kernel would not name to this process."""
    if uid == _overflow_uid():
        raise InputError(
            f"--peer {user}: the kernel says {user} of everybody whom it cannot name to a process; name another user"
        )
    maps = (tuple(map(int, line.split())) for line in Path("/proc/self/uid_map").read_text().strip().split("\n"))
    if not any(first <= uid < first + count for first, _, count in maps):
        raise InputError(
            f"--peer {user}: this process is in a user namespace that {user} is not in, and would not know them; "
            "under systemd, say PrivateUsers=no"
        )


@functools.cache
def _overflow_uid() -> int:
    """The user that the kernel names for one who is not in this process's user namespace: anybody."""
    try:
        return int(Path("/proc/sys/kernel/overflowuid").read_text())
    except OSError:  # ProcSubset=pid hides it; nobody sets it
        return _USUAL_OVERFLOW


def _name(uid: int) -> str:
    try:
        return checked_name(f"person:{pwd.getpwuid(uid).pw_name}")
    except (KeyError, InputError):
        return f"person:uid-{uid}"
