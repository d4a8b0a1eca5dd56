"""An exception of somebody's code, beside its words: where it was raised, and whether it is a mistake there.

A place is told by its module's own path (`shop/tools.py:7, in charge`): the same on every machine and from every
directory, so that a journal has no paths of whole disks in it. It is the innermost line of the author's code; where
the trouble is raised in a library that this calls, the line that calls it.

And the other way round: how a step that ended badly looks to the saga's function, one error for each way to end.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Final, Literal, cast

from amends.core.state.saga import Saga, Step
from amends.core.state.step import located
from amends.core.transitions import StepStatus
from amends.core.words.values import name_of
from amends.errors import (
    AmendsError,
    ApprovalPending,
    DeadlockError,
    StepDeniedError,
    StepError,
    StepFailedError,
    StepFatalError,
    StepLostError,
)
from amends.logs import OWN, RAISED, logger, searched_for
from amends.secrets import Secret, leaves

BUGS: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    NotImplementedError,
    RecursionError,
    SyntaxError,
    TypeError,
)
"""Mistakes in a program: the next attempt would make the same. ValueError is not among them: what a flaky service
answers, cut off in the middle, is one to whoever reads it."""
_LONGEST_PATH: Final = 120
_LONGEST_NAME: Final = 60
_MOST_CAUSES: Final = 16
_MOST_REMEMBERED: Final = 4096

_log = logger(RAISED)


def _folder(path: str) -> str:
    return os.path.join(os.path.realpath(path), "")  # noqa: PTH118 - with its last separator, which a Path has not


@functools.cache
def _libraries() -> tuple[str, ...]:
    import sysconfig  # it reads how Python was built; only who raises needs it

    named = ("stdlib", "platstdlib", "purelib", "platlib")
    return tuple({_folder(path) for name in named if (path := sysconfig.get_path(name))})


_INSTALLED: Final = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))


def is_bug(exc: BaseException) -> bool:
    """Whether it is a mistake in the program; of several at once, whether all of them are."""
    if isinstance(exc, BaseExceptionGroup):
        return all(map(is_bug, cast("BaseExceptionGroup[BaseException]", exc).exceptions))
    return isinstance(exc, BUGS)


# -- where ------------------------------------------------------------------------------------------------------------


def place_of(exc: BaseException) -> str:
    """Where it was raised: `shop/tools.py:7, in charge`. Empty where that is in amends, or nobody knows."""
    own, foreign = "", ""
    for one in _with_causes(next(leaves(exc), exc)):
        own, foreign = _innermost(one, foreign)
        if own:
            break
    return own or foreign


def _with_causes(exc: BaseException) -> Iterator[BaseException]:
    """It and, where its own traceback says nothing, what led to it."""
    at: BaseException | None = exc
    for _ in range(_MOST_CAUSES):
        if at is None:
            return
        yield at
        at = at.__cause__ or (None if at.__suppress_context__ else at.__context__)


def _innermost(exc: BaseException, foreign: str) -> tuple[str, str]:
    """The innermost place in its author's code, and in a library's."""
    own, traced = "", exc.__traceback__
    while traced is not None:
        frame, line = traced.tb_frame, traced.tb_lineno
        match _whose(frame.f_code.co_filename):
            case "author":
                own = _told(frame, line)
            case "library":
                foreign = _told(frame, line)
            case _:
                pass
        traced = traced.tb_next
    return own, foreign


@functools.lru_cache(maxsize=1024)
def _whose(file: str) -> Literal["author", "library", "amends"]:
    path = os.path.realpath(file)
    if path.startswith(OWN):
        return "amends"
    is_installed = path.startswith(_libraries()) or any(part in path for part in _INSTALLED)
    return "library" if is_installed or file.startswith("<frozen") else "author"


def _told(frame: FrameType, line: int | None) -> str:
    return f"{_short(frame)[-_LONGEST_PATH:]}:{line or '?'}, in {frame.f_code.co_name[:_LONGEST_NAME]}"


def _short(frame: FrameType) -> str:
    """The file as its module's name has it; only the file's name where that does not fit."""
    path = Path(frame.f_code.co_filename)
    module = str(frame.f_globals.get("__name__", "")).split(".")
    parts = (*module, path.name) if path.name == "__init__.py" else (*module[:-1], path.name)
    fits = path.parts[-len(parts) :] == parts and (path.stem in {module[-1], "__init__"})
    return "/".join(parts) if fits else path.name


# -- in the log -------------------------------------------------------------------------------------------------------


class Tracebacks:
    """Logs exceptions with their tracebacks: at WARNING the first time that a step meets one at a place, so that fifty
    tries do not write the same fifty times; else at DEBUG, and so too what was raised on purpose.
    """

    def __init__(self) -> None:
        self._told: dict[tuple[str, str, str], None] = {}

    def tell(self, exc: BaseException, who: str, error: str, where: str, known: Iterable[Secret]) -> None:
        """`who` raised it, `error` is what is kept of its words. Never raises: it is somebody else's class."""
        try:
            if isinstance(exc, asyncio.CancelledError):
                return
            level = self._level(exc, (who, name_of(type(exc)), where))
            if _log.isEnabledFor(level):
                said, extra = located(error, where), searched_for(tuple(known))
                _log.log(level, "%s raised %s", who, said, exc_info=exc, extra=extra)
        except BaseException:  # noqa: BLE001 - what it defends itself with must not become the end of an attempt
            _log.warning("%s raised what cannot be logged", who)

    def _level(self, exc: BaseException, named: tuple[str, str, str]) -> int:
        if isinstance(exc, AmendsError) or named in self._told:
            return logging.DEBUG
        self._told[named] = None
        if len(self._told) > _MOST_REMEMBERED:
            del self._told[next(iter(self._told))]
        return logging.WARNING


def pending(saga: Saga, step: Step) -> ApprovalPending:
    """The sign to a caller that does not wait for the people who are asked. Secrets are not among the arguments."""
    asked = step.approval
    if asked is None:
        raise AssertionError(f"nobody is asked about step {step.id}")
    return ApprovalPending(
        approval=f"{saga.id}/{step.id}",
        topic=step.topic,
        arguments=step.args,
        rule=asked.rule,
        why=f"rule {asked.rule} asks for a person",
        digest=asked.digest,
        expires_at=asked.expires_at,
    )


def step_error(step: Step) -> StepError:
    """How a step that ended badly looks to the function: the same now and when it is called again."""
    status, error, fatal, where = step.told or (step.status, step.error, step.fatal, step.where)
    if status is StepStatus.DENIED:
        return StepDeniedError(error, step=step.id, topic=step.topic, rule=step.denied_by)
    if fatal:
        happened = False if status is StepStatus.FAILED else None
        return StepFatalError(error, step=step.id, topic=step.topic, happened=happened, where=where)
    if step.deadlocked:
        return DeadlockError(error, step=step.id, topic=step.topic)
    if status is StepStatus.FAILED:
        return StepFailedError(error, step=step.id, topic=step.topic, where=where)
    return StepLostError(error, step=step.id, topic=step.topic, where=where)
