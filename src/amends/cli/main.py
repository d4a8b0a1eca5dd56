"""The command `amends`: its commands by name, and what becomes of an error. `main` is the script's entry point."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Final, NoReturn, cast

import click

from amends.cli.groups import JOURNAL_BEFORE, LazyCommand, Sections
from amends.errors import AmendsError

WRONG: Final = 2
INTERRUPTED: Final = 130

_ENDS = """\b
Exit codes:
  0  done: completed, or nothing needs a person
  1  a policy does not pass its own test, a saga its drill, or code its check
  2  wrong usage, bad input, or an error: one line on stderr says which
  3  rolled back; where that was asked for (saga cancel, incident retry), 0
  4  an incident: a person is needed
  5  denied by the gate
  6  not over yet: it waits, or another process drives it
"""


_SECTIONS: Final[Mapping[str, Sequence[LazyCommand]]] = {
    "Begin": (
        ("demo", "amends.cli.demo.demo", "See a saga fail and make amends, and survive a kill -9."),
        (
            "new",
            "amends.cli.commands.new",
            "Write a starter that runs: an action with its compensation and probe, a saga, a test and a drill.",
        ),
        (
            "doctor",
            "amends.cli.commands.doctor",
            (
                "Check the journal, the clock, file rights, what is left unfinished, the chain, and the actions of "
                "modules."
            ),
        ),
    ),
    "Run": (
        ("run", "amends.cli.commands.run", "Run a saga to its end, and show what happens as it happens."),
        ("resume", "amends.cli.commands.run", "Go on with the sagas that were left unfinished."),
        ("work", "amends.cli.commands.run", "Drive sagas as they become due, until told to stop."),
        ("engine", "amends.cli.commands.engine", "Tell Restate or Temporal what is to be driven."),
        (
            "serve",
            "amends.cli.commands.serve",
            "Own a journal for others: take their commands, judge, decide and append.",
        ),
        (
            "mcp",
            "amends.cli.commands.mcp",
            "Stand before MCP servers: each call of a tool is judged, on record, and can be taken back.",
        ),
        (
            "drill",
            "amends.cli.commands.drill",
            "Run a saga once for each place where it can go wrong, and ask the world.",
        ),
    ),
    "Look": (
        ("saga", "amends.cli.commands.saga", "Look at sagas, or take one back."),
        (
            "session",
            "amends.cli.commands.session",
            "Look at open sagas, which agents drive from outside, or end one.",
        ),
        ("changeset", "amends.cli.commands.changeset", "Look at file work that has not landed, and decide about it."),
        ("document", "amends.cli.commands.document", "Read the documents of a journal, and who changed them."),
        ("lock", "amends.cli.commands.lock", "See who keeps a resource to itself, and who waits for it."),
        ("worker", "amends.cli.commands.worker", "See who drives sagas on a journal."),
        ("action", "amends.cli.commands.action", "Look at actions, and check what they promise."),
    ),
    "Decide": (
        ("approval", "amends.cli.commands.approval", "Answer what people are asked before it is done."),
        ("person", "amends.cli.commands.person", "Enrol people with the keys that prove their names."),
        ("token", "amends.cli.commands.token", "Make, list and revoke the tokens that a server knows callers by."),
        ("incident", "amends.cli.commands.incident", "See to what needs a person."),
        ("pause", "amends.cli.commands.pause", "Dispatch nothing more, in any process on this journal."),
        ("unpause", "amends.cli.commands.pause", "End the pause of exactly this kind, and have its sagas go on."),
    ),
    "Set up": (
        ("policy", "amends.cli.commands.policy", "Check policies, try them, adopt one, and see which judges."),
        (
            "notify",
            "amends.cli.commands.notify",
            "Tell others of new approvals, incidents and tree heads, until told to stop.",
        ),
        ("schema", "amends.cli.commands.shell", "Print the JSON Schema of a saga's file."),
        ("completion", "amends.cli.commands.shell", "Print the script that lets a shell complete `amends`."),
    ),
    "Keep": (
        ("evidence", "amends.cli.commands.evidence", "Show what happened, so that others can check it."),
        (
            "journal",
            "amends.cli.commands.journal",
            "Back a journal up and bring it back; make one in PostgreSQL, or copy one to another place.",
        ),
        ("prune", "amends.cli.commands.prune", "Remove for good what sagas held that ended long ago."),
    ),
}


cli: Final = Sections(_SECTIONS, help="Sagas for AI agents. Every action knows how to make amends.", epilog=_ENDS)
click.version_option(package_name="amends", prog_name="amends")(cli)


def _note_journal(context: click.Context, parameter: click.Parameter, journal: str | None) -> None:  # noqa: ARG001 - as click calls it
    if journal is not None:
        context.meta[JOURNAL_BEFORE] = journal


click.option(
    "--journal",
    metavar="PATH",
    expose_value=False,
    callback=_note_journal,
    help="The journal of the command that follows, as if it stood there.",
)(cli)


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run one command and end the process with its exit code."""
    words = sys.argv[1:] if args is None else list(args)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:  # what the terminal's encoding lacks is shown as an escape, and stops nobody
            reconfigure(errors="backslashreplace")
    sys.exit(_code(words))


def _code(words: list[str]) -> int:
    try:
        code = cast("object", cli.main(words, prog_name="amends", standalone_mode=False))
    except click.Abort:
        return _print_error("interrupted", INTERRUPTED)
    except click.ClickException as exc:
        if "--debug" in words:
            raise
        return _print_error(_usage(exc), WRONG)
    except AmendsError as exc:
        if "--debug" in words:
            raise
        return _print_error(str(exc) or type(exc).__name__, WRONG)
    return code if isinstance(code, int) else 0


def _usage(exc: click.ClickException) -> str:
    message = exc.format_message().rstrip(".").replace(". Did you mean", "; did you mean")
    context = exc.ctx if isinstance(exc, click.UsageError) else None
    if context is None:
        return message
    rest = "" if message.endswith("?") else ";"
    return f"{message[:1].lower()}{message[1:]}{rest} see {context.command_path} --help"


def _print_error(message: str, code: int) -> int:
    from amends.text import visible  # what is not told needs no words: the help imports nothing but click

    click.echo(f"amends: {visible(' '.join(message.split()))}", err=True)
    return code


if __name__ == "__main__":
    if not sys.flags.safe_path:  # Python has put the working directory first; see amends/__main__.py
        del sys.path[0]
    main()
