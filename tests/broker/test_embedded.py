"""`Broker` for Python programs: in a thread, as a process, killed, started again, refused."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oncestream import Broker
from oncestream.errors import (
    BadSetting,
    BrokerFailed,
    DataFolderInUse,
    ListenFailed,
    OncestreamError,
    OpenListener,
)
from oncestream.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from oncestream.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.broker.kit import Wire, batch, create_topic, fetch, fetch_request, metadata, produce, values_of

IN_THREAD_AND_PROCESS = pytest.mark.parametrize("process", [False, True], ids=["thread", "process"])


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    """Whatever a test does, no thread of a broker outlives it."""
    before = set(threading.enumerate())
    yield
    left = [
        thread for thread in threading.enumerate() if "oncestream" in thread.name and thread not in before
    ]
    assert left == []


@IN_THREAD_AND_PROCESS
def test_a_stopped_broker_can_be_started_again_with_its_data(tmp_path: Path, process: bool) -> None:
    broker = Broker(tmp_path, process=process)
    for number in range(3):
        with broker as started, Wire(broker.bootstrap_servers) as wire:
            assert started is broker
            assert (broker.pid != os.getpid()) == process
            if number == 0:
                create_topic(wire, "events")
            assert produce(wire, "events", batch(b"%d" % number)).base_offset == number
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    with broker, Wire(broker.bootstrap_servers) as wire:
        assert values_of(fetch(wire, fetch_request("events")).records) == [b"0", b"1", b"2"]


def test_a_killed_broker_can_be_started_again_with_its_data(tmp_path: Path) -> None:
    with Broker(tmp_path, process=True) as broker:
        with Wire(broker.bootstrap_servers) as wire:
            create_topic(wire, "events")
            produce(wire, "events", batch(b"kept"))
        broker.kill()
        with pytest.raises(BrokerFailed):
            broker.bootstrap_servers  # noqa: B018
        broker.start()
        with Wire(broker.bootstrap_servers) as wire:
            assert values_of(fetch(wire, fetch_request("events")).records) == [b"kept"]


def test_a_broker_in_a_thread_cannot_be_killed(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker, pytest.raises(BrokerFailed, match="process=True"):
        broker.kill()


def test_a_process_that_died_by_itself_does_not_disturb_the_end(tmp_path: Path) -> None:
    with Broker(tmp_path, process=True) as broker:
        os.kill(broker.pid, signal.SIGKILL)


@IN_THREAD_AND_PROCESS
def test_an_error_inside_stops_the_broker(tmp_path: Path, process: bool) -> None:
    with pytest.raises(ZeroDivisionError), Broker(tmp_path, process=process):
        raise ZeroDivisionError
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_a_broker_is_started_once_and_has_no_address_before(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    with pytest.raises(BrokerFailed, match="not running"):
        broker.bootstrap_servers  # noqa: B018
    with broker, pytest.raises(BrokerFailed, match="running already"):
        broker.start()
    broker.stop()


@IN_THREAD_AND_PROCESS
def test_two_brokers_on_one_folder_are_refused(
    tmp_path: Path, process: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    with Broker(tmp_path, process=process) as first, Wire(first.bootstrap_servers) as wire:
        with pytest.raises(DataFolderInUse, match=str(first.pid)):
            Broker(tmp_path).start()
        with pytest.raises(BrokerFailed):
            Broker(tmp_path, process=True).start()
        assert f"in use by another broker (process {first.pid})" in capfd.readouterr().err
        create_topic(wire, "events")


@IN_THREAD_AND_PROCESS
def test_a_start_that_fails_leaves_nothing_behind(tmp_path: Path, process: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        broker = Broker(tmp_path, process=process, listen=address)
        with pytest.raises(BrokerFailed if process else ListenFailed):
            broker.start()
        with pytest.raises(BrokerFailed, match="not running"):
            broker.bootstrap_servers  # noqa: B018
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    with broker, Wire(address) as wire:
        create_topic(wire, "events")


def test_an_address_to_advertise_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="advertise"):
        Broker(tmp_path, advertise="nowhere").start()


def test_the_address_to_advertise_is_what_clients_are_told(tmp_path: Path) -> None:
    with Broker(tmp_path, advertise="example.test:1234", listen="127.0.0.1:0") as broker:
        assert broker.bootstrap_servers == "example.test:1234"


def test_a_start_that_fails_on_its_data_leaves_the_folder_unlocked(tmp_path: Path) -> None:
    (tmp_path / "__cluster_metadata-0").write_text("this should be a folder")
    with pytest.raises(OncestreamError, match="__cluster_metadata-0"):
        Broker(tmp_path).start()
    (tmp_path / "__cluster_metadata-0").unlink()
    with Broker(tmp_path):
        pass


@pytest.mark.parametrize(
    ("name", "value"),
    [("no_such_setting", 1), ("node_id", "one"), ("durability", "maybe"), ("connections_max", 0)],
)
def test_a_wrong_setting_is_refused_before_anything_is_done(tmp_path: Path, name: str, value: Any) -> None:
    with pytest.raises(BadSetting, match=name):
        Broker(tmp_path / "data", **{name: value})
    assert not (tmp_path / "data").exists()


def test_a_wrong_topic_default_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="topic_defaults"):
        Broker(tmp_path / "data", topic_defaults={"retention.ms": "soon"}).start()
    assert not (tmp_path / "data").exists()


@IN_THREAD_AND_PROCESS
def test_settings_mean_the_same_in_a_thread_and_in_a_process(
    tmp_path: Path, process: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCESTREAM_BROKER_NODE_ID", "99")  # for the command line, not for Broker
    defaults = {"cleanup.policy": "compact,delete", "retention.ms": "1234"}
    with (
        Broker(tmp_path, process=process, topic_defaults=defaults, durability="os") as broker,
        Wire(broker.bootstrap_servers) as wire,
    ):
        create_topic(wire, "events")
        resource = DescribeConfigsResource(resource_type=2, resource_name="events", configuration_keys=None)
        answer = wire.ask(DescribeConfigsRequest(resources=[resource]), 4, DescribeConfigsResponse)
        configs = {entry.name: entry.value for entry in answer.results[0].configs}
        assert {name: configs[name] for name in defaults} == defaults
        assert wire.ask(MetadataRequest(topics=[]), 12, MetadataResponse).brokers[0].node_id == 1


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0"])
def test_a_listener_beyond_loopback_is_refused_unless_insecure(tmp_path: Path, listen: str) -> None:
    with pytest.raises(OpenListener), Broker(tmp_path / "data", listen=listen):
        pass
    with Broker(tmp_path / "data", listen="0.0.0.0:0", insecure=True) as broker:
        port = broker.bootstrap_servers.rpartition(":")[2]
        with Wire(f"127.0.0.1:{port}") as wire:
            assert metadata(wire, []) == []


def told_by(address: str) -> str:
    """The address of the broker that a client is told which has come by this one."""
    with Wire(address) as wire:
        broker = wire.ask(MetadataRequest(topics=[]), 12, MetadataResponse).brokers[0]
    return f"{broker.host}:{broker.port}"


def test_clients_are_told_the_name_that_was_given_not_what_it_stands_for(tmp_path: Path) -> None:
    with Broker(tmp_path / "data", listen="localhost:0") as broker:
        assert broker.bootstrap_servers.startswith("localhost:")
        assert told_by(broker.bootstrap_servers) == broker.bootstrap_servers


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0"])
def test_where_any_address_is_listened_on_clients_are_told_the_one_they_came_by(
    tmp_path: Path, listen: str
) -> None:
    with Broker(tmp_path / "data", listen=listen, insecure=True) as broker:
        port = broker.bootstrap_servers.rpartition(":")[2]
        for host in ("127.0.0.1", "127.0.0.2"):
            assert told_by(f"{host}:{port}") == f"{host}:{port}"


def test_an_address_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSetting), Broker(tmp_path / "data", listen="localhost"):
        pass
