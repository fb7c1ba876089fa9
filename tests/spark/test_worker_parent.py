"""What Python workers tell of their end."""

from __future__ import annotations

import pytest

from oncestream.spark.worker_parent import print_error


@pytest.mark.parametrize("error", [BrokenPipeError("broken pipe"), ConnectionResetError("reset")])
def test_that_the_jvm_ended_first_is_not_told(error: OSError, capfd: pytest.CaptureFixture[str]) -> None:
    try:
        raise error
    except OSError:
        print_error()
    assert capfd.readouterr() == ("", "")


def test_any_other_error_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    try:
        raise ValueError("no good")
    except ValueError:
        print_error()
    assert "ValueError: no good" in capfd.readouterr().err
