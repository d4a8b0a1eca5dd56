"""A project with its journal in it: an agent works on the whole of it, and cannot harm the journal."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.shell import Said, Shell

SAGA = """
version: v1
saga: tidy
files: {root: ., land: tidy up}
steps:
  - id: look
    shell: ls -A; env
    files: true
  - id: tidy
    shell: %s
    files: true
"""


def tidied(shell: Shell, id: str, text: str) -> Said:
    (shell.place / "tidy.yaml").write_text(SAGA % json.dumps(text), encoding="utf-8")
    return shell("run", "tidy.yaml", "--id", id, BANK_TOKEN="dont-show")


def test_an_agent_tidies_a_project_up_and_its_journal_is_none_of_its_business(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    (tmp_path / "old.txt").write_text("old\n", encoding="utf-8")
    good = tidied(shell, "good", "rm -f old.txt amends.db* && echo new > new.txt")
    assert good.code == 0, good
    assert "succeeded (confined)" in good.out
    assert not [word for word in ("dont-show", "amends.db.key") if word in good.out + good.err]
    assert ((tmp_path / "new.txt").exists(), (tmp_path / "old.txt").exists()) == (True, False)

    bad = tidied(shell, "bad", "echo junk > amends.db")
    assert bad.code != 0
    assert "amends.db is a journal of amends, which is not part of the work" in bad.out + bad.err

    listed = shell("saga", "list", "--json").of_type("saga")
    assert {row["id"]: row["status"] for row in listed} == {"good": "completed", "bad": "rolled_back"}
    assert shell("evidence", "verify").code == 0
    assert [each["name"] for each in shell("doctor", "--json").of_type("check")].count("confine") == 1
