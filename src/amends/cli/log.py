"""The log of a command, on stderr. A traceback of somebody's code is there where --debug asks for it.

Else it is only counted: the timeline has the line that raised it, and whoever configures logging gets all of it.
"""

from __future__ import annotations

import logging
import sys
from typing import Final

import click

from amends.cli.show.output import hint
from amends.logs import logger

_RAISED: Final = "amends.raised"
_KEEPS_A_LOG: Final = frozenset({"work"})
"""Commands whose stderr is a log that somebody reads later, and that show no timeline."""


def show_log(context: click.Context, _: click.Parameter, debug: bool) -> None:  # noqa: FBT001 - as click calls it
    """Have the log shown as this command is asked to, until it has ended. The callback of --debug."""
    if debug:
        _show_all(context)
    elif context.info_name not in _KEEPS_A_LOG and logging.lastResort is not None:
        _show_no_tracebacks(context, logging.lastResort)


def _show_all(context: click.Context) -> None:
    log, handler = logger("amends"), _Stderr()
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)

    def restore() -> None:
        log.removeHandler(handler)
        log.setLevel(before)

    context.call_on_close(restore)


def _show_no_tracebacks(context: click.Context, handler: logging.Handler) -> None:
    """Where nobody has configured logging, Python's last resort writes it: without the tracebacks of users' code."""
    hidden = 0

    def shows(record: logging.LogRecord) -> bool:
        nonlocal hidden
        is_traceback = record.name == _RAISED
        hidden += is_traceback
        return not is_traceback

    def restore() -> None:
        handler.removeFilter(shows)
        if hidden:
            hint(f"{hidden} traceback{'s' * (hidden > 1)} not shown; --debug shows each as it happens")

    handler.addFilter(shows)
    context.call_on_close(restore)


class _Stderr(logging.Handler):
    """Writes to what stderr is now, which may not be what it was when this was made."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(f"{self.format(record)}\n")
            sys.stderr.flush()
        except (OSError, ValueError):  # nobody reads any more: the work goes on
            return
