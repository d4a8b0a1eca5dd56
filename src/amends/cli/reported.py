"""How an incident's report is written: Markdown, HTML or JSON, to a file or to stdout."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import click

from amends.cli.output import Output
from amends.cli.proof import whole_file
from amends.core.values import Json
from amends.evidence.pages import html, markdown
from amends.evidence.timeline import visible

_FORMS: Final[Mapping[str, Callable[[Mapping[str, Json]], str]]] = {
    "markdown": markdown,
    "html": html,
    "json": lambda report: json.dumps(report, indent=2) + "\n",
}
_ENDINGS: Final = {".html": "html", ".htm": "html", ".json": "json"}


def write(out: Output, report: Mapping[str, Json], form: str | None, target: str) -> None:
    """Write it whole, for its owner alone, or not at all; what is written to stdout is shown there."""
    if out.as_json and target == "-":
        out.record("report", report)
        return
    text = _FORMS[form or _ENDINGS.get(Path(target).suffix, "markdown")](report)
    if target == "-":
        click.echo(text, nl=False)
        return
    with whole_file(target) as file, open(file, "w", encoding="utf-8", closefd=False) as stream:
        stream.write(text)
    out.record("written", {"file": target, "characters": len(text)})
    out.say(f"{visible(target)}: {text.count(chr(10))} lines")
