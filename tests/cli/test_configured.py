"""The journal and the policy are found by option, environment, amends.toml or [tool.amends], in that order."""

import pytest

from tests.cli.shell import Shell


def how(amends: Shell, *words: str, env: str = "") -> str:
    more = {"AMENDS_JOURNAL": env} if env else {}
    (found,) = [
        each["found"]
        for each in amends("doctor", "--json", *words, stdin=b"", **more).of_type("check")
        if each["name"] == "journal"
    ]
    return str(found)


def test_an_option_comes_before_the_environment_and_that_before_a_file(amends: Shell) -> None:
    (amends.place / "amends.toml").write_text('journal = "from-file.db"\n', encoding="utf-8")
    assert how(amends).startswith("there is no from-file.db, from ")
    assert how(amends).endswith("amends.toml")
    assert how(amends, env="from-env.db") == "there is no from-env.db, from AMENDS_JOURNAL"
    assert how(amends, "--journal", "o.db", env="from-env.db") == "there is no o.db, from --journal"


def test_a_journal_may_be_named_before_the_command_too(amends: Shell) -> None:
    assert how(amends, "--journal", "o.db") == "there is no o.db, from --journal"
    said = amends("--journal", "o.db", "doctor", "--json", AMENDS_JOURNAL="from-env.db").of_type("check")
    assert [one["found"] for one in said if one["name"] == "journal"] == ["there is no o.db, from --journal"]
    assert amends("--journal", "o.db", "run", "shop:chat", "--id", "c-1").code == 0
    assert "c-1" in amends("--journal", "o.db", "saga", "list").out
    assert "c-1" in amends("--journal", "other.db", "saga", "list", "--journal", "o.db").out


def test_the_nearest_file_above_counts_and_its_paths_are_seen_from_it(amends: Shell) -> None:
    (amends.place / "pyproject.toml").write_text(
        '[tool.amends]\njournal = "data/j.db"\nenv = "production"\n', encoding="utf-8"
    )
    (amends.place / "data").mkdir()
    assert amends("run", "shop:chat").code == 0
    assert (amends.place / "data/j.db").exists()
    below = amends.place / "below"
    below.mkdir()
    inside = Shell.__new__(Shell)
    inside.place = below
    (row,) = inside("saga", "list", "--json").of_type("saga")
    assert row["env"] == "production"


def test_without_a_file_it_is_the_default(amends: Shell) -> None:
    (amends.place / "pyproject.toml").write_text("[tool.other]\nx = 1\n", encoding="utf-8")
    assert how(amends) == "there is no amends.db, by default"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('jurnal = "x"\n', "unknown key 'jurnal'; did you mean journal?"),
        ("journal = 1\n", "journal has to be text, not 1"),
        ("journal = \n", "is not TOML"),
    ],
)
def test_a_mistake_in_the_file_is_told(amends: Shell, text: str, told: str) -> None:
    (amends.place / "amends.toml").write_text(text, encoding="utf-8")
    assert told in amends("saga", "list").complaint


def test_a_policy_of_the_file_is_gone_by(amends: Shell) -> None:
    amends.policy("{id: never, when: {topic: 'x.*'}, decision: deny, reason: closed}")
    (amends.place / "amends.toml").write_text('policy = "policy.yaml"\n', encoding="utf-8")
    text = "version: v1\nsaga: x\nsteps:\n  - {id: a, run: [touch, done], no_rollback: a test}\n"
    (amends.place / "x.yaml").write_text(text, encoding="utf-8")
    assert amends("run", "x.yaml").code == 5
    assert not (amends.place / "done").exists()
