"""Health of a journal and what is around it, for `amends doctor`. Reads only; all it finds is a finding, no error."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Final, overload

from amends.addresses import (
    evidence_notary,
    has_another_key,
    is_database,
    is_there,
    journal_file,
    key_place,
    open_journal,
)
from amends.clock import SystemClock
from amends.core.events import PolicyAdopted
from amends.core.state.saga import open_waits, unstarted
from amends.core.transitions import SagaStatus
from amends.core.words.contracts import Contract, Reversibility
from amends.core.words.values import BUILT_IN, CONTROL, POLICIES, SagaId
from amends.errors import (
    EvidenceKeyError,
    JournalDamagedError,
    JournalError,
    JournalVersionError,
    MistakesError,
)
from amends.evidence.drills import drilled_at, last_passed, scheduled
from amends.evidence.story.timeline import span
from amends.evidence.verify.examine import DAMAGED, store_troubles, trouble_in
from amends.gate.load import builtin_policy, load_policy
from amends.gate.policy import Policy
from amends.journal.clocks import CLOCKS, passed_ms
from amends.journal.port.entries import caught_up
from amends.journal.port.journal import Journal, PersonQuery, SagaQuery, SagaRow
from amends.journal.port.lists import ApprovalPage, ApprovalRow, IncidentPage, IncidentRow
from amends.operate.findings import Checkup, HealthFinding
from amends.operate.outside import configuration, confining, moved, place, rights, shared
from amends.operate.roster import roster_state
from amends.ownership import journal_faults
from amends.runtime.coordinator.control import scope_of
from amends.runtime.coordinator.upgrade import unresumable
from amends.runtime.declare.registry import PROCESS
from amends.runtime.drive.logbook import rows as sagas_of
from amends.runtime.drive.pauses import Pauses
from amends.runtime.drive.policies import Policies
from amends.sagafile import remember
from amends.text import counted, moment

READ: Final = 100
LOOK_S: Final = 10.0
"""So long is looked at the file, and so long at its sagas."""
LEASE_MS: Final = 120_000
SKEW_MS: Final = 2_000
_GRACE_MS: Final = 5_000
_TAKE_UP: Final = "amends resume, or amends work, with the modules that declare them; those of a YAML file need none"
_SHOWN: Final = 5
_OLD_MS: Final = 30 * 86_400_000
_NAMED: Final = 3
_FORTH_MS: Final = 60_000
"""So far a clock may have been set forth since the journal noted it: what keeps it right moves it less."""
_LONG_MS: Final = 365 * 86_400_000


async def examine(asked: Checkup) -> list[HealthFinding]:
    """Everything, in the order in which a person would look."""
    address, policy, how_policy = asked.address, asked.policy, asked.how_policy
    found = [*configuration(asked), *place(address, asked.how_journal)]
    path = journal_file(address)
    if is_database(address):
        found += [each async for each in _inside(asked)]
    elif path is None or not path.exists():
        found += [each async for each in _policy(None, policy, how_policy)]
    else:
        found += rights(path, shared(asked.group))
        is_refused = any(journal_faults(path, group=shared(asked.group)))
        inside = _policy(None, policy, how_policy) if is_refused else _inside(asked)
        found += [each async for each in inside]
    found.append(confining())
    found += () if is_there(address) else _actions_without_journal()
    return found


async def _inside(asked: Checkup) -> AsyncIterator[HealthFinding]:
    try:
        journal = await open_journal(asked.address, SystemClock(), journal_group=asked.group, signs=False)
    except JournalError as exc:
        yield HealthFinding(name="settings", state="wrong", found=str(exc), do=_about_opening(exc))
        return
    try:
        by_file = "WAL, synchronous=EXTRA, secure_delete; the newest entries verify"
        by_server = "PostgreSQL, in this version's format; the newest entries verify"
        durable = by_server if is_database(asked.address) else by_file
        yield HealthFinding(name="settings", state="ok", found=durable)
        looks = {
            "moved": moved(asked.address),
            "key": _key(journal, asked),
            "clock": _clock(journal),
            "file": _store(journal),
            "chain": _chain(journal),
            **({"positions": _numbers(journal)} if is_database(asked.address) else {}),
            "leases": _leases(journal),
            "pauses": _paused(journal),
            "resume": _resumable(journal),
            "roster": _roster(journal, asked.root),
            "people": _people(journal),
            "policy": _policy(journal, asked.policy, asked.how_policy),
            "actions": _actions(journal, asked.policy),
        }
        for name, found in looks.items():
            async for each in _unless_damaged(name, found):
                yield each
    finally:
        await journal.close()


async def _unless_damaged(name: str, found: AsyncIterator[HealthFinding]) -> AsyncIterator[HealthFinding]:
    """Findings; that something cannot be looked at because the journal is damaged is one too."""
    try:
        async for each in found:
            yield each
    except JournalError as exc:
        yield HealthFinding(name=name, state="wrong", found=str(exc), do=DAMAGED)


def _about_opening(trouble: JournalError) -> str:
    """Advice about a journal that cannot be opened; '' where the error says it itself."""
    match trouble:
        case JournalVersionError() if "journal migrate" in str(trouble):
            return ""
        case JournalVersionError():
            return "nothing was changed; install the amends that wrote it, or a newer one: pip install --upgrade amends"
        case JournalDamagedError():
            return DAMAGED
        case _:
            return ""


async def _key(journal: Journal, asked: Checkup) -> AsyncIterator[HealthFinding]:
    """Whether the key is there that signs: without it no process can write to the journal."""
    signers, path, group = await journal.signers(), key_place(asked.address), shared(asked.group)
    if not signers or path is None or has_another_key(path, None, group):
        return  # it gets one with the first process that writes, or has none here; `rights` tells of another's
    try:
        if evidence_notary(path, group=group).could_sign(signers[-1].key):
            yield HealthFinding(name="key", state="ok", found="the key that signs is there")
            return
        what = f"the key that is there is not the one that signs: {signers[-1].key}"
        do = "give the right one: its file, or AMENDS_EVIDENCE_KEY, _KEY_FILE or _KEY_COMMAND"
    except EvidenceKeyError as exc:
        what, _, do = str(exc).partition("; ")
    yield HealthFinding(name="key", state="wrong", found=what, do=f"nothing can run until then: {do}")


async def _roster(journal: Journal, root: str | None) -> AsyncIterator[HealthFinding]:
    stands = await roster_state(journal, root)
    if stands is not None:
        yield HealthFinding(name="roster", state=stands[0], found=stands[1], do=stands[2])


async def _clock(journal: Journal) -> AsyncIterator[HealthFinding]:
    """The clock on the wall, held against the newest entry and against the one that nobody sets."""
    rows, clock = (await journal.sagas(SagaQuery(limit=READ))).rows, SystemClock()
    newest, now = max((row.updated_at for row in rows), default=0), clock.now()
    off = await _set_by_ms(journal, now, clock.elapsed())
    do = "set the clock (NTP); leases go by another one, but times on record will be out of order"
    if newest - now > SKEW_MS:
        yield HealthFinding(
            name="clock", state="wrong", found=f"the newest entry is {span(newest - now)} ahead of now", do=do
        )
    elif off < -SKEW_MS:
        what = f"the clock was set back by {span(-off)} since this journal was last written to"
        yield HealthFinding(name="clock", state="wrong", found=what, do=do)
    elif off > _FORTH_MS:
        what = f"the clock was set forth by {span(off)} since this journal was last written to"
        do = "if that is wrong, set it (NTP): approvals and waits run out early by it, and rates let more pass"
        yield HealthFinding(name="clock", state="look", found=what, do=do)
    elif newest and now - newest > _LONG_MS:
        what = f"the newest entry is {span(now - newest)} old"
        do = f"if it was written to since, the clock is wrong: it says {moment(now)}"
        yield HealthFinding(name="clock", state="look", found=what, do=do)
    else:
        yield HealthFinding(name="clock", state="ok", found="no entry is from the future, and nobody has set the clock")


async def _set_by_ms(journal: Journal, now: int, elapsed: float) -> int:
    """By how much the clock on the wall differs from what has passed since the journal noted it; 0 where unknown."""
    kept = next((one for one in await journal.cursors(CLOCKS) if one.name == CLOCKS), None)
    passed = None if kept is None else passed_ms(kept, elapsed)
    return 0 if kept is None or passed is None else now - (kept.position + passed)


async def _store(journal: Journal) -> AsyncIterator[HealthFinding]:
    """The file's own check, for a few seconds; `amends evidence verify` takes the time that it needs."""
    found, is_whole = await store_troubles(journal, within_s=LOOK_S)
    for each in found[:_SHOWN]:
        yield HealthFinding(name="file", state="wrong", found=each, do=DAMAGED)
    if not found and is_whole:
        yield HealthFinding(name="file", state="ok", found="its pages, rows and indexes agree")
    elif not found:
        what = f"not all of it was gone over in {LOOK_S:g} s"
        yield HealthFinding(name="file", state="look", found=what, do="amends evidence verify, which takes its time")


async def _chain(journal: Journal) -> AsyncIterator[HealthFinding]:
    """Each saga, read as whoever drives it would: the journal's own first, then the newest, for a few seconds."""
    clock = SystemClock()
    ends = clock.elapsed() + LOOK_S
    read = entries = wrong = 0
    own = [row for name in (POLICIES, CONTROL) if (row := await journal.saga(SagaId(name))) is not None]
    async for row in _each(journal, own):
        trouble = await trouble_in(journal, row.id)
        if trouble is not None:
            wrong += 1
            yield HealthFinding(name="chain", state="wrong", found=trouble, do=DAMAGED)
        read, entries = read + 1, entries + row.entries
        if wrong == _SHOWN or clock.elapsed() > ends:
            what = f"the others after the newest {counted(read, 'saga')} were not read"
            yield HealthFinding(
                name="chain", state="look", found=what, do="amends evidence verify, which takes its time"
            )
            return
    if not wrong:
        what = f"{counted(entries, 'entry', 'entries')} of {counted(read, 'saga')} can be read and verify"
        yield HealthFinding(name="chain", state="ok", found=what)


async def _numbers(journal: Journal) -> AsyncIterator[HealthFinding]:
    """How far the positions in the log have come, where they are given after the append."""
    behind, now = await journal.unnumbered(), SystemClock().now()
    late_ms = 0 if behind.since_at is None else now - behind.since_at
    what = f"{counted(behind.entries, 'entry', 'entries')} without a position in the log yet"
    if late_ms > _GRACE_MS:
        do = "see whether a worker runs that may write (amends worker list); any that does gives them theirs"
        yield HealthFinding(name="positions", state="wrong", found=f"{what}, the oldest for {span(late_ms)}", do=do)
    else:
        newest = (await journal.tree()).size
        yield HealthFinding(name="positions", state="ok", found=f"positions go up to {newest}; {what}")


async def _each(journal: Journal, own: Sequence[SagaRow]) -> AsyncIterator[SagaRow]:
    for row in own:
        yield row
    query: SagaQuery | None = SagaQuery(limit=READ)
    while query is not None:
        page = await journal.sagas(query)
        for row in page.rows:
            if row not in own:
                yield row
        query = None if page.cursor is None else SagaQuery(limit=READ, before=page.cursor)


async def _leases(journal: Journal) -> AsyncIterator[HealthFinding]:
    """A saga whose worker is gone (dead, or its lease is over) goes on only when somebody takes it up."""
    going = (SagaStatus.RUNNING, SagaStatus.ROLLING_BACK)
    rows = [row async for row in sagas_of(journal, going)]
    now = SystemClock().now()
    left: list[SagaRow] = []
    still: list[SagaRow] = []
    for row in rows:
        if await journal.holder(row.id) is None:
            left.append(row)
        elif now - row.updated_at > LEASE_MS:
            still.append(row)
    if left:
        what = f"no living process drives {_some(left, now)}"
        yield HealthFinding(name="leases", state="wrong", found=what, do=_TAKE_UP)
    if still:
        what = f"a living process has {_some(still, now)}"
        do = f"a step may hang: amends saga show {still[0].id}"
        yield HealthFinding(name="leases", state="look", found=what, do=do)
    overdue = [each async for each in _overdue(journal, now)]
    if overdue:
        named = ", ".join(f"{row.id} ({row.definition})" for row, _ in overdue[:_NAMED])
        more = f" and {len(overdue) - _NAMED} more" if len(overdue) > _NAMED else ""
        what = (
            f"nobody has taken up what is due: {named}{more}; the longest for {span(max(late for _, late in overdue))}"
        )
        yield HealthFinding(name="leases", state="wrong", found=what, do=_TAKE_UP)
    if not left and not still and not overdue:
        going_on = f"{len(rows)} going, each driven by a living process" if rows else "nothing is going"
        yield HealthFinding(name="leases", state="ok", found=going_on)


async def _overdue(journal: Journal, now: int) -> AsyncIterator[tuple[SagaRow, int]]:
    """Sagas that wait for a time which has come (another try, a sleep, an answer, a rate), and how long ago it came.

    Their worker is gone: a living one would have taken them up.
    """
    for row in (await journal.sagas(SagaQuery(statuses=(SagaStatus.WAITING,), limit=500))).rows:
        if await journal.holder(row.id) is not None:
            continue
        state = await caught_up(journal, unstarted(row.id))
        due = [at for step in state.waiting if (at := state.steps[step].wake_at) is not None]
        due += [wait.until for wait in open_waits(state)]
        late_ms = now - min(due, default=now)
        if late_ms > _GRACE_MS and await journal.saga(row.id) == row:  # else it has gone on meanwhile
            yield row, late_ms


def _some(rows: Sequence[SagaRow], now: int) -> str:
    """A few of them by name, how many, and for how long nothing new is known."""
    named = ", ".join(f"{row.id} ({row.definition})" for row in rows[:_NAMED])
    more = f" and {len(rows) - _NAMED} more" if len(rows) > _NAMED else ""
    return f"{named}{more}; nothing new for {span(max(now - row.updated_at for row in rows))}"


async def _paused(journal: Journal) -> AsyncIterator[HealthFinding]:
    pauses = Pauses(journal, SystemClock(), 0.0)
    await pauses.refresh()
    for one in pauses.active.values():
        also = ", rollbacks too" if one.rollbacks else ""
        what = f"{scope_of(one)}{also}, since {moment(one.at)} by {one.by}: {one.why}"
        clauses = zip(("--topic", "--definition", "--tenant"), one.scope, strict=True)
        words = [word for option, value in clauses if value for word in (option, value)]
        yield HealthFinding(name="pauses", state="look", found=what, do=shlex.join(["amends", "unpause", *words]))
    alone = [row async for row in sagas_of(journal, (SagaStatus.PAUSED,))]
    if alone:
        what = f"{_some(alone, SystemClock().now())}"
        yield HealthFinding(
            name="pauses", state="look", found=f"paused sagas: {what}", do="amends saga list --status paused"
        )
    elif not pauses.active:
        yield HealthFinding(name="pauses", state="ok", found="nothing is paused")


async def _resumable(journal: Journal) -> AsyncIterator[HealthFinding]:
    """Of what was run from files the journal has the files; of all else only where modules were given."""
    if not PROCESS.definition_names():
        return
    await remember(journal)
    found = [one async for one in unresumable(journal, PROCESS)]
    for one in found[:_SHOWN]:
        first = one.obstacles[0]
        yield HealthFinding(name="resume", state="wrong", found=f"saga {one.saga}: {first.what}", do=first.do)
    if len(found) > _SHOWN:
        more = f"{len(found) - _SHOWN} more sagas that this code could not go on with"
        yield HealthFinding(name="resume", state="wrong", found=more, do="amends saga check, with the same modules")
    if not found:
        yield HealthFinding(name="resume", state="ok", found="this code can go on with every saga that is unfinished")


async def _people(journal: Journal) -> AsyncIterator[HealthFinding]:
    now = SystemClock().now()
    incidents = [row.opened_at async for row in _all(journal.incidents)]
    approvals = [row.requested_at async for row in _all(journal.approvals)]
    for name, what, count, since in (
        ("incidents", "incident", len(incidents), min(incidents, default=now)),
        ("approvals", "approval", len(approvals), min(approvals, default=now)),
    ):
        if count:
            found = f"{count} open, the oldest for {span(now - since)}"
            yield HealthFinding(name=name, state="look", found=found, do=f"amends {what} list")
        else:
            yield HealthFinding(name=name, state="ok", found="none open")


@overload
def _all(listed: Callable[[PersonQuery], Awaitable[IncidentPage]]) -> AsyncIterator[IncidentRow]: ...
@overload
def _all(listed: Callable[[PersonQuery], Awaitable[ApprovalPage]]) -> AsyncIterator[ApprovalRow]: ...
async def _all(
    listed: Callable[[PersonQuery], Awaitable[IncidentPage | ApprovalPage]],
) -> AsyncIterator[IncidentRow | ApprovalRow]:
    """Rows of what people are asked, page after page."""
    query: PersonQuery | None = PersonQuery(limit=READ)
    while query is not None:
        page = await listed(query)
        for row in page.rows:
            yield row
        query = None if page.cursor is None else PersonQuery(limit=READ, after=page.cursor)


async def _policy(journal: Journal | None, policy: str | None, how: str) -> AsyncIterator[HealthFinding]:
    in_force = None if journal is None else await _adopted(journal)
    if policy is None:
        what = "the built-in one" if in_force is None else f"{in_force.digest[:12]}, adopted by {in_force.by}"
        do = "write one, and adopt it: amends policy adopt FILE --why REASON" if in_force is None else ""
        yield HealthFinding(name="policy", state="look" if in_force is None else "ok", found=what, do=do)
        return
    try:
        loaded = load_policy(policy)
    except MistakesError as exc:
        yield HealthFinding(name="policy", state="wrong", found=exc.mistakes[0], do=f"amends policy check {policy}")
        return
    if journal is not None and not await _judges(journal, in_force, loaded):
        adopt = shlex.join(["amends", "policy", "adopt", policy, "--why", "REASON"])
        do = f"adopt it: {adopt}; until then it is refused where it is named"
        yield HealthFinding(name="policy", state="wrong", found=f"{policy}, {how}, is not the one in force", do=do)
    else:
        yield HealthFinding(name="policy", state="ok", found=f"{policy}, {how}")


async def _judges(journal: Journal, in_force: PolicyAdopted | None, named: Policy) -> bool:
    """Whether the policy that is named is in force, or will be: a journal that holds nothing yet begins with it."""
    if in_force is not None:
        return in_force.digest == named.digest
    return builtin_policy().digest == named.digest or not (await journal.sagas(SagaQuery(limit=1))).rows


async def _adopted(journal: Journal) -> PolicyAdopted | None:
    newest: PolicyAdopted | None = None
    async for entry in journal.read(SagaId(POLICIES)):
        newest = entry.event if isinstance(entry.event, PolicyAdopted) else newest
    return newest


def _is_users(contract: Contract) -> bool:
    """Whether it changes something, and is not one of amends' own."""
    return contract.side_effect and not contract.topic.startswith(BUILT_IN)


def _actions_without_journal() -> Iterator[HealthFinding]:
    contracts = [each.contract for each in PROCESS.actions() if _is_users(each.contract)]
    undeclared = [each.topic for each in contracts if each.reversibility is Reversibility.UNDECLARED]
    yield _undeclared(list(map(str, undeclared)), len(contracts))


def _undeclared(topics: list[str], count: int) -> HealthFinding:
    if topics:
        do = "give each a compensation, or a no_rollback reason: amends action list --undeclared"
        return HealthFinding(name="actions", state="wrong", found=f"undeclared: {', '.join(topics[:5])}", do=do)
    if not count:
        return HealthFinding(name="actions", state="look", found="none known", do="name the modules with --module")
    return HealthFinding(name="actions", state="ok", found=f"all {count} say how they are taken back, or why not")


async def _actions(journal: Journal, policy: str | None) -> AsyncIterator[HealthFinding]:
    for each in _actions_without_journal():
        yield each
    now, every_s = SystemClock().now(), await _drill_every_s(journal, policy)
    missed = [one for one in await scheduled(journal) if every_s is not None and one.is_missed(now, every_s)]
    for one in missed[:_SHOWN]:
        what = (
            f"{one.saga} was drilled {span(now - one.at)} ago, and has to be every {span(round((every_s or 0) * 1000))}"
        )
        yield HealthFinding(name="drills", state="wrong", found=what, do=f"amends drill {one.target} --quick")
    if len(missed) > _SHOWN:
        do = "drill each again: amends saga list --definition amends.drill"
        yield HealthFinding(name="drills", state="wrong", found=f"{len(missed) - _SHOWN} more were missed", do=do)
    contracts = [each.contract for each in PROCESS.actions() if _is_users(each.contract)]
    passed = await last_passed(journal)
    found = {each.topic: drilled_at(passed, each) for each in contracts}
    never = [topic for topic, at in found.items() if at is None]
    if never:
        do = "amends drill MODULE:SAGA"
        yield HealthFinding(name="drills", state="look", found=f"never drilled: {', '.join(never[:5])}", do=do)
    elif contracts and not missed:
        yield _drilled(len(contracts), now - min(at for at in found.values() if at is not None), every_s)


def _drilled(count: int, age_ms: int, every_s: float | None) -> HealthFinding:
    """All were; how long ago says whether that still means something."""
    found = f"all {count} were drilled, the oldest {span(age_ms)} ago"
    if age_ms > (_OLD_MS if every_s is None else every_s * 1000):
        do = "amends drill MODULE:SAGA --quick"
        also = "; drill_every in the policy says how often, and then a missed one is told of" if every_s is None else ""
        return HealthFinding(name="drills", state="look" if every_s is None else "wrong", found=found, do=f"{do}{also}")
    return HealthFinding(name="drills", state="ok", found=found)


async def _drill_every_s(journal: Journal, policy: str | None) -> float | None:
    """By the policy that is named, else by the one in force. One that cannot be read is told of elsewhere."""
    policies = Policies(journal, SystemClock(), 0.0)
    try:
        if policy is not None:
            return load_policy(policy).drill_every_s
        await policies.refresh()
    except MistakesError:
        return None
    return policies.policy.drill_every_s
