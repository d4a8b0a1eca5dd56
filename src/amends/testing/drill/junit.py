"""A report as JUnit's XML, which CI systems read: a case for each cell. What is not proven counts as skipped."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

from amends.testing.drill.faults import TITLES, WHOLE
from amends.testing.drill.findings import Mark
from amends.testing.drill.report import Cell, Report


def junit(*reports: Report) -> str:
    """One suite, or several in one file."""
    suites = [line for report in reports for line in _suite(report)]
    whole = suites if len(reports) == 1 else ["<testsuites>", *suites, "</testsuites>"]
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', *whole, ""])


def _suite(report: Report) -> list[str]:
    counts = report.counts()
    suite = {
        "name": f"amends drill {report.saga}",
        "tests": str(len(report.cells)),
        "failures": str(counts[Mark.FAILED]),
        "skipped": str(counts[Mark.NOT_PROVEN]),
        "errors": "0",
    }
    lines = [f"<testsuite{_attributes(suite)}>"]
    notes = [f"    <property{_attributes({'name': name, 'value': told})}/>" for name, told in report.notes]
    lines += ["  <properties>", *notes, "  </properties>"] if notes else []
    for cell in report.cells:
        lines += _case(report, cell)
    return [*lines, "</testsuite>"]


def _case(report: Report, cell: Cell) -> list[str]:
    topic = report.topic_of(cell.step)
    place = report.saga if cell.step == WHOLE else f"{report.saga}.{cell.step} {topic}"
    case = {"classname": place, "name": f"{cell.fault}: {TITLES[cell.fault]}"}
    if cell.mark is Mark.PASSED:
        return [f"  <testcase{_attributes(case)}/>"]
    told = [str(finding) for finding in cell.findings if finding.mark is cell.mark]
    tag = "failure" if cell.mark is Mark.FAILED else "skipped"
    message = told[0] if cell.mark is Mark.FAILED else f"not proven: {told[0]}"
    body = escape("\n".join(map(_printable, told)))
    return [
        f"  <testcase{_attributes(case)}>",
        f"    <{tag}{_attributes({'message': message})}>{body}</{tag}>",
        "  </testcase>",
    ]


def _attributes(values: dict[str, str]) -> str:
    return "".join(f" {name}={quoteattr(_printable(value))}" for name, value in values.items())


def _printable(text: str) -> str:
    """Without what XML cannot hold."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
