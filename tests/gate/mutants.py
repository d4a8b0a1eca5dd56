"""Malformed policies without end, each made from a seed file by a few strokes; the same number gives the same text."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
SEEDS = tuple(path.read_text(encoding="utf-8") for path in sorted(CORPUS.glob("*.yaml")))

TOKENS = tuple((CORPUS / "tokens.txt").read_text(encoding="utf-8").split())
ODD = (
    "\t",
    "\0",
    "\r",
    "\x1b",
    "\x7f",
    "\x85",
    "\xa0",
    "\u200b",
    "\u202e",
    "\u2028",
    "\ufeff",
    "\ud800",
    "\U0001f600",
    "é",
)

Stroke = Callable[[random.Random, str], str]


def mutant(number: int) -> str:
    """The malformed policy of this number. Some turn out well-formed after all."""
    chance = random.Random(number)
    text = chance.choice(SEEDS)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        text = chance.choice(STROKES)(chance, text)
    return text


def mutants(count: int, first: int = 0) -> Iterator[str]:
    return (mutant(number) for number in range(first, first + count))


def _span(chance: random.Random, text: str) -> tuple[int, int]:
    start = chance.randrange(len(text) + 1)
    return start, min(len(text), start + chance.choice((0, 1, 1, 2, 5, 20, 200)))


def cut(chance: random.Random, text: str) -> str:
    start, end = _span(chance, text)
    return text[:start] + text[end:]


def end_early(chance: random.Random, text: str) -> str:
    return text[: chance.randrange(len(text) + 1)]


def put_in(chance: random.Random, text: str) -> str:
    start, end = _span(chance, text)
    return text[:start] + chance.choice(("", " ")) + chance.choice(TOKENS) + chance.choice(("", " ", "\n")) + text[end:]


def put_in_odd(chance: random.Random, text: str) -> str:
    start, _ = _span(chance, text)
    return text[:start] + chance.choice(ODD) + text[start:]


def change_one(chance: random.Random, text: str) -> str:
    start = chance.randrange(len(text) + 1)
    return text[:start] + chr(chance.randrange(32, 127)) + text[start + 1 :]


def repeat(chance: random.Random, text: str) -> str:
    start, end = _span(chance, text)
    return text[:start] + text[start:end] * chance.choice((2, 3, 50)) + text[end:]


def nest(chance: random.Random, text: str) -> str:
    start, _ = _span(chance, text)
    return (
        text[:start]
        + chance.choice(("[", "{", "- ", "? ", "{a: ", "[[]", "'", '"')) * chance.choice((2, 40, 400))
        + text[start:]
    )


def move_a_line(chance: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True)
    if not lines:
        return text
    line = lines[chance.randrange(len(lines))]
    if chance.random() < 0.5:
        lines.remove(line)
    lines.insert(chance.randrange(len(lines) + 1), line)
    return "".join(lines)


def indent_a_line(chance: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True) or [""]
    place = chance.randrange(len(lines))
    lines[place] = " " * chance.randrange(1, 9) + lines[place] if chance.random() < 0.5 else lines[place].lstrip(" ")
    return "".join(lines)


def swap_a_word(chance: random.Random, text: str) -> str:
    words = text.split(" ")
    words[chance.randrange(len(words))] = chance.choice(TOKENS)
    return " ".join(words)


def splice(chance: random.Random, text: str) -> str:
    other = chance.choice(SEEDS)
    return text[: chance.randrange(len(text) + 1)] + other[chance.randrange(len(other) + 1) :]


STROKES: tuple[Stroke, ...] = (
    cut,
    end_early,
    put_in,
    put_in_odd,
    change_one,
    repeat,
    nest,
    move_a_line,
    indent_a_line,
    swap_a_word,
    splice,
)
