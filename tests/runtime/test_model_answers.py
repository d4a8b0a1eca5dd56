"""A model's answers on record, and people who are asked before a step begins, as adapters use them."""

from __future__ import annotations

from pathlib import Path

import pytest

from amends import Coordinator, Settings
from amends.core.words.values import Json
from amends.errors import Detach, StepDeniedError
from amends.runtime.saga.model_answers import Answers, digest_of
from tests.runtime.support import World
from tests.runtime.test_session import tell

POLICY = """\
version: v1
rules:
  - {id: ask, when: {topic: test.pay}, decision: require_human}
"""


class Model:
    """Answers with how often it was asked; raises what it is told to, once."""

    def __init__(self, *raises: Exception) -> None:
        self.asked = 0
        self._raises = list(raises)

    async def __call__(self) -> Json:
        self.asked += 1
        if self._raises:
            raise self._raises.pop()
        return {"answer": self.asked}


def test_what_was_answered_is_not_asked_again_in_another_run(tmp_path: Path) -> None:
    model = Model()

    async def story(coordinator: Coordinator) -> None:
        with pytest.raises(Detach):  # noqa: PT012 - the block itself is what is left by it
            async with coordinator.session("agent", id="t-1") as s:
                answers = Answers(s)
                assert await answers.ask("m", "hello", model) == {"answer": 1}
                assert await answers.ask("m", "hello", model) == {"answer": 2}  # the same again is another request
                raise Detach("the process ends")
        async with coordinator.session("agent", id="t-1") as s:
            again = Answers(s)
            assert [await again.ask("m", "hello", model) for _ in range(3)] == [{"answer": n} for n in (1, 2, 3)]
            assert s.steps == ()

    tell(tmp_path, story)
    assert model.asked == 3


def test_what_a_model_raises_is_raised_as_it_was_and_asked_again(tmp_path: Path) -> None:
    model = Model(ConnectionError("overloaded"))

    async def story(coordinator: Coordinator) -> None:
        async with coordinator.session("agent", id="t-1") as s:
            with pytest.raises(ConnectionError, match="overloaded"):
                await Answers(s).ask("m", "hello", model)
            assert await Answers(s).ask("m", "hello", model) == {"answer": 2}

    tell(tmp_path, story)


def test_an_answer_that_was_taken_back_is_asked_for_again(tmp_path: Path) -> None:
    model = Model()

    async def story(coordinator: Coordinator) -> None:
        async with coordinator.session("agent", id="t-1") as s:
            await s.checkpoint("start")
            assert await Answers(s).ask("m", "hello", model) == {"answer": 1}
            await s.rollback_to("start", "another way")
            assert await Answers(s).ask("m", "hello", model) == {"answer": 2}

    tell(tmp_path, story)


def test_a_request_is_the_same_whenever_it_is_made() -> None:
    assert digest_of([{"text": "hi", "timestamp": 1}]) == digest_of([{"timestamp": 2, "text": "hi"}])
    assert digest_of([{"text": "hi"}]) != digest_of([{"text": "ho"}])


def test_people_are_asked_about_a_step_before_it_begins(tmp_path: Path) -> None:
    world = World()
    pay, book = world.action("pay"), world.action("book")
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)

    async def story(_: Coordinator) -> None:
        async with Coordinator.open(  # noqa: SIM117 - one is inside the other
            str(tmp_path / "asked.db"), policy=policy, env="development", settings=Settings(poll_s=0.05)
        ) as coordinator:
            async with coordinator.session("agent", id="t-1") as s:
                assert not await s.asks_people(book, {}, call="c1")
                assert await s.asks_people(pay, {}, call="c2")
                assert await s.asks_people(pay, {}, call="c2")
                assert world.seen == []
                (row,) = [row async for row in coordinator.approvals()]
                await coordinator.refuse(row.id, by="person:ann", why="too dear")
                assert not await s.asks_people(pay, {}, call="c2")
                with pytest.raises(StepDeniedError, match="too dear"):
                    await s.do_named(pay, {}, call="c2")

    tell(tmp_path, story)
    assert world.seen == []
