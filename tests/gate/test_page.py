"""The page about policies names every key, fact, operator and decision that there is."""

import re
from pathlib import Path

import pytest

from amends.core.words.verdict import Decision
from amends.gate.conditions import OPERATORS
from amends.gate.schema import DEFAULTS, POLICY_KEYS, RATE_KEYS, RULE_KEYS
from amends.gate.vocabulary import FACTS, FAMILIES

PAGE = (Path(__file__).parents[2] / "docs" / "look-up" / "policy.md").read_text(encoding="utf-8")
PROSE = re.sub(r"^```.*?^```$", "", PAGE, flags=re.DOTALL | re.MULTILINE)
CODE = " ".join(re.findall(r"`([^`]+)`", PROSE))


@pytest.mark.parametrize("words", [POLICY_KEYS, RULE_KEYS, RATE_KEYS, OPERATORS, DEFAULTS, tuple(Decision)])
def test_the_page_says_every_word(words: tuple[str, ...]) -> None:
    assert [word for word in words if not re.search(rf"\b{word}\b", CODE)] == []


def test_the_table_of_facts_is_the_one_in_the_code() -> None:
    rows = re.findall(r"^\| `([\w.…]+)` \| ([a-z ]+) \|", PROSE, re.MULTILINE)
    written = {name: kind for name, kind in rows if name in FACTS or name.endswith(".…")}
    assert written == {name: str(fact.kind) for name, fact in FACTS.items()} | {
        f"{family}…": kind for family, kind in zip(FAMILIES, ("any value", "text", "a number"), strict=True)
    }
