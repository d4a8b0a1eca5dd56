"""A crowd at two desks, in a process of its own: sagas that cross each other, wait, count in a document, and go back.

crowd.py JOURNAL begin PREFIX MANY      start so many sagas, and say how each ended
crowd.py JOURNAL resume                 drive whatever is left until nothing is
"""

import asyncio
import json
import sys

from amends import Coordinator, Done, Fatal, SagaStatus, Settings, Work, action, saga

SETTINGS = Settings(park_s=0.05, poll_s=0.1, lock_wait_s=120.0)
UNFINISHED = ("running", "waiting", "rolling_back")


@action("crowd.sit", idempotent=True, resources=["desk:{desk}"])
async def sit(desk: int) -> None:
    await asyncio.sleep(0.002)


@sit.compensation
async def stand(done: Done) -> None:
    await asyncio.sleep(0.002)


@saga("crowd.visit")
async def visit(s: Work, n: int) -> None:
    for desk in (1, 2) if n % 2 else (2, 1):
        await s.do(sit, desk)
    await s.lock("document:count")
    await s.documents.update("count", lambda seen: seen + 1, 0)
    if n % 5 == 0:
        raise Fatal("forgot something")


def say(**what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


async def main() -> None:
    async with Coordinator.open(sys.argv[1], settings=SETTINGS) as coordinator:
        if sys.argv[2] == "begin":
            handles = [await coordinator.start(visit, n, id=f"{sys.argv[3]}-{n}") for n in range(int(sys.argv[4]))]
            for handle in handles:
                ended = await handle
                say(id=ended.id, status=ended.status)
            return
        while await coordinator.list(status=UNFINISHED):
            await coordinator.resume()
            await asyncio.sleep(0.05)
        found = await coordinator.documents.get("count")
        statuses = [row.status async for row in coordinator.list()]
        say(
            sagas=len(statuses),
            ended=sum(status.ended for status in statuses),
            completed=statuses.count(SagaStatus.COMPLETED),
            counted=0 if found is None else found.body,
            held=len(await coordinator.locks()),
        )


if __name__ == "__main__":
    asyncio.run(main())
