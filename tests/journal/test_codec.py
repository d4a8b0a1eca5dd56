"""What is on disk stays readable: names, bodies, upcasts, and the refusal of everything that does not fit."""

import json
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import cast, get_args

import pytest
from hypothesis import given, strategies as st

from amends.core import events as e
from amends.core.transitions import StepStatus
from amends.core.words.contracts import Contract, Topic
from amends.core.words.values import LARGEST_INT, LARGEST_VALUE, Json, StepId, canonical, digest, spell_once
from amends.core.words.verdict import Need
from amends.errors import JournalDamagedError, JournalVersionError, NotJsonError, TooLargeError
from amends.journal import codec, fields as journal_fields
from amends.journal.codec import (
    FIRST,
    UPCASTS,
    WIRE,
    chain,
    decode,
    encode,
    has_parts,
    references,
    removed_digest,
    without_payload,
)
from amends.journal.fields import INLINE, layouts
from amends.testing.journal_suite.samples import CONTRACT, EVERY_EVENT, STEP, proposed, started, succeeded

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
JSON: st.SearchStrategy[Json] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-LARGEST_INT, LARGEST_INT)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)

# The format on disk. A line here may be added, never changed: a new shape gets a new number and an upcast.
FROZEN = {
    "saga.started/1": (
        "actor attempts? because? compensation_attempts? definition env files? input labels limits? "
        "module? own? rollback_s? session? taken_for? version"
    ),
    "saga.completed/1": "early? result",
    "saga.rolled_back/1": "",
    "saga.mitigated/1": "",
    "saga.halted/1": "",
    "work.finished/1": "early? result",
    "work.resumed/1": "by deadline_at? own? raises? signed?",
    "checkpoint.made/1": "name place",
    "rewind.started/1": "above? attempt? by deadline_at own? place step? steps to? why",
    "rewind.ended/1": "place taken_back",
    "family.settled/1": "by",
    "release.started/1": "step",
    "release.ended/1": "step",
    "rollback.awaited/1": "above? by cause floor? mitigate? own? step to? why",
    "rollback.started/1": "by cause deadline_at mitigate? own? step why",
    "rollback.resumed/1": "by deadline_at mitigate? own? signed?",
    "step.proposed/1": "after? ahead? args call? contract digest step topic version",
    "action.dispatched/1": "after? args call? contract? digest key policy rule step told? topic version",
    "action.allowed/1": "policy rule step told?",
    "action.denied/1": "policy rule step told? why",
    "step.throttled/1": "most per_s policy rule step until",
    "step.placed/1": "call? place step",
    "step.dropped/1": "step why",
    "before.captured/1": "before step",
    "lock.awaited/1": "holder resources step until",
    "lock.taken/1": "step",
    "lock.refused/1": "deadlock? error step",
    "after.captured/1": "after step",
    "attempt.started/1": "attempt key step",
    "attempt.succeeded/1": "attempt confinement? layer? opaque? result step",
    "attempt.failed/1": "attempt confinement? error fatal retry_at step where?",
    "attempt.lost/1": "attempt confinement? error fatal final? retry_at step where?",
    "probe.found/1": "opaque? result step",
    "probe.found_nothing/1": "retry_at step",
    "probe.unanswered/1": "error retry_at step where?",
    "late_success.enrolled/1": "attempt opaque? result step",
    "late_loss.enrolled/1": "attempt error step where?",
    "compensation.started/1": "attempt certain key let_run_by? policy rule step told?",
    "compensation.succeeded/1": "attempt step",
    "compensation.failed/1": "attempt changed_since error retry_at step where?",
    "compensation.lost/1": "attempt error retry_at step timed_out where?",
    "compensation.denied/1": "policy rule step told? why",
    "mitigation.started/1": "attempt key let_run_by? policy rule step told?",
    "mitigation.succeeded/1": "attempt step",
    "mitigation.failed/1": "attempt changed_since error retry_at step where?",
    "mitigation.lost/1": "attempt error retry_at step timed_out where?",
    "mitigation.denied/1": "policy rule step told? why",
    "approval.requested/1": "digest expires_at needs policy rule shown step told? why?",
    "approval.signed/1": "by digest own? signed? step why?",
    "approval.granted/1": "by digest own? signed? step why?",
    "approval.refused/1": "by own? signed? step why",
    "approval.expired/1": "step",
    "approval.voided/1": "step why",
    "approval.used/1": "digest step",
    "incident.opened/1": "incident kind left owner? step why",
    "incident.assigned/1": "by incident owner",
    "incident.commented/1": "by incident text",
    "incident.retried/1": "by incident let_run? mitigate? own? raises? repeat? signed?",
    "incident.resolved/1": "by incident mitigate? own? proof? raises? reason settled signed?",
    "person.enrolled/1": "by key person recovery? signed? why?",
    "person.revoked/1": "by key person signed? why",
    "policy.adopted/1": "by digest signed? text why",
    "wait.started/1": "name place until",
    "wait.ended/1": "place signal",
    "signal.received/1": "by name number own? payload",
    "saga.paused/1": "by pause? why",
    "dispatch.paused/1": "by definition rollbacks tenant topic why",
    "dispatch.unpaused/1": "by pause signed? why",
    "hold.placed/1": "by saga why",
    "hold.lifted/1": "by own? saga signed? why",
    "drill.missed/1": "by every_s last_at saga target",
    "token.made/1": "by definitions digest expires_at name scopes",
    "token.revoked/1": "by digest why",
    "content.removed/1": "before? by entries own? signed? was_gone? why",
    "budget.spent/1": "place tokens? usd_micros? what?",
    "child.spent/1": "failures? retries? step steps? tokens? usd_micros?",
    "limit.reached/1": "children? limit most then used why",
    "limit.raised/1": "by limit most own? raises? signed? why?",
}
CONTRACT_FIELDS = (
    "atomic? before? does? hold? idempotent? lock_wait_s? mitigation? no_rollback? on_incident? probe? reread? "
    "resources? reversibility? risk? retries? side_effect? timeout_s? tool? topic undo_retries? "
    "undo_timeout_s? undoes? version?"
)


def test_the_wire_names_and_their_fields_are_frozen() -> None:
    assert {name: shape(kind) for name, kind in WIRE.items()} == FROZEN
    assert sorted(shape(Contract).split()) == sorted(CONTRACT_FIELDS.split())


def shape(kind: type) -> str:
    """The field names in order; a question mark after one that may be left out."""
    has_default = {field.name: field.default is not cast(object, field.default_factory) for field in fields(kind)}
    return " ".join(sorted(name + "?" * default for name, default in has_default.items()))


def test_every_event_of_the_core_has_a_wire_name() -> None:
    assert set(WIRE.values()) == set(leaves(e.Event))
    assert {type(event) for event in EVERY_EVENT} == set(leaves(e.Event))


def leaves(union: object) -> Iterator[object]:
    parts = get_args(union)
    if not parts:
        yield union
    for part in parts:
        yield from leaves(part)


# -- there and back -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("event", EVERY_EVENT, ids=lambda event: type(event).__name__)
def test_an_event_comes_back_as_it_was_and_its_body_is_canonical(event: e.Event) -> None:
    wire = encode(event)
    assert decode(wire.name, wire.body) == event
    assert canonical(json.loads(wire.body)) == wire.body
    assert wire.blobs == {}
    assert references(wire.body) == ()


@given(value=JSON)
def test_any_json_value_comes_back_equal_and_keeps_its_type(value: Json) -> None:
    wire = encode(succeeded(value))
    found = decode(wire.name, wire.body)
    assert found == succeeded(value)
    assert wire.body == canonical({"attempt": 1, "result": value, "step": STEP})


@given(
    texts=st.lists(TEXT, min_size=6, max_size=6), numbers=st.lists(st.integers(-LARGEST_INT, LARGEST_INT), min_size=2)
)
def test_any_text_and_number_comes_back(texts: list[str], numbers: list[int]) -> None:
    step, error, definition, actor, key, label = texts
    for event in (
        e.AttemptFailed(step=StepId(step), attempt=numbers[0], error=error, fatal=True, retry_at=numbers[1]),
        e.SagaStarted(
            definition=definition, version=1, input=None, actor=actor, env="", labels={key: label, label: key}
        ),
        e.IncidentResolved(incident=1, by=actor, reason=error, settled=(StepId(step), StepId(key))),
    ):
        wire = encode(event)
        assert decode(wire.name, wire.body) == event
        assert canonical(json.loads(wire.body)) == wire.body


@given(
    contract=st.builds(
        Contract,
        topic=TEXT.map(Topic),
        timeout_s=st.none() | st.floats(0, 1e6) | st.integers(0, 1000),
        risk=st.lists(TEXT, max_size=3).map(tuple),
        no_rollback=st.none() | TEXT,
    )
)
def test_any_contract_comes_back(contract: Contract) -> None:
    event = replace(proposed(), contract=contract)
    wire = encode(event)
    assert decode(wire.name, wire.body) == event


def test_what_holds_its_default_is_left_out() -> None:
    assert '"contract":{"topic":"payments.charge"}' in encode(proposed()).body
    assert '"undo_retries":{"attempts":7}' in encode(replace(proposed(), contract=CONTRACT)).body
    assert "opaque" not in encode(succeeded(1)).body


# -- both ways ----------------------------------------------------------------------------------------------------


def exactly(event: e.Event) -> codec.Wire:
    return codec._exactly(codec._NAMES[type(event)], layouts[type(event)], event)


@pytest.mark.parametrize("event", EVERY_EVENT, ids=lambda event: type(event).__name__)
def test_an_event_is_spelled_and_read_the_same_both_ways(event: e.Event) -> None:
    wire = encode(event)
    assert wire == exactly(event)
    assert codec._read_exactly(wire.name, wire.body, wire.blobs) == decode(wire.name, wire.body, wire.blobs)


@given(
    value=JSON, texts=st.lists(TEXT, min_size=3, max_size=3), numbers=st.lists(st.integers(), min_size=2, max_size=2)
)
def test_any_event_is_spelled_and_read_or_refused_the_same_both_ways(
    value: Json, texts: list[str], numbers: list[int]
) -> None:
    one, two, three = texts
    for event in (
        e.SagaStarted(
            definition=one, version=numbers[0], input=value, actor=two, env="", labels={one: two}, because=(three, one)
        ),
        e.ActionDispatched(
            step=StepId(one), topic=Topic(two), version=1, args=value, digest="", rule="", policy="", key=three,
            contract=Contract(topic=Topic(three), timeout_s=1.0, does=one), after=(StepId(two),), told=value,
        ),
        e.AttemptLost(step=StepId(one), attempt=numbers[0], error=two, fatal=False, retry_at=numbers[1], final=True),
        e.ApprovalRequested(
            step=StepId(one), digest="", shown=value, rule=two, policy="", needs=(Need(rule=three),), expires_at=1
        ),
    ):  # fmt: skip
        wire, refusal = tried(exactly, event)
        assert tried(encode, event) == (wire, refusal)
        if wire is not None:
            found = decode(wire.name, wire.body, wire.blobs)
            assert repr(found) == repr(codec._read_exactly(wire.name, wire.body, wire.blobs)), "types count too"


def tried(spell: Callable[[e.Event], codec.Wire], event: e.Event) -> tuple[codec.Wire | None, str]:
    try:
        return spell(event), ""
    except NotJsonError as refused:
        return None, str(refused)


def test_what_is_usual_goes_the_quick_way_and_what_is_not_the_exact_one() -> None:
    """Else nothing would be gained, and no test would tell."""
    layout = layouts[e.AttemptSucceeded]
    for result in ("r-1", None, 7, 1.25, {"id": "é"}, [{"a": [True]}]):
        assert layout.quick_body(succeeded(cast(Json, result))) is not None, result
    for other in (1.0, 1e16, -0.0, 2**53, {"é": 1}, (1,), {1: 2}, StepStatus.READY, ["x" * 2000]):
        assert layout.quick_body(succeeded(cast(Json, other))) is None, other
    body = encode(succeeded({"id": 1})).body
    assert codec._read_quickly("attempt.succeeded/1", body) == succeeded({"id": 1})
    assert codec._read_quickly("attempt.succeeded/1", encode(succeeded(1e17)).body) is None


def test_contracts_are_spelled_once_and_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_fields, "_contracts", {})
    monkeypatch.setattr(journal_fields, "_MOST_CONTRACTS", 2)
    for number in range(5):
        event = replace(proposed(), contract=Contract(topic=Topic(f"t{number}"), timeout_s=1.5))
        assert encode(event) == encode(event) == exactly(event)
        assert len(journal_fields._contracts) <= 2


# -- large payloads -----------------------------------------------------------------------------------------------


def test_a_payload_is_kept_in_the_body_up_to_1_024_characters() -> None:
    quotes = 2
    assert encode(succeeded("x" * (INLINE - quotes))).blobs == {}
    assert encode(succeeded("é" * (INLINE - quotes))).blobs == {}
    assert len(encode(succeeded("x" * (INLINE - quotes + 1))).blobs) == 1
    assert len(encode(succeeded("é" * INLINE)).blobs) == 1


def test_a_large_payload_stands_beside_the_body_in_parts_under_their_digests() -> None:
    large = ["x" * INLINE, 1.5]
    wire = encode(started(about=cast(Json, large)))
    text = canonical(large)
    (root, group), (key, leaf) = wire.blobs.items()
    assert group == f'+["[","{key}",",1.5]"]'
    assert leaf == f'="{large[0]}"'
    assert (root, key) == (digest(group), digest(leaf))
    assert json.loads(wire.body)["parts"] == {"input": {"digest": root, "size": len(text)}}
    assert canonical(json.loads(wire.body)) == wire.body
    assert references(wire.body) == (root,)
    assert decode(wire.name, wire.body, wire.blobs) == started(about=cast(Json, large))


def test_a_value_that_was_spelled_in_a_thread_has_the_same_parts() -> None:
    value: Json = {"messages": [f"{number} " + digest(str(number)) * 40 for number in range(200)]}
    fresh = encode(succeeded(json.loads(json.dumps(value))))
    assert spell_once(value) == canonical(value)
    assert encode(succeeded(value)) == fresh


def test_what_an_older_version_kept_in_one_piece_is_read() -> None:
    large = ["x" * 300_000, 1.5]
    text = canonical(large)
    kept = f'{{"digest":"{digest(text)}","size":{len(text)}}}'
    body = f'{{"attempt":1,"blobs":{{"result":{kept}}},"step":"{STEP}"}}'
    assert references(body) == (digest(text),)
    assert decode("attempt.succeeded/1", body, {digest(text): text}) == succeeded(cast(Json, large))
    for blobs, says in (({}, "is missing"), ({digest(text): "another"}, "does not match its digest")):
        with pytest.raises(JournalDamagedError, match=f"the blob of its result {says}"):
            decode("attempt.succeeded/1", body, blobs)


def test_a_payload_with_blobs_of_its_own_is_no_reference() -> None:
    for form in ("blobs", "parts"):
        wire = encode(succeeded({form: {"result": {"digest": "x", "size": 1}}}))
        assert references(wire.body) == ()
        assert not has_parts(wire.body)
        assert decode(wire.name, wire.body) == succeeded({form: {"result": {"digest": "x", "size": 1}}})


def test_long_texts_stay_in_the_body_up_to_16_mb() -> None:
    lost = e.AttemptLost(step=STEP, attempt=1, error="x" * INLINE, fatal=False, retry_at=None)
    assert encode(lost).blobs == {}
    with pytest.raises(TooLargeError, match=r"a attempt\.lost/1 takes more than 16 MB"):
        encode(replace(lost, error="x" * LARGEST_VALUE))


@pytest.mark.parametrize(
    ("blobs", "says"),
    [
        ([], "its part [0-9a-f]{12}… is missing .its result"),
        (["=another"], "its part [0-9a-f]{12}… does not match its digest .its result"),
    ],
)
def test_a_part_that_is_not_the_one_is_noticed(blobs: list[str], says: str) -> None:
    wire = encode(succeeded("x" * INLINE))
    (key,) = wire.blobs
    with pytest.raises(JournalDamagedError, match=says):
        decode(wire.name, wire.body, dict(zip([key], blobs, strict=False)))


# -- what cannot be stored ----------------------------------------------------------------------------------------


def wrong(event: e.Event, **values: object) -> e.Event:
    replaced = cast(Callable[..., e.Event], replace)
    return replaced(event, **values)


@pytest.mark.parametrize(
    ("event", "says"),
    [
        (wrong(started(), definition=7), "definition is a int, not text"),
        (wrong(started(), version=2.0), "version is 2.0, not an integer"),
        (wrong(started(), version=True), "version is True, not an integer"),
        (wrong(started(), version=2**53), "version is 9007199254740992, not an integer"),
        (wrong(started(), labels={"a": 1}), "labels is {'a': 1}, not a dict from texts to texts"),
        (wrong(started(), labels=["a"]), "not a dict from texts to texts"),
        (wrong(started(), labels={1: "a"}), "labels has the key 1"),
        (wrong(started(), actor="\ud800"), "actor holds half a surrogate pair"),
        (wrong(started(), input={"a": (1,)}), "input.a is a tuple"),
        (wrong(proposed(), contract="none"), "contract is a str, not a Contract"),
        (wrong(proposed(), contract=Contract(topic=Topic("t"), timeout_s=float("nan"))), "timeout_s is nan"),
        (wrong(proposed(), contract=Contract(topic=Topic("t"), undo_timeout_s=cast(float, "1"))), "not a number"),
        (wrong(proposed(), contract=Contract(topic=Topic("t"), risk=cast(tuple[str], ["a"]))), "not a tuple of texts"),
        (wrong(proposed(), contract=Contract(topic=Topic("t"), risk=cast(tuple[str], (1,)))), "not a tuple of texts"),
        (
            wrong(e.RollbackResumed(by="a", deadline_at=1), deadline_at=None),
            "deadline_at is None, not an integer",
        ),
        (e.RollbackStarted(cause=cast(e.Cause, "fatal"), why="", step=None, by="", deadline_at=1), "not a Cause"),
        (
            e.AttemptFailed(step=STEP, attempt=1, error="", fatal=cast(bool, 1), retry_at=None),
            "fatal is 1, neither true nor false",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_stored_is_refused_by_name(event: e.Event, says: str) -> None:
    with pytest.raises(NotJsonError) as caught:
        encode(event)
    assert says in str(caught.value)


# -- damage -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "body", "says"),
    [
        ("work.resumed/1", "", "not JSON"),
        ("work.resumed/1", '{"by":"ann"', "not JSON"),
        ("work.resumed/1", "[" * 100_000, "not JSON"),
        ("saga.completed/1", '{"result":NaN}', "NaN is not a number"),
        ("saga.completed/1", '{"result":-Infinity}', "-Infinity is not a number"),
        ("work.resumed/1", '["by"]', "not an object"),
        ("work.resumed/1", "{}", "it has no by"),
        ("work.resumed/1", '{"by":"ann","to":1}', "fields that nobody knows: ['to']"),
        ("work.resumed/1", '{"by":1}', "by is not text"),
        ("work.resumed/1", '{"by":null}', "by is not text"),
        ("rollback.resumed/1", '{"by":"a","deadline_at":1.0}', "deadline_at is not an integer"),
        ("rollback.resumed/1", '{"by":"a","deadline_at":true}', "deadline_at is not an integer"),
        ("attempt.failed/1", '{"attempt":1,"error":"","fatal":0,"retry_at":1,"step":""}', "fatal is not true or false"),
        ("rollback.started/1", '{"by":"","cause":"x","deadline_at":1,"step":"","why":""}', "'x', not a Cause"),
        ("incident.resolved/1", '{"by":"","incident":1,"reason":"","settled":"x"}', "settled is not a list of texts"),
        ("incident.resolved/1", '{"by":"","incident":1,"reason":"","settled":[1]}', "settled is not a list of texts"),
        ("work.resumed/1", '{"blobs":1,"by":""}', "blobs are not an object"),
        ("work.resumed/1", '{"by":"","parts":1}', "parts are not an object"),
        ("work.resumed/1", '{"by":"","parts":{"by":{"size":1}}}', "its part by has no digest"),
        ("work.resumed/1", '{"by":"","parts":{"by":{"digest":"x"}}}', "its part by has no size"),
        ("work.resumed/1", '{"by":"","parts":{"by":{"digest":"x","size":0}}}', "its part by has no size"),
        ("work.resumed/1", '{"by":"","parts":{"by":{"digest":"x","size":16777217}}}', "its part by has no size"),
        ("work.resumed/1", '{"blobs":{"by":1},"by":""}', "its blob by has no digest"),
        ("work.resumed/1", '{"blobs":{"by":{"digest":1}},"by":""}', "its blob by has no digest"),
    ],
)
def test_a_body_that_does_not_fit_is_noticed(name: str, body: str, says: str) -> None:
    with pytest.raises(JournalDamagedError) as caught:
        decode(name, body)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("labels", {"a": 1}, "labels is not an object of texts"),
        ("labels", [], "labels is not an object of texts"),
    ],
)
def test_a_start_that_does_not_fit_is_noticed(field: str, value: object, says: str) -> None:
    wire = encode(started())
    with pytest.raises(JournalDamagedError, match=says):
        decode(wire.name, canonical({**json.loads(wire.body), field: value}))


@pytest.mark.parametrize(
    ("contract", "says"),
    [
        ([], "it is no Contract: not an object"),
        ({}, "it has no topic"),
        ({"topic": "t", "new": 1}, "fields that nobody knows"),
        ({"topic": "t", "timeout_s": "1"}, "timeout_s is not a number"),
        ({"topic": "t", "retries": {"attempts": "1"}}, "attempts is not an integer"),
        ({"topic": "t", "reversibility": "maybe"}, "'maybe', not a Reversibility"),
    ],
)
def test_a_contract_that_does_not_fit_is_noticed(contract: object, says: str) -> None:
    body = json.loads(encode(proposed()).body)
    with pytest.raises(JournalDamagedError, match=says):
        decode("step.proposed/1", canonical({**body, "contract": contract}))


def test_a_name_from_the_future_is_refused_and_says_why() -> None:
    with pytest.raises(JournalVersionError, match="written by a newer version"):
        decode("work.resumed/2", '{"by":"ann"}')


# -- upcasts ------------------------------------------------------------------------------------------------------


def test_an_old_name_is_lifted_as_often_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(UPCASTS, "work.woken/1", lambda old: ("work.woken/2", {"who": old["person"]}))
    monkeypatch.setitem(UPCASTS, "work.woken/2", lambda old: ("work.resumed/1", {"by": old["who"]}))
    assert decode("work.woken/1", '{"person":"ann"}') == e.WorkResumed(by="ann")
    assert decode("work.woken/2", '{"who":"ann"}') == e.WorkResumed(by="ann")


def test_an_upcast_sees_the_large_payloads_too(monkeypatch: pytest.MonkeyPatch) -> None:
    large = "x" * INLINE
    wire = encode(e.SagaCompleted(result=large))
    monkeypatch.setitem(UPCASTS, "saga.done/1", lambda old: ("saga.completed/1", {"result": old["result"][:3]}))
    assert decode("saga.done/1", wire.body, wire.blobs) == e.SagaCompleted(result="xxx")


# -- the chain ----------------------------------------------------------------------------------------------------


def test_the_hash_is_frozen() -> None:
    first = chain(FIRST, "s", 1, 1_700_000_000_000, "work.resumed/1", '{"by":"ann"}')
    second = chain(first, "s", 2, 1_700_000_000_001, "work.resumed/1", '{"by":"é"}')
    assert first.hex() == "e8f8ae9c6447c48d8eb8b13ee18d37fce3f1b6823402478761ee7ee4ffc11077"
    assert second.hex() == "84f8fcee66cdc7ba56f59e920c9c98cd201124ac48ddf4626380ca78c20fbdc1"


@pytest.mark.parametrize(
    "other",
    [
        (b"\1" * 32, "s", 1, 2, "work.resumed/1", "{}"),
        (FIRST, "t", 1, 2, "work.resumed/1", "{}"),
        (FIRST, "s", 2, 2, "work.resumed/1", "{}"),
        (FIRST, "s", 1, 3, "work.resumed/1", "{}"),
        (FIRST, "s", 1, 2, "work.resumed/2", "{}"),
        (FIRST, "s", 1, 2, "work.resumed/1", "{ }"),
    ],
)
def test_the_hash_changes_with_each_part(other: tuple[bytes, str, int, int, str, str]) -> None:
    assert chain(*other) != chain(FIRST, "s", 1, 2, "work.resumed/1", "{}")


def test_a_body_that_was_removed_leaves_a_digest_that_gives_the_same_hash() -> None:
    body = '{"by":"ann"}'
    left = without_payload("saga.started/1", body)
    assert left == f"sha256:{digest(body)}"
    assert removed_digest(left) == bytes.fromhex(digest(body))
    assert without_payload("saga.started/1", left) == left
    whole = chain(FIRST, "s", 1, 2, "work.resumed/1", body)
    assert chain(FIRST, "s", 1, 2, "work.resumed/1", left) == whole
    for wrong in ("sha256:", left[:-1], left.upper(), left + "0", "sha256:" + "g" * 64):
        assert removed_digest(wrong) is None
        assert chain(FIRST, "s", 1, 2, "work.resumed/1", wrong) != whole


def test_a_wide_float_does_not_come_back_as_an_integer_that_cannot_be_stored_again() -> None:
    """1e17 is spelled 100000000000000000, which json reads as an int past 2**53; the next step could not take it."""
    for value in (1e16, -1e17, 7.150626761194614e16, 1e20, float(2**53)):
        wire = encode(succeeded(value))
        found = decode(wire.name, wire.body)
        assert found == succeeded(value)
        assert encode(found) == wire
