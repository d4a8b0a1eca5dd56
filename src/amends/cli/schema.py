"""`amends schema`: the format of a saga's file, for editors and other programs."""

from __future__ import annotations

import click

from amends.cli.options import common


@click.command()
@common
def schema(*, as_json: bool) -> None:
    """Print the JSON Schema of a saga's file.

    An editor that knows it completes keys and shows mistakes while a file is written.
    """
    import json

    from amends.sagafile import json_schema

    click.echo(json.dumps(json_schema(), indent=None if as_json else 2))
