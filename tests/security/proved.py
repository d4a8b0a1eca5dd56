"""People with real SSH keys, a journal on which names are proved, and an attacker who writes to it as they like."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from copy import copy
from pathlib import Path
from typing import Any, Final

from amends import Coordinator, Registry, SagaDefinition, Settings, Work, action
from amends.addresses import open_journal
from amends.bootstrap import Opening
from amends.clock import SystemClock
from amends.core.events import Event
from amends.core.state.saga import Saga, evolve, unstarted
from amends.core.words.values import SagaId
from amends.evidence.bundle import export, verifier_source
from amends.evidence.verify.verify import verify_bundle, verify_journal
from amends.journal.port.journal import Entry, Journal, Summary
from amends.runtime.drive.logbook import wakes_at

PROVED: Final = """
version: v1
default: allow
approvals: {proof: signed}
rules:
  - {id: one, when: {topic: account.delete}, decision: require_human}
"""
BELIEVED: Final = PROVED.replace("approvals: {proof: signed}\n", "")
LAX: Final = "version: v1\ndefault: allow\nrules: []\n"
KINDS: Final = {"ed25519": ["-t", "ed25519"], "ecdsa": ["-t", "ecdsa", "-b", "256"]}


def new_key(place: Path, name: str, kind: str = "ed25519") -> Path:
    """A key as ssh-keygen makes it."""
    words = ["ssh-keygen", "-q", *KINDS[kind], "-N", "", "-C", name, "-f", str(place / name)]
    subprocess.run(words, check=True, timeout=60)
    return place / name


def public(key: Path) -> str:
    return key.with_name(f"{key.name}.pub").read_text()


def signer(key: Path, namespace: str = "amends") -> Callable[[str], str]:
    """What `ssh-keygen -Y sign` makes of a text with this key."""

    def sign(text: str) -> str:
        words = ["ssh-keygen", "-Y", "sign", "-n", namespace, "-f", str(key)]
        return subprocess.run(words, input=text, capture_output=True, text=True, check=True, timeout=60).stdout

    return sign


class Shop:
    """A journal in a folder, an action that people are asked about, and who has keys.

    `proved`: whether it takes them.
    """

    def __init__(self, place: Path, *, proved: bool = True) -> None:
        place.mkdir(exist_ok=True)
        self.place, self.proved = place, proved
        self.world: list[str] = []
        self.root: str | None = None
        self.kim, self.eve = new_key(place, "kim"), new_key(place, "eve")
        (place / "policy.yaml").write_text(PROVED if proved else BELIEVED)
        (place / "lax.yaml").write_text(LAX)

    @property
    def journal(self) -> str:
        return str(self.place / "amends.db")

    def registry(self) -> Registry:
        @action("account.delete", no_rollback="it is gone for good")
        def delete(name: str) -> str:
            self.world.append(f"deleted {name}")
            return name

        async def leave(s: Work, name: str) -> str:
            return await s.do(delete, name)

        registry = Registry()
        registry.add_action(delete)
        registry.add_definition(SagaDefinition("shop.leave", function=leave))
        return registry

    def open(self, *, root: str | None = None, pins: bool = True, drives: bool = True) -> Opening:
        settings = Settings(root=root or (self.root if pins else None), poll_s=0.05, park_s=0.01)
        registry = self.registry() if drives else Registry()
        return Coordinator.open(self.journal, env="production", settings=settings, registry=registry, signals=False)

    async def begin(self) -> None:
        """Enrol Kim, adopt the policy, and have people asked about a step of saga `l-1`."""
        async with self.open(pins=False) as coordinator:
            if self.proved:
                self.root = (await coordinator.enrol("kim", public(self.kim))).root
            sign = signer(self.kim) if self.proved else None
            await coordinator.adopt(self.place / "policy.yaml", by="person:kim", why="start", proof=sign)
        await self.ask("l-1", "Ann")

    async def ask(self, saga: str, name: str) -> None:
        async with self.open() as coordinator:
            definition = coordinator.registry.definition("shop.leave", 1)
            handle = await coordinator.start(definition, name, id=saga, actor="agent:desk")
            assert (await handle.halt()).status == "waiting"

    async def grant(self, saga: str = "l-1", **more: Any) -> None:
        async with self.open(drives=False) as coordinator:
            await coordinator.grant(
                f"{saga}/1", by="person:kim", proof=signer(self.kim) if self.proved else None, **more
            )

    async def grant_together(self, *sagas: str, **more: Any) -> list[str]:
        """Grant what is asked of these sagas, all at once; the texts that were signed for it."""
        signed = list[str]()

        def sign(text: str) -> str:
            signed.append(text)
            return signer(self.kim)(text)

        async with self.open(drives=False) as coordinator:
            seen = {f"{saga}/1": (await coordinator.approval(f"{saga}/1")).digest for saga in sagas}
            await coordinator.grant_all(seen, by="person:kim", proof=sign if self.proved else None, **more)
        return signed

    async def resume(self) -> list[str]:
        """What is done once somebody goes on with what is left."""
        async with self.open() as coordinator:
            await coordinator.resume()
        return self.world

    # -- the attacker -------------------------------------------------------------------------------------------------

    async def with_journal(self, use: Callable[[Journal], Awaitable[None]], at: int | None = None) -> None:
        """Use the journal, with the machine's clock set to `at`."""
        journal = await open_journal(self.journal, SystemClock() if at is None else _SetClock(at))
        try:
            await use(journal)
        finally:
            await journal.close()

    async def entries(self, saga: str) -> list[Entry]:
        found: list[Entry] = []

        async def read(journal: Journal) -> None:
            found.extend([entry async for entry in journal.read(SagaId(saga))])

        await self.with_journal(read)
        return found

    async def forge(self, saga: str, *events: Event, at: int | None = None) -> None:
        """Write entries as amends would: hashes, lists and tree are right, and its own key signs them."""

        async def write(journal: Journal) -> None:
            state: Saga = unstarted(SagaId(saga))
            async for entry in journal.read(state.id):
                state = evolve(state, entry.event)
            head = state.head
            for event in events:
                state = evolve(state, event)
            summary = Summary(state.status, wakes_at(state))
            await journal.append(state.id, events, after=head, summary=summary)

        await self.with_journal(write, at)

    def duplicate(self, place: Path) -> Shop:
        """The same journal once more, as a copy of its files."""
        shutil.copytree(self.place, place)
        other = copy(self)
        other.place, other.world = place, []
        return other

    def _copy(self, place: Path) -> Shop:
        place.mkdir()
        other = copy(self)
        other.place, other.world = place, []
        return other

    async def remade(self, place: Path, change: Callable[[Entry], Event | None]) -> Shop:
        """The same journal made anew, entry by entry, with other events in the place of some: nothing of it is broken,
        and its times are those that the attacker sets.
        """
        other = self._copy(place)
        clock = _SetClock()

        async def rewrite(journal: Journal) -> None:
            made = await open_journal(other.journal, clock)
            states: dict[SagaId, Saga] = {}
            try:
                async for _, entry in journal.log():
                    event = change(entry)
                    if event is None:
                        continue
                    state = states.get(entry.saga, unstarted(entry.saga))
                    head = state.head
                    state = states[entry.saga] = evolve(state, event)
                    clock.at = entry.at
                    summary = Summary(state.status, wakes_at(state))
                    await made.append(entry.saga, [event], after=head, summary=summary)
            finally:
                await made.close()

        await self.with_journal(rewrite)
        return other

    # -- the verifiers ------------------------------------------------------------------------------------------------

    async def verdicts(self, saga: str | None = "l-1") -> tuple[set[str], list[str]]:
        """What all verifiers say with the root: of the journal, of its bundle, and of that without amends."""
        said, findings = set[str](), list[str]()

        async def verify(journal: Journal) -> None:
            key = (await journal.signers())[0].key
            report = await verify_journal(journal, key, root=self.root)
            said.add(str(report.conclusion))
            findings.extend(report.findings + report.troubles)
            bundle = "".join([line async for line in export(journal, None if saga is None else [saga])]).encode()
            report = verify_bundle(io.BytesIO(bundle), key, root=self.root)
            alone = verified_alone(self.place, bundle, key, self.root)
            assert alone["conclusion"] == str(report.conclusion), (alone, report.fields())
            assert alone["proved"] == report.proved
            assert alone["unproved"] == report.fields()["unproved"]
            said.add(str(report.conclusion))

        await self.with_journal(verify)
        return said, findings


class _SetClock(SystemClock):
    """A clock that somebody sets as they need it."""

    def __init__(self, at: int = 0) -> None:
        super().__init__()
        self.at = at

    def now(self) -> int:
        return self.at


def verified_alone(place: Path, bundle: bytes, key: str, root: str | None) -> dict[str, Any]:
    """What the verifier says that needs nothing but Python; in a process that finds nothing else."""
    python = shutil.which("python3", path="/usr/local/bin:/usr/bin") or sys.executable
    (place / "verify.py").write_text(verifier_source())
    (place / "bundle").write_bytes(bundle)
    words = [python, "-I", "verify.py", "bundle", "--key", key, "--json", *([] if root is None else ["--root", root])]
    ran = subprocess.run(words, cwd=place, capture_output=True, text=True, check=False, timeout=120)
    assert ran.stdout, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found
