"""Records of commands and changesets, as a person would write them: a command's words, what it printed, what landed.

It goes by the shape alone: {"run" or "shell", "using"} is a command, {"exit", "stdout"} is how one ended;
{"changed_files", "changed_lines"} is what would land, {"landed", "applied"} is what did; {"child", "branch"} is whose
branch is merged, {"layer", "applied"} is what came of that.
"""

from __future__ import annotations

import shlex
from typing import Final

from amends.core.words.values import Json
from amends.text import FILES_MARK

CHANGESET: Final = "amends.changeset."
"""How the topics of amends' own actions on a changeset begin."""
_ASKED: Final = frozenset({"run", "shell", "using", "files"})
_ENDED: Final = frozenset({"exit", "stdout", "stderr", "cut"})


def changeset_line(value: Json) -> str | None:
    """How much of a changeset is asked to land, is reviewed or has landed, or was merged; None for anything else."""
    if not isinstance(value, dict):
        return None
    if isinstance(value.get(FILES_MARK), str):
        return ""
    if set(value) == {"files"}:
        return changeset_line(value["files"])
    if {"changed_files", "changed_lines"} <= set(value):
        return f"{_counted(value['changed_files'], 'file')}, {_counted(value['changed_lines'], 'line')}"
    if isinstance(value.get("branch"), dict) and isinstance(value.get("child"), str):
        return f"what child {value['child']} made"
    if isinstance(value.get("path"), str) and isinstance(value.get("take"), str):
        left = value.get("left")
        more = f", {_counted(len(left), 'conflict')} left" if isinstance(left, list) else ""
        return f"{value['path']}: {value['take']}{more}"
    applied, merged = value.get("applied"), value.get("merged")
    if isinstance(value.get("layer"), int) and isinstance(applied, list) and isinstance(merged, list):
        also = f", {len(merged)} of them merged with what the saga has" if merged else ""
        return f"{_counted(len(applied), 'path')}{also}"
    if value.get("landed") is True and isinstance(applied, list) and isinstance(merged, list):
        also = f", {len(merged)} of them merged with what others did" if merged else ""
        return f"{_counted(len(applied), 'path')} landed{also}"
    return None


def _counted(count: Json, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def command_line(args: Json) -> str | None:
    """The words of a command; None where the arguments are another action's."""
    if not isinstance(args, dict) or not isinstance(args.get("using"), dict) or not set(args) <= _ASKED:
        return None
    run, shell = args.get("run"), args.get("shell")
    if isinstance(run, list):
        return " ".join(shlex.quote(word) if isinstance(word, str) else "…" for word in run)
    return f"sh: {' '.join(shell.split())}" if isinstance(shell, str) else None


def first_printed_line(result: Json) -> str | None:
    """The first line that a command printed, and whether there were more; None for another action's result."""
    if not isinstance(result, dict) or not {"exit", "stdout"} <= set(result) <= _ENDED:
        return None
    first, newline, _ = str(result["stdout"]).partition("\n")
    return f"{first} …" if newline else first


def file_input(given: Json) -> tuple[Json, str] | None:
    """The inputs of a saga from a file, and the file's name; None for another saga's input."""
    if not isinstance(given, dict) or set(given) != {"input", "saga_file"}:
        return None
    file = given["saga_file"]
    return (given["input"], str(file.get("name", ""))) if isinstance(file, dict) else None
