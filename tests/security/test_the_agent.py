"""Attacks by the agent itself: what it calls, returns, writes into files, and decides under its honest name."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import threading
import unicodedata
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

import amends
from amends import (
    Asked,
    Coordinator,
    Done,
    Ended,
    Fatal,
    Happened,
    Limits,
    Registry,
    Retries,
    Retry,
    SagaDefinition,
    SagaStatus,
    Secret,
    Settings,
    Work,
    action,
    register,
    saga,
)
from amends.bootstrap import Opening
from amends.changeset import (
    Changeset,
    Dropped,
    Files,
    Landed,
    Limits as TreeLimits,
    Terms,
    Unverified,
    take_back,
)
from amends.changeset.disk.disk import Disk, DiskName
from amends.changeset.store.home import Home
from amends.changeset.views import probe
from amends.clock import SystemClock
from amends.core.events import AttemptFailed
from amends.core.words.values import SagaId, StepId, Weight
from amends.errors import InputError, LimitError, NotDone, RefusedError, ViewError
from amends.evidence.story.timeline import timeline
from amends.journal.sqlite import SqliteJournal
from amends.private import claim_journal
from amends.runtime.declare.names import login
from amends.runtime.values.bounded import ON_LOOP
from amends.text import visible
from tests.cli.shell import Shell
from tests.parts import sampled
from tests.runtime.test_approvals import parked
from tests.security.confinement import (
    USERS,
    VIEWS,
    in_a_loop,
    kept_in_of,
    terms,
    unconfined_work,
    verified_work,
    work,
    worked,
)
from tests.security.held import desk
from tests.security.landings import LARGE, MANY_LINES, judged_landing, shown_by_command
from tests.security.leaks import everything_about, leaks
from tests.security.removals import FORGET, MARK, STRIP, broken_index, edit, failed_saga, removals, verdicts
from tests.security.values import HOSTILE

# -- secrets ----------------------------------------------------------------------------------------------------------

TOKEN = "tok-" + "".join(f"{number:02x}" for number in range(40))
SHORT = "z-9k!"  # too short to be looked for anywhere but where it was given
ONCE = Retries(attempts=1)


@pytest.fixture
def bank(tmp_path: Path) -> Shell:
    shell = Shell(tmp_path)
    shutil.copy(Path(__file__).with_name("given_bank.py"), tmp_path / "bank.py")
    return shell


def entries_of(journal: Path) -> str:
    return "".join(each.read_bytes().decode("utf-8", "replace") for each in journal.parent.glob(f"{journal.name}*"))


def ran_here(journal: Path, *sagas: tuple[Any, ...]) -> list[Ended]:
    """How these sagas ended, one after the other, in this process: each with what it is given."""

    async def whole() -> list[Ended]:
        async with Coordinator.open(str(journal), registry=Registry(), signals=False) as coordinator:
            return [await coordinator.run(*each) for each in sagas]

    return asyncio.run(whole())


def test_a_compensation_in_another_process_does_not_tell_the_secret_of_its_step(bank: Shell) -> None:
    """The value is read from the environment again there, and quoted in the error of the compensation."""
    ran = bank("run", "bank:pay", "--input", '{"cents": 5}', "--id", "p", BANK_TOKEN=TOKEN)
    back = bank("saga", "cancel", "p", "--module", "bank", "--by", "person:kim", "--why", "no", BANK_TOKEN=TOKEN)
    assert (ran.code, back.code) == (0, 4), (ran, back)
    said = everything_about(bank, "p") + ran.out + ran.err + back.out + back.err
    assert "401 for bearer [secret]" in said
    assert leaks(said, TOKEN) == []


def test_the_search_comes_before_the_cut(bank: Shell) -> None:
    """A secret that lay over the last kept character of an error was found no more, and most of it stayed."""
    ran = bank("run", "bank:at_length", "--id", "l", BANK_TOKEN=TOKEN)
    assert ran.code == 3, ran
    said = everything_about(bank, "l") + ran.out + ran.err
    assert leaks(said, TOKEN) == []


@pytest.mark.parametrize("secret", [SHORT, TOKEN])
def test_what_the_saga_s_function_raises_is_searched_for_the_secrets_of_its_input(tmp_path: Path, secret: str) -> None:
    """The saga's own function quotes a secret of its input in the error that it raises."""

    @saga("quotes.its.input")
    async def quotes(s: Work, token: Secret, how: str) -> None:
        said = f"the bank refused <{token.reveal()}>"
        match how:
            case "raise":
                raise ValueError(said)
            case "group":
                raise ExceptionGroup(said, [ValueError(said)])
            case "abort":
                await s.abort(said)
            case "fatal":
                raise Fatal(said)
            case _:
                async for attempt in s.attempts("try", max=2):
                    async with attempt:
                        raise LookupError(said)

    journal = tmp_path / "j.db"
    ways = ("raise", "group", "abort", "fatal", "attempts")
    ended = ran_here(journal, *((quotes, Secret(secret), how) for how in ways))
    assert {one.status for one in ended} == {"rolled_back"}
    said = entries_of(journal)
    assert said.count("the bank refused <[secret]>") >= 5
    assert secret not in said


@pytest.mark.parametrize("secret", [SHORT, TOKEN])
def test_a_completed_child_s_compensation_does_not_tell_its_parent_s_secret(tmp_path: Path, secret: str) -> None:
    """The child is driven anew to be taken back, and by then had nothing of what it was given."""
    kept: list[str] = []

    @action("child.deposit")
    def deposit(token: Secret) -> None:
        kept.append(token.reveal())

    @deposit.compensation
    def withdraw(done: Done) -> None:
        raise Fatal(f"403 for <{kept[0]}>")

    @saga("child.of.bank")
    async def child(s: Work, token: Secret) -> None:
        await s.do(deposit, token)

    @saga("child.of.child")
    async def between(s: Work, token: Secret) -> None:
        await s.call(child, token)

    @saga("parent.of.bank")
    async def parent(s: Work, token: Secret) -> None:
        await s.call(between, token)
        raise LookupError("and now all of it goes back")

    journal = tmp_path / "j.db"
    (ended,) = ran_here(journal, (parent, Secret(secret)))
    assert (ended.status, kept) == ("incident", [secret])
    said = entries_of(journal)
    assert "403 for <[secret]>" in said
    assert secret not in said


def test_a_child_s_compensation_has_the_secret_in_the_process_that_gave_it(tmp_path: Path) -> None:
    """A child that completed is taken back, and its compensation quotes the secret of its parent."""
    back: list[str] = []

    @action("child.deposit")
    def deposit(token: Secret) -> None: ...

    @deposit.compensation
    def withdraw(done: Done) -> None:
        back.append(done.args["token"].reveal())

    @saga("child.of.bank")
    async def child(s: Work, token: Secret) -> None:
        await s.do(deposit, token)

    @saga("parent.of.bank")
    async def parent(s: Work, token: Secret) -> None:
        await s.call(child, token)
        raise LookupError("and now all of it goes back")

    (ended,) = ran_here(tmp_path / "j.db", (parent, Secret(SHORT)))
    assert (ended.status, back) == ("rolled_back", [SHORT])


def quoting(fails: Callable[[str], None]) -> SagaDefinition:
    """A saga of one action that fails in this way, three times."""

    @action(f"error.{fails.__name__}", idempotent=True, retries=Retries(attempts=3, first_s=0.001, cap_s=0.001))
    def act(token: Secret) -> None:
        fails(token.reveal())

    @act.compensation
    def back(done: Done) -> None: ...

    @saga(f"errors.{fails.__name__}")
    async def errs(s: Work, token: Secret) -> None:
        await s.do(act, token)

    return errs


def test_an_action_s_plain_repeated_and_chained_errors_do_not_tell_its_secret(tmp_path: Path) -> None:
    """An action quotes its secret in an error, again in each attempt, and in the error behind the error."""

    def plain(token: str) -> None:
        raise ValueError(f"refused <{token}>")

    def certain(token: str) -> None:
        raise NotDone(f"refused <{token}>")

    def chained(token: str) -> None:
        try:
            plain(token)
        except ValueError as exc:
            raise LookupError(f"refused <{token}> after {exc}") from exc

    def key(token: str) -> None:
        raise KeyError(f"refused <{token}>")

    journal = tmp_path / "j.db"
    for fails in (plain, certain, chained, key):
        (ended,) = ran_here(journal, (quoting(fails), Secret(SHORT)))
        assert ended.status == "rolled_back"
    said = entries_of(journal)
    assert said.count("refused <[secret]>") >= 12
    assert SHORT not in said


def test_validation_and_probe_do_not_tell_it_either(tmp_path: Path) -> None:
    """A validation or a probe quotes the secret of the step that it is about."""

    @action("look.at", read_only=True, retries=ONCE)
    def look(token: Secret) -> int:
        return 1

    @look.validate
    def validate(result: int, token: Secret) -> str:
        return f"flawed by <{token.reveal()}>"

    @action("lose.it", retries=Retries(attempts=2, first_s=0.001, cap_s=0.001))
    def lose(token: Secret) -> None:
        raise TimeoutError(f"lost <{token.reveal()}>")

    @lose.compensation
    def find_nothing(done: Done) -> None: ...

    @lose.probe
    def probe(asked: amends.Asked) -> amends.Happened:
        raise ValueError(f"asked with <{asked.args['token'].reveal()}>")

    @saga("looks")
    async def looks(s: Work, which: str) -> None:
        await s.do(look if which == "look" else lose, Secret(SHORT))

    journal = tmp_path / "j.db"
    ran_here(journal, (looks, "look"), (looks, "lose"))
    said = entries_of(journal)
    assert "flawed by <[secret]>" in said
    assert "lost <[secret]>" in said
    assert "asked with <[secret]>" in said
    assert SHORT not in said


def test_an_error_forges_no_line_of_the_log_and_tells_no_secret_there(bank: Shell) -> None:
    """Its text has a newline and what looks like a line of the log, an ESC, and the token."""
    ran = bank("run", "bank:quote", "--id", "q", BANK_TOKEN=TOKEN)
    assert ran.code == 3, ran
    logged = ran.err + ran.out
    assert "WARNING amends.raised: saga q: its function raised" in logged
    assert "ValueError: the bank refused [secret]\\n2026-01-01 INFO" in logged
    assert not [line for line in logged.splitlines() if line.startswith("2026-01-01")]
    assert "\x1b" not in logged
    assert leaks(everything_about(bank, "q") + logged, TOKEN) == []


# -- what is shown is what lands --------------------------------------------------------------------------------------

SCRIPT = b"".join(b"steal(%d)\n" % number for number in range(300))
EVIL = b"__import__('os').system('touch stolen')"


@pytest.fixture
def landing_tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "job.py").write_bytes(b"print('hello')\n")
    (tree / "key").write_bytes(b"secret\n")
    (tree / "key").chmod(0o600)
    (tree / "large.sql").write_bytes(b"insert into t values (1);\n" * (LARGE // 26))
    return tree


def _writes(path: str, content: bytes) -> Callable[[Files], None]:
    return lambda files: files.write_bytes(path, content)


ROWS: dict[str, tuple[Callable[[Files], None], str, str]] = {
    "300 lines": (_writes("job.py", SCRIPT), MANY_LINES, "+steal(299)"),
    "300 lines and a byte that is no UTF-8": (
        _writes("job.py", b"# coding: latin-1\n# \xff\n" + SCRIPT),
        MANY_LINES,
        "|+steal(299)",
    ),
    "300 lines and a NUL": (_writes("job.py", b"#!/bin/sh\n# \0\n" + SCRIPT), MANY_LINES, "|+steal(299)"),
    "300 lines in a large file": (
        lambda files: files.write_bytes("large.sql", files.read_bytes("large.sql") + SCRIPT),
        MANY_LINES,
        "|+steal(299)",
    ),
    "5000 lines ended by carriage returns": (
        _writes("job.py", b"".join(b"steal(%d)\r" % number for number in range(5000))),
        MANY_LINES,
        "steal(1)\\rsteal(2)",
    ),
    "5000 statements in a line": (
        _writes("job.py", b";".join(b"steal(%d)" % number for number in range(5000))),
        MANY_LINES,
        "steal(4999)",
    ),
    "a key that everybody may read": (
        lambda files: files.chmod("key", 0o666),
        "args.modes_changed: {gt: 0}",
        "new mode 100666",
    ),
    "a file of bytes": (_writes("job.py", os.urandom(9000)), "args.binary_files: {gt: 0}", "after: 9000 bytes"),
    "a line too wide to read": (_writes("job.py", b"x" * 700), "args.widest_line: {gt: 500}", "x" * 700),
    "a line that a terminal shows as two": (
        _writes("job.py", b"# tidy up\r-" + EVIL + b"\n"),
        "args.changed_lines: {gt: 0}",
        "+# tidy up\\r-" + EVIL.decode(),
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_a_landing_is_counted_and_shown_as_it_lands(row: str, landing_tree: Path, tmp_path: Path) -> None:
    """An agent hides what it lands from the rule that counts lines, and from the person who reads the diff."""
    change, rule, sight = ROWS[row]
    before = {path.name: (path.read_bytes(), path.stat().st_mode) for path in landing_tree.iterdir()}
    journal = tmp_path / "journal.db"
    judged = judged_landing(landing_tree, journal, change, rule)
    assert judged.status == "waiting", "it landed, and nobody was asked"
    assert {path.name: (path.read_bytes(), path.stat().st_mode) for path in landing_tree.iterdir()} == before
    shown = shown_by_command(journal, "approval", "show", judged.approval)
    assert any(line.startswith("    ") and sight in line for line in shown.split("\n")), shown[-3000:]
    assert not any(unicodedata.category(letter) == "Cc" for letter in shown if letter not in "\n\t")


def test_both_modes_of_a_file_are_shown_in_full(landing_tree: Path, tmp_path: Path) -> None:
    """A chmod from 600 to 666 looked like nothing: git knows two modes only."""
    journal = tmp_path / "journal.db"
    judged = judged_landing(
        landing_tree, journal, lambda files: files.chmod("key", 0o666), "args.changed_lines: {gt: 0}"
    )
    assert judged.asked is not None
    assert "old mode 100600\nnew mode 100666\n" in judged.asked["diff"]
    assert (judged.asked["changed_lines"], judged.asked["modes_changed"]) == (2, 1)


def test_a_removed_line_is_never_made_of_an_added_one(landing_tree: Path, tmp_path: Path) -> None:
    """Whatever else passes for the end of a line stands in its line, as an escape."""
    ends = "\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
    content = "".join(f"# {place}{end}-gone{place}\n" for place, end in enumerate(ends))
    journal = tmp_path / "journal.db"
    judged = judged_landing(landing_tree, journal, _writes("job.py", content.encode()), "args.changed_lines: {gt: 0}")
    shown = shown_by_command(journal, "approval", "show", judged.approval).split("\n")
    assert [line for line in shown if line.startswith("    -")] == [
        "    --- a/job.py",
        "    -print('hello')",
    ]
    for place, end in enumerate(ends):
        assert f"    +# {place}{end.encode('unicode_escape').decode()}-gone{place}" in shown


@pytest.mark.parametrize(
    "letter", "\u2800\u3164\u115f\u1160\uffa0\u05d0\u0634\u0661\u200b\u202e\u2066\u00ad\ufe0f\u034f\x7f\x9b"
)
def test_a_letter_that_cannot_be_seen_or_moves_others_is_an_escape(letter: str) -> None:
    """Blank letters, and letters that are written from right to left, change how the text beside them reads."""
    assert visible(f"a{letter}b") == f"a{letter.encode('unicode_escape').decode()}b"
    assert visible(f"a{letter}b", 40) == f"a{letter.encode('unicode_escape').decode()}b"


def test_a_mark_cannot_sit_on_what_stands_before_the_text() -> None:
    """A combining stroke at the start of a line would cross out the sign of a diff."""
    assert visible("\u0338x") == "\\u0338x"
    assert visible("e\u0301") == "e\u0301"


# -- deciding ---------------------------------------------------------------------------------------------------------

DECIDING_LAX = "version: v1\ndefault: allow\nrules: []\n"
DECIDING_ASKS = """
version: v1
default: allow
rules: [{id: ask, when: {topic: "deciding.charge"}, decision: require_human}]
"""
deciding_world: list[str] = []


@action("deciding.charge")
def deciding_charge(cents: int) -> int:
    deciding_world.append(f"charged {cents}")
    return cents


@deciding_charge.compensation
def deciding_refund(done: Any) -> None:
    raise Fatal("the bank is closed")


@action("deciding.mail", no_rollback="a mail cannot be unsent")
def deciding_mail(to: str) -> None:
    deciding_world.append(f"mailed {to}")


@saga("deciding.pay")
async def deciding_pay(s: Work, fails: bool = False) -> None:
    await s.do(deciding_charge, 300)
    if fails:
        raise ValueError("no")


@saga("deciding.mails")
async def deciding_mails(s: Work) -> None:
    await s.do(deciding_mail, "ann")


@saga("deciding.spends", limits=Limits(usd="1.00"))
async def deciding_spends(s: Work) -> None:
    for _ in range(3):
        await s.spend(usd="0.60")
        await s.do(deciding_charge, 300)


def deciding_run(place: Path, does: Callable[[Coordinator], Awaitable[None]], env: str, policy: str = "") -> None:
    """In one process, on a journal of its own."""
    deciding_world.clear()
    file = place / "policy.yaml"
    file.write_text(policy)

    async def live() -> None:
        opening = Coordinator.open(str(place / "a.db"), policy=file if policy else None, env=env)
        async with opening as coordinator:
            await does(coordinator)

    asyncio.run(live())


async def deciding_incident(coordinator: Coordinator) -> str:
    ended = await coordinator.run(deciding_pay, True, id="p-1", actor="agent:bot", labels={"owner": "person:olga"})
    assert ended.status is SagaStatus.INCIDENT
    return "p-1/1"


async def deciding_asked(coordinator: Coordinator) -> str:
    handle = await coordinator.start(deciding_pay, id="p-1", actor="agent:bot", labels={"owner": "person:olga"})
    while not await coordinator.approvals():
        await asyncio.sleep(0)
    assert handle.id == "p-1"
    return "p-1/1"


@pytest.mark.parametrize("env", ["development", "production"])
@pytest.mark.parametrize("by", ["agent:bot", "agent:other", "system:cron"])
def test_an_agent_resolves_and_retries_no_incident_under_its_honest_name(tmp_path: Path, env: str, by: str) -> None:
    """It says of its own effect that it looked, and that all is fine."""

    async def tries(coordinator: Coordinator) -> None:
        incident = await deciding_incident(coordinator)
        with pytest.raises(RefusedError, match=r"only people resolve .* any person (but agent:bot, person:olga )?may"):
            await coordinator.resolve_incident(incident, reason="I looked, it is fine", by=by)
        for let_run, mitigate in ((False, False), (True, False), (False, True)):
            with pytest.raises(RefusedError, match=r"only people|has not refused anything"):
                await coordinator.retry_incident(incident, by=by, let_run=let_run, mitigate=mitigate)
        assert (await coordinator.show("p-1")).row.status is SagaStatus.INCIDENT

    deciding_run(tmp_path, tries, env, DECIDING_LAX)


@pytest.mark.parametrize("by", ["agent:bot", "system:cron"])
def test_an_agent_adopts_no_policy_and_ends_no_pause_or_hold(tmp_path: Path, by: str) -> None:
    """What people hold back, it lets go; what they forbid, it allows."""

    async def tries(coordinator: Coordinator) -> None:
        lax = tmp_path / "lax.yaml"
        lax.write_text(DECIDING_LAX)
        with pytest.raises(RefusedError, match="only people adopt a policy"):
            await coordinator.adopt(lax, by=by, why="it is in my way")
        await coordinator.pause(why="a look", by="person:kim")
        with pytest.raises(RefusedError, match="only people end a pause"):
            await coordinator.unpause(by=by)
        with pytest.raises(RefusedError, match="only people end a pause"):
            await coordinator.unpause(everything=True, by=by)
        assert len(await coordinator.paused()) == 1
        await coordinator.unpause(by="person:kim")
        await coordinator.run(deciding_pay, id="p-1", actor="agent:bot")
        await coordinator.retain("p-1", why="a court asks", by=by)
        with pytest.raises(RefusedError, match="only people lift the hold on saga p-1"):
            await coordinator.lift("p-1", by=by)
        assert await coordinator.retained() == {"p-1": "a court asks"}

    deciding_run(tmp_path, tries, "development")


def test_an_agent_raises_no_limit_of_its_own_saga(tmp_path: Path) -> None:
    """It has spent what it may, and gives itself more."""

    async def tries(coordinator: Coordinator) -> None:
        limits = Limits(usd="1.00", then="pause")
        handle = await coordinator.start(deciding_spends, id="l-1", actor="agent:bot", limits=limits)
        assert (await handle.halt()).status is SagaStatus.PAUSED
        with pytest.raises(RefusedError, match="only people raise the limits of saga l-1"):
            await coordinator.raise_limit("l-1", usd=1000, by="agent:bot")
        with pytest.raises(RefusedError, match="only people unpause saga l-1"):
            await coordinator.unpause(saga="l-1", by="agent:bot")
        await coordinator.raise_limit("l-1", usd=1000, by="person:kim")

    deciding_run(tmp_path, tries, "production", DECIDING_LAX)


@pytest.mark.parametrize("by", ["system:runtime", "system:family", "System:Runtime", "system:gate"])
def test_nobody_calls_themselves_by_the_runtime_s_names(tmp_path: Path, by: str) -> None:
    """What the runtime does of itself is not asked about again."""

    async def tries(coordinator: Coordinator) -> None:
        with pytest.raises(InputError, match=r"what the runtime calls itself|is not an actor"):
            await coordinator.pause(why="a look", by=by)

    deciding_run(tmp_path, tries, "development")


@pytest.mark.parametrize("by", ["person:olga", "person:Olga", "person:ol\uff47a"])
def test_who_owns_the_agent_does_not_decide_for_it_outside_development(tmp_path: Path, by: str) -> None:
    """The owner of a saga, or who acts for them, decides about what they asked for."""

    async def tries(coordinator: Coordinator) -> None:
        asked = await deciding_asked(coordinator)
        for answer in (coordinator.grant(asked, by=by), coordinator.refuse(asked, by=by, why="w")):
            with pytest.raises(RefusedError, match="outside development another person decides; any other person may"):
                await answer
        await coordinator.grant(asked, by="person:kim")

    deciding_run(tmp_path, tries, "staging", DECIDING_ASKS)


def test_in_development_they_do_and_the_record_says_own_decision(tmp_path: Path) -> None:
    """The control: in development one person may do both, and the record does not hide it."""

    async def decides(coordinator: Coordinator) -> None:
        granted = await coordinator.grant(await deciding_asked(coordinator), by="person:olga")
        assert granted.own == ("person:olga",)
        record = await coordinator.run(deciding_pay, id="p-1", actor="agent:bot", labels={"owner": "person:olga"})
        told: Any = (await record.evidence())["amends"]
        (own,) = (fact for fact in told["timeline"] if fact.get("own_decision"))
        assert own["text"] == "approval granted by person:olga (own decision)"

    deciding_run(tmp_path, decides, "development", DECIDING_ASKS)


def test_a_signal_that_resolves_a_conflict_takes_a_person_by_whatever_way_it_is_sent(tmp_path: Path) -> None:
    """It answers, by the plain signal, what its landing asks people."""

    async def tries(coordinator: Coordinator) -> None:
        await coordinator.pause(topic="deciding.**", why="a look", by="person:kim")
        handle = await coordinator.start(deciding_pay, id="p-1", actor="agent:bot")
        await handle.halt()
        for name in ("resolve p-1-0123456789", "resolve p-1"):
            with pytest.raises(RefusedError, match="only people resolve a conflict of changeset p-1"):
                await coordinator.signal("p-1", name, {"take": "ours"}, by="agent:bot", early=True)
        await coordinator.signal("p-1", "resolve ticket", by="agent:bot", early=True)

    deciding_run(tmp_path, tries, "production", DECIDING_LAX)


# -- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "by", ["person:olga ", "person:\u043elga", "person:ol\u200bga", "person: olga", "person:olga\u2800"]
)
def test_no_other_spelling_of_a_name_is_another_person(tmp_path: Path, by: str) -> None:
    """Olga owns the saga; with a space, or a letter that looks the same, she would be somebody else."""

    async def tries(coordinator: Coordinator) -> None:
        asked = await deciding_asked(coordinator)
        with pytest.raises(InputError, match="is not an actor"):
            await coordinator.grant(asked, by=by)
        with pytest.raises(InputError, match="is not an actor"):
            _ = await coordinator.start(deciding_pay, actor=by)

    deciding_run(tmp_path, tries, "production", DECIDING_ASKS)


def test_a_name_written_in_two_ways_is_one_person(tmp_path: Path) -> None:
    """An accent apart from its letter makes nobody else, and no second approval."""
    two = DECIDING_ASKS.replace("require_human", "require_human, approvals: 2")

    async def tries(coordinator: Coordinator) -> None:
        asked = await deciding_asked(coordinator)
        await coordinator.grant(asked, by="person:jos\u00e9")
        with pytest.raises(RefusedError, match="has approved step 1 of saga p-1 already"):
            await coordinator.grant(asked, by="person:jose\u0301")

    deciding_run(tmp_path, tries, "production", two)


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        ({"owner": "olga"}, "write owner=person:olga"),
        ({"owner": ""}, "label 'owner': '' is not an actor"),
        ({"Owner": "person:olga"}, "the runtime reads 'owner'; write owner=person:<name>"),
        ({"owner ": "person:olga"}, "the runtime reads 'owner'"),
        ({"delegate": "person:olga"}, "the runtime reads 'delegates'"),
        ({"delegates": "agent:a; person:b"}, "commas stand between names: delegates=agent:a,person:b"),
        ({"delegates": "agent:a;person:b"}, "commas stand between names"),
        ({"delegates": "agent:a,b"}, "write delegates=person:b"),
        ({"owner": "person:olga "}, ""),
        ({"owner": "person:\u043elga"}, "CYRILLIC and LATIN"),
        ({"order": "7", "owned": "x"}, ""),
    ],
)
def test_labels_that_would_protect_nothing_are_refused(tmp_path: Path, labels: dict[str, str], says: str) -> None:
    """An owner or a delegate is written so that the rule about them never applies."""

    async def tries(coordinator: Coordinator) -> None:
        if not says:
            kept = (await coordinator.run(deciding_pay, id="p-1", labels=labels)).id
            assert (await coordinator.show(kept)).row.labels.get("owner", "person:olga") == "person:olga"
            return
        with pytest.raises(InputError, match=says):
            await coordinator.run(deciding_pay, labels=labels)

    deciding_run(tmp_path, tries, "development")


# -- by default -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("env", ["Production", "production ", "staging", "qa-7", "prdo"])
def test_outside_development_what_cannot_be_taken_back_is_asked_about(tmp_path: Path, env: str) -> None:
    """It chooses another word for the place where it runs."""

    async def tries(coordinator: Coordinator) -> None:
        _ = await coordinator.start(deciding_mails, id="m-1")
        while not (asked := await coordinator.approvals()):
            await asyncio.sleep(0)
        assert [row.id for row in asked] == ["m-1/1"]
        assert (await coordinator.approval("m-1/1")).requester == login()
        with pytest.raises(RefusedError, match="may not grant step 1 of saga m-1"):
            await coordinator.grant("m-1/1", by=login())
        assert deciding_world == []

    deciding_run(tmp_path, tries, env)


def test_the_policy_of_a_journal_says_where_its_sagas_are(tmp_path: Path) -> None:
    """It says that it runs in development, on the journal of production."""
    pinned = "version: v1\nenv: prod\nrules: []\n"

    async def tries(coordinator: Coordinator) -> None:
        with pytest.raises(RefusedError, match=r"are in production, by the policy .* and env='dev' is development"):
            await coordinator.run(deciding_mails)

    async def silent(coordinator: Coordinator) -> None:
        _ = await coordinator.start(deciding_mails, id="m-1")
        while not await coordinator.approvals():
            await asyncio.sleep(0)
        assert (await coordinator.show("m-1")).row.env == "production"

    deciding_run(tmp_path, tries, "dev", pinned)
    deciding_run(tmp_path, silent, "production", pinned)

    async def unsaid() -> None:
        async with Coordinator.open(str(tmp_path / "a.db")) as coordinator:
            _ = await coordinator.start(deciding_mails, id="m-2")
            while len(await coordinator.approvals()) == 1:
                await asyncio.sleep(0)
            assert (await coordinator.show("m-2")).row.env == "production"

    asyncio.run(unsaid())


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"actor": "agent:other"}, "its actor is agent:bot, and agent:other is given"),
        ({}, f"its actor is agent:bot, and {login()} is given"),
        ({"actor": "agent:bot", "labels": {"team": "b"}}, 'of its labels, team is "?a"?, and "?b"? is given'),
        ({"actor": "agent:bot"}, 'of its labels, team is "?a"?, and null is given'),
    ],
)
def test_who_comes_second_with_another_wish_does_not_join(tmp_path: Path, given: dict[str, Any], says: str) -> None:
    """The same id and input, as somebody else or about something else."""

    async def tries(coordinator: Coordinator) -> None:
        begun = await coordinator.run(deciding_pay, id="p-1", actor="agent:bot", labels={"team": "a"})
        with pytest.raises(RefusedError, match=says):
            await coordinator.run(deciding_pay, id="p-1", **given)
        again = await coordinator.run(deciding_pay, id="p-1", actor="agent:bot", labels={"team": "a"})
        assert (begun.status, again.status) == (SagaStatus.COMPLETED, SagaStatus.COMPLETED)

    async def elsewhere(coordinator: Coordinator) -> None:
        with pytest.raises(RefusedError, match="its environment is development, and dev is given"):
            await coordinator.run(deciding_pay, id="p-1", actor="agent:bot", labels={"team": "a"})

    deciding_run(tmp_path, tries, "development")
    deciding_run(tmp_path, elsewhere, "dev")


def test_one_login_does_not_run_and_grant_its_own_step(tmp_path: Path) -> None:
    """All defaults, on the command line."""
    amends = Shell(tmp_path)
    (tmp_path / "clean.yaml").write_text(
        'version: v1\nsaga: clean\nsteps: [{id: wipe, shell: "echo wiped >> world.txt", no_rollback: it is gone}]\n'
    )
    assert amends("run", "clean.yaml", "--id", "c-1", "--env", "staging").code == 6
    refused = amends("approval", "grant", "c-1/1", "--yes", LOGNAME="kim", USER="kim")
    assert refused.complaint == (
        f"{login()} may not grant step 1 of saga c-1: they asked for it, own it, or act for who did, and outside "
        "development another person decides; any other person may"
    )
    assert amends("pause", "--topic", "mail.*", "--why", "a look", "--by", "agent:x").code == 0
    for words in (("--topic", "mail.*"), ("--all",)):
        assert "only people end a pause" in amends("unpause", *words, "--by", "agent:x").complaint
    lax = tmp_path / "lax.yaml"
    lax.write_text(DECIDING_LAX)
    adopts = amends("policy", "adopt", "lax.yaml", "--by", "agent:x", "--why", "it is in my way")
    assert "only people adopt a policy: any person may, as person:<name>" in adopts.complaint
    assert amends("approval", "grant", "c-1/1", "--yes", "--by", "person:kim").code == 0
    assert amends("resume").code == 0
    assert amends.world == ["wiped"]


# -- secrets, in what commands print and in what lands ----------------------------------------------------------------

LOUD = """
import os, sys
for stream in (sys.stdout, sys.stderr):
    stream.write("x" * 70_001 + os.environ["BANK_TOKEN"] + "y" * 70_001 + "\\n" + os.environ["BANK_TOKEN"] + "\\n")
sys.exit(int(sys.argv[1]))
"""
LOUD_SAGA = """
version: v1
saga: loud
secrets: [BANK_TOKEN]
steps:
  - id: l
    run: [python3, loud.py, "0"]
    compensate: {run: [python3, loud.py, "3"], retry: 1}
"""


def test_a_command_s_long_output_on_both_streams_and_its_way_back_elsewhere_tell_no_secret(bank: Shell) -> None:
    """The token stands between 70 KB before and behind it, on each stream, forward and back, in two processes."""
    (bank.place / "loud.py").write_text(LOUD, encoding="utf-8")
    (bank.place / "loud.yaml").write_text(LOUD_SAGA, encoding="utf-8")
    ran = bank("run", "loud.yaml", "--id", "y", BANK_TOKEN=TOKEN)
    back = bank("saga", "cancel", "y", "--by", "person:kim", BANK_TOKEN=TOKEN)
    assert (ran.code, back.code) == (0, 4), (ran.code, back.code, back.err[-500:])
    said = everything_about(bank, "y") + ran.out + ran.err + back.out + back.err
    assert "[secret]" in said
    assert leaks(said, TOKEN) == []


WRITES = """
version: v1
saga: writes
secrets: [BANK_TOKEN]
files: {root: tree, land: put, verify: [python3, check.py]}
steps:
  - {id: w, shell: 'printf "token = %s\\n" "$BANK_TOKEN" > conf', files: true}
"""
TELLING_CHECK = """
import os, sys
print("seen:", sorted(name for name in os.environ if name.startswith(("BANK", "OTHER", "AMENDS_EVIDENCE"))))
print("the token is", open("conf").read(), os.environ.get("BANK_TOKEN"), file=sys.stderr)
sys.exit(int(open("code").read()))
"""


@pytest.fixture
def tree(bank: Shell) -> Path:
    made = bank.place / "tree"
    made.mkdir()
    (made / "check.py").write_text(TELLING_CHECK, encoding="utf-8")
    (made / "code").write_text("0", encoding="utf-8")
    (bank.place / "writes.yaml").write_text(WRITES, encoding="utf-8")
    return made


def test_what_verifies_a_landing_sees_a_small_environment_and_tells_no_secret(bank: Shell, tree: Path) -> None:
    """The command ran with all of the environment, and what it printed was on screen and on record as it was."""
    (tree / "code").write_text("3", encoding="utf-8")
    ran = bank("run", "writes.yaml", "--id", "v", BANK_TOKEN=TOKEN, OTHER_TOKEN=TOKEN[::-1])
    assert ran.code == 3, ran
    said = everything_about(bank, "v") + ran.out + ran.err
    assert "seen: ['BANK_TOKEN']" in said
    assert "the token is token = [secret]" in said
    assert leaks(said, TOKEN) == []
    assert leaks(said, TOKEN[::-1]) == []


def test_a_python_saga_s_verification_sees_a_small_environment_too(bank: Shell, tree: Path) -> None:
    """The command that verifies a saga's files prints the environment, with secrets in it."""
    ran = bank("run", "bank:keep_token", "--id", "k", BANK_TOKEN=TOKEN, OTHER_TOKEN="x")
    assert ran.code == 0, ran
    (tree / "code").write_text("3", encoding="utf-8")
    ran = bank("run", "bank:keep_token", "--id", "v", BANK_TOKEN=TOKEN, OTHER_TOKEN="x")
    assert ran.code == 3, ran
    said = everything_about(bank, "k", "v") + ran.out + ran.err
    assert "seen: []" in said
    assert leaks(said, TOKEN) == []


def test_the_diff_of_a_landing_does_not_tell_what_a_step_wrote_of_its_secret(bank: Shell, tree: Path) -> None:
    """The file has it, as it was meant to; the diff that people are shown, and that is on record, has not."""
    policy = bank.policy("{id: ask, when: {topic: amends.changeset.land}, decision: require_human}")
    ran = bank("run", "writes.yaml", "--id", "w", "--policy", policy, BANK_TOKEN=TOKEN)
    assert ran.code == 6, ran
    (asked,) = bank("approval", "list", "--json").of_type("approval")
    shown = bank("approval", "show", asked["id"])
    said = everything_about(bank, "w") + ran.out + ran.err + shown.out + shown.err
    assert "+token = [secret]" in shown.out
    assert leaks(said, TOKEN) == []
    granted = bank("approval", "grant", asked["id"], "--by", "person:kim", "--yes")
    ended = bank("resume", BANK_TOKEN=TOKEN)
    assert (granted.code, ended.code) == (0, 0), (granted, ended)
    assert (tree / "conf").read_text(encoding="utf-8") == f"token = {TOKEN}\n"
    assert leaks(everything_about(bank, "w"), TOKEN) == []


def test_nor_does_one_that_a_person_lands_or_looks_at_in_another_process(bank: Shell, tree: Path) -> None:
    """A person lands, or looks at, what a step wrote, in a process that never had its secret."""
    (bank.place / "leaves.yaml").write_text(WRITES.replace("land: put, verify: [python3, check.py]", ""), "utf-8")
    assert bank("run", "leaves.yaml", "--id", "w", BANK_TOKEN=TOKEN).code == 0
    (row,) = bank("changeset", "list", "--root", "tree", "--json").of_type("changeset")
    looked = bank("changeset", "diff", row["id"], "--root", "tree", BANK_TOKEN=TOKEN)
    landed = bank("changeset", "land", row["id"], "--root", "tree", "--by", "person:kim", BANK_TOKEN=TOKEN)
    assert (looked.code, landed.code) == (0, 0), (looked, landed)
    assert "+token = [secret]" in looked.out
    said = everything_about(bank, "w", f"land-{row['id']}") + looked.out + landed.out + landed.err
    assert leaks(said, TOKEN) == []
    assert TOKEN in (tree / "conf").read_text(encoding="utf-8")


@pytest.mark.parametrize("secret", [SHORT, TOKEN, f"-----BEGIN KEY-----\n{TOKEN}\n{TOKEN[::-1]}\n-----END KEY-----"])
def test_what_a_python_step_wrote_of_its_secret_is_in_no_diff_on_record(tmp_path: Path, secret: str) -> None:
    """A step writes its secret into a file, and the landing's diff goes on record."""

    @action("conf.write")
    def write(files: Files, token: Secret) -> None:
        files.write_text("conf", token.reveal())

    @saga("conf.child")
    async def child(s: Work, token: Secret) -> None:
        await s.do(write, s.files(tmp_path / "tree"), token)

    @saga("conf.writes")
    async def writes(s: Work, token: Secret) -> None:
        files = s.files(tmp_path / "tree")
        await s.call(child, token, files="share")
        await s.land(files, "put")

    (tmp_path / "tree").mkdir()
    (ended,) = ran_here(tmp_path / "j.db", (writes, Secret(secret)))
    assert ended.status == "completed"
    assert (tmp_path / "tree" / "conf").read_text(encoding="utf-8") == secret
    said = entries_of(tmp_path / "j.db")
    assert "+[secret]" in said
    assert not any(leaks(said, line) for line in secret.splitlines() if "KEY" not in line)


# -- trees that are too deep ------------------------------------------------------------------------------------------


@pytest.fixture
def pit(tmp_path: Path) -> Iterator[Path]:
    """A place for folders that pytest could not clear away, should they be left."""
    yield tmp_path
    subprocess.run(["rm", "-rf", "--", *tmp_path.iterdir()], check=True, timeout=120)


DIG = "import os\nfor _ in range({}):\n    os.mkdir('d')\n    os.chdir('d')\nopen('gold', 'w').close()"


@pytest.mark.parametrize("provider", ["overlay", "copy"])
@pytest.mark.parametrize("levels", [1500, 3000])
def test_folders_nested_without_end_cost_that_step_and_nobody_else(
    provider: str, levels: int, landing_tree: Path, pit: Path
) -> None:
    """A tool nests folders until no path names them: its step is refused, and others on the tree go on."""
    journal = pit / "journal.db"

    def digs(files: Files) -> None:
        assert files.run([sys.executable, "-c", DIG.format(levels)], timeout_s=60).ok

    judged = judged_landing(landing_tree, journal, digs, "args.changed_files: {gt: 9999}", provider)
    assert judged.status == "rolled_back"
    assert "more than 200 folders deep" in judged.why
    again = judged_landing(landing_tree, pit / "other.db", _writes("note", b"x"), "args.changed_files: {gt: 9999}")
    assert (again.status, (landing_tree / "note").read_bytes()) == ("completed", b"x")
    state = pit / ".tree.changesets"
    pruned = subprocess.run(
        [sys.executable, "-m", "amends", "changeset", "prune", "--root", str(landing_tree), "--older", "0"],
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert pruned.returncode == 0, pruned.stderr.decode()
    assert list((state / "trash").iterdir()) == []


def test_a_folder_that_no_path_reaches_is_removed(pit: Path) -> None:
    """5,000 folders in each other, some of them closed, are removed with few of them open at a time."""
    top = pit / "top"
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for level in range(5000):
        os.mkdir("d", dir_fd=here)
        if level % 500 == 0:
            os.mkdir("deep.1.1", dir_fd=here)
            os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        if level % 1000 == 0:
            os.chmod("d", 0, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)

    def held() -> int:
        return sum(1 for _ in Path("/proc/self/fd").iterdir())

    begun = most = held()

    class Counting(Disk):
        def remove_folder(self, at: DiskName) -> None:
            nonlocal most
            most = max(most, held())
            super().remove_folder(at)

    Counting().remove_all(os.fsencode(top))
    assert not top.exists()
    assert most - begun < 50
    assert held() == begun


# -- powers, lists and names ------------------------------------------------------------------------------------------

NOBODY = 65534
NONE = 0xFFFFFFFF


def _access(group: int) -> bytes:
    """A list: the owner reads and writes, somebody else reads, the group may do this, and the mask is both."""
    entries = [(0x01, 6, NONE), (0x02, 4, NOBODY), (0x04, group, NONE), (0x10, 6, NONE), (0x20, 0, NONE)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


def _landed(tree: Path, change: Callable[[Files], None], **terms: Any) -> None:
    with Changeset.open(tree, terms=replace(Terms(provider="api"), **terms)) as changeset:
        with changeset.begin("one") as files:
            change(files)
        assert isinstance(changeset.land(), Landed)


@pytest.mark.parametrize("bits", [0o4755, 0o2755, 0o6711])
def test_new_content_never_lands_in_a_file_that_runs_with_its_owners_powers(bits: int, landing_tree: Path) -> None:
    """An agent writes to a setuid program of the tree: what it wrote would run as the owner."""
    program = landing_tree / "job.py"
    program.chmod(bits)
    old = program.read_bytes()

    def rewrites(files: Files) -> None:
        files.write_bytes("job.py", b"evil\n", mode=bits)

    with pytest.raises(LimitError, match=f"chmod it to {bits & 0o777:o}"):
        _landed(landing_tree, rewrites)
    assert (program.read_bytes(), program.stat().st_mode & 0o7777) == (old, bits)
    _landed(landing_tree, lambda files: files.write_bytes("job.py", b"new\n", mode=bits & 0o777))
    assert (program.read_bytes(), program.stat().st_mode & 0o7777) == (b"new\n", bits & 0o777)


def test_a_file_that_became_setuid_meanwhile_does_not_take_the_agents_content(landing_tree: Path) -> None:
    """Somebody gives the tree's file its bit while the agent's content waits to land: nobody wants both."""
    program = landing_tree / "job.py"
    with Changeset.open(landing_tree, terms=Terms(provider="api")) as changeset:
        with changeset.begin("one") as files:
            files.write_bytes("job.py", b"evil\n")
        program.chmod(0o4755)
        with pytest.raises(LimitError, match="its content is changed"):
            changeset.land()
    assert program.read_bytes() == b"print('hello')\n"


def test_taking_a_landing_back_gives_a_program_its_powers_again(landing_tree: Path) -> None:
    """The control: a landing that took powers from a program is taken back, and nothing is lost."""
    program = landing_tree / "job.py"
    program.chmod(0o4755)
    with Changeset.open(landing_tree, terms=Terms(provider="api")) as changeset:
        with changeset.begin("one") as files:
            files.write_bytes("job.py", b"new\n", mode=0o755)
        landed = changeset.land()
    assert isinstance(landed, Landed)
    with take_back(landing_tree, landing=landed.id) as inverse:
        assert isinstance(inverse.land(), Landed)
    assert (program.read_bytes(), program.stat().st_mode & 0o7777) == (b"print('hello')\n", 0o4755)


@pytest.mark.parametrize("mode", [0o1777, 0o2755])
def test_folders_with_bits_that_they_did_not_have_do_not_land(mode: int, landing_tree: Path) -> None:
    """A folder that is setgid or sticky is looked at as a file is."""

    def makes(files: Files) -> None:
        files.make_folder("spool")
        files.chmod("spool", mode)

    with pytest.raises(LimitError, match="setuid, setgid or sticky"):
        _landed(landing_tree, makes)


def test_a_folder_in_a_setgid_folder_is_setgid_as_anywhere(landing_tree: Path) -> None:
    """The control: a folder gets the bit that its own folder gives it, and no other."""
    (landing_tree / "shared").mkdir()
    (landing_tree / "shared").chmod(0o2775)

    def makes(files: Files) -> None:
        files.make_folder("shared/a/b", parents=True)
        files.chmod("shared/a", 0o2775)
        files.write_text("shared/a/b/c", "x")

    _landed(landing_tree, makes)
    assert (landing_tree / "shared/a").stat().st_mode & 0o7777 == 0o2775


def test_a_landed_file_keeps_the_list_of_who_may_use_it(landing_tree: Path) -> None:
    """A file of mode 660 whose group may do nothing, by its list, was open to the group once the list was lost."""
    key = landing_tree / "key"
    os.setxattr(key, "system.posix_acl_access", _access(group=0))
    assert key.stat().st_mode & 0o777 == 0o660
    _landed(landing_tree, lambda files: files.write_bytes("key", b"another\n"))
    assert (key.read_bytes(), key.stat().st_mode & 0o777) == (b"another\n", 0o660)
    assert os.getxattr(key, "system.posix_acl_access") == _access(group=0)
    with Changeset.open(landing_tree, terms=Terms(provider="api")) as changeset:
        with changeset.begin("one") as files:
            files.remove("key")
        landed = changeset.land()
    assert isinstance(landed, Landed)
    with take_back(landing_tree, landing=landed.id) as inverse:
        assert isinstance(inverse.land(), Landed)
    assert os.getxattr(key, "system.posix_acl_access") == _access(group=0)


def test_a_file_that_a_tool_moves_has_no_more_rights_for_its_group_than_its_list_said(landing_tree: Path) -> None:
    """A tool moves a file whose access list keeps its group out, so that only the mode is left."""
    os.setxattr(landing_tree / "key", "system.posix_acl_access", _access(group=4))

    def moves(files: Files) -> None:
        assert files.run(["mv", "key", "moved"], timeout_s=60).ok

    _landed(landing_tree, moves, provider="overlay")
    assert (landing_tree / "moved").stat().st_mode & 0o777 == 0o640
    assert "system.posix_acl_access" not in os.listxattr(landing_tree / "moved")


def test_denying_what_is_in_a_folder_denies_the_folder(landing_tree: Path) -> None:
    """`secrets/**` let a chmod of the folder itself land."""
    (landing_tree / "secrets").mkdir(mode=0o700)
    with pytest.raises(LimitError, match=r"secrets/\*\* is denied"):
        _landed(landing_tree, lambda files: files.chmod("secrets", 0o777), limits=TreeLimits(denied=("secrets/**",)))


@pytest.mark.parametrize("name", [".git", ".GIT", ".Git", "GIT~1", ".git.", ".g\u200cit"])
def test_nothing_lands_in_what_git_takes_for_its_own_on_any_disk(name: str, landing_tree: Path) -> None:
    """A hook in `.GIT` is harmless here, and runs where case does not count."""
    _landed(landing_tree, lambda files: files.make_folder(f"{name}/hooks", parents=True))

    def plants(files: Files) -> None:
        files.make_folder(f"{name}/hooks", parents=True)
        files.write_text(f"{name}/hooks/pre-commit", "#!/bin/sh\ntouch /stolen\n", mode=0o755)
        files.write_text("note", "x")

    _landed(landing_tree, plants)
    assert sorted(path.name for path in landing_tree.iterdir()) == ["job.py", "key", "large.sql", "note"]


def test_where_case_does_not_count_patterns_do_not_count_it(
    landing_tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On such a disk `SECRETS/key` is `secrets/key`."""
    monkeypatch.setattr(Home, "is_case_blind", property(lambda _: True))
    with pytest.raises(LimitError, match="is denied"):
        _landed(landing_tree, lambda files: files.make_folder("SECRETS"), limits=TreeLimits(denied=("secrets/**",)))


# -- what is verified and landed is what was sealed -------------------------------------------------------------------

IS_GOOD = "import subject, sys; sys.exit(0 if subject.VALUE == 'good' else 1)"
PLANT = """
import os, py_compile
source = open('subject.py').read()
about = os.stat('subject.py')
open('subject.py', 'w').write("VALUE = 'good'\\n")
os.utime('subject.py', ns=(about.st_mtime_ns, about.st_mtime_ns))
py_compile.compile('subject.py', invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
open('subject.py', 'w').write("VALUE = 'evil'\\n")
"""


@pytest.mark.parametrize("provider", ["overlay", "copy"])
def test_a_planted_cache_does_not_make_a_verification_pass(provider: str, landing_tree: Path) -> None:
    """A compiled file that never lands, and is in no diff, stood in for the bad source while it was checked."""
    (landing_tree / "subject.py").write_text("VALUE = 'good'\n")
    with Changeset.open(landing_tree, terms=Terms(provider=provider)) as changeset:
        with changeset.begin("one") as files:
            assert files.run([sys.executable, "-c", PLANT], timeout_s=60).ok
            assert files.run([sys.executable, "-B", "-c", IS_GOOD], timeout_s=60).ok, "the cache is not believed"
        ended = changeset.land(verify=[sys.executable, "-B", "-c", IS_GOOD], verify_s=60)
    assert isinstance(ended, Unverified)
    assert (landing_tree / "subject.py").read_text() == "VALUE = 'good'\n"


@pytest.mark.parametrize("provider", ["overlay", "copy"])
def test_a_verification_sees_just_the_tree_that_would_be(provider: str, landing_tree: Path) -> None:
    """Files, folders, links, modes, times and what is gone: the same as after the landing."""
    (landing_tree / "old").mkdir()
    (landing_tree / "old/__pycache__").mkdir()
    (landing_tree / "old/__pycache__/x.pyc").write_bytes(b"cache")
    (landing_tree / "old/a").write_text("a\n")
    (landing_tree / "closed").mkdir()
    (landing_tree / "closed/b").write_text("1\n2\n3\n4\n5\n")
    (landing_tree / "was_file").write_text("x")
    (landing_tree / "was_folder").mkdir()
    (landing_tree / "was_folder/c").write_text("x")
    (landing_tree / "__pycache__").mkdir()
    (landing_tree / "__pycache__/job.pyc").write_bytes(b"the tree's own")
    out = landing_tree.parent / "out"
    look = f"find . -mindepth 1 \\( -type d -printf '%p %y %m\\n' \\) -o -printf '%p %y %m %s %T@ %l\\n' | sort > {out}"
    with Changeset.open(landing_tree, terms=Terms(provider=provider, confine=False)) as changeset:
        with changeset.begin("one") as files:
            files.write_text("closed/b", "1\n2\n3\n4\nfive\n")
            files.chmod("closed", 0o555)
            files.remove("old", recursive=True)
            files.remove("was_file")
            files.make_folder("was_file")
            files.write_text("was_file/inside", "x", mode=0o640)
            files.remove("was_folder", recursive=True)
            files.symlink("was_folder", "job.py")
        with changeset.begin("two") as files:
            files.make_folder("__pycache__", exist_ok=True)
            files.write_text("__pycache__/planted.pyc", "evil")
            files.make_folder("new/__pycache__", parents=True)
            files.write_text("new/__pycache__/planted.pyc", "evil")
            files.write_text("new/page", "x")
        (landing_tree / "closed/b").write_text("one\n2\n3\n4\n5\n")  # somebody else: it is merged
        assert isinstance(changeset.land(verify=["sh", "-c", look], verify_s=60), Landed)
    seen = out.read_text()
    assert "planted" not in seen
    assert "job.pyc" in seen
    subprocess.run(["sh", "-c", look], check=True, cwd=landing_tree, timeout=60)
    assert seen == out.read_text()


def _replaced(place: Path) -> None:
    place.unlink()
    place.mkdir()


DAMAGE: dict[str, Callable[[Path], object]] = {
    "another content": lambda place: place.write_bytes(b"print('evil')\nprint('hello')\nb\nc\nd\n"),
    "no content": lambda place: place.unlink(),
    "a folder": _replaced,
    "no layer": lambda place: shutil.rmtree(place.parent),
}


@pytest.mark.parametrize("is_merged", [False, True])
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_layer_ends_its_landing_and_is_not_tried_again(
    damage: str, is_merged: bool, landing_tree: Path, tmp_path: Path
) -> None:
    """What was sealed was changed on disk: it never heals, so nothing lands and a person is told at once."""
    job = landing_tree / "job.py"
    job.write_bytes(b"print('hello')\nb\nc\nd\ne\n")

    def changes(files: Files) -> None:
        files.write_bytes("job.py", b"print('hello')\nb\nc\nd\nE\n")

    def harm() -> None:
        (place,) = (tmp_path / ".tree.changesets/changesets").glob("*/layers/1/0/job.py")
        DAMAGE[damage](place)
        if is_merged:
            job.write_bytes(b"# theirs\nprint('hello')\nb\nc\nd\ne\n")

    judged = judged_landing(landing_tree, tmp_path / "journal.db", changes, "args.changed_files: {gt: 9999}", harm=harm)
    assert judged.status == "rolled_back"
    assert "job.py in layer 1 of " in judged.why
    assert "is not what was sealed" in judged.why
    assert b"evil" not in job.read_bytes()
    assert b"E" not in job.read_bytes()


# -- evidence that is removed -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [(), (MARK,)], ids=["bare", "marked as pruned"])
def test_what_is_stripped_from_a_journal_without_a_record_is_damage(tmp_path: Path, more: tuple[str, ...]) -> None:
    """Digests are put in the place of what the entries of a failed saga held, which takes no key."""
    shell = failed_saga(tmp_path)
    assert [said.code for said in verdicts(shell)] == [0, 0, 0]
    edit(shell, STRIP, *more)
    for said in verdicts(shell):
        assert said.code == 8, said
        assert "gone" in said.out
    assert [said.code for said in verdicts(shell, "--removed-unrecorded")][1:] == [0, 0]


def test_an_agent_forgets_nothing_under_its_own_name(tmp_path: Path) -> None:
    """The agent has what it did removed, as itself or as the system; and without a reason nobody does."""
    shell = failed_saga(tmp_path)
    for name in ("agent:desk", "system:local"):
        assert (
            "is not a person, and only people remove what sagas held"
            in shell(*FORGET, "--why", "tidying up", "--by", name).complaint
        )
    assert "--why" in shell(*FORGET).err
    assert "is not a person" in shell("prune", "--older-than", "0s", "--yes", "--by", "agent:desk").complaint
    assert [said.code for said in verdicts(shell)] == [0, 0, 0]
    assert "card.charge" in shell("saga", "show", "bad").out


def test_who_removed_what_and_why_is_signed_and_told_by_every_verifier(tmp_path: Path) -> None:
    """Somebody removes what sagas held, and nobody is to find out who."""
    shell = failed_saga(tmp_path)
    said = shell(*FORGET, "--why", "the year is over", "--by", "person:ann")
    assert (said.code, said.out) == (0, "removed what 9 entries held\n")
    for told in verdicts(shell):
        assert told.code == 0, told
        assert "person:ann" in told.out
        assert "removed what 9 entries of 2 sagas held" in told.out
        assert "the year is over" in told.out
    for told in verdicts(shell, "--json"):
        (found,) = removals(told)
        assert (found["by"], found["why"], found["sagas"], found["entries"]) == ("person:ann", "the year is over", 2, 9)
    assert "what entries 1 to 5 held was removed by person:ann: the year is over" in shell("saga", "show", "bad").out


def test_a_person_does_not_remove_what_they_asked_for_themselves(tmp_path: Path) -> None:
    """Outside development, the owner of a saga has its evidence removed by their own decision."""
    shell = failed_saga(tmp_path)
    given = ("--input", '{"cents": 2}', "--env", "production", "--actor", "agent:desk", "--label", "owner=person:olga")
    assert shell("run", "pay:pay", "--id", "hers", *given).code == 0
    said = shell(*FORGET, "--why", "tidy", "--by", "person:Olga", "--json")
    (done,) = said.records
    assert (done["sagas"], done["refused"]) == (2, 1)
    assert "removed" not in shell("saga", "show", "hers").out
    assert shell(*FORGET, "--why", "tidy", "--by", "person:ann").out == "removed what 4 entries held\n"


def test_a_record_that_nobody_signed_excuses_nothing(tmp_path: Path) -> None:
    """Whoever has the file and no key strips it by amends itself: right hashes, a right tree, and no signature."""
    shell = failed_saga(tmp_path)

    async def strip() -> None:
        journal = await SqliteJournal.open(tmp_path / "amends.db", SystemClock())
        await journal.remove_payloads(by="person:ann", why="the year is over", ended_before=SystemClock().now() + 1)
        await journal.close()

    asyncio.run(strip())
    assert [said.code for said in verdicts(shell)] == [8, 8, 8]


# -- a journal that cannot be used ------------------------------------------------------------------------------------


def test_an_index_that_lacks_rows_is_found_by_verify_and_by_doctor(tmp_path: Path) -> None:
    """Every entry is as it was signed, and the index by which a saga is found was changed behind its back."""
    shell = failed_saga(tmp_path)
    broken_index(shell, "saga_status", "UPDATE saga SET status = 'running' WHERE name = 'good'")
    said = shell("evidence", "verify", "--key", "@pub")
    assert said.code == 8
    assert "the journal's file is damaged: " in said.out
    assert "saga_status" in said.out
    assert "REINDEX" in said.out + said.err
    doctor = shell("doctor")
    assert doctor.code == 1
    assert "wrong file " in doctor.out


def test_a_saga_that_nobody_can_read_is_found_though_every_entry_is_signed(tmp_path: Path) -> None:
    """The row of the journal's policies says that they end elsewhere: every command refuses, and entries verify."""
    shell = failed_saga(tmp_path)
    shell.policy("{id: one, when: {topic: x}, decision: deny}")
    assert shell("policy", "adopt", "policy.yaml", "--why", "first", "--by", "person:ann").code == 0
    edit(shell, "UPDATE saga SET hash = zeroblob(32) WHERE name = 'amends.policy'")
    said = shell("evidence", "verify", "--key", "@pub")
    assert said.code == 8
    assert "covered" in said.out
    assert "saga amends.policy cannot be read: " in said.out
    doctor = shell("doctor")
    assert doctor.code == 1
    assert "saga amends.policy cannot be read: " in " ".join(doctor.out.split())


# -- what was approved is what runs -----------------------------------------------------------------------------------

ASKED = """
version: v1
default: allow
rules:
  - {id: somebody-looks, when: {topic: [test.pay, amends.changeset.land], phase: forward}, decision: require_human}
"""


@pytest.mark.parametrize("way", ["the caller's object", "what was shown", "the history"])
def test_arguments_that_change_after_the_approval_do_not_run(way: str) -> None:
    """The object that was passed, or what a person was shown, is changed between the question and the call."""
    paid: list[Any] = []

    @action("test.pay", no_rollback="it is paid")
    def pay(order: dict[str, Any]) -> None:
        paid.append(order)

    order: dict[str, Any] = {"to": "ann", "lines": [{"cents": 5}]}

    @saga("test.paying")
    async def paying(s: Work) -> None:
        await s.do(pay, order)

    def change(found: Any) -> None:
        found["to"] = "eve"
        found["lines"][0]["cents"] = 5_000_000

    async def whole() -> None:
        async with desk(ASKED) as on:
            handle = await on.start(paying, id="s", actor="agent:bot")
            asked = await parked(on, "s")
            shown = await on.approval(asked)
            if way == "the caller's object":
                change(order)
            elif way == "what was shown":
                change(cast("dict[str, Any]", shown.args)["order"])
            else:
                steps = (await on.show("s")).saga.steps
                change(cast("dict[str, Any]", steps[StepId("1")].args)["order"])
            await on.grant(asked, by="person:ann", digest=shown.digest)
            await asyncio.wait_for(handle, 60)

    asyncio.run(whole())
    assert [(each["to"], each["lines"][0]["cents"]) for each in paid] in ([("ann", 5)], [])


def test_what_is_done_otherwise_than_it_was_asked_for_is_asked_again() -> None:
    """`s.ask` for a small payment is granted, and a large one is done."""
    paid: list[int] = []

    @action("test.pay", no_rollback="it is paid")
    def pay(cents: int) -> None:
        paid.append(cents)

    @saga("test.paying")
    async def paying(s: Work) -> None:
        await s.ask(pay, 5)
        await s.do(pay, 5_000_000)

    async def whole() -> None:
        async with desk(ASKED) as on:
            _ = await on.start(paying, id="s", actor="agent:bot")
            first = await parked(on, "s")
            await on.grant(first, by="person:ann")
            while not [row for row in await on.approvals(saga="s") if row.id != first]:
                await asyncio.sleep(0.001)
            assert paid == []

    asyncio.run(asyncio.wait_for(whole(), 60))
    assert paid == []


@pytest.mark.parametrize("turn", range(6))
def test_grants_and_refusals_at_once_have_it_run_once_or_not_at_all(turn: int, tmp_path: Path) -> None:
    """Three people grant at the same moment, every second time one refuses, and three processes resume."""
    paid: list[int] = []

    @action("test.pay", no_rollback="it is paid")
    def pay(cents: int) -> None:
        paid.append(cents)

    @saga("test.paying")
    async def paying(s: Work) -> None:
        await s.do(pay, 5)

    (tmp_path / "policy.yaml").write_text(ASKED, encoding="utf-8")

    async def whole() -> tuple[list[bool], str]:
        async with contextlib.AsyncExitStack() as stack:
            first = await stack.enter_async_context(opened(tmp_path, policy=str(tmp_path / "policy.yaml")))
            _ = await first.start(paying, id="s", actor="agent:bot")
            asked = await parked(first, "s")
            others = [first, *[await stack.enter_async_context(opened(tmp_path)) for _ in range(2)]]
            people = [on.grant(asked, by=f"person:p{place}") for place, on in enumerate(others)]
            if turn % 2:
                people.insert(turn % 3, others[0].refuse(asked, by="person:no", why="no"))
            answers = await asyncio.gather(*people, return_exceptions=True)
            await asyncio.gather(*[on.resume() for on in others])
            while (row := await first.journal.saga(SagaId("s"))) is None or not row.status.ended:
                await asyncio.sleep(0.001)  # whoever was woken by the answer drives it, and nobody else does
            kinds = [entry.name.partition("/")[0] for entry in (await first.show("s")).entries]
            taken = [not isinstance(answer, BaseException) for answer in answers]
            assert sum(taken) == 1, answers
            return taken, "refused" if "approval.refused" in kinds else "granted"

    _, answer = asyncio.run(asyncio.wait_for(whole(), 60))
    assert paid == ([5] if answer == "granted" else [])


def opened(place: Path, policy: str | None = None) -> Opening:
    numbers = Settings(poll_s=0.02, park_s=0.0)
    return Coordinator.open(str(place / "amends.db"), policy=policy, settings=numbers, env="production", signals=False)


HANDS: dict[str, Callable[[Path], None]] = {
    "a file of the layer": lambda layer: _each(layer, "job.py", lambda path: path.write_text("evil\n")),
    "one more file in the layer": lambda layer: _each(
        layer, "job.py", lambda path: path.with_name("more.py").write_text("evil\n")
    ),
    "a link in its place": lambda layer: _each(layer, "job.py", _linked),
    "the record of the layer": lambda layer: _each(
        layer, "sealed.json", lambda path: path.write_text(path.read_text().replace("job.py", "evil.py"))
    ),
}


def _linked(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


def _each(layer: Path, name: str, do: Callable[[Path], object]) -> None:
    found = list(layer.rglob(name))
    assert found
    for path in found:
        do(path)


@pytest.mark.parametrize("hand", HANDS, ids=str)
def test_a_layer_that_changes_between_the_approval_and_the_landing_does_not_land(hand: str, tmp_path: Path) -> None:
    """The sealed work of a step, or the record of it, is edited on disk once a person has approved its diff."""
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "job.py").write_text("old\n")
    (tmp_path / "policy.yaml").write_text(ASKED, encoding="utf-8")

    @action("test.write")
    def write(files: Files) -> None:
        files.write_text("job.py", "reviewed\n")

    @saga("test.writing")
    async def writing(s: Work) -> None:
        files = s.files(tree, provider="api")
        await s.do(write, files)
        await s.land(files, "tidy up")

    async def whole() -> None:
        async with opened(tmp_path, policy=str(tmp_path / "policy.yaml")) as on:
            handle = await on.start(writing, id="s", actor="agent:bot")
            asked = await parked(on, "s")
            HANDS[hand](tmp_path / ".tree.changesets" / "changesets")
            await on.grant(asked, by="person:ann")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(handle.halt(), 5)

    asyncio.run(whole())
    landed = {path.name: path.read_text() for path in tree.iterdir() if path.is_file()}
    assert landed in ({"job.py": "old\n"}, {"job.py": "reviewed\n"}), landed
    assert not (tree / "job.py").is_symlink()


# -- the journal is not part of the work ------------------------------------------------------------------------------

OVER_THE_JOURNAL = {
    "writes junk over it": "echo junk > amends.db",
    "puts another journal in its place": "cp ../lax.db amends.db",
    "makes a log that SQLite would replay": "cp ../lax.db amends.db-wal",
    "makes its shared memory": "echo x > amends.db-shm",
    "makes a key of its own": "echo x > amends.db.key",
    "renames a file over it": "echo junk > other; mv other amends.db",
    "links a file to its name": "ln note.txt amends.db",
    "makes a link of its name": "ln -s /etc/passwd amends.db",
    "makes a folder of its name": "mkdir amends.db",
    "makes a folder of its key's name": "mkdir amends.db.key && echo x > amends.db.key/x",
}


def _tree_with_a_journal(place: Path, name: str = "amends.db") -> Path:
    tree = place / "tree"
    (tree / name).parent.mkdir(parents=True)
    (tree / "note.txt").write_text("note\n")
    return tree


@pytest.mark.parametrize("provider", VIEWS)
@pytest.mark.parametrize("attack", OVER_THE_JOURNAL)
@in_a_loop
async def test_a_tool_cannot_land_over_the_journal_in_its_tree(attack: str, provider: str, tmp_path: Path) -> None:
    """The tool works in its view only, and lets the landing move a file over the live journal."""
    tree = _tree_with_a_journal(tmp_path)
    (tmp_path / "lax.db").write_bytes(b"SQLite format 3\0")
    ended = await worked(tree, OVER_THE_JOURNAL[attack], provider)
    assert ended.status == "rolled_back"
    assert {path.name for path in tree.iterdir()} == {"note.txt", "amends.db", "amends.db.key"}
    async with Coordinator.open(str(tree / "amends.db")) as coordinator:
        shown = await coordinator.show(ended.id)
    why = next(entry.event.error for entry in shown.entries if isinstance(entry.event, AttemptFailed))
    assert "which is not part of the work" in why


@pytest.mark.parametrize("provider", VIEWS)
@pytest.mark.parametrize(
    "script",
    ["rm -rf kept", "rm -rf kept && echo x > kept", "mv kept away", "rm -rf kept && ln -s /tmp kept"],
)
@in_a_loop
async def test_a_tool_cannot_land_over_the_folder_that_holds_the_journal(
    script: str, provider: str, tmp_path: Path
) -> None:
    """The folder above the journal is removed, replaced or renamed."""
    tree = _tree_with_a_journal(tmp_path, "kept/amends.db")
    (tree / "kept/data").write_text("data\n")
    ended = await worked(tree, script, provider, journal=tree / "kept/amends.db")
    assert ended.status == "rolled_back"
    assert {path.name for path in (tree / "kept").iterdir()} == {"data", "amends.db", "amends.db.key"}


@pytest.mark.parametrize("provider", VIEWS)
@in_a_loop
async def test_a_tree_that_holds_the_journal_is_worked_on_and_nobody_sees_the_journal(
    provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`s.files(".")` beside amends.db is the natural case: it lands, and the journal is neither seen nor touched."""
    tree = _tree_with_a_journal(tmp_path)
    monkeypatch.chdir(tree)
    ended = await worked(Path(), "ls -A; rm -rf ./* ./.[!.]*; echo new > new.txt", provider, journal=Path("amends.db"))
    assert ended.status == "completed"
    assert ended.result["said"] == "note.txt\n"
    assert sorted(ended.result["applied"]) == ["new.txt", "note.txt"]
    assert {path.name for path in tree.iterdir()} == {"new.txt", "amends.db", "amends.db.key"}
    async with Coordinator.open("amends.db") as coordinator:
        assert (await coordinator.show(ended.id)).status == "completed"


@pytest.mark.parametrize("provider", [*VIEWS, "api"])
@in_a_loop
async def test_what_python_reads_diffs_drops_and_rebases_never_has_the_journal(provider: str, tmp_path: Path) -> None:
    """An action in Python reads, diffs or drops its files, or has them rebased, in a tree that holds the journal."""
    tree = _tree_with_a_journal(tmp_path, "kept/amends.db")
    (tree / "kept/data").write_text("data\n")
    async with Coordinator.open(str(tree / "kept/amends.db")):
        before = (tree / "kept/amends.db").stat()
        with Changeset.open(tree, terms=terms(provider)) as changeset:
            with changeset.begin("one") as files:
                assert files.names("kept") == ["data"]
                assert sorted(files.glob("**/*")) == ["kept", "kept/data", "note.txt"]
                assert not files.exists("kept/amends.db")
                with pytest.raises(FileNotFoundError):
                    files.read_bytes("kept/amends.db.key")
                files.write_text("kept/data", "one\n")
            with changeset.begin("two") as files:
                files.write_text("note.txt", "two\n")
                files.promote("kept")
            assert isinstance(changeset.drop_step(1), Dropped)
            assert "amends.db" not in changeset.diff()
            assert changeset.paths() == ("note.txt",)
            with pytest.raises(LimitError, match=r"kept/amends.db is a journal of amends"), changeset.begin() as files:
                files.write_text("kept/amends.db", "junk")
            assert isinstance(changeset.land(), Landed)
        after = (tree / "kept/amends.db").stat()
    assert (before.st_ino, before.st_size) == (after.st_ino, after.st_size)


def test_a_journal_that_nobody_in_this_process_knows_is_not_landed_over(tmp_path: Path) -> None:
    """Another program's journal, deep in the tree: it is known by what it is, when something would land over it."""
    tree = _tree_with_a_journal(tmp_path, "deep/down/other.db")
    made = "import asyncio, sys; from amends import Coordinator\nasync def main():\n    async with Coordinator.open("
    subprocess.run(
        [sys.executable, "-c", f"{made}sys.argv[1]): pass\nasyncio.run(main())", tree / "deep/down/other.db"],
        check=True,
    )
    for name in ("other.db", "other.db-wal", "other.db.key"):
        with Changeset.open(tree) as changeset:
            with changeset.begin() as files:
                files.write_text(f"deep/down/{name}", "junk")
            with pytest.raises(LimitError, match=rf"{name} belongs to the journal deep/down/other.db"):
                changeset.land()
    (tree / "top.db").write_bytes((tree / "deep/down/other.db").read_bytes())
    with Changeset.open(tree) as changeset, changeset.begin() as files:
        assert "top.db" not in files.names()


@pytest.mark.parametrize("name", [".tree.changesets", "sub/.other.changesets", ".amends-landing-1"])
def test_a_tool_cannot_land_a_state_directory(name: str, tmp_path: Path) -> None:
    """A plan that whoever opens a changeset next would finish is itself landed as work."""
    tree = _tree_with_a_journal(tmp_path)
    with Changeset.open(tree) as changeset:
        files = changeset.begin()
        files.make_folder(f"{name}/landings/evil", parents=True)
        files.write_text(f"{name}/landings/evil/plan.json", "{}")
        with pytest.raises(LimitError, match="the state of changesets"):
            files.seal()


# -- a tool is kept in ------------------------------------------------------------------------------------------------

LOOK = r"""
grep -E '^(Cap|NoNewPrivs)' /proc/self/status
for each in /proc/sys/kernel/core_pattern /proc/sys/kernel/hostname /sys/kernel/mm/ksm/run \
    "$JOURNAL" "$STATE/x" "$HOME/x"
do echo x >> "$each" && echo "WROTE $each"; done
for each in "$JOURNAL" "$JOURNAL.key" "$STATE/root.json" "$OTHER/root.json"
do cat "$each" && echo "READ $each"; done
ls "$OTHER"; find /dev -type b -writable
echo in >> "$TMPDIR/scratch" && echo scratch
env
"""


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("provider", VIEWS)
def test_a_tool_has_no_capabilities_no_secrets_and_no_way_to_write_outside(
    provider: str, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads the key and the environment, and, as root, writes to proc."""
    monkeypatch.setenv("AMENDS_EVIDENCE_KEY", "dont-show-1")
    monkeypatch.setenv("BANK_TOKEN", "dont-show-2")
    with USERS[user]() as place:
        tree, journal = _tree_with_a_journal(place), place / "amends.db"
        journal.write_text("what is in the journal")
        (place / "amends.db.key").write_text("what is in the key")
        claim_journal(journal)
        (place / "next").mkdir()
        Changeset.open(place / "next").close()
        env = {"JOURNAL": str(journal), "STATE": f"{place}/.tree.changesets", "OTHER": f"{place}/.next.changesets"}
        with Changeset.open(tree, terms=terms(provider)) as changeset, changeset.begin() as files:
            ran = files.run(["sh", "-c", LOOK], env=env)
        assert ran.confinement == "confined"
        said = ran.stdout + ran.stderr
        assert dict(re.findall(r"^(Cap\w+|NoNewPrivs):\s*(\w+)", said, re.MULTILINE)) == {
            **dict.fromkeys(["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"], "0" * 16),
            "NoNewPrivs": "1",
        }
        assert "scratch\n" in ran.stdout
        for never in ("WROTE", "READ", "what is in", "dont-show", "/dev/"):
            assert never not in ran.stdout, said
        assert journal.read_text() == "what is in the journal"


@pytest.mark.parametrize("user", USERS)
def test_a_tool_cannot_get_out_by_namespaces_of_its_own(user: str) -> None:
    """An ordinary user may make user namespaces, and is root in them: what was masked is to stay masked."""
    with USERS[user]() as place:
        tree, journal = _tree_with_a_journal(place), place / "amends.db"
        journal.write_text("what is in the journal")
        claim_journal(journal)
        attack = (
            f"unshare -Urm sh -c 'umount {journal}; mount -o remount,rw /; mount -t proc proc /proc; cat {journal}'"
        )
        with Changeset.open(tree) as changeset, changeset.begin() as files:
            ran = files.run(["sh", "-c", f"{attack}; cat {journal}; echo x > {place}/out"])
        assert "what is in" not in ran.stdout
        assert not (place / "out").exists()


@pytest.mark.parametrize("user", USERS)
def test_a_tool_without_network_reaches_nobody_but_itself(user: str) -> None:
    """It sends what it has read to somebody outside."""
    talk = (
        "import socket; s=socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname()); print(1)"
    )
    with USERS[user]() as place, socket.create_server(("127.0.0.1", 0)) as server:
        reach = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5); print(2)"
        with Changeset.open(_tree_with_a_journal(place)) as changeset, changeset.begin() as files:
            alone = files.run([sys.executable, "-I", "-c", talk], network=False)
            assert (alone.stdout, alone.confinement) == ("1\n", "confined, without network")
            assert not files.run([sys.executable, "-I", "-c", reach], network=False).ok
            assert files.run([sys.executable, "-I", "-c", reach]).stdout == "2\n"


@in_a_loop
async def test_a_tool_that_is_not_confined_is_on_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks for it gets it, and neither the timeline nor the evidence forgets."""
    monkeypatch.setenv("BANK_TOKEN", "seen")
    tree = _tree_with_a_journal(tmp_path)
    async with Coordinator.open(str(tmp_path / "j.db")) as coordinator:
        ended = await coordinator.run(unconfined_work, str(tree), "echo $BANK_TOKEN")
        kept_in = await coordinator.run(work, str(tree), "echo $BANK_TOKEN; false", "auto")
        lines = [line.text for line in timeline((await coordinator.show(ended.id)).entries)]
        evidence, other = await ended.evidence(), await kept_in.evidence()
    assert (ended.result, kept_in.result["said"]) == ("seen\n", "\n")
    assert any("succeeded (not confined: it was asked for)" in line for line in lines)
    assert kept_in_of(evidence) == "not confined: it was asked for"
    assert kept_in_of(other) == "confined"


@in_a_loop
async def test_where_the_machine_cannot_confine_the_record_says_why_and_asking_for_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tool runs where nothing can keep it in, as if it had been kept in."""
    no = "unshare: Operation not permitted"
    unable = probe.Probed(namespaces=no, overlay=no, confinement=no)

    def probed(*_: object) -> probe.Probed:
        return unable

    monkeypatch.setattr(probe, "_probed", probed)
    monkeypatch.setenv("BANK_TOKEN", "dont-show")
    tree = _tree_with_a_journal(tmp_path)
    ended = await worked(tree, "echo $BANK_TOKEN; grep CapEff /proc/self/status", journal=tmp_path / "j.db")
    assert ended.result["said"].split() == ["CapEff:", "0" * 16]
    assert kept_in_of(await ended.evidence()) == f"not confined: {no}"
    with Changeset.open(tree, terms=Terms(confine=True)) as changeset, changeset.begin() as files:
        with pytest.raises(ViewError, match="confine=True is asked for, and cannot be had here: unshare"):
            files.run(["true"])
        with pytest.raises(ViewError, match="network=False is asked for"):
            files.run(["true"], confine=False, network=False)


@in_a_loop
async def test_the_command_that_verifies_a_landing_is_kept_in_and_on_record_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs what the agent has written."""
    monkeypatch.setenv("BANK_TOKEN", "dont-show")
    tree = _tree_with_a_journal(tmp_path)
    (tree / "check").write_text(f'echo $BANK_TOKEN > out; touch {tmp_path}/escaped; test -z "$BANK_TOKEN"\n')
    async with Coordinator.open(str(tmp_path / "j.db")) as coordinator:
        ended = await coordinator.run(verified_work, str(tree), ["sh", "check"])
        evidence = await ended.evidence()
    assert ended.status == "completed"
    assert not (tmp_path / "escaped").exists()
    assert kept_in_of(evidence, -1) == "confined"


@pytest.mark.parametrize("provider", ["copy", "clone", "overlay"])
def test_dropping_a_step_that_put_a_link_in_a_folders_place_removes_nothing_outside(
    provider: str, tmp_path: Path
) -> None:
    """The names in the folder are those of files elsewhere: taking the step back follows the link to them."""
    tree, outside = tmp_path / "tree", tmp_path / "outside"
    for folder in (tree / "folder", outside):
        folder.mkdir(parents=True)
        (folder / "precious").write_text("precious\n")
    try:
        changeset = Changeset.open(tree, terms=terms(provider))
    except ViewError:
        assert provider == "clone"  # not on this file system
        return
    with changeset:
        files = changeset.begin()
        ran = files.run(["sh", "-c", f"rm -r folder && ln -s {outside} folder"])
        assert ran.ok, ran.stderr
        files.drop()
        with changeset.begin() as files:
            assert files.read_text("folder/precious") == "precious\n"
    assert (outside / "precious").read_text() == "precious\n"


# -- values -----------------------------------------------------------------------------------------------------------


def values_charged(given: Callable[[], object], journal: Path, *, in_a_thread: bool) -> tuple[Ended, list[str]]:
    """A card is charged by an atomic action with retries, which returns this; what happened, in order."""
    seen: list[str] = []

    def charged() -> object:
        seen.append("charged")
        return given()

    async def charged_on_the_loop() -> object:
        return charged()

    async def refunded(done: Done) -> None:
        seen.append(f"refunded {done.certain} {done.result}")

    charge = register(
        "card.charge",
        charged if in_a_thread else charged_on_the_loop,
        compensation=refunded,
        atomic=True,
        retries=Retries(attempts=4, first_s=0.01, cap_s=0.01),
    )

    @saga("card.pay")
    async def pay(s: Work) -> None:
        await s.do(charge)

    async def go() -> Ended:
        async with Coordinator.open(str(journal), registry=Registry()) as opened:
            return await opened.run(pay)

    return asyncio.run(go()), seen


@pytest.mark.parametrize("in_a_thread", [True, False], ids=["thread", "coroutine"])
@pytest.mark.parametrize("name", sampled(HOSTILE, each=3))
def test_an_action_that_took_effect_has_done_so_whatever_it_returns(
    tmp_path: Path, name: str, *, in_a_thread: bool
) -> None:
    """A provider answers with what cannot be kept, so that a charge counts as one that never happened."""
    ended, seen = values_charged(HOSTILE[name], tmp_path / "amends.db", in_a_thread=in_a_thread)
    assert ended.status == "rolled_back"
    assert "took effect" in ended.why
    assert seen == ["charged", "refunded True None"]


VALUES_SOME = ["600 levels", "a cycle", "a thicket", "no class", "a lying object", "a lying key", "30 million items"]
VALUES_QUICK = Retries(attempts=2, first_s=0.01, cap_s=0.01)


def values_nothing(done: Done) -> None: ...


def values_run(journal: Path, definition: SagaDefinition, *args: object, **more: Any) -> Ended:
    async def go() -> Ended:
        async with Coordinator.open(str(journal), registry=Registry()) as opened:
            return await opened.run(definition, *args, **more)

    return asyncio.run(go())


@pytest.mark.parametrize("name", VALUES_SOME)
def test_a_compensation_that_ran_has_run_whatever_it_returns(tmp_path: Path, name: str) -> None:
    """A provider answers a refund with what cannot be kept, so that the money is given back again and again."""
    seen: list[str] = []

    def refund(_: Done) -> object:
        seen.append("refunded")
        return HOSTILE[name]()

    charge = register("card.charge", lambda: seen.append("charged"), compensation=refund)

    @saga("card.pay")
    async def pay(s: Work) -> None:
        await s.do(charge)
        raise Fatal("no stock")

    assert values_run(tmp_path / "amends.db", pay).status == "rolled_back"
    assert seen == ["charged", "refunded"]


@pytest.mark.parametrize("name", VALUES_SOME)
def test_what_a_probe_has_found_has_happened_whatever_it_shows(tmp_path: Path, name: str) -> None:
    """A provider says that it happened, and shows what cannot be kept: as if nobody knew, it is asked for again."""
    seen: list[str] = []

    def charged() -> None:
        seen.append("charged")
        raise OSError("the line broke")

    async def ask(_: Asked) -> Happened:
        seen.append("asked")
        return Happened(HOSTILE[name]())

    async def refund(done: Done) -> None:
        seen.append(f"refunded {done.certain}")

    charge = register("card.charge", charged, compensation=refund, probe=ask, retries=VALUES_QUICK)

    @saga("card.pay")
    async def pay(s: Work) -> None:
        await s.do(charge)

    ended = values_run(tmp_path / "amends.db", pay)
    assert (ended.status, seen) == ("rolled_back", ["charged", "asked", "refunded True"])
    assert "took effect" in ended.why


@pytest.mark.parametrize("name", VALUES_SOME)
def test_nothing_begins_with_what_cannot_be_kept(tmp_path: Path, name: str) -> None:
    """An argument, an input, a before-image: each is refused before anything happens."""
    seen: list[str] = []
    charge = register("card.charge", seen.append, compensation=values_nothing)
    changed = register("role.set", lambda: seen.append("set"), compensation=values_nothing)
    changed.before(HOSTILE[name])

    @saga("card.pay")
    async def pay(s: Work, given: object = None) -> None:
        await s.do(charge, HOSTILE[name]())

    @saga("role.change")
    async def change(s: Work) -> None:
        await s.do(changed)

    ended = values_run(tmp_path / "amends.db", pay)
    assert ended.status == "rolled_back"
    assert ended.why.startswith(("NotJsonError: card.charge: args", "TooLargeError: card.charge: args"))
    assert values_run(tmp_path / "amends.db", change).status == "rolled_back"
    with pytest.raises(InputError, match=r"saga card\.pay: input"):
        values_run(tmp_path / "amends.db", pay, HOSTILE[name]())
    assert seen == []


@pytest.mark.parametrize("name", VALUES_SOME)
def test_a_saga_whose_own_result_cannot_be_kept_is_taken_back(tmp_path: Path, name: str) -> None:
    """A saga's function, or a child's, returns what cannot be kept: it has not completed, and says why."""
    seen: list[str] = []

    def refund(done: Done) -> None:
        seen.append("refunded")

    charge = register("card.charge", lambda: seen.append("charged"), compensation=refund)

    @saga("card.child")
    async def child(s: Work) -> Any:
        await s.do(charge)
        return HOSTILE[name]()

    @saga("card.parent")
    async def parent(s: Work) -> None:
        await s.call(child)

    for definition in (child, parent):
        ended = values_run(tmp_path / "amends.db", definition)
        assert ended.status == "rolled_back"
        assert "the saga's result" in ended.why
    assert seen == ["charged", "refunded"] * 2


def test_a_signal_and_a_label_that_cannot_be_kept_are_refused(tmp_path: Path) -> None:
    """What is sent to a saga from outside is looked at before it is believed."""

    @saga("card.wait")
    async def wait(s: Work) -> None:
        await s.wait_for("go", timeout=0.01)

    async def go() -> None:
        async with Coordinator.open(str(tmp_path / "amends.db"), registry=Registry()) as opened:
            for name in VALUES_SOME:
                with pytest.raises(InputError, match="the payload of signal 'go'"):
                    await opened.signal("x", "go", HOSTILE[name]())
            for labels in ({"a": "\ud800"}, {"a": "x" * 100_000}, {str(n): "" for n in range(2_000)}):
                with pytest.raises(InputError, match="label"):
                    _ = await opened.start(wait, labels=labels)

    asyncio.run(go())


class ValuesUnspeakable(Exception):  # noqa: N818 - a hostile one
    def __str__(self) -> str:
        raise RecursionError


class ValuesLater(Retry):
    @property
    def after(self) -> float:
        raise MemoryError

    @after.setter
    def after(self, _: float) -> None: ...


@pytest.mark.parametrize("error", [ValuesUnspeakable(), ValuesLater("x", after=1.0), ExceptionGroup("g", [Fatal("x")])])
@pytest.mark.parametrize("in_a_thread", [True, False], ids=["thread", "coroutine"])
def test_an_error_that_cannot_be_read_is_an_error_all_the_same(
    tmp_path: Path, error: Exception, *, in_a_thread: bool
) -> None:
    """An exception fights back when it is printed: the attempt is lost, and not the saga."""
    seen: list[str] = []

    def raises() -> None:
        raise error

    async def raises_on_the_loop() -> None:
        raise error

    def refund(done: Done) -> None:
        seen.append(f"refunded {done.certain}")

    charge = register(
        "card.charge",
        raises if in_a_thread else raises_on_the_loop,
        compensation=refund,
        retries=VALUES_QUICK,
    )

    @saga("card.pay")
    async def pay(s: Work) -> None:
        await s.do(charge)

    assert values_run(tmp_path / "amends.db", pay).status == "rolled_back"
    assert seen == ["refunded False"]


class ValuesWeighed(Weight):
    """Notes the most that was walked of one value on the thread of the loop."""

    most_on_loop = 0
    __slots__ = ()

    def take(self, characters: int) -> None:
        super().take(characters)
        if threading.current_thread() is threading.main_thread():
            ValuesWeighed.most_on_loop = max(ValuesWeighed.most_on_loop, self.most - self.left)


@pytest.mark.parametrize("in_a_thread", [True, False], ids=["thread", "coroutine"])
@pytest.mark.parametrize("kept", [True, False], ids=["kept", "too large"])
def test_no_other_saga_waits_for_a_value_to_be_walked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, kept: bool, in_a_thread: bool
) -> None:
    """One answer of millions of parts, and no other saga of the process moves until all of it was looked at."""
    made: object = [[7] * 1_000] * (300 if kept else 30_000)

    async def on_the_loop() -> object:
        return made

    async def unread(done: Done) -> None:
        assert done.result == (made if kept else None)

    look = register("bank.look", (lambda: made) if in_a_thread else on_the_loop, compensation=unread)
    tell = register("bank.tell", _values_told, read_only=True)

    @saga("bank.read")
    async def read(s: Work, given: Any = None) -> Any:
        found = await s.do(look)
        await s.do(tell, found)
        await s.call(again, found)
        return found

    @saga("bank.again")
    async def again(s: Work, given: Any) -> Any:
        return given

    ValuesWeighed.most_on_loop = 0
    for module in ("amends.core.words.values", "amends.secrets"):
        monkeypatch.setattr(f"{module}.Weight", ValuesWeighed)

    async def go() -> tuple[Ended, str]:
        async with Coordinator.open(str(tmp_path / "amends.db"), registry=Registry()) as opened:
            ended = await opened.run(read, *([made] if kept else []), id="x")
            return ended, (await opened.cancel("x")).status if kept else ""

    ended, back = asyncio.run(go())
    assert (ended.status, back) == (("completed", "rolled_back") if kept else ("rolled_back", ""))
    assert kept == (ended.result == made)
    assert ValuesWeighed.most_on_loop <= ON_LOOP


def _values_told(found: Any) -> int:
    return len(found)
