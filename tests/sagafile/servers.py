"""Real HTTP servers on the loopback: three services that an order needs, and one that answers as a test says."""

import json
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

TOKEN = "token-4711-token"
PATIENCE_S = 10


@dataclass
class Seen:
    """A request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def key(self) -> str:
        return self.headers.get("Idempotency-Key", "")


@dataclass
class Said:
    """An answer. `raw` is written in its place, and the connection is closed."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    raw: bytes | None = None


def as_json(status: int, value: Any) -> Said:
    return Said(status, json.dumps(value).encode(), {"Content-Type": "application/json"})


@contextmanager
def serving(given: Callable[[Seen], Said]) -> Generator[str]:
    """The address of a server that answers so."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            length = int(self.headers.get("Content-Length", "0"))
            said = given(Seen(self.command, self.path, dict(self.headers.items()), self.rfile.read(length)))
            self.close_connection = True
            if said.raw is not None:
                self.wfile.write(said.raw)
                return
            self.send_response(said.status)
            for name, value in {**said.headers, "Content-Length": str(len(said.body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(said.body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"):
        setattr(Handler, f"do_{method}", Handler.answer)

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass  # whoever asked was killed, as a test wanted

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join(PATIENCE_S)


class Shop:
    """Stock, payments and parcels behind one address. `after` is called between an effect and its answer."""

    def __init__(self, after: Callable[[str], None]) -> None:
        self.kept: dict[str, Any] = {}
        self.charges: list[dict[str, Any]] = []
        self.parcels: list[dict[str, Any]] = []
        self.effects: list[str] = []
        self._after = after
        self._lock = threading.Lock()

    def look(self) -> dict[str, Any]:
        """All that stands: kept stock, charges that are not refunded, parcels that are not cancelled."""
        with self._lock:
            return {
                "kept": dict(self.kept),
                "charges": [each["amount"] for each in self.charges if not each["refunded"]],
                "parcels": [each["to"] for each in self.parcels if not each["cancelled"]],
            }

    def clear(self) -> None:
        """Empty shelves and books; what was ever done stays in `effects`."""
        with self._lock:
            self.kept, self.charges, self.parcels = {}, [], []

    def answer(self, seen: Seen) -> Said:
        address = urlsplit(seen.path)
        room, _, name = address.path.strip("/").partition("/")
        with self._lock:
            effect, said = self._judged(seen, room, name, dict(parse_qsl(address.query)))
            if effect:
                self.effects.append(effect)
        if effect:
            self._after(effect)
        return said

    def _judged(self, seen: Seen, room: str, name: str, asked_for: dict[str, str]) -> tuple[str, Said]:
        if room in {"charges", "refunds"} and seen.headers.get("Authorization") != f"Bearer {TOKEN}":
            return "", as_json(401, {"error": "who are you?"})
        rows = self.charges if room in {"charges", "refunds"} else self.parcels
        match seen.method, room:
            case "PUT", "kept":
                self.kept[name] = json.loads(seen.body)
                return "keep", as_json(200, self.kept[name])
            case "GET", "kept":
                return "", as_json(200, self.kept[name]) if name in self.kept else as_json(404, {})
            case "DELETE", "kept":
                return ("put back", Said(204)) if self.kept.pop(name, None) else ("", as_json(404, {}))
            case "GET", "charges" | "parcels":
                standing = [{name: json.dumps(value).strip('"') for name, value in row.items()} for row in rows]
                found = [row for row, texts in zip(rows, standing, strict=True) if asked_for.items() <= texts.items()]
                return "", as_json(200, {"data": found})
            case "POST", "charges":
                given = parse_qs(seen.body.decode())
                row = {"id": f"ch_{len(rows)}", "key": seen.key, "amount": given["amount"][0], "refunded": False}
                rows.append(row)
                return "charge", as_json(201, row)
            case "POST", "parcels":
                given = json.loads(seen.body)
                row = {"id": f"pa_{len(rows)}", "key": seen.key, **given, "cancelled": False}
                rows.append(row)
                return "book", as_json(201, row)
            case "POST", "refunds" | "cancelled":
                asked = json.loads(seen.body)
                by, flag, effect = (
                    ("charged_with", "refunded", "refund")
                    if room == "refunds"
                    else ("booked_with", "cancelled", "cancel")
                )
                found = [row for row in rows if row["key"] == asked[by]]
                if not found:
                    return "", as_json(404, {})
                is_new = not found[0][flag]
                found[0][flag] = True
                return effect if is_new else "", as_json(200, found[0])
            case _:
                return "", as_json(404, {"error": f"{seen.method} {seen.path}"})
