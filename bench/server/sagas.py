"""Sagas that the measured server drives itself."""

from __future__ import annotations

from amends import Done, Work, action, saga


@action("bench.step", idempotent=True)
async def step(n: int) -> int:
    return n


@step.compensation
async def unstep(done: Done) -> None:
    """Nothing to take back: the cost of the server is what is measured."""


@action("bench.asked", idempotent=True, risk={"asked"})
async def asked(n: int) -> int:
    return n


@asked.compensation
async def unasked(done: Done) -> None:
    """Nothing to take back."""


@saga("bench.decided")
async def decided(s: Work, n: int) -> int:
    """Two steps, of which a person decides about the second."""
    await s.do(step, n)
    return await s.do(asked, n)
