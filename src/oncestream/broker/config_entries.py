"""One configuration as DescribeConfigs shows it, whatever it belongs to."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from oncestream.broker.topic_configs import ConfigType


class ConfigSource(IntEnum):
    """Where a value comes from, in the codes of DescribeConfigs."""

    NONE = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2  # a client gave it to this broker
    DYNAMIC_DEFAULT = 3  # a client gave it to the cluster
    STATIC_BROKER = 4
    DEFAULT = 5
    LOGGER = 6
    GROUP = 8


class Synonym(NamedTuple):
    name: str
    value: str
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One configuration that holds, and what it would be without the first one."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    type: ConfigType
    synonyms: list[Synonym]
    doc: str
