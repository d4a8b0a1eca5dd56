"""Draws the pictures of docs/learn/mcp.md: Claude Code in a real terminal, with the contracts file of that page.

.venv.gateway/bin/python -m tests.gateway.pictures
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from tests.gateway.model import Block, calls, model, says
from tests.gateway.support import NODE, ROOT, write
from tests.gateway.test_clients import CLAUDE
from tools.picture import FORMAT

PAGE = ROOT / "docs/learn/mcp.md"
IMAGES = ROOT / "docs/images"
ASKED = "Add eggs to list.txt, and write what we spend into budget.txt."
UNDO = "Undo what you did to the files."
PROMPT = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT} "
WIDTH, HEIGHT = 96, 36
LABELS = {
    "claude-code-calls": "Claude Code calls two tools of a server of files, as ever.",
    "claude-code-undo": "Claude Code calls amends_undo, and both calls are taken back, newest first.",
}


def main() -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as made:
        place = Path(made)
        _prepare(place)
        for name, text in _played(place).items():
            shown = text.replace(str(place), "~").replace("⎿", "└")
            (IMAGES / f"{name}.svg").write_text(_drawn(shown, LABELS[name]), encoding="utf-8")
            sys.stdout.write(f"docs/images/{name}.svg\n")
        sys.stdout.write(
            subprocess.run(["ls", "work"], cwd=place / "notes", capture_output=True, text=True, check=False).stdout
        )


def _prepare(place: Path) -> None:
    found = re.search(r"^```yaml\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert found is not None
    notes, config = place / "notes", place / "config"
    (notes / "work").mkdir(parents=True)
    config.mkdir()
    (notes / "work/list.txt").write_text("buy milk\n")
    write(notes, "contracts.yaml", found[1])
    words = ["-m", "amends", "mcp", "wrap", "--contracts", "contracts.yaml", "--name", "fs", "--"]
    server = ["node", str(NODE / "@modelcontextprotocol/server-filesystem/dist/index.js"), "work"]
    told = {"command": sys.executable, "args": [*words, *server], "env": {"PATH": os.environ["PATH"]}}
    write(notes, ".mcp.json", json.dumps({"mcpServers": {"fs": told}}))
    trusted = {"hasTrustDialogAccepted": True, "enabledMcpjsonServers": ["fs"], "hasCompletedProjectOnboarding": True}
    begun = {"hasCompletedOnboarding": True, "theme": "dark", "customApiKeyResponses": {"approved": ["made-up"]}}
    write(config, ".claude.json", json.dumps({**begun, "projects": {str(notes): trusted}}))
    write(
        config, "settings.json", json.dumps({"permissions": {"allow": ["mcp__fs"]}, "enableAllProjectMcpServers": True})
    )


def _played(place: Path) -> dict[str, str]:
    """What the terminal shows once it has done what it was asked, and once it has undone that."""

    def third(messages: list[Any]) -> Block:
        if UNDO in json.dumps(messages):
            return calls("mcp__fs__amends_undo", all=True)(messages)
        return says("Eggs are on the list, and what we spend is in budget.txt.")(messages)

    turns = (
        calls("mcp__fs__edit_file", path="list.txt", edits=[{"oldText": "buy milk", "newText": "buy milk\nbuy eggs"}]),
        calls("mcp__fs__write_file", path="budget.txt", content="milk 1.20\neggs 2.40\n"),
        third,
        says("Done: list.txt is as it was, and the new file is put aside as budget.txt.undone."),
    )
    tmux = ["tmux", "-L", f"amends-{os.getpid()}"]
    with model(*turns) as (address, _):
        env = {
            "PATH": os.environ["PATH"], "HOME": str(place), "CLAUDE_CONFIG_DIR": str(place / "config"),
            "ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": "made-up", "ENABLE_TOOL_SEARCH": "false",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "DISABLE_TELEMETRY": "1",
            "TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8",
        }  # fmt: skip
        command = [str(CLAUDE), "--verbose", "--permission-mode", "default"]
        told = ["env", "-i", *(f"{name}={value}" for name, value in env.items()), *command]
        size = ["-x", str(WIDTH), "-y", str(HEIGHT), "-c", str(place / "notes")]
        subprocess.run([*tmux, "new-session", "-d", *size, *told], check=True)
        try:
            _wait(tmux, "for shortcuts")
            time.sleep(8)  # it says nowhere that its servers are connected
            calls_shown = _say(tmux, ASKED, "what we spend is in")
            return {"claude-code-calls": calls_shown, "claude-code-undo": _say(tmux, UNDO, "put aside as")}
        finally:
            subprocess.run([*tmux, "kill-server"], check=False)


def _say(tmux: list[str], words: str, until: str) -> str:
    subprocess.run([*tmux, "send-keys", "-l", words], check=True)
    _wait(tmux, words[-12:])
    subprocess.run([*tmux, "send-keys", "Enter"], check=True)
    _wait(tmux, until)
    return _wait(tmux, "for \\d+s")


def _wait(tmux: list[str], until: str) -> str:
    ends, plain = time.monotonic() + 60, ""
    while time.monotonic() < ends:
        plain = subprocess.run([*tmux, "capture-pane", "-p"], capture_output=True, text=True, check=False).stdout
        if re.search(until, plain):
            return subprocess.run(
                [*tmux, "capture-pane", "-p", "-e"], capture_output=True, text=True, check=False
            ).stdout
        time.sleep(0.2)
    raise SystemExit(f"the terminal does not show {until!r}:\n{plain}")


def _drawn(text: str, label: str) -> str:
    """The conversation, without the place where one types."""
    lines = text.splitlines()
    plain = [Text.from_ansi(line).plain for line in lines]
    first = max(n for n, line in enumerate(plain) if line.startswith((PROMPT + UNDO, PROMPT + ASKED)))
    last = max(n for n, line in enumerate(plain) if re.search(r"for \d+s", line))
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for line in lines[first : last - 1]:
        console.print(Text.from_ansi(line), no_wrap=True, overflow="crop", crop=True)
    shown = re.sub(r'aria-label="[^"]*"', f'aria-label="{label}"', FORMAT)
    return console.export_svg(title="Claude Code", code_format=shown, unique_id="amends")


if __name__ == "__main__":
    main()
