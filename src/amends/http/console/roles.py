"""Roles: what the members of a group may, where somebody else says who is in which."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from amends.errors import ForbiddenError, InputError
from amends.http.callers import Caller, Scope
from amends.runtime.declare.names import checked_actor

Roles = Mapping[str, frozenset[Scope]]


def read_roles(given: Sequence[str]) -> Roles:
    """Raises InputError for what is not written GROUP=SCOPE,SCOPE."""
    found: dict[str, frozenset[Scope]] = {}
    for word in given:
        group, equals, said = word.rpartition("=")
        try:
            scopes = frozenset(Scope(one.strip()) for one in said.split(","))
        except ValueError:
            scopes = frozenset[Scope]()
        if not group or not equals or not scopes:
            known = ",".join(Scope)
            raise InputError(f"--role {word}: say a group and what its members may, as in oncall=view,decide ({known})")
        found[group] = found.get(group, frozenset()) | scopes
    return found


def caller_in(roles: Roles, name: str, groups: Collection[str], proof: str) -> Caller:
    """A person in these groups. Raises ForbiddenError where none of them has a role."""
    scopes = frozenset[Scope]().union(*(roles.get(group, frozenset()) for group in groups))
    who = checked_actor(f"person:{name}")
    if not scopes:
        raise ForbiddenError(
            f"{who} is in none of the groups that may come in here; an administrator names them with --role"
        )
    return Caller(name=who, scopes=scopes, proof=proof)
