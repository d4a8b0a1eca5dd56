"""Reading a policy: what is right loads, and what is wrong is told with its line and the nearest right word."""

import re
from pathlib import Path

import pytest
import yaml

from amends.core.words.values import Json, canonical, digest
from amends.core.words.verdict import Decision
from amends.errors import PolicyError
from amends.gate.conditions import OPERATORS
from amends.gate.load import builtin_policy, load_policy, parse_policy
from amends.gate.schema import POLICY_KEYS, RATE_KEYS, RULE_KEYS, normal_form
from amends.gate.vocabulary import FACTS
from amends.source import strict_yaml
from amends.source.marked import Mistakes, plain
from tests.gate.mutants import CORPUS, SEEDS
from tests.gate.support import policy, rule

HEAD = "version: v1\ndefault: deny\nrules:\n"


def mistakes(text: str | bytes) -> list[str]:
    with pytest.raises(PolicyError) as refused:
        parse_policy(text, name="p.yaml")
    assert str(refused.value) == "\n".join(refused.value.mistakes)
    return list(refused.value.mistakes)


def mistake(text: str | bytes) -> str:
    (only,) = mistakes(text)
    return only


def in_a_rule(lines: str) -> str:
    """The mistake of a rule that has these lines too; its first line is the sixth of the file."""
    return mistake(f"{HEAD}  - id: a\n    decision: deny\n    {lines}\n")


def in_when(conditions: str) -> str:
    found = in_a_rule(f"when: {{{conditions}}}")
    assert found.startswith("p.yaml:6: ")
    return found.removeprefix("p.yaml:6: ")


# What loads


def test_the_two_rules_that_started_it_load_as_they_were_written() -> None:
    made = load_policy(CORPUS / "prod-writes.yaml")
    assert [(each.id, each.decision, [str(one) for one in each.when]) for each in made.rules] == [
        (
            "require-compensation-for-prod-writes",
            Decision.REQUIRE_HUMAN,
            ["env production", "side_effect true", "compensation_declared false"],
        ),
        (
            "deny-irreversible-delete-without-approval",
            Decision.DENY,
            ["topic infra.delete", "rollback_supported false", "approval_present false"],
        ),
    ]
    assert (made.default, made.fallback) == (None, builtin_policy().rules)


def test_approvals_rates_and_a_default_load() -> None:
    made = load_policy(CORPUS / "four-rules.yaml")
    _, _, money, mails = made.rules
    assert (made.default, money.approvals, money.expires_s) == (Decision.DENY, 2, 3600)
    assert mails.limit is not None
    assert (mails.limit.most, mails.limit.per_s, [fact.name for fact in mails.limit.by]) == (20, 60, ["topic", "actor"])


def test_the_corpus_says_every_word_of_the_format() -> None:
    words = set(re.findall(r"[\w.]+", "".join(SEEDS)))
    assert {*POLICY_KEYS, *RULE_KEYS, *RATE_KEYS, *OPERATORS, *FACTS, *Decision} <= words


def test_the_built_in_policy_is_one_like_any_other_but_for_the_names_of_its_rules() -> None:
    made = builtin_policy.__wrapped__()
    assert made == builtin_policy()
    assert all(each.id.startswith("builtin-") for each in made.rules)
    assert all("is taken: verdicts use it" in each for each in mistakes(made.text))


def test_a_policy_keeps_its_text_its_name_and_the_lines_of_its_rules() -> None:
    path = CORPUS / "four-rules.yaml"
    made = load_policy(path)
    assert (made.text, made.name) == (path.read_text(encoding="utf-8"), str(path))
    assert [each.line for each in made.rules] == [4, 7, 10, 15]


def test_json_is_yaml_too() -> None:
    assert len(load_policy(CORPUS / "json.yaml").rules) == 3


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(
            (word, word)
            for word in ("no", "off", "yes", "on", "y", "N", "12:30:45", "0o7", "0x1F", "007", "1_000", ".inf")
        ),
        *((word, word) for word in ("2026-03-31", "=", "1e", "-", "1.2.3", "TrUe", "nulL")),
        *((word, True) for word in ("true", "True", "TRUE")),
        *((word, False) for word in ("false", "False", "FALSE")),
        *((text, number) for text, number in (("7", 7), ("-7", -7), ("+7", 7), ("0", 0), ("1.5", 1.5), (".5", 0.5))),
        *((text, number) for text, number in (("5.", 5.0), ("1e3", 1000.0), ("-1.5E-1", -0.15))),
        ("'7'", "7"),
        ('"true"', "true"),
        ('"\\t"', "\t"),
    ],
)
def test_words_mean_what_yaml_1_2_says(text: str, value: object) -> None:
    made = policy(rule("deny", f"{{args.x: {text}}}"))
    (only,) = made.rules[0].when
    assert only.wants == {"in": [value]}
    assert isinstance(only.wants["in"], list)
    assert type(only.wants["in"][0]) is type(value)


def test_windows_line_ends_are_fine() -> None:
    text = SEEDS[0]
    assert parse_policy(text.replace("\n", "\r\n")).digest == parse_policy(text).digest


# The digest


def test_the_digest_is_of_what_is_meant_not_of_how_it_is_spelled() -> None:
    one = parse_policy("version: v1\ndefault: deny\nrules: [{id: a, when: {env: x, args.n: 5}, decision: deny}]\n")
    other = parse_policy(
        '{"rules": [{"decision": "deny",   # why not\n "when": {"args.n": {"in": [5]}, "env": ["x"]}, "id": "a"}],'
        ' "default": "deny", "version": "v1"}'
    )
    assert one.digest == other.digest
    assert re.fullmatch(r"[0-9a-f]{64}", one.digest)


def test_a_digest_covers_the_version_the_default_and_every_rule_as_they_were_understood() -> None:
    for made, default in (
        (policy(rule("deny")), "allow"),
        (policy(rule("deny"), default=None), {"builtin": builtin_policy().digest}),
        (builtin_policy(), "deny"),
    ):
        normal = {"version": "v1", "default": default, "rules": [normal_form(each) for each in made.rules]}
        assert made.digest == digest(canonical(normal))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("20,", "21,"),
        ("60s", "61s"),
        ("2\n", "3\n"),
        ("1h", "2h"),
        ("100000", "1"),
        ("default: deny", "default: allow"),
    ],
)
def test_whatever_changes_a_verdict_changes_the_digest(old: str, new: str) -> None:
    text = (CORPUS / "four-rules.yaml").read_text(encoding="utf-8")
    assert old in text
    assert parse_policy(text).digest != parse_policy(text.replace(old, new, 1)).digest


def test_the_digest_can_be_made_again_from_the_rules() -> None:
    made = load_policy(CORPUS / "every-word.yaml")
    environments = {env: list(words) for env, words in made.environments.items()}
    rules = [normal_form(each) for each in made.rules]
    every = made.drill_every_s
    said = {"default": "require_human", "environments": environments, "drill_every": every, "rules": rules}
    document = {"version": "v1", **said}
    assert digest(canonical(document)) == made.digest


# What is wrong


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "p.yaml:1: there is nothing in it"),
        ("# nothing\n", "p.yaml:1: there is nothing in it"),
        ("rules: []\n", "p.yaml:1: there is no version; begin with `version: v1`"),
        ("version: v2\nrules: []\n", "p.yaml:1: unknown version 'v2'; known: v1"),
        ("version: 1\nrules: []\n", "p.yaml:1: version has to be text, not 1"),
        ("version: v1\n", "p.yaml:1: there are no rules; write `rules: []` if none are meant"),
        ("version: v1\nrules:\n", "p.yaml:2: rules has to be a list, not nothing"),
        ("version: v1\nrules: {}\n", "p.yaml:2: rules has to be a list, not an empty map"),
        (
            "version: v1\nenvironments: {Prod: []}\nrules: []",
            "p.yaml:2: environment 'Prod' has to be in small letters, without spaces around it",
        ),
        (
            "version: v1\nenvironments: {qa: [production]}\nrules: []",
            "p.yaml:2: 'production' is listed under qa, and is production already; leave it in one place",
        ),
        (
            "version: v1\nenvironments: {qa: eu}\nrules: []",
            "p.yaml:2: environment 'qa' has to be a list of its other words, not 'eu'",
        ),
        (
            'version: v1\nenvironments: {"q*": []}\nrules: []',
            "p.yaml:2: environment 'q*' is a pattern; name it by a word, and list the pattern under it",
        ),
        ("version: v1\nrules: [deny]\n", "p.yaml:2: a rule has to be a map, not 'deny'"),
        ("version: v1\nrulez: []\nrules: []", "p.yaml:2: unknown key 'rulez' in a policy; did you mean rules?"),
        (
            "version: v1\ndefault: throttle\nrules: []",
            "p.yaml:2: unknown default 'throttle'; known: allow, deny, require_human",
        ),
        ("version: v1\ndefault: dney\nrules: []", "p.yaml:2: unknown default 'dney'; did you mean deny?"),
        ("- a\n- b\n", "p.yaml:1: a policy has to be a map, not a list"),
    ],
)
def test_a_file_that_is_no_policy_says_what_is_lacking(text: str, told: str) -> None:
    assert told in mistakes(text)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("decison: deny", "6: unknown key 'decison' in a rule; did you mean decision?"),
        ("approvals: 2", "6: approvals goes only with decision require_human, not with deny"),
        ("approvers: [person:ann]", "6: approvers goes only with decision require_human, not with deny"),
        ("expires: 1h", "6: expires goes only with decision require_human, not with deny"),
        ("rate: {max: 1, per: 1s}", "6: rate goes only with decision throttle, not with deny"),
        ("reason: 5", "6: reason has to be text, not 5"),
        ("reason: ' '", "6: reason has to be text, not ' '"),
        ("when: [env]", "6: when has to be a map, not a list"),
        ("when: production", "6: when has to be a map, not 'production'"),
        ("unless: {}", "6: unless has to be a map of conditions, or a list of such maps, not an empty map"),
        ("unless: []", "6: unless has to be a map of conditions, or a list of such maps, not an empty list"),
        ("unless:", "6: unless has to be a map of conditions, or a list of such maps, not nothing"),
        ("unless: [{env: x}, x]", "6: unless has to be a map of conditions, or a list of such maps, not 'x'"),
    ],
)
def test_a_rule_that_is_none_says_what_is_wrong(lines: str, told: str) -> None:
    assert in_a_rule(lines) == f"p.yaml:{told}"


@pytest.mark.parametrize(
    ("one", "told"),
    [
        ("{decision: deny}", "a rule without id"),
        ("{id: a}", "a rule without decision"),
        ("{id: a, decision: alow}", "unknown decision 'alow'; did you mean allow?"),
        ("{id: a, decision: no}", "unknown decision 'no'; known: allow, throttle, require_human, deny"),
        ("{id: a, decision: true}", "decision has to be text, not true"),
        ("{id: default, decision: deny}", "id 'default' is taken: verdicts use it for what is not in the file"),
        ("{id: error, decision: deny}", "id 'error' is taken: verdicts use it for what is not in the file"),
        ("{id: builtin-x, decision: deny}", "id 'builtin-x' is taken: verdicts use it for what is not in the file"),
        ("{id: a b, decision: deny}", "id 'a b' is not one: use 1 to 128 of a-z A-Z 0-9 _ . -"),
        ("{id: 5, decision: deny}", "id has to be text, not 5"),
        ("{id: a, decision: throttle}", "a rule with decision throttle and no rate; write rate: {max: 20, per: 60s}"),
        ("{id: a, decision: throttle, rate: {max: 1}}", "a rate without per; write rate: {max: 20, per: 60s}"),
        ("{id: a, decision: throttle, rate: {per: 1s}}", "a rate without max; write rate: {max: 20, per: 60s}"),
        ("{id: a, decision: throttle, rate: 5}", "rate has to be a map, not 5"),
        (
            "{id: a, decision: throttle, rate: {max: 0, per: 1s}}",
            "max has to be a whole number from 1 to 1000000000, not 0",
        ),
        (
            "{id: a, decision: throttle, rate: {max: 1, per: 1s, by: [topik]}}",
            "unknown fact 'topik'; did you mean topic?",
        ),
        (
            "{id: a, decision: throttle, rate: {max: 1, per: 1s, by: topic}}",
            "by has to be a list of at least one thing, not 'topic'",
        ),
        (
            "{id: a, decision: require_human, approvals: 0}",
            "approvals has to be a whole number from 1 to 100, not 0",
        ),
        (
            "{id: a, decision: require_human, approvals: true}",
            "approvals has to be a whole number from 1 to 100, not true",
        ),
        (
            "{id: a, decision: require_human, approvals: 2, approvers: ['person:x']}",
            "2 approvals, and only 1 who can give them",
        ),
        (
            "{id: a, decision: require_human, approvals: 2, approvers: ['person:x', 'person:X']}",
            "2 approvals, and only 1 who can give them",
        ),
        (
            "{id: a, decision: require_human, approvers: [olga]}",
            "approver 'olga': it names nobody; write person:olga",
        ),
        (
            "{id: a, decision: require_human, approvers: ['agent:x']}",
            "approver 'agent:x': only people approve; write person:<name>, or a pattern such as person:*",
        ),
        (
            "{id: a, decision: require_human, approvers: ['person:kim @x.org']}",
            "approver 'person:kim @x.org': it has white space in it; leave that out",
        ),
    ],
)
def test_a_rule_lacks_nothing_and_says_nothing_twice(one: str, told: str) -> None:
    assert mistake(f"{HEAD}  - {one}\n") == f"p.yaml:4: {told}"


def test_an_id_is_given_once() -> None:
    text = f"{HEAD}  - {{id: a, decision: deny}}\n  - {{id: a, decision: allow}}\n"
    assert mistake(text) == "p.yaml:5: id 'a' twice; the first is in line 4"


@pytest.mark.parametrize("text", ["60", "0s", "1y", "-5m", "1.5h", "1h30m", "''", "367d", "9999999999d"])
def test_a_duration_is_a_number_and_a_unit(text: str) -> None:
    found = mistake(f"{HEAD}  - {{id: a, decision: require_human, expires: {text}}}\n")
    assert "expires has to be a duration of at most 366d, such as 30s, 15m, 1h or 2d" in found


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("15m", 900), ("1h", 3600), ("2d", 172_800), ("366d", 31_622_400)]
)
def test_and_means_seconds(text: str, seconds: int) -> None:
    made = policy(f"- {{id: a, decision: require_human, expires: {text}}}")
    assert made.rules[0].expires_s == seconds


@pytest.mark.parametrize(
    ("conditions", "told"),
    [
        ("enviroment: x", "unknown fact 'enviroment'; did you mean env?"),
        ("side_efect: true", "unknown fact 'side_efect'; did you mean side_effect?"),
        ("saga.step: 5", "unknown fact 'saga.step'; did you mean saga.steps?"),
        ("'args.': 5", "unknown fact 'args.'; "),
        ("args..x: 5", "unknown fact 'args..x'; "),
        ("labels.: x", "unknown fact 'labels.'; "),
        ("cents: 5", "unknown fact 'cents'; an argument is args.cents; there are env, topic, "),
        ("env: 5", "env is text, not 5; put it in quotes"),
        ("env: true", "env is text, not true; put it in quotes"),
        ("labels.tier: 3", "labels.tier is text, not 3; put it in quotes"),
        ("risk: 3", "risk is tags, not 3; put it in quotes"),
        ("side_effect: yes", "side_effect is true or false, not 'yes'"),
        ("side_effect: 1", "side_effect is true or false, not 1"),
        ("saga.steps: many", "saga.steps is a number, not 'many'"),
        ("saga.steps: true", "saga.steps is a number, not true"),
        ("env: ~", "env has to be compared with something, not nothing; for what is not there, exists: false"),
        ("env: []", "env has to be a list of at least one thing, not an empty list"),
        ("env: [[x]]", "env has to be compared with something, not a list; for what is not there, exists: false"),
        ("env: {}", "env has to be a value, a list, or a map of operators, not an empty map"),
        ("env: {eq: x}", "unknown key 'eq' in env; known: gt, gte, lt, lte, in, not_in, exists"),
        ("args.n: {gtt: 5}", "unknown key 'gtt' in args.n; did you mean gt?"),
        ("args.n: {notin: [5]}", "unknown key 'notin' in args.n; did you mean not_in?"),
        ("args.n: {gt: five}", "gt has to be a number, not 'five'"),
        ("args.n: {gt: 1_000}", "gt has to be a number, not '1_000'"),
        ("args.n: {gt: true}", "gt has to be a number, not true"),
        ("args.n: {in: 5}", "in has to be a list, not 5"),
        ("args.n: {gt: x, lt: 5}", "gt has to be a number, not 'x'"),
        ("args.n: {gt: [1], lt: 5}", "gt has to be a number, not a list"),
        ("args.n: {exists: [true]}", "exists has to be true or false, not a list"),
        ("args.n: {exists: yes}", "exists has to be true or false, not 'yes'"),
        ("args.n: {exists: false, gt: 5}", "exists: false beside other operators: what is not there has no value"),
        ("args.n: {gt: 5, lt: 5}", "no args.n is gt 5 and lt 5"),
        ("args.n: {gte: 6, lte: 5}", "no args.n is gte 6 and lte 5"),
        ("env: {gt: 5}", "env is text, and gt compares numbers"),
        ("risk: {lt: 5}", "risk is tags, and lt compares numbers"),
        ("reversibility: irreversable", "unknown reversibility 'irreversable'; did you mean irreversible?"),
        ("reversibility: x*", "unknown reversibility 'x*'; known: reversible, compensatable, irreversible, undeclared"),
        ("phase: back", "unknown phase 'back'; known: forward, compensation"),
        ("topic: Payments.*", "no topic is 'Payments.*': topics are of a-z 0-9 _ . -, as in payments.charge"),
        ("topic: pay ments", "no topic is 'pay ments': topics are of a-z 0-9 _ . -, as in payments.charge"),
        ("topic: pay**", "'pay**': ** stands for whole segments, as in payments.** or **.delete"),
        (
            "args.n: 9007199254740993",
            "the number '9007199254740993' is past 2**53 or too long; put it in quotes if it is text",
        ),
        ("args.n: 1e999", "the number '1e999' is past 2**53 or too long; put it in quotes if it is text"),
    ],
)
def test_a_condition_that_is_none_says_what_is_wrong(conditions: str, told: str) -> None:
    assert in_when(conditions).startswith(told)


def test_quotes_are_spoken_of_only_where_they_would_help() -> None:
    assert in_when("env: 5").endswith("; put it in quotes")
    assert in_when("side_effect: yes") == "side_effect is true or false, not 'yes'"


def test_all_mistakes_are_told_at_once_in_the_order_of_the_lines() -> None:
    rules = "  - id: a\n    decision: dney\n    when: {enf: x, args.n: {gt: x}}\n  - id: a\n    decision: deny\n"
    text = f"version: v2\nrules:\n{rules}"
    assert [each.split(":")[1] for each in mistakes(text)] == ["1", "4", "5", "5", "6"]


def test_but_not_more_than_anyone_would_read() -> None:
    text = HEAD + "".join(f"  - {{id: a{n}, decision: dney}}\n" for n in range(100))
    found = mistakes(text)
    assert len(found) == 21
    assert found[-1] == "p.yaml: these are the first 20; there may be more"


def test_a_word_in_a_message_is_short_and_harmless_to_a_terminal() -> None:
    found = mistake(HEAD.replace("default: deny", f'"\\e[31m{"x" * 5000}": deny'))
    assert len(found) < 200
    assert found.isprintable()


# Files


def test_a_file_that_cannot_be_read_is_no_policy(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"none\.yaml: cannot be read: No such file or directory"):
        load_policy(tmp_path / "none.yaml")
    with pytest.raises(PolicyError, match="cannot be read: Is a directory"):
        load_policy(tmp_path)
    with pytest.raises(PolicyError, match="cannot be read"):
        load_policy("a\0b")


# Both scanners


def data(text: str) -> Json:
    return plain(strict_yaml.parse_document(text, Mistakes("p.yaml", PolicyError)))


@pytest.mark.parametrize("text", SEEDS)
def test_the_walk_builds_what_the_library_would_build(text: str) -> None:
    def spelled(value: Json) -> Json:
        if isinstance(value, dict):
            return {key: spelled(item) for key, item in value.items()}
        if isinstance(value, list):
            return [spelled(item) for item in value]
        return "" if value is None else str(value).lower().removesuffix(".0")

    expected = yaml.load(text.replace("1e3", "1000"), Loader=yaml.BaseLoader)
    assert spelled(data(text)) == expected


@pytest.mark.parametrize("text", SEEDS)
def test_both_scanners_read_the_same(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = parse_policy(text).digest
    monkeypatch.setattr(strict_yaml, "_LOADER", yaml.BaseLoader)
    assert parse_policy(text).digest == first


def test_a_text_without_a_file_is_called_policy() -> None:
    with pytest.raises(PolicyError, match=r"^policy:1: "):
        parse_policy("5")


# To the word: digests are on record, and a verdict's reason is what people read


def test_a_rule_is_digested_in_these_words() -> None:
    made = policy(
        """
        - id: ask
          when: {topic: mail.*, args.n: {gt: 5}}
          unless: {env: test}
          decision: require_human
          reason: why not
          approvals: 2
          approvers: [person:a*]
          expires: 1h
        - id: slowly
          decision: throttle
          rate: {max: 20, per: 60s, by: [topic, args.to]}
        """,
        None,
    )
    assert [normal_form(each) for each in made.rules] == [
        {
            "id": "ask",
            "decision": "require_human",
            "when": {"topic": {"in": ["mail.*"]}, "args.n": {"gt": 5}},
            "unless": [{"env": {"in": ["test"]}}],
            "reason": "why not",
            "approvals": 2,
            "approvers": ["person:a*"],
            "expires_s": 3600.0,
        },
        {
            "id": "slowly",
            "decision": "throttle",
            "when": {},
            "unless": [],
            "reason": "",
            "rate": {"max": 20, "per_s": 60.0, "by": ["topic", "args.to"]},
        },
    ]
    document: Json = {
        "version": "v1",
        "default": {"builtin": builtin_policy().digest},
        "rules": [normal_form(each) for each in made.rules],
    }
    assert digest(canonical(document)) == made.digest


def test_a_default_that_does_not_allow_says_so() -> None:
    assert [each.reason for each in policy(default="deny").fallback] == [
        "no rule certainly allows it, and the default is deny"
    ]
    assert [each.reason for each in policy(default="allow").fallback] == [""]


@pytest.mark.parametrize(
    ("one", "told"),
    [
        ("{id: a, decision: require_human, approvers: [5]}", "an approver has to be text, not 5"),
        (
            "{id: a, decision: require_human, approvers: x}",
            "approvers has to be a list of at least one thing, not 'x'",
        ),
        ("{id: a, decision: throttle, rate: {max: 1, per: 1s, by: [5]}}", "a fact has to be text, not 5"),
        (
            "{id: a, decision: throttle, rate: {max: 1, per: 5}}",
            "per has to be a duration of at most 366d, such as 30s, 15m, 1h or 2d, not 5",
        ),
        (
            "{id: a, decision: throttle, rate: {max: 1, per: 1s, most: 5}}",
            "unknown key 'most' in rate; known: max, per, by",
        ),
    ],
)
def test_what_is_wrong_in_a_rule_is_named(one: str, told: str) -> None:
    assert f"p.yaml:4: {told}" in mistakes(f"{HEAD}  - {one}\n")


def test_a_range_may_be_one_value_and_not_none() -> None:
    assert len(policy(rule("deny", "{args.n: {gte: 5, lte: 5}}")).rules) == 1
    assert len(policy(rule("deny", "{args.n: {gt: 4, lt: 5}}")).rules) == 1
    for empty in ("{gte: 5, lt: 5}", "{gt: 5, lte: 5}", "{gt: 5, lt: 5}", "{gte: 6, lte: 5}"):
        assert len(mistakes(f"{HEAD}  - {{id: a, decision: deny, when: {{args.n: {empty}}}}}\n")) == 1


def test_a_policy_that_was_adopted_before_names_people_as_it_did() -> None:
    """The rule about names holds where a policy comes in: what a journal has judges on."""
    text = f"{HEAD}  - {{id: a, decision: require_human, approvers: [olga, 'person:kim @x.org']}}\n"
    assert parse_policy(text, adopted=True).rules[0].approvers == ("olga", "person:kim @x.org")
    with pytest.raises(PolicyError):
        parse_policy(text)


def test_a_policy_may_say_which_environment_its_journal_is_for() -> None:
    assert parse_policy("version: v1\nenv: prod\nrules: []\n").env == "production"
    assert parse_policy("version: v1\nenv: qa\nenvironments: {qa: []}\nrules: []\n").env == "qa"
    assert parse_policy("version: v1\nrules: []\n").env == ""
    with pytest.raises(PolicyError, match="env: nobody declared 'prdo'; name it under environments too"):
        parse_policy("version: v1\nenv: prdo\nrules: []\n")
