"""Addresses of journals in PostgreSQL: read by libpq's rules, shown without what is secret in them."""

from __future__ import annotations

import hashlib
from typing import Final

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from amends.errors import InputError

SCHEMES: Final = ("postgresql", "postgres")
_DEFAULTS: Final = {
    "application_name": "amends",
    "connect_timeout": "5",
    "keepalives": "1",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
    "target_session_attrs": "read-write",
}


class PostgresAddress:
    """A connection string. As text it has the place alone: no user, no password, no option."""

    def __init__(self, address: str) -> None:
        _require_plain(address)
        try:
            asked = {name: str(value) for name, value in conninfo_to_dict(address).items() if value is not None}
        except ProgrammingError:
            # libpq quotes what it does not understand, and that may be a password.
            raise InputError(
                "the journal's address is no connection string that PostgreSQL's clients understand; it looks like "
                "postgresql://user@host:5432/database, with special characters as %XX"
            ) from None
        self._asked = asked
        self.conninfo = make_conninfo("", **{**_DEFAULTS, **asked})

    @property
    def identity(self) -> str:
        """Hosts, ports and database: the same for whoever means the same journal, by whichever user."""
        return "|".join(self._asked.get(part, "") for part in ("host", "hostaddr", "port", "dbname"))

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.identity.encode()).hexdigest()[:16]

    def __str__(self) -> str:
        hosts = (self._asked.get("host") or self._asked.get("hostaddr") or "").split(",")
        ports = self._asked.get("port", "").split(",")
        ports = ports * len(hosts) if len(ports) == 1 else ports
        places = [f"{host}:{port}" if port else host for host, port in zip(hosts, ports, strict=False)]
        return f"postgresql://{','.join(places)}/{self._asked.get('dbname', '')}"

    __repr__ = __str__


def _require_plain(address: str) -> None:
    """Raises InputError where a password would be read as host or database, and be shown: with @ or / in it."""
    whole = address.partition("://")[2].partition("?")[0]
    if whole.count("@") > 1 or "@" in whole.partition("/")[2]:
        raise InputError(
            "in the journal's address, a user's name or a password has @ or / in it: write them as %40 and %2F, or "
            "keep the password out of it, in ~/.pgpass"
        )
