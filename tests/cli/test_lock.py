"""`amends lock`: who holds what, and who stands in line for it."""

from tests.cli.shell import Shell


def test_what_an_incident_still_holds_is_listed(amends: Shell) -> None:
    assert amends.here("run", "shop:chat").code == 0
    assert amends.here("lock", "list").out == "nothing is held\n"
    assert amends.here("run", "shop:guarded", "--id", "g-1").code == 4
    head, row = amends.here("lock", "list").out.splitlines()
    assert head.split() == ["RESOURCE", "PLACE", "SAGA", "STEP", "ASKED", "UNTIL"]
    assert row.split()[:4] == ["robot:A", "holds", "g-1", "1"]
    assert row.endswith("its end")
    (record,) = amends.here("lock", "list", "--resource", "robot:A", "--saga", "g-1", "--json").records
    assert (record["type"], record["resource"], record["place"], record["owner"]) == ("lock", "robot:A", 0, "g-1")
    assert amends.here("lock", "list", "--saga", "nobody").out == "nothing is held\n"


def test_who_does_not_get_it_says_who_has_it(amends: Shell) -> None:
    assert amends.here("run", "shop:guarded", "--id", "g-1").code == 4
    said = amends.here("run", "shop:guarded", "--id", "g-2")
    assert said.code == 3
    assert "saga g-1 holds robot:A" in said.out + said.err
    assert "saga g-1 holds robot:A" in amends.here("saga", "show", "g-2").out
