"""What this process knows by name: actions by topic and version, definitions by name and version.

Journals hold names, so a new process can take back what an old one did. Decorators make things known in PROCESS,
and a coordinator looks there unless it is given a registry of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from amends.errors import UnknownActionError, UnknownDefinitionError
from amends.runtime.logs import logger

if TYPE_CHECKING:
    from amends.core.contracts import Topic
    from amends.runtime.action import Action
    from amends.runtime.definition import SagaDefinition

_log = logger("amends.registry")

BUILT_IN: Final = "amends."
"""How the topics of the runtime's own actions begin."""


BY_HAND: Final = (("amends.changeset.land", 1), ("amends.changeset.resolve", 1))
"""The runtime's own definitions: every process knows them, and loads them when they are asked for."""


class Registry:
    """A later declaration of a name and version takes the earlier one's place: modules get reloaded, cells rerun."""

    def __init__(self) -> None:
        self._actions: dict[tuple[str, int], Action[..., Any]] = {}
        self._definitions: dict[tuple[str, int], SagaDefinition] = {}

    def add_action(self, action: Action[..., Any]) -> None:
        name = (action.topic, action.contract.version)
        known = self._actions.get(name)
        if known is not None and _home(known) != _home(action):
            _log.warning(
                "%s version %s is declared in %s and again in %s; the later one counts",
                *name,
                _home(known),
                _home(action),
            )
        self._actions[name] = action

    def ensure_action(self, action: Action[..., Any]) -> None:
        """Know an action that a saga has used, unless another is registered under its name."""
        self._actions.setdefault((action.topic, action.contract.version), action)

    def add_definition(self, definition: SagaDefinition) -> None:
        self._definitions[definition.name, definition.version] = definition

    def action(self, topic: Topic, version: int) -> Action[..., Any]:
        found = self._actions.get((topic, version))
        if found is None:
            raise UnknownActionError(
                f"no action {topic} version {version} is registered in this process; import the module that declares it"
            )
        return found

    def definition(self, name: str, version: int) -> SagaDefinition:
        found = self._definitions.get((name, version))
        if found is None and (name, version) in BY_HAND:
            from amends.runtime.files.by_hand import DEFINITIONS

            return DEFINITIONS[name]
        if found is None:
            known = sorted(v for n, v in self._definitions if n == name)
            hint = f"it knows version {', '.join(map(str, known))}" if known else "import the module that declares it"
            raise UnknownDefinitionError(f"no saga {name} version {version} is registered in this process; {hint}")
        return found

    def actions(self) -> tuple[Action[..., Any], ...]:
        """What users have declared; the runtime's own are left out."""
        return tuple(action for action in self._actions.values() if not action.topic.startswith(BUILT_IN))

    def definition_names(self) -> frozenset[str]:
        """Each as `name/version`: what was declared, or used, in this process."""
        return frozenset(f"{name}/{version}" for name, version in self._definitions)

    def resumable_names(self) -> frozenset[str]:
        """The same with the runtime's own, which whoever resumes takes up, and nobody else by the way."""
        return self.definition_names() | {f"{name}/{version}" for name, version in BY_HAND}


def _home(action: Action[..., Any]) -> str:
    return str(getattr(action.function, "__module__", None))


PROCESS: Final = Registry()
