"""Drills of tools: an inverse that is exact is proven, and one that only says so is caught."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from amends.gateway.read import parse_contracts
from tests.gateway.support import NODE, ROOT, write

NOTES = """\
version: v1
servers:
  notes:
    command: [x]
    scratch: [{python}, -m, tests.gateway.notes, "${{scratch}}/notes.json"]
    env: [PYTHONPATH]
    readers: [{{tool: everything}}]
tools:
  notes.create:
    compensate: {{tool: delete, args: {{id: "${{result.id}}"}}}}
    try: {{args: {{title: a}}}}
  notes.update:
    before: {{tool: get, args: {{id: "${{args.id}}"}}}}
    compensate: {{tool: update, args: {{id: "${{args.id}}", text: "${{before.text}}"}}}}
    try: {{given: [{{tool: create, args: {{title: a, text: one}}}}], args: {{id: "1", text: two}}}}
  notes.delete:
    before: {{tool: get, args: {{id: "${{args.id}}"}}}}
    compensate: {{tool: create, args: {{title: "${{before.title}}", text: "${{before.text}}"}}}}
    try: {{given: [{{tool: create, args: {{title: a}}}}], args: {{id: "1"}}}}
  notes.publish:
    compensate: {{tool: get, args: {{id: "${{args.id}}"}}}}
    try: {{given: [{{tool: create, args: {{title: a}}}}], args: {{id: "1"}}}}
  notes.grow: {{compensate: {{tool: get, args: {{id: "1"}}}}}}
"""
MEMORY = """\
version: v1
servers:
  memory:
    command: [x]
    scratch: [env, "MEMORY_FILE_PATH=${{scratch}}/m.json", node, {main}]
    readers: [{{tool: read_graph}}]
tools:
  memory.create_entities:
    compensate: {{tool: delete_entities, args: {{entityNames: "${{result.entities[*].name}}"}}}}
    try:
      given: [{{tool: create_entities, args: {{entities: [{{name: a, entityType: x, observations: []}}]}}}}]
      args: {{entities: [{{name: a, entityType: x, observations: []}}, {{name: b, entityType: x, observations: []}}]}}
"""


def drilled(path: Path, text: str, *words: str) -> subprocess.CompletedProcess[str]:
    file = write(path, "gateway.yaml", text)
    asked = [sys.executable, "-m", "amends", "drill", str(file), *words]
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HOME": str(path)}
    return subprocess.run(asked, capture_output=True, text=True, check=False, timeout=120, cwd=path, env=env)


def test_exact_inverses_are_proven_and_the_others_are_named(tmp_path: Path) -> None:
    ended = drilled(tmp_path, NOTES.format(python=json.dumps(sys.executable)))
    said = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in ended.stdout.split("\n") if line.startswith("notes."))
    assert said["notes.create"] == "exact", ended.stdout + ended.stderr
    assert said["notes.update"] == "exact"
    assert said["notes.delete"] == "not exact: notes.everything answers otherwise than before"  # it has another id
    assert said["notes.publish"].startswith("no effect seen")
    assert said["notes.grow"] == "not tried: it has no try: with arguments"
    assert ended.returncode == 1


def test_a_server_that_others_wrote_is_drilled(tmp_path: Path) -> None:
    main = json.dumps(str(NODE / "@modelcontextprotocol/server-memory/dist/index.js"))
    ended = drilled(tmp_path, MEMORY.format(main=main), "--strict")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "1 inverse of 1 proven exact" in ended.stdout


def test_what_the_pages_show_as_contracts_can_be_read() -> None:
    for page in ("docs/look-up/contracts.md", "docs/learn/mcp.md"):
        found = re.findall(r"```yaml\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
        assert found
        for text in found:
            parse_contracts(text, name=page)
