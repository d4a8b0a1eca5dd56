"""Questions to people: the list, one question with everything that they should know, and their answers."""

from __future__ import annotations

import shlex
from urllib.parse import quote

from starlette.responses import Response
from starlette.routing import BaseRoute

from amends.core.decide.approvals import asks_proof
from amends.core.words.values import Json
from amends.errors import AmendsError, InputError, ProofError
from amends.http.callers import Scope
from amends.http.console.signing import proved
from amends.http.console.visit import Visit, decided, shown
from amends.http.problems import status_of
from amends.journal.port.journal import PersonQuery
from amends.runtime.coordinator.people import Approval, lacking
from amends.runtime.drive.roster import Proof

MOST_AT_ONCE = 50
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
    if not 0 < len(names) <= MOST_AT_ONCE:
        raise InputError(f"choose 1 to {MOST_AT_ONCE} approvals in the list, then review them")
    found = [await visit.coordinator.approval(name) for name in dict.fromkeys(names)]
    return await visit.show("review.html", several=[await _fields(visit, one) for one in found])


async def _decide_several(visit: Visit) -> Response:
    """Each is decided on its own: what cannot be is told, and keeps no other from being decided."""
    form, wrong, unsigned, done = visit.form, list[str](), list[str](), 0
    names = form.all("id")
    if not 0 < len(names) <= MOST_AT_ONCE:
        raise InputError(f"choose 1 to {MOST_AT_ONCE} approvals in the list, then review them")
    if form["decision"] == "refuse" and not form["why"].strip():
        raise InputError("say why not: whoever asked is told, and it goes on record")
    for name in dict.fromkeys(names):
        try:
            await _answer(visit, name, form["decision"], form[f"digest {name}"], None)
            done += 1
        except ProofError:
            unsigned.append(name)
        except AmendsError as exc:
            wrong.append(f"{name}: {exc}")
    word = "granted" if form["decision"] == "grant" else "refused"
    if done:
        visit.tell(f"{done} {word}.")
    if unsigned:
        each_own = f"Not {word} yet, because it takes your signature on the page of each: {', '.join(unsigned)}"
        visit.tell(each_own, "doubt")
    for each in wrong:
        visit.tell(f"Not {word}: {each}", "bad")
    return visit.go("/approvals")


def routes() -> list[BaseRoute]:
    return [
        shown("/approvals", _list),
        shown("/approvals/review", _review),
        decided("/approvals/review", _decide_several),
        shown("/approvals/{id:path}", _one),
        decided("/approvals/{id:path}", _decide, Scope.DECIDE),
    ]
