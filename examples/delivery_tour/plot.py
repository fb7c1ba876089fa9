"""The tour's picture: for each delivery the rows visible over time, and its kills."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

WIDTH_PX, PANEL_PX, GAP_PX, LEFT_PX, TOP_PX = 860, 150, 52, 70, 64
ROWS_COLOR, KILL_COLOR, INPUT_COLOR = "#2e8540", "#c0392b", "#888"
HEADROOM = 1.35  # above what went in: room for what comes twice


class Curve(NamedTuple):
    title: str
    written_at_s: Sequence[float]  # of each visible row, in order
    kills_s: Sequence[float]


def svg_plot(curves: Sequence[Curve], rows_in: int) -> str:
    """One panel below the other, all to one scale."""
    end_s = 1.05 * max(curve.written_at_s[-1] for curve in curves)
    height = TOP_PX + len(curves) * (PANEL_PX + GAP_PX)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH_PX}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="#fff"/>',
        f'<text x="{LEFT_PX}" y="24" font-size="15">Rows visible under the same three kills</text>',
        f'<text x="{LEFT_PX}" y="42" fill="{KILL_COLOR}">dashed: SIGKILL of the pipeline</text>',
        f'<text x="{LEFT_PX + 200}" y="42" fill="{INPUT_COLOR}">dotted: what went in</text>',
    ]
    for number, curve in enumerate(curves):
        parts += _panel(curve, rows_in, end_s, TOP_PX + number * (PANEL_PX + GAP_PX))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(curve: Curve, rows_in: int, end_s: float, top_px: int) -> Iterator[str]:
    def x(at_s: float) -> float:
        return round(LEFT_PX + (WIDTH_PX - 2 * LEFT_PX) * at_s / end_s, 1)

    def y(rows: float) -> float:
        return round(top_px + 20 + (PANEL_PX - 20) * (1 - rows / rows_in / HEADROOM), 1)

    yield f'<text x="{LEFT_PX}" y="{top_px + 12}" font-weight="bold">{curve.title}</text>'
    for share in (0, 0.5, 1):
        rows, at_s = rows_in * share, end_s * share
        yield f'<text x="{LEFT_PX - 8}" y="{y(rows) + 4}" text-anchor="end">{rows:,.0f}</text>'
        yield f'<text x="{x(at_s)}" y="{y(0) + 16}" text-anchor="middle">{at_s:.0f} s</text>'
    yield _line(x(0), y(0), x(end_s), y(0), "#ddd", "")
    yield _line(x(0), y(rows_in), x(end_s), y(rows_in), INPUT_COLOR, "2 3")
    for kill_s in curve.kills_s:
        yield _line(x(kill_s), y(0), x(kill_s), y(rows_in * HEADROOM), KILL_COLOR, "5 4")
    points, rows = [f"{x(0)},{y(0)}"], 0
    for at, group in groupby(curve.written_at_s, key=x):
        before, rows = rows, rows + len(list(group))
        points += [f"{at},{y(before)}", f"{at},{y(rows)}"]
    points.append(f"{x(end_s)},{y(rows)}")
    yield f'<text x="{x(end_s) + 8}" y="{y(rows) + 4}" fill="{ROWS_COLOR}">{rows:,}</text>'
    yield f'<polyline points="{" ".join(points)}" fill="none" stroke="{ROWS_COLOR}" stroke-width="2"/>'


def _line(x1: float, y1: float, x2: float, y2: float, color: str, dashes: str) -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{color}" stroke-dasharray="{dashes}"/>'
