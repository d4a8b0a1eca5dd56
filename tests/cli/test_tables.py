"""Rows on a terminal: as wide as what is in them, and never wider than the terminal."""

import io

import pytest
from rich.console import Console

from amends.cli.show.output import Output, Part
from amends.cli.show.tables import Table

HEADS = (("ID", 10), ("STATUS", 8), ("TOOK", 6), ("NOTE", 0))
ROWS: list[tuple[Part, ...]] = [
    ("a", "done", "1 s", ""),
    ("an-id-longer-than-ten", "failed", "20 s", "the bank said no"),
]


def drawn(width: int, *, terminal: bool = True) -> list[str]:
    out, page = Output(as_json=False), io.StringIO()
    out._is_plain = False  # a console of the test's own, whatever the tests' output is
    out._console = Console(file=page, width=width, force_terminal=terminal, color_system=None)
    Table(out, HEADS, spare=("TOOK",)).say(ROWS)
    return [line.rstrip() for line in page.getvalue().splitlines()]


def test_a_wide_terminal_shows_every_column_as_wide_as_its_widest_cell() -> None:
    assert drawn(80) == [
        "ID                     STATUS  TOOK  NOTE",
        "a                      done    1 s",
        "an-id-longer-than-ten  failed  20 s  the bank said no",
    ]


def test_where_it_is_narrow_the_last_column_goes_below_and_what_is_spare_goes() -> None:
    assert drawn(36) == [
        "ID                     STATUS",
        "a                      done",
        "an-id-longer-than-ten  failed",
        "  the bank said no",
    ]


@pytest.mark.parametrize("width", range(31, 80))
def test_nothing_is_wider_than_the_terminal(width: int) -> None:
    assert all(len(line) <= width for line in drawn(width))


def test_elsewhere_the_widths_are_fixed_so_that_programs_find_the_columns() -> None:
    assert drawn(20, terminal=False)[:2] == ["ID          STATUS    TOOK    NOTE", "a           done      1 s"]
