"""The options that commands share, and the words of their help. Imports little but click."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, Final, TypeVar, cast

import click

from amends.cli import configured

F = TypeVar("F", bound=Callable[..., Any])

JOURNAL: Final = configured.JOURNAL

_journal = click.option(
    "--journal",
    metavar="PATH",
    default=configured.journal,
    envvar="AMENDS_JOURNAL",
    show_default=JOURNAL,
    show_envvar=True,
    help="The journal: a file's path.",
)
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON lines: one object for each line of stdout.")


def _show_log(context: click.Context, parameter: click.Parameter, debug: bool) -> None:  # noqa: FBT001 - as click calls it
    from amends.cli.logged import show_log

    show_log(context, parameter, debug)


_debug = click.option(
    "--debug",
    is_flag=True,
    expose_value=False,
    callback=_show_log,
    help="Show the traceback of an error.",
)
_by = click.option("--by", metavar="WHO", help="In whose name.  [default: person:<login name>]")


class Nouns(click.Group):
    """A group whose help says what each of its commands does in a whole sentence."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_commands(formatter, "Commands", [self.commands[name] for name in self.list_commands(ctx)])


class Sections(click.Group):
    """A group whose help has its commands under headings, in the order in which they were added."""

    sections: Mapping[str, Sequence[click.Command]] = {}

    def add_sections(self, sections: Mapping[str, Sequence[click.Command]]) -> None:
        self.sections = sections
        for command in chain.from_iterable(sections.values()):
            self.add_command(command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(len(name) for name in self.commands)
        for heading, commands in self.sections.items():
            _write_commands(formatter, heading, commands, widest)


def _write_commands(
    formatter: click.HelpFormatter, heading: str, commands: Sequence[click.Command], widest: int = 0
) -> None:
    rows = [(f"{command.name:{widest}}", _sentence(command)) for command in commands if not command.hidden]
    with formatter.section(heading):
        formatter.write_dl(rows)


def _sentence(command: click.Command) -> str:
    return " ".join((command.help or "").partition("\n\n")[0].split())


def common(command: F) -> F:
    """What every command has: --json and --debug."""
    return _json(_debug(command))


def with_journal(command: F) -> F:
    return _journal(common(command))


def with_modules(command: F) -> F:
    """The modules that declare what may have to be called here, as `modules`: named after everything else or with
    --module; where neither is, those of the nearest configuration. Goes below the other arguments of a command.
    """
    return _modules_as(command, "modules", "[MODULE]...")


def with_targets(command: F) -> F:
    """The same, with saga files among them, as `targets`."""
    return _modules_as(command, "targets", "[MODULE|FILE]...")


def _modules_as(command: F, parameter: str, metavar: str) -> F:
    from amends.cli.completing import complete_module

    @functools.wraps(command)
    def with_all(*args: Any, given: tuple[str, ...], named: tuple[str, ...], **others: Any) -> Any:  # noqa: ANN401 - as the command takes them
        found = tuple(dict.fromkeys((*named, *given))) or configured.modules()
        return command(*args, **{parameter: found}, **others)

    option = click.option(
        "-m",
        "--module",
        "given",
        metavar="MODULE",
        multiple=True,
        shell_complete=complete_module,
        help="A module that declares sagas and actions, the same as MODULE; may be given several times.  "
        "[default: modules in amends.toml]",
    )
    argument = click.argument("named", metavar=metavar, nargs=-1, shell_complete=complete_module)
    return cast("F", argument(option(with_all)))


def require_named(modules: Sequence[str]) -> None:
    """Raises UsageError where neither the line nor the configuration names a module."""
    if not modules:
        raise click.UsageError("name the MODULEs, here or as modules in amends.toml")


def with_input(command: F) -> F:
    """A saga's input: an object of all that it takes or, where that is asked for, the value of one of them."""
    given = click.option(
        "--input",
        "document",
        metavar="JSON|@FILE|-",
        help="The saga's inputs by name: a JSON object, a file of it, or stdin.",
    )
    alone = click.option(
        "--input-as",
        metavar="NAME",
        help="What --input gives is the value of this one input, and not an object of all.",
    )
    return given(alone(command))


def with_policy(command: F) -> F:
    return click.option(
        "--policy",
        metavar="FILE",
        default=configured.policy,
        envvar="AMENDS_POLICY",
        show_envvar=True,
        help="The policy that has to be in force; a journal that holds nothing yet begins with it.",
    )(command)


def with_lease(command: F) -> F:
    return click.option(
        "--lease",
        metavar="TIME",
        help="How long this process keeps its sagas without a word, such as 30s or 2m.  [default: 2m]",
    )(command)


def with_author(command: F) -> F:
    return _by(command)


def author(by: str | None) -> str:
    """Who asks: as given, else whoever is logged in. Raises InputError for what is no actor."""
    from amends.runtime.checked import checked_actor

    return checked_actor(by)


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is removed for good. Raises InputError where nobody is there to answer."""
    import sys

    from amends.errors import InputError

    if yes:
        return
    if not sys.stdin or not sys.stdin.isatty():
        raise InputError("nobody is there to confirm it, and nothing is removed; give --yes")
    click.confirm(question, abort=True, err=True)


def command(journal: str, *words: str) -> str:
    """A command about this journal, to be shown and copied: an id that somebody chose cannot make it another one."""
    import shlex

    return shlex.join(("amends", *words, *(() if journal == configured.journal() else ("--journal", journal))))


def show_help(context: click.Context) -> None:
    """A group without a command after it: say what there is, and count it as wrong usage."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help(), err=True)
        context.exit(2)
