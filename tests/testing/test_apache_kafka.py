"""The launcher of Apache Kafka: what tests and benchmarks rely on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from oncestream.errors import JarsUnavailable, JavaUnavailable
from oncestream.testing.apache_kafka import ApacheKafka, brokers_answering
from oncestream.testing.kafka_jars import KAFKA_VERSION, run_tool
from oncestream.testing.ports import HOST, free_ports
from tests.clients.client import Message
from tests.clients.confluent import Confluent

FETCH = """\
from oncestream.errors import OncestreamError
from oncestream.testing.kafka_jars import kafka_jars
try:
    print(kafka_jars())
except OncestreamError as error:
    print(type(error).__name__, error)
"""


def test_nobody_answers_on_a_free_port() -> None:
    assert brokers_answering(HOST, free_ports(1)[0], timeout_s=1) == 0


def test_without_java_the_error_says_so(tmp_path: Path) -> None:
    said = fetch_in(tmp_path)
    assert said.startswith(f"{JavaUnavailable.__name__} Java is needed")


def test_without_maven_the_error_says_so(tmp_path: Path) -> None:
    program(tmp_path, "java", "echo 'openjdk version \"17.0.1\"' >&2")
    said = fetch_in(tmp_path)
    assert said.startswith(f"{JavaUnavailable.__name__} Maven (mvn) is needed")


def test_a_java_that_is_too_old_is_refused(tmp_path: Path) -> None:
    program(tmp_path, "java", "echo 'openjdk version \"11.0.1\"' >&2")
    said = fetch_in(tmp_path)
    assert 'found openjdk version "11.0.1"' in said


def test_when_maven_fails_its_reason_is_told_and_the_next_call_tries_again(tmp_path: Path) -> None:
    program(tmp_path, "java", "echo 'openjdk version \"17.0.1\"' >&2")
    program(tmp_path, "mvn", "echo '[ERROR] no network'; exit 1")
    said = fetch_in(tmp_path)
    assert said.startswith(JarsUnavailable.__name__)
    assert "[ERROR] no network" in said
    program(tmp_path, "mvn", COPY_NOTHING)
    assert fetch_in(tmp_path) == str(tmp_path / "cache" / f"kafka-{KAFKA_VERSION}" / "lib")


def test_processes_that_ask_at_once_fetch_once(tmp_path: Path) -> None:
    program(tmp_path, "java", "echo 'openjdk version \"17.0.1\"' >&2")
    program(tmp_path, "mvn", f"echo x >> {tmp_path}/calls; {COPY_NOTHING}")
    askers = [start_fetch(tmp_path) for _ in range(4)]
    assert len({asker.communicate()[0] for asker in askers}) == 1
    assert (tmp_path / "calls").read_text() == "x\n"


@pytest.mark.java
def test_a_tool_that_fails_gives_its_return_code_and_words(java: None) -> None:
    done = run_tool("org.apache.kafka.tools.TopicCommand", "--list")
    assert done.returncode == 1
    assert "bootstrap-server" in done.stderr


@pytest.mark.java
@pytest.mark.slow
def test_a_cluster_whose_nodes_were_all_killed_comes_back_on_its_addresses_with_its_records(
    three_nodes: ApacheKafka,
) -> None:
    client = Confluent(three_nodes.bootstrap_servers)
    client.produce("kept", [Message(b"x")])
    for node in (1, 2, 3):
        three_nodes.kill(node)
    three_nodes.revive()
    assert [r.value for r in client.consume("kept", {0: 0}, 1)] == [b"x"]


@pytest.mark.java
@pytest.mark.slow
def test_three_nodes_form_one_cluster(three_nodes: ApacheKafka) -> None:
    client = Confluent(three_nodes.bootstrap_servers)
    assert len(client.cluster().nodes) == 3
    client.create_topic("replicated", replication_factor=3)
    three_nodes.kill(3)
    assert client.produce("replicated", [Message(b"x")]) == [0]


COPY_NOTHING = 'for a in "$@"; do case $a in -DoutputDirectory=*) /bin/mkdir "${a#*=}";; esac; done'


def program(folder: Path, name: str, script: str) -> None:
    """A program of that name, alone on the PATH that `fetch_in` uses."""
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / "bin" / name).chmod(0o755)


def fetch_in(folder: Path) -> str:
    return start_fetch(folder).communicate()[0].strip()


def start_fetch(folder: Path) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environment |= {"PATH": str(folder / "bin"), "ONCESTREAM_CACHE": str(folder / "cache")}
    command = [sys.executable, "-c", FETCH]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
