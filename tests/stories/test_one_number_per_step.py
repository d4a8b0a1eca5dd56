"""One step, one number: whoever reads a log, an approval, a plan, an incident or a span means the same step by it."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from amends.addresses import open_journal
from amends.clock import SystemClock
from amends.core.state.saga import evolve, unstarted
from amends.core.words.values import SagaId
from amends.notify.notice import TYPES, notice_of, wire_names
from amends.telemetry.spans import Spans
from tests.cli.shell import Shell

MODULE = """
import asyncio

from amends import Done, Fatal, SagaDefinition, Step, Work, action, saga


@action("doc.draft")
def draft(name: str) -> str:
    return name


@draft.compensation
def undraft(done: Done) -> None: ...


@action("doc.left")
def left() -> None: ...


@left.compensation
def unleft(done: Done) -> None: ...


@action("doc.right")
def right() -> None: ...


@right.compensation
def unright(done: Done) -> None: ...


@action("doc.sign")
def sign() -> None: ...


@sign.compensation
def unsign(done: Done) -> None:
    raise Fatal("the notary is closed")


@action("doc.send", read_only=True)
def send() -> None:
    raise Fatal("no post today")


@saga("doc.child")
async def child(s: Work) -> None:
    await s.spend(tokens=1)
    await s.do(draft, "inner")


@saga("doc.whole")
async def whole(s: Work) -> None:
    await s.spend(tokens=10)
    await s.do(draft, "outer")
    await s.checkpoint("drafted")
    await asyncio.gather(s.do(left), s.do(right))
    await s.call(child)
    await s.do(sign)
    await s.do(send)


graph = SagaDefinition("doc.graph", [Step(left, after=[]), Step(send, after=["left"])])
"""
NUMBERS = {
    "doc.draft": "2",
    "doc.left": "3.1/1",
    "doc.right": "3.2/1",
    "amends.call": "4",
    "doc.sign": "5",
    "doc.send": "6",
}
SHOWN = re.compile(r"^ *[\d:.]+  (?:forward|back|person) +(\S+)  (\S+)", re.MULTILINE)


@pytest.fixture(name="amends")
def _amends(tmp_path: Path) -> Shell:
    amends = Shell(tmp_path)
    (tmp_path / "doc.py").write_text(MODULE, encoding="utf-8")
    return amends


def numbers(shown: str) -> dict[str, str]:
    """The number of each topic in a timeline. Raises where one has several."""
    found = {(topic, number) for number, topic in SHOWN.findall(shown)}
    assert len(found) == len({topic for topic, _ in found}), found
    return dict(found)


def test_every_place_says_the_same_number(amends: Shell) -> None:
    policy = amends.policy("{id: two-eyes, when: {topic: doc.sign}, decision: require_human}")
    asked = amends("run", "doc:whole", "--id", "d", "--policy", policy, "--compensation-attempts", "1")
    assert asked.code == 6, asked
    upto_approval = {topic: number for topic, number in NUMBERS.items() if topic != "doc.send"}
    assert numbers(asked.out) == upto_approval
    assert re.search(r"saga +1  spent 10 tokens", asked.out)
    assert re.search(r"saga +3  checkpoint drafted", asked.out)
    assert "amends approval show d/5" in asked.out

    plan = amends("saga", "rollback", "d", "--module", "doc", "--plan")
    assert dict(re.findall(r"\. (\S+) \(step (\S+)\)", plan.out)) == {
        topic: number for topic, number in upto_approval.items() if topic != "doc.sign"
    }

    shown = amends("approval", "show", "d/5")
    assert numbers(shown.out) == upto_approval
    assert amends("approval", "grant", "d/5", "--by", "person:kim", "--yes").code == 0
    ended = amends("resume", "doc", "--policy", policy, "--json").of_type("ended")[0]
    story = amends("saga", "show", "d")
    assert numbers(story.out) == NUMBERS
    assert "rollback began: doc.send (step 6): no post today" in story.out
    assert (
        "incident 1 opened: compensation failed: the notary is closed; left: steps 5, 4, 3.2/1, 3.1/1, 2" in story.out
    )
    assert (ended["step"], ended["incidents"]) == ("6", ["d/1"])

    incident = amends("incident", "show", "d/1").out
    assert {topic: step for step, topic in re.findall(r"^  step (\S+)  (\S+)", incident, re.MULTILINE)} == {
        topic: number for topic, number in NUMBERS.items() if topic != "doc.send"
    }
    assert numbers(incident) == {"doc.sign": "5"}

    record = json.loads(amends("evidence", "record", "d").out)["amends"]
    assert {each["topic"]: each["step"] for each in record["steps"]} == NUMBERS
    assert record["why"] == "doc.send (step 6): no post today"
    asyncio.run(_notices_and_spans(amends.place / "amends.db"))


async def _notices_and_spans(path: Path) -> None:
    exported, tracers = InMemorySpanExporter(), TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exported))
    spans, saga = Spans(tracers.get_tracer("test")), unstarted(SagaId("d"))
    journal = await open_journal(str(path), SystemClock(), signs=False)
    try:
        told = [(await notice_of(journal, each)).data async for each in journal.log(names=wire_names(TYPES))]
        async for entry in journal.read(saga.id):
            saga = evolve(saga, entry.event)
            spans.tell(entry, saga)
    finally:
        await journal.close()
    of_saga = [each for each in told if each["saga"] == "d"]
    assert {(each.get("approval"), each["step"]) for each in of_saga if "approval" in each} == {("d/5", "5")}
    opened = next(each for each in of_saga if "left" in each)
    assert (opened["step"], opened["topic"]) == ("5", "doc.sign")
    left: Any = opened["left"]
    assert {(one["topic"], one["step"]) for one in left} == set(NUMBERS.items()) - {("doc.send", "6")}
    attributes = [dict(span.attributes or {}) for span in exported.get_finished_spans()]
    seen = {(each["amends.topic"], each["amends.step"]) for each in attributes if "amends.step" in each}
    assert seen == set(NUMBERS.items())


def test_a_step_of_a_graph_is_shown_by_its_label(amends: Shell) -> None:
    said = amends("run", "doc:graph", "--id", "g", "--compensation-attempts", "1")
    assert said.code == 3, said
    assert numbers(said.out) == {"doc.left": "left", "doc.send": "send"}
    assert "rollback began: doc.send (step send): no post today" in said.out


def test_what_was_asked_ahead_leaves_no_gap_in_the_numbers(amends: Shell) -> None:
    (amends.place / "ahead.py").write_text(
        MODULE
        + """
@saga("doc.ahead")
async def ahead(s: Work) -> None:
    await s.ask(sign)
    await s.do(draft, "outer")
    await s.do(sign)
    await s.do(draft, "last")
""",
        encoding="utf-8",
    )
    assert amends("run", "ahead:ahead", "--id", "a").code == 6
    assert amends("approval", "grant", "a/1", "--by", "person:kim", "--yes").code == 0
    assert amends("resume", "ahead").code == 0
    shown = amends("saga", "show", "a").out
    assert "saga      3  step 1, asked for ahead, has its turn here" in shown
    assert [number for number, topic in SHOWN.findall(shown) if topic == "doc.draft"] == ["2", "2", "4", "4"]
