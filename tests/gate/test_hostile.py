"""Files that mean harm, and twenty thousand that are merely broken: refused, quickly, and never read as something else.

Quickly is told without a clock: by how many events are taken from the scanner before it is given up.
HYPOTHESIS_PROFILE=night tries a million malformed policies.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from amends.core.words.contracts import Reversibility
from amends.core.words.verdict import Decision
from amends.errors import PolicyError
from amends.gate import load
from amends.gate.load import builtin_policy, parse_policy
from amends.gate.policy import Policy, PolicyGate
from amends.source import strict_yaml
from amends.source.strict_yaml import DEEPEST, LARGEST_FILE, MOST_PARTS
from tests.gate.mutants import mutant
from tests.gate.support import facts

SCALE = {"": 1, "night": 50, "release": 500}[os.environ.get("HYPOTHESIS_PROFILE", "")]
SHARES = 8
EACH = 20_000 // SHARES * SCALE
PARSERS = [yaml.BaseLoader, *([yaml.CBaseLoader] if yaml.__with_libyaml__ else [])]

ALLOW_ALL = "version: v1\ndefault: allow\nrules: []\n"
BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}, *a{n - 1}, *a{n - 1}, *a{n - 1}, *a{n - 1}]\n" for n in range(1, 12)
)
MERGES = "a0: &a0 {k: v}\n" + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 30))


class Counted:
    """Counts the events that are taken from a scanner."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        builtin_policy()  # it is read once in a process, and is not what is counted
        self.taken = 0
        self._events = strict_yaml._events
        monkeypatch.setattr(strict_yaml, "_events", self._counting)

    def _counting(self, text: str) -> Iterator[yaml.Event]:
        for event in self._events(text):
            self.taken += 1
            yield event


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(monkeypatch)


@pytest.fixture(params=PARSERS, ids=lambda loader: loader.__name__)
def scanner(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strict_yaml, "_LOADER", request.param)


def refused(text: str | bytes) -> str:
    with pytest.raises(PolicyError) as caught:
        parse_policy(text, name="p.yaml")
    return str(caught.value)


# Nesting and size


@pytest.mark.usefixtures("scanner")
@pytest.mark.parametrize("piece", ["[", "{", "- ", "? ", "{a: ", "[{", "a: [", "&a [", "!!x ["])
def test_endless_nesting_is_given_up_at_the_bound(piece: str, counted: Counted) -> None:
    refused(piece * (100_000 // len(piece)))
    assert counted.taken <= 3 * DEEPEST + 5


@pytest.mark.usefixtures("scanner")
def test_deep_maps_are_given_up_at_the_bound(counted: Counted) -> None:
    told = refused("".join("  " * depth + "a:\n" for depth in range(300)))
    assert told == f"p.yaml:{DEEPEST + 1}: nested deeper than {DEEPEST} levels, the most that are read"
    assert counted.taken <= 3 * DEEPEST + 5


def test_as_deep_as_the_bound_is_read() -> None:
    assert "nested deeper" not in refused("[" * DEEPEST + "]" * DEEPEST)
    assert "nested deeper" in refused("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1))


def test_a_file_with_too_many_parts_is_given_up_at_the_bound(counted: Counted) -> None:
    assert "more than 20,000 values and keys" in refused("[" + "a," * 120_000 + "]")
    assert counted.taken <= MOST_PARTS + 5


def test_a_file_that_is_too_large_is_not_even_scanned(counted: Counted) -> None:
    assert refused("#" * (LARGEST_FILE + 1)) == "p.yaml:1: the file has more than 256 KB, the most that is read"
    assert refused("é" * (LARGEST_FILE // 2 + 1)).startswith("p.yaml:1: the file has more than 256 KB")
    assert counted.taken == 0


def test_a_large_file_is_never_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(PolicyError, match="more than 256 KB"):
        load.load_policy(path)


@pytest.mark.usefixtures("scanner")
@pytest.mark.parametrize("text", ["a: " + "x" * 200_000, 'a: "' + "x" * 200_000 + '"', "a: >\n" + " x\n" * 60_000])
def test_huge_texts_are_refused(text: str) -> None:
    assert "the most is 8,192" in refused(text)


@pytest.mark.usefixtures("scanner")
@pytest.mark.parametrize("digits", ["9" * 5000, "-" + "9" * 100_000, "1e" + "9" * 500, "0." + "1" * 5000])
def test_huge_numbers_are_refused_and_not_computed(digits: str) -> None:
    refused(f"version: v1\nrules: [{{id: a, decision: deny, when: {{args.n: {digits}}}}}]\n")


# What YAML has and a policy does not need


@pytest.mark.usefixtures("scanner")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        (BOMB, "p.yaml:1: an anchor (&); leave it out"),
        (MERGES, "p.yaml:1: an anchor (&); leave it out"),
        ("version: v1\nrules: *rules\n", "p.yaml:2: an alias (*); write the value out"),
        ("version: &v v1\nrules: []\n", "p.yaml:1: an anchor (&); leave it out"),
        ("version: v1\n<<: {default: allow}\nrules: []\n", "p.yaml:2: a merge key (<<); write the entries out"),
        ("version: !!str v1\nrules: []\n", "p.yaml:1: the tag 'tag:yaml.org,2002:str'; leave it out"),
        ("version: v1\nrules: !mine []\n", "p.yaml:2: the tag '!mine'; leave it out"),
        ("version: ! v1\nrules: []\n", "p.yaml:1: the tag '!'; leave it out"),
        (
            "!!python/object/apply:os.system [x]\n",
            "p.yaml:1: the tag 'tag:yaml.org,2002:python/object/apply:os.system'",
        ),
        ("%YAML 1.1\n---\nversion: v1\nrules: []\n", "p.yaml:1: a directive (%); leave it out"),
        ("%TAG ! tag:x,2026:\n---\nversion: v1\nrules: []\n", "p.yaml:1: a directive (%); leave it out"),
        (f"{ALLOW_ALL}---\n{ALLOW_ALL}", "p.yaml:4: a second document; a file holds one"),
        ("version: v1\n1: x\nrules: []\n", "p.yaml:2: a key that is not text; put it in quotes"),
        ("version: v1\ntrue: x\nrules: []\n", "p.yaml:2: a key that is not text; put it in quotes"),
        ("version: v1\n? [a, b]\n: x\nrules: []\n", "p.yaml:2: a key that is not text; put it in quotes"),
        ("version: v1\n? {a: b}\n: x\nrules: []\n", "p.yaml:2: a key that is not text; put it in quotes"),
    ],
)
def test_it_is_refused_where_it_stands(text: str, told: str) -> None:
    assert told in refused(text)


@pytest.mark.usefixtures("scanner")
@pytest.mark.parametrize(
    "text",
    [
        "version: v1\ndefault: deny\ndefault: allow\nrules: []\n",
        "version: v1\nrules: [{id: a, decision: deny, decision: allow}]\n",
        "version: v1\nrules: [{id: a, decision: deny, 'decision': allow}]\n",
        'version: v1\nrules: [{id: a, decision: deny, "deci\\x73ion": allow}]\n',
        "version: v1\nrules: [{id: a, decision: deny, when: {env: x, env: y}}]\n",
    ],
)
def test_a_second_entry_of_a_key_never_takes_the_first_one_s_place(text: str) -> None:
    assert "twice in one map" in refused(text)


# Characters


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("version: v1\nrules:\n\t- id: a\n", "p.yaml:3: a tab; indent with spaces"),
        ("version: v1\t# yes\nrules: []\n", "p.yaml:1: a tab; indent with spaces"),
        ("\ufeffversion: v1\nrules: []\n", "p.yaml:1: a byte order mark; save the file as UTF-8 without one"),
        ("version: v1\nrules: []\0\n", "p.yaml:2: the invisible character U+0000"),
        ("version: v1\nreason: \x1b[31m\n", "p.yaml:2: the invisible character U+001B"),
        ("version: v1\rrules: []\n", "p.yaml:1: the invisible character U+000D"),
        ("version: v1 # \x85default: allow\nrules: []\n", "p.yaml:1: the invisible character U+0085"),
        ("version: v1 # \u2028default: allow\nrules: []\n", "p.yaml:1: the invisible character U+2028"),
        ("# \u202e deny :tluafed\nversion: v1\nrules: []\n", "p.yaml:1: the invisible character U+202E"),
        ("version: v1\ndefault: de\u200bny\nrules: []\n", "p.yaml:2: the invisible character U+200B"),
        ("version:\u00a0v1\nrules: []\n", "p.yaml:1: the invisible character U+00A0"),
        ("version: v1\nrules: []\x7f\n", "p.yaml:2: the invisible character U+007F"),
        (b"version: v1\nrules: [\xff]\n", "p.yaml:2: not UTF-8: byte 0xff; save it as UTF-8"),
        (b"version: v1\nrules: [\xed\xa0\x80]\n", "p.yaml:2: not UTF-8: byte 0xed; save it as UTF-8"),
        (b"version: v1\nrules: [\xc0\xaf]\n", "p.yaml:2: not UTF-8: byte 0xc0; save it as UTF-8"),
        (ALLOW_ALL.encode("utf-16"), "p.yaml:1: not UTF-8: byte 0xff; save it as UTF-8"),
        (ALLOW_ALL.encode("utf-32-le"), "p.yaml:1: the invisible character U+0000"),
        ("version: v1\nrules: [\ud800]\n", "p.yaml:2: half a surrogate pair, which is not text"),
    ],
)
def test_what_a_reader_cannot_see_is_refused(text: str | bytes, told: str) -> None:
    assert told in refused(text)


@pytest.mark.usefixtures("scanner")
def test_half_a_character_in_an_escape_is_refused() -> None:
    refused('version: v1\nrules: [{id: a, decision: deny, when: {args.n: "\\ud800"}}]\n')


@pytest.mark.usefixtures("scanner")
@pytest.mark.parametrize(
    "text",
    ['"\\UFFFFFFFF"', '"\\U00110000"', f"%YAML {'9' * 5000}.1\n--- x", "%YAML 1.\n--- x", "!<%FF%FE> x", "!%41%C3 x"],
)
def test_numbers_that_the_scanner_itself_cannot_hold_are_refused(text: str) -> None:
    refused(text)


def test_letters_of_any_alphabet_are_fine() -> None:
    made = parse_policy("version: v1\nrules: [{id: a, decision: deny, reason: 'nein — größer als 5 €, 不行 🚫'}]\n")
    assert made.rules[0].reason == "nein — größer als 5 €, 不行 🚫"


# Malformed policies

PROBES = (
    facts("infra.delete", env="production", kind=Reversibility.IRREVERSIBLE),
    facts("payments.charge", {"cents": 200_000}, env="production"),
    facts("mail.send", {"to": "ann", "n": None}, labels={"team": "core"}, phase="compensation"),
)


def gate(text: str) -> PolicyGate | None:
    """What stands before actions after somebody saved this file; None: nothing is started with it."""
    try:
        return PolicyGate(parse_policy(text))
    except PolicyError:
        return None


def check(made: Policy) -> None:
    """It is a policy through and through: every rule is whole, and every verdict is one of its rules'."""
    names = [rule.id for rule in made.rules]
    assert len(set(names)) == len(names)
    assert made.fallback
    known = {rule.id: rule.decision for rule in (*made.rules, *made.fallback)}
    for rule in made.rules:
        assert isinstance(rule.decision, Decision)
        assert (rule.limit is not None) is (rule.decision is Decision.THROTTLE)
    for probe in PROBES:
        found = PolicyGate(made).judge(probe)
        assert known[found.rule] is found.decision
        assert found.policy == made.digest


@pytest.mark.parametrize("share", range(SHARES))
def test_a_malformed_policy_is_refused_or_is_one_after_all(share: int) -> None:
    whole = 0
    for number in range(share * EACH, (share + 1) * EACH):
        stands = gate(mutant(number))
        if stands is not None:
            whole += 1
            check(stands.policy)
    assert whole < EACH // 5  # else the strokes are too soft to prove anything


@pytest.mark.skipif(len(PARSERS) == 1, reason="there is only one scanner on this machine")
def test_no_text_is_read_in_two_ways_by_the_two_scanners(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [mutant(number) for number in range(1500 * SCALE)]
    seen: list[list[str | None]] = []
    for loader in PARSERS:
        monkeypatch.setattr(strict_yaml, "_LOADER", loader)
        gates = map(gate, texts)
        seen.append([None if stands is None else stands.policy.digest for stands in gates])
    both = [(one, other) for one, other in zip(*seen, strict=True) if one is not None and other is not None]
    assert len(both) > 50
    assert [pair for pair in both if pair[0] != pair[1]] == []


def test_one_word_away_from_deny_is_never_allow() -> None:
    """Each letter of a policy that denies everything, dropped, doubled or changed."""
    rule = "  - id: all\n    when: {env: [production, development]}\n    decision: deny\n"
    text = f"version: v1\ndefault: deny\nrules:\n{rule}"
    for place in range(len(text)):
        for changed in (
            text[:place] + text[place + 1 :],
            text[:place] + text[place] + text[place:],
            _other(text, place),
        ):
            stands = gate(changed)
            if stands is not None:
                assert stands.judge(facts()).decision is Decision.DENY, changed


def _other(text: str, place: int) -> str:
    return text[:place] + chr(ord(text[place]) ^ 1) + text[place + 1 :]
