"""The rules of lists: written with the entries, filtered, paged by key, never shifted by what comes new."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from amends.core import events as e
from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId, StepId
from amends.errors import InputError, JournalConflictError
from amends.journal.port.entries import PARENT, Summary
from amends.journal.port.journal import Journal
from amends.journal.port.lists import ApprovalRow, IncidentRow, PersonQuery, SagaQuery, SagaRow
from amends.testing.journal_suite.fixture import RUNNING, StoreFixture, add, begin, equal, refusal, rule
from amends.testing.journal_suite.samples import STEP, opened, proposed, requested, resumed, started

COMPLETED: Final = Summary(status=SagaStatus.COMPLETED)
EVERYONE: Final = PersonQuery(open_only=False)


async def found(journal: Journal, query: SagaQuery) -> list[str]:
    """The ids on all of the pages."""
    page = await journal.sagas(query)
    names = [row.id for row in page.rows]
    while page.cursor is not None:
        page = await journal.sagas(replace(query, before=page.cursor))
        names += [row.id for row in page.rows]
    return [str(name) for name in names]


async def incidents(journal: Journal, query: PersonQuery) -> list[str]:
    page = await journal.incidents(query)
    names = [row.id for row in page.rows]
    while page.cursor is not None:
        page = await journal.incidents(replace(query, after=page.cursor))
        names += [row.id for row in page.rows]
    return names


async def approvals(journal: Journal, query: PersonQuery) -> list[str]:
    page = await journal.approvals(query)
    names = [row.id for row in page.rows]
    while page.cursor is not None:
        page = await journal.approvals(replace(query, after=page.cursor))
        names += [row.id for row in page.rows]
    return names


class ListsSuite(StoreFixture):
    @rule
    async def test_a_row_shows_what_the_saga_was_started_with(self, journal: Journal) -> None:
        saga = await begin(journal, "s")
        begun, at = started(), self.clock.now()
        row = SagaRow(
            id=saga,
            definition=begun.definition,
            version=begun.version,
            env=begun.env,
            actor=begun.actor,
            status=SagaStatus.RUNNING,
            labels=begun.labels,
            started_at=at,
            updated_at=at,
            ended_at=None,
            entries=1,
            open_incidents=0,
            open_approvals=0,
        )
        equal(await journal.saga(saga), row)
        equal((await journal.sagas(SagaQuery())).rows, (row,))
        equal(await journal.saga(SagaId("t")), None)

    @rule
    async def test_a_row_follows_each_append(self, journal: Journal) -> None:
        saga = await begin(journal, "s")
        statuses = (*SagaStatus, SagaStatus.RUNNING)
        for status in statuses:
            self.clock.advance(1)
            await add(journal, saga, resumed(), resumed(), summary=Summary(status=status, wake_at=5))
            row = await journal.saga(saga)
            ended_at = self.clock.now() if status.ended else None
            equal(row and (row.status, row.updated_at, row.ended_at), (status, self.clock.now(), ended_at))
        row = await journal.saga(saga)
        equal(row and (row.entries, row.started_at), (1 + 2 * len(statuses), self.clock.now() - 1000 * len(statuses)))

    @rule
    async def test_a_refused_append_changes_no_row(self, journal: Journal) -> None:
        saga = await begin(journal, "s")
        before = await journal.saga(saga)
        self.clock.advance(1)
        late = journal.append(saga, [opened(), requested(), proposed()], after=7, summary=COMPLETED)
        await refusal(late, JournalConflictError)
        equal(await journal.saga(saga), before)
        equal(await found(journal, SagaQuery(topic=proposed().topic)), [])
        equal(await incidents(journal, EVERYONE) + await approvals(journal, EVERYONE), list[str]())

    # -- filters ------------------------------------------------------------------------------------------------------

    @rule
    async def test_sagas_are_found_by_each_filter_and_by_all_together(self, journal: Journal) -> None:
        rows = (("a", "one", "dev", "mail.send"), ("b", "two", "dev", "mail.send"), ("c", "one", "prod", "pay.charge"))
        moments: list[int] = []
        for name, definition, env, topic in rows:
            saga = await begin(journal, name, definition=definition, env=env, parent="p" if name in "bc" else "")
            summary = COMPLETED if name == "b" else RUNNING
            await add(journal, saga, proposed("x.1", topic), proposed("x.2", "all.do"), summary=summary)
            await add(journal, saga, proposed("x.3", topic), summary=summary)
            moments.append(self.clock.now())
            self.clock.advance(10)
        second = moments[1]
        running, completed = (SagaStatus.RUNNING,), (SagaStatus.COMPLETED,)
        for query, names in (
            (SagaQuery(), "cba"),
            (SagaQuery(definition="one"), "ca"),
            (SagaQuery(env="dev"), "ba"),
            (SagaQuery(parent=SagaId("p")), "cb"),
            (SagaQuery(parent=SagaId("p"), env="dev"), "b"),
            (SagaQuery(parent=SagaId("q")), ""),
            (SagaQuery(topic="mail.send"), "ba"),
            (SagaQuery(topic="all.do"), "cba"),
            (SagaQuery(topic="nothing"), ""),
            (SagaQuery(statuses=running), "ca"),
            (SagaQuery(statuses=completed), "b"),
            (SagaQuery(statuses=running + completed), "cba"),
            (SagaQuery(statuses=(SagaStatus.PAUSED,)), ""),
            (SagaQuery(statuses=()), ""),
            (SagaQuery(started_from=second), "cb"),
            (SagaQuery(started_until=second), "a"),
            (SagaQuery(started_from=second, started_until=second + 1), "b"),
            (SagaQuery(starts_with="b"), "b"),
            (SagaQuery(starts_with="bb"), ""),
            (SagaQuery(starts_with="a", definition="one", started_until=second), "a"),
            (SagaQuery(starts_with="c", topic="all.do", statuses=running), "c"),
            (SagaQuery(without=("one",)), "b"),
            (SagaQuery(without=("one", "two")), ""),
            (SagaQuery(without=("two",), started_from=second), "c"),
            (SagaQuery(statuses=running, definition="one", env="dev"), "a"),
            (SagaQuery(topic="all.do", statuses=running, definition="one", started_from=second), "c"),
            (SagaQuery(topic="mail.send", statuses=()), ""),
            (SagaQuery(definition="one", env="prod", started_until=second), ""),
            (SagaQuery(definition="two", env="dev", statuses=completed, topic="mail.send", started_from=second), "b"),
        ):
            equal((query, await found(journal, query)), (query, list(names)))
            equal((query, await found(journal, replace(query, limit=1))), (query, list(names)))

    @rule
    async def test_sagas_are_found_by_their_labels_their_ends_and_whatever_is_asked_for_together(
        self, journal: Journal
    ) -> None:
        for name, definition, parent in (("a", "one", ""), ("b", "two", "p"), ("c", "one", "p")):
            saga = await begin(
                journal, name, definition=definition, env="prod" if name == "c" else "dev", parent=parent
            )
            summary = COMPLETED if name == "b" else RUNNING
            topic = "pay.charge" if name == "c" else "mail.send"
            await add(journal, saga, proposed("x.1", topic), proposed("x.2", "all.do"), summary=summary)
            self.clock.advance(10)
        row = await journal.saga(SagaId("b"))
        second = 0 if row is None else row.updated_at
        running, completed = (SagaStatus.RUNNING,), (SagaStatus.COMPLETED,)
        for query, names in (
            (SagaQuery(definition="one", statuses=completed), ""),
            (SagaQuery(definition="one", statuses=()), ""),
            (SagaQuery(definition="one", statuses=running + completed), "ca"),
            (SagaQuery(topic="mail.send", definition="one", statuses=completed), ""),
            (SagaQuery(ended_from=second), "b"),
            (SagaQuery(ended_from=second + 1), ""),
            (SagaQuery(ended_until=second), ""),
            (SagaQuery(ended_from=second, ended_until=second + 1, env="dev", topic="all.do"), "b"),
            (SagaQuery(labels=(("team", "travel"),)), "cba"),
            (SagaQuery(labels=(("team", "travel"), ("ключ", "значение")), statuses=running), "ca"),
            (SagaQuery(labels=(("team", "Travel"),)), ""),
            (SagaQuery(labels=(("tea", "travel"),)), ""),
            (SagaQuery(labels=(("team", "travel"), (PARENT, "p")), topic="all.do", definition="one"), "c"),
            (SagaQuery(labels=((PARENT, "p"),), ended_until=second + 1), "b"),
            (SagaQuery(labels=((PARENT, "p"),), starts_with="c"), "c"),
        ):
            equal((query, await found(journal, query)), (query, list(names)))
            equal((query, await found(journal, replace(query, limit=1))), (query, list(names)))

    # -- pages --------------------------------------------------------------------------------------------------------

    @rule
    async def test_pages_join_to_the_whole_list_at_every_size(self, journal: Journal) -> None:
        names = [f"s{number}" for number in range(7)]
        for number, name in enumerate(names):
            await add(journal, await begin(journal, name), proposed())
            self.clock.jump((5, 0, -5, 0)[number % 4])
        by_age = [row.id for row in (await journal.sagas(SagaQuery())).rows]
        equal(sorted(by_age), names)
        statuses = (SagaStatus.RUNNING, SagaStatus.WAITING)
        for limit in range(1, 9):
            for query in (SagaQuery(), SagaQuery(statuses=statuses), SagaQuery(topic=proposed().topic)):
                equal(await found(journal, replace(query, limit=limit)), by_age)
        equal((await journal.sagas(SagaQuery(limit=7))).cursor, None)

    @rule
    async def test_what_is_found_by_how_its_id_begins_is_in_the_order_of_ids(self, journal: Journal) -> None:
        for number in (3, 1, 4, 0, 2):
            saga = await begin(journal, f"s{number}", env="even" if number % 2 == 0 else "odd")
            await add(journal, saga, proposed())
            await begin(journal, f"t{number}")
        for limit in range(1, 7):
            for query, names in (
                (SagaQuery(starts_with="s"), "43210"),
                (SagaQuery(starts_with="s", env="even"), "420"),
                (SagaQuery(starts_with="s", topic=proposed().topic, env="odd"), "31"),
                (SagaQuery(starts_with="s", labels=(("team", "travel"),)), "43210"),
                (SagaQuery(starts_with="s2"), "2"),
            ):
                expected = [f"s{name}" for name in names]
                equal((query, limit, await found(journal, replace(query, limit=limit))), (query, limit, expected))
        await refusal(journal.sagas(SagaQuery(starts_with="s", before="t1")), InputError)

    @rule
    async def test_a_saga_is_found_by_the_key_of_a_call_once_that_is_noted(self, journal: Journal) -> None:
        for name in "abc":
            saga = await begin(journal, name)
            await add(
                journal, saga, proposed("1"), proposed("2"), e.ActionAllowed(step=StepId("1"), rule="r", policy="")
            )
            await add(
                journal,
                saga,
                e.AttemptStarted(step=StepId("1"), attempt=1, key=f"do-{name}"),
                e.AttemptStarted(step=StepId("2"), attempt=1, key="shared"),
                e.AttemptStarted(step=StepId("2"), attempt=2, key="shared"),
            )
            self.clock.advance(1)
        while not await journal.note_keys():
            pass
        late = e.CompensationStarted(step=StepId("1"), attempt=1, key="undo-c", certain=True, rule="r", policy="")
        await add(journal, SagaId("c"), late)
        while not await journal.note_keys():
            pass
        for query, names in (
            (SagaQuery(key="do-b"), "b"),
            (SagaQuery(key="undo-c"), "c"),
            (SagaQuery(key="shared"), "cba"),
            (SagaQuery(key="shared", starts_with="a"), "a"),
            (SagaQuery(key="shared", statuses=(SagaStatus.COMPLETED,)), ""),
            (SagaQuery(key="do-"), ""),
            (SagaQuery(key=""), ""),
        ):
            for limit in (1, 2, 5):
                equal((query, await found(journal, replace(query, limit=limit))), (query, list(names)))
        await add(journal, SagaId("a"), e.SagaCompleted(result=None), summary=COMPLETED)
        await journal.remove_payloads(by="person:ann", why="old", ended_before=2**50)
        equal(await found(journal, SagaQuery(key="shared")), ["c", "b"])

    @rule
    async def test_what_comes_new_does_not_shift_the_pages(self, journal: Journal) -> None:
        for number in range(6):
            await begin(journal, f"s{number}")
        first = await journal.sagas(SagaQuery(limit=2))
        for number in range(6, 9):
            await begin(journal, f"s{number}")
        second = await journal.sagas(SagaQuery(limit=2, before=first.cursor))
        third = await journal.sagas(SagaQuery(limit=2, before=second.cursor))
        pages = [[str(row.id) for row in page.rows] for page in (first, second, third)]
        equal(pages, [["s5", "s4"], ["s3", "s2"], ["s1", "s0"]])
        equal(third.cursor, None)

    @rule
    async def test_a_cursor_that_no_page_gave_is_refused(self, journal: Journal) -> None:
        for cursor in ("", "x", "1", "1.2.3", "1.x", "1.\u0662", "1." + "9" * 30):
            await refusal(journal.sagas(SagaQuery(before=cursor)), InputError)
        for cursor in ("", "x", "1.2", "-"):
            await refusal(journal.incidents(PersonQuery(after=cursor)), InputError)
            await refusal(journal.approvals(PersonQuery(after=cursor)), InputError)

    # -- incidents ----------------------------------------------------------------------------------------------------

    @rule
    async def test_an_incident_is_listed_from_its_opening_to_its_end(self, journal: Journal) -> None:
        saga = await begin(journal, "s")
        await add(journal, saga, opened(1), opened(2, step=None))
        at, event = self.clock.now(), opened(1)
        row = IncidentRow(
            id="s/1",
            saga=saga,
            number=1,
            definition=started().definition,
            kind=event.kind,
            step=event.step,
            why=event.why,
            left=event.left,
            owner="",
            status="open",
            opened_at=at,
            closed_at=None,
        )
        page = await journal.incidents(PersonQuery())
        equal(page.rows[0], row)
        equal((page.rows[1].step, page.rows[1].left, page.cursor), (None, (), None))
        self.clock.advance(1)
        await add(journal, saga, e.IncidentRetried(incident=1, by="ann"))
        resolved = e.IncidentResolved(incident=2, by="ann", reason="by hand", settled=())
        await add(journal, saga, resolved)
        equal(await incidents(journal, PersonQuery()), [])
        one, two = (await journal.incidents(EVERYONE)).rows
        equal(one, replace(row, status="retried", closed_at=self.clock.now()))
        equal((two.status, two.closed_at), ("resolved", self.clock.now()))

    @rule
    async def test_a_row_counts_what_is_open(self, journal: Journal) -> None:
        saga, other = await begin(journal, "s"), await begin(journal, "t")
        await add(journal, other, opened(1), requested("a.1"))

        async def counts(*events: e.Event) -> tuple[int, int] | None:
            await add(journal, saga, *events)
            row = await journal.saga(saga)
            return None if row is None else (row.open_incidents, row.open_approvals)

        equal(await counts(opened(1), opened(2)), (2, 0))
        equal(await counts(requested("a.1"), requested("a.2")), (2, 2))
        equal(await counts(e.IncidentRetried(incident=1, by="ann")), (1, 2))
        equal(await counts(e.ApprovalGranted(step=StepId("a.1"), by="bob", digest="d"), opened(3)), (2, 1))
        equal(await counts(e.IncidentRetried(incident=9, by="ann"), e.ApprovalExpired(step=StepId("a.9"))), (2, 1))

    @rule
    async def test_people_are_asked_oldest_first_page_by_page(self, journal: Journal) -> None:
        sagas = [await begin(journal, f"s{number}") for number in range(3)]
        for number in range(1, 4):
            for saga in sagas:
                await add(journal, saga, opened(number), requested(f"a.{number}"))
        asked = [f"{saga}/{number}" for number in range(1, 4) for saga in sagas]
        for limit in range(1, 11):
            equal(await incidents(journal, PersonQuery(limit=limit)), asked)
            equal(await incidents(journal, replace(EVERYONE, limit=limit)), asked)
            steps = [one.replace("/", "/a.") for one in asked]
            equal(await approvals(journal, PersonQuery(limit=limit)), steps)
        of_one = PersonQuery(saga=sagas[1], limit=2)
        equal(await incidents(journal, of_one), ["s1/1", "s1/2", "s1/3"])
        equal(await approvals(journal, of_one), ["s1/a.1", "s1/a.2", "s1/a.3"])
        equal(await incidents(journal, PersonQuery(saga=SagaId("nobody"))), [])

    # -- approvals ----------------------------------------------------------------------------------------------------

    @rule
    async def test_an_approval_is_listed_until_it_is_answered(self, journal: Journal) -> None:
        saga = await begin(journal, "s")
        await add(journal, saga, requested())
        row = ApprovalRow(
            id=f"s/{STEP}",
            saga=saga,
            step=STEP,
            definition=started().definition,
            topic="payments.charge",
            rule=requested().rule,
            status="requested",
            requested_at=self.clock.now(),
            expires_at=requested().expires_at,
        )
        equal((await journal.approvals(PersonQuery())).rows, (row,))
        for answer, status in (
            (e.ApprovalGranted(step=STEP, by="bob", digest="d"), "granted"),
            (e.ApprovalUsed(step=STEP, digest="d"), "used"),
            (e.ApprovalRefused(step=STEP, by="bob", why="no"), "refused"),
            (e.ApprovalExpired(step=STEP), "expired"),
            (e.ApprovalVoided(step=STEP, why="changed"), "void"),
        ):
            await add(journal, saga, answer)
            equal(await approvals(journal, PersonQuery()), [])
            equal((await journal.approvals(EVERYONE)).rows, (replace(row, status=status),))

    @rule
    async def test_who_is_asked_again_goes_to_the_end_of_the_line(self, journal: Journal) -> None:
        saga = await begin(journal, "s")
        await add(journal, saga, requested("a.1"), requested("a.2"))
        self.clock.advance(1)
        await add(journal, saga, e.ApprovalVoided(step=StepId("a.1"), why="changed"), requested("a.1", "another"))
        page = await journal.approvals(PersonQuery())
        equal([row.id for row in page.rows], ["s/a.2", "s/a.1"])
        equal((page.rows[1].rule, page.rows[1].requested_at), ("another", self.clock.now()))
