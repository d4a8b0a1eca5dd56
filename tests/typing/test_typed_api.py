"""The public interface as type checkers see it: mypy and pyright hold each line here, and a run holds it true.

What must not pass is silenced with its code; both checkers say when a silence is no longer needed.
"""

from typing import Any, TypedDict, assert_type

import pytest

import amends
from amends import (
    Action,
    Asked,
    Coordinator,
    Done,
    Ended,
    Handle,
    Happened,
    NotHappened,
    Retries,
    SagaDefinition,
    SagaStatus,
    Secret,
    Settings,
    Step,
    StepError,
    Work,
    action,
    child,
    given,
    register,
    result_of,
    saga,
)
from amends.types import Approval, ApprovalRow


@action("typed.charge", risk={"money"}, idempotent=True, timeout=10, retries=Retries(attempts=2))
async def charge(order: str, cents: int = 1) -> str:
    return f"{order} {cents}"


@charge.compensation
async def refund(done: Done[str]) -> None:
    assert_type(done.args, dict[str, Any])
    assert_type(done.result, str)
    assert_type(done.certain, bool)
    assert_type(done.key, str)


@charge.probe
async def find_charge(asked: Asked) -> Happened | NotHappened:
    return Happened(asked.args["order"])


class ChargeArgs(TypedDict):
    order: str
    cents: int


def by_key(done: Done[str, ChargeArgs], asked: Asked[ChargeArgs], any_one: Done) -> None:
    """Arguments by key, where somebody says what they are."""
    assert_type(done.args["cents"], int)
    assert_type(asked.args["order"], str)
    assert_type(any_one.result, Any)


@action("typed.count", read_only=True)
def count(names: list[str]) -> int:
    return len(names)


@action("typed.mail", no_rollback="a mail cannot be unsent")
def mail(to: str, *, subject: str, body: str = "") -> None: ...


@action("typed.login", read_only=True)
def login(password: Secret) -> bool:
    return password.reveal() == "hunter2"


def plain(left: int, right: int) -> int:
    return left + right


add = register("typed.add", plain, read_only=True, timeout=5)


@saga("typed.all")
async def everything(s: Work, order: str) -> dict[str, object]:
    charged = await s.do(charge, order, 100)
    assert_type(charged, str)
    assert_type(await s.do(charge, order=order), str)
    counted = await s.do(count, [charged])
    assert_type(counted, int)
    assert_type(await s.do(add, 1, right=2), int)
    assert_type(await s.do(login, Secret("hunter2")), bool)
    await s.do(mail, "kim", subject="hello")
    return {"charged": charged, "counted": counted}


async def refused(s: Work) -> None:
    """What both checkers must refuse. Never called."""
    s.do(charge)  # type: ignore[call-overload] # pyright: ignore[reportCallIssue] - nothing given
    s.do(charge, "A", "1")  # type: ignore[call-overload] # pyright: ignore[reportArgumentType, reportCallIssue] - a text for a number
    s.do(count, "abc", 1)  # type: ignore[call-overload] # pyright: ignore[reportCallIssue] - too many
    s.do(mail, "kim", "hello")  # type: ignore[call-overload] # pyright: ignore[reportCallIssue] - by name only
    await s.ask(mail, "kim", "hello")  # type: ignore[call-arg] # pyright: ignore[reportCallIssue] - by name only
    s.do(plain, 1, 2)  # type: ignore[call-overload] # pyright: ignore[reportArgumentType, reportCallIssue] - no action
    action("typed.wrong", read_only="yes")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - a text for a flag
    action("typed.wrong", on_incident="skip")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - no such word


async def called(s: Work) -> None:
    """What children give. Never called."""
    assert_type(await s.call(everything, "A"), dict[str, object])
    assert_type(await s.call(everything, "A", restarts=1), dict[str, object])
    assert_type(await s.call_all([child(everything, "A")]), list[dict[str, object]])
    await s.call(everything, 1)  # type: ignore[call-overload] # pyright: ignore[reportArgumentType] - a number for a text
    await s.call(everything)  # type: ignore[call-overload] # pyright: ignore[reportCallIssue] - nothing given


async def refused_to_run(coordinator: Coordinator) -> None:
    """What both checkers must refuse. Never called."""
    await coordinator.run(everything, 1)  # type: ignore[call-overload] # pyright: ignore[reportArgumentType] - a number for a text
    await coordinator.run(everything, "A", id=1)  # type: ignore[call-arg] # pyright: ignore[reportCallIssue] - a number for an id
    await coordinator.start(everything, orders="A")  # type: ignore[call-overload] # pyright: ignore[reportCallIssue] - no such parameter


async def asked_ahead(s: Work) -> None:
    """What asking people gives. Never called."""
    assert_type(await s.ask(mail, "kim", subject="hello"), tuple[str, ...])
    assert_type(await s.ask(charge, "A"), tuple[str, ...])


async def declared() -> None:
    """What declaring gives. Never called."""
    assert_type(await charge("A", 1), str)
    assert_type(count(["a"]), int)
    assert_type(add(1, 2), int)
    assert_type(SagaDefinition("typed.steps", [count]), SagaDefinition[..., dict[str, Any]])
    assert_type(amends.key(), str)


async def ran(coordinator: Coordinator) -> None:
    """What running gives. Never called."""
    assert_type(await coordinator.run(everything, "A"), Ended[dict[str, object]])
    assert_type((await coordinator.run(everything, "A", id="1", labels={"a": "b"})).result, dict[str, object])
    assert_type((await coordinator.run(everything, "A", options={"id": "1"})).result, dict[str, object])
    handle = assert_type(await coordinator.start(everything, "A"), Handle[dict[str, object]])
    assert_type(await handle, Ended[dict[str, object]])
    assert_type(amends.run(everything, "A").result, dict[str, object])
    assert_type(amends.run(everything, "A", journal=":memory:", wait=True).result, dict[str, object])
    assert_type(await coordinator.resume(), list[Ended])
    assert_type((await coordinator.list(status="incident"))[0].status, SagaStatus)
    assert_type(await coordinator.approvals(), list[ApprovalRow])
    assert_type(await coordinator.approval("A/1"), Approval)
    assert_type(await coordinator.grant("A/1", by="person:kim"), Approval)
    assert_type(await coordinator.adopt("policy.yaml", by="person:kim", why="first"), bool)
    assert_type((await coordinator.incidents())[0].left, tuple[str, ...])  # type: ignore[assert-type] # pyright: ignore[reportAssertTypeFailure] - StepIds, which are more than texts
    async with Coordinator.open("amends.db", settings=Settings(lease_s=5)) as opened:
        assert_type(opened, Coordinator)
    assert_type(await Coordinator.open(), Coordinator)


def test_the_types_are_true_of_a_run() -> None:
    ended = amends.run(everything, "A-1", journal=":memory:")
    assert (ended.status, ended.result) == (SagaStatus.COMPLETED, {"charged": "A-1 100", "counted": 1})


def test_a_list_takes_actions_of_any_type() -> None:
    steps: list[Step | Action[..., Any]] = [
        charge,
        Step(count, {"names": given("orders")}),
        Step(mail, {"to": result_of("charge"), "subject": "x"}),
    ]
    listed = SagaDefinition("typed.list", steps)
    assert amends.run(listed, {"order": "A-2", "cents": 3, "orders": ["A-2"]}, journal=":memory:").result == {
        "charge": "A-2 3",
        "count": 1,
        "mail": None,
    }


def test_an_error_of_a_step_has_typed_parts() -> None:
    with pytest.raises(StepError) as caught:
        raise StepError("it broke", step="1", topic="typed.charge")
    assert_type(caught.value.reason, str)
    assert_type(caught.value.step, str)
