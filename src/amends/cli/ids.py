"""Ids as people write them: the beginning of a saga's id stands for it, as long as it is the only one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, TypeVar, cast

import click

from amends.cli.completing import complete_approval, complete_incident, complete_saga
from amends.cli.journal import look, looked_at
from amends.cli.show.output import hint
from amends.core.words.values import OWN, SagaId
from amends.errors import JournalAccessError, UnknownSagaError
from amends.journal.port.journal import ROOT, Journal, SagaQuery
from amends.operate.reading import unknown

F = TypeVar("F", bound=Callable[..., Any])
_NAMED: Final = 5
_LOOKED_AT: Final = 500


def with_saga(command: F) -> F:
    """A saga's id, as `saga_id`."""
    return _argument(command, "saga_id", "ID", complete_saga)


def with_saga_to_find(command: F) -> F:
    """A saga's id as it was given, as `saga_id`; the command has `find_whole` find it in the journal that it opens."""
    return click.argument("saga_id", metavar="ID", shell_complete=complete_saga)(command)


def with_optional_saga(command: F) -> F:
    """A saga's id as `saga_id`, or None."""
    return _argument(command, "saga_id", "[ID]", complete_saga, required=False)


def with_sagas(command: F) -> F:
    """Any number of sagas' ids, as `saga_ids`."""
    return _argument(command, "saga_ids", "[ID]...", complete_saga, nargs=-1)


def with_incident(command: F) -> F:
    """An incident's id, as `incident_id`."""
    return _argument(command, "incident_id", "ID", complete_incident)


def with_approval(command: F) -> F:
    """An approval's id, as `approval_id`."""
    return _argument(command, "approval_id", "ID", complete_approval)


def with_approvals(command: F) -> F:
    """One or more approvals' ids, as `approval_ids`."""
    return _argument(command, "approval_ids", "ID...", complete_approval, nargs=-1, required=True)


def _argument(command: F, name: str, metavar: str, complete: Callable[..., list[str]], **how: Any) -> F:  # noqa: ANN401 - as click takes them
    return click.argument(name, metavar=metavar, shell_complete=complete, **how)(with_whole(command, name))


def with_whole(command: F, name: str) -> F:
    """Give a command the whole id, or ids, of what it was named by the beginning of."""

    @functools.wraps(command)
    def with_id(*args: Any, journal: str, **others: Any) -> Any:  # noqa: ANN401 - as the command takes them
        given: object = others[name]
        is_saga = name.startswith("saga")
        if isinstance(given, str):
            others[name] = whole_id(journal, given, is_saga=is_saga)
        elif isinstance(given, tuple):
            others[name] = tuple(whole_id(journal, each, is_saga=is_saga) for each in cast("tuple[str, ...]", given))
        return command(*args, journal=journal, **others)

    return cast("F", with_id)


def whole_id(address: str, given: str, *, is_saga: bool = True) -> str:
    """A saga's whole id; of an incident or an approval, `<saga>/<what>`, too. Raises UnknownSagaError where several
    sagas are meant, or no saga, and it has to be one.

    Where it was given by its beginning alone, the whole is said. What follows a slash is left to who knows it.
    """
    saga, slash, rest = given.partition("/")

    async def found() -> str | None:
        async with looked_at(address) as journal:
            return await find_saga(journal, saga, has_to_be=is_saga)

    try:
        whole = look(found())
    except JournalAccessError:
        if is_saga:
            raise
        return given  # what is no such id at all is told as that
    if whole is None or whole == saga:
        return given
    hint(f"{given} is {whole}{slash}{rest}")
    return f"{whole}{slash}{rest}"


async def find_whole(journal: Journal, given: str) -> SagaId:
    """A saga's whole id, which is said where only its beginning was given. Raises UnknownSagaError as `find_saga`."""
    whole = await find_saga(journal, given) or given
    if whole != given:
        hint(f"{given} is {whole}")
    return SagaId(whole)


async def find_saga(journal: Journal, given: str, *, has_to_be: bool = True) -> str | None:
    """The saga of this id, else the only one whose id begins so; None where there is none, and there need not be.

    Raises UnknownSagaError where there is none, or there are several. Amends' own have to be spelled out.
    """
    if await journal.saga(SagaId(given)) is not None:
        return given
    named = await _beginning(journal, given) if given else []
    if len(named) > 1:
        several = ", ".join(named[:_NAMED])
        more = ", and more" if len(named) > _NAMED else ""
        raise UnknownSagaError(f"{given} is how the ids of several sagas begin: {several}{more}; write more of it")
    if not named and has_to_be:
        raise await unknown(journal, given)
    return named[0] if named else None


async def _beginning(journal: Journal, given: str) -> list[str]:
    """The sagas whose ids begin so, newest first, a few of them; a family counts as one, whose root it is."""
    query, named = SagaQuery(starts_with=given, without=OWN, limit=_LOOKED_AT), dict[str, None]()
    while True:
        page = await journal.sagas(query)
        for row in page.rows:
            root = row.labels.get(ROOT, row.id)
            named[root if root.startswith(given) else row.id] = None
        if page.cursor is None or len(named) > _NAMED:
            return list(named)
        query = replace(query, before=page.cursor)
