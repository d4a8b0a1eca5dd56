"""Steps that work in a changeset: taken back with their layers, and refused where their promises do not fit."""

import pytest

from amends.core.words.contracts import Reversibility
from amends.errors import SagaFileError
from amends.sagafile import parse_saga

HEAD = "version: v1\nsaga: a\nfiles: {root: /x, land: done, verify: [make, test]}\nsteps:\n"


def test_such_a_step_is_reversible_and_says_so() -> None:
    made = parse_saga(f"{HEAD}  - {{id: x, run: [a], files: true}}\n", name="s", directory="/")
    assert made.actions["x"].contract.reversibility is Reversibility.REVERSIBLE


@pytest.mark.parametrize(
    ("step", "told"),
    [
        ("id: x, run: [a], files: true, compensate: [b]", "step x has compensate and files; keep one of them"),
        ("id: x, run: [a], files: true, probe: [b]", "step x works on files, and needs no probe: leave it out"),
        ("id: x, run: [a], reversibility: reversible", "says reversible, and its keys do not; add files: true"),
    ],
)
def test_promises_that_do_not_fit_are_told(step: str, told: str) -> None:
    with pytest.raises(SagaFileError, match=told):
        parse_saga(f"{HEAD}  - {{{step}}}\n", name="s", directory="/")


def test_the_tree_has_to_be_named() -> None:
    with pytest.raises(SagaFileError, match="files without root; name the tree"):
        parse_saga("version: v1\nsaga: a\nfiles: {land: x}\nsteps: [{id: x, run: [a]}]\n", name="s", directory="/")
    text = "version: v1\nsaga: a\nfiles: {root: x, lands: x}\nsteps: [{id: x, run: [a]}]\n"
    with pytest.raises(SagaFileError, match="unknown key 'lands' in files; did you mean land"):
        parse_saga(text, name="s", directory="/")
