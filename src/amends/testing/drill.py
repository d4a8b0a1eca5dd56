"""Deprecated: `amends.drill`, under the name that it had until 0.1."""

import warnings
from typing import TYPE_CHECKING

import amends.drill

if TYPE_CHECKING:
    from amends.drill import *  # noqa: F403 - for whoever reads types: at run time, see below


def __getattr__(name: str) -> object:
    if name not in amends.drill.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    told = f"amends.testing.drill.{name} is amends.drill.{name} now; the old name goes with the next release"
    warnings.warn(told, DeprecationWarning, stacklevel=2)
    return getattr(amends.drill, name)
