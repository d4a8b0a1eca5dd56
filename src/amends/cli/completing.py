"""Completions that a shell is offered for an id or a module. It reads; nothing of the user's is imported.

Every command names one of these for its arguments, and a shell that starts asks for `amends completion`: a journal and
what opens it is imported where ids are asked for.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Final

from amends.cli import config
from amends.errors import AmendsError

if TYPE_CHECKING:
    import click

    from amends.journal.port.journal import Journal

MOST: Final = 100

_Found = Callable[["Journal", str], Awaitable[list[str]]]


def complete_saga(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Ids of sagas, newest first. Amends' own are offered to whoever has begun to write one."""
    return _read(ctx, incomplete, _sagas)


def complete_incident(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Ids of open incidents."""
    return _read(ctx, incomplete, _incidents)


def complete_approval(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Ids of approvals that wait for an answer."""
    return _read(ctx, incomplete, _approvals)


def complete_module(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Modules of the configuration, and what lies in the working directory."""
    try:
        named = config.modules()
    except AmendsError:  # the command itself will say what is wrong with it
        named = ()
    package, dot, _ = incomplete.rpartition(".")
    return _begins(incomplete, (*named, *(f"{package}{dot}{name}" for name in _beside(package))))


def _begins(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in dict.fromkeys(names) if name.startswith(incomplete)][:MOST]


def _beside(package: str) -> list[str]:
    """The modules and packages in a package of the working directory, by the names of their files."""
    place = os.path.join(".", *package.split("."))  # noqa: PTH118 - pathlib is slow to import, and a shell waits
    found: set[str] = set()
    try:
        with os.scandir(place) as entries:
            for entry in entries:
                name = entry.name if entry.is_dir() else entry.name.removesuffix(".py")
                is_module = entry.is_file() and name != entry.name
                is_package = entry.is_dir() and os.path.isfile(os.path.join(entry.path, "__init__.py"))  # noqa: PTH113, PTH118 - as above
                if (is_module or is_package) and name.isidentifier() and not name.startswith("_"):
                    found.add(name)
    except OSError:
        return []
    return sorted(found)


def _read(ctx: click.Context, incomplete: str, find: _Found) -> list[str]:
    """Ids that a journal has; none where there is none, or it cannot be read: a shell has no place for an error."""
    import asyncio

    from amends.cli.journal import opened_to_read

    async def whole() -> list[str]:
        address = ctx.params.get("journal") or os.environ.get("AMENDS_JOURNAL") or config.journal()
        async with opened_to_read(str(address)) as journal:
            return await find(journal, incomplete)

    try:
        return _begins(incomplete, asyncio.run(whole()))
    except (AmendsError, OSError):
        return []


async def _sagas(journal: Journal, incomplete: str) -> list[str]:
    from amends.core.words.values import OWN
    from amends.journal.port.journal import SagaQuery

    page = await journal.sagas(SagaQuery(starts_with=incomplete, without=() if incomplete else OWN, limit=MOST))
    return [row.id for row in page.rows]


async def _incidents(journal: Journal, _incomplete: str) -> list[str]:
    from amends.journal.port.journal import PersonQuery

    return [row.id for row in (await journal.incidents(PersonQuery(limit=1000))).rows]


async def _approvals(journal: Journal, _incomplete: str) -> list[str]:
    from amends.journal.port.journal import PersonQuery

    return [row.id for row in (await journal.approvals(PersonQuery(limit=1000))).rows]
