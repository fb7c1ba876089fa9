"""The wheel in which the hot path is compiled does what the sources do."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.conftest import CANNOT_RUN_HERE
from tools.wheel import ROOT, CannotCompile, compiled

# What reaches the compiled modules; all other tests are the same with and without them.
SUITES = (
    "tests/records/test_batch.py",
    "tests/records/test_framing.py",
    "tests/wire/test_produce.py",
    "tests/storage",
    "tests/broker/test_connection_turns.py",
    "tests/broker/test_durability.py",
    "tests/broker/test_group_commit.py",
    "tests/broker/test_handlers_fetch.py",
    "tests/broker/test_handlers_produce.py",
    "tests/broker/test_malformed_batches.py",
)

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("wheel")]  # it is made once


@pytest.fixture(scope="module")
def folder() -> Path:
    try:
        return compiled()
    except CannotCompile as missing:
        pytest.skip(f"{CANNOT_RUN_HERE}{missing}")


def run(folder: Path, *arguments: str) -> str:
    of_others = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=of_others | {"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def modules_to_compile() -> list[str]:
    document = tomllib.loads((ROOT / "pyproject.toml").read_text())
    paths = document["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["mypyc"]["include"]
    return [path.removeprefix("src/").removesuffix(".py").replace("/", ".") for path in paths]


def test_what_is_to_be_compiled_is(folder: Path) -> None:
    modules = modules_to_compile()
    code = f"from importlib import import_module as load\nfor name in {modules}: print(load(name).__spec__.origin)"
    files = [Path(line) for line in run(folder, "-c", code).splitlines()]
    assert [file for file in files if file.suffix != ".so" or folder not in file.parents] == []
    assert len(files) == len(modules) > 5


def test_the_compiled_broker_passes_the_tests_of_its_sources(folder: Path) -> None:
    chosen = ("-m", "not slow and not java", "-p", "no:cacheprovider", *SUITES)
    told = run(folder, "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup", *chosen)
    assert int(told.splitlines()[-1].split(" passed")[0]) > 300
