"""A report as one page for people: sections of facts, tables and code, written as Markdown or as HTML. Pure.

Nothing of what is reported is ours: each text is made visible (no controls, no marks of direction) and escaped for the
form it goes into. The HTML is one file without scripts, links or anything to fetch; it reads in print and in the dark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final, TypeAlias, cast

from amends.core.words.values import Json
from amends.dataclass import dataclass
from amends.text import lines_of, spelled_args, visible

LONGEST_CODE: Final = 8_000
"""Characters of what people were shown that stand in a page; the report's JSON has all of it."""


@dataclass(frozen=True, slots=True)
class FactList:
    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class PageTable:
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Code:
    text: str


Block: TypeAlias = str | FactList | PageTable | Code
Section: TypeAlias = tuple[str, Sequence[Block]]
_Data: TypeAlias = Mapping[str, Any]


def sections(report: Mapping[str, Json]) -> tuple[Section, ...]:
    """Sections of a page, in its order; empty ones are left out."""
    told = cast("_Data", report)
    found: Iterable[Section] = (
        ("What happened", _happened(told)),
        ("What is gone", _gone(told)),
        ("What stands in the world", _stands(told)),
        ("What was tried", _lines(told["tried"])),
        ("Who", _who(told)),
        ("How it was judged", _judged(told)),
        ("Approvals", _approvals(told)),
        ("How it was closed", _closed(told)),
        ("What was said", _comments(told)),
        ("Family", _family(told)),
        ("Timeline", _lines(told["timeline"])),
        ("Evidence", _evidence(told)),
    )
    return tuple((title, blocks) for title, blocks in found if blocks)


# -- what stands in each section --------------------------------------------------------------------------------------


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _happened(told: _Data) -> list[Block]:
    incident, saga, cause = told["incident"], told["saga"], told["cause"]
    back = cause["rollback"]
    rows = [
        ("incident", incident["id"]),
        ("status", incident["status"]),
        ("kind", incident["kind"].replace("_", " ")),
        ("opened", incident["opened_at"]),
        ("closed", _text(incident["closed_at"])),
        ("saga", f"{saga['id']}: {saga['definition']}, version {saga['version']}, {saga['status']}"),
        ("environment", saga["env"]),
        ("began", f"{saga['started_at']}"),
        ("cause", _text(cause["why"])),
        ("rolled back because", "" if back is None else f"{back['why']} ({back['cause']}, by {back['by']})"),
        ("child of", _text(saga["parent"])),
    ]
    return [told["summary"], FactList([(name, text) for name, text in rows if text])]


def _gone(told: _Data) -> list[Block]:
    gone = told["removed"]
    if gone is None:
        return []
    said = [(one["at"], one["by"], one["why"], str(one["entries"])) for one in gone["by"]]
    text = f"What {gone['entries']} entries held was removed for good: arguments, results, errors and reasons. Their "
    text += "numbers, times, kinds and hashes are left, and prove that they were."
    return [text, *([PageTable(("when", "by", "why", "entries"), said)] if said else [])]


def _stands(told: _Data) -> list[Block]:
    rows = [
        (
            _text(one["step"]),
            one["topic"],
            spelled_args(one["args"]),
            one["says"] + ("; it stopped here" if one["stopped_here"] else ""),
            one["no_rollback"] or one["reversibility"],
        )
        for one in told["stands"]
    ]
    if rows:
        return [PageTable(("step", "action", "with", "what stands", "can it be taken back"), rows)]
    return ["Nothing is on record that changed anything."] if told["removed"] is None else []


def _lines(lines: Sequence[_Data]) -> list[Block]:
    heads = ("when", "entry", "who", "step", "action", "what")
    rows = [
        (_text(one["at"]), str(one["entry"]), one["who"], _text(one["step"]), one["topic"], one["text"])
        for one in lines
    ]
    return [PageTable(heads, rows)] if rows else []


def _who(told: _Data) -> list[Block]:
    people = told["people"]
    rows = [
        ("asked for by", people["actor"]),
        ("owner", people["owner"] or "nobody"),
        ("on behalf of", ", ".join(people["delegates"])),
        ("approved by", ", ".join(people["approvers"])),
        ("closed by", people["resolver"] or ""),
    ]
    return [FactList([(name, text) for name, text in rows if text])]


def _judged(told: _Data) -> list[Block]:
    heads = ("when", "step", "phase", "decision", "rule", "policy", "why")
    rows = [(one["at"], *(_text(one[name]) for name in heads[1:])) for one in told["judged"]]
    return [PageTable(heads, rows)] if rows else []


def _approvals(told: _Data) -> list[Block]:
    found: list[Block] = []
    for one in told["approvals"]:
        answers = [
            (
                said["at"],
                _text(said["by"]),
                said["what"] + (" (own decision)" if said["own_decision"] else ""),
                _text(said["why"]),
            )
            for said in one["answers"]
        ]
        rule = f"rule {one['rule']} of policy {one['policy']}"
        rows = [("asked", one["asked_at"]), ("until", one["expires_at"]), ("by", rule), ("digest", one["digest"])]
        found += [f"Step {_text(one['step'])}", FactList(rows)]
        found.append(PageTable(("when", "who", "what", "why"), answers) if answers else "Nobody has answered.")
        found += ["What was shown:", Code(_dumped(one["shown"]))]
    return found


def _dumped(value: Json) -> str:
    text = json.dumps(value, indent=2, sort_keys=True)
    return text if len(text) <= LONGEST_CODE else f"{text[:LONGEST_CODE]}\n… cut here; the report as JSON has all of it"


def _closed(told: _Data) -> list[Block]:
    closed = told["resolution"]
    if closed is None:
        return []
    rows = [
        ("how", closed["how"] + (", against the gate" if closed["against_the_gate"] else "")),
        ("by", closed["by"] + (" (own decision)" if closed["own_decision"] else "")),
        ("when", closed["at"]),
        ("reason", _text(closed["reason"])),
        ("proof", _text(closed["proof"])),
        ("vouched for", ", ".join(f"step {step}" for step in closed["settled"])),
    ]
    return [FactList([(name, text) for name, text in rows if text])]


def _comments(told: _Data) -> list[Block]:
    rows = [(one["at"], one["by"], one["text"]) for one in told["comments"]]
    return [PageTable(("when", "who", "what"), rows)] if rows else []


def _family(told: _Data) -> list[Block]:
    rows = [
        (one["id"], one["definition"], one["status"], _text(one["parent"]), str(one["open_incidents"]))
        for one in told["family"]
    ]
    return [PageTable(("saga", "definition", "status", "child of", "open incidents"), rows)] if rows else []


def _evidence(told: _Data) -> list[Block]:
    proof = told["evidence"]
    head = proof["tree_head"]
    rows = [("entries", str(proof["entries"])), ("hash of the newest", _text(proof["head"]))]
    if head is None:
        rows.append(("tree head", "nothing of this journal is signed yet: amends evidence tree-head --new"))
    else:
        late = "" if head["covers"] else "; entries of this saga came after it"
        rows += [("tree head", head["root"]), ("signed", f"{head['at']}, over {head['size']} entries{late}")]
    rows.append(("public key", proof["key"] or "none yet"))
    hashes = [(str(one["entry"]), one["name"], one["hash"]) for one in proof["hashes"]]
    said = (
        "Whoever has the journal exports a bundle; anybody verifies it, offline, with Python alone. Take the key from "
    )
    said += "another hand than the bundle, and see that it is the one above."
    return [FactList(rows), said, Code("\n".join(proof["verify"])), PageTable(("entry", "kind", "hash"), hashes)]


# -- Markdown ---------------------------------------------------------------------------------------------------------

_MARKS: Final = re.compile(r"([\\`*_{}\[\]<>#|~!&])")


def markdown(report: Mapping[str, Json]) -> str:
    title = _md(f"Incident {cast('_Data', report)['incident']['id']}")
    parts = [f"# {title}", *(_md_section(name, blocks) for name, blocks in sections(report))]
    return "\n\n".join(parts) + "\n"


def _md_section(title: str, blocks: Sequence[Block]) -> str:
    return "\n\n".join((f"## {title}", *map(_md_block, blocks)))


def _md_block(block: Block) -> str:
    match block:
        case str():
            return _md(block)
        case FactList(rows=rows):
            return "\n".join(f"- **{name}:** {_md(text)}" for name, text in rows)
        case PageTable(heads=heads, rows=rows):
            lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
            return "\n".join([*lines, *(f"| {' | '.join(map(_md, row))} |" for row in rows)])
        case Code(text=text):
            return "\n".join(f"    {visible(line)}" for line in lines_of(text))


def _md(text: str) -> str:
    """A text of somebody's, on one line, of which nothing is taken for a mark."""
    return "<br>".join(_MARKS.sub(r"\\\1", visible(line)) for line in lines_of(text))


# -- HTML -------------------------------------------------------------------------------------------------------------

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1d2226; --paper: #fff; --line: #c8d0d6; --soft: #f3f6f7; --mark: #00695c; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e3e8ea; --paper: #14181b; --line: #3b454c; --soft: #1d2327; --mark: #4db6ac; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 70rem;
  margin: 2rem auto; padding: 0 1rem; }
h1, h2 { line-height: 1.2; } h2 { border-bottom: 2px solid var(--mark); padding-bottom: .2rem; margin-top: 2.2rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; }
dt { font-weight: 600; } dd { margin: 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9em; }
th, td { border: 1px solid var(--line); padding: .3rem .5rem; text-align: left; vertical-align: top;
  overflow-wrap: anywhere; }
th { background: var(--soft); }
pre { background: var(--soft); border: 1px solid var(--line); padding: .7rem; overflow-x: auto; white-space: pre-wrap;
  overflow-wrap: anywhere; }
@media print {
  :root { --ink: #000; --paper: #fff; --line: #999; --soft: #f2f2f2; --mark: #000; }
  body { max-width: none; margin: 0; font-size: 10pt; } .wide { overflow: visible; }
  h2, tr, pre { break-inside: avoid; }
}
"""
_HEAD: Final = (
    '<meta charset="utf-8">\n'
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    '<meta name="color-scheme" content="light dark">\n'
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
)


def html(report: Mapping[str, Json]) -> str:
    title = _html(f"Incident {cast('_Data', report)['incident']['id']}")
    body = "\n".join(_html_section(name, blocks) for name, blocks in sections(report))
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n{_HEAD}<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n'
        f"<body>\n<h1>{title}</h1>\n{body}\n</body>\n</html>\n"
    )


def _html_section(title: str, blocks: Sequence[Block]) -> str:
    return "\n".join((f"<section>\n<h2>{_html(title)}</h2>", *map(_html_block, blocks), "</section>"))


def _html_block(block: Block) -> str:
    match block:
        case str():
            return f"<p>{_html(block)}</p>"
        case FactList(rows=rows):
            facts = "\n".join(f"<dt>{_html(name)}</dt><dd>{_html(text)}</dd>" for name, text in rows)
            return f"<dl>\n{facts}\n</dl>"
        case PageTable(heads=heads, rows=rows):
            head = "".join(f"<th>{_html(name)}</th>" for name in heads)
            lines = "\n".join("<tr>" + "".join(f"<td>{_html(cell)}</td>" for cell in row) + "</tr>" for row in rows)
            return (
                f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{lines}\n</tbody></table></div>'
            )
        case Code(text=text):
            return f"<pre>{escape(chr(10).join(map(visible, lines_of(text))))}</pre>"


def _html(text: str) -> str:
    return "<br>".join(escape(visible(line)) for line in lines_of(text))
