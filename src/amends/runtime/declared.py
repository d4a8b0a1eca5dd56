"""Where a definition was declared: the module whose import makes it known again, in another process."""

from __future__ import annotations

import inspect
import sys
from typing import Final

_OURS: Final = "amends"
_MAIN: Final = "__main__"
_BODY: Final = "<module>"


def declaring_module() -> str:
    """The module whose body is being executed just now, innermost, as it can be imported; '' where there is none.

    A script has no name that another process could import, nor has a cell of a notebook. What a function makes once
    the imports are over is nobody's: importing that module again does not make it.
    """
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_name != _BODY:
        frame = frame.f_back
    return "" if frame is None else _importable(str(frame.f_globals.get("__name__", "")))


def _importable(name: str) -> str:
    module = sys.modules.get(name)
    if module is None:  # a text that is executed under a name of its own
        return ""
    if name == _MAIN:  # `python -m shop.sagas` can be imported by its own name; `python -m shop` runs when it is
        name = getattr(getattr(module, "__spec__", None), "name", "")
    parts = name.split(".")
    return name if parts[0] != _OURS and parts[-1] != _MAIN and all(map(str.isidentifier, parts)) else ""
