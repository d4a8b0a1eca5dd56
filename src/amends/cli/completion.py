"""`amends completion`: what a shell needs to complete commands and options."""

from __future__ import annotations

from typing import Final

import click

from amends.cli.options import common

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
    import json

    from click.shell_completion import get_completion_class

    made = get_completion_class(shell)
    context = click.get_current_context().find_root()
    if made is not None:
        script = made(context.command, {}, "amends", "_AMENDS_COMPLETE").source_vars()
        text = made.source_template % script
        click.echo(json.dumps({"type": "completion", "script": text}) if as_json else text)
