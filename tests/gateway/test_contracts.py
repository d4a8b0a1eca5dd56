"""The contracts file: what it says, what it may not say, and how its references reach into answers."""

from __future__ import annotations

from typing import Any

import pytest

from amends.core.words.values import Json
from amends.errors import ContractsError, InputError
from amends.gateway.answers import AnswerTest, TextPattern, ToolAnswer
from amends.gateway.read import parse_contracts
from amends.gateway.references import filled, template
from amends.gateway.topics import shown_names, spelled_topic, topic_of, topics_of
from amends.source.marked import Mistakes
from amends.source.strict_yaml import parse_document

HEAD = "version: v1\n"


def refused(text: str) -> str:
    with pytest.raises(ContractsError) as caught:
        parse_contracts(HEAD + text, name="c.yaml")
    return str(caught.value)


def value(written: str, known: dict[str, object], patterns: dict[str, TextPattern] | None = None) -> Json:
    mistakes = Mistakes("c.yaml", ContractsError)
    read = template(parse_document(written, mistakes), mistakes, tuple(known))
    mistakes.raise_any()
    return filled(read, known, patterns or {})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "tools: {notes.create: {compensat: {tool: notes.x}}}",
            "c.yaml:2: unknown key 'compensat' in tool notes.create; did",
        ),
        ("tools: {create: {read_only: true}}", "c.yaml:2: tool 'create' is written server.tool"),
        ("tools: {n.a: {compensate: {args: {}}}}", "c.yaml:2: compensate without tool"),
        ("tools: {n.a: {compensate: {tool: n.b, args: [1]}}}", "args has to be a map, not a list"),
        ("tools: {n.a: {probe: {tool: n.b}}}", "a probe without happened"),
        (
            'tools: {n.a: {compensate: {tool: n.b, args: {id: "${reslt.id}"}}}}',
            "unknown reference 'reslt' in '${reslt.id}'; did you",
        ),
        ('tools: {n.a: {probe: {tool: n.b, happened: "${result.id}"}}}', "unknown reference 'result'"),
        ('tools: {n.a: {compensate: {tool: n.b, args: {id: "${result.}"}}}}', "is not a reference"),
        ("tools: {n.a: {no_rollback: x, read_only: true}}", "says no_rollback and read_only; keep one of them"),
        ("tools: {n.a: {mitigate: {tool: n.b}}}", "say no_rollback too"),
        (
            "tools: {n.Create: {read_only: true}, n.create: {read_only: true}}",
            "of which line 2 (n.Create) speaks already",
        ),
        ("tools: {n.a: {failed_when: {}}}", "failed_when says nothing"),
        ("tools: {n.a: {definition: abc}}", "is no digest"),
        ("tools: {n.a: {timeout: soon}}", "timeout has to be a duration"),
        ("servers: {n: {}}", "server n needs one of command, to start it, and url"),
        ("servers: {n: {command: [x], url: 'http://y'}}", "server n needs one of"),
        ("servers: {N: {command: [x]}}", "server 'N' is no name"),
        ("servers: {amends: {command: [x]}}", "and not amends"),
        ("servers: {n: {url: 'ftp://x'}}", "has to begin with http"),
        ("servers: {n: {url: 'https://me:secret@x/mcp'}}", "url has credentials in it"),
        ("servers: {n: {command: [x], env: ['A=b']}}", "is not the name of a variable; a value never stands here"),
        (
            "servers: {n: {url: 'http://x', headers: {Authorization: Bearer x}}}",
            "header Authorization is named by {env: NAME}",
        ),
        ("servers: {n: {command: [x]}}\ntools: {m.a: {read_only: true}}", "c.yaml:3: unknown server 'm' in 'm.a'"),
        (
            "servers: {n: {command: [x]}}\ntools: {n.a: {compensate: {tool: nn.b}}}",
            "unknown server 'nn' in 'nn.b'; did you mean n?",
        ),
        ("patterns: {p: no holes}", "pattern p has no hole"),
        ("patterns: {p: '{a}{b}'}", "two holes side by side"),
        ("mode: draft", "unknown mode 'draft'"),
        ("approvals: client", "unknown approvals 'client'"),
        ("tols: {}", "unknown key 'tols' in a contracts file; did you mean tools?"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_the_right_word(text: str, told: str) -> None:
    assert told in refused(text)


@pytest.mark.parametrize(
    "server",
    [
        "{url: 'http://x', headers: {Authorization: Bearer sesame-4711}}",
        "{url: 'http://x', headers: {Authorization: {env: Bearer sesame-4711}}}",
        "{command: [x], env: ['TOKEN=sesame-4711']}",
        "{command: [x], env: [sesame-4711]}",
        "{url: 'https://me:sesame-4711@x/mcp'}",
    ],
)
def test_a_credential_that_stands_in_the_file_is_refused_and_not_shown(server: str) -> None:
    assert "sesame-4711" not in refused(f"servers: {{n: {server}}}")


def test_all_mistakes_are_told_at_once() -> None:
    assert len(refused("tools:\n  n.a: {compensat: 1}\n  n.b: {probes: 1}\n").split("\n")) == 2


def test_of_each_clause_the_most_exact_entry_speaks_and_of_globs_the_longest() -> None:
    read = parse_contracts(
        HEAD
        + """
tools:
  n.*: {failed_when: {text: "Error*"}, no_rollback: nobody said}
  n.create*: {risk: [writes], no_rollback: made}
  n.create_note:
    compensate: {tool: n.delete}
"""
    )
    exact, longer, short = read.of("n.create_note"), read.of("n.create_tag"), read.of("n.drop")
    assert [one.tool for one in exact.compensate] == ["delete"]
    assert exact.no_rollback is None  # how it is taken back is said once, by the most exact
    assert exact.risk == ("writes",)
    assert exact.failed_when == AnswerTest(texts=("Error*",))
    assert (longer.no_rollback, short.no_rollback) == ("made", "nobody said")
    assert not read.of("m.drop").is_declared
    assert len({one.version for one in (exact, longer, short)}) == 3


def test_two_globs_that_say_the_same_equally_exactly_are_refused_and_both_are_named() -> None:
    read = parse_contracts(HEAD + "tools:\n  n.a*: {risk: [x]}\n  n.*b: {risk: [y]}\n", name="c.yaml")
    with pytest.raises(ContractsError, match=r"c.yaml:4: n.\*b and n.a\* \(line 3\) both speak of n.ab") as caught:
        read.of("n.ab")
    assert "name n.ab itself" in str(caught.value)


ANSWER: dict[str, Any] = {
    "content": [{"type": "text", "text": '{"id": 7, "list": [{"n": "a", "s": [1, 2]}, {"n": "b", "s": [3]}]}'}],
}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ('"${result.id}"', 7),
        ('"note ${result.id}!"', "note 7!"),
        ('"${result.list[*].n}"', ["a", "b"]),
        ('"${result.list[*].s[*]}"', [1, 2, 3]),
        ('"${result.list[1].n}"', "b"),
        ('{a: "${result.none?}", b: [1, "${args.x}"]}', {"b": [1, "y"]}),
        ('"$${result.id}"', "${result.id}"),
        (
            '{each: "${result.list}", make: {name: "${item.n}", all: "${item.s}"}}',
            [{"name": "a", "all": [1, 2]}, {"name": "b", "all": [3]}],
        ),
        ('"${result.text}"', ANSWER["content"][0]["text"]),
        ('"${result.is_error}"', False),
        ("true", True),
    ],
)
def test_references_reach_into_answers(written: str, expected: Json) -> None:
    assert value(written, {"result": ToolAnswer(ANSWER), "args": {"x": "y"}}) == expected


def test_structured_content_goes_before_the_text_and_named_patterns_read_what_is_only_text() -> None:
    answer = ToolAnswer(
        {"structuredContent": {"id": "s"}, "content": [{"type": "text", "text": '{"id": "t", "of": 1}'}]}
    )
    assert value('["${result.id}", "${result.of}"]', {"result": answer}) == ["s", 1]
    told = ToolAnswer({"content": [{"type": "text", "text": "ok\nCreated note 12 in work\nbye"}]})
    patterns = {"made": TextPattern(("Created note ", " in ", ""), ("id", "place"))}
    known: dict[str, object] = {"result": told}
    assert value('"${result.match.made.id}/${result.match.made.place}"', known, patterns) == "12/work"


@pytest.mark.parametrize(
    "written",
    ['"${result.none}"', '"${result.list[9]}"', '"${result.list[*].none}"', '"${args.x.y}"', '"${result.match.p.id}"'],
)
def test_a_reference_that_leads_nowhere_is_an_error_that_says_what_there_is(written: str) -> None:
    patterns = {"p": TextPattern(("nothing like it ", ""), ("id",))}
    with pytest.raises(InputError, match="leads nowhere"):
        value(written, {"result": ToolAnswer(ANSWER), "args": {"x": "y"}}, patterns)


def test_a_hostile_answer_is_looked_into_without_harm() -> None:
    deep = ToolAnswer({"content": [{"type": "text", "text": "[" * 100_000}, {"type": "text"}, 7]})
    assert deep.spoken is None
    assert deep.named("content") is not None
    odd = ToolAnswer({"content": "not a list", "structuredContent": [1]})
    assert value('"${result[0]}"', {"result": odd}) == 1


def test_topics_are_lower_case_without_dots_and_no_two_tools_share_one() -> None:
    assert topic_of("notes", "createNote.v2") == "notes.createnote_v2"
    assert spelled_topic("notes.createNote*") == "notes.createnote*"
    found = topics_of("n", ["a.b", "a_b", "c"])
    assert found["c"] == "n.c"
    assert len(set(found.values())) == 3
    assert all(len(one) <= 128 for one in topics_of("n", ["x" * 300, "x" * 299 + "y"]).values())


def test_tools_keep_their_names_unless_two_servers_have_the_same() -> None:
    found = shown_names([("a", "read"), ("b", "read"), ("b", "write"), ("b", "amends_undo")], ["amends_undo"])
    assert found == {
        "a_read": ("a", "read"),
        "b_read": ("b", "read"),
        "write": ("b", "write"),
        "b_amends_undo": ("b", "amends_undo"),
    }
    long = shown_names([("a", "x" * 80), ("b", "x" * 80)])
    assert len(long) == 2
    assert all(len(one) <= 64 for one in long)
