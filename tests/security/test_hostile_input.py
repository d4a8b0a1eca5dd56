"""Attacks by input: documents, answers, names, addresses and bundles that somebody else wrote."""

import asyncio
import io
import time
from pathlib import Path
from typing import Any

import pytest

from amends import Limits, Work, action, saga
from amends.errors import AmendsError, EvidenceError, InputError
from amends.evidence import standalone
from amends.evidence.verify import verify_bundle
from tests.cli.shell import Shell
from tests.evidence.given import made
from tests.security.held import AMOUNTS, BOMBS, CURRENCIES, EDITS, EVIL, SMALL_ONLY, desk, is_raw, json_of, sql

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


# -- hostile bundles --------------------------------------------------------------------------------------------------

PATIENCE_S = 10.0


@pytest.mark.parametrize("bomb", BOMBS, ids=str)
def test_a_bundle_that_is_a_bomb_is_given_up_by_both_verifiers(bomb: str) -> None:
    """Lines without end, depth, a hundred thousand notes, huge numbers, towers of branches."""
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
