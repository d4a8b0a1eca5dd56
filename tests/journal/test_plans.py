"""A page costs a page: no list query reads a table from end to end, or sorts more than what it shows."""

from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path

import pytest

from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId
from amends.journal.port.journal import PersonQuery, SagaQuery
from amends.journal.sqlite import file, leases, lists, log, reader, retention
from amends.journal.sqlite.database import Values
from amends.journal.sqlite.leases import Claim

Explain = Callable[[str, Values], list[str]]
STATUSES = (SagaStatus.RUNNING, SagaStatus.INCIDENT)


@pytest.fixture(name="explain")
def _explain(tmp_path: Path) -> Generator[Explain]:
    """What SQLite says that it would do; sub-queries are left out, their tables are not."""
    database = file.open_to_write(tmp_path / "journal.db", busy_timeout_s=0, vfs=None)

    def explain(sql: str, values: Values) -> list[str]:
        plan = [str(row[3]) for row in database.rows(f"EXPLAIN QUERY PLAN {sql}", values)]
        return [line for line in plan if line.startswith(("SCAN", "SEARCH", "USE")) and "(subquery" not in line]

    yield explain
    database.close()


@pytest.mark.parametrize(
    ("query", "plan"),
    [
        (
            SagaQuery(parent=SagaId("p"), env="e", before="5.1"),
            ["SEARCH saga USING INDEX saga_parent (<expr>=? AND started_at<?)"],
        ),
        (SagaQuery(env="e", started_until=5), ["SEARCH saga USING INDEX saga_env (env=? AND started_at<?)"]),
        (SagaQuery(statuses=STATUSES[:1]), ["SEARCH saga USING INDEX saga_status (status=?)"]),
        (
            SagaQuery(statuses=STATUSES[:1], definition="d", before="5.1"),
            ["SEARCH saga USING INDEX saga_definition_status (definition=? AND status=? AND started_at<?)"],
        ),
    ],
)
def test_a_page_of_sagas_is_read_off_an_index_in_order(explain: Explain, query: SagaQuery, plan: list[str]) -> None:
    assert explain(*lists.saga_statement(query)) == plan


@pytest.mark.parametrize(
    "query", [SagaQuery(), SagaQuery(definition="d", statuses=STATUSES[:1], without=("e",), started_from=5)]
)
def test_how_an_id_begins_is_read_off_the_index_of_ids_in_their_order(explain: Explain, query: SagaQuery) -> None:
    for cursor in (None, "s5"):
        plan = explain(*lists.saga_statement(replace(query, starts_with="s", before=cursor)))
        assert plan == ["SEARCH saga USING INDEX sqlite_autoindex_saga_1 (name>? AND name<?)"]


def test_where_another_filter_finds_few_that_leads_and_what_it_finds_is_sorted(explain: Explain) -> None:
    first, *others = explain(*lists.saga_statement(SagaQuery(starts_with="s", env="e"), 0))
    assert first == "SEARCH saga USING INDEX saga_env (env=?)"
    assert set(others) == {"USE TEMP B-TREE FOR ORDER BY"}


def test_the_key_of_a_call_is_read_off_its_index(explain: Explain) -> None:
    for cursor, searched in ((None, "(key=?)"), ("5.1", "(key=? AND (started_at,saga)<(?,?))")):
        first, second, *_ = explain(*lists.saga_statement(SagaQuery(key="k", before=cursor)))
        assert first == f"SEARCH called USING PRIMARY KEY {searched}"
        assert second == "SEARCH saga USING INTEGER PRIMARY KEY (rowid=?)"


def test_several_statuses_are_several_ranges_and_only_their_pages_are_merged(explain: Explain) -> None:
    one = ["SEARCH saga USING INDEX saga_status (status=? AND started_at<?)", "USE TEMP B-TREE FOR ORDER BY"]
    assert explain(*lists.saga_statement(SagaQuery(statuses=STATUSES, env="e", before="5.1"))) == 2 * one


@pytest.mark.parametrize(
    ("query", "searched"),
    [
        (SagaQuery(), "saga_status (status=?)"),
        (SagaQuery(before="5.1"), "saga_status (status=? AND started_at<?)"),
        (SagaQuery(started_from=5), "saga_status (status=? AND started_at>?)"),
        (SagaQuery(without=("d",)), "saga_status (status=?)"),
        (SagaQuery(definition="d"), "saga_definition_status (definition=? AND status=?)"),
        (
            SagaQuery(definition="d", env="e", before="5.1"),
            "saga_definition_status (definition=? AND status=? AND started_at<?)",
        ),
    ],
)
def test_where_no_status_is_asked_for_each_of_them_is_a_range(
    explain: Explain, query: SagaQuery, searched: str
) -> None:
    plan = explain(*lists.saga_statement(query))
    assert set(plan) == {f"SEARCH saga USING INDEX {searched}", "USE TEMP B-TREE FOR ORDER BY"}
    assert plan.count(f"SEARCH saga USING INDEX {searched}") == len(SagaStatus)


def test_sagas_of_a_topic_are_read_off_the_topics_index(explain: Explain) -> None:
    query = SagaQuery(topic="t", statuses=STATUSES, definition="d", env="e")
    for cursor, searched in ((None, "(topic=?)"), ("5.1", "(topic=? AND (started_at,saga)<(?,?))")):
        first, second, *_ = explain(*lists.saga_statement(replace(query, before=cursor)))
        assert first == f"SEARCH seen USING PRIMARY KEY {searched}"
        assert second == "SEARCH saga USING INTEGER PRIMARY KEY (rowid=?)"


@pytest.mark.parametrize("table", ["incident", "approval"])
def test_what_people_are_asked_is_read_in_the_order_of_asking(explain: Explain, table: str) -> None:
    statement = lists.incident_statement if table == "incident" else lists.approval_statement
    joined = "SEARCH saga USING INTEGER PRIMARY KEY (rowid=?)"
    assert explain(*statement(PersonQuery())) == [f"SEARCH {table} USING INDEX {table}_open (id>?)", joined]
    every = PersonQuery(open_only=False, after="3")
    assert explain(*statement(every)) == [f"SEARCH {table} USING INTEGER PRIMARY KEY (rowid>?)", joined]
    plan = explain(*statement(PersonQuery(saga=SagaId("s"))))
    assert plan[0] == f"SEARCH {table} USING INDEX sqlite_autoindex_{table}_1 (saga=?)"
    assert not [line for line in plan if line.startswith("SCAN")]


def test_a_claim_looks_only_at_what_the_gone_ones_held(explain: Explain) -> None:
    wanted = leases._bindings(Claim(worker="w", definitions=("d",), saga=SagaId("s"), due_by=5, limit=9))
    first, *rest = explain(leases._HOLDERS, {})
    assert first == "SEARCH saga USING INDEX saga_held"
    assert "SEARCH saga USING INDEX saga_held (worker>?)" in rest
    held, *_ = explain(leases._HELD, {"holder": "x", **wanted})
    assert held == "SEARCH saga USING INDEX saga_held (worker=?)"
    named, *_ = explain(leases._NAMED, wanted)
    assert named == "SEARCH saga USING INDEX sqlite_autoindex_saga_1 (name=?)"


def test_nudges_and_entries_are_found_by_their_index(explain: Explain) -> None:
    searched = [line for line in explain(leases._NUDGED, ("w", 5)) if not line.startswith("USE")]
    assert searched == [
        "SEARCH saga USING INDEX saga_nudged (worker=?)",
        "SEARCH saga USING INDEX saga_asleep (worker=? AND wake_at<?)",
    ]
    assert explain(reader._ENTRIES, (1, 2, 3)) == ["SEARCH entry USING INDEX entry_number (saga=? AND number>?)"]


@pytest.mark.parametrize("after", [0, 9])
def test_the_log_is_read_in_its_order(explain: Explain, after: int) -> None:
    by_number = "SEARCH old USING INDEX entry_number (saga=? AND number=?)"
    by_row = "SEARCH saga USING INTEGER PRIMARY KEY (rowid=?)"
    for names in (None, {"saga.started/1"}):
        plan = explain(*log.statement(after, names, 10))
        assert plan[0] == "SEARCH entry USING INTEGER PRIMARY KEY (rowid>?)"
        assert {by_number, by_row} <= set(plan)
    for names in ({"incident.opened/1"}, {"approval.requested/1", "incident.opened/2"}):
        assert explain(*log.statement(after, names, 10))[0] == "SEARCH entry USING INDEX entry_asking (seq>?)"


def test_rates_and_retention_are_found_by_their_index(explain: Explain) -> None:
    assert explain("SELECT at FROM admission WHERE key = ? AND at > ? ORDER BY at", ("k", 1)) == [
        "SEARCH admission USING COVERING INDEX admission_key (key=? AND at>?)"
    ]
    assert explain("DELETE FROM admission WHERE until <= ?", (1,)) == [
        "SEARCH admission USING INDEX admission_until (until<?)"
    ]
    found = explain(retention._ENDED, (1, 2, "[]", None, "[]"))
    assert found[0] == "SEARCH saga USING INTEGER PRIMARY KEY (rowid>?)"
    assert not any(step.startswith("SCAN saga") for step in found)


RARE = SagaQuery(topic="t", labels=(("tenant", "acme"),), statuses=(SagaStatus.PAUSED,), env="e", definition="d")


def test_of_several_filters_the_rarest_leads_and_what_is_not_there_is_not_looked_for(tmp_path: Path) -> None:
    """In a journal of 3,000 sagas that have all but one of what is asked for, a handful of rows is looked at."""
    database = file.open_to_write(tmp_path / "journal.db", busy_timeout_s=0, vfs=None)
    database.run(
        """
        INSERT INTO saga (id, name, head, hash, epoch, worker, nudged, status, definition, version, env, actor, labels,
                          started_at, updated_at, ended_at, open_incidents, open_approvals)
        WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
        SELECT i, 's' || i, 1, x'', 0, '', 0, 'completed', 'd', 1, 'e', 'a', '{"tenant":"acme"}', i, i, i, 0, 0 FROM n
        """
    )
    database.run("INSERT INTO saga_topic (topic, started_at, saga) SELECT 't', started_at, id FROM saga")
    database.run("INSERT INTO saga_label SELECT 'tenant', 'acme', started_at, id FROM saga")
    completed = (SagaStatus.COMPLETED,)
    for query, rows in (
        (RARE, 0),
        (replace(RARE, statuses=completed), 50),
        (replace(RARE, statuses=completed, topic="other"), 0),
        (replace(RARE, statuses=completed, labels=(("tenant", "other"),)), 0),
        (replace(RARE, statuses=completed, env="other"), 0),
        (replace(RARE, statuses=completed, definition="other"), 0),
        (replace(RARE, statuses=completed, parent=SagaId("p")), 0),
        (replace(RARE, statuses=None, ended_from=2991), 10),
        (SagaQuery(ended_until=5), 4),
    ):
        looked = 0

        def note() -> bool:
            nonlocal looked
            looked += 1
            return False

        lead = lists._shortest(database, query)
        with database.stopped_by(note, 1):  # told of each step of SQLite's machine
            found = database.rows(*lists.saga_statement(replace(query, limit=49), lead))
        assert (query, len(found)) == (query, rows)
        assert looked < 1_000 + 200 * rows, query
    database.close()
