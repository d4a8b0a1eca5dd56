"""The configuration of MCP clients: what stands in it for a gateway, writing that, and putting back what was there."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from amends.errors import InputError, RefusedError

Wire = dict[str, Any]
_KEPT: Final = ".amends-before"
_MOST: Final = 4 * 1024 * 1024


class ClientKind(NamedTuple):
    """A client: where its configuration is in a project, and under which key its servers stand."""

    file: str
    key: str
    typed: bool = False


CLIENTS: Final[Mapping[str, ClientKind]] = {
    "claude-code": ClientKind(".mcp.json", "mcpServers"),
    "cursor": ClientKind(".cursor/mcp.json", "mcpServers"),
    "vscode": ClientKind(".vscode/mcp.json", "servers", typed=True),
}


def entry(kind: ClientKind, gateway: Sequence[str], command: Sequence[str], before: Mapping[str, Any] | None) -> Wire:
    """The entry of a server once the gateway is before it; all else of its entry stays."""
    made: Wire = {**({"type": "stdio"} if kind.typed else {}), **(before or {})}
    return {**made, "command": gateway[0], "args": [*gateway[1:], "--", *command]}


def command_of(file: Path, kind: ClientKind, name: str) -> tuple[list[str], Wire]:
    """The command that a client starts a server by now, and the server's whole entry. Raises InputError."""
    found = _servers(_read(file)[0], kind).get(name)
    if not isinstance(found, dict):
        raise InputError(f"{file} has no server {name}; give its command after --")
    known = cast("Wire", found)
    if not isinstance(known.get("command"), str):
        raise InputError(f"server {name} of {file} is not started by a command; write it into a gateway's file instead")
    args = cast("list[object]", known.get("args") or [])
    if "mcp" in args and "wrap" in args:
        raise RefusedError(f"server {name} of {file} has a gateway before it already")
    return [str(known["command"]), *map(str, args)], known


def write(file: Path, kind: ClientKind, name: str, made: Wire) -> None:
    """Write an entry, and keep what the file was. Raises RefusedError where that is kept already."""
    kept = _kept(file)
    if kept.exists():
        raise RefusedError(f"{kept} is there: it was installed before; put that back first, with --undo")
    document, text = _read(file)
    before = _servers(document, kind).get(name)
    servers = {**_servers(document, kind), name: made}
    after = json.dumps({**document, kind.key: servers}, indent=2, ensure_ascii=False) + "\n"
    file.parent.mkdir(parents=True, exist_ok=True)
    note = {"text": text, "name": name, "entry": before, "written": _digest(after)}
    kept.write_text(json.dumps(note), encoding="utf-8")
    kept.chmod(0o600)
    file.write_text(after, encoding="utf-8")


def undo(file: Path, kind: ClientKind) -> str:
    """Put back what was there; says how. What others have changed in the file since stays."""
    kept = _kept(file)
    if not kept.exists():
        raise RefusedError(f"nothing was installed into {file}: there is no {kept}")
    note = cast("Wire", json.loads(kept.read_text(encoding="utf-8")))
    document, now = _read(file)
    if now is not None and _digest(now) == note["written"]:
        if note["text"] is None:
            file.unlink()
        else:
            file.write_text(note["text"], encoding="utf-8")
        kept.unlink()
        return f"{file} is as it was"
    servers = {key: one for key, one in _servers(document, kind).items() if key != note["name"]}
    if note["entry"] is not None:
        servers[note["name"]] = note["entry"]
    file.write_text(json.dumps({**document, kind.key: servers}, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    kept.unlink()
    return f"server {note['name']} of {file} is as it was; the rest, which was changed since, stays"


def _kept(file: Path) -> Path:
    return file.with_name(f"{file.name}{_KEPT}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _read(file: Path) -> tuple[Wire, str | None]:
    """The configuration, and its text; empty, and None, where there is none. Raises InputError."""
    if not file.exists():
        return {}, None
    try:
        text = file.read_bytes()[:_MOST].decode()
        found: object = json.loads(text)
    except (OSError, ValueError) as exc:
        raise InputError(f"{file} cannot be read as JSON, and stays as it is: {exc}") from None
    if not isinstance(found, dict):
        raise InputError(f"{file} is no JSON object, and stays as it is")
    return cast("Wire", found), text


def _servers(document: Mapping[str, Any], kind: ClientKind) -> Wire:
    found = document.get(kind.key)
    return cast("Wire", found) if isinstance(found, dict) else {}
