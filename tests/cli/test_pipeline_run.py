"""`oncestream pipeline run`: a file with pipelines, as a process: what it says, how it ends, how it goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import psutil  # type: ignore[import-untyped]
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

@once.pipeline(source="{name}-later", sink="{name}-out", name="{name}-late", checkpoint="{folder}/late")
def late(rows):
    return rows.select("key", "value")

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

    def write(self, *values: str, topic: str = "in") -> None:
        for value in values:
            self._producer.produce(f"{self.name}-{topic}", value)
        assert self._producer.flush(TIMEOUT_S) == 0

    def out(self) -> list[str]:
        return texts(self.bootstrap, f"{self.name}-out")

    def start(
        self, pipeline: str, *arguments: str, environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        own = ["--bootstrap", self.bootstrap, "--cluster", "local[2]", *arguments]
        return self._start(pipeline, own, environment or {})

    def _start(
        self, pipeline: str, arguments: Iterable[str], environment: Mapping[str, str]
    ) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "oncestream.cli.main", "pipeline", "run", f"{self.file}:{pipeline}"]
        process = subprocess.Popen(
            [*command, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self._folder,
            env=os.environ | environment,
        )
        self._started.append(process)
        return process

    def close(self) -> None:
        for process in self._started:
            process.kill()
            process.communicate()

    def run(self, pipeline: str, *arguments: str) -> Ended:
        return ended(self.start(pipeline, *arguments))

    def run_on(self, pipeline: str, *arguments: str) -> Ended:
        """On the cluster that the arguments name."""
        return ended(self._start(pipeline, arguments, {}))


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
    assert stopped.err == ""
    place.write("c")
    assert place.run("upper", "--once").exit_code == 0
    assert place.out() == ["A", "B", "C"]


@pytest.mark.slow
def test_a_pipeline_that_fails_says_why_and_what_to_do(place: Place) -> None:
    failed = place.run("strict", "--once")
    assert failed.exit_code == 5
    lines = told(failed)
    assert lines[0].startswith(f"error: batch 0 of pipeline '{place.name}-strict' has ")
    first = f"dead letters, 0 are allowed; the first: ValueError: no good ({place.file}, line 8)"
    assert lines[0].endswith(first)
    assert lines[1].startswith("what to do: nothing of the batch was committed")


def told(ended: Ended) -> list[str]:
    """The two lines of an error: nothing else may be on standard error."""
    lines = ended.err.splitlines()
    assert len(lines) == 2, ended.err
    assert lines[0].startswith("error: ")
    assert lines[1].startswith("what to do: ")
    return lines


@pytest.mark.slow
def test_the_first_pipeline_waits_for_its_topic_and_tells_in_two_lines_that_java_was_killed(
    place: Place,
) -> None:
    """As README has it: the topic comes after the pipeline."""
    running = place.start("late")
    assert running.stderr is not None
    assert running.stdout is not None
    waits = running.stderr.readline()
    assert f"pipeline={place.name}-late waits for topic {place.name}-later, which does not exist" in waits
    place.write("a", topic="later")
    while "rows=1" not in running.stdout.readline():
        assert running.poll() is None
    (java,) = [each for each in psutil.Process(running.pid).children() if "java" in each.name()]
    java.kill()
    killed = ended(running)
    assert killed.exit_code == 5
    assert told(killed) == [
        f"error: Spark's Java process ended under pipeline '{place.name}-late': it was killed by SIGKILL",
        "what to do: start the pipeline again: it goes on from what is committed;"
        " if memory was short, give Java more by the Spark setting spark.driver.memory",
    ]


@pytest.mark.slow
def test_a_second_driver_ends_the_first_with_two_lines(place: Place) -> None:
    first = place.start("upper")
    assert first.stdout is not None
    assert "rows=2" in first.stdout.readline()
    second = place.start("upper")  # on the same checkpoint
    deadline = time.monotonic() + TIMEOUT_S
    while first.poll() is None:  # whoever has the next batch finds out
        assert time.monotonic() < deadline
        place.write("more")
        time.sleep(0.2)
    fenced = ended(first)
    assert fenced.exit_code == 5
    lines = told(fenced)
    assert lines[0].startswith(f"error: pipeline '{place.name}' was taken over by another driver (")
    second.send_signal(signal.SIGINT)
    assert "Traceback" not in ended(second).err


@pytest.mark.slow
def test_a_signal_while_java_starts_ends_it_without_a_word_of_java(place: Place) -> None:
    starting = place.start("upper")
    process = psutil.Process(starting.pid)
    deadline = time.monotonic() + TIMEOUT_S
    while not any("java" in each.name() for each in process.children()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    starting.send_signal(signal.SIGINT)
    stopped = ended(starting)
    assert (stopped.exit_code, stopped.err) == (0, "")
    assert stopped.out == "stopped; what is committed stays, the next start goes on from there\n"


def test_where_nothing_listens_it_says_so_before_spark_starts(place: Place) -> None:
    place.bootstrap = "127.0.0.1:1"
    refused = place.run("upper")
    assert refused.exit_code == 5
    assert told(refused)[0].startswith("error: no answer from 127.0.0.1:1 within 3.0 s")


def test_a_profile_and_a_properties_file_name_the_cluster_as_for_other_commands(
    place: Place, tmp_path: Path
) -> None:
    (tmp_path / "client.properties").write_text("bootstrap.servers=127.0.0.1:2\nclient.idd=x\n")
    refused = place.run_on("upper", "--command-config", "client.properties")
    assert refused.exit_code == 2
    assert told(refused)[0].startswith("error: setting client.idd from the client settings is wrong")
    unknown = place.run_on("upper", "--profile", "nobody")
    assert (unknown.exit_code, "there is no profile 'nobody'" in told(unknown)[0]) == (2, True)
    wrong = place.run_on("upper", "--conf", "spark.sql.shuffle.partitions")
    assert (wrong.exit_code, "is not name=value" in told(wrong)[0]) == (2, True)


def test_without_pyspark_it_says_what_to_install(place: Place, tmp_path: Path) -> None:
    (tmp_path / "pyspark.py").write_text("raise ModuleNotFoundError(name='pyspark')")
    missing = ended(place.start("upper", environment={"PYTHONPATH": str(tmp_path)}))
    assert missing.exit_code == 3
    assert told(missing) == [
        "error: oncestream.pipeline needs the package pyspark, which is not installed",
        "what to do: pip install 'oncestream[spark]'",
    ]


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
    made = once.pipeline(source="in", sink="out", name="p", bootstrap_servers=own)(lambda rows: rows)
    found = replace(made.options, **cluster_of(made, *arguments))
    assert found.servers == servers
    assert ("client.id" in found.settings) == (servers == "profile:1")


FILES = [
    ("x = (", "", "SyntaxError"),
    ("1 / 0", "", "ZeroDivisionError: division by zero ("),
    ("x = 1", "", "it holds 0 pipelines; those in it: none"),
    (FILE, "", "it holds 3 pipelines; those in it: late, strict, upper"),
    (FILE, ":lower", "it holds no pipeline 'lower'; those in it: late, strict, upper"),
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
