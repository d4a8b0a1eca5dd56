"""Logs that nobody else writes in: what came from outside is on one line, harmless to a terminal, and without secrets.

An exception's words are the action's, and so the agent's or a provider's. Raw, a newline in them forges a whole line of
the log, an ESC paints over others, and a token is in clear. So every record of amends has its words made plain before
any handler sees it, whichever formatter that has. The exception itself does not go along: what it holds cannot be
searched.
"""

from __future__ import annotations

import contextlib
import logging
import os
import traceback
from collections.abc import Collection, Generator, Iterator
from itertools import dropwhile, islice
from pathlib import Path
from typing import Final, cast

from amends.secrets import Secret, scrub
from amends.text import visible

LONGEST_WORDS: Final = 4096
KNOWN: Final = "amends_secrets"
"""What to look for besides, given as `extra` of a record; no handler gets it."""
RAISED: Final = "amends.raised"
"""The logger of what users' code raised; what of amends stands between is left out of its tracebacks."""
OWN: Final = os.path.join(Path(__file__).resolve().parent.parent, "")  # noqa: PTH118 - with its last separator
"""Where the code of amends is."""
_MOST_FRAMES: Final = 64
_MOST_CAUSES: Final = 16
_MOST_LINES: Final = 1024
_DEEPEST_GROUP: Final = 3


def logger(name: str) -> logging.Logger:
    """The logger of that name, whose records are made plain. The only way to one within amends."""
    found = logging.getLogger(name)
    if _plain not in found.filters:
        found.addFilter(_plain)
    return found


def searched_for(secrets: Collection[Secret]) -> dict[str, object]:
    """The `extra` of a record whose words may quote these."""
    return {KNOWN: secrets}


class _Plain(logging.Filter):
    """Lets every record through, made plain. Doing it twice changes nothing more."""

    def filter(self, record: logging.LogRecord) -> bool:
        known = cast("Collection[Secret]", record.__dict__.pop(KNOWN, ()))
        record.msg, record.args = plain(record.getMessage(), known), None
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            skips = OWN if record.name == RAISED else None
            record.exc_text = "\n".join(islice(_told(error, known, skips), _MOST_LINES))
        record.exc_info = None
        return True


_plain: Final = _Plain()


def plain(text: str, known: Collection[Secret] = ()) -> str:
    """Words as a log may hold them: searched, then cut, then escaped."""
    said = scrub(text, known)
    return visible(said if len(said) <= LONGEST_WORDS else said[: LONGEST_WORDS - 1] + "…")


def _told(error: BaseException, known: Collection[Secret], skips: str | None, depth: int = 0) -> Iterator[str]:
    """An error with what led to it, first things first, much as Python prints it; but its words are on one line.

    `skips` is a directory whose code called what was raised: those first frames are left out.
    """
    chain: list[tuple[BaseException, str]] = []
    at: BaseException | None = error
    how = ""
    while at is not None and len(chain) < _MOST_CAUSES and all(at is not one for one, _ in chain):
        chain.append((at, how))
        how = "The above exception was the direct cause of the following exception:"
        if at.__cause__ is None and not at.__suppress_context__:
            how = "During handling of the above exception, another exception occurred:"
        at = at.__cause__ or (None if at.__suppress_context__ else at.__context__)
    for one, leads_to in reversed(chain):
        yield from _traced(one, known, skips, depth)
        if leads_to:
            yield leads_to


def _traced(error: BaseException, known: Collection[Secret], skips: str | None, depth: int) -> Iterator[str]:
    yield "Traceback (most recent call last):"
    frames = list(traceback.extract_tb(error.__traceback__, limit=-_MOST_FRAMES))
    own = [] if skips is None else list(dropwhile(lambda frame: frame.filename.startswith(skips), frames))
    for frame in own or frames:
        yield f'  File "{plain(frame.filename, known)}", line {frame.lineno}, in {plain(frame.name, known)}'
        if frame.line:
            yield f"    {plain(frame.line, known)}"
    yield f"{type(error).__name__}: {plain(_words(error), known)}".rstrip(": ")
    yield from (f"  {plain(str(note), known)}" for note in getattr(error, "__notes__", ()))
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        for one in group.exceptions[:_MOST_CAUSES]:
            if depth < _DEEPEST_GROUP:
                yield from (f"  | {line}" for line in _told(one, known, skips, depth + 1))
            else:
                yield f"  | {type(one).__name__}: {plain(_words(one), known)}".rstrip(": ")


def _words(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as exc:  # noqa: BLE001 - it is somebody else's class: a log must not fail over its words
        return f"[its words could not be had: {type(exc).__name__}]"


@contextlib.contextmanager
def hushed() -> Generator[None]:
    """Silence the log for a while: in a drill, what it warns of is what the drill brings about."""
    log = logging.getLogger("amends")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(level)
