"""Features in Kafka's sense: levels that clients read from ApiVersions and act on."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from oncestream.wire.error_codes import ErrorCode, KafkaError

TRANSACTION_VERSION: Final = "transaction.version"


class Levels(NamedTuple):
    """What this broker can do; without a choice the highest level holds."""

    low: int
    high: int


# As Apache Kafka 4.3 has them, less what this broker does not do.
SUPPORTED: Final[Mapping[str, Levels]] = {
    "group.version": Levels(0, 1),
    "metadata.version": Levels(7, 30),
    TRANSACTION_VERSION: Levels(0, 2),
}


class UpgradeType(IntEnum):
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def levels_in_force(chosen: Mapping[str, int]) -> dict[str, int]:
    return {name: chosen.get(name, levels.high) for name, levels in SUPPORTED.items()}


def check_change(name: str, level: int, kind: int, current: int) -> None:
    """Refuses what Kafka refuses, in its words; and levels of features that stand still here."""
    reason = None
    if kind not in tuple(UpgradeType):
        reason = "The controller does not support the given upgrade type."
    elif level < 0:
        reason = "A feature version cannot be less than 0."
    elif name not in SUPPORTED:
        reason = "Local controller does not support this feature."
    elif not SUPPORTED[name].low <= level <= SUPPORTED[name].high:
        reason = f"Local controller only supports versions {SUPPORTED[name].low}-{SUPPORTED[name].high}"
    elif level < current and kind == UpgradeType.UPGRADE:
        reason = (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade."
        )
    elif level > current and kind != UpgradeType.UPGRADE:
        reason = "Can't downgrade to a newer version."
    elif level != current and name != TRANSACTION_VERSION:
        reason = "The embedded broker has this level only."
    if reason is not None:
        message = f"Invalid update version {level} for feature {name}. {reason}"
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, message)
