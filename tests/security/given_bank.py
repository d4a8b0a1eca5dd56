"""A bank whose errors quote the token, as such errors do. Its sagas are run by commands, each a process of its own."""

import amends
from amends import Done, Fatal, Secret, Work, action, saga

LONG = "x" * 4040


@action("bank.transfer", retries=amends.Retries(attempts=1))
def transfer(cents: int, token: Secret) -> str:
    if cents < 0:
        raise Fatal("401 for bearer " + token.reveal(), happened=False)
    return f"{cents} cents"


@transfer.compensation
def transfer_back(done: Done) -> None:
    raise Fatal("401 for bearer " + done.args["token"].reveal())


@saga("bank.pay")
async def pay(s: Work, cents: int) -> str:
    return await s.do(transfer, cents, Secret.env("BANK_TOKEN"))


@saga("bank.quote")
async def quote(s: Work, token: Secret) -> None:
    raise ValueError(f"the bank refused {token.reveal()}")


@action("bank.long", retries=amends.Retries(attempts=1), no_rollback="it only says something long")
def long(token: Secret) -> None:
    raise Fatal(LONG + token.reveal() + LONG, happened=False)


@saga("bank.at_length")
async def at_length(s: Work) -> None:
    await s.do(long, Secret.env("BANK_TOKEN"))
