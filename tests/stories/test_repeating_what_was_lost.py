"""A mail that nobody knows to have gone out: a person who has it tried again says that it may go out twice."""

import asyncio
from pathlib import Path

import pytest

from amends import Coordinator, Work, action, saga
from amends.errors import AmendsError, RefusedError
from tests.cli.shell import Shell

MAILS = """
from pathlib import Path
from amends import Work, action, saga

@action("deal.sign", no_rollback="it is signed")
def sign(name: str) -> None: ...

@action("mail.send", no_rollback="a mail cannot be unsent")
def send(to: str) -> None:
    with Path("mails").open("a") as mails:
        mails.write(to + "\\n")
    if not Path("mended").exists():
        raise ConnectionError("the line went dead")

@action("mail.last", no_rollback="a mail cannot be unsent", hold=True)
def send_last(to: str) -> None:
    send(to)

@action("mail.again", no_rollback="a mail cannot be unsent", idempotent=True, retries=1)
def again(to: str) -> None:
    send(to)

@saga("deal")
async def deal(s: Work) -> None:
    await s.do(sign, "x")
    await s.do(send, "ann")

@saga("held")
async def held(s: Work) -> None:
    await s.do(send_last, "ann")

@saga("keyed")
async def keyed(s: Work) -> None:
    await s.do(sign, "x")
    await s.do(again, "ann")
"""
AGAIN = ("--module", "mails", "--by", "person:kim")


@pytest.fixture
def amends(tmp_path: Path) -> Shell:
    (tmp_path / "mails.py").write_text(MAILS, encoding="utf-8")
    return Shell(tmp_path)


def stopped(amends: Shell, name: str) -> str:
    """The incident of a saga whose mail was lost; it can go out from now on."""
    assert amends.here("run", f"mails:{name}", "--id", name).code == 4
    (amends.place / "mended").touch()
    return f"{name}/1"


def mails(amends: Shell) -> list[str]:
    return (amends.place / "mails").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("name", ["deal", "held"])
def test_in_a_pipe_it_is_refused_with_both_ways_and_done_with_repeat(amends: Shell, name: str) -> None:
    incident = stopped(amends, name)
    said = amends.here("incident", "retry", incident, *AGAIN)
    assert "so trying again may do it twice" in said.complaint
    assert "amends incident resolve --proof" in said.complaint
    assert "amends incident retry --repeat" in said.complaint
    assert mails(amends) == ["ann"]
    assert "--repeat" in amends.here("incident", "show", incident).out
    assert amends.here("incident", "retry", incident, "--repeat", *AGAIN).code == 0
    assert mails(amends) == ["ann", "ann"]
    shown = amends.here("saga", "show", name).out
    assert "retried by person:kim, who has it done once more though an attempt was lost" in shown
    assert "though it may then happen twice" in amends.here("incident", "show", incident).out
    (retried,) = [
        record["body"]
        for record in amends.here("saga", "show", name, "--json").of_type("entry")
        if record["name"] == "incident.retried/1"
    ]
    assert (retried["by"], retried["repeat"]) == ("person:kim", True)


@pytest.mark.parametrize(("answer", "code", "sent"), [("y\n", 0, 2), ("n\n", 4, 1)])
def test_on_a_terminal_it_is_shown_and_asked(amends: Shell, answer: str, code: int, sent: int) -> None:
    incident = stopped(amends, "deal")
    said = amends.on_terminal("incident", "retry", incident, *AGAIN, typed=answer)
    assert "mail.send  to=ann" in said.out
    assert "was begun once, and nobody knows whether it took effect" in said.out
    assert "it may happen twice" in said.out
    assert "--proof TEXT" in said.out
    assert (said.code, len(mails(amends))) == (code, sent)


def test_what_says_that_it_may_be_repeated_is_repeated(amends: Shell) -> None:
    incident = stopped(amends, "keyed")
    assert "--repeat" not in amends.here("incident", "show", incident).out
    assert amends.here("incident", "retry", incident, *AGAIN).code == 0
    assert mails(amends) == ["ann", "ann"]


def test_from_python_the_error_names_both_ways(tmp_path: Path) -> None:
    sent: list[str] = []

    @action("py.sign", no_rollback="signed")
    async def sign() -> None: ...

    @action("py.send", no_rollback="a mail cannot be unsent")
    async def send(to: str) -> None:
        sent.append(to)
        if len(sent) == 1:
            raise ConnectionError("the line went dead")

    @saga("py.deal")
    async def deal(s: Work) -> None:
        await s.do(sign)
        await s.do(send, "ann")

    async def whole() -> tuple[AmendsError, str]:
        async with Coordinator.open(str(tmp_path / "amends.db")) as on:
            ended = await on.run(deal, id="d")
            with pytest.raises(RefusedError) as refused:
                await on.retry_incident(ended.incidents[0], by="person:kim")
            assert len(sent) == 1
            again = await on.retry_incident(ended.incidents[0], by="person:kim", repeat=True)
            return refused.value, again.status

    refused, status = asyncio.run(whole())
    assert "resolve_incident(…, proof=…)" in str(refused)
    assert "retry_incident(…, repeat=True)" in str(refused)
    assert (status, len(sent)) == ("completed", 2)
