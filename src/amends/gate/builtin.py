"""The gate that stands where no policy is given. Its rules are in builtin.yaml."""

from __future__ import annotations

from amends.gate.policy import PolicyGate


class BuiltinGate(PolicyGate):
    def __init__(self) -> None:
        from amends.gate.load import builtin_policy  # the YAML scanner is loaded when a gate is, not by `import amends`

        super().__init__(builtin_policy())
