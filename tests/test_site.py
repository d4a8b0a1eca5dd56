"""The site is made of the pages as they are, and the README's picture shows what really happens."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_docs import ROOT, steady
from tools import diagrams, picture, site


def test_the_site_is_made_without_a_warning(tmp_path: Path) -> None:
    words = [sys.executable, str(ROOT / "tools" / "site.py"), "--to", str(tmp_path / "site")]
    made = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    assert "amends" in (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert (tmp_path / "site" / "docs" / "do" / "yaml" / "index.html").exists()


def test_every_event_of_a_diagram_is_in_its_picture() -> None:
    page = (ROOT / "docs" / "understand" / "lifecycle.md").read_text(encoding="utf-8")
    shown = diagrams.with_pictures(page)
    assert "mermaid" not in shown
    assert shown.count("<svg") == page.count("stateDiagram-v2") == shown.count("</svg>")
    for event in ("AttemptLost", "CompensationDenied", "SagaHalted", "ApprovalVoided"):
        assert event in shown
    chart = diagrams.parsed("    [*] --> a: One\n    a --> b: Two, Three\n    b --> b: Four\n")
    assert chart.states == ["a", "b"]
    assert "stays on Four" in diagrams.drawn(chart)


def test_every_target_of_make_is_made_whatever_files_there_are() -> None:
    """`make docs` was once up to date for ever: there is a directory of that name."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (phony,) = re.findall(r"^\.PHONY: (.+)$", makefile.replace("\\\n", " "), re.MULTILINE)
    assert set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE)) == set(phony.split())


def test_the_table_of_contents_is_the_index_of_each_shelf() -> None:
    sections = site.table_of_contents()
    assert [title for title, _ in sections] == ["Learn", "Do", "Understand", "Look up"]
    listed = [path for _, pages in sections for _, path in pages]
    assert len(listed) == len(set(listed))
    pages = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")} - {site.INDEX}
    assert pages - set(listed) == set(), "link these from the index of their folder, in a list"


def test_the_picture_shows_what_the_saga_of_the_readme_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "TZ", "UTC")
    fresh = picture.text_of(picture.drawn(picture.lines_of_a_run()))
    shown = picture.text_of(picture.PICTURE.read_text(encoding="utf-8"))
    assert steady(shown) == steady(fresh), "if it is right now: python tools/picture.py"
    assert "rolled back" in shown


def test_the_first_page_is_read_in_a_minute() -> None:
    assert len((ROOT / "docs" / "index.md").read_text(encoding="utf-8").split()) <= 220
