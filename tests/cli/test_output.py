"""A line in a file or a pipe is the same, whether rich draws it or nobody."""

import io
import sys
from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from amends.cli.show.output import Output, Part

PARTS = st.lists(st.text() | st.tuples(st.text(), st.sampled_from(["dim", "bold", "yellow", ""])), max_size=4)


def said(parts: Sequence[Part], *, is_plain: bool) -> str:
    stream, before = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline=""), sys.stdout
    sys.stdout = stream
    try:
        out = Output(as_json=False)
        out._is_plain = is_plain
        out.say(*parts)
        out.say_beside(parts, *parts)
    finally:
        sys.stdout = before
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode()


@given(parts=PARTS)
def test_a_line_is_the_same_with_and_without_rich(parts: list[Part]) -> None:
    assert said(parts, is_plain=True) == said(parts, is_plain=False)


@pytest.mark.parametrize(
    "line", ["x" * 500, "wide 日本 é", "  indented", "trails   ", "", "tab\tbed", "[bold]no markup[/]"]
)
def test_a_line_is_neither_cut_nor_wrapped(line: str) -> None:
    assert said([line], is_plain=True) == said([line], is_plain=False)


def test_colours_are_drawn_where_a_variable_asks_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", stream)
    assert Output(as_json=False)._is_plain
    assert not Output(as_json=True)._is_plain
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert not Output(as_json=False)._is_plain
    monkeypatch.delenv("FORCE_COLOR")
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert not Output(as_json=False)._is_plain
