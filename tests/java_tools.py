"""Kafka's own tools, called one after another in one JVM (tests/clients/java/ToolServer.java)."""

from __future__ import annotations

import json
import re
import selectors
import subprocess
import sys
from pathlib import Path
from typing import Final

from oncestream.testing.kafka_jars import TOOL_OPTIONS, java_command

SERVER: Final = Path(__file__).parent / "clients" / "java" / "ToolServer.java"


class KafkaTools:
    """Runs main classes of Kafka's tools; call it like a function."""

    def __init__(self) -> None:
        self._server: subprocess.Popen[str] | None = None

    def __call__(
        self, main_class: str, *arguments: str, stdin: str = "", timeout_s: float = 60
    ) -> subprocess.CompletedProcess[str]:
        server = self._running()
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps({"main": main_class, "args": arguments, "stdin": stdin}) + "\n")
        server.stdin.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(server.stdout, selectors.EVENT_READ)
            if not selector.select(timeout_s):
                self.close()
                raise TimeoutError(f"{main_class} {arguments} did not end within {timeout_s} s")
        line = server.stdout.readline()
        assert line, f"{main_class} {arguments} ended the JVM"
        answer = json.loads(line)
        command = [main_class, *arguments]
        return subprocess.CompletedProcess(command, answer["code"], answer["out"], answer["err"])

    def close(self) -> None:
        if self._server is not None:
            self._server.kill()
            self._server.communicate()
            self._server = None

    def _running(self) -> subprocess.Popen[str]:
        if self._server is None or self._server.poll() is not None:
            self._server = subprocess.Popen(
                java_command(str(SERVER), options=TOOL_OPTIONS),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        return self._server


def behaviours_of(program: Path) -> list[str]:
    """Names of the checks that a Java program holds: its public methods with an underscore in their names."""
    return re.findall(r"public void (\w+_\w+)\(\)", program.read_text())


def run_behaviours(program: Path, bootstrap: str) -> dict[str, str]:
    """Runs all checks of a program in one JVM: what became of each, "ok" or the error."""
    behaviours = behaviours_of(program)
    command = java_command(str(program), bootstrap, *behaviours, options=TOOL_OPTIONS)
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    outcomes = dict(line.split("\t", 1) for line in done.stdout.splitlines() if "\t" in line)
    assert list(outcomes) == behaviours, done.stderr
    sys.stderr.write(done.stderr)  # where an error came from: pytest shows it with the test that failed
    return outcomes
