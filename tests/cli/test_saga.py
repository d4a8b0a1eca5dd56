"""`amends saga`: lists, one saga's story, and taking one back."""

import re

import pytest

from amends.cli.commands import saga as commands
from amends.runtime.declare.names import login
from tests.cli.shell import PATIENCE_S, Shell

LAMP = '{"item": "lamp", "cents": 900}'


def bought(amends: Shell, *ids: str) -> None:
    for saga in ids:
        assert amends.here("run", "shop:buy", "--input", LAMP, "--id", saga).code == 0


def test_a_list_is_newest_first_and_readable_without_colours(amends: Shell) -> None:
    bought(amends, "b-1", "b-2")
    assert amends.here("run", "shop:tidy", "--id", "t-1", "--label", "team=a").code == 4
    head, *rows = amends.here("saga", "list").out.splitlines()
    assert head.split() == ["ID", "STATUS", "SAGA", "ENV", "STARTED", "TOOK", "NOTE"]
    assert [row.split()[:4] for row in rows] == [
        ["t-1", "incident", "shop.tidy/1", "development"],
        ["b-2", "completed", "shop.buy/1", "development"],
        ["b-1", "completed", "shop.buy/1", "development"],
    ]
    assert rows[0].endswith("open incidents: 1 team=a")
    assert all(row == row.rstrip() for row in rows)


def test_who_looks_at_a_journal_that_was_moved_is_told_so_once(amends: Shell) -> None:
    """It was shown as if it were the one that sagas go on in: only the doctor said that it was not."""
    bought(amends, "b-1")
    assert amends("saga", "list").err == ""
    assert amends("journal", "copy", "amends.db", "there.db").code == 0
    for words in (["saga", "list"], ["saga", "show", "b-1"], ["approval", "list"], ["incident", "list", "--json"]):
        looked = amends(*words)
        assert looked.code == 0
        (said,) = looked.err.splitlines()
        assert said.startswith("amends: amends.db was moved to ")
        assert said.endswith("there.db, and is shown as it was then; sagas go on there")
    assert amends("saga", "list", "--journal", "there.db").err == ""


def test_a_list_in_colour_is_for_terminals_that_want_it(amends: Shell) -> None:
    bought(amends, "b-1")
    assert "\x1b[" not in amends("saga", "list").out
    assert "\x1b[32mcompleted" in amends("saga", "list", FORCE_COLOR="1", TERM="xterm").out


def test_filters_are_joined(amends: Shell) -> None:
    bought(amends, "b-1")
    amends.here("run", "shop:tidy", "--id", "t-1")
    amends.here("run", "shop:paint", "--id", "p-1", "--env", "production", "--label", "team=a", "--label", "day=1")

    def ids(*words: str) -> list[str]:
        return [row["id"] for row in amends.here("saga", "list", "--json", *words).records]

    assert ids() == ["p-1", "t-1", "b-1"]
    assert ids("--status", "completed") == ["b-1"]
    assert ids("--status", "completed", "--status", "incident") == ["t-1", "b-1"]
    assert ids("--definition", "shop.tidy") == ["t-1"]
    assert ids("--topic", "payments.charge") == ["t-1", "b-1"]
    assert ids("--env", "production") == ["p-1"]
    assert ids("--env", "production", "--status", "completed") == []
    assert amends.here("saga", "list", "--env", "moon").out == "no sagas\n"
    assert ids("--label", "team=a", "--label", "day=1") == ["p-1"]
    assert ids("--label", "team=a", "--label", "day=2") == ids("--label", "team=a", "--env", "development") == []
    assert ids("--from", "1d", "--until", "0s", "--env", "production") == ["p-1"]
    assert ids("--until", "1d") == ids("--ended-from", "2020-01-01", "--ended-until", "2020-01-02") == []
    assert ids("--ended-from", "1d", "--definition", "shop.buy") == ["b-1"]
    wrong = amends.here("saga", "list", "--label", "team")
    assert (wrong.code, "write --label tenant=acme" in wrong.err) == (2, True)


def test_a_limited_list_says_that_there_is_more(amends: Shell) -> None:
    bought(amends, "b-1", "b-2", "b-3")
    some = amends.here("saga", "list", "--limit", "2", "--json")
    assert [row["id"] for row in some.records] == ["b-3", "b-2"]
    said = re.fullmatch(
        r"amends: there are more than 2; see them with --page (\S+), --all or a higher --limit\n", some.err
    )
    assert said is not None
    rest = amends.here("saga", "list", "--limit", "2", "--page", said[1], "--json")
    assert ([row["id"] for row in rest.records], rest.err) == (["b-1"], "")
    everything = amends.here("saga", "list", "--limit", "2", "--all", "--json")
    assert [row["id"] for row in everything.records] == ["b-3", "b-2", "b-1"]
    assert everything.err == ""


@pytest.mark.parametrize(
    "status", ["running", "waiting", "rolling_back", "completed", "rolled_back", "incident", "paused"]
)
def test_the_help_names_every_status_that_the_option_takes(amends: Shell, status: str) -> None:
    assert status in amends.here("saga", "list", "--help").out
    bought(amends, "b-1")
    assert amends.here("saga", "list", "--status", status).code == 0


def test_a_saga_can_be_looked_at_while_another_process_drives_it(amends: Shell) -> None:
    with amends.awaiting_lorry("deliver", "--id", "d-1") as process:
        (row,) = amends.here("saga", "list", "--json").records
        assert (row["id"], row["status"], row["ended_at"]) == ("d-1", "running", None)
        assert "lorry.wait        wait (attempt 1)" in amends.here("saga", "show", "d-1").out
        amends.let_lorry_come()
        assert process.wait(PATIENCE_S) == 0


def test_show_is_the_facts_and_the_whole_story(amends: Shell) -> None:
    said = amends.here("run", "shop:tidy", "--id", "t-1", "--label", "team=a", "--actor", "agent:ann")
    facts, story, rest = amends.here("saga", "show", "t-1").out.split("\n\n")
    assert [line.split(maxsplit=1) for line in facts.splitlines()][:3] == [
        ["saga", "t-1"],
        ["definition", "shop.tidy, version 1"],
        ["status", "incident"],
    ]
    assert "by agent:ann in development" in facts
    assert facts.endswith("labels      team=a")
    assert [line[14:].split() for line in story.splitlines()] == [
        line[14:].split() for line in said.out.splitlines()[1:-2]
    ]
    assert rest == "needs a person: amends incident show t-1/1\n"


def test_show_as_json_is_the_row_and_every_entry(amends: Shell) -> None:
    bought(amends, "b-1")
    row, *entries = amends.here("saga", "show", "b-1", "--json").records
    assert (row["type"], row["id"], row["entries"]) == ("saga", "b-1", len(entries))
    assert entries[-1]["name"] == "saga.completed/1"


def test_a_completed_saga_can_be_taken_back(amends: Shell) -> None:
    bought(amends, "b-1")
    said = amends.here("saga", "cancel", "b-1", "--module", "shop", "--why", "wrong lamp", "--by", "person:ann")
    assert said.code == 0
    assert "rollback began (asked for by person:ann): wrong lamp" in said.out
    assert "started by" not in said.out
    assert said.out.splitlines()[-1] == "saga b-1 rolled back: wrong lamp"
    assert amends.world == ["+ lamp", "- 900", "- lamp"]
    assert "saga b-1 is rolled_back" in amends.here("saga", "cancel", "b-1", "--module", "shop").complaint


def test_whoever_is_logged_in_asks_unless_said_otherwise(amends: Shell) -> None:
    bought(amends, "b-1")
    said = amends("saga", "cancel", "b-1", "--module", "shop", "--json", LOGNAME="ann")
    assert said.code == 0
    assert said.of_type("entry")[0]["body"]["by"] == login()
    assert said.records[-1]["status"] == "rolled_back"


def test_cancelling_needs_the_modules_that_know_how(amends: Shell) -> None:
    bought(amends, "b-1")
    (amends.place / "other.py").touch()
    complaint = amends.here("saga", "cancel", "b-1", "--module", "other").complaint
    assert "action stock.reserve version 1, action payments.charge version 1" in complaint
    assert "--module" in complaint
    assert amends.here("saga", "list", "--json").records[0]["status"] == "completed"


def test_a_saga_that_another_process_drives_is_cancelled_there(amends: Shell) -> None:
    with amends.awaiting_lorry("deliver", "--id", "d-1") as process:
        said = amends.here("saga", "cancel", "d-1", "--module", "shop")
        assert said.code == 6
        assert said.out.splitlines()[-1] == "saga d-1 rolling back: cancelled"
        amends.let_lorry_come()
        assert process.wait(PATIENCE_S) == 3
    assert amends.world == ["+ ramp", "- lorry", "- ramp"]


# -- signals ---------------------------------------------------------------------------------------------------------


def test_a_saga_that_waits_says_for_what_and_goes_on_once_it_is_sent(amends: Shell) -> None:
    begun = amends.here("run", "shop:lend", "--input", '{"item": "saw"}', "--id", "l-1")
    assert begun.code == 6
    assert begun.out.splitlines()[-1] == "  waits for returned: amends saga signal l-1 returned"
    assert "waits for returned: amends saga signal l-1 returned" in amends.here("saga", "show", "l-1").out
    left = amends.here("resume", "shop")
    assert (left.code, left.out) == (0, "nothing to resume\n")
    assert left.err == "amends: saga l-1 (shop.lend) waits: amends saga show l-1\n"
    sent = amends.here("saga", "signal", "l-1", "returned", "--payload", '"as new"', "--by", "person:ann")
    assert (sent.code, sent.out) == (0, "saga l-1 has been sent returned\n")
    resumed = amends.here("resume", "shop")
    assert (resumed.code, resumed.out.splitlines()[-1]) == (0, 'saga l-1 completed: "R-saw as new"')


def test_a_signal_that_fits_nothing_is_one_line(amends: Shell) -> None:
    amends.here("run", "shop:lend", "--input", '{"item": "saw"}', "--id", "l-1")
    wrong = amends.here("saga", "signal", "l-1", "retruned").complaint
    assert wrong.startswith(
        "saga l-1 does not wait for 'retruned': it waits for 'returned'; check the name, or send it"
    )
    assert amends.here("saga", "signal", "l-2", "returned").complaint.startswith("no saga has the id l-2")
    assert amends.here("saga", "signal", "l-1", "returned", "--payload", "{").complaint.startswith(
        "--payload is not JSON"
    )
    assert amends.here("saga", "signal", "l-1", "retruned", "--early").code == 0


def test_a_saga_that_a_limit_stopped_goes_on_when_it_is_raised(amends: Shell) -> None:
    said = amends.here("run", "shop:haggle", "--input", '{"item": "lamp"}', "--id", "h-1")
    assert "limit usd reached: 4 USD spent, and the limit is 3 USD (pause)" in said.out
    assert (said.code, said.out.splitlines()[-1]) == (
        6,
        "saga h-1 paused: limit usd: 4 USD spent, and the limit is 3 USD",
    )
    raised = ("saga", "raise-limit", "h-1", "--module", "shop", "--by", "person:ann")
    assert "raise usd to more than 4 USD" in amends.here(*raised, "--usd", "3.50").complaint
    gone_on = amends.here(*raised, "--usd", "10.50", "--why", "a fine lamp")
    assert gone_on.code == 0
    assert "limit usd raised to 10.5 USD by person:ann: a fine lamp" in gone_on.out
    assert "uses nothing up any more" in amends.here(*raised).complaint


# -- the check before a deploy ---------------------------------------------------------------------------------------


def test_new_code_that_could_not_go_on_is_named_with_what_to_do(amends: Shell) -> None:
    assert amends.here("run", "shop:lend", "--input", '{"item": "saw"}', "--id", "l-1").code == 6
    fine = amends.here("saga", "check", "shop")
    assert (fine.code, fine.out) == (0, "every saga that is unfinished can be gone on with\n")
    (amends.place / "renewed.py").write_text(
        (amends.place / "shop.py").read_text(encoding="utf-8").replace('"stock.reserve"', '"stock.reserve", version=2'),
        encoding="utf-8",
    )
    checked = amends("saga", "check", "renewed")
    assert checked.code == 1
    assert checked.out.splitlines() == [
        "l-1 shop.lend/1, waiting",
        "  step 1: no action stock.reserve version 1 is registered in this process; import the module that declares it",
        "  → keep stock.reserve version=1 declared beside newer ones",
    ]
    (record,) = amends("saga", "check", "renewed", "--json").records
    assert (record["type"], record["saga"], record["obstacles"][0]["step"]) == ("unresumable", "l-1", "1")


# -- pruning ---------------------------------------------------------------------------------------------------------


def test_what_is_old_is_pruned_and_says_so_and_what_is_held_is_not(amends: Shell) -> None:
    bought(amends, "b-1", "b-2")
    assert amends.here("saga", "retain", "b-2", "--why", "a court asks").out == "saga b-2 is retained\n"
    assert amends.here("prune", "--older-than", "0s", "--dry-run").out == "sagas that would be pruned: 1\n"
    assert amends.here("prune", "--older-than", "90d").out == "pruned 0 sagas, 0 entries; left for the next time: 0\n"
    assert amends.here("prune", "--older-than", "0s", "--yes", "--json").records == [
        {"type": "pruned", "sagas": 1, "entries": 6, "left": 0, "refused": 0, "families": 0}
    ]
    rows = [row.split() for row in amends.here("saga", "list", "--definition", "shop.buy").out.splitlines()[1:]]
    assert [(row[0], row[-1] == "pruned") for row in rows] == [("b-2", False), ("b-1", True)]
    shown = amends.here("saga", "show", "b-1")
    assert shown.code == 0
    assert "content     pruned: what its entries held was removed" in shown.out
    lifted = amends.here("saga", "retain", "b-2", "--why", "closed", "--lift")
    assert lifted.out == "saga b-2 is not retained any more\n"
    assert (
        amends.here("prune", "--older-than", "soon").complaint
        == "'soon' is no age; write 90d, 12h, or a number of seconds"
    )


def test_what_cancelling_would_do_is_planned_and_rolling_all_of_it_back_is_an_old_name_of_it(amends: Shell) -> None:
    bought(amends, "b-1")
    plan = amends.here("saga", "cancel", "b-1", "--module", "shop", "--plan")
    assert (plan.code, plan.err) == (0, ""), plan
    old = amends.here("saga", "rollback", "b-1", "--module", "shop", "--plan")
    assert (old.code, old.out) == (0, plan.out)
    told = (
        "amends: `amends saga rollback ID` is `amends saga cancel ID` by now; the old name goes with the next release"
    )
    assert old.err.splitlines() == [told]
    assert amends.here("saga", "rollback", "b-1", "--module", "shop", "--last", "1", "--plan").err == ""
    done = amends.here("saga", "rollback", "b-1", "--module", "shop", "--by", "person:ann")
    assert (done.code, done.err.splitlines()[-1]) == (0, told)
    assert "status      rolled back" in amends.here("saga", "show", "b-1").out


def test_a_plan_says_what_a_rollback_would_do_and_then_it_is_done(amends: Shell) -> None:
    bought(amends, "b-1")
    before = len(amends.here("saga", "show", "b-1", "--json").records)
    plan = amends.here("saga", "rollback", "b-1", "--module", "shop", "--last", "1", "--plan")
    assert plan.code == 0, plan
    assert "back to before its last 1: 1 step would be taken back" in plan.out
    steps = amends.here("saga", "rollback", "b-1", "--module", "shop", "--plan", "--json").records
    assert [step["order"] for step in steps] == list(range(1, len(steps) + 1))
    assert len(amends.here("saga", "show", "b-1", "--json").records) == before
    done = amends.here("saga", "rollback", "b-1", "--module", "shop", "--last", "1", "--by", "person:ann")
    assert done.code == 0, done
    assert "the work goes on" in amends.here("saga", "show", "b-1").out
    assert amends.here("saga", "rollback", "b-1", "--module", "shop", "--to", "nowhere").code != 0


def test_of_a_long_saga_the_newest_part_is_shown_and_the_rest_on_request(
    amends: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    bought(amends, "b-1")
    whole = amends.here("saga", "show", "b-1").out.splitlines()
    numbers = [row["number"] for row in amends.here("saga", "show", "b-1", "--json").of_type("entry")]
    last = amends.here("saga", "show", "b-1", "--last", "3").out.splitlines()
    assert f"the newest 3 of {numbers[-1]} entries; all of them: amends saga show b-1 --from 1" in last
    assert last[-1].split() == whole[-1].split()
    assert len(last) < len(whole)
    assert amends.here("saga", "show", "b-1", "--from", "1").out.splitlines() == whole
    rest = amends.here("saga", "show", "b-1", "--from", "4", "--json").of_type("entry")
    assert [row["number"] for row in rest] == numbers[3:]
    assert amends.here("saga", "show", "b-1", "--last", "3", "--from", "1").code == 2
    monkeypatch.setattr(commands, "SHOWN_WHOLE", 4)
    monkeypatch.setattr(commands, "SHOWN", 2)
    assert "the newest 2 of " in amends.here("saga", "show", "b-1").out
    assert [row["number"] for row in amends.here("saga", "show", "b-1", "--json").of_type("entry")] == numbers
