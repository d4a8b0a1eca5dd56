"""Users' values on their way into the journal and out of it: what is large is walked in a thread, never on the loop.

Whether a value is large is found out by walking it with little patience. So a small one costs what it costs anyway; a
large one costs that little bit on the loop, and then its whole walk where it keeps nobody waiting. It is spelled once:
the journal finds the text that was made here.
"""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import threading
from collections.abc import Callable, Collection, Iterable
from typing import Final, TypeVar, cast

from amends.core.words.values import DEEPEST, LARGEST_VALUE, Json, Weight, payload, spell_once
from amends.dataclass import dataclass
from amends.errors import NotJsonError, TooLargeError
from amends.secrets import Secret, mask, unmask

T = TypeVar("T")

ON_LOOP: Final = 64 * 1024
"""How many characters of JSON a value may take, at least, that is walked on the loop."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A value as it is stored, the digest that arguments of steps are compared by (of others ''), and its secrets."""

    value: Json
    digest: str
    secrets: tuple[Secret, ...]


_ROWS: Final = frozenset({list, tuple, set, frozenset})
_TEXTS: Final = frozenset({str, bytes})


def weigh(value: object, weight: Weight, depth: int = 0) -> None:
    """Count what a value holds, as it is or in the fields of objects, before it is walked by what cannot be stopped.

    Raises TooLargeError, or NotJsonError where it is too deep: a value without an end is that, too.
    """
    kind = type(value)
    if kind in _TEXTS:
        weight.take(len(cast("str", value)))
        return
    if kind not in _ROWS and kind is not dict:
        value, kind = getattr(value, "__dict__", None), dict
        if type(value) is not dict:
            return
    if depth >= DEEPEST:
        raise NotJsonError(f"{weight.what} is nested deeper than {DEEPEST} levels")
    if kind is dict:
        named = cast("dict[object, object]", value)
        weight.take(5 * len(named))
        for name, each in named.items():
            weight.take(len(name) if type(name) is str else 0)
            weigh(each, weight, depth + 1)
        return
    items = cast("Collection[object]", value)
    weight.take(2 * len(items))
    for each in items:
        weigh(each, weight, depth + 1)


def stored(
    value: object, salt: str, what: str, most: int = LARGEST_VALUE, found: list[Secret] | None = None
) -> tuple[Json, bytes]:
    """A copy that nobody else holds, and its text. Raises NotJsonError or TooLargeError."""
    return payload(value, most) or _masked(value, salt, what, most, found)


def _masked(value: object, salt: str, what: str, most: int, found: list[Secret] | None) -> tuple[Json, bytes]:
    masked = mask(value, salt, what=what, most=most, found=found)
    return cast("Json", masked), spell_once(masked, what=what).encode()


def keep(value: object, salt: str, what: str, most: int = LARGEST_VALUE, *, digests: bool = True) -> Kept:
    """A stored copy, with what a step has to know of its arguments besides."""
    plain = payload(value, most)
    if plain is not None:
        return Kept(plain[0], hashlib.sha256(plain[1]).hexdigest()[:32] if digests else "", ())
    found: list[Secret] = []
    masked, text = _masked(value, salt, what, most, found)
    return Kept(masked, hashlib.sha256(text).hexdigest()[:32] if digests else "", tuple(found))


def keep_at_sight(value: object) -> tuple[Json, str] | None:
    """Keep a small value that holds nothing secret: its copy and its digest, as by `keep`. None of any other."""
    plain = payload(value, ON_LOOP)
    return None if plain is None else (plain[0], hashlib.sha256(plain[1]).hexdigest()[:32])


async def keep_off_loop(value: object, salt: str, what: str) -> Kept:
    """Keep a value that may be large, and is compared with none. Raises NotJsonError or TooLargeError."""
    return await small_or_off_loop(lambda most: keep(value, salt, what, most, digests=False))


async def small_or_off_loop(work: Callable[[int], T], *, to_its_end: bool = False) -> T:
    """Do it here as far as that is little, else in a thread; `work` raises TooLargeError past what it is given."""
    try:
        return work(ON_LOOP)
    except TooLargeError:
        return await off_loop(lambda: work(LARGEST_VALUE), to_its_end=to_its_end)


async def give(value: Json, salt: str, known: Iterable[Secret] = ()) -> object:
    """A stored value as a user's function gets it: a fresh copy."""
    secrets = tuple(known)
    try:
        return unmask(value, salt, secrets, most=ON_LOOP)
    except TooLargeError:
        return await off_loop(lambda: unmask(value, salt, secrets))


async def off_loop(work: Callable[[], T], *, to_its_end: bool = False) -> T:
    """Do it in a daemon thread of its own.

    to_its_end: one that is cancelled meanwhile gets the answer all the same, because it says what is known of an
    effect; the work is bounded, and the caller lets the cancellation go on.
    """
    loop, context = asyncio.get_running_loop(), contextvars.copy_context()
    done: asyncio.Future[tuple[T | None, BaseException | None]] = loop.create_future()

    def settle(value: T | None, error: BaseException | None) -> None:
        if not done.done():
            done.set_result((value, error))

    def run() -> None:
        value: T | None = None
        error: BaseException | None = None
        try:
            value = context.run(work)
        except BaseException as exc:  # noqa: BLE001 - of whatever kind: who waits has to hear of it
            error = exc
        try:
            loop.call_soon_threadsafe(settle, value, error)
        except RuntimeError:
            return  # the loop has closed: nobody waits any more

    threading.Thread(target=run, name="amends value", daemon=True).start()
    while not done.done():
        try:
            await asyncio.shield(done)
        except asyncio.CancelledError:
            if not to_its_end:
                raise
    value, error = done.result()
    if error is not None:
        raise error
    return cast("T", value)
