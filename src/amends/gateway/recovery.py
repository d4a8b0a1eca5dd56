"""Taking back from outside: any process that finds the contracts file of a saga knows the actions that it needs.

The file is named by a label of the saga. It is read again, and believed as any file of the user's is; where it says
something else by now, what it said then is not known, and the saga is left to whoever has the file as it was.
"""

from __future__ import annotations

from amends.core.transitions import SagaStatus
from amends.core.words.contracts import Topic
from amends.core.words.values import SagaId
from amends.errors import ContractsError, UnknownActionError
from amends.gateway.model import Contracts
from amends.gateway.read import load_contracts
from amends.gateway.registry import ToolRegistry
from amends.gateway.sagas import DEFINITION, LABEL
from amends.gateway.servers import ToolServers
from amends.journal.port.journal import Journal, SagaQuery
from amends.logs import logger
from amends.runtime.declare.registry import PROCESS, Registry
from amends.runtime.drive.logbook import load

_OPEN = (SagaStatus.RUNNING, SagaStatus.WAITING, SagaStatus.ROLLING_BACK, SagaStatus.INCIDENT, SagaStatus.PAUSED)
_PAGE = 200
_log = logger("amends.gateway")


async def remember_tools(journal: Journal, *, saga: str | None = None, registry: Registry = PROCESS) -> None:
    """Make known the actions of the steps of one saga, or of all unfinished ones, that came through a gateway."""
    known: dict[str, ToolRegistry | None] = {}
    if saga is not None:
        await _remember(journal, SagaId(saga), registry, known)
        return
    cursor: str | None = None
    while True:
        page = await journal.sagas(SagaQuery(statuses=_OPEN, definition=DEFINITION, before=cursor, limit=_PAGE))
        for row in page.rows:
            await _remember(journal, row.id, registry, known)
        cursor = page.cursor
        if cursor is None:
            return


async def _remember(journal: Journal, saga: SagaId, registry: Registry, known: dict[str, ToolRegistry | None]) -> None:
    row = await journal.saga(saga)
    if row is None or row.definition != DEFINITION:
        return
    state = await load(journal, saga)
    file = "" if state.begun is None else state.begun.labels.get(LABEL, "")
    if not file:
        return
    if file not in known:
        known[file] = _tools_of(file)
    tools = known[file]
    for step in state.steps.values() if tools is not None else ():
        try:
            registry.action(step.contract.topic, step.contract.version)
        except UnknownActionError:
            _ensure(tools, registry, step.contract.topic, step.contract.version)


def _ensure(tools: ToolRegistry | None, registry: Registry, topic: str, version: int) -> None:
    try:
        if tools is not None:
            registry.ensure_action(tools.action(Topic(topic), version))
    except UnknownActionError as exc:
        _log.info("not known from the contracts file: %s", exc)


def _tools_of(file: str) -> ToolRegistry | None:
    try:
        contracts: Contracts = load_contracts(file)
    except ContractsError as exc:
        _log.warning("the contracts file of a saga cannot be read: %s", exc)
        return None
    made = ToolRegistry(contracts)
    made.servers = ToolServers(contracts)
    return made
