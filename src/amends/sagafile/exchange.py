"""Sending a request once, and what can honestly be said of its answer.

A request stands in a step's arguments as it will be sent, so that the journal, the gate and whoever approves it see the
very words. What is known only when it is sent (the key, the result and before-image of the step, secrets) is shown in
its place as `${key}`, and listed under `open`, place by place: a value from outside that looks like a reference is a
text all the same.

Nothing is kept alive between two requests: that a server closed a connection which it had left open would otherwise
look like a request of which nobody knows the end. A connection that never came about is certain, everything after it
is not. Redirects are followed to the same server only, where the method stays what it is.
"""

from __future__ import annotations

import copy
import functools
import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import quote, urlencode, urljoin, urlsplit

from amends.core.words.values import Json
from amends.dataclass import dataclass
from amends.errors import InputError, NotDone, ServerError
from amends.runtime.declare.outline import Later
from amends.sagafile.model import HttpRequest, JsonTemplate
from amends.sagafile.program import KEPT, ProgramOutput
from amends.sagafile.templates import HEADERS, Reference, Template, looked_up, spelled
from amends.secrets import Secret, scrub

if TYPE_CHECKING:
    import ssl

    from httpx2 import Response  # of an extra, loaded by who sends something

Object = dict[str, Any]
EXTRA: Final = "http: steps need httpx2, which is not installed here: pip install 'amends[http]'"
CONNECT_S: Final = 10.0
MOST_REDIRECTS: Final = 5
LARGEST: Final = 1 << 20
"""So much of an answer is read; what is kept of it is less."""
LONGEST_HEADER: Final = 4096
_BASE: Final = re.compile(r"https?://[^/?#@\s\\]+(?:/[^?#\s\\]*)?", re.ASCII)
_WHOLE: Final = re.compile(r"https?://[^/?#@\s\\]+(?:[/?][^#\s\\]*)?", re.ASCII)
_VALUE: Final = re.compile(r"[\t\x20-\x7e]*", re.ASCII)
_WAIT: Final = re.compile(r"[0-9]{1,4}", re.ASCII)
_KEEPS_METHOD: Final = (307, 308)
_MOVED: Final = (301, 302, 303, 307, 308)
_TOLD: Final = 300


# -- a request in a step's arguments ----------------------------------------------------------------------------------


def kept(request: HttpRequest, known: Mapping[str, Json]) -> Object:
    """A request with what is known put in. Raises InputError where a reference leads nowhere, or to no server."""
    return _Keeping(known).request(request)


class _Keeping:
    """One request on its way into the arguments of a step."""

    def __init__(self, known: Mapping[str, Json]) -> None:
        self._known = known
        self._open: list[Json] = []

    def request(self, request: HttpRequest) -> Object:
        made: Object = {"method": request.method, "url": self._url(request.url)}
        if request.headers:
            made["headers"] = {name: self._text(text, ["headers", name]) for name, text in request.headers.items()}
        if request.body is not None:
            made["body"] = self._text(request.body, ["body"])
        if request.form is not None:
            made["form"] = {name: self._text(text, ["form", name]) for name, text in request.form.items()}
        if request.document is not None:
            made["json"] = self._value(request.document[0], ["json"])
        return {**made, "open": self._open} if self._open else made

    def _url(self, text: Template) -> str:
        base, rest = "", text
        if text and isinstance(text[0], Reference) and text[0].root in self._known:
            base, rest = _server(text[0], self._known, is_whole=len(text) == 1), text[1:]
            if rest and isinstance(rest[0], str) and rest[0].startswith("/"):
                base = base.rstrip("/")
        url = base + self._text(rest, ["url"], before=base)
        _refuse_dots(url)
        return url

    def _text(self, text: Template, at: list[Json], before: str = "") -> str:
        pieces: list[Json] = [before] if before else []
        for piece in text:
            if isinstance(piece, str):
                pieces.append(piece)
            elif piece.root in self._known:
                value = spelled(looked_up(piece.path, self._known), piece)
                pieces.append(quote(value, safe="") if at == ["url"] else value)
            else:
                pieces.append({"of": str(piece)})
        shown = "".join(piece if isinstance(piece, str) else f"${{{_named(piece)}}}" for piece in pieces)
        if any(isinstance(piece, dict) for piece in pieces):
            self._open.append({"at": at, "join": pieces})
        return shown[len(before) :]

    def _value(self, part: JsonTemplate, at: list[Json]) -> Json:
        if isinstance(part, tuple):
            alone = part[0] if len(part) == 1 else None
            if not isinstance(alone, Reference):
                return self._text(part, at)
            if alone.root in self._known:
                return looked_up(alone.path, self._known)
            self._open.append({"at": at, "of": str(alone)})
            return f"${{{alone}}}"
        if isinstance(part, list):
            return [self._value(item, [*at, place]) for place, item in enumerate(part)]
        if isinstance(part, dict):
            return {name: self._value(item, [*at, name]) for name, item in part.items()}
        return part


def _named(piece: Json) -> str:
    return str(cast("dict[str, Json]", piece)["of"])


def _server(reference: Reference, known: Mapping[str, Json], *, is_whole: bool) -> str:
    value = spelled(looked_up(reference.path, known), reference)
    if not (_WHOLE if is_whole else _BASE).fullmatch(value):
        what = "an address" if is_whole else "a server, with a path at most"
        raise InputError(f"${{{reference}}} has to be {what}, as https://api.example.com, and is not")
    return value


def _refuse_dots(url: str) -> None:
    if {".", ".."}.intersection(url.partition("?")[0].split("/")):
        raise InputError(f"{url} has a part that is . or .., which leads to another place than it says")


def outlined(request: Object) -> Object:
    """A kept request for an outline: what earlier steps say is known later."""
    made = {name: part for name, part in copy.deepcopy(request).items() if name != "open"}
    left: list[Object] = []
    for each in cast("list[Object]", request.get("open", [])):
        pieces = each.get("join", [each])
        if any(isinstance(piece, dict) and _named(cast("Json", piece)).startswith("steps.") for piece in pieces):
            text = "".join(piece if isinstance(piece, str) else f"{{{{{_named(piece)}}}}}" for piece in pieces)
            _put(made, each["at"], Later(text))
        else:
            left.append(each)
    return {**made, "open": left} if left else made


def _put(made: Object, at: Sequence[Any], value: object) -> None:
    inside: Any = made
    for name in at[:-1]:
        inside = inside[name]
    inside[at[-1]] = value


def whole(request: Mapping[str, Any], about: Mapping[str, Json]) -> Object:
    """A kept request, now that the rest is known. Raises InputError."""
    made = {name: part for name, part in copy.deepcopy(dict(request)).items() if name != "open"}
    for each in cast("list[Object]", request.get("open", [])):
        if "of" in each:
            _put(made, each["at"], copy.deepcopy(looked_up(str(each["of"]).split("."), about)))
            continue
        texts: list[str] = []
        for piece in each["join"]:
            if isinstance(piece, str):
                texts.append(piece)
                continue
            reference = Reference(tuple(_named(piece).split(".")))
            value = spelled(looked_up(reference.path, about), reference)
            texts.append(quote(value, safe="") if each["at"] == ["url"] else value)
        _put(made, each["at"], "".join(texts))
    _refuse_dots(str(made["url"]))
    for name, value in made.get("headers", {}).items():
        if not _VALUE.fullmatch(value):
            raise InputError(f"the header {name} would hold what no header can: write printable ASCII, on one line")
    return made


# -- sending it -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAnswer:
    """An answer, as far as it is kept; no secret is in it."""

    status: int
    body: str
    headers: Mapping[str, str]
    cut: bool
    """Some of its body was left out."""
    words: str
    """What was asked, in short."""
    wait_s: float | None = None
    """So long the server asks to be left alone."""

    @property
    def told(self) -> str:
        said = " ".join(self.body.split())[:_TOLD]
        moved = f" and {self.headers['location']}" if self.status in _MOVED and "location" in self.headers else ""
        return f"{self.words} was answered with {self.status}{moved}{': ' if said else ''}{said}"

    def result(self) -> Object:
        made: Object = {"status": self.status, "body": self.body, "headers": dict(self.headers)}
        return {**made, "cut": True} if self.cut else made


def body_of(request: Mapping[str, Any]) -> tuple[bytes | None, str]:
    """Bytes of a request, and their type; None where it has none."""
    if "json" in request:
        text = json.dumps(request["json"], ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return text.encode(), "application/json"
    if "form" in request:
        return urlencode(request["form"]).encode(), "application/x-www-form-urlencoded"
    if "body" in request:
        return str(request["body"]).encode(), "text/plain; charset=utf-8"
    return None, ""


def _headers(request: Mapping[str, Any], kind: str) -> dict[str, str]:
    """Headers of a request: its own, and those that it does not name."""
    given: dict[str, str] = request.get("headers", {})
    taken = set(map(str.lower, given))
    ours = {"User-Agent": "amends", "Accept-Encoding": "identity", "Connection": "close", "Content-Type": kind}
    return {name: value for name, value in ours.items() if value and name.lower() not in taken} | given


async def exchange(request: Mapping[str, Any], *, timeout_s: float, hidden: Sequence[Secret] = ()) -> ServerAnswer:
    """Send it once. Raises NotDone where it was certainly not sent, ServerError where nobody knows what it did."""
    try:
        import httpx2
    except ImportError:
        raise NotDone(EXTRA) from None
    method, url = str(request["method"]), str(request["url"])
    words = f"{method} {url.partition('?')[0]}"
    content, kind = body_of(request)
    headers = _headers(request, kind)
    patience = httpx2.Timeout(None, connect=min(CONNECT_S, timeout_s / 2))
    try:
        client = httpx2.AsyncClient(
            verify=_trust(), timeout=patience, limits=httpx2.Limits(max_keepalive_connections=0)
        )
        asked = client.build_request(method, url, headers=headers, content=content)
    except (httpx2.InvalidURL, ValueError, TypeError, ImportError, OSError) as exc:
        raise NotDone(scrub(f"{words} cannot be sent: {_words(exc)}", hidden)) from None
    try:
        async with client:
            for _ in range(MOST_REDIRECTS + 1):
                response = await client.send(asked, stream=True)
                try:
                    answer = await _read(response, words, hidden)
                finally:
                    await response.aclose()
                url = _redirect(url, method, answer.status, response.headers.get("location", ""))
                if not url:
                    return answer
                asked = client.build_request(method, url, headers=headers, content=content)
    except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError, httpx2.UnsupportedProtocol) as exc:
        raise NotDone(scrub(f"{words} was not sent: {_words(exc)}", hidden)) from None
    except httpx2.HTTPError as exc:
        raise ServerError(scrub(f"{words} was sent, and has no whole answer: {_words(exc)}", hidden)) from None
    raise ServerError(f"{words} was redirected more than {MOST_REDIRECTS} times")


@functools.cache
def _trust() -> ssl.SSLContext:
    """Certificates that are trusted: the system's, or those of SSL_CERT_FILE."""
    import httpx2

    return httpx2.create_ssl_context()


async def _read(response: Response, words: str, hidden: Sequence[Secret]) -> ServerAnswer:
    """Its answer, with no secret in it. One that is packed is not unpacked: it may be anything's size."""
    body = ProgramOutput(KEPT, [secret.reveal() for secret in hidden])
    is_plain = response.headers.get("content-encoding", "identity").lower() == "identity"
    taken, is_cut = 0, not is_plain
    async for piece in response.aiter_raw():
        taken += len(piece)
        if is_plain:
            body.take(piece)
        if taken > LARGEST:
            break
    body.take(b"")
    wait = response.headers.get("retry-after", "")
    return ServerAnswer(
        status=response.status_code,
        body=scrub(body.text(), hidden),
        headers={
            name: scrub(value, hidden)
            for name in HEADERS
            if 0 < len(value := response.headers.get(name, "")) <= LONGEST_HEADER
        },
        cut=is_cut or bool(body.left_out),
        words=words,
        wait_s=float(wait) if _WAIT.fullmatch(wait) else None,
    )


def _redirect(url: str, method: str, status: int, location: str) -> str:
    """Where it is sent on to; empty where this is an answer like any other."""
    if not location or status not in _MOVED or (method not in {"GET", "HEAD"} and status not in _KEEPS_METHOD):
        return ""
    to = urljoin(url, location).partition("#")[0]
    here, there = urlsplit(url), urlsplit(to)
    return to if (here.scheme, here.netloc) == (there.scheme, there.netloc) else ""


def _words(exc: BaseException) -> str:
    return str(exc) or type(exc).__name__
