"""Groups of commands: how their help looks, and one that imports a command when it is used. Imports only click."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Final, cast

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem  # click imports it for a shell that completes, and nobody else

LazyCommand = tuple[str, str, str]
"""A command that is not imported yet: its name, the module that has it under this name, and what it does."""

JOURNAL_BEFORE: Final = "amends.journal"
"""Where a context keeps the journal that was named before the command."""
_WRONG_USAGE: Final = 2


class Nouns(click.Group):
    """A group whose help says what each of its commands does in a whole sentence."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_commands(formatter, "Commands", [self.commands[name] for name in self.list_commands(ctx)])


class Sections(click.Group):
    """A group whose help has its commands under headings, and that imports a command's module when it is used."""

    def __init__(self, sections: Mapping[str, Sequence[LazyCommand]], *, help: str, epilog: str) -> None:
        names = {"help_option_names": ["-h", "--help"]}
        super().__init__(
            callback=click.pass_context(show_help),
            invoke_without_command=True,
            help=help,
            epilog=epilog,
            context_settings=names,
        )
        self._headings = {heading: [name for name, _, _ in each] for heading, each in sections.items()}
        self._modules = {name: module for each in sections.values() for name, module, _ in each}
        self.commands.update(
            {name: click.Command(name, help=does) for each in sections.values() for name, _, does in each}
        )

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = self._modules.get(cmd_name)
        return None if module is None else cast("click.Command", getattr(_imported(module), cmd_name))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(len(name) for name in self.commands)
        for heading, names in self._headings.items():
            _write_commands(formatter, heading, [self.commands[name] for name in names], widest)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names and help, as `click.Group` has them, with nothing imported: somebody waits for their shell."""
        from click.shell_completion import CompletionItem

        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        found = [CompletionItem(name, help=self.commands[name].get_short_help_str()) for name in names]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]


def _imported(module: str) -> ModuleType:
    """Import what stays until the process ends: the collector would look through it many times, and find nothing."""
    collects = gc.isenabled()
    gc.disable()
    try:
        return import_module(module)
    finally:
        gc.freeze()
        if collects:
            gc.enable()


def _write_commands(
    formatter: click.HelpFormatter, heading: str, commands: Sequence[click.Command], widest: int = 0
) -> None:
    rows = [(f"{command.name:{widest}}", sentence(command)) for command in commands if not command.hidden]
    with formatter.section(heading):
        formatter.write_dl(rows)


def sentence(command: click.Command) -> str:
    """The first paragraph of a command's help, on one line."""
    return " ".join((command.help or "").partition("\n\n")[0].split())


def show_help(context: click.Context) -> None:
    """A group without a command after it: say what there is, and count it as wrong usage."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help(), err=True)
        context.exit(_WRONG_USAGE)
