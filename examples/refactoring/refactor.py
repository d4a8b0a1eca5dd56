"""A package is refactored by an agent that makes a mistake, and then by one that does not.

    python examples/refactoring/refactor.py

`tree/` is a small package whose functions all live in one module. The work has five steps: analyse, create the
structure, migrate the functions, update the imports, run the tests. In the first run the fourth step fails: the saga
rolls back, the layers are dropped, newest first, and the tree is what it was, to the last byte, mode and time. The
second run passes, and lands. Then agents work at once, each in a saga: what they did to different lines is merged, what
they did to the same is reported, and who met it is rolled back.
"""

from __future__ import annotations

import ast
import asyncio
import json
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from amends import Coordinator, Ended, Fatal, Work, action, saga
from amends.changeset import Files
from amends.core.events import AttemptSucceeded, CompensationSucceeded

TREE = Path(__file__).parent / "tree"
HOMES = {"parse": "parsing", "parse_line": "parsing", "cents": "money", "spelled": "money", "by_category": "reports"}
TESTS = [sys.executable, "-B", "-m", "unittest", "-q", "tests.test_tally"]
NOTES = "refactoring.json"


@action("refactor.analyse")
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


@action("refactor.create")
def create(files: Files) -> None:
    for module, what in (("parsing", "Reading lines."), ("money", "Amounts."), ("reports", "What is shown.")):
        files.write_text(f"tally/{module}.py", f'"""{what}"""\n')


@action("refactor.migrate")
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


@action("refactor.update")
def update(files: Files, *, careless: bool) -> None:
    """Point every import at the new modules; a careless agent mistypes one, and its tests say so."""
    notes = json.loads(files.read_text(NOTES))
    for path in files.glob("**/*.py"):
        lines = files.read_text(path).splitlines(keepends=True)
        changed = [part for line in lines for part in _imports(line, notes)]
        if changed != lines:
            files.write_text(path, "".join(changed))
    files.remove(NOTES)
    if careless:
        test = files.read_text("tests/test_tally.py")
        files.write_text("tests/test_tally.py", test.replace("tally.parsing", "tally.parse"))
        _require_tests(files)


def _imports(line: str, notes: dict[str, dict[str, str]]) -> list[str]:
    before, found, names = line.partition("from tally.tools import ")
    if not found or before:
        return [line]
    return [f"from tally.{notes[name]['module']} import {name}\n" for name in names.strip().split(", ")]


@action("refactor.run_tests", read_only=True)
def run_tests(files: Files) -> None:
    _require_tests(files)


def _require_tests(files: Files) -> None:
    ran = files.run(TESTS, timeout_s=60)
    if not ran.ok:
        raise Fatal(ran.stderr.strip().splitlines()[-1])


@saga("refactor.split")
async def split(s: Work, root: str, careless: bool) -> dict[str, Any]:
    files = s.files(root)
    await s.do(analyse, files)
    await s.do(create, files)
    await s.do(migrate, files)
    await s.do(update, files, careless=careless)
    await s.do(run_tests, files)
    return await s.land(files, "split tools", verify=TESTS)


async def refactor(coordinator: Coordinator, tree: Path, *, careless: bool) -> Ended:
    ended = await coordinator.run(split, str(tree), careless)
    steps: dict[str, str] = {}
    for entry in (await coordinator.show(ended.id)).entries:
        match entry.event:
            case AttemptSucceeded(step=step, layer=layer) if layer:
                steps[step] = layer.partition(":")[0]
                print(f"  layer {steps[step]} sealed by step {step}")
            case CompensationSucceeded(step=step) if step in steps:
                print(f"  layer {steps[step]} dropped with step {step}")
            case _:
                pass
    print(f"  {ended.status}{f': {ended.why}' if ended.why else ''}")
    return ended


def seen(tree: Path) -> dict[str, tuple[object, ...]]:
    """Everything that there is to see of a tree: content, modes, times, empty folders, links."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted([tree, *tree.rglob("*")]):
        about = path.lstat()
        content = str(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(tree))] = (stat.filemode(about.st_mode), about.st_mtime_ns, content)
    return found


@action("refactor.reword")
def reword(files: Files, old: str, new: str) -> None:
    files.write_text("tally/money.py", files.read_text("tally/money.py").replace(old, new))


@saga("refactor.polish")
async def polish(s: Work, root: str, old: str, new: str) -> dict[str, Any]:
    files = s.files(root)
    await s.do(reword, files, old, new)
    await s.wait_for("land")
    return await s.land(files, f"say {new!r}", verify=TESTS)


AGENTS = {
    "ann": ('"""Amounts."""', '"""Amounts, in cents."""'),
    "ben": ("Cents as a person writes them.", "Cents as people write them."),
    "cem": ("Cents as a person writes them.", "Cents as they are written."),
}


async def three_agents(coordinator: Coordinator, tree: Path) -> None:
    """All have done their work before the first one lands."""
    handles = {
        name: await coordinator.start(polish, str(tree), *words, id=name, actor=f"agent:{name}")
        for name, words in AGENTS.items()
    }
    while len(await coordinator.list(status="waiting")) < len(handles):
        await asyncio.sleep(0.02)
    for name, handle in handles.items():
        await coordinator.signal(name, "land")
        ended = await handle
        if ended.status == "completed":
            print(f"  {name}: landed{', merged' if ended.result['merged'] else ''}")
        else:
            report = ended.why.splitlines()
            print(f"  {name}: {ended.status}; {report[0].rpartition(': ')[2]}")
            print(f"    {report[2]}")


async def main(place: Path) -> None:
    tree = place / "tally"
    shutil.copytree(TREE, tree, ignore=shutil.ignore_patterns("__pycache__"))
    (tree / "notes").mkdir()
    (tree / "latest").symlink_to("README.md")
    before = seen(tree)
    async with Coordinator.open(str(place / "amends.db")) as coordinator:
        print("first run:")
        await refactor(coordinator, tree, careless=True)
        print(f"  the tree is what it was: {seen(tree) == before}")
        print("second run:")
        await refactor(coordinator, tree, careless=False)
        done = await asyncio.to_thread(subprocess.run, TESTS, cwd=tree, capture_output=True, check=False)
        modules = sorted(path.name for path in (tree / "tally").glob("*.py"))
        print(f"  its tests pass in the tree: {done.returncode == 0}; modules: {', '.join(modules)}")
        print("three agents on one file:")
        await three_agents(coordinator, tree)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(main(Path(name)))
