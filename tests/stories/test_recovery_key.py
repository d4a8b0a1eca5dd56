"""A recovery key is used: whoever keeps it hears of that, before anything that it enrolled can decide."""

from __future__ import annotations

import asyncio
from pathlib import Path

from amends import Coordinator
from tests.security.proved import Shop, new_key, public, signer


def test_each_use_of_a_recovery_key_is_an_incident(tmp_path: Path) -> None:
    asyncio.run(_use_one(tmp_path))


async def _use_one(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "shop")
    vault, new = new_key(tmp_path, "vault"), new_key(tmp_path, "new")
    async with Coordinator.open(shop.journal, registry=shop.registry(), env="test") as coordinator:
        await coordinator.enrol("kim", public(shop.kim), by="person:kim")
        await coordinator.enrol("kim", public(vault), by="person:kim", recovery=True, proof=signer(shop.kim))
        assert [each async for each in coordinator.incidents()] == []

        changed = await coordinator.enrol("ann", public(new), by="person:kim", proof=signer(vault))

        (incident,) = [each async for each in coordinator.incidents()]
        assert incident.saga.startswith("amends.recovery-")
        (found,) = [one for one in changed.living() if one.recovery]
        assert found.key.fingerprint in incident.why
        assert "enrol ssh-ed25519" in incident.why
        assert "of person:ann" in incident.why
