"""Groups and transactions of Apache Kafka's own Java client: every behaviour is a method of its program."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.java_tools import behaviours_of, run_behaviours

pytestmark = pytest.mark.java

PROGRAM = Path(__file__).parent / "java" / "ExactlyOnceCheck.java"
BEHAVIOURS = behaviours_of(PROGRAM)


@pytest.fixture(scope="module")
def outcomes(java: None, bootstrap: str) -> dict[str, str]:
    return run_behaviours(PROGRAM, bootstrap)


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_the_java_client(outcomes: dict[str, str], behaviour: str) -> None:
    assert outcomes[behaviour] == "ok"
