"""Starting is fast because little is imported: what a command needs comes in when it runs."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from amends.addresses import open_journal
from amends.clock import SystemClock
from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId
from amends.journal.port.journal import Summary
from amends.testing.journal_suite.samples import started
from tests.cli.shell import PATIENCE_S


def imported(statement: str) -> set[str]:
    """What this statement imports beyond `import amends`, which is next to nothing until a name of it is used."""
    program = f"import sys, amends; before = set(sys.modules); {statement}; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


def test_the_commands_import_nothing_but_click_to_be_known() -> None:
    found = imported("import amends.cli.main")
    assert "click" in found
    ours = {name for name in found if name.startswith("amends.")}
    assert {name for name in ours if not name.startswith("amends.cli")} == {"amends.errors"}
    assert not {name.rpartition(".")[2] for name in ours} & {
        "session",
        "timeline",
        "output",
        "modules",
        "policy",
        "live",
    }
    assert not {name.partition(".")[0] for name in found} & {
        "asyncio",
        "apsw",
        "yaml",
        "rich",
        "pygments",
        "tempfile",
        "subprocess",
        "traceback",
    }


def test_json_needs_no_rich() -> None:
    ask = "import amends.cli.session, amends.cli.show.timeline; amends.cli.session.Output(as_json=True).record('x', {})"
    assert not {name for name in imported(ask) if name.partition(".")[0] in {"rich", "pygments"}}


@pytest.mark.parametrize("module", ["amends", "amends.cli.main", "amends.cli.session", "amends.cli.demo.trip"])
def test_importing_prints_nothing(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"import {module}"], capture_output=True, timeout=PATIENCE_S, check=True
    )
    assert done.stdout + done.stderr == b""


def test_help_costs_little() -> None:
    """CPU time, and the best of a few starts, because the machine has others to serve too."""
    program = (
        "import os, subprocess, sys\n"
        "subprocess.run([sys.executable, '-m', 'amends.cli.main', '--help'], stdout=subprocess.DEVNULL, check=True)\n"
        "print(os.times().children_user + os.times().children_system)\n"
    )
    command = [sys.executable, "-c", program]
    spent_s = [
        float(subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout)
        for _ in range(5)
    ]
    assert min(spent_s) <= 0.150


def test_a_look_at_a_saga_imports_nothing_that_drives_one_and_a_pipe_needs_no_rich(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"

    async def begin() -> None:
        journal = await open_journal(str(path), SystemClock())
        await journal.append(SagaId("s1"), [started()], after=0, summary=Summary(status=SagaStatus.RUNNING))
        await journal.close()

    asyncio.run(begin())
    words = ["saga", "show", "s1", "--journal", str(path)]
    found = imported(f"from amends.cli.main import cli; cli({words!r}, standalone_mode=False)")
    assert "amends.journal.sqlite.journal" in found
    assert not {name for name in found if name.startswith(("amends.runtime", "amends.gate", "amends.bootstrap"))}
    assert not {name.partition(".")[0] for name in found} & {"rich", "yaml", "cryptography", "zipfile", "tempfile"}
