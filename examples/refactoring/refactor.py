"""A package is refactored by an agent that makes a mistake, and then by one that does not.

    python examples/refactoring/refactor.py

`tree/` is a small package whose functions all live in one module. The work has five steps: analyse, create the
structure, migrate the functions, update the imports, run the tests. In the first run the fourth step fails: its layers
are dropped, newest first, and the tree is what it was, to the last byte, mode and time. The second run passes, and
lands. Then agents work at once: what they did to different lines is merged, what they did to the same is reported.
"""

from __future__ import annotations

import ast
import json
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from amends.changeset import Changeset, Conflicted, Files, Landed

TREE = Path(__file__).parent / "tree"
HOMES = {"parse": "parsing", "parse_line": "parsing", "cents": "money", "spelled": "money", "by_category": "reports"}
TESTS = [sys.executable, "-B", "-m", "unittest", "-q", "tests.test_tally"]
NOTES = "refactoring.json"


def analyse(files: Files) -> None:
    """Where each function should live, and which of the others it needs."""
    tree = ast.parse(files.read_text("tally/tools.py"))
    functions = [each for each in tree.body if isinstance(each, ast.FunctionDef)]
    names = {each.name for each in functions}
    found = {
        each.name: {
            "module": HOMES.get(each.name, "reports"),
            "needs": sorted(
                {inner.id for inner in ast.walk(each) if isinstance(inner, ast.Name)} & (names - {each.name})
            ),
        }
        for each in functions
    }
    files.write_text(NOTES, json.dumps(found, indent=2))


def create(files: Files) -> None:
    for module, what in (("parsing", "Reading lines."), ("money", "Amounts."), ("reports", "What is shown.")):
        files.write_text(f"tally/{module}.py", f'"""{what}"""\n')


def migrate(files: Files) -> None:
    """Move each function, with the imports that it needs, and remove the old module."""
    notes = json.loads(files.read_text(NOTES))
    source = files.read_text("tally/tools.py")
    texts = {
        each.name: ast.get_source_segment(source, each) or ""
        for each in ast.parse(source).body
        if isinstance(each, ast.FunctionDef)
    }
    for module in sorted({each["module"] for each in notes.values()}):
        own = [name for name, each in notes.items() if each["module"] == module]
        needed = {
            need: notes[need]["module"]
            for name in own
            for need in notes[name]["needs"]
            if notes[need]["module"] != module
        }
        lines = [f"from tally.{home} import {need}" for need, home in sorted(needed.items())]
        if any("Decimal" in texts[name] for name in own):
            lines.insert(0, "from decimal import Decimal, InvalidOperation")
        head = files.read_text(f"tally/{module}.py") + "".join(f"\n{line}" for line in lines) + "\n" * bool(lines)
        files.write_text(f"tally/{module}.py", head + "".join(f"\n\n{texts[name]}\n" for name in own))
    files.remove("tally/tools.py")


def update(files: Files) -> None:
    """Point every import at the new modules."""
    notes = json.loads(files.read_text(NOTES))
    for path in files.glob("**/*.py"):
        lines = files.read_text(path).splitlines(keepends=True)
        changed = [part for line in lines for part in _imports(line, notes)]
        if changed != lines:
            files.write_text(path, "".join(changed))
    files.remove(NOTES)


def _imports(line: str, notes: dict[str, dict[str, str]]) -> list[str]:
    before, found, names = line.partition("from tally.tools import ")
    if not found or before:
        return [line]
    return [f"from tally.{notes[name]['module']} import {name}\n" for name in names.strip().split(", ")]


def update_and_fail(files: Files) -> None:
    """As above, by an agent that forgets the tests."""
    update(files)
    files.write_text(
        "tests/test_tally.py", files.read_text("tests/test_tally.py").replace("tally.parsing", "tally.parse")
    )
    run_tests(files)


def run_tests(files: Files) -> None:
    ran = files.run(TESTS, timeout_s=60)
    if not ran.ok:
        raise RuntimeError(ran.stderr.strip().splitlines()[-1])


def refactor(tree: Path, steps: list[Callable[[Files], None]]) -> bool:
    """Each step a layer; if one fails, drop them all, newest first. Then land."""
    with Changeset.open(tree, name="split tools") as changeset:
        for step in steps:
            try:
                with changeset.begin(step.__name__) as files:
                    step(files)
            except RuntimeError as exc:
                print(f"  {step.__name__} failed: {exc}")
                for dropped in changeset.rewind(0):
                    print(f"  layer {dropped.number} dropped: {dropped.name}")
                changeset.drop()
                return False
            print(f"  layer {changeset.steps()[-1].number} sealed: {step.__name__}")
        ended = changeset.land(verify=TESTS)
        print(f"  landed: {isinstance(ended, Landed)}")
        return isinstance(ended, Landed)


def seen(tree: Path) -> dict[str, tuple[object, ...]]:
    """Everything that there is to see of a tree: content, modes, times, empty folders, links."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted([tree, *tree.rglob("*")]):
        about = path.lstat()
        content = str(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(tree))] = (stat.filemode(about.st_mode), about.st_mtime_ns, content)
    return found


def two_agents(tree: Path) -> None:
    """Both begin before either lands."""
    agents = [Changeset.open(tree, name=name) for name in ("ann", "ben", "cem")]
    edits = [
        ("ann", '"""Amounts."""', '"""Amounts, in cents."""'),
        ("ben", "Cents as a person writes them.", "Cents as people write them."),
        ("cem", "Cents as a person writes them.", "Cents as they are written."),
    ]
    for agent, (_, old, new) in zip(agents, edits, strict=True):
        with agent.begin("reword") as files:
            files.write_text("tally/money.py", files.read_text("tally/money.py").replace(old, new))
    for agent in agents:
        ended = agent.land(verify=TESTS)
        if isinstance(ended, Conflicted):
            print(f"  {agent.name}: {ended.text().splitlines()[0].partition(': ')[2]}")
            print(*(f"    {line}" for line in ended.text().splitlines()[1:2]), sep="\n")
        elif isinstance(ended, Landed):
            print(f"  {agent.name}: landed{', merged' if ended.merged else ''}")
        agent.close()


def main(place: Path) -> None:
    tree = place / "tally"
    shutil.copytree(TREE, tree, ignore=shutil.ignore_patterns("__pycache__"))
    (tree / "notes").mkdir()
    (tree / "latest").symlink_to("README.md")
    before = seen(tree)
    print("first run:")
    refactor(tree, [analyse, create, migrate, update_and_fail])
    print(f"  the tree is what it was: {seen(tree) == before}")
    print("second run:")
    refactor(tree, [analyse, create, migrate, update, run_tests])
    passed = subprocess.run(TESTS, cwd=tree, capture_output=True, check=False).returncode == 0
    modules = sorted(path.name for path in (tree / "tally").glob("*.py"))
    print(f"  its tests pass in the tree: {passed}; modules: {', '.join(modules)}")
    print("three agents on one file:")
    two_agents(tree)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
