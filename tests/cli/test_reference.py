"""The reference has every command, in the order in which the help has them. To have it brought up to date:

python tests/cli/test_reference.py
python tests/test_docs.py --write docs/look-up/command-line.md
"""

import re
from collections.abc import Iterator
from pathlib import Path

import click

from amends.cli.groups import sentence
from amends.cli.main import cli

PAGE = Path(__file__).parents[2] / "docs" / "look-up" / "command-line.md"


def commands(command: click.Command = cli, words: tuple[str, ...] = ("amends",)) -> Iterator[str]:
    if not isinstance(command, click.Group):
        yield " ".join(words)
        return
    if words == ("amends",) or command.params:
        yield " ".join(words)
    for name in command.commands:
        inner = command.get_command(click.Context(command), name)
        if inner is not None and not inner.hidden:
            yield from commands(inner, (*words, name))


def sections(page: str) -> dict[str, str]:
    parts = re.split(r"^## `(amends[^`]*)`$", page, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_command_has_its_section() -> None:
    assert list(sections(PAGE.read_text(encoding="utf-8"))) == list(commands()), __doc__


def test_the_help_says_of_each_command_what_the_command_says_itself() -> None:
    """The help knows them by heart: it imports none."""
    for name, known in cli.commands.items():
        real = cli.get_command(click.Context(cli), name)
        assert real is not None
        assert (real.name, sentence(real), real.hidden) == (name, sentence(known), False)


def main() -> None:
    page = PAGE.read_text(encoding="utf-8")
    known, head = sections(page), page.partition("\n## `amends")[0]
    fresh = "\n\n```console\n$ {} --help\n```\n\n"
    texts = [f"## `{name}`{known.get(name) or fresh.format(name)}" for name in commands()]
    PAGE.write_text("\n".join([head, *(text.strip("\n") + "\n" for text in texts)]), encoding="utf-8")


if __name__ == "__main__":
    main()
