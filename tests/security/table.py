"""The table of what is defended, made from the tests of this folder: their files, headings, names and first lines.

A file is an attacker, a comment `# -- subject ---` begins a subject, a test's name says what holds, and the first line
of its docstring says what is tried.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = Path(__file__).resolve().parent
ATTACKERS: Final = {
    "test_the_agent.py": "The agent",
    "test_the_colleague.py": "A colleague on the same machine",
    "test_hostile_input.py": "Hostile input",
    "test_the_clock.py": "The clock",
    "test_proved_names.py": "Whoever has the journal's file and its key, and no person's",
    "test_forged_limits.py": "Whoever raises limits in somebody's name, with the file and its key",
}
PAGES: Final = (ROOT / "SECURITY.md", ROOT / "docs" / "understand" / "security.md")
_HEADING: Final = re.compile(r"# -- (.+?) -*$")
_TABLE: Final = re.compile(r"(<!-- attacks -->\n).*?(<!-- end of attacks -->)", re.DOTALL)
_COUNT: Final = re.compile(r"(<!-- count -->).*?(<!-- end of count -->)", re.DOTALL)
_NAMED: Final = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


@dataclass(frozen=True)
class Attack:
    """One test: who attacks, on what subject, what is tried, and by its name what holds."""

    file: str
    subject: str
    name: str
    tries: str

    @property
    def holds(self) -> str:
        return self.name.removeprefix("test_").replace("_", " ")


def attacks() -> list[Attack]:
    """All of them, in the order of the files and of the lines in them."""
    others = sorted(path.name for path in FOLDER.glob("test_*.py") if path.name not in ATTACKERS)
    return [attack for name in (*ATTACKERS, *others) for attack in _in(FOLDER / name)]


def _in(path: Path) -> Iterator[Attack]:
    source = path.read_text(encoding="utf-8")
    headings = {
        number: found[1] for number, line in enumerate(source.splitlines(), 1) if (found := _HEADING.match(line))
    }
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            before = [number for number in headings if number < node.lineno]
            subject = headings[max(before)] if before else ""
            tries = (ast.get_docstring(node) or "").partition("\n\n")[0]
            yield Attack(path.name, subject, node.name, " ".join(tries.split()))


def filled(page: str) -> str:
    """A page with the table, and the count, as the tests are now."""
    found = attacks()
    page = _TABLE.sub(lambda place: f"{place[1]}{table(found)}{place[2]}", page)
    return _COUNT.sub(lambda place: f"{place[1]}{len(found)}{place[2]}", page)


def table(found: list[Attack]) -> str:
    """A part for each attacker, a table for each subject, a row for each test."""
    lines: list[str] = []
    file, subject = "", ""
    for attack in found:
        if attack.file != file:
            file, subject = attack.file, ""
            lines += ["", f"### {ATTACKERS.get(file, file)}", "", f"[tests/security/{file}](tests/security/{file})"]
        if attack.subject != subject or lines[-1].startswith("["):
            subject = attack.subject
            title = subject[:1].upper() + subject[1:]
            lines += ["", f"**{title}**" if title else "", "", "| what is tried | what holds: the test |", "|---|---|"]
        tries = attack.tries.replace("|", r"\|") or "–"
        lines.append(f"| {tries} | `{attack.name}` |")
    return "\n".join([*lines, "", ""])


def named_elsewhere(page: str) -> list[tuple[str, str]]:
    """The tests of other folders that a page names, each with its file."""
    return _NAMED.findall(page)


def is_there(file: str, name: str) -> bool:
    path = ROOT / file
    if not path.is_file():
        return False
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return any(node.name == name for node in functions)
