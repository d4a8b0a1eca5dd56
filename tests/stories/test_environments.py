"""Production is armed by every word for it, a word that nobody declared counts as production, and silence is heard."""

import asyncio
import logging
from pathlib import Path

import pytest

import amends as package
from amends import Coordinator, SagaStatus, Work, action, saga
from amends.addresses import open_journal
from amends.clock import SystemClock
from amends.core.words.values import SagaId
from amends.drill import drill
from amends.errors import InputError, RefusedError
from amends.gate.load import builtin_policy
from amends.gate.policy import judge
from amends.gate.recompute import Recorded, recorded_verdicts
from tests.cli.shell import Shell

DECLARES = """
version: v1
environments:
  production: [eu-live]
  development: ["qa-*"]
rules: []
"""
WALL = """
version: v1
saga: wall.paint
steps:
  - {id: paint, run: [echo, painted]}
"""


@action("wall.paint")
def paint(colour: str) -> str:
    return colour


@saga("wall.renovate")
async def renovate(s: Work) -> str:
    return await s.do(paint, "red")


def ended(place: Path, env: str | None, policy: Path | None = None) -> SagaStatus:
    return package.run(renovate, journal=str(place / "a.db"), env=env, policy=policy, id="w-1").status


def verdicts(place: Path) -> list[Recorded]:
    async def read() -> list[Recorded]:
        journal = await open_journal(str(place / "a.db"), SystemClock())
        try:
            events = [entry.event async for entry in journal.read(SagaId("w-1"))]
        finally:
            await journal.close()
        return list(recorded_verdicts(SagaId("w-1"), events))

    return asyncio.run(read())


@pytest.mark.parametrize("env", ["prod", "live", "prod-eu", "Production", "production ", "prdo"])
def test_an_undeclared_action_is_refused_by_every_word_for_production(tmp_path: Path, env: str) -> None:
    assert ended(tmp_path, env) is SagaStatus.ROLLED_BACK
    (denied,) = verdicts(tmp_path)
    assert denied.rule == "builtin-undeclared"
    assert (denied.facts.env, denied.facts.env_given) == ("production", env)
    assert judge(builtin_policy(), denied.facts).rule == denied.rule


@pytest.mark.parametrize("env", ["dev", "ci", "test", "development"])
def test_in_development_it_is_let_through(tmp_path: Path, env: str) -> None:
    assert ended(tmp_path, env) is SagaStatus.COMPLETED


@pytest.mark.parametrize("env", ["staging", "stage", "staging-eu"])
def test_what_is_not_development_is_as_strict_as_production(tmp_path: Path, env: str) -> None:
    assert ended(tmp_path, env) is SagaStatus.ROLLED_BACK
    (denied,) = verdicts(tmp_path)
    assert (denied.rule, denied.facts.env) == ("builtin-undeclared", "staging")


def test_a_word_that_nobody_declared_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def twice() -> None:
        async with Coordinator.open(str(tmp_path / "a.db"), env="prdo") as coordinator:
            await coordinator.run(renovate)
            await coordinator.run(renovate)

    asyncio.run(twice())
    (said,) = [record.getMessage() for record in caplog.records if "prdo" in record.getMessage()]
    assert said == (
        "nobody declared the environment 'prdo': it is taken for production; "
        'declare it in the policy (environments: {staging: ["prdo"]}) or in amends.toml'
    )


def test_where_no_env_is_given_each_undeclared_action_is_warned_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def twice(env: str | None) -> None:
        async with Coordinator.open(str(tmp_path / "a.db"), env=env) as coordinator:
            assert (await coordinator.run(renovate)).status is SagaStatus.COMPLETED
            assert (await coordinator.run(renovate)).status is SagaStatus.COMPLETED

    with caplog.at_level(logging.WARNING, "amends.gate"):
        asyncio.run(twice("development"))
        assert caplog.messages == []
        asyncio.run(twice(None))
    (said,) = caplog.messages
    assert "wall.paint declares no way back, and production would refuse it" in said


def test_a_policy_says_which_words_stand_for_what(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(DECLARES)
    (tmp_path / "live").mkdir()
    (tmp_path / "qa").mkdir()
    assert ended(tmp_path / "live", "eu-live", policy) is SagaStatus.ROLLED_BACK
    assert ended(tmp_path / "qa", "qa-7", policy) is SagaStatus.COMPLETED


def test_what_was_declared_later_changes_nothing_for_a_saga_on_record(tmp_path: Path) -> None:
    ended(tmp_path, "eu-live")
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: v1\nenvironments: {staging: [eu-live]}\nrules: []\n")

    async def adopt() -> None:
        async with Coordinator.open(str(tmp_path / "a.db")) as coordinator:
            await coordinator.adopt(policy, by="person:ann", why="it is only a rehearsal")

    asyncio.run(adopt())
    assert verdicts(tmp_path)[0].facts.env == "production"


@pytest.mark.parametrize("env", ["", "  ", "a\nb"])
def test_no_word_at_all_is_refused(tmp_path: Path, env: str) -> None:
    with pytest.raises(InputError, match="is not an environment: name one"):
        ended(tmp_path, env)


@pytest.mark.parametrize("env", ["prod", "prdo"])
def test_a_drill_is_refused_by_every_word_for_production(env: str) -> None:
    with pytest.raises(RefusedError, match=r"refused in production.*" + env):
        asyncio.run(drill(renovate, env=env))


@pytest.fixture
def amends(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_the_command_line_refuses_in_prod_and_says_what_a_word_was_taken_for(amends: Shell) -> None:
    said = amends("run", "shop:paint", "--env", "prod", "--id", "p-1")
    assert said.code == 5
    assert "in prod, taken for production" in said.out
    unknown = amends("run", "shop:paint", "--env", "prdo")
    assert unknown.code == 5
    assert "nobody declared the environment 'prdo'" in unknown.err
    silent = amends("run", "shop:paint")
    assert silent.code == 0
    assert "declares no way back, and production would refuse it" in silent.err


def test_amends_toml_says_which_words_stand_for_what(amends: Shell) -> None:
    amends.place.joinpath("amends.toml").write_text('[environments]\ndevelopment = ["qa-*"]\n')
    said = amends("run", "shop:paint", "--env", "qa-7")
    assert (said.code, said.err) == (0, "")
    amends.place.joinpath("amends.toml").write_text('[environments]\nqa = ["prod", "*"]\n')
    assert "'*' under qa would be every word" in amends("run", "shop:paint").complaint


def test_a_saga_in_yaml_is_held_to_it_too(amends: Shell) -> None:
    amends.place.joinpath("wall.yaml").write_text(WALL)
    assert amends("run", "wall.yaml", "--env", "live").code == 5
    assert amends("run", "wall.yaml", "--env", "ci").code == 0


def test_replay_asks_what_words_stand_for_today(amends: Shell) -> None:
    assert amends("run", "shop:paint", "--env", "qa-7", "--id", "p-1").code == 5
    amends.place.joinpath("policy.yaml").write_text(DECLARES)
    said = amends("policy", "replay", "policy.yaml", "--since", "1d")
    assert "1 laxer" in said.out
