"""Enrolling people, and revoking their keys: the part of a coordinator that the roster is changed by."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from amends.core.events import PersonEnrolled, PersonEvent, PersonRevoked
from amends.core.state.deciders import normal
from amends.errors import InputError, RefusedError
from amends.evidence.proof.keys import read_key
from amends.evidence.proof.roster import EnrolledKey, Roster
from amends.runtime.coordinator.starting import Starting
from amends.runtime.declare.names import checked_actor
from amends.runtime.drive.policies import Policies
from amends.runtime.drive.roster import Proof
from amends.runtime.engine.local import LocalEngine

_BY: Final = "system:roster"


class Enrolling:
    """Where names come to be proved."""

    _engine: LocalEngine

    async def roster(self) -> Roster:
        """Whose keys prove which names, and the root. Raises ProofError where another root was told."""
        return await self._policies().proofs.refresh()

    async def enrol(
        self,
        person: str,
        key: str,
        *,
        by: str | None = None,
        why: str = "",
        recovery: bool = False,
        proof: Proof | None = None,
    ) -> Roster:
        """Have a key prove a person's name: `key` is the line of its .pub file.

        The first one is enrolled by whoever makes the journal, and is the root that it is known by. Each later one
        takes the proof of somebody who is enrolled. recovery: the key is kept elsewhere, for the day when the others
        are lost; it changes the roster, and decides nothing else. Raises ProofError, and InputError for a kind of key
        that is not verified here.
        """
        policies = self._policies()
        name = _person(person)
        line = read_key(key).line
        fact = PersonEnrolled(person=name, key=line, by=checked_actor(by), why=why, recovery=recovery)
        await policies.refresh()
        return await policies.proofs.change(fact, proof, policy=policies.digest)

    async def revoke(
        self, person: str, *, why: str, key: str = "", by: str | None = None, proof: Proof | None = None
    ) -> Roster:
        """Have a key prove nothing more: the one of this fingerprint, or the only one that the person has.

        What it has proved stands. Raises ProofError, InputError and RefusedError.
        """
        policies = self._policies()
        name = _person(person)
        found = [one for one in (await self.roster()).living() if normal(one.person) == normal(name)]
        chosen = [one for one in found if key in {"", one.key.fingerprint}]
        if len(chosen) != 1:
            has = ", ".join(one.key.fingerprint for one in found) or "none"
            raise InputError(f"say which key of {name} is revoked, by its fingerprint; there are: {has}")
        _require_left(await self.roster(), chosen[0])
        fact = PersonRevoked(person=chosen[0].person, key=chosen[0].key.fingerprint, by=checked_actor(by), why=why)
        await policies.refresh()
        return await policies.proofs.change(fact, proof, policy=policies.digest)

    def _policies(self) -> Policies:
        policies = self._engine.policies
        if policies is None:
            raise RefusedError("this coordinator has a gate of its own, and keeps no roster")
        return policies


async def tell_of_recovery(coordinator: Starting, key: EnrolledKey, change: PersonEvent) -> None:
    """Open an incident of its own: whoever enrolled that key should know of it when somebody else uses it."""
    from amends.runtime.saga.recovery_key import recovery_key_used

    enrols = isinstance(change, PersonEnrolled)
    told = f"{'enrol' if enrols else 'revoke'} {change.key} of {change.person}"
    opened = await coordinator.start(
        recovery_key_used,
        key.person,
        key.key.fingerprint,
        told,
        id=f"amends.recovery-{sha256(change.signed.encode()).hexdigest()[:16]}",
        actor=_BY,
    )
    await opened.halt()


def _person(name: str) -> str:
    return checked_actor(name if ":" in name else f"person:{name}")


def _require_left(roster: Roster, revoked: EnrolledKey) -> None:
    """The last key is never revoked: nobody could change the roster after that."""
    if len(roster.living()) == 1:
        raise RefusedError(
            f"{revoked.key.fingerprint} is the last key of this journal; enrol another one first, with this one's proof"
        )
