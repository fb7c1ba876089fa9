"""Wrong settings on the command line: a clear error with the documented exit code, never a traceback."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from oncestream.cli.main import main

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Runs the command line in this process; its exit code and what it says on standard error."""

    def call(*arguments: str, **environment: str) -> tuple[int, str]:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["oncestream", *arguments])
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(SystemExit) as ended:
            main()
        told = capsys.readouterr()
        assert told.out == ""
        assert not (tmp_path / "oncestream-data").exists()
        code = ended.value.code
        assert isinstance(code, int)
        return code, told.err

    return call


@pytest.mark.parametrize(
    ("pair", "told"),
    [
        (
            "no_such_setting=1",
            "setting no_such_setting from the command line is wrong: there is no such setting",
        ),
        ("node_ids=1", "did you mean node_id?"),
        ("node_id=one", "setting node_id from the command line is wrong: 'one' is not a whole number"),
        ("connections_max=0", "0 is not between 1 and 100000"),
        ("durability=maybe", "'maybe' is neither fsync nor os"),
        ("insecure=perhaps", "'perhaps' is neither true nor false"),
        ("topic_defaults=retention.ms", "is not name=value,name=value"),
        ("data=", "'' is not a path"),
        ("listen", "setting listen from --set is wrong: it is not name=value"),
    ],
)
def test_a_wrong_setting_is_refused_with_exit_code_2(run: Run, pair: str, told: str) -> None:
    code, err = run("broker", "start", "--set", pair)
    assert code == 2
    assert err.startswith("error: ")
    assert told in err
    assert "what to do: see docs/settings.md" in err


@pytest.mark.parametrize("listen", ["nowhere", "127.0.0.1", "127.0.0.1:http", "127.0.0.1:70000", ":9092"])
def test_an_address_that_is_none_is_refused_with_exit_code_2(run: Run, listen: str, tmp_path: Path) -> None:
    code, err = run("broker", "start", "--data", str(tmp_path / "elsewhere"), "--listen", listen)
    assert code == 2
    assert f"{listen!r} is not HOST:PORT" in err


def test_a_wrong_variable_of_the_environment_is_named(run: Run) -> None:
    code, err = run("broker", "start", ONCESTREAM_BROKER_NODE_ID="x")
    assert code == 2
    assert "environment variable ONCESTREAM_BROKER_NODE_ID" in err
    code, err = run("broker", "start", ONCESTREAM_BROKER_NODE_ID="1", ONCESTREAM_BROKER_NO_SUCH="x")
    assert code == 2
    assert "environment variable ONCESTREAM_BROKER_NO_SUCH" in err


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"node_id = ", "not TOML"),
        (b"\xff\xfe", "not TOML"),
        (b"nodes = 3", "there is no such setting"),
        (b"node_id = 1.5", "1.5 is not a whole number"),
        (b"[data]\nfolder = 'x'", "is not a path"),
    ],
)
def test_a_wrong_file_is_refused_and_named(run: Run, tmp_path: Path, content: bytes, told: str) -> None:
    file = tmp_path / "broker.toml"
    file.write_bytes(content)
    code, err = run("broker", "start", "--config", str(file))
    assert code == 2
    assert told in err
    assert str(file) in err


def test_a_file_that_is_not_there_is_refused(run: Run, tmp_path: Path) -> None:
    code, err = run("broker", "start", "--config", str(tmp_path / "none.toml"))
    assert code == 2
    assert "cannot read" in err


def test_wrong_topic_defaults_are_refused(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    code, err = run("broker", "start", "--data", str(folder), "--set", "topic_defaults=retention.ms=soon")
    assert code == 2
    assert "topic_defaults" in err
    assert not folder.exists()


def test_an_unknown_option_or_command_is_refused_with_exit_code_2(run: Run) -> None:
    for arguments in (("broker", "start", "--no-such-option"), ("broker", "fly"), ("fly",)):
        code, err = run(*arguments)
        assert code == 2
        assert "Traceback" not in err
