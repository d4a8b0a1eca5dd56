"""`amends pause` and `amends unpause`."""

from tests.cli.shell import Shell

LAMP = '{"item": "lamp", "cents": 900}'


def test_a_topic_is_paused_and_the_saga_goes_on_once_it_is_not(amends: Shell) -> None:
    assert amends.here("run", "shop:buy", "--input", LAMP, "--id", "b-0").code == 0
    held = amends.here("pause", "--topic", "payments.*", "--why", "the bank is down", "--by", "person:ann")
    assert (held.code, held.out) == (0, "pause 3 holds\n")
    begun = amends.here("run", "shop:buy", "--input", LAMP, "--id", "b-1")
    assert begun.code == 6
    assert begun.out.splitlines()[-1] == "saga b-1 paused: the bank is down"
    (listed,) = amends.here("pause", "list").out.splitlines()
    assert listed.startswith("3  topic payments.*  since ")
    assert listed.endswith(" by person:ann: the bank is down")
    (record,) = amends.here("pause", "list", "--json").records
    assert (record["number"], record["topic"], record["rollbacks"]) == (3, "payments.*", False)
    assert amends.here("unpause", "--topic", "payments.*").out == "unpaused; sagas that go on: 1\n"
    assert amends.here("pause", "list").out == "nothing is paused\n"
    resumed = amends.here("resume", "shop")
    assert (resumed.code, resumed.out.splitlines()[-1].split(":")[0]) == (0, "saga b-1 completed")


def test_a_saga_is_paused_alone(amends: Shell) -> None:
    amends.here("run", "shop:lend", "--input", '{"item": "saw"}', "--id", "l-1")
    assert amends.here("pause", "--saga", "l-1", "--why", "a look").out == "saga l-1 is paused\n"
    assert amends.here("saga", "list", "--status", "paused", "--json").records[0]["id"] == "l-1"
    assert amends.here("unpause", "--saga", "l-1").code == 0


def test_what_cannot_be_paused_is_one_line(amends: Shell) -> None:
    amends.here("run", "shop:buy", "--input", LAMP, "--id", "b-0")
    assert amends.here("pause").complaint == "a pause needs a reason: say with --why what is wrong"
    assert amends.here("unpause").complaint == "there is no pause of everything; paused now: nothing"
    assert amends.here("pause", "--saga", "b-9", "--why", "x").complaint.startswith("no saga has the id b-9")


def test_a_drain_that_has_nothing_to_wait_for_ends_well(amends: Shell) -> None:
    amends.here("run", "shop:buy", "--input", LAMP, "--id", "b-0")
    drained = amends.here("pause", "--why", "a deploy", "--rollbacks", "--drain", "5", "--json")
    assert (drained.code, drained.records) == (0, [{"type": "pause", "number": 3, "in_flight": []}])
    assert amends.here("unpause", "--all").code == 0
