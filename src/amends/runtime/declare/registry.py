"""Things that this process knows by name: actions by topic and version, definitions by name and version.

Journals hold names, so a new process can take back what an old one did. Decorators make things known in PROCESS,
and a coordinator looks there unless it is given a registry of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from amends.core.words.contracts import Contract, Topic
from amends.core.words.values import BUILT_IN, OPEN
from amends.errors import UnknownActionError, UnknownDefinitionError
from amends.logs import logger
from amends.runtime.declare.action import Action

if TYPE_CHECKING:
    from amends.runtime.declare.definition import SagaDefinition

_log = logger("amends.registry")

"""How the topics of the runtime's own actions begin."""
Name: TypeAlias = tuple[str, int]
"""Topic, or name, and version."""


class Registry:
    """A later declaration of a name and version takes the earlier one's place: modules get reloaded, cells rerun."""

    left_alone_s = 60.0
    """How long an open saga is left to others whose actions are not known here."""

    def __init__(self) -> None:
        self._actions: dict[Name, Action[..., Any]] = {}
        self._definitions: dict[Name, SagaDefinition] = {}
        self._built_in_actions: Mapping[Name, Callable[[], Action[..., Any]]] = {}
        self._built_in_definitions: Mapping[Name, Callable[[], SagaDefinition]] = {}

    def add_built_in(
        self,
        actions: Mapping[Name, Callable[[], Action[..., Any]]],
        definitions: Mapping[Name, Callable[[], SagaDefinition]],
    ) -> None:
        """Know the runtime's own by name, and load each when it is asked for."""
        self._built_in_actions, self._built_in_definitions = actions, definitions

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
        if found is None and (load := self._built_in_actions.get((topic, version))) is not None:
            return load()
        if found is None:
            raise UnknownActionError(
                f"no action {topic} version {version} is registered in this process; import the module that declares it"
            )
        return found

    def action_of(self, contract: Contract) -> Action[..., Any]:
        """The action that a contract on record is of. Raises UnknownActionError."""
        return self.action(contract.topic, contract.version)

    def definition(self, name: str, version: int) -> SagaDefinition:
        found = self._definitions.get((name, version))
        if found is None and (load := self._built_in_definitions.get((name, version))) is not None:
            return load()
        if found is None:
            known = sorted(v for n, v in self._definitions if n == name)
            hint = f"it knows version {', '.join(map(str, known))}" if known else "import the module that declares it"
            raise UnknownDefinitionError(f"no saga {name} version {version} is registered in this process; {hint}")
        return found

    def child_definition(self, name: str, version: int) -> SagaDefinition:
        """The definition that a child is begun by. Raises UnknownDefinitionError."""
        return self.definition(name, version)

    def actions(self) -> tuple[Action[..., Any], ...]:
        """Actions that users have declared; the runtime's own are left out."""
        return tuple(action for action in self._actions.values() if not action.topic.startswith(BUILT_IN))

    def definitions(self) -> tuple[SagaDefinition, ...]:
        """Definitions that were declared, or used, in this process; the runtime's own are left out."""
        return tuple(self._definitions.values())

    def definition_names(self) -> frozenset[str]:
        """Each as `name/version`: what was declared, or used, in this process."""
        return frozenset(f"{name}/{version}" for name, version in self._definitions)

    def resumable_names(self) -> frozenset[str]:
        """Declared names with the runtime's own and all open sagas: whoever resumes takes those up, and nobody else by
        the way.
        """
        built_in = {f"{name}/{version}" for name, version in self._built_in_definitions}
        return self.definition_names() | built_in | {OPEN}


def _home(action: Action[..., Any]) -> str:
    return str(getattr(action.parts.function, "__module__", None))


PROCESS: Final = Registry()
