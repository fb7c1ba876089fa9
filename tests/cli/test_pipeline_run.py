"""`oncestream pipeline run`: a file with pipelines, as a process: what it says, how it ends, how it goes on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Producer

import oncestream as once
from oncestream.cli.pipeline import cluster_of, load_pipeline
from oncestream.errors import BadPipelineFile
from tests.cli.in_process import Cli
from tests.conftest import Target
from tests.spark.sink_kit import new_name, texts

TIMEOUT_S = 200
FILE = """\
import oncestream as once

@once.pipeline(source="{name}-in", sink="{name}-out", name="{name}", checkpoint="{folder}/checkpoint")
def upper(rows):
    return rows.selectExpr("upper(cast(value as string)) as value")

def refuse(row):
    raise ValueError("no good")

@once.pipeline(source="{name}-in", sink="{name}-other", name="{name}-strict", dead_letters_max=0,
               checkpoint="{folder}/strict")
def strict(rows):
    return rows.transform(once.each(refuse))
"""

pytestmark = pytest.mark.xdist_group("spark")


class Ended(NamedTuple):
    exit_code: int
    out: str
    err: str


class Place:
    """A file of pipelines, a topic it reads and one it writes."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        self.name = new_name()
        self.bootstrap = bootstrap
        self.file = folder / "pipelines.py"
        self.file.write_text(FILE.format(name=self.name, folder=folder))
        self._folder = folder
        self._started: list[subprocess.Popen[str]] = []
        self._producer = Producer({"bootstrap.servers": bootstrap})

    def write(self, *values: str) -> None:
        for value in values:
            self._producer.produce(f"{self.name}-in", value)
        assert self._producer.flush(TIMEOUT_S) == 0

    def out(self) -> list[str]:
        return texts(self.bootstrap, f"{self.name}-out")

    def start(self, pipeline: str, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "oncestream.cli.main", "pipeline", "run", f"{self.file}:{pipeline}"]
        process = subprocess.Popen(
            [*command, "--bootstrap", self.bootstrap, "--cluster", "local[2]", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self._folder,
        )
        self._started.append(process)
        return process

    def close(self) -> None:
        for process in self._started:
            process.kill()
            process.communicate()

    def run(self, pipeline: str, *arguments: str) -> Ended:
        return ended(self.start(pipeline, *arguments))


def ended(process: subprocess.Popen[str]) -> Ended:
    out, err = process.communicate(timeout=TIMEOUT_S)
    return Ended(process.returncode, out, err)


@pytest.fixture
def place(tmp_path: Path, embedded: Target) -> Iterator[Place]:
    place = Place(tmp_path, embedded.bootstrap_servers)
    place.write("a", "b")
    yield place
    place.close()


@pytest.mark.slow
def test_once_reads_what_there_is_and_the_next_run_goes_on(place: Place, tmp_path: Path) -> None:
    first = place.run("upper", "--once")
    assert first.exit_code == 0, first.err
    assert f"pipeline={place.name} batch=0 rows=2 dead=0" in first.out
    assert place.out() == ["A", "B"]
    place.write("c")
    status = Cli(tmp_path, place.bootstrap).json("pipeline", "status", place.name)
    assert (status["batch"], status["lag"], status["exact"]) == (0, 1, True)
    second = place.run("upper", "--once", "-o", "json", "--delivery", "exactly-once", "--ui")
    assert second.exit_code == 0, second.err
    [outcome] = map(json.loads, second.out.splitlines())
    assert (outcome["pipeline"], outcome["rows"], outcome["dead"]) == (place.name, 1, 0)
    assert "Spark's own page: http://127.0.0.1:" in second.err
    assert place.out() == ["A", "B", "C"]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it_in_good_order_and_the_next_run_goes_on(
    place: Place, number: signal.Signals
) -> None:
    running = place.start("upper")
    assert running.stdout is not None
    assert "rows=2" in running.stdout.readline()
    running.send_signal(number)
    stopped = ended(running)
    assert stopped.exit_code == 0, stopped.err
    assert "stopped; what is committed stays" in stopped.out
    assert "Traceback" not in stopped.err
    place.write("c")
    assert place.run("upper", "--once").exit_code == 0
    assert place.out() == ["A", "B", "C"]


@pytest.mark.slow
def test_a_pipeline_that_fails_says_why_and_what_to_do(place: Place) -> None:
    failed = place.run("strict", "--once")
    assert failed.exit_code == 5
    lines = failed.err.splitlines()  # a Spark that ends may have the last word
    told = [at for at, line in enumerate(lines) if line.startswith("error: ")]
    assert len(told) == 1, failed.err
    assert lines[told[0]].startswith(f"error: batch 0 of pipeline '{place.name}-strict' has ")
    assert lines[told[0]].endswith("dead letters, 0 are allowed; the first: ValueError: no good")
    assert lines[told[0] + 1].startswith("what to do: nothing of the batch was committed")
    assert "Traceback" not in failed.err


def test_a_file_that_is_not_there_ends_with_code_2_and_no_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "oncestream.cli.main", "pipeline", "run", str(tmp_path / "none.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {tmp_path}/none.py cannot be run: there is no such file")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("own", "arguments", "servers"),
    [
        (None, (None, None, None), "profile:1"),
        ("own:1", (None, None, None), "own:1"),
        ("own:1", ("option:1", None, None), "option:1"),
        ("own:1", (None, "p", None), "profile:1"),
    ],
)
def test_options_name_the_cluster_before_the_file_and_the_file_before_the_profile_in_use(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    own: str | None,
    arguments: tuple[str | None, str | None, Path | None],
    servers: str,
) -> None:
    monkeypatch.delenv("ONCESTREAM_BOOTSTRAP", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    Cli(tmp_path).ok("config", "set", "p", "bootstrap=profile:1", "client.id=of-the-profile")
    made = once.pipeline(source="in", sink="out", bootstrap_servers=own)(lambda rows: rows)
    found = replace(made.options, **cluster_of(made, *arguments))
    assert found.servers == servers
    assert ("client.id" in found.settings) == (servers == "profile:1")


FILES = [
    ("x = (", "", "SyntaxError"),
    ("1 / 0", "", "ZeroDivisionError: division by zero"),
    ("x = 1", "", "it holds 0 pipelines; those in it: none"),
    (FILE, "", "it holds 2 pipelines; those in it: strict, upper"),
    (FILE, ":lower", "it holds no pipeline 'lower'; those in it: strict, upper"),
]


@pytest.mark.parametrize(("content", "name", "reason"), FILES)
def test_a_file_without_the_pipeline_says_what_it_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, name: str, reason: str
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "file.py").write_text(content.format(name="n", folder=tmp_path))
    with pytest.raises(BadPipelineFile) as raised:
        load_pipeline(f"{tmp_path}/file.py{name}")
    assert reason in str(raised.value)


@pytest.mark.parametrize(("name", "found"), [("upper", "n"), ("n-strict", "n-strict")])
def test_a_pipeline_is_found_by_its_function_or_its_own_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, found: str
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "file.py").write_text(FILE.format(name="n", folder=tmp_path))
    assert load_pipeline(f"{tmp_path}/file.py:{name}").name == found
