"""The conformance stories of sagas, told twice: embedded on a journal, and through a server, by the same code."""

import asyncio
from typing import Any

import pytest

from amends.errors import RefusedError, StepDeniedError, StepError
from tests.server import storied_shop as shop
from tests.server.ways import Way, deeds, first_asked, is_waiting, run, until


def test_a_saga_that_succeeds_has_its_result(way: Way) -> None:
    ended = asyncio.run(run(way, shop.plain, "o"))
    assert (ended.status, ended.result) == ("completed", {"room": "R-o", "paid": "paid o"})
    assert deeds() == ["reserve o", "charge o"]


def test_what_fails_is_taken_back_newest_first(way: Way) -> None:
    ended = asyncio.run(run(way, shop.doomed, "o"))
    assert (ended.status, ended.cause) == ("rolled_back", "fatal")
    assert deeds() == ["reserve o", "charge o", "refund o", "release o"]
    assert shop.lines()[-1] == "release o R-o certain"


def test_an_exception_of_the_function_takes_all_back(way: Way) -> None:
    ended = asyncio.run(run(way, shop.raises, "o"))
    assert (ended.status, "no such customer" in ended.why) == ("rolled_back", True)
    assert deeds() == ["reserve o", "release o"]


def test_a_lost_step_is_compensated_as_uncertain(way: Way) -> None:
    ended = asyncio.run(run(way, shop.loses, "o"))
    assert ended.status == "rolled_back"
    assert shop.lines()[1:] == ["lose o", "unlose o perhaps", "release o R-o certain"]


def test_what_certainly_failed_is_tried_again_with_the_same_key(way: Way) -> None:
    ended = asyncio.run(run(way, shop.retries, "o"))
    assert (ended.status, ended.result) == ("completed", "o")
    keys = {line.split()[2] for line in shop.lines()}
    assert (len(shop.lines()), len(keys)) == (3, 1)


def test_what_the_policy_denies_is_not_done_and_says_which_rule(way: Way) -> None:
    ended = asyncio.run(run(way, shop.denied, "books"))
    assert (ended.status, ended.cause) == ("rolled_back", "denied")
    assert "shop.delete" in ended.why
    assert deeds() == ["reserve books", "release books"]


def test_a_before_image_is_what_its_compensation_restores(way: Way) -> None:
    ended = asyncio.run(run(way, shop.prices, "tea"))
    assert ended.status == "rolled_back"
    assert [line.split()[2] for line in shop.lines()] == ["100", "200", "100", "0"]


def test_a_part_is_taken_back_to_a_checkpoint_and_the_work_goes_on(way: Way) -> None:
    ended = asyncio.run(run(way, shop.again, "o"))
    assert (ended.status, ended.result) == ("completed", "shop.reserve, shop.reserve")
    back = ["release o-2", "release o-1"]
    assert deeds() == ["reserve o-0", "reserve o-1", "reserve o-2", *back, "reserve o-3"]


def test_steps_side_by_side_are_all_done_once(way: Way) -> None:
    ended = asyncio.run(run(way, shop.beside, "o"))
    assert (ended.status, ended.result) == ("completed", [f"R-o-{number}" for number in range(4)])
    assert sorted(deeds()) == [f"reserve o-{number}" for number in range(4)]


def test_a_block_that_fails_is_taken_back_before_it_is_tried_again(way: Way) -> None:
    ended = asyncio.run(run(way, shop.tries, "o"))
    assert (ended.status, ended.result) == ("completed", 3)
    assert deeds() == ["reserve o-1", "release o-1", "reserve o-2", "release o-2", "reserve o-3"]


def test_past_its_pivot_a_saga_is_not_taken_back(way: Way) -> None:
    ended = asyncio.run(run(way, shop.pivot, "o"))
    assert ended.status == "incident"
    assert deeds() == ["reserve o", "ship o"]


def test_the_same_id_again_is_the_same_saga_and_another_input_is_refused(way: Way) -> None:
    async def twice() -> None:
        async with way.connect() as coordinator:
            first = await coordinator.run(shop.plain, "o", id=way.id)
            again = await coordinator.run(shop.plain, "o", id=way.id)
            assert (again.status, again.result) == (first.status, first.result)
            with pytest.raises(RefusedError, match="exists already"):
                await coordinator.run(shop.plain, "other", id=way.id)

    asyncio.run(twice())
    assert deeds() == ["reserve o", "charge o"]


def test_a_step_waits_for_a_person_and_is_done_once_they_agree(way: Way) -> None:
    async def asked() -> Any:
        async with way.connect() as coordinator, way.person() as person:
            handle = await coordinator.start(shop.asks, "eve", id=way.id)
            approval = await until(lambda: first_asked(person, way.id))
            assert deeds() == []
            await person.grant(approval.id, **way.by)
            return await handle

    ended = asyncio.run(asked())
    assert (ended.status, ended.result) == ("completed", "eve")
    assert deeds() == ["grant eve"]


def test_a_step_that_a_person_refuses_is_denied(way: Way) -> None:
    async def asked() -> Any:
        async with way.connect() as coordinator, way.person() as person:
            handle = await coordinator.start(shop.asks, "eve", id=way.id)
            approval = await until(lambda: first_asked(person, way.id))
            await person.refuse(approval.id, why="nobody knows her", **way.by)
            return await handle

    ended = asyncio.run(asked())
    assert (ended.status, ended.cause, "nobody knows her" in ended.why) == ("rolled_back", "denied", True)
    assert deeds() == []


def test_a_saga_waits_for_a_signal(way: Way) -> None:
    async def signalled() -> Any:
        async with way.connect() as coordinator, way.person() as person:
            handle = await coordinator.start(shop.waits, "o", id=way.id)
            await until(lambda: is_waiting(person, way.id))
            await person.signal(way.id, "paid", {"cents": 500})
            return await handle

    ended = asyncio.run(signalled())
    assert (ended.status, ended.result) == ("completed", {"cents": 500})


def test_a_completed_saga_is_cancelled_and_a_worker_takes_it_back(way: Way) -> None:
    async def cancelled() -> Any:
        async with way.connect() as coordinator:
            await coordinator.run(shop.plain, "o", id=way.id)
        async with way.connect() as worker, way.person() as person:
            working = asyncio.ensure_future(worker.work())
            try:
                return await person.cancel(way.id, why="changed their mind")
            finally:
                working.cancel()
                await asyncio.wait({working})

    assert asyncio.run(cancelled()).status == "rolled_back"
    assert deeds() == ["reserve o", "charge o", "refund o", "release o"]


def test_a_session_is_driven_from_its_block_and_completed(way: Way) -> None:
    async def driven() -> None:
        async with way.connect() as coordinator:
            async with coordinator.session("shop.session", id=way.id) as s:
                assert await s.do(shop.reserve, "o", call="c1") == "R-o"
                assert await s.do(shop.reserve, "o", call="c1") == "R-o"
                with pytest.raises(RefusedError, match="other arguments"):
                    await s.do(shop.reserve, "x", call="c1")
                with pytest.raises(StepDeniedError, match=r"shop\.delete") as raised:
                    await s.do(shop.delete, "o")
                assert (raised.value.rule, raised.value.happened) == ("no-deleting", False)
            with pytest.raises(RefusedError, match="has ended"):
                async with coordinator.session("shop.session", id=way.id):
                    raise AssertionError("it is over")

    asyncio.run(driven())
    assert deeds() == ["reserve o"]


def test_a_session_left_by_an_exception_is_rolled_back(way: Way) -> None:
    async def driven() -> None:
        async with way.connect() as coordinator:
            with pytest.raises(StepError, match="sold out"):
                await sold_out(coordinator, way.id)
            row = await anext(aiter(coordinator.list(definition="shop.session")))
            assert (row.id, row.status) == (way.id, "rolled_back")

    asyncio.run(driven())
    assert deeds() == ["reserve o", "release o"]


def test_a_session_that_was_left_open_is_taken_up_where_it_stood(way: Way) -> None:
    async def driven() -> None:
        async with way.connect() as coordinator, coordinator.session("shop.session", id=way.id) as s:
            await s.do(shop.reserve, "o", call="c1")
            await s.detach()
        async with way.connect() as coordinator, coordinator.session("shop.session", id=way.id) as s:
            assert await s.do(shop.reserve, "o", call="c1") == "R-o"
            await s.do(shop.charge, "o", 5, call="c2")

    asyncio.run(driven())
    assert deeds() == ["reserve o", "charge o"]


async def sold_out(coordinator: Any, id: str) -> None:
    async with coordinator.session("shop.session", id=id) as s:
        await s.do(shop.reserve, "o")
        await s.do(shop.break_down, "sold out")
