"""Reading an `http:` part: the request that a step, its compensation, its probe or its before-image sends."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from amends.sagafile import schema
from amends.sagafile.commands import argument, words_of
from amends.sagafile.model import HttpRequest, JsonTemplate
from amends.sagafile.templates import OF_SECRETS, Reference, Template, template
from amends.source.marked import Listed, Mapped, MarkedEntry, Mistakes, Part, Scalar, shown

_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}", re.ASCII)
_ADDRESS: Final = re.compile(r"https?://[^/?#@\s\\]+(?:[/?][^#\s\\]*)?", re.ASCII)
_REST: Final = re.compile(r"[^#\s\\]*", re.ASCII)
_OPEN_HOST: Final = re.compile(r"https?://[^/?]*", re.ASCII)
_FOUND: Final = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*", re.ASCII)
_TAKEN: Final = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_OF_COMMANDS: Final = ("env", "inherit", "secrets", "cwd", "stdin", "confine", "network", "exit_codes")
_BODIES: Final = ("json", "form", "body")
_LOOKING: Final = ("probe", "before")
_LOOKS: Final = ("GET", "HEAD", "POST")
_BODILESS: Final = ("GET", "HEAD")
KEY_HEADER: Final = "Idempotency-Key"
DEFAULTS: Final[Mapping[str, Mapping[int | str, str]]] = {
    "step": {"2xx": "succeeded", "4xx": "failed", 408: "lost", 409: "lost"},
    "certain": {"2xx": "succeeded"},
    "compensate": {"2xx": "succeeded", "4xx": "failed", 408: "lost", 409: "lost", 412: "changed_since"},
    "probe": {"2xx": "happened", 404: "not_happened", 410: "not_happened"},
    "before": {"2xx": "succeeded"},
}


class RequestReader:
    """Reads requests as they stand in a file; every mistake is noted."""

    def __init__(self, mistakes: Mistakes) -> None:
        self._mistakes = mistakes

    def read(
        self, found: Mapping[str, MarkedEntry], where: str, kind: str, roots: Collection[str], words: tuple[str, ...]
    ) -> HttpRequest:
        """`kind` is one of DEFAULTS; `words` are what its statuses may say."""
        mistakes, entry = self._mistakes, found["http"]
        for key in _OF_COMMANDS:
            if key in found:
                hint = {
                    "secrets": f"; in http write ${{{OF_SECRETS}.NAME}} where it is needed",
                    "exit_codes": "; what a status says stands in statuses",
                }
                mistakes.add(found[key].line, f"{where} has http, and {key} is for commands{hint.get(key, '')}")
        keys = {each.key: each for each in mistakes.entries(entry.value, "http", schema.REQUEST)}
        if "url" not in keys and isinstance(entry.value, Mapped):
            mistakes.add(entry.line, f"{where} has http without url")
        inner = (*roots, OF_SECRETS)
        method = self._method(keys, where, kind)
        headers = self._headers(keys["headers"].value, inner) if "headers" in keys else {}
        if kind not in _LOOKING and method not in _BODILESS:
            self._add_key(headers, keys, where)
        elif "key" in keys:
            mistakes.add(keys["key"].line, f"{where} sends {method or 'GET'} without a key: leave key out")
        return HttpRequest(
            method=method,
            url=self._url(keys["url"].value, roots) if "url" in keys else (),
            headers=headers,
            body=argument(keys["body"].value, "body", mistakes, inner) if "body" in keys else None,
            form=self._form(keys["form"].value, inner) if "form" in keys else None,
            document=(self._document(keys["json"].value, inner),) if "json" in keys else None,
            found=self._found(found["found"]) if "found" in found else (),
            statuses=self._statuses(found, words, DEFAULTS[kind]),
            does=words_of(found, mistakes),
            line=entry.line,
        )

    def _method(self, keys: Mapping[str, MarkedEntry], where: str, kind: str) -> str:
        mistakes = self._mistakes
        bodies = [key for key in _BODIES if key in keys]
        if len(bodies) > 1:
            mistakes.add(keys[bodies[1]].line, f"{where} has {' and '.join(bodies)}; keep one of them")
        method = mistakes.choice(keys["method"].value, "method", schema.METHODS) if "method" in keys else "GET"
        if bodies and method in _BODILESS:
            hint = "write method: POST" if "method" not in keys else "leave it out"
            mistakes.add(keys[bodies[0]].line, f"{where} sends {method} with {bodies[0]}; {hint}")
        if kind in _LOOKING and method and method not in _LOOKS:
            mistakes.add(keys["method"].line, f"{where} sends {method}, and may only look: GET, HEAD or POST")
        return method

    def _url(self, part: Part, roots: Collection[str]) -> Template:
        mistakes = self._mistakes
        text = argument(part, "url", mistakes, roots)
        first = text[0] if text else ""
        if isinstance(first, Reference):
            if first.root != "input":
                what = f"url begins with ${{{first}}}; the server stands in the file, or in an input"
                mistakes.add(part.line, what)
        elif len(text) > 1 and _OPEN_HOST.fullmatch(first):
            what = (
                "url has a reference in its server; write it out, or begin with one of the whole, as ${input.base}/v1"
            )
            mistakes.add(part.line, what)
        elif first and not _ADDRESS.fullmatch(first):
            what = "url has to begin with https:// and a server, or http://, without a name in it, # or blanks"
            mistakes.add(part.line, f"{what}, not {shown(first)}")
        for piece in text[1:]:
            if isinstance(piece, str) and not _REST.fullmatch(piece):
                mistakes.add(part.line, f"url holds {shown(piece)}; write # and blanks as %23 and %20")
        return text

    def _headers(self, part: Part, roots: Collection[str]) -> dict[str, Template]:
        mistakes = self._mistakes
        made: dict[str, Template] = {}
        for entry in mistakes.entries(part, "headers"):
            if not _TOKEN.fullmatch(entry.key):
                mistakes.add(entry.line, f"{shown(entry.key)} in headers is not a header's name")
            elif entry.key.lower() in _TAKEN:
                mistakes.add(entry.line, f"{entry.key} in headers is taken: it follows from the rest; leave it out")
            elif entry.key.lower() in map(str.lower, made):
                mistakes.add(entry.line, f"{entry.key} twice in headers; keep one")
            else:
                made[entry.key] = argument(entry.value, entry.key, mistakes, roots)
        return made

    def _add_key(self, headers: dict[str, Template], keys: Mapping[str, MarkedEntry], where: str) -> None:
        mistakes = self._mistakes
        name = mistakes.text(keys["key"].value, "key") if "key" in keys else KEY_HEADER
        if name.lower() in map(str.lower, headers):
            if "key" in keys:
                mistakes.add(keys["key"].line, f"{where} gives {name} in key and in headers; keep one")
        elif name and (not _TOKEN.fullmatch(name) or name.lower() in _TAKEN):
            mistakes.add(keys["key"].line, f"key {shown(name)} is not a header that a key can be sent in")
        elif name:
            headers[name] = (Reference(("key",)),)

    def _form(self, part: Part, roots: Collection[str]) -> dict[str, Template]:
        mistakes = self._mistakes
        entries = mistakes.entries(part, "form")
        return {entry.key: argument(entry.value, entry.key, mistakes, roots) for entry in entries}

    def _document(self, part: Part, roots: Collection[str]) -> JsonTemplate:
        if isinstance(part, Listed):
            return [self._document(item, roots) for item in part.items]
        if isinstance(part, Mapped):
            return {entry.key: self._document(entry.value, roots) for entry in part.entries}
        if isinstance(part.value, str):
            return template(part.value, part.line, self._mistakes, roots)
        return part.value

    def _found(self, entry: MarkedEntry) -> tuple[str, ...]:
        path = self._mistakes.text(entry.value, "found")
        if path and not _FOUND.fullmatch(path):
            self._mistakes.add(entry.line, f"found {shown(path)} is not a place in an answer; write it as data.0.id")
            return ()
        return tuple(path.split(".")) if path else ()

    def _statuses(
        self, found: Mapping[str, MarkedEntry], words: tuple[str, ...], default: Mapping[int | str, str]
    ) -> dict[int | str, str]:
        """The meaning of each status. A word that is given says all of its own, but for what is lost anyway."""
        mistakes = self._mistakes
        given: dict[int | str, str] = {}
        entries = mistakes.entries(found["statuses"].value, "statuses", words) if "statuses" in found else ()
        for entry in entries:
            for item in entry.value.items if isinstance(entry.value, Listed) else (entry.value,):
                status = item.value if isinstance(item, Scalar) else None
                is_number = type(status) is int and schema.FIRST_STATUS <= status <= schema.LAST_STATUS
                if not is_number and status not in schema.CLASSES:
                    wanted = f"a number from {schema.FIRST_STATUS} to {schema.LAST_STATUS}, or one of "
                    mistakes.wrong(item, "a status", wanted + ", ".join(schema.CLASSES))
                elif isinstance(status, (int, str)) and given.setdefault(status, entry.key) != entry.key:
                    mistakes.add(item.line, f"status {status} says both {given[status]} and {entry.key}")
        kept = {
            status: word
            for status, word in default.items()
            if (word == "lost" or word not in given.values()) and f"{str(status)[0]}xx" not in given
        }
        return {**kept, **given}
