"""Reports for people and programs: text, JSON, and a page that needs nothing else."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncestream.verify.anomalies import ALLOWED_BY_KAFKA, Anomaly, Findings
from oncestream.verify.history import NO_TRANSACTION, Event, Kind, Phase
from oncestream.verify.page import page
from oncestream.verify.plot import Line, nice_above, plot
from oncestream.verify.report import Report
from oncestream.verify.timeline import SAMPLES_MAX, Fault, timeline_of
from tests.verify.kit import A, B, Story

SECOND = 1_000_000_000


@pytest.fixture
def report() -> Report:
    story = Story()
    story.send("<p>", 0, 1, A)
    story.send("<p>", 0, 2, B)
    story.commit("<p>", 0)
    story.poll("c", (0, 1))
    return story.check(a=[(0, 1)])


def test_every_anomaly_has_its_meaning() -> None:
    assert all(anomaly.meaning for anomaly in Anomaly)
    assert {
        Anomaly.WRITE_CYCLE,
        Anomaly.WRITE_READ_CYCLE,
        Anomaly.MISSED_READ_CYCLE,
    } == ALLOWED_BY_KAFKA


def test_the_text_has_the_verdict_the_figures_and_the_records(report: Report) -> None:
    assert (
        report.text()
        == """\
2 records sent by 1 processes, 1 polled, 1 in the logs
1 transactions: 1 committed, 0 aborted, 0 of unknown outcome; 0 faults
ANOMALY: 1 x lost write: acknowledged, or seen by a reader, and not in the log at the end
  b-0: value 2 is not in the log
    b-0 offset ?: 2 (sent by <p> in transaction 0 of <p> (committed): ok)
ANOMALY: 1 x torn transaction: one part of a transaction is in the log and another is not
  transaction 0 of <p> (committed): 1 of its records are in the logs, 1 are not
    a-0 offset ?: 1 (sent by <p> in transaction 0 of <p> (committed): ok; in the log)
    b-0 offset ?: 2 (sent by <p> in transaction 0 of <p> (committed): ok; NOT in the log)
FAILED: 2 anomalies"""
    )


def test_the_json_has_all_of_it(report: Report) -> None:
    content = json.loads(report.json())
    assert content["ok"] is False
    assert content["figures"]["sent"] == 2
    assert [(each["name"], each["count"], each["failure"]) for each in content["anomalies"]] == [
        ("lost write", 1, True),
        ("torn transaction", 1, True),
    ]
    assert content["anomalies"][0]["found"][0]["records"][0] == {
        "topic": "b",
        "partition": 0,
        "offset": None,
        "value": 2,
        "told_by": "sent by <p> in transaction 0 of <p> (committed): ok",
        "time_ns": None,
    }


def test_what_another_check_found_joins_the_report(report: Report) -> None:
    findings = Findings()
    findings.add(Anomaly.LOST_WRITE, "one more")
    findings.add(Anomaly.EXTRA_OUTPUT, "an output")
    joined = report.with_findings(findings)
    assert joined.counts == {Anomaly.LOST_WRITE: 2, Anomaly.TORN_TRANSACTION: 1, Anomaly.EXTRA_OUTPUT: 1}
    assert [found.text for found in joined.found[-2:]] == ["one more", "an output"]


def noted(
    kind: Kind, phase: Phase, second: float, note: str = "", amount: int = 0, process: str = "t"
) -> Event:
    return Event(kind, phase, process, int(second * SECOND), NO_TRANSACTION, (), note, amount)


def test_a_timeline_has_rates_faults_and_memory() -> None:
    events = [noted(Kind.BEGIN, Phase.OK, 10)]
    events += [noted(Kind.SEND, Phase.OK, 10 + number / 100) for number in range(200)]
    events += [
        noted(Kind.FAULT, Phase.INVOKE, 11, "pause"),
        noted(Kind.FAULT, Phase.INVOKE, 11.5, "kill"),
        noted(Kind.FAULT, Phase.OK, 12, "pause"),
        noted(Kind.MEMORY, Phase.OK, 12, amount=5, process="broker"),
        noted(Kind.BEGIN, Phase.OK, 13),
    ]
    timeline = timeline_of(events)
    assert timeline.length_s == pytest.approx(3.1)
    assert sum(timeline.sent) * timeline.bin_s == pytest.approx(200)
    assert timeline.sent[0] == pytest.approx(100)
    assert timeline.faults == (Fault("pause", 1, 2), Fault("kill", 1.5, 1.5))
    assert timeline.memory == {"broker": [(2.0, 5)]}


def test_a_long_run_keeps_a_bounded_timeline() -> None:
    events = [noted(Kind.MEMORY, Phase.OK, second, amount=second) for second in range(3 * SAMPLES_MAX)]
    timeline = timeline_of(events)
    assert 100 < len(timeline.sent) <= 300
    samples = timeline.memory["t"]
    assert SAMPLES_MAX / 2 <= len(samples) <= SAMPLES_MAX
    last = 3 * SAMPLES_MAX - 1
    assert (samples[0], samples[-1]) == ((0, 0), (last, last))


class Reader(HTMLParser):
    """All text, and every address that the page would load."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self.addresses: list[str | None] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href", "srcset", "data")]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_loads_nothing_and_shows_every_record(report: Report) -> None:
    events = [
        noted(Kind.FAULT, Phase.INVOKE, 0, "kill <broker>"),
        noted(Kind.SEND, Phase.OK, 1),
        noted(Kind.MEMORY, Phase.OK, 2, amount=1_000_000, process="broker"),
    ]
    html = page(report, timeline_of(events), title="Run <1>")
    reader = Reader()
    reader.feed(html)
    assert not reader.addresses
    assert "script" not in reader.tags
    assert "<p>" not in html
    assert "url(" not in html
    assert "http" not in html
    for text in ("Run <1>", "Failed: 1 x lost write, 1 x torn transaction", "kill <broker>", "Memory", "<p>"):
        assert text in reader.text
    assert reader.text.count("NOT in the log") == 1
    drawings = [ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", html, re.DOTALL)]
    plots = [drawing.get("aria-label") for drawing in drawings if drawing.get("role") == "img"]
    assert plots == [*["records/s over time"] * 2, "MiB over time"]


def test_the_page_of_a_clean_run_without_a_timeline(report: Report) -> None:
    html = page(Report({}, ()))
    assert "No anomaly." in html
    assert "<svg" not in html


@given(st.floats(1e-3, 1e15))
def test_the_top_of_an_axis_is_round_and_not_far_above(amount: float) -> None:
    top = nice_above(amount)
    assert amount * 0.999 <= top <= amount * 2.6
    assert f"{top:.0e}"[0] in "125"


def test_names_of_faults_do_not_lie_over_each_other() -> None:
    faults = [Fault(f"fault number {number}", number / 10, number / 10) for number in range(50)]
    svg = ElementTree.fromstring(plot([Line("x", [(0, 1)])], length_s=10, unit="u", faults=faults))
    places = [
        (float(text.attrib["x"]), text.attrib["y"], len(text.text or ""))
        for text in svg.iter("text")
        if text.attrib["class"] == "fault-name"
    ]
    assert len(places) > 10
    for x, y, length in places:
        assert not any(x < other < x + length * 6 for other, row, _ in places if row == y)
