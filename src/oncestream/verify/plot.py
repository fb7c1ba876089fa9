"""Plots over time as SVG: lines, faults as bands behind them, anomalies as marks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Final, NamedTuple

from oncestream.verify.timeline import Fault

WIDTH: Final = 960
HEIGHT: Final = 260
LEFT: Final = 64
RIGHT: Final = 12
TOP: Final = 44
BOTTOM: Final = 30
CHAR_WIDTH: Final = 6.2
LABEL_ROWS: Final = 3
TICKS: Final = 5
# Of one band: the more there are, the paler, so that many at once still let the lines be seen.
OPACITY_MAX: Final = 0.28
OPACITY_MIN: Final = 0.03
OPACITY_SUM: Final = 20
DASHES: Final = ("", "6 3", "2 3", "8 3 2 3")


class Line(NamedTuple):
    """Points of (second, amount), by ascending seconds."""

    name: str
    points: Sequence[tuple[float, float]]


def plot(
    lines: Sequence[Line],
    *,
    length_s: float,
    unit: str,
    faults: Sequence[Fault] = (),
    marks: Mapping[str, Sequence[float]] | None = None,
) -> str:
    """One SVG element; its colours are classes of the page. `marks`: seconds by the text that explains them."""
    length_s = max(length_s, 0.1)
    top = nice_above(max((amount for line in lines for _, amount in line.points), default=0))
    scale = _Scale(length_s, top)
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(unit)} over time">',
        *_bands(faults, scale),
        *_axes(scale, unit),
        *_lines(lines, scale),
        *_marks(marks or {}, scale),
        "</svg>",
    ]
    return "\n".join(parts)


def nice_above(amount: float) -> float:
    """1, 2 or 5 times a power of ten, at or above the amount."""
    if amount <= 0:
        return 1.0
    power: float = 10.0 ** math.floor(math.log10(amount))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= amount * 0.999)


def short(amount: float) -> str:
    for size, sign in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if amount >= size:
            return f"{amount / size:g}{sign}"
    return f"{amount:g}"


class _Scale(NamedTuple):
    length_s: float
    top: float

    def x(self, second: float) -> float:
        share = min(max(second / self.length_s, 0.0), 1.0)
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    def y(self, amount: float) -> float:
        return round(HEIGHT - BOTTOM - amount / self.top * (HEIGHT - TOP - BOTTOM), 1)


def _bands(faults: Sequence[Fault], scale: _Scale) -> Iterator[str]:
    """Labels in three rows; one that would lie over another is left to the tooltip."""
    free = [0.0] * LABEL_ROWS
    height = HEIGHT - TOP - BOTTOM
    opacity = max(OPACITY_MIN, min(OPACITY_MAX, OPACITY_SUM / max(len(faults), 1)))
    for fault in faults:
        left, right = scale.x(fault.start_s), scale.x(fault.end_s)
        lasted = f"{fault.start_s:.1f} s" + (
            f" to {fault.end_s:.1f} s" if fault.end_s > fault.start_s else ""
        )
        title = f"<title>{escape(fault.name)}, {lasted}</title>"
        if fault.end_s > fault.start_s:
            width = f"{max(right - left, 1.5):.1f}"
            yield (
                f'<rect class="fault" fill-opacity="{opacity:.3f}" x="{left}" y="{TOP}" width="{width}"'
                f' height="{height}">{title}</rect>'
            )
        else:
            yield (
                f'<rect class="moment" fill-opacity="{min(1.0, 4 * opacity):.3f}" x="{left}" y="{TOP}" width="2"'
                f' height="{height}">{title}</rect>'
            )
        room = len(fault.name) * CHAR_WIDTH
        row = next((row for row, until in enumerate(free) if until <= left), None)
        if row is not None and left + room <= WIDTH:
            free[row] = left + room + CHAR_WIDTH
            yield f'<text class="fault-name" x="{left}" y="{TOP - 4 - 12 * row}">{escape(fault.name)}</text>'


def _axes(scale: _Scale, unit: str) -> Iterator[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    for tick in range(TICKS + 1):
        amount = scale.top * tick / TICKS
        y = scale.y(amount)
        yield f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{y}" y2="{y}"/>'
        yield f'<text class="tick" x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{short(amount)}</text>'
    step = nice_above(scale.length_s / 8)
    for tick in range(int(scale.length_s / step) + 1):
        x = scale.x(tick * step)
        yield f'<line class="grid" x1="{x}" x2="{x}" y1="{bottom}" y2="{bottom + 4}"/>'
        yield f'<text class="tick" x="{x}" y="{bottom + 16}" text-anchor="middle">{tick * step:g} s</text>'
    yield f'<text class="tick" x="4" y="{TOP - 14}">{escape(unit)}</text>'


def _lines(lines: Sequence[Line], scale: _Scale) -> Iterator[str]:
    for number, line in enumerate(lines):
        points = " ".join(f"{scale.x(second)},{scale.y(amount)}" for second, amount in line.points)
        dash = DASHES[number % len(DASHES)]
        yield (
            f'<polyline class="line line{number % 4}" stroke-dasharray="{dash}" points="{points}">'
            f"<title>{escape(line.name)}</title></polyline>"
        )


def _marks(marks: Mapping[str, Sequence[float]], scale: _Scale) -> Iterator[str]:
    bottom = HEIGHT - BOTTOM
    for text, seconds in marks.items():
        for second in seconds:
            x = scale.x(second)
            yield (
                f'<g class="mark"><title>{escape(text)}</title><line x1="{x}" x2="{x}" y1="{TOP}" y2="{bottom}"/>'
                f'<path d="M{x - 5},{TOP} h10 l-5,8 z"/></g>'
            )
