"""`amends session`: what agents have left open, and how a person ends it."""

from pathlib import Path

from tests.cli.shell import Shell


def left_open(amends: Shell, *threads: str) -> None:
    amends.give("desk")
    done = amends.python("desk.py", *threads)
    assert done.code == 0, done.err


def world(amends: Shell) -> list[str]:
    return Path(amends.place, "world.txt").read_text().splitlines()


def test_open_sessions_are_listed_and_nothing_else(amends: Shell) -> None:
    assert amends.here("run", "shop:buy", "--input", '{"item": "lamp", "cents": 900}', "--id", "b-1").code == 0
    assert amends.here("session", "list").out == "no open sessions\n"
    left_open(amends, "t-1", "t-2")
    assert [row["id"] for row in amends.here("session", "list", "--json").records] == ["t-2", "t-1"]
    head, *rows = amends.here("session", "list").out.splitlines()
    assert head.split()[:3] == ["ID", "STATUS", "SAGA"]
    assert [row.split()[:3] for row in rows] == [
        ["t-2", "waiting", "travel.agent/0"],
        ["t-1", "waiting", "travel.agent/0"],
    ]
    assert amends.here("session", "list", "--name", "other").out == "no open sessions\n"
    assert amends.here("session", "list", "--limit", "1").err.startswith("amends: there are more than 1")


def test_a_session_is_shown_with_its_calls(amends: Shell) -> None:
    left_open(amends, "web-1")
    said = amends.here("session", "show", "web").out
    facts, steps = said.split("\n\n", 1)
    assert "left alone  for 60 min: a person is told" in facts
    assert [line.split(maxsplit=4) for line in steps.splitlines()[1:]] == [
        ["1", "call_1", "flight.book", "succeeded", '"flight to Lisbon"'],
        ["2", "call_2", "search", "succeeded", '"nothing about beds"'],
    ]
    row, one, two = amends.here("session", "show", "web-1", "--json").records
    assert (row["type"], row["idle_s"], row["on_idle"]) == ("session", 3600, "call")
    assert (one["call"], one["result"]) == ("call_1", "flight to Lisbon")
    assert (two["topic"], two["status"]) == ("search", "succeeded")


def test_a_saga_with_a_function_is_no_session(amends: Shell) -> None:
    assert amends.here("run", "shop:buy", "--input", '{"item": "lamp", "cents": 900}', "--id", "b-1").code == 0
    assert "b-1 is no session" in amends.here("session", "show", "b-1").complaint
    assert "b-1 is no session" in amends.here("session", "complete", "b-1").complaint
    assert "no saga has the id none" in amends.here("session", "show", "none").complaint


def test_a_person_completes_what_nobody_comes_back_to(amends: Shell) -> None:
    left_open(amends, "mail-1", "web-1")
    assert "mail.send" in amends.here("session", "complete", "mail-1").complaint
    done = amends.here("session", "complete", "mail-1", "desk", "--result", '{"seats": 2}')
    assert (done.code, done.out.splitlines()[-1]) == (0, 'saga mail-1 completed: {"seats": 2}')
    assert world(amends) == ["+ Lisbon", "+ Lisbon", "+ mail hello"]
    assert amends.here("session", "complete", "web-1").code == 0, "nothing of it has to be called"
    assert "has ended: it is completed" in amends.here("session", "complete", "web-1").complaint
    assert amends.here("session", "list").out == "no open sessions\n"
    assert len(amends.here("session", "list", "--all", "--json").records) == 2


def test_a_person_takes_back_what_nobody_comes_back_to(amends: Shell) -> None:
    left_open(amends, "t-1", "web-1")
    assert amends.here("session", "cancel", "t-1", "desk", "--why", "nobody came").code == 0
    assert world(amends) == ["+ Lisbon", "+ Lisbon", "- Lisbon"]
    said = amends.here("session", "cancel", "web-1", "desk")
    assert said.code == 4, "the web search is nobody's to take back"
    assert "search" in said.out


def test_what_a_session_did_is_drilled(amends: Shell) -> None:
    left_open(amends, "t-1")
    said = amends.here("drill", "--session", "t-1", "--with", "desk", "--quick")
    assert said.code == 0, said.out + said.err
    assert "travel.agent.recorded" in said.out
    assert world(amends).count("+ Lisbon") > 2
    assert "no saga has the id none" in amends.here("drill", "--session", "none").complaint
    assert "flight.book version 1" in amends.here("drill", "--session", "t-1").complaint
    assert "either a saga" in amends.here("drill", "shop:buy", "--session", "t-1").complaint
