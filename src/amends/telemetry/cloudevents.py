"""Every fact as a CloudEvent 1.0 in JSON, a line each. Pure: who carries the lines away is somebody else's business.

An idempotency key is what a provider takes for proof of who asks, so no line has one: it holds the key's digest, by
which two lines about one key can be matched.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, TextIO, cast

from amends.core.words.values import Json
from amends.journal.codec import shown_fields
from amends.journal.port.journal import Entry

MEDIA_TYPE: Final = "application/cloudevents+json"
SOURCE: Final = "/amends"


def cloud_event(entry: Entry, *, source: str = SOURCE) -> dict[str, Json]:
    """One fact. `id` and `source` together are its name for good: who gets it twice can tell."""
    event: dict[str, Json] = {
        "specversion": "1.0",
        "id": f"{entry.saga}/{entry.number}",
        "source": source,
        "type": f"amends.{entry.name.partition('/')[0]}",
        "dataschema": f"amends:{entry.name}",
        "subject": entry.saga,
        "time": datetime.fromtimestamp(entry.at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "amendshash": entry.hash.hex(),
    }
    if not entry.is_removed:
        event["datacontenttype"] = "application/json"
        event["data"] = _without_keys(shown_fields(entry.body, entry.event))
    return event


def lines(to: TextIO, *, source: str = SOURCE) -> Callable[[Entry], None]:
    """An observer that writes a line for each entry: `coordinator.observe(lines(file))`."""

    def write(entry: Entry) -> None:
        to.write(json.dumps(cloud_event(entry, source=source), ensure_ascii=False) + "\n")
        to.flush()

    return write


def _without_keys(body: Json) -> Json:
    """Only at the top, where an event has its own: what users call `key` in their arguments is theirs."""
    if not isinstance(body, dict) or not isinstance(body.get("key"), str):
        return body
    shown = dict(body)
    shown["key_digest"] = hashlib.sha256(cast("str", shown.pop("key")).encode()).hexdigest()[:16]
    return shown
