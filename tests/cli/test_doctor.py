"""`oncestream doctor`: each line says what to do."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from tests.cli.in_process import Cli

CHECKS = [
    "python",
    "packages",
    "spark packages",
    "java",
    "disk space",
    "disk sync",
    "open files",
    "port",
    "clock",
]


def by_name(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row["check"]: row for row in rows}


def test_every_check_is_told(cli: Cli, tmp_path: Path) -> None:
    rows = cli.json("doctor", "--data", str(tmp_path), "--listen", "127.0.0.1:0")
    assert [row["check"] for row in rows] == [*CHECKS, "broker", "requests", "transactions"]
    assert all(set(row) == {"state", "check", "detail", "what_to_do"} for row in rows)
    assert all(row["what_to_do"] for row in rows if row["state"] != "ok")
    told = by_name(rows)
    assert [told[name]["state"] for name in ("broker", "requests", "transactions", "port")] == ["ok"] * 4
    assert told["transactions"]["detail"] == "transaction.version 2"
    assert cli.ok("doctor", "--data", str(tmp_path)).splitlines()[0].split() == [
        "state",
        "check",
        "detail",
        "what_to_do",
    ]


def test_a_broker_that_was_named_and_is_not_there_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "client").write_text("bootstrap.servers=127.0.0.1:1\ndefault.api.timeout.ms=300\n")
    ended = Cli(tmp_path)("doctor", "--command-config", str(tmp_path / "client"), "--data", str(tmp_path))
    assert ended.exit_code == 1
    assert "no answer from 127.0.0.1:1" in ended.out
    assert "name the address where one runs" in ended.out


def test_a_port_in_use_and_a_folder_that_cannot_be_written_are_told(
    embedded_cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        told = by_name(
            embedded_cli.json("doctor", "--data", str(tmp_path / "not" / "yet"), "--listen", listen)
        )
    assert told["port"]["state"] == "warn"
    assert str(tmp_path) in told["disk sync"]["detail"]
    ended = embedded_cli("doctor", "--data", "/proc/none")
    assert ended.exit_code == 1
    assert "cannot write to /proc" in ended.out


def test_bad_input_is_refused(nowhere: Cli) -> None:
    assert "it is not HOST:PORT" in nowhere.refused(2, "doctor", "--listen", "a:b:c")
