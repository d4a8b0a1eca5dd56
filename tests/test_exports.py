"""What is public is written down: the reference pages have every name, parameter, field, error and wire name."""

import dataclasses
import enum
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import amends
from amends import errors, notify, types
from amends.core.words.values import LARGEST_VALUE
from amends.journal import codec
from amends.journal.fields import INLINE
from amends.runtime.settings import Settings

REFERENCE = Path(__file__).resolve().parent.parent / "docs" / "look-up"
PYTHON = (REFERENCE / "python.md").read_text(encoding="utf-8")
ERRORS = (REFERENCE / "errors.md").read_text(encoding="utf-8")
JOURNAL = (REFERENCE / "journal.md").read_text(encoding="utf-8")


def sections(page: str) -> dict[str, str]:
    """The text under each heading of the third level that is a name, by that name."""
    parts = re.split(r"^### `([^`]+)`$", page, flags=re.MULTILINE)
    return {
        name: re.split(r"^## ", text, flags=re.MULTILINE)[0]
        for name, text in zip(parts[1::2], parts[2::2], strict=True)
    }


def mentioned(section: str) -> set[str]:
    """Every word that stands in code, outside of blocks."""
    prose = re.sub(r"^```.*?^```$", "", section, flags=re.DOTALL | re.MULTILINE)
    return {word for code in re.findall(r"`([^`]+)`", prose) for word in re.findall(r"\w+", code)}


def words_of(thing: object) -> Iterator[str]:
    """What a section about this has to mention: an enum's values, a class's fields and methods, parameters."""
    if isinstance(thing, enum.EnumType):
        yield from (str(member) for member in list[object](thing))
        return
    if isinstance(thing, type):
        ours = [kind for kind in thing.__mro__ if kind.__module__.startswith("amends.")]
        yield from (name for kind in ours for name in vars(kind) if not name.startswith("_"))
    if inspect.isfunction(thing) or "__init__" in vars(thing):
        yield from parameters(thing)


def parameters(thing: object) -> list[str]:
    assert callable(thing)
    return [name for name in inspect.signature(thing).parameters if name not in INTERNAL]


MOVED: dict[str, tuple[str, str]] = vars(amends)["_MOVED"]
PUBLIC: dict[str, object] = {
    name: getattr(module, name) for module in (amends, types, notify) for name in module.__all__
}
ALSO_THERE = [name for name in sections(PYTHON) if name in errors.__dict__ and name not in PUBLIC]
"""Errors that have a section of their own, besides the line that each has among the errors."""
INTERNAL = frozenset({"args", "kwargs"})
# Users are given these, and do not make them: their parameters need no words.
MADE_ELSEWHERE = frozenset({"Action", "Attempt", "Attempts", "Coordinator", "Handle", "Work"})


def test_the_python_reference_lists_what_is_public() -> None:
    assert sorted(set(sections(PYTHON)) - set(ALSO_THERE)) == sorted(PUBLIC)


def test_what_is_public_is_there_and_fits_one_screen() -> None:
    for module in (amends, types, notify):
        assert [name for name in module.__all__ if not hasattr(module, name)] == []
    assert len(amends.__all__) <= 46


@pytest.mark.parametrize("name", MOVED)
def test_a_name_that_has_moved_is_found_for_one_release_with_a_word_where_it_is(name: str) -> None:
    module, new = MOVED[name]
    with pytest.warns(DeprecationWarning, match=rf"amends\.{name} is {module}\.{new} now"):
        assert getattr(amends, name) is getattr(importlib.import_module(module), new)


def test_a_name_that_never_was_is_not_found() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Sagga'"):
        getattr(amends, "Sagga")  # noqa: B009 - a type checker would refuse the attribute


@pytest.mark.parametrize("name", PUBLIC)
def test_the_python_reference_mentions_every_part_of_it(name: str) -> None:
    thing = PUBLIC[name]
    needed = set(words_of(thing))
    if name in MADE_ELSEWHERE:
        needed -= set(parameters(thing)) - set(vars(thing))
    assert needed - mentioned(sections(PYTHON)[name]) == set()


def test_an_action_shows_its_decorators_and_keeps_its_functions_to_itself() -> None:
    made = amends.action("test.shown")(lambda: None)
    decorators = {"before", "compensation", "mitigation", "probe", "reread", "validate"}
    shown = {name for name in dir(made) if not name.startswith("_")}
    assert shown - {"parts"} == {*decorators, "contract", "schema", "topic"}
    kept = mentioned(sections(PYTHON)["Action"])
    assert shown <= kept, "the reference says of each what it is, and of `parts` that it is the runtime's own"


def test_every_public_name_says_what_it_is() -> None:
    speechless = {name for name in amends.__all__ if not vars(amends)[name].__doc__}
    assert speechless == set()


def test_the_settings_are_written_down_with_their_defaults() -> None:
    written = dict(re.findall(r"^\| `(\w+)` \| ([\d.]+|none) \|", sections(PYTHON)["Settings"], re.MULTILINE))
    said = {name: None if value == "none" else float(value) for name, value in written.items()}
    assert said == dataclasses.asdict(Settings())


def test_the_tree_of_errors_is_the_one_in_the_code() -> None:
    assert errors.__doc__
    tree = inspect.cleandoc(errors.__doc__).partition("\n\n")[2].strip()
    assert tree in ERRORS


def test_the_tree_of_errors_has_every_error_under_its_parent() -> None:
    names = {name: kind for name, kind in vars(errors).items() if isinstance(kind, type)}
    drawn = re.findall(r"^([│├└─ ]*)([A-Z]\w+)", errors.__doc__ or "", re.MULTILINE)
    path: dict[int, str] = {}
    found: set[str] = set()
    for indent, name in drawn:
        if name not in names:
            continue
        depth = len(indent)
        parent = next((path[at] for at in sorted(path, reverse=True) if at < depth), None)
        path = {at: above for at, above in path.items() if at < depth} | {depth: name}
        found.add(name)
        assert parent is None or issubclass(names[name], names[parent]), name
    assert found == set(names)


def wire_table() -> dict[str, set[str]]:
    rows = re.findall(r"^\| `(\w+\.\w+/\d+)` \|[^|]*\|([^|]*)\|$", JOURNAL, re.MULTILINE)
    return {name: set(re.findall(r"`(\w+)`", fields)) for name, fields in rows}


def test_the_journal_reference_lists_every_wire_name_with_its_fields() -> None:
    known = {name: {field.name for field in dataclasses.fields(kind)} for name, kind in codec.WIRE.items()}
    assert wire_table() == known


def test_the_journal_reference_has_the_limits_of_the_code() -> None:
    assert f"more than {INLINE:,} characters" in JOURNAL
    assert f"more than {LARGEST_VALUE >> 20} MiB" in JOURNAL
    assert f"{len(codec.FIRST)} zero bytes" in JOURNAL
