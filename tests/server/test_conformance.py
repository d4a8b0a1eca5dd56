"""The API held against its own document by schemathesis: thousands of requests, none of which ends in a 500.

`make test-server` sends some two thousand; with AMENDS_TESTS=rest more than ten thousand.
"""

import re
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.parts import rest
from tests.server.client import Client
from tests.server.serving import PYTHON, Serving, run_cli, serving

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "missing_required_header",
    "unsupported_method",
)
NAMED_BY_WHAT_THEY_SAY = frozenset(
    [
        "open_session",
        "do_step",
        "ask_in_session",
        "call_in_session",
        "settle_in_session",
        "checkpoint_session",
        "rollback_session_to",
        "lock_in_session",
        "complete_session",
        "fail_session",
        "cancel_session",
        "detach_session",
        "report_attempt",
    ]
)
"""A step by its call, a report by its token: sent again, each is the same request."""
STREAM, REVOKE = "/v1/events", "/v1/tokens/{token}/revoke"
"""A stream has no end, and the token that is revoked may be the one that asks."""


@pytest.fixture
def server(tmp_path: Path) -> Generator[Serving]:
    """A server with sagas in several states: some have ended, one waits, one is an incident, one needs an approval."""
    folder = tmp_path / "s"
    folder.mkdir(mode=0o700)
    policy = 'version: v1\ndefault: allow\nrules: [{id: r, when: {topic: "shop.ship"}, decision: require_human}]\n'
    (folder / "policy.yaml").write_text(policy)
    adopt = ["policy", "adopt", str(folder / "policy.yaml"), "--why", "first", "--by", "person:admin"]
    run_cli(*adopt, journal=folder / "journal.db")
    with serving(folder, "--module", "tests.server.shop", journal=folder / "journal.db") as started:
        with Client(started) as client:
            for saga, definition, order in (("a", "order", "o"), ("b", "order", "stuck"), ("c", "parcel", "o")):
                body = {"definition": f"shop.{definition}", "input": {"order": order}, "id": saga}
                client.told("/sagas", body)
            client.until("a", "saga.completed")
            client.until("b", "incident.opened")
            client.until("c", "wait.started")
            client.told("/sagas/c/signal", {"name": "home"})
            client.until("c", "approval.requested")
        yield started


def _requests(server: Serving, *words: str, examples: int) -> int:
    """How many requests schemathesis has sent, none of which showed anything wrong."""
    command = [str(Path(PYTHON).with_name("schemathesis")), "run", f"{server.url}/v1/openapi.json", *words]
    command += ["--header", f"Authorization: Bearer {server.token}", "--checks", ",".join(CHECKS)]
    # One worker, as by default: with several, Python 3.11's own parser may take one thread's depth for another's.
    command += ["--phases", "coverage,fuzzing", "--max-examples", str(examples), "--seed", "1"]
    command += ["--request-timeout", "90"]  # a request may wait for 60 s, when it asks for that
    command += ["--generation-with-security-parameters", "false", "--generation-database", "none", "--no-color"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=server.journal.parent, check=False)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr
    (count,) = re.findall(r"(\d+) generated", done.stdout)
    assert "only 401/403 responses" not in done.stdout
    return int(count)


@pytest.mark.parametrize(("examples", "least"), [(10, 1_500), pytest.param(260, 10_000, marks=rest)])
def test_nothing_that_schemathesis_sends_is_answered_otherwise_than_the_document_says(
    server: Serving, examples: int, least: int
) -> None:
    assert _requests(server, "--exclude-path", STREAM, "--exclude-path", REVOKE, examples=examples) >= least
    assert _requests(server, "--include-path", REVOKE, examples=examples) > 20
    with Client(server) as client:
        assert client.http.get("/health/ready").status_code == 200


def test_the_document_describes_every_operation_and_every_answer(server: Serving) -> None:
    with Client(server) as client:
        found: dict[str, Any] = client.get("/openapi.json").json()
    assert found["openapi"].startswith("3.1")
    for path, methods in found["paths"].items():
        for method, one in methods.items():
            assert one["summary"], (path, method)
            assert {"default"} < set(one["responses"]), (path, method)
            assert "application/problem+json" in one["responses"]["default"]["content"]
            if method == "post":
                is_keyed = "Idempotency-Key" in {parameter["name"] for parameter in one["parameters"]}
                assert is_keyed or one["operationId"] in NAMED_BY_WHAT_THEY_SAY, path
