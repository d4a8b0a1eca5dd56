"""An incident-response agent: it tries three remedies, takes back each that does not help, and keeps the one that does.

    python respond.py service/ incidents.db page-1

The service is a directory: `config.json` is how it runs, `cause.txt` says what really is wrong with it. A remedy
changes the configuration; a look at the service's health says whether it helped. Killed anywhere, run it again with
the same id.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import amends
from amends import Asked, ChangedSince, Done, Ended, Happened, NotHappened, Work, action, saga

REMEDIES = [("workers", 8), ("cache_mb", 512), ("release", "41")]
CURES = {"overload": "workers", "cold cache": "cache_mb", "bad release": "release"}


def service() -> Path:
    return Path(os.environ["SERVICE"])


def config() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((service() / "config.json").read_text())
    return found


def write(setting: str, value: object) -> None:
    changed = config() | {setting: value}
    fresh = service() / "config.json.new"
    fresh.write_text(json.dumps(changed))
    fresh.replace(service() / "config.json")
    with (service() / "log.txt").open("a") as log:
        log.write(f"{setting}={value}\n")


def go_down(where: str) -> None:
    """The test's: the machine goes down here, once."""
    mark = service() / f"kill-{where}"
    if mark.exists():
        mark.unlink()
        os.kill(os.getpid(), 9)


@action("service.set", idempotent=True, risk={"availability"})
def change(setting: str, value: int | str) -> None:
    """Change one setting of the service."""
    write(setting, value)
    go_down(f"after-{setting}")


@change.before
def found(setting: str) -> Any:
    return config()[setting]


@change.probe
def is_changed(asked: Asked) -> Happened | NotHappened:
    return Happened() if config()[asked.args["setting"]] == asked.args["value"] else NotHappened()


@change.compensation
def change_back(done: Done) -> None:
    """Give the setting the value that it had."""
    setting = done.args["setting"]
    if config()[setting] not in (done.args["value"], done.before):
        raise ChangedSince(f"{setting} is {config()[setting]}: somebody else has changed it meanwhile")
    go_down(f"before-undoing-{setting}")
    write(setting, done.before)


@action("service.health", read_only=True, retries=1)
def health(tried: str) -> str:
    """Look whether the service is well again."""
    cause = (service() / "cause.txt").read_text()
    if CURES.get(cause) != tried:
        raise RuntimeError(f"still slow after {tried}")
    return f"well again by {tried}"


@saga("incident.respond")
async def respond(s: Work) -> str:
    said = ""
    async for attempt in s.attempts("remedy", max=len(REMEDIES)):
        async with attempt:
            setting, value = REMEDIES[attempt.number - 1]
            await s.do(change, setting, value)
            said = await s.do(health, setting)
    return said


def main(place: str, journal: str, page: str) -> Ended:
    os.environ["SERVICE"] = place
    return amends.run(respond, journal=journal, id=page, actor="agent:on-call")


if __name__ == "__main__":
    ended = main(*sys.argv[1:4])
    print(ended.status, ended.result if ended.status == "completed" else ended.why)
