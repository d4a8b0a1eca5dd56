"""Decisions that nobody can forge: an attacker has the journal's file, its key, a shell and the source, and no person's
key. Each attack is played with a control that shows that it works where names are believed.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import sqlite3
from base64 import b64encode
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from amends import Done, Fatal, NotDone, Registry, SagaDefinition, Work, action
from amends.core.decide.approvals import digest_of
from amends.core.events import (
    ActionAllowed,
    ApprovalGranted,
    ApprovalRefused,
    ApprovalRequested,
    ApprovalVoided,
    ContentRemoved,
    DispatchUnpaused,
    Event,
    IncidentResolved,
    IncidentRetried,
    PersonEnrolled,
    PolicyAdopted,
    RollbackResumed,
    SagaPaused,
    SagaStarted,
    StepProposed,
    WorkResumed,
)
from amends.core.words.values import CONTROL, PEOPLE, POLICIES, Json, StepId, canonical, digest
from amends.errors import AmendsError, EvidenceError, ProofError, RefusedError
from amends.evidence.proof.keys import read_signature
from amends.evidence.proof.roster import Roster, SignableDecision
from amends.evidence.proof.statement import Question, StatementList, spelled_time, statement_list
from amends.evidence.standalone_names import People
from amends.gate.load import parse_policy
from amends.journal.codec import spelled
from amends.journal.port.journal import Entry, Journal
from tests.security.proved import LAX, PROVED, Shop, new_key, public, signer


def in_a_loop(story: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(120):
            await story()

    asyncio.run(bounded())


@pytest.fixture(params=["proved", "believed"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Shop:
    return Shop(tmp_path / "shop", proved=request.param == "proved")


async def shown_digest(shop: Shop, saga: str = "l-1") -> str:
    (asked,) = [entry.event for entry in await shop.entries(saga) if isinstance(entry.event, ApprovalRequested)]
    return asked.digest


def unsigned(event: Any) -> Event:
    return cast("Event", replace(event, signed=""))


# -- the way it should go ---------------------------------------------------------------------------------------------


def test_a_signed_grant_is_acted_upon_and_all_verifiers_find_it_proved(shop: Shop) -> None:
    """Nothing is tried: a person signs, and it is done, on a journal of either kind."""

    async def story() -> None:
        await shop.begin()
        await shop.grant()
        assert await shop.resume() == ["deleted Ann"]
        said, findings = await shop.verdicts()
        assert (said, findings) == ({"covered"}, [])

    in_a_loop(story)


def test_what_is_signed_is_one_screen_that_a_person_can_read(tmp_path: Path) -> None:
    """A person is had to sign what nobody reads: it is longer than a screen, or says something else."""

    async def story() -> None:
        shop, seen = Shop(tmp_path / "shop"), list[str]()
        await shop.begin()
        async with shop.open() as coordinator:

            def sign(text: str) -> str:
                seen.append(text)
                return signer(shop.kim)(text)

            await coordinator.grant("l-1/1", by="person:kim", why="as agreed", proof=sign)
        (text,) = seen
        lines = text.splitlines()
        assert len(lines) <= 24
        assert max(map(len, lines)) <= 240
        assert lines[0] == "amends decision 1"
        said = dict(line.split(": ", 1) for line in lines[1:])
        assert said["journal"] == shop.root
        assert (said["saga"], said["decision"], said["by"], said["why"]) == (
            '"l-1"',
            "grant",
            '"person:kim"',
            '"as agreed"',
        )
        assert (said["topic"], said["args.name"], said["no_rollback"]) == (
            '"account.delete"',
            '"Ann"',
            '"it is gone for good"',
        )
        assert said["shown"] == await shown_digest(shop)

    in_a_loop(story)


@pytest.mark.parametrize("proof", [None, "eve", "another namespace"])
def test_what_is_not_signed_by_the_persons_key_is_refused_when_it_is_decided(tmp_path: Path, proof: str | None) -> None:
    """An agent decides in a person's name: with no signature, by another key, or with one made for git."""

    async def story() -> None:
        shop = Shop(tmp_path / "shop")
        await shop.begin()
        given = {None: None, "eve": signer(shop.eve), "another namespace": signer(shop.kim, "git")}[proof]
        async with shop.open() as coordinator:
            with pytest.raises(ProofError):
                await coordinator.grant("l-1/1", by="person:kim", proof=given)
            with pytest.raises(ProofError):
                await coordinator.refuse("l-1/1", by="person:kim", why="no", proof=given)
            with pytest.raises(ProofError):
                await coordinator.adopt(shop.place / "lax.yaml", by="person:kim", why="why not", proof=given)
        assert [entry.name for entry in await shop.entries("l-1")] == [
            "saga.started/1",
            "step.proposed/1",
            "approval.requested/1",
        ]
        assert await shop.resume() == []

    in_a_loop(story)


class SorryShop(Shop):
    """A saga that comes to a mail that it cannot unsend, and an account that is locked for as long as it `is_stuck`."""

    is_stuck = True

    def registry(self) -> Registry:
        @action("account.make")
        async def make(name: str) -> str:
            return name

        @make.compensation
        async def remove(done: Done) -> None:
            if self.is_stuck:
                raise NotDone(f"account {done.args['name']} is locked")
            self.world.append("removed")

        @action("mail.send", no_rollback="a mail cannot be unsent")
        async def send(name: str) -> None:
            self.world.append(f"mailed {name}")

        @send.mitigation
        async def apologise(done: Done) -> None:
            self.world.append(f"apologised to {done.args['name']}")

        async def welcome(s: Work, name: str) -> str:
            await s.checkpoint("begun")
            await s.do(make, name)
            if name == "Ann":
                await s.do(send, name)
            raise Fatal("no seat is left")

        registry = Registry()
        for each in (make, send):
            registry.add_action(each)
        registry.add_definition(SagaDefinition("shop.welcome", function=welcome))
        return registry

    async def stop(self) -> None:
        """A saga that stops before its pivot, then in going back past it."""
        async with self.open(pins=False) as coordinator:
            self.root = (await coordinator.enrol("kim", public(self.kim))).root
            await coordinator.adopt(self.place / "policy.yaml", by="person:kim", why="start", proof=signer(self.kim))
        async with self.open() as coordinator:
            definition = coordinator.registry.definition("shop.welcome", 1)
            handle = await coordinator.start(definition, "Ann", id="l-1", actor="agent:desk")
            assert (await handle.halt()).status == "incident"
            assert (await coordinator.cancel("l-1", by="person:kim", mitigate=True)).status == "incident"
        self.is_stuck = False


def test_a_saga_that_had_stopped_for_people_goes_back_with_a_signature(tmp_path: Path) -> None:
    """Nothing is tried, and nothing signed: written all the same, it would have the saga stand still for good."""

    async def story() -> None:
        shop = SorryShop(tmp_path / "shop")
        await shop.stop()
        before = len(await shop.entries("l-1"))
        async with shop.open() as coordinator:
            for proof in (None, signer(shop.eve)):
                with pytest.raises(ProofError):
                    await coordinator.cancel("l-1", by="person:kim", mitigate=True, proof=proof)
            assert len(await shop.entries("l-1")) == before
            ended = await coordinator.cancel("l-1", by="person:kim", mitigate=True, proof=signer(shop.kim))
            assert ended.status == "mitigated"
        assert shop.world == ["mailed Ann", "apologised to Ann", "removed"]
        assert (await shop.verdicts())[0] == {"covered"}

    in_a_loop(story)


# -- forging ----------------------------------------------------------------------------------------------------------


def test_a_forged_grant(shop: Shop) -> None:
    """A grant is written into the file, with right hashes, and signed by the journal's own key."""

    async def story() -> None:
        await shop.begin()
        forged = ApprovalGranted(step=StepId("1"), by="person:kim", digest=await shown_digest(shop))
        await shop.forge("l-1", forged)
        assert await shop.resume() == ([] if shop.proved else ["deleted Ann"])
        said, findings = await shop.verdicts()
        assert (said == {"failed"}) == shop.proved
        assert any("not signed" in each for each in findings) == shop.proved
        if shop.proved:
            assert any(isinstance(entry.event, ApprovalVoided) for entry in await shop.entries("l-1"))

    in_a_loop(story)


def test_a_forged_verdict_that_asks_nobody(shop: Shop) -> None:
    """Not the grant is forged, but what the gate said: the step stands as allowed."""

    async def story() -> None:
        await shop.begin()
        policy = (await shop.entries(POLICIES))[-1].event
        assert isinstance(policy, PolicyAdopted)
        voided = ApprovalVoided(step=StepId("1"), why="never mind")
        await shop.forge("l-1", voided, ActionAllowed(step=StepId("1"), rule="default", policy=policy.digest))
        assert await shop.resume() == ([] if shop.proved else ["deleted Ann"])

    in_a_loop(story)


def test_a_forged_refusal(shop: Shop) -> None:
    """What people would have granted is refused in their name, so that the saga is taken back."""

    async def story() -> None:
        await shop.begin()
        await shop.forge("l-1", ApprovalRefused(step=StepId("1"), by="person:kim", why="no"))
        with pytest.raises(ProofError, match=r"approval\.refused") if shop.proved else contextlib.nullcontext():
            await shop.resume()
        (status,) = [entry.name for entry in await shop.entries("l-1")][-1:]
        assert (status == "saga.rolled_back/1") == (not shop.proved)
        assert ((await shop.verdicts())[0] == {"failed"}) == shop.proved

    in_a_loop(story)


def test_a_real_signature_is_good_for_one_decision(tmp_path: Path) -> None:
    """Replayed in its saga once more, and moved to another one that asks for the same."""

    async def story() -> None:
        shop = Shop(tmp_path / "shop")
        await shop.begin()
        await shop.ask("l-2", "Ann")
        await shop.grant()
        granted = next(entry.event for entry in await shop.entries("l-1") if isinstance(entry.event, ApprovalGranted))
        moved = replace(granted, digest=await shown_digest(shop, "l-2"))
        await shop.forge("l-2", moved)
        assert await shop.resume() == ["deleted Ann"], "once, for l-1"
        said, _ = await shop.verdicts("l-2")
        assert said == {"failed"}

    in_a_loop(story)


def test_a_real_signature_is_good_for_one_journal(tmp_path: Path) -> None:
    """One person decides on two journals: what they signed on one is moved to the other, which asks for the same."""

    async def story() -> None:
        one, other = Shop(tmp_path / "one"), Shop(tmp_path / "other")
        other.kim = one.kim
        await one.begin()
        await one.grant()
        await other.begin()
        granted = next(entry.event for entry in await one.entries("l-1") if isinstance(entry.event, ApprovalGranted))
        await other.forge("l-1", replace(granted, digest=await shown_digest(other)))
        assert await other.resume() == []
        said, findings = await other.verdicts()
        assert said == {"failed"}
        assert any("the roster of this journal does not have" in each for each in findings), findings
        assert await one.resume() == ["deleted Ann"]

    in_a_loop(story)


def test_a_grant_that_was_given_is_not_given_again_for_what_is_asked_anew(tmp_path: Path) -> None:
    """The question is asked a second time in the same words, and the old answer is written below it."""

    async def story() -> None:
        shop = Shop(tmp_path / "shop")
        await shop.begin()
        await shop.grant()
        granted = next(entry.event for entry in await shop.entries("l-1") if isinstance(entry.event, ApprovalGranted))
        asked = next(entry.event for entry in await shop.entries("l-1") if isinstance(entry.event, ApprovalRequested))
        await shop.forge("l-1", ApprovalVoided(step=StepId("1"), why="again"), asked, granted)
        assert await shop.resume() == []
        said, findings = await shop.verdicts()
        assert said == {"failed"}
        assert any("used before" in each for each in findings)

    in_a_loop(story)


class Renaming:
    """The same journal with another name in all that was asked and shown, and digests that fit."""

    def __init__(self) -> None:
        self.digest = ""

    def change(self, entry: Entry) -> Event:
        event, args = entry.event, cast("Json", {"name": "Bob"})
        if isinstance(event, SagaStarted) and entry.saga == "l-1":
            return replace(event, input=args)
        if isinstance(event, StepProposed):
            return replace(event, args=args, digest=digest(canonical(args))[:32])
        if isinstance(event, ApprovalRequested):
            shown = {**cast("dict[str, Any]", event.shown), "args": args}
            self.digest = digest_of(shown)
            return replace(event, shown=shown, digest=self.digest)
        if isinstance(event, ApprovalGranted):
            return replace(event, digest=self.digest)
        return event


def test_what_was_shown_is_edited_in_a_journal_made_anew_with_the_times_of_the_old(shop: Shop, tmp_path: Path) -> None:
    """All that was shown and approved gets another argument, and all digests and hashes are made to fit."""

    async def story() -> None:
        await shop.begin()
        await shop.grant()
        other = await shop.remade(tmp_path / "other", Renaming().change)
        assert await other.resume() == ([] if shop.proved else ["deleted Bob"])
        said, _ = await other.verdicts()
        assert (said == {"failed"}) == shop.proved

    in_a_loop(story)


def test_proofs_are_stripped_in_a_journal_made_anew(shop: Shop, tmp_path: Path) -> None:
    """The root stays as it was: only what comes after it is made anew."""

    async def story() -> None:
        await shop.begin()
        await shop.grant()

        def change(entry: Entry) -> Event:
            return unsigned(entry.event) if isinstance(entry.event, ApprovalGranted | PolicyAdopted) else entry.event

        other = await shop.remade(tmp_path / "other", change)
        with pytest.raises(ProofError, match="none counts") if shop.proved else contextlib.nullcontext():
            await other.resume()
        assert other.world == ([] if shop.proved else ["deleted Ann"])
        said, findings = await other.verdicts()
        assert (said == {"failed"}) == shop.proved
        assert (len([each for each in findings if "not signed" in each]) >= 2) == shop.proved

    in_a_loop(story)


def test_a_policy_is_adopted_by_whoever_writes_to_the_journal(shop: Shop) -> None:
    """A policy that asks nobody is written into the file, in the name of a person."""

    async def story() -> None:
        await shop.begin()
        lax = parse_policy(LAX)
        await shop.forge(POLICIES, PolicyAdopted(digest=lax.digest, text=lax.text, by="person:kim", why="x"))
        async with shop.open() as coordinator:
            definition = coordinator.registry.definition("shop.leave", 1)
            await (await coordinator.start(definition, "Bob", id="l-2", actor="agent:desk")).halt()
        assert shop.world == ([] if shop.proved else ["deleted Bob"])
        said, _ = await shop.verdicts()
        assert (said == {"failed"}) == shop.proved

    in_a_loop(story)


def test_the_policies_are_made_anew_without_any_that_asks_for_proof(shop: Shop, tmp_path: Path) -> None:
    """With the root pinned, a policy that nobody has signed judges nothing, though none before it asked for proof."""

    async def story() -> None:
        await shop.begin()
        lax = parse_policy(LAX)

        def change(entry: Entry) -> Event:
            adopted = PolicyAdopted(digest=lax.digest, text=lax.text, by="person:kim", why="x")
            return adopted if isinstance(entry.event, PolicyAdopted) else entry.event

        other = await shop.remade(tmp_path / "other", change)
        async with other.open() as coordinator:
            definition = coordinator.registry.definition("shop.leave", 1)
            await (await coordinator.start(definition, "Bob", id="l-2", actor="agent:desk")).halt()
        assert other.world == ([] if shop.proved else ["deleted Bob"])

    in_a_loop(story)


@pytest.mark.parametrize("is_signed", [False, True], ids=["stripped", "adopted anew"])
def test_the_signature_is_taken_off_a_policy_so_that_the_built_in_one_judges(
    tmp_path: Path, *, is_signed: bool
) -> None:
    """The policy asks people about what the built-in one lets pass: a purchase that can be taken back."""

    async def story() -> None:
        shop = BuyingShop(tmp_path / "shop")
        (shop.place / "policy.yaml").write_text(PROVED.replace("account.delete", "thing.buy"))
        await shop.begin()
        other = await shop.remade(
            tmp_path / "stripped",
            lambda entry: unsigned(entry.event) if isinstance(entry.event, PolicyAdopted) else entry.event,
        )
        if is_signed:
            async with other.open(drives=False) as coordinator:
                await coordinator.adopt(shop.place / "policy.yaml", by="person:kim", why="anew", proof=signer(shop.kim))
        async with other.open() as coordinator:
            definition = coordinator.registry.definition("shop.leave", 1)
            handle = await coordinator.start(definition, "Bob", id="l-2", actor="agent:desk")
            assert (await handle.halt()).status == ("waiting" if is_signed else "rolled_back")
        with contextlib.nullcontext() if is_signed else pytest.raises(ProofError, match="none counts"):
            await other.resume()
        assert not other.world
        assert (await other.verdicts(None))[0] == {"failed"}
        assert (await shop.verdicts(None))[0] == {"covered"}

    in_a_loop(story)


def test_a_pause_is_ended_by_whoever_writes_to_the_journal(shop: Shop) -> None:
    """All is paused by a person, and the end of the pause is written into the file in their name."""

    async def story() -> None:
        await shop.begin()
        await shop.grant()
        async with shop.open(drives=False) as coordinator:
            await coordinator.pause(why="a look", by="person:kim")
            (pause,) = await coordinator.paused()
        await shop.forge(CONTROL, DispatchUnpaused(pause=pause.number, by="person:kim", why="go on"))
        assert await shop.resume() == ([] if shop.proved else ["deleted Ann"])
        said, findings = await shop.verdicts(None)
        assert (said == {"failed"}) == shop.proved
        assert any("not signed" in each for each in findings) == shop.proved

    in_a_loop(story)


@pytest.mark.parametrize(
    "forged",
    [
        (WorkResumed(by="person:kim"),),
        (SagaPaused(by="person:kim", why="all", pause=99), WorkResumed(by="person:kim")),
    ],
    ids=["as if it followed", "as if a pause of many had held it"],
)
def test_a_saga_is_let_go_on_by_whoever_writes_to_the_journal(shop: Shop, forged: tuple[Event, ...]) -> None:
    """One saga is paused by a person, with all approvals that it needs: what lets it go on is written into the file."""

    async def story() -> None:
        await shop.begin()
        await shop.grant()
        async with shop.open(drives=False) as coordinator:
            await coordinator.pause(saga="l-1", why="a look", by="person:kim")
        await shop.forge("l-1", *forged)
        with pytest.raises(ProofError) if shop.proved else contextlib.nullcontext():
            await shop.resume()
        assert shop.world == ([] if shop.proved else ["deleted Ann"])
        said, findings = await shop.verdicts()
        assert (said == {"failed"}) == shop.proved
        assert any("not signed" in each for each in findings) == shop.proved

    in_a_loop(story)


class BuyingShop(Shop):
    """What people are asked about can be taken back."""

    def registry(self) -> Registry:
        @action("thing.buy")
        async def buy(name: str) -> str:
            self.world.append(f"bought {name}")
            return name

        @buy.compensation
        async def give_back(done: Done) -> None:
            self.world.append("gave it back")

        async def leave(s: Work, name: str) -> str:
            return await s.do(buy, name)

        registry = Registry()
        registry.add_action(buy)
        registry.add_definition(SagaDefinition("shop.leave", function=leave))
        return registry


class StuckShop(Shop):
    """Accounts that cannot be taken back: a saga that fails stops there, and a person is called."""

    def registry(self) -> Registry:
        @action("account.make")
        async def make(name: str) -> str:
            self.world.append(f"made {name}")
            return name

        @make.compensation
        async def remove(done: Done) -> None:
            raise NotDone(f"account {done.args['name']} is locked")

        async def join(s: Work, name: str) -> str:
            await s.do(make, name)
            raise Fatal("no seat is left")

        registry = Registry()
        registry.add_action(make)
        registry.add_definition(SagaDefinition("shop.join", function=join))
        return registry

    async def stop(self, saga: str) -> None:
        async with self.open() as coordinator:
            definition = coordinator.registry.definition("shop.join", 1)
            handle = await coordinator.start(definition, "Ann", id=saga, actor="agent:desk")
            assert (await handle.halt()).status == "incident"


RESOLVED = IncidentResolved(incident=1, by="", reason="seen to by hand", settled=(StepId("1"),), proof="ticket 7")


@pytest.mark.parametrize("proved", [True, False])
@pytest.mark.parametrize(
    ("by", "closed"),
    [
        ("system:runtime", replace(RESOLVED, proof="")),
        ("person:kim", RESOLVED),
        ("system:family", IncidentRetried(incident=1, by="", let_run=True)),
        ("system:runtime", IncidentRetried(incident=1, by="")),
    ],
)
def test_an_incident_is_closed_by_whoever_writes_to_the_journal(
    tmp_path: Path, by: str, closed: IncidentResolved | IncidentRetried, *, proved: bool
) -> None:
    """Somebody is said to have seen to it, or to have let it run, beside a rollback that nobody has to sign."""

    async def story() -> None:
        shop = StuckShop(tmp_path / "shop", proved=proved)
        async with shop.open(pins=False) as coordinator:
            if proved:
                shop.root = (await coordinator.enrol("kim", public(shop.kim))).root
            sign = signer(shop.kim) if proved else None
            await coordinator.adopt(shop.place / "policy.yaml", by="person:kim", why="start", proof=sign)
        await shop.stop("l-1")
        await shop.forge("l-1", replace(closed, by=by), RollbackResumed(by=by, deadline_at=2**52))
        with pytest.raises(ProofError, match=r"incident\.re") if proved else contextlib.nullcontext():
            await shop.resume()
        said, findings = await shop.verdicts()
        assert (said == {"failed"}) == proved, findings

    in_a_loop(story)


def test_somebody_enrols_themselves_by_writing_to_the_journal(tmp_path: Path) -> None:
    """For themselves, or in the name of somebody who is enrolled; then they sign with that key."""

    async def story() -> None:
        for name in ("eve", "kim"):
            shop = Shop(tmp_path / name)
            await shop.begin()
            key = " ".join(public(shop.eve).split()[:2])
            await shop.forge(PEOPLE, PersonEnrolled(person=f"person:{name}", key=key, by="person:kim"))
            async with shop.open() as coordinator:
                with pytest.raises(ProofError):
                    await coordinator.grant("l-1/1", by=f"person:{name}", proof=signer(shop.eve))
            assert await shop.resume() == []
            said, findings = await shop.verdicts()
            assert said == {"failed"}
            assert any("not signed" in each for each in findings)

    in_a_loop(story)


def test_a_journal_made_anew_with_another_root_is_refused_and_a_control_is_taken(tmp_path: Path) -> None:
    """The attacker makes a journal of their own, with a roster of their own, and puts it in the place of the other."""

    async def story() -> None:
        shop, other = Shop(tmp_path / "shop"), Shop(tmp_path / "other")
        await shop.begin()
        other.kim = other.eve
        await other.begin()
        await other.grant()
        other_root, other.root = other.root, shop.root
        with pytest.raises(ProofError, match="another journal"):
            await other.resume()
        said, findings = await other.verdicts()
        assert said == {"failed"}
        assert any("was told" in each for each in findings)
        other.root = other_root
        assert await other.resume() == ["deleted Ann"]

    in_a_loop(story)


def test_a_journal_without_a_roster_is_refused_where_a_root_is_told(tmp_path: Path) -> None:
    """The roster is left out altogether."""

    async def story() -> None:
        shop = Shop(tmp_path / "shop", proved=False)
        await shop.begin()
        shop.root = "0" * 64
        with pytest.raises(ProofError, match="no roster"):
            await shop.resume()

    in_a_loop(story)


# -- forgetting -------------------------------------------------------------------------------------------------------


def test_what_sagas_held_is_removed_in_a_persons_name_with_their_signature_alone(tmp_path: Path) -> None:
    """An agent has the evidence of what it did forgotten in a person's name; then it writes such an entry itself."""

    async def story() -> None:
        shop, seen = Shop(tmp_path / "shop"), list[str]()
        await shop.begin()
        await shop.grant()
        assert await shop.resume() == ["deleted Ann"]

        def sign(text: str) -> str:
            seen.append(text)
            return signer(shop.kim)(text)

        async with shop.open(drives=False) as coordinator:
            for proof in (None, signer(shop.eve)):
                with pytest.raises(ProofError):
                    await coordinator.prune(0, by="person:kim", why="as asked", proof=proof)
            assert (await coordinator.prune(0, by="person:kim", why="as asked", proof=sign)).sagas == 1
        said = dict(line.split(": ", 1) for line in seen[0].splitlines()[1:])
        assert (said["decision"], said["saga"], said["why"]) == ("forget", '"*"', '"as asked"')
        removed = (await shop.entries("l-1"))[-1]
        assert isinstance(removed.event, ContentRemoved)
        assert said["before"] == spelled_time(removed.event.before)
        assert (await shop.verdicts())[0] == {"covered"}
        stolen = removed.event
        for name, signed, why in (("l-2", "", "not signed"), ("l-3", stolen.signed, "says something else")):
            await shop.ask(name, "Bob")
            await shop.grant(name)
            await shop.resume()

            async def remove(journal: Journal, signed: str = signed) -> None:
                ended = stolen.before + 10**6
                await journal.remove_payloads(by="person:kim", why="as asked", ended_before=ended, signed=signed)

            await shop.with_journal(remove)
            verdict, findings = await shop.verdicts(name)
            assert verdict == {"failed"}
            assert any(why in each for each in findings), findings

    in_a_loop(story)


def test_the_rule_of_whoever_runs_the_journal_needs_no_person(tmp_path: Path) -> None:
    """Nothing is tried: old sagas are pruned by a timer, on record as such."""

    async def story() -> None:
        shop = Shop(tmp_path / "shop")
        await shop.begin()
        await shop.grant()
        await shop.resume()
        async with shop.open(drives=False) as coordinator:
            assert (await coordinator.prune(0, by="system:timer")).sagas == 1
        assert (await shop.verdicts())[0] == {"covered"}

    in_a_loop(story)


# -- revoking, and the clock ------------------------------------------------------------------------------------------


def test_a_revoked_key_decides_nothing_more_whatever_the_clock_says_and_what_it_decided_before_stands(
    tmp_path: Path,
) -> None:
    """A key that was revoked signs, or what it signed before is handed in afterwards."""

    async def story() -> None:
        shop = Shop(tmp_path / "shop")
        await shop.begin()
        await shop.ask("l-2", "Bob")
        async with shop.open() as coordinator:
            await coordinator.enrol("eve", public(shop.eve), by="person:kim", proof=signer(shop.kim))
            await coordinator.grant("l-1/1", by="person:eve", proof=signer(shop.eve))
            kept = list[str]()

            def keep(text: str) -> str:
                kept.append(text + signer(shop.eve)(text))
                raise KeyboardInterrupt

            with pytest.raises(KeyboardInterrupt):
                await coordinator.grant("l-2/1", by="person:eve", proof=keep)
            await coordinator.revoke("eve", why="left", by="person:kim", proof=signer(shop.kim))
            for proof in (signer(shop.eve), kept[0]):
                with pytest.raises(ProofError):
                    await coordinator.grant("l-2/1", by="person:eve", proof=proof)
        assert await shop.resume() == ["deleted Ann"]
        said, _ = await shop.verdicts(None)
        assert said == {"covered"}

    in_a_loop(story)


def test_what_a_revoked_key_had_signed_is_written_with_the_clock_set_back(tmp_path: Path) -> None:
    """It was signed while the key was good, and kept: it is written into the file, with the time when it was good."""

    async def story() -> None:
        shop = Shop(tmp_path / "shop")
        await shop.begin()
        async with shop.open(drives=False) as coordinator:
            await coordinator.enrol("eve", public(shop.eve), by="person:kim", proof=signer(shop.kim))
        kept = shop.duplicate(tmp_path / "kept")
        async with kept.open(drives=False) as coordinator:
            await coordinator.grant("l-1/1", by="person:eve", proof=signer(shop.eve))
        granted = next(entry for entry in await kept.entries("l-1") if isinstance(entry.event, ApprovalGranted))
        async with shop.open(drives=False) as coordinator:
            await coordinator.revoke("eve", why="left", by="person:kim", proof=signer(shop.kim))
        await shop.forge("l-1", granted.event, at=granted.at)
        assert await shop.resume() == []
        said, findings = await shop.verdicts()
        assert said == {"failed"}
        assert any("was revoked before" in each for each in findings), findings
        assert await kept.resume() == ["deleted Ann"], "the control: where nobody has revoked it"

    in_a_loop(story)


def test_that_a_key_was_revoked_is_removed_from_the_roster(tmp_path: Path) -> None:
    """As retention removes what old sagas held, and on record; then the revoked key decides."""

    async def story() -> None:
        shop = Shop(tmp_path / "shop")
        await shop.begin()
        async with shop.open(drives=False) as coordinator:
            await coordinator.enrol("eve", public(shop.eve), by="person:kim", proof=signer(shop.kim))
            await coordinator.revoke("eve", why="left", by="person:kim", proof=signer(shop.kim))
        (revoked,) = [entry for entry in await shop.entries(PEOPLE) if entry.name == "person.revoked/1"]
        assert (await shop.verdicts(None))[0] == {"covered"}
        removal = ContentRemoved(entries=revoked.number, by="system:timer", why="old")
        await shop.forge(PEOPLE, removal)
        with sqlite3.connect(shop.journal) as file:
            gone = f"sha256:{hashlib.sha256(revoked.body.encode()).hexdigest()}"
            assert file.execute("UPDATE entry SET body = ? WHERE name = 'person.revoked/1'", (gone,)).rowcount == 1
        with pytest.raises(AmendsError, match="removed"):
            async with shop.open(drives=False) as coordinator:
                await coordinator.grant("l-1/1", by="person:eve", proof=signer(shop.eve))
        assert not shop.world
        said, findings = await shop.verdicts(None)
        assert said == {"failed"}
        assert any("whose keys are good" in each for each in findings), findings

    in_a_loop(story)


# -- several at once --------------------------------------------------------------------------------------------------


def test_several_grants_with_one_signature_are_each_proved_alone(shop: Shop) -> None:
    """Nothing is tried: a person signs once for three sagas, and the bundle of each verifies without the others."""

    async def story() -> None:
        await shop.begin()
        for saga, name in (("l-2", "Bob"), ("l-3", "Eve")):
            await shop.ask(saga, name)
        signed = await shop.grant_together("l-1", "l-2", "l-3", why="all three")
        assert len(signed) == (1 if shop.proved else 0)
        assert sorted(await shop.resume()) == ["deleted Ann", "deleted Bob", "deleted Eve"]
        for bundled in ("l-1", "l-2", "l-3", None):
            said, findings = await shop.verdicts(bundled)
            assert (said, findings) == ({"covered"}, [])

    in_a_loop(story)


def test_a_list_says_which_texts_it_stands_for_and_tells_of_no_other_saga(tmp_path: Path) -> None:
    """A person is had to sign a list of digests, and shown other texts beside it."""

    async def story() -> None:
        shop, seen = Shop(tmp_path / "shop"), list[StatementList]()
        await shop.begin()
        await shop.ask("l-2", "Bob")

        def sign(text: str) -> str:
            assert isinstance(text, StatementList)
            seen.append(text)
            return signer(shop.kim)(text)

        async with shop.open(drives=False) as coordinator:
            await coordinator.refuse_all(["l-1/1", "l-2/1"], by="person:kim", why="neither", proof=sign)
        (whole,) = seen
        assert whole.splitlines()[0] == "amends decisions 1"
        assert "l-2" not in whole
        first, second = whole.statements
        assert ('saga: "l-1"' in first, 'saga: "l-2"' in second) == (True, True)
        assert statement_list(whole, whole.statements).statements == whole.statements
        for others in ((second, first), (first,), (first, second.replace("Bob", "Ann"))):
            with pytest.raises(EvidenceError, match="stands for other decisions"):
                statement_list(whole, others)

    in_a_loop(story)


def test_where_one_of_several_cannot_be_granted_none_is(tmp_path: Path) -> None:
    """One of them has changed, or is answered: whoever signs the list would sign what is not there."""

    async def story() -> None:
        shop = Shop(tmp_path / "shop")
        await shop.begin()
        await shop.ask("l-2", "Bob")
        sign = signer(shop.kim)
        async with shop.open(drives=False) as coordinator:
            seen = {f"{saga}/1": await shown_digest(shop, saga) for saga in ("l-1", "l-2")}
            for wrong in (seen | {"l-2/1": "0" * 64}, dict.fromkeys(map(str, range(60)), "")):
                with pytest.raises(AmendsError):
                    await coordinator.grant_all(wrong, by="person:kim", proof=sign)
            with pytest.raises(ProofError):
                await coordinator.grant_all(seen, by="person:kim")
            with pytest.raises(ProofError):
                await coordinator.grant_all(seen, by="person:kim", proof=signer(shop.eve))
            await coordinator.refuse("l-2/1", by="person:kim", why="no", proof=sign)
            with pytest.raises(RefusedError, match=r"l-2/1.*nothing is decided about the others"):
                await coordinator.grant_all(seen, by="person:kim", proof=sign)
        assert [entry.name for entry in await shop.entries("l-1")][-1] == "approval.requested/1"

    in_a_loop(story)


def test_a_list_that_was_signed_is_good_for_what_it_names_and_once(tmp_path: Path) -> None:
    """Its signature is moved to a saga that asks for the same, and put below a question that is asked anew."""

    async def story() -> None:
        shop = Shop(tmp_path / "shop")
        await shop.begin()
        await shop.ask("l-2", "Bob")
        await shop.ask("l-3", "Ann")
        await shop.grant_together("l-1", "l-2")
        events = [entry.event for entry in await shop.entries("l-1")]
        granted = next(each for each in events if isinstance(each, ApprovalGranted))
        asked = next(each for each in events if isinstance(each, ApprovalRequested))
        moved = replace(granted, digest=await shown_digest(shop, "l-3"))
        await shop.forge("l-3", moved)
        await shop.forge("l-1", ApprovalVoided(step=StepId("1"), why="again"), asked, granted)
        assert await shop.resume() == ["deleted Bob"]
        for saga, why in (("l-3", "does not name this decision"), ("l-1", "used before")):
            said, findings = await shop.verdicts(saga)
            assert said == {"failed"}
            assert any(why in each for each in findings), findings

    in_a_loop(story)


def test_a_list_is_for_approvals_alone(tmp_path: Path) -> None:
    """Whoever is had to sign a list with the text of another decision in it has not made that one."""

    async def story() -> None:
        shop = Shop(tmp_path / "shop")
        await shop.begin()
        roster = await roster_of(shop)
        resumed = WorkResumed(by="person:kim")
        name, body = spelled(resumed)
        decision = SignableDecision(saga="l-1", number=4, name=name, body=body, position=99)
        for together in (False, True):
            going, text = roster.to_sign([decision, decision] if together else [decision], roster.goes_by("", 5))
            given = b64encode(read_signature(signer(shop.kim)(text))).decode()
            name, body = spelled(replace(resumed, signed=str(going._replace(signature=given))))
            said = replace(decision, body=body)
            if not together:
                assert roster.checked(said, set()) == text, "the control"
                continue
            with pytest.raises(AmendsError, match="for approvals alone"):
                roster.checked(said, set())

    in_a_loop(story)


# -- every byte -------------------------------------------------------------------------------------------------------


async def roster_of(shop: Shop) -> Roster:
    roster = Roster()
    for entry in await shop.entries(PEOPLE):
        name, body = spelled(entry.event)
        roster.note(
            SignableDecision(saga=PEOPLE, number=entry.number, name=name, body=body, position=entry.number),
            entry.at,
            entry.hash,
        )
    return roster


async def people_of(shop: Shop) -> People:
    """The same roster, as the verifier that stands alone has it."""
    people = People()
    for entry in await shop.entries(PEOPLE):
        name, body = spelled(entry.event)
        people.change(
            {
                "saga": PEOPLE,
                "number": entry.number,
                "name": name,
                "body": body,
                "position": entry.number,
                "hash": entry.hash.hex(),
            }
        )
    return people


@pytest.mark.parametrize(
    ("kind", "together"), [("ed25519", False), ("ecdsa", False), ("ed25519", True)], ids=["ed25519", "ecdsa", "list"]
)
def test_each_byte_of_a_signed_decision_counts(tmp_path: Path, kind: str, together: bool) -> None:
    """By the roster alone, without the hashes: an attacker makes those anew. Of a list, by the lone verifier too."""

    async def story() -> None:
        shop = Shop(tmp_path / "shop")
        shop.kim = new_key(tmp_path, "other", kind)
        await shop.begin()
        if together:
            await shop.ask("l-2", "Bob")
            await shop.grant_together("l-1", "l-2", why="as agreed")
        else:
            await shop.grant(why="as agreed")
        roster, people = await roster_of(shop), await people_of(shop)
        entries = await shop.entries("l-1")
        asked = next(entry.event for entry in entries if isinstance(entry.event, ApprovalRequested))
        granted = next(entry for entry in entries if isinstance(entry.event, ApprovalGranted))
        name, body = spelled(granted.event)
        shown = Question(asked.digest, canonical(asked.shown))

        def holds(body: str) -> bool:
            try:
                roster.checked(
                    SignableDecision(saga="l-1", number=4, name=name, body=body, position=99, asked=shown), used=set()
                )
            except AmendsError:
                return False
            return True

        def holds_alone(body: str) -> bool:
            told = {"saga": "l-1", "number": 4, "name": name, "body": body, "position": 99}
            try:
                people.signed_text(told, shown.shown, set())
            except (ValueError, LookupError):
                return False
            return True

        assert holds(body)
        assert holds_alone(body)
        changed = 0
        for place in range(len(body)):
            for flip in (1, 2):
                other = body[:place] + chr(ord(body[place]) ^ flip) + body[place + 1 :]
                assert not holds(other), (place, other)
                assert not together or flip == 2 or not holds_alone(other), (place, other)
                changed += 1
        assert changed == 2 * len(body)

    in_a_loop(story)
