"""The broker's loggers as a resource of configurations: their levels can be read and changed while it runs.

As on Apache Kafka a level lasts until the broker stops. `root` is the logger above all of ours.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from oncestream.broker.config_entries import ConfigEntry, ConfigSource
from oncestream.broker.topic_configs import ConfigType
from oncestream.wire.error_codes import ErrorCode, KafkaError

ROOT: Final = "root"
LOGGERS: Final[Mapping[str, logging.Logger]] = {
    ROOT: logging.getLogger("oncestream"),
    "oncestream.broker": logging.getLogger("oncestream.broker"),
    "oncestream.storage": logging.getLogger("oncestream.storage"),
}
# Kafka's names, from the most to the least that is logged.
_LEVELS: Final = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}


def levels() -> dict[str, str]:
    """The level that holds for each logger."""
    return {name: _name_of(logger.getEffectiveLevel()) for name, logger in LOGGERS.items()}


def entries() -> list[ConfigEntry]:
    doc = "a level of logging; it lasts until the broker stops"
    return [
        ConfigEntry(name, level, ConfigSource.LOGGER, False, ConfigType.UNKNOWN, [], doc)
        for name, level in levels().items()
    ]


def validate(changed: Mapping[str, str | None]) -> dict[str, str]:
    """The new levels; a logger that is missing takes the one of `root`."""
    checked = {}
    for name, level in changed.items():
        if name not in LOGGERS:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
        if level is None or level.upper() not in _LEVELS:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Cannot set the log level of {name} to {level} as it is not a supported log level."
                f" Valid log levels are {', '.join(sorted(_LEVELS))}",
            )
        checked[name] = level.upper()
    if ROOT not in checked:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed"
        )
    return checked


def apply(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    for name, logger in LOGGERS.items():
        if name not in after:
            logger.setLevel(logging.NOTSET)
        elif after[name] != before[name]:
            logger.setLevel(_LEVELS[after[name]])


def _name_of(level: int) -> str:
    return next((name for name, least in _LEVELS.items() if level <= least), "FATAL")
