"""Globs: what `*`, `?` and `**` cross, and that none of them takes long."""

from itertools import product

import pytest
from hypothesis import given, strategies as st

from amends.core.words.globs import glob, is_glob, misplaced_run, some_match


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("payments.*", ["payments.charge", "payments."], ["payments", "payments.card.charge", "xpayments.charge"]),
        ("payments.**", ["payments.charge", "payments.card.charge"], ["payments", "mail.payments.charge"]),
        ("**.delete", ["infra.delete", "a.b.delete"], ["delete", "infra.delete.all"]),
        ("a.**.z", ["a.b.z", "a.b.c.z"], ["a.z", "a.b.y"]),
        ("**", ["a", "a.b.c"], []),
        ("*", ["a", ""], ["a.b"]),
        ("*.*", ["a.b"], ["a", "a.b.c"]),
        ("user-?.pay*", ["user-1.pay", "user-2.payout"], ["user-12.pay", "user-.pay"]),
        ("payments.charge", ["payments.charge"], ["payments.charge2", "payments-charge"]),
    ],
)
def test_in_a_dotted_name_only_two_stars_cross_dots(pattern: str, yes: list[str], no: list[str]) -> None:
    matches = glob(pattern, dotted=True)
    assert [name for name in yes if not matches(name)] == []
    assert [name for name in no if matches(name)] == []


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        (
            "person:*@example.org",
            ["person:ann.bee@example.org"],
            ["person:ann@example.org.evil", "agent:a@example.org"],
        ),
        ("/etc/*", ["/etc/passwd", "/etc/", "/etc/a/b", "/etc/a\nb"], ["/etc", "x/etc/a"]),
        ("*.pem", ["a.pem", ".pem"], ["a.pem.txt"]),
        ("a?c*", ["abc", "abcd"], ["abd", "a?d"]),
        ("a[*]c*", ["a*cd"], ["abc", "a[*]c"]),
        ("a*b*c", ["abc", "a-b-b-c"], ["acb"]),
        ("a*b*c*d*e", ["abcde", "a1b2c3d4e", "a-b-c-d\n-e"], ["abdce"]),
        ("a**c", ["abc", "ac"], ["ab"]),
        ("?", ["x", "."], ["", "xy"]),
        ("100[*]", ["100*"], ["1000", "100[*]"]),
        ("why[?]", ["why?"], ["whys"]),
        ("[[*]]", ["[*]"], ["*"]),
        ("[ab]", ["[ab]"], ["a"]),
        ("a+(b)|c.*", ["a+(b)|c.d"], ["aab", "c.d"]),
    ],
)
def test_in_any_other_text_a_star_crosses_everything(pattern: str, yes: list[str], no: list[str]) -> None:
    matches = glob(pattern)
    assert [text for text in yes if not matches(text)] == []
    assert [text for text in no if matches(text)] == []


def test_two_stars_are_a_whole_segment_or_nothing() -> None:
    assert [pattern for pattern in ("a.**", "**", "**.a.**", "*.a*") if misplaced_run(pattern)] == []
    assert all(map(misplaced_run, ("a**", "**a.b", "a.b**c", "***")))


def test_a_pattern_is_one_only_with_a_star_or_a_question_mark() -> None:
    assert [text for text in ("", "a.b", "[a]", "\\", "a[") if is_glob(text)] == []
    assert all(map(is_glob, ("*", "?", "a*", "[*]", "[?]")))


@given(pattern=st.text("ab*?[]", max_size=9), run=st.text("a?*[", max_size=3))
def test_somebody_can_be_made_up_whom_a_pattern_names(pattern: str, run: str) -> None:
    assert glob(pattern)(some_match(pattern, run))


def by_definition(pattern: str, text: str) -> bool:
    """A star is any run, tried in every way."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(by_definition(pattern[1:], text[at:]) for at in range(len(text) + 1))
    return bool(text) and pattern[0] in {"?", text[0]} and by_definition(pattern[1:], text[1:])


@given(pattern=st.text("ab*?", max_size=7), text=st.text("ab", max_size=8))
def test_nothing_is_missed_by_not_looking_back(pattern: str, text: str) -> None:
    assert glob(pattern)(text) == by_definition(pattern, text)


def segments_by_definition(pattern: list[str], name: list[str]) -> bool:
    if not pattern:
        return not name
    if pattern[0] == "**":
        return any(segments_by_definition(pattern[1:], name[at:]) for at in range(1, len(name) + 1))
    return bool(name) and by_definition(pattern[0], name[0]) and segments_by_definition(pattern[1:], name[1:])


def test_nor_between_segments() -> None:
    names = [list(parts) for length in range(1, 5) for parts in product(["a", "b", "ab"], repeat=length)]
    for length in range(1, 4):
        for pattern in product(["a", "*", "**", "a*", "?"], repeat=length):
            matches = glob(".".join(pattern), dotted=True)
            for name in names:
                assert matches(".".join(name)) == segments_by_definition(list(pattern), name), (pattern, name)


@pytest.mark.parametrize("pattern", ["*a*a*a*a*a*a*b", "*?a*?a?*b*", "*ab" * 20 + "c"])
def test_a_long_value_is_no_burden(pattern: str) -> None:
    """With looking back, any of these would take longer than anyone has."""
    assert not glob(pattern)("a" * 100_000)
