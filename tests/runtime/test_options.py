"""Options of whoever runs a saga, beside the saga's own input: nothing is taken for the other."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

import amends
from amends import Coordinator, SagaDefinition, SagaStatus, Settings, Step, Work, action, child, saga
from amends.errors import DeclarationError, InputError
from amends.runtime.declare.options import RUN_OPTIONS
from tests.runtime.support import coordinator


@saga("options.close", options="apart")
async def close(s: Work, id: str, env: str = "", labels: str = "") -> str:
    return f"{id} {env} {labels} in saga {s.id}"


@action("options.note", read_only=True)
def note(id: str) -> str:
    return f"noted {id}"


def run(definition: Any, *args: Any, **given: Any) -> Any:
    async def whole() -> Any:
        async with coordinator() as opened:
            return (await opened.run(definition, *args, **given)).result

    return asyncio.run(whole())


@pytest.mark.parametrize("name", RUN_OPTIONS)
def test_a_parameter_that_is_called_as_an_option_is_refused_where_it_is_declared(name: str) -> None:
    space: dict[str, Any] = {}
    exec(f"async def function(s, {name}): ...", space)
    told = (
        f"saga options.bad: its parameter {name} is called as an option of amends.run; rename it, or, to have both, "
        f"declare @saga('options.bad', options=\"apart\"): then {name}= is the saga's own, and the option is given as "
        f"options={{'{name}': …}}"
    )
    with pytest.raises(DeclarationError, match=re.escape(told)):
        saga("options.bad")(space["function"])
    saga("options.good", options="apart")(space["function"])


def test_what_cannot_be_given_by_keyword_may_be_called_anything() -> None:
    @saga("options.by_place")
    async def by_place(s: Work, id: str, /) -> str:
        return id

    assert run(by_place, "T-1") == "T-1"


def test_no_parameter_can_be_called_options() -> None:
    async def function(s: Work, options: str) -> None: ...

    with pytest.raises(DeclarationError, match="no parameter can be called options"):
        saga("options.worse", options="apart")(function)
    word: Any = "aside"
    with pytest.raises(DeclarationError, match="options='aside' must be 'beside' or 'apart'"):
        saga("options.word", options=word)(function)


def test_both_are_given_where_they_are_apart() -> None:
    apart = {"id": "run-1", "labels": {"a": "b"}}
    assert run(close, id="T-1", env="old", options=apart) == "T-1 old  in saga run-1"
    assert run(close, "T-1", actor="agent:a", options={"id": "run-2"}) == "T-1   in saga run-2"
    ended = amends.run(close, id="T-1", labels="x", journal=":memory:", options={"id": "run-3", "env": "staging"})
    assert (ended.id, ended.result) == ("run-3", "T-1  x in saga run-3")


def test_a_call_takes_them_apart_too() -> None:
    @saga("options.copy")
    async def copy(s: Work, files: list[str], timeout: int = 5) -> list[Any]:  # noqa: ASYNC109 - its own
        return [files, timeout]

    @saga("options.parent")
    async def parent(s: Work) -> list[Any]:
        found: list[Any] = [await s.call(copy, files=["a"], options={"restarts": 1})]
        found += await s.call_all([child(copy, files=["b"], timeout=9, options={})])
        try:
            await s.call(copy, files=["a"], timeout=3)
        except InputError as exc:
            found.append(str(exc))
        return found

    assert run(parent) == [
        [["a"], 5],
        [["b"], 9],
        (
            "saga options.copy takes files, which is also an option here; give the option, or none, in options={…}: "
            "then files= is the saga's own"
        ),
    ]


def test_a_list_of_steps_that_takes_such_a_name_asks_which_one_is_meant() -> None:
    listed = SagaDefinition("options.list", [Step(note)])
    assert run(listed, {"id": "T-1"}, id="run-1") == {"note": "noted T-1"}
    assert run(listed, id="T-1", options={"id": "run-1"}) == {"note": "noted T-1"}
    with pytest.raises(InputError, match=r"saga options.list takes id, which is also an option here"):
        run(listed, id="T-1")


def test_an_option_that_there_is_not_or_that_is_given_twice_is_refused() -> None:
    with pytest.raises(InputError, match=r"options has no 'ide'; did you mean id\?"):
        run(close, "T-1", options={"ide": "x"})
    with pytest.raises(InputError, match="the option actor is given twice: beside the input, and in options="):
        run(close, "T-1", actor="agent:a", options={"actor": "agent:b"})


# -- a saga that waits ------------------------------------------------------------------------------------------------


@saga("options.waits")
async def waits(s: Work, name: str) -> str:
    return f"{name} {await s.wait_for('go')}"


def test_a_run_of_a_saga_that_waits_returns_and_goes_on_by_its_id(tmp_path: Path) -> None:
    journal, quick = str(tmp_path / "amends.db"), Settings(park_s=0.05)
    ended = amends.run(waits, "kim", journal=journal, id="w", settings=quick)
    assert (ended.status, ended.waits_for, ended.recorded) == (SagaStatus.WAITING, ("go",), None)
    asyncio.run(_signal(journal))
    assert amends.run(waits, "kim", journal=journal, id="w", settings=quick).result == "kim now"


def test_a_run_that_is_told_to_wait_waits(tmp_path: Path) -> None:
    journal, quick = str(tmp_path / "amends.db"), Settings(park_s=0.05)

    @action("options.tell", read_only=True)
    def tell() -> None:
        import threading

        threading.Timer(0.2, lambda: asyncio.run(_signal(journal))).start()

    @saga("options.waits_on")
    async def waits_on(s: Work) -> str:
        await s.do(tell)
        return str(await s.wait_for("go"))

    assert amends.run(waits_on, journal=journal, id="w", settings=quick, wait=True).result == "now"


async def _signal(journal: str) -> None:
    async with Coordinator.open(journal, signals=False) as opened:
        await opened.signal("w", "go", "now", early=True)
