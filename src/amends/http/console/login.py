"""Logging in and out: by the address that the server prints, or with a token; out here, or everywhere."""

from __future__ import annotations

from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from amends.errors import AmendsError, UnknownCallerError
from amends.http.callers import Scope
from amends.http.console.pages import page
from amends.http.console.visit import Visit, checked_form, console_of, decided, local_path, shown
from amends.http.problems import status_of


async def _asked(request: Request) -> Response:
    """The page to log in at. The secret of an address is used by the button on it, and not by looking at it."""
    asked = dict(parse_qsl(request.url.query))
    return page("login.html", next=local_path(asked.get("next", "/")), trouble="", once=asked.get("once", ""))


async def _begun(request: Request) -> Response:
    console = console_of(request)
    place = request.client.host if request.client is not None else ""
    after, once = "/", ""
    try:
        form = await checked_form(request, None)
        after, once = local_path(form["next"]), form["once"]
        if not console.logins.may_try(place):
            raise_to = "This was tried too often. Wait a minute, then try again."
            return page("login.html", 429, next=after, trouble=raise_to, once=once)
        secret = (once or form["secret"]).strip()
        if not secret:
            raise UnknownCallerError("paste a token; it begins with amends_")
        _, cookie = await console.logins.begin(secret, place)
    except AmendsError as exc:
        return page("login.html", status_of(exc), next=after, trouble=str(exc), once="")
    answer = RedirectResponse(after, 303)
    console.set_cookie(answer, cookie)
    return answer


async def _ended(visit: Visit) -> Response:
    visit.console.logins.end(visit.login)
    return _to_login(visit)


async def _ended_everywhere(visit: Visit) -> Response:
    visit.console.logins.end_all(visit.who)
    return _to_login(visit)


def _to_login(visit: Visit) -> Response:
    answer = RedirectResponse("/login", 303)
    visit.console.drop_cookie(answer)
    answer.headers["clear-site-data"] = '"cache"'
    return answer


async def _me(visit: Visit) -> Response:
    sessions = len(visit.console.logins.of_person(visit.who))
    return await visit.show("me.html", sessions=sessions, scopes=sorted(visit.login.caller.scopes), all_scopes=Scope)


def routes() -> list[BaseRoute]:
    return [
        Route("/login", _asked, methods=["GET"]),
        Route("/login", _begun, methods=["POST"]),
        decided("/logout", _ended, Scope.VIEW),
        decided("/logout/everywhere", _ended_everywhere, Scope.VIEW),
        shown("/me", _me),
    ]
