"""Names that a proxy vouches for: it logs people in, and says in a header who they are and in which groups.

The headers count only from the proxy's own address: whoever else sends them is nobody.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Final

from starlette.requests import Request

from amends.dataclass import dataclass
from amends.errors import ForbiddenError, InputError
from amends.http.callers import Caller
from amends.http.console.roles import Roles, caller_in

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
LOOPBACK: Final = ("127.0.0.0/8", "::1/128")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedProxy:
    name_header: str
    groups_header: str
    addresses: tuple[Network, ...]
    roles: Roles

    def caller_of(self, request: Request) -> Caller | None:
        """The person that the proxy names; None where it names nobody. Raises ForbiddenError for one without a role."""
        name = ", ".join(request.headers.getlist(self.name_header)).strip()
        if not name or not self._is_trusted(request):
            return None
        for header in (self.name_header, self.groups_header):
            if len(request.headers.getlist(header)) > 1:
                raise ForbiddenError(
                    f"the header {header} came twice, so one of them is somebody else's; have the proxy remove it from "
                    "what comes from outside"
                )
        groups = [one.strip() for one in request.headers.get(self.groups_header, "").split(",") if one.strip()]
        return caller_in(self.roles, name, groups, "proxy")

    def _is_trusted(self, request: Request) -> bool:
        if request.client is None:
            return False
        try:
            address = ipaddress.ip_address(request.client.host)
        except ValueError:
            return False
        return any(address.version == one.version and address in one for one in self.addresses)


def read_addresses(given: Sequence[str]) -> tuple[Network, ...]:
    """Raises InputError for what is no address, and no network."""
    found: list[Network] = []
    for word in given or LOOPBACK:
        try:
            found.append(ipaddress.ip_network(word))
        except ValueError:
            raise InputError(f"--proxy-address {word} is no address, and no network such as 10.0.0.0/8") from None
    return tuple(found)
