"""A client of a server for tests: JSON in and out, a new key for each request unless one is given."""

import uuid
from time import monotonic
from typing import Any, Self, cast

import httpx2

from tests.server.serving import Serving

_PATIENCE_S = 40.0


class Client:
    """Requests of one caller. `post` and `get` give the answer; `told` its body, which has to be no problem."""

    def __init__(self, server: Serving, token: str | None = None) -> None:
        self.server = server
        self.http = httpx2.Client(base_url=server.url, headers=server.headers(token), timeout=30)

    def client(self, name: str, *scopes: str, definitions: list[str] | None = None) -> "Client":
        """A client with a new token, which this one has made."""
        made = self.told("/tokens", {"name": name, "scopes": list(scopes), "definitions": definitions})
        return Client(self.server, made["secret"])

    def get(self, path: str, **params: Any) -> httpx2.Response:
        return self.http.get(f"/v1{path}", params=params)

    def post(self, path: str, body: dict[str, Any] | None = None, *, key: str | None = None) -> httpx2.Response:
        headers = {"Idempotency-Key": key or uuid.uuid4().hex}
        return self.http.post(f"/v1{path}", json=body or {}, headers=headers)

    def told(self, path: str, body: dict[str, Any] | None = None, *, key: str | None = None) -> dict[str, Any]:
        answer = self.post(path, body, key=key)
        assert answer.status_code < 300, answer.text
        return cast("dict[str, Any]", answer.json())

    def saga(self, saga: str) -> dict[str, Any]:
        return cast("dict[str, Any]", self.get(f"/sagas/{saga}").json())

    def names(self, saga: str) -> list[str]:
        """The names of a saga's entries, without their version."""
        return [one["name"].partition("/")[0] for one in self.get(f"/sagas/{saga}/entries").json()["items"]]

    def until(self, saga: str, name: str) -> None:
        """Wait for an entry of this name, by the stream of events."""
        since = monotonic()
        with self.http.stream("GET", "/v1/events", params={"saga": saga, "after": 0}) as stream:
            for line in stream.iter_lines():
                if line.startswith(f"event: {name}/"):
                    return
                if monotonic() - since > _PATIENCE_S:  # a line comes every 15 s at least
                    break
        raise AssertionError(f"{saga} came not to {name}, but to {', '.join(self.names(saga))}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()
