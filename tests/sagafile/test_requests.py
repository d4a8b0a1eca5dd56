"""Sagas of requests: what is sent, what an answer says, what never gets out, and a kill between effect and record."""

import asyncio
import gzip
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from amends.bootstrap import Coordinator
from amends.core.events import AttemptFailed, AttemptLost
from amends.core.words.values import Json
from amends.errors import InputError, NotDone, SagaFileError
from amends.runtime.coordinator.lists import History
from amends.runtime.declare.registry import PROCESS
from amends.runtime.engine.handle import Ended
from amends.sagafile import parse_saga
from amends.sagafile.exchange import exchange, kept, outlined, whole
from amends.sagafile.model import HttpRequest
from amends.sagafile.program import KEPT
from tests.sagafile.places import EXAMPLES
from tests.sagafile.servers import PATIENCE_S, TOKEN, Said, Seen, Shop, as_json, serving

HEAD = """
version: v1
saga: a
inputs: {at: text, x: {default: ''}, y: {type: map, default: {}}}
steps:
"""


@pytest.fixture(autouse=True)
def forgetting(monkeypatch: pytest.MonkeyPatch) -> None:
    for known in ("_actions", "_definitions"):
        monkeypatch.setattr(PROCESS, known, dict(getattr(PROCESS, known)))
    monkeypatch.setenv("TOKEN", TOKEN)


def run(place: Path, steps: str, **given: Any) -> tuple[Ended, History]:
    """Run a file of these steps to its end."""

    async def run_whole() -> tuple[Ended, History]:
        saga = parse_saga(f"{HEAD}{steps}", name="s.yaml", directory=str(place))
        async with Coordinator.open(str(place / "a.db"), signals=False) as coordinator:
            ended = await coordinator.run(saga, **given)
            return ended, await coordinator.show(ended.id)

    return asyncio.run(run_whole())


def mistakes(steps: str) -> tuple[str, ...]:
    with pytest.raises(SagaFileError) as refused:
        parse_saga(f"{HEAD}{steps}", name="s.yaml", directory="/")
    return refused.value.mistakes


def kinds(history: History) -> list[str]:
    return [type(entry.event).__name__ for entry in history.entries]


@contextmanager
def listening(*answers: Said) -> Generator[tuple[str, list[Seen]]]:
    """A server that gives these answers in turn, the last for ever; and what it was asked."""
    seen: list[Seen] = []

    def answer(asked: Seen) -> Said:
        seen.append(asked)
        return answers[min(len(seen), len(answers)) - 1]

    with serving(answer) as address:
        yield address, seen


# -- what is sent -----------------------------------------------------------------------------------------------------


def test_a_value_is_one_part_of_an_address_whatever_it_holds(tmp_path: Path) -> None:
    steps = "  - {id: s, http: {url: '${input.at}/of/${input.x}?q=${input.x}'}, read_only: true}"
    with listening(Said()) as (address, seen):
        ended, _ = run(tmp_path, steps, at=f"{address}/", x="../a b?c=d&e#f/é")
        assert ended.status == "completed", ended.why
    part = "..%2Fa%20b%3Fc%3Dd%26e%23f%2F%C3%A9"
    assert seen[0].path == f"/of/{part}?q={part}"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"at": "http://127.0.0.1:9", "x": ".."}, "has a part that is . or .."),
        ({"at": "http://me@127.0.0.1:9", "x": "a"}, "${input.at} has to be a server"),
        ({"at": "http://127.0.0.1:9/?to=", "x": "a"}, "${input.at} has to be a server"),
        ({"at": "file:///etc/passwd", "x": "a"}, "${input.at} has to be a server"),
        ({"at": "http://127.0.0.1:9", "x": "a", "y": {"header": "a\r\nEvil: b"}}, "header X-Y would hold"),
    ],
)
def test_a_value_cannot_lead_a_request_elsewhere_or_add_to_it(given: dict[str, Any], told: str, tmp_path: Path) -> None:
    steps = """
  - id: s
    http: {method: POST, url: "${input.at}/${input.x}", headers: {X-Y: "${input.y.header}"}}
    idempotent: true
    compensate: ["true"]
"""
    ended, _ = run(tmp_path, steps, **{"y": {"header": "fine"}, **given})
    assert ended.status == "rolled_back"
    assert told in ended.why


def test_json_keeps_the_types_of_what_is_referred_to_and_the_key_is_a_header(tmp_path: Path) -> None:
    steps = """
  - id: s
    http:
      method: POST
      url: ${input.at}/s
      json: {whole: "${input.y}", text: "n=${input.y.n}", n: "${input.y.n}", list: [1, true, null, "${key}", "$${x}"]}
    compensate:
      http: {method: POST, url: "${input.at}/back", json: {of: "${result.json.id}", certain: "${certain}"}}
  - {id: then, http: {method: POST, key: X-Key, url: "${input.at}/fail"}, atomic: true, no_rollback: a test}
"""
    with listening(as_json(201, {"id": 7}), Said(500), Said(204)) as (address, seen):
        ended, _ = run(tmp_path, steps, at=address, y={"n": 3, "join": [{"of": "key"}]})
    assert ended.status == "rolled_back"
    first, second, back = seen
    body = {
        "whole": {"n": 3, "join": [{"of": "key"}]},
        "text": "n=3",
        "n": 3,
        "list": [1, True, None, first.key, "${x}"],
    }
    assert json.loads(first.body) == body
    assert first.headers["Content-Type"] == "application/json"
    assert first.key
    assert "X-Key" in second.headers
    assert json.loads(back.body) == {"of": 7, "certain": True}
    assert back.key not in {"", first.key}


def test_a_form_and_a_text_are_sent_as_they_are(tmp_path: Path) -> None:
    steps = """
  - {id: f, http: {method: POST, url: "${input.at}/f", form: {a: "${input.x}", b: 1}}, no_rollback: a test}
  - {id: t, http: {method: PUT, url: "${input.at}/t", body: "x=${input.x}", headers: {content-type: text/csv}},
     no_rollback: a test}
"""
    with listening(Said()) as (address, seen):
        ended, _ = run(tmp_path, steps, at=address, x="é & ü")
    assert ended.status == "completed"
    assert (seen[0].body, seen[0].headers["Content-Type"]) == (
        b"a=%C3%A9+%26+%C3%BC&b=1",
        "application/x-www-form-urlencoded",
    )
    assert (seen[1].body.decode(), seen[1].headers["content-type"]) == ("x=é & ü", "text/csv")


def test_what_a_person_approves_shows_what_is_known_only_later_by_its_name() -> None:
    steps = """
  - {id: a, http: {url: "${input.at}/a"}, read_only: true}
  - id: s
    http: {method: POST, url: "${input.at}/x", json: {n: "${steps.a.json.n}", k: "k ${key}", i: "${input.x}"}}
    no_rollback: a test
"""
    request = parse_saga(HEAD + steps, name="s.yaml", directory="/").written.steps[1].command
    assert isinstance(request, HttpRequest)
    made = kept(request, {"input": {"at": "https://a.example", "x": "${key}"}})
    assert made["json"] == {"n": "${steps.a.json.n}", "k": "k ${key}", "i": "${key}"}
    assert made["url"] == "https://a.example/x"
    assert str(outlined(made)["json"]["n"].text) == "{{steps.a.json.n}}"
    known: dict[str, Json] = {"key": "K", "steps": {"a": {"body": '{"n": [1]}', "status": 200}}}
    assert whole(made, known)["json"] == {"n": [1], "k": "k K", "i": "${key}"}  # what looked like a reference is a text


# -- what an answer says ----------------------------------------------------------------------------------------------

STEP = "  - {id: s, http: {method: POST, url: '${input.at}/s'}, compensate: {http: {url: '${input.at}/back'}}%s}"


@pytest.mark.parametrize(
    ("more", "status", "says"),
    [
        ("", 204, "completed"),
        ("", 400, "failed"),
        ("", 404, "failed"),
        ("", 409, "lost"),
        ("", 500, "lost"),
        ("", 503, "lost"),
        ("", 302, "lost"),
        (", atomic: true", 500, "failed"),
        (", atomic: true", 409, "failed"),
        (", statuses: {failed: [4xx, 503]}", 503, "failed"),
        (", statuses: {failed: [4xx, 503]}", 409, "failed"),
        (", statuses: {failed: [422]}", 400, "lost"),
        (", statuses: {failed: [422]}", 409, "lost"),
        (", statuses: {succeeded: [201]}", 200, "lost"),
        (", statuses: {succeeded: [2xx, 409]}", 409, "completed"),
        (", statuses: {fatal: [5xx]}", 500, "fatal"),
    ],
)
def test_a_status_says_what_its_file_or_else_the_table_has_for_it(
    more: str, status: int, says: str, tmp_path: Path
) -> None:
    def answer(asked: Seen) -> Said:
        return Said(200 if asked.path == "/back" else status, b"so it is")

    with serving(answer) as address:
        ended, history = run(tmp_path, STEP % more, at=address)
    if says == "completed":
        assert ended.status == "completed"
        return
    assert ended.status == "rolled_back"
    assert f"was answered with {status}: so it is" in ended.why
    events = [entry.event for entry in history.entries]
    assert any(isinstance(each, AttemptLost) for each in events) == (says in {"lost", "fatal"})
    taken_back = any("Compensat" in kind for kind in kinds(history))
    assert taken_back == (says != "failed")  # certainly nothing happened: there is nothing to take back


def test_a_connection_that_is_refused_is_certain_and_one_that_breaks_is_not(tmp_path: Path) -> None:
    with listening(Said()) as (address, _):
        pass  # and nobody listens there any more
    ended, history = run(tmp_path, STEP % "", at=address)
    assert "was not sent" in ended.why
    assert "AttemptLost" not in kinds(history)
    for broken in (b"", b"HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\nhalf", b"not http\r\n\r\n"):
        with listening(Said(raw=broken), Said(200)) as (address, _):
            ended, history = run(tmp_path, STEP % "", at=address)
        assert "was sent, and has no whole answer" in ended.why
        assert "AttemptLost" in kinds(history)


def test_an_answer_that_does_not_come_in_time_is_lost(tmp_path: Path) -> None:
    done = threading.Event()

    def answer(asked: Seen) -> Said:
        if asked.path == "/s":
            done.wait(PATIENCE_S)
        return Said()

    with serving(answer) as address:
        ended, history = run(tmp_path, STEP % ", timeout: 1s", at=address)
        done.set()
    assert ended.status == "rolled_back"
    assert "AttemptLost" in kinds(history)


def test_what_is_lost_is_repeated_with_the_same_key_where_that_is_the_same_as_once(tmp_path: Path) -> None:
    with listening(Said(503), Said(raw=b""), as_json(201, {})) as (address, seen):
        ended, _ = run(tmp_path, STEP % ", idempotent: true", at=address)
    assert ended.status == "completed"
    assert len({asked.key for asked in seen}) == 1
    assert len(seen) == 3


def test_a_server_says_how_long_it_wants_to_be_left_alone(tmp_path: Path) -> None:
    with listening(Said(429, headers={"Retry-After": "2"}), Said(200)) as (address, seen):
        ended, history = run(tmp_path, STEP % ", retry: 2", at=address)
    assert (ended.status, len(seen)) == ("completed", 2)
    ((at, failed),) = ((entry.at, entry.event) for entry in history.entries if isinstance(entry.event, AttemptFailed))
    assert failed.retry_at is not None
    assert failed.retry_at - at >= 1900  # otherwise a second at most


def test_a_probe_of_a_list_says_by_what_it_holds_whether_it_happened(tmp_path: Path) -> None:
    steps = """
  - id: s
    http: {method: POST, url: "${input.at}/s"}
    probe: {http: {url: "${input.at}/s?key=${key}"}, found: data.0}
    compensate: {http: {method: DELETE, url: "${input.at}/s"}}
result: {id: "${steps.s.json.id}", status: "${steps.s.status}"}
"""
    for found, result in (([{"id": 9}], {"id": "9", "status": "200"}), ([], None)):
        with listening(Said(500), as_json(200, {"data": found}), Said(400)) as (address, seen):
            ended, _ = run(tmp_path, steps, at=address)
        assert ended.result == result
        assert seen[1].path == f"/s?key={seen[0].key}"
    with listening(Said(500), Said(200, b"<html>"), Said(200)) as (address, seen):
        ended, _ = run(tmp_path, steps, at=address)
    assert ended.status == "rolled_back"  # the probe has no answer: it is taken back as uncertain
    assert seen[-1].method == "DELETE"


def test_a_compensation_that_finds_something_changed_calls_a_person(tmp_path: Path) -> None:
    steps = """
  - id: s
    http: {method: PUT, url: "${input.at}/s"}
    before: {http: {url: "${input.at}/s"}}
    compensate:
      http: {method: PUT, url: "${input.at}/s", headers: {If-Match: "${result.headers.etag}"}, body: "${before.body}"}
  - {id: then, http: {method: POST, url: "${input.at}/fail"}, atomic: true, no_rollback: a test}
"""
    answers = (Said(200, b"old"), Said(200, headers={"ETag": '"2"'}), Said(400), Said(412))
    with listening(*answers) as (address, seen):
        ended, _ = run(tmp_path, steps, at=address)
    assert ended.status == "incident"
    assert (seen[3].headers["If-Match"], seen[3].body) == ('"2"', b"old")
    assert len(seen) == 4


# -- redirects, sizes, secrets ----------------------------------------------------------------------------------------


def test_a_redirect_is_followed_on_the_same_server_only() -> None:
    moved = Said(307, headers={"Location": "/new"})
    with listening(Said(200, b"there")) as (other, seen_there):
        away = Said(307, headers={"Location": f"{other}/taken"})
        with listening(moved, Said(200, b"here"), away, Said(303, headers={"Location": "/x"}), moved) as (
            address,
            seen,
        ):
            asked = {"method": "POST", "url": f"{address}/old", "json": 1, "headers": {"Authorization": TOKEN}}
            answer = asyncio.run(exchange(asked, timeout_s=5))
            assert (answer.status, answer.body) == (200, "here")
            assert [(each.path, each.body) for each in seen] == [("/old", b"1"), ("/new", b"1")]
            answer = asyncio.run(exchange(asked, timeout_s=5))
            assert (answer.status, answer.headers["location"]) == (307, f"{other}/taken")
            assert f"answered with 307 and {other}/taken" in answer.told
            assert asyncio.run(exchange(asked, timeout_s=5)).status == 303
            with pytest.raises(Exception, match="redirected more than 5 times"):
                asyncio.run(exchange(asked, timeout_s=5))
    assert seen_there == []


def test_an_answer_is_kept_up_to_a_bound_and_read_up_to_another(tmp_path: Path) -> None:
    steps = """
  - {id: s, http: {method: POST, url: "${input.at}/s"}, compensate: {http: {url: "${input.at}/back"}}}
  - {id: t, run: [echo, "${steps.s.body}"], compensate: ["true"]}
"""
    with listening(Said(200, b"x" * (KEPT + 1)), Said(200)) as (address, _):
        ended, history = run(tmp_path, steps, at=address)
    assert "the answer was more than is kept" in ended.why
    assert sum(len(str(entry.body)) for entry in history.entries) < 3 * KEPT

    def endless(asked: Seen) -> Said:
        return Said(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n" + b"x" * 3_000_000)

    with serving(endless) as address:
        answer = asyncio.run(exchange({"method": "GET", "url": address}, timeout_s=5))
    assert (answer.status, answer.cut) == (200, True)
    packed = Said(200, gzip.compress(b"x" * 10_000_000), {"Content-Encoding": "gzip"})
    with listening(packed) as (address, seen):
        answer = asyncio.run(exchange({"method": "GET", "url": address}, timeout_s=5))
    assert (answer.cut, answer.body) == (True, "")
    assert seen[0].headers["Accept-Encoding"] == "identity"


def test_a_secret_reaches_its_server_and_nothing_else(tmp_path: Path) -> None:
    steps = """
  - id: s
    http:
      method: POST
      url: ${input.at}/s
      headers: {Authorization: "Bearer ${secret.TOKEN}"}
      json: {also: "${secret.TOKEN}"}
    compensate: {http: {url: "${input.at}/back", headers: {Authorization: "Bearer ${secret.TOKEN}"}}}
  - {id: t, http: {method: POST, url: "${input.at}/t", form: {t: "${secret.TOKEN}"}}, no_rollback: a test}
"""
    echo = Said(200, f"you said {TOKEN}".encode(), {"Location": f"/x?{TOKEN}"})
    with listening(echo, Said(422, f"no, {TOKEN}".encode()), Said(200)) as (address, seen):
        ended, history = run(tmp_path, steps, at=address)
    assert ended.status == "rolled_back"
    assert [asked.headers.get("Authorization") for asked in seen] == [f"Bearer {TOKEN}", None, f"Bearer {TOKEN}"]
    assert json.loads(seen[0].body) == {"also": TOKEN}
    assert seen[1].body == f"t={TOKEN}".encode()
    everything = json.dumps([str(entry.body) for entry in history.entries]) + str(ended) + ended.why
    assert "you said [secret]" in everything
    assert "no, [secret]" in ended.why
    assert TOKEN not in everything
    assert TOKEN.encode() not in b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())


def test_a_saga_of_requests_does_not_begin_without_what_sends_them(monkeypatch: pytest.MonkeyPatch) -> None:
    saga = parse_saga(f"{HEAD}{STEP % ''}", name="s.yaml", directory="/")
    monkeypatch.setattr("amends.sagafile.definition.find_spec", dict[str, None]().get)
    with pytest.raises(InputError, match=r"pip install 'amends\[http\]'"):
        saga.bind_document({"at": "http://a.example"})
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(NotDone, match=r"pip install 'amends\[http\]'"):
        asyncio.run(exchange({"method": "GET", "url": "http://127.0.0.1:9"}, timeout_s=1))


# -- mistakes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "told"),
    [
        ("http: {method: POST}", "s.yaml:6: step s has http without url"),
        ("http: {url: a.example}", "url has to begin with https:// and a server, or http://"),
        ("http: {url: 'https://me:pw@a.example/'}", "url has to begin with https:// and a server"),
        (
            "http: {url: 'https://${input.x}.example/'}",
            "url has a reference in its server; write it out, or begin with",
        ),
        ("http: {url: 'https://${secret.T}/'}", "unknown reference 'secret'"),
        ("http: {url: '${steps.x.body}'}", "the server stands in the file, or in an input"),
        ("http: {url: 'https://a.example/#x'}", "url has to begin"),
        ("http: {url: 'https://a.example/${input.x} y'}", "url holds ' y'; write # and blanks as %23 and %20"),
        ("http: {url: 'https://a.example', method: post}", "unknown method 'post'; known: GET, HEAD, POST"),
        ("http: {url: 'https://a.example', json: 1}", "step s sends GET with json; write method: POST"),
        ("http: {method: POST, url: 'https://a.example', json: 1, form: {a: b}}", "has json and form; keep one"),
        ("http: {url: 'https://a.example', header: {}}", "unknown key 'header' in http; did you mean headers?"),
        ("http: {url: 'https://a.example', headers: {Host: b}}", "Host in headers is taken"),
        ("http: {url: 'https://a.example', headers: {'a b': c}}", "'a b' in headers is not a header's name"),
        ("http: {url: 'https://a.example', headers: {A: b, a: c}}", "a twice in headers; keep one"),
        ("http: {url: 'https://a.example', headers: {A: '${secret.T.x}'}}", "a secret is named by a variable"),
        ("http: {url: 'https://a.example', key: K}", "step s sends GET without a key: leave key out"),
        ("http: {method: PUT, url: 'https://a.example', key: K, headers: {k: v}}", "gives K in key and in headers"),
        ("http: {url: 'https://a.example'}, run: [a]", "step s has both http and run; keep one"),
        ("http: {url: 'https://a.example'}, secrets: [A]", "in http write ${secret.NAME} where it is needed"),
        ("http: {url: 'https://a.example'}, exit_codes: {failed: [1]}", "what a status says stands in statuses"),
        ("http: {url: 'https://a.example'}, statuses: {failed: [99]}", "a status has to be a number from 200 to 599"),
        ("http: {url: 'https://a.example'}, statuses: {ok: [200]}", "unknown key 'ok' in statuses"),
        ("http: {url: 'https://a.example'}, statuses: {failed: [4xx], lost: [4xx]}", "4xx says both failed and lost"),
        ("http: {url: 'https://a.example'}, probe: [a]", "step s and its probe are of two kinds"),
        ("run: [a], statuses: {failed: [400]}", "step s is a command, and statuses is for http"),
        (
            "http: {url: 'https://a.example'}, probe: {http: {method: DELETE, url: 'https://a.example'}}",
            "probe sends DELETE, and may only look: GET, HEAD or POST",
        ),
        (
            "http: {url: 'https://a.example'}, compensate: {http: {url: 'https://a.example/${result.stdout}'}}",
            "unknown output 'stdout' in ${result.stdout}; known: status, body, headers, json",
        ),
        (
            "http: {url: 'https://a.example'}, compensate: {http: {url: 'https://a.example/${result.headers.x}'}}",
            "unknown header 'x' in ${result.headers.x}; known: content-type, etag",
        ),
    ],
)
def test_a_mistake_is_told_with_its_line_and_what_to_do(step: str, told: str) -> None:
    found = mistakes(f"  - {{id: s, {step}}}")
    assert told in found[0], found


# -- three services, and a kill between effect and record -------------------------------------------------------------


class Order:
    """The example's saga in a directory of its own, and its three services."""

    def __init__(self, place: Path, address: str, shop: Shop) -> None:
        self.place, self.shop = place, shop
        shutil.copy(EXAMPLES / "order.yaml", place)
        services = dict.fromkeys(("stock", "payments", "parcels"), address)
        self.said, self.code = "", 0
        self.given = {"order": "o-1", "item": "lamp", "cents": 4200, "to": "Lisbon", **services}
        self.env = {**os.environ, "PAYMENTS_TOKEN": TOKEN}

    def begin(self) -> subprocess.Popen[bytes]:
        words = ["run", "order.yaml", "--input", json.dumps(self.given), "--id", "s-1"]
        command = [sys.executable, "-m", "amends.cli.main", *words, "--journal", "a.db"]
        return subprocess.Popen(command, cwd=self.place, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def resume(self) -> str:
        command = [sys.executable, "-m", "amends.cli.main", "resume", "--journal", "a.db"]
        done = subprocess.run(command, cwd=self.place, env=self.env, capture_output=True, timeout=60, check=False)
        return done.stdout.decode() + done.stderr.decode()


NOTHING: dict[str, Any] = {"kept": {}, "charges": [], "parcels": []}
ALL = {"kept": {"o-1": {"item": "lamp", "count": 1}}, "charges": ["4200"], "parcels": ["Lisbon"]}


@contextmanager
def an_order(place: Path, *, killed_after: str = "", fails: str = "") -> Generator[Order]:
    """`killed_after`: the effect that is there when its process is killed, before it hears of it; `fails`: the step
    that its service refuses.
    """
    processes: list[subprocess.Popen[bytes]] = []
    begun = threading.Event()

    def after(effect: str) -> None:
        begun.wait(PATIENCE_S)
        if effect == killed_after and processes:
            process = processes.pop()
            process.kill()
            process.wait(PATIENCE_S)

    shop = Shop(after)
    refused = {"book": "/parcels"}.get(fails)

    def answer(asked: Seen) -> Said:
        if refused and asked.path == refused:
            return as_json(422, {"error": "no parcels go there"})
        return shop.answer(asked)

    with serving(answer) as address:
        order = Order(place, address, shop)
        process = order.begin()
        processes.append(process)
        begun.set()
        order.said = process.communicate(timeout=60)[0].decode()
        order.code = process.returncode
        yield order


def test_a_saga_over_three_services_needs_no_python(tmp_path: Path) -> None:
    with an_order(tmp_path) as order:
        assert order.code == 0, order.said
        assert order.shop.look() == ALL
        assert '{"charge": "ch_0", "parcel": "pa_0"}' in order.said
        assert order.resume() == "nothing to resume\n"


def test_what_a_service_refuses_takes_the_others_back(tmp_path: Path) -> None:
    with an_order(tmp_path, fails="book") as order:
        assert order.code == 3, order.said
        assert "no parcels go there" in order.said
        assert order.shop.look() == NOTHING
        assert order.shop.effects == ["keep", "charge", "refund", "put back"]


@pytest.mark.parametrize("effect", ["keep", "charge", "book"])
def test_a_kill_between_an_effect_and_its_record_is_settled_and_each_effect_is_there_once(
    effect: str, tmp_path: Path
) -> None:
    with an_order(tmp_path, killed_after=effect) as order:
        assert order.code == -9, order.said
        assert order.shop.effects[-1] == effect
        (tmp_path / "order.yaml").unlink()  # the journal has it as it was
        said = order.resume()
        assert "s-1 completed" in said, said
        assert order.shop.look() == ALL
        assert [name for name in order.shop.effects if name != "keep"] == ["charge", "book"]


@pytest.mark.parametrize("effect", ["refund", "put back"])
def test_a_kill_between_a_compensation_and_its_record_takes_nothing_back_twice(effect: str, tmp_path: Path) -> None:
    with an_order(tmp_path, killed_after=effect, fails="book") as order:
        assert order.code == -9, order.said
        said = order.resume()
        assert "s-1 rolled back" in said, said
        assert order.shop.look() == NOTHING
        assert order.shop.effects == ["keep", "charge", "refund", "put back"]
