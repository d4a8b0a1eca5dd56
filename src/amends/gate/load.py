"""From a file to a policy: strict YAML, then the rules of the format.

And the gate that stands where no policy is given. Its rules are in builtin.yaml.
"""

from __future__ import annotations

import functools
from importlib import resources
from os import PathLike

from amends.errors import PolicyError
from amends.gate.policy import Policy, PolicyGate
from amends.gate.schema import read_policy
from amends.source.marked import Mistakes
from amends.source.strict_yaml import decoded, read_document, read_file


def load_policy(path: str | PathLike[str]) -> Policy:
    """Read a policy from a file. Raises PolicyError, which says what is wrong in which lines."""
    return parse_policy(read_policy_file(path), name=str(path))


def read_policy_file(path: str | PathLike[str]) -> bytes:
    """A file's bytes, up to one more than a policy may have. Raises PolicyError."""
    return read_file(path, Mistakes(str(path), PolicyError))


def parse_policy(text: str | bytes, *, name: str = "policy", adopted: bool = False) -> Policy:
    """Read a policy from a text; `name` stands for the file in errors.

    adopted: it was adopted before, and goes on judging, whatever names it gives to people.
    """
    return _parse(text, name, builtin_policy(), adopted=adopted)


@functools.cache
def builtin_policy() -> Policy:
    """The policy that stands where none is given, and judges what another one without a default leaves open."""
    file = resources.files("amends.gate").joinpath("builtin.yaml")
    return _parse(file.read_bytes(), file.name, None)


def _parse(text: str | bytes, name: str, builtin: Policy | None, *, adopted: bool = False) -> Policy:
    mistakes = Mistakes(name, PolicyError)
    source = decoded(text, mistakes)
    return read_policy(read_document(source, mistakes), mistakes, text=source, builtin=builtin, adopted=adopted)


class BuiltinGate(PolicyGate):
    def __init__(self) -> None:
        from amends.gate.load import builtin_policy  # the YAML scanner is loaded when a gate is, not by `import amends`

        super().__init__(builtin_policy())
