"""The module that declared a saga's definition, as its beginning has it: a name to show to people, never to import."""

from __future__ import annotations

from amends.core.events import SagaStarted


def declared_in(begun: SagaStarted | None) -> str:
    """'' where the journal does not say, or says what is no module's name."""
    name = "" if begun is None else begun.module
    return name if all(map(str.isidentifier, name.split("."))) else ""


def resuming(begun: SagaStarted | None) -> str:
    """The command that goes on with it."""
    return f"amends resume {declared_in(begun)}".rstrip()
