"""Groups and transactions of Apache Kafka's own Java client: every behaviour is a method of its program."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from oncestream.testing.kafka_jars import TOOL_OPTIONS, java_command

pytestmark = pytest.mark.java

PROGRAM = Path(__file__).parent / "java" / "ExactlyOnceCheck.java"
BEHAVIOURS = re.findall(r"public void (\w+_\w+)\(\)", PROGRAM.read_text())


@pytest.fixture(scope="module")
def outcomes(java: None, bootstrap: str) -> dict[str, str]:
    command = java_command(str(PROGRAM), bootstrap, *BEHAVIOURS, options=TOOL_OPTIONS)
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    outcomes = dict(line.split("\t", 1) for line in done.stdout.splitlines() if "\t" in line)
    assert list(outcomes) == BEHAVIOURS, done.stderr
    return outcomes


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_the_java_client(outcomes: dict[str, str], behaviour: str) -> None:
    assert outcomes[behaviour] == "ok"
