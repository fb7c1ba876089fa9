"""docs/messaging.md: its examples run as they stand there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from oncestream import Broker
from tests.messaging.kit import read_all, values

PAGE = Path(__file__).parents[2] / "docs" / "messaging.md"


def test_the_examples_of_the_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    examples = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(examples) == 8
    names: dict[str, Any] = {"__name__": "page"}
    with Broker(tmp_path) as broker:
        monkeypatch.setenv("ONCESTREAM_BOOTSTRAP", broker.bootstrap_servers)
        for example in examples:
            exec(compile(example, str(PAGE), "exec"), names)
        assert sorted(values(read_all(broker.bootstrap_servers, "apps.pump.copy", 3))) == [
            "bytes",
            "plain text",
            '{"pump": 7, "celsius": 81}',
        ]
        assert len(read_all(broker.bootstrap_servers, "apps.pump.lines", 6)) == 6
    assert "has it at offset" in capsys.readouterr().out
    assert len(names["good"]) == 1
    assert len(names["bad"]) == 2
    assert names["found"] is True
    assert names["done"] == 2
    assert set(names["stored"].values()) == {None}
