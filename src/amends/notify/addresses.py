"""Which addresses a webhook may be sent to. A name is resolved once for each try, and what was checked is connected to.

A URL that an agent or a form has supplied may name the machine's own services, the network behind its firewall, or a
cloud's metadata; and a name may point elsewhere each time it is asked for. So all addresses of the answer are looked
at, and one that may not be reached is enough to refuse.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeAlias

from amends.errors import InputError

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

    Address: TypeAlias = IPv4Address | IPv6Address

_MOST_ADDRESSES: Final = 4
_NAT64: Final = "64:ff9b::/96"
_METADATA: Final = frozenset(
    {
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "fd00:c1::a9fe:a9fe",
        "fd00:ec2::254",
        "fd20:ce::254",
    }
)
"""Where clouds hand out their machines' credentials, apart from the link-local ones; no webhook is there."""
_NEVER: Final = (
    "64:ff9b:1::/48",  # a network's own translation to IPv4, of which only that network knows where it leads
    "::/96",  # IPv4 in the oldest spelling, which nobody may use any more
    "192.88.99.0/24",  # whoever happens to relay 6to4
)
_NOT_PUBLIC: Final = (
    "fec0::/10",  # the private addresses of before fc00::/7
    "5f00::/16",  # segments of one operator's network
    "3fff::/20",  # for documentation
)


class Reach(Enum):
    """How far a target may reach."""

    LOOPBACK = "this machine"
    PUBLIC = "public addresses"
    PRIVATE_TOO = "public and private addresses"


async def addresses_of(host: str, port: int, reach: Reach) -> tuple[str, ...]:
    """Where a host is, in the order of preference. Raises InputError for one out of reach, OSError for none."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    named = tuple(dict.fromkeys(str(place[0]) for *_, place in found))
    for address in named:
        require_reach(host, address, reach)
    return named[:_MOST_ADDRESSES]


def require_reach(host: str, address: str, reach: Reach) -> None:
    """Raises InputError where an address is none that may be reached."""
    if not _is_within(address, reach):
        hint = "; allow_private=True allows those of a private network" if reach is Reach.PUBLIC else ""
        raise InputError(f"{host} is at {address}, and webhooks may go to {reach.value} only{hint}")


def is_loopback(host: str) -> bool:
    """Whether a host, as a URL spells it, is this machine by its very name."""
    from ipaddress import ip_address

    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _is_within(address: str, reach: Reach) -> bool:
    from ipaddress import ip_address

    given = ip_address(address.partition("%")[0])
    if given.is_loopback:  # ::1 lies among those that are never reached
        return reach is not Reach.PUBLIC
    parsed = _unwrapped(given)
    if parsed.is_unspecified or parsed.is_multicast or parsed.is_link_local or str(parsed) in _METADATA:
        return False
    if _is_in(given, _NEVER) or _is_in(parsed, _NEVER):
        return False
    match reach:
        case Reach.LOOPBACK:
            return parsed.is_loopback
        case Reach.PUBLIC:
            return parsed.is_global and not parsed.is_private and not _is_in(parsed, _NOT_PUBLIC)
        case Reach.PRIVATE_TOO:
            return True


def _is_in(address: Address, networks: Iterable[str]) -> bool:
    from ipaddress import ip_network

    return any(address in network for network in map(ip_network, networks) if network.version == address.version)


def _unwrapped(address: Address) -> Address:
    """The IPv4 address that an IPv6 one stands for, where it does."""
    from ipaddress import IPv4Address, IPv6Network

    if address.version == 4:  # noqa: PLR2004 - there are two, and this is their name
        return address
    if address in IPv6Network(_NAT64):
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo or (None, address))[1]
