"""One request of a person: who they are, what they sent, and the page that answers it.

`shown` makes a route that only shows; `decided` one that takes a form, checked before anything is done: it comes from
a page of ours, with the session's own mark in it. What amends refuses is a page too, which says why and leads back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from amends.clock import Clock
from amends.errors import AmendsError, ForbiddenError, InputError, TooLargeError
from amends.http.app import Served
from amends.http.callers import Scope
from amends.http.console.oidc import Provider
from amends.http.console.pages import page
from amends.http.console.proxy import TrustedProxy
from amends.http.console.session import Login, Logins
from amends.http.problems import status_of
from amends.journal.port.journal import Journal, PersonQuery
from amends.operate.survey import Survey, survey
from amends.runtime.drive.policies import Policies

if TYPE_CHECKING:
    from amends.bootstrap import Coordinator

LARGEST_FORM: Final = 1024 * 1024
MOST_FIELDS: Final = 2_000
_BADGE: Final = 100
_SURVEY_S: Final = 5.0


@dataclass(frozen=True, kw_only=True)
class Console:
    """The things that the console's pages share: `request.app.state.console`."""

    served: Served
    logins: Logins
    policies: Policies
    is_secure: bool
    clock: Clock
    provider: Provider | None = None
    """Where people log in by single sign-on."""
    proxy: TrustedProxy | None = None
    """The proxy that names who comes through it."""
    surveys: list[tuple[float, Survey]] = field(default_factory=list["tuple[float, Survey]"])
    """The last survey of the newest sagas, and when it was made: a page that is loaded again does not make another."""
    noting: list[asyncio.Future[None]] = field(default_factory=list["asyncio.Future[None]"])
    """Keys being noted, for whoever looks for one: once at a time."""

    @property
    def cookie(self) -> str:
        return "__Host-amends" if self.is_secure else "amends"

    def set_cookie(self, response: Response, secret: str) -> None:
        response.set_cookie(self.cookie, secret, httponly=True, samesite="lax", secure=self.is_secure, path="/")

    def drop_cookie(self, response: Response) -> None:
        response.delete_cookie(self.cookie, httponly=True, samesite="lax", secure=self.is_secure, path="/")


class Form:
    """The fields that a person sent, by name; a name may have several."""

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self.pairs = tuple(pairs)

    def __getitem__(self, name: str) -> str:
        return next((value for each, value in self.pairs if each == name), "")

    def __contains__(self, name: str) -> bool:
        return any(each == name for each, _ in self.pairs)

    def all(self, name: str) -> list[str]:
        return [value for each, value in self.pairs if each == name]


@dataclass(kw_only=True)
class Visit:
    request: Request
    console: Console
    login: Login
    form: Form = field(default_factory=Form)
    position: int
    """The newest entry that was told of before the page was made: what comes after it is news to the page."""

    @property
    def served(self) -> Served:
        return self.console.served

    @property
    def coordinator(self) -> Coordinator:
        return self.served.coordinator

    @property
    def journal(self) -> Journal:
        return self.coordinator.journal

    @property
    def who(self) -> str:
        return self.login.caller.name

    @property
    def asked(self) -> Form:
        """The fields of the address."""
        return Form(parse_qsl(self.request.url.query, keep_blank_values=True, max_num_fields=MOST_FIELDS))

    @property
    def now(self) -> int:
        return self.console.clock.now()

    async def policies(self) -> Policies:
        """The policy in force, and all before it."""
        await self.console.policies.refresh()
        return self.console.policies

    async def survey(self) -> Survey:
        """The newest sagas, as they were some seconds ago at most."""
        now, kept = self.console.clock.elapsed(), self.console.surveys
        if not kept or now - kept[0][0] > _SURVEY_S:
            kept[:] = [(now, await survey(self.journal))]
        return kept[0][1]

    def named(self, name: str) -> str:
        """A part of the address's path."""
        found: str = self.request.path_params[name]
        return found

    def may(self, scope: Scope) -> bool:
        return scope in self.login.caller.scopes

    def tell(self, text: str, tone: str = "good") -> None:
        """Have the next page say it first."""
        self.login.told.append((tone, text))

    def go(self, path: str) -> Response:
        """Lead to a page, by a GET."""
        return RedirectResponse(path, 303)

    async def show(self, name: str, status: int = 200, **context: Any) -> Response:  # noqa: ANN401 - as the template has it
        told, self.login.told = self.login.told, []
        return page(
            name,
            status,
            visit=self,
            caller=self.login.caller,
            csrf=self.login.csrf,
            path=self.request.url.path,
            now=self.now,
            position=self.position,
            told=told,
            address=self.served.journal,
            waiting=await waiting(self.journal),
            may_decide=self.may(Scope.DECIDE),
            may_admin=self.may(Scope.ADMIN),
            **context,
        )

    def address_with(self, **fields: str | None) -> str:
        """This page's address with other fields; None takes one out."""
        kept = [(name, value) for name, value in self.asked.pairs if name not in fields and value]
        kept += [(name, value) for name, value in fields.items() if value]
        return self.request.url.path + (f"?{urlencode(kept)}" if kept else "")


View = Callable[[Visit], Awaitable[Response]]


async def waiting(journal: Journal) -> dict[str, str]:
    """How much waits for people, for the menu: counted up to a hundred."""
    query = PersonQuery(limit=_BADGE)
    approvals, incidents = len((await journal.approvals(query)).rows), len((await journal.incidents(query)).rows)
    return {"approvals": _badge(approvals), "incidents": _badge(incidents)}


def _badge(number: int) -> str:
    return "99+" if number >= _BADGE else str(number or "")


# -- routes -----------------------------------------------------------------------------------------------------------


def shown(path: str, view: View, scope: Scope = Scope.VIEW) -> Route:
    """A page for those who may see it. It changes nothing."""

    async def endpoint(request: Request) -> Response:
        return await _answer(request, view, scope, takes_form=False)

    return Route(path, endpoint, methods=["GET"])


def decided(path: str, view: View, scope: Scope = Scope.DECIDE) -> Route:
    """A form's target: it decides, in the name of whoever is logged in."""

    async def endpoint(request: Request) -> Response:
        return await _answer(request, view, scope, takes_form=True)

    return Route(path, endpoint, methods=["POST"])


def console_of(request: Request) -> Console:
    found: Console = request.app.state.console
    return found


async def _answer(request: Request, view: View, scope: Scope, *, takes_form: bool) -> Response:
    console = console_of(request)
    found = await console.logins.of(request.cookies.get(console.cookie, ""))
    if console.proxy is not None:
        try:
            found = _through_proxy(request, console.proxy, found)
        except AmendsError as exc:
            return page("login.html", status_of(exc), next="/", trouble=str(exc), once="", single="")
    if found is None:
        return _to_login(request, takes_form=takes_form)
    login, rotated = found
    visit = Visit(request=request, console=console, login=login, position=console.served.feed.position)
    try:
        login.caller.require(scope)
        if takes_form:
            visit.form = await checked_form(request, login)
        answer = await view(visit)
    except AmendsError as exc:
        answer = await visit.show("error.html", status_of(exc), title=title_of(exc), detail=str(exc), back=_back(visit))
    if rotated:
        console.set_cookie(answer, rotated)
    return answer


def _through_proxy(request: Request, proxy: TrustedProxy, found: tuple[Login, str] | None) -> tuple[Login, str] | None:
    """The session of whoever the proxy names; another's is ended. What they may is what the proxy says now."""
    caller, logins = proxy.caller_of(request), console_of(request).logins
    if caller is None:
        return found
    if found is not None and found[0].caller.name != caller.name:
        logins.end(found[0])
        found = None
    if found is None:
        return logins.admit(caller)
    found[0].caller = caller
    return found


def _to_login(request: Request, *, takes_form: bool) -> Response:
    console = console_of(request)
    is_due = console.provider is not None and console.logins.is_due(request.cookies.get(console.cookie, ""))
    if takes_form:
        text = "You are not logged in any more, and nothing was decided. Log in, look at it again, then decide."
        single = "yes" if console.provider is not None else ""
        return page("login.html", 401, next=_back_path(request), trouble=text, once="", single=single)
    asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    is_page = request.headers.get("sec-fetch-dest", "document") == "document"
    if is_due and is_page:  # whoever is logged in there still comes back without a word
        return RedirectResponse(f"/login/oidc?next={quote(asked, safe='')}", 303)
    return RedirectResponse(f"/login?next={quote(asked, safe='')}" if asked != "/" else "/login", 303)


def _back(visit: Visit) -> str:
    """The page to go back to: of a form the one that it came from, of a page the list that it is in."""
    if visit.request.method != "GET":
        return _back_path(visit.request)
    return "/" + visit.request.url.path.split("/")[1]


def _back_path(request: Request) -> str:
    """The page of ours that a form came from."""
    said = urlsplit(request.headers.get("referer", ""))
    if said.netloc != request.headers.get("host", ""):
        return "/"
    return local_path(said.path + (f"?{said.query}" if said.query else ""))


def local_path(said: str) -> str:
    """An address of this console, or its first page where that is another's."""
    is_local = said.startswith("/") and not said.startswith(("//", "/\\")) and said.isprintable()
    return said if is_local else "/"


async def checked_form(request: Request, login: Login | None) -> Form:
    """The fields of a form of ours. Raises ForbiddenError for one that came from elsewhere."""
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    is_foreign = site not in {None, "same-origin", "none"} or (
        site is None and origin is not None and urlsplit(origin).netloc != request.headers.get("host")
    )
    if is_foreign:
        raise ForbiddenError("this form was sent by another site, and nothing was done")
    form = await _read(request)
    if login is not None and not login.has_csrf(form["csrf"]):
        raise ForbiddenError(
            "this form is of another session, and nothing was done; go back, load the page again, and decide there"
        )
    return form


async def _read(request: Request) -> Form:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().casefold()
    if kind != "application/x-www-form-urlencoded":
        raise InputError("a form was expected, as a page of the console sends it")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > LARGEST_FORM:
            raise TooLargeError("what was sent takes more than 1 MiB; say it shorter, and name where the rest is")
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError:
        raise InputError("the form cannot be read") from None
    return Form((name, value.replace("\r\n", "\n")) for name, value in pairs)


_TITLES: Final = {
    401: "Who is asking?", 403: "Not allowed", 404: "Not here", 405: "Not like this", 409: "Refused",
    413: "Too large", 422: "Not as it should be", 429: "Too often", 500: "Our fault", 503: "Not now",
}  # fmt: skip


def title_of(error: AmendsError) -> str:
    return _TITLES.get(status_of(error), "Refused")


def title_of_status(status: int) -> str:
    return _TITLES.get(status, "Something is wrong")


__all__ = ["Console", "Form", "Visit", "checked_form", "console_of", "decided", "local_path", "shown"]
