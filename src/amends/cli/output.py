"""Where a command's words go: lines of JSON for a program, or text for a person, in colour on a terminal.

A command says both, and only what was asked for is printed. Once nobody reads any more (`amends saga list | head`),
nothing is, and the work goes on: a saga is not left in the middle because its reader has gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import click

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

Part: TypeAlias = str | tuple[str, str]
"""A text, or a text and its style."""


class Output:
    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.is_gone = False
        self._stream = sys.stdout
        self._console: Console | None = None

    def record(self, kind: str, fields: Mapping[str, object]) -> None:
        """One object, for a program."""
        if self.as_json:
            self._write(json.dumps({"type": kind, **fields}) + "\n")

    def say(self, *parts: Part) -> None:
        """One line, for a person. It is never cut or wrapped here."""
        if not self.as_json:
            from rich.text import Text

            line = Text.assemble(*parts)
            line.rstrip()
            self._draw(line, is_line=True)

    def say_beside(self, left: Sequence[Part], right: Part) -> None:
        """One line, whose right part goes on below itself where a terminal is too narrow for it."""
        if self.as_json:
            return
        from rich.table import Table
        from rich.text import Text

        if not self.console.is_terminal:
            self.say(*left, right)
            return
        grid = Table.grid()
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        grid.add_row(Text.assemble(*left), Text.assemble(right))
        self._draw(grid, is_line=False)

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

            self._console = Console(file=self._stream, markup=False, highlight=False, emoji=False)
        return self._console

    def _draw(self, what: RenderableType, *, is_line: bool) -> None:
        with self.console.capture() as captured:
            self.console.print(what, soft_wrap=is_line)
        self._write(captured.get())

    def _write(self, text: str) -> None:
        if self.is_gone:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except BrokenPipeError:
            self.is_gone = True
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)

    @contextlib.contextmanager
    def kept_clean(self) -> Generator[None]:
        """While the user's own code runs: what it prints does not come between the lines of JSON."""
        with contextlib.redirect_stdout(sys.stderr) if self.as_json else contextlib.nullcontext():
            yield


def hint(text: str) -> None:
    """Something beside the answer: for a person, on stderr, also where the answer is JSON."""
    click.echo(f"amends: {text}", err=True)
