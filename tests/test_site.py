"""The site is made of the pages as they are, and the README's picture shows what really happens."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_docs import ROOT, steady
from tools import picture, site


def test_the_site_is_made_without_a_warning(tmp_path: Path) -> None:
    words = [sys.executable, str(ROOT / "tools" / "site.py"), "--to", str(tmp_path / "site")]
    made = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    assert "amends" in (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert (tmp_path / "site" / "docs" / "yaml" / "index.html").exists()


def test_the_table_of_contents_is_the_index_page() -> None:
    sections = site.table_of_contents((ROOT / "docs" / "index.md").read_text(encoding="utf-8"))
    assert [title for title, _ in sections] == ["Understand", "Do", "Look up", "Decisions"]
    listed = [path for _, pages in sections for _, path in pages]
    assert len(listed) == len(set(listed))
    pages = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")} - {site.INDEX}
    assert pages - set(listed) == set(), "link these from docs/index.md, in a list under a heading"


def test_the_picture_shows_what_the_saga_of_the_readme_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "TZ", "UTC")
    fresh = picture.text_of(picture.drawn(picture.lines_of_a_run()))
    shown = picture.text_of(picture.PICTURE.read_text(encoding="utf-8"))
    assert steady(shown) == steady(fresh), "if it is right now: python tools/picture.py"
    assert "rolled back" in shown
