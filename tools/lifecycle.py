"""The tables of `transitions` as Mermaid state diagrams, for the docs. Text in, text out: it writes no file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final, TypeAlias

from amends.core.events import ApprovalRequested, IncidentOpened, SagaStarted, WaitStarted
from amends.core.transitions import (
    APPROVAL,
    INCIDENT,
    NEW_STEP,
    SAGA,
    STEP,
    WAIT,
    ApprovalStatus,
    IncidentStatus,
    SagaStatus,
    WaitStatus,
)

_Row: TypeAlias = Mapping[Any, StrEnum]
_TABLES: Final[Mapping[str, tuple[_Row, Mapping[Any, _Row]]]] = {
    "saga": ({SagaStarted: SagaStatus.RUNNING}, SAGA),
    "step": (NEW_STEP, STEP),
    "approval": ({ApprovalRequested: ApprovalStatus.REQUESTED}, APPROVAL),
    "incident": ({IncidentOpened: IncidentStatus.OPEN}, INCIDENT),
    "wait": ({WaitStarted: WaitStatus.OPEN}, WAIT),
}
_PLACE: Final = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def diagram(table: str) -> str:
    """One table; several events that lead the same way share an arrow."""
    first, rows = _TABLES[table]
    arrows = [*_arrows("[*]", first)]
    for old, row in rows.items():
        arrows += _arrows(old, row)
    return "\n    ".join(["stateDiagram-v2", *arrows])


def _arrows(old: str, row: _Row) -> Iterator[str]:
    ways: dict[StrEnum, list[str]] = {}
    for event, new in row.items():
        ways.setdefault(new, []).append(event.__name__)
    for new, events in ways.items():
        yield f"{old} --> {new}: {', '.join(events)}"


def filled(page: str) -> str:
    """A page with each `<!-- table: … -->` followed by its diagram, up to `<!-- end of table -->`."""
    return _PLACE.sub(lambda place: f"{place[1]}```mermaid\n{diagram(place[2])}\n```\n{place[3]}", page)
