"""Calling commands: what they see, what is kept of them, how they end, and what never gets out."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from amends.bootstrap import Coordinator
from amends.core.events import AttemptLost
from amends.core.words.contracts import key_of
from amends.errors import SagaFileError
from amends.runtime.coordinator.lists import History
from amends.runtime.declare.registry import PROCESS
from amends.runtime.engine.handle import Ended
from amends.sagafile import parse_saga
from amends.sagafile.program import Called, ProgramOutput, call

CANARY = "canary-4711-canary"


@pytest.fixture(autouse=True)
def forgetting(monkeypatch: pytest.MonkeyPatch) -> None:
    for known in ("_actions", "_definitions"):
        monkeypatch.setattr(PROCESS, known, dict(getattr(PROCESS, known)))


def run(place: Path, steps: str, shown: list[tuple[str, str]] | None = None, **given: Any) -> tuple[Ended, History]:
    """Run a file of these steps to its end."""

    def show(who: str, line: str) -> None:
        if shown is not None:
            shown.append((who, line))

    async def whole() -> tuple[Ended, History]:
        head = "version: v1\nsaga: a\ninputs: {x: {default: ''}, y: {type: list, default: []}}\n"
        saga = parse_saga(f"{head}{steps}", name="s.yaml", directory=str(place), show=show)
        async with Coordinator.open(str(place / "a.db"), signals=False) as coordinator:
            ended = await coordinator.run(saga, **given)
            return ended, await coordinator.show(ended.id)

    return asyncio.run(whole())


def texts(history: History) -> str:
    return json.dumps([str(entry.body) for entry in history.entries])


def test_a_value_with_everything_a_shell_acts_upon_is_one_argument(tmp_path: Path) -> None:
    wild = "a b; touch owned $(touch owned) `touch owned` 'x' \"y\" * ~ | & \n -rf"
    steps = "steps:\n  - {id: s, run: [printf, '%s', '${input.x}']}\nresult: {out: '${steps.s.stdout}'}\n"
    ended, _ = run(tmp_path, steps, x=wild)
    assert ended.result == {"out": wild}
    steps = (
        "steps:\n  - {id: s, shell: 'printf %s \"$X\"', env: {X: '${input.x}'}}\nresult: {out: '${steps.s.stdout}'}\n"
    )
    ended, _ = run(tmp_path, steps, x=wild)
    assert ended.result == {"out": wild}
    assert not (tmp_path / "owned").exists()


def test_a_command_sees_its_key_and_only_the_environment_that_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTHER", "x")
    monkeypatch.setenv("NAMED", "y")
    steps = "steps:\n  - {id: s, run: [env], inherit: [NAMED], env: {OWN: z}}\nresult: {out: '${steps.s.stdout}'}\n"
    ended, history = run(tmp_path, steps)
    seen = dict(line.partition("=")[::2] for line in ended.result["out"].splitlines())
    assert {"NAMED": "y", "OWN": "z", "AMENDS_STEP": "s", "AMENDS_SAGA": ended.id}.items() <= seen.items()
    assert "OTHER" not in seen
    step = next(iter(history.saga.steps.values()))
    assert seen["AMENDS_KEY"] == key_of(history.saga.id, step.id, step.topic, "do")


def test_a_secret_reaches_its_command_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", CANARY)
    steps = """
secrets: [TOKEN]
steps:
  - {id: s, shell: 'printf %s "$TOKEN" | wc -c; echo "it is $TOKEN"; echo "and $TOKEN" >&2', compensate: ["true"]}
  - {id: t, shell: 'echo "broken by $TOKEN" >&2; exit 3', compensate: [sh, -c, 'echo "$TOKEN"']}
"""
    shown: list[tuple[str, str]] = []
    ended, history = run(tmp_path, steps, shown)
    assert ended.status == "rolled_back"
    assert ("s", str(len(CANARY))) in shown
    assert ("s", "it is [secret]") in shown
    assert ("t, back", "[secret]") in shown
    everything = repr(shown) + texts(history) + str(ended) + ended.why
    assert CANARY not in everything
    assert CANARY.encode() not in b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_a_secret_is_hidden_however_its_output_is_cut_into_pieces(size: int) -> None:
    out = ProgramOutput(1000, ["abc", "abcdef", "b"], None)
    text = b"x abcdef abc ab c b abcde" * 3
    for at in range(0, len(text), size):
        out.take(text[at : at + size])
    out.take(b"")
    assert out.text() == "x [secret] [secret] a[secret] c [secret] [secret]de" * 3


def test_what_is_kept_is_bounded_and_cannot_be_referred_to_where_it_was_cut(tmp_path: Path) -> None:
    steps = f"""
steps:
  - {{id: s, run: [{sys.executable}, -c, "print('x' * 1000000)"], compensate: [touch, back]}}
  - {{id: t, run: [echo, "${{steps.s.stdout}}"], compensate: ["true"]}}
"""
    ended, history = run(tmp_path, steps)
    assert ended.status == "rolled_back"
    assert "printed more than is kept" in ended.why
    assert (tmp_path / "back").exists()
    assert len(texts(history)) < 200_000


@pytest.mark.parametrize(
    ("more", "status", "undone"),
    [
        ("", "rolled_back", True),
        ("atomic: true,", "rolled_back", False),
        ("exit_codes: {failed: [7]},", "rolled_back", False),
        ("exit_codes: {fatal: [7]},", "rolled_back", True),
        ("exit_codes: {succeeded: [0, 7]},", "completed", False),
    ],
)
def test_exit_codes_say_what_is_known_of_the_world(tmp_path: Path, more: str, status: str, undone: bool) -> None:
    steps = f"steps:\n  - {{id: s, shell: exit 7, {more} compensate: [touch, undone]}}\n"
    ended, _ = run(tmp_path, steps)
    assert (ended.status, (tmp_path / "undone").exists()) == (status, undone)


def test_a_command_that_a_signal_ended_is_lost_even_if_it_is_atomic(tmp_path: Path) -> None:
    steps = "steps:\n  - {id: s, shell: 'kill -9 $$', atomic: true, compensate: [touch, undone]}\n"
    ended, history = run(tmp_path, steps)
    assert ended.status == "rolled_back"
    assert (tmp_path / "undone").exists()
    assert any(isinstance(entry.event, AttemptLost) for entry in history.entries)


def test_a_program_that_is_not_there_has_certainly_done_nothing(tmp_path: Path) -> None:
    ended, _ = run(tmp_path, "steps:\n  - {id: s, run: [no-such-program], compensate: [touch, undone]}\n")
    assert (ended.status, (tmp_path / "undone").exists()) == ("rolled_back", False)
    assert "no-such-program could not be started" in ended.why


def test_a_probe_settles_what_is_lost(tmp_path: Path) -> None:
    step = "{id: s, shell: 'touch did; kill -9 $$', retry: 1, probe: [test, -e, %s], compensate: [touch, undone]}"
    assert run(tmp_path, f"steps:\n  - {step % 'did'}\n")[0].status == "completed"
    assert run(tmp_path, f"steps:\n  - {step % 'did-not'}\n")[0].status == "rolled_back"
    assert not (tmp_path / "undone").exists()


def test_a_compensation_is_told_all_that_is_known(tmp_path: Path) -> None:
    steps = """
steps:
  - id: s
    run: [echo, new]
    before: [echo, old]
    compensate:
      shell: 'cat > told.json; echo "$AMENDS_CERTAIN $1 $B" > seen'
      env: {B: "${before.stdout} ${result.stdout}"}
      stdin: ${done}
  - {id: t, run: ["false"], atomic: true, no_rollback: a test}
"""
    ended, _ = run(tmp_path, steps)
    assert ended.status == "rolled_back"
    told = json.loads((tmp_path / "told.json").read_text(encoding="utf-8"))
    assert (told["before"]["stdout"], told["result"]["stdout"], told["certain"]) == ("old", "new", True)
    assert told["saga"] == ended.id
    assert (tmp_path / "seen").read_text(encoding="utf-8").split() == ["true", "old", "new"]


def test_changed_since_is_an_incident(tmp_path: Path) -> None:
    steps = """
steps:
  - {id: s, run: ["true"], compensate: {shell: exit 9, exit_codes: {changed_since: [9]}}}
  - {id: t, run: ["false"], atomic: true, no_rollback: a test}
"""
    ended, _ = run(tmp_path, steps)
    assert ended.status == "incident"


def test_a_timeout_ends_the_command_with_all_that_it_started(tmp_path: Path) -> None:
    program = (
        "import os, time; pid = os.fork(); os.setsid() if not pid else 0;"
        "open(f'pid-{os.getpid()}', 'w'); time.sleep(600)"
    )
    (tmp_path / "p.py").write_text(program, encoding="utf-8")
    steps = f'steps:\n  - {{id: s, run: [{sys.executable}, p.py], timeout: 1s, compensate: ["true"]}}\n'
    ended, _ = run(tmp_path, steps)
    assert ended.status == "rolled_back"
    pids = [int(path.name.removeprefix("pid-")) for path in tmp_path.glob("pid-*")]
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def test_a_command_may_put_things_in_order_before_it_is_ended(tmp_path: Path) -> None:
    steps = (
        'steps:\n  - {id: s, timeout: 1s, compensate: ["true"], '
        "shell: 'trap \"touch tidied; exit 1\" TERM; while :; do sleep 0.05; done'}\n"
    )
    ended, _ = run(tmp_path, steps)
    assert ended.status == "rolled_back"
    assert (tmp_path / "tidied").exists()


def test_steps_without_an_order_run_side_by_side(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    steps = """
steps:
  - {id: reads, run: [cat, pipe], read_only: true, after: []}
  - {id: writes, shell: echo hello > pipe, read_only: true, after: []}
  - {id: both, run: [echo, "${steps.reads.stdout}"], read_only: true, after: [reads, writes]}
result: {said: "${steps.both.stdout}"}
"""
    ended, _ = run(tmp_path, steps)
    assert (ended.status, ended.result) == ("completed", {"said": "hello"})


def test_steps_without_an_order_are_taken_back_side_by_side(tmp_path: Path) -> None:
    """Each compensation waits for the other at the pipe; and what both need goes back after them."""
    os.mkfifo(tmp_path / "pipe")
    steps = """
steps:
  - {id: base, run: ["true"], after: [], compensate: [sh, -c, "echo base >> order"]}
  - {id: "1", run: ["true"], after: [base], compensate: [sh, -c, "cat pipe >> order"]}
  - {id: "2", run: ["true"], after: [base], compensate: [sh, -c, "echo hello > pipe"]}
  - {id: fails, run: ["false"], read_only: true, after: ["1", "2"]}
"""
    ended, _ = run(tmp_path, steps)
    assert ended.status == "rolled_back"
    assert (tmp_path / "order").read_text().split() == ["hello", "base"]


def test_sagas_that_need_the_same_resource_take_turns(tmp_path: Path) -> None:
    text = """
version: v1
saga: turns
inputs: {account: text, name: text}
steps:
  - id: use
    shell: test ! -e busy && touch busy && sleep 0.3 && rm busy && echo "$NAME" >> order
    env: {NAME: "${input.name}"}
    resources: ["account:${input.account}"]
    compensate: ["true"]
"""

    async def both() -> list[str]:
        saga = parse_saga(text, name="s.yaml", directory=str(tmp_path))
        async with Coordinator.open(str(tmp_path / "a.db"), signals=False) as coordinator:
            ended = await asyncio.gather(
                coordinator.run(saga, account="7", name="a"), coordinator.run(saga, account="7", name="b")
            )
            return [str(each.status) for each in ended]

    assert asyncio.run(both()) == ["completed", "completed"]
    assert sorted((tmp_path / "order").read_text(encoding="utf-8").split()) == ["a", "b"]


def test_a_command_that_was_given_up_while_it_started_is_ended_all_the_same(tmp_path: Path) -> None:
    """It begins in a thread, after whoever wanted it has gone: without somebody who ends it, it would run on."""

    async def whole() -> None:
        asked = Called(words=["sleep", "3600"], cwd=tmp_path, env=dict(os.environ))
        calling = asyncio.ensure_future(call(asked))
        await asyncio.sleep(0)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling

    before = children()
    asyncio.run(whole())
    assert children() <= before


def children() -> set[int]:
    """The processes that this one has started, and that have not ended."""
    found: set[int] = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if int(parent) == os.getpid() and state != "Z":
            found.add(int(path.parent.name))
    return found


CAPABILITIES = "grep -h '^CapEff' /proc/self/status"
NONE = "0" * 16


def said(place: Path, step: str, **given: Any) -> str:
    """What the one command of a step printed."""
    ended, _ = run(place, f"steps:\n  - {{id: s, {step}}}\nresult: {{out: '${{steps.s.stdout}}'}}\n", **given)
    assert ended.result is not None, ended
    return str(ended.result["out"])


def test_a_command_has_no_capabilities_unless_it_says_that_nothing_keeps_it_in(tmp_path: Path) -> None:
    """What root can do, a step of a file cannot, unless its author has said so for everybody to read."""
    own = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff"))
    assert said(tmp_path, f'shell: "{CAPABILITIES}"').split()[1] == NONE
    assert said(tmp_path, f'shell: "{CAPABILITIES}", confine: false').split() == own.split()
    assert (tmp_path / "a.db").exists()


def test_a_command_can_ask_to_be_confined(tmp_path: Path) -> None:
    """It works on no files: nothing but its scratch space can be written, and the journal cannot be read."""
    shell = "touch here; cat a.db; cat a.db.key; echo t > $TMPDIR/t && cat $TMPDIR/t"
    ended, history = run(
        tmp_path, f"steps:\n  - {{id: s, shell: '{shell}', confine: true}}\nresult: {{out: '${{steps.s.stdout}}'}}\n"
    )
    assert ended.result == {"out": "t"}
    assert not (tmp_path / "here").exists()
    assert '\\"confine\\":true' in texts(history)


def test_a_command_can_go_without_a_network(tmp_path: Path) -> None:
    devices = "tail -n +3 /proc/net/dev | cut -d: -f1"
    assert said(tmp_path, f'shell: "{devices}", network: false').split() == ["lo"]
    assert said(tmp_path, f'shell: "{devices}", network: false, confine: true').split() == ["lo"]
    assert "lo" in said(tmp_path, f'shell: "{devices}"').split()


def test_what_holds_for_all_commands_of_a_file_can_be_said_once(tmp_path: Path) -> None:
    steps = f"""
confine: true
network: false
steps:
  - {{id: s, shell: "{CAPABILITIES}; touch x; true"}}
  - {{id: t, shell: "touch y", confine: false}}
result: {{out: '${{steps.s.stdout}}'}}
"""
    ended, _ = run(tmp_path, steps)
    assert ended.result["out"].split()[1] == NONE
    assert [path.name for path in tmp_path.glob("[xy]")] == ["y"]


@pytest.mark.parametrize("word", ["confine: yes please", "network: 0"])
def test_a_word_that_is_neither_true_nor_false_is_refused(word: str, tmp_path: Path) -> None:
    with pytest.raises(SagaFileError, match="true or false"):
        run(tmp_path, f"steps:\n  - {{id: s, run: [ls], {word}}}\n")
