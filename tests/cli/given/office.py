"""Sagas about which people are asked, in a module as a user would write it. Its world is the working directory."""

from pathlib import Path

from amends import Done, Fatal, Work, action, saga


def note(what: str) -> None:
    with Path("world.txt").open("a", encoding="utf-8") as world:
        world.write(f"{what}\n")


@action("desk.clear")
def clear_desk(name: str) -> None:
    note(f"+ cleared {name}")


@clear_desk.compensation
def restore_desk(done: Done) -> None:
    """Put everything back where it was."""
    note(f"- cleared {done.args['name']}")


@action("account.delete", no_rollback="what is deleted is gone", risk={"data"})
def delete_account(name: str, note_to_all: str) -> str:
    """Delete an account for good."""
    note(f"+ deleted {name}")
    return f"{name} is gone"


@action("cake.order")
def order_cake(name: str) -> None:
    raise Fatal("the bakery is closed", happened=False)


@order_cake.compensation
def cancel_cake(done: Done) -> None: ...


@saga("office.leave")
async def leave(s: Work, name: str, note_to_all: str = "bye") -> str:
    await s.do(clear_desk, name)
    return await s.do(delete_account, name, note_to_all)


@saga("office.party")
async def party(s: Work, name: str) -> None:
    await s.do(clear_desk, name)
    await s.do(order_cake, name)
