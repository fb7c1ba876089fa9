"""The pytest plugin in a user's project: its fixtures, what it costs, and the examples of docs/testing.md."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "testing.md"
PLUGIN = "oncestream.testing.plugin"
HEAVY = ("oncestream.broker", "oncestream.client", "confluent_kafka", "pyspark", "asyncio", "uvloop")


def run_pytest(folder: Path, *tests: str, **environment: str) -> str:
    """Runs these files in a project of their own with no plugin but ours; what pytest prints."""
    for number, text in enumerate(tests):
        (folder / f"test_{number}.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", PLUGIN, "-p", "no:cacheprovider", "-rs", "."],
        cwd=folder,
        env=os.environ
        | {"PYTHONPATH": str(ROOT / "src"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
        | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=280,
    )
    return done.stdout


def examples(*, needing: str | None) -> list[str]:
    """Those of the page that need one of the dear fixtures, or none of them."""
    found = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    dear = {fixture: f"{fixture}[,)]" for fixture in ("spark", "kafka_cluster")}
    if needing is not None:
        return [example for example in found if re.search(dear[needing], example)]
    return [example for example in found if not any(re.search(each, example) for each in dear.values())]


def check_examples(folder: Path, needing: str | None) -> None:
    chosen = examples(needing=needing)
    count = sum(example.count("\ndef test_") for example in chosen)
    assert count > 0
    said = run_pytest(folder, *chosen)
    assert f"{count} passed" in said, said
    assert "failed" not in said, said


@pytest.mark.slow
def test_the_examples_of_the_page_pass(tmp_path: Path) -> None:
    check_examples(tmp_path, needing=None)


@pytest.mark.java
@pytest.mark.slow
def test_the_examples_with_apache_kafka_pass(tmp_path: Path, java: None) -> None:
    check_examples(tmp_path, needing="kafka_cluster")


@pytest.mark.slow
def test_the_examples_with_spark_pass(tmp_path: Path) -> None:
    check_examples(tmp_path, needing="spark")


def test_a_run_that_uses_no_fixture_imports_nothing_heavy(tmp_path: Path) -> None:
    test = f"import sys\n\ndef test_it():\n    assert [name for name in {HEAVY!r} if name in sys.modules] == []\n"
    assert "1 passed" in run_pytest(tmp_path, test)


def test_without_java_apache_kafka_is_skipped_with_the_reason(tmp_path: Path) -> None:
    test = "def test_it(kafka_cluster):\n    assert False\n"
    empty = {"PATH": str(tmp_path), "JAVA_HOME": str(tmp_path), "ONCESTREAM_CACHE": str(tmp_path / "cache")}
    said = run_pytest(tmp_path, test, **empty)
    assert "1 skipped" in said, said
    assert "Apache Kafka cannot run here" in said


def test_a_fixture_of_the_project_wins(tmp_path: Path) -> None:
    fixture = "import pytest\n\n@pytest.fixture\ndef broker():\n    return 7\n\n"
    test = f"{fixture}def test_it(broker):\n    assert broker == 7\n"
    assert "1 passed" in run_pytest(tmp_path, test)


def test_what_the_proxy_could_not_understand_fails_the_test_that_caused_it(tmp_path: Path) -> None:
    test = (
        "import socket\n\ndef test_it(broker):\n"
        "    host, port = broker.bootstrap_servers.split(':')\n"
        "    with socket.create_connection((host, int(port))) as raw:\n"
        "        raw.sendall(bytes([0x16, 3, 1, 2]))\n"
        "        try:\n"
        "            assert raw.recv(1) == b''\n"
        "        except ConnectionResetError:\n"
        "            pass\n"
    )
    said = run_pytest(tmp_path, test)
    assert "1 passed, 1 error" in said, said
    assert "is it TLS?" in said


def test_pytest_finds_the_plugin_where_the_package_is_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"oncestream": PLUGIN}
    assert {"broker", "broker_process", "kafka_cluster", "spark"} <= set(vars(import_module(PLUGIN)))


def test_every_public_name_is_there() -> None:
    testing = import_module("oncestream.testing")
    assert dir(testing) == testing.__all__ == sorted(testing.__all__)
    assert {name for name in testing.__all__ if getattr(testing, name).__name__ != name} == set()
