"""A report as one HTML file: no network, no scripts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from html import escape
from typing import Final

from oncestream.verify.anomalies import Anomaly, Found
from oncestream.verify.plot import DASHES, OPACITY_MAX, Line, plot
from oncestream.verify.report import Report
from oncestream.verify.timeline import Timeline

SHOWN_MAX: Final = 25  # of each kind; the JSON has more
MEBI: Final = 1024 * 1024

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1c2430; --paper: #fff; --soft: #667; --rule: #dde1e8;
  --a: #1d5fd0; --b: #0a7d4f; --c: #8b3fc4; --d: #b4540a; --bad: #c01c28; --good: #0a7d4f; --band: #f2a93b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --paper: #14181f; --soft: #98a2b3; --rule: #2c3440;
  --a: #6ea8ff; --b: #4cc38a; --c: #c792ea; --d: #f0a35e; --bad: #ff6b6b; --good: #4cc38a; --band: #c98a2b; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
.verdict { font-weight: 600; } .ok { color: var(--good); } .bad { color: var(--bad); } .soft { color: var(--soft); }
.figures { display: flex; flex-wrap: wrap; gap: .25rem 2rem; margin: 1rem 0; padding: 0; list-style: none; }
.figures b { font-variant-numeric: tabular-nums; }
svg { width: 100%; height: auto; } svg text { font: 11px system-ui, sans-serif; fill: var(--soft); }
svg .grid { stroke: var(--rule); } svg .line { fill: none; stroke-width: 1.8; }
.line0, .key0 { stroke: var(--a); } .line1, .key1 { stroke: var(--b); }
.line2, .key2 { stroke: var(--c); } .line3, .key3 { stroke: var(--d); }
svg .fault { fill: var(--band); } svg .moment { fill: var(--band); }
svg .fault-name { fill: var(--ink); }
svg .mark line { stroke: var(--bad); } svg .mark path { fill: var(--bad); }
.legend { display: flex; flex-wrap: wrap; gap: 0 1.25rem; font-size: .85rem; color: var(--soft); }
.legend svg { width: 2rem; height: .7rem; vertical-align: middle; }
table { border-collapse: collapse; width: 100%; font-size: .85rem; margin: .25rem 0 .75rem; }
th, td { text-align: left; padding: .15rem .6rem .15rem 0; border-bottom: 1px solid var(--rule);
  overflow-wrap: anywhere; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
details { margin: .25rem 0; } summary { cursor: pointer; }
"""


def page(report: Report, timeline: Timeline | None = None, *, title: str = "Verification") -> str:
    """The verdict, the figures, plots where there is a timeline, and each anomaly with the records around it."""
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>",
            f"<h1>{escape(title)}</h1>",
            *_verdict(report),
            *(_plots(report, timeline) if timeline is not None and timeline.sent else ()),
            *_anomalies(report, timeline),
            "</body>\n</html>\n",
        ]
    )


def _verdict(report: Report) -> Iterator[str]:
    if report.ok:
        yield '<p class="verdict ok">No anomaly.</p>'
    else:
        kinds = ", ".join(f"{count} x {anomaly.value}" for anomaly, count in report.failures.items())
        yield f'<p class="verdict bad">Failed: {escape(kinds)}</p>'
    yield '<ul class="figures">'
    for name, amount in asdict(report.figures).items():
        yield f"<li><b>{amount:,}</b> {escape(name.replace('_', ' '))}</li>"
    yield "</ul>"
    if report.unchecked:
        names = ", ".join(map(str, report.unchecked))
        yield f'<p class="soft">Not checked for losses, no final log: {escape(names)}</p>'


def _plots(report: Report, timeline: Timeline) -> Iterator[str]:
    marks: dict[str, list[float]] = {}
    for found in report.found:
        if found.time_ns is not None and found.anomaly not in report.allowed:
            marks.setdefault(found.anomaly.value, []).append(timeline.second_of(found.time_ns))
    middles = [(number + 0.5) * timeline.bin_s for number in range(len(timeline.sent))]
    # A plot each: a reader that starts again polls a hundred times what is written meanwhile.
    for name, amounts in (("Acknowledged", timeline.sent), ("Polled", timeline.polled)):
        rate = [Line(name.lower(), list(zip(middles, amounts, strict=True)))]
        yield f"<h2>{name}</h2>"
        yield _legend(rate, faults=bool(timeline.faults), anomalies=bool(marks))
        yield plot(rate, length_s=timeline.length_s, unit="records/s", faults=timeline.faults, marks=marks)
    if timeline.memory:
        sizes = [
            Line(name, [(second, size / MEBI) for second, size in samples])
            for name, samples in timeline.memory.items()
        ]
        yield "<h2>Memory</h2>"
        yield _legend(sizes, faults=bool(timeline.faults), anomalies=False)
        yield plot(sizes, length_s=timeline.length_s, unit="MiB", faults=timeline.faults)


def _legend(lines: list[Line], *, faults: bool, anomalies: bool) -> str:
    keys = [
        f'<span><svg viewBox="0 0 32 10"><line class="key{number % 4}" stroke-width="2.5"'
        f' stroke-dasharray="{DASHES[number % len(DASHES)]}" x1="0" x2="32" y1="5" y2="5"/></svg>'
        f" {escape(line.name)}</span>"
        for number, line in enumerate(lines)
    ]
    if faults:
        keys.append(
            f'<span><svg viewBox="0 0 32 10"><rect class="fault" fill-opacity="{OPACITY_MAX}" width="32"'
            ' height="10"/></svg> fault</span>'
        )
    if anomalies:
        keys.append(
            '<span><svg viewBox="0 0 32 10"><g class="mark"><path d="M11,1 h10 l-5,8 z"/></g></svg> anomaly</span>'
        )
    return f'<div class="legend">{"".join(keys)}</div>'


def _anomalies(report: Report, timeline: Timeline | None) -> Iterator[str]:
    for anomaly, count in report.counts.items():
        kind = "soft" if anomaly in report.allowed else "bad"
        yield f'<h2 class="{kind}">{count:,} x {escape(anomaly.value)}</h2>'
        yield f'<p class="soft">{escape(_sentence(anomaly, report))}</p>'
        shown = [found for found in report.found if found.anomaly is anomaly][:SHOWN_MAX]
        for number, found in enumerate(shown):
            yield from _details(found, timeline, is_open=number == 0)
        if count > len(shown):
            yield f'<p class="soft">… and {count - len(shown):,} others.</p>'


def _sentence(anomaly: Anomaly, report: Report) -> str:
    text = anomaly.meaning[0].upper() + anomaly.meaning[1:] + "."
    return text if anomaly not in report.allowed else f"{text} Told for information, not a failure."


def _details(found: Found, timeline: Timeline | None, *, is_open: bool) -> Iterator[str]:
    when = ""
    if found.time_ns is not None and timeline is not None:
        when = f'<span class="soft"> at {timeline.second_of(found.time_ns):.3f} s</span>'
    yield f"<details{' open' if is_open else ''}><summary>{escape(found.text)}{when}</summary>"
    yield (
        '<table><tr><th>partition</th><th class="number">offset</th><th class="number">value</th>'
        "<th>told by</th></tr>"
    )
    for witness in found.witnesses:
        offset = "?" if witness.offset is None else str(witness.offset)
        yield (
            f'<tr><td>{escape(str(witness.at))}</td><td class="number">{offset}</td>'
            f'<td class="number">{escape(str(witness.value))}</td><td>{escape(witness.told_by)}</td></tr>'
        )
    yield "</table></details>"
