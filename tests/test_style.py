"""The house rules that no linter knows, held over src/amends; and the proof that each of them can fail.

A rule is a function from a module's source to its complaints. It reads; it never imports what it reads.
"""

import ast
import builtins
import io
import re
import shutil
import subprocess
import sys
import tokenize
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parent.parent

LONGEST_MODULE = 600
LONGEST_FUNCTION = 60
LONGEST_ADAPTER = 150
# Modules of data, which are read by looking something up: a second file for the rest would have to be guessed.
DATA = (
    "src/amends/core/commands.py",
    "src/amends/core/events/__init__.py",
    "src/amends/core/transitions.py",
    "src/amends/errors.py",
)


# Class names that exist twice, and why both are right. Private ones (_…) may be alike: nobody meets them together.
ALIKE = {
    "Approval": "the question as a saga's state holds it, and as users are shown it",
    "Budget": "of a copied tree, which users of changesets set; and of a saga, in its state",
    "CallPerson": "the error that asks for a person, and the effect that calls one",
    "Coordinator": "the one that users hold is the runtime's, with the stores that it opens",
    "Limits": "of a saga, at the root; and of a changeset, in amends.changeset",
    "Rewind": "the command, and the state of what it began",
    "Saga": "the state that a saga's journal adds up to; and what makes a run of Pydantic AI one",
    "Scope": "of a place in a saga's function; and what a caller of a server may do",
    "Step": "as users declare it, and as a saga's state holds it",
    "Summary": "of a changeset, for its users; and of a saga, as journals keep it",
    "Tree": "the verifier that stands alone repeats the journal's on purpose",
    "Trust": "the verifier that stands alone repeats the package's on purpose",
    "TurnBack": "the effect that is due, and the command that carries it out",
    "Wait": "the effect that is due, and the state of what is waited for",
}


def listed(text: str) -> frozenset[str]:
    return frozenset(text.split())


# How no docstring begins: the reader has to solve a riddle before he knows the noun, or look at the neighbour.
RIDDLES = re.compile(r"(?:What|Who|Whoever|Those|The same)\b")

# Banned wherever they stand in the name of a module, a class or a function.
BANNED_WORDS = listed("manager helper helpers util utils service services processor impl")
# Other systems' words: at home in an adapter, where they mean that system's thing.
FOREIGN_WORDS = listed("workflow workflows job jobs activity activities node nodes")
# Banned as what a function does; as nouns (a child process, a handle to await) they may be needed.
BANNED_VERBS = listed("process handle manage")

# Of which words a module's name is made: those of the glossary, and these of the trade.
TRADE_WORDS = listed(
    """
    access adapters address addresses agents ai amends ancestors annotations answers api app append apply asking
    attest background backup backward bearer bootstrap bounded branches built by caller callers cases check checks
    children choices cli clock clocks cloudevents codec command commands compared compatibility completing conditions
    config confining conflicts console contents context control copying core courier couriers covering crash database
    dataclass deadlines decide deciders declare decorators definition delta demo described diff disk displaced doctor
    draft drilling drive driver dry ed effects engine entries environment environments errors events examine
    exceptions exchange executor explain exporting facts families family faults feed fields file files filters
    findings fixture fork forward frontier given globs graph groups hand handle health hidden hints home http ids in
    inputs install json judging keys kinds kinship langchain language late launch library life lines links lists live
    load local lock locks log logbook login logs loop loops main marked mcp memory merge merging metrics misfit model
    modules mortal names net new note notify objects observers observing oidc on openai openapi operate operations
    options os outline output outside overlay overview ownership page pages panel parallel parts passing paths
    patterns peers people plan plans port postgres preview private problems process program programs progress
    projection proof protocol provenance proxy pruning public pydantic queue rates read reader reading reasons rebase
    recompute record records recovery references refusals rehearsal remote remove replay report requests require
    resolving restate results resume retention revert reviewing roles run running runtime sagafile samples scan
    schedule schema seal secrets sequencer serve server servers session settings shapes sharing shell show sign
    signature signing simulation source spans sqlite stack stage standalone starting state store story strict suite
    survey syscalls tables tally target tasks telemetry templates temporal testing text thread threads three timeline
    token tokens tools topics transfer transitions tree trip trust turn types upgrade upstream validate validation
    values verify verifying views visit vocabulary waits walk way ways webhook whiteouts whole work worker workspace
    world writer writes writing yaml
    """
)


def glossary_words() -> frozenset[str]:
    """Every word that the glossary explains, and its plural."""
    rows = re.findall(r"^\| ([^|]+) \|", (ROOT / "docs/look-up/glossary.md").read_text(encoding="utf-8"), re.MULTILINE)
    said = {word for row in rows for word in re.findall(r"[a-z]+", row)}
    return frozenset(said | {f"{word}s" for word in said} | {f"{word[:-1]}ies" for word in said if word.endswith("y")})


MODULE_WORDS = glossary_words() | TRADE_WORDS

UNSAFE_MODULES = listed("pickle marshal shelve dill cloudpickle jsonpickle")
UNSAFE_NAMES = listed(
    """
    eval exec builtins.eval builtins.exec
    yaml.load yaml.load_all yaml.full_load yaml.unsafe_load
    os.system os.popen subprocess.getoutput asyncio.create_subprocess_shell
    """
)


AMBIENT_MODULES = listed("time random secrets uuid")
AMBIENT_NAMES = listed(
    """
    datetime.datetime.now datetime.datetime.utcnow datetime.datetime.today datetime.date.today
    asyncio.sleep os.urandom
    """
)
# What talks to the world. The core imports none of it.
IMPURE_MODULES = AMBIENT_MODULES | listed(
    """
    asyncio concurrent multiprocessing select selectors signal subprocess threading
    http io logging os pathlib shutil socket sqlite3 ssl tempfile urllib
    """
)

# It makes classes and spells values, in C, and does nothing else. The core is pure with it, and slow without.
PURE_GUEST = "msgspec"

# How a comment that silences a tool begins, and what it has to look like up to its reason.
SILENCERS = (
    (r"# *(?:ruff: *|flake8: *)?noqa\b", r"# *(?:ruff: *)?noqa: *[A-Z]+[0-9]+(?:, *[A-Z]+[0-9]+)*"),
    (r"# *type: *ignore\b", r"# *type: *ignore\[[a-z-]+(?:, *[a-z-]+)*\]"),
    (r"# *pyright: *ignore\b", r"# *pyright: *ignore\[\w+(?:, *\w+)*\]"),
    (r"# *pragma:", r"# *pragma: *no (?:cover|branch)"),
)

# A path that exists on one machine only, or the address of a package registry.
PRIVATE = re.compile(
    r"(?<![\w.)}<>~])/(?:root|work)(?![\w-])"
    r"|\b(?:pypi\.org|pythonhosted\.org|npmjs\.(?:org|com)|debian\.org)\b"
    r"|\b(?:index|registry)[-_]url *[=:]",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Import:
    """One imported thing: its absolute name, and what the name that it binds stands for."""

    line: int
    full: str
    bound: str
    meaning: str


@dataclass(frozen=True)
class Source:
    """One Python file: its path below the repository's root, and its text."""

    path: PurePosixPath
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, filename=str(self.path))

    @cached_property
    def comments(self) -> dict[int, str]:
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        return {token.start[0]: token.string for token in tokens if token.type == tokenize.COMMENT}

    @cached_property
    def package(self) -> tuple[str, ...]:
        return self.path.relative_to("src").parent.parts

    @cached_property
    def imports(self) -> tuple[Import, ...]:
        return tuple(self._imports())

    def _imports(self) -> Iterator[Import]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    top = alias.name.partition(".")[0]
                    bound, meaning = (alias.asname, alias.name) if alias.asname else (top, top)
                    yield Import(node.lineno, alias.name, bound, meaning)
            elif isinstance(node, ast.ImportFrom):
                upwards = self.package[: len(self.package) + 1 - node.level] if node.level else ()
                origin = ".".join((*upwards, *filter(None, [node.module])))
                for alias in node.names:
                    full = f"{origin}.{alias.name}"
                    yield Import(node.lineno, full, alias.asname or alias.name, full)

    @cached_property
    def meanings(self) -> dict[str, str]:
        return {each.bound: each.meaning for each in self.imports}

    def spelled_out(self, expression: ast.expr) -> str:
        """A dotted name as it would read if every import were of a whole module under its own name."""
        first, *rest = ast.unparse(expression).split(".")
        return ".".join((self.meanings.get(first, first), *rest))


Rule = Callable[[Source], Iterator[tuple[int, str]]]


@cache
def sources(*trees: str) -> tuple[Source, ...]:
    """Read once, and parsed once: every rule goes through all of them."""
    return tuple(
        Source(PurePosixPath(path.relative_to(ROOT).as_posix()), path.read_text(encoding="utf-8"))
        for tree in trees
        for path in sorted((ROOT / tree).rglob("*.py"))
    )


def complaints(rule: Rule, *trees: str) -> list[str]:
    return [
        f"{source.path}:{line}: {what}" for source in sources(*trees or ("src/amends",)) for line, what in rule(source)
    ]


def has_reason(comment: str) -> bool:
    """Whether two words are left once the tools' own words are taken out."""
    for _, form in SILENCERS:
        comment = re.sub(form, "", comment)
    return len(re.findall(r"[^\W\d_]{2,}|\ba\b", comment)) > 1


# The rules


def without_docstring(source: Source) -> Iterator[tuple[int, str]]:
    if not ast.get_docstring(source.tree):
        yield 1, "opens without a line that says what it is"


def badly_named(source: Source) -> Iterator[tuple[int, str]]:
    foreign = frozenset[str]() if "adapters" in source.package else FOREIGN_WORDS
    own_name = source.package[-1] if source.path.name == "__init__.py" else source.path.stem
    if found := (BANNED_WORDS | foreign).intersection(words(own_name)):
        yield 1, f"the module's name says {', '.join(sorted(found))}"
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first, *_ = said = words(node.name) or [""]
            found = (BANNED_WORDS | foreign).intersection(said)
            if isinstance(node, ast.ClassDef):
                found |= {"base"} & {first}
            else:
                found |= BANNED_VERBS & {first}
                found |= {"do it"} & {" ".join(said)}
                found |= {"async"} & {said[-1]}
            if found:
                yield node.lineno, f"{node.name} says {', '.join(sorted(found))}"


def words(name: str) -> list[str]:
    """The words of an identifier, whether it is snake_case, CamelCase or HTTPCase."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def unsafe(source: Source) -> Iterator[tuple[int, str]]:
    for each in source.imports:
        if each.full.partition(".")[0] in UNSAFE_MODULES:
            yield each.line, f"imports {each.full}, which runs what it reads"
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Name | ast.Attribute) and (name := source.spelled_out(node)) in UNSAFE_NAMES:
            yield node.lineno, f"uses {name}, which runs what it is given"
        elif isinstance(node, ast.keyword) and node.arg == "shell" and not is_false(node.value):
            yield node.lineno, "gives a command to a shell"


def is_false(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is False


def past_the_clock(source: Source) -> Iterator[tuple[int, str]]:
    if source.path == PurePosixPath("src/amends/clock.py"):
        return
    for each in source.imports:
        is_a_kind = each.full == "uuid.UUID"  # a type of values, and no chance
        if each.full.partition(".")[0] in AMBIENT_MODULES and not is_a_kind:
            yield each.line, f"imports {each.full}; time and chance come in by clock.py"
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Name | ast.Attribute) and (name := source.spelled_out(node)) in AMBIENT_NAMES:
            yield node.lineno, f"uses {name}; time and chance come in by clock.py"


def logs_raw(source: Source) -> Iterator[tuple[int, str]]:
    if source.path == PurePosixPath("src/amends/logs.py") or "testing" in source.package:
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Name | ast.Attribute) and source.spelled_out(node) == "logging.getLogger":
            yield node.lineno, "uses logging.getLogger; a logger of logs.py makes the words of others plain"


def cut_anywhere(source: Source) -> Iterator[tuple[int, str]]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and node.attr == "splitlines":
            yield node.lineno, "uses splitlines, which cuts at more than newlines; split at newlines, show the rest"


def impure(source: Source) -> Iterator[tuple[int, str]]:
    if "core" not in source.package and str(source.path) not in ("src/amends/errors.py", "src/amends/dataclass.py"):
        return
    for each in source.imports:
        top = each.full.partition(".")[0]
        at_home = re.match(r"amends\.(core|errors|dataclass)\b", each.full)
        is_pure = top == PURE_GUEST or (top in sys.stdlib_module_names and top not in IMPURE_MODULES)
        if not at_home and not is_pure:
            yield (
                each.line,
                f"imports {each.full}; only msgspec, core, errors, dataclass and what is pure may be",
            )


def catches_all(source: Source) -> Iterator[tuple[int, str]]:
    lines = source.text.splitlines()
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ExceptHandler):
            caught = [node.type] if node.type else None
        elif isinstance(node, ast.Call) and source.spelled_out(node.func) == "contextlib.suppress":
            caught = node.args
        else:
            continue
        if caught is not None and not any(is_everything(each) for each in caught):
            continue
        above = node.lineno - 1
        reasons = [source.comments.get(node.lineno, "")]
        if above and lines[above - 1].lstrip().startswith("#"):
            reasons.append(source.comments[above])
        if not any(has_reason(reason) for reason in reasons):
            yield node.lineno, "catches everything without saying why, on this line or the one before"


def is_everything(caught: ast.expr) -> bool:
    names = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(isinstance(name, ast.Name) and name.id in {"Exception", "BaseException"} for name in names)


def silent(source: Source) -> Iterator[tuple[int, str]]:
    for line, comment in source.comments.items():
        for opening, form in SILENCERS:
            if not re.search(opening, comment, re.IGNORECASE):
                continue
            if not re.search(form, comment):
                yield line, f"silences a tool without naming the code: {comment}"
            elif not has_reason(comment):
                yield line, f"silences a tool without a reason: {comment}"


def holds_state(source: Source) -> Iterator[tuple[int, str]]:
    """A saga's state belongs to its logbook, and moves on while others wait: after an `await` it is asked for anew."""
    for function in ast.walk(source.tree):
        if isinstance(function, ast.AsyncFunctionDef):
            yield from _held_over_an_await(function)
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Assign) and _is_state(node.value):
            kept = [target for target in node.targets if isinstance(target, ast.Attribute)]
            yield from ((one.lineno, f"keeps a saga's state as {ast.unparse(one)}; ask the logbook") for one in kept)


def _held_over_an_await(function: ast.AsyncFunctionDef) -> Iterator[tuple[int, str]]:
    nodes = [node for node in ast.walk(function) if hasattr(node, "lineno")]
    waits = [node.lineno for node in nodes if isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith)]
    for node in nodes:
        if not (isinstance(node, ast.Assign) and _is_state(node.value)):
            continue
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        first = min((line for line in waits if line > node.lineno), default=sys.maxsize)
        for used in nodes:
            if isinstance(used, ast.Name) and used.id in names and used.lineno > first:
                yield used.lineno, f"uses {used.id}, a saga's state from before an await; ask the logbook anew"


def _is_state(value: ast.expr) -> bool:
    whole = ast.unparse(value)
    return whole.endswith("book.saga")


def long_module(source: Source) -> Iterator[tuple[int, str]]:
    if (length := len(source.text.splitlines())) >= LONGEST_MODULE and str(source.path) not in DATA:
        yield length, f"{length} lines; a module stays under {LONGEST_MODULE}"


def long_function(source: Source) -> Iterator[tuple[int, str]]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = lines_of(node) - (lines_of(node.body[0]) if ast.get_docstring(node) else 0)
            if length >= LONGEST_FUNCTION:
                yield (
                    node.lineno,
                    f"{node.name} has {length} lines; a function stays under {LONGEST_FUNCTION}",
                )


def riddle(source: Source) -> Iterator[tuple[int, str]]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            said = ast.get_docstring(node) or ""
            if found := RIDDLES.match(said):
                line = 1 if isinstance(node, ast.Module) else node.lineno
                yield line, f"its docstring begins with {found[0]!r}; begin with a noun or an imperative"


def unheard_of(source: Source) -> Iterator[tuple[int, str]]:
    own_name = source.package[-1] if source.path.name == "__init__.py" else source.path.stem
    if found := set(words(own_name)) - MODULE_WORDS:
        yield 1, f"the module's name says {', '.join(sorted(found))}, which is not among the words of the house"


def alike(found: Iterable[Source]) -> dict[str, list[str]]:
    """The names of classes that more than one module has, with these modules."""
    homes: dict[str, list[str]] = {}
    for source in found:
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(str(source.path))
    return {name: paths for name, paths in homes.items() if len(paths) > 1}


def lines_of(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def misplaced_error(source: Source) -> Iterator[tuple[int, str]]:
    at_home = source.path == PurePosixPath("src/amends/errors.py")
    raisable = {
        name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)
    }
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.ClassDef):
            continue
        bases = [source.spelled_out(base) for base in node.bases]
        if any(base in raisable or base.startswith("amends.errors.") or is_error_name(base) for base in bases):
            raisable.add(node.name)
            if not at_home:
                yield node.lineno, f"{node.name} is an exception; every exception lives in errors.py"
        elif is_error_name(node.name):
            yield node.lineno, f"{node.name} ends in Error and is no exception"


def is_error_name(name: str) -> bool:
    return name.endswith(("Error", "Exception"))


def private(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if found := PRIVATE.search(line):
            yield number, f"names {found[0]}, which means nothing on another machine"


# The rules, held


def test_every_module_opens_with_a_docstring() -> None:
    assert complaints(without_docstring) == []


def test_no_module_class_or_function_has_a_banned_name() -> None:
    assert complaints(badly_named) == []


def test_nothing_unpickles_evaluates_or_asks_a_shell() -> None:
    assert complaints(unsafe) == []


def test_time_and_chance_come_in_only_by_the_clock() -> None:
    assert complaints(past_the_clock) == []


def test_every_logger_makes_the_words_of_others_plain() -> None:
    assert complaints(logs_raw) == []


def test_a_text_is_cut_at_newlines_and_nowhere_else() -> None:
    assert complaints(cut_anywhere) == []


def test_the_core_imports_only_itself_and_what_is_pure() -> None:
    assert complaints(impure) == []


def test_whoever_catches_everything_says_why() -> None:
    assert complaints(catches_all) == []


def test_whoever_silences_a_tool_names_the_code_and_the_reason() -> None:
    assert complaints(silent, "src", "tests", "bench", "examples") == []


def test_nobody_holds_a_sagas_state_over_an_await() -> None:
    assert complaints(holds_state) == []


def test_a_module_stays_under_the_longest() -> None:
    assert complaints(long_module) == []


def test_no_docstring_begins_with_a_riddle() -> None:
    assert complaints(riddle) == []


def test_a_module_is_named_in_words_of_the_glossary_or_of_the_trade() -> None:
    assert complaints(unheard_of) == []
    used = {
        word for source in sources("src/amends") for word in words(source.path.stem) + words(source.path.parent.name)
    }
    assert sorted(TRADE_WORDS - used) == []


def test_no_class_has_the_name_of_another_but_for_a_reason() -> None:
    found = alike(sources("src/amends"))
    assert {name: paths for name, paths in found.items() if name not in ALIKE} == {}
    assert sorted(ALIKE.keys() - found.keys()) == []
    assert {name: paths for name, paths in found.items() if len(paths) > 2} == {}


def test_two_classes_of_one_name_are_seen_and_private_ones_are_not() -> None:
    one = Source(PurePosixPath(CORE), "class Entry: ...\nclass _Line: ...")
    other = Source(PurePosixPath(RUNTIME), "def f():\n    class Entry: ...\nclass _Line: ...")
    assert alike([one, other]) == {"Entry": [CORE, RUNTIME]}
    assert alike([one]) == {}


def test_a_function_fits_in_60_lines() -> None:
    assert complaints(long_function) == []


@pytest.mark.parametrize("framework", ["langchain", "openai", "pydantic"])
def test_what_is_of_one_framework_has_at_most_150_lines_of_code(framework: str) -> None:
    """Without docstrings, comments and empty lines; what all of them share does not count."""
    found = [one for one in sources("src/amends/adapters") if one.path.stem.startswith(framework)]
    assert found
    assert sum(len(lines_of_code(one.text)) for one in found) <= LONGEST_ADAPTER


def lines_of_code(text: str) -> frozenset[int]:
    """The lines on which code begins or goes on."""
    said = [
        one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)
    ]
    quoted = {line for one in said for line in range(one.lineno, (one.end_lineno or one.lineno) + 1)}
    empty = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return frozenset(token.start[0] for token in tokens if token.type not in empty) - quoted


def test_every_exception_lives_in_errors_and_nothing_else_ends_in_error() -> None:
    assert complaints(misplaced_error) == []


def test_no_file_names_a_private_path_or_a_registry() -> None:
    assert [
        f"{path.relative_to(ROOT)}:{line}: {what}"
        for path in project_files()
        for line, what in private(path.read_text(encoding="utf-8", errors="replace"))
    ] == []


def project_files() -> list[Path]:
    """What git tracks or would track; without git, everything that is not hidden or made by a tool."""
    if (git := shutil.which("git")) and (ROOT / ".git").exists():
        command = [git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if listed.returncode == 0:
            return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]
    skipped = re.compile(r"\.(?!ci$|git[ai]|editorconfig)|__pycache__$|dist$")
    return [
        path
        for path in ROOT.rglob("*")
        if path.is_file() and not any(skipped.match(part) for part in path.relative_to(ROOT).parts)
    ]


# The rules, tried

CORE = "src/amends/core/plan.py"
RUNTIME = "src/amends/runtime/drive/executor.py"
CLOCK = "src/amends/clock.py"
ERRORS = "src/amends/errors.py"
ADAPTER = "src/amends/adapters/engine.py"

LONG = "\n    x = 1" * (LONGEST_FUNCTION - 2)


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (without_docstring, CORE, "x = 1"),
        (without_docstring, CORE, ""),
        (without_docstring, CORE, "# a comment\nx = 1"),
        (badly_named, "src/amends/runtime/utils.py", ""),
        (badly_named, "src/amends/job_store/__init__.py", ""),
        (badly_named, RUNTIME, "class SagaManager: ..."),
        (badly_named, RUNTIME, "class BaseJournal: ..."),
        (badly_named, RUNTIME, "class JournalImpl: ..."),
        (badly_named, RUNTIME, "class HTTPService: ..."),
        (badly_named, RUNTIME, "class A:\n    async def process(self): ..."),
        (badly_named, RUNTIME, "def _handle_event(): ..."),
        (badly_named, RUNTIME, "def do_it(): ..."),
        (badly_named, RUNTIME, "def append_async(): ..."),
        (badly_named, RUNTIME, "def start_job(): ..."),
        (badly_named, ADAPTER, "class EngineHelper: ..."),
        (unsafe, RUNTIME, "import pickle"),
        (unsafe, RUNTIME, "from marshal import loads"),
        (unsafe, RUNTIME, "def f():\n    import shelve as s"),
        (unsafe, RUNTIME, "eval('1')"),
        (unsafe, RUNTIME, "exec('1')"),
        (unsafe, "src/amends/dataclass.py", "exec('1')"),
        (unsafe, RUNTIME, "import yaml\nyaml.load(x)"),
        (unsafe, RUNTIME, "from yaml import load as read\nread(x)"),
        (unsafe, RUNTIME, "run(command, shell=True)"),
        (unsafe, RUNTIME, "run(command, shell=asked)"),
        (unsafe, RUNTIME, "import os\nos.system('ls')"),
        (past_the_clock, RUNTIME, "import time"),
        (past_the_clock, RUNTIME, "from random import random"),
        (past_the_clock, RUNTIME, "from uuid import uuid4 as new"),
        (past_the_clock, RUNTIME, "import datetime as d\nd.datetime.now()"),
        (past_the_clock, RUNTIME, "from datetime import datetime\nfactory = datetime.now"),
        (past_the_clock, RUNTIME, "import asyncio.tasks\nasyncio.sleep(1)"),
        (past_the_clock, RUNTIME, "from asyncio import sleep\nsleep(1)"),
        (logs_raw, RUNTIME, "import logging\nlog = logging.getLogger('amends')"),
        (logs_raw, RUNTIME, "from logging import getLogger as get\nlog = get('amends')"),
        (cut_anywhere, RUNTIME, "for line in text.splitlines(): ..."),
        (cut_anywhere, RUNTIME, "lines = map(str.splitlines, texts)"),
        (impure, CORE, "import asyncio"),
        (impure, CORE, "import os.path"),
        (impure, CORE, "import apsw"),
        (impure, CORE, "from amends.clock import Clock"),
        (impure, CORE, "from amends import clock"),
        (impure, CORE, "from .. import clock"),
        (impure, CORE, "from ..clock import Clock"),
        (impure, "src/amends/core/__init__.py", "from ..journal import codec"),
        (impure, ERRORS, "import time"),
        (catches_all, RUNTIME, "try: f()\nexcept Exception: pass"),
        (catches_all, RUNTIME, "try: f()\nexcept: pass"),
        (catches_all, RUNTIME, "try: f()\nexcept (OSError, BaseException) as exc: pass"),
        (catches_all, RUNTIME, "try:\n    f()  # because it may be told\nexcept Exception: pass"),
        (catches_all, RUNTIME, "try: f()\nexcept Exception:  # noqa: BLE001\n    pass"),
        (catches_all, RUNTIME, "from contextlib import suppress\nwith suppress(Exception): f()"),
        (silent, RUNTIME, "x = 1  # noqa"),
        (silent, RUNTIME, "x = 1  # noqa: S311"),
        (silent, RUNTIME, "x = 1  # noqa - it has to be so"),
        (silent, RUNTIME, "# ruff: noqa\n"),
        (silent, RUNTIME, "x = 1  # type: ignore"),
        (silent, RUNTIME, "x = 1  # type: ignore[misc]"),
        (silent, RUNTIME, "x = 1  # type: ignore  # the stubs are wrong"),
        (silent, RUNTIME, "x = 1  # pyright: ignore[reportPrivateUsage]"),
        (silent, RUNTIME, "x = 1  # type: ignore[misc]  # pyright: ignore[reportPrivateUsage]"),
        (silent, RUNTIME, "x = 1  # pragma: no cover"),
        (holds_state, RUNTIME, "async def f(run):\n    saga = run.book.saga\n    await g()\n    saga.head"),
        (holds_state, RUNTIME, "class A:\n    def f(self):\n        self.saga = self.book.saga"),
        (long_module, RUNTIME, "x = 1\n" * LONGEST_MODULE),
        (riddle, CORE, '"""What is done."""'),
        (riddle, CORE, 'class A:\n    """Those that wait."""'),
        (riddle, CORE, 'def f():\n    """The same, whole."""'),
        (unheard_of, "src/amends/runtime/drive/zigzag.py", ""),
        (unheard_of, "src/amends/quirks/__init__.py", ""),
        (long_function, RUNTIME, f"def f():\n    x = 0{LONG}"),
        (long_function, RUNTIME, f"class A:\n async def f():\n    x = 0{LONG}"),
        (misplaced_error, RUNTIME, "class Lost(Exception): ..."),
        (misplaced_error, RUNTIME, "class Lost(KeyError): ..."),
        (misplaced_error, RUNTIME, "from amends import errors\nclass Stop(errors.Fatal): ..."),
        (misplaced_error, RUNTIME, "from ...errors import Fatal as F\nclass Stop(F): ..."),
        (misplaced_error, RUNTIME, "class ParseError: ..."),
        (misplaced_error, ERRORS, "class ParseError: ..."),
    ],
)
def test_a_rule_catches_what_breaks_it(rule: Rule, path: str, text: str) -> None:
    assert list(rule(Source(PurePosixPath(path), text)))


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (without_docstring, CORE, '"""What it is."""'),
        (badly_named, RUNTIME, "class SagaHandle:\n    def kill_process(self): ..."),
        (badly_named, RUNTIME, "def databases(): ...\ndef multitasking(): ...\ndef basement(): ..."),
        (badly_named, RUNTIME, "async def f():\n    task = start()\n    await task"),
        (badly_named, ADAPTER, "class EngineWorkflow:\n    def start_activity(self): ..."),
        (unsafe, RUNTIME, "import yaml\nyaml.safe_load(x)\nrun(command, shell=False)"),
        (unsafe, RUNTIME, "self.exec(x)\nre.compile(x)"),
        (cut_anywhere, RUNTIME, "for line in text.split('\\n'): ..."),
        (past_the_clock, CLOCK, "import time, random, asyncio\nawait_ = asyncio.sleep"),
        (past_the_clock, RUNTIME, "from datetime import datetime, timedelta\nclock.now()\nclock.sleep(1)"),
        (logs_raw, RUNTIME, "from amends.logs import logger\nlog = logger('amends')"),
        (
            impure,
            CORE,
            "from amends.core.events import Event\nfrom amends.errors import Fatal\nimport json, enum",
        ),
        (impure, CORE, "from . import events\nfrom .. import errors\nfrom collections.abc import Mapping"),
        (impure, CORE, "import msgspec\nfrom msgspec import json"),
        (impure, RUNTIME, "import asyncio"),
        (catches_all, RUNTIME, "try: f()\nexcept OSError: pass"),
        (catches_all, RUNTIME, "try: f()\nexcept Exception:  # an observer cannot stop a saga\n    pass"),
        (catches_all, RUNTIME, "try: f()\n# an observer cannot stop a saga\nexcept Exception: pass"),
        (catches_all, RUNTIME, "try: f()\nexcept Exception:  # noqa: BLE001 - it is told below\n    pass"),
        (catches_all, RUNTIME, "from contextlib import suppress\nwith suppress(OSError): f()"),
        (silent, RUNTIME, "x = 1  # noqa: S311 - jitter is no secret"),
        (silent, RUNTIME, "x = 1  # noqa: S311, S608 jitter is no secret"),
        (silent, RUNTIME, "x = 1  # type: ignore[misc]  # the stubs are wrong"),
        (silent, RUNTIME, "x = 1  # pyright: ignore[reportPrivateUsage] - the stubs are wrong"),
        (silent, RUNTIME, "x = '# noqa'"),
        (long_module, RUNTIME, "x = 1\n" * (LONGEST_MODULE - 1)),
        (long_function, RUNTIME, f"def f():{LONG}"),
        (long_function, RUNTIME, f'def f():\n    """One.\n\n    Two."""{LONG}'),
        (misplaced_error, ERRORS, "class AmendsError(Exception): ...\nclass Fatal(AmendsError): ..."),
        (misplaced_error, ERRORS, "class Fatal(Exception): ...\nclass StepError(Fatal): ..."),
        (misplaced_error, RUNTIME, "class Lost: ...\nclass Errors(dict): ..."),
    ],
)
def test_a_rule_lets_pass_what_keeps_it(rule: Rule, path: str, text: str) -> None:
    assert list(rule(Source(PurePosixPath(path), text))) == []


@pytest.mark.parametrize("directory", ["root", "work"])
@pytest.mark.parametrize("frame", ["cd {}", "{}/main", "'{}'", "x={}/y", "{}"])
def test_a_private_path_is_seen(directory: str, frame: str) -> None:
    assert list(private(frame.format("/" + directory)))


@pytest.mark.parametrize("host", [("pypi", "org"), ("files.pythonhosted", "org"), ("registry.npmjs", "org")])
def test_a_registry_is_seen(host: tuple[str, str]) -> None:
    assert list(private(f"https://{'.'.join(host)}/simple"))


@pytest.mark.parametrize(
    "line", ["src/work", "/workers", "/rooted", "</root>", "../work", "{base}/work", "a root / a work"]
)
def test_what_only_looks_like_a_private_path_passes(line: str) -> None:
    assert list(private(line)) == []


# -- cycles: what imports each other can only be read together ---------------------------------------------------------

LARGEST_CYCLE = 4


def imported_modules(modules: dict[str, Source]) -> dict[str, frozenset[str]]:
    """Which modules each imports: at its head, inside a function, or for a checker alone."""
    found: dict[str, frozenset[str]] = {}
    for name, source in modules.items():
        named = (each.full if each.full in modules else each.full.rpartition(".")[0] for each in source.imports)
        found[name] = frozenset(each for each in named if each in modules and each != name)
    return found


def cycles(graph: dict[str, frozenset[str]]) -> list[frozenset[str]]:
    """The sets of modules of which each reaches each: the strongly connected parts of more than one, by Tarjan."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    found: list[frozenset[str]] = []

    def visit(name: str) -> None:
        order[name] = lowest[name] = len(order)
        path.append(name)
        for other in sorted(graph[name]):
            if other not in order:
                visit(other)
            if other in path:
                lowest[name] = min(lowest[name], lowest[other])
        if lowest[name] == order[name]:
            place = path.index(name)
            part, path[place:] = frozenset(path[place:]), []
            found.extend([part] if len(part) > 1 else [])

    for name in sorted(graph):
        if name not in order:
            visit(name)
    return found


def module_name(path: PurePosixPath) -> str:
    return ".".join(path.relative_to("src").with_suffix("").parts).removesuffix(".__init__")


def test_no_import_cycle_is_larger_than_a_reader_can_hold() -> None:
    modules = {module_name(source.path): source for source in sources("src/amends")}
    large = [sorted(part) for part in cycles(imported_modules(modules)) if len(part) > LARGEST_CYCLE]
    assert large == []


def test_a_cycle_is_seen_wherever_its_imports_stand() -> None:
    texts = {
        "src/amends/a.py": "from amends.b import x",
        "src/amends/b.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from amends import c",
        "src/amends/c.py": "def f():\n    import amends.a",
        "src/amends/d.py": "from amends.a import x",
    }
    modules = {module_name(PurePosixPath(path)): Source(PurePosixPath(path), text) for path, text in texts.items()}
    assert cycles(imported_modules(modules)) == [{"amends.a", "amends.b", "amends.c"}]
