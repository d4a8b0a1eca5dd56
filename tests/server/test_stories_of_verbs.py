"""More stories that are told twice, embedded and through a server: verbs beyond a step."""

import asyncio
from typing import Any

import pytest

from amends import Coordinator, Secret
from amends.errors import DocumentConflictError, InputError
from amends.runtime.saga.documents import get_document
from tests.server import storied_shop as shop, storied_verbs as verbs
from tests.server.serving import Serving
from tests.server.ways import Way, deeds, first_asked, is_waiting, run, until


async def granted(way: Way, definition: Any, *args: Any) -> Any:
    """Run it, and have a person agree to what it asks first."""
    async with way.connect() as coordinator, way.person() as person:
        handle = await coordinator.start(definition, *args, id=way.id)
        approval = await until(lambda: any_asked(person, way.id))
        shop.note("asked")
        await person.grant(approval.id, **way.by)
        return await handle


async def any_asked(person: Any, saga: str) -> Any:
    """What people are asked by this saga, or by its child."""
    found = [one for one in await person.approvals() if one.saga.startswith(saga)]
    return found[0] if found else None


def test_people_are_asked_ahead_and_the_step_is_done_when_its_turn_comes(way: Way) -> None:
    ended = asyncio.run(granted(way, verbs.asks_ahead, "eve"))
    assert (ended.status, ended.result) == ("completed", ["person:anna", "eve"])
    assert deeds() == ["asked", "reserve eve", "grant eve"]


def test_what_was_asked_ahead_is_done_in_a_branch(way: Way) -> None:
    ended = asyncio.run(granted(way, verbs.asks_in_a_branch, "eve"))
    assert (ended.status, ended.result) == ("completed", ["R-eve", "eve"])
    assert sorted(deeds()[1:]) == ["grant eve", "reserve eve"]


def test_people_who_refuse_ahead_have_all_taken_back(way: Way) -> None:
    async def refused() -> Any:
        async with way.connect() as coordinator, way.person() as person:
            handle = await coordinator.start(verbs.asks_ahead, "eve", id=way.id)
            approval = await until(lambda: first_asked(person, way.id))
            await person.refuse(approval.id, why="nobody knows her", **way.by)
            return await handle

    ended = asyncio.run(refused())
    assert (ended.status, ended.cause, "nobody knows her" in ended.why) == ("rolled_back", "denied", True)
    assert deeds() == []


def test_people_are_not_asked_again_for_what_goes_back_to_after_they_agreed(way: Way) -> None:
    async def sent_back() -> Any:
        async with way.connect() as coordinator, way.person() as person:
            handle = await coordinator.start(verbs.asks_and_goes_back, "o", id=way.id)
            approval = await until(lambda: first_asked(person, way.id))
            await person.grant(approval.id, **way.by)
            await until(lambda: has_waited_after(person, way.id, 1))
            await person.rollback(way.id, to="agreed", why="another room", **way.by)
            await until(lambda: has_waited_after(person, way.id, 2))
            await person.signal(way.id, "paid", **way.by)
            return await handle

    ended = asyncio.run(sent_back())
    assert (ended.status, ended.result) == ("completed", ["person:anna"])
    assert deeds() == ["reserve o", "release o", "reserve o"]


async def has_waited_after(person: Any, saga: str, reservations: int) -> Any:
    """Whether it waits, having reserved so often."""
    return (deeds().count("reserve o") == reservations and await is_waiting(person, saga)) or None


def test_a_session_asks_ahead_and_does_it_once_under_one_call(way: Way) -> None:
    async def asked() -> None:
        async with way.connect() as coordinator, way.person() as person:
            async with coordinator.session("shop.session", id=way.id) as s:
                asking = asyncio.ensure_future(s.ask(shop.grant_access, "eve", call="asked"))
                approval = await until(lambda: first_asked(person, way.id))
                await person.grant(approval.id, **way.by)
                assert await asking == ("person:anna",)
                await s.detach()
            async with coordinator.session("shop.session", id=way.id) as s:
                for _ in range(2):
                    assert await s.do(shop.grant_access, "eve", call="done") == "eve"

    asyncio.run(asked())
    assert deeds() == ["grant eve"]


# -- children ---------------------------------------------------------------------------------------------------------


def test_a_child_runs_to_its_end_and_gives_its_result(way: Way) -> None:
    ended = asyncio.run(run(way, verbs.calls, "o"))
    assert (ended.status, ended.result) == ("completed", ["R-o-1", "R-o-2"])
    assert deeds() == ["reserve o-1", "reserve o-2"]


def test_a_child_that_completed_is_taken_back_with_its_parent(way: Way) -> None:
    async def whole() -> Any:
        async with way.connect() as coordinator:
            ended = await coordinator.run(verbs.calls_in_vain, "o", id=way.id)
            rows = [row async for row in coordinator.list(parent=way.id)]
            return ended, [(row.definition, str(row.status)) for row in rows]

    ended, children = asyncio.run(whole())
    assert (ended.status, ended.cause) == ("rolled_back", "fatal")
    assert children == [("shop.room", "rolled_back")]
    assert deeds() == ["reserve o", "release o"]


def test_a_child_that_fails_is_rolled_back_and_its_parent_hears_why(way: Way) -> None:
    ended = asyncio.run(run(way, verbs.calls_one_that_fails, "o"))
    assert (ended.status, "no such room" in ended.why) == ("rolled_back", True)
    assert deeds() == ["reserve o-0", "reserve o", "release o", "release o-0"]


def test_children_side_by_side_are_all_done_once(way: Way) -> None:
    ended = asyncio.run(run(way, verbs.calls_several, "o"))
    assert (ended.status, ended.result) == ("completed", ["R-o-0", "R-o-1", "R-o-2"])
    assert sorted(deeds()) == ["reserve o-0", "reserve o-1", "reserve o-2"]


def test_where_one_of_several_children_fails_the_others_are_taken_back(way: Way) -> None:
    ended = asyncio.run(run(way, verbs.calls_several_in_vain, "o"))
    assert ended.status == "rolled_back"
    assert sorted(deeds()) == ["release o-1", "release o-2", "reserve o-1", "reserve o-2"]


def test_a_childs_child_is_taken_back_too(way: Way) -> None:
    ended = asyncio.run(run(way, verbs.family, "o"))
    assert ended.status == "rolled_back"
    assert deeds() == ["reserve o", "release o"]


def test_a_child_waits_for_people_and_its_parent_for_it(way: Way) -> None:
    ended = asyncio.run(granted(way, verbs.calls_one_that_asks, "eve"))
    assert (ended.status, ended.result) == ("completed", "eve")
    assert deeds() == ["asked", "grant eve"]


def test_a_session_calls_a_child(way: Way) -> None:
    async def called() -> str:
        async with way.connect() as coordinator, coordinator.session("shop.session", id=way.id) as s:
            booked: str = await s.call(verbs.room, "o")
            return booked

    assert asyncio.run(called()) == "R-o"
    assert deeds() == ["reserve o"]


# -- assertions, limits, recoveries -----------------------------------------------------------------------------------


def test_an_assertion_that_holds_is_asked_before_a_saga_is_complete(way: Way) -> None:
    ended = asyncio.run(run(way, verbs.verified, "o"))
    assert (ended.status, ended.result) == ("completed", "R-o")
    assert deeds() == ["reserve o", "check R-o"]


def test_where_an_assertion_does_not_hold_all_is_taken_back(way: Way) -> None:
    ended = asyncio.run(run(way, verbs.unverified, "o"))
    assert (ended.status, ended.cause) == ("rolled_back", "unverified")
    assert "is_booked" in ended.why
    assert deeds() == ["reserve o", "check nothing", "release o"]


def test_a_flawed_result_is_asked_for_again_and_told_why(way: Way) -> None:
    ended = asyncio.run(run(way, verbs.guesses, "o"))
    assert (ended.status, ended.result) == ("completed", "o-2")
    assert shop.lines() == ["guess 0", "guess 1", "guess 2"]


def test_after_so_many_flawed_results_a_step_has_failed(way: Way) -> None:
    ended = asyncio.run(run(way, verbs.guesses_in_vain, "o"))
    assert (ended.status, "flawed: it was found wrong" in ended.why) == ("rolled_back", True)
    assert shop.lines() == ["guess o", "guess o"]


def test_each_limit_has_its_own_response(way: Way) -> None:
    async def both() -> tuple[Any, Any]:
        async with way.connect() as coordinator:
            stopped = await coordinator.run(verbs.bounded, 5, id=f"{way.id}-s")
            return stopped, await coordinator.run(verbs.bounded, 1, tokens=200, id=f"{way.id}-t")

    stopped, taken_back = asyncio.run(both())
    assert (stopped.status, len(stopped.incidents)) == ("incident", 1)
    assert (taken_back.status, taken_back.cause) == ("rolled_back", "limit")
    assert deeds() == ["reserve o-0", "reserve o-1", "reserve o-0", "release o-0"]


def test_a_limit_has_a_saga_go_back_to_a_checkpoint_and_on_from_there(way: Way) -> None:
    ended = asyncio.run(run(way, verbs.thrifty, "o"))
    assert (ended.status, ended.result) == ("completed", "R-o-brief")
    assert deeds() == ["reserve o-0", "reserve o-long", "release o-long", "reserve o-brief"]


def test_a_person_has_a_saga_go_back_to_a_checkpoint_and_it_is_told_why(way: Way) -> None:
    async def sent_back() -> Any:
        async with way.connect() as coordinator, way.person() as person:
            handle = await coordinator.start(verbs.goes_back, "o", id=way.id)
            await until(lambda: is_waiting(person, way.id))
            await person.rollback(way.id, to="room", why="too far away", **way.by)
            await until(lambda: is_waiting(person, way.id))
            await person.signal(way.id, "paid")
            return await handle

    ended = asyncio.run(sent_back())
    assert (ended.status, ended.result) == ("completed", "too far away")
    assert deeds() == ["reserve o-0", "reserve o-1", "release o-1", "reserve o-1"]


def test_a_wait_has_its_time(way: Way) -> None:
    ended = asyncio.run(run(way, verbs.waits_in_vain, "o"))
    assert (ended.status, ended.result) == ("completed", "R-o")


def test_a_saga_whose_process_has_gone_waits_on_when_it_is_run_again(way: Way) -> None:
    async def in_two() -> Any:
        async with way.connect() as coordinator, way.person() as person:
            await coordinator.start(shop.waits, "o", id=way.id)
            await until(lambda: is_waiting(person, way.id))
        async with way.connect() as coordinator, way.person() as person:
            handle = await coordinator.start(shop.waits, "o", id=way.id)
            await until(lambda: is_waiting(person, way.id))
            await person.signal(way.id, "paid", 7, early=True, **way.by)
            return await handle

    ended = asyncio.run(in_two())
    assert (ended.status, ended.result) == ("completed", 7)
    assert deeds() == ["reserve o"]


def test_a_step_that_is_lost_is_settled_before_another_takes_its_place(way: Way) -> None:
    ended = asyncio.run(run(way, verbs.FALLS_BACK))
    assert ended.status == "completed"
    assert deeds() == ["reserve o-0", "lose o-1", "unlose o-1", "reserve o-2", "reserve o-3"]


def test_a_step_of_a_graph_is_settled_before_another_takes_its_place(way: Way) -> None:
    ended = asyncio.run(run(way, verbs.NEEDED))
    assert ended.status == "completed"
    assert deeds() == ["reserve o-0", "lose o-1", "unlose o-1", "reserve o-2"]


# -- secrets and documents --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_named", [True, False], ids=["named", "value"])
def test_a_secret_reaches_the_action_and_its_compensation_and_never_the_journal(
    way: Way, is_named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "correct horse")

    async def whole() -> tuple[Any, Any, str]:
        async with way.connect() as coordinator:
            password = Secret.env("SHOP_PASSWORD") if is_named else Secret("correct horse")
            kept = await coordinator.run(verbs.secret, "eve", password, id=f"{way.id}-1")
            failed = await coordinator.run(verbs.secret, "eve", password, fails=True, id=f"{way.id}-2")
            return kept, failed, str(await failed.evidence())

    kept, failed, shown = asyncio.run(whole())
    assert (kept.status, kept.result, failed.status) == ("completed", "eve", "rolled_back")
    assert [line.split() for line in shop.lines()] == [["in", "eve", "13"], ["in", "eve", "13"], ["out", "eve", "13"]]
    assert "[secret]" in failed.why
    assert "horse" not in shown + failed.why
    files = list(way.journal.parent.glob(f"{way.journal.name}*"))
    assert files
    assert all(b"horse" not in file.read_bytes() for file in files)


def test_a_child_has_the_secrets_that_it_is_given(way: Way) -> None:
    ended = asyncio.run(run(way, verbs.calls_with_a_secret, "eve", Secret("correct horse")))
    assert (ended.status, ended.result) == ("completed", "eve")
    assert shop.lines() == ["in eve 13"]


def test_a_saga_has_documents_of_its_own_which_a_rollback_restores(way: Way) -> None:
    async def thrice() -> list[Any]:
        async with way.connect() as coordinator:
            name = way.id[:40]
            first = await coordinator.run(verbs.remembers, name, id=f"{way.id}-1")
            failed = await coordinator.run(verbs.remembers, name, fails=True, id=f"{way.id}-2")
            return [first.result, str(failed.status), (await coordinator.run(verbs.remembers, name)).result]

    assert asyncio.run(thrice()) == [1, "rolled_back", 2]


def test_a_document_that_somebody_has_changed_is_not_written_over(way: Way) -> None:
    async def twice() -> None:
        async with way.connect() as coordinator:
            async with coordinator.session("shop.session", id=way.id) as s:
                await s.state.set(way.id[:40], 1)
                await s.detach()
            async with coordinator.session("shop.session", id=f"{way.id}-2") as s:
                with pytest.raises(DocumentConflictError):
                    await s.state.set(way.id[:40], 2)

    asyncio.run(twice())


def test_documents_of_others_are_not_to_be_had_through_a_server(stories: tuple[Serving, str, str]) -> None:
    server, token, _ = stories

    async def others() -> None:
        async with (
            Coordinator.connect(server.url, token=token) as coordinator,
            coordinator.session("shop.session", id="others") as s,
        ):
            with pytest.raises(InputError, match="begin with agent:shop/"):
                await s.do_named(get_document, {"name": "agent:mail/plans"})

    asyncio.run(others())


@pytest.mark.parametrize(
    ("verb", "instead"),
    [("files", "run the saga there"), ("documents", "write s.state"), ("feedback", "s.checkpoint"), ("steps", "read_")],
)
def test_what_lies_beside_the_journal_is_refused_with_what_to_do(
    stories: tuple[Serving, str, str], verb: str, instead: str
) -> None:
    server, token, _ = stories

    async def asked() -> None:
        async with (
            Coordinator.connect(server.url, token=token) as coordinator,
            coordinator.session("shop.session", id=f"beside-{verb}") as s,
        ):
            with pytest.raises(InputError, match=instead):
                getattr(s, verb)
            assert not hasattr(s, "anything")

    asyncio.run(asked())


@pytest.mark.parametrize(
    ("definition", "said"),
    [(verbs.with_files, "works on files"), (verbs.with_bounds, "set where the journal is")],
    ids=["files", "bounds"],
)
def test_a_saga_that_takes_the_journal_itself_is_refused_before_it_begins(
    stories: tuple[Serving, str, str], definition: Any, said: str
) -> None:
    server, token, _ = stories

    async def started() -> None:
        async with Coordinator.connect(server.url, token=token) as coordinator:
            with pytest.raises(InputError, match=said):
                await coordinator.run(definition)
            with pytest.raises(InputError, match="whose token it is"):
                await coordinator.run(shop.plain, "o", actor="agent:other")

    asyncio.run(started())


def test_what_a_connected_coordinator_has_not_says_where_it_is_done(stories: tuple[Serving, str, str]) -> None:
    async def told(name: str) -> str:
        async with Coordinator.connect(stories[0].url, token=stories[1]) as coordinator:
            with pytest.raises(AttributeError) as refused:
                getattr(coordinator, name)
            return str(refused.value)

    assert asyncio.run(told("retain")).endswith(
        "has no retain; it takes the journal itself: do it where the server runs, with Coordinator.open or the command "
        "line there"
    )
    assert asyncio.run(told("retian")) == "a coordinator that is connected to a server has no retian"


def test_a_child_of_others_files_or_in_another_name_is_refused(stories: tuple[Serving, str, str]) -> None:
    server, token, _ = stories

    async def called() -> None:
        async with (
            Coordinator.connect(server.url, token=token) as coordinator,
            coordinator.session("shop.session", id="children-refused") as s,
        ):
            with pytest.raises(InputError, match="whose token it is"):
                await s.call(verbs.room, "o", actor="agent:other")
            with pytest.raises(InputError, match="where the journal is"):
                await s.call(verbs.room, "o", files="share")
            with pytest.raises(InputError, match="works on files"):
                await s.call(verbs.with_files)

    asyncio.run(called())
