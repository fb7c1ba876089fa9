"""How a comparison is shown and kept: a table of ratios, a JSON file, a plot."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Mapping, Sequence
from html import escape
from math import log10
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from benchmarks.comparison import Row

RESULTS: Final = Path(__file__).parent / "results"
WIDTH_MIN: Final = 160
GOOD: Final = "#2e8540"
BAD: Final = "#c0392b"
PLAIN: Final = "#5b6b7b"
BAR_PX: Final = 22
LABEL_PX: Final = 560
PLOT_PX: Final = 420
DECADES: Final = 2.0  # the plot runs from a ratio of 1/100 to 100


def report(
    title: str,
    name: str,
    rows: Sequence[Row],
    failures: Mapping[str, str],
    scale: float,
    *,
    others: str = "Kafka's",
) -> None:
    """Print the table and write results/<name>.json and results/<name>.svg."""
    console = Console()
    console.width = max(console.width, WIDTH_MIN)
    console.print(_table(title, others, [row for row in rows if row.measured]))
    for load, reason in failures.items():
        console.print(f"[red]could not be measured: {load}: {reason}")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(
        json.dumps(_document(title, rows, failures) | {"scale": scale}, indent=2) + "\n"
    )
    compared = [(row, row.ratio) for row in rows if row.measured and row.ratio is not None]
    (RESULTS / f"{name}.svg").write_text(_plot(f"{title}: ours / {others}", compared))
    console.print(f"kept in {RESULTS / name}.json and .svg")


def _table(title: str, others: str, rows: Sequence[Row]) -> Table:
    table = Table(title=title, caption=f"medians; ratio = ours / {others}")
    for heading in ("what", "unit", "ours", others, "ratio", "target", ""):
        table.add_column(heading, justify="left" if heading in {"what", "unit"} else "right", no_wrap=True)
    for row in rows:
        verdict = {None: "", True: "[green]met", False: "[red]missed"}[row.met]
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        figures = (_short(row.our_median), _short(row.kafka_median), ratio)
        table.add_row(row.name, row.unit, *figures, str(row.target or ""), verdict)
    return table


def _short(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _document(title: str, rows: Sequence[Row], failures: Mapping[str, str]) -> dict[str, Any]:
    return {
        "title": title,
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {
            "cores": os.cpu_count(),
            "system": platform.platform(),
            "python": platform.python_version(),
        },
        "rows": [
            {
                "name": row.name,
                "unit": row.unit,
                "ours": {"peer": row.ours, "samples": row.our_samples},
                "kafka": {"peer": row.kafka, "samples": row.kafka_samples} if row.kafka else None,
                "ratio": row.ratio if row.measured else None,
                "target": str(row.target) if row.target else None,
                "met": row.met if row.measured else None,
            }
            for row in rows
        ],
        "failures": dict(failures),
    }


def _plot(title: str, rows: Sequence[tuple[Row, float]]) -> str:
    """Bars of the ratios on a logarithmic axis around 1, the targets as ticks."""
    height = BAR_PX * (len(rows) + 3)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LABEL_PX + PLOT_PX + 80}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        f'<text x="8" y="18" font-size="14">{escape(title)}, log scale</text>',
        f'<line x1="{_x(1)}" x2="{_x(1)}" y1="{BAR_PX}" y2="{height - BAR_PX}" stroke="#999"/>',
    ]
    for index, (row, ratio) in enumerate(rows):
        top = BAR_PX * (index + 1.5)
        color = {None: PLAIN, True: GOOD, False: BAD}[row.met]
        left, right = sorted((_x(1), _x(ratio)))
        parts.append(f'<text x="8" y="{top + 15}">{escape(row.name)}</text>')
        parts.append(
            f'<rect x="{left}" y="{top + 3}" width="{right - left}" height="{BAR_PX - 6}" fill="{color}"/>'
        )
        parts.append(f'<text x="{LABEL_PX + PLOT_PX + 8}" y="{top + 15}">{ratio:.2f}</text>')
        if row.target is not None and row.target.ratio is not None:
            at = _x(row.target.ratio)
            parts.append(
                f'<line x1="{at}" x2="{at}" y1="{top}" y2="{top + BAR_PX}" stroke="#000" stroke-width="2"/>'
            )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _x(ratio: float) -> float:
    within = min(DECADES, max(-DECADES, log10(ratio)))
    return round(LABEL_PX + PLOT_PX * (within + DECADES) / (2 * DECADES), 1)
