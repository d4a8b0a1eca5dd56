"""Where a command's words go: lines of JSON for a program, or text for a person, in colour on a terminal.

A command says both, and only what was asked for is printed. Once nobody reads any more (`amends saga list | head`),
nothing is, and the work goes on: a saga is not left in the middle because its reader has gone.

What draws is imported with the first line that is drawn. JSON needs no rich, and neither does a plain line in a file or
a pipe: there rich would print the same letters.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Final, TextIO, TypeAlias, cast

import click

from amends.text import visible

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

Part: TypeAlias = str | tuple[str, str]
"""A text, or a text and its style."""


class Output:
    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self._stream = cast("TextIO | None", sys.stdout)
        self._console: Console | None = None
        self._is_plain = not as_json and self._stream is not None and _is_plain(self._stream)

    def record(self, kind: str, fields: Mapping[str, object]) -> None:
        """One object, for a program."""
        if self.as_json:
            self._write(json.dumps({"type": kind, **fields}) + "\n")

    def say(self, *parts: Part) -> None:
        """One line, for a person. It is never cut or wrapped here."""
        if self.as_json:
            return
        if self._is_plain:
            text = "".join([part if isinstance(part, str) else part[0] for part in parts]).rstrip()
            if text.isprintable():
                self._write(text + "\n")
                return
        from rich.text import Text

        line = Text.assemble(*parts)
        line.rstrip()
        self._draw(line, is_line=True)

    def say_text(self, line: Text) -> None:
        """One line that is drawn already."""
        if not self.as_json:
            self._draw(line, is_line=True)

    def say_beside(self, left: Sequence[Part], *right: Part) -> None:
        """One line, whose right parts go on below themselves where a terminal is too narrow for them."""
        if not self.is_terminal:
            self.say(*left, *right)
            return
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid()
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        grid.add_row(Text.assemble(*left), Text.assemble(*right))
        self._draw(grid, is_line=False)

    def show_output(self, who: str, line: str) -> None:
        """A line that a command of a saga prints, as it prints it."""
        self.record("output", {"from": who, "line": line})
        self.say((f"{'':7}{visible(who):>14} │ ", "dim"), visible(line))

    def title(self, text: str) -> None:
        """A line across the page, with a title in it."""
        if not self.as_json:
            from rich.rule import Rule
            from rich.text import Text

            self._draw(Rule(Text(text, style="bold"), align="left", style="dim"), is_line=False)

    @property
    def console(self) -> Console:
        """The terminal, with nothing in a text taken for markup."""
        if self._console is None:
            from rich.console import Console

            sink = _Sink(self._stream, self._write)
            self._console = Console(file=cast("IO[str]", sink), markup=False, highlight=False, emoji=False)
        return self._console

    @property
    def is_terminal(self) -> bool:
        return not self.as_json and not self._is_plain and self.console.is_terminal

    @property
    def is_gone(self) -> bool:
        """Whether nobody reads any more, or ever did."""
        return self._stream is None

    def _draw(self, what: RenderableType, *, is_line: bool) -> None:
        self.console.print(what, soft_wrap=is_line)

    def _write(self, text: str) -> None:
        stream = self._stream
        if stream is None:
            return
        try:
            stream.write(text)
            stream.flush()
        except OSError as exc:
            self._stream = None
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())  # what is left in its buffer must not fail once more at the end
            os.close(nowhere)
            if not isinstance(exc, BrokenPipeError):
                hint(f"what follows cannot be shown: {exc.strerror}")

    @contextlib.contextmanager
    def kept_clean(self) -> Generator[None]:
        """While the user's own code runs: what it prints does not come between the lines of JSON."""
        with contextlib.redirect_stdout(sys.stderr) if self.as_json else contextlib.nullcontext():
            yield


_COLOURS: Final = ("FORCE_COLOR", "TTY_COMPATIBLE")
"""Variables by which rich takes a file or a pipe for a terminal."""


def _is_plain(stream: TextIO) -> bool:
    """Whether every letter can be written, and nothing else is."""
    is_whole = (stream.encoding or "").lower().replace("-", "") == "utf8"
    return is_whole and not stream.isatty() and not any(os.environ.get(name) for name in _COLOURS)


class _Sink:
    """A stream for rich to write to: it asks the stream what it is, and leaves the writing to us."""

    def __init__(self, stream: TextIO | None, write: Callable[[str], None]) -> None:
        self.encoding = (stream and stream.encoding) or "utf-8"
        self.write = write
        self.isatty = stream.isatty if stream else bool

    def flush(self) -> None:
        """Each write has done that."""


def has_person() -> bool:
    """Whether somebody sits at a terminal, who can be shown something and asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def hint(text: str) -> None:
    """Something beside the answer: for a person, on stderr, also where the answer is JSON."""
    click.echo(f"amends: {visible(text)}", err=True)
