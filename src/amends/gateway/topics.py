"""Topics of tools: `server.tool` in lower case, with `_` for each letter that a topic cannot have.

The tool's part has no dots: a policy's `notes.*` then speaks of every tool of that server, whatever it is called.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Final

SERVER: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}", re.ASCII)
"""How a server may be called."""
LONGEST_NAME: Final = 64
"""The longest name of a tool that all clients take."""
_OTHER: Final = re.compile(r"[^a-z0-9_-]")
_OTHER_BUT_GLOBS: Final = re.compile(r"[^a-z0-9_*?-]")
_LONGEST: Final = 128


def topic_of(server: str, tool: str) -> str:
    """The topic of a tool, where no other of its server has the same."""
    return _fitting(f"{server}.{_OTHER.sub('_', tool.lower())}", tool)


def topics_of(server: str, tools: Iterable[str]) -> dict[str, str]:
    """The topic of each tool by its name. Of two that would have the same, each gets a mark of its own."""
    names = list(dict.fromkeys(tools))
    plain = {name: topic_of(server, name) for name in names}
    taken: dict[str, int] = {}
    for topic in plain.values():
        taken[topic] = taken.get(topic, 0) + 1
    return {
        name: topic if taken[topic] == 1 else _fitting(f"{topic}_{_mark(name)}", name) for name, topic in plain.items()
    }


def spelled_topic(written: str) -> str:
    """A topic, or a glob of topics, as it is written in a file: in the tool's own letters, or in those of topics."""
    server, dot, tool = written.partition(".")
    return f"{server}{dot}{_OTHER_BUT_GLOBS.sub('_', tool.lower())}"


def shown_names(tools: Iterable[tuple[str, str]], taken: Iterable[str] = ()) -> dict[str, tuple[str, str]]:
    """The names that clients see, with the server and the tool of each: the tool's own.

    Where two servers have a tool of one name, or it is one of `taken`, each has its server's name before its own; cut
    to what all clients take.
    """
    pairs = list(dict.fromkeys(tools))
    counts: dict[str, int] = dict.fromkeys(taken, 1)
    for _, tool in pairs:
        counts[tool] = counts.get(tool, 0) + 1
    found: dict[str, tuple[str, str]] = {}
    for server, tool in pairs:
        name = tool if counts[tool] == 1 else f"{server}_{tool}"
        if len(name) > LONGEST_NAME and name != tool:
            name = f"{name[: LONGEST_NAME - 7]}_{_mark(f'{server}.{tool}')}"
        while name in found:
            name = f"{name[: LONGEST_NAME - 7]}_{_mark(f'{server}.{tool}.{name}')}"
        found[name] = (server, tool)
    return found


def _fitting(topic: str, tool: str) -> str:
    return topic if len(topic) <= _LONGEST else f"{topic[: _LONGEST - 7]}_{_mark(tool)}"


def _mark(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:6]
