"""Programs that chance writes for simulated sagas: the input of the definitions in `language`.

`KINDS` is the table of those programs in which features of the language meet: families, parts of the work that are
taken back with the children in them, what is held, asked ahead or irreversible. One line there is one more kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Final

from amends.runtime.declare.action import Action
from amends.testing.simulation.actions import ACTIONS, APPROVED, HELD, LOCKED, PIVOT
from amends.testing.simulation.language import GRAPHS, LIMITED, SESSION, THRIFTY, WORK, Program
from amends.testing.simulation.loop import Dice

_PLAIN, _DRAWN, _LIMITED, _OF_A_KIND, _IN_ALL = 40, 15, 10, 25, 100
"""Of so many programs, how many are plain, graphs, have a limit, or are of a kind; the rest are of any parts."""
_OPEN: Final = 15
"""Of so many plain ones, how many are the work of agents in a session."""
_LONG_S: Final = 2_000.0
"""Longer than anybody waits, and than the window of a rollback."""
Part = list[Any]


def plain(dice: Dice, steps: int | None) -> Program:
    """Groups of steps side by side, and how the function ends."""
    left = dice.below(5) + 1 if steps is None else steps
    groups: list[list[int]] = []
    while left > 0:
        width = min(left, 2 if dice.chance(20) else 1)
        groups.append([dice.below(len(ACTIONS)) for _ in range(width)])
        left -= width
    return {"groups": groups, "fails": dice.chance(35), "pivots": dice.chance(8)}


def kind_of(seed: int) -> str:
    """Of which kind its program is; "" where it is of none."""
    if Dice(seed ^ 0x5EED).below(_IN_ALL) < _IN_ALL - _OF_A_KIND:
        return ""
    return [*KINDS][Dice(seed ^ 0x00FA).below(len(KINDS))]


def any_program(seed: int, dice: Dice, who: str) -> tuple[str, Program]:
    """A definition's name and its input. Chance for the shape is thrown apart, so plain programs are the same ones."""
    shape = Dice(seed ^ 0x5EED).below(_IN_ALL)
    if shape < _PLAIN:
        is_open = Dice(seed ^ 0x09E4).below(_IN_ALL) < _OPEN
        return SESSION if is_open else WORK.name, plain(dice, None)
    if shape < _PLAIN + _DRAWN:
        return GRAPHS[dice.below(len(GRAPHS))].name, {"fails": dice.chance(40)}
    if kind := kind_of(seed):
        return WORK.name, {**_parts(KINDS[kind](dice, who), dice, who), "kind": kind}
    if shape < _PLAIN + _DRAWN + _LIMITED:
        name = (LIMITED if dice.chance(50) else THRIFTY).name
        return name, _parts([["do", _one(dice)], ["mark"], _simple(dice), ["spend", 2 + 2 * dice.below(2)]], dice, who)
    return WORK.name, _parts([part for _ in range(2 + dice.below(2)) for part in _some(dice, who)], dice, who)


def at_the_desk(dice: Dice, who: str) -> Program:
    """The program of another saga that wants the same thing."""
    return _parts([["lock"], ["do", _one(dice)]], dice, who)


def has(program: Program, word: str) -> bool:
    """Whether it says this word itself."""
    return any(part[0] == word for part in program.get("parts", ()))


def words(program: Program) -> set[str]:
    """All that it says, and everything within it."""
    return {part[0] for part in _every(program.get("parts", ()))}


def says(program: Program, *some: str) -> bool:
    return not words(program).isdisjoint(some)


def _every(parts: list[Part]) -> Iterator[Part]:
    for part in parts:
        yield part
        for within in _within(part):
            yield from _every(within)


def _within(part: Part) -> list[list[Part]]:
    """The parts of a part."""
    match part:
        case ["call", program] | ["hurry", _, program]:
            return [program["parts"]]
        case ["group", programs, _]:
            return [program["parts"] for program in programs]
        case ["beside", branches]:
            return list(branches)
        case ["try", parts]:
            return [parts]
        case _:
            return []


# -- what is to stand -------------------------------------------------------------------------------------------------


def _topic(which: int, actions: tuple[Action[..., Any], ...]) -> str:
    return actions[which].topic


def effects(program: Program) -> Counter[str]:
    """How often the effect of each action stands once all of it was done, and none of it was in doubt."""
    if "groups" in program:
        found = Counter(_topic(which, ACTIONS) for group in program["groups"] for which in group)
    else:
        found = _effects(program["parts"])
        for part in _every(program["parts"]):
            for below in _programs(part):
                found[PIVOT.topic] += below["pivots"]
    found[PIVOT.topic] += program["pivots"]
    return +found


def _programs(part: Part) -> list[Program]:
    return part[1] if part[0] == "group" else [part[-1]] if part[0] in {"call", "hurry"} else []


def _effects(parts: list[Part]) -> Counter[str]:
    found, since = Counter[str](), Counter[str]()
    for before, part in pairwise([[], *parts]):
        match part:
            case ["do", which]:
                found[_topic(which, ACTIONS)] += 1
            case ["block", *which]:
                found.update(_topic(one, ACTIONS) for one in which)
            case ["hold"]:
                found[HELD.topic] += 1
            case ["lock"]:
                found[LOCKED.topic] += 1
            case ["pay", which, _]:
                found[_topic(which, APPROVED)] += 1
            case ["pivot"]:
                found[PIVOT.topic] += 1
            case ["mark"]:
                since = found.copy()
            case ["back"]:
                found = since.copy()
            case ["last"]:
                found[_topic(before[1], ACTIONS)] -= 1
            case _:
                for within in _within(part):
                    found += _effects(within)
    return found


def _parts(parts: list[list[Any]], dice: Dice, who: str) -> Program:
    return {"parts": parts, "who": who, "fails": dice.chance(35), "pivots": dice.chance(4)}


def _one(dice: Dice) -> int:
    return dice.below(len(ACTIONS))


def _simple(dice: Dice) -> list[Any]:
    words: list[list[Any]] = [["do", _one(dice)], ["hold"], ["lock"], ["keep"], ["sleep", dice.between(0.1, 60)]]
    return words[dice.below(len(words))]


def _some(dice: Dice, who: str) -> list[list[Any]]:
    """One part, or the few that belong together."""
    match dice.below(8):
        case 0:
            return [["call", _parts([["do", _one(dice)], _simple(dice)], dice, who)]]
        case 1:
            return [["mark"], _simple(dice), ["do", _one(dice)], ["back"]]
        case 2:
            return [["do", _one(dice)], ["last"]]
        case 3:
            return [["block", _one(dice), _one(dice)]]
        case 4:
            return [["wait", dice.between(5, 120)], ["do", _one(dice)]]
        case _:
            return [_simple(dice)]


# -- where features meet ----------------------------------------------------------------------------------------------


def _child(dice: Dice, who: str, *parts: Part) -> Part:
    return ["call", _parts(list(parts), dice, who)]


def _do(dice: Dice) -> Part:
    return ["do", _one(dice)]


def _long(dice: Dice) -> list[Part]:
    """Work of many steps, or one that waits for somebody: it is still there when it is to be taken back."""
    if dice.chance(50):
        return [_do(dice), ["wait", _LONG_S], _do(dice)]
    return [part for _ in range(6) for part in (_do(dice), ["sleep", dice.between(10, 100)])]


def _grandchildren(dice: Dice, who: str) -> list[Part]:
    below = _child(dice, who, _do(dice), _simple(dice))
    return [_do(dice), _child(dice, who, _do(dice), below), _simple(dice)]


def _siblings(dice: Dice, who: str) -> list[Part]:
    group = [_parts([_do(dice), _simple(dice)], dice, who) for _ in range(2 + dice.below(2))]
    return [_do(dice), ["group", group, ("revert_all", "restart_one", "restart_all")[dice.below(3)]], _do(dice)]


def _rewound(dice: Dice, who: str) -> list[Part]:
    """Somebody outside takes it back to the mark, while a child runs, or after it."""
    long = _child(dice, who, *_long(dice))
    return [_do(dice), ["mark"], long if dice.chance(60) else _child(dice, who, _do(dice), long), _do(dice)]


def _rewinds(dice: Dice, who: str) -> list[Part]:
    """It takes itself back, with the children in that part."""
    below = _child(dice, who, _do(dice), _child(dice, who, _do(dice)) if dice.chance(50) else _simple(dice))
    if dice.chance(50):
        return [_do(dice), ["try", [_do(dice), below]]]
    return [["mark"], below, _do(dice), ["back"], _child(dice, who, _do(dice))]


def _thwarted(dice: Dice, who: str) -> list[Part]:
    """A branch fails while a child beside it is at work, in a part that is tried again."""
    return [_do(dice), ["try", [["beside", [[_child(dice, who, *_long(dice))], [_do(dice), ["fail"]]]]]]]


def _documents(dice: Dice, who: str) -> list[Part]:
    """A family writes one document, one after the other."""
    grandchild = _child(dice, who, ["keep", "c"])
    child = _child(dice, who, ["keep", "b"], *([grandchild] if dice.chance(50) else []), _do(dice))
    middle = ["try", [child]] if dice.chance(40) else child
    return [*([["keep", "a"]] if dice.chance(70) else []), ["mark"], middle, ["keep", "d"], _do(dice)]


def _held(dice: Dice, who: str) -> list[Part]:
    below = _child(dice, who, ["hold"], *([_child(dice, who, ["hold"])] if dice.chance(40) else []))
    return [_do(dice), below, _do(dice), *([["hold"]] if dice.chance(50) else [])]


def _asked(dice: Dice, _who: str) -> list[Part]:
    which = dice.below(len(APPROVED))
    ask, pay = ["ask", which, 1], ["pay", which, 1]
    match dice.below(4):
        case 0:
            return [ask, _do(dice), pay]
        case 1:
            return [ask, ["mark"], pay, _do(dice)]
        case 2:
            return [ask, ["mark"], pay, ["back"], _do(dice)]
        case _:
            return [ask, ["try", [_do(dice), pay]]]


def _pivots(dice: Dice, who: str) -> list[Part]:
    """A program in which something that cannot be taken back is on its way when a rollback begins."""
    fails = [["sleep", dice.between(0.01, 0.5)], ["fail"]] if dice.chance(60) else [_do(dice), _do(dice)]
    other = [["pivot"]] if dice.chance(70) else [_child(dice, who, _do(dice), ["pivot"])]
    beside = ["beside", [other, fails]]
    return [_do(dice), ["mark"], ["try", [beside]] if dice.chance(30) else beside]


def _signals(dice: Dice, who: str) -> list[Part]:
    return [_do(dice), _child(dice, who, ["wait", _LONG_S], _do(dice)), ["wait", _LONG_S], _do(dice)]


def _enough(dice: Dice, who: str) -> list[Part]:
    """The work ends beside a child that waits, or goes on without it."""
    wait = _parts([["wait", dice.between(100, _LONG_S)], _do(dice)], dice, who)
    if dice.chance(50):
        return [_do(dice), ["beside", [[["call", wait]], [["sleep", 5], ["enough"]]]]]
    return [["hurry", dice.between(0.1, 30), wait], _do(dice)]


def _looks(dice: Dice, _who: str) -> list[Part]:
    return [["look"], _do(dice), ["look"], _do(dice)]


def _locked(dice: Dice, who: str) -> list[Part]:
    return [["mark"], _child(dice, who, ["lock"], _do(dice)), ["lock"], _child(dice, who, ["lock"]), _do(dice)]


KINDS: Final[dict[str, Callable[[Dice, str], list[Part]]]] = {
    "grandchildren": _grandchildren,
    "siblings": _siblings,
    "rewound": _rewound,
    "rewinds": _rewinds,
    "thwarted": _thwarted,
    "documents": _documents,
    "held": _held,
    "asked": _asked,
    "pivots": _pivots,
    "signals": _signals,
    "enough": _enough,
    "looks": _looks,
    "locked": _locked,
}
