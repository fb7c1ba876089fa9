"""Names that would lead out of the data folder, sent to the broker past every check of ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oncestream import Broker
from oncestream.client.admin import NewTopic, create_topics
from oncestream.client.cluster import Cluster
from oncestream.client.settings import ClientSettings
from oncestream.errors import RequestRefused
from oncestream.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

TRICKS = [
    "..", ".", "../escape", "../../escape", "/escape", "a/../../escape", "a\\..\\escape", "a\0b", "a\nb", "%2e%2e%2f",
    "caf\u00e9", "\u202eevil", "a:b", "/apps/pump:x", "x" * 250, "", "a b", "*", "~", "$HOME", "__consumer_offsets",
]  # fmt: skip
GOOD_FOLDER = re.compile(r"[A-Za-z0-9._-]+-\d+")


@pytest.mark.parametrize("name", TRICKS)
def test_a_trick_in_a_name_is_refused_and_touches_no_file(tmp_path: Path, name: str) -> None:
    with Broker(tmp_path / "data") as broker:
        cluster = Cluster(ClientSettings.of(broker.bootstrap_servers))
        with pytest.raises(RequestRefused, match=r"INVALID_TOPIC_EXCEPTION|internal topic"):
            create_topics(cluster, [NewTopic(name, 1)])
        _ask_for(cluster, name)
        cluster.close()
    _check_files(tmp_path)


@given(name=st.text(alphabet="./\\:\0a_-\u00e9 ", max_size=12))
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_name_at_all_makes_a_file_elsewhere(roomy: tuple[Cluster, Path], name: str) -> None:
    cluster, folder = roomy
    _ask_for(cluster, name)
    _check_files(folder)


@pytest.fixture(scope="module")
def roomy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Path]]:
    folder = tmp_path_factory.mktemp("names")
    with Broker(folder / "data") as broker:
        cluster = Cluster(ClientSettings.of(broker.bootstrap_servers))
        yield cluster, folder
        cluster.close()


def _ask_for(cluster: Cluster, name: str) -> None:
    """As a client that makes topics by using them."""
    wanted = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)
    cluster.ask_any(wanted, MetadataResponse)


def _check_files(folder: Path) -> None:
    assert [each.name for each in folder.iterdir()] == ["data"]
    folders = [each for each in (folder / "data").rglob("*") if each.is_dir()]
    assert all(each.parent == folder / "data" and GOOD_FOLDER.fullmatch(each.name) for each in folders)
