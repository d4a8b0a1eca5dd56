"""SECURITY.md and docs/understand/security.md name every attack that is played, and none that is not."""

from pathlib import Path

import pytest

from tests.security.table import ATTACKERS, FOLDER, PAGES, attacks, filled, is_there, named_elsewhere

AGAIN = "write it again: python -m tests.security --write"


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_the_pages_show_the_attacks_as_they_are_played(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text == filled(text), AGAIN


def test_every_attack_is_in_the_table_and_says_what_it_tries() -> None:
    text = (FOLDER.parents[1] / "SECURITY.md").read_text(encoding="utf-8")
    found = attacks()
    assert len(found) > len(ATTACKERS)
    assert [attack.name for attack in found if f"`{attack.name}`" not in text] == []
    assert [attack.name for attack in found if not attack.tries] == [], "a docstring says the attack in a line"
    assert [attack.name for attack in found if not attack.subject] == [], "a comment `# -- subject ---` stands above it"


def test_every_file_of_attacks_is_an_attacker() -> None:
    assert {path.name for path in FOLDER.glob("test_*.py")} <= set(ATTACKERS)


def test_the_tests_of_other_folders_that_are_named_exist() -> None:
    named = [one for page in PAGES for one in named_elsewhere(page.read_text(encoding="utf-8"))]
    assert named
    assert [f"{file}::{name}" for file, name in named if not is_there(file, name)] == []


def test_a_table_that_is_not_as_the_tests_are_is_seen() -> None:
    text = PAGES[0].read_text(encoding="utf-8")
    assert filled(text.replace(f"`{attacks()[0].name}`", "`test_gone`")) == filled(text)
    assert not is_there("tests/security/table.py", "no_such_test")
    assert not is_there("tests/no_such_file.py", "main")
