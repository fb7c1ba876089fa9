"""`oncestream broker start`: what it prints, how it stops, how it fails."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import typer

from oncestream.cli import broker
from oncestream.cli.main import FLAGS, VALUES, read_options
from oncestream.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.broker.kit import Wire, batch, create_topic, fetch, fetch_request, produce, values_of
from tests.cli.kit import READY, Command, Ended, run

CLEAN_MARKER = ".kafka_cleanshutdown"


@pytest.fixture
def commands() -> Iterator[ExitStack]:
    """Ends what a failing test leaves running."""
    with ExitStack() as stack:
        yield stack


def start(commands: ExitStack, *arguments: str, **environment: str) -> tuple[Command, str]:
    command = Command("broker", "start", "--listen", "127.0.0.1:0", *arguments, environment=environment)
    commands.enter_context(closing(command))
    return command, command.wait_ready()


def refused(ended: Ended, exit_code: int, *told: str) -> None:
    """An error for people: its cause, what to do, the exit code, and no traceback."""
    assert ended.exit_code == exit_code, ended
    assert ended.out == ""
    lines = ended.err.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["error", "what to do"], ended.err
    for text in told:
        assert text in ended.err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_prints_one_line_when_ready_and_stops_cleanly_on_a_signal(
    number: signal.Signals, tmp_path: Path, commands: ExitStack
) -> None:
    command, address = start(commands, "--data", str(tmp_path / "data"))
    with Wire(address) as wire:
        create_topic(wire, "events")
        produce(wire, "events", batch(b"kept"))
    command.signal(number)
    ended = command.end()
    assert ended.exit_code == 0, ended
    assert ended.out == f"{READY}{address}\n"
    assert "Traceback" not in ended.err
    assert (tmp_path / "data" / CLEAN_MARKER).exists()
    command, address = start(commands, "--data", str(tmp_path / "data"))
    with Wire(address) as wire:
        assert values_of(fetch(wire, fetch_request("events")).records) == [b"kept"]


def test_it_stops_although_clients_are_connected_and_wait(tmp_path: Path, commands: ExitStack) -> None:
    command, address = start(commands, "--data", str(tmp_path / "data"))
    with Wire(address) as wire:
        create_topic(wire, "events")
        wire.send(fetch_request("events", wait_ms=60_000), 12)
        command.signal(signal.SIGTERM)
        assert wire.wait_closed() == b""
    assert command.end().exit_code == 0


def test_a_data_folder_in_use_is_refused(tmp_path: Path, commands: ExitStack) -> None:
    folder = str(tmp_path / "data")
    first, address = start(commands, "--data", folder)
    second = run("broker", "start", "--data", folder, "--listen", "127.0.0.1:0")
    refused(second, 3, folder, f"in use by another broker (process {first.pid})", "--data")
    with Wire(address) as wire:
        create_topic(wire, "still-served")


def test_a_folder_that_cannot_be_made_or_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    for folder in (str(tmp_path / "file" / "data"), "/proc/oncestream", "/proc"):
        ended = run("broker", "start", "--data", folder, "--listen", "127.0.0.1:0")
        refused(ended, 3, f"data folder {folder} cannot be used", "--data")


def test_a_port_in_use_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        refused(run("broker", "start", "--data", str(tmp_path), "--listen", address), 3, address, "--listen")


def test_a_listener_beyond_loopback_is_refused_unless_insecure(tmp_path: Path, commands: ExitStack) -> None:
    ended = run("broker", "start", "--data", str(tmp_path), "--listen", "0.0.0.0:0")
    refused(ended, 3, "0.0.0.0:0", "--insecure")
    command = Command("broker", "start", "--data", str(tmp_path), "--listen", "0.0.0.0:0", "--insecure")
    commands.enter_context(closing(command))
    assert command.wait_ready().startswith("0.0.0.0:")


def test_file_environment_and_flag_win_in_this_order(tmp_path: Path, commands: ExitStack) -> None:
    config = tmp_path / "broker.toml"
    config.write_text(f'node_id = 5\ndata = "{tmp_path}/from-file"\ndefault_partitions = 4\n')
    arguments, variable = ["--config", str(config)], {"ONCESTREAM_BROKER_NODE_ID": "6"}
    assert node_id(start(commands, *arguments)[1]) == 5
    assert (tmp_path / "from-file").is_dir()
    arguments += ["--data", str(tmp_path / "from-flag")]
    assert node_id(start(commands, *arguments, **variable)[1]) == 6
    assert (tmp_path / "from-flag").is_dir()
    arguments[-1] = str(tmp_path / "another")
    assert node_id(start(commands, *arguments, "--set", "node_id=7", **variable)[1]) == 7


def node_id(address: str) -> int:
    with Wire(address) as wire:
        return wire.ask(MetadataRequest(topics=[]), 12, MetadataResponse).brokers[0].node_id


def test_help_names_every_option() -> None:
    ended = run("broker", "start", "--help", environment={"COLUMNS": "200"})
    assert ended.exit_code == 0
    for option in ("--data", "--listen", "--config", "--set", "--insecure", "--verbose"):
        assert option in ended.out


def test_its_options_are_read_without_typer_and_are_the_same() -> None:
    commands = typer.main.get_command(broker.app).commands  # type: ignore[attr-defined]
    known = {name for option in commands["start"].params for name in option.opts}
    assert known - {"--help", "-h"} == {*VALUES, *FLAGS}


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ([], {}),
        (["--data", "d", "--listen=h:1"], {"--data": ["d"], "--listen": ["h:1"]}),
        (["--set", "a=1", "--set=b=2", "-v"], {"--set": ["a=1", "b=2"], "-v": []}),
        (["--insecure", "--config", "c"], {"--insecure": [], "--config": ["c"]}),
        (["--help"], None),
        (["--data"], None),
        (["--dat", "d"], None),
        (["--insecure=yes"], None),
        (["extra"], None),
    ],
)
def test_what_is_not_plainly_right_is_left_to_typer(
    arguments: list[str], found: dict[str, list[str]] | None
) -> None:
    assert read_options(arguments) == found
