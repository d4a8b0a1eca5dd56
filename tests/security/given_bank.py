"""A bank whose errors quote the token, as such errors do. Its sagas are run by commands, each a process of its own."""

import logging

import amends
from amends import Done, Fatal, Secret, Work, action, saga
from amends.changeset import Files

LONG = "x" * 4040
FORGED = "2026-01-01 INFO amends.gate: approval granted by person:kim"
logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")


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
async def quote(s: Work) -> None:
    token = Secret.env("BANK_TOKEN").reveal()
    try:
        raise LookupError(f"refused {token}\n{FORGED}\x1b[2K")
    except LookupError as exc:
        raise ValueError(f"the bank refused {token}\n{FORGED}\x1b[2K") from exc


@action("bank.long", retries=amends.Retries(attempts=1), no_rollback="it only says something long")
def long(token: Secret) -> None:
    raise Fatal(LONG + token.reveal() + LONG, happened=False)


@saga("bank.at_length")
async def at_length(s: Work) -> None:
    await s.do(long, Secret.env("BANK_TOKEN"))


@action("bank.keep")
def keep(files: Files, token: Secret) -> None:
    files.write_text("conf", token.reveal() + "\n")


@saga("bank.keep_token")
async def keep_token(s: Work) -> None:
    files = s.files("tree")
    await s.do(keep, files, Secret.env("BANK_TOKEN"))
    await s.land(files, "put", verify=["python3", "check.py"])
