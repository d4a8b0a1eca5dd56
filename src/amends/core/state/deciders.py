"""Deciders: how actors are named, when two names are one, and who may decide about a saga. Pure.

A person's decision takes a person, and another one than who wanted what is decided about. That is one rule, for every
decision: to grant or refuse, to retry or resolve an incident, to let run what the gate refused, to raise a limit, to
unpause, to adopt a policy, to forget evidence, to lift a hold, to land or resolve by hand.

| who decides                          | in development       | elsewhere                       |
|--------------------------------------|----------------------|---------------------------------|
| an agent, or the system              | refused              | refused                         |
| a person who asked for the saga      | *own decision*       | refused: another person decides |
| any other person                     | decides              | decides                         |

Names are checked where they come in, and compared in their normal form wherever they meet: a journal may hold names
from before a rule, which are read as they are.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

from amends.core.words.values import PERSON
from amends.errors import InputError, RefusedError

if TYPE_CHECKING:
    from amends.core.events import SagaStarted

OWNER: Final = "owner"
"""The label that names whose saga it is."""
DELEGATES: Final = "delegates"
"""The label that names, with commas between them, who else it is done for, or by."""
DEVELOPMENT: Final = "development"
KINDS: Final = ("agent", "person", "system")
LONGEST_NAME: Final = 128

_FILLERS: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters and marks that nobody sees, though they count as such."""
_SELECTORS: Final = re.compile("[\u180b-\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_UNSEEN: Final = frozenset("CZ")
"""What white space, control and format characters, and code points without a character, are filed under."""
_LETTERS: Final = frozenset("LMN")
_TOGETHER: Final = frozenset({"BOPOMOFO", "CJK", "HANGUL", "HIRAGANA", "IDEOGRAPHIC", "KATAKANA", "LATIN"})
"""Scripts that are written side by side in one name, and share no look-alikes."""
_SHARED: Final = frozenset({"COMBINING", "MODIFIER", "DIGIT"})
_WORD: Final = re.compile("[ -]")
_BETWEEN: Final = re.compile("[,;]")


# -- names ------------------------------------------------------------------------------------------------------------


def normal(name: str) -> str:
    """The form that all spellings of a name share: capitals, the way an accent is spelled, and what cannot be seen make
    no other.
    """
    if name.isascii():
        return "".join(name.split()).casefold() if not name.isprintable() or " " in name else name.casefold()
    seen = "".join(each for each in unicodedata.normalize("NFKC", name) if not _is_unseen(each))
    return unicodedata.normalize("NFKC", seen.casefold())


def checked_name(name: str) -> str:
    """The name of whoever does something: `agent:`, `person:` or `system:`, and a name; in the form in which it is
    kept.

    Raises InputError.
    """
    kept = unicodedata.normalize("NFKC", name)
    kind, colon, rest = kept.partition(":")
    if kind not in KINDS or not colon or not rest.strip() or len(kept) > LONGEST_NAME:
        raise InputError(
            f"{name!r} is not an actor: write agent:<name>, person:<name> or system:<name>, "
            f"at most {LONGEST_NAME} characters"
        )
    mistake = mistake_in(kept)
    if not mistake and _BETWEEN.search(kept):
        mistake = "a comma or a semicolon stands between names, and in none"
    if mistake:
        raise InputError(f"{name!r} is not an actor: {mistake}")
    return kept


def mistake_in(name: str) -> str:
    """Why a name could be taken for another one, or cannot be read; nothing, where all is well."""
    if name.isascii() and name.isprintable() and " " not in name:
        return ""
    unseen = next((each for each in name if _is_unseen(each)), None)
    if unseen is not None:
        what = "white space" if unseen.isspace() else f"{unseen!a}, which cannot be seen,"
        return f"it has {what} in it; leave that out"
    odd = next((each for each in name if not each.isascii() and unicodedata.category(each)[0] not in _LETTERS), None)
    if odd is not None:
        return f"it has {odd!a} in it; use letters, digits, and the signs of ASCII"
    rest = name.partition(":")[2] if name.split(":", 1)[0] in KINDS else name
    scripts = sorted({script for each in rest if (script := _script(each))})
    if len(scripts) > 1 and not _TOGETHER.issuperset(scripts):
        return f"its letters are {' and '.join(scripts)}, which look alike; write it in one of them"
    return ""


def _is_unseen(character: str) -> bool:
    if unicodedata.category(character)[0] in _UNSEEN or character in _FILLERS:
        return True
    return _SELECTORS.match(character) is not None


def _script(letter: str) -> str:
    """The script that a letter belongs to; '' for what all of them share."""
    if unicodedata.category(letter)[0] not in _LETTERS:
        return ""
    script = _WORD.split(unicodedata.name(letter, ""), maxsplit=1)[0]
    return "" if script in _SHARED else script


# -- who asked --------------------------------------------------------------------------------------------------------


class Begun(Protocol):
    """How a saga began, as its first entry says it, or its row in a list."""

    @property
    def actor(self) -> str: ...

    @property
    def env(self) -> str: ...

    @property
    def labels(self) -> Mapping[str, str]: ...


def requesters(begun: Begun | None) -> tuple[str, ...]:
    """Requesters of a saga: its actor, its owner and its delegates, among whom are those of a child's parents."""
    if begun is None:
        return ()
    labels = begun.labels
    named = (begun.actor, labels.get(OWNER, ""), *labels.get(DELEGATES, "").split(","))
    return tuple({normal(name): name.strip() for name in named if name.strip()}.values())


def owner_of(begun: Begun | None) -> str:
    """The person who owns a saga, and sees to what is left of it; nobody, where its label names none."""
    owner = "" if begun is None else begun.labels.get(OWNER, "").strip()
    return owner if owner.startswith(PERSON) else ""


def asked_for(begun: Begun | None, by: str) -> bool:
    """Whether somebody is among those who want what a saga does."""
    return normal(by) in map(normal, requesters(begun))


# -- who may decide ---------------------------------------------------------------------------------------------------


def require_person(by: str, to: str, *, but: tuple[str, ...] = ()) -> None:
    """Raises RefusedError unless a person decides. `to` says what, as a verb: "adopt a policy"."""
    if not by.startswith(PERSON):
        anybody = f"any person but {', '.join(but)}" if but else "any person"
        raise RefusedError(f"{by!r} is not a person, and only people {to}: {anybody} may, as person:<name>")


def own_decision(
    begun: Begun | None, by: str, to: str, *, env: str | None = None, may: str = "any other person"
) -> bool:
    """Whether who decides about a saga decides about their own wish. `to` says what, as a verb: "grant step 2 of b-1".

    `env` is the environment that its word was taken for; None: the word itself. `may` names who may decide. Raises
    RefusedError unless it is a person and, outside development, another one than who asked for the saga.
    """
    wanted = requesters(begun)
    develops = (env or (begun.env if begun is not None else "")) == DEVELOPMENT
    require_person(by, to, but=() if develops else wanted)
    if normal(by) not in map(normal, wanted):
        return False
    if develops:
        return True
    raise RefusedError(
        f"{by} may not {to}: they asked for it, own it, or act for who did, and outside {DEVELOPMENT} "
        f"another person decides; {may} may"
    )


def require_decider(begun: SagaStarted | None, by: str, to: str, *, may: str = "any other person") -> bool:
    """Whether it is their own decision; `to` says what is decided, as a verb. Raises RefusedError.

    `may` names who else may decide; the environment is the one that the saga began in.
    """
    env = "" if begun is None else begun.taken_for or begun.env
    return own_decision(begun, by, to, env=env, may=may)
