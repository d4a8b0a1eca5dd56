"""The part of the port that evidence is made from: what is stored, the tree over it, and who signs the tree's root."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

from amends.core.words.values import SagaId
from amends.journal.tree import Subtree, Tree

T = TypeVar("T")


class Stored(NamedTuple):
    """An entry as it lies in the store, checked by nobody: for whoever checks it."""

    position: int
    saga: str
    number: int
    at: int
    name: str
    body: str
    hash: bytes


class TreeHead(NamedTuple):
    """A root that was signed: of the tree over the first `size` entries. `note` is text, in the form of C2SP."""

    size: int
    at: int
    note: str


class Signer(NamedTuple):
    """A public key of the journal's notary. `note` is how the key before it named it; the first has none."""

    key: str
    at: int
    note: str


class Handover(NamedTuple):
    """The beginning of a new key: a checkpoint that both keys sign, and the record that names the new one."""

    checkpoint: str
    record: str


class Inspection(NamedTuple):
    """Troubles that a store found in itself. `is_whole`: it came to an end within the time that it was given."""

    troubles: tuple[str, ...] = ()
    is_whole: bool = True


class Unnumbered(NamedTuple):
    """Entries that are committed, and have no position in the log yet: how many, and since when the oldest waits."""

    entries: int = 0
    since_at: int | None = None


class Pace(NamedTuple):
    """When a checkpoint is due though no saga has come to its end: after so many entries, or so long."""

    entries: int = 1_000
    seconds: float = 60.0

    def is_due(self, entries: int, milliseconds: int) -> bool:
        """Whether this much, and so long, since the last one is too much. A clock that was set back is no excuse."""
        return entries >= self.entries or not 0 <= milliseconds < self.seconds * 1000


class Spared(NamedTuple):
    """Sagas that are not removed, however old: these, and those with one of these labels, `name` or `name=value`."""

    sagas: frozenset[str] = frozenset()
    labels: frozenset[str] = frozenset()

    def spares(self, saga: str, labels: Mapping[str, str]) -> bool:
        marks = {*labels, *(f"{name}={value}" for name, value in labels.items())}
        return saga in self.sagas or not self.labels.isdisjoint(marks)


NOBODY: Final = Spared()


class Removal(NamedTuple):
    """How many sagas lost their content, and how many entries that were."""

    sagas: int
    entries: int


class Notary(Protocol):
    """The signer of where a journal stands. Called inside a transaction, by the writer: it must not take long.

    A public key is text that carries the name of the journal that it signs for.
    """

    def public(self, origin: str) -> str:
        """Its public key under this name; makes the key where there is none yet. Raises EvidenceKeyError."""
        ...

    def holds(self, key: str) -> bool:
        """Whether it can sign by this key; it looks again, where the key has changed hands since."""
        ...

    def sign(self, key: str, size: int, root: bytes, at: int) -> str:
        """A checkpoint's note."""
        ...

    def read(self, key: str, note: str) -> tuple[int, bytes]:
        """Size and root of a checkpoint that this key has signed. Raises EvidenceError where it has not."""
        ...

    def succeed(self, before: Notary | None, key: str, size: int, root: bytes, at: int) -> Handover:
        """Take over from another notary, whose key is `key`; from nobody, where that key is lost."""
        ...


def whole_families(found: Iterable[tuple[T, str]], limit: int | None, *, at_least_one: bool = True) -> list[T]:
    """Of these, each with the name of its family, as many as may go at once: families go whole, in their order.

    One that is larger than that goes all the same, as the only one.
    """
    families: dict[str, list[T]] = {}
    for one, family in found:
        families.setdefault(family, []).append(one)
    taken: list[T] = []
    for members in families.values():
        is_first = at_least_one and not taken
        if limit is not None and len(taken) + len(members) > limit and not is_first:
            break
        taken += members
    return taken


def origin_of(key: str) -> str:
    """The name of the journal that a public key signs for."""
    return key.partition("+")[0]


class Evidence(Protocol):
    """Material of evidence, and by which anybody can check it."""

    def stored(self, *, after: int = 0) -> AsyncIterator[Stored]:
        """All entries past a position, in journal order, as they are: nothing is checked."""
        ...

    def hashes(self, *, after: int = 0) -> AsyncIterator[bytes]:
        """Only their hashes."""
        ...

    async def payload(self, digest: str) -> str | None:
        """The text of a payload that is kept beside its entry's body."""
        ...

    async def tree(self) -> Tree:
        """The tree as it stands."""
        ...

    async def unnumbered(self) -> Unnumbered:
        """How far the positions are behind; nothing, where an entry gets its position with the append.

        Such entries are covered by their saga's chain, and by no tree head yet. The log and the tree are without them.
        """
        ...

    async def positions(self, saga: SagaId) -> tuple[int, ...]:
        """Where a saga's entries stand in journal order, by their numbers; none of a saga that is not there."""
        ...

    async def subtrees(self, asked: Sequence[Subtree]) -> tuple[bytes, ...]:
        """The roots of full subtrees, none of which goes past the tree. It costs no more in a large journal."""
        ...

    async def tree_head(self) -> TreeHead | None:
        """The newest."""
        ...

    def tree_heads(self, *, after: int = 0) -> AsyncIterator[TreeHead]:
        """Checkpoints past a size, smallest first."""
        ...

    async def signers(self) -> tuple[Signer, ...]:
        """The public keys that have signed, oldest first; the last one signs now."""
        ...

    async def seal(self) -> TreeHead | None:
        """Sign where the journal stands, if something came since; the newest checkpoint."""
        ...

    async def hand_over(self, heir: Notary) -> TreeHead:
        """Let another notary sign from now on. Raises EvidenceKeyError where the present key is not held here.

        Without a notary of its own the journal takes the heir as it is: for a key that is lost.
        """
        ...

    async def remove_payloads(
        self,
        *,
        by: str,
        why: str,
        own: bool = False,
        ended_before: int,
        spared: Spared = NOBODY,
        limit: int | None = None,
        sagas: Collection[SagaId] | None = None,
        signed: str = "",
    ) -> Removal:
        """Remove what the entries of sagas held that ended before this time, of so many of them at most.

        `sagas` names those that are meant; else it is all. In the same transaction each of them gets an entry that says
        who removed it and why (ContentRemoved; `own`: they had asked for the saga; `signed`: the proof of their name),
        and that is signed. What is gone without one counts as damage.
        Numbers, times, names and hashes stay, and so does everything that they prove. Only ended sagas with nothing
        open, and never policies, pauses, holds, or drills that were not withdrawn (completed sagas of `amends.drill`,
        which the gate asks about); payloads kept beside a body go with the last entry that needs them.
        A family, a saga and all that it called, goes as one: none of it as long as one of them may not go, and past
        `limit` where it is larger than that.
        What a store takes for them is given back where it can be. It cannot be taken back.
        """
        ...

    async def vouch_for_removals(self, *, by: str, why: str, signed: str = "") -> Removal:
        """Put on record who vouches for what is gone already, in journals from before removals were on record.

        Of sagas that are marked as removed, all of whose entries are empty, and of which none says who removed them.
        """
        ...

    async def removable(self, *, ended_before: int, spared: Spared = NOBODY) -> int:
        """How many sagas that would be."""
        ...

    async def next_removable(self, *, ended_before: int, spared: Spared = NOBODY, limit: int) -> tuple[SagaId, ...]:
        """Which sagas those would be, of so many of them at most; families whole, also one that is larger."""
        ...

    async def inspect(self, *, within_s: float | None = None) -> Inspection:
        """Go over everything that the store keeps, however long that takes, or for so long: pages, rows, indexes."""
        ...
