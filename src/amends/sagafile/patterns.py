r"""Patterns of a saga's file, matched in a bounded number of steps: the length of the text times that of the pattern.

Python's own engine goes back and tries again, and a pattern such as `(a+)+` has it try for longer than anyone waits. So
a pattern is read here, as far as it describes a text letter by letter, and followed through all its ways at once, each
of them for one letter at a time. What one letter has to be (`a`, `[a-z]`, `\d`) is still Python's to say. What looks
ahead, looks back or repeats what was found cannot be followed like that, and is refused with how to do without.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from amends.errors import InputError
from amends.source.marked import shown

LONGEST: Final = 1000
MOST_STATES: Final = 1000
MOST_STEPS: Final = 2_000_000
DEEPEST: Final = 32
_MOST_TURNS: Final = 2 * MOST_STATES
_REMEMBERED: Final = 256
_FLAGS: Final = re.compile(r"\(\?([a-zA-Z]+)\)")
_TIMES: Final = re.compile(r"\{(\d*)(,?)(\d*)\}")
_LENGTHS: Final = {"x": 4, "u": 6, "U": 10}
_UNREAD: Final = {
    "=": "looks ahead; list what is allowed instead",
    "!": "looks ahead; list what is allowed instead",
    "<": "looks back; list what is allowed instead",
    ">": "is a group that never goes back; write (?:…)",
    "(": "depends on a group; write both cases with |",
    "#": "is a comment; leave it out",
}

Test: TypeAlias = Callable[[str], bool]


class TextPlace(NamedTuple):
    """Where an assertion is asked: the text and a position between its letters."""

    text: str
    at: int


class PatternState(NamedTuple):
    """One place in a pattern: a letter to be read, an assertion to hold, or ways that cost nothing."""

    test: Test | None
    holds: Callable[[TextPlace], bool] | None
    to: tuple[int, ...]


class Pattern:
    """A pattern that was read. `fits` says whether all of a text is as it describes."""

    def __init__(self, states: list[PatternState], first: int, last: int) -> None:
        self._states, self._first, self._last = states, first, last
        self._asserts = any(state.holds is not None for state in states)
        self._steps: dict[tuple[frozenset[int], str], frozenset[int]] = {}

    def fits(self, text: str) -> bool:
        """Raises InputError where the text is too long to be followed."""
        if len(text) * len(self._states) > MOST_STEPS:
            raise InputError(f"a text of {len(text):,} characters is too long to be matched; shorten it")
        here = self._reached((self._first,), TextPlace(text, 0))
        for at, letter in enumerate(text, 1):
            if not here:
                return False
            here = self._after(here, letter, TextPlace(text, at))
        return self._last in here

    def _after(self, here: frozenset[int], letter: str, place: TextPlace) -> frozenset[int]:
        known = None if self._asserts else self._steps.get((here, letter))
        if known is not None:
            return known
        read = (self._states[one] for one in here)
        next_ = self._reached((state.to[0] for state in read if state.test is not None and state.test(letter)), place)
        if not self._asserts and len(self._steps) < _REMEMBERED:
            self._steps[here, letter] = next_
        return next_

    def _reached(self, begun: Iterable[int], place: TextPlace) -> frozenset[int]:
        found: set[int] = set()
        waiting = list(begun)
        while waiting:
            one = waiting.pop()
            if one in found:
                continue
            found.add(one)
            state = self._states[one]
            if state.test is None and (state.holds is None or state.holds(place)):
                waiting.extend(state.to)
        return frozenset(found)


@lru_cache(maxsize=256)
def compile_pattern(pattern: str) -> Pattern:
    """Raises InputError, which says what is refused and how to write it."""
    if len(pattern) > LONGEST:
        raise InputError(f"pattern is longer than {LONGEST} characters; shorten it")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(pattern)
    except (re.error, RecursionError, OverflowError, Warning) as exc:
        raise InputError(f"pattern {shown(pattern)} is not a regular expression: {exc}") from None
    return _Reading(pattern).whole()


# -- reading ----------------------------------------------------------------------------------------------------------

Part: TypeAlias = Callable[[int], int]
"""What makes the states of a part of a pattern, given the state after it; the first of them."""


class _Reading:
    """One pattern, read from the left. Python has found it sound: here only the parts are told apart."""

    def __init__(self, pattern: str) -> None:
        self._text, self._at = pattern, 0
        self._flags = re.NOFLAG
        self._states: list[PatternState] = []
        self._turns = 0

    def whole(self) -> Pattern:
        while found := _FLAGS.match(self._text, self._at):
            for flag in found[1]:
                if flag not in "ais":
                    raise self._refused(f"(?{flag})", "changes how patterns are read; leave it out")
                self._flags |= {"a": re.ASCII, "i": re.IGNORECASE, "s": re.DOTALL}[flag]
            self._at = found.end()
        part = self._choice(0)
        last = self._add(None, None)
        first = part(last)
        return Pattern(self._states, first, last)

    def _refused(self, what: str, why: str) -> InputError:
        return InputError(f"pattern {shown(self._text)}: {what} {why}")

    def _add(self, test: Test | None, holds: Callable[[TextPlace], bool] | None, *to: int) -> int:
        if len(self._states) >= MOST_STATES:
            raise self._too_long()
        self._states.append(PatternState(test, holds, to))
        return len(self._states) - 1

    def _choice(self, depth: int) -> Part:
        if depth > DEEPEST:
            raise self._refused("its groups", f"are nested deeper than {DEEPEST} levels")
        ways = [self._sequence(depth)]
        while self._text[self._at : self._at + 1] == "|":
            self._at += 1
            ways.append(self._sequence(depth))
        if len(ways) == 1:
            return ways[0]
        return lambda after: self._add(None, None, *[way(after) for way in ways])

    def _sequence(self, depth: int) -> Part:
        parts: list[Part] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            parts.append(self._repeated(self._part(depth)))

        def made(after: int) -> int:
            for part in reversed(parts):
                after = part(after)
            return after

        return made

    def _repeated(self, part: Part) -> Part:
        times = self._times()
        if times is None:
            return part
        if self._text[self._at : self._at + 1] == "?":  # which way is tried first makes no difference here
            self._at += 1
        elif self._text[self._at : self._at + 1] == "+":
            raise self._refused("a + after a repetition", "never goes back; leave it out")
        least, most = times
        return lambda after: self._loop(part, least, most, after)

    def _loop(self, part: Part, least: int, most: int | None, after: int) -> int:
        if most is None:
            again = self._add(None, None)  # filled in below, when it is known where the part begins
            self._states[again] = PatternState(None, None, (part(again), after))
            after = again
        else:
            end = after
            for _ in range(most - least):
                self._turn()
                after = self._add(None, None, part(after), end)
        for _ in range(least):
            self._turn()
            after = part(after)
        return after

    def _turn(self) -> None:
        """Count one more copy of a part: of one that reads nothing, no states would tell."""
        self._turns += 1
        if self._turns > _MOST_TURNS:
            raise self._too_long()

    def _too_long(self) -> InputError:
        return self._refused("its repetitions", f"make it longer than {MOST_STATES} places; allow fewer")

    def _times(self) -> tuple[int, int | None] | None:
        sign = self._text[self._at : self._at + 1]
        if sign in {"*", "+", "?"}:
            self._at += 1
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
        found = _TIMES.match(self._text, self._at)
        if found is None or not (found[1] or found[3] or found[2]):
            return None
        self._at = found.end()
        least = int(found[1] or 0)
        return least, (int(found[3]) if found[3] else None) if found[2] else least

    def _part(self, depth: int) -> Part:
        letter = self._text[self._at]
        if letter == "(":
            return self._group(depth)
        if letter in "^$":
            self._at += 1
            return self._assertion(_begins if letter == "^" else _ends)
        if letter == "\\":
            return self._escape()
        return self._letter(self._class_end() if letter == "[" else self._at + 1)

    def _group(self, depth: int) -> Part:
        rest = self._text[self._at + 1 :]
        skipped = 1
        if rest.startswith("?"):
            named = re.match(r"\?P<\w+>", rest)
            kind = rest[1:2]
            if named is None and kind != ":":
                why = _UNREAD.get(kind, "repeats what was found; write it out" if kind == "P" else "is not read here")
                raise self._refused(f"(?{kind}", why)
            skipped += 2 if named is None else named.end()
        self._at += skipped
        part = self._choice(depth + 1)
        self._at += 1
        return part

    def _escape(self) -> Part:
        kind = self._text[self._at + 1]
        if kind in _ASSERTIONS:
            self._at += 2
            holds = _ASSERTIONS[kind]
            return self._assertion(lambda place: holds(place, self._flags))
        if kind in "123456789":
            raise self._refused(f"\\{kind}", "repeats what was found; write it out")
        if kind == "N":
            return self._letter(self._text.index("}", self._at) + 1)
        if kind == "0":
            octal = re.compile(r"\\0[0-7]{0,2}").match(self._text, self._at)
            return self._letter(self._at + 2 if octal is None else octal.end())
        return self._letter(self._at + _LENGTHS.get(kind, 2))

    def _class_end(self) -> int:
        at = self._at + 1 + (self._text[self._at + 1] == "^")
        at += self._text[at] == "]"
        while self._text[at] != "]":
            at += 1 + (self._text[at] == "\\")
        return at + 1

    def _letter(self, end: int) -> Part:
        """One letter of the text, as Python reads this part of the pattern."""
        found = re.compile(self._text[self._at : end], self._flags).fullmatch
        self._at = end

        @lru_cache(maxsize=512)
        def test(letter: str) -> bool:
            return found(letter) is not None

        return lambda after: self._add(test, None, after)

    def _assertion(self, holds: Callable[[TextPlace], bool]) -> Part:
        return lambda after: self._add(None, holds, after)


def _begins(place: TextPlace) -> bool:
    return place.at == 0


def _ends(place: TextPlace) -> bool:
    """`$` is also true before a line's end that is the last letter."""
    left = len(place.text) - place.at
    return left == 0 or (left == 1 and place.text[-1] == "\n")


def _is_edge(place: TextPlace, flags: re.RegexFlag) -> bool:
    return _is_word(place.text, place.at - 1, flags) != _is_word(place.text, place.at, flags)


def _is_word(text: str, at: int, flags: re.RegexFlag) -> bool:
    return 0 <= at < len(text) and re.match(r"\w", text[at], flags) is not None


_ASSERTIONS: Final[dict[str, Callable[[TextPlace, re.RegexFlag], bool]]] = {
    "A": lambda place, _: place.at == 0,
    "Z": lambda place, _: place.at == len(place.text),
    "b": _is_edge,
    "B": lambda place, flags: not _is_edge(place, flags),
}
