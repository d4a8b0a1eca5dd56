"""Ways out of an incident, by its kind: what a person can do about it, each with the words on its button."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from amends.core.events import IncidentKind
from amends.runtime.files.topics import RECOVERY

_K = IncidentKind


class Way(NamedTuple):
    """`do` is what the form asks for: retry, let_run, mitigate, repeat, resolve, cancel or raise."""

    do: str
    guidance: str
    button: str


_AGAIN: Final = Way("retry", "Mend the cause first. Then the same thing is tried again.", "Try again")
_JUDGE_AGAIN: Final = Way("retry", "Once the policy has changed, the gate judges it again.", "Have it judged again")
_LOOK_AGAIN: Final = Way(
    "retry", "The compensation looks anew, and touches only what is still as it left it.", "Try again"
)
_ASK_AGAIN: Final = Way("retry", "The world is asked again whether it happened.", "Ask again")
_FORWARD: Final = Way("retry", "Mend the cause first. Then the work goes on forward.", "Go on forward")
_OLD_CODE: Final = Way("retry", "Have a worker run the code that the saga began with. Then it goes on.", "Go on")
_VERIFY: Final = Way("retry", "Mend the cause first. Then the assertion is asked again.", "Have it asked again")
_LET_RUN: Final = Way("let_run", "The compensation runs against the gate, in your name.", "Let it run, in my name")
_LET_MITIGATE: Final = Way("let_run", "The mitigation runs against the gate, in your name.", "Let it run, in my name")
_MITIGATE: Final = Way(
    "mitigate", "All of the saga is taken back; what cannot be is mitigated.", "Take it back, with mitigation"
)
_REPEAT: Final = Way(
    "repeat", "Look first whether it was done: done once more, it may happen twice.", "Do it once more, all the same"
)
_BY_HAND: Final = Way(
    "resolve", "Take it back by hand. Then say so, and where that can be seen.", "I took it back by hand"
)
_SEEN_TO: Final = Way(
    "resolve", "Put it right by hand. Then say so, and where that can be seen.", "I saw to it by hand"
)
_STANDS: Final = Way(
    "resolve", "It ends as completed, and everything stands that was done.", "Let it stand, on my word"
)
_CANCEL: Final = Way("cancel", "All that it did is taken back, newest first.", "Take the saga back")
_KEY_USED: Final = Way(
    "resolve",
    "Ask whose key it is whether they used it. Where they did not, revoke it on the page People, and what it enrolled "
    "there. Then say what you found.",
    "I looked into it",
)
_RAISE: Final = Way("raise", "It may use up as much again, and goes on.", "Allow as much again")

WAYS: Final[Mapping[IncidentKind, tuple[Way, ...]]] = {
    _K.COMPENSATION_MISSING: (_AGAIN, _BY_HAND),
    _K.COMPENSATION_DENIED: (_LET_RUN, _JUDGE_AGAIN, _BY_HAND),
    _K.COMPENSATION_FAILED: (_AGAIN, _BY_HAND),
    _K.COMPENSATION_TIMED_OUT: (_AGAIN, _BY_HAND),
    _K.MITIGATION_MISSING: (_AGAIN, _SEEN_TO),
    _K.MITIGATION_DENIED: (_LET_MITIGATE, _JUDGE_AGAIN, _SEEN_TO),
    _K.MITIGATION_FAILED: (_AGAIN, _SEEN_TO),
    _K.MITIGATION_TIMED_OUT: (_AGAIN, _SEEN_TO),
    _K.OUTCOME_UNKNOWN: (_ASK_AGAIN, _SEEN_TO),
    _K.EFFECT_DOUBLED: (_SEEN_TO,),
    _K.CHANGED_SINCE: (_LOOK_AGAIN, _SEEN_TO),
    _K.PAST_PIVOT: (_FORWARD, _STANDS),
    _K.DIVERGED: (_OLD_CODE, _CANCEL, _STANDS),
    _K.LIMIT_REACHED: (_RAISE, _CANCEL),
    _K.CALLED: (_FORWARD, _CANCEL, _STANDS),
    _K.RELEASE_FAILED: (_AGAIN, _SEEN_TO),
    _K.VERIFICATION_FAILED: (_VERIFY, _CANCEL, _STANDS),
    _K.IDLE: (_CANCEL,),
}


def ways_of(kind: IncidentKind, definition: str, *, may_double: bool, may_mitigate: bool) -> tuple[Way, ...]:
    """The ways out, likeliest first. may_double: trying again might do a step twice; may_mitigate: all that stands."""
    if definition == RECOVERY:
        return (_KEY_USED,)
    found = [_REPEAT if way.do == "retry" and may_double else way for way in WAYS[kind]]
    if may_mitigate:
        found.append(_MITIGATE)
    return tuple(found)
