"""Somebody leaves: their roles are taken away, their files handed over, their login closed. All of it, or none of it.

    python examples/offboarding.py

It runs twice, and both times the login cannot be closed. The first time everything is put back as it was. The second
time somebody has changed the roles in between: that is not overwritten, and a person is called.
"""

import asyncio
import tempfile

from amends import Asked, ChangedSince, Coordinator, Done, Ended, Fatal, Happened, NotHappened, Work, action, saga
from amends.evidence.story.timeline import timeline

# The directory, as another system holds it.
roles: dict[str, list[str]] = {}
owners: dict[str, str] = {}
closed: set[str] = set()


# -- the actions ------------------------------------------------------------------------------------------------------


@action("roles.revoke", idempotent=True)
def revoke_roles(user: str) -> None:
    roles[user] = []


@revoke_roles.before
def roles_of(user: str) -> list[str]:
    """The before-image: on record before anything is changed, and handed to the compensation as done.before."""
    return list(roles[user])


@revoke_roles.compensation
def restore_roles(done: Done) -> None:
    user = done.args["user"]
    if roles[user] == done.before:
        return  # it never happened, or was put back already
    if roles[user]:
        raise ChangedSince(f"{user} has been given {', '.join(roles[user])} since")
    roles[user] = done.before


@revoke_roles.probe
def are_roles_revoked(asked: Asked) -> Happened | NotHappened:
    """What settles a lost attempt, and what a drill asks afterwards."""
    return NotHappened() if roles[asked.args["user"]] else Happened()


@action("files.hand_over", idempotent=True)
def hand_over(file: str, to: str) -> None:
    owners[file] = to


@hand_over.before
def owner_of(file: str) -> str:
    return owners[file]


@hand_over.compensation
def hand_back(done: Done) -> None:
    file = done.args["file"]
    if owners[file] == done.args["to"]:
        owners[file] = done.before


@hand_over.probe
def is_handed_over(asked: Asked) -> Happened | NotHappened:
    return Happened() if owners[asked.args["file"]] == asked.args["to"] else NotHappened()


@action("login.close")
def close_login(user: str, meanwhile: list[str]) -> None:
    if meanwhile:
        roles[user] = meanwhile  # somebody else is at it too
    raise Fatal("the directory is read-only today", happened=False)


@close_login.compensation
def reopen_login(done: Done) -> None:
    closed.discard(done.args["user"])


@close_login.probe
def is_login_closed(asked: Asked) -> Happened | NotHappened:
    return Happened() if asked.args["user"] in closed else NotHappened()


# -- the saga ---------------------------------------------------------------------------------------------------------


@saga("user.offboard")
async def offboard(s: Work, user: str, files: list[str], heir: str, meanwhile: list[str]) -> None:
    await s.do(revoke_roles, user)
    for file in files:
        await s.do(hand_over, file, heir)
    await s.do(close_login, user, meanwhile)


async def show(coordinator: Coordinator, ended: Ended) -> None:
    history = await coordinator.show(ended.id)
    for line in timeline(history.entries):
        print(f"{line.direction:<8} {line.step or '':>2}  {line.topic:<16}  {line.text}")
    print(f"=> {ended.status}; roles {roles}, owners {owners}\n")


async def main(place: str) -> None:
    roles["kim"] = ["admin", "billing"]
    owners["plan.txt"] = "kim"
    async with Coordinator.open(f"{place}/amends.db", env="production") as coordinator:
        for meanwhile in ([], ["auditor"]):
            ended = await coordinator.run(offboard, "kim", ["plan.txt"], heir="ana", meanwhile=meanwhile)
            await show(coordinator, ended)
        for incident in await coordinator.incidents():
            print(f"incident {incident.kind}: {incident.why}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(directory))
