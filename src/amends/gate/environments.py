"""Environments: which words mean production, and which mean something else. Pure.

A saga is begun under a word that somebody gave: `prod`, `eu-live`, `ci`. Rules speak of environments. A declaration
says which words stand for which environment; a policy may have one, `amends.toml` too, and one is built in. The first
that knows the word counts, in this order; in each of them a word itself comes before a pattern. A word that nobody
declared is taken for production: whoever mistypes it gets the strict rules, not none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from amends.core.words.globs import glob, is_glob
from amends.dataclass import dataclass
from amends.errors import InputError

if TYPE_CHECKING:
    from amends.gate.facts import Facts
    from amends.gate.policy import Policy

Declared: TypeAlias = Mapping[str, tuple[str, ...]]
"""By environment, the other words for it; these may be globs."""

PRODUCTION: Final = "production"
DEVELOPMENT: Final = "development"
BUILTIN: Final[Declared] = {
    PRODUCTION: ("prod", "live", "prod-*", "production-*"),
    "staging": ("stage", "staging-*"),
    DEVELOPMENT: ("dev", "local", "ci", "test", "testing", "dev-*"),
    "drill": (),
}
LONGEST: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """The environment that a word was taken for; `named` is false where nobody declared it."""

    word: str
    env: str
    named: bool = True

    @property
    def folded_word(self) -> str:
        return _folded(self.word)

    @property
    def for_record(self) -> str:
        """The environment, where it is not the word itself."""
        return "" if self.env == self.word else self.env

    @property
    def message(self) -> str:
        """A hint for whoever gave the word; empty for one that means what it says."""
        if not self.named:
            return (
                f"nobody declared the environment {self.word!r}: it is taken for {PRODUCTION}; "
                f'declare it in the policy (environments: {{staging: ["{self.folded_word}"]}}) or in amends.toml'
            )
        if self.folded_word != self.word:
            return f"the environment {self.word!r} is taken for {self.env}; write {self.folded_word!r}"
        return ""


def checked_env(word: object) -> str:
    """A word for an environment, as it was given. Raises InputError."""
    if not isinstance(word, str) or not word.strip() or len(word) > LONGEST or not word.isprintable():
        raise InputError(
            f"{word!r} is not an environment: name one, such as {PRODUCTION} or staging, of at most {LONGEST} "
            f"characters, or leave env out, which means {DEVELOPMENT}"
        )
    return word


def taken_for(word: str, *declared: Declared) -> Taken:
    """The environment that a word stands for, by these declarations and then by the built-in one."""
    folded = _folded(word)
    for each in (*declared, BUILTIN):
        found = _found(folded, each)
        if found:
            return Taken(word=word, env=found)
    return Taken(word=word, env=PRODUCTION, named=False)


def placed(facts: Facts, word: str, policy: Policy, *declared: Declared) -> Facts:
    """Facts as they are where a saga begins under this word today."""
    env = taken_for(word, policy.environments, *declared).env
    return replace(facts, env=env, env_given="" if env == word else word)


def mistake_in(declared: Mapping[str, Iterable[str]]) -> str:
    """The mistake in a declaration; empty where all is well."""
    owners = {env: env for env in (PRODUCTION, DEVELOPMENT, *declared)}
    for env, words in declared.items():
        for word in (env, *words):
            if not word or word != _folded(word) or not word.isprintable() or len(word) > LONGEST:
                return f"environment {word!r} has to be in small letters, without spaces around it"
        if is_glob(env):
            return f"environment {env!r} is a pattern; name it by a word, and list the pattern under it"
        for word in words:
            if not word.strip("*?"):
                return f"{word!r} under {env} would be every word; list the words that are {env}"
            if owners.setdefault(word, env) != env:
                return f"{word!r} is listed under {env}, and is {owners[word]} already; leave it in one place"
    return ""


def checked_environments(declared: object) -> Declared:
    """A declaration that somebody hands over. Raises InputError."""
    wanted = 'environments maps each environment to its other words: {"production": ["prod", "eu-*"]}'
    if not isinstance(declared, Mapping):
        raise InputError(f"{wanted}; not {declared!r}")
    made: dict[str, tuple[str, ...]] = {}
    for env, words in cast("Mapping[object, object]", declared).items():
        if not isinstance(env, str) or isinstance(words, str) or not isinstance(words, Iterable):
            raise InputError(f"{wanted}; not {env!r}: {words!r}")
        listed = tuple(cast("Iterable[object]", words))
        if not all(isinstance(word, str) for word in listed):
            raise InputError(f"{wanted}; not {env!r}: {words!r}")
        made[env] = cast("tuple[str, ...]", listed)
    mistake = mistake_in(made)
    if mistake:
        raise InputError(mistake)
    return made


def _folded(word: str) -> str:
    return word.strip().lower()


def _found(word: str, declared: Declared) -> str:
    if word in declared:
        return word
    exact = (env for env, words in declared.items() if word in words)
    like = (env for env, words in declared.items() if any(glob(each)(word) for each in words if is_glob(each)))
    return next(exact, "") or next(like, "")
