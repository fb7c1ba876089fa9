"""Torture, as short as the suite can bear: right systems come through it, a wrong one is caught."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from oncestream import Broker
from oncestream.storage.reading import LogReader
from oncestream.verify.torture import run_torture
from oncestream.verify.torture_cluster import Apache, Embedded, Given, Victim
from oncestream.verify.torture_plan import BROKER, EMBEDDED_PACE
from oncestream.verify.torture_report import TortureReport
from tests.cli.in_process import Cli
from tests.effort import effort

SEED = 7
SEED_OF_EVERY_FAULT = 1661  # at least twice within 70 seconds

pytestmark = pytest.mark.slow


def torture(victim: Victim, folder: Path, duration_s: float, seed: int = SEED) -> TortureReport:
    return run_torture(victim, folder, seed=seed, duration_s=duration_s, spark=False)


def test_the_embedded_broker_comes_through_every_fault(tmp_path: Path) -> None:
    found = torture(Embedded(tmp_path), tmp_path, effort(70, soak=1_200), SEED_OF_EVERY_FAULT)
    assert found.ok, found.text()
    assert found.efforts.kills > 3
    assert found.efforts.freezes > 3
    assert found.efforts.requests_hit > 10
    met = {fault.name for fault in found.timeline.faults}
    assert {f"{kind} {BROKER}" for kind in EMBEDDED_PACE.kinds} <= met
    assert found.report.figures.committed > 20
    assert found.report.unchecked == ()
    assert found.audits["copiers"].inputs == found.audits["copiers"].outputs > 100
    assert set(found.timeline.memory) == {"node 1"}


@pytest.mark.java
def test_apache_kafka_comes_through(tmp_path: Path) -> None:
    found = torture(Apache(tmp_path, nodes=1), tmp_path, effort(30, soak=600))
    assert found.ok, found.text()
    assert found.audits["copiers"].inputs == found.audits["copiers"].outputs > 100


def test_a_broker_that_shows_open_transactions_is_caught_and_everything_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LogReader, "stable_offset", lambda _log, high_watermark: high_watermark)
    with Broker(tmp_path / "data") as broker:
        arguments = ["--bootstrap", broker.bootstrap_servers, "--seed", str(SEED), "--minutes", "0.1"]
        places = ["--data", str(tmp_path / "kept"), "--report", str(tmp_path / "report")]
        ended = Cli(tmp_path)("torture", *arguments, *places, "--no-spark", "--quiet")
    assert ended.exit_code == 1, ended
    (kept,) = (tmp_path / "kept").iterdir()
    assert f"kept in {kept}; to run it again: --seed {SEED} --minutes 0.1" in ended.err
    assert list((kept / "history").glob("*.jsonl"))
    content = json.loads((tmp_path / "report" / "torture.json").read_text())
    names = {each["name"] for each in content["anomalies"] if each["failure"]}
    assert not content["ok"]
    assert names & {"precommitted read", "aborted read", "torn transaction"}, names
    assert content["efforts"]["kills"] + content["efforts"]["freezes"] > 0


def test_a_cluster_that_is_there_is_left_as_it_was(tmp_path: Path) -> None:
    with Broker(tmp_path / "data") as broker:
        given = Given(broker.bootstrap_servers)
        found = torture(given, tmp_path / "run", 5)
        listed = Cli(tmp_path, broker.bootstrap_servers).json("topic", "list")
    assert found.ok, found.text()
    assert [topic["name"] for topic in listed if topic["name"].startswith("torture-")] == []


def test_wrong_options_are_refused(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    assert "it is 1 or 3" in cli.refused(2, "torture", "--kafka-nodes", "2")
    told = cli.refused(2, "torture", "--kafka-nodes", "1", "--bootstrap", "localhost:9092")
    assert "it is one or the other" in told
