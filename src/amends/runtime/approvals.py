"""What a person is shown before they answer: what will happen, why they are asked, and what would take it back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from amends.core.events import ApprovalGranted, ApprovalRefused, ApprovalRequested, ApprovalSigned
from amends.core.saga import Saga
from amends.core.step import Approval
from amends.core.values import Json, SagaId, StepId
from amends.core.verdict import Need
from amends.dataclass import dataclass
from amends.errors import UnknownApprovalError
from amends.journal.protocol import Entry

if TYPE_CHECKING:
    from amends.evidence.timeline import Line


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """One approval, as it is shown. `shown` is what `digest` binds; all else of it is taken from there or the journal.

    `args` come from the agent, `does` and `undoes` from the authors of the action; none of them is ours.
    """

    id: str
    saga: SagaId
    step: StepId
    status: str
    digest: str
    topic: str
    args: Json
    does: str
    undoes: str
    no_rollback: str | None
    requester: str
    definition: str
    env: str
    rule: str
    why: str
    policy: str
    needs: tuple[Need, ...]
    signers: tuple[str, ...]
    requested_at: int
    expires_at: int
    shown: Json
    so_far: tuple[Line, ...]
    own: tuple[str, ...] = ()
    """Who of them had asked for it themselves, and could agree in development alone."""

    @property
    def mitigates(self) -> bool:
        """Whether something is declared that a person may have done about it, though it cannot be taken back."""
        return _object(_object(self.shown).get("contract")).get("mitigation") is True

    @property
    def compensation(self) -> str:
        """What would take it back, or why nothing would."""
        if self.no_rollback is not None:
            return f"none: {self.no_rollback}" + (f"; mitigation: {self.undoes}" if self.mitigates else "")
        return self.undoes or "none is declared"


def asking(saga: Saga, step: StepId, entries: Iterable[Entry]) -> Asking:
    """Raises UnknownApprovalError where people were never asked about this step."""
    from amends.evidence.timeline import timeline

    known = saga.steps.get(step)
    approval = None if known is None else known.approval
    if approval is None:
        raise no_approval(f"{saga.id}/{step}")
    kept = tuple(entries)
    asked = [one for one in kept if isinstance(one.event, ApprovalRequested) and one.event.step == step][-1]
    event = cast("ApprovalRequested", asked.event)
    shown = _object(approval.shown)
    contract = _object(shown.get("contract"))
    no_rollback = contract.get("no_rollback")
    return Asking(
        id=f"{saga.id}/{step}",
        saga=saga.id,
        step=step,
        status=approval.status,
        digest=approval.digest,
        topic=_text(shown, "topic"),
        args=shown.get("args"),
        does=_text(contract, "does"),
        undoes=_text(contract, "undoes"),
        no_rollback=None if no_rollback is None else str(no_rollback),
        requester=_text(shown, "requester"),
        definition=_text(shown, "definition"),
        env=_text(shown, "env"),
        rule=approval.rule,
        why=event.why,
        policy=approval.policy,
        needs=approval.needs,
        signers=approval.signers,
        requested_at=asked.at,
        expires_at=approval.expires_at,
        shown=approval.shown,
        so_far=timeline(kept),
        own=_own(kept[kept.index(asked) :], step),
    )


def _own(entries: Iterable[Entry], step: StepId) -> tuple[str, ...]:
    events = (one.event for one in entries)
    answered = (each for each in events if isinstance(each, ApprovalSigned | ApprovalGranted | ApprovalRefused))
    return tuple(each.by for each in answered if each.step == step and each.own)


def lacking(approval: Approval | Asking) -> str:
    """Who has still to agree, in words."""
    from amends.core.approvals import signed

    left = [(need, need.approvals - signed(need, approval.signers)) for need in approval.needs]
    return ", ".join(_people(count, need.approvers) for need, count in left if count > 0)


def _people(count: int, approvers: tuple[str, ...]) -> str:
    if approvers:
        return f"{count} of {' or '.join(approvers)}"
    return "1 person" if count == 1 else f"{count} people"


def approval_id(name: str) -> tuple[SagaId, StepId]:
    """`<saga>/<step>`; a step's own name may hold slashes, a saga's never does."""
    saga, slash, step = name.partition("/")
    if not slash or not step:
        raise UnknownApprovalError(
            f"{name!r} is not an approval's id; they look like 01k…/2: see `amends approval list`"
        )
    return SagaId(saga), StepId(step)


def no_approval(name: str) -> UnknownApprovalError:
    return UnknownApprovalError(f"nobody was asked about {name}; `amends approval list --all` shows what was asked")


def _object(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _text(fields: dict[str, Json], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""
