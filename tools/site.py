"""Makes the site: the pages as they are, under a table of contents that is the index of each shelf of docs.

    python tools/site.py [--to DIRECTORY]

The pages link to each other, to the README, the changelog, the decisions and the examples by their paths in this tree,
so that they can be read where they are. The site keeps that layout: nothing is listed twice, and nothing is rewritten
but the state diagrams, which are drawn: a reader needs no script from elsewhere.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.diagrams import with_pictures  # noqa: E402 - found from the root

INDEX = "docs/index.md"
HOME = "README.md"
SHELVES = ("learn", "do", "understand", "look-up")
KEPT = ("docs", "adr", "examples", "README.md", "CHANGELOG.md", "LICENSE")
CONFIG = """\
site_name: amends
site_description: Sagas for AI agents. Every action knows how to make amends.
docs_dir: pages
site_dir: {to}
use_directory_urls: true
strict: true
theme:
  name: material
  font: false
  icon: {{logo: material/undo-variant}}
  palette:
    - media: "(prefers-color-scheme: light)"
      scheme: default
      primary: teal
      toggle: {{icon: material/weather-night, name: Dark}}
    - media: "(prefers-color-scheme: dark)"
      scheme: slate
      primary: teal
      toggle: {{icon: material/weather-sunny, name: Light}}
  features: [navigation.tabs, navigation.sections, navigation.footer, toc.follow, content.code.copy, search.suggest]
plugins: [search]
markdown_extensions:
  - admonition
  - attr_list
  - tables
  - toc:
      permalink: true
      slugify: !!python/object/apply:pymdownx.slugs.slugify
        kwds: {{case: lower}}
  - pymdownx.highlight
  - pymdownx.inlinehilite
  - pymdownx.superfences
validation:
  nav: {{omitted_files: warn, not_found: warn, absolute_links: warn}}
  links: {{not_found: warn, anchors: warn, absolute_links: warn, unrecognized_links: warn}}
nav:
{nav}
"""
_ENTRY = re.compile(r"^(?:-|\d+\.) .*?\[(?P<title>[^\]]+)\]\((?P<path>[^)#]+\.md)\)", re.MULTILINE)


def table_of_contents() -> list[tuple[str, list[tuple[str, str]]]]:
    """The shelves of the documentation, each with the titles and paths of its pages, seen from the root."""
    return [_shelf(ROOT / "docs" / name / "index.md") for name in SHELVES]


def _shelf(index: Path) -> tuple[str, list[tuple[str, str]]]:
    title, _, text = index.read_text(encoding="utf-8").removeprefix("# ").partition("\n")
    pages = [
        (entry["title"].replace("`", ""), (index.parent / entry["path"]).resolve().relative_to(ROOT).as_posix())
        for entry in _ENTRY.finditer(text)
    ]
    return title.strip(), [(title.strip(), index.relative_to(ROOT).as_posix()), *pages]


def nav(sections: list[tuple[str, list[tuple[str, str]]]]) -> str:
    lines = [f"  - Home: [{HOME}, {INDEX}]".replace("[", "\n      - ").replace(", ", "\n      - ").replace("]", "")]
    for title, pages in sections:
        lines.append(f"  - {title}:")
        lines += [f'      - "{name}": {path}' for name, path in pages]
    return "\n".join(lines)


def stage(place: Path, to: Path) -> Path:
    """The pages and their configuration in a directory of their own; the configuration's path."""
    pages = place / "pages"
    pages.mkdir()
    for name in KEPT:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, pages / name, ignore=shutil.ignore_patterns("__pycache__", "*.db*", "README.md"))
        else:
            shutil.copy(source, pages / name)
    for page in (pages / "docs").rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        if "```mermaid" in text:
            page.write_text(with_pictures(text), encoding="utf-8")
    config = place / "mkdocs.yml"
    config.write_text(CONFIG.format(to=to, nav=nav(table_of_contents())), encoding="utf-8")
    return config


def main() -> int:
    asked = argparse.ArgumentParser(description="Make the site.")
    asked.add_argument("--to", type=Path, default=ROOT / "dist" / "site")
    to: Path = asked.parse_args().to.resolve()
    with tempfile.TemporaryDirectory() as place:
        config = stage(Path(place), to)
        words = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--config-file", str(config)]
        ended = subprocess.run(words, check=False, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    if ended.returncode == 0:
        sys.stdout.write(f"the site is in {to}\n")
    return ended.returncode


if __name__ == "__main__":
    sys.exit(main())
