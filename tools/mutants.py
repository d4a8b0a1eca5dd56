"""Plants every small bug that mutmut knows in the core and the gate, and counts what the quick tests notice.

    python tools/mutants.py [GLOB …]          all mutants, or those whose name matches, as amends.core.plan.*
    python tools/mutants.py --sample 600 …    so many of each package, drawn by a fixed seed
    python tools/mutants.py --go-on …         without those that were noticed before, in this tree

mutmut makes the mutants; those that differ only in what type checkers read are left out. It would also run them, with a
pytest of its own for each: hours. Here the tests are collected once, and each mutant is a fork of that: it runs the
tests that reach its function, those first that noticed most like it in the least time, and stops at the first that
fails. All of it happens in a copy of the tree (`make mutants`), because mutants are written where the originals stand.

Exit code 0: of each package at least 90 % are noticed. What survives is in survivors.txt, told as what became of which
line; survivors that tests/mutants.md does not give a reason for are counted, and so are reasons without a survivor.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import fnmatch
import functools
import gc
import json
import os
import random
import re
import resource
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from _pytest.tmpdir import tmppath_result_key
from hypothesis import HealthCheck, Phase, settings
from mutmut.mutation import trampoline
from mutmut.mutation.file_mutation import mutate_file_contents
from mutmut.utils.format_utils import get_mutant_name

PACKAGES = ("core", "gate")
ENOUGH = 0.9
EXAMPLES = 8
SEED = 1
KILLED, SURVIVED, TIMED_OUT, UNREACHED = "killed", "survived", "timed out", "unreached"
KEPT, NOTICED = Path("results.json"), Path("noticed.json")
REASONS = Path("tests/mutants.md")
QUICK_S = 0.25
TESTS = (
    "tests/core",
    "tests/gate",
    *(
        f"tests/runtime/test_{name}.py"
        for name in (
            "approvals",
            "graphs",
            "hold",
            "limits",
            "pausing",
            "rewind",
            "sourcing",
            "verifying",
            "waiting",
        )
    ),
    "--ignore=tests/core/test_cost.py",
    "--ignore=tests/core/test_mutants.py",
    "--ignore=tests/gate/test_hostile.py",
    "--ignore=tests/gate/test_in_use.py",
    "--deselect=tests/core/test_walks.py::test_fifteen_hundred_seeded_walks_do_too",
    "--deselect=tests/core/test_walks.py::test_the_walks_come_to_every_place_in_the_tables",
)


# -- making them ------------------------------------------------------------------------------------------------------


def planted(path: Path) -> list[str]:
    """Write all mutants of a module into it, beside the original functions; the names of those that do otherwise."""
    names = path.with_suffix(".names")
    if not names.exists():
        source = path.read_text(encoding="utf-8")
        made = mutate_file_contents(str(path), source)
        path.with_suffix(".orig").write_text(source, encoding="utf-8")
        path.write_text(made.code, encoding="utf-8")
        said = meanings_of(path)
        differing = [name for name in made.mutant_names if said[name] != said[f"{function_of(name)}__mutmut_orig"]]
        names.write_text(json.dumps([get_mutant_name(path, name) for name in differing]), encoding="utf-8")
    return cast("list[str]", json.loads(names.read_text(encoding="utf-8")))


class Untyped(ast.NodeTransformer):
    """Without what only type checkers read: the type in a cast, and the case that cannot be."""

    def visit_Call(self, node: ast.Call) -> ast.AST:  # ast calls it so
        self.generic_visit(node)
        called = node.func.id if isinstance(node.func, ast.Name) else ""
        if called in {"cast", "assert_never"}:
            node.args = node.args[-1:] if called == "cast" else []
        return node

    def visit_Match(self, node: ast.Match) -> ast.AST:
        self.generic_visit(node)
        node.cases = [case for case in node.cases if not ast.unparse(case.body[0]).startswith("assert_never(")]
        return node


def meanings_of(path: Path) -> dict[str, str]:
    """What each function does when it runs, by its name."""
    found: dict[str, str] = {}
    for each in ast.walk(Untyped().visit(ast.parse(path.read_text(encoding="utf-8")))):
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and "__mutmut_" in each.name:
            found[each.name] = "\n".join(map(ast.dump, (each.args, *each.body)))
    return found


def plant() -> dict[str, list[str]]:
    paths = [path for package in PACKAGES for path in sorted(Path("src/amends", package).glob("*.py"))]
    with ProcessPoolExecutor(2) as pool:
        return dict(zip(map(str, paths), pool.map(planted, paths), strict=True))


def drawn(names: Sequence[str], globs: Sequence[str], sample: int | None) -> list[str]:
    wanted = [name for name in names if not globs or any(fnmatch.fnmatchcase(name, glob) for glob in globs)]
    if sample is None:
        return wanted
    packages = {name.split(".")[1] for name in wanted}
    chosen: set[str] = set()
    for package in sorted(packages):
        of_it = [name for name in wanted if name.split(".")[1] == package]
        chosen.update(random.Random(SEED).sample(of_it, min(sample, len(of_it))))
    return [name for name in wanted if name in chosen]


# -- trying them ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Place:
    """A function that has mutants: the one of them that runs, at first the original."""

    runs: Callable[..., Any]
    mutants: dict[str, Callable[..., Any]]


UNSETTLED: list[Place] = []
PLACES: dict[str, Place] = {}


def at_its_place(mutants: dict[str, Callable[..., Any]], is_classmethod: bool = False) -> Callable[..., Any]:
    """In place of mutmut's decorator, which asks the environment at each call who is to run."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        place = Place(function, mutants)
        UNSETTLED.append(place)
        if is_classmethod:

            @functools.wraps(function)
            def chosen(cls: type, *args: Any, **kwargs: Any) -> Any:
                return getattr(cls, place.runs.__name__)(*args, **kwargs)

        else:

            @functools.wraps(function)
            def chosen(*args: Any, **kwargs: Any) -> Any:
                return place.runs(*args, **kwargs)

        return chosen

    return decorate


def settle_places() -> None:
    """The mutants of a function stand behind it, so they can be had only when its module has been read."""
    for place in UNSETTLED:
        original = place.runs = place.mutants["_mutmut_orig"]
        PLACES[f"{original.__module__}.{function_of(original.__name__)}"] = place


@dataclass
class Reach:
    """What a clean run says of each test: which functions it reaches, and what it costs."""

    cost_s: list[float]
    of: dict[str, list[int]]


@dataclass
class Trial:
    """One mutant in a process of its own."""

    name: str
    pipe: int


@dataclass(eq=False)  # pytest keeps its plugins in a set
class Loop:
    """In place of pytest's loop over the tests: a loop over the mutants, each with the tests that reach it."""

    names: Sequence[str]
    at_once: int = 2
    results: dict[str, str] = field(default_factory=dict[str, str])
    noticed_by: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    blind: bool = False

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = session.items
        settle_places()
        for item in items:
            hasten(item)
        reach = measured(items)
        if reach is None:
            self.blind = True
            return True
        todo = random.Random(SEED).sample(self.names, len(self.names))  # so that a part of a run is a fair sample
        print(f"{len(items)} tests, {sum(reach.cost_s):.1f} s of CPU for all; {len(todo)} mutants", flush=True)
        self.remember(items)
        running: dict[int, Trial] = {}
        told = time.monotonic()
        gc.collect()
        gc.freeze()
        for name in [name for name in todo if name not in self.results]:
            while len(running) >= self.at_once:
                self.reap(running)
            if tests := reach.of.get(function_of(name)):
                self.start(items, reach, name, tests, running)
            else:
                self.results[name] = UNREACHED
            if time.monotonic() - told > 15:
                told = time.monotonic()
                print(f"{len(self.results)} of {len(todo)}: {dict(Counter(self.results.values()))}", flush=True)
                keep(KEPT, self.results)
                keep(NOTICED, self.noticed(items))
        while running:
            self.reap(running)
        return True

    def noticed(self, items: list[pytest.Item]) -> dict[str, dict[str, int]]:
        return {group: {items[i].nodeid: n for i, n in by.items()} for group, by in self.noticed_by.items()}

    def remember(self, items: list[pytest.Item]) -> None:
        """Which tests an earlier run in this tree had to thank for what."""
        number = {item.nodeid: i for i, item in enumerate(items)}
        for group, by in kept(NOTICED).items():
            self.noticed_by[group].update({number[test]: n for test, n in by.items() if test in number})

    def start(
        self, items: list[pytest.Item], reach: Reach, name: str, tests: list[int], running: dict[int, Trial]
    ) -> None:
        order = self.ordered(reach, name, tests)
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.close(reader)
                confine()
                place = PLACES[function_of(name)]
                place.runs = place.mutants[name.rpartition(".")[2]]
                first = next((i for i in order if fails_soon(items[i], reach.cost_s[i])), None)
                if first is not None:
                    os.write(writer, str(first).encode())
                os._exit(first is not None)
            finally:
                os._exit(3)
        os.close(writer)
        running[pid] = Trial(name, reader)

    def ordered(self, reach: Reach, name: str, tests: list[int]) -> list[int]:
        """First what is likely to notice it soon: by what it has noticed before, in this function and this module."""
        siblings, module = self.noticed_by[function_of(name)], self.noticed_by[module_of(name)]
        return sorted(tests, key=lambda i: -(20 * siblings[i] + module[i] + 0.1) / (0.001 + reach.cost_s[i]))

    def reap(self, running: dict[int, Trial]) -> None:
        pid, status = os.wait()
        trial = running.pop(pid)
        with os.fdopen(trial.pipe, "rb") as pipe:
            noticed = pipe.read()
        if noticed:
            for group in (function_of(trial.name), module_of(trial.name)):
                self.noticed_by[group][int(noticed)] += 1
        code = os.waitstatus_to_exitcode(status)
        slow = code in {-signal.SIGPROF, -signal.SIGALRM, -signal.SIGKILL}
        if code not in {0, 1} and not slow:
            print(f"{trial.name} ended with {code}", flush=True)
        self.results[trial.name] = TIMED_OUT if slow else KILLED if code else SURVIVED


def confine() -> None:
    """A mutant may eat all memory, or wait for ever."""
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    for each in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(each, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        os.dup2(nothing, stream)


def fails_soon(item: pytest.Item, cost_s: float) -> bool:
    """The same within a time, many times what the test takes without a mutant: a mutant may go round for ever."""
    signal.setitimer(signal.ITIMER_PROF, 2 + 20 * cost_s)
    signal.alarm(120)
    return fails(item)


def fails(item: pytest.Item) -> bool:
    """Run a test with its fixtures, and without the hooks that would tell how it went."""
    item.stash[tmppath_result_key] = {}  # tmp_path asks there, and one of those hooks would have said
    state = item.session._setupstate
    try:
        item._initrequest()
        state.setup(item)
        try:
            item.runtest()
        finally:
            state.teardown_exact(None)
    except pytest.skip.Exception:
        return False
    except BaseException:  # noqa: BLE001  # whatever it is, the test has noticed
        return True
    return False


def hasten(item: pytest.Item) -> None:
    """A property is tried on a few examples, the same ones each time, and not shrunk."""
    tried = getattr(item, "obj", None)
    known = getattr(tried, "_hypothesis_internal_use_settings", None)
    if known is not None:
        tried._hypothesis_internal_use_settings = settings(  # hypothesis has no other way
            known,
            max_examples=min(EXAMPLES, known.max_examples),
            derandomize=True,
            database=None,
            deadline=None,
            phases=(Phase.explicit, Phase.generate),
            suppress_health_check=list(HealthCheck),
        )


def measured(items: list[pytest.Item]) -> Reach | None:
    """A clean run, in a fork: what it leaves in caches must not hide a mutant from the tests."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        try:
            with os.fdopen(writer, "w") as pipe:
                json.dump(reached(items), pipe)
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        told = json.load(pipe)
    os.waitpid(pid, 0)
    if told["failed"]:
        print("these fail without any mutant:", *told["failed"], sep="\n  ")
        return None
    cost_s: list[float] = told["cost_s"]
    of = {name: [i for i in tests if cost_s[i] <= QUICK_S] for name, tests in told["of"].items()}
    return Reach(cost_s, of)


def reached(items: list[pytest.Item]) -> dict[str, object]:
    hits: set[str] = set()

    def noting(name: str, place: Place) -> Callable[..., Any]:
        original = place.runs

        @functools.wraps(original)
        def noted(*args: Any, **kwargs: Any) -> Any:
            hits.add(name)
            return original(*args, **kwargs)

        return noted

    for name, place in PLACES.items():
        place.runs = noting(name, place)
    cost_s: list[float] = []
    of: dict[str, list[int]] = defaultdict(list)
    failed: list[str] = []
    for number, item in enumerate(items):
        hits.clear()
        since = time.process_time()
        if fails(item):
            failed.append(item.nodeid)
        cost_s.append(time.process_time() - since)
        for name in hits:
            of[name].append(number)
    return {"cost_s": cost_s, "of": of, "failed": failed}


# -- telling ----------------------------------------------------------------------------------------------------------


def function_of(name: str) -> str:
    return name.rpartition("__mutmut_")[0]


def module_of(name: str) -> str:
    return name.rpartition(".")[0]


def keep(path: Path, told: object) -> None:
    path.write_text(json.dumps(told, indent=0, sort_keys=True), encoding="utf-8")


def kept(path: Path) -> dict[str, Any]:
    return cast("dict[str, Any]", json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def change_of(bodies: dict[str, list[str]], name: str) -> tuple[str, str]:
    """Which function, and what became of which line: a name that holds when other mutants come and go."""
    short = name.rpartition(".")[2]
    function = short.rpartition("__mutmut_")[0]
    said = function[2:] if function.startswith("x_") else ".".join(function[2:].split("ǁ"))
    old, new = bodies[f"{function}__mutmut_orig"], bodies[short]
    gone, come = [], []
    for line in difflib.ndiff(old, new):
        if line.startswith("- "):
            gone.append(line[2:].strip())
        elif line.startswith("+ "):
            come.append(line[2:].strip())
    return f"{'/'.join(name.split('.')[1:3])}.py {said}", f"`{' '.join(gone)}` → `{' '.join(come)}`"


def bodies_of(path: Path) -> dict[str, list[str]]:
    """The lines of each function after its signature, which has the mutant's name in it."""
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    found = {}
    for each in ast.walk(ast.parse(source)):
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and "__mutmut_" in each.name:
            head = " ".join(line.strip() for line in lines[each.lineno - 1 : each.body[0].lineno - 1])
            head = re.sub(r"def .*?\(", "def (", head, count=1)
            found[each.name] = [head, *lines[each.body[0].lineno - 1 : each.end_lineno]]
    return found


def survivors(made: dict[str, list[str]], results: dict[str, str]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for path, names in made.items():
        left = [name for name in names if results.get(name) in {SURVIVED, UNREACHED}]
        bodies = bodies_of(Path(path)) if left else {}
        found += [change_of(bodies, name) for name in left]
    return found


def tell(made: dict[str, list[str]], results: dict[str, str]) -> bool:
    """The summary; whether enough was noticed."""
    enough = True
    for package in PACKAGES:
        all_of_it = [name for path, names in made.items() if f"/{package}/" in path for name in names]
        tried = Counter(results[name] for name in all_of_it if name in results)
        if not tried:
            continue
        noticed, ran = tried[KILLED] + tried[TIMED_OUT], tried.total()
        enough = enough and noticed >= ENOUGH * ran
        print(
            f"{package}: {ran:,} of {len(all_of_it):,} mutants: {noticed:,} killed ({noticed / ran:.1%}),"
            f" {tried[TIMED_OUT]:,} of them by going on for ever; {tried[SURVIVED]:,} survived,"
            f" {tried[UNREACHED]:,} not reached by a quick test, {len(all_of_it) - ran:,} not run"
        )
    left = survivors(made, results)
    Path("survivors.txt").write_text("".join(f"{where}: {change}\n" for where, change in left), encoding="utf-8")
    compare(left, whole=len(results) == sum(map(len, made.values())))
    return enough


def compare(left: Iterable[tuple[str, str]], *, whole: bool) -> None:
    """Hold the survivors against those that the page gives a reason for."""
    page = REASONS.read_text(encoding="utf-8") if REASONS.exists() else ""
    listed = Counter(re.findall(r"^- (\S+ \S+: .*)$", page, flags=re.MULTILINE))
    found = Counter(f"{where}: {change}" for where, change in left)
    if new := found - listed:
        print(f"without a reason in {REASONS}:", *sorted(new.elements()), sep="\n  ")
    if whole and (old := listed - found):
        print(f"in {REASONS}, and no survivor:", *sorted(old.elements()), sep="\n  ")


def main() -> int:
    asked = argparse.ArgumentParser(description="Plant bugs in the core and the gate, and count what is noticed.")
    asked.add_argument("globs", nargs="*")
    asked.add_argument("--sample", type=int)
    asked.add_argument("--go-on", action="store_true", help="leave out what was noticed by an earlier run in this tree")
    asked.add_argument("--tests", type=str.split, default=list(TESTS), help="for pytest, in one word; the quick ones")
    given = asked.parse_args()
    sys.path[:0] = [str(Path("src").resolve()), str(Path.cwd())]
    made = plant()
    names = drawn([name for of_one in made.values() for name in of_one], given.globs, given.sample)
    if not names:
        print("no mutant has such a name")
        return 2
    known: dict[str, str] = kept(KEPT) if given.go_on else {}
    loop = Loop(names, results={name: known[name] for name in names if known.get(name) in {KILLED, TIMED_OUT}})
    trampoline.wrap_in_trampoline = at_its_place
    options = ["-q", "-s", "-p", "no:cacheprovider", "-o", "tmp_path_retention_policy=none", "-W", "ignore"]
    code = pytest.main([*options, *given.tests], plugins=[loop])
    if loop.blind or code not in {0, 5}:
        return 2
    keep(KEPT, loop.results)
    return 0 if tell(made, loop.results) else 1


if __name__ == "__main__":
    sys.exit(main())
