"""Logging in and out: by the address that the server prints, or with a token; out here, or everywhere."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from amends.errors import AmendsError, UnknownCallerError
from amends.http.callers import Scope
from amends.http.console.oidc import CALLBACK, LASTS_S
from amends.http.console.pages import page
from amends.http.console.visit import Visit, checked_form, console_of, decided, local_path, shown
from amends.http.problems import status_of

_STATE: Final = "amends-oidc"
_TOO_OFTEN: Final = "This was tried too often. Wait a minute, then try again."


async def _asked(request: Request) -> Response:
    """The page to log in at. The secret of an address is used by the button on it, and not by looking at it."""
    asked = dict(parse_qsl(request.url.query))
    return _page(request, next=local_path(asked.get("next", "/")), once=asked.get("once", ""))


def _page(request: Request, status: int = 200, *, next: str = "/", trouble: str = "", once: str = "") -> Response:
    single = "yes" if console_of(request).provider is not None else ""
    return page("login.html", status, next=next, trouble=trouble, once=once, single=single)


async def _begun(request: Request) -> Response:
    console = console_of(request)
    place = request.client.host if request.client is not None else ""
    after, once = "/", ""
    try:
        form = await checked_form(request, None)
        after, once = local_path(form["next"]), form["once"]
        if not console.logins.may_try(place):
            return _page(request, 429, next=after, trouble=_TOO_OFTEN, once=once)
        secret = (once or form["secret"]).strip()
        if not secret:
            raise UnknownCallerError("paste a token; it begins with amends_")
        _, cookie = await console.logins.begin(secret, place)
    except AmendsError as exc:
        return _page(request, status_of(exc), next=after, trouble=str(exc))
    answer = RedirectResponse(after, 303)
    console.set_cookie(answer, cookie)
    return answer


# -- single sign-on ---------------------------------------------------------------------------------------------------


async def _left(request: Request) -> Response:
    """Send somebody to the provider. It changes nothing here: what counts is what they bring back."""
    console, after = console_of(request), local_path(dict(parse_qsl(request.url.query)).get("next", "/"))
    try:
        if console.provider is None:
            raise UnknownCallerError("no single sign-on is set up here; log in with a token")
        address, state = await console.provider.leave(after)
    except AmendsError as exc:
        return _page(request, status_of(exc), next=after, trouble=str(exc))
    answer = RedirectResponse(address, 303)
    answer.set_cookie(
        _STATE, state, max_age=round(LASTS_S), httponly=True, samesite="lax", secure=console.is_secure, path="/login"
    )
    return answer


async def _came_back(request: Request) -> Response:
    console, asked = console_of(request), dict(parse_qsl(request.url.query))
    place = request.client.host if request.client is not None else ""
    try:
        if console.provider is None:
            raise UnknownCallerError("no single sign-on is set up here; log in with a token")
        if not console.logins.may_try(place):
            return _page(request, 429, trouble=_TOO_OFTEN)
        if "error" in asked:
            raise UnknownCallerError(f"the provider says: {asked.get('error_description') or asked['error']}")
        state, kept = asked.get("state", ""), request.cookies.get(_STATE, "")
        caller, after = await console.provider.back(state, kept, asked.get("code", ""))
    except AmendsError as exc:
        return _page(request, status_of(exc), trouble=str(exc))
    console.logins.forgive(place)
    _, cookie = console.logins.admit(caller)
    answer = RedirectResponse(after, 303)
    answer.delete_cookie(_STATE, path="/login")
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
        Route("/login/oidc", _left, methods=["GET"]),
        Route(CALLBACK, _came_back, methods=["GET"]),
        decided("/logout", _ended, Scope.VIEW),
        decided("/logout/everywhere", _ended_everywhere, Scope.VIEW),
        shown("/me", _me),
    ]
