"""The journal as a stream of CloudEvents, for `amends evidence events`."""

from __future__ import annotations

import json
from typing import Final

import click

from amends.cli import session
from amends.clock import SystemClock
from amends.telemetry.cloudevents import cloud_event

_POLL_S: Final = 0.5


async def write_events(address: str, saga: str | None, *, after: int, source: str, follow: bool) -> None:
    """Write what is past this position, a line each; then, if asked to, what comes."""
    async with session.opened_to_read(address) as journal:
        while True:
            async for position, entry in journal.log(after=after):
                after = position
                if saga is None or entry.saga == saga:
                    event = cloud_event(entry, source=source) | {"amendsposition": position}
                    click.echo(json.dumps(event))
            if not follow:
                break
            await SystemClock().sleep(_POLL_S)
