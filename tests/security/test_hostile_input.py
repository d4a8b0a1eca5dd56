"""Attacks by input: documents, answers, names, addresses and bundles that somebody else wrote."""

import asyncio
import contextlib
import io
import json
import sqlite3
import sys
import time
import tracemalloc
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from amends import Limits, Work, action, saga
from amends.core.events import Event
from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId
from amends.errors import AmendsError, EvidenceError, InputError, JournalDamagedError, SagaFileError
from amends.evidence import standalone
from amends.evidence.verify.verify import verify_bundle, verify_journal
from amends.journal.codec import chain
from amends.journal.port.journal import Summary
from amends.journal.sqlite import SqliteJournal
from amends.notify import Command
from amends.notify.addresses import Reach, require_reach
from amends.notify.notice import Notice
from amends.notify.target import Delivered
from amends.sagafile import load_saga
from amends.testing.clock import ManualClock
from amends.testing.journal_suite.samples import started, succeeded
from tests.cli.shell import Shell
from tests.evidence.given import made
from tests.parts import sampled
from tests.security.held import (
    AMOUNTS,
    BOMBS,
    CURRENCIES,
    EDITS,
    EVIL,
    SMALL_ONLY,
    by_digest,
    desk,
    group,
    is_raw,
    json_of,
    sql,
    tower,
)

# -- what a policy denies, however it is written ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cents", "currency"),
    [*((each, "EUR") for each in AMOUNTS), *((500, each) for each in CURRENCIES)],
    ids=lambda value: type(value).__name__ + repr(value)[:12].encode("ascii", "backslashreplace").decode(),
)
def test_a_forbidden_payment_is_denied_in_every_form(cents: Any, currency: Any) -> None:
    """An amount as text, list, bool, NaN, a subclass with lying operators, a Secret, other digits; a currency too."""
    paid: list[Any] = []

    @action("test.pay", no_rollback="it is paid")
    def pay(cents: Any, currency: Any) -> None:
        paid.append((cents, currency))

    @saga("test.paying")
    async def paying(s: Work) -> None:
        await s.do(pay, cents, currency)

    async def whole() -> None:
        async with desk(SMALL_ONLY) as coordinator:
            try:
                ended = await coordinator.run(paying, actor="agent:bot")
            except AmendsError:
                return
            assert ended.status == "rolled_back"

    asyncio.run(whole())
    assert paid == []


def test_the_payment_that_is_allowed_is_made() -> None:
    """The control: the policy above lets a small amount in euros pass, so denying the others says something."""
    paid: list[int] = []

    @action("test.pay", no_rollback="it is paid")
    def pay(cents: int, currency: str) -> None:
        paid.append(cents)

    @saga("test.paying")
    async def paying(s: Work) -> None:
        await s.do(pay, 1000, "EUR")

    async def whole() -> None:
        async with desk(SMALL_ONLY) as coordinator:
            assert (await coordinator.run(paying, actor="agent:bot")).status == "completed"

    asyncio.run(whole())
    assert paid == [1000]


@pytest.mark.parametrize("spelling", ["Iran", "iran", "IRAN", "Ir\u200ban", "Ir\u0430n", " Iran", "\uff29ran"])
def test_a_list_of_what_is_allowed_is_passed_by_no_other_spelling(spelling: str) -> None:
    """A deny list by text is passed by case, unseen letters and look-alikes; a list of what is allowed is not."""
    policy = SMALL_ONLY.replace("args.currency: EUR", "args.currency: [France, Spain]")
    sent: list[str] = []

    @action("test.pay", no_rollback="it is paid")
    def pay(cents: int, currency: str) -> None:
        sent.append(currency)

    @saga("test.paying")
    async def paying(s: Work) -> None:
        await s.do(pay, 1, spelling)

    async def whole() -> None:
        async with desk(policy) as coordinator:
            assert (await coordinator.run(paying, actor="agent:bot")).status == "rolled_back"

    asyncio.run(whole())
    assert sent == []


# -- amounts that are none --------------------------------------------------------------------------------------------

SPENDINGS: list[dict[str, Any]] = [
    *({"usd": each} for each in (float("nan"), float("inf"), -1, "-0.01", "five", "1e400", "", " ", True, None, [1])),
    *({"usd": each} for each in (10**30, "\u0661", "0x1", "1,5", b"1", {"usd": 1}, 1j)),
    *({"tokens": each} for each in (-1, 1.5, float("nan"), float("inf"), True, None, "1", 2**60, [1])),
    {},
    {"tokens": 0, "usd": 0},
]


@pytest.mark.parametrize("spent", SPENDINGS, ids=repr)
def test_what_is_no_amount_is_not_spent(spent: dict[str, Any]) -> None:
    """An agent tells of NaN, of less than nothing, or of more than there is, so that its limit is never reached."""
    refused: list[str] = []

    @saga("test.spending", limits=Limits(usd=5, tokens=100))
    async def spending(s: Work) -> None:
        try:
            await s.spend(**spent)
        except InputError as exc:
            refused.append(str(exc))

    async def whole() -> None:
        async with desk(SMALL_ONLY) as coordinator:
            ended = await coordinator.run(spending, actor="agent:bot")
            budget = (await coordinator.show(ended.id)).saga.budget
            assert budget is not None
            accepted = spent == {"usd": "\u0661"}  # a digit is a digit, in whatever script: one dollar
            assert (budget.tokens, budget.usd_micros) == (0, 1_000_000 if accepted else 0)
            assert bool(refused) is not accepted

    asyncio.run(whole())


# -- a journal that was edited ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("edit", EDITS, ids=str)
def test_no_effect_runs_that_an_edit_of_the_journal_asks_for(edit: str, tmp_path: Path) -> None:
    """Entries, lists, the tree, the signers are edited by SQL, without new hashes, while a step waits for a person."""
    shell = Shell(tmp_path)
    shell.give("office")
    shell.approval()
    sql(tmp_path / "amends.db", EDITS[edit])
    before = shell.world
    said = shell.here("resume", "--module", "office")
    assert "+ deleted" not in " ".join(shell.world), said
    assert shell.world == before


PATIENCE_S = 10.0
STACKS: dict[str, Callable[[], dict[str, str]]] = {
    "terabytes": lambda: by_digest(tower(40)),
    "terabytes, by few that name many": lambda: by_digest(tower(6, 1000)),
    "a tower that makes little": lambda: by_digest(tower(500, 1)),
    "a circle": lambda: {"1" * 64: group("0" * 64), "0" * 64: group("1" * 64)},
    "a part of nothing, many times": lambda: by_digest(["=", group(sha256(b"=").hexdigest(), 3_000)]),
    "a part that names very many": lambda: by_digest(["=", group(sha256(b"=").hexdigest(), 50_000)]),
    "depth": lambda: by_digest(["+" + "[" * 1_000_000]),
}


@pytest.mark.parametrize("stack", STACKS, ids=str)
def test_parts_that_would_fill_a_disk_are_given_up_before_they_are_put_together(stack: str, tmp_path: Path) -> None:
    """A value's parts name each other in a circle, without end, or so that a few kilobytes make terabytes."""
    parts = STACKS[stack]()
    path, root = tmp_path / "amends.db", list(parts)[-1]
    body = f'{{"attempt":1,"parts":{{"result":{{"digest":"{root}","size":16777216}}}},"step":"a.1"}}'

    async def write() -> None:
        journal = await SqliteJournal.open(path, ManualClock())
        events: list[Event] = [started(), succeeded("x")]
        for after, event in enumerate(events):
            await journal.append(SagaId("s"), [event], after=after, summary=Summary(status=SagaStatus.RUNNING))
        await journal.close()

    asyncio.run(write())
    database = sqlite3.connect(path)
    ((at, before),) = database.execute("SELECT at, (SELECT hash FROM entry WHERE seq = 1) FROM entry WHERE seq = 2")
    hashed = chain(before, "s", 2, at, "attempt.succeeded/1", body)  # whoever made it knows how hashes are made
    database.execute("UPDATE entry SET body = ?, hash = ? WHERE seq = 2", (body, hashed))
    database.execute("UPDATE saga SET hash = ?", (hashed,))
    database.executemany("INSERT INTO blob (digest, data) VALUES (?, ?)", parts.items())
    database.commit()
    database.close()

    async def read() -> None:
        journal = await SqliteJournal.open(path, ManualClock())
        with pytest.raises(JournalDamagedError, match=r"saga s, entry 2 \(attempt\.succeeded/1\): .* \(its result\)"):
            _ = [entry async for entry in journal.read(SagaId("s"))]
        report = await verify_journal(journal)
        assert report.conclusion == "failed"
        await journal.close()

    began = time.process_time()
    tracemalloc.start()
    asyncio.run(read())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 512 * 1024 * 1024
    assert time.process_time() - began < 6 * PATIENCE_S  # memory is counted meanwhile, which takes its time


# -- hostile bundles --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bomb", BOMBS, ids=str)
def test_a_bundle_that_is_a_bomb_is_given_up_by_both_verifiers(bomb: str) -> None:
    """Lines without end, depth, a hundred thousand notes, huge numbers, towers of branches and of parts."""
    bundle, key = BOMBS[bomb](), made(2).key
    found: list[str] = []
    began = time.process_time()
    for verify, unreadable in (
        (lambda: verify_bundle(io.BytesIO(bundle), key).fields(), EvidenceError),
        (lambda: standalone.Verification(io.BytesIO(bundle), key).report(), ValueError),
    ):
        try:
            found.append(str(verify()["conclusion"]))
        except unreadable:
            found.append("unreadable")
    assert time.process_time() - began < PATIENCE_S
    assert found[0] == found[1]
    assert found[0] in {"failed", "unreadable"}


# -- what a terminal acts upon ----------------------------------------------------------------------------------------

COMMANDS: list[tuple[str, ...]] = [
    ("saga", "list"),
    ("saga", "show", "e-1"),
    ("approval", "list"),
    ("approval", "show", "e-1/2"),
    ("evidence", "show", "e-1"),
    ("evidence", "verify"),
    ("incident", "list"),
    ("incident", "show", "p-1/1"),
    ("saga", "show", "p-1"),
    ("doctor",),
]


def test_no_field_reaches_a_terminal_with_what_it_would_act_upon(tmp_path: Path) -> None:
    """Escapes, line ends and letters that turn text around, in inputs, labels and reasons, by all that is shown."""
    shell = Shell(tmp_path)
    shell.give("office")
    given = json_of({"name": EVIL.replace("\x00", ""), "note_to_all": EVIL.replace("\x00", "")})
    words = ("--input", given, "--env", "production", "--actor", "agent:desk", "--label", f"x={EVIL[:-2]}")
    assert shell.here("run", "office:leave", "--id", "e-1", *words).code == 6
    denies = shell.policy("{id: hands-off, when: {phase: compensation}, decision: deny, reason: no}")
    adopted = shell.here("policy", "adopt", denies, "--why", EVIL, "--by", "person:ann")
    assert adopted.code == 0, adopted
    given = json_of({"name": EVIL.replace("\x00", "")})
    assert shell.here("run", "office:party", "--id", "p-1", "--input", given, "--actor", "agent:desk").code == 4
    for command in COMMANDS:
        said = shell.here(*command)
        assert is_raw(said.out + said.err) == [], command
        assert said.out, command


# -- values -----------------------------------------------------------------------------------------------------------

HOSTILE_PATTERNS = [
    *("(a+)+", "(a+)+$", "^(a+)+$", "(a*)*", "(a*)*b", "(a|a)*", "(a|a)+$", "(a|aa)+$", "(a|a?)+$", "(a+a+)+b"),
    *("([a-zA-Z]+)*$", "(.*a){12}", "(.*a){20}$", "(.+)+x", "(.*)*x", r"(\w+\s?)+$", r"(\d+)+!", "(?:a+){2,}b"),
    *("(a{1,9})+b", "(x+x+)+y", "((a+)+)+$", "^(([a-z])+.)+[A-Z]([a-z])+$", "(a|b|ab)*c", "(ab|a)*(b|ba)*c"),
    *("a*a*a*a*a*a*a*a*b", ".*.*.*.*.*.*=.*", r"\s*\s*\s*\s*x", "(?:a|a|a|a)*b", "(aa|aab?)+c", "(a?){30}a{30}"),
    *("^(?:.?){40}y$", "([a-z0-9]+-?)+@", r"(\d+[,.]?)+x", r'("(?:[^"\\]+|\\.)*)+$', r'<(?:[^>]+|"[^"]*")+>z'),
    r"^([a-zA-Z0-9])(([\-.]|[_]+)?([a-zA-Z0-9]+))*(@){1}[a-z0-9]+[.]{1}([a-z]{2,3})$",
    *(r"(a+)\1+b", "(?=(a+))a*b", r"(?:(a)|b)*\1c"),
]
HOSTILE_TEXTS = ["a" * 41 + "!", "a" * 2_000 + "!", "ab" * 1_000 + "!", " " * 2_000, "0" * 2_000 + "é", "a-" * 1_000]


@pytest.mark.parametrize("pattern", HOSTILE_PATTERNS)
def test_a_pattern_that_would_never_be_done_is_refused_or_done(tmp_path: Path, pattern: str) -> None:
    """A saga's file, or a text for it, keeps a processor busy for as long as the universe lasts."""
    file = tmp_path / "saga.yaml"
    head = "version: v1\nsaga: hostile\ninputs: {name: {pattern: " + json.dumps(pattern) + "}}\n"
    file.write_text(head + "steps: [{id: a, run: ['true'], no_rollback: nothing}]\n", encoding="utf-8")
    since = time.process_time()
    if "\\1" in pattern or "(?=" in pattern:
        with pytest.raises(SagaFileError, match=r"write it out|list what is allowed instead"):
            load_saga(str(file))
        return
    loaded = load_saga(str(file))
    for text in HOSTILE_TEXTS:
        with contextlib.suppress(InputError):
            loaded.bind_document({"name": text})
    assert time.process_time() - since < 10


@pytest.mark.parametrize("levels", [65, 480, 900, 100_000])
@pytest.mark.parametrize("shape", ["input", "input of a list", "payload", "facts"])
def test_a_document_that_is_nested_too_deeply_is_refused_with_a_message(
    tmp_path: Path, shape: str, levels: int
) -> None:
    """A document for the command line is nested so deep that whatever walks it falls over."""
    shell, deep = Shell(tmp_path), "[" * levels + "]" * levels
    (tmp_path / "deep.json").write_text(f'{{"item": {deep}, "cents": 1}}' if shape == "input" else deep)
    (tmp_path / "p.yaml").write_text("version: v1\nrules: []\n")
    words = {
        "input": ["run", "shop:buy", "--input", "@deep.json"],
        "input of a list": ["run", "shop:buy", "--input", "@deep.json"],
        "payload": ["saga", "signal", "x", "go", "--payload", "@deep.json", "--by", "person:olga"],
        "facts": ["policy", "explain", "p.yaml", "--facts", "@deep.json"],
    }
    if shape == "payload":
        assert shell.here("run", "shop:buy", "--id", "x", "--input", '{"item": "lamp", "cents": 1}').code == 0
    complaint = shell.here(*words[shape]).complaint
    assert complaint.startswith("deep.json is nested too deeply: more than 64 levels cannot be kept")
    assert shape == "payload" or not list(tmp_path.glob("amends.db*"))


def test_what_a_command_of_a_file_prints_may_be_nested_as_deep_as_it_likes(tmp_path: Path) -> None:
    """A step prints JSON without a bottom, and another one refers to it."""
    (tmp_path / "saga.yaml").write_text(
        "version: v1\nsaga: deep\nsteps:\n"
        "  - {id: look, run: [cat, deep.json], read_only: true}\n"
        "  - {id: use, run: [echo, '${steps.look.json}'], read_only: true}\n"
    )
    for levels in (65, 900, 20_000):
        (tmp_path / "deep.json").write_text("[" * levels + "]" * levels)
        told = Shell(tmp_path)("run", "saga.yaml", "--journal", f"{levels}.db")
        assert told.code == 3
        assert "Traceback" not in told.out + told.err
        assert "nested deeper than 64 levels" in told.out + told.err


PLANTED = ("tempfile", "shutil", "random", "subprocess", "decimal", "sqlite3", "yaml", "rich", "apsw", "uuid", "heapq")


@pytest.mark.parametrize("entry", ["module", "script"])
@pytest.mark.parametrize(
    "words",
    sampled(
        [
            ["doctor"],
            ["drill", "shop:buy", "--input", '{"item": "lamp", "cents": 5}'],
            ["run", "shop:buy", "--input", '{"item": "lamp", "cents": 5}'],
            ["resume", "shop"],
            ["saga", "list"],
            ["demo", "--pace", "0"],
            ["policy", "show"],
        ],
        each=3,
    ),
    ids=lambda words: words[0],
)
def test_a_file_of_the_working_directory_takes_no_module_of_pythons_place(
    tmp_path: Path, words: list[str], entry: str
) -> None:
    """A colleague, or an agent, leaves a tempfile.py where somebody will call amends."""
    shell = Shell(tmp_path)
    for name in PLANTED:
        (tmp_path / f"{name}.py").write_text(f"open('{name}.ran', 'w').close()\nraise SystemExit(77)\n")
    start = ["-m", "amends"] if entry == "module" else [str(Path(sys.executable).parent / "amends")]
    told = shell.python(*start, *words)
    assert told.code in {0, 1, 2, 3}, told
    assert not list(tmp_path.glob("*.ran"))


def test_a_module_that_another_of_its_name_hides_is_named(tmp_path: Path) -> None:
    """What is looked for in the working directory last must not be something else in silence."""
    (tmp_path / "shutil.py").write_text("raise SystemExit(77)\n")
    complaint = Shell(tmp_path)("run", "shutil:go").complaint
    assert "and not shutil.py, which is looked for last; rename yours" in complaint


LEFT_BEHIND = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGHUP, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open("pid.made", "w") as made:
            made.write(str(os.getpid()))
        os.rename("pid.made", "pid")
        os.close(0), os.close(1), os.close(2)
        time.sleep(60)
    os._exit(0)
while not os.path.exists("pid"):
    time.sleep(0.01)
with open("env", "w") as seen:
    seen.write(repr(dict(os.environ)))
"""


def test_a_command_that_is_told_sees_little_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is told of an incident reads the secrets of the environment, and stays."""
    monkeypatch.chdir(tmp_path)
    for name, value in {"AMENDS_WEBHOOK_SECRET": "whsec_AAAA", "TOKEN": "t0p", "WANTED": "yes"}.items():
        monkeypatch.setenv(name, value)
    notice = Notice(id="amends_7_ab", type="incident.opened", at=7, about="s/1", data={"saga": "s"})
    command = Command([sys.executable, "-c", LEFT_BEHIND], inherit=["WANTED"])
    assert asyncio.run(command.deliver(notice, 0)) == Delivered()
    seen = (tmp_path / "env").read_text()
    assert "t0p" not in seen
    assert "whsec_" not in seen
    assert "'WANTED': 'yes'" in seen
    pid = (tmp_path / "pid").read_text()
    until = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text():
        assert time.monotonic() < until
        time.sleep(0.01)


NOT_PUBLIC = [
    *("fec0::1", "feff::1", "64:ff9b:1::1", "64:ff9b:1:a00:1::", "64:ff9b::10.0.0.1", "64:ff9b::169.254.169.254"),
    *("64:ff9b::168.63.129.16", "::10.0.0.1", "::8.8.8.8", "::2", "192.88.99.1", "192.88.99.254", "168.63.129.16"),
    *(
        "::ffff:168.63.129.16",
        "2002:a83f:8110::",
        "fd00:ec2::254",
        "fd20:ce::254",
        "fd00:c1::a9fe:a9fe",
        "100.100.100.200",
    ),
    *(
        "169.254.169.254",
        "192.0.0.192",
        "::ffff:192.88.99.1",
        "5f00::1",
        "3fff::1",
        "::1",
        "127.0.0.1",
        "10.0.0.1",
        "fc00::1",
    ),
]


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_a_webhook_is_sent_to_public_addresses_only(address: str) -> None:
    """A name that an agent supplied leads behind the firewall, or to where a cloud hands out credentials."""
    with pytest.raises(InputError, match="webhooks may go to public addresses only"):
        require_reach("hook.example.org", address, Reach.PUBLIC)


@pytest.mark.parametrize("address", ["64:ff9b:1::1", "::8.8.8.8", "192.88.99.1", "168.63.129.16", "fd20:ce::254"])
def test_a_private_network_has_no_cloud_and_no_translation_in_it(address: str) -> None:
    """The same where webhooks may be in a private network."""
    with pytest.raises(InputError, match="public and private addresses only"):
        require_reach("hook.example.org", address, Reach.PRIVATE_TOO)
