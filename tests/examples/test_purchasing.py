"""The purchasing agent: on a real file, killed in the middle, resumed, and taken back when its budget is used up."""

import json
import signal
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "purchasing" / "buy.py"
FLAWED = {"items": ["desk", "unicorn"], "usd": "0.50", "tokens": 900}
GOOD = {"items": ["desk", "lamp", "chair"], "usd": "0.50", "tokens": 900}


def shop(tmp_path: Path, *answers: object) -> Path:
    place = tmp_path / "shop"
    place.mkdir()
    (place / "answers.json").write_text(json.dumps(answers))
    return place


def bought(place: Path, usd: str) -> subprocess.CompletedProcess[str]:
    journal = str(place.parent / "orders.db")
    command = [sys.executable, str(SCRIPT), str(place), journal, "order-1", usd]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def orders(place: Path) -> list[str]:
    return sorted(path.stem for path in place.glob("*.order"))


def test_a_flawed_plan_is_asked_for_again_and_the_good_one_is_bought(tmp_path: Path) -> None:
    place = shop(tmp_path, FLAWED, GOOD)
    said = bought(place, "3.00")
    assert said.stdout == "completed ['desk-18000', 'lamp-4200', 'chair-9900']\n", said.stderr
    assert (place / "prompts.txt").read_text().splitlines() == [
        "an office []",
        "an office ['flawed: nobody sells unicorn']",
    ]


def test_killed_after_an_order_went_out_it_goes_on_and_asks_the_model_nothing_again(tmp_path: Path) -> None:
    place = shop(tmp_path, GOOD)
    (place / "kill-lamp").touch()
    assert bought(place, "3.00").returncode == -signal.SIGKILL
    assert orders(place) == ["desk", "lamp"]
    said = bought(place, "3.00")
    assert said.stdout.startswith("completed"), said.stderr
    assert orders(place) == ["chair", "desk", "lamp"]
    assert len((place / "prompts.txt").read_text().splitlines()) == 1


def test_what_was_spent_before_a_kill_counts_and_all_is_taken_back_at_the_limit(tmp_path: Path) -> None:
    place = shop(tmp_path, GOOD)
    (place / "kill-lamp").touch()
    assert bought(place, "1.00").returncode == -signal.SIGKILL
    said = bought(place, "1.00")
    assert said.stdout == "rolled_back limit usd: 1.3 USD spent, and the limit is 1 USD\n", said.stderr
    assert orders(place) == []
