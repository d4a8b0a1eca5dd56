"""From the names on a command line to the user's own code: imports modules, finds the sagas in them."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

from amends.cli import config
from amends.errors import InputError, SagaFileError, UnknownDefinitionError

if TYPE_CHECKING:
    from amends.runtime.declare.definition import SagaDefinition

_OURS: Final = str(Path(__file__).parents[1]) + os.sep
"""Where amends itself is: what a person has to mend is in a file of theirs."""


def load_modules(names: Iterable[str]) -> tuple[ModuleType, ...]:
    """Import modules, so that what they declare is known. The working directory is looked in last, and only for them:
    a file there that is called as one of Python's own modules must not be imported in its place. Those that a
    configuration names are looked for beside it.
    """
    wanted = tuple(names)
    for place in dict.fromkeys(map(_home, wanted)):
        if place not in sys.path:
            sys.path.append(place)
    return tuple(map(_load, wanted))


def _home(name: str) -> str:
    """The directory that a module is looked for in after all others."""
    is_configured = name in config.modules()
    return config.directory() if is_configured else os.getcwd()  # noqa: PTH109 - sys.path holds strings


def _says_who(name: str) -> str:
    """Where a module was named that a person did not just write."""
    return f" (one of modules in {config.configured().file})" if name in config.modules() else ""


def is_file(target: str) -> bool:
    """Whether a target names a saga's file rather than a module's saga."""
    return target.endswith((".yaml", ".yml"))


def find_saga(target: str, *, show: Callable[[str, str], None] | None = None) -> SagaDefinition:
    """The saga that `module:name` names, or that a YAML file holds; `show` is given what its commands print."""
    if is_file(target):
        return read_saga_file(target, show=show)
    module_name, colon, name = target.partition(":")
    if not module_name or (colon and not name):
        raise InputError(
            f"{target!r} does not name a saga; write it as module:saga, as in trip:book_trip, or name a YAML file"
        )
    (module,) = load_modules([module_name])
    known = _sagas(module)
    found = known.get(name)
    if found is None:
        raise UnknownDefinitionError(_unknown(module_name, name, known))
    return found


def read_saga_file(path: str, *, show: Callable[[str, str], None] | None = None) -> SagaDefinition:
    """The saga of a file: one mistake stands for all."""
    from amends.sagafile import load_saga  # and YAML: not for sagas of modules

    try:
        return load_saga(path, show=show)
    except SagaFileError as exc:
        if len(exc.mistakes) == 1:
            raise
        raise SagaFileError([f"{exc.mistakes[0]} (and more: amends action check {path})"]) from None


def find_function(target: str, option: str) -> Callable[..., object]:
    """The function that `module:name` names."""
    module_name, _, name = target.partition(":")
    if not module_name or not name:
        raise InputError(f"{option} {target!r} does not name a function; write it as module:function")
    (module,) = load_modules([module_name])
    found: object = getattr(module, name, None)
    if not callable(found):
        raise InputError(f"{option}: module {module_name} has no function {name!r}")
    return found


def _sagas(module: ModuleType) -> dict[str, SagaDefinition]:
    from amends.runtime.declare.definition import SagaDefinition

    return {name: value for name, value in vars(module).items() if isinstance(value, SagaDefinition)}


def _unknown(module: str, name: str, known: dict[str, SagaDefinition]) -> str:
    if not known:
        return f"module {module} has no saga; decorate an async function with @saga(name)"
    by_nearness = difflib.get_close_matches(name, known, n=1) or ([] if name else list(known)[:1])
    wrong = f"has no saga {name!r}" if name else "has to be followed by a saga"
    nearest = f"did you mean {module}:{by_nearness[0]}? " if by_nearness else ""
    return f"module {module} {wrong}; {nearest}it has {', '.join(sorted(known))}"


def _load(name: str) -> ModuleType:
    if ":" in name:
        raise InputError(f"{name!r} is not a module; name it alone, as in {name.partition(':')[0]}")
    if name.endswith(".py") or "/" in name:
        dotted = name.removesuffix(".py").strip("./").replace("/", ".")
        raise InputError(f"{name} is a file; name the module, as in {dotted}")
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as exc:
        if exc.name is not None and (name == exc.name or name.startswith(f"{exc.name}.")):
            raise InputError(
                f"there is no module {name}; looked in {_home(name)} and where Python looks{_says_who(name)}"
            ) from exc
        raise InputError(_broken(name, exc)) from exc
    # A user's module may raise anything while it is imported, and even try to end the process.
    except (Exception, SystemExit) as exc:
        raise InputError(_broken(name, exc)) from exc
    return _the_one_here(name, module)


def _the_one_here(name: str, module: ModuleType) -> ModuleType:
    """Refuse one that is found elsewhere, where the person who named it sees another."""
    top = name.partition(".")[0]
    home = Path(os.path.relpath(_home(name)))
    here = next((path for path in (home / f"{top}.py", home / top / "__init__.py") if path.is_file()), None)
    found = getattr(sys.modules.get(top, module), "__file__", None)
    if here is None or (found is not None and Path(found).resolve() == here.resolve()):
        return module
    raise InputError(
        f"module {top} is {found or 'a part of Python'}, and not {here}, which is looked for last; rename yours, or "
        "put its directory on PYTHONPATH"
    )


def _broken(name: str, exc: BaseException) -> str:
    if isinstance(exc, SyntaxError):
        return f"module {name} cannot be imported: {exc.filename}:{exc.lineno}: {exc.msg}{_says_who(name)}"
    trace = traceback.extract_tb(exc.__traceback__)
    frames = [frame for frame in trace if "importlib" not in frame.filename and not frame.filename.startswith(_OURS)]
    where = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return f"module {name} cannot be imported: {type(exc).__name__}: {exc}{where}{_says_who(name)}"
