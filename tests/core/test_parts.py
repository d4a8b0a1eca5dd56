"""Parts: cut where the content says so, joined again letter by letter, and never into more than they should be."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from hashlib import sha256

import pytest
from hypothesis import given, strategies as st

from amends.core.words.parts import GROUP, HIGHEST, LEAF, LONGEST, SHORTEST, cut, named_by, restored
from amends.core.words.values import canonical
from amends.errors import JournalDamagedError

WORDS = (
    "flight",
    "hotel",
    "refund",
    "Lisbon",
    "ticket,",
    "is",
    "done.",
    "\n",
    "the",
    "a",
    '"quoted"',
    "C:\\",
    "größer",
    "。",
)


def said(seed: str, length: int) -> str:
    words = random.Random(seed)
    text = ""
    while len(text) < length:
        text += words.choice(WORDS) + f" {words.randrange(1000)} "
    return text[:length]


def key_of(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def turns(count: int, length: int, *, window: int | None = None, anew_every: int = 0) -> Iterator[str]:
    """The history of an agent on each turn, spelled: growing, or its newest only, or with another first message."""
    messages = [{"role": "system", "content": said("system", 900)}]
    for turn in range(count):
        messages.append({"role": ("user", "assistant")[turn % 2], "content": said(f"m{turn}", length)})
        if anew_every and turn % anew_every == 0:
            messages[0] = {"role": "system", "content": said(f"system {turn}", 900)}
        yield canonical({"messages": messages if window is None else messages[-window:]})


def stored_by(texts: Iterator[str]) -> tuple[int, int]:
    """What is stored of them in all, and how long the last one is; each is joined again."""
    kept, last = dict[str, str](), ""
    for last in texts:
        made = cut(last)
        assert restored(made.root, len(last.encode()), made.parts) == last
        kept |= made.parts
    return sum(len(part.encode()) for part in kept.values()), len(last.encode())


# -- what is stored ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [2_000, 6_000, 700])
def test_a_history_that_grows_costs_what_is_new(length: int) -> None:
    stored, text = stored_by(turns(200, length))
    assert stored < 4 * text
    few, _ = stored_by(turns(50, length))
    assert stored < 5 * few


def test_a_window_over_the_newest_messages_costs_what_is_new() -> None:
    stored, _ = stored_by(turns(200, 2_000, window=40))
    assert stored < 3 * 200 * 2_000


def test_another_system_prompt_costs_itself() -> None:
    stored, text = stored_by(turns(200, 2_000, anew_every=10))
    assert stored < 3 * text


def test_many_short_messages_grow_by_far_less_than_all_of_them() -> None:
    whole = sum(len(text) for text in turns(300, 100))
    stored, _ = stored_by(turns(300, 100))
    assert stored < whole / 8


def test_a_transcript_in_one_string_costs_what_is_new() -> None:
    def transcripts() -> Iterator[str]:
        text = ""
        for turn in range(150):
            text += said(str(turn), 2_000)
            yield canonical({"transcript": text})

    stored, text = stored_by(transcripts())
    assert stored < 4 * text


def test_what_a_model_answered_is_the_same_part_in_the_next_history() -> None:
    answer = said("answer", 5_000)
    alone = cut(canonical(answer))
    later = cut(canonical({"messages": [{"content": answer, "role": "assistant"}, said("m", 3_000)]}))
    assert alone.root in later.parts


def test_a_text_of_one_letter_is_few_parts() -> None:
    assert len(cut(canonical("x" * 1_000_000)).parts) < 12


# -- joined again -----------------------------------------------------------------------------------------------------


@given(st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_any_value_comes_back(value: object) -> None:
    check(json.dumps([value, "x" * 600, value, "y" * 9_000], ensure_ascii=False))


@given(st.text(st.sampled_from('\\"[]{},.n é😀'), max_size=3_000), st.integers(1, 20))
def test_any_text_comes_back_json_or_not(text: str, times: int) -> None:
    check(text * times + "!")


def check(text: str) -> None:
    made = cut(text)
    assert restored(made.root, len(text.encode()), made.parts) == text
    seen = {made.root}
    for digest, part in made.parts.items():
        assert digest == key_of(part)
        assert digest in seen, "a part comes after one that names it"
        seen |= set(named_by(part))
        assert len(part) <= LONGEST + 1 or part[0] == GROUP
    assert seen == made.parts.keys()


# -- what is refused --------------------------------------------------------------------------------------------------


def group(*items: str) -> str:
    return GROUP + json.dumps(items, ensure_ascii=False, separators=(",", ":"))


def shelf(*parts: str) -> dict[str, str]:
    return {key_of(part): part for part in parts}


PIECE = LEAF + "p" * SHORTEST


@pytest.mark.parametrize(
    "part",
    [
        GROUP,
        GROUP + "{}",
        GROUP + "1",
        GROUP + "[]",
        GROUP + '["a"]',
        GROUP + '["a","b"]',
        GROUP + '["a","b","c"]',
        GROUP + '["a",1,"c"]',
        GROUP + f'["a","{"A" * 64}","c"]',
        GROUP + "[" * 100_000,
    ],
    ids=range(10),
)
def test_a_group_that_is_none_is_refused(part: str) -> None:
    with pytest.raises(JournalDamagedError, match="no list of texts and digests"):
        restored(key_of(part), 1_000, shelf(part))


@pytest.mark.parametrize(
    ("parts", "size", "says"),
    [
        ((PIECE,), SHORTEST - 1, "more than the 255 bytes"),
        ((PIECE,), SHORTEST + 1, "do not make the 257 bytes"),
        (("p" * SHORTEST,), SHORTEST, "of no kind that this version knows"),
        ((group("", key_of(PIECE), ""),), SHORTEST, "is missing"),
        ((group("", key_of(LEAF), ""), LEAF), SHORTEST, "shorter than any that is written"),
    ],
)
def test_parts_that_do_not_make_what_they_should_are_refused(parts: tuple[str, ...], size: int, says: str) -> None:
    with pytest.raises(JournalDamagedError, match=says):
        restored(key_of(parts[0]), size, shelf(*parts))


def test_another_part_in_the_place_of_one_is_refused() -> None:
    with pytest.raises(JournalDamagedError, match="does not match its digest"):
        restored(key_of(PIECE), SHORTEST, {key_of(PIECE): LEAF + "q" * SHORTEST})


def test_parts_that_would_fill_a_disk_are_refused_at_once() -> None:
    parts = [PIECE]
    for _ in range(HIGHEST - 2):
        parts.append(group("", key_of(parts[-1]), *["", key_of(parts[-1])] * 99, ""))  # 100 to the 22nd
    with pytest.raises(JournalDamagedError, match="more than the 16,777,216 bytes"):
        restored(key_of(parts[-1]), 16 * 1024 * 1024, shelf(*parts))


def test_a_tower_of_parts_is_refused() -> None:
    parts = [PIECE]
    for _ in range(HIGHEST + 2):
        parts.append(group("", key_of(parts[-1]), ""))
    with pytest.raises(JournalDamagedError, match=f"stacked higher than {HIGHEST}"):
        restored(key_of(parts[-1]), SHORTEST, shelf(*parts))


def test_a_group_that_is_larger_than_any_is_not_even_read() -> None:
    part = group("", *[key_of(PIECE), ""] * 5_000)
    with pytest.raises(JournalDamagedError, match="more than 262,144 characters"):
        restored(key_of(part), 1_000, shelf(part, PIECE))


def test_a_part_that_names_itself_does_not_match_its_digest() -> None:
    circle = group("", "0" * 64, "")
    with pytest.raises(JournalDamagedError, match="does not match its digest"):
        restored("0" * 64, 1_000, {"0" * 64: circle})
