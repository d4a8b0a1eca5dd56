"""Questions to people: the list, one question with everything that they should know, and their answers."""

from __future__ import annotations

import shlex
from urllib.parse import quote

from starlette.responses import Response
from starlette.routing import BaseRoute

from amends.core.decide.approvals import asks_proof
from amends.core.words.values import Json
from amends.errors import AmendsError, InputError, ProofError
from amends.evidence.proof.statement import MOST_TOGETHER
from amends.http.callers import Scope
from amends.http.console.compared import compared
from amends.http.console.signing import STATEMENT, proved
from amends.http.console.visit import Form, Visit, decided, shown
from amends.http.problems import status_of
from amends.journal.port.journal import PersonQuery
from amends.runtime.coordinator.people import Approval, lacking
from amends.runtime.drive.roster import Proof

_PAGE = 50
_LATEST = 20


def path_of(approval: str) -> str:
    return f"/approvals/{quote(approval, safe='/')}"


async def _list(visit: Visit) -> Response:
    is_all = visit.asked["show"] == "all"
    query = PersonQuery(open_only=not is_all, after=visit.asked["after"] or None, limit=_PAGE)
    found = await visit.journal.approvals(query)
    return await visit.show("approvals.html", rows=found.rows, cursor=found.cursor, is_all=is_all)


async def _one(visit: Visit) -> Response:
    return await _show(visit, visit.named("id"))


async def _show(visit: Visit, name: str, status: int = 200, trouble: str = "", why: str = "") -> Response:
    asked = await visit.coordinator.approval(name)
    return await visit.show(
        "approval.html",
        status,
        trouble=trouble,
        why=why,
        latest=_LATEST,
        **await _fields(visit, asked),
    )


async def _fields(visit: Visit, asked: Approval) -> dict[str, object]:
    shown_to = _object(asked.shown)
    contract, args = _object(shown_to.get("contract")), asked.args
    diff = args.get("diff") if isinstance(args, dict) else None
    if isinstance(args, dict) and isinstance(diff, str):
        args = {name: value for name, value in args.items() if name != "diff"}
    return {
        "asked": asked,
        "shown": shown_to,
        "contract": contract,
        "args": args,
        "diff": diff if isinstance(diff, str) else None,
        "there": None if asked.before_at is None else compared(args, asked.before),
        "lacking": lacking(asked),
        "takes_proof": asks_proof(asked.needs),
        "line": await _line(visit, asked),
        "command": shlex.join(
            [
                *("amends", "approval", "grant", asked.id, "--digest", asked.digest, "--ssh-key", "FILE"),
                *("--journal", visit.served.journal),
            ]
        ),
    }


async def _line(visit: Visit, asked: Approval) -> int:
    """The line of the rule in the policy in force; 0 where that is another one, or the built-in one."""
    policy = (await visit.policies()).policy
    if policy.digest != asked.policy:
        return 0
    return next((rule.line for rule in policy.rules if rule.id == asked.rule), 0)


def _object(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


# -- deciding ---------------------------------------------------------------------------------------------------------


async def _decide(visit: Visit) -> Response:
    name, form = visit.named("id"), visit.form
    try:
        answered = await proved(visit, lambda proof: _answer(visit, name, form["decision"], form["digest"], proof))
    except AmendsError as exc:
        return await _show(visit, name, status_of(exc), trouble=str(exc), why=form["why"])
    if isinstance(answered, Response):
        return answered
    visit.tell(_told(answered, form["decision"]))
    return visit.go(path_of(name))


async def _answer(visit: Visit, name: str, decision: str, digest: str, proof: Proof | None) -> Approval:
    coordinator, why = visit.coordinator, visit.form["why"].strip()
    match decision:
        case "grant":
            if not digest:
                raise InputError("the form does not say what was shown; load the page again, and decide there")
            return await coordinator.grant(name, by=visit.who, why=why, digest=digest, proof=proof)
        case "refuse":
            if not why:
                raise InputError("say why not: whoever asked is told, and it goes on record")
            return await coordinator.refuse(name, by=visit.who, why=why, proof=proof)
        case _:
            raise InputError("the form says neither grant nor refuse")


def _told(answered: Approval, decision: str) -> str:
    if decision == "refuse":
        return f"You refused {answered.topic}. Nothing of it is done."
    if answered.status == "requested":
        return f"You agreed to {answered.topic}. Still lacking: {lacking(answered)}."
    return f"You granted {answered.topic}. Its saga goes on where a process drives it."


# -- several at once --------------------------------------------------------------------------------------------------


async def _review(visit: Visit) -> Response:
    return await _show_several(visit, visit.asked.all("id"))


async def _show_several(visit: Visit, names: list[str]) -> Response:
    _require_some(names)
    found = [await visit.coordinator.approval(name) for name in dict.fromkeys(names)]
    return await visit.show("review.html", several=[await _fields(visit, one) for one in found])


async def _decide_several(visit: Visit) -> Response:
    """Each is decided on its own, but those that take a signature, which is one for all of them.

    What cannot be decided is told, and keeps no other from being decided that is not signed with it.
    """
    form, wrong, unsigned, done = visit.form, list[str](), list[str](), list[str]()
    names = list(dict.fromkeys(form.all("id")))
    _require_some(names)
    if form["decision"] == "refuse" and not form["why"].strip():
        raise InputError("say why not: whoever asked is told, and it goes on record")
    if STATEMENT in form:
        unsigned = names
    else:
        for name in names:
            try:
                await _answer(visit, name, form["decision"], form[f"digest {name}"], None)
                done.append(name)
            except ProofError:
                unsigned.append(name)
            except AmendsError as exc:
                wrong.append(f"{name}: {exc}")
    word = "granted" if form["decision"] == "grant" else "refused"
    if done:
        visit.tell(f"{len(done)} {word}.")
    answered = await _signed_together(visit, unsigned, wrong) if unsigned else ()
    if isinstance(answered, tuple) and answered:
        visit.tell(f"{len(answered)} {word}, signed.")
    for each in wrong:
        visit.tell(f"Not {word}: {each}", "bad")
    return answered if isinstance(answered, Response) else visit.go("/approvals")


async def _signed_together(visit: Visit, names: list[str], wrong: list[str]) -> tuple[Approval, ...] | Response:
    """Decide what takes a signature, with the one of the form; where it has none, the page that asks for it."""
    form, coordinator = visit.form, visit.coordinator
    visit.form = Form((name, value) for name, value in form.pairs if name != "id" or value in names)
    why = form["why"].strip()

    async def decide(proof: Proof | None) -> tuple[Approval, ...]:
        if form["decision"] == "grant":
            seen = {name: form[f"digest {name}"] for name in names}
            return await coordinator.grant_all(seen, by=visit.who, why=why, proof=proof)
        return await coordinator.refuse_all(names, by=visit.who, why=why, proof=proof)

    try:
        return await proved(visit, decide)
    except AmendsError as exc:
        wrong.append(str(exc))
        return ()


def _require_some(names: list[str]) -> None:
    if not 0 < len(names) <= MOST_TOGETHER:
        raise InputError(f"choose 1 to {MOST_TOGETHER} approvals in the list, then review them")


def routes() -> list[BaseRoute]:
    return [
        shown("/approvals", _list),
        shown("/approvals/review", _review),
        decided("/approvals/review", _decide_several),
        shown("/approvals/{id:path}", _one),
        decided("/approvals/{id:path}", _decide, Scope.DECIDE),
    ]
