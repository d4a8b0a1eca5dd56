"""A report as one page of HTML that needs nothing else: no script, no font, no address.

Or as JUnit's XML, which CI systems read: a case for each cell. What is not proven counts as skipped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from html import escape
from typing import Final
from xml.sax.saxutils import quoteattr

from amends.drill.faults import BACK, FORWARD, OF_SAGA, TITLES, WHOLE
from amends.drill.findings import Mark
from amends.drill.report import Cell, Report

_STYLE: Final = """
:root { color-scheme: light dark; font: 15px/1.45 system-ui, sans-serif; }
body { margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.frame { overflow-x: auto; }
table { border-collapse: collapse; }
th, td { border: 1px solid color-mix(in srgb, currentColor 20%, transparent); padding: .3rem .6rem; text-align: left; }
thead th { vertical-align: bottom; font-weight: 600; }
tbody th { font-weight: 400; white-space: nowrap; }
tr.part th { font-weight: 600; background: color-mix(in srgb, currentColor 6%, transparent); }
.passed { color: light-dark(#17692f, #6cd08b); }
.proven { color: light-dark(#7a5200, #e8bd5a); }
.failed { color: light-dark(#a4161a, #ff8d8d); font-weight: 600; }
.none { opacity: .45; }
.faint { opacity: .7; }
li { margin: .4rem 0; }
code { font-size: .9em; }
"""
_CLASSES: Final = {Mark.PASSED: "passed", Mark.NOT_PROVEN: "proven", Mark.FAILED: "failed"}
_PARTS: Final = (("the action", FORWARD), ("its compensation", BACK))


def page(*reports: Report) -> str:
    """One page, of one drill or of several."""
    return "\n".join(_lines(reports)) + "\n"


def _lines(reports: Sequence[Report]) -> Iterator[str]:
    title = f"Drill of {', '.join(report.saga for report in reports)}"
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>"
    for report in reports:
        yield from _drill(report)
    yield "</body></html>"


def _drill(report: Report) -> Iterator[str]:
    yield f"<h1>Drill of {escape(report.saga)}: <span class={_CLASSES[report.mark]}>{report.mark}</span></h1>"
    counts = ", ".join(f"{count} {mark}" for mark, count in report.counts().items())
    about = f"version {report.version}, env {report.env}, {len(report.cells)} cells ({counts}), {report.runs} runs"
    yield f'<p class="faint">{escape(about)}</p>'
    yield f"<p>Input: <code>{escape(json.dumps(report.input, ensure_ascii=False))}</code></p>"
    yield from _matrix(report)
    for name, told in report.notes:
        yield f"<p>{escape(name.capitalize())}: {escape(told)}.</p>"
    for mark, heading in ((Mark.FAILED, "What failed"), (Mark.NOT_PROVEN, "What is not proven")):
        yield from _findings(report, mark, heading)


def _matrix(report: Report) -> Iterator[str]:
    yield '<div class="frame"><table><thead><tr><th></th>'
    for step in report.steps:
        yield f"<th>{escape(step.id)}<br>{escape(step.title)}</th>"
    yield "</tr></thead><tbody>"
    for heading, faults in _PARTS:
        shown = [fault for fault in faults if fault in report.faults]
        if shown:
            yield f'<tr class="part"><th colspan="{len(report.steps) + 1}">{heading}</th></tr>'
        for fault in shown:
            yield f"<tr><th>{escape(TITLES[fault])}</th>"
            yield from (_cell(report.cell(fault, step.id)) for step in report.steps)
            yield "</tr>"
    yield f'<tr class="part"><th colspan="{len(report.steps) + 1}">the saga</th></tr>'
    for fault in (fault for fault in OF_SAGA if fault in report.faults):
        yield f"<tr><th>{escape(TITLES[fault])}</th>{_cell(report.cell(fault, WHOLE), len(report.steps))}</tr>"
    yield "</tbody></table></div>"


def _cell(cell: Cell | None, width: int = 1) -> str:
    span = f' colspan="{width}"' if width > 1 else ""
    if cell is None:
        return f"<td{span} class=none>-</td>"
    told = "; ".join(str(finding) for finding in cell.findings)
    runs = "1 run" if cell.runs == 1 else f"{cell.runs} runs"
    about = escape(f"{cell.place}, {runs}, first ended {cell.ended}. {told}", quote=True)
    return f'<td{span} class={_CLASSES[cell.mark]} title="{about}">{cell.mark}</td>'


def _findings(report: Report, mark: Mark, heading: str) -> Iterator[str]:
    found = list(report.findings(mark))
    if not found:
        return
    yield f"<h2>{heading}</h2><ul>"
    for finding, cells in found:
        places = ", ".join(f"<code>{escape(str(cell.place))}</code>" for cell in cells)
        yield f"<li><span class={_CLASSES[mark]}>{escape(str(finding))}</span><br>in {places}</li>"
    yield "</ul>"


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
    body = escape("\n".join(map(_printable, told)), quote=False)
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
