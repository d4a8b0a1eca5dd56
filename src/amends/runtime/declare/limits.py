"""Fish or cut bait: what a saga may use up (`Limits`), said by its definition or by whoever starts it.

What is declared here is checked here and turned into whole numbers; `state.limits` folds them, `decide.limits` decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from typing import Final, Literal, TypeAlias, cast

from amends.core.state.limits import MICROS, WITHIN, LimitName, Response
from amends.core.words.values import LARGEST_INT, Json
from amends.dataclass import dataclass
from amends.errors import DeclarationError, InputError

LONGEST: Final = 400
_LEAST_SPIN: Final = 2
Amount: TypeAlias = int | float | str | Decimal


@dataclass(frozen=True, slots=True)
class ToCheckpoint:
    """A response: back to a checkpoint, and on from there. `to_checkpoint` makes one."""

    name: str
    guidance: str
    times: int


def to_checkpoint(name: str, guidance: str = "", *, times: int = 1) -> ToCheckpoint:
    """The response to a limit: take back what came after this checkpoint, and go on from there, told `guidance`.

    What was spent stays spent: each time it goes back it is allowed as much again. After `times`, it is rolled back.
    """
    if not name.strip() or len(guidance) > LONGEST or times < 1:
        raise DeclarationError(
            f"to_checkpoint({name!r}, …) needs a checkpoint's name, at most {LONGEST} characters of guidance, "
            "and to go back at least once"
        )
    return ToCheckpoint(name, guidance, times)


Then: TypeAlias = Literal["rollback", "pause", "call"] | ToCheckpoint


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit with a response of its own: `Limits(usd=Limit(5, then="call"))`."""

    most: Amount
    then: Then = "rollback"
    stop_children: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on what a saga may use up before something happens.

    tokens, usd: the sums of what `s.spend` says; the one spending that crosses a limit is the last.
    seconds: since the saga was started, by the journal's clock, whatever it did or waited for meanwhile.
    steps: how many steps it may ask for. What is built in (topics `amends.…`) does not count.
    failures: how many attempts may fail, or be lost, in all its steps together; one more is too many.
    retries: how many times its steps may be tried again, all together; the next retry is not dispatched.
    spin: how many steps in a row may be nearly the same and bring nothing new; the next such one is not dispatched.
    then: what happens: "rollback", "pause", "call" (a person), or `to_checkpoint(name, guidance)`; for those given as a
    `Limit`, what that says.
    stop_children: children that run are stopped at once, as the saga is, and not at their next step.

    A child runs within what is left to its parent, whatever its own limits say, and what it uses up counts for both.
    """

    tokens: int | Limit | None = None
    usd: Amount | Limit | None = None
    seconds: float | Limit | None = None
    steps: int | Limit | None = None
    failures: int | Limit | None = None
    retries: int | Limit | None = None
    spin: int | Limit | None = None
    then: Then = "rollback"
    stop_children: bool = False

    def __post_init__(self) -> None:
        for name, limit in self.each():
            whole(name, limit.most)
            _response(name, limit.then)
        _response("then", self.then)

    def each(self) -> Iterator[tuple[LimitName, Limit]]:
        """Limits that are set, by name."""
        for field in fields(self):
            said = cast("object", getattr(self, field.name))
            if field.name in set(LimitName) and said is not None:
                own = said if isinstance(said, Limit) else Limit(cast("Amount", said), self.then, self.stop_children)
                yield LimitName(field.name), own


def whole(name: str, amount: object) -> int:
    """An amount in the journal's units. Raises DeclarationError for one that no saga could keep to."""
    if isinstance(amount, bool) or not isinstance(amount, int | float | str | Decimal):
        raise DeclarationError(f"Limits: {name}={amount!r} is not a number")
    if name == LimitName.USD:
        found = micros(amount)
    elif name == LimitName.SECONDS:
        found = round(_decimal(name, amount) * 1000)
    elif isinstance(amount, int):
        found = amount
    else:
        raise DeclarationError(f"Limits: {name}={amount!r} must be a whole number")
    least = _LEAST_SPIN if name == LimitName.SPIN else 1
    if found < least:
        hint = "one step is no spin: at least 2" if name == LimitName.SPIN else "more than 0, or leave the limit out"
        raise DeclarationError(f"Limits: {name}={amount} must be {hint}")
    if found > LARGEST_INT:
        raise DeclarationError(f"Limits: {name}={amount} is more than can be counted; leave the limit out")
    return found


def micros(amount: Amount) -> int:
    """Dollars as millionths, rounded up: a sum never says less than was spent."""
    return int((_decimal("usd", amount) * MICROS).to_integral_value(ROUND_CEILING))


def _decimal(name: str, amount: Amount) -> Decimal:
    try:
        found = Decimal(str(amount))
    except InvalidOperation:
        raise DeclarationError(f"{name}={amount!r} is not an amount") from None
    if not found.is_finite():
        raise DeclarationError(f"{name}={amount!r} is not an amount")
    return found


def _response(name: str, then: object) -> dict[str, Json]:
    if isinstance(then, ToCheckpoint):
        return {
            "then": Response.TO_CHECKPOINT.value,
            "to": then.name,
            "times": then.times,
            **({"guidance": then.guidance} if then.guidance else {}),
        }
    if then not in {Response.ROLLBACK, Response.PAUSE, Response.CALL}:
        raise DeclarationError(
            f"Limits: {name}: {then!r} is no response; write 'rollback', 'pause', 'call' or to_checkpoint(name)"
        )
    return {"then": str(then)}


def journaled(*said: Limits | None, now: int, within: Json = None) -> Json:
    """The limits that a saga begins with: of the settings, over them the definition's, and those of whoever starts it.

    `within`: what the limits of its parent's tell a child.
    """
    for one in said:
        if one is not None and not isinstance(cast("object", one), Limits):
            raise InputError(f"limits={one!r} are no limits; write amends.Limits(steps=…, usd=…)")
    limits = {name: limit for each in said if each is not None for name, limit in each.each()}
    if not limits and within is None:
        return None
    return {
        **{
            name.value: {
                "most": whole(name, limit.most),
                **_response(name, limit.then),
                **({"since_at": now} if name is LimitName.SECONDS else {}),
                **({"children": True} if limit.stop_children else {}),
            }
            for name, limit in limits.items()
        },
        **({} if within is None else {WITHIN: within}),
    }


def within_time(timeout_s: float | None, *said: Limits | None) -> Limits | None:
    """Limits that a child that has so much time begins with; its own limit stays where it is tighter."""
    if timeout_s is None:
        return None
    own = {name: limit for each in said if each is not None for name, limit in each.each()}.get(LimitName.SECONDS)
    is_tighter = own is not None and whole(LimitName.SECONDS, own.most) <= whole(LimitName.SECONDS, timeout_s)
    return None if is_tighter else Limits(seconds=timeout_s)


def raised(amounts: Mapping[str, Amount | None]) -> dict[str, int]:
    """New limits in the journal's units. Raises InputError."""
    try:
        return {name: whole(name, amount) for name, amount in amounts.items() if amount is not None}
    except DeclarationError as exc:
        raise InputError(str(exc)) from None


def spending(tokens: object, usd: object) -> tuple[int, int]:
    """The amounts of an `s.spend`, in the journal's units. Raises InputError."""
    if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 0 or tokens > LARGEST_INT:
        raise InputError(f"s.spend(tokens={tokens!r}): tokens are counted: 0, 1, 2, …")
    if isinstance(usd, bool) or not isinstance(usd, int | float | str | Decimal):
        raise InputError(f"s.spend(usd={usd!r}) is not an amount")
    try:
        found = micros(usd)
    except DeclarationError as exc:
        raise InputError(f"s.spend: {exc}") from None
    if found < 0 or found > LARGEST_INT:
        raise InputError(f"s.spend(usd={usd!r}): what was spent cannot be negative, or more than there is")
    if not tokens and not found:
        raise InputError("s.spend() was told of nothing; say tokens= or usd=")
    return tokens, found
