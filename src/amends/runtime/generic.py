"""The type variables of what users hold. Left out, each stands for anything: `Done`, `Ended` and `SagaDefinition` alone
are types, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # defaults of type variables came with Python 3.13; type checkers have them for all
    from typing_extensions import ParamSpec, TypeVar

    P = ParamSpec("P", default=...)
    R_co = TypeVar("R_co", covariant=True, default=Any)
    Args_co = TypeVar("Args_co", covariant=True, default=dict[str, Any])
else:
    from typing import ParamSpec, TypeVar

    P = ParamSpec("P")
    R_co = TypeVar("R_co", covariant=True)
    Args_co = TypeVar("Args_co", covariant=True)
