r"""Patterns of a saga's file: they mean what they mean to Python, and are matched in a bounded number of steps."""

import re
import time

import pytest
from hypothesis import given, strategies as st

from amends.errors import InputError
from amends.sagafile.patterns import MOST_STEPS, compile_pattern

PARTS = st.sampled_from(
    [
        *("a", "b", ".", "1", " ", "é", "{", "}", "(?:a)", "(?P<n>b)", "^", "$"),
        *("[ab]", "[^a]", "[a-c\\d]", "[]a]", "[^]a]", "[\\]b]"),
        *(r"\d", r"\w", r"\s", r"\W", r"\.", r"\x61", r"\n", r"\0", r"\b", r"\A", r"\Z", r"\N{LATIN SMALL LETTER A}"),
    ]
)
TIMES = st.sampled_from(["", "*", "+", "?", "{2}", "{1,3}", "{,2}", "{2,}", "{,}", "*?", "+?", "??", "{1,2}?"])
PATTERNS = st.recursive(
    st.tuples(PARTS, TIMES).map("".join),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("".join),
        st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        st.tuples(inner, TIMES).map(lambda two: f"({two[0]}){two[1]}"),
        inner.map(lambda one: f"({one}|)*"),
    ),
    max_leaves=6,
)


@given(pattern=PATTERNS, flags=st.sampled_from(["", "(?i)", "(?s)", "(?a)"]), text=st.text("ab1 .\néA", max_size=6))
def test_a_pattern_fits_what_python_says_it_fits(pattern: str, flags: str, text: str) -> None:
    try:
        theirs = re.compile(flags + pattern)
    except re.error:  # a repetition of a repetition
        return
    assert compile_pattern(flags + pattern).fits(text) == (theirs.fullmatch(text) is not None)


def test_where_words_begin_and_end() -> None:
    assert compile_pattern(r"a\b.+\Bc").fits("a bc")
    assert not compile_pattern(r"a\B.+").fits("a b")


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        (r"(a)\1", r"\\1 repeats what was found; write it out"),
        (r"(?P<q>a)(?P=q)", r"\(\?P repeats what was found; write it out"),
        (r"(?=.*\d).+", r"\(\?= looks ahead; list what is allowed instead"),
        (r"(?!root).+", r"\(\?! looks ahead; list what is allowed instead"),
        (r"(?<=a)b", r"\(\?< looks back; list what is allowed instead"),
        (r"(?>a+)b", r"\(\?> is a group that never goes back; write \(\?:…\)"),
        (r"a++b", r"a \+ after a repetition never goes back; leave it out"),
        (r"(a)?(?(1)b|c)", r"\(\?\( depends on a group; write both cases with \|"),
        (r"a(?#why)b", r"\(\?# is a comment; leave it out"),
        (r"(?x)a b", r"\(\?x\) changes how patterns are read; leave it out"),
        (r"(?i:a)b", r"\(\?i is not read here"),
        (r"(?:a{100}){100}", "its repetitions make it longer than 1000 places; allow fewer"),
        (r"((){1000}){1000}", "its repetitions make it longer than 1000 places; allow fewer"),
        ("(" * 40 + "a" + ")" * 40, "its groups are nested deeper than 32 levels"),
        ("a" * 1001, "longer than 1000 characters; shorten it"),
        ("[", "is not a regular expression: unterminated character set"),
    ],
)
def test_what_cannot_be_followed_is_refused_with_how_to_do_without(pattern: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        compile_pattern(pattern)


def test_a_text_that_is_too_long_is_refused() -> None:
    assert compile_pattern("[a-z]*").fits("x" * 100_000)
    with pytest.raises(InputError, match="a text of 2,000,000 characters is too long to be matched; shorten it"):
        compile_pattern("[a-z]*").fits("x" * MOST_STEPS)


def test_the_longest_text_of_the_longest_pattern_takes_seconds_at_most() -> None:
    pattern = compile_pattern("(?:(?:a?){100}){4}" + "(?:b|a)*c")
    since = time.process_time()
    assert not pattern.fits("a" * 2_400)
    assert time.process_time() - since < 10
