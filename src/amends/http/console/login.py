"""Logging in and out: by the address that the server prints, or with a token; out here, or everywhere."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from amends.errors import AmendsError, UnknownCallerError
from amends.http.callers import Scope
from amends.http.console.oidc import CALLBACK, LASTS_S, LOGOUT
from amends.http.console.pages import page
from amends.http.console.session import Vouched
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
        _state_cookie(state),
        state,
        max_age=round(LASTS_S),
        httponly=True,
        samesite="lax",
        secure=console.is_secure,
        path="/login",
    )
    return answer


def _state_cookie(state: str) -> str:
    """One for each login that was begun: a browser may have several pages that send somebody away at once."""
    return f"{_STATE}-{state[:8] if state.isascii() and state.replace('-', '_').isidentifier() else ''}"


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
        state = asked.get("state", "")
        kept = request.cookies.get(_state_cookie(state), "")
        signed_on = await console.provider.back(state, kept, asked.get("code", ""))
    except AmendsError as exc:
        return _page(request, status_of(exc), trouble=str(exc))
    console.logins.forgive(place)
    console.logins.replace(request.cookies.get(console.cookie, ""))
    until_s = console.clock.elapsed() + console.provider.settings.age_s
    vouched = Vouched(subject=signed_on.subject, session=signed_on.session, until_s=until_s)
    _, cookie = console.logins.admit(signed_on.caller, vouched=vouched)
    answer = RedirectResponse(signed_on.next, 303)
    answer.delete_cookie(_state_cookie(state), path="/login")
    console.set_cookie(answer, cookie)
    return answer


async def _logged_out(request: Request) -> Response:
    """Take word from the provider itself: somebody has logged out there, so they are out here."""
    console = console_of(request)
    place = f"out {request.client.host if request.client is not None else ''}"
    try:
        if console.provider is None:
            raise UnknownCallerError("no single sign-on is set up here")
        if not console.logins.may_try(place):
            return _said_of_logout(429, _TOO_OFTEN)
        form = await checked_form(request, None)
        subject, session = await console.provider.logged_out(form["logout_token"])
    except AmendsError as exc:
        return _said_of_logout(400, str(exc))
    console.logins.forgive(place)
    console.logins.end_vouched(subject, session)
    return _said_of_logout(200)


def _said_of_logout(status: int, trouble: str = "") -> Response:
    body = {"error": "invalid_request", "error_description": trouble} if trouble else {}
    return JSONResponse(body, status, {"cache-control": "no-store"})


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
        Route(LOGOUT, _logged_out, methods=["POST"]),
        decided("/logout", _ended, Scope.VIEW),
        decided("/logout/everywhere", _ended_everywhere, Scope.VIEW),
        shown("/me", _me),
    ]
