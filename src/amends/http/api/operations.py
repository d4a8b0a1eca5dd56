"""Operations of the API: a function, who may call it, and what it gives. Routes and the document are made of these.

An operation's function takes what its path, its query or its body name, each as its annotation says. So what is checked
and what is documented are one text.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal, cast

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from amends.dataclass import dataclass
from amends.errors import AmendsError, InputError
from amends.http.app import Served, served_by
from amends.http.callers import Caller, Scope, caller_of
from amends.http.keys import HEADER, LONGEST_KEY, AnswerWays, Request as Keyed, print_of
from amends.http.problems import of_ours, problem
from amends.journal.codec import WIRE
from amends.journal.port.journal import Entry
from amends.runtime.values.schema import Definitions, Schema
from amends.runtime.values.signature import Signature, Typed
from amends.source.marked import nearest
from amends.source.strict_json import parse_json

if TYPE_CHECKING:
    from amends.bootstrap import Coordinator
    from amends.core.words.values import Json
    from amends.journal.port.journal import Journal
    from amends.runtime.values.kinds import Kind

KEY: Final = re.compile(rf"[!-~]{{1,{LONGEST_KEY}}}")
LARGEST_BODY: Final = 4 * 1024 * 1024
BODY_S: Final = 30.0
"""How long a body may take to arrive."""
PREFIX: Final = "/v1"
JSON_TYPE: Final = "application/json"
_IN_PATH: Final = re.compile(r"\{(\w+)(?::path)?\}")
_TRUTH: Final[Mapping[str, bool]] = {"true": True, "false": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class At:
    """Where an operation is carried out, and for whom."""

    served: Served
    caller: Caller
    request: Request
    key: str = ""
    """The sender's own name for this request."""

    @property
    def coordinator(self) -> Coordinator:
        return self.served.coordinator

    @property
    def journal(self) -> Journal:
        return self.served.coordinator.journal


@dataclass(frozen=True, slots=True)
class Outgoing:
    """An answer that is more than a body with status 200."""

    body: object
    status: int = 200
    headers: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Sent:
    """An answer that is sent as it is made."""

    lines: AsyncIterator[str]
    media_type: str
    headers: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaves:
    """The entry that an operation leaves on record, and how to answer once it is there.

    It is the sender's own (`by`), of the saga in the path, and has what they sent under the names that they sent it by,
    but those in `others`; `fits` looks closer.
    """

    events: tuple[type[object], ...]
    shows: Callable[..., Awaitable[object]]
    fits: Callable[[Entry, Mapping[str, object]], bool] | None = None
    others: frozenset[str] = frozenset()

    @property
    def names(self) -> frozenset[str]:
        return frozenset(name for name, kind in WIRE.items() if kind in self.events)

    def is_left_by(self, entry: Entry, caller: Caller, given: Mapping[str, object]) -> bool:
        event = entry.event
        if not isinstance(event, self.events) or getattr(event, "by", None) != caller.name:
            return False
        if "saga" in given and entry.saga != given["saga"]:
            return False
        kept = {
            name: _plain(getattr(event, name)) for name in given if hasattr(event, name) and name not in self.others
        }
        if any(given[name] != value for name, value in kept.items()):
            return False
        return self.fits is None or self.fits(entry, given)


class Operation:
    """One method of one path. `scope` is None where a known caller is enough, or the function itself looks closer."""

    def __init__(  # noqa: PLR0913 - one for each thing that can be said of it
        self,
        method: Literal["GET", "POST"],
        path: str,
        function: Callable[..., Awaitable[object]],
        *,
        scope: Scope | None,
        gives: Schema,
        status: int = 200,
        media_type: str = JSON_TYPE,
        leaves: Leaves | None = None,
        is_secret: bool = False,
        is_keyed: bool = True,
    ) -> None:
        self.method = method
        self.path = PREFIX + path
        self.leaves = leaves
        self.is_secret = is_secret
        self.is_keyed = is_keyed and method == "POST"
        self.function = function
        self.scope = scope
        self.gives = gives
        self.status = status
        self.media_type = media_type
        self.name = function.__name__
        self.does = inspect.getdoc(function) or ""

    @cached_property
    def signature(self) -> Signature:
        return Signature(self.function, skip=1)

    @cached_property
    def typed(self) -> Typed:
        return Typed(f"{self.method} {self.path}", self.function, skip=1)

    @cached_property
    def in_path(self) -> tuple[str, ...]:
        return tuple(_IN_PATH.findall(self.path))

    @cached_property
    def beside_path(self) -> tuple[str, ...]:
        """The names that its query or its body may give."""
        return tuple(name for name in self.signature.names if name not in self.in_path)

    def route(self) -> Route:
        return Route(self.path, self._answer, methods=[self.method], name=self.name)

    async def _answer(self, request: Request) -> Response:
        caller = caller_of(request)
        if self.scope is not None:
            caller.require(self.scope)
        given: dict[str, object] = {name: request.path_params[name] for name in self.in_path}
        if self.method == "GET":
            given |= self._of_query(request)
        else:
            body = await read_body(request)
            if isinstance(body, Response):
                return body
            given |= self._of_body(request, body)
        missing = [name for name in self.signature.required if name not in given]
        if missing:
            raise InputError(f"{self.typed.whose} needs {', '.join(missing)}")
        for name, value in given.items():
            self.typed.check_one(name, value)
        at = At(served=served_by(request), caller=caller, request=request, key=_key_of(request))
        if not self.is_keyed:
            if HEADER in request.headers and not KEY.fullmatch(at.key):
                return _no_key(at.key)
            return self._sent(request, await self.function(at, **given))
        return await self._once(at, given)

    async def _once(self, at: At, given: Mapping[str, object]) -> Response:
        """Carry a request out that may be sent several times, and is one."""
        if not KEY.fullmatch(at.key):
            return _no_key(at.key)
        caller, request = at.caller, at.request

        async def answered(function: Callable[..., Awaitable[object]]) -> Response:
            try:
                return self._sent(request, await function(at, **given))
            except AmendsError as exc:
                return await of_ours(request, exc)

        async def settle(since: int, alike: int) -> Response:
            leaves = self.leaves
            if leaves is not None and await self._left(leaves, at, given, since) > alike:
                return await answered(leaves.shows)
            return await answered(self.function)

        again = self.function if self.leaves is None else self.leaves.shows
        ways = AnswerWays(
            carry_out=lambda: answered(self.function),
            settle=settle,
            again=lambda: answered(again),
            is_secret=self.is_secret,
        )
        fingerprint = print_of(self.method, request.url.path, cast("Json", dict(given)), caller.name)
        return await at.served.keys.answer(Keyed(key=at.key, caller=caller.name, print=fingerprint), ways)

    async def _left(self, leaves: Leaves, at: At, given: Mapping[str, object], since: int) -> int:
        """How many entries past a position are such as this request leaves."""
        found = at.journal.log(after=since, names=leaves.names)
        return sum([leaves.is_left_by(logged.entry, at.caller, given) async for logged in found])

    def _of_query(self, request: Request) -> dict[str, object]:
        found: dict[str, object] = {}
        for name in request.query_params:
            self._require_known(name)
            values = request.query_params.getlist(name)
            found[name] = self._of_texts(name, values)
        return found

    def _of_texts(self, name: str, values: list[str]) -> object:
        kinds = _types(self.typed.kinds[name])
        if "array" in kinds:
            return values
        if len(values) > 1:
            raise InputError(f"{self.typed.whose}: {name} is given {len(values)} times; give it once")
        text = values[0]
        if "integer" in kinds and re.fullmatch(r"-?[0-9]{1,18}", text):
            return int(text)
        if "number" in kinds and re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text):
            return float(text)
        return _TRUTH.get(text, text) if "boolean" in kinds else text

    def _of_body(self, request: Request, body: bytes) -> dict[str, object]:
        if request.url.query:
            raise InputError(f"{self.typed.whose} takes what it needs in its body, as JSON; leave out ?…")
        found: object = parse_json(body, "the body") if body.strip() else {}
        if not isinstance(found, dict):
            raise InputError(f"{self.typed.whose} takes a JSON object of {', '.join(self.beside_path) or 'nothing'}")
        named = cast("dict[str, object]", found)
        for name in named:
            self._require_known(name)
        return named

    def _require_known(self, name: str) -> None:
        if name not in self.beside_path:
            right = nearest(name, self.beside_path)
            hint = f"did you mean {right}?" if right else f"it takes {', '.join(self.beside_path) or 'nothing'}"
            raise InputError(f"{self.typed.whose} does not take {name[:80]!r}; {hint}")

    def _sent(self, request: Request, answer: object) -> Response:
        if isinstance(answer, Response):
            return answer
        if isinstance(answer, Sent):
            return StreamingResponse(answer.lines, self.status, answer.headers, answer.media_type)
        told = answer if isinstance(answer, Outgoing) else Outgoing(answer, self.status)
        body = json.dumps(told.body, separators=(",", ":"), default=_spelled).encode()
        headers = dict(told.headers or {})
        if self.method == "GET":
            headers["ETag"] = tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
            if _is_one_of(tag, request.headers.get("if-none-match", "")):
                return Response(status_code=304, headers=headers)
        return Response(body, told.status, headers, JSON_TYPE)

    # -- for the document ---------------------------------------------------------------------------------------------

    def parameters(self, parts: Definitions) -> list[Schema]:
        """Parameters of its path, and of its query where it has no body."""
        beside = self.beside_path if self.method == "GET" else ()
        return [self._parameter(name, parts) for name in (*self.in_path, *beside)]

    def _parameter(self, name: str, parts: Definitions) -> Schema:
        in_path, schema = name in self.in_path, self.typed.kinds[name].schema(parts)
        if in_path:
            schema = {**schema, "minLength": 1}
        else:  # left out is how a query says null
            ways = [one for one in _ways(schema) if one != {"type": "null"}]
            schema = ways[0] if len(ways) == 1 else {"anyOf": ways}
        return {
            "name": name,
            "in": "path" if in_path else "query",
            "required": in_path or name in self.signature.required,
            "schema": schema,
        }

    def body(self, parts: Definitions) -> Schema:
        required = [name for name in self.signature.required if name in self.beside_path]
        properties = {name: self.typed.kinds[name].schema(parts) for name in self.beside_path}
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


async def read_body(request: Request) -> bytes | Response:
    """The body of a request; a problem for one that is too large, too slow or no JSON by what it says of itself."""
    kind = request.headers.get("content-type", JSON_TYPE).partition(";")[0].strip().casefold()
    if kind != JSON_TYPE:
        return problem(415, f"a body of {kind[:80]} is not understood; send application/json")
    found = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for chunk in request.stream():
                found += chunk
                if len(found) > LARGEST_BODY:
                    most = LARGEST_BODY // 1024**2
                    return problem(413, f"the body is larger than {most} MiB; send less", headers=CLOSE)
    except TimeoutError:
        return problem(408, f"the body did not arrive within {BODY_S:g} s; send it again", headers=CLOSE)
    except ClientDisconnect:
        return problem(400, "whoever asked has gone")
    return bytes(found)


CLOSE: Final = {"Connection": "close"}
"""What is left of a body that nobody reads would pass for the next request."""


def _types(kind: Kind) -> frozenset[str]:
    return frozenset(str(one.get("type", "")) for one in _ways(kind.schema(Definitions())))


def _ways(schema: Schema) -> list[Schema]:
    """The schemas of which a value has to fit one."""
    inner: list[Schema] = schema.get("anyOf", [])
    return [way for one in inner for way in _ways(one)] or [schema]


def _is_one_of(tag: str, known: str) -> bool:
    """Whether a client has this already: a proxy that packs answers marks their tags as weak ones."""
    tags = [one.strip().removeprefix("W/") for one in known.split(",")]
    return tag in tags or "*" in tags


def _spelled(value: object) -> object:
    """A value that JSON has no word for and that may be in an answer: the bytes of a hash, a set."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, (frozenset, set)):
        return sorted(map(str, cast("frozenset[object]", value)))
    raise TypeError(f"{type(value).__name__} is not JSON")


def _key_of(request: Request) -> str:
    return request.headers.get(HEADER, "").strip()


def _plain(value: object) -> object:
    """A value of an entry, as JSON has it."""
    return list(cast("tuple[object, ...]", value)) if isinstance(value, tuple) else value


def get(
    path: str,
    function: Callable[..., Awaitable[object]],
    gives: Schema,
    *,
    scope: Scope | None = Scope.VIEW,
    media_type: str = JSON_TYPE,
) -> Operation:
    return Operation("GET", path, function, scope=scope, gives=gives, media_type=media_type)


def _no_key(key: str) -> Response:
    what = f"{HEADER} is not there" if not key else f"{HEADER} {key[:80]!r} is none"
    return problem(400, f"{what}: send 1 to {LONGEST_KEY} visible characters, new ones for each new request")


def post(
    path: str,
    function: Callable[..., Awaitable[object]],
    gives: Schema,
    *,
    scope: Scope | None,
    status: int = 200,
    leaves: Leaves | None = None,
    is_secret: bool = False,
    is_keyed: bool = True,
) -> Operation:
    """`leaves`: by which it is known to be done; without, it may be done again, and comes to the same. Without a key,
    what it says names it: sent again, it is the same request.
    """
    return Operation(
        "POST",
        path,
        function,
        scope=scope,
        gives=gives,
        status=status,
        leaves=leaves,
        is_secret=is_secret,
        is_keyed=is_keyed,
    )
