"""Where a webhook may go: not to this machine, not behind the firewall, not to a cloud's metadata."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from amends.errors import InputError
from amends.notify.addresses import Reach, addresses_of, is_loopback, require_reach

PUBLIC = ["93.184.216.34", "8.8.8.8", "2606:2800:220:1:248:1893:25c8:1946", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"]
LOOPBACK = ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"]
PRIVATE = [
    *("10.0.0.1", "172.16.9.9", "192.168.1.1", "fd12::1", "100.64.0.1", "240.0.0.1", "198.18.0.1"),
    *("::ffff:10.0.0.1", "64:ff9b::10.0.0.1", "2002:a00:1::", "2001:0:4136:e378:8000:63bf:f5ff:fffe"),
]
NEVER = [
    *("169.254.169.254", "169.254.1.1", "fe80::1", "fe80::1%eth0", "fd00:ec2::254", "100.100.100.200", "192.0.0.192"),
    *("0.0.0.0", "::", "224.0.0.1", "ff02::1", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::"),
]


def is_refused(address: str, reach: Reach) -> bool:
    try:
        require_reach("h", address, reach)
    except InputError:
        return True
    return False


@pytest.mark.parametrize(
    ("reach", "allowed"),
    [(Reach.PUBLIC, PUBLIC), (Reach.LOOPBACK, LOOPBACK), (Reach.PRIVATE_TOO, [*PUBLIC, *LOOPBACK, *PRIVATE])],
)
def test_what_is_within_reach(reach: Reach, allowed: list[str]) -> None:
    every = [*PUBLIC, *LOOPBACK, *PRIVATE, *NEVER]
    assert [address for address in every if not is_refused(address, reach)] == allowed


def found(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    def answer(host: str, port: int, *args: Any, **kwargs: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", answer)


def test_one_address_out_of_reach_is_enough_to_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    found(monkeypatch, "93.184.216.34", "93.184.216.35", "93.184.216.34")
    assert asyncio.run(addresses_of("h", 443, Reach.PUBLIC)) == ("93.184.216.34", "93.184.216.35")
    found(monkeypatch, "93.184.216.34", "10.0.0.1")
    with pytest.raises(InputError, match=r"h is at 10\.0\.0\.1, .* public addresses only; allow_private=True"):
        asyncio.run(addresses_of("h", 443, Reach.PUBLIC))


def test_what_is_this_machine_by_its_very_name() -> None:
    assert [is_loopback(host) for host in ("localhost", "127.0.0.1", "::1")] == [True] * 3
    others = ("127.0.0.1.example.com", "localhost.example.com", "10.0.0.1", "2130706433", "")
    assert [is_loopback(host) for host in others] == [False] * 5
