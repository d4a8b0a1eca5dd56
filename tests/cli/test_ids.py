"""Ids as people write them: by their beginning, with a slip of the pen, or not at all."""

from tests.cli.shell import Shell

KNOWN = ("ok-2024-06-01", "ok-2024-06-02", "parcel-7")


def begun(amends: Shell) -> Shell:
    for name in KNOWN:
        assert amends.here("run", "shop:chat", "--id", name).code == 0
    return amends


def test_the_beginning_of_an_id_stands_for_the_only_saga_that_has_it(amends: Shell) -> None:
    said = begun(amends).here("saga", "show", "par")
    assert said.code == 0
    assert said.err == "amends: par is parcel-7\n"
    assert said.out.startswith("saga        parcel-7\n")
    assert amends.here("evidence", "record", "parcel").code == 0
    assert amends.here("saga", "watch", "parcel", "--once").code == 0


def test_a_whole_id_is_taken_as_it_is_though_others_begin_so(amends: Shell) -> None:
    assert begun(amends).here("run", "shop:chat", "--id", "ok").code == 0
    said = amends.here("saga", "show", "ok")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("saga        ok\n")


def test_of_several_nothing_is_done_and_they_are_named(amends: Shell) -> None:
    told = "ok is how the ids of several sagas begin: ok-2024-06-02, ok-2024-06-01; write more of it"
    assert begun(amends).here("saga", "show", "ok").complaint == told
    assert amends.here("saga", "cancel", "ok", "--module", "shop").complaint == told
    statuses = {each["status"] for each in amends.here("saga", "list", "--json").of_type("saga")}
    assert statuses == {"completed"}


def test_a_command_that_acts_says_the_whole_id(amends: Shell) -> None:
    said = begun(amends).here("saga", "retain", "par", "--why", "an audit")
    assert (said.code, said.err) == (0, "amends: par is parcel-7\n")
    assert said.out == "saga parcel-7 is retained\n"


def test_an_unknown_id_suggests_the_nearest(amends: Shell) -> None:
    begun(amends)
    assert amends.here("saga", "show", "parsel-7").complaint == "no saga has the id parsel-7; did you mean parcel-7?"
    assert amends.here("saga", "cancel", "parsel-7").complaint == "no saga has the id parsel-7; did you mean parcel-7?"
    nothing = "no saga has the id zzz; `amends saga list` shows those that there are"
    assert amends.here("saga", "show", "zzz").complaint == nothing
    assert amends.here("saga", "show", "").complaint.startswith("no saga has the id ")


def test_an_approval_and_an_incident_are_named_by_the_beginning_of_their_saga(amends: Shell) -> None:
    amends.give("office")
    assert amends.approval(saga="leave-of-ann") == "leave-of-ann/2"
    said = amends.here("approval", "show", "leave/2")
    assert (said.code, said.err) == (0, "amends: leave/2 is leave-of-ann/2\n")
    assert "amends approval show" not in said.err
    assert "nobody was asked about leave-of-ann/9" in amends.here("approval", "show", "leave/9").err
    assert "nobody" in amends.here("approval", "show", "other/2").complaint


def test_a_family_counts_as_its_root(amends: Shell) -> None:
    (amends.place / "families.py").write_text(
        "import amends\n"
        '@amends.saga("inner")\nasync def inner(s: amends.Work) -> None: ...\n'
        '@amends.saga("outer")\nasync def outer(s: amends.Work) -> None:\n    await s.call(inner)\n',
        encoding="utf-8",
    )
    assert amends.here("run", "families:outer", "--id", "family-1").code == 0
    assert len(amends.here("saga", "list", "--json").of_type("saga")) == 2
    said = amends.here("saga", "show", "fam")
    assert (said.code, said.err) == (0, "amends: fam is family-1\n")


def test_what_amends_keeps_for_itself_is_listed_only_with_all(amends: Shell) -> None:
    policy = amends.policy("{id: never, when: {topic: 'x.*'}, decision: deny}")
    assert begun(amends).here("policy", "adopt", policy, "--why", "a first one").code == 0
    assert amends.here("pause", "--why", "a look").code == 0

    def listed(*words: str) -> set[str]:
        return {each["id"] for each in amends.here("saga", "list", "--json", *words).of_type("saga")}

    assert listed() == set(KNOWN)
    assert listed("--all") == {*KNOWN, "amends.policy", "amends.control"}
    assert listed("--definition", "amends.policy") == {"amends.policy"}
    assert amends.here("saga", "show", "amends.policy").code == 0
    assert amends.here("saga", "show", "amends.p").code == 2


def test_ids_begin_as_they_are_written_and_not_as_a_pattern(amends: Shell) -> None:
    begun(amends)
    for given in ("%", "_", "*", "pa%", "PAR", "parce?"):
        assert amends.here("saga", "show", given).code == 2
