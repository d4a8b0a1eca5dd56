"""docs/understand/lifecycle.md shows the tables as they are."""

import os
from pathlib import Path

import pytest

from amends.core.transitions import STEP, StepStatus
from tools.lifecycle import diagram, filled

PAGE = Path(__file__).resolve().parents[2] / "docs" / "understand" / "lifecycle.md"


def test_the_page_shows_the_tables_as_they_are() -> None:
    page = PAGE.read_text(encoding="utf-8")
    if os.environ.get("AMENDS_WRITE_DOCS"):
        PAGE.write_text(filled(page), encoding="utf-8")
    else:
        assert page == filled(page), "draw it again with AMENDS_WRITE_DOCS=1"
    for table in ("saga", "step", "approval", "incident"):
        assert f"<!-- table: {table} -->\n" in page


@pytest.mark.parametrize("status", [status for status, row in STEP.items() if row])
def test_every_cell_has_an_arrow(status: StepStatus) -> None:
    arrows = [line for line in diagram("step").splitlines() if line.startswith(f"    {status} --> ")]
    assert sorted(event for arrow in arrows for event in arrow.partition(": ")[2].split(", ")) == sorted(
        kind.__name__ for kind in STEP[status]
    )


def test_events_that_lead_the_same_way_share_an_arrow() -> None:
    assert diagram("incident").splitlines() == [
        "stateDiagram-v2",
        "    [*] --> open: IncidentOpened",
        "    open --> open: IncidentAssigned, IncidentCommented",
        "    open --> retried: IncidentRetried",
        "    open --> resolved: IncidentResolved",
    ]
    assert "    awaiting --> denied: ApprovalRefused, ApprovalExpired" in diagram("step").splitlines()


def test_only_what_stands_between_the_marks_is_replaced() -> None:
    page = "before\n<!-- table: incident -->\nold\n<!-- end of table -->\nafter\n"
    shown = filled(page)
    assert shown.startswith("before\n<!-- table: incident -->\n```mermaid\nstateDiagram-v2\n")
    assert shown.endswith("\n```\n<!-- end of table -->\nafter\n")
    assert filled(shown) == shown
