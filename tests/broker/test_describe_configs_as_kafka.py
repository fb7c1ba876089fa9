"""DescribeConfigs beside that of Apache Kafka 4.3: what differs is listed here, with its reason."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

import pytest

from oncestream.wire.messages.describe_configs import DescribeConfigsResourceResult
from tests.broker.config_kit import BROKER, CLUSTER, LOGGER, NODE, TOPIC, described
from tests.broker.conftest import Connect
from tests.broker.kit import Wire, create_topic
from tests.conftest import Target

STATIC, DEFAULT = 4, 5

# Patterns of names, and why they differ.
LEFT_OUT: Final = {
    r"share\..*|group\.(share|streams)\..*|group\.consumer\..*assignment.*": "no share and streams groups;"
    " members are assigned at once",
    r"group\.coordinator\.(append|background|cached).*|group\.consumer\.migration.*": "no such buffers, no choice",
    r"remote\..*": "no tiered storage",
    r"(controller|metadata|broker\.heartbeat|broker\.session|initial\.broker|inter)\..*": "one node, no quorum",
    r"(replica|replication|leader|auto\.leader|num\.replica|alter\.log\.dirs|log\.dir\.failure)\..*": "no replicas",
    r"sasl\.(oauthbearer|kerberos|login|client|mechanism|server\.max).*": "no Kerberos, no OAuth, no log-in elsewhere",
    r"security\.inter.*|principal\.builder.*|delegation\.token\..*\.ms": "no other brokers, no plug-ins, no tokens",
    r"ssl\.(allow|endpoint|keymanager|secure|trustmanager).*": "of Java's TLS",
    r"background\.threads|queued\.max\.requests|log\.cleaner\.(dedupe|io).*": "no such threads, queues and buffers",
    r".*purgatory.*|.*load\.buffer.*|add\.partitions.*|transaction\.(abort|remove)\..*|offsets\.commit\.timeout.*"
    r"|log\.flush\..*checkpoint.*|request\.timeout.*|socket\.connection.*": "it works in another way",
    r"metrics\..*|kafka\.metrics\.polling.*|telemetry\..*": "no JMX, no telemetry",
    r"log\.initial\.task\.delay\.ms": "hidden; the fixture sets it",
}
FIXED_HERE: Final = {
    r"(ssl|sasl)\..*": "its files are read again when they change; the rest is fixed at the start",
    r"listener.*|cordoned\.log\.dirs|config\.providers|metric\.reporters": "nothing of it can change",
    r".*threads(\.per\.data\.dir)?": "there are no pools of threads",
    r"max\.connections\.per\.ip.*|max\.connection\.creation.*": "there is no such limit",
    r"log\.cleaner\.backoff\.ms": "it is the setting housekeeping_ms",
    r"follower\..*|transaction\.partition\.verification\.enable": "it is always so",
}
OTHER_DEFAULT: Final = {
    r".*threads(\.per\.data\.dir)?": "there is one of each",
    r".*replication\.factor|.*min\.isr": "one node has one replica",
    r"ssl\.(keystore|truststore)\.type": "the files are PEM",
    r"sasl\.enabled\.mechanisms": "none but those of the settings",
    r"metric\.reporters": "no JMX",
    r"log\.dir|listeners|broker\.id": "the folder, address and id of this broker",
    r"group\.initial\..*|(offsets|transaction\.state)\..*num\.partitions": "sized for one machine",
    r"group\.coordinator\.rebalance\.protocols": "no streams groups",
    r"max\.connections|group(\.consumer)?\.max\.size|queued\.max\.request\.bytes": "bounded here",
    r"log\.retention\.check.*|log\.cleaner\.backoff.*|offsets\.retention\.check.*": "one setting, housekeeping_ms",
    r"max\.incremental\.fetch\.session.*": "no fetch sessions",
    r"socket\.(listen|receive|send).*": "a longer queue; buffers as the system sizes them",
}


class Told(NamedTuple):
    """An entry, without what each broker was started with."""

    value: str | None
    read_only: bool
    sensitive: bool
    type: int
    source: int
    synonyms: list[tuple[str, str | None, int]]


def told(entry: DescribeConfigsResourceResult) -> Told:
    synonyms = [(each.name, each.value, each.source) for each in entry.synonyms if each.source != STATIC]
    value, source = entry.value, entry.config_source
    if source == STATIC:
        value, source = synonyms[0][1:] if synonyms else (None, DEFAULT)
    return Told(value, entry.read_only, entry.is_sensitive, entry.config_type, source, synonyms)


def is_in(table: Mapping[str, str], name: str) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in table)


def entries(wire: Wire, kind: int, name: str, version: int) -> dict[str, Told]:
    result = described(wire, kind, name, version=version)
    assert (result.error_code, result.error_message) == (0, "")
    return {entry.name: told(entry) for entry in result.configs}


def excused(name: str, ours: Told, theirs: Told) -> Told:
    """Ours, with Kafka's answer in the place of what the lists allow to differ."""
    if ours.read_only and is_in(FIXED_HERE, name):
        ours = ours._replace(read_only=theirs.read_only)
    if is_in(OTHER_DEFAULT, name) and len(ours.synonyms) == len(theirs.synonyms):
        ours = ours._replace(
            value=theirs.value,
            synonyms=[
                (here[0], there[1], here[2])
                for here, there in zip(ours.synonyms, theirs.synonyms, strict=True)
            ],
        )
    return ours


@pytest.mark.java
@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_configurations_are_described_as_on_apache_kafka(
    embedded: Target, apache_kafka: Target, connect: Connect, version: int
) -> None:
    here, there = connect(embedded.bootstrap_servers), connect(apache_kafka.bootstrap_servers)
    for configs in ({}, {"retention.ms": "1000", "cleanup.policy": "compact"}):
        ours, theirs = (
            entries(wire, TOPIC, create_topic(wire, configs=configs).name or "", version)
            for wire in (here, there)
        )
        assert ours == theirs
    assert entries(here, BROKER, CLUSTER, version) == entries(there, BROKER, CLUSTER, version)
    assert (
        entries(here, LOGGER, NODE, version)["root"][1:] == entries(there, LOGGER, NODE, version)["root"][1:]
    )
    ours, theirs = (entries(wire, BROKER, NODE, version) for wire in (here, there))
    assert ours.keys() == {name for name in theirs if not is_in(LEFT_OUT, name) or name in ours}
    different = {
        name: (entry, theirs[name])
        for name, entry in ours.items()
        if excused(name, entry, theirs[name]) != theirs[name]
    }
    assert different == {}
