"""`amends schema` and `amends completion`: for editors and shells."""

from __future__ import annotations

import json
from typing import Final

import click

from amends.cli.options import common


@click.command()
@common
def schema(*, as_json: bool) -> None:
    """Print the JSON Schema of a saga's file.

    An editor that knows it completes keys and shows mistakes while a file is written.
    """
    from amends.sagafile import json_schema  # `completion` is run whenever a shell starts, and has no use for it

    click.echo(json.dumps(json_schema(), indent=None if as_json else 2))


_HELP: Final = """Print the script that lets a shell complete `amends`.

\b
  bash   eval "$(amends completion bash)"        in ~/.bashrc
  zsh    eval "$(amends completion zsh)"         in ~/.zshrc
  fish   amends completion fish > ~/.config/fish/completions/amends.fish
"""


@click.command(help=_HELP)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@common
def completion(*, shell: str, as_json: bool) -> None:
    from click.shell_completion import get_completion_class

    made = get_completion_class(shell)
    context = click.get_current_context().find_root()
    if made is not None:
        script = made(context.command, {}, "amends", "_AMENDS_COMPLETE").source_vars()
        text = made.source_template % script
        click.echo(json.dumps({"type": "completion", "script": text}) if as_json else text)
