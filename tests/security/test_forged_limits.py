"""Limits that nobody raised: with the journal's file and its key, and no person's, an attacker raises them no further
than a person has signed, or the definition says. Each attack has a control where names are believed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from amends import Done, Limit, Limits, Registry, SagaDefinition, Work, action, to_checkpoint
from amends.core.events import Event, IncidentRetried, LimitRaised, LimitReached
from amends.errors import ProofError
from amends.journal.port.journal import Entry
from tests.security.proved import Shop, signer

KIM = "person:kim"
RUNTIME = "system:runtime"
SLOW = 77


class CountingShop(Shop):
    """Sagas that spend tokens and do steps, from a checkpoint on, and then wait for a signal."""

    def registry(self) -> Registry:
        @action("account.count", idempotent=True)
        async def count(number: int) -> int:
            self.world.append(f"counted {number}")
            if number == SLOW:
                await asyncio.sleep(0.1)
            return number

        @count.compensation
        async def forget(done: Done) -> None:
            self.world.append(f"forgot {done.args['number']}")

        async def serve(s: Work, tokens: list[int]) -> str:
            await s.checkpoint("begun")
            for number, amount in enumerate(tokens):
                if amount:
                    await s.spend(tokens=amount)
                await s.do(count, amount if amount in {0, SLOW} else number)
            await s.wait_for("go")
            return "done"

        registry = Registry()
        registry.add_action(count)
        registry.add_definition(SagaDefinition("shop.count", function=serve))
        return registry

    async def prepare(self) -> None:
        async with self.open(pins=False) as coordinator:
            if self.proved:
                self.root = (await coordinator.enrol("kim", (self.place / "kim.pub").read_text())).root
            await coordinator.adopt(self.place / "policy.yaml", by=KIM, why="start", proof=self.proof())

    def proof(self) -> Any:
        return signer(self.kim) if self.proved else None

    async def begun(self, tokens: list[int], limits: Limits) -> str:
        """How it stands when nothing more is due."""
        await self.prepare()
        async with self.open() as coordinator:
            definition = coordinator.registry.definition("shop.count", 1)
            handle = await coordinator.start(definition, tokens, id="l-1", actor="agent:desk", limits=limits)
            return (await handle.halt()).status

    async def retried(self) -> None:
        """An incident is retried by Kim, and nobody goes on yet."""
        async with self.open(drives=False) as coordinator:
            await coordinator.retry_incident("l-1/1", by=KIM, proof=self.proof(), wait=False)


@pytest.fixture(params=["proved", "believed"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> CountingShop:
    return CountingShop(tmp_path / "shop", proved=request.param == "proved")


def in_a_loop(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(story(), 120))


async def expect_seen(shop: Shop, *, seen: bool) -> None:
    """It is seen by the runtime and by all verifiers, or by none of them."""
    with pytest.raises(ProofError, match=r"limit\.raised/1") if seen else contextlib.nullcontext():
        await shop.resume()
    said, findings = await shop.verdicts()
    assert (said == {"failed"}) == seen, findings
    assert any("not signed" in each for each in findings) == seen


# -- what goes on record beside a signed decision ---------------------------------------------------------------------


CALLS = Limits(steps=Limit(1, then="call"), tokens=Limit(50, then="call"))


def test_the_raise_beside_a_signed_retry_is_edited(shop: CountingShop, tmp_path: Path) -> None:
    """A person retries, which raises a limit once more; made anew, that raise is five hundred times as much."""

    async def story() -> None:
        assert await shop.begun([1] * 9, CALLS) == "incident"
        await shop.retried()

        def more(entry: Entry) -> Event | None:
            return replace(entry.event, most=1000) if isinstance(entry.event, LimitRaised) else entry.event

        await expect_seen(await shop.remade(tmp_path / "edited", more), seen=shop.proved)
        await expect_seen(shop, seen=False)
        assert shop.world == ["counted 0", "counted 1"]

    in_a_loop(story)


def test_what_a_signed_retry_raises_is_edited_with_the_raise(shop: CountingShop, tmp_path: Path) -> None:
    """The same, and what the retry says that it raises is edited to fit."""

    async def story() -> None:
        assert await shop.begun([1] * 9, CALLS) == "incident"
        await shop.retried()

        def more(entry: Entry) -> Event | None:
            if isinstance(entry.event, IncidentRetried) and shop.proved:
                assert entry.event.raises == "steps 2"
                return replace(entry.event, raises="steps 1000")
            return replace(entry.event, most=1000) if isinstance(entry.event, LimitRaised) else entry.event

        edited = await shop.remade(tmp_path / "edited", more)
        with pytest.raises(ProofError) if shop.proved else contextlib.nullcontext():
            await edited.resume()
        assert (len(edited.world) == 0) == shop.proved
        said, _ = await edited.verdicts()
        assert (said == {"failed"}) == shop.proved

    in_a_loop(story)


@pytest.mark.parametrize("limit", ["steps", "tokens"])
def test_a_raise_is_added_to_a_signed_retry(shop: CountingShop, limit: str) -> None:
    """As if it had been made in one go with the retry; of the limit that was reached, and of another one."""

    async def story() -> None:
        assert await shop.begun([1] * 9, CALLS) == "incident"
        await shop.retried()
        await shop.forge("l-1", LimitRaised(limit=limit, most=1000, by=KIM))
        await expect_seen(shop, seen=shop.proved)

    in_a_loop(story)


def test_one_signature_raises_several_limits_and_none_of_them_further(shop: CountingShop, tmp_path: Path) -> None:
    """A person raises two limits with one signature; the second is edited."""

    async def story() -> None:
        assert await shop.begun([1] * 9, CALLS) == "incident"
        async with shop.open(drives=False) as coordinator:
            await coordinator.raise_limit("l-1", steps=3, tokens=60, by=KIM, proof=shop.proof(), wait=False)

        def more(entry: Entry) -> Event | None:
            event = entry.event
            if isinstance(event, LimitRaised) and event.raises == "":
                return replace(event, most=event.most * 9)
            return event

        await expect_seen(await shop.remade(tmp_path / "edited", more), seen=shop.proved)
        await expect_seen(shop, seen=False)
        assert shop.world == ["counted 0", "counted 1", "counted 2"]

    in_a_loop(story)


def test_a_retry_that_was_signed_a_while_ago_gives_as_much_time_as_it_said_then(tmp_path: Path) -> None:
    """The text is shown, signed elsewhere, and brought back: by then, as much again would be a little more."""

    async def story() -> None:
        shop = CountingShop(tmp_path / "shop")
        assert await shop.begun([SLOW, SLOW], Limits(seconds=Limit(0.05, then="call"))) == "incident"
        texts: list[str] = []

        def show(text: str) -> str:
            texts.append(text)
            raise InterruptedError

        async with shop.open(drives=False) as coordinator:
            with pytest.raises(InterruptedError):
                await coordinator.retry_incident("l-1/1", by=KIM, proof=show, wait=False)
            await asyncio.sleep(0.05)  # so that the time is another
            proof = texts[0] + signer(shop.kim)(texts[0])
            await coordinator.retry_incident("l-1/1", by=KIM, proof=proof, wait=False)
        (raised,) = [entry.event for entry in await shop.entries("l-1") if isinstance(entry.event, LimitRaised)]
        assert f'raises: "seconds {raised.most}"' in texts[0]
        assert (await shop.verdicts())[0] == {"covered"}

    in_a_loop(story)


# -- what the runtime allows by itself --------------------------------------------------------------------------------


BACK = Limits(
    tokens=Limit(10, then=to_checkpoint("begun", times=1)),
    seconds=Limit(500, then=to_checkpoint("begun", times=1)),
    steps=Limit(20, then="call"),
)


def reached(limit: str, most: int, used: int, raised: int) -> tuple[Event, ...]:
    """What the runtime writes where a saga goes back to a checkpoint, and how much it is allowed then."""
    return (
        LimitReached(limit=limit, most=most, used=used, then="to_checkpoint", why="too much"),
        LimitRaised(limit=limit, most=raised, by=RUNTIME, why="it goes back to checkpoint 'begun'"),
    )


@pytest.mark.parametrize(
    "forged",
    [
        reached("tokens", 10, 1000, 1010),
        reached("tokens", 10, 10, 21),
        reached("tokens", 10, 10, 20) * 2,
        reached("steps", 20, 20, 40),
        reached("seconds", 500_000, 900_000_000, 900_500_000),
    ],
    ids=["so much was not used", "more than as much again", "too often", "it calls somebody there", "no such time"],
)
def test_the_runtime_did_not_raise_a_limit(shop: CountingShop, forged: tuple[Event, ...]) -> None:
    """As if a limit had had the saga go back to a checkpoint: by more than is due, too often, or where it does not."""

    async def story() -> None:
        assert await shop.begun([6], BACK) == "waiting"
        await shop.forge("l-1", *forged)
        async with shop.open(drives=False) as coordinator:
            await coordinator.signal("l-1", "go")
        await expect_seen(shop, seen=shop.proved)

    in_a_loop(story)


@pytest.mark.parametrize(
    ("tokens", "limits"),
    [
        ([25], Limits(tokens=Limit(10, then=to_checkpoint("begun", times=2)))),
        ([1] * 9, Limits(steps=Limit(4, then=to_checkpoint("begun", times=3)))),
        ([SLOW, SLOW], Limits(seconds=Limit(0.05, then=to_checkpoint("begun", times=2)))),
        ([0] * 9, Limits(spin=Limit(2, then=to_checkpoint("begun", times=2)), steps=Limit(30, then="call"))),
    ],
    ids=["tokens", "steps", "seconds", "spin"],
)
def test_what_the_runtime_raises_is_found_to_be_right(tmp_path: Path, tokens: list[int], limits: Limits) -> None:
    """Nothing is tried: limits have a saga go back to a checkpoint, and it is allowed as much again."""

    async def story() -> None:
        shop = CountingShop(tmp_path / "shop")
        await shop.begun(tokens, limits)
        async with shop.open() as coordinator:
            async with asyncio.timeout(60):
                while (await coordinator.show("l-1")).status not in {"rolled_back", "incident", "completed"}:
                    await asyncio.sleep(0.02)
        assert any(isinstance(entry.event, LimitRaised) for entry in await shop.entries("l-1"))
        assert await shop.verdicts() == ({"covered"}, [])

    in_a_loop(story)
