"""Commands to copy that name the module a saga needs: as its journal remembers it, where the configuration has it not.

A name out of a journal is shown and never imported: whoever could write the journal could have any code run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from amends.cli import configured
from amends.core.declared import declared_in
from amends.core.events import SagaStarted
from amends.core.values import SagaId
from amends.evidence.commands import file_input
from amends.journal.protocol import Journal
from amends.runtime.registry import BUILT_IN

PLACEHOLDER: Final = "MODULE"


async def read_begun(journal: Journal, saga: str) -> SagaStarted | None:
    """What a saga began with; None where there is no such saga, or that was removed."""
    async for entry in journal.read(SagaId(saga)):
        return entry.event if not entry.is_removed and isinstance(entry.event, SagaStarted) else None
    return None


def modules_for(begun: SagaStarted | None) -> tuple[str, ...]:
    """What a command that takes up this saga has to name: nothing, its module, or a word that stands for it."""
    if begun is not None and (file_input(begun.input) is not None or begun.definition.startswith(BUILT_IN)):
        return ()
    module, known = declared_in(begun), configured.modules()
    if module:
        return () if module in known else (module,)
    return () if known else (PLACEHOLDER,)


def options_for(begun: SagaStarted | None) -> tuple[str, ...]:
    """The same, as options."""
    return tuple(word for module in modules_for(begun) for word in ("--module", module))


def unconfigured(modules: Iterable[str]) -> tuple[str, ...]:
    """The modules that a command was given, as the next one has to be: nothing where the configuration has them."""
    given, known = tuple(modules), configured.modules()
    return () if set(given) <= set(known) else given
