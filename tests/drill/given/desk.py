"""A user's module: a good saga, one whose compensation undoes nothing, and one that cannot be seen."""

import amends
from amends import Asked, Done, Happened, NotHappened, Work, action, saga

booked: dict[str, str] = {}
sent: list[str] = []


def fresh() -> None:
    booked.clear()
    sent.clear()


def seen() -> object:
    return {"booked": booked, "sent": sent}


@action("desk.book")
def book(room: str) -> str:
    booked[amends.key()] = room
    return room


@book.compensation
def free(done: Done) -> None:
    """Free the room."""
    booked.pop(done.action_key, None)


@book.probe
def find(asked: Asked) -> Happened | NotHappened:
    return Happened(asked.args["room"]) if asked.key in booked else NotHappened()


@action("desk.forget")
def keep(room: str) -> None:
    booked[amends.key()] = room


@keep.compensation
def forget(done: Done) -> None:
    """Does nothing, and says that all is well."""


@keep.probe
def is_kept(asked: Asked) -> Happened | NotHappened:
    return Happened() if asked.key in booked else NotHappened()


@action("desk.tell")
def tell(text: str) -> None:
    sent.append(text)


@tell.compensation
def take_back(done: Done) -> None:
    if done.args["text"] in sent:
        sent.remove(done.args["text"])


@saga("desk.good")
async def good(s: Work, room: str = "A") -> None:
    await s.do(book, room)


@saga("desk.bad")
async def bad(s: Work, room: str = "A") -> None:
    await s.do(book, room)
    await s.do(keep, room)


@saga("desk.unseen")
async def unseen(s: Work, room: str = "A") -> None:
    await s.do(book, room)
    await s.do(tell, "hello")
