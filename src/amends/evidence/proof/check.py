"""Going over the decisions of some evidence, and saying which are proved. Pure; for a bundle or a live journal.

A decision that is signed has to be signed rightly. Where the root is told, each decision since the root has to be
signed: whoever tells it says that names are proved there. What was removed since cannot be judged, and is counted as
removed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from amends.core.words.parts import named_by, restored
from amends.core.words.values import PEOPLE, digest
from amends.errors import AmendsError, EvidenceError
from amends.evidence.proof.limits import BEGUN, COUNTED, GOES_BACK
from amends.evidence.proof.roster import BESIDE, Roster, SagaDecisions, SignableDecision
from amends.evidence.proof.statement import APPROVALS, ASKED, DECISIONS, Question, fields_of, text_of
from amends.journal.codec import references, removed_digest
from amends.journal.port.evidence import Stored

_KEPT: Final = frozenset({*DECISIONS, *BESIDE, ASKED})


class ProofCheck:
    """Takes entries in the order of the journal, and what is kept beside them; `judge` says what is not proved."""

    def __init__(self, root: str | None = None) -> None:
        self.root = root
        self.proved = 0
        self.wanted: set[str] = set()
        """Digests of what is kept beside the entries that are judged."""
        self.payloads: dict[str, str] = {}
        self._sagas: dict[str, list[Stored]] = {}
        self._gone: list[Stored] = []
        """Entries of the roster of which nothing is left."""
        self._counted: set[str] = set()
        """Sagas that have a limit at which they go back to a checkpoint: what they use up is counted."""

    def take(self, stored: Stored) -> None:
        is_kept = stored.name in _KEPT or stored.saga == PEOPLE
        if stored.name == BEGUN:
            is_kept = GOES_BACK in stored.body or '"limits":{"digest":' in stored.body
            self._counted.update((stored.saga,) if is_kept else ())
        elif stored.name in COUNTED:
            is_kept = stored.saga in self._counted
        if removed_digest(stored.body) is not None:
            if stored.saga == PEOPLE:
                self._gone.append(stored)
            return
        if not is_kept:
            return
        self._sagas.setdefault(stored.saga, []).append(stored)
        try:
            self.wanted.update(references(stored.body))
        except AmendsError:
            return  # it is told where the entry is read

    def payload(self, name: str, text: str) -> None:
        if name in self.wanted:
            self.payloads[name] = text
            try:
                self.wanted.update(named_by(text))
            except AmendsError:
                return

    def judge(self) -> Iterator[tuple[Stored | None, str]]:
        """Each entry that is not proved, with the reason; None for what is about the whole."""
        roster, since = Roster(), 0
        for stored in self._gone:
            yield stored, "what it held was removed: without it, nobody knows whose keys are good"
        for stored in self._sagas.pop(PEOPLE, ()):
            try:
                roster.note(self._decision(stored), stored.at, stored.hash)
            except (AmendsError, KeyError, ValueError, TypeError, AttributeError, RecursionError) as exc:
                roster.troubles.append(f"entry {stored.number} of {PEOPLE} cannot be read: {exc}")
            if roster.root and not since:
                since = stored.position
            if roster.troubles:
                yield stored, roster.troubles.pop()
        self.proved = max(0, roster.changes - 1)
        if self.root is not None and roster.root != self.root:
            yield None, f"its roster has the root {roster.root or 'of nobody'}, and {self.root} was told"
        for entries in self._sagas.values():
            yield from self._judge_saga(entries, roster, since)

    def _judge_saga(self, entries: Iterable[Stored], roster: Roster, since: int) -> Iterator[tuple[Stored, str]]:
        by_number = {stored.number: stored for stored in entries}
        asked: dict[str, Question] = {}
        found: list[SignableDecision] = []
        wrong: list[tuple[Stored, str]] = []
        for stored in by_number.values():
            try:
                one = self._decision(stored)
                fields = fields_of(one.body)
                step = text_of(fields.get("step", '""'))
                if stored.name == ASKED:
                    asked[step] = Question(digest(fields["shown"]), fields["shown"])
                    if text_of(fields["digest"]) != asked[step].digest:
                        wrong.append((stored, "what was shown does not have the digest that it says"))
                elif stored.name in APPROVALS:
                    found.append(self._decision(stored, asked.get(step)))
                else:
                    found.append(one)
            except (AmendsError, KeyError, ValueError, TypeError, AttributeError, RecursionError) as exc:
                wrong.append((stored, f"it cannot be read: {exc}"))
        judged = SagaDecisions(roster)
        judged.judge(found, lambda one, why: wrong.append((by_number[one.number], why)))
        self.proved += judged.proved
        for stored, why in wrong:
            is_signed = '"signed":' in stored.body
            if is_signed or (stored.name == ASKED and roster.root) or (self.root and stored.position > since):
                yield stored, why

    def _decision(self, stored: Stored, asked: Question | None = None) -> SignableDecision:
        return SignableDecision(
            saga=stored.saga,
            number=stored.number,
            name=stored.name,
            body=stored.body if stored.name in COUNTED else self._whole(stored.body),
            position=stored.position,
            at=stored.at,
            asked=asked,
        )

    def _whole(self, body: str) -> str:
        """A body with what is kept beside it in its place."""
        fields = fields_of(body)
        beside: dict[str, Any] = {}
        for form in ("parts", "blobs"):
            if form in fields:
                beside[form] = json.loads(fields.pop(form))
        for name, about in beside.get("parts", {}).items():
            fields[name] = restored(about["digest"], about["size"], self.payloads)
        for name, about in beside.get("blobs", {}).items():
            text = self.payloads.get(about["digest"])
            if text is None:
                raise EvidenceError("what is kept beside it is not here")
            fields[name] = text
        return "{" + ",".join(f'"{name}":{fields[name]}' for name in sorted(fields)) + "}"
