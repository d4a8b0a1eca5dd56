"""A child may pay what its parent's action quoted, and nothing that somebody made up."""

from pathlib import Path

import amends
from amends import Done, SagaStatus, Work, action, saga


@action("sourced.quote", read_only=True)
def quote(item: str) -> dict[str, int]:
    return {"cents": 4200}


@action("sourced.guess", read_only=True)
def guess(item: str) -> dict[str, int]:
    return {"cents": 5100}


@action("sourced.pay", sourced={"cents": "sourced.quote"})
def pay(cents: int) -> str:
    return f"paid {cents}"


@pay.compensation
def refund(done: Done) -> None: ...


@saga("sourced.till")
async def till(s: Work, cents: int) -> str:
    return await s.do(pay, cents)


@saga("sourced.desk")
async def desk(s: Work, cents: int) -> str:
    return str(await s.call(till, cents))


@saga("sourced.shop")
async def shop(s: Work, slip: int, by: str) -> str:
    offer = await s.do(quote if by == "quote" else guess, "lamp")
    return str(await s.call(desk, offer["cents"] + slip))


def bought(place: Path, slip: int = 0, by: str = "quote") -> amends.Ended:
    return amends.run(shop, slip, by, journal=str(place / "a.db"), env="test", id="s-1")


def test_what_an_action_of_the_parent_s_parent_gave_may_be_paid(tmp_path: Path) -> None:
    ended = bought(tmp_path)
    assert (ended.status, ended.result) == (SagaStatus.COMPLETED, "paid 4200")


def test_what_it_made_up_may_not(tmp_path: Path) -> None:
    ended = bought(tmp_path, slip=1000)
    assert ended.status is SagaStatus.ROLLED_BACK
    assert "cents has to come from the result of sourced.quote" in ended.why


def test_nor_what_another_action_gave(tmp_path: Path) -> None:
    assert bought(tmp_path, by="guess").status is SagaStatus.ROLLED_BACK


def test_nor_what_only_the_input_says(tmp_path: Path) -> None:
    ended = amends.run(desk, 4200, journal=str(tmp_path / "a.db"), env="test")
    assert ended.status is SagaStatus.ROLLED_BACK
