"""The sagas of the examples pass a drill: each of their actions can be seen, and each comes back."""

import asyncio
import importlib.util
import os
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from amends import Asked
from amends.drill import Fault, Report, drill, somebody_else
from amends.sagafile import load_saga
from tests.parts import sampled
from tests.sagafile.places import WORLDS
from tests.sagafile.servers import TOKEN, Shop, serving

EXAMPLES = Path(__file__).parents[2] / "examples"
SOAK = "AMENDS_SOAK" in os.environ
"""The dear ones are drilled whole; else a part of what can go wrong is tried."""


@pytest.fixture
def example(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of its own, though others may have imported it too."""
    monkeypatch.setenv("TRIP_WORLD", str(tmp_path / "world.txt"))
    monkeypatch.setenv("SERVICE", str(tmp_path))
    monkeypatch.setenv("SHOP", str(tmp_path))
    monkeypatch.setenv("MIGRATION_DATA", str(tmp_path / "shop.db"))
    monkeypatch.setenv("BANK", str(tmp_path / "bank.json"))
    monkeypatch.setenv("PAUSE_S", "0")
    name = str(request.param)
    found = importlib.util.spec_from_file_location(f"drilled_{Path(name).name}", EXAMPLES / f"{name}.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    found.loader.exec_module(module)
    return module


def test_every_example_is_drilled() -> None:
    """Each saga of the examples has a test here: whoever adds one adds its drill."""
    sagas = {path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*.py") if "\n@saga(" in path.read_text()}
    written = {path.relative_to(EXAMPLES).as_posix(): path.read_text() for path in EXAMPLES.rglob("*.yaml")}
    files = {name for name, text in written.items() if "\nsaga: " in text}
    text = Path(__file__).read_text(encoding="utf-8")
    assert {name for name in sagas if f'["{name.removesuffix(".py")}"]' not in text} == set()
    assert {Path(name).stem for name in files} == {*WORLDS, "order"}


def passed(report: Report) -> None:
    assert [str(finding) for cell in report.cells for finding in cell.findings] == []
    assert report.passed


@pytest.mark.parametrize("example", ["trip"], indirect=True)
@pytest.mark.parametrize("cents", [20_000, 90_000])
def test_the_trip_comes_back_booked_or_declined(example: Any, cents: int) -> None:
    report = asyncio.run(drill(example.book_trip, {"city": "Lisbon", "cents": cents}))
    passed(report)
    assert [step.topic for step in report.steps] == ["flight.book", "hotel.book", "car.book", "payments.charge"]


@pytest.mark.parametrize("example", ["offboarding"], indirect=True)
def test_the_offboarding_comes_back_and_overwrites_nobody(example: Any) -> None:
    def fresh() -> None:
        example.roles["kim"] = ["admin", "billing"]
        example.owners["plan.txt"] = "kim"

    @somebody_else(example.revoke_roles)
    def made_auditor(asked: Asked) -> None:
        example.roles[asked.args["user"]] = ["auditor"]

    @somebody_else(example.hand_over)
    def handed_on(asked: Asked) -> None:
        example.owners[asked.args["file"]] = "bob"

    given = {"user": "kim", "files": ["plan.txt"], "heir": "ana", "meanwhile": []}
    report = asyncio.run(drill(example.offboard, given, fresh=fresh))
    passed(report)
    assert [cell.step for cell in report.cells if cell.fault is Fault.CHANGED_SINCE] == ["1", "2"]


@pytest.mark.parametrize("example", ["refund_agent"], indirect=True)
@pytest.mark.parametrize(("env", "asked"), [("drill", []), ("production", ["4:refused", "4:expired"])])
def test_the_refund_is_called_back_also_when_the_mail_is_refused(example: Any, env: str, asked: list[str]) -> None:
    """In production a person is asked before a mail goes out: that is drilled there, and only there."""
    given = {"number": "A-17", "complaint": "the lamp is broken"}
    report = asyncio.run(drill(example.answer, given, env=env, allow_production=True))
    passed(report)
    places = [str(cell.place) for cell in report.cells]
    assert [place for place in places if place.endswith(("refused", "expired"))] == asked
    assert [cell.step for cell in report.cells if cell.fault is Fault.UNDO_DENIED] == ["3"]


@pytest.mark.parametrize("example", ["incident_response/respond"], indirect=True)
def test_a_remedy_that_does_not_help_comes_back_wherever_it_goes_wrong(example: Any, tmp_path: Path) -> None:
    def fresh() -> None:
        (tmp_path / "config.json").write_text('{"workers": 4, "cache_mb": 64, "release": "42"}')
        (tmp_path / "cause.txt").write_text("cold cache")

    report = asyncio.run(drill(example.respond, {}, fresh=fresh))
    passed(report)
    assert {step.topic for step in report.steps} == {"service.set", "service.health"}


@pytest.mark.parametrize("example", ["purchasing/buy"], indirect=True)
def test_what_was_ordered_is_cancelled_wherever_it_goes_wrong(example: Any, tmp_path: Path) -> None:
    def fresh() -> None:
        (tmp_path / "answers.json").write_text('[{"items": ["desk", "lamp"], "usd": 1, "tokens": 100}]')
        for ordered in tmp_path.glob("*.order"):
            ordered.unlink()

    report = asyncio.run(drill(example.furnish, {"goal": "an office"}, fresh=fresh))
    passed(report)
    assert [step.topic for step in report.steps].count("shop.order") == 2


@pytest.mark.parametrize("example", ["shop_migration/migrate"], indirect=True)
@pytest.mark.parametrize("repaired", sampled([False, True], each=2))
def test_the_shop_comes_back_row_for_row_with_the_children_that_moved_it(
    example: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repaired: bool
) -> None:
    connected = example.connected

    def without_waiting_for_the_disk() -> Any:
        shop = connected()
        shop.thing.execute("PRAGMA synchronous = off")
        return shop

    monkeypatch.setattr(example, "connected", without_waiting_for_the_disk)

    def fresh() -> None:
        (tmp_path / "shop.db").unlink(missing_ok=True)
        example.make_shop()
        if repaired:
            example.repair_orders()

    passed(asyncio.run(drill(example.migrate_table, {"table": "orders"}, fresh=fresh)))
    only = () if SOAK else ("as-it-is", "taken-back", "fatal", "0.2/1:crash" if repaired else "1:unknown-done")
    report = asyncio.run(drill(example.migrate, {}, fresh=fresh, world=example.rows, only=only))
    passed(report)
    assert report.children == ("table.migrate/1",)
    calls = [step.title for step in report.steps]
    assert calls == ["table.migrate"] * 3 + ([] if repaired else ["amends.revert"] * 2)


@pytest.mark.parametrize("example", ["two_agents/agents"], indirect=True)
@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("refund", {"account": "ann", "cents": 5}),
        ("swap", {"one": "ann", "other": "bob"}),
        ("share", {"who": "one"}),
    ],
)
def test_what_agents_booked_comes_back_once_and_what_they_noted_too(
    example: Any, tmp_path: Path, name: str, given: dict[str, object]
) -> None:
    def fresh() -> None:
        (tmp_path / "bank.json").unlink(missing_ok=True)

    @somebody_else(example.move)
    def meddled(asked: Asked) -> None:
        example.book("somebody else", asked.args["account"], 1)

    report = asyncio.run(drill(getattr(example, name), given, fresh=fresh, world=example.balances))
    passed(report)
    moves = [step.id for step in report.steps if step.topic == "account.move"]
    assert [cell.step for cell in report.cells if cell.fault is Fault.CHANGED_SINCE] == moves


# -- sagas of commands, in folders of their own ------------------------------------------------------------------------

PARTS = {
    "release": ["taken-back", "5:fatal", "3:unknown-not-done", "2:undo-repeated"],
    "offboarding": ["taken-back", "tell:fatal", "tickets:unknown-not-done", "keys:undo-repeated"],
    "migration": ["as-it-is", "4:fatal", "2:lost-done", "5:undo-fails"],
    "refactoring": ["as-it-is", "3:fatal", "2:unknown-done", "5:undo-repeated"],
}


@pytest.mark.parametrize("name", sampled(WORLDS, each=3))
def test_a_saga_of_commands_comes_back(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its own probes; a changeset has none, and is seen in its tree."""
    monkeypatch.setenv("PATH", f"{sys.base_prefix}/bin:{os.environ['PATH']}")  # the python3 that the commands start
    place, kept = tmp_path / "place", tmp_path / "kept"
    place.mkdir()
    world = WORLDS[name](place)
    for variable, value in world.env.items():
        monkeypatch.setenv(variable, value)
    shutil.copytree(place, kept)

    def fresh() -> None:
        shutil.rmtree(place)
        shutil.copytree(kept, place)

    look = world.look if name == "refactoring" or SOAK else None
    only = () if SOAK else PARTS[name]
    report = asyncio.run(drill(load_saga(world.file), world.given, fresh=fresh, world=look, only=only))
    passed(report)
    assert len(report.cells) == len(only) or SOAK
    assert report.covered == ((("2", "5"),) if name == "migration" else ())


def test_an_order_over_three_services_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its world is what the services hold; each order of the drill finds them as the one before left them."""
    monkeypatch.setenv("PAYMENTS_TOKEN", TOKEN)
    shop = Shop(lambda effect: None)
    with serving(shop.answer) as address:
        services = dict.fromkeys(("stock", "payments", "parcels"), address)
        given = {"order": "o-1", "item": "lamp", "cents": 4200, "to": "Lisbon", **services}
        report = asyncio.run(drill(load_saga(EXAMPLES / "order.yaml"), given, fresh=shop.clear, world=shop.look))
    passed(report)
    assert {"keep", "charge", "book", "put back", "refund", "cancel"} <= set(shop.effects)


@pytest.mark.parametrize("example", ["refactoring/refactor"], indirect=True)
@pytest.mark.parametrize("careless", [False, True])
def test_a_refactoring_leaves_the_tree_as_it_was_wherever_it_goes_wrong(
    example: Any, tmp_path: Path, careless: bool
) -> None:
    tree = tmp_path / "tally"
    shutil.copytree(example.TREE, tree, ignore=shutil.ignore_patterns("__pycache__"))

    def seen() -> dict[str, object]:
        return {name: (mode, content) for name, (mode, _, content) in example.seen(tree).items()}

    only = () if SOAK else ("taken-back", "3:fatal", "4:unknown-done") if careless else ("as-it-is", "7:undo-repeated")
    given = {"root": str(tree), "careless": careless}
    report = asyncio.run(drill(example.split, given, world=seen, only=only))
    passed(report)
    assert len(report.cells) == len(only) or SOAK
