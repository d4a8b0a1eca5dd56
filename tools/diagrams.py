"""Draws the state diagrams of the pages for the site: as SVG, so that they are read without a script from elsewhere.

Above, the shape: states from left to right in the order in which they are first reached. Below, what is on the arrows:
each state with its events, and where each leads.
"""

import html
import math
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

WIDTH = 760
ROW, BOX, GAP = 58, 28, 12
LETTER = 7.3
"""The width of a letter, in the font of the diagram."""
LINE = 21
START = "[*]"
COLOURS = (
    *("#00796b", "#1565c0", "#6a1b9a", "#ad1457", "#c62828", "#9e4a00", "#5d4037", "#37474f"),
    *("#2e7d32", "#7a5c00", "#283593", "#00838f", "#8e24aa", "#558b2f", "#455a64"),
)
STYLE = (
    "font: 12px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace; max-width: 100%; height: auto; "
    "color: inherit"
)
Point: TypeAlias = tuple[float, float]
_BLOCK = re.compile(r"^```mermaid\nstateDiagram-v2\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_ARROW = re.compile(r"^\s*(\S+) --> (\S+): (.+)$", re.MULTILINE)


@dataclass
class Chart:
    """States in the order of their first mention, and the events that lead from one to another."""

    states: list[str] = field(default_factory=list)
    arrows: list[tuple[str, str, Sequence[str]]] = field(default_factory=list)


def parsed(text: str) -> Chart:
    chart = Chart()
    for old, new, events in _ARROW.findall(text):
        chart.arrows.append((old, new, events.split(", ")))
        chart.states += [each for each in (old, new) if each != START and each not in chart.states]
    return chart


def with_pictures(page: str) -> str:
    """The page with its state diagrams drawn."""
    return _BLOCK.sub(lambda block: drawn(parsed(block[1])), page)


def drawn(chart: Chart) -> str:
    colours = {state: COLOURS[place % len(COLOURS)] for place, state in enumerate(chart.states)}
    places, depth = _places(chart)
    shape = [*_arrows(chart, places), *(_box(state, *places[state], colours[state]) for state in chart.states)]
    top = depth + LINE
    table, height = _table(chart, colours, top)
    said = html.escape(", ".join(chart.states))
    return "\n".join(
        [
            (
                f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" xmlns="http://www.w3.org/2000/svg" role="img"'
                f' aria-label="States: {said}" style="{STYLE}">'
            ),
            (
                '<defs><marker id="tip" viewBox="0 0 8 8" '
                'refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
                '<path d="M0 0 8 4 0 8z" fill="currentColor"/></marker></defs>'
            ),
            *shape,
            *table,
            "</svg>",
        ]
    )


# The shape


def _places(chart: Chart) -> tuple[Mapping[str, Point], float]:
    """The middle of each state's box, and how deep the shape is."""
    layers = [chart.states[:1]]
    left = chart.states[1:]
    while left:
        inner = [new for old, new, _ in chart.arrows if old in layers[-1] and new in left]
        layers.append(list(dict.fromkeys(inner)) or left)
        left = [state for state in left if state not in layers[-1]]
    depth = max(map(len, layers)) * ROW
    step = (WIDTH - 20) / len(layers)
    return {
        state: (10 + step * (column + 0.5), depth * (row + 0.5) / len(layer) + 6)
        for column, layer in enumerate(layers)
        for row, state in enumerate(layer)
    }, depth + 12


def _half(state: str) -> float:
    return (len(state) * LETTER + 16) / 2


def _box(state: str, x: float, y: float, colour: str) -> str:
    wide = 2 * _half(state)
    return (
        f'<rect x="{x - wide / 2:.0f}" y="{y - BOX / 2:.0f}" width="{wide:.0f}" height="{BOX}" rx="6" fill="{colour}"/>'
        f'<text x="{x:.0f}" y="{y + 4:.0f}" text-anchor="middle" fill="#fff">{html.escape(state)}</text>'
    )


def _arrows(chart: Chart, places: Mapping[str, Point]) -> Iterator[str]:
    for old, new, _ in chart.arrows:
        if old in (START, new):
            continue
        (x, y), (u, v) = places[old], places[new]
        if u > x:
            begin, end = (x + _half(old), y), (u - _half(new) - 2, v)
            bend = (end[0] - begin[0]) * 0.4
            yield _curve(begin, (begin[0] + bend, y), (end[0] - bend, v), end, 0.75)
        else:  # back, or to a neighbour: round the boxes, on the side that is nearer
            way = 1 if v >= y else -1
            begin, end = (x, y + way * BOX / 2), (u + (14 if u < x else 0), v - way * (BOX / 2 + 2))
            yield _curve(begin, (x, y + way * ROW * 0.6), (end[0], v - way * ROW * 0.6), end, 0.35)


def _curve(begin: Point, out: Point, inwards: Point, end: Point, strength: float) -> str:
    first, *rest = (f"{x:.0f} {y:.0f}" for x, y in (begin, out, inwards, end))
    return (
        f'<path d="M{first}C{" ".join(rest)}" fill="none" stroke="currentColor" stroke-opacity="{strength}"'
        ' marker-end="url(#tip)"/>'
    )


# What is on the arrows


def _table(chart: Chart, colours: Mapping[str, str], top: float) -> tuple[list[str], int]:
    lines: list[str] = []
    left = 10 + max((2 * _half(state) for state in chart.states), default=0)
    events = max(len(event) for _, _, names in chart.arrows for event in names) * LETTER
    y = top
    for old in (START, *chart.states):
        ways = [(event, new) for begun, new, names in chart.arrows if begun == old for event in names]
        if not ways:
            continue
        lines.append(f'<path d="M0 {y - 15:.0f}H{WIDTH}" stroke="currentColor" stroke-opacity=".15"/>')
        if old != START:
            lines.append(_chip(old, 10, y, colours[old]))
        for event, new in ways:
            if new != old:
                begin, end = left + 22 + len(event) * LETTER, left + 46 + events
                way = f"M{begin:.0f} {y - 4:.0f}H{end:.0f}"
                lines.append(_text(event, left + 16, y))
                lines.append(f'<path d="{way}" stroke="currentColor" stroke-opacity=".4" marker-end="url(#tip)"/>')
                lines.append(_chip(new, end + 8, y, colours[new]))
                y += LINE
        kept = ", ".join(event for event, new in ways if new == old)
        for line in textwrap.wrap(f"stays on {kept}" if kept else "", math.floor((WIDTH - left - 16) / LETTER)):
            lines.append(_text(line, left + 16, y, 0.65))
            y += LINE
        y += GAP
    return lines, math.ceil(y - GAP)


def _text(text: str, x: float, y: float, strength: float = 1) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" fill="currentColor" fill-opacity="{strength}">{html.escape(text)}</text>'


def _chip(state: str, x: float, y: float, colour: str) -> str:
    wide = 2 * _half(state) - 4
    return (
        f'<rect x="{x:.0f}" y="{y - 13:.0f}" width="{wide:.0f}" height="18" rx="5" fill="{colour}"/>'
        f'<text x="{x + 6:.0f}" y="{y:.0f}" fill="#fff">{html.escape(state)}</text>'
    )
