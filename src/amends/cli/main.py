"""The command `amends`: its commands by name, and what becomes of an error. `main` is the script's entry point."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final, NoReturn, cast

import click

from amends.cli.action import action
from amends.cli.approval import approval
from amends.cli.changeset import changeset
from amends.cli.completion import completion
from amends.cli.demo import demo
from amends.cli.doctor import doctor
from amends.cli.document import document
from amends.cli.drill import drill
from amends.cli.evidence import evidence
from amends.cli.incident import incident
from amends.cli.lock import lock
from amends.cli.new import new
from amends.cli.notify import notify
from amends.cli.options import Sections, show_help
from amends.cli.pause import pause, unpause
from amends.cli.policy import policy
from amends.cli.prune import prune
from amends.cli.run import resume, run
from amends.cli.saga import saga
from amends.cli.schema import schema
from amends.cli.work import work
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


_SECTIONS: Final = {
    "Begin": (demo, new, doctor),
    "Run": (run, resume, work, drill),
    "Look": (saga, changeset, document, lock, action),
    "Decide": (approval, incident, pause, unpause),
    "Set up": (policy, notify, schema, completion),
    "Keep": (evidence, prune),
}


@click.group(
    cls=Sections, invoke_without_command=True, epilog=_ENDS, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(package_name="amends", prog_name="amends")
@click.pass_context
def cli(context: click.Context) -> None:
    """Sagas for AI agents. Every action knows how to make amends."""
    show_help(context)


cli.add_sections(_SECTIONS)


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
        return _told("interrupted", INTERRUPTED)
    except click.ClickException as exc:
        if "--debug" in words:
            raise
        return _told(_usage(exc), WRONG)
    except AmendsError as exc:
        if "--debug" in words:
            raise
        return _told(str(exc) or type(exc).__name__, WRONG)
    return code if isinstance(code, int) else 0


def _usage(exc: click.ClickException) -> str:
    message = exc.format_message().rstrip(".").replace(". Did you mean", "; did you mean")
    context = exc.ctx if isinstance(exc, click.UsageError) else None
    if context is None:
        return message
    rest = "" if message.endswith("?") else ";"
    return f"{message[:1].lower()}{message[1:]}{rest} see {context.command_path} --help"


def _told(message: str, code: int) -> int:
    from amends.evidence.timeline import visible

    click.echo(f"amends: {visible(' '.join(message.split()))}", err=True)
    return code


if __name__ == "__main__":
    if not sys.flags.safe_path:  # Python has put the working directory first; see amends/__main__.py
        del sys.path[0]
    main()
