"""Those who are told, as tests have them: a web server on this machine, and a target without any network."""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
from collections.abc import Generator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from amends.notify import verify_webhook
from amends.notify.notice import ASKING, Notice
from amends.notify.target import Delivered, Delivery, Undelivered

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_" + "b3RoZXIg" * 4


@dataclass
class Came:
    """One request, as it came."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def said(self) -> dict[str, Any]:
        made: dict[str, Any] = json.loads(self.body)
        return made

    def verified(self, secret: str = SECRET) -> dict[str, Any]:
        return verify_webhook(self.headers, self.body, secret)


@dataclass
class Receiver:
    """Answers what it is told to, first to last, and then 204. An answer is a status, or what to write, or a wait."""

    port: int = 0
    answers: list[int | bytes | threading.Event] = field(default_factory=list[int | bytes | threading.Event])
    came: list[Came] = field(default_factory=list[Came])
    scheme: str = "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://localhost:{self.port}/hook?x=1"

    @property
    def ids(self) -> list[str]:
        return [one.id for one in self.came]


@contextlib.contextmanager
def receiving(*answers: int | bytes | threading.Event, tls: ssl.SSLContext | None = None) -> Generator[Receiver]:
    receiver = Receiver(answers=list(answers), scheme="https" if tls else "http")

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            answer = receiver.answers.pop(0) if receiver.answers else 204
            receiver.came.append(Came(self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            if isinstance(answer, threading.Event):
                answer.wait(60)
                self.close_connection = True
            elif isinstance(answer, bytes):
                self.wfile.write(answer)
                self.close_connection = True
            else:
                self.send_response(answer)
                self.send_header("content-length", "0")
                self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """It goes without saying."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Whoever was told may hang up before the answer is out."""

    with Server(("127.0.0.1", 0), Answering) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        receiver.port = server.server_address[1]
        serving = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        serving.start()
        try:
            yield receiver
        finally:
            for answer in receiver.answers:
                if isinstance(answer, threading.Event):
                    answer.set()
            server.shutdown()
            serving.join()


@dataclass
class Friend:
    """A target that is told in memory. It fails as often as `fails` says, why included."""

    name: str = "friend"
    fails: list[Undelivered | Exception] = field(default_factory=list[Undelivered | Exception])
    told: list[Notice] = field(default_factory=list[Notice])
    tried: list[tuple[int, Notice]] = field(default_factory=list[tuple[int, Notice]])
    types: tuple[str, ...] = ASKING
    timeout_s: float = 10.0
    give_up_s: float = 3600.0

    @property
    def shown(self) -> str:
        return f"a friend called {self.name}"

    def check(self) -> None:
        """A friend can always be told."""

    async def deliver(self, notice: Notice, now: int) -> Delivery:
        self.tried.append((now, notice))
        if self.fails:
            failure = self.fails.pop(0)
            if isinstance(failure, Exception):
                raise failure
            return failure
        self.told.append(notice)
        return Delivered()

    @property
    def heard(self) -> list[str]:
        return [notice.about for notice in self.told]
