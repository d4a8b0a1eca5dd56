"""The options that commands share, and the words of their help. Imports little but click."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar, cast

import click

from amends.cli import config
from amends.cli.completing import complete_module
from amends.cli.groups import JOURNAL_BEFORE
from amends.cli.log import show_log
from amends.cli.show.output import hint
from amends.errors import InputError

F = TypeVar("F", bound=Callable[..., Any])

_SERVED: Final = frozenset(
    f"{noun} {verb}".rstrip()
    for noun, verbs in {
        "saga": ("list", "show", "watch", "cancel", "rollback", "signal", "raise-limit"),
        "approval": ("list", "show", "grant", "refuse"),
        "incident": ("list", "show", "report", "retry", "resolve", "comment", "assign"),
        "pause": ("", "list"),
        "unpause": ("",),
        "session": ("list", "show", "cancel"),
        "policy": ("show", "replay", "adopt"),
        "evidence": ("show", "record", "export", "verify"),
        "token": ("create", "list", "revoke"),
        "lock": ("list",),
        "worker": ("list",),
        "work": ("",),
    }.items()
    for verb in verbs
)
"""The commands that a server answers."""
_INSTEAD: Final = {
    "serve": "name the one to be served with --journal PATH",
    "run": "a program of yours runs sagas through a server with Coordinator.connect(url)",
    "resume": "`amends work MODULE` goes on with its sagas; so does a program with Coordinator.connect(url).resume()",
}


def _reachable(context: click.Context, parameter: click.Parameter, address: str) -> str:
    """An address that this command can do something with: the one before the command, where none stands behind it.

    Raises InputError for a server where it is not asked.
    """
    source = context.get_parameter_source(parameter.name or "")
    is_said = source is not click.core.ParameterSource.DEFAULT
    if source is not click.core.ParameterSource.COMMANDLINE:
        is_said = is_said or JOURNAL_BEFORE in context.meta
        address = context.meta.get(JOURNAL_BEFORE, address)
    if "://" not in address or address.partition("://")[0] not in {"http", "https", "unix"}:
        if not is_said and os.environ.get(config.URL):
            raise InputError(
                f"{config.URL} is {address!r}: write https://host:port of a server, or unix:///path/of/its/socket"
            )
        return address
    command = context.command_path.partition(" ")[2]
    if command not in _SERVED:
        require_no_server(command, address)
    return address


def require_no_server(command: str, address: str) -> None:
    """Raises InputError for a server's address, where a command takes the journal itself."""
    if "://" in address and address.partition("://")[0] in {"http", "https", "unix"}:
        instead = _INSTEAD.get(command.partition(" ")[0], "run it where the server runs, with --journal PATH")
        raise InputError(f"`amends {command}` works on a journal, and {address} is a server: {instead}")


_journal = click.option(
    "--journal",
    metavar="PATH",
    default=config.journal,
    envvar="AMENDS_JOURNAL",
    show_default=config.JOURNAL,
    show_envvar=True,
    callback=_reachable,
    help="The journal: a file's path, or postgresql://user@host/database; for what a server answers, its https://… or "
    "unix:///socket, which AMENDS_URL names too.",
)
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON lines: one object for each line of stdout.")


def _show_log(context: click.Context, parameter: click.Parameter, debug: bool) -> None:  # noqa: FBT001 - as click calls it

    show_log(context, parameter, debug)


_debug = click.option(
    "--debug",
    is_flag=True,
    expose_value=False,
    callback=_show_log,
    help="Show the traceback of an error.",
)
_by = click.option("--by", metavar="WHO", help="In whose name.  [default: person:<login name>]")


def common(command: F) -> F:
    """Options that every command has: --json and --debug."""
    return _json(_debug(command))


def with_journal(command: F) -> F:
    return _journal(common(command))


def with_modules(command: F) -> F:
    """The modules that declare what may have to be called here, as `modules`: named after everything else or with
    --module; where neither is, those of the nearest configuration. Goes below the other arguments of a command.
    """
    return _modules_as(command, "modules", "[MODULE]...")


def with_targets(command: F) -> F:
    """Modules and saga files, as `targets`; else as `with_modules`."""
    return _modules_as(command, "targets", "[MODULE|FILE]...")


def _modules_as(command: F, parameter: str, metavar: str) -> F:
    @functools.wraps(command)
    def with_all(*args: Any, given: tuple[str, ...], named: tuple[str, ...], **others: Any) -> Any:  # noqa: ANN401 - as the command takes them
        found = tuple(dict.fromkeys((*named, *given))) or config.modules()
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
        default=config.policy,
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


def author(by: str | None, address: str = "") -> str:
    """The actor who asks: as given, else whoever is logged in; of a server, whoever it takes the token's bearer for.

    Raises InputError for what is no actor.
    """
    if "://" in address:
        from amends.addresses import TOKEN, is_server

        if is_server(address):
            from amends.remote.people import caller_name

            if by is not None:
                raise InputError("--by: through a server, whose token it is says who asks; leave it out")
            return caller_name(address, os.environ.get(TOKEN))
    from amends.runtime.declare.names import checked_actor

    return checked_actor(by)


class OnceNamed(click.Option):
    """An option that help shows under its first name alone; the second is the one that it had until 0.1."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        opts, self.opts = self.opts, self.opts[:1]
        try:
            return super().get_help_record(ctx)
        finally:
            self.opts = opts


def renamed(old: str, new: str) -> Callable[[F], F]:
    """Have a command that is called otherwise by now say so, on stderr, once it has done what it was asked for.

    An error stays one line. The old name goes with the next release.
    """

    def decorate(command: F) -> F:
        @functools.wraps(command)
        def told(*args: Any, **others: Any) -> Any:  # noqa: ANN401 - as the command takes them
            code = command(*args, **others)
            hint_renamed(old, new)
            return code

        return cast("F", told)

    return decorate


def hint_renamed(old: str, new: str) -> None:
    hint(f"`amends {old}` is `amends {new}` by now; the old name goes with the next release")


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is removed for good. Raises InputError where nobody is there to answer."""
    if yes:
        return
    if not sys.stdin or not sys.stdin.isatty():
        raise InputError("nobody is there to confirm it, and nothing is removed; give --yes")
    click.confirm(question, abort=True, err=True)
