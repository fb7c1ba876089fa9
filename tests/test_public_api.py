"""The names that users import: a change here is a change of the public interface."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import oncestream


def test_the_public_names_are_these() -> None:
    assert oncestream.__all__ == [
        "AsyncConsumer",
        "AsyncProducer",
        "Broker",
        "Consumer",
        "ConsumerOptions",
        "OncestreamError",
        "PipelineOptions",
        "Producer",
        "ProducerOptions",
        "Record",
        "Stream",
        "__version__",
        "each",
        "pipeline",
        "session",
        "write",
    ]
    assert dir(oncestream) == oncestream.__all__


def test_every_public_name_can_be_imported() -> None:
    for name in oncestream.__all__:
        assert getattr(oncestream, name) is not None


def test_a_name_that_is_not_public_is_an_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Brokr'"):
        oncestream.Brokr  # noqa: B018


def test_the_version_is_that_of_the_distribution() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert oncestream.__version__ == project["version"]


def test_importing_the_package_imports_nothing_else_of_it() -> None:
    program = (
        "import sys, oncestream; print([name for name in sys.modules if name.startswith('oncestream.')])"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"


def test_a_running_broker_needs_neither_numpy_nor_pyarrow_nor_pydantic() -> None:
    program = (
        "import sys, tempfile\nfrom oncestream import Broker\n"
        "with tempfile.TemporaryDirectory() as folder, Broker(folder): pass\n"
        "print([name for name in ('numpy', 'pyarrow', 'pandas', 'pydantic') if name in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"
