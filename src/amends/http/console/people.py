"""People: whose keys prove which names, the tokens that there are, and how both are made and revoked."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response
from starlette.routing import BaseRoute

from amends.core.state.deciders import normal
from amends.errors import AmendsError, InputError
from amends.http.callers import Scope
from amends.http.console.signing import proved
from amends.http.console.visit import Visit, decided, shown
from amends.http.problems import status_of
from amends.operate.tokens import SCOPES, Tokens

DAY_S: Final = 86_400.0
LASTS: Final = {"1": "a day", "7": "a week", "30": "30 days", "90": "90 days", "365": "a year"}


async def _page(visit: Visit) -> Response:
    return await _show(visit)


async def _show(visit: Visit, status: int = 200, *, trouble: str = "", secret: str = "", named: str = "") -> Response:
    tokens = Tokens(visit.journal, visit.console.clock)
    await tokens.refresh()
    roster = await visit.coordinator.roster()
    return await visit.show(
        "people.html",
        status,
        roster=roster,
        keys=sorted(roster.keys.values(), key=lambda one: (one.revoked is not None, one.person, one.number)),
        has_key=any(normal(one.person) == normal(visit.who) for one in roster.living()),
        tokens=sorted(tokens.all(), key=lambda one: (not one.is_good(visit.now), one.name, one.made_at)),
        all_scopes=SCOPES,
        lasts=LASTS,
        trouble=trouble,
        secret=secret,
        named=named,
        form=visit.form,
    )


async def _make_token(visit: Visit) -> Response:
    """Make a token; its secret is on the page that answers, and nowhere else."""
    form = visit.form
    try:
        if form["days"] not in LASTS:
            raise InputError("choose how long the token lasts")
        tokens = Tokens(visit.journal, visit.console.clock)
        made = await tokens.create(
            _named(form["name"]),
            scopes=form.all("scope"),
            definitions=form["definitions"].split(),
            lasts_s=int(form["days"]) * DAY_S,
            by=visit.who,
        )
    except AmendsError as exc:
        return await _show(visit, status_of(exc), trouble=str(exc))
    return await _show(visit, secret=made.secret, named=made.token.name)


async def _revoke_token(visit: Visit) -> Response:
    try:
        tokens = Tokens(visit.journal, visit.console.clock)
        gone = await tokens.revoke(visit.form["id"], by=visit.who, why=visit.form["why"].strip() or "revoked")
    except AmendsError as exc:
        return await _show(visit, status_of(exc), trouble=str(exc))
    visit.console.logins.look_again()
    visit.tell(f"The token of {', '.join(one.name for one in gone)} is good for nothing more.")
    return visit.go("/people")


async def _enrol(visit: Visit) -> Response:
    form = visit.form
    try:
        name, key = _named(form["person"]), form["key"].strip()
        if not key:
            raise InputError("paste the line of a .pub file, or make a passkey")
        answered = await proved(
            visit,
            lambda proof: visit.coordinator.enrol(
                name, key, by=visit.who, why=form["why"].strip(), recovery=form["recovery"] == "yes", proof=proof
            ),
        )
    except AmendsError as exc:
        return await _show(visit, status_of(exc), trouble=str(exc))
    if isinstance(answered, Response):
        return answered
    visit.tell(f"The key proves the name {name} from now on.")
    return visit.go("/people")


async def _revoke_key(visit: Visit) -> Response:
    form = visit.form
    try:
        if not form["why"].strip():
            raise InputError("say why the key is revoked: it goes on record")
        answered = await proved(
            visit,
            lambda proof: visit.coordinator.revoke(
                form["person"], key=form["fingerprint"], why=form["why"].strip(), by=visit.who, proof=proof
            ),
        )
    except AmendsError as exc:
        return await _show(visit, status_of(exc), trouble=str(exc))
    if isinstance(answered, Response):
        return answered
    visit.tell("The key proves nothing more; what it proved before stands.")
    return visit.go("/people")


def _named(name: str) -> str:
    """A person's name as the journal has it; somebody who names only themselves is a person."""
    said = name.strip()
    if not said:
        raise InputError("say whose it is, as person:anna")
    return said if ":" in said else f"person:{said}"


def routes() -> list[BaseRoute]:
    return [
        shown("/people", _page),
        decided("/people/tokens", _make_token, Scope.ADMIN),
        decided("/people/tokens/revoke", _revoke_token, Scope.ADMIN),
        decided("/people/keys", _enrol, Scope.ADMIN),
        decided("/people/keys/revoke", _revoke_key, Scope.ADMIN),
    ]
