"""Reading a saga's file: what is right loads, what is wrong is told with its line and the nearest right word."""

import itertools
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from amends.core.words.contracts import Reversibility
from amends.core.words.values import Json
from amends.errors import InputError, SagaFileError
from amends.runtime.declare.registry import PROCESS
from amends.sagafile import FileSaga, json_schema, parse_saga
from amends.sagafile.definition import version_of
from amends.sagafile.model import CommandLine
from amends.sagafile.schema import FILE, STEP
from amends.sagafile.templates import bound, closed, template
from amends.source.marked import Mistakes
from tests.gate import mutants
from tests.parts import rest
from tests.sagafile.places import EXAMPLES

FILES = [
    EXAMPLES / "release.yaml",
    EXAMPLES / "offboarding.yaml",
    EXAMPLES / "order.yaml",
    EXAMPLES / "migration/migration.yaml",
    EXAMPLES / "refactoring/refactoring.yaml",
]
HEAD = "version: v1\nsaga: a\ninputs: {name: text, many: list}\nsteps:\n"


@pytest.fixture(autouse=True)
def forgetting(monkeypatch: pytest.MonkeyPatch) -> None:
    for known in ("_actions", "_definitions"):
        monkeypatch.setattr(PROCESS, known, dict(getattr(PROCESS, known)))


def saga(steps: str, head: str = HEAD) -> FileSaga:
    return parse_saga(f"{head}{steps}\n", name="s.yaml", directory="/")


def mistake(steps: str, head: str = HEAD) -> str:
    with pytest.raises(SagaFileError) as refused:
        saga(steps, head)
    (only,) = refused.value.mistakes
    return only


@pytest.mark.parametrize(
    ("step", "told"),
    [
        ("id: x", "s.yaml:5: step x has no run, no shell and no http; say what it does"),
        ("id: x, run: [a], shell: b", "s.yaml:5: step x has both run and shell; keep one"),
        ("id: x, run: a b c d", "s.yaml:5: run has to be a list, as in [a, b, c, …]; a text for a shell is `shell:`"),
        ("id: x, run: [a], rsik: [b]", "s.yaml:5: unknown key 'rsik' in a step; did you mean risk?"),
        ("id: x, run: [a, '${inputs.name}']", "unknown reference 'inputs' in '${inputs.name}'; did you mean input?"),
        ("id: x, run: [a, '${input.nam}']", "unknown input 'nam' in ${input.nam}; did you mean name?"),
        ("id: x, run: [a, '${input.name.x}']", "name in ${input.name.x} is text, and has nothing inside"),
        ("id: x, run: [a, '${steps.y.stdout}']", "unknown step 'y' in ${steps.y.stdout}; it has to end before this"),
        ("id: x, run: [a, '${name']", "'${name' is not a reference; write ${input.name}, or $${ for"),
        ("id: x, run: [a, '${result.stdout}']", "unknown reference 'result'"),
        ("id: x, shell: 'rm ${input.name}'", "its text is run as it is; hand it the value by env"),
        ("id: x, run: [a], compensate: ['${before.stdout}']", "${before.stdout}: the step has no before:"),
        (
            "id: x, run: [a], compensate: ['${result.stdin}']",
            "unknown output 'stdin' in ${result.stdin}; known:",
        ),
        ("id: x, run: [a], compensate: [b], no_rollback: c", "step x has compensate and no_rollback; keep one of them"),
        ("id: x, run: [a], before: [b]", "step x has a before-image and no compensate that could use it"),
        ("id: x, run: [a], reversibility: compensatable", "says compensatable, and its keys do not; add compensate:"),
        ("id: x, run: [a], timeout: 5", "timeout has to be a duration of at most 366d, such as 30s, 15m, 1h or 2d"),
        ("id: x, run: [a], retry: 0", "retry has to be a whole number from 1 to 1000, not 0"),
        ("id: x, run: [a], exit_codes: {ok: [0]}", "unknown key 'ok' in exit_codes"),
        ("id: x, run: [a], exit_codes: {failed: [2], lost: [2]}", "exit code 2 says both failed and lost"),
        ("id: x, run: [a], after: [y]", "unknown step 'y' in after; it has to stand above this one"),
        ("id: X, run: [a]", "id 'X' is not a name"),
        ("id: x, run: [a], env: {AMENDS_KEY: b}", "AMENDS_KEY in env is taken"),
        ("id: x, run: [a], secrets: ['a b']", "'a b' in secrets is not the name of a variable"),
        ("id: x, run: [~]", "an argument has to be text; put it in quotes, not nothing"),
        ("id: x, run: [a], resources: ['a:${input.nam}']", "unknown input 'nam' in ${input.nam}; did you mean name?"),
        ("id: x, run: [a], files: .", "files has to be true or false, not '.'"),
        ("id: x, run: [a], files: true", "step x works on files, and the saga has none; add `files:` at the top"),
    ],
)
def test_a_mistake_in_a_step_is_told(step: str, told: str) -> None:
    assert told in mistake(f"  - {{{step}}}")


def test_two_steps_cannot_share_a_name_or_a_topic() -> None:
    assert "id 'x' twice; the first is in line 5" in mistake("  - {id: x, run: [a]}\n  - {id: x, run: [a]}")
    steps = "  - {id: x, run: [a], topic: t}\n  - {id: y, run: [a], topic: t}"
    assert "topic 't' twice; the first is in line 5" in mistake(steps)


@pytest.mark.parametrize(
    ("declared", "told"),
    [
        ("{type: txt}", "unknown type 'txt'; did you mean text?"),
        ("{type: integer, default: a}", "default 'a': input x is of type integer"),
        ("{type: flag, default: 1}", "default 1: input x is of type flag"),
        ("{choices: [a], default: b}", "default 'b' is none of the choices"),
        ("{pattern: '['}", "pattern '[' is not a regular expression"),
    ],
)
def test_a_mistake_in_an_input_is_told(declared: str, told: str) -> None:
    head = f"version: v1\nsaga: a\ninputs:\n  x: {declared}\nsteps:\n"
    assert told in mistake("  - {id: x, run: [a]}", head)


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({}, "needs name"),
        ({"name": 1}, "input name has to be text, not 1"),
        ({"nam": "x"}, "no input 'nam'; did you mean name?"),
        ({"name": "-x"}, "input name: '-x' does not match"),
        ([], "takes an object of inputs"),
    ],
)
def test_an_input_that_does_not_fit_is_refused_before_anything_runs(document: Any, told: str) -> None:
    head = "version: v1\nsaga: a\ninputs: {name: {pattern: '[a-z]+'}}\nsteps:\n"
    made = saga("  - {id: x, run: [a]}", head)
    with pytest.raises(InputError, match=told.replace("?", r"\?")):
        made.bind_document(document)


def test_a_secret_that_is_not_set_is_told_before_anything_runs() -> None:
    made = saga("  - {id: x, run: [a], secrets: [NO_SUCH_SECRET]}")
    with pytest.raises(InputError, match="needs the secret NO_SUCH_SECRET"):
        made.bind_document({"name": "x", "many": []})


def test_numbers_and_words_are_arguments_as_they_are_written() -> None:
    step = saga("  - {id: x, run: [tail, -n, +5, 1.10, true, 0x1f]}").written.steps[0]
    assert isinstance(step.command, CommandLine)
    assert step.command.run == (("tail",), ("-n",), ("+5",), ("1.10",), ("true",), ("0x1f",))


def test_the_contract_is_what_the_file_promises() -> None:
    made = saga(
        "  - {id: x, run: [a], compensate: {run: [b], timeout: 2m, retry: 7},\n"
        "     idempotent: true, timeout: 1h, risk: [m]}\n"
        "  - {id: y, run: [a], no_rollback: it is out}\n"
        "  - {id: z, run: [a], read_only: true}"
    )
    first, second, third = (made.actions[name].contract for name in "xyz")
    assert (first.topic, first.version, first.timeout_s, first.undo_timeout_s) == ("a.x", made.version, 3600.0, 120.0)
    assert (first.idempotent, first.undo_retries.attempts, first.risk) == (True, 7, ("m",))
    assert (first.reversibility, first.undoes) == (Reversibility.COMPENSATABLE, "b")
    assert (second.reversibility, second.no_rollback) == (Reversibility.IRREVERSIBLE, "it is out")
    assert not third.side_effect


def test_another_text_is_another_version() -> None:
    one, other = saga("  - {id: x, run: [a]}"), saga("  - {id: x, run: [b]}")
    assert one.version != other.version
    assert one.version == version_of(one.text)


# References


def test_a_value_that_looks_like_a_reference_is_a_text_all_the_same() -> None:
    text = template("a ${input.x} ${result.stdout}", 1, Mistakes("s", SagaFileError), ("input", "result"))
    half = bound(text, {"input": {"x": "${result.stdout}"}})
    assert half == {"join": ["a ${result.stdout} ", {"of": "result.stdout"}]}
    assert closed(json.loads(json.dumps(half)), {"result": {"stdout": "r"}}) == "a ${result.stdout} r"


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_every_text_reaches_the_command_as_it_is(text: str) -> None:
    made = template("${input.x}", 1, Mistakes("s", SagaFileError), ("input",))
    assert bound(made, {"input": {"x": text}}) == text


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("steps.a.json.b", "there is no steps.a.json.b"),
        ("steps.c.json.b", "is not JSON"),
        ("steps.d.stdout", "printed more than is kept"),
        ("steps.d.json", "printed more than is kept"),
        ("input.n", "is null"),
        ("input.z", "holds a NUL"),
    ],
)
def test_a_reference_that_leads_nowhere_stops_the_saga(path: str, told: str) -> None:
    known: dict[str, Any] = {
        "input": {"n": None, "z": "a\0"},
        "steps": {"a": {"stdout": "{}"}, "c": {"stdout": "x"}, "d": {"stdout": "{}", "cut": True}},
    }
    text = template(f"${{{path}}}", 1, Mistakes("s", SagaFileError), ("input", "steps"))
    with pytest.raises(InputError, match=told):
        bound(text, known)


def test_output_can_be_looked_into_as_json() -> None:
    text = template("${steps.a.json.urls.1}", 1, Mistakes("s", SagaFileError), ("steps",))
    assert bound(text, {"steps": {"a": {"stdout": '{"urls": ["x", "y"]}'}}}) == "y"


# Malformed files


@pytest.fixture(scope="module")
def seeds() -> tuple[str, ...]:
    return tuple(path.read_text(encoding="utf-8") for path in FILES)


def malformed(seeds: tuple[str, ...]) -> Iterator[str]:
    words = [*STEP, *FILE, "${", "${input.tag}", "${steps.tag.stdout}", "[", "{", "~", "1.5", "true", "- id: a"]
    for number in itertools.count():
        chance = random.Random(number)
        text = chance.choice(seeds)
        for _ in range(chance.choice((1, 1, 2, 3, 8))):
            if chance.random() < 0.3:
                start = chance.randrange(len(text) + 1)
                text = text[:start] + chance.choice(words) + text[start + chance.choice((0, 1, 5)) :]
            else:
                text = chance.choice(mutants.STROKES)(chance, text)
        yield text


@rest
def test_five_thousand_malformed_files_are_refused_with_their_lines_and_nothing_is_run(
    seeds: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    for name in ("fork", "posix_spawn", "execve", "system"):
        monkeypatch.setattr(os, name, refuse)
    refused: list[SagaFileError] = []
    for text in malformed(seeds):
        try:
            assert parse_saga(text, name="s.yaml", directory="/").written.steps
        except SagaFileError as exc:
            refused.append(exc)
            if len(refused) == 5000:
                break
    assert all(told.startswith("s.yaml:") for exc in refused for told in exc.mistakes)
    assert max(len(str(exc)) for exc in refused) < 20_000


# The schema


def keys_in(schema: Json) -> Iterator[str]:
    if isinstance(schema, dict):
        properties = schema.get("properties")
        yield from properties if isinstance(properties, dict) else ()
        for value in schema.values():
            yield from keys_in(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from keys_in(value)


def test_the_published_schema_has_every_key_of_the_format() -> None:
    schema = json_schema()
    assert json.loads(json.dumps(schema)) == schema
    assert set(keys_in(schema)) >= {*FILE, *STEP}
    assert schema["required"] == ["version", "saga", "steps"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_examples_fit_the_published_schema(path: Path) -> None:
    import jsonschema
    import yaml

    jsonschema.Draft202012Validator.check_schema(json_schema())
    jsonschema.validate(yaml.safe_load(path.read_text(encoding="utf-8")), json_schema())
