"""Further sagas of the storied shop: people asked ahead, children, assertions, limits, secrets, documents."""

import asyncio
from typing import Any

import amends
from amends import Done, Fatal, Limit, Limits, SagaDefinition, Secret, Step, Work, action, child, saga, to_checkpoint
from amends.errors import WaitTimeoutError
from tests.server import storied_shop as shop


@saga("shop.asks_ahead")
async def asks_ahead(s: Work, who: str) -> list[str]:
    signers = await s.ask(shop.grant_access, who)
    await s.do(shop.reserve, who)
    return [*signers, await s.do(shop.grant_access, who)]


@saga("shop.asks_and_goes_back")
async def asks_and_goes_back(s: Work, order: str) -> list[str]:
    signers = await s.ask(shop.reserve, order)
    await s.checkpoint("agreed")
    await s.do(shop.reserve, order)
    await s.wait_for("paid", timeout=60)
    return list(signers)


@saga("shop.room")
async def room(s: Work, order: str, fails: bool = False) -> str:
    """One that others call."""
    booked = await s.do(shop.reserve, order)
    if fails:
        raise Fatal("no such room")
    return booked


@saga("shop.calls")
async def calls(s: Work, order: str) -> list[str]:
    return [await s.call(room, f"{order}-1"), await s.do(shop.reserve, f"{order}-2")]


@saga("shop.calls_in_vain")
async def calls_in_vain(s: Work, order: str) -> None:
    await s.call(room, order)
    await s.do(shop.break_down, "sold out")


@saga("shop.calls_one_that_fails")
async def calls_one_that_fails(s: Work, order: str) -> str:
    await s.do(shop.reserve, f"{order}-0")
    return await s.call(room, order, fails=True)


@saga("shop.calls_several")
async def calls_several(s: Work, order: str) -> list[str]:
    return await s.call_all([child(room, f"{order}-{number}") for number in range(3)])


@saga("shop.calls_several_in_vain")
async def calls_several_in_vain(s: Work, order: str) -> None:
    await s.call_all([child(room, f"{order}-1"), child(room, f"{order}-2", fails=True)])


@saga("shop.middle")
async def middle(s: Work, order: str) -> str:
    return await s.call(room, order)


@saga("shop.family")
async def family(s: Work, order: str) -> None:
    await s.call(middle, order)
    await s.do(shop.break_down, "sold out")


@saga("shop.asking_room")
async def asking_room(s: Work, who: str) -> str:
    return await s.do(shop.grant_access, who)


@saga("shop.calls_one_that_asks")
async def calls_one_that_asks(s: Work, who: str) -> str:
    return await s.call(asking_room, who)


def is_booked(result: str) -> bool:
    """An assertion: looked at, and put down."""
    shop.note(f"check {result}")
    return result.startswith("R-")


@saga("shop.verified", verify=[is_booked])
async def verified(s: Work, order: str) -> str:
    return await s.do(shop.reserve, order)


@saga("shop.unverified", verify=[is_booked])
async def unverified(s: Work, order: str) -> str:
    await s.do(shop.reserve, order)
    return "nothing"


@saga("shop.bounded", limits=Limits(steps=Limit(2, then="call"), tokens=Limit(100, then="rollback")))
async def bounded(s: Work, orders: int, tokens: int = 0) -> None:
    await s.do(shop.reserve, "o-0")
    if tokens:
        await s.spend(tokens=tokens)
    for number in range(1, orders):
        await s.do(shop.reserve, f"o-{number}")


@saga("shop.thrifty", limits=Limits(tokens=Limit(100, then=to_checkpoint("room", "be brief"))))
async def thrifty(s: Work, order: str) -> str:
    await s.do(shop.reserve, f"{order}-0")
    feedback = await s.checkpoint("room")
    if feedback is not None:
        return await s.do(shop.reserve, f"{order}-brief")
    await s.do(shop.reserve, f"{order}-long")
    await s.spend(tokens=200)
    return "too long"


@saga("shop.goes_back")
async def goes_back(s: Work, order: str) -> str:
    await s.do(shop.reserve, f"{order}-0")
    feedback = await s.checkpoint("room")
    await s.do(shop.reserve, f"{order}-1")
    await s.wait_for("paid", timeout=60)
    return "nobody" if feedback is None else feedback.why


@saga("shop.waits_in_vain")
async def waits_in_vain(s: Work, order: str) -> str:
    try:
        await s.wait_for("paid", timeout=0.1)
    except WaitTimeoutError:
        return await s.do(shop.reserve, order)
    return "paid"


@action("shop.sign_in")
async def sign_in(user: str, password: Secret) -> str:
    shop.note(f"in {user} {len(password.reveal())}")
    return user


@sign_in.compensation
async def sign_out(done: Done[str]) -> None:
    password: Secret = done.args["password"]
    shop.note(f"out {done.args['user']} {len(password.reveal())}")


@action("shop.leak", no_rollback="words are not unsaid")
async def leak(password: Secret) -> None:
    raise Fatal(f"no user has {password.reveal()}", happened=False)


@saga("shop.calls_with_a_secret")
async def calls_with_a_secret(s: Work, user: str, password: Secret) -> str:
    return await s.call(secret, user, password)


@saga("shop.paying")
async def paying(s: Work, order: str) -> str:
    return await s.do(shop.charge, order, 500)


@saga("shop.calls_one_that_pays")
async def calls_one_that_pays(s: Work, order: str) -> list[str]:
    booked = await s.do(shop.reserve, order)
    return [booked, await s.call(paying, order)]


@saga("shop.secret")
async def secret(s: Work, user: str, password: Secret, fails: bool = False) -> str:
    signed_in = await s.do(sign_in, user, password)
    if fails:
        await s.do(leak, password)
    return signed_in


FALLS_BACK = SagaDefinition(
    "shop.falls_back",
    [
        Step(shop.reserve, {"item": "o-0"}, name="first"),
        Step(shop.lose, {"order": "o-1"}, on_failure=Step(shop.reserve, {"item": "o-2"}, name="other")),
        Step(shop.reserve, {"item": "o-3"}, name="last"),
    ],
)
NEEDED = SagaDefinition(
    "shop.falls_back_in_a_graph",
    [
        Step(shop.reserve, {"item": "o-0"}, name="first"),
        Step(
            shop.lose,
            {"order": "o-1"},
            after=["first"],
            on_failure=Step(shop.reserve, {"item": "o-2"}, name="other"),
        ),
    ],
)


@saga("shop.remembers")
async def remembers(s: Work, name: str, fails: bool = False) -> Any:
    seen = await s.state.get(name, 0)
    await s.state.set(name, seen + 1)
    if fails:
        raise Fatal("forget it")
    return await s.state.get(name)


@saga("shop.asks_in_a_branch")
async def asks_in_a_branch(s: Work, who: str) -> list[str]:
    await s.ask(shop.grant_access, who)
    return list(await asyncio.gather(s.do(shop.reserve, who), s.do(shop.grant_access, who)))


@action("shop.guess", read_only=True)
async def guess(order: str) -> str:
    shop.note(f"guess {len(amends.reasons())}")
    return f"{order}-{len(amends.reasons())}"


def is_third(result: str, order: str) -> bool | str:
    return result == f"{order}-2" or "guess again"


guess.validate(is_third, tries=3)


@saga("shop.guesses")
async def guesses(s: Work, order: str) -> str:
    return await s.do(guess, order)


@action("shop.guess_wrong", read_only=True)
async def guess_wrong(order: str) -> str:
    shop.note(f"guess {order}")
    return order


async def never(result: str) -> bool:
    return False


guess_wrong.validate(never, tries=2)


@saga("shop.guesses_in_vain")
async def guesses_in_vain(s: Work, order: str) -> str:
    return await s.do(guess_wrong, order)


@saga("shop.with_files", files=["."])
async def with_files(s: Work) -> None:
    """One that works on files."""


@saga("shop.with_bounds", rollback_s=5.0)
async def with_bounds(s: Work) -> None:
    """One that has a bound of its own."""
