"""Rows committed over time, with the kills drawn in: in the terminal and as an SVG file."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

from rich.text import Text

COLUMNS: Final = 76
LINES: Final = 12
EIGHTHS: Final = " ▁▂▃▄▅▆▇█"
KILL_LINE: Final = "╎"
KILL_MARK: Final = "✖"

WIDTH_PX, HEIGHT_PX, MARGIN_PX = 860, 380, 70
LABEL_PX: Final = 16  # each label of a kill has a line of its own
TICKS: Final = 5
ROWS_COLOR: Final = "#2e8540"
KILL_COLOR: Final = "#c0392b"


class Point(NamedTuple):
    """So many rows were visible so many seconds after the start."""

    at_s: float
    rows: int


class Kill(NamedTuple):
    """A SIGKILL: the rows visible then, those its committed offsets stand for, and those left uncommitted."""

    at_s: float
    visible: int
    by_offsets: int
    uncommitted: int


def terminal_plot(points: Sequence[Point], kills: Sequence[Kill]) -> Text:
    """A curve of block characters."""
    end_s, top = points[-1].at_s or 1.0, max(points[-1].rows, 1)
    times = [point.at_s for point in points]
    heights = []
    for column in range(COLUMNS):
        rows = points[max(0, bisect_right(times, end_s * (column + 1) / COLUMNS) - 1)].rows
        heights.append(round(rows / top * LINES * 8))
    killed = {min(COLUMNS - 1, int(kill.at_s / end_s * COLUMNS)) for kill in kills}
    plot = Text()
    for line in reversed(range(LINES)):
        label = top if line == LINES - 1 else top // 2 if line == LINES // 2 - 1 else None
        plot.append(f"{label:>10,} ┤" if label is not None else f"{'':>10} │")
        for column, height in enumerate(heights):
            block = EIGHTHS[min(8, max(0, height - line * 8))]
            is_kill = column in killed and block == " "
            plot.append(KILL_LINE if is_kill else block, "red" if is_kill else "green")
        plot.append("\n")
    axis = "".join(KILL_MARK if column in killed else "─" for column in range(COLUMNS))
    plot.append(f"{0:>10,} └")
    plot.append(axis + "\n")
    plot.append(f"{'':>12}0 s{f'{end_s:.0f} s':>{COLUMNS - 3}}\n")
    plot.append(
        f"{'':>12}rows visible to read_committed readers; {KILL_MARK} = SIGKILL of the whole pipeline"
    )
    return plot


def svg_plot(points: Sequence[Point], kills: Sequence[Kill]) -> str:
    """The same as a picture."""
    end_s, top = points[-1].at_s or 1.0, max(points[-1].rows, 1)

    def x(at_s: float) -> float:
        return round(MARGIN_PX + (WIDTH_PX - 2 * MARGIN_PX) * at_s / end_s, 1)

    def y(rows: float) -> float:
        return round(HEIGHT_PX - MARGIN_PX - (HEIGHT_PX - 2 * MARGIN_PX) * rows / top, 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH_PX}" height="{HEIGHT_PX}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="#fff"/>',
        f'<text x="{MARGIN_PX}" y="28" font-size="15">Transactions visible to read_committed readers</text>',
        f'<text x="{MARGIN_PX}" y="46" fill="{KILL_COLOR}">dashed: SIGKILL of the whole pipeline</text>',
    ]
    for tick in range(TICKS + 1):
        rows, at_s = top * tick / TICKS, end_s * tick / TICKS
        parts += [
            f'<line x1="{x(0)}" x2="{x(end_s)}" y1="{y(rows)}" y2="{y(rows)}" stroke="#ddd"/>',
            f'<text x="{x(0) - 8}" y="{y(rows) + 4}" text-anchor="end">{rows:,.0f}</text>',
            f'<text x="{x(at_s)}" y="{y(0) + 20}" text-anchor="middle">{at_s:.0f} s</text>',
        ]
    steps = [f"{x(0)},{y(0)}"]
    before = 0
    for point in points:
        steps += [f"{x(point.at_s)},{y(before)}", f"{x(point.at_s)},{y(point.rows)}"]
        before = point.rows
    parts.append(f'<polyline points="{" ".join(steps)}" fill="none" stroke="{ROWS_COLOR}" stroke-width="2"/>')
    for number, kill in enumerate(kills):
        parts += [
            f'<line x1="{x(kill.at_s)}" x2="{x(kill.at_s)}" y1="{y(top)}" y2="{y(0)}" '
            f'stroke="{KILL_COLOR}" stroke-width="2" stroke-dasharray="5 4"/>',
            f'<text x="{x(kill.at_s) - 6}" y="{y(top) + 12 + LABEL_PX * number}" text-anchor="end" fill="{KILL_COLOR}">'
            f"{kill.visible:,} visible, {kill.uncommitted:,} uncommitted</text>",
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"
