"""Draws the README's timeline: runs the saga that the README shows, and makes an SVG of what the journal then has.

python tools/picture.py
"""

import asyncio
import html
import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from amends.addresses import open_journal
from amends.cli.show.timeline import line_parts
from amends.clock import SystemClock
from amends.core.words.values import SagaId
from amends.evidence.story.timeline import Line, timeline

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
PICTURE = ROOT / "docs" / "images" / "timeline.svg"
GIVEN = '{"to": "Lisbon", "cents": 90000}'
WIDTH = 104
FORMAT = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img"
 aria-label="A saga books a flight and a hotel, fails to charge, and takes both back, newest first.">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
 font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def shown_code() -> str:
    """The module that the README shows."""
    found = re.search(
        r"^```python\n(# trip\.py\n.*?)^```$", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    if found is None:
        raise SystemExit("the README shows no trip.py")
    return found[1]


def lines_of_a_run() -> tuple[Line, ...]:
    """Run the README's saga in a process of its own, and read what is on record."""
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "trip.py").write_text(shown_code(), encoding="utf-8")
        words = [sys.executable, "-m", "amends.cli.main", "run", "trip:book_trip", "--input", GIVEN, "--id", "trip-1"]
        words += ["--actor", "person:you"]  # as the pages show the login name of whoever runs a command
        subprocess.run(words, cwd=place, check=False, stdout=subprocess.DEVNULL)
        return asyncio.run(_read(str(Path(place) / "amends.db")))


async def _read(address: str) -> tuple[Line, ...]:
    journal = await open_journal(address, SystemClock(), signs=False)
    try:
        return timeline([entry async for entry in journal.read(SagaId("trip-1"))])
    finally:
        await journal.close()


def drawn(lines: tuple[Line, ...]) -> str:
    console = Console(
        record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor", highlight=False
    )
    for line in lines:
        lead, what = line_parts(line)
        console.print(Text.assemble(*lead, what), no_wrap=True, overflow="ellipsis", crop=True)
    return console.export_svg(title="amends run trip:book_trip", code_format=FORMAT, unique_id="amends")


def text_of(svg: str) -> str:
    """The letters of a picture, a line each."""
    rows: dict[float, list[str]] = {}
    for y, letters in re.findall(r'<text class="amends-r\d+" x="[\d.]+" y="([\d.]+)"[^>]*>([^<]*)</text>', svg):
        rows.setdefault(float(y), []).append(html.unescape(letters).replace("\xa0", " "))
    return "\n".join("".join(rows[y]).rstrip() for y in sorted(rows))


def main() -> None:
    os.environ["TZ"] = "UTC"
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(drawn(lines_of_a_run()), encoding="utf-8")
    sys.stdout.write(f"{PICTURE.relative_to(ROOT)}\n{text_of(PICTURE.read_text(encoding='utf-8'))}\n")


if __name__ == "__main__":
    main()
