"""Starting is fast because little is imported: what a command needs comes in when it runs."""

import subprocess
import sys

import pytest

from tests.cli.shell import PATIENCE_S


def imported(statement: str) -> set[str]:
    """What this statement imports beyond `import amends`."""
    program = f"import sys, amends; before = set(sys.modules); {statement}; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


def test_the_commands_import_nothing_but_click_to_be_known() -> None:
    found = imported("import amends.cli.main")
    assert "click" in found
    assert {name for name in found if name.startswith("amends.")} == {
        "amends.cli",
        "amends.cli.approval",
        "amends.cli.changeset",
        "amends.cli.demo",
        "amends.cli.drill",
        "amends.cli.evidence",
        "amends.cli.incident",
        "amends.cli.main",
        "amends.cli.notify",
        "amends.cli.options",
        "amends.cli.policy",
        "amends.cli.run",
        "amends.cli.saga",
        "amends.cli.schema",
        "amends.cli.work",
    }
    assert not {name.partition(".")[0] for name in found} & {"rich", "pygments", "tempfile", "subprocess", "traceback"}


def test_json_needs_no_rich() -> None:
    ask = "import amends.cli.session, amends.cli.looks; amends.cli.session.Output(as_json=True).record('x', {})"
    assert not {name for name in imported(ask) if name.partition(".")[0] in {"rich", "pygments"}}


@pytest.mark.parametrize("module", ["amends", "amends.cli.main", "amends.cli.session", "amends.cli.demo_trip"])
def test_importing_prints_nothing(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"import {module}"], capture_output=True, timeout=PATIENCE_S, check=True
    )
    assert done.stdout + done.stderr == b""
