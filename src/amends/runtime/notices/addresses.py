"""Which addresses a webhook may be sent to. A name is resolved once for each try, and what was checked is connected to.

A URL that an agent or a form has supplied may name the machine's own services, the network behind its firewall, or a
cloud's metadata; and a name may point elsewhere each time it is asked for. So all addresses of the answer are looked
at, and one that may not be reached is enough to refuse.
"""

from __future__ import annotations

import asyncio
import socket
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeAlias

from amends.errors import InputError

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

    Address: TypeAlias = IPv4Address | IPv6Address

_MOST_ADDRESSES: Final = 4
_NAT64: Final = "64:ff9b::/96"
_METADATA: Final = frozenset({"fd00:ec2::254", "100.100.100.200", "192.0.0.192"})
"""Where clouds hand out their machines' credentials, apart from the link-local ones; no webhook is there."""


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

    parsed = _unwrapped(ip_address(address.partition("%")[0]))
    if parsed.is_unspecified or parsed.is_multicast or parsed.is_link_local or str(parsed) in _METADATA:
        return False
    match reach:
        case Reach.LOOPBACK:
            return parsed.is_loopback
        case Reach.PUBLIC:
            return parsed.is_global and not parsed.is_private
        case Reach.PRIVATE_TOO:
            return True


def _unwrapped(address: Address) -> Address:
    """The IPv4 address that an IPv6 one stands for, where it does."""
    from ipaddress import IPv4Address, IPv6Network

    if address.version == 4:  # noqa: PLR2004 - there are two, and this is their name
        return address
    if address in IPv6Network(_NAT64):
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo or (None, address))[1]
