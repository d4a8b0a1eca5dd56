"""The pages say what is true: their Python runs, their commands print what is shown, their links lead somewhere.

The blocks of a page run in order, in one fresh directory and one fresh process:

- ```python runs. Where its first line is a file's name (`# trip.py`), it is written to that file and imported;
- ```yaml is written to the file that its first line names;
- ```output is what the Python above it has printed;
- ```console holds commands after `$ `, each followed by what it prints. `amends`, `python` and `cat` are run. Of
  `make`, the target must exist. The rest sets up a shell and is left alone. Of a shell's own words `NAME=$(cat FILE)`
  before a command, and `> FILE` and `&` behind it are understood: after `&` the next one waits until it says something.

What differs from run to run (times, ids, durations) is not compared; the login name is shown as `you`. To have the
pages show what is printed now:

    python tests/test_docs.py --write
"""

import argparse
import contextlib
import io
import itertools
import json
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from amends.runtime.declare.names import login

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
ELSEWHERE = frozenset({"langchain", "openai-agents", "pydantic-ai", "serve"})
"""Pages about what an extra brings, by their names: they run where it is installed, with its own tests."""
PROSE = [*PAGES, ROOT / "CHANGELOG.md", *sorted((ROOT / "adr").glob("*.md"))]

RUN = frozenset({"amends", "python", "cat"})
LEFT_ALONE = frozenset({".", "cd", "git", "mkdir", "pip"})
FENCES = frozenset({"python", "yaml", "output", "console", "text", "json", "toml", "mermaid"})
PATIENCE_S = 600
KILLED = signal.SIGKILL
READER = "person:you"
"""Who the reader is, where a page shows the login name of whoever runs a command."""


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


# Blocks


@dataclass(frozen=True)
class Block:
    """A fenced block: its tag, its text, and the line of the page that its text begins at."""

    tag: str
    text: str
    line: int

    @property
    def file(self) -> str | None:
        first = re.match(r"# ([\w/-]+\.\w+)\n", self.text)
        return first[1] if first else None


def blocks(page: str) -> Iterator[Block]:
    for found in re.finditer(r"^```(?P<tag>[^\n`]*)\n(?P<text>.*?)^```$", page, re.DOTALL | re.MULTILINE):
        yield Block(found["tag"].strip(), found["text"], page.count("\n", 0, found.start("text")) + 1)


@dataclass
class Command:
    """One line after `$ `, with the settings before it, and what the page says that it prints."""

    line: str
    shown: str

    @property
    def words(self) -> list[str]:
        return shlex.split(self.line.removesuffix(" &").partition(" > ")[0].replace("$(cat ", "$(cat\\ "))

    @property
    def stays(self) -> bool:
        """Whether it runs on while the next commands do."""
        return self.line.endswith(" &")

    @property
    def target(self) -> str | None:
        """The file that gets what it prints."""
        return self.line.partition(" > ")[2] or None

    @property
    def settings(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for word in self.words:
            name, equals, value = word.partition("=")
            if not equals or not name.isidentifier():
                break
            of_file = re.fullmatch(r"\$\(cat (\S+)\)", value)
            found[name] = Path(of_file[1]).read_text(encoding="utf-8").strip() if of_file else value
        return found

    @property
    def call(self) -> list[str]:
        return list(itertools.dropwhile(lambda word: re.match(r"[A-Za-z_]\w*=", word), self.words))


def commands(text: str) -> list[Command]:
    found: list[Command] = []
    for line in text.replace("\\\n", " ").splitlines(keepends=True):
        if line.startswith("$ "):
            found.append(Command(line[2:].strip(), ""))
        elif found:
            found[-1].shown += line
    return found


# What may differ from run to run

VARYING = (
    (r"\b\d\d:\d\d:\d\d\.\d{3}\b", "<time>"),
    (r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?: [+-]\d\d:\d\d)?", "<date>"),
    (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "<moment>"),
    (r"\b\d{4}-\d\d-\d\d\b", "<day>"),
    (r"\b01[0-9a-hjkmnp-tv-z]{24}\b", "<id>"),
    (r"\b[0-9a-f]{32}(?:[0-9a-f]{32})?\b", "<digest>"),
    (r'("(?:at|\w+_at)": )\d{13}', r"\1<ms>"),
    (r"\b\d+(?:\.\d+)? (?:ms|s)\b", "<span>"),
    (r"\b\d+(?:\.\d+)? [MG]B\b", "<size>"),
    (r"\?once=[\w-]+", "?once=<once>"),
    (r"\b\d+ passed in \d+\.\d+s", "<passed>"),
    (r"\b([\w-]+\.md):\d+, in ", r"\1:<line>, in "),  # where on its page a snippet raised something
    (r" *$", ""),
    (r" {2,}", "  "),
)


def steady(text: str) -> str:
    for pattern, word in VARYING:
        text = re.sub(pattern, word, text, flags=re.MULTILINE)
    return text.strip()


# Running a page, in a process of its own


def perform(page: Path, *, into: Path) -> None:
    """Run all blocks here, in the working directory; write down what each shown block should show."""
    sys.path.insert(0, str(Path.cwd()))
    printed: dict[int, str] = {}
    names: dict[str, Any] = {"__name__": "__page__"}
    said = ""
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.tag == "python" and block.file is not None:
            Path(block.file).write_text(block.text, encoding="utf-8")
            module = block.file.removesuffix(".py").replace("/", ".")
            subprocess.run([sys.executable, "-W", "error", "-c", f"import {module}"], check=True, env=environment())
        elif block.tag == "yaml" and block.file is not None:
            Path(block.file).write_text(block.text, encoding="utf-8")
        elif block.tag == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), names)
            said = out.getvalue()
        elif block.tag == "output":
            printed[block.line] = said
        elif block.tag == "console":
            printed[block.line] = "".join(perform_commands(commands(block.text)))
    for one in BEGUN:
        one.terminate()
        one.communicate(timeout=PATIENCE_S)
    into.write_text(json.dumps(printed), encoding="utf-8")


def perform_commands(asked: list[Command]) -> Iterator[str]:
    code = 0
    for command in asked:
        program, *rest = command.call
        yield f"$ {command.line}\n"
        if command.line == "echo $?":
            yield f"{code}\n"
        elif command.stays:
            yield begun(program, rest, environment() | command.settings)
        elif command.target is not None:
            with Path(command.target).open("w", encoding="utf-8") as file:
                call = [sys.executable, *(["-m", "amends"] if program == "amends" else []), *rest]
                env = environment() | command.settings
                code = subprocess.run(call, env=env, stdout=file, stderr=subprocess.DEVNULL, check=True).returncode
        elif program in RUN:
            code, printed = perform_command(program, rest, environment() | command.settings)
            if code == -KILLED and command.shown.endswith("Killed\n"):
                yield command.shown  # how much it printed before is a matter of luck
            else:
                yield printed + "Killed\n" * (code == -KILLED)
        else:
            yield command.shown


BEGUN: list["subprocess.Popen[bytes]"] = []
"""The commands that run on."""
_SAID = 65536


def begun(program: str, words: list[str], env: dict[str, str]) -> str:
    """Start a command that runs on until the page has ended; what it says first, which it says at once."""
    call = [sys.executable, *(["-m", "amends"] if program == "amends" else []), *words]
    started = subprocess.Popen(call, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0)
    BEGUN.append(started)
    assert started.stdout is not None
    said = started.stdout.read(_SAID)
    while select.select([started.stdout], [], [], 0.2)[0] and (more := started.stdout.read(_SAID)):
        said += more
    return said.decode()


def perform_command(program: str, words: list[str], env: dict[str, str]) -> tuple[int, str]:
    """Its exit code, and all that it printed."""
    if program == "amends":
        from tests.cli.zygote import zygote  # where pages are written it is not there to import, and not needed

        place = Path.cwd()
        code, printed, _ = zygote().run(
            tuple(words), place=place, env=env, stdin=b"", patience_s=PATIENCE_S, in_one=True
        )
        return code, printed.decode()
    call = [sys.executable if program == "python" else program, *words]
    ended = subprocess.run(call, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return ended.returncode, ended.stdout


def environment() -> dict[str, str]:
    return os.environ | {"COLUMNS": "80", "NO_COLOR": "1", "TZ": "UTC", "PYTHONPATH": str(Path.cwd())}


def performed(page: Path, place: Path) -> dict[int, str]:
    """What the blocks of a page print, by their lines."""
    answer = place / "printed.json"
    work = place / "work"
    work.mkdir(mode=0o700, exist_ok=True)
    words = [sys.executable, "-W", "error", "-m", "tests.test_docs", "--perform", str(page), "--into", str(answer)]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    ended = subprocess.run(words, cwd=work, env=env, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    if ended.returncode:
        raise AssertionError(f"{named(page)} does not run:\n{ended.stdout}{ended.stderr}")
    found: dict[str, str] = json.loads(answer.read_text(encoding="utf-8"))
    return {int(line): text.replace(login(), READER) for line, text in found.items()}


# Links


def slug(heading: str) -> str:
    plain = re.sub(r"[`*]|\[([^]]*)\]\([^)]*\)", r"\1", heading.strip().lower())
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def without_blocks(page: str) -> str:
    return re.sub(r"^```.*?^```$", "", page, flags=re.DOTALL | re.MULTILINE)


def anchors(page: str) -> set[str]:
    return {slug(found) for found in re.findall(r"^#+ (.+)$", without_blocks(page), re.MULTILINE)}


def links(page: str) -> list[str]:
    found: list[str] = re.findall(r"\]\(([^)\s]+)\)", without_blocks(page))
    return [link for link in found if not re.match(r"\w+:", link)]


def broken(path: Path) -> Iterator[str]:
    page = path.read_text(encoding="utf-8")
    for link in links(page):
        place, _, anchor = link.partition("#")
        target = path if not place else (path.parent / place).resolve()
        if not target.exists():
            yield f"{link} leads nowhere"
        elif anchor and anchor not in anchors(target.read_text(encoding="utf-8")):
            yield f"{link} leads to a page that has no such heading"


# The rules


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem not in ELSEWHERE], ids=named)
def test_what_a_page_shows_is_what_happens(page: Path, tmp_path: Path) -> None:
    show_what_happens(page, tmp_path)


def show_what_happens(page: Path, place: Path) -> None:
    found = performed(page, place)
    shown = {block.line: block.text.replace("\\\n", " ") for block in blocks(page.read_text(encoding="utf-8"))}
    for line, printed in found.items():
        stale = f"{named(page)}:{line} shows something else; if it is right now: python tests/test_docs.py --write"
        assert steady(shown[line]) == steady(printed), stale


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_block_has_a_tag_that_says_what_becomes_of_it(page: Path) -> None:
    assert {block.tag for block in blocks(page.read_text(encoding="utf-8"))} <= FENCES


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_command_is_one_that_there_is(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for block in blocks(page.read_text(encoding="utf-8")):
        for command in commands(block.text) if block.tag == "console" else []:
            program, *rest = command.call
            if program == "make":
                assert re.search(rf"^{rest[0]}:", makefile, re.MULTILINE), command.line
            else:
                assert program in RUN | LEFT_ALONE or command.line == "echo $?", command.line


@pytest.mark.parametrize("page", PROSE, ids=named)
def test_every_link_leads_somewhere(page: Path) -> None:
    assert list(broken(page)) == []


def test_every_page_can_be_reached_from_the_index() -> None:
    first = ROOT / "docs" / "index.md"
    shelves = [page for page in linked(first) if page.name == "index.md"]
    reached = {first, *linked(first), *(page for shelf in shelves for page in linked(shelf))}
    assert [named(page) for page in PROSE if page not in reached] == []


def linked(page: Path) -> set[Path]:
    text = page.read_text(encoding="utf-8")
    return {(page.parent / link.partition("#")[0]).resolve() for link in links(text)}


@pytest.mark.parametrize("page", PROSE, ids=named)
def test_no_page_promises_what_nobody_can_keep(page: Path) -> None:
    words = r"exactly[- ]once|tamper[- ]?proof|guaranteed rollback|distributed lock"
    assert re.findall(words, page.read_text(encoding="utf-8"), re.IGNORECASE) == []


# The rules, tried

PAGE = """
# A page

See [the other](other.md#a-part), [this](#a-page), [outside](https://example.com).

```console
$ NAME=value amends run x:y \\
    --json
printed
$ echo $?
0
```

```python
# file.py
x = 1
```
"""


def test_blocks_are_found_with_their_lines() -> None:
    found = list(blocks(PAGE))
    assert [(block.tag, block.line, block.file) for block in found] == [("console", 7, None), ("python", 15, "file.py")]


def test_a_command_has_its_settings_its_words_and_what_it_prints() -> None:
    first, second = commands(next(blocks(PAGE)).text)
    assert (first.settings, first.call) == ({"NAME": "value"}, ["amends", "run", "x:y", "--json"])
    assert (first.shown, second.shown) == ("printed\n", "0\n")


def test_a_link_to_a_page_or_heading_that_is_not_there_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE, encoding="utf-8")
    assert list(broken(page)) == ["other.md#a-part leads nowhere"]
    (tmp_path / "other.md").write_text("## Another part\n", encoding="utf-8")
    assert list(broken(page)) == ["other.md#a-part leads to a page that has no such heading"]
    (tmp_path / "other.md").write_text("## A `part`\n", encoding="utf-8")
    assert list(broken(page)) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("12:00:00.123  saga", "23:59:59.999  saga"),
        ("saga 01k0000000000000000000000a ended", "saga 01kzzzzzzzzzzzzzzzzzzzzzzz ended"),
        ("removed what 15 entries held, 2026-11-16", "removed what 15 entries held, 2027-01-02"),
        ("lost (again in 579 ms)", "lost (again in 1.2 s)"),
        ("a    b", "a  b   "),
    ],
)
def test_what_differs_from_run_to_run_is_not_compared(one: str, other: str) -> None:
    assert steady(one) == steady(other)


@pytest.mark.parametrize(("one", "other"), [("rolled back", "completed"), ("step 1", "step 2"), ("F-1", "F-2")])
def test_what_is_said_is_compared(one: str, other: str) -> None:
    assert steady(one) != steady(other)


# Bringing the pages up to date


def rewrite(page: Path) -> None:
    with tempfile.TemporaryDirectory() as place:
        found = performed(page, Path(place))
    text = page.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    for block in reversed(list(blocks(text))):
        printed = found.get(block.line)
        if printed is not None and steady(printed) != steady(block.text.replace("\\\n", " ")):
            lines[block.line - 1 : block.line - 1 + block.text.count("\n")] = [printed]
            sys.stdout.write(f"{named(page)}:{block.line} is brought up to date\n")
    page.write_text("".join(lines), encoding="utf-8")


def main() -> None:
    asked = argparse.ArgumentParser()
    asked.add_argument("--perform", type=Path)
    asked.add_argument("--into", type=Path)
    asked.add_argument("--write", nargs="*", type=Path, metavar="PAGE")
    words = asked.parse_args()
    if words.perform is not None:
        perform(words.perform, into=words.into)
    elif words.write is not None:
        for page in words.write or PAGES:
            rewrite(page.resolve())
    else:
        asked.error("say --write")


if __name__ == "__main__":
    main()


def test_every_file_that_the_map_of_the_code_names_is_there() -> None:
    page = (ROOT / "docs" / "understand" / "architecture.md").read_text(encoding="utf-8")
    named_there = set(re.findall(r"`((?:[a-z_0-9]+/)*[a-z_0-9]+(?:\.py|/))`", page)) - {"src/amends/"}
    missing = [name for name in named_there - {"limits.py"} if not (ROOT / "src" / "amends" / name).exists()]
    assert len(named_there) > 30
    assert missing == []
